//! Places for reviews of credentials. A review starts before the client is known, so the number of reviews is bounded.

use super::Failure;
use crate::answers::Key;
use crate::config::Limits;
use crate::server::Connection;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

/// A place of the connection, of the tenant and of the process.
type Places<'a> = (SemaphorePermit<'a>, Option<SemaphorePermit<'a>>, SemaphorePermit<'a>);

/// Bounds of the reviews of credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewBounds {
    /// Reviews at the same time.
    pub in_flight: usize,
    /// Reviews at the same time for the requests of one connection.
    pub per_connection: usize,
    /// The longest time that a request waits for its place; then it is rejected with 429.
    pub wait_timeout: Duration,
    /// Bytes that a token may have; a longer token is invalid, without a review.
    pub token_bytes: usize,
}

impl From<&Limits> for ReviewBounds {
    fn from(limits: &Limits) -> Self {
        Self {
            in_flight: limits.credential_reviews,
            per_connection: limits.credential_reviews_per_connection,
            wait_timeout: limits.credential_review_wait_timeout,
            token_bytes: limits.token_bytes,
        }
    }
}

impl Default for ReviewBounds {
    fn default() -> Self {
        Self::from(&Limits::default())
    }
}

/// The places that all connections share.
pub(super) struct ReviewPlaces {
    pub(super) bounds: ReviewBounds,
    shared: Arc<Semaphore>,
    /// The places of the requests that address one tenant, among the shared ones.
    part: Option<Semaphore>,
}

impl ReviewPlaces {
    pub(super) fn new(bounds: ReviewBounds) -> Self {
        let shared = Arc::new(Semaphore::new(bounds.in_flight));
        Self { bounds, shared, part: None }
    }

    /// Returns these places, of which at most half are used.
    pub(super) fn half(&self) -> Self {
        let part = Semaphore::new((self.bounds.in_flight / 2).max(1));
        Self { bounds: self.bounds.clone(), shared: self.shared.clone(), part: Some(part) }
    }

    /// Takes a place for a review; all permits must be dropped to free it.
    ///
    /// # Errors
    /// [`Failure::Busy`] if no place is free in time, and at once on a rejected connection.
    async fn take<'a>(&'a self, connection: &'a Connection) -> Result<Places<'a>, Failure> {
        // The connection's place comes first: a request that waits for it takes no place from other connections.
        let places = async {
            let own = self.of(connection).acquire().await?;
            let part = match &self.part {
                Some(part) => Some(part.acquire().await?),
                None => None,
            };
            Ok((own, part, self.shared.acquire().await?))
        };
        match tokio::time::timeout(self.bounds.wait_timeout, places).await {
            Ok(Ok::<_, tokio::sync::AcquireError>(places)) => Ok(places),
            Ok(Err(_)) | Err(_) => Err(Failure::Busy),
        }
    }

    /// As [`Self::take`]; `None` if there is no place, and a review on this connection has rejected the same credentials. A client may
    /// send further requests before it learns that its connection ends, and kube-apiserver answers each of them with 401.
    pub(super) async fn take_for<'a>(
        &'a self,
        credentials: &Key,
        connection: &'a Connection,
    ) -> Result<Option<Places<'a>>, Failure> {
        match self.take(connection).await {
            Err(Failure::Busy) if connection.state.has_rejected(credentials) => Ok(None),
            places => places.map(Some),
        }
    }

    /// Ends the reviews of a connection: requests that wait for a place are rejected.
    pub(super) fn refuse(&self, connection: &Connection) {
        self.of(connection).close();
    }

    fn of<'a>(&self, connection: &'a Connection) -> &'a Semaphore {
        connection.state.reviews(self.bounds.per_connection)
    }
}
