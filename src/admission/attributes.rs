//! `admission.Attributes`: what plugins see of a request.

use super::{Annotations, Budget, CallerAuthorizer, Effects, Warnings};
use crate::kind::{GroupVersionKind, GroupVersionResource};
use crate::object::Object;
use crate::user::UserInfo;
use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// What is done to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A new object.
    Create,
    /// A changed object.
    Update,
    /// An object goes.
    Delete,
    /// exec, attach, portforward, proxy.
    Connect,
}

impl Operation {
    /// As Kubernetes writes it: `CREATE`, …
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// What plugins see of a request. One record serves both phases, except for CONNECT, where each phase has its own.
#[derive(Debug)]
pub struct Attributes {
    /// What is done.
    pub operation: Operation,
    /// Kind of the request's object.
    pub kind: GroupVersionKind,
    /// Resource of the request's URL.
    pub resource: GroupVersionResource,
    /// Subresource of the request's URL, or empty.
    pub subresource: String,
    /// Namespace; the object's own name where the resource is `namespaces`.
    pub namespace: String,
    /// Name of the object; empty in a create with `generateName` until the mutating phase is over, and in a
    /// deletecollection.
    pub name: String,
    /// The new object; none in a delete.
    pub object: Option<Object>,
    /// The object as it is stored; none in a create and a connect.
    pub old_object: Option<Arc<Object>>,
    /// The operation's options object (`CreateOptions`, …) with its apiVersion and kind; none in a connect.
    pub options: Option<Arc<Object>>,
    /// Whether nothing is to be persisted.
    pub dry_run: bool,
    /// Who asks, after impersonation.
    pub user: Arc<UserInfo>,
    /// Whether who asks may do something else, too.
    pub authorizer: CallerAuthorizer,
    /// Until when the whole request must be through.
    pub deadline: Instant,
    /// What the chain may take of that.
    pub budget: Budget,
    /// Audit annotations of the phase that runs.
    pub annotations: Annotations,
    /// Warnings for the client.
    pub warnings: Arc<Warnings>,
    /// What the two passes of the mutating phase tell each other.
    pub reinvocation: Reinvocation,
    /// What a plugin of the validating phase wants those after it to see.
    pub marks: Marks,
    /// How long its webhooks took.
    pub webhook_time: WebhookTime,
    /// Effects of the validating phase that are undone if the API server refuses the object as invalid.
    pub effects: Effects,
}

impl Attributes {
    /// The attributes of a request without namespace, name, objects and options, to be filled in by struct update. Its authorizer
    /// allows nothing, and its phases have no time limit but `deadline`.
    pub fn new(
        operation: Operation,
        kind: GroupVersionKind,
        resource: GroupVersionResource,
        user: Arc<UserInfo>,
        deadline: Instant,
        warnings: Arc<Warnings>,
    ) -> Self {
        Self {
            operation,
            kind,
            resource,
            subresource: String::new(),
            namespace: String::new(),
            name: String::new(),
            object: None,
            old_object: None,
            options: None,
            dry_run: false,
            user,
            authorizer: CallerAuthorizer::default(),
            deadline,
            budget: Budget::default(),
            annotations: Annotations::default(),
            warnings,
            reinvocation: Reinvocation::default(),
            marks: Marks::default(),
            webhook_time: WebhookTime::default(),
            effects: Effects::default(),
        }
    }

    /// Until when a webhook may be waited for, however long it may take by itself.
    pub fn call_deadline(&self) -> Instant {
        self.budget.end().map_or(self.deadline, |end| end.min(self.deadline))
    }

    /// Whether a namespace is made or changed, so that its labels are those of the object.
    pub fn writes_namespace(&self) -> bool {
        let is_written = matches!(self.operation, Operation::Create | Operation::Update);
        is_written && self.resource.resource == "namespaces" && self.subresource.is_empty()
    }

    /// The name that errors use (`admission.extractResourceName`): of the request, else of the object, else its
    /// `generateName`, else `Unknown`.
    pub fn name_for_errors(&self) -> &str {
        if !self.name.is_empty() {
            return &self.name;
        }
        let Some(object) = &self.object else { return "Unknown" };
        // The options of a connect are the one kind of object without metadata.
        if self.operation == Operation::Connect {
            return "Unknown/errorGettingName";
        }
        [object.name(), object.generate_name()].into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown")
    }
}

/// How long webhooks took, as kube-apiserver adds it up (`LatencyTrackers`): those that are called one after the other count together,
/// and of those that are called at once the slowest.
#[derive(Debug, Default)]
pub struct WebhookTime {
    mutating_nanoseconds: AtomicU64,
    validating_nanoseconds: AtomicU64,
}

impl WebhookTime {
    /// Counts a call of a mutating webhook.
    pub fn add_mutating(&self, time: Duration) {
        self.mutating_nanoseconds.fetch_add(nanoseconds(time), Ordering::Relaxed);
    }

    /// Counts a call of a validating webhook.
    pub fn add_validating(&self, time: Duration) {
        self.validating_nanoseconds.fetch_max(nanoseconds(time), Ordering::Relaxed);
    }

    /// The times of mutating and of validating webhooks since the last call.
    pub fn take(&self) -> [Duration; 2] {
        [&self.mutating_nanoseconds, &self.validating_nanoseconds]
            .map(|nanoseconds| Duration::from_nanos(nanoseconds.swap(0, Ordering::Relaxed)))
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Annotations that a plugin of the validating phase puts on the object. The plugins after it see them, but nobody stores
/// them: in kube-apiserver that phase has a copy of the object.
#[derive(Debug, Default)]
pub struct Marks(Mutex<Vec<(&'static str, &'static str)>>);

impl Marks {
    /// Puts an annotation on the object.
    pub fn add(&self, key: &'static str, value: &'static str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((key, value));
    }

    /// Takes those that were put since the last time.
    pub fn take(&self) -> Vec<(&'static str, &'static str)> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// `admission.ReinvocationContext`: one a request, shared by the plugins of the mutating phase.
#[derive(Debug, Default)]
pub struct Reinvocation {
    /// Whether this is the second pass.
    pub is_reinvoke: bool,
    /// Whether a second pass was asked for.
    pub requested: bool,
    /// Whether kube-apiserver's object has times finer than their JSON. The first patch takes them away, so that it is a
    /// change even if it changes nothing else.
    pub has_fine_times: bool,
    values: Mutex<HashMap<&'static str, Box<dyn Any + Send>>>,
}

impl Reinvocation {
    /// Takes what `plugin` left here in the first pass.
    pub fn take<T: 'static>(&self, plugin: &'static str) -> Option<T> {
        let value = self.values.lock().unwrap_or_else(PoisonError::into_inner).remove(plugin)?;
        value.downcast().ok().map(|value| *value)
    }

    /// Leaves something for the second pass.
    pub fn leave<T: Send + 'static>(&self, plugin: &'static str, value: T) {
        self.values.lock().unwrap_or_else(PoisonError::into_inner).insert(plugin, Box::new(value));
    }
}
