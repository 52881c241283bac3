//! The tenants of which a caller is a member.

use super::profile::MemberKind;
use super::{DEFAULT, OPERATORS, TenantFile};
use crate::user::UserInfo;
use std::borrow::Borrow;
use std::collections::HashMap;
use std::path::PathBuf;

const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// The authority that vouches for a caller's name. A name counts only for the tenants that trust the authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The process: its client authorities, token file and front proxies. Every tenant trusts it.
    Process,
    /// The API server of this tenant, which has reviewed the caller's credentials. The tenants with the same API server trust it.
    ApiServer(usize),
    /// The client authorities of this tenant, which only the tenant trusts.
    Tenant(usize),
}

/// The tenants of a caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// The indices of the tenants, without `default`, sorted.
    pub(crate) tenants: Vec<usize>,
    /// Whether the caller is a member of `operators`.
    pub(crate) is_operator: bool,
}

impl Membership {
    /// Returns the tenants of a caller that acts as another user. Both must be members: impersonation leads into no other tenant, and out
    /// of none. An operator may act as any user, who is then no operator unless both are.
    ///
    /// `None` if the two have no tenant in common.
    #[must_use]
    pub(crate) fn acting_as(&self, other: &Self) -> Option<Self> {
        if self.is_operator {
            return Some(other.clone());
        }
        let tenants: Vec<usize> = self.tenants.iter().copied().filter(|index| other.tenants.contains(index)).collect();
        let is_of_none = self.tenants.is_empty() && other.tenants.is_empty() && !other.is_operator;
        (is_of_none || !tenants.is_empty()).then_some(Self { tenants, is_operator: false })
    }
}

/// The members of all tenants.
#[derive(Clone, Debug, Default)]
pub struct Members {
    users: HashMap<Box<str>, Vec<usize>>,
    groups: HashMap<Box<str>, Vec<usize>>,
    /// Service accounts as `namespace:name`, and `namespace:*`. Their names mean the same only at one API server.
    service_accounts: HashMap<Box<str>, Vec<usize>>,
    /// The API server of each tenant, by index.
    upstreams: Vec<usize>,
    operators: Option<usize>,
    default: Option<usize>,
}

impl Members {
    /// Creates the index; a tenant is identified by its index.
    pub fn new(tenants: &[impl Borrow<TenantFile>]) -> Self {
        let mut members = Self::default();
        let mut upstreams: HashMap<Option<PathBuf>, usize> = HashMap::new();
        for (index, tenant) in tenants.iter().map(Borrow::borrow).enumerate() {
            let next = upstreams.len();
            members.upstreams.push(*upstreams.entry(tenant.kubeconfig()).or_insert(next));
            match &*tenant.name {
                OPERATORS => members.operators = Some(index),
                DEFAULT => members.default = Some(index),
                _ => {}
            }
            for member in &tenant.profile.members {
                let (map, name) = match member.kind {
                    MemberKind::User => (&mut members.users, member.name.clone()),
                    MemberKind::Group => (&mut members.groups, member.name.clone()),
                    MemberKind::ServiceAccount => {
                        (&mut members.service_accounts, format!("{}:{}", member.namespace, member.name))
                    }
                };
                map.entry(name.into()).or_default().push(index);
            }
        }
        members
    }

    /// Whether two tenants have the same API server.
    pub(crate) fn share_upstream(&self, one: usize, other: usize) -> bool {
        self.upstreams.get(one) == self.upstreams.get(other)
    }

    /// Returns the tenants of a user for whom this authority vouches.
    pub fn of(&self, user: &UserInfo, origin: Origin) -> Membership {
        let mut tenants: Vec<usize> = Vec::new();
        tenants.extend(self.users.get(&*user.username).into_iter().flatten());
        for group in &user.groups {
            tenants.extend(self.groups.get(&**group).into_iter().flatten());
        }
        if let Some(account) = user.username.strip_prefix(SERVICE_ACCOUNT)
            && let Some((namespace, _)) = account.split_once(':')
        {
            tenants.extend(self.service_accounts.get(account).into_iter().flatten());
            tenants.extend(self.service_accounts.get(&*format!("{namespace}:*")).into_iter().flatten());
        }
        tenants.retain(|index| match origin {
            Origin::Process => true,
            Origin::ApiServer(of) => self.share_upstream(*index, of),
            Origin::Tenant(of) => *index == of,
        });
        tenants.sort_unstable();
        tenants.dedup();
        let is_operator = self.operators.is_some_and(|operators| tenants.contains(&operators));
        Membership { tenants, is_operator }
    }
}
