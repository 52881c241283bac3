//! OpenAPI v2 and v3 of custom resources (`builder.BuildOpenAPIV2`, `builder.BuildOpenAPIV3`).

use super::{CustomDocument, Operations, Parts, Writers, meta_schemas, v2_schema};
use crate::embedded::api::catalog::{ServedResource, group_version_path};
use crate::embedded::custom::resource::Custom;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const SCALE_MODEL: &str = "io.k8s.api.autoscaling.v1.Scale";
const SCALE: &str = "#/components/schemas/io.k8s.api.autoscaling.v1.Scale";
const STATUS: &str = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const PATCH: &str = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

/// A version of OpenAPI.
#[derive(Clone, Copy, PartialEq)]
enum Dialect {
    V2,
    V3,
}

impl Dialect {
    fn pointer(self, model: &str) -> String {
        match self {
            Self::V2 => format!("#/definitions/{model}"),
            Self::V3 => format!("#/components/schemas/{model}"),
        }
    }

    /// A schema that refers to another. In v3 a reference has no other keywords beside it.
    fn reference(self, model: &str, description: &str) -> Value {
        match self {
            Self::V2 => json!({"$ref": self.pointer(model), "description": description}),
            Self::V3 => json!({"allOf": [{"$ref": self.pointer(model)}], "description": description}),
        }
    }
}

/// The documents of the resources by name, such as `apis/example.com/v1`. Documents of unchanged resources are taken from `before`.
pub(in crate::embedded) fn documents<'r>(
    resources: impl Iterator<Item = &'r Arc<ServedResource>>,
    before: Option<&BTreeMap<String, Arc<CustomDocument>>>,
) -> BTreeMap<String, Arc<CustomDocument>> {
    let mut by_version: BTreeMap<String, Vec<Arc<ServedResource>>> = BTreeMap::new();
    let is_established = |resource: &&Arc<ServedResource>| {
        resource.custom.as_ref().is_some_and(|custom| custom.definition.is_established)
    };
    for resource in resources.filter(is_established) {
        let name = format!("apis/{}/{}", resource.group, resource.version);
        by_version.entry(name).or_default().push(resource.clone());
    }
    let document = |(name, resources): (String, Vec<Arc<ServedResource>>)| {
        let same = before.and_then(|before| before.get(&name)).filter(|before| before.is_of(&resources));
        let document = same.cloned().unwrap_or_else(|| Arc::new(CustomDocument::new(resources, WRITERS)));
        (name, document)
    };
    by_version.into_iter().map(document).collect()
}

const WRITERS: Writers = Writers { v3: write, v2: write_v2 };

/// The part of OpenAPI v2 of the resources of one version.
fn write_v2(resources: &[Arc<ServedResource>]) -> Parts {
    let mut parts = Parts::default();
    for resource in resources {
        let Some(custom) = &resource.custom else { continue };
        let [object, list] = [&*resource.kind, custom.list_kind()].map(|kind| model(resource, kind));
        let definition_of = |name| if name == "scale" { SCALE_MODEL } else { &object };
        let operations = Operations {
            group: &resource.group,
            version: &resource.version,
            kind: &resource.kind,
            plural: &resource.name,
            is_namespaced: resource.namespaced,
            models: [&object, &list],
            subresources: resource.subresources.iter().map(|each| (&*each.name, definition_of(&*each.name))).collect(),
        };
        parts.paths.extend(operations.paths());
        add_schemas(resource, custom, Dialect::V2, &mut parts.definitions);
    }
    parts
}

/// The document of the resources of one version.
fn write(resources: &[Arc<ServedResource>]) -> Vec<u8> {
    let mut paths = Map::new();
    let mut schemas = meta_schemas().clone();
    for resource in resources {
        let Some(custom) = &resource.custom else { continue };
        add_paths(resource, &mut paths);
        add_schemas(resource, custom, Dialect::V3, &mut schemas);
    }
    let info = json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"});
    let whole = json!({"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}});
    serde_json::to_vec(&whole).unwrap_or_default()
}

/// `gvkToModelName`: `dev.lab.v1.Foo`.
fn model(resource: &ServedResource, kind: &str) -> String {
    let group: Vec<&str> = resource.group.rsplit('.').collect();
    format!("{}.{}.{kind}", group.join("."), resource.version)
}

fn add_schemas(resource: &ServedResource, custom: &Custom, dialect: Dialect, schemas: &mut Map<String, Value>) {
    let kind_of = |kind: &str| json!([{"group": &*resource.group, "version": &*resource.version, "kind": kind}]);
    let text = |description: &str| json!({"type": "string", "description": description});
    let is_free = |schema: &Value| schema.get(PRESERVE) == Some(&Value::Bool(true));
    let mut object = match custom.version.raw_schema() {
        None => json!({"type": "object"}),
        // kubectl takes the properties for all that an object can have.
        Some(schema) if dialect == Dialect::V2 && is_free(schema) => json!({"type": "object"}),
        Some(schema) => {
            let mut schema = if dialect == Dialect::V2 { v2_schema(schema).into() } else { schema.clone() };
            add_embedded(&mut schema, dialect);
            add_properties(&mut schema, [API_VERSION, KIND], dialect);
            schema
        }
    };
    let selectable: Vec<_> = custom.selectable().map(|name| json!({"fieldPath": name})).collect();
    let name = model(resource, &resource.kind);
    let items = json!({
        "type": "array",
        "items": {"$ref": dialect.pointer(&name)},
        "description": format!("List of {}. More info: \
            https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md", resource.name),
    });
    let metadata = dialect.reference(
        LIST_META,
        "Standard list metadata. More info: \
         https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds",
    );
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

const API_VERSION_OF_EMBEDDED: &str = "apiVersion defines the versioned schema of this representation of an object. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const KIND_OF_EMBEDDED: &str = "kind is a string value representing the type of this object. In CamelCase. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const METADATA: &str = "Standard object's metadata. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";

/// Adds the fields that every object has, with the descriptions of `apiVersion` and `kind`.
fn add_properties(schema: &mut Value, descriptions: [&str; 2], dialect: Dialect) {
    let Some(fields) = schema.as_object_mut() else { return };
    let properties = fields.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        for (name, description) in ["apiVersion", "kind"].into_iter().zip(descriptions) {
            properties.insert(name.to_owned(), json!({"type": "string", "description": description}));
        }
        properties.insert("metadata".to_owned(), dialect.reference(OBJECT_META, METADATA));
    }
}

/// Adds the fields of objects to embedded resources (`addEmbeddedProperties`).
fn add_embedded(schema: &mut Value, dialect: Dialect) {
    let Some(fields) = schema.as_object_mut() else { return };
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(|property| add_embedded(property, dialect));
    }
    for name in ["items", "additionalProperties"] {
        fields.get_mut(name).into_iter().for_each(|inner| add_embedded(inner, dialect));
    }
    let is = |name: &str| fields.get(name) == Some(&Value::Bool(true));
    if !is("x-kubernetes-embedded-resource") || (dialect == Dialect::V2 && is(PRESERVE)) {
        return;
    }
    if let Some(required) = fields.entry("required").or_insert_with(|| json!([])).as_array_mut() {
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|given| given == name) {
                required.push(name.into());
            }
        }
    }
    add_properties(schema, [API_VERSION_OF_EMBEDDED, KIND_OF_EMBEDDED], dialect);
}

fn add_paths(resource: &ServedResource, paths: &mut Map<String, Value>) {
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

fn operation(resource: &ServedResource, action: &str, of: &str) -> Value {
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
