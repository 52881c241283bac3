//! ConfigMaps: the one with the certificates that verify the server's certificate is restored in every namespace.

use super::contents::{self, ROOT_CA};
use super::strategy::Strategy;
use crate::embedded::store::State;
use crate::object::Object;

pub(super) struct ConfigMaps;

impl Strategy for ConfigMaps {
    fn after_change(&self, state: &mut State, object: &Object) {
        if object.name() == ROOT_CA {
            contents::restore(state, object.namespace());
        }
    }
}
