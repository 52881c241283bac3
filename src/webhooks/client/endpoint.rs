//! Where a webhook is: a URL, or a Service whose address is looked up at each new connection.

use crate::cluster::Cluster;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// What Go's `URL.EscapedPath` leaves as it is.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b'/')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// Where a webhook is, and which CA vouches for it: all that two hooks must have in common to share connections.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    is_plain: bool,
    authority: String,
    host: String,
    port: u16,
    path: String,
    ca: Vec<u8>,
    service: Option<Service>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Service {
    namespace: String,
    name: String,
    port: i32,
}

/// Where to connect to.
#[derive(Debug, PartialEq, Eq)]
pub struct Address {
    /// An IP address, or a name to resolve.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Endpoint {
    /// From `clientConfig.service`.
    pub fn service(namespace: &str, name: &str, port: i32, path: &str, ca: Vec<u8>) -> Self {
        let host = format!("{name}.{namespace}.svc");
        Self {
            is_plain: false,
            authority: format!("{host}:{port}"),
            host,
            port: u16::try_from(port).unwrap_or_default(),
            path: escaped_path(path),
            ca,
            service: Some(Service { namespace: namespace.to_owned(), name: name.to_owned(), port }),
        }
    }

    /// From `clientConfig.url`.
    ///
    /// # Errors
    /// When it is no https URL.
    pub fn url(url: &str, ca: Vec<u8>) -> Result<Self, String> {
        let broken = |why: &str| format!("parse \"{url}\": {why}");
        let rest = url.strip_prefix("https://").ok_or_else(|| broken("'https' is the only allowed URL scheme"))?;
        Self::after_scheme(false, rest, ca).map_err(broken)
    }

    /// From `server` of a kubeconfig's cluster: a URL, or `host:port`, which is plain HTTP (`rest.DefaultServerURL`).
    ///
    /// # Errors
    /// When it is neither.
    pub fn server(server: &str) -> Result<Self, String> {
        if server.contains('@') {
            return Err("server: must be a URL without a user and a password".into());
        }
        let broken = |why: &str| format!("parse \"{server}\": {why}");
        let (is_plain, rest) = match server.split_once("://") {
            Some(("https", rest)) => (false, rest),
            Some(("http", rest)) => (true, rest),
            Some(_) => return Err(broken("the scheme must be https or http")),
            None if server.trim_end_matches('/').contains('/') => {
                return Err(format!("host must be a URL or a host:port pair: \"{server}\""));
            }
            None => (true, server),
        };
        Self::after_scheme(is_plain, rest, Vec::new()).map_err(broken)
    }

    fn after_scheme(is_plain: bool, rest: &str, ca: Vec<u8>) -> Result<Self, &'static str> {
        let default_port = if is_plain { 80 } else { 443 };
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                (host, if port.is_empty() { default_port } else { port.parse().map_err(|_| "invalid port")? })
            }
            _ => (authority, default_port),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() || authority.contains('@') {
            return Err("no host in request URL");
        }
        let path = percent_decode_str(path).decode_utf8().map_err(|_| "invalid URL escape")?;
        Ok(Self {
            is_plain,
            authority: authority.to_owned(),
            host: host.to_owned(),
            port,
            path: escaped_path(&path),
            ca,
            service: None,
        })
    }

    /// Scheme and authority, as they stand in the configuration.
    pub fn base(&self) -> String {
        format!("{}://{}", if self.is_plain { "http" } else { "https" }, self.authority)
    }

    /// Whether it is reached without TLS.
    pub fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// `host:port`, by which a kubeconfig's users are looked up.
    pub fn target(&self) -> String {
        if self.authority.contains(':') && !self.authority.ends_with(']') {
            return self.authority.clone();
        }
        // `net.JoinHostPort` puts what has a colon in brackets, even where it has some already.
        let host = &self.authority;
        if host.contains(':') { format!("[{host}]:{}", self.port) } else { format!("{host}:{}", self.port) }
    }

    /// The `Host` header.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The name that the certificate must have.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The path, cleaned and escaped.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The CA bundle; empty stands for the system's.
    pub fn ca(&self) -> &[u8] {
        &self.ca
    }

    /// Where to connect to; a Service is looked up each time (`proxy.ResolveCluster`).
    ///
    /// # Errors
    /// When there is no such Service or port, or it has no address.
    pub fn address(&self, cluster: &Cluster) -> Result<Address, String> {
        let Some(Service { namespace, name, port }) = &self.service else {
            return Ok(Address { host: self.host.clone(), port: self.port });
        };
        let service = cluster.service(namespace, name).ok_or_else(|| format!("service \"{name}\" not found"))?;
        let spec = service.spec.as_ref();
        let cluster_ip = spec.and_then(|spec| spec.cluster_ip.as_deref()).unwrap_or_default();
        match spec.and_then(|spec| spec.type_.as_deref()).unwrap_or("ClusterIP") {
            "ClusterIP" if cluster_ip == "None" => Err("cannot route to service with ClusterIP \"None\"".into()),
            "ClusterIP" | "LoadBalancer" | "NodePort" => {
                let ports = spec.and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
                if !ports.iter().any(|listed| listed.port == *port) {
                    return Err(format!("no service port {port} found for service \"{name}\""));
                }
                Ok(Address { host: cluster_ip.to_owned(), port: self.port })
            }
            "ExternalName" => {
                let host = spec.and_then(|spec| spec.external_name.clone()).unwrap_or_default();
                Ok(Address { host, port: self.port })
            }
            other => Err(format!("unsupported service type \"{other}\"")),
        }
    }
}

/// `path.Join("/", path)`, escaped.
fn escaped_path(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    format!("/{}", utf8_percent_encode(&segments.join("/"), PATH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_as_client_go_reads_them() {
        for (url, base, path, host, port) in [
            ("https://127.0.0.1:1", "https://127.0.0.1:1", "/", "127.0.0.1", 1),
            ("https://a.example/a%20b//c/", "https://a.example", "/a%20b/c", "a.example", 443),
            ("https://[::1]:8443/x", "https://[::1]:8443", "/x", "::1", 8443),
            ("https://[::1]/x", "https://[::1]", "/x", "::1", 443),
        ] {
            let endpoint = Endpoint::url(url, Vec::new()).unwrap();
            let got = (&*endpoint.base(), endpoint.path(), endpoint.host(), endpoint.port);
            assert_eq!(got, (base, path, host, port), "{url}");
        }
        for url in ["http://a/", "https://", "https://u@h/", "https://a:x/", "nonsense"] {
            assert!(Endpoint::url(url, Vec::new()).is_err(), "{url}");
        }
    }

    #[test]
    fn servers_of_kubeconfigs_are_read_as_client_go_reads_them() {
        for (server, base, path, port) in [
            ("https://a.example/policy/", "https://a.example", "/policy", 443),
            ("http://a.example", "http://a.example", "/", 80),
            ("http://127.0.0.1:8080/x", "http://127.0.0.1:8080", "/x", 8080),
            ("127.0.0.1:8080", "http://127.0.0.1:8080", "/", 8080),
        ] {
            let endpoint = Endpoint::server(server).unwrap();
            assert_eq!((&*endpoint.base(), endpoint.path(), endpoint.port), (base, path, port), "{server}");
        }
        for server in ["ftp://a/", "https://", "http://u:p@h/", "a.example/policy", "https://a:x", ""] {
            assert!(Endpoint::server(server).is_err(), "{server}");
        }
    }

    #[test]
    fn a_target_has_its_port() {
        let target = |url: &str| Endpoint::url(url, Vec::new()).unwrap().target();
        assert_eq!(target("https://a.example/x"), "a.example:443");
        assert_eq!(target("https://a.example:8443/x"), "a.example:8443");
        assert_eq!(target("https://[::1]:8443/x"), "[::1]:8443");
        assert_eq!(Endpoint::service("n", "s", 443, "", Vec::new()).target(), "s.n.svc:443");
    }
}
