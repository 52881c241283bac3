//! The origin of a request, from its headers and its connection.

use http::{HeaderMap, HeaderName};
use std::net::{IpAddr, Ipv4Addr};

/// A request's audit ID: the client's, else a new ID. The response carries the ID too (`WithAuditInit`).
pub(crate) fn audit_id(headers: &HeaderMap) -> String {
    let given = headers.get(AUDIT_ID).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    given.filter(|given| !given.is_empty()).unwrap_or_else(|| uuid::Uuid::new_v4().to_string())
}

/// The header of the audit ID, in requests and responses.
pub(crate) const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// The addresses of a request: `X-Forwarded-For`, `X-Real-Ip`, and the connection's (`net.SourceIPs`). A client can forge all
/// addresses but the last.
pub(crate) fn source_ips(headers: &HeaderMap, remote: IpAddr) -> Vec<IpAddr> {
    let first = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut addresses: Vec<IpAddr> =
        first("x-forwarded-for").split(',').filter_map(|part| parse_ip(part.trim())).collect();
    if let Some(real) = parse_ip(first("x-real-ip"))
        && !addresses.contains(&real)
    {
        addresses.push(real);
    }
    let remote = remote.to_canonical();
    if addresses.last() != Some(&remote) {
        addresses.push(remote);
    }
    addresses
}

/// `ParseIPSloppy`: reads octets with leading zeros as decimal, and unmaps an IPv4 address in an IPv6 address.
fn parse_ip(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse::<IpAddr>().ok().map(|address| address.to_canonical());
    }
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next().filter(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))?;
        *octet = part
            .trim_start_matches('0')
            .parse()
            .or(if part.bytes().all(|byte| byte == b'0') { Ok(0) } else { Err(()) })
            .ok()?;
    }
    parts.next().is_none().then_some(IpAddr::V4(Ipv4Addr::from(octets)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_ips_are_those_of_the_chain() {
        for (forwarded, real, remote, expected) in [
            ("", "", "127.0.0.1", "127.0.0.1"),
            ("1.2.3.4, 5.6.7.8", "9.9.9.9", "127.0.0.1", "1.2.3.4 5.6.7.8 9.9.9.9 127.0.0.1"),
            ("1.2.3.4,nonsense,,5.6.7.256", "1.2.3.4", "1.2.3.4", "1.2.3.4"),
            ("1.2.3.4,5.6.7.8", "", "1.2.3.4", "1.2.3.4 5.6.7.8 1.2.3.4"),
            ("::ffff:1.2.3.4, ::1, fe80::1%eth0", "010.001.0.0", "::ffff:127.0.0.1", "1.2.3.4 ::1 10.1.0.0 127.0.0.1"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("x-forwarded-for", forwarded.parse().unwrap());
            headers.insert("x-real-ip", real.parse().unwrap());
            let found: Vec<_> = source_ips(&headers, remote.parse().unwrap()).iter().map(ToString::to_string).collect();
            assert_eq!(found.join(" "), expected, "{forwarded} {real} {remote}");
        }
    }

    #[test]
    fn the_clients_audit_id_is_kept() {
        let mut headers = HeaderMap::new();
        let (one, other) = (audit_id(&headers), audit_id(&headers));
        assert!(one.len() == 36 && one != other);
        headers.insert("Audit-ID", "mine".parse().unwrap());
        assert_eq!(audit_id(&headers), "mine");
    }
}
