//! APIServices (`k8s.io/kube-aggregator/pkg/apis/apiregistration/validation`).

use super::metadata;
use super::node::{Causes, Node};
use crate::go_text::go_quote;
use crate::names::{dns_1035_label_errors, dns_1123_subdomain_errors, path_segment_errors};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// `ValidateAPIService`, `ValidateAPIServiceUpdate`, `ValidateAPIServiceStatusUpdate`
pub(super) fn api_service(object: &Node<'_>, old: Option<&Node<'_>>, subresource: &str, out: &mut Causes) {
    if let Some(old) = old {
        metadata::check_update_generic(object, old, out);
    }
    if subresource == "status" {
        for condition in object.under(&["status", "conditions"]).items() {
            out.one_of(&condition.at("status"), &["True", "False", "Unknown"]);
        }
        return;
    }
    let spec = object.at("spec");
    let (group, version) = (spec.at("group"), spec.at("version"));
    let required = format!("{}.{}", version.text(), group.text());
    let names = |name: &str, _is_prefix: bool| {
        let errors = path_segment_errors(name);
        let is_wrong = errors.is_empty() && name != required;
        let wrong = is_wrong.then(|| format!("must be `spec.version+\".\"+spec.group`: {}", go_quote(&required)));
        errors.into_iter().chain(wrong).collect()
    };
    metadata::check_generic_by(object, false, &names, out);
    if group.is_empty() && version.text() != "v1" {
        out.required(&group, "only v1 may have an empty group and it better be legacy kube");
    }
    if !group.is_empty() {
        out.texts(&group, dns_1123_subdomain_errors(group.text()));
    }
    out.texts(&version, dns_1035_label_errors(version.text()));
    for (field, most) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1000)] {
        let priority = spec.at(field);
        if priority.int() <= 0 || priority.int() > most {
            out.int(&priority, &format!("must be positive and less than {most}"));
        }
    }
    let (service, bundle, insecure) = (spec.at("service"), spec.at("caBundle"), spec.at("insecureSkipTLSVerify"));
    if !service.is_given() {
        if !bundle.is_empty() {
            let bytes = STANDARD.decode(bundle.text()).map_or(bundle.len(), |bytes| bytes.len());
            out.invalid(&bundle, go_quote(&format!("{bytes} bytes")), "local APIServices may not have a caBundle");
        }
        if insecure.is_true() {
            out.invalid(&insecure, true, "local APIServices may not have insecureSkipTLSVerify");
        }
        return;
    }
    for field in ["namespace", "name"] {
        out.require(&service.at(field));
    }
    let port = service.at("port");
    if !(1..=65_535).contains(&port.int()) {
        out.int(&port, "port is not valid: must be between 1 and 65535, inclusive");
    }
    if insecure.is_true() && !bundle.is_empty() {
        out.invalid(&insecure, true, "may not be true if caBundle is present");
    }
}
