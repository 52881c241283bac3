//! Events of both API groups.

use super::formats::{qualified_name, subdomain};
use super::metadata;
use super::node::{Causes, Node, internal, is_equal};
use serde_json::{Value, json};

/// `legacyValidateEvent`, `ValidateEventCreate` and `ValidateEventUpdate`. Events of `events.k8s.io` have other names for some fields.
pub(super) fn event(object: &Node<'_>, old: Option<&Node<'_>>, is_new_api: bool, out: &mut Causes) {
    let root = Node::root(&Value::Null);
    let named = |field: &'static str, of_core: &'static str| {
        object.at(if is_new_api { field } else { of_core }).on(&root.at(of_core))
    };
    let (regarding, namespace) =
        (named("regarding", "involvedObject"), object.under(&["metadata", "namespace"]).text());
    let about = regarding.at("namespace");
    let controller = if is_new_api { object.at("reportingController") } else { object.at("reportingComponent") };
    let message = named("note", "message");
    const DIFFERENT: &str = "does not match event.namespace";
    if object.at("eventTime").is_given() {
        if about.is_empty() && !matches!(namespace, "default" | "kube-system") {
            out.text(&about, DIFFERENT);
        }
        out.require(&controller);
        qualified_name(&controller, out);
        let long = |node: &Node<'_>, most: usize, out: &mut Causes| {
            if node.len() > most {
                out.invalid(node, "\"\"", &format!("can have at most {most} characters"));
            }
        };
        for field in ["reportingInstance", "action", "reason"].map(|field| object.at(field)) {
            out.require(&field);
            long(&field, 128, out);
        }
        long(&message, 1024, out);
    } else {
        let is_wrong = if about.is_empty() { !matches!(namespace, "" | "default") } else { about.text() != namespace };
        if is_wrong {
            out.text(&about, DIFFERENT);
        }
    }
    let own = Value::from(namespace);
    let node = root.at("namespace").with(&own);
    out.texts(&node, crate::names::dns_1123_subdomain_errors(namespace));
    if is_new_api {
        new_event(object, old, &regarding, &message, out);
    }
}

fn new_event(object: &Node<'_>, old: Option<&Node<'_>>, about: &Node<'_>, message: &Node<'_>, out: &mut Causes) {
    const REFERENCE: &str = "Kind:kind Namespace:namespace Name:name UID:uid APIVersion:apiVersion \
        ResourceVersion:resourceVersion FieldPath:fieldPath";
    let root = Node::root(&Value::Null);
    let series = object.at("series");
    let series_errors = |out: &mut Causes| {
        if series.is_given() {
            if series.at("count").int() < 2 {
                out.invalid(&root.at("series.count"), "\"\"", "should be at least 2");
            }
            if !series.at("lastObservedTime").is_given() {
                out.required(&root.at("series.lastObservedTime"), "");
            }
        }
    };
    let source = object.at("deprecatedSource").on(&root.at("source"));
    let (first, last, count) = (
        object.at("deprecatedFirstTimestamp").on(&root.at("firstTimestamp")),
        object.at("deprecatedLastTimestamp").on(&root.at("lastTimestamp")),
        object.at("deprecatedCount").on(&root.at("count")),
    );
    let Some(old) = old else {
        metadata::check(object, true, subdomain, out);
        series_errors(out);
        if !object.at("eventTime").is_given() {
            out.required(&object.at("eventTime"), "");
        }
        let kind = object.at("type");
        if !matches!(kind.text(), "Normal" | "Warning") {
            out.invalid(&kind, "\"\"", &format!("has invalid value: {}", kind.text()));
        }
        let has_source = !source.at("component").is_empty() || !source.at("host").is_empty();
        for (node, is_set) in
            [(first, None), (last, None), (count.clone(), Some(count.int() != 0)), (source, Some(has_source))]
        {
            if is_set.unwrap_or(node.is_given()) {
                out.invalid(&node, "\"\"", "needs to be unset");
            }
        }
        return;
    };
    metadata::check_update(object, old, out);
    if !is_equal(series.value(), old.at("series").value()) {
        series_errors(out);
    }
    out.immutable_as(about, &old.at("regarding"), REFERENCE);
    out.immutable_text(&object.at("reason"), &old.at("reason"));
    out.immutable_text(message, &old.at("note"));
    if !is_equal(source.value(), old.at("deprecatedSource").value()) {
        let shown = match source.is_given() {
            true => internal(&source, "Component:component Host:host"),
            false => json!({"Component": "", "Host": ""}).to_string(),
        };
        out.invalid(&source, shown, super::node::IMMUTABLE);
    }
    out.immutable(&first, &old.at("deprecatedFirstTimestamp"));
    out.immutable(&last, &old.at("deprecatedLastTimestamp"));
    if count.int() != old.at("deprecatedCount").int() {
        out.int(&count, super::node::IMMUTABLE);
    }
    out.immutable_text(&object.at("reason"), &old.at("reason"));
    out.immutable_text(&object.at("type"), &old.at("type"));
    out.immutable(&object.at("eventTime"), &old.at("eventTime"));
    out.immutable_text(&object.at("action"), &old.at("action"));
    out.immutable_as(&object.at("related"), &old.at("related"), REFERENCE);
    out.immutable_text(&object.at("reportingController"), &old.at("reportingController"));
    out.immutable_text(&object.at("reportingInstance"), &old.at("reportingInstance"));
}
