//! An index that finds the criteria that may match a request without a visit of all others: by the rules, which are evaluated once for each
//! kind of request, by the names of objects, and by the labels that selectors require.

use super::criteria::{Criteria, RuleMatch};
use crate::admission::{Attributes, Operation};
use crate::cluster::Cluster;
use crate::object::Object;
use crate::object::selector::{InvalidSelector, LabelSelector, Matching, SelectorSet};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

/// The number of kinds of requests for which the matching rules are cached.
const KINDS: usize = 512;

/// An index of criteria by their positions.
#[derive(Debug, Default)]
pub(crate) struct Index {
    kinds: RwLock<Kinds>,
    namespaces: SelectorSet,
    objects: SelectorSet,
}

/// The rules that match each kind of request so far, by resource.
#[derive(Debug, Default)]
struct Kinds {
    by_resource: HashMap<Box<str>, Vec<Kind>>,
    count: usize,
}

/// A kind of requests between which rules differ only by object name, and the criteria that may match.
#[derive(Debug)]
struct Kind {
    group: Box<str>,
    version: Box<str>,
    subresource: Box<str>,
    operation: Operation,
    has_namespace: bool,
    listed: Listed,
}

/// Positions in ascending order.
type Positions = Arc<[u32]>;

#[derive(Debug, Default)]
struct Listed {
    any: Positions,
    /// Criteria that match objects of this name, but not of any name.
    by_name: HashMap<Box<str>, Positions>,
}

impl Kind {
    fn is_of(&self, attributes: &Attributes) -> bool {
        let Attributes { resource, subresource, operation, namespace, .. } = attributes;
        self.operation == *operation
            && *self.subresource == **subresource
            && *self.version == *resource.version
            && *self.group == *resource.group
            && self.has_namespace != namespace.is_empty()
    }

    fn of(attributes: &Attributes, listed: Listed) -> Self {
        let Attributes { resource, subresource, operation, namespace, .. } = attributes;
        Self {
            group: (&*resource.group).into(),
            version: (&*resource.version).into(),
            subresource: (&**subresource).into(),
            operation: *operation,
            has_namespace: !namespace.is_empty(),
            listed,
        }
    }
}

impl Listed {
    fn new<'a>(all: impl Iterator<Item = Option<&'a Criteria>>, attributes: &Attributes) -> Self {
        let (mut any, mut by_name): (Vec<u32>, BTreeMap<&str, Vec<u32>>) = Default::default();
        for (position, criteria) in (0..).zip(all) {
            match criteria.map_or(RuleMatch::Always, |criteria| criteria.means(attributes)) {
                RuleMatch::Never => {}
                RuleMatch::Always => any.push(position),
                RuleMatch::Named(names) => {
                    names.into_iter().for_each(|name| by_name.entry(name).or_default().push(position));
                }
            }
        }
        let by_name = by_name.into_iter().map(|(name, positions)| (name.into(), positions.into())).collect();
        Self { any: any.into(), by_name }
    }

    fn of_name(&self, name: &str) -> [Positions; 2] {
        [self.any.clone(), self.by_name.get(name).cloned().unwrap_or_default()]
    }
}

impl Index {
    /// Creates an index of these criteria, in this order; `None` matches every request.
    pub(crate) fn new<'a>(all: impl Iterator<Item = Option<&'a Criteria>> + Clone) -> Self {
        let everything = LabelSelector::everything();
        let selectors = |of: fn(&Criteria) -> &Result<LabelSelector, InvalidSelector>| {
            // A broken selector selects everything here, so that the matcher finds the error.
            let selectors = all.clone().map(|criteria| criteria.and_then(|criteria| of(criteria).as_ref().ok()));
            SelectorSet::new(selectors.map(|selector| selector.unwrap_or(&everything)))
        };
        let (namespaces, objects) =
            (selectors(|criteria| &criteria.namespaces), selectors(|criteria| &criteria.objects));
        Self { kinds: RwLock::default(), namespaces, objects }
    }

    /// Returns the items of `all` that may match the request, in order, whatever its object contains until [`Candidates::narrow`] gets the
    /// object. `criteria` must return the criteria from which the index was made.
    pub(crate) fn candidates<'a, T>(
        &'a self,
        all: &'a [T],
        criteria: impl Fn(&'a T) -> Option<&'a Criteria>,
        attributes: &Attributes,
        cluster: &Cluster,
    ) -> Candidates<'a, T> {
        let left = self.listed(attributes).unwrap_or_else(|| {
            let listed = Listed::new(all.iter().map(criteria), attributes);
            let positions = listed.of_name(&attributes.name);
            self.keep(attributes, listed);
            positions
        });
        let mut candidates = Candidates { index: self, all, left, next: [0; 2], namespaces: None, objects: None };
        let has_namespace = !attributes.namespace.is_empty() && !attributes.writes_namespace();
        if has_namespace && !self.namespaces.is_trivial() && !candidates.is_done() {
            // A namespace that is not in the cache may match any selector.
            let namespace = cluster.namespace(&attributes.namespace);
            candidates.namespaces = namespace.map(|namespace| self.namespaces.matching(namespace.labels.iter()));
        }
        candidates
    }

    /// Returns the positions whose rules may match such a request, if the cache has its kind.
    fn listed(&self, attributes: &Attributes) -> Option<[Positions; 2]> {
        let kinds = self.kinds.read().unwrap_or_else(PoisonError::into_inner);
        let kinds = kinds.by_resource.get(&*attributes.resource.resource)?;
        let kind = kinds.iter().find(|kind| kind.is_of(attributes))?;
        Some(kind.listed.of_name(&attributes.name))
    }

    fn keep(&self, attributes: &Attributes, listed: Listed) {
        let mut kinds = self.kinds.write().unwrap_or_else(PoisonError::into_inner);
        if kinds.count == KINDS {
            *kinds = Kinds::default();
        }
        let of_resource = kinds.by_resource.entry((&*attributes.resource.resource).into()).or_default();
        if !of_resource.iter().any(|kind| kind.is_of(attributes)) {
            of_resource.push(Kind::of(attributes, listed));
            kinds.count += 1;
        }
    }
}

/// The items that may match a request, each with its position among all.
pub(crate) struct Candidates<'a, T> {
    index: &'a Index,
    all: &'a [T],
    /// The remaining positions; `next` counts how many of each list are consumed.
    left: [Positions; 2],
    next: [usize; 2],
    /// The namespace selectors that match; `None` if that is unknown.
    namespaces: Option<Matching>,
    /// The object selectors that match; `None` while no object was given.
    objects: Option<Matching>,
}

impl<T> Candidates<'_, T> {
    /// Keeps only the candidates among the first `count` items.
    #[must_use]
    pub(crate) fn among_first(self, count: usize) -> Self {
        Self { all: self.all.get(..count).unwrap_or(self.all), ..self }
    }

    /// Drops the candidates whose selectors do not match this object, which is the request's object in some version.
    pub(crate) fn narrow(&mut self, attributes: &Attributes, object: Option<&Object>) {
        if self.left.iter().zip(self.next).all(|(list, next)| next >= list.len()) {
            return;
        }
        let Index { namespaces, objects, .. } = self.index;
        if !objects.is_trivial() {
            let both = [object, attributes.old_object.as_deref()];
            let seen = both.into_iter().flatten().filter(|_| attributes.operation != Operation::Connect);
            let matching = seen.map(|object| objects.matching(object.label_texts())).reduce(Matching::or);
            self.objects = Some(matching.unwrap_or_else(|| objects.idle()));
        }
        if attributes.writes_namespace() && !namespaces.is_trivial() {
            self.namespaces = object.map(|object| namespaces.matching(object.label_texts()));
        }
    }

    /// Whether no candidate is left.
    pub(crate) fn is_done(&self) -> bool {
        self.after(&mut { self.next }).is_none()
    }

    /// Returns the next selected position and consumes the positions up to it.
    fn after(&self, next: &mut [usize; 2]) -> Option<usize> {
        let [any, named] = &self.left;
        let [next_any, next_named] = next;
        loop {
            // No position is in both lists.
            let (list, at) = match (any.get(*next_any), named.get(*next_named)) {
                (None, None) => return None,
                (Some(any), Some(named)) if named < any => (named, &mut *next_named),
                (None, Some(named)) => (named, &mut *next_named),
                (Some(any), _) => (any, &mut *next_any),
            };
            *at += 1;
            let position = *list as usize;
            if self.is_selected(position) {
                return Some(position);
            }
        }
    }

    fn is_selected(&self, position: usize) -> bool {
        let Index { namespaces, objects, .. } = self.index;
        position < self.all.len()
            && self.namespaces.as_ref().is_none_or(|matching| namespaces.has(matching, position))
            && self.objects.as_ref().is_none_or(|matching| objects.has(matching, position))
    }
}

impl<'a, T> Iterator for Candidates<'a, T> {
    type Item = (usize, &'a T);

    fn next(&mut self) -> Option<Self::Item> {
        let mut next = self.next;
        let found = self.after(&mut next);
        self.next = next;
        found.and_then(|position| Some((position, self.all.get(position)?)))
    }
}

#[cfg(test)]
mod tests;
