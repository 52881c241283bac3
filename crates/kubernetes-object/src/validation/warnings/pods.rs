//! Pods, and the kinds with a template of pods.

use super::storage::{claim_spec, node_term};
use super::{Warnings, address, deprecated_label, fraction, has_new_generation, label_name};
use crate::go_text::go_quote;
use crate::validation::node::{Node, is_equal};
use serde_json::json;
use std::collections::{BTreeMap, HashMap, HashSet};

const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// `podStrategy.WarningsOnCreate`
pub(super) fn pod(object: &Node<'_>, out: &mut Warnings) {
    label_name(object, "the Pod's hostname", out);
    spec_and_metadata(object, false, out);
}

/// `podStatusStrategy.WarningsOnUpdate`
pub(super) fn status(object: &Node<'_>, out: &mut Warnings) {
    for addresses in ["podIPs", "hostIPs"] {
        object.under(&["status", addresses]).items().for_each(|item| address(&item.at("ip"), out));
    }
}

/// A template of a new object, or of one whose generation has changed.
pub(super) fn of_template(object: &Node<'_>, old: Option<&Node<'_>>, path: &[&'static str], out: &mut Warnings) {
    if old.is_none_or(|old| has_new_generation(object, old)) {
        spec_and_metadata(&object.under(path), true, out);
    }
}

/// A kind whose name its pods get, in its own path or below: `deploymentStrategy`, `rsStrategy`.
pub(super) fn named(object: &Node<'_>, old: Option<&Node<'_>>, path: &[&'static str], out: &mut Warnings) {
    if old.is_none() {
        label_name(object, "Pod names and hostnames", out);
    }
    of_template(object, old, path, out);
}

/// `rcStrategy`: the warnings of an update are those of the old template.
pub(super) fn replication_controller(object: &Node<'_>, old: Option<&Node<'_>>, out: &mut Warnings) {
    match old {
        Some(old) => of_template(old, Some(object), &["spec", "template"], out),
        None => named(object, None, &["spec", "template"], out),
    }
}

/// `daemonSetStrategy`: an update counts if it changes the template.
pub(super) fn daemon_set(object: &Node<'_>, old: Option<&Node<'_>>, out: &mut Warnings) {
    let template = object.under(&["spec", "template"]);
    let is_same = old.is_some_and(|old| is_equal(old.under(&["spec", "template"]).value(), template.value()));
    if !is_same {
        spec_and_metadata(&template, true, out);
    }
}

/// `statefulSetStrategy`
pub(super) fn stateful_set(object: &Node<'_>, old: Option<&Node<'_>>, out: &mut Warnings) {
    of_template(object, old, &["spec", "template"], out);
    for claim in object.under(&["spec", "volumeClaimTemplates"]).items() {
        let spec = claim.at("spec");
        // kube-apiserver names neither path right.
        match old {
            Some(_) => claim_spec(&spec.renamed("Spec"), out),
            None => claim_spec(&spec.on(&claim), out),
        }
    }
    let limit = object.under(&["spec", "revisionHistoryLimit"]);
    if limit.int() < 0 {
        out.of(&limit, "a negative value retains all historical revisions; a value >= 0 is recommended");
    }
}

/// `jobStrategy`
pub(super) fn job(object: &Node<'_>, old: Option<&Node<'_>>, path: &[&'static str], out: &mut Warnings) {
    if old.is_none() {
        label_name(object, "Pod names and hostnames", out);
    }
    if old.is_none_or(|old| has_new_generation(object, old)) {
        job_spec(&object.under(path), out);
    }
}

/// `cronJobStrategy`
pub(super) fn cron_job(object: &Node<'_>, old: Option<&Node<'_>>, out: &mut Warnings) {
    job(object, old, &["spec", "jobTemplate", "spec"], out);
    if old.is_some() && object.under(&["spec", "schedule"]).text().contains("TZ") {
        let why = "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
                   https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details";
        out.add(why.to_owned());
    }
}

/// `WarningsForJobSpec`
fn job_spec(spec: &Node<'_>, out: &mut Warnings) {
    let is_indexed = spec.at("completionMode").text() == "Indexed";
    if is_indexed && spec.at("completions").int() > 100_000 && spec.at("parallelism").int() > 10_000 {
        let why = "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be \
                   able to track completedIndexes when a big number of indexes fail";
        out.of(spec, why);
    }
    spec_and_metadata(&spec.at("template"), true, out);
}

/// `warningsForPodSpecAndMeta`
fn spec_and_metadata(pod: &Node<'_>, is_template: bool, out: &mut Warnings) {
    let spec = &pod.at("spec");
    let annotations = &pod.under(&["metadata", "annotations"]);
    nodes(spec, out);
    let instead = |field: &str| format!("use the {field:?} field instead");
    for (key, why) in [
        (
            "scheduler.alpha.kubernetes.io/critical-pod",
            format!("non-functional in v1.16+; {}", instead("priorityClassName")),
        ),
        ("security.alpha.kubernetes.io/sysctls", format!("non-functional in v1.11+; {}", instead("sysctls"))),
        ("security.alpha.kubernetes.io/unsafe-sysctls", format!("non-functional in v1.11+; {}", instead("sysctls"))),
    ] {
        annotation(annotations, key, &why, out);
    }
    volumes(spec, out);
    duplicates(&spec.at("hostAliases"), "ip", out);
    duplicates(&spec.at("imagePullSecrets"), "name", out);
    for secret in spec.at("imagePullSecrets").items().filter(|secret| secret.at("name").is_empty()) {
        out.of(&secret.at("name"), "invalid empty name \"\"");
    }
    for resource in ["memory", "ephemeral-storage"] {
        fraction(&spec.at("overhead"), resource, out);
    }
    let profile = ["securityContext", "seccompProfile"];
    let seccomp = format!("non-functional in v1.27+; {}", instead("seccompProfile"));
    if !spec.under(&profile).is_given() {
        annotation(annotations, "seccomp.security.alpha.kubernetes.io/pod", &seccomp, out);
    }
    for container in containers(spec) {
        let name = container.at("name");
        if !container.under(&profile).is_given() {
            let key = format!("container.seccomp.security.alpha.kubernetes.io/{}", name.text());
            annotation(annotations, &key, &seccomp, out);
        }
        if is_template && !container.under(&["securityContext", "appArmorProfile"]).is_given() {
            app_armor(spec, annotations, name.text(), out);
        }
        for resource in ["memory", "ephemeral-storage"] {
            for amounts in ["limits", "requests"] {
                fraction(&container.at("resources").at(amounts), resource, out);
            }
        }
        variables(&container, out);
    }
    ports(spec, out);
    port_names(spec, out);
    let seconds = spec.at("terminationGracePeriodSeconds");
    if seconds.int() < 0 {
        out.of(&seconds, "must be >= 0; negative values are invalid and will be treated as 1");
    }
    for affinity in ["podAffinity", "podAntiAffinity"] {
        let affinity = spec.at("affinity").at(affinity);
        for term in affinity.at("requiredDuringSchedulingIgnoredDuringExecution").items() {
            selector(&term.at("labelSelector"), out);
        }
        for term in affinity.at("preferredDuringSchedulingIgnoredDuringExecution").items() {
            selector(&term.under(&["podAffinityTerm", "labelSelector"]), out);
        }
    }
    spec.under(&["dnsConfig", "nameservers"]).items().for_each(|item| address(&item, out));
    spec.at("hostAliases").items().for_each(|item| address(&item.at("ip"), out));
}

fn containers<'v>(spec: &Node<'v>) -> Vec<Node<'v>> {
    CONTAINERS.iter().flat_map(|field| spec.at(field).items()).collect()
}

fn annotation(annotations: &Node<'_>, key: &str, why: &str, out: &mut Warnings) {
    let annotation = annotations.key(key);
    if annotation.is_given() {
        out.of(&annotation, why);
    }
}

/// A selector that matches no pod.
fn selector(selector: &Node<'_>, out: &mut Warnings) {
    if !selector.is_given() {
        out.of(selector, "a null labelSelector results in matching no pod");
    }
}

/// Deprecated labels of nodes.
fn nodes(spec: &Node<'_>, out: &mut Warnings) {
    for (label, entry) in spec.at("nodeSelector").entries() {
        if let Some(why) = deprecated_label(label) {
            out.of(&entry, why);
        }
    }
    let affinity = spec.under(&["affinity", "nodeAffinity"]);
    let required = affinity.at("requiredDuringSchedulingIgnoredDuringExecution");
    for term in required.at("nodeSelectorTerms").items() {
        node_term(&term, false, out);
    }
    for preferred in affinity.at("preferredDuringSchedulingIgnoredDuringExecution").items() {
        node_term(&preferred.at("preference"), true, out);
    }
    for constraint in spec.at("topologySpreadConstraints").items() {
        let key = constraint.at("topologyKey");
        if let Some(why) = deprecated_label(key.text()) {
            out.of(&key, format_args!("{} is {why}", key.text()));
        }
        selector(&constraint.at("labelSelector"), out);
    }
}

/// Deprecated and removed sources of volumes.
fn volumes(spec: &Node<'_>, out: &mut Warnings) {
    const FIRST: [(&str, &str); 7] = [
        ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
        ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
        ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
        ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
        ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
        ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
        ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ];
    const LAST: [(&str, &str); 2] = [
        ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
        ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
    ];
    let removed = |volume: &Node<'_>, sources: &[(&'static str, &str)], out: &mut Warnings| {
        for (field, why) in sources {
            let source = volume.at(field);
            if source.is_given() {
                let shown = if *field == "storageos" { source.renamed("storageOS") } else { source };
                out.of(&shown, why);
            }
        }
    };
    for volume in spec.at("volumes").items() {
        removed(&volume, &FIRST, out);
        let template = volume.at("ephemeral").at("volumeClaimTemplate");
        if template.is_given() {
            claim_spec(&template.at("spec"), out);
        }
        removed(&volume, &LAST, out);
    }
    spec.at("volumes").items().for_each(|volume| overlaps(&volume, out));
}

/// A path in a volume, and what puts a file there.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Source {
    path: String,
    of: String,
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&go_quote(&self.path))?;
        if self.of.is_empty() { Ok(()) } else { write!(f, " ({})", self.of) }
    }
}

/// The paths of a volume so far. A search takes time for what it finds, and not for all of them.
#[derive(Default)]
struct Paths {
    sources: Vec<Source>,
    known: HashSet<Source>,
    /// The positions of the sources, by their paths with a slash at the end.
    by_path: BTreeMap<String, Vec<usize>>,
}

impl Paths {
    /// The sources at, above and below a path, in their order (`checkForOverlap`).
    fn overlapping(&self, path: &str) -> Vec<&Source> {
        if path.is_empty() {
            return Vec::new();
        }
        let path = format!("{path}/");
        let below = self.by_path.range(path.clone()..).take_while(|(other, _)| other.starts_with(&path));
        let above = path.match_indices('/').filter_map(|(at, _)| {
            let above = path.get(..=at).filter(|above| above.len() < path.len())?;
            self.by_path.get(above)
        });
        let mut found: Vec<usize> = below.map(|(_, positions)| positions).chain(above).flatten().copied().collect();
        found.sort_unstable();
        found.into_iter().filter_map(|at| self.sources.get(at)).collect()
    }

    fn add(&mut self, source: Source) {
        // Another one gives no other warning.
        if !source.path.is_empty() && self.known.insert(source.clone()) {
            self.by_path.entry(format!("{}/", source.path)).or_default().push(self.sources.len());
            self.sources.push(source);
        }
    }
}

/// `warningsForOverlappingVirtualPaths`
fn overlaps(volume: &Node<'_>, out: &mut Warnings) {
    let name = go_quote(volume.at("name").text());
    let of_items = |source: &Node<'_>, of: &str| -> Vec<Source> {
        let items = source.at("items").items();
        items.map(|item| Source { path: item.at("path").text().to_owned(), of: of.to_owned() }).collect()
    };
    for (field, kind, name_of) in
        [("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName"), ("downwardAPI", "DownwardAPI", "")]
    {
        let source = volume.at(field);
        let shown = match name_of {
            "" => kind.to_owned(),
            name_of => format!(
                "{kind} {}",
                go_quote(source.value().get(name_of).and_then(|name| name.as_str()).unwrap_or_default())
            ),
        };
        compare(of_items(&source, ""), &format!("volume {name} ({shown})"), &mut Paths::default(), out);
    }
    let mut paths = Paths::default();
    for source in volume.at("projected").at("sources").items() {
        if source.value().as_object().is_none_or(serde_json::Map::is_empty) {
            out.add(format!("volume {name} (Projected) has no sources provided"));
            continue;
        }
        compare(projected(&source, of_items), &format!("volume {name} (Projected)"), &mut paths, out);
    }
}

/// The paths of a source of a projected volume.
fn projected(source: &Node<'_>, of_items: impl Fn(&Node<'_>, &str) -> Vec<Source>) -> Vec<Source> {
    let (map, secret, token) = (source.at("configMap"), source.at("secret"), source.at("serviceAccountToken"));
    let (bundle, certificate) = (source.at("clusterTrustBundle"), source.at("podCertificate"));
    let at = |node: Node<'_>, of: &str| Source { path: node.text().to_owned(), of: of.to_owned() };
    match () {
        () if map.at("items").is_given() => of_items(&map, &format!("ConfigMap {}", go_quote(map.at("name").text()))),
        () if secret.at("items").is_given() => {
            of_items(&secret, &format!("Secret {}", go_quote(secret.at("name").text())))
        }
        () if source.at("downwardAPI").at("items").is_given() => of_items(&source.at("downwardAPI"), "DownwardAPI"),
        () if token.is_given() => vec![at(token.at("path"), "ServiceAccountToken")],
        () if bundle.is_given() => {
            let name = bundle.at("name").given().unwrap_or_else(|| bundle.at("signerName"));
            vec![at(bundle.at("path"), &format!("ClusterTrustBundle {}", go_quote(name.text())))]
        }
        () if certificate.is_given() => [
            ("certificateChainPath", "PodCertificate chain"),
            ("keyPath", "PodCertificate key"),
            ("credentialBundlePath", "PodCertificate credential bundle"),
        ]
        .into_iter()
        .map(|(field, of)| at(certificate.at(field), of))
        .filter(|source| !source.path.is_empty())
        .collect(),
        () => Vec::new(),
    }
}

fn compare(sources: Vec<Source>, volume: &str, paths: &mut Paths, out: &mut Warnings) {
    for mut source in sources {
        source.path.truncate(source.path.trim_end_matches('/').len());
        for other in paths.overlapping(&source.path) {
            if out.is_full() {
                return;
            }
            out.add(format!("{volume}: overlapping paths: {source} with {other}"));
        }
        paths.add(source);
    }
}

/// The warnings of items whose field another one has.
fn duplicates(list: &Node<'_>, field: &'static str, out: &mut Warnings) {
    let mut known = HashSet::new();
    for item in list.items().map(|item| item.at(field)) {
        if !known.insert(item.text()) {
            out.of(&item, format_args!("duplicate {field} {}", go_quote(item.text())));
        }
    }
}

/// An annotation for AppArmor in a template that the profile of the pods does not repeat.
fn app_armor(spec: &Node<'_>, annotations: &Node<'_>, container: &str, out: &mut Warnings) {
    let annotation = annotations.key(&format!("container.apparmor.security.beta.kubernetes.io/{container}"));
    let Some(text) = annotation.optional_text() else { return };
    // `ApparmorFieldForAnnotation`
    let profile = match text {
        "unconfined" => json!({"type": "Unconfined"}),
        "runtime/default" => json!({"type": "RuntimeDefault"}),
        other => match other.strip_prefix("localhost/").filter(|name| !name.is_empty()) {
            Some(name) => json!({"type": "Localhost", "localhostProfile": name}),
            None => json!(null),
        },
    };
    let of_pods = spec.under(&["securityContext", "appArmorProfile"]);
    if !of_pods.is_given() || !is_equal(of_pods.value(), &profile) {
        out.of(&annotation, "deprecated since v1.30; use the \"appArmorProfile\" field instead");
    }
}

/// Environment variables that hide earlier ones.
fn variables(container: &Node<'_>, out: &mut Warnings) {
    let mut known = HashSet::new();
    for variable in container.at("env").items() {
        let name = variable.at("name").text();
        if known.insert(name) {
            continue;
        }
        let (value, reference) = (variable.at("value").text(), format!("$({name})"));
        if variable.at("valueFrom").is_given() || value == reference || !value.contains(&reference) {
            let name = go_quote(name);
            out.of(
                &variable,
                format_args!("hides previous definition of {name}, which may be dropped when using apply"),
            );
        }
    }
}

/// The ports of one number and protocol so far.
#[derive(Default)]
struct SamePorts<'v> {
    ports: Vec<Node<'v>>,
    without_host_port: Vec<usize>,
    by_host_port: HashMap<i64, Vec<usize>>,
    by_host: HashMap<(i64, &'v str), Vec<usize>>,
}

impl<'v> SamePorts<'v> {
    /// The ports that a further one conflicts with, in their order. Each of them gives a warning.
    fn conflicts(&self, host_port: i64, host: &str) -> Vec<usize> {
        let at = |found: Option<&Vec<usize>>| found.cloned().unwrap_or_default();
        let mut found = match (host_port, host) {
            (0, _) => (0..self.ports.len()).collect(),
            (_, "") => at(self.by_host_port.get(&host_port)),
            (_, host) => {
                let mut found = at(self.by_host.get(&(host_port, host)));
                found.extend(at(self.by_host.get(&(host_port, ""))));
                found
            }
        };
        if host_port != 0 {
            found.extend(&self.without_host_port);
        }
        found.sort_unstable();
        found
    }

    fn add(&mut self, port: Node<'v>, host_port: i64, host: &'v str) {
        let at = self.ports.len();
        self.ports.push(port);
        if host_port == 0 {
            self.without_host_port.push(at);
        } else {
            self.by_host_port.entry(host_port).or_default().push(at);
            self.by_host.entry((host_port, host)).or_default().push(at);
        }
    }
}

/// Ports that conflict with others of the pod.
fn ports(spec: &Node<'_>, out: &mut Warnings) {
    let mut known: HashMap<(i64, &str), SamePorts<'_>> = HashMap::new();
    for container in containers(spec) {
        for port in container.at("ports").items() {
            if out.is_full() {
                return;
            }
            let (host_port, host) = (port.at("hostPort").int(), port.at("hostIP").text());
            let (number, protocol) = (port.at("containerPort").int(), port.at("protocol").text());
            if !host.is_empty() && host_port == 0 {
                let name = port.at("name").text();
                out.of(
                    &port,
                    format_args!(
                        "hostIP set without hostPort: {{Name:{name} HostPort:0 ContainerPort:{number} Protocol:{protocol} HostIP:{host}}}"
                    ),
                );
            }
            let same = known.entry((number, protocol)).or_default();
            for at in same.conflicts(host_port, host) {
                let Some(other) = same.ports.get(at).filter(|_| !out.is_full()) else { break };
                let (other_port, other_host) = (other.at("hostPort").int(), other.at("hostIP").text());
                let what = match () {
                    () if (host_port, host) == (other_port, other_host) => "duplicate",
                    () if host_port == 0 || other_port == 0 => "overlapping",
                    () => "dangerously ambiguous",
                };
                out.of(&port, format_args!("{what} port definition with {}", other.path()));
            }
            same.add(port, host_port, host);
        }
    }
}

/// Names of ports that an earlier port has.
fn port_names(spec: &Node<'_>, out: &mut Warnings) {
    let mut known: HashMap<&str, Node<'_>> = HashMap::new();
    for container in containers(spec) {
        for port in container.at("ports").items() {
            let name = port.at("name").text();
            if name.is_empty() {
                continue;
            }
            match known.get(name) {
                None => drop(known.insert(name, port)),
                Some(other) => {
                    let (name, other) = (go_quote(name), other.path());
                    out.of(
                        &port,
                        format_args!(
                            "duplicate port name {name} with {other}, services and probes that select ports by name will use {other}"
                        ),
                    );
                }
            }
        }
    }
}
