//! The tenant that a request addresses: by its path, else by the TLS server name or the host.

use super::{DEFAULT, TenantFile};
use crate::names::is_dns_1123_label;
use http::header::HOST;
use http::uri::{Authority, PathAndQuery};
use http::{HeaderMap, Uri};
use percent_encoding::percent_decode_str;
use std::borrow::Borrow;
use std::collections::HashMap;

/// The first segment of a path that addresses a tenant.
const TENANTS: &str = "tenants";

/// The tenant that a request addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressed {
    /// The request names no tenant.
    None,
    /// The tenant at this index.
    Tenant(usize),
}

/// The reason why a request cannot be of any tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misaddressed {
    /// There is no such tenant, or two parsers could read the path differently: 404.
    Unknown,
    /// The path, the TLS server name and the host name different tenants: 421.
    Contradiction,
    /// The request has several hosts: 400.
    Hosts,
}

/// The tenants by their addresses.
#[derive(Clone, Debug, Default)]
pub struct TenantAddresses {
    by_name: HashMap<Box<str>, usize>,
    by_server_name: HashMap<Box<str>, usize>,
}

impl TenantAddresses {
    /// Creates the index; a tenant is identified by its index. No path addresses `default`: it is for requests without another tenant.
    pub fn new(tenants: &[impl Borrow<TenantFile>]) -> Self {
        let mut addresses = Self::default();
        for (index, tenant) in tenants.iter().map(Borrow::borrow).enumerate() {
            if tenant.name != DEFAULT {
                addresses.by_name.insert(tenant.name.as_str().into(), index);
            }
            let names = tenant.profile.server_names.iter().map(|name| (name.as_str().into(), index));
            addresses.by_server_name.extend(names);
        }
        addresses
    }

    /// Returns the addressed tenant of a request whose path names the tenant `in_path` (see [`split_path`]).
    ///
    /// # Errors
    /// If the request cannot be of any tenant.
    pub fn find(
        &self,
        in_path: Option<&str>,
        server_name: Option<&str>,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<Addressed, Misaddressed> {
        let in_path = match in_path {
            Some(name) => Some(*self.by_name.get(name).ok_or(Misaddressed::Unknown)?),
            None => None,
        };
        let by_server = |name: &str| {
            let name = name.strip_suffix('.').unwrap_or(name);
            match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
                true => self.by_server_name.get(&*name.to_ascii_lowercase()).copied(),
                false => self.by_server_name.get(name).copied(),
            }
        };
        let by_server_name = server_name.and_then(by_server);
        let by_host = host(uri, headers)?.as_ref().map(Authority::host).and_then(by_server);
        let mut found = [in_path, by_server_name, by_host].into_iter().flatten();
        match found.next() {
            None => Ok(Addressed::None),
            Some(first) if found.all(|other| other == first) => Ok(Addressed::Tenant(first)),
            Some(_) => Err(Misaddressed::Contradiction),
        }
    }
}

/// Returns the host of a request: of `:authority` or an absolute URI, and of the header `Host`, which must be the same.
fn host(uri: &Uri, headers: &HeaderMap) -> Result<Option<Authority>, Misaddressed> {
    let mut given = headers.get_all(HOST).iter();
    let header = match (given.next(), given.next()) {
        (_, Some(_)) => return Err(Misaddressed::Hosts),
        (Some(value), None) if value.as_bytes().contains(&b'@') => return Err(Misaddressed::Hosts),
        (Some(value), None) if !value.is_empty() => {
            Some(Authority::try_from(value.as_bytes()).map_err(|_| Misaddressed::Hosts)?)
        }
        _ => None,
    };
    match (uri.authority(), header) {
        (Some(authority), _) if authority.as_str().contains('@') => Err(Misaddressed::Hosts),
        (Some(authority), Some(header)) if !authority.as_str().eq_ignore_ascii_case(header.as_str()) => {
            Err(Misaddressed::Hosts)
        }
        (Some(authority), _) => Ok(Some(authority.clone())),
        (None, header) => Ok(header),
    }
}

/// Whether the first segment of a path is `tenants` in any spelling.
fn begins_with_tenants(path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    percent_decode_str(first).decode_utf8_lossy().eq_ignore_ascii_case(TENANTS)
}

/// Splits `/tenants/NAME/…` into the name and the URI without it. `None` for another path.
///
/// # Errors
/// If the path cannot be of any tenant: the name is none, the rest begins with `/tenants` again, or an escape hides `tenants`.
pub fn split_path(uri: &Uri) -> Result<Option<(&str, Uri)>, Misaddressed> {
    let path = uri.path();
    let Some(rest) = path.strip_prefix("/tenants/") else {
        return if begins_with_tenants(path) { Err(Misaddressed::Unknown) } else { Ok(None) };
    };
    let (name, rest) = rest.split_once('/').unwrap_or((rest, ""));
    if !is_dns_1123_label(name) || begins_with_tenants(rest) || rest.starts_with('/') {
        return Err(Misaddressed::Unknown);
    }
    let mut stripped = format!("/{rest}");
    if let Some(query) = uri.query() {
        stripped.extend(["?", query]);
    }
    let mut parts = uri.clone().into_parts();
    let stripped = PathAndQuery::try_from(stripped).map_err(|_| Misaddressed::Unknown)?;
    parts.path_and_query = Some(stripped);
    Ok(Some((name, Uri::from_parts(parts).map_err(|_| Misaddressed::Unknown)?)))
}
