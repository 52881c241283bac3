//! The class of a claim or of an Ingress.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::cmp::Reverse;

/// The annotation with a claim's class, older than the field.
pub(in crate::plugins) const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// The name of the default class: the newest class that an annotation marks as default; among equally new classes, the first by name.
pub(in crate::plugins) fn default_class<'a>(
    classes: impl Iterator<Item = &'a ObjectMeta>,
    annotations: &[&str],
) -> Option<&'a str> {
    let is_default = |class: &&ObjectMeta| {
        let given = class.annotations.as_ref();
        annotations.iter().any(|key| given.and_then(|given| given.get(*key)).is_some_and(|value| value == "true"))
    };
    let defaults = classes.filter(is_default);
    let newest = defaults.max_by_key(|class| (class.creation_timestamp.clone(), Reverse(class.name.clone())))?;
    newest.name.as_deref()
}
