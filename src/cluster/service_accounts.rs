//! The cached fields of a ServiceAccount, in a compact form: every namespace has a service account.

use super::Need;
use super::cache::{Projection, namespaced_key};
use k8s_openapi::api::core::v1::ServiceAccount as KubeServiceAccount;

/// The fields of a ServiceAccount that plugins read, in a compact form.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ServiceAccount {
    pub(crate) uid: Box<str>,
    /// The field `automountServiceAccountToken`.
    pub(crate) automount_token: Option<bool>,
    /// The annotation `kubernetes.io/enforce-mountable-secrets`; empty if it is missing.
    pub(crate) enforce_mountable_secrets: Box<str>,
    /// The names of the secrets that pods with this service account may mount.
    pub(crate) secrets: Box<[Box<str>]>,
    /// The names of the image pull secrets.
    pub(crate) image_pull_secrets: Box<[Box<str>]>,
}

impl Projection for ServiceAccount {
    const NEED: Need = Need::SERVICE_ACCOUNTS;
    const FIELDS: &'static [&'static str] = &[
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "metadata.annotations",
        "automountServiceAccountToken",
        "secrets",
        "imagePullSecrets",
    ];
    type Object = KubeServiceAccount;

    fn project(object: KubeServiceAccount) -> (String, Self) {
        let KubeServiceAccount { metadata, automount_service_account_token: automount_token, .. } = object;
        let annotation = metadata.annotations.and_then(|mut all| all.remove("kubernetes.io/enforce-mountable-secrets"));
        let secrets = object.secrets.into_iter().flatten().map(|secret| secret.name.unwrap_or_default().into());
        let pull_secrets = object.image_pull_secrets.into_iter().flatten().map(|secret| secret.name.into());
        let account = Self {
            uid: metadata.uid.unwrap_or_default().into(),
            automount_token,
            enforce_mountable_secrets: annotation.unwrap_or_default().into(),
            secrets: secrets.collect(),
            image_pull_secrets: pull_secrets.collect(),
        };
        (namespaced_key(&metadata.namespace.unwrap_or_default(), &metadata.name.unwrap_or_default()), account)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn keeps_what_plugins_read() {
        let object = json!({
            "metadata": {"name": "a", "namespace": "n", "uid": "u", "labels": {"l": "1"},
                "annotations": {"kubernetes.io/enforce-mountable-secrets": "t", "other": "x"}},
            "automountServiceAccountToken": false, "secrets": [{"name": "s"}, {}], "imagePullSecrets": [{"name": "p"}]
        });
        let account = ServiceAccount {
            uid: "u".into(),
            automount_token: Some(false),
            enforce_mountable_secrets: "t".into(),
            secrets: ["s".into(), "".into()].into(),
            image_pull_secrets: ["p".into()].into(),
        };
        assert_eq!(ServiceAccount::project(from_value(object).unwrap()), ("n/a".to_owned(), account));
    }
}
