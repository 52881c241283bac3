//! Names of a definition, and the approval of APIs in Kubernetes' groups.

use super::internal::Fields;
use crate::go_text::go_quote;
use crate::names::dns_1035_label_errors;
use crate::status::Cause;
use crate::status::fault;
use crate::structural::validate::Url;

/// `KubeAPIApprovedAnnotation`
const APPROVED: &str = "api-approved.kubernetes.io";

/// The errors of `spec.names` or `status.acceptedNames` (`ValidateCustomResourceDefinitionNames`). An empty name has none.
pub(super) fn check(names: Fields<'_>, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut check = |field: String, name: &str, checked: &str, prefix: &str| {
        let errors = dns_1035_label_errors(checked);
        if !errors.is_empty() {
            causes.push(fault::invalid_text(&field, name, &format!("{prefix}{}", errors.join(","))));
        }
    };
    let at = |field: &str| format!("{path}.{field}");
    let is_given = |field: &str| !names.text(field).is_empty();
    for field in ["plural", "singular"].into_iter().filter(|field| is_given(field)) {
        check(at(field), names.text(field), names.text(field), "");
    }
    for field in ["kind", "listKind"].into_iter().filter(|field| is_given(field)) {
        let name = names.text(field);
        check(at(field), name, &name.to_lowercase(), "may have mixed case, but should otherwise match: ");
    }
    for field in ["shortNames", "categories"] {
        for (index, name) in names.texts(field).enumerate() {
            check(format!("{path}.{field}[{index}]"), name, name, "");
        }
    }
    let kind = names.text("kind");
    if !kind.is_empty() && kind == names.text("listKind") {
        causes.push(fault::invalid_text(&at("listKind"), kind, "kind and listKind may not be the same"));
    }
    causes
}

/// The state of an approval (`APIApprovalState`).
#[derive(Clone, Copy, PartialEq)]
enum Approval {
    Missing,
    Bypassed,
    Approved,
    Invalid,
}

impl Approval {
    fn of(annotation: &str) -> Self {
        let has_host = |url: Url<'_>| !url.host.is_empty() && !url.scheme.is_empty();
        match annotation {
            "" => Self::Missing,
            text if text.starts_with("unapproved") => Self::Bypassed,
            text if Url::parse_request(text).is_ok_and(has_host) => Self::Approved,
            _ => Self::Invalid,
        }
    }
}

/// The approval of a definition, as its condition `KubernetesAPIApprovalPolicyConformant` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalState {
    /// The status of the condition KubernetesAPIApprovalPolicyConformant.
    pub is_approved: bool,
    /// The reason of the condition.
    pub reason: &'static str,
    /// The message of the condition.
    pub message: String,
}

/// `calculateCondition`
pub(super) fn approval_state(definition: Fields<'_>) -> Option<ApprovalState> {
    if !is_protected(definition.object("spec")?.text("group")) {
        return None;
    }
    let text = annotation(definition);
    let must = format!("protected groups must have approval annotation {}", go_quote(APPROVED));
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    let (reason, message) = match Approval::of(text) {
        Approval::Missing => ("MissingAnnotation", format!("{must}, {see}")),
        Approval::Bypassed => ("UnapprovedAnnotation", format!("not approved: {}", go_quote(text))),
        Approval::Approved => ("ApprovedAnnotation", format!("approved in {text}")),
        Approval::Invalid => {
            ("InvalidAnnotation", format!("{must} with either a URL or a reason starting with \"unapproved\", {see}"))
        }
    };
    Some(ApprovalState { is_approved: reason == "ApprovedAnnotation", reason, message })
}

/// `IsProtectedCommunityGroup`
fn is_protected(group: &str) -> bool {
    let is_within = |own: &str| group == own || group.strip_suffix(own).is_some_and(|rest| rest.ends_with('.'));
    ["k8s.io", "kubernetes.io"].into_iter().any(is_within)
}

/// The error of a definition in a group of Kubernetes without an approval (`validateAPIApproval`). An update may keep its approval.
pub(super) fn approval(definition: Fields<'_>, old: Option<Fields<'_>>) -> Option<Cause> {
    let group = definition.object("spec")?.text("group");
    if !is_protected(group) {
        return None;
    }
    let text = annotation(definition);
    let state = Approval::of(text);
    if old.is_some_and(|old| Approval::of(annotation(old)) == state) {
        return None;
    }
    let field = format!("metadata.annotations[{APPROVED}]");
    let must = format!("protected groups must have approval annotation {}", go_quote(APPROVED));
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    match state {
        Approval::Missing => Some(fault::required(&field, &format!("{must}, {see}"))),
        Approval::Invalid => {
            let why = format!("{must} with either a URL or a reason starting with \"unapproved\", {see}");
            Some(fault::invalid_text(&field, text, &why))
        }
        Approval::Approved | Approval::Bypassed => None,
    }
}

fn annotation(definition: Fields<'_>) -> &str {
    let metadata = definition.object("metadata");
    metadata.and_then(|metadata| metadata.object("annotations")).map_or("", |annotations| annotations.text(APPROVED))
}
