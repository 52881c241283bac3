//! The internal types of Kubernetes 1.8: their fields, and the fields of the versioned types from which they are converted.
//! `tools/internal-types` writes the data file from Kubernetes' source.

use crate::kind::GroupVersionKind;
use std::collections::HashMap;
use std::sync::LazyLock;

static TYPES: LazyLock<Types> = LazyLock::new(|| Types::parse(include_str!("types.txt")));

/// Versions later than 1.8 whose kinds have the fields of the version in 1.8, and so the same internal type: the later group, version and
/// kind, and the group and version of 1.8. An empty kind stands for all kinds.
const LATER: [(&str, &str, &str, &str, &str); 7] = [
    ("apps", "v1", "", "apps", "v1beta2"),
    ("batch", "v1", "CronJob", "batch", "v1beta1"),
    ("certificates.k8s.io", "v1", "CertificateSigningRequest", "certificates.k8s.io", "v1beta1"),
    ("policy", "v1", "", "policy", "v1beta1"),
    ("policy", "v1beta1", "PodSecurityPolicy", "extensions", "v1beta1"),
    ("scheduling.k8s.io", "v1", "PriorityClass", "scheduling.k8s.io", "v1alpha1"),
    ("scheduling.k8s.io", "v1beta1", "PriorityClass", "scheduling.k8s.io", "v1alpha1"),
];

/// The type of a field.
#[derive(Debug, PartialEq)]
pub(super) enum Type {
    String,
    Int,
    Bool,
    /// A time, which is null if it is zero.
    Time,
    Duration,
    Quantity,
    IntOrString,
    /// Bytes, in base64.
    Bytes,
    /// Any JSON.
    Any,
    Pointer(Box<Type>),
    /// A pointer that the conversion always sets.
    NeverNil(Box<Type>),
    List(Box<Type>),
    Map(Box<Type>),
    Struct(usize),
}

/// A field of an internal struct.
#[derive(Debug)]
pub(super) struct Field {
    /// The name in the internal object; `None` if the fields of the struct are written in place.
    pub(crate) written: Option<&'static str>,
    /// Whether an empty value is left out.
    pub(crate) omits_empty: bool,
    /// The name in the versioned object; `None` if the fields of the struct are read in place.
    pub(crate) read: Option<&'static str>,
    pub(crate) kind: Type,
}

/// An internal struct, as it is converted from one versioned struct.
#[derive(Debug, Default)]
pub(super) struct Structure {
    /// The package and the name of the internal struct: `core.PodSpec`.
    pub(crate) name: &'static str,
    /// The group and version of the versioned struct, as folders have them; empty for a struct that both share.
    pub(crate) version: &'static str,
    /// The fields in their order.
    pub(crate) fields: Vec<Field>,
}

/// All types.
#[derive(Default)]
pub(super) struct Types {
    /// The structs of the kinds, by `group/version kind`.
    kinds: HashMap<&'static str, usize>,
    structures: Vec<Structure>,
}

impl Types {
    /// Returns the struct of a kind, and the types that it consists of; `None` if Kubernetes 1.8 has no such kind.
    pub(super) fn of(kind: &GroupVersionKind) -> Option<(&'static Self, &'static Structure)> {
        let GroupVersionKind { group, version, kind } = kind;
        let find = |group: &str, version: &str| {
            let at = *TYPES.kinds.get(&*format!("{group}/{version} {kind}"))?;
            Some((&*TYPES, TYPES.structures.get(at)?))
        };
        let later = || {
            let later = LATER.iter().find(|(of_group, of_version, of_kind, ..)| {
                (*of_group, *of_version) == (group, version) && (of_kind.is_empty() || of_kind == kind)
            });
            later.and_then(|(.., group, version)| find(group, version))
        };
        find(group, version).or_else(later)
    }

    /// Returns a struct that a field's type names.
    pub(super) fn structure(&self, at: usize) -> Option<&Structure> {
        self.structures.get(at)
    }

    fn parse(text: &'static str) -> Self {
        let (mut types, mut places, mut last) = (Self::default(), HashMap::new(), 0);
        let count = text.lines().filter(|line| line.starts_with("type ")).count();
        types.structures.resize_with(count, Structure::default);
        for line in text.lines() {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["kind", _, _, id] => {
                    let key = line.strip_prefix("kind ").and_then(|line| line.strip_suffix(id)).unwrap_or_default();
                    types.kinds.insert(key.trim_end(), place(&mut places, id));
                }
                ["type", id] => {
                    let (name, version) = id.split_once('@').unwrap_or((id, ""));
                    last = place(&mut places, id);
                    if let Some(structure) = types.structures.get_mut(last) {
                        (structure.name, structure.version) = (name, version);
                    }
                }
                ["", written, read, kind] => {
                    let (written, omits_empty) =
                        written.strip_suffix('?').map_or((written, false), |written| (written, true));
                    let name = |name: &'static str| (name != ".").then_some(name);
                    let kind = Type::parse(kind, &mut places);
                    let field = Field { written: name(written), omits_empty, read: name(read), kind };
                    if let Some(structure) = types.structures.get_mut(last) {
                        structure.fields.push(field);
                    }
                }
                _ => {}
            }
        }
        types
    }
}

/// Returns the position of a struct, which may be defined later.
fn place(places: &mut HashMap<&'static str, usize>, id: &'static str) -> usize {
    let next = places.len();
    *places.entry(id).or_insert(next)
}

impl Type {
    fn parse(text: &'static str, places: &mut HashMap<&'static str, usize>) -> Self {
        for (prefix, wrap) in [
            ("*", Self::Pointer as fn(Box<Self>) -> Self),
            ("&", Self::NeverNil),
            ("[]", Self::List),
            ("{}", Self::Map),
        ] {
            if let Some(rest) = text.strip_prefix(prefix) {
                return wrap(Box::new(Self::parse(rest, places)));
            }
        }
        match text {
            "string" => Self::String,
            "int" => Self::Int,
            "bool" => Self::Bool,
            "time" => Self::Time,
            "duration" => Self::Duration,
            "quantity" => Self::Quantity,
            "intstr" => Self::IntOrString,
            "bytes" => Self::Bytes,
            "any" => Self::Any,
            id => Self::Struct(place(places, id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn structure(group: &str, version: &str, kind: &str) -> Option<(&'static str, &'static str)> {
        Types::of(&GroupVersionKind::new(group, version, kind)).map(|(_, found)| (found.name, found.version))
    }

    #[test]
    fn every_struct_has_fields_and_every_line_is_read() {
        let mut fields = 0;
        for structure in &TYPES.structures {
            assert!(!structure.name.is_empty() && !structure.fields.is_empty(), "{structure:?}");
            fields += structure.fields.len();
        }
        let lines = include_str!("types.txt").lines().count();
        assert_eq!(TYPES.kinds.len() + TYPES.structures.len() + fields, lines);
    }

    #[test]
    fn a_kind_of_1_8_has_its_internal_type() {
        assert_eq!(structure("", "v1", "Pod"), Some(("core.Pod", "core/v1")));
        let deployment = Some(("extensions.Deployment", "extensions/v1beta1"));
        assert_eq!(structure("extensions", "v1beta1", "Deployment"), deployment);
        assert_eq!(structure("apps", "v1beta2", "Deployment"), Some(("extensions.Deployment", "apps/v1beta2")));
    }

    #[test]
    fn a_later_version_with_the_same_fields_has_the_internal_type_of_1_8() {
        assert_eq!(structure("apps", "v1", "StatefulSet"), Some(("apps.StatefulSet", "apps/v1beta2")));
        assert_eq!(structure("batch", "v1", "CronJob"), Some(("batch.CronJob", "batch/v1beta1")));
        assert_eq!(structure("batch", "v1", "Job"), Some(("batch.Job", "batch/v1")));
        assert_eq!(structure("policy", "v1", "Eviction"), Some(("policy.Eviction", "policy/v1beta1")));
    }

    #[test]
    fn a_kind_with_other_fields_or_of_a_later_release_has_none() {
        for (group, version, kind) in [
            ("networking.k8s.io", "v1", "Ingress"),
            ("autoscaling", "v2", "HorizontalPodAutoscaler"),
            ("coordination.k8s.io", "v1", "Lease"),
            ("events.k8s.io", "v1", "Event"),
            ("example.com", "v1", "Pod"),
        ] {
            assert_eq!(structure(group, version, kind), None, "{group}/{version} {kind}");
        }
    }
}
