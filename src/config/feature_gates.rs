//! `--feature-gates`: the gates of kube-apiserver 1.36, with their defaults, and their state.

use std::collections::{BTreeMap, BTreeSet};

/// One line a gate: name, default, stage, and whether the gate is locked. `tools/record-feature-gates.py` writes the table.
const TABLE: &str = include_str!("feature_gates.txt");

/// The state of the gates. A gate that affects no code of this program may be set as well, without effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureGates {
    /// The minor version of the Kubernetes release that the program emulates.
    minor: u16,
    /// The gates that do not have their default.
    changed: BTreeSet<&'static str>,
}

/// The gates of the release that is emulated by default, with their defaults.
impl Default for FeatureGates {
    fn default() -> Self {
        Self { minor: 36, changed: BTreeSet::new() }
    }
}

/// A line of the table.
struct Gate {
    name: &'static str,
    default: bool,
    stage: &'static str,
    locked: bool,
}

fn gates() -> impl Iterator<Item = Gate> {
    TABLE.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (name, default, stage) = (words.next()?, words.next()? == "true", words.next()?);
        Some(Gate { name, default, stage, locked: words.next().is_some() })
    })
}

/// The reason why feature gates cannot be set, with kube-apiserver's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct InvalidFeatureGates(String);

impl FeatureGates {
    /// Parses `name=bool,…`, which overrides the defaults (`featureGate.Set`). The prefix `kube:` of a name is the component's
    /// name. `AllAlpha` and `AllBeta` set the gates that are not named.
    ///
    /// # Errors
    /// If a gate is unknown or locked, or a value is not a boolean.
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidFeatureGates> {
        let mut wanted = BTreeMap::new();
        for setting in text.split(',').map(str::trim).filter(|setting| !setting.is_empty()) {
            let (name, value) = setting
                .split_once('=')
                .ok_or_else(|| InvalidFeatureGates(format!("missing bool value for {setting}")))?;
            let (name, value) = (name.trim(), value.trim());
            let value = parse_bool(value).ok_or_else(|| {
                let why = format!("strconv.ParseBool: parsing {value:?}: invalid syntax");
                InvalidFeatureGates(format!("invalid value of {name}={value}, err: {why}"))
            })?;
            wanted.insert(name.strip_prefix("kube:").unwrap_or(name), value);
        }
        let all = [("Alpha", wanted.remove("AllAlpha")), ("Beta", wanted.remove("AllBeta"))];
        let mut changed = BTreeSet::new();
        for gate in gates() {
            let by_stage = all.iter().find(|(stage, _)| *stage == gate.stage).and_then(|(_, value)| *value);
            let by_name = wanted.remove(gate.name);
            if by_name.is_some_and(|value| gate.locked && value != gate.default) {
                let (name, default) = (gate.name, gate.default);
                return Err(InvalidFeatureGates(format!(
                    "cannot set feature gate {name} to {}, feature is locked to {default}",
                    !default
                )));
            }
            let value = by_name.or(by_stage.filter(|_| !gate.locked)).unwrap_or(gate.default);
            if value != gate.default {
                changed.insert(gate.name);
            }
        }
        match wanted.keys().next() {
            Some(unknown) => Err(InvalidFeatureGates(format!("unrecognized feature gate: {unknown}"))),
            None => Ok(Self { changed, ..Self::default() }),
        }
    }

    /// The gates of a release with these settings.
    #[cfg(test)]
    pub(crate) fn of_release(minor: u16, settings: &str) -> Self {
        Self { minor, ..Self::parse(settings).unwrap() }
    }

    /// Whether the emulated release is at least 1.`minor`. A rule that a release changed without a gate asks this; a rule that has a gate
    /// asks [`Self::is_on`].
    pub const fn since(&self, minor: u16) -> bool {
        self.minor >= minor
    }

    /// Whether the gate is on.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        gates().find(|gate| gate.name == name).is_some_and(|gate| gate.default != self.changed.contains(gate.name))
    }
}

/// Go's `strconv.ParseBool`.
pub(super) fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_have_kubernetes_defaults() {
        let gates = FeatureGates::default();
        for (name, on) in [
            ("PodTopologyLabelsAdmission", true),
            ("NodeDeclaredFeatures", true),
            ("GenericWorkload", false),
            ("InPlacePodVerticalScaling", true),
            ("NoSuchGate", false),
        ] {
            assert_eq!(gates.is_on(name), on, "{name}");
        }
    }

    #[test]
    fn a_gate_is_switched_by_name_or_with_its_stage() {
        let gates = FeatureGates::parse("GenericWorkload=true, kube:PodTopologyLabelsAdmission=f").unwrap();
        assert!(gates.is_on("GenericWorkload") && !gates.is_on("PodTopologyLabelsAdmission"));
        let gates = FeatureGates::parse("AllAlpha=true,GenericWorkload=false,AllBeta=false").unwrap();
        assert!(gates.is_on("ManifestBasedAdmissionControlConfig") && !gates.is_on("GenericWorkload"));
        assert!(!gates.is_on("PodTopologyLabelsAdmission") && gates.is_on("InPlacePodVerticalScaling"));
    }

    #[test]
    fn refusals_read_as_kubernetes_ones() {
        for (text, message) in [
            ("Foo=true", "unrecognized feature gate: Foo"),
            ("APIServerTracing=false", "cannot set feature gate APIServerTracing to false, feature is locked to true"),
            (
                "PodTopologyLabelsAdmission=maybe",
                "invalid value of PodTopologyLabelsAdmission=maybe, err: strconv.ParseBool: parsing \"maybe\": invalid syntax",
            ),
            ("JobManagedBy", "missing bool value for JobManagedBy"),
        ] {
            assert_eq!(FeatureGates::parse(text).unwrap_err().to_string(), message);
        }
        assert_eq!(FeatureGates::parse("APIServerTracing=true"), Ok(FeatureGates::default()));
    }
}
