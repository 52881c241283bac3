//! `--emulated-version` and `--min-compatibility-version`: the Kubernetes release as whose kube-apiserver the program admits.

use crate::status::invalid::aggregate;
use std::fmt;

/// The minor versions of the releases that can be emulated: the newest one that is known, and the three before it
/// (`kubeEffectiveVersionFloors`).
const OLDEST: u16 = 34;
const NEWEST: u16 = 37;
/// The minor version that is emulated by default.
const DEFAULT: u16 = 36;

/// The component of kube-apiserver (`DefaultKubeComponent`).
pub(super) const COMPONENT: &str = "kube";
/// The value of `--emulated-version` for the release of the API server behind.
pub(crate) const UPSTREAM: &str = "upstream";

/// An emulated release, and the oldest release with which its control plane works together (`EffectiveVersion`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EmulatedRelease {
    /// The minor version of the release.
    pub minor: u16,
    /// The minor version of `--min-compatibility-version`.
    pub min_compatibility: u16,
}

impl Default for EmulatedRelease {
    fn default() -> Self {
        Self::new(DEFAULT)
    }
}

impl fmt::Display for EmulatedRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.minor)
    }
}

impl EmulatedRelease {
    /// The name of the flag.
    pub(crate) const FLAG: &str = "emulated-version";

    /// The release with this minor version, which is compatible with the one before (`SetEmulationVersion`).
    pub(crate) const fn new(minor: u16) -> Self {
        let before = minor - 1;
        Self { minor, min_compatibility: if before < OLDEST { OLDEST } else { before } }
    }

    /// Every release that can be emulated.
    #[cfg(test)]
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (OLDEST..=NEWEST).map(Self::new)
    }

    /// The release that is the nearest to one of an API server, given as major and minor version.
    pub(crate) fn nearest((major, minor): (u64, u64)) -> Self {
        let minor = match major {
            0 => OLDEST,
            1 => u16::try_from(minor).unwrap_or(NEWEST).clamp(OLDEST, NEWEST),
            _ => NEWEST,
        };
        Self::new(minor)
    }

    /// The release of the flags' values, each `VERSION` or `COMPONENT=VERSION`. `upstream` is the release that stands for
    /// `--emulated-version=upstream`, if it is known.
    ///
    /// # Errors
    /// As those of `ComponentGlobalsRegistry.Set` and `effectiveVersion.Validate`. If `--emulated-version` is `upstream` and that release is
    /// not known.
    pub(crate) fn of_flags(
        emulated: &[String],
        min_compatibility: &[String],
        upstream: Option<Self>,
    ) -> Result<Self, InvalidRelease> {
        let own = |release: Self| (1, release.minor);
        let wanted = match of_component(emulated)? {
            None => own(Self::default()),
            Some(UPSTREAM) => own(upstream.ok_or_else(|| InvalidRelease::of_emulated(NO_UPSTREAM))?),
            Some(version) => number(version).map_err(InvalidRelease::of_emulated)?,
        };
        let floor = (1, OLDEST);
        let min_compatibility = match of_component(min_compatibility).map_err(InvalidRelease::into_min_compatibility)? {
            None => floor.max((wanted.0, wanted.1.saturating_sub(1))),
            Some(version) => number(version).map_err(InvalidRelease::of_min_compatibility)?,
        };
        let text = |(major, minor): (u64, u16)| format!("{major}.{minor}");
        let mut wrong = Vec::new();
        if wanted < floor || wanted > (1, NEWEST) {
            // The newest release is the version of the program, which has a patch version.
            let wanted = text(wanted);
            wrong.push(format!("emulation version {wanted} is not between [1.{OLDEST}, 1.{NEWEST}.0]"));
        }
        let is_emulated = wrong.is_empty();
        if min_compatibility < floor || min_compatibility > wanted {
            let (given, wanted) = (text(min_compatibility), text(wanted));
            wrong.push(format!("minCompatibilityVersion version {given} is not between [1.{OLDEST}, {wanted}]"));
        }
        match aggregate(wrong) {
            None => Ok(Self { minor: wanted.1, min_compatibility: min_compatibility.1 }),
            Some(why) if is_emulated => Err(InvalidRelease::of_min_compatibility(why)),
            Some(why) => Err(InvalidRelease::of_emulated(why)),
        }
    }
}

const NO_UPSTREAM: &str = "needs --upstream-kubeconfig: the release is that of the API server behind";

/// The reason why a release cannot be emulated, with kube-apiserver's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub(crate) struct InvalidRelease {
    /// The name of the flag.
    pub(crate) flag: &'static str,
    why: String,
}

impl InvalidRelease {
    fn of_emulated(why: impl fmt::Display) -> Self {
        Self { flag: EmulatedRelease::FLAG, why: why.to_string() }
    }

    fn of_min_compatibility(why: impl fmt::Display) -> Self {
        Self { flag: "min-compatibility-version", why: why.to_string() }
    }

    fn into_min_compatibility(self) -> Self {
        Self::of_min_compatibility(self.why)
    }
}

/// The reason why a text is no version, with kube-apiserver's text.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct InvalidVersion(String);

/// Whether `--emulated-version` is the release of the API server behind.
pub(crate) fn is_of_upstream(emulated: &[String]) -> bool {
    of_component(emulated).is_ok_and(|version| version == Some(UPSTREAM))
}

/// The version of kube-apiserver in a list of versions of components (`toVersionMap`).
fn of_component(given: &[String]) -> Result<Option<&str>, InvalidRelease> {
    let refuse = |why: String| Err(InvalidRelease::of_emulated(why));
    let mut found: Option<&str> = None;
    for given in given.iter().flat_map(|list| list.split(',')).filter(|given| !given.is_empty()) {
        let (component, version) = match given.split_once('=') {
            Some((component, version)) => (component.trim(), version.trim()),
            None => (COMPONENT, given.trim()),
        };
        if version != UPSTREAM {
            parse(version).map_err(InvalidRelease::of_emulated)?;
        }
        if component != COMPONENT {
            return refuse(format!("component not registered: {component}"));
        }
        if let Some(other) = found.replace(version) {
            return refuse(format!("duplicate version flag, {component}={other} and {component}={version}"));
        }
    }
    Ok(found)
}

/// The major and the minor version of a text that [`parse`] accepts.
fn number(version: &str) -> Result<(u64, u16), InvalidVersion> {
    let numbers = parse(version)?;
    let part = |at: usize| numbers.get(at).copied().unwrap_or_default();
    if part(2) != 0 {
        let text = numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(".");
        return Err(InvalidVersion(format!("patch version not allowed, got: {COMPONENT}={text}")));
    }
    Ok((part(0), u16::try_from(part(1)).unwrap_or(u16::MAX)))
}

/// The numbers of a version (`version.ParseGeneric`): two or more, with dots between, perhaps after a `v`. Any text may follow.
fn parse(version: &str) -> Result<Vec<u64>, InvalidVersion> {
    let numbers = version.strip_prefix('v').unwrap_or(version);
    if !numbers.starts_with(|first: char| first.is_ascii_digit()) {
        return Err(InvalidVersion(format!("could not parse {version:?} as version")));
    }
    let is_part = |c: char| c.is_ascii_digit() || c == '.';
    let numbers = numbers.split(|c| !is_part(c)).next().unwrap_or_default();
    let parts: Vec<&str> = numbers.split('.').take_while(|part| !part.is_empty()).collect();
    if parts.len() < 2 {
        return Err(InvalidVersion(format!("illegal version string {version:?}")));
    }
    if let Some(first) = parts.first().filter(|first| first.starts_with('0') && **first != "0") {
        return Err(InvalidVersion(format!("illegal zero-prefixed version component {first:?} in {version:?}")));
    }
    let number = |part: &&str| {
        let why = format!("strconv.ParseUint: parsing {part:?}: value out of range");
        let why = format!("illegal non-numeric version component {part:?} in {version:?}: {why}");
        part.parse().map_err(|_| InvalidVersion(why))
    };
    parts.iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_flags(emulated: &[&str], min_compatibility: &[&str], upstream: Option<u16>) -> Result<(u16, u16), String> {
        let owned = |given: &[&str]| given.iter().map(|given| (*given).to_owned()).collect::<Vec<_>>();
        EmulatedRelease::of_flags(&owned(emulated), &owned(min_compatibility), upstream.map(EmulatedRelease::new))
            .map(|release| (release.minor, release.min_compatibility))
            .map_err(|error| format!("{}: {error}", error.flag))
    }

    #[test]
    fn a_release_is_read_as_by_kube_apiserver() {
        for (emulated, min_compatibility, upstream, release) in [
            (&[][..], &[][..], None, (36, 35)),
            (&["1.37"], &[], None, (37, 36)),
            (&["kube=1.35"], &[], None, (35, 34)),
            (&["v1.34"], &[], None, (34, 34)),
            (&[" kube = 1.36.0 "], &["1.34"], None, (36, 34)),
            (&[], &["kube=1.36"], None, (36, 36)),
            (&["upstream"], &[], Some(35), (35, 34)),
            (&["kube=upstream"], &["1.37"], Some(37), (37, 37)),
        ] {
            assert_eq!(of_flags(emulated, min_compatibility, upstream), Ok(release), "{emulated:?}");
        }
    }

    #[test]
    fn refusals_read_as_those_of_kube_apiserver() {
        for (emulated, min_compatibility, message) in [
            (
                &["1.33"][..],
                &[][..],
                "emulated-version: [emulation version 1.33 is not between [1.34, 1.37.0], minCompatibilityVersion version 1.34 is not between [1.34, 1.33]]",
            ),
            (&["1.38"], &[], "emulated-version: emulation version 1.38 is not between [1.34, 1.37.0]"),
            (&["2.36"], &[], "emulated-version: emulation version 2.36 is not between [1.34, 1.37.0]"),
            (&["wardle=1.2"], &[], "emulated-version: component not registered: wardle"),
            (&["1.36.3"], &[], "emulated-version: patch version not allowed, got: kube=1.36.3"),
            (&["1"], &[], r#"emulated-version: illegal version string "1""#),
            (&["latest"], &[], r#"emulated-version: could not parse "latest" as version"#),
            (&["kube="], &[], r#"emulated-version: could not parse "" as version"#),
            (&["01.36"], &[], r#"emulated-version: illegal zero-prefixed version component "01" in "01.36""#),
            (&["1.36,kube=1.35"], &[], "emulated-version: duplicate version flag, kube=1.36 and kube=1.35"),
            (&["1.36", "1.36"], &[], "emulated-version: duplicate version flag, kube=1.36 and kube=1.36"),
            (
                &["1.35"],
                &["1.36"],
                "min-compatibility-version: minCompatibilityVersion version 1.36 is not between [1.34, 1.35]",
            ),
            (
                &[],
                &["1.33"],
                "min-compatibility-version: minCompatibilityVersion version 1.33 is not between [1.34, 1.36]",
            ),
            (&[], &["wardle=1.2"], "min-compatibility-version: component not registered: wardle"),
            (&[], &["upstream"], r#"min-compatibility-version: could not parse "upstream" as version"#),
            (
                &["upstream"],
                &[],
                "emulated-version: needs --upstream-kubeconfig: the release is that of the API server behind",
            ),
        ] {
            assert_eq!(of_flags(emulated, min_compatibility, None).unwrap_err(), message, "{emulated:?}");
        }
    }

    #[test]
    fn an_api_server_outside_of_the_range_has_the_nearest_release() {
        for (version, minor) in
            [((1, 30), 34), ((1, 35), 35), ((1, 37), 37), ((1, 99_999), 37), ((2, 0), 37), ((0, 40), 34)]
        {
            assert_eq!(EmulatedRelease::nearest(version).minor, minor, "{version:?}");
        }
    }
}
