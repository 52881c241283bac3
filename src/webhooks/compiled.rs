//! Configurations and the hooks compiled from them, swapped as one when the configurations change.

use super::hook::Hooks;
use arc_swap::ArcSwap;
use std::sync::{Arc, Mutex, PoisonError};

/// The hooks of the configurations of one kind.
pub struct Compiled<C> {
    current: ArcSwap<Snapshot<C>>,
    compiling: Mutex<()>,
}

/// Hooks, and what they were compiled from.
struct Snapshot<C> {
    configurations: Arc<Vec<Arc<C>>>,
    hooks: Arc<Hooks>,
}

impl<C> Default for Compiled<C> {
    fn default() -> Self {
        let nothing = Snapshot { configurations: Arc::default(), hooks: Arc::default() };
        Self { current: ArcSwap::from_pointee(nothing), compiling: Mutex::default() }
    }
}

impl<C> Compiled<C> {
    /// The hooks of the present configurations. Who finds that these changed compiles them; others wait for that.
    pub fn hooks(&self, present: impl Fn() -> Arc<Vec<Arc<C>>>, compile: impl Fn(&[Arc<C>]) -> Hooks) -> Arc<Hooks> {
        if let Some(hooks) = self.of(&present()) {
            return hooks;
        }
        let _compiling = self.compiling.lock().unwrap_or_else(PoisonError::into_inner);
        let configurations = present();
        if let Some(hooks) = self.of(&configurations) {
            return hooks;
        }
        let hooks = Arc::new(compile(&configurations));
        self.current.store(Arc::new(Snapshot { configurations, hooks: hooks.clone() }));
        hooks
    }

    fn of(&self, configurations: &Arc<Vec<Arc<C>>>) -> Option<Arc<Hooks>> {
        let current = self.current.load();
        Arc::ptr_eq(&current.configurations, configurations).then(|| current.hooks.clone())
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
        let compile = |_: &[Arc<u8>]| {
            count.set(count.get() + 1);
            Hooks::default()
        };
        let (first, second) = (Arc::new(vec![Arc::new(1)]), Arc::new(vec![Arc::new(2)]));
        for (present, want) in [(&first, 1), (&first, 1), (&second, 2), (&second, 2)] {
            compiled.hooks(|| present.clone(), compile);
            assert_eq!(count.get(), want);
        }
    }
}
