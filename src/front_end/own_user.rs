//! The user of the proxy's own requests at the upstream API server.

use crate::server::health::Unhealthy;
use crate::upstream::review::ReviewError;
use crate::upstream::rights;
use std::sync::OnceLock;
use std::time::Duration;

/// The name of the user, once it is known.
#[derive(Debug, Default)]
pub struct OwnUserName(OnceLock<String>);

impl OwnUserName {
    /// Whether this is the user's name.
    pub(crate) fn is(&self, username: &str) -> bool {
        self.0.get().is_some_and(|own| own == username)
    }

    /// Whether the name is known.
    ///
    /// # Errors
    /// If the name is not known yet.
    pub(crate) fn check(&self) -> Result<(), Unhealthy> {
        let unknown = "the proxy's own user is not known yet: the front end reviews the proxy's own requests too";
        self.0.get().map(|_| ()).ok_or_else(|| Unhealthy::of(unknown))
    }

    /// Asks the upstream API server.
    ///
    /// # Errors
    /// If it does not answer, or does not know the user.
    pub(crate) async fn ask(&self, client: &kube::Client, timeout: Duration) -> Result<(), ReviewError> {
        let name = rights::user(client, timeout).await?;
        self.0.get_or_init(|| name);
        Ok(())
    }
}
