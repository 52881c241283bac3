//! The configuration, parsed and complete, from the command line and the files that it names: also the plugins that run, and the
//! configuration of each plugin.

use crate::admission::shadow::ShadowNames;
use crate::admission::{FrontEndSupport, PolicyOptions, Spec};
use crate::config::admission_file::{AdmissionFile, FileError};
use crate::config::{
    AuditOptions, Authentication, Authorization, AuthorizationMode, ConfigError, DefaultTolerations, Embedded,
    EmulatedRelease, FeatureGates, FrontEndOptions, Limits, PluginConfiguration, Serving, TlsProtocol, Upstream,
    Writes, admission_file, plugin_hint,
};
use crate::initializers;
use crate::plugins;
use crate::status::invalid::aggregate;
use crate::upstream::Emulation;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The server's configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// The listener.
    pub serving: Serving,
    /// The authentication of callers.
    pub(crate) authentication: Authentication,
    /// The authorization of callers.
    pub(crate) authorization: Authorization,
    /// The API server behind.
    pub upstream: Upstream,
    /// The plugins.
    pub(crate) admission: Admission,
    /// The treatment of writes.
    pub(crate) writes: Writes,
    /// The webhook front end.
    pub(crate) front_end: Option<FrontEndOptions>,
    /// The audit log.
    pub(crate) audit: AuditOptions,
    /// The folder of the tenants' files.
    pub(crate) tenants_dir: Option<PathBuf>,
    /// The memory for the process in bytes, from which bounds are derived; 0 for no limit, and `None` for that of its control group.
    pub(crate) memory_limit: Option<u64>,
    /// Whether the health port serves the pages below `/debug`.
    pub(crate) profiling: bool,
    /// The flags of the command line with their values, for `/flagz`. No value is a secret: flags name the files that have some.
    pub(crate) flags: BTreeMap<String, String>,
    /// The limits of the process.
    pub limits: Arc<Limits>,
    /// Whether the emulated release is the release of the API server behind at the start (`--emulated-version=upstream`).
    pub emulates_upstream: bool,
}

impl Config {
    /// The emulated release, and where it comes from.
    pub(super) fn emulation(&self) -> Emulation {
        Emulation { release: self.admission.feature_gates.release(), is_of_upstream: self.emulates_upstream }
    }

    /// The configuration with other flags than `--emulated-version` missing, for checks without a server.
    ///
    /// # Errors
    /// None with a valid table of plugins.
    pub(super) fn for_checks(release: EmulatedRelease) -> Result<Self, ConfigError> {
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        let mut admission = Admission::new(enabled(&plugins::of(release), &[], &[])?, None)?;
        admission.feature_gates =
            FeatureGates::of(release, "").map_err(|reason| ConfigError::flag("feature-gates", "", reason))?;
        Ok(Self {
            serving: Serving {
                addresses: vec![address],
                certificate: None,
                named_certificates: Vec::new(),
                protocol: TlsProtocol::default(),
                secret: None,
                made_certificate: false,
                health_address: Some(address),
                shutdown_delay: std::time::Duration::ZERO,
            },
            authentication: Authentication::default(),
            authorization: Authorization { mode: AuthorizationMode::Webhook },
            upstream: Upstream::Embedded(Embedded::default()),
            admission,
            writes: Writes::default(),
            front_end: None,
            audit: AuditOptions::default(),
            tenants_dir: None,
            memory_limit: None,
            profiling: true,
            flags: BTreeMap::new(),
            limits: Arc::default(),
            emulates_upstream: false,
        })
    }
}

/// The plugins.
#[derive(Clone)]
pub(crate) struct Admission {
    /// The plugins that run, in the order of the chain.
    pub(crate) plugins: Vec<&'static Spec>,
    configurations: Vec<(String, Arc<PluginConfiguration>)>,
    /// The state of the feature gates.
    pub(crate) feature_gates: FeatureGates,
    /// The default time in seconds for which pods stay on unhealthy nodes.
    pub(crate) default_tolerations: DefaultTolerations,
    /// Whether webhooks of a Service are called at its endpoints (`--enable-aggregator-routing`).
    pub(crate) routes_to_endpoints: bool,
    /// The webhooks whose decisions have no effect.
    pub(crate) shadow_webhooks: ShadowNames,
    pub(crate) policies: PolicyOptions,
    /// The names in the AdmissionConfiguration file that are of no plugin that runs.
    unused: Vec<String>,
}

impl Admission {
    /// Reads the configurations of these plugins from the AdmissionConfiguration file, if there is one.
    ///
    /// # Errors
    /// If the file, or a file that it names for an enabled plugin, cannot be read.
    pub(crate) fn new(plugins: Vec<&'static Spec>, file: Option<&Path>) -> Result<Self, ConfigError> {
        let names: Vec<&str> = plugins.iter().map(|spec| spec.name).collect();
        let read = match file {
            Some(file) => admission_file::read(file, &names).map_err(|reason| {
                ConfigError::flag("admission-control-config-file", file.display().to_string(), reason)
            })?,
            None => AdmissionFile::default(),
        };
        let (feature_gates, default_tolerations, shadow_webhooks, policies) = Default::default();
        Ok(Self {
            plugins,
            configurations: shared(read.configurations),
            unused: read.unused,
            feature_gates,
            default_tolerations,
            shadow_webhooks,
            policies,
            routes_to_endpoints: false,
        })
    }

    /// The plugins that exist in the emulated release.
    pub(super) fn existing(&self) -> Vec<&'static Spec> {
        plugins::of(self.feature_gates.release())
    }

    /// Returns these options without plugins.
    #[must_use]
    pub(super) fn without_plugins(&self) -> Self {
        Self { plugins: Vec::new(), configurations: Vec::new(), ..self.clone() }
    }

    /// Returns these options with other plugins in the order of `all`, unless nothing changes. Unknown names have no effect.
    #[must_use]
    pub(super) fn changed(&self, all: &[&'static Spec], enable: &[String], disable: &[String]) -> Self {
        let has = |names: &[String], spec: &Spec| names.iter().any(|name| name == spec.name);
        let mut plugins: Vec<&'static Spec> = self.plugins.iter().copied().filter(|spec| !has(disable, spec)).collect();
        let new = all.iter().copied().filter(|spec| has(enable, spec));
        let new: Vec<_> = new.filter(|spec| plugins.iter().all(|known| known.name != spec.name)).collect();
        if !new.is_empty() {
            plugins.extend(new);
            plugins.sort_by_key(|spec| all.iter().position(|other| other.name == spec.name));
        }
        Self { plugins, ..self.clone() }
    }

    /// Replaces the configurations of the plugins that an AdmissionConfiguration file has.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub(super) fn configure(&mut self, file: &Path) -> Result<(), FileError> {
        let names: Vec<&str> = self.plugins.iter().map(|spec| spec.name).collect();
        let read = admission_file::read(file, &names)?.configurations;
        self.configurations.retain(|(name, _)| read.iter().all(|(new, _)| new != name));
        self.configurations.extend(shared(read));
        Ok(())
    }

    /// A sentence about each entry of the AdmissionConfiguration file that has no effect; `all` are the existing plugins.
    pub(super) fn without_effect(&self, all: &[&'static Spec]) -> Vec<String> {
        let why = |name: &String| match all.iter().any(|spec| spec.name == name) {
            true => format!("plugin {name:?} is not enabled"),
            false => unknown(name, all),
        };
        self.unused.iter().map(why).collect()
    }

    /// Whether objects are initialized by InitializerConfigurations.
    pub(crate) fn has_initializers(&self) -> bool {
        self.plugins.iter().any(|spec| spec.name == initializers::PLUGIN)
    }

    /// The configurations of all plugins, for a digest.
    pub(super) fn configurations(&self) -> &impl fmt::Debug {
        &self.configurations
    }

    /// Returns the configuration of a plugin, if the file has one.
    pub(crate) fn configuration(&self, plugin: &str) -> Option<&PluginConfiguration> {
        self.configurations.iter().find(|(name, _)| name == plugin).map(|(_, configuration)| &**configuration)
    }
}

/// Copies of an [`Admission`] share the configurations.
fn shared(read: Vec<(String, PluginConfiguration)>) -> Vec<(String, Arc<PluginConfiguration>)> {
    read.into_iter().map(|(name, configuration)| (name, Arc::new(configuration))).collect()
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The configurations of plugins may be long.
        let Self { plugins, configurations, feature_gates, default_tolerations, routes_to_endpoints, .. } = self;
        let names: Vec<&str> = plugins.iter().map(|spec| spec.name).collect();
        let configured: Vec<&str> = configurations.iter().map(|(name, _)| &**name).collect();
        f.debug_struct("Admission")
            .field("plugins", &names)
            .field("configured", &configured)
            .field("feature_gates", feature_gates)
            .field("default_tolerations", default_tolerations)
            .field("routes_to_endpoints", routes_to_endpoints)
            .field("shadow_webhooks", &self.shadow_webhooks)
            .field("policies", &self.policies)
            .field("unused", &self.unused)
            .finish()
    }
}

/// Returns the plugins that `--admission-control` names, and no others. If one of them is removed, the list is one of Kubernetes 1.7 to 1.9, in
/// which the order of the names is that of the chain; else the order is that of `all`.
///
/// # Errors
/// If a name is not in `all`, or the other flags are given too (`kubeapiserver.AdmissionOptions.Validate`).
pub(crate) fn listed(
    all: &[&'static Spec],
    names: &[String],
    enable: &[String],
    disable: &[String],
) -> Result<Vec<&'static Spec>, ConfigError> {
    let mut wrong = Vec::new();
    if !enable.is_empty() || !disable.is_empty() {
        let flags = "enable-admission-plugins/disable-admission-plugins";
        wrong.push(format!("admission-control and {flags} flags are mutually exclusive"));
    }
    let mut plugins: Vec<&'static Spec> = Vec::new();
    for name in names {
        match all.iter().find(|spec| spec.name == name) {
            None => wrong.push(format!("admission-control {}", unknown(name, all))),
            Some(spec) if plugins.iter().all(|known| known.name != spec.name) => plugins.push(spec),
            Some(_) => {}
        }
    }
    if let Some(wrong) = aggregate(wrong) {
        return Err(ConfigError::Rule(wrong));
    }
    if plugins.iter().all(|spec| spec.removed.is_none()) {
        plugins.sort_by_key(|spec| all.iter().position(|other| other.name == spec.name));
    }
    Ok(plugins)
}

/// Returns the plugins that run (`AdmissionOptions.enabledPluginNames`): the default plugins and those in `enable`, without those
/// in `disable`, in the order of `all`.
///
/// # Errors
/// If a name is not in `all`, or is in both lists (`AdmissionOptions.Validate`).
pub(crate) fn enabled(
    all: &[&'static Spec],
    enable: &[String],
    disable: &[String],
) -> Result<Vec<&'static Spec>, ConfigError> {
    let mut wrong = Vec::new();
    for (flag, names) in [("enable-admission-plugins", enable), ("disable-admission-plugins", disable)] {
        let missing = names.iter().filter(|name| all.iter().all(|spec| spec.name != **name));
        wrong.extend(missing.map(|name| format!("{flag} {}", unknown(name, all))));
    }
    let (enable, disable): (BTreeSet<_>, BTreeSet<_>) = (enable.iter().collect(), disable.iter().collect());
    let both: Vec<&str> = enable.intersection(&disable).map(|name| name.as_str()).collect();
    if !both.is_empty() {
        let both = both.join(" ");
        wrong.push(format!("[{both}] in enable-admission-plugins and disable-admission-plugins overlapped"));
    }
    if let Some(wrong) = aggregate(wrong) {
        return Err(ConfigError::Rule(wrong));
    }
    let has = |names: &BTreeSet<&String>, spec: &Spec| names.iter().any(|name| *name == spec.name);
    let runs = |spec: &Spec| has(&enable, spec) || spec.default_on && !has(&disable, spec);
    Ok(all.iter().copied().filter(|spec| runs(spec)).collect())
}

/// kube-apiserver's text about an unknown plugin, and a hint.
fn unknown(name: &str, all: &[&'static Spec]) -> String {
    format!("plugin {name:?} is unknown {}", plugin_hint(name, all.iter().map(|spec| spec.name)))
}

/// Returns the plugins of the webhook front end: those that `names` has, in the order of `all`; without names, those of `enabled` that
/// work there.
///
/// # Errors
/// If a name is not in `all`, a named or enabled plugin does not work in the front end, or no plugin is left.
pub(crate) fn reviewing(
    all: &[&'static Spec],
    enabled: &[&'static Spec],
    names: &[String],
) -> Result<Vec<&'static Spec>, ConfigError> {
    const FLAG: &str = "webhook-admission-plugins";
    let refusal = |name: &str, why: &str| ConfigError::flag(FLAG, name, format!("cannot run in the front end: {why}"));
    if let Some(name) = names.iter().find(|name| all.iter().all(|spec| spec.name != **name)) {
        return Err(ConfigError::flag(FLAG, name, unknown(name, all)));
    }
    let is_named = |spec: &Spec| names.iter().any(|name| name == spec.name);
    let candidates = if names.is_empty() { enabled } else { all };
    let mut plugins = Vec::new();
    for spec in candidates.iter().copied().filter(|spec| names.is_empty() || is_named(spec)) {
        match spec.front_end {
            FrontEndSupport::LeftOut(_) if names.is_empty() => {}
            FrontEndSupport::LeftOut(why) | FrontEndSupport::Refused(why) => return Err(refusal(spec.name, why)),
            FrontEndSupport::Full | FrontEndSupport::Part(_) | FrontEndSupport::Of(_) => plugins.push(spec),
        }
    }
    match plugins.is_empty() {
        true => Err(ConfigError::flag(FLAG, names.join(","), "leaves no plugin for the front end")),
        false => Ok(plugins),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::{BuildError, FrontEndSupport, Operations, Phases, Removed, Resources};

    const HINT: &str = r#"("kube-admission-proxy plugins" lists all)"#;

    const fn spec(name: &'static str, default_on: bool) -> Spec {
        Spec {
            name,
            default_on,
            phases: Phases::Both,
            operations: Operations::ALL,
            resources: Resources::All,
            needs: &[],
            configuration: None,
            removed: None,
            front_end: FrontEndSupport::Full,
            about: "",
            build: |_| Err(BuildError::Unconfigured("")),
        }
    }

    static ON: Spec = spec("On", true);
    static OFF: Spec = spec("Off", false);
    static LAST: Spec = spec("Last", true);

    fn names(enable: &[&str], disable: &[&str]) -> Result<Vec<&'static str>, String> {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        enabled(&[&ON, &OFF, &LAST], &owned(enable), &owned(disable))
            .map(|specs| specs.iter().map(|spec| spec.name).collect())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_flags_change_the_default_set_and_never_the_order() {
        assert_eq!(names(&[], &[]), Ok(vec!["On", "Last"]));
        assert_eq!(names(&["Last", "Off", "Off"], &[]), Ok(vec!["On", "Off", "Last"]));
        assert_eq!(names(&[], &["On", "Off"]), Ok(vec!["Last"]));
    }

    #[test]
    fn a_list_of_all_plugins_keeps_its_order_if_it_is_an_old_one() {
        static OLD: Spec =
            Spec { removed: Some(Removed { since: "1.7", until: "1.8", successor: "On" }), ..spec("Old", false) };
        let of = |names: &[&str], enable: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
            listed(&[&ON, &OLD, &LAST], &owned(names), &owned(enable), &[])
                .map(|specs| specs.iter().map(|spec| spec.name).collect::<Vec<_>>())
                .map_err(|error| error.to_string())
        };
        assert_eq!(of(&["Last", "On", "Last"], &[]), Ok(vec!["On", "Last"]));
        assert_eq!(of(&["Last", "Old", "On"], &[]), Ok(vec!["Last", "Old", "On"]));
        assert_eq!(of(&["X"], &[]).unwrap_err(), format!(r#"admission-control plugin "X" is unknown {HINT}"#));
        let both =
            "admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually exclusive";
        assert_eq!(of(&["On"], &["On"]).unwrap_err(), both);
    }

    #[test]
    fn an_entry_of_no_plugin_that_runs_has_no_effect_and_a_reason() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n\
                    plugins: [{name: \"On\"}, {name: \"Off\"}, {name: Lats}]";
        std::fs::write(file.path(), text).unwrap();
        let admission = Admission::new(vec![&ON], Some(file.path())).unwrap();
        let last = r#"plugin "Lats" is unknown (similar: "Last"; "kube-admission-proxy plugins" lists all)"#;
        assert_eq!(admission.without_effect(&[&ON, &OFF, &LAST]), [r#"plugin "Off" is not enabled"#, last]);
    }

    #[test]
    fn the_front_end_runs_the_plugins_that_work_there() {
        static HOOKS: Spec = Spec { front_end: FrontEndSupport::LeftOut("it calls"), ..spec("Hooks", true) };
        static LOST: Spec = Spec { front_end: FrontEndSupport::Refused("it cannot"), ..spec("Lost", false) };
        static HALF: Spec = Spec { front_end: FrontEndSupport::Part("less"), ..spec("Half", false) };
        let all = [&ON, &HOOKS, &LOST, &HALF];
        let of = |enabled: &[&'static Spec], names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            reviewing(&all, enabled, &names)
                .map(|specs| specs.iter().map(|spec| spec.name).collect::<Vec<_>>())
                .map_err(|error| error.to_string())
        };
        assert_eq!(of(&[&ON, &HOOKS, &HALF], &[]), Ok(vec!["On", "Half"]));
        assert_eq!(of(&[&ON], &["Half", "On"]), Ok(vec!["On", "Half"]));
        let flag = "--webhook-admission-plugins";
        for (enabled, names, why) in [
            (&[&ON, &LOST][..], &[][..], "=Lost: cannot run in the front end: it cannot"),
            (&[], &["Hooks"], "=Hooks: cannot run in the front end: it calls"),
            (&[], &["X"], r#"=X: plugin "X" is unknown ("kube-admission-proxy plugins" lists all)"#),
            (&[&HOOKS], &[], "=: leaves no plugin for the front end"),
        ] {
            assert_eq!(of(enabled, names).unwrap_err(), format!("{flag}{why}"));
        }
    }

    #[test]
    fn unknown_and_contradicting_names_are_errors() {
        for (enable, disable, message) in [
            (&["X"][..], &[][..], format!(r#"enable-admission-plugins plugin "X" is unknown {HINT}"#)),
            (&[], &["X"], format!(r#"disable-admission-plugins plugin "X" is unknown {HINT}"#)),
            (
                &["On", "Off"],
                &["Off", "On"],
                "[Off On] in enable-admission-plugins and disable-admission-plugins overlapped".to_owned(),
            ),
            (
                &["X", "Y"],
                &[],
                format!(
                    r#"[enable-admission-plugins plugin "X" is unknown {HINT}, enable-admission-plugins plugin "Y" is unknown {HINT}]"#
                ),
            ),
        ] {
            assert_eq!(names(enable, disable), Err(message));
        }
    }
}
