//! Whose share of a bounded quantity a request draws on.
//!
//! All quantities that clients divide among themselves ask here, so that the names that a client makes at will (service accounts, addresses)
//! give the client no more than one name does.

use crate::user::UserInfo;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

/// The prefix of the names of service accounts (`serviceaccount.ServiceAccountUsernamePrefix`).
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
/// The namespace of the controllers of the cluster. Who makes service accounts there has every right anyway, and the controllers need shares of
/// their own (`bootstrap.SuggestedFlowSchemaKubeSystemServiceAccounts`).
const OF_CLUSTER: &str = "kube-system";
/// The bits of an IPv6 address that a network assigns; the owner of the network chooses the others.
const NETWORK_BITS: u32 = 64;
/// Service accounts leave one part in so many of each quantity to users.
const RESERVED_PART: usize = 4;

/// The owner of a share.
#[derive(Clone, Debug)]
pub(crate) enum Sharer {
    /// A user. The service accounts of a namespace are one user.
    User(Arc<UserInfo>),
    /// The members of a tenant, together.
    Tenant(Arc<str>),
    /// The clients of an address that have no name.
    Address(IpAddr),
    /// A server that the proxy calls for others, by its base URL.
    Server(Arc<str>),
}

/// How the users of one tenant share the quantities of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Each user is a sharer, because the process has one tenant.
    #[default]
    ByUser,
    /// All users of the tenant of this name are one sharer, beside those of other tenants.
    AsTenant(Arc<str>),
}

impl Sharing {
    /// Returns the sharer of a user's request in quantities of the process.
    pub(crate) fn of(&self, user: &Arc<UserInfo>) -> Sharer {
        self.as_tenant().unwrap_or_else(|| Sharer::User(user.clone()))
    }

    /// Returns the sharer that all users of the tenant are together; `None` if the process has one tenant, to which everything is left.
    pub(crate) fn as_tenant(&self) -> Option<Sharer> {
        self.name().map(|name| Sharer::Tenant(name.clone()))
    }

    /// Returns the name of the tenant, if it is one of several.
    pub(crate) fn name(&self) -> Option<&Arc<str>> {
        match self {
            Self::ByUser => None,
            Self::AsTenant(name) => Some(name),
        }
    }
}

impl fmt::Display for Sharer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key() {
            Key::User(name) | Key::Tenant(name) | Key::Server(name) => f.write_str(name),
            Key::ServiceAccounts(namespace) => write!(f, "{SERVICE_ACCOUNT}{namespace}:*"),
            Key::Address(address) => address.fmt(f),
        }
    }
}

/// The identity of a sharer.
#[derive(PartialEq, Eq, Hash)]
enum Key<'a> {
    User(&'a str),
    ServiceAccounts(&'a str),
    Tenant(&'a str),
    Address(IpAddr),
    Server(&'a str),
}

impl Sharer {
    /// Returns the sharer of a user of whom only the name is at hand.
    pub(crate) fn named(username: &str) -> Self {
        Self::User(Arc::new(UserInfo { username: username.to_owned(), ..UserInfo::default() }))
    }

    /// Returns the sharer of a client's address: an IPv6 network of 64 bits is one address, and an IPv4-mapped IPv6 address is the IPv4
    /// address.
    pub(crate) fn of_address(address: IpAddr) -> Self {
        Self::Address(whole(address))
    }

    /// Whether the sharer is the service accounts of a namespace, which together leave the reserve to users.
    pub(crate) fn is_service_accounts(&self) -> bool {
        matches!(self.key(), Key::ServiceAccounts(_))
    }

    fn key(&self) -> Key<'_> {
        match self {
            Self::User(user) => match namespace_of(&user.username) {
                Some(namespace) => Key::ServiceAccounts(namespace),
                None => Key::User(&user.username),
            },
            Self::Tenant(name) => Key::Tenant(name),
            Self::Address(address) => Key::Address(*address),
            Self::Server(url) => Key::Server(url),
        }
    }
}

impl PartialEq for Sharer {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Sharer {}

impl Hash for Sharer {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

/// Returns the part of a quantity that service accounts may have together.
pub(crate) fn of_service_accounts(all: usize) -> usize {
    all - all / RESERVED_PART
}

/// Returns the namespace of a service account that shares with its namespace.
fn namespace_of(username: &str) -> Option<&str> {
    let (namespace, _name) = username.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')?;
    (namespace != OF_CLUSTER).then_some(namespace)
}

/// Returns the address that stands for all addresses of a client's network.
pub(crate) fn whole(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> NETWORK_BITS << NETWORK_BITS).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_client_makes_at_will_are_one_sharer() {
        for (one, other, is_same) in [
            ("alice", "alice", true),
            ("alice", "bob", false),
            ("system:serviceaccount:a:one", "system:serviceaccount:a:two", true),
            ("system:serviceaccount:a:one", "system:serviceaccount:b:one", false),
            ("system:serviceaccount:a:one", "a", false),
            // Not the name of a service account.
            ("system:serviceaccount:a:one", "system:serviceaccount:a", false),
            ("system:serviceaccount:kube-system:one", "system:serviceaccount:kube-system:two", false),
        ] {
            assert_eq!(Sharer::named(one) == Sharer::named(other), is_same, "{one} {other}");
        }
        let address = |text: &str| Sharer::of_address(text.parse().unwrap());
        for (one, other, is_same) in [
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.2", false),
            ("10.0.0.1", "::ffff:10.0.0.1", true),
            ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", true),
            ("2001:db8:0:1::1", "2001:db8:0:2::1", false),
        ] {
            assert_eq!(address(one) == address(other), is_same, "{one} {other}");
        }
    }

    #[test]
    fn a_tenant_is_no_user_of_its_name() {
        let tenant = Sharer::Tenant("blue".into());
        assert!(tenant != Sharer::named("blue") && tenant == Sharer::Tenant("blue".into()));
        assert!(Sharer::named("10.0.0.1") != Sharer::of_address([10, 0, 0, 1].into()));
        let user = Arc::new(UserInfo { username: "alice".to_owned(), ..UserInfo::default() });
        assert!(Sharing::ByUser.of(&user) == Sharer::named("alice"));
        assert!(Sharing::AsTenant("blue".into()).of(&user) == tenant);
    }

    #[test]
    fn only_service_accounts_leave_the_reserve() {
        for (name, leaves) in [
            ("system:serviceaccount:a:one", true),
            ("system:serviceaccount:kube-system:one", false),
            ("alice", false),
            ("system:node:one", false),
        ] {
            assert_eq!(Sharer::named(name).is_service_accounts(), leaves, "{name}");
        }
        assert_eq!([0, 1, 3, 4, 200].map(of_service_accounts), [0, 1, 3, 3, 150]);
    }
}
