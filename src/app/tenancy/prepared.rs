//! A tenant whose files are read: everything that its parts are built from.

use super::super::backend::{CommonPlugins, all_needs};
use super::super::server_config::{Admission, Config};
use crate::admission::metrics::Metrics;
use crate::admission::{Chain, PluginEnvironment, Spec};
use crate::audit::Policy;
use crate::authn::{CertificateAuthority, TenantAuthority, TenantNames};
use crate::cluster::discovery::Discovery;
use crate::cluster::{Cluster, Need, Only};
use crate::config::{
    self, AuthorizationMode, CallsWebhooks, EmulatedRelease, Limits, UpstreamIdentity, WebhookTargets,
};
use crate::go_text::duration;
use crate::initializers;
use crate::metrics::Registry;
use crate::plugins::{mutating_admission_policy, validating_admission_policy};
use crate::server::tls;
use crate::tenants::profile::{self, Identity, MemberKind, Which};
use crate::tenants::{DEFAULT, Fault, NONE, OPERATORS, TenantFile, read};
use rustls::sign::CertifiedKey;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A tenant and the content of its files.
pub(super) struct Prepared<'a> {
    pub(super) tenant: &'a TenantFile,
    resolved: Resolved,
    pub(super) limits: Arc<Limits>,
    pub(super) audit_policy: Option<Policy>,
    pub(super) certificate: Option<Arc<CertifiedKey>>,
    pub(super) client_ca: Option<TenantAuthority>,
    /// A digest of the tenant, its bases and all their files: an equal tenant keeps its parts.
    pub(super) digest: [u8; 32],
}

/// Reads all files of the tenants in a folder.
///
/// # Errors
/// All errors that were found.
pub(super) fn prepare<'a>(tenants: &'a [Arc<TenantFile>], config: &Config) -> Result<Vec<Prepared<'a>>, Vec<Fault>> {
    let (mut prepared, mut faults) = (Vec::with_capacity(tenants.len()), Vec::new());
    let mut resolver = Resolver::new(tenants, config);
    for tenant in tenants {
        let one = resolver.resolve(tenant).and_then(|resolved| Prepared::new(tenant, tenants, resolved, config));
        match one {
            Ok(one) => prepared.push(one),
            Err(fault) => faults.push(fault),
        }
    }
    if faults.is_empty() { Ok(prepared) } else { Err(faults) }
}

/// Checks the tenants in a folder without a server, with the plugins of a release and the default flags. Must be called inside a tokio runtime,
/// because some plugins start tasks.
///
/// # Errors
/// All errors that were found.
pub(crate) fn check_tenants(folder: &Path, release: EmulatedRelease) -> Result<usize, Vec<Fault>> {
    let of_folder = |why: String| vec![Fault { file: folder.to_owned(), line: 0, field: String::new(), why }];
    let config = Config::for_checks(release).map_err(|error| of_folder(error.to_string()))?;
    let names: Vec<&str> = config.admission.existing().iter().map(|spec| spec.name).collect();
    let tenants = read(folder, &names)?;
    let (cluster, discovery, registry) = (Cluster::unconnected(), Discovery::unconnected(), Registry::new());
    let metrics = Arc::new(Metrics::new(&registry).map_err(|error| of_folder(error.to_string()))?);
    let common = CommonPlugins::default();
    let prepared = prepare(&tenants, &config)?;
    let faults: Vec<Fault> =
        prepared.iter().filter_map(|one| one.chain(&cluster, &discovery, &metrics, &common).err()).collect();
    if faults.is_empty() { Ok(tenants.len()) } else { Err(faults) }
}

/// The configuration of an API server that a tenant names.
///
/// # Errors
/// If the tenant's webhook targets are invalid.
pub(super) fn with_api_server(config: &Config, tenant: &TenantFile, kubeconfig: &Path) -> Result<Config, Fault> {
    let given = tenant.profile.upstream.clone().unwrap_or_default();
    let field = |index| format!("spec.upstream.webhookTargets[{index}]");
    let targets = WebhookTargets::parse(&given.webhook_targets);
    let targets = targets.map_err(|(index, why)| tenant.fault(&field(index), why))?;
    let mut own = config.clone();
    // The API server of a tenant always decides on the tenant's requests.
    own.authorization.mode = AuthorizationMode::Webhook;
    own.limits = Arc::new(config.limits.for_api_server_of_tenants());
    own.emulates_upstream = false;
    own.upstream = config::Upstream::Remote {
        kubeconfig: kubeconfig.to_owned(),
        identity: match given.identity {
            Identity::Impersonate => UpstreamIdentity::Impersonate,
            Identity::RequestHeader => UpstreamIdentity::RequestHeader,
        },
        calls_webhooks: CallsWebhooks::No,
        impersonator: None,
        own_user: None,
        admitted_mark: None,
        group_prefix: given.group_prefix,
        webhook_targets: Some(Arc::new(targets)),
    };
    Ok(own)
}

/// An API server that tenants name.
pub(in crate::app) struct OfTenants {
    /// The names of the tenants.
    pub(in crate::app) tenants: Vec<String>,
    /// The configuration of a proxy in front of it, with the plugins of all these tenants.
    pub(in crate::app) config: Config,
}

/// Reads the tenants in a folder, and returns the API servers that they name.
///
/// # Errors
/// All errors that were found.
pub(in crate::app) fn api_servers(folder: &Path, config: &Config) -> Result<Vec<OfTenants>, Vec<Fault>> {
    let names: Vec<&str> = crate::plugins::ALL.iter().map(|spec| spec.name).collect();
    let tenants = read(folder, &names)?;
    let mut servers: BTreeMap<PathBuf, OfTenants> = BTreeMap::new();
    for one in prepare(&tenants, config)? {
        let Some(kubeconfig) = one.tenant.kubeconfig() else { continue };
        let plugins = &one.admission().plugins;
        if let Some(known) = servers.get_mut(&kubeconfig) {
            known.tenants.push(one.tenant.name.clone());
            let all = &mut known.config.admission.plugins;
            all.extend(
                plugins
                    .iter()
                    .filter(|spec| !all.iter().any(|other| other.name == spec.name))
                    .copied()
                    .collect::<Vec<_>>(),
            );
            continue;
        }
        let mut own = with_api_server(config, one.tenant, &kubeconfig).map_err(|fault| vec![fault])?;
        own.admission.plugins.clone_from(plugins);
        let tenants = vec![one.tenant.name.clone()];
        servers.insert(kubeconfig, OfTenants { tenants, config: own });
    }
    Ok(servers.into_values().collect())
}

impl<'a> Prepared<'a> {
    fn new(
        tenant: &'a TenantFile,
        all: &[Arc<TenantFile>],
        resolved: Resolved,
        config: &Config,
    ) -> Result<Self, Fault> {
        let (profile, mut digest) = (&tenant.profile, Sha256::new());
        let text = serde_json::to_vec(profile).map_err(|error| tenant.fault("spec", error))?;
        digest.update(resolved.digest);
        digest.update((text.len() as u64).to_be_bytes());
        digest.update(text);
        let has_initializers = resolved.admission.plugins.iter().any(|spec| spec.name == initializers::PLUGIN);
        if has_initializers && profile.upstream.is_some() {
            return Err(tenant.fault("spec.admission", "Initializers works only with the embedded API server"));
        }
        let certificate = match (&profile.tls.cert_file, &profile.tls.key_file) {
            (Some(certificate), Some(key)) => {
                let (certificate, key) = (
                    content(tenant, "spec.tls.certFile", certificate, &mut digest)?,
                    content(tenant, "spec.tls.keyFile", key, &mut digest)?,
                );
                let key = tls::certified_key(&certificate, &key);
                Some(Arc::new(key.map_err(|error| tenant.fault("spec.tls.certFile", error))?))
            }
            _ => None,
        };
        let client_ca = profile.tls.client_ca_file.as_ref().map(|file| -> Result<_, Fault> {
            let field = "spec.tls.clientCAFile";
            let parsed = CertificateAuthority::parse(&content(tenant, field, file, &mut digest)?);
            let authority = Arc::new(parsed.map_err(|error| tenant.fault(field, error))?);
            let names = names(tenant, all, config.upstream.kubeconfig());
            digest.update(format!("{names:?}"));
            Ok(TenantAuthority { authority, names })
        });
        let client_ca = client_ca.transpose()?;
        let audit_policy = profile.audit.policy_file.as_ref().map(|file| {
            let field = "spec.audit.policyFile";
            content(tenant, field, file, &mut digest)?;
            Policy::from_file(&tenant.path(file)).map_err(|error| tenant.fault(field, format!("{error:#}")))
        });
        let audit_policy = audit_policy.transpose()?;
        let limits = limits(tenant, &config.limits);
        Ok(Self { tenant, resolved, limits, audit_policy, certificate, client_ca, digest: digest.finalize().into() })
    }

    /// The plugins with their configurations.
    pub(super) fn admission(&self) -> &Admission {
        &self.resolved.admission
    }

    /// The caches that the tenant's plugins read.
    pub(super) fn needs(&self) -> Vec<Need> {
        all_needs(self.admission())
    }

    /// The objects of the API that count for the tenant, for kinds of which not all do.
    pub(super) fn only(&self) -> Vec<(Need, Only)> {
        let from_api = &self.tenant.profile.admission.from_api;
        let webhooks = [Need::MUTATING_WEBHOOKS, Need::VALIDATING_WEBHOOKS];
        // A binding has no effect without its policy.
        let policies = [Need::MUTATING_POLICIES, Need::VALIDATING_POLICIES];
        let chosen = |which: &Which, kinds: [Need; 2]| {
            let only = match which {
                Which::All => None,
                Which::None => Some(Only::None),
                Which::Labelled(labels) => Some(Only::Labelled(labels.clone())),
            };
            only.into_iter().flat_map(move |only| kinds.map(|need| (need, only.clone())))
        };
        chosen(&from_api.webhooks, webhooks).chain(chosen(&from_api.policies, policies)).collect()
    }

    /// The plugins that answer reviews of the tenant's namespaces: those that work in the front end, and that its flag names, if there are names.
    pub(super) fn reviewing(&self, front_end: &config::FrontEndOptions) -> Vec<&'static str> {
        let plugins = self.admission().plugins.iter().filter(|spec| spec.front_end.runs()).map(|spec| spec.name);
        plugins.filter(|name| !front_end.are_named || front_end.plugins.contains(name)).collect()
    }

    /// A digest of all that the policy plugins are built from, besides the API server.
    fn digest_of_policies(&self) -> [u8; 32] {
        let from_api = &self.tenant.profile.admission.from_api.policies;
        let mut digest = Sha256::new();
        digest.update(self.resolved.policies);
        digest.update(format!("{from_api:?}"));
        digest.finalize().into()
    }

    /// Builds the chain of plugins. Plugins without a state of their own are taken from `common`, if they are there.
    ///
    /// # Errors
    /// If a plugin refuses its configuration.
    pub(super) fn chain(
        &self,
        cluster: &Arc<Cluster>,
        discovery: &Arc<Discovery>,
        metrics: &Arc<Metrics>,
        common: &CommonPlugins,
    ) -> Result<Chain, Fault> {
        let admission = self.admission();
        let environment = |spec: &'static Spec| PluginEnvironment {
            cluster: cluster.clone(),
            configuration: admission.configuration(spec.name),
            limits: &self.limits,
            metrics: metrics.clone(),
            feature_gates: &admission.feature_gates,
            default_tolerations: admission.default_tolerations,
            shadow_webhooks: &admission.shadow_webhooks,
            policies: &admission.policies,
            discovery: discovery.clone(),
        };
        let policies = self.digest_of_policies();
        let plugin = |spec: &'static Spec| {
            let build = || (spec.build)(&environment(spec));
            match WITHOUT_STATE.contains(&spec.name) {
                true => common.find(spec.name, policies, build),
                false => Ok(build()?.into()),
            }
        };
        let built = Chain::build_quietly(&admission.plugins, metrics.clone(), plugin);
        built.map_err(|error| self.tenant.fault("spec.admission", error))
    }
}

/// Returns the names that a tenant's client authorities may give: those of its members, without those that make somebody a member of
/// `operators`. `None`: all names, because neither another tenant nor the flags have the API server.
fn names(tenant: &TenantFile, all: &[Arc<TenantFile>], of_flags: Option<&Path>) -> Option<TenantNames> {
    // Two paths can lead to one kubeconfig.
    let file = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let of_others = all.iter().filter(|other| other.name != tenant.name).filter_map(|other| other.kubeconfig());
    let mut of_others = of_others.map(|path| file(&path)).chain(of_flags.map(file));
    if tenant.kubeconfig().is_some_and(|path| !of_others.any(|other| other == file(&path))) {
        return None;
    }
    let operators = all.iter().find(|other| other.name == OPERATORS && other.name != tenant.name);
    let operators = operators.map_or(&[][..], |operators| operators.profile.members.as_slice());
    let of_kind = |kind: MemberKind| {
        let members = tenant.profile.members.iter().filter(|member| member.kind == kind && !operators.contains(member));
        members.map(|member| member.name.clone()).collect()
    };
    let (users, groups) = (of_kind(MemberKind::User), of_kind(MemberKind::Group));
    Some(TenantNames { tenant: tenant.name.clone(), users, groups })
}

/// Reads a file that a tenant names, and adds its content to the digest.
fn content(tenant: &TenantFile, field: &str, file: &str, digest: &mut Sha256) -> Result<Vec<u8>, Fault> {
    let path = tenant.path(file);
    let content = std::fs::read(&path).map_err(|error| tenant.fault(field, format!("{}: {error}", path.display())))?;
    digest.update((content.len() as u64).to_be_bytes());
    digest.update(&content);
    Ok(content)
}

/// The plugins that have no state but what follows from the API server and their configuration. Their compiled policies, and the tasks that
/// compile them, would be the largest part of an idle tenant.
const WITHOUT_STATE: [&str; 2] = [mutating_admission_policy::SPEC.name, validating_admission_policy::SPEC.name];

/// The plugins of a tenant with their configurations.
#[derive(Clone)]
struct Resolved {
    admission: Arc<Admission>,
    /// A digest of all that the plugins come from.
    digest: [u8; 32],
    /// A digest of all that the configurations of the policy plugins come from.
    policies: [u8; 32],
}

/// The plugins of tenants, each resolved once, because many tenants may have one base.
struct Resolver<'a> {
    config: &'a Config,
    tenants: HashMap<&'a str, &'a TenantFile>,
    known: HashMap<&'a str, Resolved>,
}

impl<'a> Resolver<'a> {
    fn new(tenants: &'a [Arc<TenantFile>], config: &'a Config) -> Self {
        let tenants = tenants.iter().map(|tenant| (&*tenant.name, &**tenant)).collect();
        Self { config, tenants, known: HashMap::new() }
    }

    /// Returns the plugins of a tenant: those of its base, changed. No base leads back to its tenant.
    fn resolve(&mut self, tenant: &'a TenantFile) -> Result<Resolved, Fault> {
        if let Some(known) = self.known.get(&*tenant.name) {
            return Ok(known.clone());
        }
        let given = &tenant.profile.admission;
        let of_flags = |admission| Resolved { admission: Arc::new(admission), digest: [0; 32], policies: [0; 32] };
        let base = match (&*tenant.name, &*given.base) {
            (DEFAULT, _) => of_flags(self.config.admission.clone()),
            (_, NONE) => of_flags(self.config.admission.without_plugins()),
            (_, base) => {
                let name = if base.is_empty() { DEFAULT } else { base };
                let found = self.tenants.get(name).copied();
                let found =
                    found.ok_or_else(|| tenant.fault("spec.admission.base", format!("there is no tenant {name:?}")))?;
                self.resolve(found)?
            }
        };
        let (mut digest, mut policies) = (Sha256::new(), Sha256::new());
        digest.update(base.digest);
        policies.update(base.policies);
        let has_policies_of_base = given.plugin_config.is_none() && given.shadow.policies.is_empty();
        // Profiles are plain data, whose JSON is the same for equal profiles.
        let text = serde_json::to_vec(given).map_err(|error| tenant.fault("spec.admission", error))?;
        digest.update((text.len() as u64).to_be_bytes());
        digest.update(text);
        if let Some(name) = given.enable_plugins.iter().find(|name| is_unserved(name, self.config)) {
            let why =
                format!("{name} reads an API that Kubernetes removed: enable it by --enable-admission-plugins too");
            return Err(tenant.fault("spec.admission.enablePlugins", why));
        }
        let mut changed =
            base.admission.changed(&base.admission.existing(), &given.enable_plugins, &given.disable_plugins);
        if let Some(file) = &given.plugin_config {
            let field = "spec.admission.pluginConfig";
            content(tenant, field, file, &mut digest)?;
            changed.configure(&tenant.path(file)).map_err(|error| tenant.fault(field, error))?;
            // With the files that the file names, and with the folders from which relative paths start.
            let configurations = format!("{:?}", changed.configurations());
            digest.update(&configurations);
            policies.update(configurations);
        }
        changed.shadow_webhooks = changed.shadow_webhooks.with_more(&given.shadow.webhooks);
        changed.policies.shadows = changed.policies.shadows.with_more(&given.shadow.policies);
        policies.update(format!("{:?}", given.shadow.policies));
        let resolved = Resolved {
            admission: if changes_nothing(given) { base.admission } else { Arc::new(changed) },
            digest: digest.finalize().into(),
            policies: if has_policies_of_base { base.policies } else { policies.finalize().into() },
        };
        self.known.insert(&tenant.name, resolved.clone());
        Ok(resolved)
    }
}

/// Whether a tenant has the plugins of its base, with the same configurations.
fn changes_nothing(given: &profile::Admission) -> bool {
    let has_plugins_of_base = given.enable_plugins.is_empty() && given.disable_plugins.is_empty();
    has_plugins_of_base && given.plugin_config.is_none() && given.shadow == profile::Shadow::default()
}

/// Whether the embedded API server does not serve a removed API that the plugin reads.
fn is_unserved(plugin: &str, config: &Config) -> bool {
    let is_of_flags = config.admission.plugins.iter().any(|spec| spec.name == plugin);
    let spec = crate::plugins::ALL.iter().find(|spec| spec.name == plugin);
    !is_of_flags && spec.is_some_and(|spec| spec.needs.iter().any(|need| need.removed_api().is_some()))
}

fn limits(tenant: &TenantFile, process: &Limits) -> Arc<Limits> {
    let (given, admission) = (&tenant.profile.limits, &tenant.profile.admission);
    let timeout = admission.timeout.as_deref().and_then(|timeout| duration::parse(timeout).ok());
    Arc::new(Limits {
        requests_inflight: given.requests_in_flight.unwrap_or(process.requests_inflight),
        mutating_requests_inflight: given.mutating_requests_in_flight.unwrap_or(process.mutating_requests_inflight),
        body_bytes: given.body_bytes.map_or(process.body_bytes, |bytes| bytes.min(process.body_bytes)),
        admission_timeout: timeout.or(process.admission_timeout),
        ..process.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_of_a_tenant_give_the_names_of_its_members() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        let tenant = |name: &str, spec: &str| {
            let head = "apiVersion: config.kube-admission-proxy.dev/v1alpha1\nkind: Tenant\nmetadata:";
            write(&format!("{name}.yaml"), &format!("{head} {{name: {name}}}\nspec:\n{spec}"));
        };
        let members = "  members: [{kind: User, name: bea}, {kind: User, name: olga}, {kind: Group, name: team}, {kind: Group, name: platform}]\n";
        tenant("default", "  members: []\n");
        tenant("operators", "  members: [{kind: User, name: olga}, {kind: Group, name: platform}]\n");
        tenant("blue", members);
        for (name, kubeconfig) in [("red", "own"), ("green", "shared"), ("grey", "shared")] {
            write(kubeconfig, "");
            tenant(name, &format!("{members}  upstream: {{kubeconfig: {kubeconfig}}}\n"));
        }
        let all = read(folder.path(), &[]).unwrap();
        let of = |name: &str| names(all.iter().find(|tenant| tenant.name == name).unwrap(), &all, None);
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        for name in ["blue", "green", "grey"] {
            let wanted = TenantNames { tenant: name.into(), users: set(&["bea"]), groups: set(&["team"]) };
            assert_eq!(of(name), Some(wanted), "{name}");
        }
        let operators = TenantNames { tenant: "operators".into(), users: set(&["olga"]), groups: set(&["platform"]) };
        assert_eq!(of("operators"), Some(operators));
        assert_eq!(of("red"), None, "nobody else has its API server");
        let red = all.iter().find(|tenant| tenant.name == "red").unwrap();
        let folder = folder.path();
        let of_flags = folder.join("..").join(folder.file_name().unwrap()).join("own");
        assert!(names(red, &all, Some(&of_flags)).is_some(), "the flags name the same file");
    }
}
