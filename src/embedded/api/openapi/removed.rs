//! OpenAPI v2 and v3 of the removed APIs, from their definitions.

use super::{Document, Operations, swagger};
use crate::embedded::api::catalog::group_version_path;
use crate::object::release;
use crate::removed::Api;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The documents of these APIs by name: `apis/settings.k8s.io/v1alpha1`.
pub(super) fn documents(apis: &[&'static Api]) -> BTreeMap<String, Document> {
    let mut parts: BTreeMap<String, Parts> = BTreeMap::new();
    for api in apis {
        let parts = parts.entry(format!("apis/{}/{}", api.group, api.version)).or_default();
        parts.paths.extend(paths_of(api));
        parts.schemas.extend(schemas_of(api, "#/components/schemas/"));
    }
    parts.into_iter().map(|(name, parts)| (name, parts.document())).collect()
}

/// The part of OpenAPI v2 of these APIs.
pub(super) fn v2(apis: &[&'static Api]) -> swagger::Parts {
    let mut parts = swagger::Parts::default();
    for api in apis {
        let name = schema_name(api);
        let list = format!("{name}List");
        let operations = Operations {
            group: api.group,
            version: api.version,
            kind: api.kind,
            plural: api.plural,
            is_namespaced: api.is_namespaced(),
            models: [&name, &list],
            subresources: Vec::new(),
        };
        parts.paths.extend(operations.paths());
        for (name, schema) in schemas_of(api, "#/definitions/") {
            parts.definitions.insert(name, swagger::schema(&schema).into());
        }
    }
    parts
}

/// The parts of a document.
#[derive(Default)]
struct Parts {
    paths: Map<String, Value>,
    schemas: Map<String, Value>,
}

impl Parts {
    fn document(self) -> Document {
        let info = json!({"title": "Kubernetes", "version": format!("v{}", release::version())});
        let components = json!({"schemas": self.schemas});
        let whole = json!({"openapi": "3.0.0", "info": info, "paths": self.paths, "components": components});
        Document::new(serde_json::to_vec(&whole).unwrap_or_default())
    }
}

/// The name of the kind's schema, as in the documents of its last release.
fn schema_name(api: &Api) -> String {
    let group = api.group.split('.').next().unwrap_or_default();
    format!("io.k8s.api.{group}.{}.{}", api.version, api.kind)
}

/// The schemas of an object and of a list; references begin with `prefix`.
fn schemas_of(api: &Api, prefix: &str) -> [(String, Value); 2] {
    let kind =
        |suffix: &str| json!([{"group": api.group, "version": api.version, "kind": format!("{}{suffix}", api.kind)}]);
    let mut object = api.schema().clone();
    if let Some(fields) = object.as_object_mut() {
        fields.insert("x-kubernetes-group-version-kind".to_owned(), kind(""));
    }
    let name = schema_name(api);
    let text = || json!({"type": "string"});
    let items = json!({"type": "array", "items": {"$ref": format!("{prefix}{name}")}});
    let list = json!({
        "type": "object",
        "required": ["items"],
        "properties": {"apiVersion": text(), "kind": text(), "metadata": {"type": "object"}, "items": items},
        "x-kubernetes-group-version-kind": kind("List"),
    });
    [(format!("{name}List"), list), (name, object)]
}

fn paths_of(api: &Api) -> Vec<(String, Value)> {
    let namespace = if api.is_namespaced() { "/namespaces/{namespace}" } else { "" };
    let root = group_version_path(api.group, api.version);
    let collection = format!("{root}{namespace}/{}", api.plural);
    let operations = |of: &[(&str, &str)]| -> Value {
        Value::Object(of.iter().map(|(method, action)| ((*method).to_owned(), operation(api, action))).collect())
    };
    let on_collection = operations(&[("get", "list"), ("post", "post"), ("delete", "deletecollection")]);
    let on_object = operations(&[("get", "get"), ("put", "put"), ("patch", "patch"), ("delete", "delete")]);
    let mut paths = vec![(collection.clone(), on_collection), (format!("{collection}/{{name}}"), on_object)];
    if api.is_namespaced() {
        paths.push((format!("{root}/{}", api.plural), operations(&[("get", "list")])));
    }
    paths
}

fn operation(api: &Api, action: &str) -> Value {
    let mut operation = json!({
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {"group": api.group, "version": api.version, "kind": api.kind},
        "responses": {"200": {"description": "OK"}},
    });
    // kubectl sends --dry-run and --validate to a server only if the operation has these parameters.
    let names: &[&str] = match action {
        "post" | "put" | "patch" => &["dryRun", "fieldManager", "fieldValidation"],
        "delete" | "deletecollection" => &["dryRun"],
        _ => &[],
    };
    let parameter =
        |name: &&str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    if let (false, Some(fields)) = (names.is_empty(), operation.as_object_mut()) {
        fields.insert("parameters".to_owned(), names.iter().map(parameter).collect());
    }
    operation
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::removed;

    #[test]
    fn each_api_has_a_document_that_kubectl_can_explain() {
        let documents = documents(&removed::ALL);
        let names: Vec<&str> = documents.keys().map(String::as_str).collect();
        let expected =
            ["apis/admissionregistration.k8s.io/v1alpha1", "apis/policy/v1beta1", "apis/settings.k8s.io/v1alpha1"];
        assert_eq!(names, expected);
        let document: Value = serde_json::from_slice(&documents["apis/settings.k8s.io/v1alpha1"].body).unwrap();
        let schema = &document["components"]["schemas"]["io.k8s.api.settings.v1alpha1.PodPreset"];
        assert_eq!(schema["x-kubernetes-group-version-kind"][0]["kind"], "PodPreset");
        assert_eq!(schema["properties"]["spec"]["properties"]["envFrom"]["type"], "array");
        let path = "/apis/settings.k8s.io/v1alpha1/namespaces/{namespace}/podpresets/{name}";
        assert_eq!(document["paths"][path]["patch"]["parameters"][0]["name"], "dryRun");
    }
}
