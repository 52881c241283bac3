//! Places for reviews of credentials. A review is asked for before anything is known of the client, so its work has bounds.

use super::Failure;
use crate::answers::Key;
use crate::server::Connection;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Bounds of the reviews of credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewBounds {
    /// Reviews at a time.
    pub in_flight: usize,
    /// Reviews at a time for the requests of one connection.
    pub per_connection: usize,
    /// How long a request waits for its place; then it is refused with 429.
    pub wait_timeout: Duration,
    /// Bytes of a token; a longer one is no token, and not reviewed.
    pub token_bytes: usize,
}

impl Default for ReviewBounds {
    fn default() -> Self {
        Self { in_flight: 64, per_connection: 8, wait_timeout: Duration::from_secs(1), token_bytes: 64 << 10 }
    }
}

/// The places that all connections share.
pub(super) struct ReviewPlaces {
    pub(super) bounds: ReviewBounds,
    shared: Semaphore,
}

impl ReviewPlaces {
    pub(super) fn new(bounds: ReviewBounds) -> Self {
        let shared = Semaphore::new(bounds.in_flight);
        Self { bounds, shared }
    }

    /// A place for a review, until both permits are dropped.
    ///
    /// # Errors
    /// [`Failure::Busy`] when there is none in time, and at once on a connection that was refused.
    async fn take<'a>(&'a self, connection: &'a Connection) -> Result<[SemaphorePermit<'a>; 2], Failure> {
        // The connection's first: who waits for that one takes no place of anybody else's.
        let places = async {
            let own = self.of(connection).acquire().await?;
            Ok([own, self.shared.acquire().await?])
        };
        match tokio::time::timeout(self.bounds.wait_timeout, places).await {
            Ok(Ok::<_, tokio::sync::AcquireError>(places)) => Ok(places),
            Ok(Err(_)) | Err(_) => Err(Failure::Busy),
        }
    }

    /// As [`Self::take`]; `None` if there is no place and a review on this connection has rejected the same credentials. A client may
    /// send further requests before it knows that its connection ends, and kube-apiserver answers each of them with 401.
    pub(super) async fn take_for<'a>(
        &'a self,
        credentials: &Key,
        connection: &'a Connection,
    ) -> Result<Option<[SemaphorePermit<'a>; 2]>, Failure> {
        match self.take(connection).await {
            Err(Failure::Busy) if connection.state.has_rejected(credentials) => Ok(None),
            places => places.map(Some),
        }
    }

    /// Ends the reviews of a connection: requests that wait for one are refused.
    pub(super) fn refuse(&self, connection: &Connection) {
        self.of(connection).close();
    }

    fn of<'a>(&self, connection: &'a Connection) -> &'a Semaphore {
        connection.state.reviews(self.bounds.per_connection)
    }
}
