//! `--feature-gates`: the gates of kube-apiserver in the emulated release, with their defaults, and their state.

use super::release::{COMPONENT, EmulatedRelease};
use crate::status::invalid::aggregate;
use std::collections::{BTreeMap, BTreeSet};

/// A line for each gate: the name, and the facts with the release from which they hold. `tools/feature-gates` writes the table, and describes the
/// form of a line.
const TABLE: &str = include_str!("feature_gates.txt");

/// The state of the gates. A gate that affects no code of this program may be set as well, without effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates {
    /// The release whose gates these are.
    release: EmulatedRelease,
    /// The gates that do not have their default.
    changed: BTreeSet<&'static str>,
    /// The values of `AllAlpha` and `AllBeta`.
    all: [bool; 2],
}

/// A gate in a release.
#[derive(Clone, Copy)]
pub(crate) struct Gate {
    /// The name.
    pub(crate) name: &'static str,
    /// The facts of the gate in the release; `None` before the release that adds the gate.
    pub(crate) facts: Option<Facts>,
    /// The gates without which this one cannot be on, separated by commas.
    dependencies: &'static str,
}

/// The facts of a gate in a release.
#[derive(Clone, Copy)]
pub(crate) struct Facts {
    /// Whether the gate is on by default. A gate that the release removed keeps its last default.
    pub(crate) default: bool,
    /// The stage, as `Alpha`.
    pub(crate) stage: &'static str,
    /// Whether the gate can only be set to its default.
    pub(crate) locked: bool,
    /// Whether the release, or one before, has removed the gate.
    pub(crate) removed: bool,
}

impl Gate {
    /// The gate of a line of the table.
    fn of(line: &'static str, release: EmulatedRelease) -> Option<Self> {
        let mut words = line.split(' ');
        let mut gate = Self { name: words.next()?, facts: None, dependencies: "" };
        for word in words {
            let end = word.find([':', '>'])?;
            let (since, has) = (&word[..end], &word[end + 1..]);
            let (since, needed) = since.split_once('@').unwrap_or((since, "0"));
            let (since, needed): (u16, u16) = (since.parse().ok()?, needed.parse().ok()?);
            if since > release.minor || needed > release.min_compatibility {
                continue;
            }
            match (has, &mut gate.facts) {
                _ if word[end..].starts_with('>') => gate.dependencies = has,
                ("-", Some(facts)) => facts.removed = true,
                ("-", None) => {}
                (has, facts) => {
                    let mut has = has.split('/');
                    let (default, stage) = (has.next()? == "true", has.next()?);
                    *facts = Some(Facts { default, stage, locked: has.next().is_some(), removed: false });
                }
            }
        }
        Some(gate)
    }

    fn default(&self) -> bool {
        self.facts.is_some_and(|facts| facts.default)
    }
}

/// All gates, in the order of their names, those of other releases included.
pub(crate) fn gates(release: EmulatedRelease) -> impl Iterator<Item = Gate> {
    TABLE.lines().filter_map(move |line| Gate::of(line, release))
}

/// The reason why feature gates cannot be set, with kube-apiserver's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct InvalidFeatureGates(String);

impl FeatureGates {
    /// Parses `name=bool,…` for the release that is emulated by default: see [`Self::of`].
    ///
    /// # Errors
    /// As for [`Self::of`].
    #[cfg(test)]
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidFeatureGates> {
        Self::of(EmulatedRelease::default(), text)
    }

    /// Parses `name=bool,…`, which overrides the defaults of the release (`featureGate.Set`). The prefix `kube:` of a name is the component's
    /// name. `AllAlpha` and `AllBeta` set the gates that are not named.
    ///
    /// # Errors
    /// If a gate is unknown, locked or of a later release, a value is not a boolean, or a gate that is on needs one that is off.
    pub(crate) fn of(release: EmulatedRelease, text: &str) -> Result<Self, InvalidFeatureGates> {
        let mut wanted = wanted(text)?;
        let all = [("Alpha", wanted.remove("AllAlpha")), ("Beta", wanted.remove("AllBeta"))];
        let (mut changed, mut wrong) = (BTreeSet::new(), Vec::new());
        for gate in gates(release) {
            let name = gate.name;
            let by_name = match gate.facts {
                Some(facts) if facts.removed => continue,
                _ => wanted.remove(name),
            };
            let Some(facts) = gate.facts else {
                let EmulatedRelease { min_compatibility, .. } = release;
                wrong.extend(by_name.map(|value| {
                    format!(
                        "cannot set feature gate {name} to {value}, feature is PreAlpha at emulated version {release}, min \
                         compatibility version 1.{min_compatibility}"
                    )
                }));
                continue;
            };
            if let Some(value) = by_name.filter(|value| facts.locked && *value != facts.default) {
                let default = facts.default;
                wrong.push(format!("cannot set feature gate {name} to {value}, feature is locked to {default}"));
            }
            let by_stage = all.iter().find(|(stage, _)| *stage == facts.stage).and_then(|(_, value)| *value);
            let value = by_name.or(by_stage).unwrap_or(facts.default);
            if value != facts.default {
                changed.insert(name);
            }
        }
        if let Some(unknown) = wanted.keys().next() {
            return Err(InvalidFeatureGates(format!("unrecognized feature gate: {unknown}")));
        }
        let set = Self { release, changed, all: all.map(|(_, value)| value == Some(true)) };
        if wrong.is_empty() {
            wrong = set.without_dependencies();
        }
        match aggregate(wrong) {
            Some(wrong) => Err(InvalidFeatureGates(wrong)),
            None => Ok(set),
        }
    }

    /// A sentence about each gate that is on although it needs others that are off (`featureGate.unsafeSetFromMap`).
    fn without_dependencies(&self) -> Vec<String> {
        let on: BTreeSet<&str> = gates(self.release)
            .filter(|gate| gate.default() != self.changed.contains(gate.name))
            .map(|g| g.name)
            .collect();
        let needs = gates(self.release).filter(|gate| on.contains(gate.name) && !gate.dependencies.is_empty());
        let off = needs.filter_map(|gate| {
            let off: Vec<&str> = gate.dependencies.split(',').filter(|needed| !on.contains(needed)).collect();
            (!off.is_empty()).then(|| {
                format!("{} is enabled, but depends on features that are disabled: [{}]", gate.name, off.join(" "))
            })
        });
        off.collect()
    }

    /// The values of `AllAlpha` and `AllBeta`.
    pub(crate) const fn all(&self) -> [bool; 2] {
        self.all
    }

    /// Whether the gate is on. A gate of a later release is off; one that the release has removed has its last default.
    pub fn is_on(&self, name: &str) -> bool {
        let line = TABLE.lines().find(|line| line.split(' ').next() == Some(name));
        let gate = line.and_then(|line| Gate::of(line, self.release));
        gate.is_some_and(|gate| gate.default() != self.changed.contains(gate.name))
    }

    /// The gates of a release with these settings.
    #[cfg(test)]
    pub(crate) fn of_release(minor: u16, settings: &str) -> Self {
        Self::of(EmulatedRelease::new(minor), settings).unwrap()
    }

    /// Whether the emulated release is at least 1.`minor`. A rule that a release changed without a gate asks this; a rule that has a gate
    /// asks [`Self::is_on`].
    pub const fn since(&self, minor: u16) -> bool {
        self.release.minor >= minor
    }

    /// The emulated release.
    pub(crate) const fn release(&self) -> EmulatedRelease {
        self.release
    }
}

/// The values of the gates of kube-apiserver that are named.
fn wanted(text: &str) -> Result<BTreeMap<&str, bool>, InvalidFeatureGates> {
    let settings = || text.split(',').map(str::trim).filter(|setting| !setting.is_empty());
    // `ColonSeparatedMultimapStringString`, `ComponentGlobalsRegistry.Set`
    let has_prefix = |setting: &str| setting.contains(':');
    let other =
        settings().filter_map(|setting| setting.split_once(':')).find(|(component, _)| component.trim() != COMPONENT);
    if let Some((component, _)) = other {
        return Err(InvalidFeatureGates(format!("component not registered: {}", component.trim())));
    }
    if settings().any(has_prefix) && !settings().all(has_prefix) {
        let why = "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use";
        return Err(InvalidFeatureGates(why.to_owned()));
    }
    let mut wanted = BTreeMap::new();
    for setting in settings().map(|setting| setting.split_once(':').map_or(setting, |(_, setting)| setting.trim())) {
        let (name, value) =
            setting.split_once('=').ok_or_else(|| InvalidFeatureGates(format!("missing bool value for {setting}")))?;
        let (name, value) = (name.trim(), value.trim());
        let value = parse_bool(value).ok_or_else(|| {
            let why = format!("strconv.ParseBool: parsing {value:?}: invalid syntax");
            InvalidFeatureGates(format!("invalid value of {name}={value}, err: {why}"))
        })?;
        wanted.insert(name, value);
    }
    Ok(wanted)
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
        let gates = FeatureGates::parse("kube:GenericWorkload=true, kube:PodTopologyLabelsAdmission=f").unwrap();
        assert!(gates.is_on("GenericWorkload") && !gates.is_on("PodTopologyLabelsAdmission"));
        let gates = FeatureGates::parse("AllAlpha=true,AllBeta=true,CSIVolumeHealth=false").unwrap();
        assert!(gates.is_on("ManifestBasedAdmissionControlConfig") && !gates.is_on("CSIVolumeHealth"));
        let gates = FeatureGates::parse("AllBeta=false").unwrap();
        assert!(!gates.is_on("PodTopologyLabelsAdmission") && gates.is_on("InPlacePodVerticalScaling"));
    }

    fn of(minor: u16, text: &str) -> Result<FeatureGates, String> {
        FeatureGates::of(EmulatedRelease::new(minor), text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_gate_has_what_the_emulated_release_has() {
        for (name, on) in [
            ("MutatingAdmissionPolicy", [false, false, true, true]),
            ("ManifestBasedAdmissionControlConfig", [false, false, false, true]),
            ("ClusterTrustBundle", [false, false, false, true]),
            ("ExcludeAdmissionWebhookVirtualResources", [false, false, false, true]),
            ("NodeDeclaredFeatures", [false, false, true, true]),
            // Removed in 1.37, after it was always on.
            ("OrderedNamespaceDeletion", [true, true, true, true]),
            ("WorkloadAwarePreemption", [false, false, false, false]),
        ] {
            let found: Vec<bool> =
                EmulatedRelease::all().map(|release| FeatureGates::of(release, "").unwrap().is_on(name)).collect();
            assert_eq!(found, on, "{name}");
        }
        assert!(!of(36, "AllBeta=true").unwrap().is_on("GenericWorkload"));
        assert!(of(37, "AllBeta=true").unwrap().is_on("GenericWorkload"));
    }

    #[test]
    fn a_default_may_need_a_min_compatibility_version() {
        for (min_compatibility, on) in [(36, false), (37, true)] {
            let release = EmulatedRelease { min_compatibility, ..EmulatedRelease::new(37) };
            assert_eq!(FeatureGates::of(release, "").unwrap().is_on("DRAFractionalCapacityRange"), on);
        }
    }

    #[test]
    fn a_gate_of_another_release_is_refused() {
        let later = "cannot set feature gate ExcludeAdmissionWebhookVirtualResources to false, feature is PreAlpha at emulated version \
                     1.36, min compatibility version 1.35";
        for (minor, text, message) in [
            (36, "ExcludeAdmissionWebhookVirtualResources=f", later),
            (37, "WorkloadAwarePreemption=true", "unrecognized feature gate: WorkloadAwarePreemption"),
            (
                37,
                "DRAExtendedResource=false",
                "cannot set feature gate DRAExtendedResource to false, feature is locked to true",
            ),
            (
                37,
                "CompositePodGroup=true",
                "CompositePodGroup is enabled, but depends on features that are disabled: [GenericWorkload \
                 TopologyAwareWorkloadScheduling]",
            ),
        ] {
            assert_eq!(of(minor, text).unwrap_err(), message);
        }
        assert!(of(36, "DRAExtendedResource=false,WorkloadAwarePreemption=false").is_ok());
        assert!(of(37, "CompositePodGroup=true,GenericWorkload=true,TopologyAwareWorkloadScheduling=true").is_ok());
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
            ("wardle:JobManagedBy=true", "component not registered: wardle"),
            (
                "kube:JobManagedBy=true,GenericWorkload=true",
                "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use",
            ),
        ] {
            assert_eq!(FeatureGates::parse(text).unwrap_err().to_string(), message);
        }
        assert_eq!(FeatureGates::parse("APIServerTracing=true"), Ok(FeatureGates::default()));
    }
}
