//! Types of numbers in expressions: in custom resources a number has the type that the body wrote until something writes it again; in
//! a definition's schema it has the type of the Go field.

use super::{Place, applied, merge, pair, patched};
use crate::harness::{Api, Request, User, Webhook, eventually, patch, post};
use serde_json::{Value, json};

const VERSION: &str = "policies.e2e.test/v1";

/// The numbers of `object`, `oldObject` or `params`, each with its type.
fn told(variable: &str) -> String {
    let number = |map: &str| format!("n + (type({map}[n]) == double ? ' double ' : ' int ') + string({map}[n])");
    let spec = format!("{variable}.spec");
    let named = format!(
        "['ratio', 'replicas', 'scale', 'size'].filter(n, n in {spec}).map(n, {}).join(', ')",
        number(&format!("dyn({spec})"))
    );
    let free = format!("{spec}.free.map(n, {}).sort().join(', ')", number(&format!("{spec}.free")));
    format!("{variable} == null ? 'none' : {named} + (has({spec}.free) ? ' and ' + {free} : '')")
}

/// A widget of a case, with this spec as text.
fn widget(name: &str, case: &str, spec: &str) -> String {
    format!(
        r#"{{"apiVersion": "{VERSION}", "kind": "Widget", "metadata": {{"name": "{name}", "labels": {{"case": "{case}"}}}}, "spec": {spec}}}"#
    )
}

const SPEC: &str = r#"{"ratio": 2.0, "replicas": 4.0, "size": 5.0, "free": {"a": 1e3, "b": 0.0, "c": 7, "d": 2.5, "e": 18446744073709551616, "f": 9007199254740993.0}}"#;

#[test]
fn numbers_of_custom_resources_are_as_they_were_written() {
    let webhook = Webhook::start();
    let mut place = Place::new("numbers");
    let name = place.name.clone();
    let constraints = |case: Value, resources: &[&str]| {
        json!({"namespaceSelector": {"matchLabels": {"place": name}}, "objectSelector": case,
            "resourceRules": [{"apiGroups": ["policies.e2e.test"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": resources}]})
    };
    let saying =
        ["object", "oldObject"].map(|variable| json!({"expression": "false", "messageExpression": told(variable)}));
    let warns = json!({"validationActions": ["Warn"]});
    let spec = json!({"matchConstraints": constraints(json!({}), &["widgets"]), "validations": saying});
    place.policy("Validating", "says", spec, warns.clone());
    let widgets = format!("/apis/{VERSION}/namespaces/{name}/widgets");
    let parameter = Request::new("POST", &widgets).body("application/json", widget("parameter", "none", SPEC));
    place.policies.push(parameter);
    let parameters = json!({"paramKind": {"apiVersion": VERSION, "kind": "Widget"},
        "validations": [{"expression": "false", "messageExpression": told("params")}]});
    let reference = json!({"paramRef": {"name": "parameter", "parameterNotFoundAction": "Deny"}});
    place.validating("parameter", parameters, reference);
    place.tries("parameter", json!({}));

    let seen = format!(r#"Object{{metadata: Object.metadata{{annotations: {{"seen": {}}}}}}}"#, told("object"));
    for (case, mutations) in [
        ("seen", applied(&[&seen])),
        ("merged", applied(&["Object{spec: Object.spec{ratio: 9.0, replicas: 8}}", &seen])),
        (
            "patched",
            patched(&[
                r#"[JSONPatch{op: "add", path: "/spec/ratio", value: 9.0}]"#,
                r#"[JSONPatch{op: "test", path: "/kind", value: "Widget"}]"#,
            ]),
        ),
        ("untouched", patched(&[r#"[JSONPatch{op: "test", path: "/kind", value: "Other"}]"#])),
    ] {
        let matched = constraints(json!({"matchLabels": {"case": case}}), &["widgets"]);
        let spec = json!({"matchConstraints": matched, "reinvocationPolicy": "Never", "mutations": mutations});
        place.policy("Mutating", case, spec, json!({}));
    }
    for (kind, path, case) in [("Mutating", "/label/hooked/yes", "hooked"), ("Validating", "/allow", "asked")] {
        let mut configuration = webhook.configuration(kind, &format!("{name}-{case}"), &name, &[path]);
        let rules = json!([{"operations": ["*"], "apiGroups": ["policies.e2e.test"], "apiVersions": ["*"], "resources": ["widgets"]}]);
        merge(
            &mut configuration["webhooks"][0],
            json!({"rules": rules, "objectSelector": {"matchExpressions": [
            {"key": "case", "operator": "In", "values": ["asked", case]}]}}),
        );
        let url = format!("/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations", kind.to_lowercase());
        place.policies.push(post(&url, &configuration));
    }

    let tried = format!("{widgets}?dryRun=All");
    let body =
        |method: &str, url: &str, content_type: &str, text: String| Request::new(method, url).body(content_type, text);
    for case in ["none", "seen", "merged", "patched", "untouched", "hooked", "asked"] {
        place.step(body("POST", &tried, "application/json", widget("w", case, SPEC)));
    }
    place.step(body("POST", &tried, "application/yaml", widget("w", "seen", SPEC)));
    place.step(body("POST", &widgets, "application/json", widget("w", "none", SPEC)));
    let one = format!("{widgets}/w?dryRun=All");
    place.step(patch(&one, "merge", &json!({"metadata": {"labels": {"case": "seen"}}})));
    place.step(patch(
        &one,
        "merge",
        &json!({"metadata": {"labels": {"case": "asked"}}, "spec": {"ratio": 2.0, "free": {"c": 7.0}}}),
    ));
    place.step(patch(&one, "json", &json!([{"op": "add", "path": "/spec/ratio", "value": 8.0}, {"op": "copy", "from": "/spec/ratio", "path": "/spec/free/g"}])));
    // Without applies of JSON patches to the existing object, whose numbers differ between kube-apiserver's attempts.
    for (name, case) in [
        ("w", "seen"),
        ("seen", "seen"),
        ("w", "merged"),
        ("merged", "merged"),
        ("patched", "patched"),
        ("asked", "asked"),
    ] {
        let url = format!("{widgets}/{name}?fieldManager=me&force=true");
        place.step(body("PATCH", &url, "application/apply-patch+yaml", widget(name, case, SPEC)));
    }
    place.set_up();
    let hooked = body("POST", &tried, "application/json", widget("w", "hooked", "{}"));
    pair().until(&User::admin(), &hooked, r#""hooked":"yes""#);
    let asked = body("POST", &tried, "application/json", widget("w", "asked", "{}"));
    let is_asked = |api: &Api| {
        eventually("webhooks that are asked", || {
            webhook.take();
            api.send(&User::admin(), asked.clone());
            (webhook.take().len() == 2).then_some(())
        });
    };
    pair().compare_asked(&webhook, is_asked, &place.steps);
}

#[test]
fn numbers_of_schemas_are_doubles() {
    let mut place = Place::new("schemas");
    let name = place.name.clone();
    let rules = json!([{"apiGroups": ["apiextensions.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
        "resources": ["customresourcedefinitions"]}]);
    let of = |schema: &str| {
        let schema = format!("object.spec.versions[0].schema.openAPIV3Schema{schema}");
        format!("string(type({schema}) == double) + ' ' + string({schema})")
    };
    let fields = ["maximum", "minimum", "multipleOf", "maxLength"].map(|field| of(&format!(".properties.n.{field}")));
    let nested = [".properties.l.items.maximum", ".properties.m.additionalProperties.maximum", ".properties.n.default"];
    let other = [".properties.n.allOf[0].maximum", ".properties.maximum.minimum", ".properties.n.enum[0]"];
    let told = fields.into_iter().chain(nested.into_iter().chain(other).map(of)).collect::<Vec<_>>().join(" + ', ' + ");
    let spec = json!({
        "matchConstraints": {"resourceRules": rules, "objectSelector": {"matchLabels": {"place": name}}},
        "matchConditions": [{"name": "typed", "expression":
            "type(object.spec.versions[0].schema.openAPIV3Schema.properties.n.maximum) == double"}],
        "validations": [{"expression": "false", "messageExpression": told}]});
    place.policy("Validating", "schemas", spec, json!({"validationActions": ["Warn"]}));
    let (group, plural) = (format!("{name}.e2e.test"), "things");
    let number = json!({"type": "number", "maximum": 5, "minimum": 0, "multipleOf": 0.5, "default": 3, "enum": [3, 4],
        "allOf": [{"maximum": 9}]});
    let properties = json!({"n": number, "maximum": {"type": "integer", "minimum": 1},
        "l": {"type": "array", "items": {"type": "number", "maximum": 7}},
        "m": {"type": "object", "additionalProperties": {"type": "number", "maximum": 8}}});
    let schema = json!({"type": "object", "properties": properties});
    let versions = json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]);
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}"), "labels": {"place": name}},
        "spec": {"group": group, "scope": "Namespaced", "versions": versions,
            "names": {"plural": plural, "singular": "thing", "kind": "Thing", "listKind": "ThingList"}}});
    let url = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All";
    place.step(post(url, &definition));
    place.compare();
}
