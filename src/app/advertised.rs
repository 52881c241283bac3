//! The address at which clients in the cluster reach the embedded API server (`SecureServingOptions.DefaultAdvertiseAddress`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Addresses outside of every network: the kernel chooses the interface of the default route for them.
const ELSEWHERE: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))];

/// The given address, or the bound one, or the host's if the bound one is of no use to others; with the port that is served.
///
/// kube-apiserver does not start on a host without such an address. Here the bound address remains, which may be unfit for Endpoints.
pub(super) fn advertised(given: Option<IpAddr>, bound: SocketAddr) -> SocketAddr {
    let given = given.filter(|address| !address.is_unspecified());
    let is_local = |address: IpAddr| address.is_unspecified() || address.is_loopback();
    let chosen = given.or_else(|| Some(bound.ip()).filter(|address| !is_local(*address)));
    SocketAddr::new(chosen.or_else(|| host(bound.is_ipv6())).unwrap_or(bound.ip()), bound.port())
}

/// The address of the interface of the default route (`net.ResolveBindAddress`). No packet is sent.
fn host(prefers_ipv6: bool) -> Option<IpAddr> {
    let mut elsewhere = ELSEWHERE;
    if prefers_ipv6 {
        elsewhere.reverse();
    }
    elsewhere.into_iter().find_map(|other| {
        let any: IpAddr = if other.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect((other, 9)).ok()?;
        let address = socket.local_addr().ok()?.ip();
        (!address.is_loopback() && !address.is_unspecified()).then_some(address)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_address_counts_more_than_a_bound_one() {
        let bound = |address: &str| format!("{address}:6443").parse::<SocketAddr>().unwrap();
        let given = |address: &str| Some(address.parse::<IpAddr>().unwrap());
        assert_eq!(advertised(given("192.0.2.7"), bound("192.0.2.8")), bound("192.0.2.7"));
        assert_eq!(advertised(given("127.0.0.1"), bound("192.0.2.8")), bound("127.0.0.1"));
        assert_eq!(advertised(given("0.0.0.0"), bound("192.0.2.8")), bound("192.0.2.8"));
        assert_eq!(advertised(None, bound("192.0.2.8")), bound("192.0.2.8"));
        for local in ["127.0.0.1", "0.0.0.0"] {
            let chosen = advertised(None, bound(local));
            assert_eq!(chosen.ip(), host(false).unwrap_or(bound(local).ip()));
            assert_eq!(chosen.port(), 6443);
        }
    }
}
