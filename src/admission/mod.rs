//! The interface of admission plugins, and the attributes that plugins receive.
//!
//! A plugin knows nothing of HTTP, kube clients or tasks: a plugin reads [`Attributes`] and the cluster's state, changes the
//! object in the mutating phase, and returns a [`Denial`] to refuse a request. The chain is in `chain.rs`.

mod changes;
mod annotations;
mod attributes;
mod budget;
mod caller;
mod counts;
mod denial;
mod effects;
pub(crate) mod chain;
pub(crate) mod metrics;
mod options;
mod refusals;
mod request_context;
pub(crate) mod shadow;
mod spec;
mod warnings;

pub(crate) use annotations::{Annotation, Annotations, Level};
pub use attributes::{Attributes, Operation};
pub(crate) use budget::Budget;
pub(crate) use caller::CallerAuthorizer;
pub use chain::Chain;
pub(crate) use chain::Phase;
pub(crate) use denial::Denial;
pub(crate) use effects::Effects;
pub(crate) use options::PolicyOptions;
pub(crate) use refusals::{RefusalLog, Refused};
pub use request_context::RequestContext;
pub(crate) use spec::{FrontEndSupport, Operations, Phases, Removed, Resources};
pub use spec::{PluginEnvironment, Spec};
pub(crate) use warnings::Warnings;

pub(crate) use crate::config::BuildError;

use async_trait::async_trait;
use serde_json::Value;

/// An admission plugin. The chain calls only the phases that the plugin's [`Spec`] names.
#[async_trait]
pub(crate) trait Plugin: Send + Sync {
    /// Runs the mutating phase, which may change `attributes.object`. A second run on the result must not change the object.
    ///
    /// # Errors
    /// If the plugin refuses the request.
    async fn admit(&self, _attributes: &mut Attributes) -> Result<(), Denial> {
        Ok(())
    }

    /// Runs the validating phase, which changes nothing but audit annotations and warnings.
    ///
    /// # Errors
    /// If the plugin refuses the request.
    async fn validate(&self, _attributes: &Attributes) -> Result<(), Denial> {
        Ok(())
    }

    /// Runs once for a request that deletes a collection, before both phases run for each item. `attributes` has no object.
    ///
    /// # Errors
    /// If the plugin refuses the request.
    async fn admit_collection(&self, _attributes: &mut Attributes) -> Result<(), Denial> {
        Ok(())
    }

    /// Whether the plugin's validating phase may read the object as it would be stored, and not only as it was submitted. The
    /// chain calls this after the mutating phase. A plugin that cannot know returns true.
    fn reads_stored_object(&self, _attributes: &Attributes) -> bool {
        false
    }

    /// Whether the plugin's mutating phase may read `metadata.managedFields`. A plugin that cannot know returns true.
    fn reads_managed_fields(&self, _attributes: &Attributes) -> bool {
        false
    }

    /// What the plugin shows of its webhooks or policies to people who look into the process.
    fn look(&self) -> Option<Value> {
        None
    }

    /// Returns whether the request may make the plugin change something besides the object: in the cluster, at a backend, in counts of
    /// the plugin's own. With `--authorization-mode=AlwaysAllow`, the proxy authorizes the caller before the chain runs a phase of such a
    /// plugin. A plugin whose answer can become wrong before it acts also reads [`RequestContext::is_authorized`]. The webhook plugins
    /// return false.
    fn has_side_effects(&self, _attributes: &Attributes) -> bool {
        false
    }

    /// Whether the emulated release has no such operation of the plugin. The [`Spec`] has the operations of all releases. The chain neither calls
    /// nor counts the plugin for an operation that is left out.
    fn leaves_out(&self, _operation: Operation) -> bool {
        false
    }

    /// Whether the plugin itself names its changes of the object for the audit event.
    fn names_own_changes(&self) -> bool {
        false
    }

    /// Problems in the configuration of the plugin, or in the objects that it reads from the cluster, for operators: policies that do not
    /// compile.
    fn problems(&self) -> Vec<String> {
        Vec::new()
    }
}
