//! Effects of a plugin's validating phase on the plugin's own state, and the way to undo these effects.

use std::fmt;
use std::sync::{Mutex, PoisonError};

type Undo = Box<dyn FnOnce() + Send>;

/// The effects of the validating phase on one request. In kube-apiserver, an object that is refused as invalid never reaches
/// the validating phase (`rest.BeforeCreate` runs first). Here the API server may refuse the object after the phase, and the
/// pipeline undoes the effects.
#[derive(Default)]
pub(crate) struct Effects(Mutex<Vec<Undo>>);

impl Effects {
    /// Records the function that undoes an effect.
    pub(crate) fn undo_with(&self, undo: impl FnOnce() + Send + 'static) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(undo));
    }

    /// Moves all effects out.
    #[must_use]
    pub(crate) fn take(&self) -> Self {
        Self(Mutex::new(std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))))
    }

    /// Undoes all effects.
    pub(crate) fn undo(&self) {
        for undo in self.take().0.into_inner().unwrap_or_else(PoisonError::into_inner) {
            undo();
        }
    }
}

impl fmt::Debug for Effects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Effects")
    }
}
