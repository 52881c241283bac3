//! Namespaces, nodes, quotas, configuration, and cluster-wide kinds.

use super::view::View;
use super::{duration, quantity, selectors};
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub(super) fn core_cells(name: &str, object: View<'_>) -> Option<Vec<Value>> {
    Some(match name {
        "namespaces" => vec![object.name(), json!(object.text("/status/phase")), object.age()],
        "nodes" => node(object),
        "configmaps" => vec![object.name(), json!(object.count("/data") + object.count("/binaryData")), object.age()],
        "secrets" => vec![object.name(), json!(object.text("/type")), json!(object.count("/data")), object.age()],
        "serviceaccounts" => vec![object.name(), object.age()],
        "resourcequotas" => resource_quota(object),
        "componentstatuses" => component_status(object),
        _ => return None,
    })
}

/// `printPodSecurityPolicy` of Kubernetes 1.24.
pub(super) fn pod_security_policy(object: View<'_>) -> Vec<Value> {
    let rule = |field: &str| json!(object.text(&format!("/spec/{field}/rule")));
    vec![
        object.name(),
        json!(object.flag("/spec/privileged").to_string()),
        json!(object.texts("/spec/allowedCapabilities").join(",")),
        rule("seLinux"),
        rule("runAsUser"),
        rule("fsGroup"),
        rule("supplementalGroups"),
        json!(object.flag("/spec/readOnlyRootFilesystem")),
        json!(object.texts("/spec/volumes").join(",")),
    ]
}

pub(super) fn cells(name: &str, object: View<'_>) -> Option<Vec<Value>> {
    Some(match name {
        "rolebindings" | "clusterrolebindings" => role_binding(object),
        "mutatingwebhookconfigurations" | "validatingwebhookconfigurations" => {
            vec![object.name(), json!(object.count("/webhooks")), object.age()]
        }
        "validatingadmissionpolicies" => policy(object, "/spec/validations"),
        "mutatingadmissionpolicies" => policy(object, "/spec/mutations"),
        "validatingadmissionpolicybindings" | "mutatingadmissionpolicybindings" => policy_binding(object),
        "certificatesigningrequests" => certificate_signing_request(object),
        "apiservices" => api_service(object),
        "leases" => vec![object.name(), json!(object.text("/spec/holderIdentity")), object.age()],
        "flowschemas" => flow_schema(object),
        "prioritylevelconfigurations" => priority_level(object),
        "runtimeclasses" => vec![object.name(), json!(object.text("/handler")), object.age()],
        "priorityclasses" => vec![
            object.name(),
            json!(object.number("/value")),
            json!(object.flag("/globalDefault")),
            object.age(),
            json!(object.text("/preemptionPolicy")),
        ],
        "deviceclasses" | "resourceclaimtemplates" => vec![object.name(), object.age()],
        "resourceclaims" => vec![object.name(), json!(claim_state(object)), object.age()],
        "resourceslices" => vec![
            object.name(),
            json!(object.text("/spec/nodeName")),
            json!(object.text("/spec/driver")),
            json!(object.text("/spec/pool/name")),
            object.age(),
        ],
        _ => return None,
    })
}

fn node(object: View<'_>) -> Vec<Value> {
    let info = |field: &str| object.text_or(&format!("/status/nodeInfo/{field}"), "<unknown>");
    let mut kernel = info("kernelVersion").to_owned();
    let architecture = object.text("/status/nodeInfo/architecture");
    if !architecture.is_empty() {
        kernel = format!("{kernel} ({architecture})");
    }
    let address = |kind: &str| {
        let found = object.items("/status/addresses").find(|address| address.text("/type") == kind);
        found.map_or("<none>", |address| address.text("/address"))
    };
    vec![
        object.name(),
        json!(node_status(object)),
        json!(node_roles(object)),
        object.age(),
        json!(object.text("/status/nodeInfo/kubeletVersion")),
        json!(address("InternalIP")),
        json!(address("ExternalIP")),
        json!(info("osImage")),
        json!(kernel),
        json!(info("containerRuntimeVersion")),
    ]
}

fn node_status(node: View<'_>) -> String {
    // Among several conditions of one type, the last one counts.
    let ready = node.items("/status/conditions").rev().find(|condition| condition.text("/type") == "Ready");
    let status = match ready.map(|condition| condition.text("/status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let cordoned = if node.flag("/spec/unschedulable") { ",SchedulingDisabled" } else { "" };
    format!("{status}{cordoned}")
}

/// `findNodeRoles`.
fn node_roles(node: View<'_>) -> String {
    let role = |(label, value): (&'_ String, &'_ Value)| match label.strip_prefix("node-role.kubernetes.io/") {
        Some(role) => Some(role.to_owned()),
        None if label == "kubernetes.io/role" => value.as_str().map(str::to_owned),
        None => None,
    };
    let labels = node.map("/metadata/labels").into_iter().flatten();
    let roles: BTreeSet<String> = labels.filter_map(role).filter(|role| !role.is_empty()).collect();
    match roles.is_empty() {
        true => "<none>".to_owned(),
        false => roles.into_iter().collect::<Vec<_>>().join(","),
    }
}

fn resource_quota(object: View<'_>) -> Vec<Value> {
    let mut resources: Vec<(&String, &Value)> = object.map("/status/hard").into_iter().flatten().collect();
    resources.sort_by_key(|(name, _)| *name);
    let used = object.map("/status/used");
    let (limits, requests): (Vec<_>, Vec<_>) = resources.into_iter().partition(|(name, _)| name.starts_with("limits."));
    let column = |resources: Vec<(&String, &Value)>| {
        let text = |(name, hard): (&String, &Value)| {
            let used = quantity::shown(used.and_then(|used| used.get(name)));
            format!("{name}: {used}/{}", quantity::shown(Some(hard)))
        };
        resources.into_iter().map(text).collect::<Vec<_>>().join(", ")
    };
    vec![object.name(), json!(column(requests)), json!(column(limits)), object.age()]
}

fn component_status(object: View<'_>) -> Vec<Value> {
    let healthy = object.condition("/conditions", "Healthy");
    let status = match healthy.map(|condition| condition.text("/status")) {
        Some("True") => "Healthy",
        Some(_) => "Unhealthy",
        None => "Unknown",
    };
    let said = |field| healthy.map_or("", |condition| condition.text(field));
    vec![object.name(), json!(status), json!(said("/message")), json!(said("/error"))]
}

/// `REST.ConvertToTable` of the aggregator.
fn api_service(object: View<'_>) -> Vec<Value> {
    let service = match object.has("/spec/service") {
        true => format!("{}/{}", object.text("/spec/service/namespace"), object.text("/spec/service/name")),
        false => "Local".to_owned(),
    };
    let available = object.condition("/status/conditions", "Available");
    let status = available.map_or("Unknown", |condition| condition.text("/status"));
    let shown = match available.map_or("", |condition| condition.text("/reason")) {
        reason if status == "True" || reason.is_empty() => status.to_owned(),
        reason => format!("{status} ({reason})"),
    };
    vec![object.name(), json!(service), json!(shown), object.age()]
}

fn role_binding(object: View<'_>) -> Vec<Value> {
    let subjects = |kind: &str| {
        let of_kind = object.items("/subjects").filter(|subject| subject.text("/kind") == kind);
        let name = |subject: View<'_>| match kind {
            "ServiceAccount" => format!("{}/{}", subject.text("/namespace"), subject.text("/name")),
            _ => subject.text("/name").to_owned(),
        };
        json!(of_kind.map(name).collect::<Vec<_>>().join(", "))
    };
    vec![
        object.name(),
        json!(format!("{}/{}", object.text("/roleRef/kind"), object.text("/roleRef/name"))),
        object.age(),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

fn policy(object: View<'_>, rules: &str) -> Vec<Value> {
    let kind = object
        .has("/spec/paramKind")
        .then(|| format!("{}/{}", object.text("/spec/paramKind/apiVersion"), object.text("/spec/paramKind/kind")));
    let kind = kind.unwrap_or_else(|| "<unset>".to_owned());
    vec![object.name(), json!(object.count(rules)), json!(kind), object.age()]
}

fn policy_binding(object: View<'_>) -> Vec<Value> {
    let parameter = object.part("/spec/paramRef");
    let shown = match (parameter.text("/namespace"), parameter.text("/name")) {
        (_, "") if parameter.has("/selector") => selectors::go_string(parameter.part("/selector")),
        (_, "") => "<unset>".to_owned(),
        // Whether the parameter's kind has namespaces is unknown here.
        ("", name) => format!("*/{name}"),
        (namespace, name) => format!("{namespace}/{name}"),
    };
    vec![object.name(), json!(object.text("/spec/policyName")), json!(shown), object.age()]
}

fn certificate_signing_request(object: View<'_>) -> Vec<Value> {
    let requested = object.optional_number("/spec/expirationSeconds").map(SignedDuration::from_secs);
    let has = |kind| object.condition("/status/conditions", kind).is_some();
    let mut status = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if has("Failed") {
        status.push_str(",Failed");
    }
    if !object.text("/status/certificate").is_empty() {
        status.push_str(",Issued");
    }
    vec![
        object.name(),
        object.age(),
        json!(object.text_or("/spec/signerName", "<none>")),
        json!(object.text("/spec/username")),
        json!(requested.map_or_else(|| "<none>".to_owned(), duration::human)),
        json!(status),
    ]
}

fn flow_schema(object: View<'_>) -> Vec<Value> {
    let dangling = object.condition("/status/conditions", "Dangling");
    let distinguisher =
        if object.has("/spec/distinguisherMethod") { object.text("/spec/distinguisherMethod/type") } else { "<none>" };
    vec![
        object.name(),
        json!(object.text("/spec/priorityLevelConfiguration/name")),
        json!(object.number("/spec/matchingPrecedence")),
        json!(distinguisher),
        object.age(),
        json!(dangling.map_or("?", |condition| condition.text("/status"))),
    ]
}

/// The order of flow schemas in a list, in which they are matched too (`FlowSchemaSequence`).
pub(super) fn flow_schema_order(object: &Value) -> (i64, String) {
    let precedence = object.pointer("/spec/matchingPrecedence").and_then(Value::as_i64).unwrap_or_default();
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    (precedence, name.to_owned())
}

fn priority_level(object: View<'_>) -> Vec<Value> {
    let limited = |present: &str, field: &str| match object.has(present) {
        true => json!(object.number(&format!("{present}/{field}"))),
        false => json!("<none>"),
    };
    let queuing = "/spec/limited/limitResponse/queuing";
    vec![
        object.name(),
        json!(object.text("/spec/type")),
        limited("/spec/limited", "nominalConcurrencyShares"),
        limited(queuing, "queues"),
        limited(queuing, "handSize"),
        limited(queuing, "queueLengthLimit"),
        object.age(),
    ]
}

/// `resourceClaimState`.
fn claim_state(claim: View<'_>) -> String {
    let allocated = claim.has("/status/allocation");
    let mut states = Vec::new();
    if claim.is_terminating() {
        states.push("deleted");
    } else if !allocated {
        states.push("pending");
    }
    if allocated {
        states.push("allocated");
        if claim.count("/status/reservedFor") > 0 {
            states.push("reserved");
        }
    }
    states.join(",")
}
