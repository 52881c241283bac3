//! Configurations and the hooks compiled from them, swapped as one when the configurations change.

use super::hook::Hooks;
use arc_swap::ArcSwap;
use std::sync::{Arc, Mutex, PoisonError};

/// The configurations of one kind at one time; each list is the same `Arc` as long as nothing in it changes.
pub struct Configurations<C> {
    /// Those from files.
    pub manifests: Arc<Vec<Arc<C>>>,
    /// Those from the API.
    pub stored: Arc<Vec<Arc<C>>>,
}

impl<C> Configurations<C> {
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.manifests, &other.manifests) && Arc::ptr_eq(&self.stored, &other.stored)
    }
}

/// The hooks of the configurations of one kind.
pub struct Compiled<C> {
    current: ArcSwap<Snapshot<C>>,
    compiling: Mutex<()>,
}

/// Hooks, and what they were compiled from.
struct Snapshot<C> {
    configurations: Configurations<C>,
    hooks: Arc<Hooks>,
}

impl<C> Default for Compiled<C> {
    fn default() -> Self {
        let configurations = Configurations { manifests: Arc::default(), stored: Arc::default() };
        let nothing = Snapshot { configurations, hooks: Arc::default() };
        Self { current: ArcSwap::from_pointee(nothing), compiling: Mutex::default() }
    }
}

impl<C> Compiled<C> {
    /// The hooks of the present configurations. Who finds that these changed compiles them; others wait for that.
    pub fn hooks(
        &self,
        present: impl Fn() -> Configurations<C>,
        compile: impl Fn(&[Arc<C>], &[Arc<C>]) -> Hooks,
    ) -> Arc<Hooks> {
        if let Some(hooks) = self.of(&present()) {
            return hooks;
        }
        let _compiling = self.compiling.lock().unwrap_or_else(PoisonError::into_inner);
        let configurations = present();
        if let Some(hooks) = self.of(&configurations) {
            return hooks;
        }
        let hooks = Arc::new(compile(&configurations.manifests, &configurations.stored));
        self.current.store(Arc::new(Snapshot { configurations, hooks: hooks.clone() }));
        hooks
    }

    fn of(&self, configurations: &Configurations<C>) -> Option<Arc<Hooks>> {
        let current = self.current.load();
        current.configurations.is(configurations).then(|| current.hooks.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn hooks_are_compiled_once_per_change() {
        let compiled = Compiled::<u8>::default();
        let count = Cell::new(0);
        let compile = |_: &[Arc<u8>], _: &[Arc<u8>]| {
            count.set(count.get() + 1);
            Hooks::default()
        };
        let (first, second) = (Arc::new(vec![Arc::new(1)]), Arc::new(vec![Arc::new(2)]));
        for (manifests, stored, want) in [
            (&first, &first, 1),
            (&first, &first, 1),
            (&first, &second, 2),
            (&first, &second, 2),
            (&second, &second, 3),
        ] {
            let present = || Configurations { manifests: manifests.clone(), stored: stored.clone() };
            compiled.hooks(present, compile);
            assert_eq!(count.get(), want);
        }
    }
}
