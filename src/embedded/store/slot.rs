//! An object in memory: parsed, or as JSON, which takes a fraction of the memory.
//!
//! The objects of the kept history are parsed. An object that no kept change has touched is JSON, and is parsed again when it is read. As long
//! as anyone holds the parsed object, readers get the same one.

use crate::object::Object;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// An object of the store. A clone is the same object.
#[derive(Clone)]
pub(in crate::embedded) enum Slot {
    Parsed(Arc<Object>),
    Packed(Arc<Packed>),
}

pub(in crate::embedded) struct Packed {
    json: Box<[u8]>,
    parsed: Mutex<Weak<Object>>,
}

impl Slot {
    /// The object.
    pub(in crate::embedded) fn object(&self) -> Arc<Object> {
        match self {
            Self::Parsed(object) => object.clone(),
            Self::Packed(packed) => packed.object(),
        }
    }

    /// Whether the object must be parsed to be read.
    pub(super) fn is_packed(&self) -> bool {
        matches!(self, Self::Packed(_))
    }

    /// Whether the slot has this object, parsed.
    pub(super) fn has(&self, other: &Arc<Object>) -> bool {
        matches!(self, Self::Parsed(object) if Arc::ptr_eq(object, other))
    }

    /// The object as JSON.
    pub(super) fn packed(object: &Arc<Object>) -> Option<Self> {
        let json = serde_json::to_vec(&**object).ok()?.into();
        Some(Self::Packed(Arc::new(Packed { json, parsed: Mutex::new(Arc::downgrade(object)) })))
    }

    /// Whether this is the object in the slot.
    pub(super) fn is(&self, other: &Arc<Object>) -> bool {
        match self {
            Self::Parsed(object) => Arc::ptr_eq(object, other),
            Self::Packed(packed) => std::ptr::eq(packed.held().as_ptr(), Arc::as_ptr(other)),
        }
    }
}

impl Packed {
    fn object(&self) -> Arc<Object> {
        let mut parsed = self.held();
        parsed.upgrade().unwrap_or_else(|| {
            // The JSON is that of an object.
            let object = Arc::new(serde_json::from_slice(&self.json).unwrap_or_default());
            *parsed = Arc::downgrade(&object);
            object
        })
    }

    fn held(&self) -> MutexGuard<'_, Weak<Object>> {
        self.parsed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_packed_object_is_the_same_while_it_is_held_and_equal_later() {
        let object = Object::from_value(json!({"metadata": {"name": "a"}, "n": [1, 1.5, "x", null]})).unwrap();
        let parsed = Arc::new(object.clone());
        let slot = Slot::packed(&parsed).unwrap();
        assert!(slot.is_packed() && slot.is(&parsed) && Arc::ptr_eq(&slot.object(), &parsed));
        drop(parsed);
        let again = slot.clone().object();
        assert_eq!(*again, object);
        assert!(Arc::ptr_eq(&slot.object(), &again));
    }
}
