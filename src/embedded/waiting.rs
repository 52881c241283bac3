//! The places of creates that wait for initializers.

use crate::sharer::Sharer;
use crate::status::Status;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The creates that wait: at most a fixed number for each user. The service accounts of a namespace are one user.
pub(in crate::embedded) struct Waiting {
    of_one: usize,
    users: Mutex<HashMap<Sharer, usize>>,
}

/// A place among the creates that wait, free again when dropped.
pub(in crate::embedded) struct Place {
    waiting: Arc<Waiting>,
    user: Sharer,
}

impl Waiting {
    /// No creates, and a bound for each user.
    pub(in crate::embedded) fn new(of_one: usize) -> Self {
        Self { of_one, users: Mutex::default() }
    }

    /// Takes a place.
    ///
    /// # Errors
    /// 429 if the user has no place left.
    pub(in crate::embedded) fn enter(self: &Arc<Self>, user: Sharer) -> Result<Place, Status> {
        let mut users = self.users();
        let taken = users.entry(user.clone()).or_default();
        if *taken >= self.of_one {
            return Err(Status::try_again_later());
        }
        *taken += 1;
        Ok(Place { waiting: self.clone(), user })
    }

    fn users(&self) -> MutexGuard<'_, HashMap<Sharer, usize>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut users = self.waiting.users();
        let Some(taken) = users.get_mut(&self.user) else { return };
        *taken -= 1;
        if *taken == 0 {
            users.remove(&self.user);
        }
    }
}
