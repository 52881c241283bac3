//! The rule for the capabilities of a container: `defaultAddCapabilities`, `requiredDropCapabilities`, `allowedCapabilities`.

use super::report::{Quoted, Report};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fmt;

/// The capabilities of a container.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Capabilities<'a> {
    #[serde(borrow)]
    add: Option<Vec<&'a str>>,
    drop: Option<Vec<&'a str>>,
}

/// The capabilities that a container gets in the place of its own.
#[derive(Debug, Default, PartialEq)]
pub(super) struct CapabilitySets {
    pub(super) add: BTreeSet<String>,
    pub(super) drop: BTreeSet<String>,
}

impl CapabilitySets {
    /// The sets as the field of a security context. An empty set is left out.
    pub(super) fn to_value(&self) -> Value {
        let sets = [("add", &self.add), ("drop", &self.drop)].into_iter().filter(|(_, set)| !set.is_empty());
        sets.map(|(field, set)| (field.to_owned(), json!(set))).collect::<Map<_, _>>().into()
    }
}

/// The rule for capabilities.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CapabilityRule {
    default_add: Vec<String>,
    required_drop: Vec<String>,
    /// The further capabilities that containers may add; `None` if they may add all.
    allowed: Option<Vec<String>>,
}

impl CapabilityRule {
    pub(super) fn new(default_add: Vec<String>, required_drop: Vec<String>, allowed: Vec<String>) -> Self {
        let allowed = Some(allowed).filter(|allowed| !allowed.iter().any(|capability| capability == "*"));
        Self { default_add, required_drop, allowed }
    }

    /// The capabilities that the container gets; `None` if it keeps its own (`defaultCapabilities.Generate`).
    pub(super) fn default(&self, own: Option<&Capabilities<'_>>) -> Option<CapabilitySets> {
        let (add, drop) = (own.map_or(&[][..], Capabilities::add), own.map_or(&[][..], Capabilities::drop));
        let adds = |capability: &&String| !add.contains(&&***capability) && !drop.contains(&&***capability);
        let drops = |capability: &&String| !drop.contains(&&***capability);
        let mut added = self.default_add.iter().filter(adds).peekable();
        let mut dropped = self.required_drop.iter().filter(drops).peekable();
        if added.peek().is_none() && dropped.peek().is_none() {
            return None;
        }
        let owned = |own: &[&str]| own.iter().map(|capability| (*capability).to_owned()).collect::<Vec<_>>();
        Some(CapabilitySets {
            add: added.cloned().chain(owned(add)).collect(),
            drop: dropped.cloned().chain(owned(drop)).collect(),
        })
    }

    /// Checks that the container may add its capabilities (`defaultCapabilities.Validate`). Capabilities that the policy requires
    /// to be dropped are dropped by [`Self::default`], so that kube-apiserver's further checks cannot fail.
    pub(super) fn check(
        &self,
        path: impl fmt::Display,
        own: Option<&Capabilities<'_>>,
        set: Option<&CapabilitySets>,
        report: &mut Report,
    ) {
        let Some(allowed) = &self.allowed else { return };
        let has = |list: &[String], capability: &str| list.iter().any(|listed| listed == capability);
        let mut check = |capability: &str| {
            if !has(&self.default_add, capability) && !has(allowed, capability) {
                report.invalid(format_args!("{path}.add"), Quoted(capability), "capability may not be added");
            }
        };
        match set {
            Some(set) => set.add.iter().for_each(|capability| check(capability)),
            None => own.map_or(&[][..], Capabilities::add).iter().for_each(|capability| check(capability)),
        }
    }
}

impl<'a> Capabilities<'a> {
    fn add(&self) -> &[&'a str] {
        self.add.as_deref().unwrap_or_default()
    }

    fn drop(&self) -> &[&'a str] {
        self.drop.as_deref().unwrap_or_default()
    }
}
