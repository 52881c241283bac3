//! CustomResourceDefinitions: the parts that decoding custom resources needs.
//!
//! Of each definition, the cache keeps every version with its compiled schema. Versions that are not served are kept too,
//! because admission converts objects to them. A list of definitions may be large, so the definitions are read in small pages,
//! and the text of a schema is dropped after its compilation.

use super::cache::Projection;
use super::{Cluster, Need};
use crate::answers::AnswerCache;
use crate::kind::{GroupVersionKind, GroupVersionResource};
use crate::object::Object;
use crate::object::structural::{CompileSchemaError, Structural};
use crate::object::version::{custom_deprecation, newness};
use crate::removed::Api;
use crate::status::Status;
use arc_swap::ArcSwapOption;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{WebhookClientConfig, WebhookConversion};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// The number of cached answers about definitions that the watch cache lacks.
const REMEMBERED: u64 = 1024;

/// One version of a custom resource.
#[derive(Debug)]
pub(crate) struct CustomResource {
    /// The kind of the objects.
    pub(crate) kind: GroupVersionKind,
    /// Whether the version is served.
    pub(crate) is_served: bool,
    /// Whether the version has the subresource `status`.
    pub(crate) has_status: bool,
    /// The paths of the subresource `scale`. `None` if the version has no such subresource.
    pub(crate) scale: Option<Scale>,
    /// The warning for clients, if the version is deprecated.
    pub(crate) deprecation: Option<String>,
    /// Whether unknown fields are kept, whatever the schema specifies.
    pub(crate) preserves_unknown_fields: bool,
    pub(crate) storage_version: String,
    schema: Result<Arc<Structural>, InvalidSchema>,
}

/// `spec.conversion`
#[derive(Debug, PartialEq)]
pub(crate) enum Conversion {
    /// The conversion changes only the apiVersion.
    None,
    /// A webhook converts the objects.
    Webhook(ConversionWebhook),
}

/// `spec.conversion.webhook`
#[derive(Debug, PartialEq)]
pub(crate) struct ConversionWebhook {
    /// The address of the webhook.
    pub(crate) client_config: WebhookClientConfig,
    /// The ConversionReview versions that the webhook accepts, the preferred version first.
    pub(crate) review_versions: Vec<String>,
}

impl Conversion {
    fn new(written: ConversionSpec) -> Self {
        match &*written.strategy {
            "Webhook" => {
                let webhook = written.webhook.unwrap_or_default();
                let client_config = webhook.client_config.unwrap_or_default();
                Self::Webhook(ConversionWebhook { client_config, review_versions: webhook.conversion_review_versions })
            }
            _ => Self::None,
        }
    }
}

impl CustomResource {
    fn is_same(&self, other: &Self) -> bool {
        let Self { kind, is_served, has_status, scale, deprecation, preserves_unknown_fields, storage_version, schema } =
            self;
        *kind == other.kind
            && (is_served, has_status, scale) == (&other.is_served, &other.has_status, &other.scale)
            && (deprecation, preserves_unknown_fields) == (&other.deprecation, &other.preserves_unknown_fields)
            && (storage_version, schema) == (&other.storage_version, &other.schema)
    }

    /// The compiled schema.
    ///
    /// # Errors
    /// 500 if the definition has no schema that can be compiled.
    pub(crate) fn schema(&self) -> Result<&Arc<Structural>, Status> {
        self.schema.as_ref().map_err(|why| {
            tracing::warn!(kind = ?self.kind, why = why.to_string(), "the schema of a custom resource cannot be used");
            unusable()
        })
    }

    /// Sets defaults, as kube-apiserver does after a mutating webhook's patch, which is not followed by pruning.
    ///
    /// # Errors
    /// If [`Self::schema`] fails; 500 if the defaults exceed their bound.
    pub(crate) fn apply_defaults(&self, object: &mut Object) -> Result<(), Status> {
        self.schema()?.apply_defaults(object).map_err(Status::internal_error)
    }
}

impl Cluster {
    /// The custom resource of the kind, from the cache.
    pub(crate) fn custom_resource(&self, kind: &GroupVersionKind) -> Option<Arc<CustomResource>> {
        let found = self.definitions.index(&self.all()).by_kind.get(kind).cloned();
        found.or_else(|| self.definitions.removed_kind(kind).cloned())
    }

    /// Whether the kind is that of a removed API that the API server serves without a definition.
    pub(crate) fn serves_removed(&self, kind: &GroupVersionKind) -> bool {
        self.definitions.removed_kind(kind).is_some()
    }

    /// The custom resource of the kind. If the cache lacks the kind, the function reads the definition of the resource from the
    /// API server, because the definition may be new. `None` if there is no definition: the resource belongs to an aggregated
    /// API and has no schema.
    ///
    /// The API server's answer is cached for [`Limits::definition_ttl`](crate::config::Limits::definition_ttl). Callers must not pass
    /// built-in kinds.
    ///
    /// # Errors
    /// If the API server is unreachable or forbids the read; 404 if the definition does not serve the kind.
    pub(crate) async fn find_custom_resource(
        &self,
        resource: &GroupVersionResource,
        kind: &GroupVersionKind,
    ) -> Result<Option<Arc<CustomResource>>, Status> {
        if let Some(found) = self.custom_resource(kind) {
            return Ok(Some(found));
        }
        match self.live_definition(resource).await? {
            None => Ok(None),
            Some(definition) => {
                let mut served = definition.versions.iter().filter(|version| version.is_served);
                served.find(|version| version.kind == *kind).cloned().map(Some).ok_or_else(Status::no_such_path)
            }
        }
    }

    /// The resource's definition in the cache, if the definition has the resource's version.
    pub(crate) fn definition(&self, resource: &GroupVersionResource) -> Option<Arc<Definition>> {
        let name = name_of(resource);
        let found: Arc<Definition> = self.find("", &name).or_else(|| self.definitions.removed.get(&name).cloned())?;
        found.version(&resource.version).is_some().then_some(found)
    }

    /// The resource's definition. If the cache lacks the definition, the API server is asked as in [`Self::find_custom_resource`].
    ///
    /// # Errors
    /// If the API server is unreachable or forbids the read.
    pub(crate) async fn find_definition(
        &self,
        resource: &GroupVersionResource,
    ) -> Result<Option<Arc<Definition>>, Status> {
        match self.definition(resource) {
            Some(found) => Ok(Some(found)),
            None => self.live_definition(resource).await,
        }
    }

    /// The definition at the API server. The answer may come from the cache of answers.
    async fn live_definition(&self, resource: &GroupVersionResource) -> Result<Option<Arc<Definition>>, Status> {
        let name = name_of(resource);
        let remembered = &self.definitions.remembered;
        let (key, lifetime) = (remembered.key(&[name.as_bytes()]), self.limits.definition_ttl);
        let look_up = || self.find_live::<Definition>("", &name);
        remembered.answer(key, |_| lifetime, look_up).await.map_err(|error| unreadable(&name, &error))
    }
}

/// The name of a resource's definition.
fn name_of(resource: &GroupVersionResource) -> String {
    format!("{}.{}", resource.resource, resource.group)
}

/// The client's error when a definition cannot be read. The proxy's own lack of permission is not the client's fault, and so
/// becomes a 500.
fn unreadable(name: &str, error: &Status) -> Status {
    match error.code {
        401 | 403 => {
            tracing::warn!(name, error = error.message, "the proxy may not read a CustomResourceDefinition");
            unusable()
        }
        _ => error.clone(),
    }
}

/// kube-apiserver's answer if a definition cannot be served (`crdHandler.ServeHTTP`).
fn unusable() -> Status {
    Status::internal_error("error resolving resource")
}

/// A cluster's data about definitions beside their cache.
pub(super) struct Definitions {
    index: ArcSwapOption<Index>,
    /// The definitions of the removed APIs that the embedded API server serves, by name. They are no objects there.
    removed: HashMap<String, Arc<Definition>>,
    remembered: AnswerCache<Option<Arc<Definition>>>,
}

/// The served versions of all definitions by kind.
struct Index {
    of: Arc<Vec<Arc<Definition>>>,
    by_kind: HashMap<GroupVersionKind, Arc<CustomResource>>,
}

impl Definitions {
    /// The data beside the cache, with definitions of these removed APIs in their original groups.
    pub(super) fn new(removed: &[&'static Api]) -> Self {
        let removed = removed.iter().flat_map(|api| of_removed(api)).collect();
        Self { index: ArcSwapOption::default(), removed, remembered: AnswerCache::new(REMEMBERED) }
    }

    fn removed_kind(&self, kind: &GroupVersionKind) -> Option<&Arc<CustomResource>> {
        self.removed.values().flat_map(|definition| &definition.versions).find(|version| version.kind == *kind)
    }

    /// The index of `all`, which are all definitions in the cache. The index is rebuilt when `all` is a new list.
    fn index(&self, all: &Arc<Vec<Arc<Definition>>>) -> Arc<Index> {
        if let Some(index) = self.index.load_full().filter(|index| Arc::ptr_eq(&index.of, all)) {
            return index;
        }
        let served = all.iter().flat_map(|definition| &definition.versions).filter(|version| version.is_served);
        let by_kind = served.map(|served| (served.kind.clone(), served.clone())).collect();
        let index = Arc::new(Index { of: all.clone(), by_kind });
        self.index.store(Some(index.clone()));
        index
    }
}

/// The fields of a definition that the cache keeps.
#[derive(Debug)]
pub(crate) struct Definition {
    /// All versions, in the definition's order. Empty if the definition's names are not accepted.
    pub(crate) versions: Vec<Arc<CustomResource>>,
    /// The conversion between versions.
    pub(crate) conversion: Conversion,
}

impl PartialEq for Definition {
    fn eq(&self, other: &Self) -> bool {
        let mut pairs = self.versions.iter().zip(&other.versions);
        self.conversion == other.conversion
            && self.versions.len() == other.versions.len()
            && pairs.all(|(one, other)| one.is_same(other))
    }
}

impl Definition {
    /// The version with the name.
    pub(crate) fn version(&self, name: &str) -> Option<&Arc<CustomResource>> {
        self.versions.iter().find(|version| version.kind.version == name)
    }
}

impl Projection for Definition {
    const NEED: Need = Need::CUSTOM_RESOURCE_DEFINITIONS;
    const MAY_BE_REFUSED: bool = true;
    const FIELDS: &'static [&'static str] = &["metadata.name", "spec", "status.acceptedNames"];
    type Object = Written;

    fn project(object: Written) -> (String, Self) {
        let Written { metadata, spec, status } = object;
        let kind = status.accepted_names.kind;
        let of_storage = spec.versions.iter().find(|version| version.storage);
        let storage_version = of_storage.map(|version| version.name.clone()).unwrap_or_default();
        let defined = || spec.versions.iter().filter(|_| !kind.is_empty());
        let preserves_unknown_fields = spec.preserve_unknown_fields.unwrap_or_default();
        let current = spec.versions.iter().filter(|version| version.served && !version.deprecated);
        let newest = current.map(|version| &*version.name).max_by_key(|name| newness(name));
        let versions = defined().map(|version| {
            let kind = GroupVersionKind::new(&*spec.group, &*version.name, &*kind);
            let deprecation = version.deprecated.then(|| match &version.deprecation_warning {
                Some(warning) => warning.clone(),
                None => custom_deprecation(&kind, newest.into_iter()),
            });
            Arc::new(CustomResource {
                kind,
                is_served: version.served,
                has_status: version.subresources.status.is_some(),
                scale: version.subresources.scale.clone(),
                deprecation,
                preserves_unknown_fields,
                storage_version: storage_version.clone(),
                schema: compile(version, preserves_unknown_fields).map(Arc::new),
            })
        });
        let versions = versions.collect();
        (metadata.name.unwrap_or_default(), Self { versions, conversion: Conversion::new(spec.conversion) })
    }
}

/// The definitions of a removed API by name, one for each group in which the API was served.
fn of_removed(api: &'static Api) -> impl Iterator<Item = (String, Arc<Definition>)> {
    api.original_groups().filter_map(|group| {
        let mut written = api.parsed().clone();
        *written.pointer_mut("/metadata")? = json!({"name": format!("{}.{group}", api.plural)});
        *written.pointer_mut("/spec/group")? = Value::from(group);
        *written.pointer_mut("/spec/versions/0/schema/openAPIV3Schema")? = api.schema().clone();
        let fields = written.as_object_mut()?;
        fields.insert("status".to_owned(), json!({"acceptedNames": {"kind": api.kind}}));
        // A schema is read as text.
        let (name, definition) = Definition::project(serde_json::from_str(&written.to_string()).ok()?);
        Some((name, Arc::new(definition)))
    })
}

/// The reason why the schema of a definition cannot be used.
#[derive(Debug, PartialEq, thiserror::Error)]
enum InvalidSchema {
    #[error("the schema: {0}")]
    Json(String),
    #[error(transparent)]
    Compile(#[from] CompileSchemaError),
}

fn compile(version: &Version, preserves_unknown_fields: bool) -> Result<Structural, InvalidSchema> {
    let text = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_deref());
    let schema = match text {
        None => Value::Null,
        Some(text) => serde_json::from_str(text.get()).map_err(|error| InvalidSchema::Json(error.to_string()))?,
    };
    Ok(match (schema, preserves_unknown_fields) {
        (Value::Null, false) => Structural::without_schema(),
        (Value::Null, true) => Structural::compile_preserving(&Value::Object(Default::default()))?,
        (schema, false) => Structural::compile(&schema)?,
        (schema, true) => Structural::compile_preserving(&schema)?,
    })
}

/// The fields of a definition that are read, as the API server writes them.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Written {
    #[serde(deserialize_with = "identity")]
    metadata: ObjectMeta,
    spec: Spec,
    #[serde(default)]
    status: DefinitionStatus,
}

/// Keeps name and resourceVersion, which suffice for a watch. Managed fields may be as large as the definition.
fn identity<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Identity {
        name: Option<String>,
        resource_version: Option<String>,
    }
    let Identity { name, resource_version } = Identity::deserialize(deserializer)?;
    Ok(ObjectMeta { name, resource_version, ..ObjectMeta::default() })
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    group: String,
    #[serde(default)]
    versions: Vec<Version>,
    #[serde(default)]
    conversion: ConversionSpec,
    preserve_unknown_fields: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct ConversionSpec {
    #[serde(default)]
    strategy: String,
    webhook: Option<WebhookConversion>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    name: String,
    #[serde(default)]
    deprecated: bool,
    deprecation_warning: Option<String>,
    #[serde(default)]
    served: bool,
    #[serde(default)]
    storage: bool,
    schema: Option<Validation>,
    #[serde(default)]
    subresources: Subresources,
}

/// The subresources of a version.
#[derive(Clone, Debug, Default, Deserialize)]
struct Subresources {
    status: Option<IgnoredAny>,
    scale: Option<Scale>,
}

/// `subresources.scale`: paths into the object, as `.spec.replicas`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Scale {
    /// The path of the desired number of replicas.
    #[serde(default)]
    pub(crate) spec_replicas_path: String,
    /// The path of the current number of replicas.
    #[serde(default)]
    pub(crate) status_replicas_path: String,
    /// The path of the label selector in its text form.
    pub(crate) label_selector_path: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct Validation {
    #[serde(rename = "openAPIV3Schema")]
    open_api_v3_schema: Option<Box<RawValue>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DefinitionStatus {
    #[serde(default)]
    accepted_names: Names,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Names {
    #[serde(default)]
    kind: String,
}

impl kube::Resource for Written {
    type DynamicType = ();
    type Scope = k8s_openapi::ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "CustomResourceDefinition".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "apiextensions.k8s.io".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "customresourcedefinitions".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests;
