//! What an admission plugin is, and what it gets to see.
//!
//! A plugin knows nothing of HTTP, kube clients or tasks: it reads [`Attributes`] and the cluster's state, changes the
//! object in the mutating phase, and answers with a [`Denial`] where it refuses. The chain is in `chain.rs`.

mod annotations;
mod attributes;
mod budget;
mod caller;
mod denial;
mod effects;
pub mod chain;
pub mod metrics;
mod options;
pub mod shadow;
mod spec;
mod warnings;

pub use annotations::{Annotation, Annotations, Level};
pub use attributes::{Attributes, Marks, Operation, Reinvocation, WebhookTime};
pub use budget::Budget;
pub use caller::CallerAuthorizer;
pub use chain::Chain;
pub use denial::Denial;
pub use effects::Effects;
pub use options::PolicyOptions;
pub use spec::{Environment, Operations, Phases, Resources, Spec};
pub use warnings::Warnings;

pub use crate::config::BuildError;

use async_trait::async_trait;

/// An admission plugin. A phase that its [`Spec`] does not name is never called.
#[async_trait]
pub trait Plugin: Send + Sync {
    /// The mutating phase: may change `attributes.object`. Run twice, it must give the same object.
    ///
    /// # Errors
    /// When it refuses the request.
    async fn admit(&self, _attributes: &mut Attributes) -> Result<(), Denial> {
        Ok(())
    }

    /// The validating phase: changes nothing but audit annotations and warnings.
    ///
    /// # Errors
    /// When it refuses the request.
    async fn validate(&self, _attributes: &Attributes) -> Result<(), Denial> {
        Ok(())
    }

    /// Whether its validating phase may look at more than was submitted: at the object as it would be stored. Asked after
    /// the mutating phase, and in doubt the answer is yes.
    fn looks_at_stored(&self, _attributes: &Attributes) -> bool {
        false
    }

    /// Whether its mutating phase may look at `metadata.managedFields`; in doubt the answer is yes.
    fn looks_at_managed_fields(&self, _attributes: &Attributes) -> bool {
        false
    }

    /// Whether it changes something besides the object: in the cluster, at a backend, in counts of its own. With
    /// `--authorization-mode=AlwaysAllow` callers are authorized before such a plugin hears of a request. The webhook plugins are not
    /// among them.
    fn has_side_effects(&self) -> bool {
        false
    }

    /// What is wrong with what it reads of the cluster, for operators: policies that do not compile.
    fn problems(&self) -> Vec<String> {
        Vec::new()
    }
}
