//! Services and related kinds: endpoints, slices, ingresses, network policies, addresses.

use super::selectors;
use super::view::View;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The number of a list's items in a cell.
const MAX_SHOWN: usize = 3;

pub(super) fn cells(name: &str, object: View<'_>) -> Option<Vec<Value>> {
    Some(match name {
        "ingresses" => ingress(object),
        "ingressclasses" => ingress_class(object),
        "networkpolicies" => {
            vec![object.name(), json!(selectors::formatted(object.part("/spec/podSelector"))), object.age()]
        }
        "servicecidrs" => vec![object.name(), json!(object.texts("/spec/cidrs").join(",")), object.age()],
        // One cell more than columns, as in kube-apiserver.
        "ipaddresses" => vec![object.name(), json!(parent(object)), object.age()],
        _ => return None,
    })
}

pub(super) fn service(object: View<'_>) -> Vec<Value> {
    let ports: Vec<String> = object.items("/spec/ports").map(service_port).collect();
    let ports = if ports.is_empty() { "<none>".to_owned() } else { ports.join(",") };
    vec![
        object.name(),
        json!(object.text("/spec/type")),
        json!(object.at("/spec/clusterIPs/0").and_then(Value::as_str).unwrap_or("<none>")),
        json!(external_ip(object)),
        json!(ports),
        object.age(),
        json!(selectors::labels(object.map("/spec/selector"))),
    ]
}

fn service_port(port: View<'_>) -> String {
    let (number, protocol) = (port.number("/port"), port.text_or("/protocol", "TCP"));
    match port.number("/nodePort") {
        0 => format!("{number}/{protocol}"),
        node_port => format!("{number}:{node_port}/{protocol}"),
    }
}

/// `getServiceExternalIP`.
fn external_ip(service: View<'_>) -> String {
    let external = service.texts("/spec/externalIPs").join(",");
    match service.text("/spec/type") {
        "ClusterIP" | "NodePort" if external.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => external,
        "LoadBalancer" => match (load_balancer(service), external.as_str()) {
            (balancer, "") if balancer.is_empty() => "<pending>".to_owned(),
            (balancer, "") => balancer,
            (balancer, _) if balancer.is_empty() => external,
            (balancer, _) => format!("{balancer},{external}"),
        },
        "ExternalName" => service.text("/spec/externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

fn load_balancer(object: View<'_>) -> String {
    let ingress = object.items("/status/loadBalancer/ingress");
    let points: BTreeSet<&str> = ingress.map(|point| point.text_or("/ip", point.text("/hostname"))).collect();
    points.into_iter().filter(|point| !point.is_empty()).collect::<Vec<_>>().join(",")
}

pub(super) fn endpoints(object: View<'_>) -> Vec<Value> {
    vec![object.name(), json!(subsets(object)), object.age()]
}

/// `formatEndpoints`.
fn subsets(object: View<'_>) -> String {
    if object.count("/subsets") == 0 {
        return "<none>".to_owned();
    }
    let mut all = Vec::new();
    for subset in object.items("/subsets") {
        let addresses = subset.items("/addresses").map(|address| address.text("/ip"));
        if subset.count("/ports") == 0 {
            all.extend(addresses.map(str::to_owned));
            continue;
        }
        for port in subset.items("/ports") {
            let port = port.number("/port");
            all.extend(subset.items("/addresses").map(|address| host_port(address.text("/ip"), port)));
        }
    }
    with_more(all, "")
}

fn host_port(host: &str, port: i64) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// The first items of a list, and the number of the others.
fn with_more(all: Vec<String>, if_empty: &str) -> String {
    match all.len().checked_sub(MAX_SHOWN) {
        None | Some(0) if all.iter().all(String::is_empty) => if_empty.to_owned(),
        None | Some(0) => all.join(","),
        Some(more) => format!("{} + {more} more...", all.get(..MAX_SHOWN).unwrap_or_default().join(",")),
    }
}

pub(super) fn endpoint_slice(object: View<'_>) -> Vec<Value> {
    let port = |port: View<'_>| match (port.optional_number("/port"), port.at("/name").and_then(Value::as_str)) {
        (Some(number), _) => number.to_string(),
        (None, Some(name)) => name.to_owned(),
        (None, None) => "*".to_owned(),
    };
    let ports = object.items("/ports").map(port).collect();
    let addresses = object.items("/endpoints").flat_map(|endpoint| endpoint.texts("/addresses")).map(str::to_owned);
    vec![
        object.name(),
        json!(object.text("/addressType")),
        json!(with_more(ports, "<unset>")),
        json!(with_more(addresses.collect(), "<unset>")),
        object.age(),
    ]
}

fn ingress(object: View<'_>) -> Vec<Value> {
    vec![
        object.name(),
        json!(object.at("/spec/ingressClassName").and_then(Value::as_str).unwrap_or("<none>")),
        json!(hosts(object)),
        json!(load_balancer(object)),
        json!(if object.count("/spec/tls") == 0 { "80" } else { "80, 443" }),
        object.age(),
    ]
}

/// `formatHosts`: rules without a host count as "more", but are not listed.
fn hosts(ingress: View<'_>) -> String {
    let mut shown: Vec<&str> = Vec::new();
    let mut more = false;
    for rule in ingress.items("/spec/rules") {
        more |= shown.len() == MAX_SHOWN;
        let host = rule.text("/host");
        if !more && !host.is_empty() {
            shown.push(host);
        }
    }
    match (shown.is_empty(), more) {
        (true, _) => "*".to_owned(),
        (false, false) => shown.join(","),
        (false, true) => format!("{} + {} more...", shown.join(","), ingress.count("/spec/rules") - MAX_SHOWN),
    }
}

fn ingress_class(object: View<'_>) -> Vec<Value> {
    let is_default = object.annotation("ingressclass.kubernetes.io/is-default-class") == Some("true");
    let parameters = object.at("/spec/parameters").map(|_| {
        let parameters = object.part("/spec/parameters");
        let group = parameters.at("/apiGroup").and_then(Value::as_str).map(|group| format!(".{group}"));
        format!("{}{}/{}", parameters.text("/kind"), group.unwrap_or_default(), parameters.text("/name"))
    });
    vec![
        object.name_with_default(is_default),
        json!(object.text("/spec/controller")),
        json!(parameters.unwrap_or_else(|| "<none>".to_owned())),
        object.age(),
    ]
}

fn parent(address: View<'_>) -> String {
    if !address.has("/spec/parentRef") {
        return "<none>".to_owned();
    }
    let parent = address.part("/spec/parentRef");
    let resource = crate::status::group_resource(parent.text("/group"), parent.text("/resource")).to_lowercase();
    match parent.text("/namespace") {
        "" => format!("{resource}/{}", parent.text("/name")),
        namespace => format!("{resource}/{namespace}/{}", parent.text("/name")),
    }
}
