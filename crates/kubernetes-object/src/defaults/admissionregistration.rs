//! Defaults of the admissionregistration.k8s.io group.

use super::fields::{Fields, each, embedded, if_nil, pointer};

pub(super) fn apply(version: &str, kind: &str, object: &mut Fields) {
    match (version, kind) {
        ("v1", "MutatingWebhookConfiguration") => {
            for webhook in each(object, "webhooks") {
                if_nil(webhook, "reinvocationPolicy", "Never");
                self::webhook(webhook);
            }
        }
        ("v1", "ValidatingWebhookConfiguration") => each(object, "webhooks").for_each(webhook),
        ("v1", "ValidatingAdmissionPolicy") | (_, "MutatingAdmissionPolicy") => {
            let Some(spec) = embedded(object, "spec") else { return };
            if_nil(spec, "failurePolicy", "Fail");
            pointer(spec, "matchConstraints").map(resources);
        }
        ("v1", "ValidatingAdmissionPolicyBinding") | (_, "MutatingAdmissionPolicyBinding") => {
            let Some(spec) = pointer(object, "spec") else { return };
            pointer(spec, "matchResources").map(resources);
            if version == "v1alpha1"
                && let Some(reference) = pointer(spec, "paramRef")
            {
                if_nil(reference, "parameterNotFoundAction", "Deny");
            }
        }
        _ => {}
    }
}

fn webhook(webhook: &mut Fields) {
    if_nil(webhook, "failurePolicy", "Fail");
    if_nil(webhook, "timeoutSeconds", 10);
    matching(webhook);
    if let Some(service) = pointer(webhook, "clientConfig").and_then(|config| pointer(config, "service")) {
        if_nil(service, "port", 443);
    }
    each(webhook, "rules").for_each(rule);
}

fn resources(resources: &mut Fields) {
    matching(resources);
    each(resources, "resourceRules").for_each(rule);
    each(resources, "excludeResourceRules").for_each(rule);
}

/// Sets the defaults that webhooks and policies share.
fn matching(fields: &mut Fields) {
    if_nil(fields, "matchPolicy", "Equivalent");
    if_nil(fields, "namespaceSelector", Fields::new());
    if_nil(fields, "objectSelector", Fields::new());
}

fn rule(rule: &mut Fields) {
    if_nil(rule, "scope", "*");
}
