//! Places for reviews of credentials. A review starts before the client is known, so the number of reviews is bounded.

use super::Failure;
use crate::answers::Key;
use crate::config::Limits;
use crate::server::Connection;
use crate::sharer::{Sharer, Sharing};
use crate::shares::{Share, Shares};
use std::sync::Arc;
use tokio::sync::{Semaphore, SemaphorePermit};

/// A place of the connection, of the tenant and of the process.
type Places<'a> = (SemaphorePermit<'a>, SemaphorePermit<'a>, Share);

/// The places that all connections share. The clients of one address have at most half of them, over however many connections.
pub(super) struct ReviewPlaces {
    pub(super) limits: Arc<Limits>,
    shared: Arc<Shares>,
    /// The places of the requests that address one tenant, among the shared ones.
    part: Semaphore,
}

impl ReviewPlaces {
    /// Creates the places of a process.
    pub(super) fn new(limits: Arc<Limits>) -> Self {
        let shared = Shares::new(limits.credential_reviews, limits.credential_reviews.div_ceil(2));
        Self { limits, shared, part: Semaphore::new(Semaphore::MAX_PERMITS) }
    }

    /// Returns these places for one tenant: one of several uses at most half.
    pub(super) fn part(&self, sharing: &Sharing) -> Self {
        let part = match sharing {
            Sharing::ByUser => Semaphore::MAX_PERMITS,
            Sharing::AsTenant(_) => (self.limits.credential_reviews / 2).max(1),
        };
        Self { limits: self.limits.clone(), shared: self.shared.clone(), part: Semaphore::new(part) }
    }

    /// Takes a place for a review; all permits must be dropped to free it.
    ///
    /// # Errors
    /// [`Failure::Busy`] if no place is free in time, and at once on a rejected connection.
    async fn take<'a>(&'a self, connection: &'a Connection) -> Result<Places<'a>, Failure> {
        // The connection's place comes first: a request that waits for it takes no place from other connections.
        let places = async {
            let own = self.of(connection).acquire().await?;
            let part = self.part.acquire().await?;
            Ok((own, part, self.shared.take(&Sharer::of_address(connection.remote.ip()), 1).await))
        };
        match tokio::time::timeout(self.limits.credential_review_wait_timeout, places).await {
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
        connection.state.reviews(self.limits.credential_reviews_per_connection)
    }
}
