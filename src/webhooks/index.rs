//! Which of many criteria may take a request, told without looking at the others: by group, resource and operation, and by what
//! the selectors ask of labels.

use super::criteria::Criteria;
use super::rules::Rule;
use crate::admission::{Attributes, Operation};
use crate::cluster::Cluster;
use crate::conversion::cohabiting_groups;
use crate::object::Object;
use crate::object::selector::{LabelSelector, Matching, SelectorSet};
use std::collections::HashMap;

const ANY: &str = "*";

/// Of how many pairs of a group and a resource a rule is listed under each; one that names more is listed under any group.
const PAIRS: usize = 256;

/// Positions of criteria.
#[derive(Debug, Default)]
pub struct Index {
    /// By group and resource, each of which may be any: those with a rule that names both.
    by_group: HashMap<Box<str>, HashMap<Box<str>, ByOperation>>,
    namespaces: SelectorSet,
    objects: SelectorSet,
}

/// Positions by operation, ascending.
#[derive(Debug, Default)]
struct ByOperation([Vec<usize>; 4]);

const OPERATIONS: [Operation; 4] = [Operation::Create, Operation::Update, Operation::Delete, Operation::Connect];

impl ByOperation {
    fn of(&self, operation: Operation) -> &[usize] {
        let [create, update, delete, connect] = &self.0;
        match operation {
            Operation::Create => create,
            Operation::Update => update,
            Operation::Delete => delete,
            Operation::Connect => connect,
        }
    }

    fn add(&mut self, position: usize, rule: Option<&Rule>) {
        for (positions, operation) in self.0.iter_mut().zip(OPERATIONS) {
            if rule.is_none_or(|rule| rule.has_operation(operation)) && positions.last() != Some(&position) {
                positions.push(position);
            }
        }
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
        let mut index = Self { by_group: HashMap::new(), namespaces, objects };
        for (position, criteria) in all.enumerate() {
            match criteria.and_then(Criteria::rules) {
                None => index.add(position, ANY, ANY, None),
                Some(rules) => rules.iter().for_each(|rule| index.add_rule(position, rule)),
            }
        }
        index
    }

    fn add_rule(&mut self, position: usize, rule: &Rule) {
        let groups = rule.group_names();
        let groups = if groups.len() * rule.resource_names().count() > PAIRS { None } else { Some(groups) };
        for resource in rule.resource_names() {
            match groups {
                None => self.add(position, ANY, resource, Some(rule)),
                Some(groups) => groups.iter().for_each(|group| self.add(position, group, resource, Some(rule))),
            }
        }
    }

    fn add(&mut self, position: usize, group: &str, resource: &str, rule: Option<&Rule>) {
        self.by_group.entry(group.into()).or_default().entry(resource.into()).or_default().add(position, rule);
    }

    /// Those of `all`, whose criteria these are, that may take such a request, in order; whatever is in the object, until
    /// [`Candidates::look_at`] is told.
    pub fn candidates<'a, T>(&'a self, all: &'a [T], attributes: &Attributes, cluster: &Cluster) -> Candidates<'a, T> {
        let Attributes { resource, operation, namespace, .. } = attributes;
        let groups = cohabiting_groups(&resource.group, &resource.resource).chain([ANY]);
        let lists = groups.filter_map(|group| self.by_group.get(group)).flat_map(|by_resource| {
            [&*resource.resource, ANY].into_iter().filter_map(|resource| by_resource.get(resource))
        });
        let left = Default::default();
        let mut candidates = Candidates { index: self, all, left, namespaces: None, objects: None };
        for (left, list) in candidates.left.iter_mut().zip(lists) {
            *left = list.of(*operation);
        }
        let has_namespace = !namespace.is_empty() && !attributes.writes_namespace();
        if has_namespace && !self.namespaces.is_trivial() && !candidates.is_done() {
            // What the cache does not have may match anything.
            let namespace = cluster.namespace(namespace);
            candidates.namespaces = namespace.map(|namespace| self.namespaces.matching(namespace.labels.iter()));
        }
        candidates
    }
}

/// The groups that are stored as one and any, each with the resource and any.
const LISTS: usize = 6;

/// What may take a request, each with its position among all.
pub struct Candidates<'a, T> {
    index: &'a Index,
    all: &'a [T],
    /// Positions.
    left: [&'a [usize]; LISTS],
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
        if self.left.iter().all(|list| list.is_empty()) {
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
        self.next_of(&mut { self.left }).is_none()
    }

    fn next_of(&self, left: &mut [&[usize]; LISTS]) -> Option<usize> {
        loop {
            let next = *left.iter().filter_map(|list| list.first()).min()?;
            for list in left.iter_mut() {
                if let Some((first, rest)) = list.split_first()
                    && *first == next
                {
                    *list = rest;
                }
            }
            if self.is_selected(next) {
                return Some(next);
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
        let mut left = self.left;
        let next = self.next_of(&mut left);
        self.left = left;
        next.and_then(|position| Some((position, self.all.get(position)?)))
    }
}

#[cfg(test)]
mod tests;
