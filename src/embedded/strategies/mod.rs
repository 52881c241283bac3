//! What is particular to a kind: a [`Strategy`] with a line in [`ALL`], as in kube-apiserver (`rest.RESTCreateStrategy`,
//! `rest.RESTUpdateStrategy`, …). A kind without a line has the defaults.
//!
//! The verbs ask the strategy of the kind, and never compare a group or a name. A strategy knows nothing of HTTP: it reads the store, changes
//! the object, and adds tasks for the controllers.

pub(in crate::embedded) mod metadata;
pub(in crate::embedded) mod owners;
pub(in crate::embedded) mod collections;
pub(in crate::embedded) mod fields;
mod context;
mod disabled;
mod delete_options;
mod strategy;
mod privileged;
pub(in crate::embedded) mod validation;
pub(in crate::embedded) mod deletion;

pub(in crate::embedded) mod contents;
mod config_maps;
mod events;
mod limit_ranges;
pub(in crate::embedded) mod namespaces;
mod nodes;
mod persistent_volumes;
pub(in crate::embedded) mod pods;
mod secrets;
mod service_accounts;
pub(in crate::embedded) mod services;
mod endpoints;
mod workloads;
mod daemon_sets;
mod certificate_signing_requests;
mod leases;
mod networking;
mod policy_status;
mod registrations;
mod devices;
mod priority_classes;
mod csi_drivers;
mod roles;
pub(in crate::embedded) mod api_services;
pub(in crate::embedded) mod definitions;
mod removed;
mod custom_objects;

use super::api::catalog::ServedResource;
use super::store::Collection;
use crate::object::Object;
use crate::object::kinds::is_built_in_group;
use crate::object::validation::drop_old_forms;
use crate::status::Status;
pub(in crate::embedded) use context::{Context, Silent, Warn};
use std::collections::HashMap;
use std::sync::LazyLock;
pub(in crate::embedded) use strategy::Following;
use strategy::Strategy;

/// The strategy of a kind.
struct Kind {
    /// The API group in which the objects are stored.
    group: &'static str,
    /// The plural name.
    resource: &'static str,
    strategy: &'static dyn Strategy,
}

const fn kind(group: &'static str, resource: &'static str, strategy: &'static dyn Strategy) -> Kind {
    Kind { group, resource, strategy }
}

const RBAC: &str = "rbac.authorization.k8s.io";
const REGISTRATION: &str = "admissionregistration.k8s.io";

/// The kinds that differ from the defaults.
static ALL: [Kind; 47] = [
    kind("", "configmaps", &config_maps::ConfigMaps),
    kind("", "endpoints", &endpoints::Endpoints),
    kind("", "events", &events::Events),
    kind("", "limitranges", &limit_ranges::LimitRanges),
    kind("", "namespaces", &namespaces::Namespaces),
    kind("", "nodes", &nodes::Nodes),
    kind("", "persistentvolumeclaims", &persistent_volumes::PersistentVolumeClaims),
    kind("", "persistentvolumes", &persistent_volumes::PersistentVolumes),
    kind("", "pods", &pods::Pods),
    kind("", "podtemplates", &workloads::PodTemplates),
    kind("", "replicationcontrollers", &workloads::ReplicationControllers),
    kind("", "secrets", &secrets::Secrets),
    kind("", "serviceaccounts", &service_accounts::ServiceAccounts),
    kind("", "services", &services::Services),
    kind("apps", "daemonsets", &daemon_sets::DaemonSets),
    kind("apps", "deployments", &workloads::Deployments),
    kind("apps", "replicasets", &workloads::ReplicaSets),
    kind("apps", "statefulsets", &workloads::StatefulSets),
    kind("batch", "cronjobs", &workloads::CronJobs),
    kind("batch", "jobs", &workloads::Jobs),
    kind(
        "certificates.k8s.io",
        "certificatesigningrequests",
        &certificate_signing_requests::CertificateSigningRequests,
    ),
    kind("coordination.k8s.io", "leases", &leases::Leases),
    kind("discovery.k8s.io", "endpointslices", &endpoints::EndpointSlices),
    kind("networking.k8s.io", "ingresses", &networking::Ingresses),
    kind("networking.k8s.io", "networkpolicies", &networking::NetworkPolicies),
    kind("resource.k8s.io", "deviceclasses", &devices::Devices),
    kind("resource.k8s.io", "resourceclaims", &devices::ResourceClaims),
    kind("resource.k8s.io", "resourceclaimtemplates", &devices::Devices),
    kind("resource.k8s.io", "resourceslices", &devices::ResourceSlices),
    kind("scheduling.k8s.io", "priorityclasses", &priority_classes::PriorityClasses),
    kind("storage.k8s.io", "csidrivers", &csi_drivers::CsiDrivers),
    kind(RBAC, "clusterrolebindings", &roles::Bindings),
    kind(RBAC, "clusterroles", &roles::Roles),
    kind(RBAC, "rolebindings", &roles::Bindings),
    kind(RBAC, "roles", &roles::Roles),
    kind(REGISTRATION, "mutatingadmissionpolicies", &registrations::Registrations),
    kind(REGISTRATION, "mutatingadmissionpolicybindings", &registrations::Registrations),
    kind(REGISTRATION, "mutatingwebhookconfigurations", &registrations::WebhookConfigurations),
    kind(REGISTRATION, "validatingadmissionpolicies", &registrations::ValidatingAdmissionPolicies),
    kind(REGISTRATION, "validatingadmissionpolicybindings", &registrations::Registrations),
    kind(REGISTRATION, "validatingwebhookconfigurations", &registrations::WebhookConfigurations),
    kind("apiextensions.k8s.io", "customresourcedefinitions", &definitions::Definitions),
    kind("apiregistration.k8s.io", "apiservices", &api_services::ApiServices),
    kind(REGISTRATION, "externaladmissionhookconfigurations", &removed::Removed),
    kind(REGISTRATION, "initializerconfigurations", &removed::Removed),
    kind("settings.k8s.io", "podpresets", &removed::Removed),
    kind("policy", "podsecuritypolicies", &removed::Removed),
];

static INDEX: LazyLock<HashMap<(&str, &str), &'static dyn Strategy>> =
    LazyLock::new(|| ALL.iter().map(|kind| ((kind.group, kind.resource), kind.strategy)).collect());

/// The strategy of a resource.
pub(in crate::embedded) fn of(resource: &ServedResource) -> &'static dyn Strategy {
    match resource.custom {
        Some(_) => &custom_objects::CustomObjects,
        None => of_collection(&resource.collection),
    }
}

/// The strategy of the objects of a collection.
pub(in crate::embedded) fn of_collection(collection: &Collection) -> &'static dyn Strategy {
    match INDEX.get(&(&*collection.group, &*collection.resource)) {
        Some(strategy) => *strategy,
        None if !is_built_in_group(&collection.group) => &custom_objects::CustomObjects,
        None => &strategy::Plain,
    }
}

/// Prepares a new object for its validation; `object` is in its stored form.
///
/// # Errors
/// Those of the kind.
pub(in crate::embedded) fn prepare(context: &Context<'_>, object: &mut Object) -> Result<(), Status> {
    let strategy = of(context.resource);
    if context.resource.subresource("status").is_some() && !strategy.keeps_status() {
        object.fields_mut().remove("status");
    }
    disabled::drop_fields(&context.settings.gates, strategy.disabled_fields(), strategy.pod_spec(), object, None);
    drop_old_forms(&context.resource.gvk(), object, None);
    strategy.prepare_for_create(context, object)
}

/// Prepares an update for its validation. Returns whether it counts as one of the object's generation, whatever else it changes.
///
/// # Errors
/// Those of the kind.
pub(in crate::embedded) fn prepare_for_update(
    context: &Context<'_>,
    object: &mut Object,
    current: &Object,
) -> Result<bool, Status> {
    let strategy = of(context.resource);
    disabled::drop_fields(
        &context.settings.gates,
        strategy.disabled_fields(),
        strategy.pod_spec(),
        object,
        Some(current),
    );
    drop_old_forms(&context.resource.gvk(), object, Some(current));
    strategy.prepare_for_update(context, object, current)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::api::{catalog, removed};
    use std::collections::HashSet;

    #[test]
    fn each_line_is_a_served_kind_of_its_own() {
        let served = catalog::resources().iter().map(|resource| &**resource).chain(removed::resources());
        let served: HashSet<&Collection> = served.map(|resource| &resource.collection).collect();
        for kind in &ALL {
            assert!(
                served.contains(&Collection::built_in(kind.group, kind.resource)),
                "{} {}",
                kind.group,
                kind.resource
            );
        }
        assert_eq!(INDEX.len(), ALL.len());
    }
}
