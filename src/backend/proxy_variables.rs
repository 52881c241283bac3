//! `HTTPS_PROXY` and `NO_PROXY`, which kube-apiserver's webhook client obeys, Services included (`http.ProxyFromEnvironment`).
//!
//! The connection to a proxy is plain HTTP. An endpoint on this machine is never reached through a proxy.

use super::endpoint::{Address, Endpoint};
use crate::config::is_within;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Bytes that the head of a proxy's answer may have.
const HEAD_BYTES: usize = 16 * 1024;

/// The proxies of all clients. The program sets them when it starts, so that tests do not depend on the environment.
static OF_PROCESS: OnceLock<Proxies> = OnceLock::new();

/// The proxy of the environment, and the endpoints that are reached without it.
#[derive(Clone, Debug, Default)]
pub(super) struct Proxies {
    proxy: Option<Arc<Proxy>>,
    exceptions: Vec<Exception>,
}

/// A proxy; or the reason why the configured one cannot be used.
#[derive(Debug, PartialEq)]
pub(super) struct Proxy(Result<Reachable, UnusableProxy>);

/// The reason why the configured proxy cannot be used; never with its password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UnusableProxy {
    /// The connection to the proxy would not be plain HTTP.
    #[error("proxies of the scheme \"{0}\" in HTTPS_PROXY are not supported")]
    Scheme(String),
    /// The variable has no address.
    #[error("invalid proxy address in HTTPS_PROXY")]
    Address,
}

/// The reason why a proxy gives no tunnel, with Go's text.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoTunnel {
    /// The connection fails.
    #[error(transparent)]
    Io(io::Error),
    /// The connection ends before the answer does.
    #[error("unexpected EOF")]
    Cut,
    /// The answer's head is too long.
    #[error("net/http: server response headers exceeded {HEAD_BYTES} bytes; aborted")]
    Long,
    /// The proxy refuses the tunnel, with the text of its status.
    #[error("{0}")]
    Refused(String),
    /// The answer's status has no text.
    #[error("unknown status code")]
    UnknownStatus,
}

#[derive(Debug, PartialEq)]
struct Reachable {
    address: Address,
    /// The `Proxy-Authorization` header.
    authorization: Option<String>,
}

/// An entry of `NO_PROXY`.
#[derive(Clone, Debug, PartialEq)]
enum Exception {
    All,
    Network(IpAddr, u8),
    Host(IpAddr, Option<u16>),
    /// The domain with a dot in front; the flag is whether the domain itself matches too.
    Domain(String, bool, Option<u16>),
}

impl Proxies {
    /// Returns the proxies of the process: none before [`obey_proxy_variables`].
    pub(super) fn of_process() -> &'static Self {
        static NONE: Proxies = Proxies { proxy: None, exceptions: Vec::new() };
        OF_PROCESS.get().unwrap_or(&NONE)
    }

    /// Creates the proxies from the values of the variables.
    pub(super) fn new(proxy: &str, no_proxy: &str) -> Self {
        let exceptions = no_proxy.split(',').filter_map(|item| exception(&item.trim().to_ascii_lowercase()));
        let proxy = (!proxy.is_empty()).then(|| Arc::new(Proxy(Reachable::parse(proxy))));
        Self { proxy, exceptions: exceptions.collect() }
    }

    /// Returns the proxy for an endpoint, if any.
    pub(super) fn for_endpoint(&self, endpoint: &Endpoint) -> Option<Arc<Proxy>> {
        let proxy = self.proxy.as_ref().filter(|_| !endpoint.is_plain() && !endpoint.is_local())?;
        let host = endpoint.host().to_ascii_lowercase();
        let is_excepted = self.exceptions.iter().any(|exception| exception.holds(&host, endpoint.port()));
        (!is_excepted).then(|| proxy.clone())
    }
}

/// Makes the clients that are created from now on use the proxies of the environment. Only the first call has an effect.
pub(crate) fn obey_proxy_variables() {
    OF_PROCESS.get_or_init(|| {
        let value = |name: &&str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let variable = |names: [&str; 2]| names.iter().find_map(value).unwrap_or_default();
        let proxies = Proxies::new(&variable(["HTTPS_PROXY", "https_proxy"]), &variable(["NO_PROXY", "no_proxy"]));
        if proxies.proxy.is_some() {
            tracing::info!(
                "HTTPS_PROXY is set: webhooks are called through this proxy, except for the hosts in NO_PROXY"
            );
        }
        proxies
    });
}

fn exception(item: &str) -> Option<Exception> {
    if item == "*" {
        return Some(Exception::All);
    }
    if let Some((network, bits)) = item.split_once('/')
        && let (Ok(network), Ok(bits)) = (network.parse(), bits.parse())
    {
        return Some(Exception::Network(network, bits));
    }
    if let Ok(host) = item.parse() {
        return Some(Exception::Host(host, None));
    }
    let (host, port) = match item.rsplit_once(':') {
        Some((host, port)) => (host, Some(port.parse().ok()?)),
        None => (item, None),
    };
    if let Ok(host) = host.trim_start_matches('[').trim_end_matches(']').parse() {
        return Some(Exception::Host(host, port));
    }
    let host = host.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(host);
    match host.strip_prefix('.') {
        _ if host.is_empty() => None,
        Some(_) => Some(Exception::Domain(host.to_owned(), false, port)),
        None => Some(Exception::Domain(format!(".{host}"), true, port)),
    }
}

impl Exception {
    fn holds(&self, host: &str, port: u16) -> bool {
        let of_port = |wanted: &Option<u16>| wanted.is_none_or(|wanted| wanted == port);
        match self {
            Self::All => true,
            Self::Network(network, bits) => host.parse().is_ok_and(|host| is_within(host, *network, *bits)),
            Self::Host(address, wanted) => host.parse() == Ok(*address) && of_port(wanted),
            Self::Domain(domain, itself, wanted) => {
                (host.ends_with(domain) || *itself && domain.strip_prefix('.') == Some(host)) && of_port(wanted)
            }
        }
    }
}

impl Reachable {
    fn parse(text: &str) -> Result<Self, UnusableProxy> {
        let rest = match text.split_once("://") {
            None => text,
            Some(("http", rest)) => rest,
            Some((scheme, _)) => return Err(UnusableProxy::Scheme(scheme.to_owned())),
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (user, authority) = authority.rsplit_once('@').map_or((None, authority), |(user, rest)| (Some(user), rest));
        let endpoint = Endpoint::server(&format!("http://{authority}")).map_err(|_| UnusableProxy::Address)?;
        let authorization = user.map(|user| {
            let (name, password) = user.split_once(':').unwrap_or((user, ""));
            let pair = [name, ":", password].map(|part| percent_decode_str(part).collect::<Vec<u8>>()).concat();
            format!("Basic {}", STANDARD.encode(pair))
        });
        Ok(Self { address: Address { host: endpoint.host().to_owned(), port: endpoint.port() }, authorization })
    }
}

impl Proxy {
    /// Returns the address of the proxy.
    ///
    /// # Errors
    /// If the configured proxy cannot be used.
    pub(super) fn address(&self) -> Result<Address, UnusableProxy> {
        self.0.as_ref().map(|reachable| reachable.address.clone()).map_err(Clone::clone)
    }

    /// Requests a tunnel to `host:port`; from then on the stream leads to that host.
    ///
    /// # Errors
    /// If the proxy refuses the tunnel.
    pub(super) async fn tunnel(&self, stream: &mut TcpStream, target: &str) -> Result<(), NoTunnel> {
        let authorization = self.0.as_ref().ok().and_then(|reachable| reachable.authorization.as_ref());
        let authorization = authorization.map(|value| format!("Proxy-Authorization: {value}\r\n")).unwrap_or_default();
        let request = format!(
            "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nUser-Agent: Go-http-client/1.1\r\n{authorization}\r\n"
        );
        stream.write_all(request.as_bytes()).await.map_err(NoTunnel::Io)?;
        // The head is read byte by byte: the bytes after it are the target's.
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if head.len() >= HEAD_BYTES {
                return Err(NoTunnel::Long);
            }
            match stream.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(NoTunnel::Cut),
                Err(error) => return Err(NoTunnel::Io(error)),
            }
        }
        let head = String::from_utf8_lossy(&head);
        let status = head.lines().next().and_then(|line| line.split_once(' ')).map_or("", |(_, status)| status);
        match status.split_once(' ') {
            _ if status.starts_with("200") => Ok(()),
            Some((_, text)) => Err(NoTunnel::Refused(text.to_owned())),
            None => Err(NoTunnel::UnknownStatus),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    fn is_proxied(no_proxy: &str, url: &str) -> bool {
        let proxies = Proxies::new("http://proxy.example:3128", no_proxy);
        proxies.for_endpoint(&Endpoint::url(url, Vec::new()).unwrap()).is_some()
    }

    #[test]
    fn exceptions_are_read_as_go_reads_them() {
        for (no_proxy, url, want) in [
            ("", "https://a.example/", true),
            ("", "https://localhost/", false),
            ("", "https://127.0.0.2/", false),
            ("", "https://[::1]:1/", false),
            ("*", "https://a.example/", false),
            ("example", "https://a.example/", false),
            ("a.example", "https://a.example/", false),
            (" A.Example ", "https://a.example/", false),
            (".a.example", "https://a.example/", true),
            ("*.example", "https://a.example/", false),
            ("example:443", "https://a.example/", false),
            ("example:8443", "https://a.example/", true),
            ("xample", "https://a.example/", true),
            ("10.0.0.1", "https://10.0.0.1/", false),
            ("10.0.0.1:8443", "https://10.0.0.1/", true),
            ("10.0.0.0/8", "https://10.1.2.3/", false),
            ("10.0.0.0/8", "https://11.1.2.3/", true),
            ("0.0.0.0/0", "https://11.1.2.3/", false),
            ("fd00::/8", "https://[fd01::1]/", false),
            ("fd00::1", "https://[fd00::1]/", false),
            ("[fd00::1]:443", "https://[fd00::1]/", false),
            ("b.example,,a.example", "https://a.example/", false),
        ] {
            assert_eq!(is_proxied(no_proxy, url), want, "NO_PROXY={no_proxy} {url}");
        }
        let service = Endpoint::service("n", "s", 443, "", Vec::new());
        assert!(Proxies::new("p", "").for_endpoint(&service).is_some());
        assert!(Proxies::new("p", ".svc").for_endpoint(&service).is_none());
        assert!(Proxies::new("", "").for_endpoint(&service).is_none());
    }

    #[test]
    fn a_proxy_may_be_written_in_several_ways() {
        let at = |host: &str, port| Address { host: host.into(), port };
        for (text, address, authorization) in [
            ("http://p.example:3128", at("p.example", 3128), None),
            ("p.example:3128", at("p.example", 3128), None),
            ("http://p.example/", at("p.example", 80), None),
            ("http://u:p%40ss@p.example", at("p.example", 80), Some("Basic dTpwQHNz")),
        ] {
            let authorization = authorization.map(str::to_owned);
            assert_eq!(Reachable::parse(text), Ok(Reachable { address, authorization }), "{text}");
        }
        for text in ["socks5://p.example", "https://p.example", "http://", "http://u:secret@p:x"] {
            let error = Reachable::parse(text).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    async fn tunnel(answer: &'static [u8]) -> Result<String, String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let proxy = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 1024];
            let length = stream.read(&mut request).await.unwrap();
            stream.write_all(answer).await.unwrap();
            String::from_utf8(request[..length].to_vec()).unwrap()
        });
        let mut stream = TcpStream::connect(address).await.unwrap();
        let proxies = Proxies::new("http://u:p@proxy.example", "");
        let made = proxies.proxy.unwrap().tunnel(&mut stream, "s.n.svc:443").await;
        let request = proxy.await.unwrap();
        let mut after = String::new();
        stream.read_to_string(&mut after).await.unwrap();
        made.map(|()| format!("{request}{after}")).map_err(|why| why.to_string())
    }

    #[tokio::test]
    async fn a_tunnel_is_asked_for_and_may_be_refused() {
        let request = "CONNECT s.n.svc:443 HTTP/1.1\r\nHost: s.n.svc:443\r\nUser-Agent: Go-http-client/1.1\r\nProxy-Authorization: Basic dTpw\r\n\r\n";
        assert_eq!(tunnel(b"HTTP/1.1 200 OK\r\nX: y\r\n\r\nbehind").await, Ok(format!("{request}behind")));
        assert_eq!(tunnel(b"HTTP/1.1 403 Not For You\r\n\r\n").await.unwrap_err(), "Not For You");
        assert_eq!(tunnel(b"HTTP/1.1 200").await.unwrap_err(), "unexpected EOF");
    }
}
