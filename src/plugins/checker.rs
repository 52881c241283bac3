//! The test helper of plugins: runs a plugin on a request, and checks the resulting object.

use crate::admission::metrics::Metrics;
use crate::admission::{
    Attributes, CallerAuthorizer, Denial, Operation, Plugin, PluginEnvironment, RequestContext, Spec,
};
use crate::authz::{self, Decision};
use crate::cluster::discovery::Discovery;
use crate::cluster::{Cluster, FixedState, Namespace};
use crate::config::{EmulatedRelease, FeatureGates};
use crate::kind::{GroupVersionKind, GroupVersionResource};
use crate::metrics::Registry;
use crate::object::Object;
use crate::status::Status;
use crate::user::UserInfo;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A cluster with the namespaces `cached` in the cache, and `live` at the API server. Names that end in `-terminating` are
/// terminating namespaces.
pub(crate) fn cluster(cached: &[&str], live: &[&str]) -> Arc<Cluster> {
    let namespaces = |names: &[&str]| names.iter().map(|name| namespace(name)).collect();
    Cluster::fixed(FixedState {
        namespaces: namespaces(cached),
        live_namespaces: Some(namespaces(live)),
        ..FixedState::default()
    })
}

fn namespace(name: &str) -> Namespace {
    Namespace { name: name.into(), terminating: name.ends_with("-terminating"), ..Namespace::default() }
}

/// Begins a check of the plugin's mutating phase.
pub(crate) fn check(plugin: &dyn Plugin) -> Check<'_> {
    Check {
        plugin,
        validating: false,
        dry_run: false,
        subresource: "",
        user: None,
        authorizer: CallerAuthorizer::default(),
    }
}

/// A plugin as the release 1.`minor` has it, with these gates.
pub(crate) fn of_release(spec: &Spec, minor: u16, gates: &str, cluster: Arc<Cluster>) -> Box<dyn Plugin> {
    let gates = FeatureGates::of(EmulatedRelease::new(minor), gates).unwrap();
    let metrics = Arc::new(Metrics::new(&Registry::new()).unwrap());
    let environment = PluginEnvironment::with_defaults(cluster, Discovery::unconnected(), metrics);
    (spec.build)(&PluginEnvironment { feature_gates: &gates, ..environment }).unwrap()
}

/// The parameters of a check.
pub(crate) struct Check<'a> {
    plugin: &'a dyn Plugin,
    validating: bool,
    dry_run: bool,
    subresource: &'static str,
    user: Option<UserInfo>,
    authorizer: CallerAuthorizer,
}

/// The result of a check.
pub(crate) struct Checked {
    before: Option<Value>,
    after: Option<Value>,
    result: Result<(), Status>,
}

impl Check<'_> {
    /// Sets the caller's permissions to those that `rule` allows.
    pub(crate) fn caller(self, rule: fn(&authz::AccessAttributes) -> Decision) -> Self {
        self.authorizer(CallerAuthorizer::fixed(rule))
    }

    /// Sets the permissions of the caller and of other users.
    pub(crate) fn authorizer(mut self, authorizer: CallerAuthorizer) -> Self {
        self.authorizer = authorizer;
        self
    }

    /// Sets the user and the user's groups.
    pub(crate) fn user(mut self, name: &str, groups: &[&str]) -> Self {
        let groups = groups.iter().map(|&group| group.to_owned()).collect();
        self.user = Some(UserInfo { username: name.to_owned(), groups, ..UserInfo::default() });
        self
    }

    pub(crate) fn subresource(mut self, subresource: &'static str) -> Self {
        self.subresource = subresource;
        self
    }

    pub(crate) fn validating(mut self) -> Self {
        self.validating = true;
        self
    }

    pub(crate) fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    pub(crate) async fn create(self, group: &str, resource: &str, object: Value) -> Checked {
        self.run(Operation::Create, group, resource, Some(object), None).await
    }

    pub(crate) async fn update(self, group: &str, resource: &str, old: Value, new: Value) -> Checked {
        self.run(Operation::Update, group, resource, Some(new), Some(old)).await
    }

    pub(crate) async fn delete(self, group: &str, resource: &str, old: Value) -> Checked {
        self.run(Operation::Delete, group, resource, None, Some(old)).await
    }

    async fn run(
        self,
        operation: Operation,
        group: &str,
        resource: &str,
        new: Option<Value>,
        old: Option<Value>,
    ) -> Checked {
        let mut attributes = attributes(operation, group, resource, new.clone(), old);
        attributes.dry_run = self.dry_run;
        attributes.context.authorizer = self.authorizer.clone();
        attributes.subresource = self.subresource.to_owned();
        if let Some(user) = &self.user {
            attributes.context.user = Arc::new(user.clone());
        }
        let result = self.call(&mut attributes).await;
        let after = attributes.object.clone();
        if result.is_ok() {
            // A second pass must not change the object further.
            self.call(&mut attributes).await.expect("the second pass refuses what the first one accepted");
            assert_eq!(attributes.object, after, "the second pass gives another object");
        }
        let result = result.map_err(|denial| denial.into_status(&attributes));
        Checked { before: new, after: after.map(Object::into_value), result }
    }

    async fn call(&self, attributes: &mut Attributes) -> Result<(), Denial> {
        if self.validating { self.plugin.validate(attributes).await } else { self.plugin.admit(attributes).await }
    }
}

/// The attributes of a request by an ordinary user.
pub(crate) fn attributes(
    operation: Operation,
    group: &str,
    resource: &str,
    new: Option<Value>,
    old: Option<Value>,
) -> Attributes {
    let object = new.map(|value| Object::from_value(value).expect("a JSON object"));
    let old_object = old.map(|value| Arc::new(Object::from_value(value).expect("a JSON object")));
    let subject = object.as_ref().or(old_object.as_deref()).cloned().unwrap_or_default();
    let namespace = if resource == "namespaces" { subject.name() } else { subject.namespace() };
    let kind = if resource == "namespaces" { "Namespace" } else { "Any" };
    let (kind, resource) = (GroupVersionKind::new(group, "v1", kind), GroupVersionResource::new(group, "v1", resource));
    let user = UserInfo { username: "alice".into(), ..UserInfo::default() };
    let context = RequestContext::new(Arc::new(user), Instant::now() + Duration::from_secs(34));
    Attributes {
        namespace: namespace.to_owned(),
        name: subject.name().to_owned(),
        object,
        old_object,
        ..Attributes::new(operation, kind, resource, context)
    }
}

impl Checked {
    /// The admitted object.
    #[track_caller]
    pub(crate) fn after(self) -> Value {
        self.result.expect("the plugin refuses the request");
        self.after.expect("an object")
    }

    /// The refusal, or `None` if the request is admitted.
    pub(crate) fn refusal(self) -> Option<Status> {
        self.result.err()
    }

    /// The refusal's code, or `None` if the request is admitted.
    pub(crate) fn code(self) -> Option<u16> {
        self.refusal().map(|status| status.code)
    }

    #[track_caller]
    pub(crate) fn becomes(self, want: Value) {
        self.result.expect("the plugin refuses the request");
        assert_eq!(self.after, Some(want));
    }

    #[track_caller]
    pub(crate) fn stays_unchanged(self) {
        self.result.expect("the plugin refuses the request");
        assert_eq!(self.after, self.before);
    }

    #[track_caller]
    pub(crate) fn was_refused(self, code: u16, message: &str) -> Status {
        let status = self.result.expect_err("the plugin accepts the request");
        assert_eq!((status.code, status.message.as_str()), (code, message));
        status
    }
}
