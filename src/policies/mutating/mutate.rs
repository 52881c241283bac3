//! One mutation: the value of its expression, and the changed object.

use super::apply::{self, Go, Unpatchable};
use super::policy::Mutation;
use super::{Invocation, json_patch, names};
use crate::cel::Value;
use crate::cluster::{Cluster, CustomResource};
use crate::expressions::expression::{EvaluationError, OUT_OF_BUDGET, POLICY_COST, Series, Stop};
use crate::expressions::request::{Reads, RequestValues};
use crate::expressions::reviews::Pause;
use crate::expressions::variables::Variables;
use crate::initializers;
use crate::kind::{GroupVersionKind, GroupVersionResource};
use crate::object::defaults::Defaulting;
use crate::object::merge::Node;
use crate::object::{Object, normal, schema, typed};
use crate::status::Status;
use serde_json::Value as Json;
use std::sync::Arc;

/// Kinds that the OpenAPI documents of their own versions lack, since their paths are in other documents.
const UNDESCRIBED: [(&str, &str); 3] =
    [("autoscaling", "Scale"), ("policy", "Eviction"), ("authentication.k8s.io", "TokenRequest")];

/// The reason why a mutation has no result.
pub(super) enum Refusal {
    /// An error of the policy or of the object; the failurePolicy decides.
    Error(String),
    /// An error of neither: it ends the request.
    Status(Box<Status>),
}

impl From<Unpatchable> for Refusal {
    fn from(Unpatchable(why): Unpatchable) -> Self {
        Self::Error(why)
    }
}

/// The type of the object's kind.
pub(super) enum Kind {
    /// A built-in kind with a type.
    BuiltIn(&'static schema::ApiType),
    /// A built-in kind that no OpenAPI document describes.
    Undescribed,
    /// A custom kind with its definition.
    Custom(Arc<CustomResource>),
}

impl Kind {
    /// Looks up a kind in which the resource is wanted (`TypeConverterManager.GetTypeConverter`).
    ///
    /// # Errors
    /// If the kind is unknown.
    pub(super) async fn find(
        cluster: &Cluster,
        resource: &GroupVersionResource,
        kind: &GroupVersionKind,
    ) -> Result<Self, Box<Status>> {
        let is_options = kind.group.is_empty() && kind.kind.ends_with("Options");
        if UNDESCRIBED.contains(&(&kind.group, &kind.kind)) || is_options {
            return Ok(Kind::Undescribed);
        }
        if let Some(r#type) = schema::of(kind) {
            return Ok(Kind::BuiltIn(r#type));
        }
        let definition = cluster.find_definition(resource).await?;
        match definition.as_ref().and_then(|definition| definition.version(&kind.version)) {
            Some(custom) => Ok(Kind::Custom(custom.clone())),
            None => Err(Box::new(Status::service_unavailable(format!(
                "Resource kind {}/{}, Kind={} not found. There can be a delay between when CustomResourceDefinitions are created and when they are available.",
                kind.group, kind.version, kind.kind
            )))),
        }
    }
}

impl Invocation<'_> {
    /// Returns the object after the mutation.
    ///
    /// # Errors
    /// If the evaluation has to be repeated.
    pub(super) fn mutated(
        &self,
        mutation: &Mutation,
        kind: &Kind,
        shown: &RequestValues<'_>,
    ) -> Result<Result<Object, Refusal>, Pause> {
        let Some(object) = shown.object else { return Ok(Err(Refusal::Error("there is no object".into()))) };
        if let Some(why) = mutation.expression().compile_error() {
            return Ok(Err(Refusal::Error(why.to_owned())));
        }
        let reads = self.policy.reads;
        let reads = Reads { go_objects: reads.go_objects && !self.policy.conditions.is_empty(), ..reads };
        let slots = shown.slots(reads, self.parameters());
        let variables = Variables::new(&self.policy.variables, slots, shown.limits());
        let mut series = Series::new(&variables, shown.limits(), POLICY_COST);
        let value = match series.evaluate(mutation.expression()) {
            Ok(evaluated) => evaluated.value.map_err(|EvaluationError(why)| why),
            Err(Stop::Review(review)) => return Err(Pause::Review(review)),
            Err(Stop::OutOfBudget) => Err(OUT_OF_BUDGET.to_owned()),
        };
        let (of, asked) = (shown.matched.0, &shown.attributes.kind);
        let patched = value.map_err(Refusal::Error);
        let defaulting = shown.attributes.defaulting;
        let patched = patched.and_then(|value| mutation.patch(kind, of, object, &value, defaulting));
        Ok(match kind {
            Kind::BuiltIn(_) | Kind::Undescribed if of != asked => {
                patched.and_then(|_| Err(Refusal::Error(no_way_back(of, asked))))
            }
            _ => patched,
        })
    }
}

impl Mutation {
    /// Applies the value of the expression and adds the defaults of the kind (`patch.Patcher.Patch`).
    ///
    /// # Errors
    /// If the result could not be stored.
    fn patch(
        &self,
        kind: &Kind,
        of: &GroupVersionKind,
        object: &Object,
        value: &Value<'_>,
        defaulting: Defaulting,
    ) -> Result<Object, Refusal> {
        let Some(field) = initializers::of(object).cloned() else {
            return self.patch_known(kind, of, object, value, defaulting);
        };
        // No type has this field, so no policy changes it.
        let mut known = object.clone();
        initializers::take(&mut known);
        let mut patched = self.patch_known(kind, of, &known, value, defaulting)?;
        initializers::put(&mut patched, Some(field));
        Ok(patched)
    }

    fn patch_known(
        &self,
        kind: &Kind,
        of: &GroupVersionKind,
        object: &Object,
        value: &Value<'_>,
        defaulting: Defaulting,
    ) -> Result<Object, Refusal> {
        match self {
            Mutation::Apply(_) => {
                names::check(value)?;
                let patch =
                    Go::of(value).map_err(|_| Refusal::Error("invalid return type: *dynamic.ObjectVal".into()))?;
                let node = match kind {
                    Kind::BuiltIn(r#type) => Node::Type(r#type, None),
                    Kind::Custom(custom) => {
                        custom.schema().map_err(Refusal::from)?.root().map_or(Node::Deduced, Node::Whole)
                    }
                    Kind::Undescribed => {
                        return Err(Refusal::Error(format!(
                            "error applying patch: failed to convert patch object to typed object: no corresponding type for {}/{}, Kind={}",
                            of.group, of.version, of.kind
                        )));
                    }
                };
                let applied = apply::apply(node, of, object, patch)
                    .map_err(|why| Refusal::Error(format!("error applying patch: {why}")))?;
                finish(kind, of, applied.into_value(), false, defaulting)
            }
            Mutation::JsonPatch(_) => match json_patch::apply(object, value)? {
                Some(patched) => finish(kind, of, patched, true, defaulting),
                None => Ok(object.clone()),
            },
        }
    }
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}

/// Decodes the changed object as its kind, and adds defaults. A JSON patch must not add fields that the kind lacks.
fn finish(
    kind: &Kind,
    of: &GroupVersionKind,
    value: Json,
    is_strict: bool,
    defaulting: Defaulting,
) -> Result<Object, Refusal> {
    let internal = |why: String| Refusal::from(Status::internal_error(why));
    if let Kind::Custom(custom) = kind {
        let mut object = Object::from_value(value).ok_or_else(|| internal("the object is no JSON object".into()))?;
        custom.apply_defaults(&mut object)?;
        return Ok(object);
    }
    match typed::decode(of, value) {
        Some(Ok(typed)) if is_strict && !typed.unknown.is_empty() => {
            Err(internal(format!("strict decoding error: {}", typed.unknown.join(", "))))
        }
        Some(Ok(typed)) => Ok(normal::defaulted(defaulting, of, typed).object),
        Some(Err(why)) if is_strict => Err(internal(why.to_string())),
        Some(Err(why)) => Err(Refusal::Error(unconvertible(of, &why.to_string()))),
        None => Err(internal(format!("no kind \"{}\" is registered for version \"{}\"", of.kind, of.api_version()))),
    }
}

/// Returns the error of `ConvertToVersion` for an object in another version than the request's: built-in types convert only by way of the
/// internal version, which kube-apiserver does not use here.
fn no_way_back(of: &GroupVersionKind, asked: &GroupVersionKind) -> String {
    let (version, kind) = (&of.version, &of.kind);
    if of.group == asked.group {
        return format!("converting ({version}.{kind}) to ({}.{}): unknown conversion", asked.version, asked.kind);
    }
    let asked = asked.api_version();
    format!("{version}.{kind} is not suitable for converting to \"{asked}\" in scheme \"pkg/runtime/scheme.go:111\"")
}

/// Returns the error of `ConvertToVersion` for an applied object whose types fit, but whose values do not.
fn unconvertible(of: &GroupVersionKind, why: &str) -> String {
    let found = why.strip_prefix("json: cannot unmarshal number ").and_then(|rest| rest.rsplit_once(" of type "));
    let why = found.map_or_else(|| why.to_owned(), |(_, wanted)| format!("cannot convert float64 to {wanted}"));
    format!("unable to convert unstructured object to {}/{}, Kind={}: {why}", of.group, of.version, of.kind)
}
