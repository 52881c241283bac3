//! Tables: the output of `kubectl get`. The server makes the cells, kubectl only lays them out.
//!
//! Columns are recorded from kube-apiserver; cells follow its printers (`pkg/printers/internalversion`), which always
//! fill the columns of `-o wide` too. Kinds without a printer get name and creation time, as in
//! `rest.NewDefaultTableConvertor`.

mod view;
mod duration;
mod quantity;
mod selectors;
mod pods;
mod workloads;
mod autoscaling;
mod scale;
mod networking;
mod storage;
mod cluster;
mod events;
mod custom;

use super::catalog::ServedResource;
use crate::object::release;
pub(in crate::embedded) use scale::scale_table;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use view::View;

/// The part of each object that its row contains (`includeObject` of the request).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    /// The metadata, as a PartialObjectMetadata: the default.
    #[default]
    Metadata,
    /// The whole object.
    Object,
    /// No part.
    None,
}

impl IncludeObject {
    /// Parses the query parameter; `None` for an unknown value.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "Metadata" => Some(Self::Metadata),
            "Object" => Some(Self::Object),
            "None" => Some(Self::None),
            _ => None,
        }
    }
}

/// The `meta.k8s.io/v1` Table of objects of a resource: of a list if there is list metadata, otherwise of one object.
pub(crate) fn table(
    resource: &ServedResource,
    objects: &[Value],
    list_metadata: Option<&Map<String, Value>>,
    include_object: IncludeObject,
    now: jiff::Timestamp,
) -> Value {
    let mut in_order: Vec<&Value> = objects.iter().collect();
    if (&*resource.group, &*resource.name) == ("flowcontrol.apiserver.k8s.io", "flowschemas") {
        in_order.sort_by_key(|object| cluster::flow_schema_order(object));
    }
    let rows: Vec<Value> = in_order.into_iter().map(|object| row(resource, object, include_object, now)).collect();
    // The list of a printer is never nil; that of `rest.NewDefaultTableConvertor` is, without objects.
    let rows = if rows.is_empty() && !has_printer(resource) { Value::Null } else { Value::Array(rows) };
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata(objects, list_metadata),
        "columnDefinitions": column_definitions(resource),
        "rows": rows,
    })
}

/// The columns of a resource's table.
pub(crate) fn column_definitions(resource: &ServedResource) -> Value {
    if let Some(custom) = &resource.custom {
        return custom::columns(custom);
    }
    built_in_columns(resource).iter().map(definition).collect()
}

/// Whether the resource has columns of its own.
fn has_printer(resource: &ServedResource) -> bool {
    resource.custom.is_some() || built_in_columns(resource) != &UNKNOWN_COLUMNS[..]
}

fn built_in_columns(resource: &ServedResource) -> &'static [Column] {
    let recorded = RECORDED.columns.get(resource.path().as_str()).map(Vec::as_slice);
    let removed = || (resource.name == "podsecuritypolicies").then_some(&POD_SECURITY_POLICY_COLUMNS[..]);
    recorded.or_else(removed).unwrap_or(&UNKNOWN_COLUMNS)
}

fn definition(column: &Column) -> Value {
    let of_the_name = || RECORDED.descriptions.get(column.name).map(String::as_str);
    json!({
        "name": column.name,
        "type": column.kind,
        "format": column.format,
        "description": column.description.as_deref().or_else(of_the_name).unwrap_or_default(),
        "priority": column.priority,
    })
}

/// A column, which is in the recorded data an array of these fields.
#[derive(Debug, PartialEq, Deserialize)]
struct Column {
    name: &'static str,
    kind: &'static str,
    format: &'static str,
    /// Columns of priority 1 are shown with `-o wide`.
    priority: u8,
    /// `None` for the description that most columns of the name have.
    #[serde(default)]
    description: Option<Cow<'static, str>>,
}

impl Column {
    const fn new(name: &'static str, kind: &'static str, format: &'static str) -> Self {
        Self { name, kind, format, priority: 0, description: None }
    }

    const fn text(name: &'static str, description: &'static str) -> Self {
        Self { name, kind: "string", format: "", priority: 0, description: Some(Cow::Borrowed(description)) }
    }
}

/// The columns of kube-apiserver.
#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 'static"))]
struct Recorded {
    /// The description that most columns of a name have, by the name.
    descriptions: BTreeMap<&'static str, String>,
    /// The columns of each resource, by its path.
    columns: BTreeMap<&'static str, Vec<Column>>,
}

static RECORDED: LazyLock<Recorded> = LazyLock::new(|| {
    let own = release::lines(include_str!("../data/tables.json")).collect::<String>();
    serde_json::from_str(own.leak()).expect("the recorded columns are well-formed")
});

static UNKNOWN_COLUMNS: [Column; 2] = [Column::new("Name", "string", "name"), Column::new("Created At", "date", "")];

/// The columns of PodSecurityPolicies in Kubernetes 1.24.
static POD_SECURITY_POLICY_COLUMNS: [Column; 9] = [
    Column::new("Name", "string", "name"),
    Column::text("Priv", "privileged determines if a pod can request to be run as privileged."),
    Column::text(
        "Caps",
        "allowedCapabilities is a list of capabilities that can be requested to add to the container. Capabilities in this field may be \
         added at the pod author's discretion. You must not list a capability in both allowedCapabilities and requiredDropCapabilities.",
    ),
    Column::text("SELinux", "seLinux is the strategy that will dictate the allowable labels that may be set."),
    Column::text(
        "RunAsUser",
        "runAsUser is the strategy that will dictate the allowable RunAsUser values that may be set.",
    ),
    Column::text("FsGroup", "fsGroup is the strategy that will dictate what fs group is used by the SecurityContext."),
    Column::text(
        "SupGroup",
        "supplementalGroups is the strategy that will dictate what supplemental groups are used by the SecurityContext.",
    ),
    Column::text(
        "ReadOnlyRootFs",
        "readOnlyRootFilesystem when set to true will force containers to run with a read only root file system.  If the container \
         specifically requests to run with a non-read only root file system the PSP should deny the pod. If set to false the container \
         may run with a read only root file system if it wishes but it will not be forced to.",
    ),
    Column::text(
        "Volumes",
        "volumes is an allowlist of volume plugins. Empty indicates that no volumes may be used. To allow all volumes you may use '*'.",
    ),
];

fn metadata(objects: &[Value], list_metadata: Option<&Map<String, Value>>) -> Value {
    let kept = |source: &Map<String, Value>, fields: &[&str]| -> Map<String, Value> {
        fields.iter().filter_map(|field| Some(((*field).to_owned(), source.get(*field)?.clone()))).collect()
    };
    match (list_metadata, objects) {
        (Some(list), _) => Value::Object(kept(list, &["resourceVersion", "continue", "remainingItemCount"])),
        (None, [object]) => {
            let metadata = object.get("metadata").and_then(Value::as_object);
            Value::Object(metadata.map(|metadata| kept(metadata, &["resourceVersion"])).unwrap_or_default())
        }
        (None, _) => json!({}),
    }
}

fn row(resource: &ServedResource, object: &Value, include_object: IncludeObject, now: jiff::Timestamp) -> Value {
    let view = View::new(object, now);
    let cells = match &resource.custom {
        Some(custom) => custom::cells(custom, object, now),
        None => cells(resource, view).unwrap_or_else(|| vec![view.name(), json!(view.created_at())]),
    };
    let mut row = row_of(cells, object, include_object);
    let conditions =
        (resource.group.is_empty() && resource.name == "pods").then(|| pods::row_conditions(view)).flatten();
    if let (Some(conditions), Some(row)) = (conditions, row.as_object_mut()) {
        row.insert("conditions".to_owned(), conditions);
    }
    row
}

/// The row of an object with these cells (`handlers.asTable`).
fn row_of(cells: Vec<Value>, object: &Value, include_object: IncludeObject) -> Value {
    // The bookmark at the end of the first events has its annotation whatever the client asks for.
    let is_end =
        || object.pointer("/metadata/annotations/k8s.io~1initial-events-end").is_some_and(|mark| mark == "true");
    let included = match include_object {
        IncludeObject::Object => object.clone(),
        IncludeObject::None if !is_end() => Value::Null,
        IncludeObject::None | IncludeObject::Metadata => json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({})),
        }),
    };
    json!({"cells": cells, "object": included})
}

/// The age of a time, for a cell.
pub(in crate::embedded) fn age(time: jiff::Timestamp, now: jiff::Timestamp) -> String {
    duration::human(now.duration_since(time))
}

/// The cells of an object by its kind's printer; `None` for kinds without a printer in kube-apiserver.
fn cells(resource: &ServedResource, object: View<'_>) -> Option<Vec<Value>> {
    Some(match (&*resource.group, &*resource.name) {
        ("", name) => return core_cells(name, object),
        ("apps" | "batch", name) => return workloads::cells(name, object),
        ("autoscaling", "horizontalpodautoscalers") => autoscaling::horizontal_pod_autoscaler(object),
        ("discovery.k8s.io", "endpointslices") => networking::endpoint_slice(object),
        ("networking.k8s.io", name) => return networking::cells(name, object),
        ("storage.k8s.io", name) => return storage::cells(name, object),
        ("events.k8s.io", "events") => events::event(object),
        ("policy" | "extensions", "podsecuritypolicies") => cluster::pod_security_policy(object),
        ("policy", "poddisruptionbudgets") => workloads::pod_disruption_budget(object),
        (
            "rbac.authorization.k8s.io"
            | "admissionregistration.k8s.io"
            | "certificates.k8s.io"
            | "coordination.k8s.io"
            | "flowcontrol.apiserver.k8s.io"
            | "node.k8s.io"
            | "resource.k8s.io"
            | "scheduling.k8s.io"
            | "apiregistration.k8s.io",
            name,
        ) => return cluster::cells(name, object),
        _ => return None,
    })
}

fn core_cells(name: &str, object: View<'_>) -> Option<Vec<Value>> {
    Some(match name {
        "pods" => pods::pod(object),
        "podtemplates" => workloads::pod_template(object),
        "replicationcontrollers" => workloads::replication_controller(object),
        "services" => networking::service(object),
        "endpoints" => networking::endpoints(object),
        "persistentvolumes" => storage::persistent_volume(object),
        "persistentvolumeclaims" => storage::persistent_volume_claim(object),
        "events" => events::event(object),
        "namespaces" | "nodes" | "configmaps" | "secrets" | "serviceaccounts" | "resourcequotas"
        | "componentstatuses" => {
            return cluster::core_cells(name, object);
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
