//! The paths and definitions of OpenAPI v2 that a server has in addition to the recorded ones.

use super::{Document, V2, V2_PROTO, protobuf};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// A part of a document of OpenAPI v2.
#[derive(Clone, Default)]
pub(in crate::embedded) struct Parts {
    pub(in crate::embedded) paths: Map<String, Value>,
    pub(in crate::embedded) definitions: Map<String, Value>,
}

impl Parts {
    /// Adds other parts.
    pub(super) fn extend(&mut self, other: Self) {
        self.paths.extend(other.paths);
        self.definitions.extend(other.definitions);
    }

    /// Whether there are neither paths nor definitions.
    pub(super) fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.definitions.is_empty()
    }

    /// The recorded document with these parts, in JSON. A recorded path or definition has priority over one of the parts (`MergeSpecs`).
    pub(super) fn json(&self) -> Document {
        Document::new(self.merged().unwrap_or_else(|| V2.body.to_vec()))
    }

    fn merged(&self) -> Option<Vec<u8>> {
        let mut whole: BTreeMap<&str, &RawValue> = serde_json::from_slice(&V2.body).ok()?;
        let with = |recorded: &RawValue, added: &Map<String, Value>| {
            let mut all: BTreeMap<&str, &RawValue> = serde_json::from_str(recorded.get()).ok()?;
            let added: Vec<_> = added
                .iter()
                .filter_map(|(name, value)| Some((name, serde_json::value::to_raw_value(value).ok()?)))
                .collect();
            for (name, value) in &added {
                all.entry(name).or_insert(value);
            }
            serde_json::value::to_raw_value(&all).ok()
        };
        let paths = with(whole.get("paths")?, &self.paths)?;
        let definitions = with(whole.get("definitions")?, &self.definitions)?;
        whole.insert("paths", &paths);
        whole.insert("definitions", &definitions);
        serde_json::to_vec(&whole).ok()
    }

    /// The recorded document with these parts, in protobuf. Messages in protobuf are merged by writing them one after another.
    pub(super) fn protobuf(&self) -> Document {
        Document::new([&V2_PROTO.body[..], &protobuf::document(&self.paths, &self.definitions)].concat())
    }
}

/// A resource as its operations show it.
pub(in crate::embedded) struct Operations<'a> {
    pub(in crate::embedded) group: &'a str,
    pub(in crate::embedded) version: &'a str,
    pub(in crate::embedded) kind: &'a str,
    pub(in crate::embedded) plural: &'a str,
    pub(in crate::embedded) is_namespaced: bool,
    /// The names of the definitions of an object and of a list.
    pub(in crate::embedded) models: [&'a str; 2],
    /// The subresources, each with the name of its definition.
    pub(in crate::embedded) subresources: Vec<(&'a str, &'a str)>,
}

const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const BODY_OF_DELETE: &str = "body-2Y1dVQaQ";
const BODY_OF_PATCH: &str = "body-78PwaGsr";
const MANAGER: &str = "fieldManager-Qy4HdaTW";
const MANAGER_OF_PATCH: &str = "fieldManager-7c6nTn1T";
const PRETTY: &str = "pretty-tJGM1-ng";
const NAMESPACE: &str = "namespace-vgWSWtn3";
const RESOURCE_VERSION: &str = "resourceVersion-5WAnf1kx";
/// The options of lists (`metav1.ListOptions`), which kube-openapi orders by name.
const LIST_OPTIONS: [&str; 11] = [
    "allowWatchBookmarks-HC2hJt-J",
    "continue-QfD61s0i",
    "fieldSelector-xIcQKXFG",
    "labelSelector-5Zw57w4C",
    "limit-1NfNmdNH",
    RESOURCE_VERSION,
    "resourceVersionMatch-t8XhRHeC",
    "sendInitialEvents-rLXlEK_k",
    "shardSelector-Kgyki_3_",
    "timeoutSeconds-yvYezaOC",
    "watch-XNNPZGbK",
];
const DELETE_OPTIONS: [&str; 4] = [
    "gracePeriodSeconds--K5HaBOS",
    "ignoreStoreReadErrorWithClusterBreakingPotential-QbNkfIqj",
    "orphanDependents-uRB25kX5",
    "propagationPolicy-6jk3prlO",
];

/// An operation of a path.
#[derive(Clone, Copy)]
struct Action<'a> {
    /// The HTTP method, in lower case.
    method: &'a str,
    /// The name in `x-kubernetes-action`.
    name: &'a str,
    /// The verb of the operation's ID.
    verb: &'a str,
    /// The model of the answer.
    model: &'a str,
}

impl Operations<'_> {
    /// The paths of the resource with their operations (`builder.generateBuilder`).
    pub(in crate::embedded) fn paths(&self) -> Map<String, Value> {
        let root = format!("/apis/{}/{}", self.group, self.version);
        let namespace = if self.is_namespaced { "/namespaces/{namespace}" } else { "" };
        let collection = format!("{root}{namespace}/{}", self.plural);
        let [object, list] = self.models;
        let mut paths = Map::new();
        if self.is_namespaced {
            // The options of the only operation are those of the path, in the order of their names.
            let mut options = LIST_OPTIONS.to_vec();
            options.insert(5, PRETTY);
            let mut operation = self.operation("list", "list", list, "ForAllNamespaces", "");
            operation.remove("parameters");
            let item = json!({"get": operation, "parameters": options.into_iter().map(shared).collect::<Vec<_>>()});
            paths.insert(format!("{root}/{}", self.plural), item);
        }
        let on_collection = [
            Action { method: "get", name: "list", verb: "list", model: list },
            Action { method: "post", name: "post", verb: "create", model: object },
            Action { method: "delete", name: "deletecollection", verb: "deletecollection", model: STATUS },
        ];
        paths.insert(collection.clone(), self.item(&on_collection, false, ""));
        let on_object = [
            Action { method: "get", name: "get", verb: "read", model: object },
            Action { method: "put", name: "put", verb: "replace", model: object },
            Action { method: "patch", name: "patch", verb: "patch", model: object },
            Action { method: "delete", name: "delete", verb: "delete", model: STATUS },
        ];
        paths.insert(format!("{collection}/{{name}}"), self.item(&on_object, true, ""));
        for (name, of) in &self.subresources {
            let on_subresource = on_object[..3].iter().map(|action| Action { model: of, ..*action });
            let on_subresource: Vec<_> = on_subresource.collect();
            paths.insert(format!("{collection}/{{name}}/{name}"), self.item(&on_subresource, true, name));
        }
        paths
    }

    fn item(&self, actions: &[Action<'_>], has_name: bool, subresource: &str) -> Value {
        let operation = |of: &Action<'_>| self.operation(of.name, of.verb, of.model, "", subresource);
        let mut item: Map<String, Value> =
            actions.iter().map(|action| (action.method.to_owned(), Value::Object(operation(action)))).collect();
        let mut parameters = Vec::new();
        if has_name {
            parameters
                .push(json!({"name": "name", "in": "path", "required": true, "type": "string", "uniqueItems": true}));
        }
        if self.is_namespaced {
            parameters.push(shared(NAMESPACE));
        }
        parameters.push(shared(PRETTY));
        item.insert("parameters".to_owned(), parameters.into());
        Value::Object(item)
    }

    /// An operation; `verb` is the verb of its ID (`openapi.GetOperationIDAndTags`).
    fn operation(&self, action: &str, verb: &str, of: &str, suffix: &str, subresource: &str) -> Map<String, Value> {
        let group = self.group.strip_suffix(".k8s.io").unwrap_or(self.group);
        let scope = if self.is_namespaced && suffix.is_empty() { "Namespaced" } else { "" };
        let verb_of_id = if verb == "deletecollection" { "delete" } else { verb };
        let collection = if verb == "deletecollection" { "Collection" } else { "" };
        let id = format!(
            "{verb_of_id}{}{}{collection}{scope}{}{}{suffix}",
            identifier(group, true),
            identifier(self.version, true),
            self.kind,
            identifier(subresource, true)
        );
        let yaml = ["application/json", "application/yaml"];
        let patches = ["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];
        let reference = json!({"$ref": format!("#/definitions/{of}")});
        let mut responses = Map::new();
        responses.insert("200".to_owned(), json!({"description": "OK", "schema": reference}));
        if matches!(action, "post" | "put") {
            responses.insert("201".to_owned(), json!({"description": "Created", "schema": reference}));
        }
        if matches!(action, "post" | "delete") {
            responses.insert("202".to_owned(), json!({"description": "Accepted", "schema": reference}));
        }
        responses.insert("401".to_owned(), json!({"description": "Unauthorized"}));
        let mut operation = Map::new();
        let mut set = |name: &str, value: Value| operation.insert(name.to_owned(), value);
        set("consumes", if action == "patch" { json!(patches) } else { json!(yaml) });
        set("produces", json!(yaml));
        set("schemes", json!(["https"]));
        set("tags", json!([format!("{}_{}", identifier(group, false), identifier(self.version, false))]));
        set("operationId", id.into());
        set("responses", responses.into());
        set("x-kubernetes-action", action.into());
        set(
            "x-kubernetes-group-version-kind",
            json!({"group": self.group, "version": self.version, "kind": self.kind}),
        );
        set("parameters", parameters(action, &reference).into());
        operation
    }
}

fn parameters(action: &str, reference: &Value) -> Vec<Value> {
    let text = |name: &str| json!({"name": name, "in": "query", "type": "string", "uniqueItems": true});
    match action {
        "list" | "deletecollection" => LIST_OPTIONS.into_iter().map(shared).collect(),
        "post" | "put" => {
            let body = json!({"name": "body", "in": "body", "required": true, "schema": reference});
            vec![body, text("dryRun"), shared(MANAGER), text("fieldValidation")]
        }
        "patch" => {
            let force = shared("force-tOGGb0Yi");
            vec![shared(BODY_OF_PATCH), text("dryRun"), shared(MANAGER_OF_PATCH), text("fieldValidation"), force]
        }
        "delete" => {
            [shared(BODY_OF_DELETE), text("dryRun")].into_iter().chain(DELETE_OPTIONS.into_iter().map(shared)).collect()
        }
        _ => vec![shared(RESOURCE_VERSION)],
    }
}

/// A reference to a parameter that the operations of all kinds share.
fn shared(name: &str) -> Value {
    json!({"$ref": format!("#/parameters/{name}")})
}

/// `ToValidOperationID`: letters, digits and underscores, in camel case.
fn identifier(text: &str, is_capitalized: bool) -> String {
    let mut capitalize = is_capitalized;
    let mut identifier = String::new();
    for (at, letter) in text.char_indices() {
        if letter.is_ascii_alphabetic() || letter == '_' || (at != 0 && letter.is_ascii_digit()) {
            identifier.push(if std::mem::take(&mut capitalize) { letter.to_ascii_uppercase() } else { letter });
        } else {
            capitalize = true;
        }
    }
    identifier
}

/// The keywords of a schema that OpenAPI v2 has, besides those with schemas in them.
const KEYWORDS: [&str; 20] = [
    "type",
    "description",
    "title",
    "format",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "enum",
    "maxProperties",
    "minProperties",
    "externalDocs",
    "example",
];

/// A structural schema as OpenAPI v2 has it (`ToStructuralOpenAPIV2`), without defaults. A value that can be null or have unknown fields has no
/// properties there: kubectl refuses fields beside them.
pub(in crate::embedded) fn schema(structural: &Value) -> Map<String, Value> {
    let mut schema = Map::new();
    let Some(fields) = structural.as_object() else { return schema };
    let is = |name: &str| fields.get(name) == Some(&Value::Bool(true));
    let (nullable, is_free) = (is("nullable"), is("x-kubernetes-preserve-unknown-fields"));
    for (name, value) in fields {
        let is_kept = KEYWORDS.contains(&name.as_str()) || name.starts_with("x-kubernetes-");
        if is_kept && !matches!(value, Value::Null | Value::Bool(false)) && value != "" {
            schema.insert(name.clone(), value.clone());
        }
    }
    if !nullable && !is_free {
        if let Some(items) = fields.get("items") {
            schema.insert("items".to_owned(), self::schema(items).into());
        }
        if let Some(Value::Object(properties)) = fields.get("properties") {
            let properties: Map<_, _> =
                properties.iter().map(|(name, property)| (name.clone(), self::schema(property).into())).collect();
            schema.insert("properties".to_owned(), properties.into());
        }
    }
    let additional = fields.get("additionalProperties");
    if let Some(additional) = additional {
        let value = if additional.is_object() { self::schema(additional).into() } else { additional.clone() };
        schema.insert("additionalProperties".to_owned(), value);
    }
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or_default();
    if nullable || (is_free && kind == "object") || (kind == "array" && !schema.contains_key("items")) {
        schema.remove("type");
    }
    let can_be_null =
        |schema: Option<&Value>| schema.and_then(|schema| schema.get("nullable")) == Some(&Value::Bool(true));
    if let Some(Value::Array(required)) = fields.get("required")
        && !can_be_null(additional)
    {
        // The properties of a schema without properties do not count.
        let property =
            |name: &Value| fields.get("properties")?.get(name.as_str()?).filter(|_| schema.contains_key("properties"));
        let required: Vec<Value> = required.iter().filter(|name| !can_be_null(property(name))).cloned().collect();
        if !required.is_empty() {
            schema.insert("required".to_owned(), required.into());
        }
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_has_what_openapi_v2_can_express() {
        let text = json!({"type": "string"});
        for (structural, expected) in [
            (json!({"type": "string", "nullable": true, "minLength": 1}), json!({"minLength": 1})),
            (
                json!({"type": "string", "default": "a", "enum": ["a"], "not": {"enum": ["b"]}}),
                json!({"type": "string", "enum": ["a"]}),
            ),
            (
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": text}}),
                json!({"x-kubernetes-preserve-unknown-fields": true}),
            ),
            (
                json!({"type": "object", "required": ["a", "b"], "properties": {"a": text, "b": {"nullable": true}}}),
                json!({"type": "object", "required": ["a"], "properties": {"a": text, "b": {}}}),
            ),
            (
                json!({"type": "object", "required": ["a"], "additionalProperties": {"type": "string", "nullable": true}}),
                json!({"type": "object", "additionalProperties": {}}),
            ),
            (json!({"type": "array", "nullable": true, "items": text}), json!({})),
            (
                json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
                json!({"x-kubernetes-int-or-string": true}),
            ),
            (
                json!({"type": "number", "exclusiveMinimum": false, "minimum": 0}),
                json!({"type": "number", "minimum": 0}),
            ),
        ] {
            assert_eq!(Value::Object(schema(&structural)), expected, "{structural}");
        }
    }

    #[test]
    fn identifiers_are_in_camel_case() {
        for (text, expected) in [("v2.e2e.test", "v2E2eTest"), ("my-group.x", "myGroupX"), ("v1beta1", "v1beta1")] {
            assert_eq!(identifier(text, false), expected);
        }
    }
}
