//! What is kept of a ServiceAccount: every namespace has one.

use super::Need;
use super::cache::{Projection, namespaced_key};
use k8s_openapi::api::core::v1::ServiceAccount as KubeServiceAccount;

/// What plugins read of a ServiceAccount, in as little room as it takes.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ServiceAccount {
    /// Its uid.
    pub(crate) uid: Box<str>,
    /// Whether its pods have a token, where it says so.
    pub(crate) automount_token: Option<bool>,
    /// The annotation `kubernetes.io/enforce-mountable-secrets`; empty without it.
    pub(crate) enforce_mountable_secrets: Box<str>,
    /// The names of the secrets that its pods may mount.
    pub(crate) secrets: Box<[Box<str>]>,
    /// The names of the secrets that images are pulled with.
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
