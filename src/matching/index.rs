//! Which of many criteria may take a request, told without looking at the others: by what rules say of such requests, which is
//! found out once, by the names of objects, and by what the selectors ask of labels.

use super::criteria::{Criteria, Meant};
use crate::admission::{Attributes, Operation};
use crate::cluster::Cluster;
use crate::object::Object;
use crate::object::selector::{LabelSelector, Matching, SelectorSet};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

/// Of how many kinds of requests it is kept what the rules say of them.
const KINDS: usize = 512;

/// Positions of criteria.
#[derive(Debug, Default)]
pub struct Index {
    kinds: RwLock<Kinds>,
    namespaces: SelectorSet,
    objects: SelectorSet,
}

/// What the rules say of the kinds of requests that came so far, by resource.
#[derive(Debug, Default)]
struct Kinds {
    by_resource: HashMap<Box<str>, Vec<Kind>>,
    count: usize,
}

/// Requests that rules do not tell apart but by the names of objects, and what may take them.
#[derive(Debug)]
struct Kind {
    group: Box<str>,
    version: Box<str>,
    subresource: Box<str>,
    operation: Operation,
    has_namespace: bool,
    listed: Listed,
}

/// Positions, ascending.
type Positions = Arc<[u32]>;

#[derive(Debug, Default)]
struct Listed {
    any: Positions,
    /// What takes objects of this name, but not of any.
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
            match criteria.map_or(Meant::Always, |criteria| criteria.means(attributes)) {
                Meant::Never => {}
                Meant::Always => any.push(position),
                Meant::Named(names) => {
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
    /// Of these, in this order; `None` takes every request.
    pub fn new<'a>(all: impl Iterator<Item = Option<&'a Criteria>> + Clone) -> Self {
        let everything = LabelSelector::everything();
        let selectors = |of: fn(&Criteria) -> &Result<LabelSelector, String>| {
            // A broken selector is found to be one when it is asked.
            let selectors = all.clone().map(|criteria| criteria.and_then(|criteria| of(criteria).as_ref().ok()));
            SelectorSet::new(selectors.map(|selector| selector.unwrap_or(&everything)))
        };
        let (namespaces, objects) =
            (selectors(|criteria| &criteria.namespaces), selectors(|criteria| &criteria.objects));
        Self { kinds: RwLock::default(), namespaces, objects }
    }

    /// Those of `all`, whose criteria are what this was made of, that may take such a request, in order; whatever is in the
    /// object, until [`Candidates::look_at`] is told.
    pub fn candidates<'a, T>(
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
            // What the cache does not have may match anything.
            let namespace = cluster.namespace(&attributes.namespace);
            candidates.namespaces = namespace.map(|namespace| self.namespaces.matching(namespace.labels.iter()));
        }
        candidates
    }

    /// The positions of what may take such a request by its rules, if such a one came before.
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

/// What may take a request, each with its position among all.
pub struct Candidates<'a, T> {
    index: &'a Index,
    all: &'a [T],
    /// Positions, and how many of each are behind.
    left: [Positions; 2],
    next: [usize; 2],
    /// Which namespace selectors match; none where that cannot be told.
    namespaces: Option<Matching>,
    /// Which object selectors match; none where nothing was looked at.
    objects: Option<Matching>,
}

impl<T> Candidates<'_, T> {
    /// Only those among the first so many.
    #[must_use]
    pub fn among_first(self, count: usize) -> Self {
        Self { all: self.all.get(..count).unwrap_or(self.all), ..self }
    }

    /// Leaves out what does not want such an object, which is the request's in some version.
    pub fn look_at(&mut self, attributes: &Attributes, object: Option<&Object>) {
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

    /// Whether none is left.
    pub fn is_done(&self) -> bool {
        self.after(&mut { self.next }).is_none()
    }

    /// The next that is selected; those before it are behind then.
    fn after(&self, next: &mut [usize; 2]) -> Option<usize> {
        let [any, named] = &self.left;
        let [next_any, next_named] = next;
        loop {
            // No position is in both.
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
