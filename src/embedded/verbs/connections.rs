//! Connections to pods, nodes and services. Nothing runs here to connect to, so a request gets kube-apiserver's answer as far as that depends
//! on objects alone, and 501 otherwise.

use crate::body::{self, Body};
use crate::embedded::http::call::Call;
use crate::embedded::store::Reads;
use crate::embedded::strategies::collections::{NODES, PODS};
use crate::go_text::time::{Layout, canonical};
use crate::kind::GroupVersionKind;
use crate::object::Object;
use crate::status::{Cause, Status, invalid};
use http::{Response, StatusCode};
use std::net::IpAddr;

/// The subresources that are connections.
pub(in crate::embedded) const SUBRESOURCES: [&str; 5] = ["attach", "exec", "portforward", "proxy", "log"];

/// Responds to a connection.
///
/// # Errors
/// 501, unless kube-apiserver refuses the request before it connects.
pub(in crate::embedded) fn connect(call: &Call) -> Result<Response<Body>, Status> {
    let is_of_pod = call.collection() == PODS;
    if is_of_pod && call.info.subresource == "log" {
        check_log_options(call)?;
    }
    let object = call.server.store.object(call.collection(), &call.key());
    let object = object.ok_or_else(|| call.not_found())?;
    if is_of_pod && let Some(response) = to_pod(call, &object)? {
        return Ok(response);
    }
    let what = format!("{}/{}", call.resource.name, call.info.subresource);
    let text = format!("the embedded API server runs no pods and no nodes, so it cannot serve {what}");
    Err(Status::failure(501, "NotImplemented", text))
}

/// The answer to a request for a pod that is on no node, or on a node that does not exist (`LogLocation`, `streamLocation`,
/// `PortForwardLocation`, `ResourceLocation`).
///
/// # Errors
/// 400 if the container is not in the pod, or the pod is not on a node; 404 if there is no such node.
fn to_pod(call: &Call, pod: &Object) -> Result<Option<Response<Body>>, Status> {
    let subresource = call.info.subresource.as_str();
    match subresource {
        "proxy" => return check_address(pod).map(|()| None),
        "portforward" => {}
        _ => check_container(pod, &call.parameter("container").unwrap_or_default())?,
    }
    let node = pod.str(&["spec", "nodeName"]);
    match (node, subresource) {
        ("", "log") => {
            let mut response = Response::new(body::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            Ok(Some(response))
        }
        ("", _) => Err(Status::bad_request(format!("pod {} does not have a host assigned", pod.name()))),
        // kube-apiserver reads the node in the context of the request, so the error names the resource of the request.
        _ => match call.server.store.object(NODES, node) {
            None => Err(Status::not_found("", "pods", node)),
            Some(_) => Ok(None),
        },
    }
}

/// The check of the pod's address in `ResourceLocation`.
fn check_address(pod: &Object) -> Result<(), Status> {
    let first = pod.items(&["status", "podIPs"]).first().and_then(|address| address.get("ip")?.as_str());
    let address = first.unwrap_or_else(|| pod.str(&["status", "podIP"]));
    match address.parse().is_ok_and(is_global_unicast) {
        true => Ok(()),
        false => Err(Status::bad_request("address not allowed")),
    }
}

/// `net.IP.IsGlobalUnicast`
fn is_global_unicast(address: IpAddr) -> bool {
    let is_link_local = match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !(is_link_local || address.is_unspecified() || address.is_loopback() || address.is_multicast())
}

/// `validateContainer`
fn check_container(pod: &Object, wanted: &str) -> Result<(), Status> {
    let lists = [["spec", "initContainers"], ["spec", "containers"], ["spec", "ephemeralContainers"]];
    let all = lists.iter().flat_map(|list| pod.items(list));
    let names: Vec<&str> = all.filter_map(|container| container.get("name")?.as_str()).collect();
    let pod_name = pod.name();
    let why = match (wanted, pod.items(&["spec", "containers"]).len()) {
        ("", 1) => return Ok(()),
        ("", 0) => format!("a container name must be specified for pod {pod_name}"),
        ("", _) => {
            let names = names.join(" ");
            format!("a container name must be specified for pod {pod_name}, choose one of: [{names}]")
        }
        _ if names.contains(&wanted) => return Ok(()),
        _ => format!("container {wanted} is not valid for pod {pod_name}"),
    };
    Err(Status::bad_request(why))
}

/// Parses and validates the options of a log (`ValidatePodLogOptions`).
///
/// # Errors
/// 400 if a value cannot be parsed, 422 if one is not allowed.
fn check_log_options(call: &Call) -> Result<(), Status> {
    let since_seconds = call.number("sinceSeconds")?;
    let since_time = call.parameter("sinceTime");
    if let Some(time) = since_time.as_deref().filter(|time| !matches!(*time, "" | "null")) {
        canonical(time, Layout::Seconds).map_err(|why| Status::bad_request(why.to_string()))?;
    }
    let (tail_lines, limit_bytes) = (call.number("tailLines")?, call.number("limitBytes")?);
    let at_least = |field: &str, number: Option<i64>, least: i64, why: &str| {
        let number = number.filter(|number| *number < least)?;
        Some(invalid::invalid(field, &number.to_string(), why))
    };
    let since = match since_time {
        Some(_) if since_seconds.is_some() => {
            Some(invalid::forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
        }
        _ => at_least("sinceSeconds", since_seconds, 1, "must be greater than 0"),
    };
    // The feature gate PodLogsQuerySplitStreams is off by default.
    let stream = call.parameter("stream").map(|_| invalid::forbidden("stream", "may not be specified"));
    let causes: Vec<Cause> = [
        at_least("tailLines", tail_lines, 0, "must be greater than or equal to 0"),
        at_least("limitBytes", limit_bytes, 1, "must be greater than 0"),
        since,
        stream,
    ]
    .into_iter()
    .flatten()
    .collect();
    let kind = GroupVersionKind::new("", "v1", "PodLogOptions");
    invalid::status(&kind, &call.info.name, causes).map_or(Ok(()), Err)
}
