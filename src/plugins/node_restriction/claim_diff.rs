//! The difference of two claims in a refusal: a unified diff of Go's output of the internal type (`diff.Diff`).

mod unified;

use super::claims::Claim;
use crate::go_text::json;
use crate::object::quantity;
use k8s_openapi::api::core::v1::{PersistentVolumeClaimSpec, PersistentVolumeClaimStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference, Time};
use std::collections::BTreeMap;

/// Returns the diff of two claims.
pub(super) fn of(old: &Claim, new: &Claim) -> String {
    unified::of(&lines(old), &lines(new))
}

/// JSON with the fields in the order of Go's struct.
enum Json {
    /// A scalar in its JSON form.
    Plain(String),
    List(Vec<Json>),
    Fields(Vec<(String, Json)>),
}

const NULL: &str = "null";

fn lines(claim: &Claim) -> Vec<String> {
    let mut fields = metadata(&claim.metadata);
    fields.push(("Spec".to_owned(), spec(&claim.spec)));
    fields.push(("Status".to_owned(), status(&claim.status)));
    let mut lines = Vec::new();
    Json::Fields(fields).write(0, "", "", &mut lines);
    lines
}

impl Json {
    fn null() -> Self {
        Self::Plain(NULL.to_owned())
    }

    /// `json.MarshalIndent` with one space per level. `before` is the field's name, `after` the comma.
    fn write(&self, depth: usize, before: &str, after: &str, lines: &mut Vec<String>) {
        let indent = " ".repeat(depth);
        let (open, close, count) = match self {
            Self::Plain(text) => return lines.push(format!("{indent}{before}{text}{after}\n")),
            Self::List(items) => ("[", "]", items.len()),
            Self::Fields(fields) => ("{", "}", fields.len()),
        };
        if count == 0 {
            return lines.push(format!("{indent}{before}{open}{close}{after}\n"));
        }
        lines.push(format!("{indent}{before}{open}\n"));
        let comma = |index: usize| if index + 1 < count { "," } else { "" };
        match self {
            Self::Plain(_) => {}
            Self::List(items) => {
                items.iter().enumerate().for_each(|(index, item)| item.write(depth + 1, "", comma(index), lines));
            }
            Self::Fields(fields) => {
                for (index, (name, value)) in fields.iter().enumerate() {
                    value.write(depth + 1, &format!("{}: ", json::string(name)), comma(index), lines);
                }
            }
        }
        lines.push(format!("{indent}{close}{after}\n"));
    }
}

fn text(text: &str) -> Json {
    Json::Plain(json::string(text))
}

fn optional(value: &Option<String>) -> Json {
    value.as_deref().map_or_else(Json::null, text)
}

fn plain(value: &Option<String>) -> Json {
    text(value.as_deref().unwrap_or_default())
}

fn texts(list: &Option<Vec<String>>) -> Json {
    list.as_ref().map_or_else(Json::null, |list| Json::List(list.iter().map(|item| text(item)).collect()))
}

fn map(map: &BTreeMap<String, String>) -> Json {
    Json::Fields(map.iter().map(|(key, value)| (key.clone(), text(value))).collect())
}

fn amounts(amounts: &Option<BTreeMap<String, Quantity>>) -> Json {
    let amount = |amount: &Quantity| text(&quantity::canonical(&amount.0).unwrap_or_else(|_| amount.0.clone()));
    let all = |all: &BTreeMap<String, Quantity>| {
        Json::Fields(all.iter().map(|(key, value)| (key.clone(), amount(value))).collect())
    };
    amounts.as_ref().map_or_else(Json::null, all)
}

fn time(time: &Time) -> Json {
    Json::Plain(serde_json::to_string(time).unwrap_or_else(|_| NULL.to_owned()))
}

fn fields<const N: usize>(fields: [(&str, Json); N]) -> Json {
    Json::Fields(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// The fields with a value, under the given names.
fn given<const N: usize>(fields: [(&str, Option<Json>); N]) -> Vec<(String, Json)> {
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn metadata(metadata: &ObjectMeta) -> Vec<(String, Json)> {
    let one = |value: &Option<String>| value.as_deref().map(text);
    let number = |value: Option<i64>| value.map(|value| Json::Plain(value.to_string()));
    let owners = |owners: &Vec<OwnerReference>| Json::List(owners.iter().map(owner).collect());
    given([
        ("name", one(&metadata.name)),
        ("generateName", one(&metadata.generate_name)),
        ("namespace", one(&metadata.namespace)),
        ("selfLink", one(&metadata.self_link)),
        ("uid", one(&metadata.uid)),
        ("generation", number(metadata.generation)),
        ("creationTimestamp", metadata.creation_timestamp.as_ref().map(time)),
        ("deletionTimestamp", metadata.deletion_timestamp.as_ref().map(time)),
        ("deletionGracePeriodSeconds", number(metadata.deletion_grace_period_seconds)),
        ("labels", metadata.labels.as_ref().map(map)),
        ("annotations", metadata.annotations.as_ref().map(map)),
        ("ownerReferences", metadata.owner_references.as_ref().map(owners)),
        ("finalizers", metadata.finalizers.is_some().then(|| texts(&metadata.finalizers))),
    ])
}

fn owner(owner: &OwnerReference) -> Json {
    let flag = |flag: Option<bool>| flag.map(|flag| Json::Plain(flag.to_string()));
    Json::Fields(given([
        ("apiVersion", Some(text(&owner.api_version))),
        ("kind", Some(text(&owner.kind))),
        ("name", Some(text(&owner.name))),
        ("uid", Some(text(&owner.uid))),
        ("controller", flag(owner.controller)),
        ("blockOwnerDeletion", flag(owner.block_owner_deletion)),
    ]))
}

fn spec(spec: &PersistentVolumeClaimSpec) -> Json {
    let resources = spec.resources.clone().unwrap_or_default();
    let source = spec.data_source.as_ref().map_or_else(Json::null, |source| {
        fields([("APIGroup", optional(&source.api_group)), ("Kind", text(&source.kind)), ("Name", text(&source.name))])
    });
    let source_ref = spec.data_source_ref.as_ref().map_or_else(Json::null, |source| {
        fields([
            ("APIGroup", optional(&source.api_group)),
            ("Kind", text(&source.kind)),
            ("Name", text(&source.name)),
            ("Namespace", optional(&source.namespace)),
        ])
    });
    fields([
        ("AccessModes", texts(&spec.access_modes)),
        ("Selector", spec.selector.as_ref().map_or_else(Json::null, selector)),
        ("Resources", fields([("Limits", amounts(&resources.limits)), ("Requests", amounts(&resources.requests))])),
        ("VolumeName", plain(&spec.volume_name)),
        ("StorageClassName", optional(&spec.storage_class_name)),
        ("VolumeMode", optional(&spec.volume_mode)),
        ("DataSource", source),
        ("DataSourceRef", source_ref),
        ("VolumeAttributesClassName", optional(&spec.volume_attributes_class_name)),
    ])
}

fn selector(selector: &LabelSelector) -> Json {
    let expressions = selector.match_expressions.as_ref().map(|expressions| {
        let one = |expression: &k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement| {
            let values = expression.values.as_ref().filter(|values| !values.is_empty());
            Json::Fields(given([
                ("key", Some(text(&expression.key))),
                ("operator", Some(text(&expression.operator))),
                ("values", values.map(|values| Json::List(values.iter().map(|value| text(value)).collect()))),
            ]))
        };
        Json::List(expressions.iter().map(one).collect())
    });
    Json::Fields(given([("matchLabels", selector.match_labels.as_ref().map(map)), ("matchExpressions", expressions)]))
}

fn status(status: &PersistentVolumeClaimStatus) -> Json {
    let modified = status.modify_volume_status.as_ref().map_or_else(Json::null, |modified| {
        fields([
            ("TargetVolumeAttributesClassName", plain(&modified.target_volume_attributes_class_name)),
            ("Status", text(&modified.status)),
        ])
    });
    fields([
        ("Phase", plain(&status.phase)),
        ("AccessModes", texts(&status.access_modes)),
        ("Capacity", Json::null()),
        ("Conditions", Json::null()),
        ("AllocatedResources", Json::null()),
        ("AllocatedResourceStatuses", Json::null()),
        ("CurrentVolumeAttributesClassName", optional(&status.current_volume_attributes_class_name)),
        ("ModifyVolumeStatus", modified),
    ])
}
