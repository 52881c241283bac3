//! The options of the embedded API server.

use super::Controllers;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

/// The time to live of Events (`--event-ttl`).
pub(crate) const EVENT_TTL: Duration = Duration::from_secs(3600);

/// The API server in this process.
#[derive(Clone, Debug, Default)]
pub struct Embedded {
    /// The path of the kubeconfig that is written for clients, if the process has an authority of its own.
    pub kubeconfig: Option<PathBuf>,
    /// The controllers that run.
    pub(crate) controllers: Controllers,
    /// The addresses of Services.
    pub(crate) addresses: Addresses,
    /// The address of the Service `default/kubernetes`' endpoint; by default the one that is bound, or the host's.
    pub(crate) advertise_address: Option<IpAddr>,
    /// The keys and issuers of service account tokens.
    pub(crate) tokens: TokenFiles,
    /// The APIs that are not served.
    pub(crate) apis: Apis,
    /// Whether containers may be privileged.
    pub(crate) allow_privileged: bool,
    /// The time to live of Events; 0 for no end.
    pub(crate) event_ttl: Duration,
    /// The folder that keeps the objects and keys; without it they are in memory alone.
    pub(crate) data_dir: Option<PathBuf>,
}

/// The keys and issuers of service account tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TokenFiles {
    /// The issuers whose tokens are accepted; the first one issues. Empty for the default.
    pub(crate) issuers: Vec<String>,
    /// The audiences of the API server; empty for the issuers.
    pub(crate) audiences: Vec<String>,
    /// The file of the key that signs; generated if there is none.
    pub(crate) signing_key: Option<PathBuf>,
    /// Files with public keys, private keys or certificates that verify.
    pub(crate) keys: Vec<PathBuf>,
    /// The URL of the keys in the document of the issuer; `None` for that of the server.
    pub(crate) jwks_uri: Option<String>,
    /// The longest lifetime of a token, in seconds; `None` for no bound of its own.
    pub(crate) max_seconds: Option<i64>,
}

/// The range of Services' addresses. The first address is that of the API server's own Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    /// The first address.
    pub(crate) first: u32,
    /// The number of addresses, without the network's and the broadcast address.
    pub(crate) count: u32,
}

/// The reason why a text is no range of Services' addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidRange {
    /// The text has no IPv4 range.
    #[error("must be an IPv4 CIDR such as 10.96.0.0/16")]
    NoCidr,
    /// The range is too small.
    #[error("must contain at least 8 IP addresses")]
    TooSmall,
}

impl Addresses {
    /// Parses `--service-cluster-ip-range`. Of two ranges, the IPv4 range counts.
    ///
    /// # Errors
    /// If the range is no IPv4 CIDR with at least 8 addresses.
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidRange> {
        let wrong = || InvalidRange::NoCidr;
        let range = text.split(',').map(str::trim).find(|range| !range.contains(':')).ok_or_else(wrong)?;
        let (address, bits) = range.split_once('/').ok_or_else(wrong)?;
        let address: Ipv4Addr = address.parse().map_err(|_| wrong())?;
        let bits: u32 = bits.parse().ok().filter(|bits| *bits <= 32).ok_or_else(wrong)?;
        if bits > 29 {
            return Err(InvalidRange::TooSmall);
        }
        // `--service-cluster-ip-range` has at most 20 bits in kube-apiserver; more addresses would never be used.
        let size = 1_u32 << (32 - bits).min(20);
        let network = u32::from(address) & (u32::MAX << (32 - bits).min(31));
        Ok(Self { first: network + 1, count: size - 2 })
    }
}

impl Default for Addresses {
    /// 10.96.0.0/16, as with kubeadm but smaller.
    fn default() -> Self {
        Self { first: u32::from_be_bytes([10, 96, 0, 1]), count: (1 << 16) - 2 }
    }
}

/// `--runtime-config`: the switches of APIs, by `api/…`, version, or group and version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Apis {
    switches: BTreeMap<String, bool>,
}

/// A value of `--runtime-config` is no boolean.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid value {0}")]
pub(crate) struct InvalidSwitch(String);

impl Apis {
    /// Parses `name=bool,…`; a name without a value is switched on.
    ///
    /// # Errors
    /// If a value is no boolean.
    pub(crate) fn parse(values: &[String]) -> Result<Self, InvalidSwitch> {
        let mut switches = BTreeMap::new();
        for value in values {
            let (name, is_on) = value.split_once('=').unwrap_or((value, ""));
            let is_on = match is_on {
                "" => true,
                text => super::feature_gates::parse_bool(text).ok_or_else(|| InvalidSwitch(value.clone()))?,
            };
            switches.insert(name.to_owned(), is_on);
        }
        Ok(Self { switches })
    }

    /// Whether a version of a group is served, if it is served by default (`resourceconfig.MergeAPIResourceConfigs`). The name of the
    /// group version counts more than its stability.
    pub(crate) fn serves(&self, group: &str, version: &str) -> bool {
        let name = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let stability = match version {
            version if version.contains("alpha") => "api/alpha",
            version if version.contains("beta") => "api/beta",
            _ => "api/ga",
        };
        [name.as_str(), stability, "api/all"].iter().find_map(|key| self.switches.get(*key).copied()).unwrap_or(true)
    }

    /// The group versions that are switched on by their names.
    pub(crate) fn wanted(&self) -> impl Iterator<Item = (&str, &str)> {
        let named = self.switches.iter().filter(|(name, is_on)| **is_on && !name.starts_with("api/"));
        named.map(|(name, _)| name.split_once('/').unwrap_or(("", name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_its_addresses_without_the_first_and_the_last() {
        let first = |a, b, c, d| u32::from_be_bytes([a, b, c, d]);
        for (text, expected) in [
            ("10.0.0.0/24", Some((first(10, 0, 0, 1), 254))),
            ("10.1.2.3/29", Some((first(10, 1, 2, 1), 6))),
            ("fd00::/108,10.0.0.0/24", Some((first(10, 0, 0, 1), 254))),
            ("10.0.0.0/8", Some((first(10, 0, 0, 1), (1 << 20) - 2))),
            ("10.0.0.0/30", None),
            ("10.0.0.0", None),
            ("fd00::/108", None),
            ("10.0.0.0/33", None),
        ] {
            let parsed = Addresses::parse(text).ok().map(|range| (range.first, range.count));
            assert_eq!(parsed, expected, "{text}");
        }
        assert_eq!(Addresses::parse("10.96.0.0/16"), Ok(Addresses::default()));
    }

    #[test]
    fn an_api_is_switched_by_name_before_its_stability() {
        let parse = |text: &str| Apis::parse(&text.split(',').map(str::to_owned).collect::<Vec<_>>()).unwrap();
        assert!(Apis::default().serves("apps", "v1"));
        assert!(!parse("apps/v1=false").serves("apps", "v1"));
        assert!(!parse("api/ga=false").serves("", "v1"));
        let apis = parse("api/all=false,v1=true,batch/v1");
        assert!(apis.serves("", "v1") && apis.serves("batch", "v1") && !apis.serves("apps", "v1"));
        assert_eq!(apis.wanted().collect::<Vec<_>>(), [("batch", "v1"), ("", "v1")]);
        assert!(Apis::parse(&["apps/v1=maybe".to_owned()]).is_err());
    }
}
