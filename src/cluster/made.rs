//! Values made from cached objects, which the views of a cluster share: a policy of the API is compiled once for all tenants.

use super::Cluster;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

type AnyWeak = Weak<dyn Any + Send + Sync>;

/// The values in use, by their type and the address of their object.
#[derive(Default)]
pub(super) struct Made(Mutex<HashMap<(TypeId, usize), (AnyWeak, AnyWeak)>>);

impl Cluster {
    /// Returns the value that was made from this object, or makes it. Callers wait for each other, so that none makes what another makes.
    pub(crate) fn made_once<S, T>(&self, object: &Arc<S>, make: impl FnOnce() -> T) -> Arc<T>
    where
        S: Any + Send + Sync,
        T: Any + Send + Sync,
    {
        let key = (TypeId::of::<T>(), Arc::as_ptr(object).addr());
        let mut all = self.made.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.get(&key).and_then(|(of, value)| {
            // The address may be that of an earlier object.
            let of = of.upgrade()?.downcast::<S>().ok()?;
            let value = value.upgrade()?.downcast::<T>().ok()?;
            Arc::ptr_eq(&of, object).then_some(value)
        });
        if let Some(known) = known {
            return known;
        }
        let value = Arc::new(make());
        if all.len() == all.capacity() {
            all.retain(|_, (_, value)| value.strong_count() > 0);
        }
        let of: Arc<dyn Any + Send + Sync> = object.clone();
        let any: Arc<dyn Any + Send + Sync> = value.clone();
        all.insert(key, (Arc::downgrade(&of), Arc::downgrade(&any)));
        value
    }
}

#[cfg(test)]
mod tests {
    use crate::cluster::{Cluster, FixedState};
    use std::sync::Arc;

    #[test]
    fn views_share_what_is_made_from_one_object() {
        let cluster = Cluster::fixed(FixedState::default());
        let view = cluster.view(&[]);
        let (one, other) = (Arc::new(1_u8), Arc::new(1_u8));
        let made = cluster.made_once(&one, || String::from("a"));
        assert!(Arc::ptr_eq(&made, &view.made_once(&one, || String::from("b"))));
        assert_eq!(*view.made_once(&other, || String::from("b")), "b");
        drop(made);
        assert_eq!(*view.made_once(&one, || String::from("c")), "c");
    }
}
