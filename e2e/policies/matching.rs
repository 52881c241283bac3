//! The requests that policies and bindings match.

use super::{Place, holds, merge, pair};
use crate::harness::{User, post, put};
use serde_json::{Value, json};

const DENIES: &str = "false";

#[test]
fn constraints_take_requests() {
    let mut place = Place::new("constraints");
    let rule = |fields: Value| {
        let mut rule =
            json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]});
        merge(&mut rule, fields);
        json!([rule])
    };
    for (case, constraints) in [
        ("names", json!({"resourceRules": rule(json!({"resourceNames": ["names", "other"]}))})),
        ("other-names", json!({"resourceRules": rule(json!({"resourceNames": ["other"]}))})),
        ("excluded", json!({"excludeResourceRules": rule(json!({}))})),
        ("excluded-name", json!({"excludeResourceRules": rule(json!({"resourceNames": ["other"]}))})),
        ("updates", json!({"resourceRules": rule(json!({"operations": ["UPDATE"]}))})),
        ("cluster", json!({"resourceRules": rule(json!({"scope": "Cluster"}))})),
        ("namespaced", json!({"resourceRules": rule(json!({"scope": "Namespaced"}))})),
        ("any", json!({"resourceRules": rule(json!({"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}))})),
        ("subresources", json!({"resourceRules": rule(json!({"resources": ["configmaps/*"]}))})),
        ("elsewhere", json!({"namespaceSelector": {"matchLabels": {"team": "blue"}}})),
        (
            "expression",
            json!({"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "In", "values": ["red"]}]}}),
        ),
    ] {
        let mut spec = holds(DENIES);
        spec["matchConstraints"] = constraints;
        place.judges(case, spec);
    }
    place.tries("names", json!({"metadata": {"name": null, "generateName": "names"}}));
    place.compare();
}

#[test]
fn bindings_take_some_of_them() {
    let mut place = Place::new("bindings");
    for (case, resources) in [
        ("all", json!({})),
        ("objects", json!({"objectSelector": {"matchLabels": {"more": "yes"}}})),
        ("namespaces", json!({"namespaceSelector": {"matchLabels": {"team": "blue"}}})),
        (
            "secrets",
            json!({"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["secrets"]}]}),
        ),
        (
            "not-named",
            json!({"excludeResourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"],
            "resources": ["configmaps"], "resourceNames": ["not-named"]}]}),
        ),
    ] {
        place.validating(case, holds(DENIES), json!({ "matchResources": resources }));
        place.tries(case, json!({}));
        place.tries(case, json!({"metadata": {"name": "other", "labels": {"more": "yes"}}}));
    }
    // A policy without a binding has no effect.
    let mut spec = holds(DENIES);
    spec["matchConstraints"] = place.constraints("unbound");
    place.register("ValidatingAdmissionPolicy", &format!("{}-unbound", place.name.clone()), spec);
    place.tries("unbound", json!({}));
    place.compare();
}

#[test]
fn match_conditions_leave_requests_out() {
    let mut place = Place::new("conditions");
    for (case, policy, conditions) in [
        ("true", "Fail", &["true", "request.operation == 'CREATE'"][..]),
        ("false", "Fail", &["true", "object.data.a == '2'"]),
        ("error", "Fail", &["object.data.absent == '2'", "true"]),
        ("error-ignored", "Ignore", &["object.data.absent == '2'", "true"]),
        ("errors", "Fail", &["object.data.absent == '2'", "object.data.missing == '2'"]),
        ("false-and-error", "Fail", &["object.data.absent == '2'", "false"]),
        ("namespace", "Fail", &["namespaceObject == null"]),
    ] {
        let named =
            |(index, expression): (usize, &&str)| json!({"name": format!("c{index}"), "expression": expression});
        let conditions: Vec<Value> = conditions.iter().enumerate().map(named).collect();
        let mut spec = holds(DENIES);
        merge(&mut spec, json!({"failurePolicy": policy, "matchConditions": conditions}));
        place.judges(case, spec);
    }
    place.compare();
}

#[test]
fn an_equivalent_version_is_matched_and_shown() {
    let mut place = Place::new("equivalent");
    for (case, policy) in [("exact", "Exact"), ("equivalent", "Equivalent")] {
        let spec = json!({"matchConstraints": {"matchPolicy": policy, "objectSelector": {"matchLabels": {"case": case}},
            "namespaceSelector": {"matchLabels": {"place": place.name}},
            "resourceRules": [{"apiGroups": ["policies.e2e.test"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["widgets"]}]},
            "validations": [{"expression": "false", "messageExpression":
                "string(object.apiVersion) + ' ' + request.kind.version + ' ' + request.requestKind.version + ' ' + request.resource.version"}]});
        place.policy("Validating", case, spec, json!({"validationActions": ["Deny"]}));
        for version in ["v1", "v2"] {
            let url = format!("/apis/policies.e2e.test/{version}/namespaces/{}/widgets", place.name);
            let widget = json!({"apiVersion": format!("policies.e2e.test/{version}"), "kind": "Widget",
                "metadata": {"name": case, "labels": {"case": case}}, "spec": {"replicas": 3}});
            place.step(post(&url, &widget));
        }
    }
    place.compare();
}

#[test]
fn policies_see_namespaces_and_no_policies() {
    let mut place = Place::new("scopes");
    let name = place.name.clone();
    let rule = |group: &str, resource: &str| json!({"apiGroups": [group], "apiVersions": ["v1"], "operations": ["*"], "resources": [resource]});
    let spec = json!({"matchConstraints": {"objectSelector": {"matchLabels": {"scope": name}},
            "resourceRules": [rule("", "namespaces"), rule("admissionregistration.k8s.io", "*")]},
        "validations": [{"expression": "false", "messageExpression":
            "request.kind.kind + string(namespaceObject == null) + string(has(request.namespace))"}]});
    place.policy("Validating", "scopes", spec, json!({"validationActions": ["Deny"]}));
    let metadata = json!({"name": format!("{name}-new"), "labels": {"scope": name, "place": name}});
    let mut object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
    place.step(post("/api/v1/namespaces?dryRun=All", &object));
    object["apiVersion"] = "admissionregistration.k8s.io/v1".into();
    for (kind, spec) in [
        ("ValidatingAdmissionPolicyBinding", json!({"policyName": "none", "validationActions": ["Deny"]})),
        ("ValidatingWebhookConfiguration", json!(null)),
    ] {
        object["kind"] = kind.into();
        object["spec"] = spec;
        let url = format!("/apis/admissionregistration.k8s.io/v1/{}s?dryRun=All", kind.to_lowercase());
        place.step(post(&url, &object));
    }
    place.compare();
}

#[test]
fn status_writes_are_another_resource() {
    let mut place = Place::new("status");
    let spec = json!({"matchConstraints": {"namespaceSelector": {"matchLabels": {"place": place.name}},
            "resourceRules": [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["deployments/status", "deployments/scale"]}]},
        "validations": [{"expression": "false", "messageExpression": "request.subResource + ' ' + request.kind.kind + ' ' + string(object.spec.replicas)"}]});
    place.policy("Validating", "status", spec, json!({"validationActions": ["Deny"]}));
    let url = format!("/apis/apps/v1/namespaces/{}/deployments", place.name);
    let labels = json!({"app": "d"});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 2,
        "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "i"}]}}}});
    place.step(post(&url, &deployment));
    place.step(put(&format!("{url}/d/status"), &deployment));
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d", "namespace": place.name}, "spec": {"replicas": 5}});
    place.step(put(&format!("{url}/d/scale"), &scale));
    place.step(put(&format!("{url}/d"), &deployment));
    place.compare();
}

#[test]
fn match_conditions_of_webhooks_leave_requests_out() {
    use crate::harness::Webhook;
    let webhook = Webhook::start();
    let mut place = Place::new("hook-conditions");
    let mut setup = Vec::new();
    for (kind, paths) in [("Validating", "/deny"), ("Mutating", "/label/hooked/yes")] {
        for (case, policy, condition) in [
            (
                "holds",
                "Fail",
                "object.data.a == '1' && request.name == 'holds' && authorizer.requestResource.check('create').allowed()",
            ),
            ("excludes", "Fail", "object.data.a == '2'"),
            ("fails", "Fail", "object.data.absent == '2'"),
            ("ignores", "Ignore", "object.data.absent == '2'"),
        ] {
            let name = format!("{}-{}-{case}", place.name, kind.to_lowercase());
            let mut configuration = webhook.configuration(kind, &name, &place.name, &[paths]);
            merge(
                &mut configuration["webhooks"][0],
                json!({"failurePolicy": policy,
                "namespaceSelector": {"matchLabels": {"place": place.name}}, "objectSelector": {"matchLabels": {"case": format!("{}-{case}", kind.to_lowercase())}},
                "matchConditions": [{"name": "c", "expression": condition.replace("'holds'", &format!("'{}-holds'", kind.to_lowercase()))}]}),
            );
            setup.push(post(
                &format!("/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations", kind.to_lowercase()),
                &configuration,
            ));
            place.tries(&format!("{}-{case}", kind.to_lowercase()), json!({}));
        }
    }
    place.policies.extend(setup);
    let probe = |case: &str| post(&format!("{}?dryRun=All", place.config_maps()), &place.config_map(case, json!({})));
    let ready = [(probe("validating-fails"), "absent"), (probe("mutating-fails"), "absent")];
    let (policies, steps) = (std::mem::take(&mut place.policies), std::mem::take(&mut place.steps));
    pair().set_up(&policies);
    for (request, text) in &ready {
        pair().until(&User::admin(), request, text);
    }
    pair().compare(steps);
}
