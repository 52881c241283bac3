//! The interface to conversion webhooks, which a higher layer calls.

use crate::kind::GroupVersionKind;
use crate::object::Object;
use async_trait::async_trait;
use std::error::Error;

/// Calls the webhooks of definitions with `spec.conversion.strategy: Webhook`.
#[async_trait]
pub(crate) trait Webhooks: Send + Sync {
    /// Converts an object. `definition` is the definition as stored.
    ///
    /// # Errors
    /// If the webhook cannot be called, or its answer is invalid, with kube-apiserver's text.
    async fn convert(
        &self,
        definition: &Object,
        object: &Object,
        from: &GroupVersionKind,
        to: &GroupVersionKind,
    ) -> Result<Object, Box<dyn Error + Send + Sync>>;
}
