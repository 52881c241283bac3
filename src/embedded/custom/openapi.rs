//! OpenAPI v3 of custom resources (`builder.BuildOpenAPIV3`).

use super::super::catalog::{Resource, group_version_path};
use super::super::openapi::{CustomDocument, meta_schemas};
use super::resource::Custom;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const OBJECT_META: &str = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const SCALE: &str = "#/components/schemas/io.k8s.api.autoscaling.v1.Scale";
const STATUS: &str = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const PATCH: &str = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
/// The documents of the resources by name, such as `apis/example.com/v1`. Documents of unchanged resources are taken from `before`.
pub(super) fn documents<'r>(
    resources: impl Iterator<Item = &'r Arc<Resource>>,
    before: Option<&BTreeMap<String, Arc<CustomDocument>>>,
) -> BTreeMap<String, Arc<CustomDocument>> {
    let mut by_version: BTreeMap<String, Vec<Arc<Resource>>> = BTreeMap::new();
    let is_established =
        |resource: &&Arc<Resource>| resource.custom.as_ref().is_some_and(|custom| custom.definition.is_established);
    for resource in resources.filter(is_established) {
        let name = format!("apis/{}/{}", resource.group, resource.version);
        by_version.entry(name).or_default().push(resource.clone());
    }
    let document = |(name, resources): (String, Vec<Arc<Resource>>)| {
        let same = before.and_then(|before| before.get(&name)).filter(|before| before.is_of(&resources));
        let document = same.cloned().unwrap_or_else(|| Arc::new(CustomDocument::new(resources, write)));
        (name, document)
    };
    by_version.into_iter().map(document).collect()
}

/// The document of the resources of one version.
fn write(resources: &[Arc<Resource>]) -> Vec<u8> {
    let mut paths = Map::new();
    let mut schemas = meta_schemas().clone();
    for resource in resources {
        let Some(custom) = &resource.custom else { continue };
        add_paths(resource, &mut paths);
        add_schemas(resource, custom, &mut schemas);
    }
    let info = json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"});
    let whole = json!({"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}});
    serde_json::to_vec(&whole).unwrap_or_default()
}

/// `gvkToModelName`: `dev.lab.v1.Foo`.
fn model(resource: &Resource, kind: &str) -> String {
    let group: Vec<&str> = resource.group.rsplit('.').collect();
    format!("{}.{}.{kind}", group.join("."), resource.version)
}

fn add_schemas(resource: &Resource, custom: &Custom, schemas: &mut Map<String, Value>) {
    let kind_of = |kind: &str| json!([{"group": &*resource.group, "version": &*resource.version, "kind": kind}]);
    let text = |description: &str| json!({"type": "string", "description": description});
    let mut object = match custom.version.raw_schema() {
        None => json!({"type": "object"}),
        Some(schema) => {
            let mut schema = published(schema);
            let reference = json!({"allOf": [{"$ref": OBJECT_META}], "description": "Standard object's metadata. More info: \
                https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"});
            add_properties(&mut schema, reference);
            schema
        }
    };
    let selectable: Vec<_> = custom.selectable().map(|name| json!({"fieldPath": name})).collect();
    let name = model(resource, &resource.kind);
    let items = json!({
        "type": "array",
        "items": {"$ref": format!("#/components/schemas/{name}")},
        "description": format!("List of {}. More info: \
            https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md", resource.name),
    });
    let metadata = json!({"allOf": [{"$ref": LIST_META}], "description": "Standard list metadata. More info: \
        https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds"});
    let mut list = json!({
        "type": "object",
        "description": format!("{} is a list of {}", custom.list_kind(), resource.kind),
        "required": ["items"],
        "properties": {"apiVersion": text(API_VERSION), "kind": text(KIND), "metadata": metadata, "items": items},
    });
    for (schema, kind) in [(&mut object, &resource.kind), (&mut list, custom.list_kind())] {
        let Some(fields) = schema.as_object_mut() else { continue };
        fields.insert("x-kubernetes-group-version-kind".to_owned(), kind_of(kind));
        if !selectable.is_empty() {
            fields.insert("x-kubernetes-selectable-fields".to_owned(), selectable.clone().into());
        }
    }
    schemas.insert(model(resource, custom.list_kind()), list);
    schemas.insert(name, object);
}

const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object. Servers should convert \
    recognized schemas to the latest internal value, and may reject unrecognized values. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer this from the \
    endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";

/// Adds the fields that every object has.
fn add_properties(schema: &mut Value, metadata: Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    let properties = fields.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        properties.insert("apiVersion".to_owned(), json!({"type": "string", "description": API_VERSION}));
        properties.insert("kind".to_owned(), json!({"type": "string", "description": KIND}));
        properties.insert("metadata".to_owned(), metadata);
    }
}

/// A schema as OpenAPI v3 has it: embedded resources have the fields of objects.
fn published(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (name.clone(), published_field(name, value)));
            let mut schema: Map<String, Value> = fields.collect();
            if schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)) {
                let mut whole = Value::Object(std::mem::take(&mut schema));
                add_properties(&mut whole, json!({"allOf": [{"$ref": OBJECT_META}]}));
                return whole;
            }
            Value::Object(schema)
        }
        other => other.clone(),
    }
}

fn published_field(name: &str, value: &Value) -> Value {
    match (name, value) {
        ("properties", Value::Object(properties)) => {
            properties.iter().map(|(name, property)| (name.clone(), published(property))).collect()
        }
        ("items" | "additionalProperties" | "not", value) => published(value),
        ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => schemas.iter().map(published).collect(),
        (_, value) => value.clone(),
    }
}

fn add_paths(resource: &Resource, paths: &mut Map<String, Value>) {
    let root = group_version_path(&resource.group, &resource.version);
    let namespace = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("{root}{namespace}/{}", resource.name);
    let own = format!("#/components/schemas/{}", model(resource, &resource.kind));
    let list = resource.custom.as_ref().map(|custom| model(resource, custom.list_kind())).unwrap_or_default();
    let list = format!("#/components/schemas/{list}");
    let mut add = |path: String, actions: &[(&str, &str, &str)]| {
        let mut item: Map<String, Value> = actions
            .iter()
            .map(|(method, action, of)| ((*method).to_owned(), operation(resource, action, of)))
            .collect();
        let in_path = |name: &&str| path.contains(&format!("{{{name}}}"));
        let parameters = ["namespace", "name"].into_iter().filter(in_path).map(|name| {
            json!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "uniqueItems": true}})
        });
        let parameters: Vec<_> = parameters.collect();
        if !parameters.is_empty() {
            item.insert("parameters".to_owned(), parameters.into());
        }
        paths.insert(path, Value::Object(item));
    };
    if resource.namespaced {
        add(format!("{root}/{}", resource.name), &[("get", "list", &list)]);
    }
    add(collection.clone(), &[("get", "list", &list), ("post", "post", &own), ("delete", "deletecollection", STATUS)]);
    let on_object =
        [("get", "get", &*own), ("put", "put", &own), ("patch", "patch", &own), ("delete", "delete", STATUS)];
    add(format!("{collection}/{{name}}"), &on_object);
    for subresource in &resource.subresources {
        let of = if &*subresource.name == "scale" { SCALE } else { &own };
        let actions = [("get", "get", of), ("put", "put", of), ("patch", "patch", of)];
        add(format!("{collection}/{{name}}/{}", subresource.name), &actions);
    }
}

fn operation(resource: &Resource, action: &str, of: &str) -> Value {
    let content = |of: &str, types: &[&str]| -> Value {
        types.iter().map(|media_type| ((*media_type).to_owned(), json!({"schema": {"$ref": of}}))).collect()
    };
    let types = ["application/json", "application/yaml"];
    let mut operation = json!({
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind":
            {"group": &*resource.group, "version": &*resource.version, "kind": &*resource.kind},
        "responses": {"200": {"description": "OK", "content": content(of, &types)}},
    });
    let Some(fields) = operation.as_object_mut() else { return operation };
    // kubectl sends --dry-run and --validate to a server only if the operation has these parameters.
    let names: &[&str] = match action {
        "post" | "put" => &["dryRun", "fieldManager", "fieldValidation"],
        "patch" => &["dryRun", "fieldManager", "fieldValidation", "force"],
        "delete" => &["dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy"],
        "list" | "deletecollection" => {
            &["continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "timeoutSeconds", "watch"]
        }
        _ => &["resourceVersion"],
    };
    let parameter = |name: &&str| {
        let of = match *name {
            "limit" | "timeoutSeconds" | "gracePeriodSeconds" => "integer",
            "watch" | "force" | "orphanDependents" => "boolean",
            _ => "string",
        };
        json!({"name": name, "in": "query", "schema": {"type": of, "uniqueItems": true}})
    };
    fields.insert("parameters".to_owned(), names.iter().map(parameter).collect());
    let body = match action {
        "post" | "put" => content(of, &types),
        "patch" => {
            let types = ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];
            content(PATCH, &types)
        }
        _ => return operation,
    };
    fields.insert("requestBody".to_owned(), json!({"content": body}));
    operation
}
