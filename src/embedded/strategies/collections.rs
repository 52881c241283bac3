//! The collections that the server itself reads or writes.

use crate::embedded::store::Collection;

pub(in crate::embedded) const NAMESPACES: &Collection = &Collection::built_in("", "namespaces");
pub(in crate::embedded) const PODS: &Collection = &Collection::built_in("", "pods");
pub(in crate::embedded) const SERVICES: &Collection = &Collection::built_in("", "services");
pub(in crate::embedded) const ENDPOINTS: &Collection = &Collection::built_in("", "endpoints");
pub(in crate::embedded) const SLICES: &Collection = &Collection::built_in("discovery.k8s.io", "endpointslices");
pub(in crate::embedded) const NODES: &Collection = &Collection::built_in("", "nodes");
pub(in crate::embedded) const SECRETS: &Collection = &Collection::built_in("", "secrets");
pub(in crate::embedded) const SERVICE_ACCOUNTS: &Collection = &Collection::built_in("", "serviceaccounts");
pub(in crate::embedded) const CONFIG_MAPS: &Collection = &Collection::built_in("", "configmaps");
