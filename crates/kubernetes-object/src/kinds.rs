//! The built-in resources: facts of kube-apiserver's storages and strategies, which `tools/kinds` records.

use crate::release;
use std::collections::HashMap;
use std::sync::LazyLock;

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::parse(include_str!("kinds.txt")));

/// A built-in resource.
#[derive(Debug, Default)]
pub struct BuiltIn {
    /// Kind of the objects.
    pub kind: &'static str,
    /// Whether the objects live in namespaces.
    pub is_namespaced: bool,
    /// Whether the API server stores objects.
    pub is_stored: bool,
    /// Whether a PUT creates an object that does not exist (`AllowCreateOnUpdate`).
    pub created_by_put: bool,
    /// Whether an update must name a resourceVersion (`AllowUnconditionalUpdate` is false).
    pub updated_by_version: bool,
    /// Whether the strategy sets `metadata.generation`.
    pub has_generation: bool,
    /// Whether there is a subresource `status`.
    pub has_status: bool,
    /// Whether there is a subresource `scale`.
    pub has_scale: bool,
    returned: Versions,
    resets: Vec<(&'static str, Vec<FieldPath>)>,
}

/// The versions of a resource of which a fact holds.
#[derive(Debug, Default)]
enum Versions {
    #[default]
    None,
    All,
    These(Vec<&'static str>),
}

/// The elements of a path as FieldsV1 writes them: `f:metadata`, `f:labels`.
pub type FieldPath = Vec<String>;

impl BuiltIn {
    /// A stored kind of which no other fact holds.
    pub fn stored(kind: &'static str, is_namespaced: bool) -> Self {
        Self { kind, is_namespaced, is_stored: true, ..Self::default() }
    }

    /// Whether a delete in a version is answered with the object rather than a Status (`ReturnDeletedObject`).
    pub fn is_returned(&self, version: &str) -> bool {
        match &self.returned {
            Versions::None => false,
            Versions::All => true,
            Versions::These(versions) => versions.contains(&version),
        }
    }

    /// Fields that a write of the resource, or of a subresource, resets to their stored values (`GetResetFields`). The empty subresource is
    /// the resource itself.
    pub fn resets(&self, subresource: &str) -> &[FieldPath] {
        self.resets.iter().find(|(name, _)| *name == subresource).map_or(&[], |(_, fields)| fields)
    }
}

/// The built-in resource of this group and plural name. Unless a fact names versions, it holds of all of them.
pub fn of_resource(group: &str, resource: &str) -> Option<&'static BuiltIn> {
    TABLE.rows.get(*TABLE.by_resource.get(&(group, resource))?)
}

/// The built-in resource whose objects have this group and kind.
pub fn of_kind(group: &str, kind: &str) -> Option<&'static BuiltIn> {
    TABLE.rows.get(*TABLE.by_kind.get(&(group, kind))?)
}

/// Resources that two groups serve from one storage, under the first group (`AddCohabitatingResources`). The second one is a removed API.
const COHABITANTS: [(&str, [&str; 2]); 2] =
    [("events", ["", "events.k8s.io"]), ("podsecuritypolicies", ["policy", "extensions"])];

/// The groups that share the storage of a resource, the group that stores the objects first.
pub fn cohabiting_groups<'a>(group: &'a str, resource: &str) -> impl Iterator<Item = &'a str> {
    let shared = COHABITANTS.iter().find(|(name, groups)| *name == resource && groups.contains(&group));
    let (first, second) = match shared {
        Some((_, [first, second])) => (*first, Some(*second)),
        None => (group, None),
    };
    std::iter::once(first).chain(second)
}

/// The group under which the objects of a resource are stored.
pub fn storage_group<'a>(group: &'a str, resource: &str) -> &'a str {
    cohabiting_groups(group, resource).next().unwrap_or(group)
}

/// Whether a group has built-in resources. A resource of any other group is a custom one or an aggregated API's.
pub fn is_built_in_group(group: &str) -> bool {
    TABLE.by_resource.keys().any(|(known, _)| *known == group)
}

struct Table {
    rows: Vec<BuiltIn>,
    by_resource: HashMap<(&'static str, &'static str), usize>,
    by_kind: HashMap<(&'static str, &'static str), usize>,
}

impl Table {
    /// Skips a row with fewer than four columns, and unknown facts; a test rejects both.
    fn parse(text: &'static str) -> Self {
        let mut table = Self { rows: Vec::new(), by_resource: HashMap::new(), by_kind: HashMap::new() };
        for line in release::lines(text).filter(|line| !line.starts_with('#')) {
            let mut columns = line.split(' ');
            let (Some(group), Some(resource), Some(kind), Some(scope)) =
                (columns.next(), columns.next(), columns.next(), columns.next())
            else {
                continue;
            };
            let group = if group == r#""""# { "" } else { group };
            let is_namespaced = scope == "namespaced";
            let mut row = BuiltIn::stored(kind, is_namespaced);
            columns.for_each(|fact| _ = row.add(fact));
            table.by_resource.insert((group, resource), table.rows.len());
            table.by_kind.insert((group, kind), table.rows.len());
            table.rows.push(row);
        }
        table
    }
}

impl BuiltIn {
    /// Adds a fact; returns false if the name is unknown.
    fn add(&mut self, fact: &'static str) -> bool {
        match fact {
            "not-stored" => self.is_stored = false,
            "created-by-put" => self.created_by_put = true,
            "updated-by-version" => self.updated_by_version = true,
            "returned" => self.returned = Versions::All,
            "generation" => self.has_generation = true,
            "status" => self.has_status = true,
            "scale" => self.has_scale = true,
            _ => {
                if let Some(versions) = fact.strip_prefix("returned@") {
                    self.returned = Versions::These(versions.split(',').collect());
                    return true;
                }
                let Some((name, fields)) = fact.strip_prefix("resets").and_then(|fact| fact.split_once('=')) else {
                    return false;
                };
                let path = |field: &str| field.split('.').map(|name| format!("f:{name}")).collect();
                self.resets.push((name.trim_start_matches('/'), fields.split(',').map(path).collect()));
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read_whole() {
        let mut rows = 0;
        for line in release::lines(include_str!("kinds.txt")).filter(|line| !line.starts_with('#')) {
            let columns: Vec<_> = line.split(' ').collect();
            let (group, resource, kind) = (columns[0].trim_matches('"'), columns[1], columns[2]);
            let found = of_resource(group, resource).unwrap();
            assert!(std::ptr::eq(found, of_kind(group, kind).unwrap()), "{line}");
            assert_eq!(found.kind, kind);
            assert!(["cluster", "namespaced"].contains(&columns[3]), "{line}");
            let mut read = BuiltIn::default();
            assert!(columns[4..].iter().all(|fact| read.add(fact)), "{line}");
            rows += 1;
        }
        assert_eq!(rows, TABLE.rows.len());
        assert_eq!(rows, TABLE.by_kind.len());
    }

    #[test]
    fn facts_are_those_of_the_strategies() {
        let class = of_resource("node.k8s.io", "runtimeclasses").unwrap();
        assert!(class.created_by_put && class.updated_by_version && !class.is_namespaced && !class.is_returned("v1"));
        let pod = of_kind("", "Pod").unwrap();
        assert!(pod.is_namespaced && pod.is_stored && pod.is_returned("v1") && pod.has_generation && pod.has_status);
        assert!(!pod.created_by_put && !pod.updated_by_version && !pod.has_scale);
        assert!(of_kind("apps", "Deployment").unwrap().has_scale);
        assert!(!of_resource("authentication.k8s.io", "tokenreviews").unwrap().is_stored);
        assert!(of_resource("e.com", "widgets").is_none() && of_kind("e.com", "Widget").is_none());
        assert!(is_built_in_group("") && is_built_in_group("authorization.k8s.io") && !is_built_in_group("e.com"));
    }

    #[test]
    fn groups_with_one_storage_are_found_from_each_of_them() {
        for group in ["", "events.k8s.io"] {
            assert_eq!(cohabiting_groups(group, "events").collect::<Vec<_>>(), ["", "events.k8s.io"]);
            assert_eq!(storage_group(group, "events"), "");
            assert_eq!(storage_group(group, "pods"), group);
        }
        assert_eq!(storage_group("extensions", "podsecuritypolicies"), "policy");
        assert_eq!(cohabiting_groups("extensions", "ingresses").collect::<Vec<_>>(), ["extensions"]);
        let of_events = |group| of_resource(group, "events").map(|facts| (facts.kind, facts.is_namespaced));
        assert_eq!(of_events(""), of_events("events.k8s.io"));
    }

    #[test]
    fn resets_are_paths_by_subresource() {
        let deployment = of_kind("apps", "Deployment").unwrap();
        assert_eq!(deployment.resets(""), [["f:status"]]);
        assert_eq!(deployment.resets("status"), [vec!["f:metadata", "f:labels"], vec!["f:spec"]]);
        assert!(deployment.resets("scale").is_empty());
        assert_eq!(of_kind("", "Namespace").unwrap().resets("finalize"), [["f:status"]]);
    }
}
