//! Containers, init containers and ephemeral containers.

use super::super::formats::label_text;
use super::super::node::{Causes, Node, internal};
use super::volume::Volumes;
use super::{env, probe, security, trimmed_image, volume};
use crate::go_text::go_quote;
use std::collections::{BTreeSet, HashSet};

const POLICIES: [&str; 3] = ["Always", "Never", "OnFailure"];
/// Fields that ephemeral containers may have (`allowedEphemeralContainerFields`).
const NOT_EPHEMERAL: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// The parts of a pod to which its containers refer.
pub(super) struct Shared<'v> {
    pub(super) spec: Node<'v>,
    pub(super) volumes: Volumes<'v>,
    pub(super) claims: BTreeSet<&'v str>,
}

/// The errors of all containers of the spec.
pub(super) fn check(shared: &Shared<'_>, out: &mut Causes) {
    let spec = &shared.spec;
    let list = spec.at("containers");
    if list.is_empty() {
        out.required(&list, "");
    }
    let mut names = HashSet::new();
    for container in list.items() {
        common(&container, shared, out);
        if !names.insert(container.at("name").text()) {
            out.duplicate(&container.at("name"));
        }
        probe::check(&container, spec, out);
        restart_policy(&container, out);
        restart_rules(&container, out);
    }
    env::host_ports(list.items(), &list, out);
    init(shared, &mut names, out);
    ephemeral(shared, out);
}

/// `validateInitContainers`
fn init<'v>(shared: &Shared<'v>, names: &mut HashSet<&'v str>, out: &mut Causes) {
    let list = shared.spec.at("initContainers");
    for container in list.items() {
        common(&container, shared, out);
        let needs_policy = !container.at("restartPolicy").is_given() && !container.at("restartPolicyRules").is_empty();
        restart_policy(&container, out);
        if !needs_policy {
            restart_rules(&container, out);
        }
        let name = container.at("name");
        if names.contains(name.text()) {
            out.duplicate(&name);
        } else if !name.is_empty() {
            names.insert(name.text());
        }
        // kube-apiserver counts the container as the first of the list.
        env::host_ports(std::iter::once(container.clone()), &list, out);
        let is_sidecar = container.at("restartPolicy").text() == "Always";
        if is_sidecar {
            probe::check(&container, &shared.spec, out);
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if container.at(field).is_given() {
                let why = "may not be set for init containers without restartPolicy=Always";
                out.forbidden(&container.at(field), why);
            }
        }
        for policy in container.at("resizePolicy").items() {
            if policy.at("restartPolicy").text() == "RestartContainer" {
                let why = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                out.text(&policy.at("restartPolicy"), why);
            }
        }
    }
}

/// `validateEphemeralContainers`
fn ephemeral(shared: &Shared<'_>, out: &mut Causes) {
    let spec = &shared.spec;
    let others = spec.at("containers").items().chain(spec.at("initContainers").items());
    let others: HashSet<&str> = others.map(|container| container.at("name").text()).collect();
    let mut names = others.clone();
    for container in spec.at("ephemeralContainers").items() {
        common(&container, shared, out);
        trimmed_image(&container, out);
        if !names.insert(container.at("name").text()) {
            out.duplicate(&container.at("name"));
        }
        let target = container.at("targetContainerName");
        if !target.is_empty() && !others.contains(target.text()) {
            out.not_found(&target, "");
        }
        for field in NOT_EPHEMERAL.map(|field| container.at(field)) {
            let is_set = field.is_given() && field.value().as_object().is_none_or(|fields| !fields.is_empty());
            if is_set {
                out.forbidden(&field, "cannot be set for an Ephemeral Container");
            }
        }
        for mount in container.at("volumeMounts").items() {
            for field in ["subPath", "subPathExpr"].map(|field| mount.at(field)) {
                if !field.is_empty() {
                    out.forbidden(&field, "cannot be set for an Ephemeral Container");
                }
            }
        }
    }
}

/// `validateContainerCommon`
fn common(container: &Node<'_>, shared: &Shared<'_>, out: &mut Causes) {
    let name = container.at("name");
    if out.require(&name) {
        label_text(&name, out);
    }
    out.require(&container.at("image"));
    out.required_one_of(&container.at("terminationMessagePolicy"), &["File", "FallbackToLogsOnError"]);
    env::ports(&container.at("ports"), out);
    env::check(container, out);
    volume::mounts(container, &shared.volumes, out);
    out.required_one_of(&container.at("imagePullPolicy"), &["Always", "IfNotPresent", "Never"]);
    volume::container_resources(&container.at("resources"), &shared.claims, out);
    resize_policy(&container.at("resizePolicy"), shared.spec.at("restartPolicy").text(), out);
    security::container(&container.at("securityContext"), shared.spec.at("hostUsers").is_false(), out);
}

/// `validateResizePolicy`
fn resize_policy(policies: &Node<'_>, pod_restart: &str, out: &mut Causes) {
    let mut known = HashSet::new();
    for policy in policies.items() {
        let (resource, restart) = (policy.at("resourceName"), policy.at("restartPolicy"));
        if !known.insert(resource.text()) {
            out.duplicate_of(&policy, go_quote(resource.text()));
        }
        out.required_one_of(&resource.on(policies), &["cpu", "memory"]);
        out.required_one_of(&restart.on(policies), &["NotRequired", "RestartContainer"]);
        if pod_restart == "Never" && restart.text() != "NotRequired" {
            out.text(&restart.on(policies), "must be 'NotRequired' when pod `restartPolicy` is 'Never'");
        }
    }
}

/// `validateContainerRestartPolicy`
fn restart_policy(container: &Node<'_>, out: &mut Causes) {
    let (policy, rules) = (container.at("restartPolicy"), container.at("restartPolicyRules"));
    if policy.is_given() {
        out.one_of(&policy, &POLICIES);
    } else if !rules.is_empty() {
        out.required(&policy, "must specify restartPolicy when restart rules are used");
    }
}

fn restart_rules(container: &Node<'_>, out: &mut Causes) {
    let rules = container.at("restartPolicyRules");
    if rules.len() > 20 {
        out.too_many(&rules, 20);
    }
    for rule in rules.items() {
        out.one_of(&rule.at("action"), &["Restart", "RestartAllContainers"]);
        let codes = rule.at("exitCodes");
        if !codes.is_given() {
            out.required(&codes, "must be specified");
            continue;
        }
        out.one_of(&codes.at("operator"), &["In", "NotIn"]);
        if codes.at("values").len() > 255 {
            out.too_many(&codes.at("values"), 255);
        }
    }
}

/// The errors of fields that the spec of a Windows pod or of a Linux pod must not have (`validateWindows`, `validateLinux`).
pub(super) fn of_system(spec: &Node<'_>, out: &mut Causes) {
    let context = spec.at("securityContext");
    if spec.under(&["os", "name"]).text() == "linux" {
        let why = "windows options cannot be set for a linux pod";
        let forbid = |node: Node<'_>, out: &mut Causes| {
            if node.is_given() {
                out.forbidden(&node, why);
            }
        };
        forbid(context.at("windowsOptions"), out);
        super::each_container(spec, |container| forbid(container.at("securityContext").at("windowsOptions"), out));
        return;
    }
    let why = "cannot be set for a windows pod";
    let forbid = |node: Node<'_>, out: &mut Causes| {
        if node.is_given() && !node.is_false() {
            out.forbidden(&node, why);
        }
    };
    let given = |node: Node<'_>, out: &mut Causes| {
        if node.is_given() {
            out.forbidden(&node, why);
        }
    };
    const POD: [&str; 11] = [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "fsGroup",
        "fsGroupChangePolicy",
        "sysctls",
        "runAsUser",
        "runAsGroup",
        "supplementalGroups",
        "supplementalGroupsPolicy",
        "seLinuxChangePolicy",
    ];
    POD.into_iter().for_each(|field| given(context.at(field), out));
    ["hostUsers", "shareProcessNamespace"].into_iter().for_each(|field| given(spec.at(field), out));
    ["hostPID", "hostIPC"].into_iter().for_each(|field| forbid(spec.at(field), out));
    const CONTAINER: [&str; 10] = [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "capabilities",
        "readOnlyRootFilesystem",
        "privileged",
        "allowPrivilegeEscalation",
        "procMount",
        "runAsUser",
        "runAsGroup",
    ];
    super::each_container(spec, |container| {
        CONTAINER.into_iter().for_each(|field| given(container.at("securityContext").at(field), out));
    });
}

/// The JSON of a `core.SecurityContext`.
pub(super) fn security_context(node: &Node<'_>) -> String {
    const WINDOWS: &str = "GMSACredentialSpecName:gmsaCredentialSpecName? GMSACredentialSpec:gmsaCredentialSpec? \
        RunAsUserName:runAsUserName? HostProcess:hostProcess?";
    let form = format!(
        "Capabilities:capabilities?{{Add:add? Drop:drop?}} Privileged:privileged? \
         SELinuxOptions:seLinuxOptions?{{User:user Role:role Type:type Level:level}} WindowsOptions:windowsOptions?{{{WINDOWS}}} \
         RunAsUser:runAsUser? RunAsGroup:runAsGroup? RunAsNonRoot:runAsNonRoot? ReadOnlyRootFilesystem:readOnlyRootFilesystem? \
         AllowPrivilegeEscalation:allowPrivilegeEscalation? ProcMount:procMount? \
         SeccompProfile:seccompProfile?{{Type:type LocalhostProfile:localhostProfile?}} \
         AppArmorProfile:appArmorProfile?{{Type:type LocalhostProfile:localhostProfile?}}"
    );
    internal(node, &form)
}
