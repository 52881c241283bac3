//! The reasons why a call got no answer, in the words of Go's `net`, `crypto/tls` and `crypto/x509`.

use super::connection::HEAD_BYTES;
use super::wire::FirstLine;
use crate::go_text::go_quote;
use jiff::Timestamp;
use rustls::{AlertDescription, CertificateError, Error as TlsError};
use rustls_pki_types::{ServerName, UnixTime};
use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpStream;

/// The reason why a call got no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// The deadline passed.
    Deadline,
    /// The answer is longer than this limit, in bytes.
    TooLong(usize),
    /// The other side has reset the connection.
    Reset(String),
    /// Any other failure.
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

/// The two ends of a connection, and the first lines that came on it.
#[derive(Clone, Debug)]
pub(super) struct Route {
    ends: Arc<str>,
    /// The first line of an answer, inside TLS if there is TLS.
    pub(crate) answer: FirstLine,
    /// The first line on the connection itself, to detect a server without TLS.
    pub(crate) beginning: FirstLine,
}

impl Route {
    /// Returns the route of this stream.
    pub(super) fn of(stream: &TcpStream) -> Self {
        let text = |address: io::Result<SocketAddr>| address.map(|address| address.to_string()).unwrap_or_default();
        let ends = format!("{}->{}", text(stream.local_addr()), text(stream.peer_addr()));
        Self { ends: ends.into(), answer: FirstLine::default(), beginning: FirstLine::default() }
    }
}

/// The stage that an exchange has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The TLS handshake.
    Handshake,
    /// The wait for the answer's head.
    Head,
    /// The wait for any frame of an HTTP/2 stream.
    Stream,
    /// The read of the answer's body.
    Body,
}

impl Failure {
    /// Creates the failure of anything but the connection.
    pub(super) fn other(why: impl fmt::Display) -> Self {
        Self::Other(why.to_string())
    }

    /// Creates the failure of a dial.
    pub(super) fn of_dial(address: SocketAddr, error: &io::Error) -> Self {
        let text = format!("dial tcp {address}: connect: {}", system_error(error));
        if error.kind() == ErrorKind::ConnectionReset { Self::Reset(text) } else { Self::Other(text) }
    }

    /// Creates the failure of a name lookup.
    pub(super) fn of_lookup(host: &str, error: &io::Error) -> Self {
        tracing::debug!(host, %error, "webhook host name not resolved");
        let temporary = error.to_string().contains("Temporary failure");
        Self::Other(format!(
            "dial tcp: lookup {host}: {}",
            if temporary { "server misbehaving" } else { "no such host" }
        ))
    }

    /// Creates the failure of a stream.
    pub(super) fn of_io(error: &io::Error, route: &Route, stage: Stage) -> Self {
        if let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>()) {
            return Self::Other(tls_error(tls, route));
        }
        let ends = &route.ends;
        let is_broken = stage == Stage::Head && !route.answer.is_empty();
        let broken = if is_broken { BROKEN } else { "" };
        Self::Other(match error.kind() {
            ErrorKind::UnexpectedEof if is_broken => {
                let malformed = malformed(&route.answer.read());
                format!("{broken}{}", malformed.unwrap_or_else(|| "unexpected EOF".into()))
            }
            ErrorKind::UnexpectedEof if matches!(stage, Stage::Stream | Stage::Body) => "unexpected EOF".into(),
            ErrorKind::UnexpectedEof => "EOF".into(),
            ErrorKind::ConnectionReset => {
                return Self::Reset(format!("{broken}read tcp {ends}: read: connection reset by peer"));
            }
            // hyper gives this error for a chunk's length.
            ErrorKind::InvalidInput | ErrorKind::InvalidData if stage == Stage::Body => {
                "invalid byte in chunk length".into()
            }
            ErrorKind::BrokenPipe => format!("write tcp {ends}: write: broken pipe"),
            _ => error.to_string(),
        })
    }

    /// Creates the failure of the HTTP layer.
    pub(super) fn of_hyper(error: &hyper::Error, route: &Route, stage: Stage) -> Self {
        let mut source = error.source();
        while let Some(inner) = source {
            if let Some(io) = inner.downcast_ref::<io::Error>() {
                return Self::of_io(io, route, stage);
            }
            source = inner.source();
        }
        if error.is_parse_too_large() {
            return Self::Other(format!("net/http: server response headers exceeded {HEAD_BYTES} bytes; aborted"));
        }
        if error.is_parse() && stage == Stage::Head {
            let malformed = malformed(&route.answer.read());
            return Self::Other(format!("{BROKEN}{}", malformed.unwrap_or_else(|| "malformed MIME header".into())));
        }
        if error.is_incomplete_message() || error.is_closed() || error.is_canceled() {
            return Self::of_io(&ErrorKind::UnexpectedEof.into(), route, stage);
        }
        match error.source().map(ToString::to_string).as_deref().and_then(http2_error) {
            Some(text) => Self::Other(text),
            None => Self::Other(error.to_string()),
        }
    }
}

/// Go's prefix of errors about unreadable answers.
const BROKEN: &str = "net/http: HTTP/1.x transport connection broken: ";

/// Returns the error of an answer that begins with this line, if the line is malformed (`http.ReadResponse`).
fn malformed(line: &str) -> Option<String> {
    let Some((version, status)) = line.split_once(' ') else {
        return Some(format!("malformed HTTP response {}", go_quote(line)));
    };
    let code = status.trim_start_matches(' ').split(' ').next().unwrap_or_default();
    let number = |text: &str| text.len() == 1 && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts = version.strip_prefix("HTTP/").and_then(|version| version.split_once('.'));
    if code.len() != 3 || !code.bytes().all(|byte| byte.is_ascii_digit()) {
        Some(format!("malformed HTTP status code {}", go_quote(code)))
    } else if !parts.is_some_and(|(major, minor)| number(major) && number(minor)) {
        Some(format!("malformed HTTP version {}", go_quote(version)))
    } else {
        None
    }
}

/// Returns Go's text of an HTTP/2 error that the server sent. The number of the stream is not known here.
fn http2_error(text: &str) -> Option<String> {
    let is_of_stream = text.starts_with("stream error received: ");
    let reason = text.strip_prefix("stream error received: ").or(text.strip_prefix("connection error received: "))?;
    let code = HTTP2_CODES.iter().find_map(|(words, code)| reason.starts_with(words).then_some(*code));
    let code = code.unwrap_or("unknown error code");
    Some(match is_of_stream {
        true => format!("stream error: {code}; received from peer"),
        false => format!("http2: Transport received GOAWAY from server ErrCode:{code}"),
    })
}

/// The names of HTTP/2 error codes, by hyper's words for them.
const HTTP2_CODES: [(&str, &str); 14] = [
    ("not a result of an error", "NO_ERROR"),
    ("unspecific protocol error", "PROTOCOL_ERROR"),
    ("unexpected internal error", "INTERNAL_ERROR"),
    ("flow-control protocol violated", "FLOW_CONTROL_ERROR"),
    ("settings ACK not received", "SETTINGS_TIMEOUT"),
    ("received frame when stream half-closed", "STREAM_CLOSED"),
    ("frame with invalid size", "FRAME_SIZE_ERROR"),
    ("refused stream", "REFUSED_STREAM"),
    ("stream no longer needed", "CANCEL"),
    ("unable to maintain the header compression context", "COMPRESSION_ERROR"),
    ("connection established in response to a CONNECT", "CONNECT_ERROR"),
    ("detected excessive load", "ENHANCE_YOUR_CALM"),
    ("security properties do not meet", "INADEQUATE_SECURITY"),
    ("endpoint requires HTTP/1.1", "HTTP_1_1_REQUIRED"),
];

/// Whether the server states that it did not process the request: another connection may serve the request
/// (`http2canRetryError`).
pub(super) fn is_unprocessed(error: &hyper::Error) -> bool {
    let text = error.source().map(ToString::to_string).unwrap_or_default();
    text.starts_with("stream error received: refused stream")
        || text.starts_with("connection error received: not a result of an error")
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

fn tls_error(error: &TlsError, route: &Route) -> String {
    match error {
        TlsError::InvalidCertificate(why) => format!("tls: failed to verify certificate: x509: {}", x509_error(why)),
        TlsError::AlertReceived(alert) => format!("remote error: tls: {}", alert_text(*alert)),
        // A server without TLS usually answers a handshake with HTTP.
        TlsError::InvalidMessage(_) if route.beginning.starts_with(b"HTTP/") => {
            "http: server gave HTTP response to HTTPS client".into()
        }
        TlsError::InvalidMessage(_) => "tls: first record does not look like a TLS handshake".into(),
        other => format!("tls: {other}"),
    }
}

/// Returns the words of an alert: `HandshakeFailure` becomes `handshake failure`.
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
        CertificateError::Other(other) => other.to_string().trim_start_matches("x509: ").to_owned(),
        other => other.to_string(),
    }
}

/// Returns the text of `x509.HostnameError`. `presented` holds `DnsName("…")` and `IpAddress(…)`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_response_is_quoted_as_go_quotes_it() {
        for (line, want) in [
            ("nonsense", Some("malformed HTTP response \"nonsense\"")),
            ("220 smtp.example ESMTP", Some("malformed HTTP status code \"smtp.example\"")),
            ("HTTP/1.1 20 OK", Some("malformed HTTP status code \"20\"")),
            ("HTTP/1.1 2x0 OK", Some("malformed HTTP status code \"2x0\"")),
            ("ICY 200 OK", Some("malformed HTTP version \"ICY\"")),
            ("HTTP/1.1 200 OK", None),
            ("HTTP/1.1 200", None),
        ] {
            assert_eq!(malformed(line).as_deref(), want, "{line}");
        }
    }

    #[test]
    fn http2_errors_have_the_names_of_their_codes() {
        for (text, want) in [
            (
                "stream error received: unexpected internal error encountered",
                Some("stream error: INTERNAL_ERROR; received from peer"),
            ),
            (
                "connection error received: detected excessive load generating behavior (b\"x\")",
                Some("http2: Transport received GOAWAY from server ErrCode:ENHANCE_YOUR_CALM"),
            ),
            ("connection error detected: unspecific protocol error detected", None),
        ] {
            assert_eq!(http2_error(text).as_deref(), want, "{text}");
        }
    }
}
