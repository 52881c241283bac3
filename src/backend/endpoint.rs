//! The address of a webhook: a URL, or a Service, which is looked up in the cluster.

use crate::cluster::{Cluster, Endpoints};
use k8s_openapi::api::core::v1::ServiceSpec;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use std::net::IpAddr;
use std::sync::Arc;

/// The characters that Go's `URL.EscapedPath` does not escape.
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

/// The address of a webhook, and the CA bundle of its certificate: two hooks share connections if these are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Endpoint {
    is_plain: bool,
    authority: String,
    host: String,
    port: u16,
    path: String,
    ca: Vec<u8>,
    service: Option<Service>,
    /// The address to connect to, if it was looked up before.
    found: Option<Address>,
    /// Whether the operator of the proxy names the endpoint, and not an object of the API.
    is_of_operator: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Service {
    namespace: String,
    name: String,
    port: i32,
}

/// The address of a TCP connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    /// An IP address, or a name to resolve.
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// The reason why a text is no address of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidAddress {
    /// A part of the URL is invalid.
    #[error("parse \"{url}\": {why}")]
    Url {
        /// The text.
        url: String,
        /// The invalid part.
        why: InvalidUrl,
    },
    /// The URL has a user or a password, which the error does not repeat.
    #[error("server: must be a URL without a user and a password")]
    Credentials,
    /// The text is neither a URL nor a pair.
    #[error("host must be a URL or a host:port pair: \"{0}\"")]
    NoPair(String),
    /// The URL has another scheme or a query.
    #[error("{0:?} must be a URL of http or https without a query")]
    Query(String),
}

/// The invalid part of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidUrl {
    /// The scheme of a webhook's URL.
    #[error("'https' is the only allowed URL scheme")]
    NotHttps,
    /// The scheme of a backend's URL.
    #[error("the scheme must be https or http")]
    Scheme,
    /// The host is missing, or a user stands before it.
    #[error("no host in request URL")]
    NoHost,
    /// The port is no number of 16 bits.
    #[error("invalid port")]
    Port,
    /// The path is no UTF-8.
    #[error("invalid URL escape")]
    Escape,
}

/// The reason why a Service has no address to connect to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unroutable {
    /// There is no Service of this name.
    #[error("service \"{0}\" not found")]
    NoService(String),
    /// The Service is headless.
    #[error("cannot route to service with ClusterIP \"None\"")]
    Headless,
    /// The Service has no such port.
    #[error("no service port {port} found for service \"{name}\"")]
    NoPort {
        /// The number of the port.
        port: i32,
        /// The name of the Service.
        name: String,
    },
    /// No endpoint of the Service of this name is ready.
    #[error("no endpoints available for service \"{0}\"")]
    NoEndpoints(String),
    /// Services of this type have no address.
    #[error("unsupported service type \"{0}\"")]
    Type(String),
}

impl Endpoint {
    /// Creates the endpoint of `clientConfig.service`.
    pub(crate) fn service(namespace: &str, name: &str, port: i32, path: &str, ca: Vec<u8>) -> Self {
        let host = format!("{name}.{namespace}.svc");
        Self {
            is_plain: false,
            authority: format!("{host}:{port}"),
            host,
            port: u16::try_from(port).unwrap_or_default(),
            path: escaped_path(path),
            ca,
            service: Some(Service { namespace: namespace.to_owned(), name: name.to_owned(), port }),
            found: None,
            is_of_operator: false,
        }
    }

    /// Looks a Service's endpoint up once, as Kubernetes 1.8 does for each call: requests name the address as their host, and the certificate
    /// must still be for the Service's name.
    ///
    /// # Errors
    /// As for [`Self::address`].
    pub(crate) fn resolved(self, cluster: &Cluster, turn: usize) -> Result<Self, Unroutable> {
        let Address { host, port } = self.address(cluster, turn)?;
        // `net.JoinHostPort`
        let authority = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        Ok(Self { authority, found: Some(Address { host, port }), ..self })
    }

    /// Creates the endpoint of `clientConfig.url`.
    ///
    /// # Errors
    /// If the text is no https URL.
    pub(crate) fn url(url: &str, ca: Vec<u8>) -> Result<Self, InvalidAddress> {
        let broken = |why| InvalidAddress::Url { url: url.to_owned(), why };
        let rest = url.strip_prefix("https://").ok_or_else(|| broken(InvalidUrl::NotHttps))?;
        Self::after_scheme(false, rest, ca).map_err(broken)
    }

    /// Creates the endpoint of `server` in a kubeconfig's cluster: a URL, or `host:port` for plain HTTP (`rest.DefaultServerURL`).
    ///
    /// # Errors
    /// If the text is neither.
    pub(crate) fn server(server: &str) -> Result<Self, InvalidAddress> {
        if server.contains('@') {
            return Err(InvalidAddress::Credentials);
        }
        let broken = |why| InvalidAddress::Url { url: server.to_owned(), why };
        let (is_plain, rest) = match server.split_once("://") {
            Some(("https", rest)) => (false, rest),
            Some(("http", rest)) => (true, rest),
            Some(_) => return Err(broken(InvalidUrl::Scheme)),
            None if server.trim_end_matches('/').contains('/') => {
                return Err(InvalidAddress::NoPair(server.to_owned()));
            }
            None => (true, server),
        };
        Self::after_scheme(is_plain, rest, Vec::new()).map_err(broken)
    }

    /// Creates the endpoint of an authority that a redirect names.
    ///
    /// # Errors
    /// If the text is no authority.
    pub(crate) fn server_at(is_plain: bool, authority: &str) -> Result<Self, InvalidUrl> {
        Self::after_scheme(is_plain, authority, Vec::new())
    }

    fn after_scheme(is_plain: bool, rest: &str, ca: Vec<u8>) -> Result<Self, InvalidUrl> {
        let default_port = if is_plain { 80 } else { 443 };
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
        if authority.contains('@') {
            return Err(InvalidUrl::NoHost);
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                (host, if port.is_empty() { default_port } else { port.parse().map_err(|_| InvalidUrl::Port)? })
            }
            _ => (authority, default_port),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() {
            return Err(InvalidUrl::NoHost);
        }
        let path = percent_decode_str(path).decode_utf8().map_err(|_| InvalidUrl::Escape)?;
        Ok(Self {
            is_plain,
            authority: authority.to_owned(),
            host: host.to_owned(),
            port,
            path: escaped_path(&path),
            ca,
            service: None,
            found: None,
            is_of_operator: false,
        })
    }

    /// Returns the endpoint as one that the operator of the proxy names: its address may be any ([`Cluster::webhook_targets`]).
    #[must_use]
    pub(crate) fn of_operator(self) -> Self {
        Self { is_of_operator: true, ..self }
    }

    /// Whether the operator of the proxy names the endpoint.
    pub(crate) fn is_of_operator(&self) -> bool {
        self.is_of_operator
    }

    /// Returns scheme and authority, as the configuration has them.
    pub(crate) fn base(&self) -> String {
        format!("{}://{}", if self.is_plain { "http" } else { "https" }, self.authority)
    }

    /// Whether the endpoint is reached without TLS.
    pub(crate) fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Whether the endpoint is on this machine: kube-apiserver offers HTTP/2 only to such webhooks, since a balancer of connections would
    /// send all requests to one backend (`isLocalHost`).
    pub(crate) fn is_local(&self) -> bool {
        let is_loopback = || self.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        !self.is_service() && (self.host.eq_ignore_ascii_case("localhost") || is_loopback())
    }

    /// Returns `host:port`, by which the users of a kubeconfig are looked up.
    pub(crate) fn target(&self) -> String {
        if self.found.is_some() {
            return format!("{}:{}", self.host, self.port);
        }
        if self.authority.contains(':') && !self.authority.ends_with(']') {
            return self.authority.clone();
        }
        // `net.JoinHostPort` puts a host with a colon in brackets, even if the host has brackets already.
        let host = &self.authority;
        if host.contains(':') { format!("[{host}]:{}", self.port) } else { format!("{host}:{}", self.port) }
    }

    /// Whether the other endpoint is at the same server.
    pub(crate) fn is_same_server(&self, other: &Self) -> bool {
        let is_same_host = self.host.eq_ignore_ascii_case(&other.host);
        is_same_host && (self.is_plain, self.port) == (other.is_plain, other.port)
    }

    /// Returns the `Host` header.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// Returns the name that the certificate must have.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the path, cleaned and escaped.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Returns the CA bundle; empty for the system's roots.
    pub(crate) fn ca(&self) -> &[u8] {
        &self.ca
    }

    /// Whether the endpoint is a Service, which is looked up in the cluster.
    pub(crate) fn is_service(&self) -> bool {
        self.service.is_some()
    }

    /// Whether the endpoint is the API server itself (`NewDefaultAuthenticationInfoResolverWrapper`, `loopbackResolver`).
    pub(crate) fn is_api_server(&self) -> bool {
        let is_kubernetes =
            |service: &Service| (&*service.namespace, &*service.name, service.port) == ("default", "kubernetes", 443);
        self.service.as_ref().is_some_and(is_kubernetes)
    }

    /// Returns the address to connect to. A Service is looked up each time: its own address (`proxy.ResolveCluster`), or, if the
    /// cluster state has endpoints, the one whose `turn` it is (`proxy.ResolveEndpoint`).
    ///
    /// # Errors
    /// If there is no such Service or port, or the Service has no address.
    pub(crate) fn address(&self, cluster: &Cluster, turn: usize) -> Result<Address, Unroutable> {
        if let Some(found) = &self.found {
            return Ok(found.clone());
        }
        let Some(Service { namespace, name, port }) = &self.service else {
            return Ok(Address { host: self.host.clone(), port: self.port });
        };
        let service = cluster.service(namespace, name).ok_or_else(|| Unroutable::NoService(name.clone()))?;
        let no_spec = ServiceSpec::default();
        let spec = service.spec.as_ref().unwrap_or(&no_spec);
        let cluster_ip = spec.cluster_ip.as_deref().unwrap_or_default();
        let slices = cluster.endpoints(namespace, name);
        match (spec.type_.as_deref().unwrap_or("ClusterIP"), &slices) {
            ("ClusterIP", None) if cluster_ip == "None" => Err(Unroutable::Headless),
            ("ExternalName", None) => {
                Ok(Address { host: spec.external_name.clone().unwrap_or_default(), port: self.port })
            }
            ("ClusterIP" | "LoadBalancer" | "NodePort", slices) => {
                let listed = spec.ports.iter().flatten().find(|listed| listed.port == *port);
                let listed = listed.ok_or_else(|| Unroutable::NoPort { port: *port, name: name.clone() })?;
                let Some(slices) = slices else {
                    return Ok(Address { host: cluster_ip.to_owned(), port: self.port });
                };
                let family = spec.ip_families.iter().flatten().next().map(String::as_str);
                let chosen = choose(slices, listed.name.as_deref().unwrap_or_default(), family, turn);
                chosen.ok_or_else(|| Unroutable::NoEndpoints(name.clone()))
            }
            (other, _) => Err(Unroutable::Type(other.to_owned())),
        }
    }
}

/// Chooses the endpoint whose turn it is, among the ready ones that have the port: of the Service's first address family, else of
/// any family; terminating endpoints only if there are no others.
fn choose(slices: &[Arc<Endpoints>], port: &str, family: Option<&str>, turn: usize) -> Option<Address> {
    [(true, false), (false, false), (true, true), (false, true)].into_iter().find_map(|(only_family, terminating)| {
        let of_family =
            |slice: &&Arc<Endpoints>| !only_family || family.is_none_or(|family| family == &*slice.address_type);
        let candidates = slices.iter().filter(of_family).filter_map(|slice| {
            let (_, number) = slice.ports.iter().find(|(name, _)| &**name == port)?;
            let ready = slice.ready.iter().filter(move |ready| ready.is_terminating == terminating);
            Some(ready.map(move |ready| (&ready.address, *number)))
        });
        let candidates = candidates.flatten();
        let (host, port) = candidates.clone().nth(turn.checked_rem(candidates.count())?)?;
        Some(Address { host: host.to_string(), port })
    })
}

/// Returns `path.Join("/", path)`, escaped.
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
    use crate::cluster::FixedState;
    use serde_json::{Value, json};

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
        for (namespace, name, port, expected) in [
            ("default", "kubernetes", 443, true),
            ("default", "kubernetes", 6443, false),
            ("n", "kubernetes", 443, false),
        ] {
            let endpoint = Endpoint::service(namespace, name, port, "", Vec::new());
            assert_eq!(endpoint.is_api_server(), expected, "{namespace}/{name}:{port}");
        }
    }

    /// A cluster with the service `s` of namespace `n`, and with these slices, if any.
    fn cluster(spec: Value, slices: Option<&[Value]>) -> Arc<Cluster> {
        let service = json!({"metadata": {"name": "s", "namespace": "n"}, "spec": spec});
        let state = FixedState { services: vec![serde_json::from_value(service).unwrap()], ..FixedState::default() };
        Cluster::fixed(match slices {
            None => state,
            Some(slices) => state
                .with::<Endpoints>(slices.iter().map(|slice| serde_json::from_value(slice.clone()).unwrap()).collect()),
        })
    }

    fn slice(name: &str, family: &str, port: (&str, u16), endpoints: Value) -> Value {
        let metadata = json!({"name": name, "namespace": "n", "labels": {"kubernetes.io/service-name": "s"}});
        json!({"metadata": metadata, "addressType": family, "endpoints": endpoints,
            "ports": [{"name": "other", "port": 1}, {"name": port.0, "port": port.1}]})
    }

    fn ready(address: &str) -> Value {
        json!({"addresses": [address]})
    }

    fn terminating(address: &str) -> Value {
        json!({"addresses": [address], "conditions": {"ready": true, "terminating": true}})
    }

    /// Returns the addresses of the first calls of port 443.
    fn turns(cluster: &Cluster, count: usize) -> Result<Vec<String>, String> {
        let endpoint = Endpoint::service("n", "s", 443, "", Vec::new());
        let at = |turn| endpoint.address(cluster, turn).map(|Address { host, port }| format!("{host} {port}"));
        (0..count).map(|turn| at(turn).map_err(|why| why.to_string())).collect()
    }

    #[test]
    fn a_service_is_called_at_its_own_address_as_its_type_has_it() {
        let ports = json!([{"name": "web", "port": 443, "targetPort": 8443}]);
        for (spec, want) in [
            (json!({"clusterIP": "10.0.0.1", "ports": ports}), Ok("10.0.0.1 443")),
            (json!({"type": "NodePort", "clusterIP": "fd00::1", "ports": ports}), Ok("fd00::1 443")),
            (json!({"type": "LoadBalancer", "clusterIP": "10.0.0.1", "ports": ports}), Ok("10.0.0.1 443")),
            (json!({"type": "ExternalName", "externalName": "a.example"}), Ok("a.example 443")),
            (json!({"clusterIP": "None", "ports": ports}), Err("cannot route to service with ClusterIP \"None\"")),
            (
                json!({"clusterIP": "10.0.0.1", "ports": [{"port": 80}]}),
                Err("no service port 443 found for service \"s\""),
            ),
            (json!({"type": "Odd", "clusterIP": "10.0.0.1", "ports": ports}), Err("unsupported service type \"Odd\"")),
        ] {
            let got = turns(&cluster(spec.clone(), None), 1).map(|turns| turns[0].clone());
            assert_eq!(got.as_deref().map_err(String::as_str), want, "{spec}");
        }
        let none = Cluster::fixed(FixedState::default());
        assert_eq!(turns(&none, 1).unwrap_err(), "service \"s\" not found");
    }

    #[test]
    fn the_endpoints_of_a_service_take_turns() {
        let spec = json!({"clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], "ports": [{"name": "web", "port": 443}]});
        let web = ("web", 8443);
        let v4 = slice("a", "IPv4", web, json!([ready("1.1.1.1"), terminating("1.1.1.9"), ready("1.1.1.2")]));
        let more = slice("b", "IPv4", ("web", 9443), json!([ready("1.1.1.3")]));
        let v6 = slice("c", "IPv6", web, json!([ready("::1")]));
        let going = slice("d", "IPv4", web, json!([terminating("1.1.1.9")]));
        let unready = slice("e", "IPv4", web, json!([{"addresses": ["1.1.1.8"], "conditions": {"ready": false}}]));
        let elsewhere = slice("f", "IPv4", ("admin", 8443), json!([ready("1.1.1.7")]));
        let got = |slices: &[&Value], count| {
            let slices: Vec<Value> = slices.iter().map(|slice| (*slice).clone()).collect();
            turns(&cluster(spec.clone(), Some(&slices)), count)
        };
        let all = got(&[&v4, &more, &v6, &going, &unready, &elsewhere], 4).unwrap();
        assert_eq!(all, ["1.1.1.1 8443", "1.1.1.2 8443", "1.1.1.3 9443", "1.1.1.1 8443"]);
        assert_eq!(got(&[&v6, &going, &unready], 2).unwrap(), ["::1 8443", "::1 8443"]);
        assert_eq!(got(&[&going, &unready], 1).unwrap(), ["1.1.1.9 8443"]);
        for none in [&[][..], &[&unready], &[&elsewhere]] {
            assert_eq!(got(none, 1).unwrap_err(), "no endpoints available for service \"s\"");
        }
    }

    #[test]
    fn a_resolved_service_has_its_address_as_host_and_its_name_in_the_certificate() {
        let ports = json!([{"port": 443}]);
        for (spec, authority, address) in [
            (json!({"clusterIP": "10.0.0.1", "ports": ports}), "10.0.0.1:443", "10.0.0.1"),
            (json!({"clusterIP": "fd00::1", "ports": ports}), "[fd00::1]:443", "fd00::1"),
            (json!({"type": "ExternalName", "externalName": "a.example"}), "a.example:443", "a.example"),
        ] {
            let cluster = cluster(spec, None);
            let endpoint = Endpoint::service("n", "s", 443, "", Vec::new()).resolved(&cluster, 0).unwrap();
            assert_eq!((endpoint.authority(), endpoint.path(), endpoint.host()), (authority, "/", "s.n.svc"));
            assert_eq!(endpoint.target(), "s.n.svc:443");
            let later = Cluster::fixed(FixedState::default());
            assert_eq!(endpoint.address(&later, 0), Ok(Address { host: address.into(), port: 443 }));
        }
        let headless = cluster(json!({"clusterIP": "None", "ports": ports}), None);
        let endpoint = Endpoint::service("n", "s", 443, "", Vec::new()).resolved(&headless, 0);
        assert_eq!(endpoint.unwrap_err().to_string(), "cannot route to service with ClusterIP \"None\"");
    }

    #[test]
    fn endpoints_also_answer_for_a_service_without_an_address_but_not_for_an_external_one() {
        let slices = [slice("a", "IPv4", ("", 8443), json!([ready("1.1.1.1")]))];
        let headless = cluster(json!({"clusterIP": "None", "ports": [{"port": 443}]}), Some(&slices));
        assert_eq!(turns(&headless, 1).unwrap(), ["1.1.1.1 8443"]);
        let external = cluster(json!({"type": "ExternalName", "externalName": "a.example"}), Some(&slices));
        assert_eq!(turns(&external, 1).unwrap_err(), "unsupported service type \"ExternalName\"");
    }
}
