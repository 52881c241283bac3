//! Why a call got no answer, in the words of Go's `net`, `crypto/tls` and `crypto/x509`.

use jiff::Timestamp;
use rustls::{AlertDescription, CertificateError, Error as TlsError};
use rustls_pki_types::{ServerName, UnixTime};
use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use tokio::net::TcpStream;

/// Why a call got no answer.
#[derive(Debug)]
pub enum Failure {
    /// The deadline passed.
    Deadline,
    /// The answer is longer than is read.
    TooLong(usize),
    /// The other side has reset the connection.
    Reset(String),
    /// Anything else.
    Other(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deadline => f.write_str("context deadline exceeded"),
            Self::TooLong(limit) => write!(f, "the response is longer than {limit} bytes"),
            Self::Reset(text) | Self::Other(text) => f.write_str(text),
        }
    }
}

/// The two ends of a connection.
#[derive(Debug)]
pub struct Route(String);

impl Route {
    /// The ends of this stream.
    pub fn of(stream: &TcpStream) -> Self {
        let text = |address: io::Result<SocketAddr>| address.map(|address| address.to_string()).unwrap_or_default();
        Self(format!("{}->{}", text(stream.local_addr()), text(stream.peer_addr())))
    }
}

impl Failure {
    /// No connection to an address.
    pub fn of_dial(address: SocketAddr, error: &io::Error) -> Self {
        let text = format!("dial tcp {address}: connect: {}", system_error(error));
        if error.kind() == ErrorKind::ConnectionReset { Self::Reset(text) } else { Self::Other(text) }
    }

    /// No address of a name.
    pub fn of_lookup(host: &str, error: &io::Error) -> Self {
        tracing::debug!(host, %error, "webhook host name not resolved");
        let temporary = error.to_string().contains("Temporary failure");
        Self::Other(format!(
            "dial tcp: lookup {host}: {}",
            if temporary { "server misbehaving" } else { "no such host" }
        ))
    }

    /// An error of a stream; `end` is what its end means where it came.
    pub fn of_io(error: &io::Error, route: &Route, end: &str) -> Self {
        if let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>()) {
            return Self::Other(tls_error(tls));
        }
        Self::Other(match error.kind() {
            ErrorKind::UnexpectedEof => end.to_owned(),
            ErrorKind::ConnectionReset => {
                return Self::Reset(format!("read tcp {}: read: connection reset by peer", route.0));
            }
            ErrorKind::BrokenPipe => format!("write tcp {}: write: broken pipe", route.0),
            _ => error.to_string(),
        })
    }

    /// An error of the HTTP layer; `end` is what the connection's end means where it came.
    pub fn of_hyper(error: &hyper::Error, route: &Route, end: &str) -> Self {
        let mut source = error.source();
        while let Some(inner) = source {
            if let Some(io) = inner.downcast_ref::<io::Error>() {
                return Self::of_io(io, route, end);
            }
            source = inner.source();
        }
        if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
            return Self::Other(end.to_owned());
        }
        let parse = error.is_parse();
        Self::Other(if parse {
            format!("net/http: HTTP/1.x transport connection broken: malformed HTTP response: {error}")
        } else {
            error.to_string()
        })
    }
}

fn system_error(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => "connection refused".into(),
        ErrorKind::ConnectionReset => "connection reset by peer".into(),
        ErrorKind::HostUnreachable => "no route to host".into(),
        ErrorKind::NetworkUnreachable => "network is unreachable".into(),
        ErrorKind::TimedOut => "connection timed out".into(),
        _ => error.to_string(),
    }
}

fn tls_error(error: &TlsError) -> String {
    match error {
        TlsError::InvalidCertificate(why) => format!("tls: failed to verify certificate: x509: {}", x509_error(why)),
        TlsError::AlertReceived(alert) => format!("remote error: tls: {}", alert_text(*alert)),
        // What a server without TLS answers to a handshake is most often HTTP.
        TlsError::InvalidMessage(_) => "http: server gave HTTP response to HTTPS client".into(),
        other => format!("tls: {other}"),
    }
}

/// `HandshakeFailure` as `handshake failure`.
fn alert_text(alert: AlertDescription) -> String {
    let mut text = String::new();
    for c in format!("{alert:?}").chars() {
        if c.is_ascii_uppercase() && !text.is_empty() {
            text.push(' ');
        }
        text.push(c.to_ascii_lowercase());
    }
    text
}

fn x509_error(error: &CertificateError) -> String {
    let moment = |time: &UnixTime| {
        let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        Timestamp::from_second(seconds).map(|time| time.to_string()).unwrap_or_default()
    };
    match error {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority".into()
        }
        CertificateError::ExpiredContext { time, not_after } => format!(
            "certificate has expired or is not yet valid: current time {} is after {}",
            moment(time),
            moment(not_after)
        ),
        CertificateError::NotValidYetContext { time, not_before } => format!(
            "certificate has expired or is not yet valid: current time {} is before {}",
            moment(time),
            moment(not_before)
        ),
        CertificateError::Expired | CertificateError::NotValidYet => {
            "certificate has expired or is not yet valid".into()
        }
        CertificateError::NotValidForNameContext { expected, presented } => name_error(expected, presented),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "certificate specifies an incompatible key usage".into()
        }
        other => other.to_string(),
    }
}

/// `x509.HostnameError`. `presented` holds `DnsName("…")` and `IpAddress(…)`.
fn name_error(expected: &ServerName<'_>, presented: &[String]) -> String {
    let inside = |name: &String, kind: &str| {
        let inner = name.strip_prefix(kind)?.strip_prefix('(')?.strip_suffix(')')?;
        Some(inner.trim_matches('"').to_owned())
    };
    let wanted = expected.to_str();
    let is_ip = matches!(expected, ServerName::IpAddress(_));
    let kind = if is_ip { "IpAddress" } else { "DnsName" };
    let names: Vec<_> = presented.iter().filter_map(|name| inside(name, kind)).collect();
    match (is_ip, names.is_empty()) {
        (true, true) => format!("cannot validate certificate for {wanted} because it doesn't contain any IP SANs"),
        (false, true) if presented.is_empty() => {
            "certificate relies on legacy Common Name field, use SANs instead".into()
        }
        (false, true) => format!("certificate is not valid for any names, but wanted to match {wanted}"),
        (_, false) => format!("certificate is valid for {}, not {wanted}", names.join(", ")),
    }
}
