//! The files of a folder with tenants: read, and validated together.

use super::profile::{Document, KIND, Member, MemberKind, Profile};
use super::{DEFAULT, NONE, OPERATORS, Owners};
use crate::config::{OWN_API_VERSION, WebhookTargets, line_of, plugin_hint};
use crate::go_text::duration;
use crate::names::{is_dns_1123_label, is_dns_1123_subdomain};
use crate::user::{ALL_UNAUTHENTICATED, ANONYMOUS, invalid_group_prefix};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The number of tenants in a folder.
pub(crate) const MAX_TENANTS: usize = 10_000;
/// The bytes of a tenant's file.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// An error in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file, or the folder.
    pub(crate) file: PathBuf,
    /// The line, from 1 on; 0 if the error concerns the whole file.
    pub(crate) line: usize,
    /// The field; empty if the error concerns the whole file.
    pub(crate) field: String,
    /// The reason.
    pub(crate) why: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if self.line > 0 {
            write!(f, "{}:", self.line)?;
        }
        if !self.field.is_empty() {
            write!(f, " {}:", self.field)?;
        }
        write!(f, " {}", self.why)
    }
}

/// A tenant as its file describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantFile {
    pub(crate) name: String,
    pub(crate) file: PathBuf,
    /// The properties.
    pub(crate) profile: Profile,
    text: String,
}

impl TenantFile {
    /// An error about a field of this tenant.
    pub(crate) fn fault(&self, field: &str, why: impl fmt::Display) -> Fault {
        let why = why.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        Fault { file: self.file.clone(), line: line_of(&self.text, field), field: field.to_owned(), why }
    }

    /// The path of a file that the tenant names: a relative path begins at the folder of the tenants.
    pub(crate) fn path(&self, named: &str) -> PathBuf {
        self.file.parent().unwrap_or(Path::new("")).join(named)
    }

    /// The kubeconfig of the tenant's own API server; `None` for the API server of the flags.
    pub(crate) fn kubeconfig(&self) -> Option<PathBuf> {
        self.profile.upstream.as_ref().map(|upstream| self.path(&upstream.kubeconfig))
    }

    /// The files that the tenant names, without its kubeconfig, each with its field. The proxy follows the kubeconfig for itself.
    pub(crate) fn named_files(&self) -> Vec<(&'static str, PathBuf)> {
        let profile = &self.profile;
        let named = [
            ("spec.admission.pluginConfig", &profile.admission.plugin_config),
            ("spec.audit.policyFile", &profile.audit.policy_file),
            ("spec.tls.certFile", &profile.tls.cert_file),
            ("spec.tls.keyFile", &profile.tls.key_file),
            ("spec.tls.clientCAFile", &profile.tls.client_ca_file),
        ];
        named.into_iter().filter_map(|(field, file)| Some((field, self.path(file.as_ref()?)))).collect()
    }
}

#[cfg(test)]
impl TenantFile {
    /// A tenant without a file.
    pub(crate) fn named(name: &str) -> Self {
        let (file, profile, text) = Default::default();
        Self { name: name.to_owned(), file, profile, text }
    }
}

/// The files of a folder, as they were parsed last. A file with the same bytes is not parsed again, and its tenant is the same `Arc`.
#[derive(Debug, Default)]
pub(crate) struct Files(HashMap<PathBuf, ReadFile>);

/// Reads the tenants in the YAML and JSON files of a folder, sorted by name, and validates them together. `plugins` are the names of all
/// plugins. A file that a tenant names is no file of a tenant.
///
/// # Errors
/// All errors that were found.
pub fn read(folder: &Path, plugins: &[&str]) -> Result<Vec<Arc<TenantFile>>, Vec<Fault>> {
    read_again(folder, plugins, &mut Files::default())
}

/// As [`read`], with the files as they were parsed last, which the call replaces.
///
/// # Errors
/// All errors that were found.
pub(crate) fn read_again(
    folder: &Path,
    plugins: &[&str],
    known: &mut Files,
) -> Result<Vec<Arc<TenantFile>>, Vec<Fault>> {
    let of_folder = |why: String| vec![Fault { file: folder.to_owned(), line: 0, field: String::new(), why }];
    let entries = std::fs::read_dir(folder).map_err(|error| of_folder(format!("cannot read the folder: {error}")))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| of_folder(format!("cannot read the folder: {error}")))?.path();
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        if ["yaml", "yml", "json"].contains(&extension) && !path.is_dir() {
            files.push(path);
        }
    }
    files.sort();
    let (mut tenants, mut others, mut faults) = (Vec::new(), Vec::new(), Vec::new());
    let mut before = std::mem::take(&mut known.0);
    for file in files {
        match read_file(&file, before.remove(&file)) {
            Ok(read) => {
                match &read.parsed {
                    Parsed::Tenant(tenant) => tenants.push(tenant.clone()),
                    Parsed::Other(fault) => others.push(fault.clone()),
                }
                known.0.insert(file, read);
            }
            Err(fault) => faults.push(fault),
        }
    }
    let named: HashSet<PathBuf> = tenants
        .iter()
        .flat_map(|tenant| tenant.named_files().into_iter().map(|(_, path)| path).chain(tenant.kubeconfig()))
        .collect();
    faults.extend(others.into_iter().filter(|fault| !named.contains(&fault.file)));
    if tenants.len() > MAX_TENANTS {
        return Err(of_folder(format!("has {} tenants; at most {MAX_TENANTS} are possible", tenants.len())));
    }
    tenants.sort_by(|a, b| a.name.cmp(&b.name));
    faults.extend(validate(folder, &tenants, plugins));
    if faults.is_empty() { Ok(tenants) } else { Err(faults) }
}

/// A file as it was read last.
#[derive(Debug)]
struct ReadFile {
    digest: [u8; 32],
    parsed: Parsed,
}

#[derive(Debug)]
enum Parsed {
    Tenant(Arc<TenantFile>),
    /// A file of another kind, with the error that it is if no tenant names it.
    Other(Fault),
}

/// The part of a file with its kind.
#[derive(serde::Deserialize)]
struct AnyKind {
    #[serde(default)]
    kind: Option<String>,
}

/// Reads a file, and parses it unless its bytes are those of `before`.
fn read_file(file: &Path, before: Option<ReadFile>) -> Result<ReadFile, Fault> {
    let fault = |line, field: &str, why: String| Fault { file: file.to_owned(), line, field: field.to_owned(), why };
    let mut text = String::new();
    let unreadable = |error: std::io::Error| fault(0, "", format!("cannot read the file: {error}"));
    if !std::fs::metadata(file).map_err(unreadable)?.is_file() {
        return Err(fault(0, "", "is no regular file".to_owned()));
    }
    std::fs::File::open(file)
        .and_then(|opened| opened.take(MAX_FILE_BYTES + 1).read_to_string(&mut text))
        .map_err(unreadable)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(fault(0, "", format!("has more than {MAX_FILE_BYTES} bytes")));
    }
    let digest: [u8; 32] = Sha256::digest(&text).into();
    match before {
        Some(same) if same.digest == digest => Ok(same),
        _ => Ok(ReadFile { digest, parsed: parse(file, text)? }),
    }
}

fn parse(file: &Path, text: String) -> Result<Parsed, Fault> {
    let fault = |line, field: &str, why: String| Fault { file: file.to_owned(), line, field: field.to_owned(), why };
    let failed = |error: &serde_saphyr::Error| {
        let line = error.location().map_or(0, |at| usize::try_from(at.line()).unwrap_or(0));
        let why = error.without_snippet().to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        fault(line, &field_at(&text, line), why)
    };
    let found: AnyKind = serde_saphyr::from_str(&text).map_err(|error| failed(&error))?;
    if found.kind.as_deref() != Some(KIND) {
        let why = format!("must be {KIND:?}, unless a tenant names the file");
        return Ok(Parsed::Other(fault(line_of(&text, "kind"), "kind", why)));
    }
    let document: Document = serde_saphyr::from_str(&text).map_err(|error| failed(&error))?;
    let version = document.api_version;
    let tenant = TenantFile { name: document.metadata.name, file: file.to_owned(), profile: document.spec, text };
    match version == OWN_API_VERSION {
        true => Ok(Parsed::Tenant(Arc::new(tenant))),
        false => Err(tenant.fault("apiVersion", format!("must be {OWN_API_VERSION:?}"))),
    }
}

/// Returns the key on a line of YAML; empty if the line has none.
fn field_at(text: &str, line: usize) -> String {
    let line = line.checked_sub(1).and_then(|index| text.lines().nth(index)).unwrap_or_default();
    let key = line.trim_start_matches([' ', '-', '"', '{']).split([':', '"']).next().unwrap_or_default();
    let is_name = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_name { key.to_owned() } else { String::new() }
}

fn validate(folder: &Path, tenants: &[Arc<TenantFile>], plugins: &[&str]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let by_name: BTreeMap<&str, &TenantFile> = tenants.iter().map(|tenant| (&*tenant.name, &**tenant)).collect();
    if !by_name.contains_key(DEFAULT) {
        let why = format!("must have a file of the tenant {DEFAULT:?}, for callers who are members of no tenant");
        faults.push(Fault { file: folder.to_owned(), line: 0, field: String::new(), why });
    }
    let (mut names, mut servers) = (HashMap::new(), HashMap::new());
    for tenant in tenants {
        if let Some(other) = names.insert(&*tenant.name, &tenant.file) {
            faults.push(tenant.fault("metadata.name", format!("is also the name in {}", other.display())));
        }
        for (index, name) in tenant.profile.server_names.iter().enumerate() {
            if let Some(other) = servers.insert(&**name, &*tenant.name) {
                let why = format!("{name:?} already addresses the tenant {other:?}");
                faults.push(tenant.fault(&format!("spec.serverNames[{index}]"), why));
            }
        }
        Checked { tenant, faults: &mut faults }.check(&by_name, plugins);
    }
    faults.extend(overlaps(tenants));
    faults.extend(different_upstreams(tenants));
    faults
}

/// Finds tenants that reach the API server of another tenant in another way: its state is shared.
fn different_upstreams(tenants: &[Arc<TenantFile>]) -> Vec<Fault> {
    let mut first: HashMap<PathBuf, &TenantFile> = HashMap::new();
    let mut faults = Vec::new();
    for tenant in tenants {
        let (Some(upstream), Some(kubeconfig)) = (&tenant.profile.upstream, tenant.kubeconfig()) else { continue };
        let other = *first.entry(kubeconfig).or_insert(tenant);
        let Some(of_other) = &other.profile.upstream else { continue };
        let same = |upstream: &super::profile::Upstream| {
            (upstream.identity, upstream.group_prefix.clone(), upstream.webhook_targets.clone())
        };
        if same(upstream) != same(of_other) {
            let why = format!(
                "must have the identity, the groupPrefix and the webhookTargets of the tenant {:?}, which has the same kubeconfig",
                other.name
            );
            faults.push(tenant.fault("spec.upstream", why));
        }
    }
    faults
}

/// Checks one tenant.
struct Checked<'a> {
    tenant: &'a TenantFile,
    faults: &'a mut Vec<Fault>,
}

impl Checked<'_> {
    fn add(&mut self, field: &str, why: impl fmt::Display) {
        self.faults.push(self.tenant.fault(field, why));
    }

    fn check(&mut self, all: &BTreeMap<&str, &TenantFile>, plugins: &[&str]) {
        let tenant = self.tenant;
        if !is_dns_1123_label(&tenant.name) || tenant.name == NONE {
            self.add("metadata.name", format!("{:?} must be a DNS label other than {NONE:?}", tenant.name));
        }
        let profile = &tenant.profile;
        let (is_default, is_operators) = (tenant.name == DEFAULT, tenant.name == OPERATORS);
        match (is_default, profile.members.is_empty()) {
            (true, false) => {
                self.add("spec.members", "must be empty: the tenant is for callers who are members of no tenant")
            }
            (false, true) => self.add("spec.members", "must name a member"),
            _ => {}
        }
        for (index, member) in profile.members.iter().enumerate() {
            if let Some(why) = invalid_member(member).or_else(|| self.foreign_member(member, all)) {
                self.add(&format!("spec.members[{index}]"), why);
            }
        }
        if is_default || is_operators {
            if !profile.server_names.is_empty() {
                self.add("spec.serverNames", "must be empty: the tenant is not addressed by a server name");
            }
            if !profile.namespaces.names.is_empty() {
                self.add("spec.namespaces.names", "must be empty: the tenant has no namespaces of its own");
            }
            if profile.upstream.is_some() {
                self.add("spec.upstream", "must be absent: the API server of this tenant is that of the flags");
            }
            if profile.tls != super::profile::Tls::default() {
                self.add("spec.tls", "must be absent: the certificates of this tenant are those of the flags");
            }
        }
        self.check_names(profile);
        self.check_admission(profile, all, plugins);
        self.check_rest(profile);
    }

    /// The reason why a service account is no member, if its namespace is not certainly the tenant's: whoever creates the namespace first would
    /// be a member. The namespaces of `operators` are reserved (`Owners`).
    fn foreign_member(&self, member: &Member, all: &BTreeMap<&str, &TenantFile>) -> Option<String> {
        let (tenant, namespace) = (self.tenant, &member.namespace);
        let has_own_server = || {
            let kubeconfig = tenant.kubeconfig();
            let is_another = |other: &TenantFile| other.name != tenant.name && other.kubeconfig() == kubeconfig;
            kubeconfig.is_some() && !all.values().any(|other| is_another(other))
        };
        if member.kind != MemberKind::ServiceAccount
            || tenant.name == OPERATORS
            || Owners::new(&[tenant], &tenant.kubeconfig()).by_name(namespace).is_some()
            || has_own_server()
        {
            return None;
        }
        Some(format!(
            "namespace {namespace:?} must be one of spec.namespaces.names: whoever creates it would be a member"
        ))
    }

    fn check_names(&mut self, profile: &Profile) {
        for (index, name) in profile.server_names.iter().enumerate() {
            let is_address = name.parse::<std::net::IpAddr>().is_ok();
            if !is_dns_1123_subdomain(name) || is_address {
                let why = format!("{name:?} must be a DNS name in lower case, without a port or a wildcard");
                self.add(&format!("spec.serverNames[{index}]"), why);
            }
        }
        for (index, name) in profile.namespaces.names.iter().enumerate() {
            let beginning = name.strip_suffix('*').unwrap_or(name);
            let is_valid = match name.ends_with('*') {
                true => !beginning.is_empty() && is_dns_1123_label(&format!("{beginning}x")),
                false => is_dns_1123_label(name),
            };
            if !is_valid {
                let why = format!("{name:?} must be the name of a namespace, or the beginning of one followed by *");
                self.add(&format!("spec.namespaces.names[{index}]"), why);
            }
        }
    }

    fn check_admission(&mut self, profile: &Profile, all: &BTreeMap<&str, &TenantFile>, plugins: &[&str]) {
        let admission = &profile.admission;
        let base = &*admission.base;
        if self.tenant.name == DEFAULT && !matches!(base, "" | DEFAULT) {
            self.add("spec.admission.base", "must be \"default\": the base of this tenant is the plugins of the flags");
        } else if !matches!(base, "" | DEFAULT | NONE) && !all.contains_key(base) {
            self.add("spec.admission.base", format!("there is no tenant {base:?}"));
        } else if is_circular(self.tenant, all) {
            self.add("spec.admission.base", "leads back to this tenant");
        }
        for (field, names) in
            [("enablePlugins", &admission.enable_plugins), ("disablePlugins", &admission.disable_plugins)]
        {
            for (index, name) in names.iter().enumerate() {
                let field = format!("spec.admission.{field}[{index}]");
                if !plugins.contains(&&**name) {
                    let hint = plugin_hint(name, plugins.iter().copied());
                    self.add(&field, format!("plugin {name:?} is unknown {hint}"));
                } else if name == crate::initializers::PLUGIN {
                    self.add(&field, format!("{name} cannot differ between tenants: use --enable-admission-plugins"));
                } else if field.contains("disable") && admission.enable_plugins.contains(name) {
                    self.add(&field, format!("{name} is enabled too"));
                }
            }
        }
        if let Some(timeout) = &admission.timeout {
            match duration::parse(timeout) {
                Ok(timeout) if !timeout.is_zero() => {}
                _ => self.add(
                    "spec.admission.timeout",
                    format!("{timeout:?} must be a duration of more than 0, such as 5s"),
                ),
            }
        }
    }

    fn check_rest(&mut self, profile: &Profile) {
        let limits = &profile.limits;
        for (field, value) in [
            ("requestsInFlight", limits.requests_in_flight),
            ("mutatingRequestsInFlight", limits.mutating_requests_in_flight),
            ("writesPerSecond", limits.writes_per_second.map(|value| value as usize)),
            ("writeBurst", limits.write_burst.map(|value| value as usize)),
            ("bodyBytes", limits.body_bytes),
            ("webhookCallsInFlight", limits.webhook_calls_in_flight),
        ] {
            if value == Some(0) {
                self.add(&format!("spec.limits.{field}"), "must be more than 0");
            }
        }
        if limits.write_burst.is_some() && limits.writes_per_second.is_none() {
            self.add("spec.limits.writeBurst", "has no effect without writesPerSecond");
        }
        let prefix = profile.upstream.as_ref().map_or("", |upstream| &upstream.group_prefix);
        if let Some(why) = invalid_group_prefix(prefix) {
            self.add("spec.upstream.groupPrefix", why);
        }
        let targets = profile.upstream.as_ref().map(|upstream| WebhookTargets::parse(&upstream.webhook_targets));
        if let Some(Err((index, why))) = targets {
            self.add(&format!("spec.upstream.webhookTargets[{index}]"), why);
        }
        let tls = &profile.tls;
        if tls.cert_file.is_some() != tls.key_file.is_some() {
            self.add("spec.tls", "must have certFile and keyFile, or neither");
        }
        if tls.client_ca_file.is_some() && profile.upstream.is_none() && !profile.authorization.own_namespaces_only {
            let why =
                "needs ownNamespacesOnly or an upstream: the authorities could name any user of the shared API server";
            self.add("spec.tls.clientCAFile", why);
        }
        if tls.cert_file.is_some() && profile.server_names.is_empty() {
            self.add("spec.tls.certFile", "has no effect without serverNames");
        }
        let kubeconfig = self.tenant.kubeconfig().map(|path| ("spec.upstream.kubeconfig", path));
        for (field, path) in self.tenant.named_files().into_iter().chain(kubeconfig) {
            match std::fs::metadata(&path) {
                Ok(metadata) if metadata.is_file() => {}
                Ok(_) => self.add(field, format!("{} is no file", path.display())),
                Err(error) => self.add(field, format!("{}: {error}", path.display())),
            }
        }
    }
}

fn invalid_member(member: &Member) -> Option<String> {
    let Member { kind, name, namespace } = member;
    match kind {
        MemberKind::ServiceAccount if !is_dns_1123_label(namespace) => {
            Some(format!("namespace {namespace:?} must be the name of a namespace"))
        }
        MemberKind::ServiceAccount if name != "*" && !is_dns_1123_subdomain(name) => {
            Some(format!("name {name:?} must be the name of a service account, or *"))
        }
        MemberKind::ServiceAccount => None,
        _ if !namespace.is_empty() => Some("namespace is for a ServiceAccount".to_owned()),
        _ if name.is_empty() || name.contains('*') => Some(format!("name {name:?} must be a name, without *")),
        MemberKind::User if name == ANONYMOUS || name.starts_with("system:serviceaccount:") => {
            Some(format!("{name:?} cannot be a user of a tenant; for a service account use the kind ServiceAccount"))
        }
        MemberKind::Group if name == ALL_UNAUTHENTICATED || name.starts_with("system:serviceaccounts") => {
            Some(format!("{name:?} cannot be a group of a tenant; for service accounts use the kind ServiceAccount"))
        }
        _ => None,
    }
}

/// Whether the bases of a tenant lead back to it.
fn is_circular(tenant: &TenantFile, all: &BTreeMap<&str, &TenantFile>) -> bool {
    let mut base = &*tenant.profile.admission.base;
    for _ in 0..=all.len() {
        match all.get(base) {
            Some(next) if next.name == tenant.name && base != DEFAULT => return true,
            Some(next) if base != DEFAULT => base = &next.profile.admission.base,
            _ => return false,
        }
    }
    // A circle that the tenant leads into: the tenants on it have the error.
    false
}

/// Finds names of namespaces that two tenants of one API server have.
fn overlaps(tenants: &[Arc<TenantFile>]) -> Vec<Fault> {
    let mut names: Vec<(Option<PathBuf>, &str, bool, &TenantFile, usize)> = Vec::new();
    for tenant in tenants {
        for (index, name) in tenant.profile.namespaces.names.iter().enumerate() {
            let beginning = name.strip_suffix('*').unwrap_or(name);
            names.push((tenant.kubeconfig(), beginning, name.ends_with('*'), tenant, index));
        }
    }
    names.sort_by(|a, b| (&a.0, a.1, !a.2).cmp(&(&b.0, b.1, !b.2)));
    let mut faults = Vec::new();
    // The patterns that are beginnings of the present name.
    let mut open: Vec<&(Option<PathBuf>, &str, bool, &TenantFile, usize)> = Vec::new();
    for present in &names {
        open.retain(|other| {
            other.0 == present.0 && (present.1 == other.1 || other.2 && present.1.starts_with(other.1))
        });
        if let Some(other) = open.iter().find(|other| other.3.name != present.3.name) {
            let why = format!("overlaps with a name of the tenant {:?}", other.3.name);
            faults.push(present.3.fault(&format!("spec.namespaces.names[{}]", present.4), why));
        }
        open.push(present);
    }
    faults
}
