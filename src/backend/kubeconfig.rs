//! A kubeconfig as client-go reads it: the address of a backend, the issuers of its certificate, and the user as which it is called.
//!
//! No error repeats a secret of the file. Programs that get credentials (`exec`, `auth-provider`) and proxies (`proxy-url`) are
//! rejected: this client does not support them.

mod document;

use super::identity::{Authorization, Identity, TokenFile, UnusableToken, bearer, secret};
use super::proxy_variables::Proxies;
use super::tls::{KeyPair, Source, Tls, Trust};
use super::{Access, Client, Endpoint, SetupError};
use crate::status::invalid::aggregate;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use document::{Cluster, Document, InvalidDocument, User};
use http::{HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

/// The characters that a header's name may have besides letters and digits (`legalHeaderKeyBytes`, without `%`).
const HEADER_KEY: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'*')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// The user agent of a Go program that sets none, as kube-apiserver sends it to its image policy webhook.
const AGENT: &str = "Go-http-client/1.1";

/// The contents of a kubeconfig file.
#[derive(Default)]
pub(crate) struct Kubeconfig(Document);

/// The reason why a kubeconfig cannot be used; never with a secret of the file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KubeconfigError {
    /// A file cannot be read: the kubeconfig, or one with a token.
    #[error("open {}: {why}", path.display())]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        why: io::Error,
    },
    /// The file is no kubeconfig.
    #[error("error loading config file \"{}\": {why}", path.display())]
    Document {
        /// The path of the file.
        path: PathBuf,
        /// The error in the file.
        why: InvalidDocument,
    },
    /// The current context names no cluster.
    #[error(
        "invalid configuration: no configuration has been provided: the current context names no cluster in the file"
    )]
    NoCluster,
    /// The rules that the current context, its cluster and its user break, with client-go's text.
    #[error("invalid configuration: {0}")]
    Context(String),
    /// The first rule that a user breaks, with client-go's text.
    #[error("{0}")]
    Rule(String),
    /// The user cannot be used for a call.
    #[error("user \"{name}\": {why}")]
    User {
        /// The name of the user.
        name: String,
        /// The error of the user's credentials.
        why: Box<SetupError>,
    },
    /// The cluster has issuers, but its certificate is not to be verified.
    #[error("specifying a root certificates file with the insecure flag is not allowed")]
    InsecureBundle,
    /// The user's token cannot be sent.
    #[error(transparent)]
    Token(#[from] UnusableToken),
    /// The token in a file cannot be sent.
    #[error("{file}: {why}")]
    TokenFile {
        /// The path of the file.
        file: String,
        /// The error of the token.
        why: UnusableToken,
    },
    /// The password has characters that no header can hold.
    #[error("the password cannot be sent")]
    Password,
    /// A field of the impersonated user has no header.
    #[error("no header can be named \"{0}\"")]
    HeaderName(String),
    /// A value of the impersonated user is no value of its header.
    #[error("no {name} header can hold \"{value}\"")]
    HeaderValue {
        /// The name of the header.
        name: HeaderName,
        value: String,
    },
}

impl Kubeconfig {
    /// Reads a kubeconfig. Relative paths in it start in its folder.
    ///
    /// # Errors
    /// If the file cannot be read, or is no kubeconfig.
    pub(crate) fn load(path: &Path) -> Result<Self, KubeconfigError> {
        let bytes = fs::read(path).map_err(|why| KubeconfigError::Unreadable { path: path.to_owned(), why })?;
        let folder = std::path::absolute(path).ok().and_then(|path| path.parent().map(Path::to_owned));
        let document = Document::read(&bytes, &folder.unwrap_or_default());
        document.map(Self).map_err(|why| KubeconfigError::Document { path: path.to_owned(), why })
    }

    /// Creates the client of the server that the current context names (`webhook.LoadKubeconfig`).
    ///
    /// # Errors
    /// If there is no such server, or the fields of the cluster or of the user are invalid.
    pub(crate) fn client(&self, answer_bytes: usize) -> Result<Client, SetupError> {
        let Document { clusters, users, contexts, current_context } = &self.0;
        let context = contexts.get(current_context);
        let mut faults = Vec::new();
        if !current_context.is_empty() && context.is_none() {
            faults.push(format!("context was not found for specified context: {current_context}"));
        }
        let (no_user, no_cluster) = (User::default(), Cluster::default());
        let (user_name, cluster_name) = context.map_or(("", ""), |context| (&*context.user, &*context.cluster));
        let user = users.get(user_name).unwrap_or(&no_user);
        let cluster = clusters.get(cluster_name);
        if cluster.is_none() && faults.is_empty() {
            return Err(KubeconfigError::NoCluster.into());
        }
        let cluster = cluster.unwrap_or(&no_cluster);
        faults.extend(user_faults(user_name, user));
        faults.extend(cluster_faults(cluster_name, cluster));
        if let Some(faults) = aggregate(faults) {
            return Err(KubeconfigError::Context(faults).into());
        }
        let endpoint = Endpoint::server(&cluster.server)?.of_operator();
        Client::new(endpoint.clone(), access(&endpoint, cluster, user)?, answer_bytes)
    }

    /// Returns the user as which a webhook at this `host:port` is called (`AuthenticationInfoResolver`): the webhook's own user, that of a
    /// domain
    /// around it, the same names without the port if the port is 443, the user `*`, the current context's user, or no user.
    ///
    /// # Errors
    /// If the fields of the user are invalid.
    pub(crate) fn identity(&self, target: &str) -> Result<Identity, KubeconfigError> {
        let Document { users, contexts, current_context, .. } = &self.0;
        let mut names = around(target);
        if let Some(host) = target.strip_suffix(":443") {
            let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
            names.extend(around(host));
        }
        names.push("*".to_owned());
        names.extend(contexts.get(current_context).map(|context| context.user.clone()));
        match names.iter().find_map(|name| Some((name, users.get(name)?))) {
            None => Ok(Identity::default()),
            Some((name, user)) => match user_faults(name, user).into_iter().next() {
                None => identity(user),
                Some(fault) => Err(KubeconfigError::Rule(fault)),
            },
        }
    }

    /// Checks that every user can be used for a call.
    ///
    /// # Errors
    /// If a user is invalid; the first one counts.
    pub(crate) fn check_users(&self) -> Result<(), KubeconfigError> {
        for (name, user) in &self.0.users {
            if let Some(fault) = user_faults(name, user).into_iter().next() {
                return Err(KubeconfigError::Rule(fault));
            }
            let of_user = |why: SetupError| KubeconfigError::User { name: name.clone(), why: Box::new(why) };
            let identity = identity(user).map_err(|why| of_user(why.into()))?;
            Tls::new(Trust::Anybody, identity.certificate, false).map_err(|why| of_user(why.into()))?;
        }
        Ok(())
    }
}

/// Returns the target and the domains around it, the smallest first: `a.b:1`, `*.b:1`.
fn around(target: &str) -> Vec<String> {
    let dots = target.match_indices('.').map(|(at, _)| format!("*{}", target.get(at..).unwrap_or_default()));
    std::iter::once(target.to_owned()).chain(dots).collect()
}

fn access(endpoint: &Endpoint, cluster: &Cluster, user: &User) -> Result<Access, SetupError> {
    let mut identity = identity(user)?;
    let tls = if endpoint.is_plain() {
        // Credentials are only for servers that prove their identity.
        identity = Identity { impersonation: identity.impersonation, ..Identity::default() };
        Tls::new(Trust::System, None, true)?
    } else {
        let bundle = source(&cluster.certificate_authority_data, &cluster.certificate_authority);
        let trust = match (cluster.insecure_skip_tls_verify, bundle) {
            (true, Some(_)) => return Err(KubeconfigError::InsecureBundle.into()),
            (true, None) => Trust::Anybody,
            (false, Some(bundle)) => Trust::Bundle(bundle),
            (false, None) => Trust::System,
        };
        Tls::new(trust, identity.certificate.clone(), true)?
    };
    let server_name = Some(cluster.tls_server_name.clone()).filter(|name| !name.is_empty());
    let proxy = Proxies::of_process().for_endpoint(endpoint);
    let (tls, identity) = (Arc::new(tls), Arc::new(identity));
    Ok(Access { tls, server_name, identity, agent: AGENT, compression: !cluster.disable_compression, proxy })
}

fn source(data: &[u8], file: &str) -> Option<Source> {
    if !data.is_empty() {
        return Some(Source::Data(data.to_owned()));
    }
    (!file.is_empty()).then(|| Source::File(file.into()))
}

fn identity(user: &User) -> Result<Identity, KubeconfigError> {
    let certificate = source(&user.client_certificate_data, &user.client_certificate)
        .zip(source(&user.client_key_data, &user.client_key))
        .map(|(certificate, key)| KeyPair { certificate, key });
    let impersonation = if user.impersonate.is_empty() { Vec::new() } else { impersonation(user)? };
    Ok(Identity { authorization: authorization(user)?, certificate, impersonation })
}

fn authorization(user: &User) -> Result<Authorization, KubeconfigError> {
    if !user.token_file.is_empty() {
        let first = match &*user.token {
            "" => fs::read_to_string(&user.token_file)
                .map_err(|why| KubeconfigError::Unreadable { path: (&user.token_file).into(), why })?,
            token => token.to_owned(),
        };
        let first = bearer(&first);
        let first = first.map_err(|why| KubeconfigError::TokenFile { file: user.token_file.clone(), why })?;
        return Ok(Authorization::File(TokenFile::new((&user.token_file).into(), first)));
    }
    if !user.token.is_empty() {
        return Ok(Authorization::Fixed(bearer(&user.token)?));
    }
    if user.username.is_empty() && user.password.is_empty() {
        return Ok(Authorization::None);
    }
    let pair = STANDARD.encode(format!("{}:{}", user.username, user.password));
    secret(&format!("Basic {pair}")).map(Authorization::Fixed).ok_or(KubeconfigError::Password)
}

/// Returns the headers of `impersonatingRoundTripper`.
fn impersonation(user: &User) -> Result<Vec<(HeaderName, HeaderValue)>, KubeconfigError> {
    let mut headers = Vec::new();
    let mut add = |name: String, value: &str| {
        let name = HeaderName::try_from(&*name).map_err(|_| KubeconfigError::HeaderName(name))?;
        match HeaderValue::try_from(value) {
            Ok(value) => headers.push((name, value)),
            Err(_) => return Err(KubeconfigError::HeaderValue { name, value: value.to_owned() }),
        }
        Ok(())
    };
    add("impersonate-user".into(), &user.impersonate)?;
    if !user.impersonate_uid.is_empty() {
        add("impersonate-uid".into(), &user.impersonate_uid)?;
    }
    for group in &user.impersonate_groups {
        add("impersonate-group".into(), group)?;
    }
    for (key, values) in &user.impersonate_user_extra {
        for value in values {
            add(format!("impersonate-extra-{}", utf8_percent_encode(key, HEADER_KEY)), value)?;
        }
    }
    Ok(headers)
}

/// Returns the errors of `validateAuthInfo`.
fn user_faults(name: &str, user: &User) -> Vec<String> {
    let mut faults = Vec::new();
    let (certificate, key) = (&user.client_certificate, &user.client_key);
    if !certificate.is_empty() || !user.client_certificate_data.is_empty() {
        if !certificate.is_empty() && !user.client_certificate_data.is_empty() {
            faults.push(format!(
                "client-cert-data and client-cert are both specified for {name}. client-cert-data will override."
            ));
        }
        if !key.is_empty() && !user.client_key_data.is_empty() {
            faults.push(format!(
                "client-key-data and client-key are both specified for {name}; client-key-data will override"
            ));
        }
        if key.is_empty() && user.client_key_data.is_empty() {
            faults.push(format!(
                "client-key-data or client-key must be specified for {name} to use the clientCert authentication method."
            ));
        }
        for (field, path) in [("client-cert", certificate), ("client-key", key)] {
            faults.extend(unreadable(field, path, name));
        }
    }
    let has_password = !user.username.is_empty() || !user.password.is_empty();
    let has_token = !user.token.is_empty() || !user.token_file.is_empty();
    if has_token && has_password {
        faults.push(format!(
            "more than one authentication method found for {name}; found [token basicAuth], only one is allowed"
        ));
    }
    if user.has_exec {
        faults.push(format!("user \"{name}\": exec is not supported: no program is run to get credentials"));
    }
    if user.has_auth_provider {
        faults.push(format!("user \"{name}\": auth provider not supported"));
    }
    let others =
        user.impersonate_uid.is_empty() && user.impersonate_groups.is_empty() && user.impersonate_user_extra.is_empty();
    if user.impersonate.is_empty() && !others {
        faults.push(format!("requesting uid, groups or user-extra for {name} without impersonating a user"));
    }
    faults
}

/// Returns the errors of `validateClusterInfo`.
fn cluster_faults(name: &str, cluster: &Cluster) -> Vec<String> {
    let mut faults = Vec::new();
    if cluster.server.is_empty() {
        faults.push(if name.is_empty() {
            "cluster has no server defined".to_owned()
        } else {
            format!("no server found for cluster \"{name}\"")
        });
    }
    if !cluster.proxy_url.is_empty() {
        faults.push(format!("cluster \"{name}\": proxy-url is not supported"));
    }
    if !cluster.certificate_authority.is_empty() && !cluster.certificate_authority_data.is_empty() {
        faults.push(format!(
            "certificate-authority-data and certificate-authority are both specified for {name}. \
             certificate-authority-data will override."
        ));
    }
    faults.extend(unreadable("certificate-authority", &cluster.certificate_authority, name));
    faults
}

fn unreadable(field: &str, path: &str, name: &str) -> Option<String> {
    let error = if path.is_empty() { None } else { fs::File::open(path).err() };
    error.map(|error| format!("unable to read {field} {path} for {name} due to open {path}: {error}"))
}

#[cfg(test)]
mod tests;
