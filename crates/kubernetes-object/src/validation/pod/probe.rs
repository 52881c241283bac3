//! Probes and lifecycle handlers of containers.

use super::super::formats::{header_errors, port, port_number};
use super::super::node::{Causes, Node};

const HANDLERS: [&str; 5] = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

/// The errors of all probes and of the lifecycle of a container.
pub(super) fn check(container: &Node<'_>, pod: &Node<'_>, out: &mut Causes) {
    let grace = pod.at("terminationGracePeriodSeconds").optional_int();
    if let Some(lifecycle) = container.at("lifecycle").given() {
        self::lifecycle(&lifecycle, grace, out);
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = container.at(name).given() else { continue };
        self::probe(&probe, grace, out);
        let (successes, termination) = (probe.at("successThreshold"), probe.at("terminationGracePeriodSeconds"));
        if name == "readinessProbe" {
            if termination.is_given() {
                out.int(&termination, "must not be set for readinessProbes");
            }
        } else if successes.int() != 1 {
            out.int(&successes, "must be 1");
        }
    }
}

/// `validateProbe`
fn probe(probe: &Node<'_>, grace: Option<i64>, out: &mut Causes) {
    handler(probe, &HANDLERS[..4], grace, out);
    for field in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        out.non_negative(&probe.at(field));
    }
    let termination = probe.at("terminationGracePeriodSeconds");
    if termination.optional_int().is_some_and(|seconds| seconds <= 0) {
        out.int(&termination, "must be greater than 0");
    }
}

/// `validateLifecycle`, without `stopSignal`, which kube-apiserver drops without its feature gate.
fn lifecycle(lifecycle: &Node<'_>, grace: Option<i64>, out: &mut Causes) {
    for handler in ["postStart", "preStop"].into_iter().filter_map(|field| lifecycle.at(field).given()) {
        self::handler(&handler, &["exec", "httpGet", "tcpSocket", "sleep"], grace, out);
    }
}

/// `validateHandler`
fn handler(handler: &Node<'_>, kinds: &[&'static str], grace: Option<i64>, out: &mut Causes) {
    let mut has_one = false;
    for kind in kinds {
        let Some(action) = handler.at(kind).given() else { continue };
        if std::mem::replace(&mut has_one, true) {
            out.forbidden(&action, "may not specify more than 1 handler type");
            continue;
        }
        match *kind {
            "exec" => drop(out.require(&action.at("command"))),
            "httpGet" => http_get(&action, out),
            "tcpSocket" => port(&action.at("port"), out),
            "grpc" => port_number(&action.at("port"), out),
            _ => sleep(&action, grace, out),
        }
    }
    if !has_one {
        out.required(handler, "must specify a handler type");
    }
}

fn http_get(action: &Node<'_>, out: &mut Causes) {
    out.require(&action.at("path"));
    port(&action.at("port"), out);
    out.one_of(&action.at("scheme"), &["HTTP", "HTTPS"]);
    let headers = action.at("httpHeaders");
    for header in headers.items() {
        out.texts(&header.at("name").on(&headers), header_errors(header.at("name").text()));
    }
}

fn sleep(action: &Node<'_>, grace: Option<i64>, out: &mut Causes) {
    let seconds = action.at("seconds").int();
    if let Some(grace) = grace.filter(|grace| seconds < 0 || seconds > *grace) {
        let why = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        out.invalid(action, seconds, &why);
    }
}
