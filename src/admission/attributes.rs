//! `admission.Attributes`: the data of a request that plugins receive.

use super::{Annotations, Effects, RequestContext};
use crate::initializers;
use crate::kind::{GroupVersionKind, GroupVersionResource};
use crate::object::Object;
use crate::object::defaults::Defaulting;
use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The operation on the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Creates an object.
    Create,
    /// Changes a stored object.
    Update,
    /// Deletes an object.
    Delete,
    /// Connects to an object: exec, attach, portforward, proxy.
    Connect,
}

impl Operation {
    /// The operation with this name in Kubernetes' spelling.
    pub fn of(name: &str) -> Option<Self> {
        [Self::Create, Self::Update, Self::Delete, Self::Connect].into_iter().find(|one| one.as_str() == name)
    }

    /// The name in Kubernetes' spelling: `CREATE`, …
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// The data of a request that plugins receive. One value serves both phases, except for CONNECT, where each phase has its own.
#[derive(Debug)]
pub struct Attributes {
    /// The operation on the object.
    pub operation: Operation,
    /// The kind of the request's object.
    pub kind: GroupVersionKind,
    /// The resource in the request's URL.
    pub resource: GroupVersionResource,
    /// The subresource in the request's URL, or empty.
    pub(crate) subresource: String,
    /// The namespace. For the resource `namespaces`, the object's own name.
    pub namespace: String,
    /// The object's name. Empty in a create with `generateName` until the mutating phase ends, and in a deletecollection.
    pub name: String,
    /// The new object. `None` in a delete.
    pub object: Option<Object>,
    /// The stored object. `None` in a create and a connect.
    pub(crate) old_object: Option<Arc<Object>>,
    /// The operation's options object (`CreateOptions`, …) with its apiVersion and kind. `None` in a connect.
    pub options: Option<Arc<Object>>,
    /// Whether the request is a dry run.
    pub dry_run: bool,
    /// The caller and the bounds of the request.
    pub context: RequestContext,
    /// The audit annotations of the current phase.
    pub(crate) annotations: Annotations,
    /// State that the first pass of the mutating phase leaves for the second.
    pub(crate) reinvocation: Reinvocation,
    /// Annotations that a plugin of the validating phase shows to the later plugins.
    pub(crate) marks: Marks,
    /// The latency of the request's webhooks.
    pub(crate) webhook_time: WebhookTime,
    /// The plugin that refused the request.
    pub(crate) refused_by: OnceLock<&'static str>,
    /// Effects of the validating phase that are undone if the API server refuses the object as invalid.
    pub(crate) effects: Effects,
    /// Whether the object is an item of a collection that the request deletes.
    pub(crate) of_collection: bool,
    /// Whether the client's object has no namespace, so that the namespace in `object` comes from the URL.
    pub(crate) namespace_from_url: bool,
    /// The defaults of decoded objects, those that webhooks and policies change included.
    pub(crate) defaulting: Defaulting,
}

impl Attributes {
    /// The attributes of a request without namespace, name, objects and options, which struct update fills in.
    pub fn new(
        operation: Operation,
        kind: GroupVersionKind,
        resource: GroupVersionResource,
        context: RequestContext,
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
            context,
            annotations: Annotations::default(),
            reinvocation: Reinvocation::default(),
            marks: Marks::default(),
            webhook_time: WebhookTime::default(),
            refused_by: OnceLock::new(),
            effects: Effects::default(),
            of_collection: false,
            namespace_from_url: false,
            defaulting: Defaulting::default(),
        }
    }

    /// Whether the request creates or updates a namespace. If so, the namespace's labels are those of the object.
    pub(crate) fn writes_namespace(&self) -> bool {
        let is_written = matches!(self.operation, Operation::Create | Operation::Update);
        is_written && self.resource.resource == "namespaces" && self.subresource.is_empty()
    }

    /// Whether the request updates an object that has not been initialized (`util.IsUpdatingUninitializedObject` of Kubernetes 1.13).
    /// The plugins of Kubernetes 1.13 treated such an update of a pod as a create.
    pub(crate) fn updates_uninitialized(&self) -> bool {
        self.operation == Operation::Update && self.old_object.as_deref().is_some_and(initializers::are_pending)
    }

    /// The name that errors use (`admission.extractResourceName`): the request's, else the object's, else the object's
    /// `generateName`, else `Unknown`.
    pub(crate) fn name_for_errors(&self) -> &str {
        if !self.name.is_empty() {
            return &self.name;
        }
        let Some(object) = &self.object else { return "Unknown" };
        // Only the options objects of CONNECT have no metadata.
        if self.operation == Operation::Connect {
            return "Unknown/errorGettingName";
        }
        [object.name(), object.generate_name()].into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown")
    }
}

/// The latency of webhooks as kube-apiserver adds it up (`LatencyTrackers`): the sum for mutating webhooks, which run one after
/// the other, and the maximum for validating webhooks, which run at once.
#[derive(Debug, Default)]
pub(crate) struct WebhookTime {
    mutating_nanoseconds: AtomicU64,
    validating_nanoseconds: AtomicU64,
}

impl WebhookTime {
    /// Adds the latency of a call to a mutating webhook.
    pub(crate) fn add_mutating(&self, time: Duration) {
        self.mutating_nanoseconds.fetch_add(nanoseconds(time), Ordering::Relaxed);
    }

    /// Records the latency of a call to a validating webhook.
    pub(crate) fn add_validating(&self, time: Duration) {
        self.validating_nanoseconds.fetch_max(nanoseconds(time), Ordering::Relaxed);
    }

    /// Returns the latencies of mutating and of validating webhooks since the last call, and resets both.
    pub(crate) fn take(&self) -> [Duration; 2] {
        [&self.mutating_nanoseconds, &self.validating_nanoseconds]
            .map(|nanoseconds| Duration::from_nanos(nanoseconds.swap(0, Ordering::Relaxed)))
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Annotations that a plugin of the validating phase puts on the object. Later plugins see these annotations, but they are not
/// stored: in kube-apiserver the validating phase works on a copy of the object.
#[derive(Debug, Default)]
pub(crate) struct Marks(Mutex<Vec<(&'static str, &'static str)>>);

impl Marks {
    /// Puts an annotation on the object.
    pub(crate) fn add(&self, key: &'static str, value: &'static str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((key, value));
    }

    /// Takes the annotations that were added since the last call.
    pub(crate) fn take(&self) -> Vec<(&'static str, &'static str)> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// `admission.ReinvocationContext`: one value per request, shared by the plugins of the mutating phase.
#[derive(Debug, Default)]
pub(crate) struct Reinvocation {
    /// Whether this pass is the second.
    pub(crate) is_reinvoke: bool,
    /// Whether a plugin requested reinvocation, which is a second pass.
    pub(crate) requested: bool,
    /// Whether times in kube-apiserver's object are finer than their JSON form. The first patch truncates such times, and so
    /// counts as a change even if the patch changes nothing else.
    pub(crate) has_fine_times: bool,
    values: Mutex<HashMap<&'static str, Box<dyn Any + Send>>>,
}

impl Reinvocation {
    /// Takes the value that `plugin` left in the first pass.
    pub(crate) fn take<T: 'static>(&self, plugin: &'static str) -> Option<T> {
        let value = self.values.lock().unwrap_or_else(PoisonError::into_inner).remove(plugin)?;
        value.downcast().ok().map(|value| *value)
    }

    /// Leaves a value for the plugin's second pass.
    pub(crate) fn leave<T: Send + 'static>(&self, plugin: &'static str, value: T) {
        self.values.lock().unwrap_or_else(PoisonError::into_inner).insert(plugin, Box::new(value));
    }
}
