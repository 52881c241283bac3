//! Builds the tenants of a folder, and follows the folder. All tenants are read, built and swapped as one: after an error nothing
//! has changed.

use super::super::backend::{Backend, Caches, Upstream};
use super::prepared::{Prepared, prepare, with_api_server};
use super::{Components, Shared};
use crate::audit::{Audit, Log, Policy, Queued};
use crate::cluster::{CacheRoom, Need};
use crate::pipeline::{Choice, OwnNamespaces, Part, Tenant, Tenants, Territory};
use crate::server::health::{Checks, Unhealthy};
use crate::server::{Reloading, reload, tls::Certificates};
use crate::sharer::Sharing;
use crate::tenants::profile::Profile;
use crate::tenants::{self, DEFAULT, Fault, Guard, Members, OPERATORS, Owners, Rate, TenantAddresses, TenantFile};
use anyhow::{Context as _, Result, anyhow};
use arc_swap::ArcSwap;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

/// The number of errors that the log and the health port show.
const SHOWN_FAULTS: usize = 20;

/// A folder of tenants.
pub(in crate::app) struct Folder {
    pub(in crate::app) path: PathBuf,
    /// The serving certificates of the tenants.
    pub(in crate::app) named: Arc<ArcSwap<Certificates>>,
}

/// The builder of tenants.
struct Builder {
    shared: Arc<Shared>,
    folder: Folder,
    /// The memory for the caches of API servers that only tenants name.
    caches: Arc<CacheRoom>,
    /// The queues of the tenants' audit logs.
    queued: Arc<Queued>,
    state: Mutex<State>,
}

/// Values of API servers, by their kubeconfigs; `None` for the API server of the flags.
type ByKubeconfig<T> = HashMap<Option<PathBuf>, T>;
type Backends = ByKubeconfig<Arc<Backend>>;
type AllOwners = ByKubeconfig<Arc<Owners>>;

/// The sources of the present tenants.
#[derive(Default)]
struct State {
    /// The API servers.
    backends: Backends,
    parts: HashMap<String, Built>,
    /// The files as they were parsed last.
    files: tenants::Files,
    /// The open audit logs by path.
    logs: HashMap<String, Weak<Log>>,
    is_loaded: bool,
    /// The error of the last reload.
    last_error: Option<String>,
}

/// A tenant's part with its sources.
#[derive(Clone)]
struct Built {
    digest: [u8; 32],
    backend: Arc<Backend>,
    part: Arc<Part>,
}

/// A folder that is followed, and the audit logs that its tenants opened.
pub(super) struct Following {
    builder: Arc<Builder>,
    tenants: Reloading<Tenants>,
    _hangups: AbortOnDropHandle<()>,
}

impl Following {
    /// The present tenants.
    pub(super) fn current(&self) -> Arc<ArcSwap<Tenants>> {
        self.tenants.shared()
    }

    /// Waits until the tenants' audit logs are written. Returns whether that happened in time.
    pub(super) async fn shut_down(&self) -> bool {
        let logs: Vec<_> = self.builder.state().logs.values().filter_map(Weak::upgrade).collect();
        let mut in_time = true;
        for log in logs {
            in_time &= log.shutdown().await;
        }
        in_time
    }
}

/// An error in the folder.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Invalid(String);

fn listed_faults(faults: &[Fault]) -> String {
    let more = faults.len().saturating_sub(SHOWN_FAULTS);
    let shown: Vec<String> = faults.iter().take(SHOWN_FAULTS).map(ToString::to_string).collect();
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!("{}{more}", shown.join("; "))
}

/// Builds the tenants of the folder, and follows the folder.
///
/// # Errors
/// If the tenants cannot be used at the start.
pub(super) async fn start(
    shared: Arc<Shared>,
    folder: Folder,
    upstream: Upstream,
    checks: &Checks,
) -> Result<Following> {
    let limits = &shared.config.limits;
    let (path, flag) = (folder.path.clone(), format!("--tenants-dir={}", folder.path.display()));
    let builder = Arc::new(Builder {
        caches: CacheRoom::new(limits.tenant_caches_bytes),
        queued: Arc::new(Queued::new(limits.audit_queue_bytes)),
        state: Mutex::default(),
        shared,
        folder,
    });
    let built = builder.clone();
    let following = tokio::task::spawn_blocking(move || {
        let reloaded = built.clone();
        let backend = built.shared.start_flags(upstream)?;
        built.state().backends.insert(None, Arc::new(backend));
        reload::watch_folder(path, move || reloaded.load()).map_err(anyhow::Error::from)
    });
    let tenants = following.await.context("the builder of tenants")?.context(flag)?;
    let forced = tenants.forced();
    let mut hangups = signal(SignalKind::hangup()).context("SIGHUP")?;
    let hangups = AbortOnDropHandle::new(tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            forced.notify_one();
        }
    }));
    let reported = builder.clone();
    checks.advise("tenants", move || reported.problems());
    let asked = builder.clone();
    checks.ready("tenant-upstreams", move || asked.is_any_reachable());
    Ok(Following { builder, tenants, _hangups: hangups })
}

impl Builder {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The error of the last reload, and the API servers that do not answer with their tenants.
    fn problems(&self) -> Result<(), Unhealthy> {
        let state = self.state();
        let mut problems: Vec<String> = state.last_error.iter().map(|why| format!("not reloaded: {why}")).collect();
        for (kubeconfig, backend) in &state.backends {
            let Err(why) = backend.server.check() else { continue };
            let mut of: Vec<&str> = state
                .parts
                .iter()
                .filter(|(_, built)| Arc::ptr_eq(&built.backend, backend))
                .map(|(name, _)| &**name)
                .collect();
            of.sort_unstable();
            let name = kubeconfig.as_ref().map_or_else(|| "the flags".to_owned(), |path| path.display().to_string());
            problems.push(format!("the API server of {name} (tenants {}): {why}", of.join(", ")));
        }
        problems.sort();
        if problems.is_empty() { Ok(()) } else { Err(Unhealthy::of(problems.join("; ").replace('\n', " "))) }
    }

    fn is_any_reachable(&self) -> Result<(), Unhealthy> {
        match self.state().backends.values().any(|backend| backend.is_ready()) {
            true => Ok(()),
            false => Err(Unhealthy::of("no API server of a tenant answers")),
        }
    }

    /// Reads, builds and returns the tenants.
    fn load(&self) -> Result<Tenants, Invalid> {
        let result = self.build();
        let mut state = self.state();
        if state.is_loaded {
            self.shared.counted.reloaded(result.is_ok());
        }
        state.is_loaded |= result.is_ok();
        state.last_error = result.as_ref().err().map(|error| error.0.clone());
        result
    }

    fn build(&self) -> Result<Tenants, Invalid> {
        let names: Vec<&str> = self.shared.config.admission.existing().iter().map(|spec| spec.name).collect();
        let mut files = std::mem::take(&mut self.state().files);
        let read = tenants::read_again(&self.folder.path, &names, &mut files);
        self.state().files = files;
        let read = read.map_err(|faults| Invalid(listed_faults(&faults)))?;
        let prepared = prepare(&read, &self.shared.config).map_err(|faults| Invalid(listed_faults(&faults)))?;
        let invalid = |fault: Fault| Invalid(fault.to_string());
        let (backends, owners) = self.backends(&prepared).map_err(invalid)?;
        let before = self.state().parts.clone();
        let (mut parts, mut logs) = (HashMap::new(), self.state().logs.clone());
        logs.retain(|_, log| log.strong_count() > 0);
        let mut certificates = HashMap::new();
        let mut ordered = Vec::with_capacity(prepared.len());
        for one in &prepared {
            let Some(backend) = backends.get(&one.tenant.kubeconfig()) else { continue };
            let same = before.get(&one.tenant.name);
            let same = same.filter(|built| built.digest == one.digest && Arc::ptr_eq(&built.backend, backend));
            let built = match same {
                Some(same) => same.clone(),
                None => Built {
                    digest: one.digest,
                    backend: backend.clone(),
                    part: Arc::new(self.part(one, backend, &mut logs).map_err(invalid)?),
                },
            };
            for name in &one.tenant.profile.server_names {
                certificates.extend(one.certificate.clone().map(|certificate| (name.clone(), certificate)));
            }
            ordered.push(built.part.clone());
            parts.insert(one.tenant.name.clone(), built);
        }
        let index = |name: &str| read.iter().position(|tenant| tenant.name == name);
        let default = index(DEFAULT).ok_or_else(|| Invalid(format!("there is no tenant {DEFAULT:?}")))?;
        let tenants = Tenants {
            parts: ordered,
            default,
            choice: Some(Choice {
                addresses: TenantAddresses::new(&read),
                members: Members::new(&read),
                operators: index(OPERATORS),
            }),
        };
        // From here on nothing fails.
        for (kubeconfig, backend) in &backends {
            backend.server.owners.store(owners.get(kubeconfig).cloned().unwrap_or_default());
        }
        self.folder.named.store(Arc::new(certificates));
        let mut state = self.state();
        let _before = std::mem::replace(&mut state.parts, parts);
        (state.backends, state.logs) = (backends, logs);
        drop(state);
        Ok(tenants)
    }

    /// Returns the API servers of the tenants: the present ones, and new ones for new kubeconfigs and for plugins that read other caches.
    fn backends(&self, prepared: &[Prepared<'_>]) -> Result<(Backends, AllOwners), Fault> {
        let Shared { config, front, files, drain, rest, .. } = &*self.shared;
        let present = self.state().backends.clone();
        let all: Vec<&TenantFile> = prepared.iter().map(|one| one.tenant).collect();
        let mut needs: ByKubeconfig<(Vec<Need>, &TenantFile)> = HashMap::new();
        for one in prepared {
            let (known, _) =
                needs.entry(one.tenant.kubeconfig()).or_insert_with(|| (vec![Need::NAMESPACES], one.tenant));
            for need in one.needs() {
                if !known.contains(&need) {
                    known.push(need);
                }
            }
        }
        let (mut backends, mut owners) = (HashMap::new(), HashMap::new());
        for (kubeconfig, (needs, tenant)) in needs {
            owners.insert(kubeconfig.clone(), Arc::new(Owners::new(&all, &kubeconfig)));
            let own = kubeconfig.as_ref().map(|path| with_api_server(config, tenant, path)).transpose()?;
            // The API server of the flags never changes.
            let is_same =
                |backend: &&Arc<Backend>| own.as_ref().is_none_or(|own| backend.server.is_used_so(&own.upstream));
            let backend = match present.get(&kubeconfig).filter(is_same) {
                Some(backend) if needs.iter().all(|need| backend.needs.contains(need)) => backend.clone(),
                Some(backend) => Arc::new(backend.with_needs(&needs)),
                None => {
                    let Some(own) = &own else { continue };
                    let field = "spec.upstream.kubeconfig";
                    let upstream = Handle::current().block_on(Upstream::of_tenants(own, drain, Some(rest)));
                    let upstream = upstream.map_err(|error| tenant.fault(field, format!("{error:#}")))?;
                    let client_ca = front.as_ref().and_then(|front| front.client_ca.as_ref());
                    let caches = Caches::OfTenants(self.caches.clone());
                    let started = Backend::start(own, &own.upstream, upstream, client_ca, files, &needs, caches);
                    Arc::new(started.map_err(|error| tenant.fault(field, format!("{error:#}")))?)
                }
            };
            // The namespaces of one API server must have their owners in one place.
            let mut others = backends.values().filter(|other: &&Arc<Backend>| other.server.url.is_some());
            if others.any(|other| other.server.url == backend.server.url) {
                let why = "another kubeconfig names this API server: use one for all its tenants, and none for that of the flags";
                return Err(tenant.fault("spec.upstream.kubeconfig", why));
            }
            backends.insert(kubeconfig, backend);
        }
        Ok((backends, owners))
    }

    fn part(
        &self,
        one: &Prepared<'_>,
        backend: &Arc<Backend>,
        logs: &mut HashMap<String, Weak<Log>>,
    ) -> Result<Part, Fault> {
        let config = &self.shared.config;
        let (tenant, profile) = (one.tenant, &one.tenant.profile);
        let (server, cluster) = (&backend.server, backend.cluster.view(&one.only()));
        let guard = Guard {
            tenant: tenant.name.as_str().into(),
            owners: server.owners.clone(),
            is_confined: profile.authorization.own_namespaces_only,
            discovery: server.discovery.clone(),
        };
        let chain = one.chain(&cluster, &server.discovery, &self.shared.metrics, &backend.plugins)?;
        // A review has no caller of a tenant, and other rules of the API server decide who may write there without the proxy.
        let reviewing = config.front_end.as_ref().filter(|_| tenant.kubeconfig().is_none());
        let reviewing = reviewing.map(|front_end| Arc::new(chain.part(&one.reviewing(front_end))));
        let probe = server.probe.clone();
        let components = Components {
            tenant: described(tenant, server.owners.clone()),
            cluster,
            chain: Arc::new(chain.guarded(Box::new(guard))),
            reviewing,
            client_ca: one.client_ca.clone(),
            audit: self.audit(one, logs)?,
            admission: one.admission(),
            limits: one.limits.clone(),
            is_of_flags: tenant.kubeconfig().is_none(),
            is_down: Box::new(move || probe.is_down()),
        };
        Ok(self.shared.part(server, components))
    }

    /// Returns the audit of a tenant: with its own policy and log, or those of the flags.
    fn audit(&self, one: &Prepared<'_>, logs: &mut HashMap<String, Weak<Log>>) -> Result<Audit, Fault> {
        let Shared { config, audited, .. } = &*self.shared;
        let (tenant, given) = (one.tenant, &one.tenant.profile.audit);
        if given.policy_file.is_none() && given.log_path.is_none() {
            return Ok(audited.audit.clone());
        }
        let policy: Policy = match (&one.audit_policy, &config.audit.policy_file) {
            (Some(own), _) => own.clone(),
            (None, Some(file)) => {
                Policy::from_file(file).map_err(|error| tenant.fault("spec.audit", format!("{error:#}")))?
            }
            (None, None) => return Err(tenant.fault("spec.audit.logPath", "needs policyFile or --audit-policy-file")),
        };
        let log = match &given.log_path {
            None if audited.log.is_none() && audited.webhook.is_none() => {
                return Err(tenant.fault("spec.audit.policyFile", "needs logPath or --audit-log-path"));
            }
            None => audited.log.clone(),
            Some(path) => Some(self.log(tenant, path, logs)?),
        };
        Ok(audited.of(Reloading::fixed(policy), log))
    }

    /// Opens a log; two tenants with the same path have the same log.
    fn log(&self, tenant: &TenantFile, path: &str, logs: &mut HashMap<String, Weak<Log>>) -> Result<Arc<Log>, Fault> {
        let field = "spec.audit.logPath";
        let path = tenant.path(path).display().to_string();
        let audited = &self.shared.audited;
        if let (Some(log), true) = (&audited.log, audited.path.as_deref() == Some(&*path)) {
            return Ok(log.clone());
        }
        if let Some(open) = logs.get(&path).and_then(Weak::upgrade) {
            return Ok(open);
        }
        let (limits, options) = (self.shared.config.limits.clone(), &self.shared.config.audit.log_options);
        let log = Log::open(&path, self.queued.quarter(), options, audited.metrics.clone(), limits)
            .map_err(|error| tenant.fault(field, anyhow!("{path}: {error}")))?;
        let log = Arc::new(log);
        logs.insert(path, Arc::downgrade(&log));
        Ok(log)
    }
}

/// Returns the properties of a tenant, whose API server has namespaces with these owners.
fn described(tenant: &TenantFile, owners: Arc<ArcSwap<Owners>>) -> Tenant {
    let Profile { limits, authorization, upstream, .. } = &tenant.profile;
    let name: Arc<str> = tenant.name.as_str().into();
    let rate = |per_second| Rate::new(per_second, limits.write_burst.unwrap_or(per_second));
    let calls = |calls: usize| Arc::new(Semaphore::new(calls.min(Semaphore::MAX_PERMITS)));
    let own = OwnNamespaces { tenant: name.clone(), owners, is_confined: authorization.own_namespaces_only };
    Tenant {
        territory: if &*name == OPERATORS { Territory::All } else { Territory::Namespaces(own) },
        counts_all: !matches!(&*name, DEFAULT | OPERATORS),
        rate: limits.writes_per_second.map(rate),
        calls: limits.webhook_calls_in_flight.map(calls),
        group_prefix: upstream.as_ref().map(|upstream| upstream.group_prefix.clone()).unwrap_or_default(),
        sharing: Sharing::AsTenant(name),
    }
}
