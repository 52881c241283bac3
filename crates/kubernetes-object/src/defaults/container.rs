//! Defaults of containers, init containers and ephemeral containers: images, probes, ports, environment.

use super::fields::{Fields, each, embedded, if_nil, if_zero, is_zero, pointer};
use super::image;
use super::pod_resources::round_up;

/// `SetDefaults_Container` and the defaults of nested values.
pub(super) fn apply(container: &mut Fields) {
    image::default_pull_policy(container, "image", "imagePullPolicy");
    if_zero(container, "terminationMessagePath", "/dev/termination-log");
    if_zero(container, "terminationMessagePolicy", "File");
    for port in each(container, "ports") {
        if_zero(port, "protocol", "TCP");
    }
    for variable in each(container, "env") {
        let Some(source) = pointer(variable, "valueFrom") else { continue };
        field_reference(source);
        if let Some(file) = pointer(source, "fileKeyRef") {
            if_nil(file, "optional", false);
        }
    }
    if let Some(resources) = pointer(container, "resources") {
        round_up(resources, "limits");
        round_up(resources, "requests");
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        pointer(container, name).map(probe);
    }
    if let Some(lifecycle) = pointer(container, "lifecycle") {
        for name in ["postStart", "preStop"] {
            pointer(lifecycle, name).and_then(|handler| pointer(handler, "httpGet")).map(http_get);
        }
    }
}

fn probe(probe: &mut Fields) {
    for (name, seconds_or_times) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        if_zero(probe, name, seconds_or_times);
    }
    pointer(probe, "httpGet").map(http_get);
    if let Some(grpc) = pointer(probe, "grpc") {
        if_nil(grpc, "service", "");
    }
}

/// `defaultHTTPProbeProtocol`
pub(super) fn http_protocols(container: &mut Fields) {
    for (holder, names) in
        [("", &["livenessProbe", "readinessProbe", "startupProbe"][..]), ("lifecycle", &["postStart", "preStop"])]
    {
        let holder = if holder.is_empty() { Some(&mut *container) } else { pointer(container, holder) };
        let Some(holder) = holder else { continue };
        for name in names {
            if let Some(action) = pointer(holder, name).and_then(|handler| pointer(handler, "httpGet")) {
                if_nil(action, "protocol", "HTTP1");
            }
        }
    }
}

fn http_get(action: &mut Fields) {
    if_zero(action, "path", "/");
    if_zero(action, "scheme", "HTTP");
}

/// `SetDefaults_ObjectFieldSelector` of a `fieldRef`, if the source has one.
pub(super) fn field_reference(source: &mut Fields) {
    if let Some(reference) = pointer(source, "fieldRef") {
        if_zero(reference, "apiVersion", "v1");
    }
}

/// Sets missing requests to the limits. kube-apiserver does this for pods only, not for templates.
pub(super) fn requests_from_limits(container: &mut Fields) {
    let Some(resources) = pointer(container, "resources") else { return };
    let Some(limits) = resources.get("limits").and_then(serde_json::Value::as_object) else { return };
    let requests = resources.get("requests").and_then(serde_json::Value::as_object);
    let has = |name: &String| requests.is_some_and(|requests| requests.contains_key(name));
    let missing: Vec<_> =
        limits.iter().filter(|(name, _)| !has(name)).map(|(name, amount)| (name.clone(), amount.clone())).collect();
    if !missing.is_empty()
        && let Some(requests) = embedded(resources, "requests")
    {
        requests.extend(missing);
    }
}

/// Sets missing host ports to the container's ports, for pods in the host's network.
pub(super) fn host_ports(container: &mut Fields) {
    for port in each(container, "ports") {
        if !is_zero(port, "containerPort")
            && let Some(number) = port.get("containerPort").cloned()
        {
            if_zero(port, "hostPort", number);
        }
    }
}
