//! The status of a pod (`ValidatePodStatusUpdate`).

use super::super::formats::{is_ipv6, legacy_ip, subdomain, subdomain_text};
use super::super::node::{Causes, Node, internal};
use super::update;
use crate::names::{dns_1123_label_errors, qualified_name_errors};
use std::collections::{HashMap, HashSet};

const SYSTEM: [&str; 3] = ["PodScheduled", "Ready", "Initialized"];

/// The lists of statuses, and the containers to which they belong.
const STATUSES: [(&str, &str); 3] = [
    ("containerStatuses", "containers"),
    ("initContainerStatuses", "initContainers"),
    ("ephemeralContainerStatuses", "ephemeralContainers"),
];

/// `ResourceHealthMessageMaxLength`
const MAX_HEALTH_MESSAGE: usize = 1024;

pub(super) fn check(pod: &Node<'_>, old: &Node<'_>, out: &mut Causes) {
    let (spec, old_spec) = (pod.at("spec"), old.at("spec"));
    let (status, old) = (pod.at("status"), old.at("status"));
    for condition in status.at("conditions").items() {
        observed_generation(&condition.at("observedGeneration"), out);
        let kind = condition.at("type").named(&condition, "Type");
        if !SYSTEM.contains(&kind.text()) {
            out.texts(&kind, qualified_name_errors(kind.text()));
        }
    }
    if spec.at("nodeName").text() != old_spec.at("nodeName").text() {
        out.forbidden(&status.at("nodeName"), "may not be changed directly");
    }
    let nominated = status.at("nominatedNodeName");
    if !nominated.is_empty() && nominated.text() != old.at("nominatedNodeName").text() {
        out.texts(&nominated, subdomain(nominated.text(), false));
        if !old_spec.at("nodeName").is_empty() {
            out.forbidden(&nominated, "may not be set on pods that are already bound to a node");
        }
    }
    observed_generation(&status.at("observedGeneration"), out);
    update::class(&status, &old, out);
    for (list, of) in STATUSES {
        transitions(&status.at(list), &old.at(list), of, &old_spec, out);
    }
    claims(&status.at("resourceClaimStatuses"), &spec.at("resourceClaims"), out);
    extended_claim(&status.at("extendedResourceClaimStatus"), &spec, out);
    addresses(&status, &old, "podIPs", out);
    let host = status.at("hostIPs");
    if !host.is_empty() {
        let first = host.item(0).at("ip");
        if status.at("hostIP").text() != first.text() {
            out.text(&first, "must be equal to `hostIP`");
        }
        addresses(&status, &old, "hostIPs", out);
    }
    for (list, _) in STATUSES {
        users(&status.at(list), &spec, out);
    }
    for (list, of) in STATUSES {
        allocated(&status.at(list), of, &spec, out);
    }
}

fn observed_generation(generation: &Node<'_>, out: &mut Causes) {
    if generation.int() < 0 {
        out.int(generation, "must be a non-negative integer");
    }
}

/// The errors of containers that start again although they must not (`ValidateContainerStateTransition` and its neighbours).
fn transitions(statuses: &Node<'_>, old: &Node<'_>, of: &'static str, spec: &Node<'_>, out: &mut Causes) {
    let is_ephemeral = of == "ephemeralContainers";
    if !is_ephemeral && may_restart_all(spec) {
        return;
    }
    let runs = |status: &Node<'_>| !status.under(&["state", "terminated"]).is_given();
    let running: HashSet<&str> = statuses.items().filter(runs).map(|status| status.at("name").text()).collect();
    let mut by_name: HashMap<&str, Node<'_>> = HashMap::new();
    for container in spec.at(of).items() {
        // The first one of a name counts.
        by_name.entry(container.at("name").text()).or_insert(container);
    }
    for (index, before) in old.items().enumerate() {
        let (end, name) = (before.under(&["state", "terminated"]), before.at("name").text());
        if !end.is_given() || !running.contains(name) {
            continue;
        }
        let container = by_name.get(name).filter(|_| !is_ephemeral);
        if !container.is_some_and(|container| restarts(container, spec, end.at("exitCode").int())) {
            let why = "may not be transitioned to non-terminated state";
            out.forbidden(&statuses.item(index).at("state"), why);
        }
    }
}

/// `podutil.AllContainersCouldRestart`
fn may_restart_all(spec: &Node<'_>) -> bool {
    let all = ["initContainers", "containers"].into_iter().flat_map(|list| spec.at(list).items());
    let mut rules = all.flat_map(|container| container.at("restartPolicyRules").items());
    rules.any(|rule| rule.at("action").text() == "RestartAllContainers")
}

/// `podutil.ContainerShouldRestart`
fn restarts(container: &Node<'_>, spec: &Node<'_>, exit_code: i64) -> bool {
    let by_policy = |policy: &str| match policy {
        "Always" => Some(true),
        "OnFailure" => Some(exit_code != 0),
        "Never" => Some(false),
        _ => None,
    };
    let own = container.at("restartPolicy");
    if own.is_given() {
        let mut rules = container.at("restartPolicyRules").items();
        let matching = rules.find(|rule| {
            let codes = rule.at("exitCodes");
            let is_listed = codes.at("values").items().any(|code| code.int() == exit_code);
            codes.is_given() && is_listed == (codes.at("operator").text() == "In")
        });
        let action = matching.map(|rule| rule.at("action").text());
        if matches!(action, Some("Restart" | "RestartAllContainers")) {
            return true;
        }
        if let Some(restarts) = by_policy(own.text()) {
            return restarts;
        }
    }
    by_policy(spec.at("restartPolicy").text()).unwrap_or(true)
}

/// `validateContainerStatusUsers`
fn users(statuses: &Node<'_>, spec: &Node<'_>, out: &mut Causes) {
    let os = spec.under(&["os", "name"]).text();
    for user in statuses.items().map(|status| status.at("user").at("linux")).filter(Node::is_given) {
        match os {
            "windows" => out.forbidden(&user, "cannot be set for a windows pod"),
            "" | "linux" => {
                for id in [user.at("uid"), user.at("gid")].into_iter().chain(user.at("supplementalGroups").items()) {
                    out.in_range(&id, 0, i64::from(i32::MAX));
                }
            }
            _ => {}
        }
    }
}

/// `validateContainerStatusAllocatedResourcesStatus`, `validateContainerStatusNoAllocatedResourcesStatus`
fn allocated(statuses: &Node<'_>, of: &'static str, spec: &Node<'_>, out: &mut Causes) {
    for status in statuses.items() {
        let all = status.at("allocatedResourcesStatus");
        if of == "ephemeralContainers" {
            if !all.is_empty() {
                out.forbidden(&all, "must not be specified in container status");
            }
            continue;
        }
        let mut containers = spec.at(of).items();
        let container = containers.find(|container| container.at("name").text() == status.at("name").text());
        for resource in all.items() {
            let name = resource.at("name");
            if let Some(why) = container.as_ref().and_then(|container| unknown_resource(name.text(), container)) {
                out.text(&name, why);
            }
            health(&resource.at("resources"), out);
        }
    }
}

/// Why a resource is none of a container; `None` if it is.
fn unknown_resource(name: &str, container: &Node<'_>) -> Option<&'static str> {
    let resources = container.at("resources");
    match name.strip_prefix("claim:") {
        Some(claimed) => {
            let is_claimed = |claim: Node<'_>| {
                let (name, request) = (claim.at("name").text(), claim.at("request").text());
                match request {
                    "" => name == claimed,
                    request => claimed.strip_prefix(name).and_then(|rest| rest.strip_prefix('/')) == Some(request),
                }
            };
            (!resources.at("claims").items().any(is_claimed)).then_some(
                "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or 'claim:<claimName>' if \
                 request is empty",
            )
        }
        None => (!resources.at("requests").key(name).is_given())
            .then_some("must match one of the container's resource requests"),
    }
}

fn health(resources: &Node<'_>, out: &mut Causes) {
    let mut known = HashSet::new();
    for resource in resources.items() {
        out.one_of(&resource.at("health"), &["Healthy", "Unhealthy", "Unknown"]);
        let message = resource.at("message");
        match message.optional_text() {
            Some("") => out.required(&message, "must be non-empty if specified"),
            Some(text) if text.len() > MAX_HEALTH_MESSAGE => out.too_long(&message, MAX_HEALTH_MESSAGE),
            _ => {}
        }
        let id = resource.at("resourceID");
        if !known.insert(id.text()) {
            out.duplicate(&id);
        }
    }
}

/// `validatePodExtendedResourceClaimStatus`
fn extended_claim(status: &Node<'_>, spec: &Node<'_>, out: &mut Causes) {
    if !status.is_given() {
        return;
    }
    let containers: HashMap<&str, Node<'_>> = ["initContainers", "containers"]
        .into_iter()
        .flat_map(|list| spec.at(list).items())
        .map(|container| (container.at("name").text(), container))
        .collect();
    let mappings = status.at("requestMappings");
    if mappings.is_empty() {
        out.required(&mappings, "at least one request mapping is required");
    }
    let mut known = HashSet::new();
    for mapping in mappings.items() {
        let [container, resource, request] =
            [mapping.at("containerName"), mapping.at("resourceName"), mapping.at("requestName")];
        match containers.get(container.text()) {
            Some(of) if !of.at("resources").at("requests").key(resource.text()).is_given() => out.text(
                &resource,
                "must match the extended resource name of an entry in spec.initContainers.resources.requests or \
                 spec.containers.resources.requests",
            ),
            Some(_) => {}
            None => out.text(
                &container,
                "must match the name of an entry in spec.initContainers.name or spec.containers.name",
            ),
        }
        out.texts(&request.on(&status.at("requestName")), dns_1123_label_errors(request.text()));
        if !known.insert([container.text(), resource.text(), request.text()]) {
            [container, resource, request].iter().for_each(|part| out.duplicate(part));
        }
    }
    if out.require(&status.at("resourceClaimName")) {
        subdomain_text(&status.at("resourceClaimName"), out);
    }
}

/// `validatePodResourceClaimStatuses`
fn claims(statuses: &Node<'_>, claims: &Node<'_>, out: &mut Causes) {
    let claims: HashSet<&str> = claims.items().map(|claim| claim.at("name").text()).collect();
    let mut known = HashSet::new();
    for status in statuses.items() {
        let name = status.at("name");
        if !claims.contains(name.text()) {
            out.text(&name, "must match the name of an entry in `spec.resourceClaims`");
        }
        if !known.insert(name.text()) {
            out.duplicate(&name);
        }
        if status.at("resourceClaimName").is_given() {
            subdomain_text(&status.at("resourceClaimName"), out);
        }
    }
}

/// `validatePodIPs` and `validateHostIPs`
fn addresses(status: &Node<'_>, old: &Node<'_>, field: &'static str, out: &mut Causes) {
    let list = status.at(field);
    let known: HashSet<&str> = old.at(field).items().map(|address| address.at("ip").text()).collect();
    for address in list.items() {
        legacy_ip(&address.at("ip").on(&address), &known, out);
    }
    let families: Vec<bool> = list.items().map(|address| is_ipv6(address.at("ip").text())).collect();
    let is_dual = families.contains(&true) && families.contains(&false);
    if families.len() > 1 && (!is_dual || families.len() > 2) {
        let shown: Vec<_> = list.items().map(|address| internal(&address, "IP:ip")).collect();
        let why = "may specify no more than one IP for each IP family";
        out.invalid(&list, format!("[{}]", shown.join(",")), why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// The errors of a container that ended with a code and runs again.
    fn restarted(of: &str, spec: Value, exit_code: i64) -> usize {
        let status = |state: Value| json!([{"name": "c", "state": state}]);
        let (new, old) = (status(json!({"running": {}})), status(json!({"terminated": {"exitCode": exit_code}})));
        let of = STATUSES.iter().find(|(_, containers)| *containers == of).unwrap().1;
        let mut out = Causes::default();
        transitions(&Node::root(&new), &Node::root(&old), of, &Node::root(&spec), &mut out);
        out.len()
    }

    #[test]
    fn a_container_starts_again_if_its_own_rules_or_the_pods_policy_say_so() {
        let rules = |operator: &str, action: &str| json!([{"action": action, "exitCodes": {"operator": operator, "values": [3]}}]);
        let own = |policy: &str, rules: Value| json!({"restartPolicy": "Never", "containers": [{"name": "c", "restartPolicy": policy, "restartPolicyRules": rules}]});
        let named = json!([{"name": "c"}]);
        for (spec, exit_code, expected) in [
            (json!({"restartPolicy": "Always", "containers": named}), 0, 0),
            (json!({"restartPolicy": "Always"}), 0, 1),
            (json!({"restartPolicy": "OnFailure", "containers": named}), 0, 1),
            (json!({"restartPolicy": "OnFailure", "containers": named}), 1, 0),
            (json!({"restartPolicy": "Never", "containers": named}), 1, 1),
            (own("OnFailure", json!([])), 1, 0),
            (own("Never", rules("In", "Restart")), 3, 0),
            (own("Never", rules("In", "Restart")), 1, 1),
            (own("Never", rules("NotIn", "Restart")), 1, 0),
            (own("Never", rules("In", "RestartAllContainers")), 1, 0),
        ] {
            assert_eq!(restarted("containers", spec.clone(), exit_code), expected, "{spec} {exit_code}");
        }
        let sidecar = json!({"restartPolicy": "Never", "initContainers": [{"name": "c", "restartPolicy": "Always"}]});
        assert_eq!(restarted("initContainers", sidecar, 0), 0);
        assert_eq!(
            restarted("ephemeralContainers", json!({"restartPolicy": "Always", "ephemeralContainers": named}), 0),
            1
        );
    }
}
