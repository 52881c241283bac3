//! CertificateSigningRequests (`pkg/apis/certificates/validation`), and the names of signers.

use super::formats::any_name;
use super::metadata;
use super::node::{Causes, Node};
use crate::go_text::go_quote;
use crate::names::{dns_1123_label_errors, dns_1123_subdomain_errors};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::collections::HashSet;

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// `ValidateSignerName`
pub(super) fn signer_name(node: &Node<'_>, out: &mut Causes) {
    const MAX_DOMAIN_BYTES: usize = 253;
    const MAX_BYTES: usize = 571;
    if !out.require(node) {
        return;
    }
    let parts: Vec<&str> = node.text().split('/').collect();
    let [domain, path] = parts[..] else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return out.text(node, why);
    };
    if domain.len() > MAX_DOMAIN_BYTES {
        out.too_long(node, MAX_DOMAIN_BYTES);
    }
    labels(node, domain, &|label| dns_1123_label_errors(label), out);
    if !domain.contains('.') {
        out.invalid(node, go_quote(domain), "should be a domain with at least two segments separated by dots");
    }
    labels(node, path, &|label| dns_1123_subdomain_errors(label), out);
    if node.len() > MAX_BYTES {
        out.too_long(node, MAX_BYTES);
    }
}

/// The errors of the first invalid label.
fn labels(node: &Node<'_>, text: &str, errors: &dyn Fn(&str) -> Vec<String>, out: &mut Causes) {
    let wrong = text.split('.').map(|label| (label, errors(label))).find(|(_, errors)| !errors.is_empty());
    for (label, why) in wrong.iter().flat_map(|(label, errors)| errors.iter().map(move |why| (label, why))) {
        out.invalid(node, go_quote(text), &format!("validating label {}: {why}", go_quote(label)));
    }
}

/// `ValidateCertificateSigningRequestCreate` and its updates. The signature of the request is not verified.
pub(super) fn signing_request(object: &Node<'_>, old: Option<&Node<'_>>, subresource: &str, out: &mut Causes) {
    metadata::check(object, false, any_name, out);
    let spec = object.at("spec");
    let request = spec.at("request");
    let bytes = STANDARD.decode(request.text()).unwrap_or_default();
    if !String::from_utf8_lossy(&bytes).contains("-----BEGIN CERTIFICATE REQUEST-----") {
        out.value(&request, "PEM block type must be CERTIFICATE REQUEST");
    }
    let usages = spec.at("usages");
    out.require(&usages);
    let mut known = HashSet::new();
    for usage in usages.items() {
        out.one_of(&usage, &USAGES);
        if !known.insert(usage.text()) {
            out.duplicate(&usage);
        }
    }
    let signer = spec.at("signerName");
    if signer.text() == "kubernetes.io/legacy-unknown" {
        out.text(&signer, "the legacy signerName is not allowed via this API version");
    } else {
        signer_name(&signer, out);
    }
    let seconds = spec.at("expirationSeconds");
    if seconds.is_given() && seconds.int() < 600 {
        out.int(&seconds, "may not specify a duration less than 600 seconds (10 minutes)");
    }
    conditions(object, out);
    certificate(object, out);
    if let Some(old) = old {
        changes(object, old, subresource, out);
        metadata::check_update(object, old, out);
    }
}

fn conditions(object: &Node<'_>, out: &mut Causes) {
    let list = object.under(&["status", "conditions"]);
    let mut known = HashSet::new();
    for condition in list.items() {
        let (kind, status) = (condition.at("type"), condition.at("status"));
        out.require(&kind);
        let is_final = matches!(kind.text(), "Approved" | "Denied" | "Failed");
        let allowed: &[&str] = if is_final { &["True"] } else { &["False", "True", "Unknown"] };
        out.required_one_of(&status, allowed);
        let other = match kind.text() {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "",
        };
        if !other.is_empty() && known.contains(other) {
            out.text(&kind.on(&list), "Approved and Denied conditions are mutually exclusive");
        }
        if !known.insert(kind.text()) {
            out.duplicate(&kind);
        }
    }
}

fn certificate(object: &Node<'_>, out: &mut Causes) {
    let node = object.under(&["status", "certificate"]);
    let bytes = STANDARD.decode(node.text()).unwrap_or_default();
    if !bytes.is_empty() && !String::from_utf8_lossy(&bytes).contains("-----BEGIN CERTIFICATE-----") {
        let why = "must contain at least one CERTIFICATE PEM block";
        out.invalid(&node, "\"<certificate data>\"", why);
    }
}

/// The errors of conditions and certificates that only some subresources may change.
fn changes(object: &Node<'_>, old: &Node<'_>, subresource: &str, out: &mut Causes) {
    let status = object.at("status");
    let of = |object: &Node<'_>, kind: &str| -> Vec<serde_json::Value> {
        let conditions = object.under(&["status", "conditions"]).items();
        conditions.filter(|each| each.at("type").text() == kind).map(|each| each.value().clone()).collect()
    };
    for kind in ["Approved", "Denied", "Failed"] {
        if of(object, kind).len() < of(old, kind).len() {
            let why = format!("updates may not remove a condition of type {kind:?}");
            out.forbidden(&status.at("conditions"), &why);
        }
    }
    for kind in ["Approved", "Denied"].into_iter().filter(|_| subresource != "approval") {
        let (new, before) = (of(object, kind), of(old, kind));
        if new.len() > before.len() {
            let why = format!("updates may not add a condition of type {kind:?}");
            out.forbidden(&status.at("conditions"), &why);
        } else if new.len() == before.len() && new != before {
            let why = format!("updates may not modify a condition of type {kind:?}");
            out.forbidden(&status.at("conditions"), &why);
        }
    }
    let (new, before) = (status.at("certificate"), old.under(&["status", "certificate"]));
    if new.text() != before.text() {
        if subresource != "status" {
            out.forbidden(&new, "updates may not set certificate content");
        } else if !before.is_empty() {
            out.forbidden(&new, "updates may not modify existing certificate content");
        }
    }
}
