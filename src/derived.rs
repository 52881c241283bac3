//! A value derived from sources, which is computed again and replaced atomically when the sources change.

use arc_swap::ArcSwap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// Configurations from files, and configurations from the API; each list stays the same `Arc` until its content changes.
pub(crate) type FromFilesAndApi<C> = (Arc<Vec<Arc<C>>>, Arc<Vec<Arc<C>>>);

/// A value that is made at its first use. Empty caches take memory, and a plugin of a quiet tenant needs none.
pub(crate) type Lazy<T> = LazyLock<T, Box<dyn FnOnce() -> T + Send>>;

/// A `T` derived from an `S`.
#[derive(Debug)]
pub(crate) struct Derived<S, T> {
    current: ArcSwap<Snapshot<S, T>>,
    making: Mutex<()>,
}

/// The derived value with its sources; `sources` is `None` at first.
#[derive(Debug)]
struct Snapshot<S, T> {
    sources: Option<S>,
    made: Arc<T>,
}

impl<S, T: Default> Default for Derived<S, T> {
    fn default() -> Self {
        let nothing = Snapshot { sources: None, made: Arc::default() };
        Self { current: ArcSwap::from_pointee(nothing), making: Mutex::default() }
    }
}

impl<S, T> Derived<S, T> {
    /// Returns the last derived value, even if the sources have changed.
    pub(crate) fn last(&self) -> Arc<T> {
        self.current.load().made.clone()
    }

    /// Returns the value derived from the present sources. If the sources are not the `same` any more, one caller derives a new
    /// value from them and the last value; other callers wait for that.
    pub(crate) fn get(
        &self,
        present: impl Fn() -> S,
        same: impl Fn(&S, &S) -> bool,
        make: impl Fn(&S, &T) -> T,
    ) -> Arc<T> {
        let of = |sources: &S| {
            let current = self.current.load();
            current.sources.as_ref().is_some_and(|of| same(of, sources)).then(|| current.made.clone())
        };
        if let Some(made) = of(&present()) {
            return made;
        }
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let sources = present();
        if let Some(made) = of(&sources) {
            return made;
        }
        let made = Arc::new(make(&sources, &self.current.load().made));
        self.current.store(Arc::new(Snapshot { sources: Some(sources), made: made.clone() }));
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn makes_once_per_change() {
        let (derived, count) = (Derived::<Arc<u8>, u8>::default(), Cell::new(0));
        let make = |source: &Arc<u8>, before: &u8| {
            count.set(count.get() + 1);
            **source + before
        };
        let (first, second) = (Arc::new(1), Arc::new(10));
        for (present, made, times) in [(&first, 1, 1), (&first, 1, 1), (&second, 11, 2), (&second, 11, 2)] {
            assert_eq!(*derived.get(|| present.clone(), Arc::ptr_eq, make), made);
            assert_eq!(count.get(), times);
        }
    }
}
