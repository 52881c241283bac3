//! The servers that the webhooks of a tenant's own API server may be. Its administrator chooses their addresses, and the connections come from
//! the network of the gateway, which has servers of others: those of the machine, of other tenants, of the cloud provider.

use crate::object::names::is_dns_1123_subdomain;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The addresses and names that an operator allows in addition to public addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebhookTargets {
    networks: Vec<Network>,
    /// Names; with a dot in front, all names that end so.
    names: Vec<String>,
}

/// A text is neither an address, nor a network, nor a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} must be an IP address, a CIDR, a DNS name, or a DNS name after \"*.\"")]
pub(crate) struct InvalidTarget(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    bits: u8,
}

/// The machines that an address reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    /// Servers of the Internet.
    Public,
    /// Servers of a private network.
    Private,
    /// This machine, its link, its cloud provider, or nobody.
    Local,
}

impl WebhookTargets {
    /// Parses the texts of a configuration.
    ///
    /// # Errors
    /// For the first text that is invalid, with its index.
    pub(crate) fn parse(texts: &[String]) -> Result<Self, (usize, InvalidTarget)> {
        let mut targets = Self::default();
        for (index, text) in texts.iter().enumerate() {
            let name = text.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(text);
            if let Some(network) = Network::parse(text) {
                targets.networks.push(network);
            } else if is_dns_1123_subdomain(name.trim_start_matches('.'))
                && !name.contains("..")
                && !text.starts_with('.')
            {
                targets.names.push(name.to_owned());
            } else {
                return Err((index, InvalidTarget(text.clone())));
            }
        }
        Ok(targets)
    }

    /// Whether a webhook of this host may be called at this address. A name allows private addresses, but not those of the machine and its
    /// link, which only networks allow: the owner of a name chooses its addresses.
    pub(crate) fn allow(&self, host: &str, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks.iter().any(|network| network.contains(address))
            || match reach(address) {
                Reach::Public => true,
                Reach::Private => self.has_name(host),
                Reach::Local => false,
            }
    }

    fn has_name(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        self.names.iter().any(|name| match name.starts_with('.') {
            true => host.ends_with(name),
            false => host == *name,
        })
    }
}

impl Network {
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => most,
            Some(bits) if bits.bytes().all(|byte| byte.is_ascii_digit()) => {
                bits.parse().ok().filter(|bits| *bits <= most)?
            }
            Some(_) => return None,
        };
        Some(Self { address, bits })
    }

    fn contains(self, address: IpAddr) -> bool {
        is_within(address, self.address, self.bits)
    }
}

/// Whether an address is in a network of the same family with so many fixed bits.
pub(crate) fn is_within(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let number = |address: IpAddr| match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    };
    let ((address, size), (network, network_size)) = (number(address), number(network));
    size == network_size && bits <= size && (address ^ network).checked_shr(128 - u32::from(bits)).unwrap_or(0) == 0
}

fn reach(address: IpAddr) -> Reach {
    match address {
        IpAddr::V4(address) => reach_v4(address),
        IpAddr::V6(address) => reach_v6(address),
    }
}

/// The ranges of the IANA registry of special-purpose addresses, and the addresses of cloud providers for their machines.
fn reach_v4(address: Ipv4Addr) -> Reach {
    match address.octets() {
        [0 | 127 | 224.., ..] | [169, 254, ..] | [192, 0, 0, _] => Reach::Local,
        // Alibaba's metadata service, and Azure's agent of the machine.
        [100, 100, 100, 200] | [168, 63, 129, 16] => Reach::Local,
        [10, ..] | [100, 64..=127, ..] | [172, 16..=31, ..] | [192, 168, ..] | [198, 18 | 19, ..] => Reach::Private,
        // Examples.
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Reach::Private,
        _ => Reach::Public,
    }
}

fn reach_v6(address: Ipv6Addr) -> Reach {
    let embedded = |high: u16, low: u16| reach_v4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
    match address.segments() {
        // Through a gateway to IPv4: NAT64 and 6to4.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => embedded(high, low),
        // The metadata services of AWS and Google.
        [0xfd00, 0xec2, ..] | [0xfd20, 0xce, ..] => Reach::Local,
        [0xfc00..=0xfdff, ..] | [0x2001, 0xdb8, ..] => Reach::Private,
        // Teredo and other protocols.
        [0x2001, 0..=0x1ff, ..] => Reach::Local,
        // Only these are addresses of the Internet.
        [0x2000..=0x3fff, ..] => Reach::Public,
        _ => Reach::Local,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(texts: &[&str]) -> WebhookTargets {
        WebhookTargets::parse(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn only_public_addresses_are_allowed_without_a_configuration() {
        for (address, expected) in [
            ("8.8.8.8", Reach::Public),
            ("100.63.0.1", Reach::Public),
            ("172.32.0.1", Reach::Public),
            ("2606:4700::1111", Reach::Public),
            ("64:ff9b::808:808", Reach::Public),
            ("2002:808:808::1", Reach::Public),
            ("::ffff:8.8.8.8", Reach::Public),
            ("10.0.0.1", Reach::Private),
            ("172.16.0.1", Reach::Private),
            ("172.31.255.255", Reach::Private),
            ("192.168.1.1", Reach::Private),
            ("100.64.0.1", Reach::Private),
            ("198.18.0.1", Reach::Private),
            ("192.0.2.1", Reach::Private),
            ("fc00::1", Reach::Private),
            ("fdff::1", Reach::Private),
            ("2001:db8::1", Reach::Private),
            ("::ffff:10.0.0.1", Reach::Private),
            ("64:ff9b::a00:1", Reach::Private),
            ("2002:a00:1::", Reach::Private),
            ("0.0.0.0", Reach::Local),
            ("0.1.2.3", Reach::Local),
            ("127.0.0.1", Reach::Local),
            ("127.255.0.1", Reach::Local),
            ("169.254.169.254", Reach::Local),
            ("168.63.129.16", Reach::Local),
            ("100.100.100.200", Reach::Local),
            ("192.0.0.192", Reach::Local),
            ("224.0.0.1", Reach::Local),
            ("240.0.0.1", Reach::Local),
            ("255.255.255.255", Reach::Local),
            ("::", Reach::Local),
            ("::1", Reach::Local),
            ("::7f00:1", Reach::Local),
            ("::8.8.8.8", Reach::Local),
            ("::ffff:127.0.0.1", Reach::Local),
            ("::ffff:0:127.0.0.1", Reach::Local),
            ("64:ff9b::7f00:1", Reach::Local),
            ("64:ff9b::a9fe:a9fe", Reach::Local),
            ("64:ff9b:1::a00:1", Reach::Local),
            ("2002:7f00:1::", Reach::Local),
            ("2001::1", Reach::Local),
            ("fe80::1", Reach::Local),
            ("febf::1", Reach::Local),
            ("fec0::1", Reach::Local),
            ("ff02::1", Reach::Local),
            ("fd00:ec2::254", Reach::Local),
            ("fd20:ce::254", Reach::Local),
            ("100::1", Reach::Local),
            ("4000::1", Reach::Local),
        ] {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(reach(address.to_canonical()), expected, "{address}");
            assert_eq!(targets(&[]).allow("a.example", address), expected == Reach::Public, "{address}");
            let by_name = targets(&["a.example"]).allow("a.example", address);
            assert_eq!(by_name, expected < Reach::Local, "{address}");
        }
    }

    #[test]
    fn networks_and_names_are_allowed_in_addition() {
        let all = targets(&["10.8.0.0/16", "127.0.0.1", "fd00::/8", "hooks.example", "*.svc"]);
        for (host, address, expected) in [
            ("x", "10.8.3.4", true),
            ("x", "::ffff:10.8.3.4", true),
            ("x", "10.9.0.1", false),
            ("x", "127.0.0.1", true),
            ("x", "127.0.0.2", false),
            ("x", "fd01::1", true),
            ("x", "fd00:ec2::254", true),
            ("x", "fc00::1", false),
            ("hooks.example", "192.168.0.1", true),
            ("Hooks.Example.", "192.168.0.1", true),
            ("a.hooks.example", "192.168.0.1", false),
            ("s.n.svc", "192.168.0.1", true),
            ("svc", "192.168.0.1", false),
            ("s.n.svc", "169.254.169.254", false),
            ("hooks.example", "127.0.0.2", false),
        ] {
            assert_eq!(all.allow(host, address.parse().unwrap()), expected, "{host} {address}");
        }
        assert!(targets(&["0.0.0.0/0"]).allow("x", "127.0.0.1".parse().unwrap()));
        assert!(!targets(&["::/0"]).allow("x", "127.0.0.1".parse().unwrap()));
    }

    #[test]
    fn other_texts_are_errors() {
        for text in [
            "",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/+8",
            "10.0.0.0/",
            "a b",
            "*",
            "*a",
            ".a",
            "*..a",
            "https://a",
            "a:443",
            "[::1]",
        ] {
            let parsed = WebhookTargets::parse(&["10.0.0.1".to_owned(), text.to_owned()]);
            assert_eq!(parsed, Err((1, InvalidTarget(text.to_owned()))), "{text}");
        }
    }
}
