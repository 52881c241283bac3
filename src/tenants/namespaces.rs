//! The tenants of namespaces.

use super::Tenant;
use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

/// The tenant of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// No tenant: the namespace is of `default`.
    None,
    /// The tenant of this name, which may have no file.
    Tenant(String),
    /// The label and the name give different tenants: the namespace is nobody's.
    Contradiction,
}

/// The names of namespaces of the tenants of one API server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Owners {
    exact: HashMap<Box<str>, Box<str>>,
    /// Beginnings of names.
    beginnings: BTreeMap<Box<str>, Box<str>>,
}

impl Owners {
    /// Creates the index of the tenants with this API server: `None` for that of the flags.
    pub fn new(tenants: &[impl Borrow<Tenant>], kubeconfig: &Option<PathBuf>) -> Self {
        let mut owners = Self::default();
        for tenant in tenants.iter().map(Borrow::borrow).filter(|tenant| tenant.kubeconfig() == *kubeconfig) {
            for name in &tenant.profile.namespaces.names {
                let owner = tenant.name.as_str().into();
                match name.strip_suffix('*') {
                    Some(beginning) => drop(owners.beginnings.insert(beginning.into(), owner)),
                    None => drop(owners.exact.insert(name.as_str().into(), owner)),
                }
            }
        }
        owners
    }

    /// Returns the tenant whose names include this one. At most one does, because names of different tenants do not overlap.
    pub fn by_name(&self, namespace: &str) -> Option<&str> {
        if let Some(owner) = self.exact.get(namespace) {
            return Some(owner);
        }
        if self.beginnings.is_empty() {
            return None;
        }
        // A name has few characters, so a look-up for each beginning is quick whatever the number of tenants.
        let ends = namespace.char_indices().map(|(at, _)| at).skip(1).chain([namespace.len()]);
        ends.filter_map(|end| namespace.get(..end))
            .find_map(|beginning| self.beginnings.get(beginning))
            .map(|owner| &**owner)
    }

    /// Returns the tenant of a namespace with this label value, if it has the label.
    pub fn owner(&self, namespace: &str, label: Option<&str>) -> Owner {
        match (label, self.by_name(namespace)) {
            (None, None) => Owner::None,
            (Some(label), Some(name)) if label != name => Owner::Contradiction,
            (Some(tenant), _) | (None, Some(tenant)) => Owner::Tenant(tenant.to_owned()),
        }
    }
}
