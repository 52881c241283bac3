//! Parameters of policies.

use super::{Place, merge, pair};
use crate::harness::{User, post};
use serde_json::{Value, json};

/// A policy whose message is its parameter.
fn saying(kind: Value, expression: &str) -> Value {
    json!({"paramKind": kind, "validations": [{"expression": "false", "messageExpression": format!("string({expression})")}]})
}

fn config_maps() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap"})
}

#[test]
fn parameters_are_found_by_name_and_by_selector() {
    let mut place = Place::new("parameters");
    let name = place.name.clone();
    for (parameter, labels) in
        [("limits", json!({"set": "one"})), ("more", json!({"set": "many"})), ("most", json!({"set": "many"}))]
    {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": parameter, "labels": labels}, "data": {"max": parameter}});
        place.policies.push(post(&place.config_maps(), &object));
    }
    let widget = json!({"apiVersion": "policies.e2e.test/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"replicas": 7, "free": {"x": 1.5}}});
    place.policies.push(post(&format!("/apis/policies.e2e.test/v1/namespaces/{name}/widgets"), &widget));
    let max = "params.data.max";
    for (case, kind, expression, reference) in [
        ("name", config_maps(), max, json!({"name": "limits"})),
        (
            "says-kind",
            config_maps(),
            "params.kind + params.apiVersion + params.metadata.name",
            json!({"name": "limits"}),
        ),
        ("namespace", config_maps(), max, json!({"name": "limits", "namespace": name})),
        ("other-namespace", config_maps(), max, json!({"name": "limits", "namespace": "default"})),
        ("selector", config_maps(), max, json!({"selector": {"matchLabels": {"set": "one"}}})),
        ("everything", config_maps(), "'any'", json!({"selector": {}})),
        ("nothing", config_maps(), max, json!({"selector": {"matchLabels": {"set": "none"}}})),
        ("missing", config_maps(), max, json!({"name": "absent"})),
        (
            "cluster",
            json!({"apiVersion": "v1", "kind": "Namespace"}),
            "params.metadata.labels.team",
            json!({"name": name}),
        ),
        (
            "cluster-namespace",
            json!({"apiVersion": "v1", "kind": "Namespace"}),
            "''",
            json!({"name": name, "namespace": name}),
        ),
        (
            "custom",
            json!({"apiVersion": "policies.e2e.test/v1", "kind": "Widget"}),
            "string(params.spec.replicas + 1) + params.kind + string(params.spec.free.x)",
            json!({"name": "w"}),
        ),
        ("unknown", json!({"apiVersion": "nowhere.test/v1", "kind": "Nothing"}), "''", json!({"name": "w"})),
        ("unknown-core", json!({"apiVersion": "v1", "kind": "Nothing"}), "''", json!({"name": "w"})),
    ] {
        for action in ["Deny", "Allow"] {
            let case = format!("{case}-{}", action.to_lowercase());
            let mut reference = reference.clone();
            reference["parameterNotFoundAction"] = action.into();
            place.validating(&case, saying(kind.clone(), expression), json!({ "paramRef": reference }));
            place.tries(&case, json!({}));
        }
    }
    let mut ignoring = saying(json!({"apiVersion": "nowhere.test/v1", "kind": "Nothing"}), "''");
    ignoring["failurePolicy"] = "Ignore".into();
    place.validating("ignored", ignoring, json!({"paramRef": {"name": "w", "parameterNotFoundAction": "Deny"}}));
    place.tries("ignored", json!({}));
    place.validating("unreferenced", saying(config_maps(), "string(params == null)"), json!({}));
    place.tries("unreferenced", json!({}));
    // Configuration errors deny, whatever the actions are.
    place.validating(
        "warning",
        saying(config_maps(), max),
        json!({"validationActions": ["Warn"], "paramRef": {"name": "absent", "parameterNotFoundAction": "Deny"}}),
    );
    place.tries("warning", json!({}));
    let conditional = json!({"matchConditions": [{"name": "c", "expression": "params.data.max == 'other'"}]});
    let mut spec = saying(config_maps(), max);
    merge(&mut spec, conditional);
    place.validating("conditional", spec, json!({"paramRef": {"name": "limits", "parameterNotFoundAction": "Deny"}}));
    place.tries("conditional", json!({}));
    place.compare();
}

#[test]
fn a_request_on_the_cluster_has_no_namespace_to_take_parameters_from() {
    let mut place = Place::new("clusterwide");
    let name = place.name.clone();
    let mut spec = saying(config_maps(), "''");
    spec["matchConstraints"] = json!({"objectSelector": {"matchLabels": {"of": name}}, "resourceRules":
        [{"apiGroups": ["rbac.authorization.k8s.io"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["clusterroles"]}]});
    let reference =
        json!({"paramRef": {"name": "limits", "parameterNotFoundAction": "Deny"}, "validationActions": ["Deny"]});
    place.policy("Validating", "cluster", spec, reference);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name, "labels": {"of": name}}, "rules": []});
    place.step(post("/apis/rbac.authorization.k8s.io/v1/clusterroles?dryRun=All", &role));
    place.compare();
}

#[test]
fn a_kind_that_comes_later_is_found() {
    let mut place = Place::new("later");
    let group = format!("{}.test", place.name);
    let kind = json!({"apiVersion": format!("{group}/v1"), "kind": "Late"});
    place.validating(
        "late",
        saying(kind, "params.spec.text"),
        json!({"paramRef": {"name": "p", "parameterNotFoundAction": "Deny"}}),
    );
    let probe = post(&format!("{}?dryRun=All", place.config_maps()), &place.config_map("late", json!({})));
    let name = place.name.clone();
    place.compare();
    pair().until(&User::admin(), &probe, "failed to find resource referenced by paramKind");
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("lates.{group}")}, "spec": {"group": group, "scope": "Namespaced",
            "names": {"plural": "lates", "singular": "late", "kind": "Late", "listKind": "LateList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
                "properties": {"spec": {"type": "object", "properties": {"text": {"type": "string"}}}}}}}]}});
    pair().set_up(&[post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition)]);
    pair().until(&User::admin(), &probe, "no params found");
    let late = json!({"apiVersion": format!("{group}/v1"), "kind": "Late", "metadata": {"name": "p"}, "spec": {"text": "found at last"}});
    let url = format!("/apis/{group}/v1/namespaces/{name}/lates");
    pair().until(&User::admin(), &post(&url, &late), "already exists");
    pair().until(&User::admin(), &probe, "found at last");
}
