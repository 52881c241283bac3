//! The tenants of namespaces.

use super::profile::MemberKind;
use super::{OPERATORS, TenantFile};
use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;
use std::path::PathBuf;

/// The tenant of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// No tenant: the namespace is of `default`.
    None,
    /// The tenant of this name, which may have no file.
    Tenant(String),
    /// The label and the name give different tenants: the namespace has no tenant.
    Contradiction,
}

/// The names of namespaces of the tenants of one API server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Owners {
    exact: HashMap<Box<str>, Box<str>>,
    /// Beginnings of names, none of which is the beginning of another.
    beginnings: BTreeMap<Box<str>, Box<str>>,
    /// Namespaces of service accounts that are operators. They have no tenant by their names.
    of_operators: HashSet<Box<str>>,
}

impl Owners {
    /// Creates the index of the tenants with this API server: `None` for that of the flags.
    pub fn new(tenants: &[impl Borrow<TenantFile>], kubeconfig: &Option<PathBuf>) -> Self {
        let mut owners = Self::default();
        for tenant in tenants.iter().map(Borrow::borrow).filter(|tenant| tenant.kubeconfig() == *kubeconfig) {
            if tenant.name == OPERATORS {
                let accounts = tenant.profile.members.iter().filter(|member| member.kind == MemberKind::ServiceAccount);
                owners.of_operators.extend(accounts.map(|member| member.namespace.as_str().into()));
            }
            for name in &tenant.profile.namespaces.names {
                let owner = tenant.name.as_str().into();
                match name.strip_suffix('*') {
                    Some(beginning) => owners.add(beginning, owner),
                    None => drop(owners.exact.insert(name.as_str().into(), owner)),
                }
            }
        }
        owners
    }

    /// Adds a beginning. Beginnings of different tenants do not overlap; of two that do, the shorter one says all.
    fn add(&mut self, beginning: &str, owner: Box<str>) {
        if self.by_beginning(beginning).is_none() {
            let from = self.beginnings.range::<str, _>((Bound::Included(beginning), Bound::Unbounded));
            let longer: Vec<_> =
                from.map(|(other, _)| other).take_while(|other| other.starts_with(beginning)).cloned().collect();
            longer.iter().for_each(|other| drop(self.beginnings.remove(other)));
            self.beginnings.insert(beginning.into(), owner);
        }
    }

    fn by_beginning(&self, namespace: &str) -> Option<&str> {
        // Between a beginning and the name, in the order of texts, are only texts with the same beginning.
        let upto = (Bound::Unbounded, Bound::Included(namespace));
        let (beginning, owner) = self.beginnings.range::<str, _>(upto).next_back()?;
        namespace.starts_with(&**beginning).then_some(owner)
    }

    /// Returns the tenant whose names include this one. At most one does, because names of different tenants do not overlap.
    pub(crate) fn by_name(&self, namespace: &str) -> Option<&str> {
        self.exact.get(namespace).map(|owner| &**owner).or_else(|| self.by_beginning(namespace))
    }

    /// Whether only operators may create a namespace of this name: its service accounts are operators.
    pub(crate) fn is_of_operators(&self, namespace: &str) -> bool {
        self.of_operators.contains(namespace)
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
