//! The values that expressions read from a request: made when first needed, once for all policies.

use super::expression::{EXPRESSION_COST, Expression, Slots};
use super::reviews::Reviews;
use crate::admission::{Attributes, CallerAuthorizer};
use crate::cel::library::authz::{authorizer, resource_check};
use crate::cel::value::{Access, Map};
use crate::cel::{EvaluationLimits, Value};
use crate::cluster::Namespace;
use crate::kind::{GroupVersionKind, GroupVersionResource, split_api_version};
use crate::matching::View;
use crate::object::{Object, schema, typed};
use serde_json::{Map as JsonMap, Value as Json, json};
use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::OnceLock;

/// The state that the evaluations of one request share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The access reviews that the evaluations asked for.
    pub(crate) reviews: Reviews,
    /// `request`, in the request's own kind and resource.
    own: OnceLock<Json>,
    /// `authorizer` and `authorizer.requestResource`
    authorizer: OnceLock<[Value<'static>; 2]>,
}

impl Shared {
    /// Creates the state for a request of this caller.
    pub(crate) fn new(authorizer: CallerAuthorizer) -> Self {
        let (own, authorizer_value) = (OnceLock::new(), OnceLock::new());
        Self { reviews: Reviews::new(authorizer), own, authorizer: authorizer_value }
    }

    fn authorizer(&self, attributes: &Attributes) -> &[Value<'static>; 2] {
        self.authorizer.get_or_init(|| {
            let Attributes { resource, subresource, namespace, name, .. } = attributes;
            let on_request = Access {
                api_group: resource.group.clone(),
                resource: resource.resource.clone(),
                subresource: subresource.clone(),
                namespace: namespace.clone(),
                name: name.clone(),
                ..Access::default()
            };
            let answers = self.reviews.answers();
            [authorizer(answers.clone()), resource_check(answers, on_request)]
        })
    }
}

/// A request in one kind and resource, as expressions read it.
#[derive(Clone)]
pub(crate) struct RequestValues<'a> {
    /// The request.
    pub(crate) attributes: &'a Attributes,
    /// The object in that version.
    pub(crate) object: Option<&'a Object>,
    /// The old object in that version.
    pub(crate) old_object: Option<&'a Object>,
    /// The kind and resource in which the request matched.
    pub(crate) matched: (&'a GroupVersionKind, &'a GroupVersionResource),
    /// `namespaceObject`
    pub(crate) namespace: Option<&'a JsonMap<String, Json>>,
    shared: &'a Shared,
    /// `request`, in another kind or resource than the request's own.
    request: OnceCell<Json>,
    /// The object and the old object of a built-in kind, with doubles where the Go type has floats.
    with_doubles: [OnceCell<Option<Object>>; 2],
}

/// The values that the expressions of a policy may read; the others are not made.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reads {
    /// `request`
    pub(crate) request: bool,
    /// `namespaceObject`
    pub(crate) namespace: bool,
    /// `authorizer`
    pub(crate) authorizer: bool,
    /// Whether `request`, `namespaceObject` and parameters of built-in kinds are Go values: since 1.37.
    pub(crate) go_values: bool,
    /// Whether objects of built-in kinds are Go values: since 1.37, for mutations only after matchConditions were evaluated.
    pub(crate) go_objects: bool,
}

impl Reads {
    /// Returns the values that these expressions may read.
    pub(crate) fn of<'a>(expressions: impl Iterator<Item = &'a Expression>) -> Self {
        let mut reads = Self::default();
        for expression in expressions {
            reads.request |= expression.mentions("request");
            reads.namespace |= expression.mentions("namespaceObject");
            reads.authorizer |= expression.mentions("authorizer");
            reads.go_values |= expression.release().since(37);
            reads.go_objects = reads.go_values;
        }
        reads
    }
}

impl<'a> RequestValues<'a> {
    /// Creates the view of a request with these objects.
    pub(crate) fn new(
        attributes: &'a Attributes,
        View { kind, resource, object, old_object }: View<'a>,
        namespace: Option<&'a JsonMap<String, Json>>,
        shared: &'a Shared,
    ) -> Self {
        let (request, with_doubles) = (OnceCell::new(), Default::default());
        Self { attributes, object, old_object, matched: (kind, resource), namespace, shared, request, with_doubles }
    }

    /// Returns the view with the request's own resource, whatever resource matched.
    pub(crate) fn on_its_own_resource(&self) -> Cow<'_, Self> {
        if *self.matched.1 == self.attributes.resource {
            return Cow::Borrowed(self);
        }
        let matched = (self.matched.0, &self.attributes.resource);
        Cow::Owned(Self { matched, request: OnceCell::new(), ..self.clone() })
    }

    /// Returns the values of the variables, with these parameters.
    pub(crate) fn slots<'s>(&'s self, reads: Reads, parameters: Option<&'s Json>) -> Slots<'s> {
        let map = |fields: Option<&'s JsonMap<String, Json>>, is_built_in: bool| match fields {
            None => Value::Null,
            Some(all) if is_built_in => Value::Map(Map::BuiltIn(all)),
            Some(all) => Value::Map(Map::Json(all)),
        };
        let is_built_in = reads.go_objects && schema::of(self.matched.0).is_some();
        let request = reads.request.then(|| self.request());
        let [object, old_object] = &self.with_doubles;
        let typed = |object: Option<&'s Object>, with_doubles: &'s OnceCell<Option<Object>>| {
            let object = object?;
            let with_doubles = with_doubles.get_or_init(|| typed::with_doubles(self.matched.0, object));
            Some(with_doubles.as_ref().unwrap_or(object).fields())
        };
        Slots {
            object: map(typed(self.object, object), is_built_in),
            old_object: map(typed(self.old_object, old_object), is_built_in),
            namespace: map(self.namespace, reads.go_values),
            request: map(request.and_then(Json::as_object), reads.go_values),
            parameters: map(
                parameters.and_then(Json::as_object),
                reads.go_values && parameters.is_some_and(is_of_a_built_in_kind),
            ),
            authorizer: reads.authorizer.then(|| self.shared.authorizer(self.attributes).clone()),
            variables: None,
        }
    }

    /// Returns the bounds of an evaluation.
    pub(crate) fn limits(&self) -> EvaluationLimits {
        EvaluationLimits { cost: EXPRESSION_COST, deadline: Some(self.attributes.context.deadline.into_std()) }
    }

    fn request(&self) -> &Json {
        let Attributes { kind, resource, .. } = self.attributes;
        match self.matched == (kind, resource) {
            true => self.shared.own.get_or_init(|| self.request_value()),
            false => self.request.get_or_init(|| self.request_value()),
        }
    }

    /// Creates the value of `request` (`cel.CreateAdmissionRequest`).
    fn request_value(&self) -> Json {
        let Attributes { kind, resource, subresource, name, namespace, operation, context, dry_run, options, .. } =
            self.attributes;
        let (matched_kind, matched_resource) = self.matched;
        let mut request = json!({
            "uid": "",
            "kind": kind_value(matched_kind),
            "resource": resource_value(matched_resource),
            "requestKind": kind_value(kind),
            "requestResource": resource_value(resource),
            "operation": operation.as_str(),
            "userInfo": &*context.user,
            "object": null,
            "oldObject": null,
            "dryRun": dry_run,
            "options": options.as_deref(),
        });
        let given = [
            ("subResource", subresource),
            ("requestSubResource", subresource),
            ("name", name),
            ("namespace", namespace),
        ];
        if let Json::Object(fields) = &mut request {
            fields.extend(
                given
                    .into_iter()
                    .filter(|(_, text)| !text.is_empty())
                    .map(|(field, text)| (field.to_owned(), Json::from(text.as_str()))),
            );
        }
        request
    }
}

/// Whether a parameter's kind is built in.
fn is_of_a_built_in_kind(parameter: &Json) -> bool {
    let text = |field: &str| parameter.get(field).and_then(Json::as_str).unwrap_or_default();
    let (group, version) = split_api_version(text("apiVersion"));
    schema::of(&GroupVersionKind::new(group, version, text("kind"))).is_some()
}

fn kind_value(kind: &GroupVersionKind) -> Json {
    json!({"group": kind.group, "version": kind.version, "kind": kind.kind})
}

fn resource_value(resource: &GroupVersionResource) -> Json {
    json!({"group": resource.group, "version": resource.version, "resource": resource.resource})
}

/// Creates the value of `namespaceObject` (`cel.CreateNamespaceObject`).
pub(crate) fn namespace_value(namespace: &Namespace) -> JsonMap<String, Json> {
    let mut fields: JsonMap<String, Json> = serde_json::from_str(&namespace.rest).unwrap_or_default();
    if namespace.usual {
        fields.insert("spec".to_owned(), json!({"finalizers": ["kubernetes"]}));
        fields.insert("status".to_owned(), json!({"phase": "Active"}));
    }
    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
    if let Json::Object(metadata) = metadata {
        metadata.insert("name".to_owned(), namespace.name.as_str().into());
        for (field, texts) in [("labels", &namespace.labels), ("annotations", &namespace.annotations)] {
            if !texts.is_empty() {
                let texts = texts.iter().map(|(key, text)| (key.to_owned(), text.into())).collect();
                metadata.insert(field.to_owned(), Json::Object(texts));
            }
        }
    }
    fields
}

/// Returns the name of the namespace in `namespaceObject`; `None` for cluster-scoped objects and for namespaces.
pub(crate) fn namespace_name(attributes: &Attributes) -> Option<&str> {
    let GroupVersionKind { group, version, kind } = &attributes.kind;
    let is_namespace = (group.as_str(), version.as_str(), kind.as_str()) == ("", "v1", "Namespace");
    Some(&*attributes.namespace).filter(|name| !is_namespace && !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::{Compiler, Declarations};
    use super::*;
    use crate::admission::{Operation, RequestContext};
    use crate::cel::Release;
    use crate::user::UserInfo;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::time::Instant;

    #[test]
    fn objects_of_built_in_kinds_are_go_values_since_1_37() {
        let object = Object::from_value(json!({"metadata": {"name": "a"}, "data": {"k": "v"}})).unwrap();
        let parameters = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}});
        let custom = json!({"apiVersion": "example.com/v1", "kind": "Foo", "data": {"k": "v"}});
        let kinds = [("", "ConfigMap", "configmaps"), ("example.com", "Foo", "foos")];
        for (minor, (group, kind, resource), parameters, source, expected) in [
            (36, kinds[0], &parameters, "object.data == 'x'", Some(false)),
            (37, kinds[0], &parameters, "object.data == 'x'", None),
            (37, kinds[0], &parameters, "object.data == {'k': 'v'}", Some(true)),
            (37, kinds[1], &parameters, "object.data == 'x'", Some(false)),
            (36, kinds[1], &parameters, "params.data == 'x'", Some(false)),
            (37, kinds[1], &parameters, "params.data == 'x'", None),
            (37, kinds[0], &custom, "params.data == 'x'", Some(false)),
            (36, kinds[1], &parameters, "dyn(request) == 'x'", Some(false)),
            (37, kinds[1], &parameters, "dyn(request.userInfo) == 'x'", None),
        ] {
            let (kind, resource) =
                (GroupVersionKind::new(group, "v1", kind), GroupVersionResource::new(group, "v1", resource));
            let deadline = Instant::now() + Duration::from_secs(30);
            let context = RequestContext::new(Arc::new(UserInfo::default()), deadline);
            let attributes = Attributes::new(Operation::Create, kind.clone(), resource.clone(), context);
            let shared = Shared::new(attributes.context.authorizer.clone());
            let view = View { kind: &kind, resource: &resource, object: Some(&object), old_object: None };
            let shown = RequestValues::new(&attributes, view, None, &shared);
            let compiler = Compiler::new(true, Release::of(minor).stored());
            let expression = compiler.compile(source, Declarations::default(), &[]);
            let slots = shown.slots(Reads::of(std::iter::once(&expression)), Some(parameters));
            let found = expression.run(&slots, &shown.limits()).0.ok();
            let found = found.map(|value| matches!(value, Value::Bool(true)));
            assert_eq!(found, expected, "{minor} {source}");
        }
    }

    #[test]
    fn a_namespace_has_its_spec_and_status_whether_they_are_usual_or_not() {
        let usual = [json!({"finalizers": ["kubernetes"]}), json!({"phase": "Active"})];
        let own = [json!({"finalizers": ["example.com/f", "kubernetes"]}), json!({"phase": "Terminating"})];
        let failed = json!({"phase": "Active", "conditions": [{"type": "T", "status": "True"}]});
        for (spec, status, is_usual) in [
            (&usual[0], &usual[1], true),
            (&own[0], &usual[1], false),
            (&usual[0], &own[1], false),
            (&usual[0], &failed, false),
            (&json!({}), &usual[1], false),
            (&usual[0], &json!({}), false),
        ] {
            let object =
                json!({"metadata": {"name": "a", "labels": {"l": "1"}, "uid": "u"}, "spec": spec, "status": status});
            let namespace = Namespace::read(&object.to_string()).unwrap();
            assert_eq!(namespace.usual, is_usual, "{object}");
            assert_eq!(Json::Object(namespace_value(&namespace)), object);
        }
    }
}
