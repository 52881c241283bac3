//! A CustomResourceDefinition in the form in which its objects are served.

use super::json_path::JsonPath;
use super::schema::Schema;
use crate::cel::Release;
use crate::embedded::name::Name;
use crate::kind::GroupVersionKind;
use crate::object::Object;
use crate::object::structural::CompileSchemaError;
use crate::object::structural::validate::Scale;
use crate::object::version::{custom_deprecation, newness};
use crate::status::Status;
use serde_json::Value;
use std::sync::{Arc, OnceLock};

/// A definition whose names are accepted.
#[derive(Debug)]
pub(in crate::embedded) struct Definition {
    /// The definition as stored.
    pub(in crate::embedded) object: Arc<Object>,
    pub(in crate::embedded) group: Name,
    pub(in crate::embedded) plural: Name,
    pub(in crate::embedded) singular: Name,
    pub(in crate::embedded) kind: Name,
    pub(in crate::embedded) list_kind: Name,
    pub(in crate::embedded) short_names: Vec<Name>,
    pub(in crate::embedded) categories: Vec<Name>,
    pub(in crate::embedded) is_namespaced: bool,
    pub(in crate::embedded) is_established: bool,
    pub(in crate::embedded) is_terminating: bool,
    /// All versions, in the definition's order.
    pub(in crate::embedded) versions: Vec<Arc<Version>>,
    /// The version in which objects are stored.
    pub(in crate::embedded) storage: Name,
    /// True if the storage version is served.
    pub(in crate::embedded) serves_storage: bool,
}

/// A version of a definition.
#[derive(Debug)]
pub(in crate::embedded) struct Version {
    /// The definition and the index of the version there.
    of: (Arc<Object>, usize),
    /// The release whose rules expressions follow.
    release: Release,
    pub(in crate::embedded) kind: GroupVersionKind,
    pub(in crate::embedded) name: Name,
    pub(in crate::embedded) is_served: bool,
    pub(in crate::embedded) has_status: bool,
    pub(in crate::embedded) scale: Option<Scale>,
    pub(in crate::embedded) columns: Vec<Column>,
    pub(in crate::embedded) selectable: Vec<Selectable>,
    /// The warning for clients, if the version is deprecated.
    pub(in crate::embedded) deprecation: Option<String>,
    schema: OnceLock<Result<Schema, CompileSchemaError>>,
}

/// A column of a table.
#[derive(Debug)]
pub(in crate::embedded) struct Column {
    pub(in crate::embedded) name: String,
    pub(in crate::embedded) kind: String,
    pub(in crate::embedded) format: String,
    pub(in crate::embedded) description: String,
    pub(in crate::embedded) priority: i64,
    pub(in crate::embedded) path: JsonPath,
}

/// A field for selectors.
#[derive(Debug)]
pub(in crate::embedded) struct Selectable {
    /// The path without the first dot.
    pub(in crate::embedded) name: String,
    pub(in crate::embedded) path: JsonPath,
}

impl Definition {
    /// The definition in a stored object; `None` if its names are not accepted. Its rules follow a release. Versions that are equal in
    /// `before` are not compiled again.
    pub(in crate::embedded) fn new(object: &Arc<Object>, release: Release, before: Option<&Self>) -> Option<Self> {
        let is_established = is_true(object, "Established");
        if !is_established && !is_true(object, "NamesAccepted") {
            return None;
        }
        let accepted = |field: &str| -> Name { object.str(&["status", "acceptedNames", field]).to_owned().into() };
        let list = |field: &str| -> Vec<Name> {
            let names = object.items(&["status", "acceptedNames", field]).iter().filter_map(Value::as_str);
            names.map(|name| name.to_owned().into()).collect()
        };
        let (plural, kind) = (accepted("plural"), accepted("kind"));
        if plural.is_empty() || kind.is_empty() {
            return None;
        }
        let is_same_kind = |before: &&Self| {
            before.kind == kind
                && ["group", "versions"].iter().all(|field| spec(&before.object, field) == spec(object, field))
        };
        let versions = match before.filter(is_same_kind) {
            Some(before) => before.versions.clone(),
            None => {
                let versions = object.items(&["spec", "versions"]);
                let current = versions.iter().filter(|version| flag(version, "served") && !flag(version, "deprecated"));
                let newest = current.map(|version| text(version, "name")).max_by_key(|name| newness(name));
                let version = |at| Some(Arc::new(Version::new(object, at, &kind, newest, release)?));
                (0..versions.len()).filter_map(version).collect()
            }
        };
        let storage = object.items(&["spec", "versions"]).iter().find(|version| flag(version, "storage"));
        Some(Self {
            object: object.clone(),
            group: object.str(&["spec", "group"]).to_owned().into(),
            plural,
            singular: accepted("singular"),
            kind,
            list_kind: accepted("listKind"),
            short_names: list("shortNames"),
            categories: list("categories"),
            is_namespaced: object.str(&["spec", "scope"]) == "Namespaced",
            is_established,
            is_terminating: is_true(object, "Terminating"),
            versions,
            storage: text(storage?, "name").to_owned().into(),
            serves_storage: flag(storage?, "served"),
        })
    }

    /// The version with this name.
    pub(in crate::embedded) fn version(&self, name: &str) -> Option<&Arc<Version>> {
        self.versions.iter().find(|version| version.name == *name)
    }

    /// `spec.conversion.webhook`, if a webhook converts the objects.
    pub(in crate::embedded) fn webhook(&self) -> Option<&Value> {
        let strategy = self.object.str(&["spec", "conversion", "strategy"]);
        self.object.get(&["spec", "conversion", "webhook"]).filter(|_| strategy == "Webhook")
    }
}

impl Version {
    /// The version at an index. `newest` is the newest version that is served and not deprecated.
    fn new(object: &Arc<Object>, at: usize, kind: &Name, newest: Option<&str>, release: Release) -> Option<Self> {
        let version = object.items(&["spec", "versions"]).get(at)?;
        let name = text(version, "name");
        let kind = GroupVersionKind::new(object.str(&["spec", "group"]), name, &**kind);
        let deprecation = flag(version, "deprecated").then(|| match version.get("deprecationWarning") {
            Some(Value::String(warning)) => warning.clone(),
            _ => custom_deprecation(&kind, newest.into_iter()),
        });
        let subresources = version.get("subresources");
        let subresource = |name: &str| subresources.and_then(|all| all.get(name)).filter(|found| !found.is_null());
        let scale = subresource("scale").map(|scale| Scale {
            spec_replicas: text(scale, "specReplicasPath").to_owned(),
            status_replicas: text(scale, "statusReplicasPath").to_owned(),
            label_selector: Some(text(scale, "labelSelectorPath").to_owned()).filter(|path| !path.is_empty()),
        });
        Some(Self {
            of: (object.clone(), at),
            release,
            name: name.to_owned().into(),
            kind,
            is_served: flag(version, "served"),
            has_status: subresource("status").is_some(),
            scale,
            columns: columns(version),
            selectable: selectable(version),
            deprecation,
            schema: OnceLock::new(),
        })
    }

    /// The compiled schema.
    ///
    /// # Errors
    /// 500 if the schema cannot be compiled.
    pub(in crate::embedded) fn schema(&self) -> Result<&Schema, Status> {
        let compile = || {
            let preserves = spec(&self.of.0, "preserveUnknownFields") == Some(&Value::Bool(true));
            Schema::compile(self.raw_schema(), preserves, self.release)
        };
        self.schema.get_or_init(compile).as_ref().map_err(|why| {
            tracing::warn!(kind = ?self.kind, why = why.to_string(), "the schema of a custom resource cannot be used");
            Status::internal_error("error resolving resource")
        })
    }

    pub(in crate::embedded) fn is_compiled(&self) -> bool {
        self.schema.get().is_some()
    }

    /// The `openAPIV3Schema`, if there is one.
    pub(in crate::embedded) fn raw_schema(&self) -> Option<&Value> {
        let (definition, at) = &self.of;
        definition.items(&["spec", "versions"]).get(*at)?.get("schema")?.get("openAPIV3Schema")
    }
}

/// The columns of a version; `Age` if there are none (`getColumnsForVersion`). The columns end before the first one with a malformed path.
fn columns(version: &Value) -> Vec<Column> {
    let given = version.get("additionalPrinterColumns").and_then(Value::as_array).filter(|columns| !columns.is_empty());
    let Some(given) = given else {
        let description = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not \
                           guaranteed to be set in happens-before order across separate operations. Clients may not set this \
                           value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null \
                           for lists. More info: \
                           https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";
        let path = JsonPath::parse(".metadata.creationTimestamp").into_iter();
        let age = path.map(|path| Column {
            name: "Age".to_owned(),
            kind: "date".to_owned(),
            format: String::new(),
            description: description.to_owned(),
            priority: 0,
            path,
        });
        return age.collect();
    };
    let column = |column: &Value| {
        let path = text(column, "jsonPath");
        let description = match text(column, "description") {
            "" => format!("Custom resource definition column (in JSONPath format): {path}"),
            given => given.to_owned(),
        };
        Some(Column {
            name: text(column, "name").to_owned(),
            kind: text(column, "type").to_owned(),
            format: text(column, "format").to_owned(),
            description,
            priority: column.get("priority").and_then(Value::as_i64).unwrap_or_default(),
            path: JsonPath::parse(path)?,
        })
    };
    given.iter().map_while(column).collect()
}

fn selectable(version: &Value) -> Vec<Selectable> {
    let fields = version.get("selectableFields").and_then(Value::as_array).into_iter().flatten();
    let selectable = fields.filter_map(|field| {
        let path = text(field, "jsonPath");
        Some(Selectable { name: path.strip_prefix('.').unwrap_or(path).to_owned(), path: JsonPath::parse(path)? })
    });
    selectable.collect()
}

/// Whether a condition of a definition is true.
pub(in crate::embedded) fn is_true(definition: &Object, condition: &str) -> bool {
    let conditions = definition.items(&["status", "conditions"]);
    conditions.iter().any(|each| text(each, "type") == condition && text(each, "status") == "True")
}

fn spec<'o>(definition: &'o Object, field: &str) -> Option<&'o Value> {
    definition.get(&["spec", field])
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn flag(value: &Value, field: &str) -> bool {
    value.get(field) == Some(&Value::Bool(true))
}
