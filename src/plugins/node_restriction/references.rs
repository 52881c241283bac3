//! The API objects to which a pod refers (`podutil.HasAPIObjectReference`). A mirror pod must not refer to API objects.

use super::read;
use crate::go_text::go_quote;
use crate::object::Object;
use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar, PodSpec, Volume, VolumeProjection};
use serde_json::Value;

/// The reason why the references of a pod cannot be determined, with kube-apiserver's text.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct UnknownVolume(String);

/// The resource of the first reference, if the pod has a reference.
///
/// # Errors
/// If the pod's references cannot be determined.
pub(super) fn in_pod(pod: &Object) -> Result<Option<&'static str>, UnknownVolume> {
    let refused = |_| UnknownVolume("the spec is not that of a pod".to_owned());
    let spec: PodSpec = read::part(pod, &["spec"]).map_err(refused)?;
    let is_named = |name: &Option<String>| name.as_deref().is_some_and(|name| !name.is_empty());
    // `serviceAccount` is the former name of `serviceAccountName`; the API sets both to one value.
    if is_named(&spec.service_account_name) || is_named(&spec.service_account) {
        return Ok(Some("serviceaccounts"));
    }
    let volumes = spec.volumes.as_deref().unwrap_or_default();
    let pulls = spec.image_pull_secrets.iter().flatten().any(|secret| !secret.name.is_empty());
    if pulls || environments(&spec).any(|one| one.names_secret()) || volumes.iter().any(names_secret) {
        return Ok(Some("secrets"));
    }
    if environments(&spec).any(|one| one.names_config_map()) || volumes.iter().any(names_config_map) {
        return Ok(Some("configmaps"));
    }
    if spec.resource_claims.is_some_and(|claims| !claims.is_empty()) {
        return Ok(Some("resourceclaims"));
    }
    let stated = pod.items(&["spec", "volumes"]);
    for (volume, stated) in volumes.iter().zip(stated) {
        let found = in_volume(volume, stated)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// The sources of a container's environment.
struct ContainerEnvironment<'a> {
    variables: &'a Option<Vec<EnvVar>>,
    sources: &'a Option<Vec<EnvFromSource>>,
}

impl ContainerEnvironment<'_> {
    fn names_secret(&self) -> bool {
        let keys = self.variables.iter().flatten().filter_map(|variable| variable.value_from.as_ref());
        let keys = keys.filter_map(|source| source.secret_key_ref.as_ref()).map(|key| &key.name);
        let all = self.sources.iter().flatten().filter_map(|source| source.secret_ref.as_ref()).map(|all| &all.name);
        keys.chain(all).any(|name| !name.is_empty())
    }

    fn names_config_map(&self) -> bool {
        let keys = self.variables.iter().flatten().filter_map(|variable| variable.value_from.as_ref());
        let keys = keys.filter_map(|source| source.config_map_key_ref.as_ref()).map(|key| &key.name);
        let all =
            self.sources.iter().flatten().filter_map(|source| source.config_map_ref.as_ref()).map(|all| &all.name);
        keys.chain(all).any(|name| !name.is_empty())
    }
}

fn environments(spec: &PodSpec) -> impl Iterator<Item = ContainerEnvironment<'_>> {
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let containers = containers.map(|one| ContainerEnvironment { variables: &one.env, sources: &one.env_from });
    let ephemeral = spec.ephemeral_containers.iter().flatten();
    containers.chain(ephemeral.map(|one| ContainerEnvironment { variables: &one.env, sources: &one.env_from }))
}

fn projections(volume: &Volume) -> impl Iterator<Item = &VolumeProjection> {
    volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten())
}

/// `VisitPodSecretNames` for one volume.
fn names_secret(volume: &Volume) -> bool {
    let references = [
        volume.cephfs.as_ref().and_then(|source| source.secret_ref.as_ref()),
        volume.cinder.as_ref().and_then(|source| source.secret_ref.as_ref()),
        volume.flex_volume.as_ref().and_then(|source| source.secret_ref.as_ref()),
        volume.rbd.as_ref().and_then(|source| source.secret_ref.as_ref()),
        volume.scale_io.as_ref().map(|source| &source.secret_ref),
        volume.iscsi.as_ref().and_then(|source| source.secret_ref.as_ref()),
        volume.storageos.as_ref().and_then(|source| source.secret_ref.as_ref()),
        volume.csi.as_ref().and_then(|source| source.node_publish_secret_ref.as_ref()),
    ];
    let references = references.into_iter().flatten().map(|reference| &reference.name);
    let whole = volume.secret.iter().filter_map(|source| source.secret_name.as_ref());
    let shares = volume.azure_file.iter().map(|source| &source.secret_name);
    let projected = projections(volume).filter_map(|source| source.secret.as_ref()).map(|secret| &secret.name);
    references.chain(whole).chain(shares).chain(projected).any(|name| !name.is_empty())
}

/// `VisitPodConfigmapNames` for one volume.
fn names_config_map(volume: &Volume) -> bool {
    let whole = volume.config_map.iter().map(|source| &source.name);
    let projected = projections(volume).filter_map(|source| source.config_map.as_ref()).map(|map| &map.name);
    whole.chain(projected).any(|name| !name.is_empty())
}

/// The resource to which a volume of this type refers, even if the volume names no object.
fn in_volume(volume: &Volume, stated: &Value) -> Result<Option<&'static str>, UnknownVolume> {
    if reaches_no_object(volume) {
        return Ok(None);
    }
    if volume.projected.is_some() {
        return in_projections(volume);
    }
    let found = [
        (volume.config_map.is_some(), "configmaps (via configmap volumes)"),
        (volume.secret.is_some(), "secrets (via secret volumes)"),
        (volume.csi.is_some(), "csidrivers (via CSI volumes)"),
        (volume.glusterfs.is_some(), "endpoints (via glusterFS volumes)"),
        (volume.persistent_volume_claim.is_some(), "persistentvolumeclaims"),
        (volume.ephemeral.is_some(), "persistentvolumeclaims (via ephemeral volumes)"),
        (volume.azure_file.is_some(), "secrets (via azureFile volumes)"),
    ];
    if let Some((_, what)) = found.into_iter().find(|(is_that, _)| *is_that) {
        return Ok(Some(what));
    }
    // A volume without a type is an emptyDir. A volume with an unknown type may refer to any object.
    let says_more =
        stated.as_object().is_none_or(|fields| fields.iter().any(|(key, value)| key != "name" && !value.is_null()));
    match says_more {
        true => Err(UnknownVolume(format!("unknown volume type for volume  {}", go_quote(&volume.name)))),
        false => Ok(None),
    }
}

fn reaches_no_object(volume: &Volume) -> bool {
    [
        volume.aws_elastic_block_store.is_some(),
        volume.azure_disk.is_some(),
        volume.cephfs.is_some(),
        volume.cinder.is_some(),
        volume.downward_api.is_some(),
        volume.empty_dir.is_some(),
        volume.fc.is_some(),
        volume.flex_volume.is_some(),
        volume.flocker.is_some(),
        volume.gce_persistent_disk.is_some(),
        volume.git_repo.is_some(),
        volume.host_path.is_some(),
        volume.image.is_some(),
        volume.iscsi.is_some(),
        volume.nfs.is_some(),
        volume.photon_persistent_disk.is_some(),
        volume.portworx_volume.is_some(),
        volume.quobyte.is_some(),
        volume.rbd.is_some(),
        volume.scale_io.is_some(),
        volume.storageos.is_some(),
        volume.vsphere_volume.is_some(),
    ]
    .contains(&true)
}

fn in_projections(volume: &Volume) -> Result<Option<&'static str>, UnknownVolume> {
    for source in projections(volume) {
        let found = [
            (source.config_map.is_some(), "configmaps (via projected volumes)"),
            (source.secret.is_some(), "secrets (via projected volumes)"),
            (source.service_account_token.is_some(), "serviceaccounts (via projected volumes)"),
            (source.cluster_trust_bundle.is_some(), "clustertrustbundles"),
            (source.pod_certificate.is_some(), "podcertificates"),
        ];
        match found.into_iter().find(|(is_that, _)| *is_that) {
            Some((_, what)) => return Ok(Some(what)),
            None if source.downward_api.is_some() => {}
            None => {
                return Err(UnknownVolume(format!("unknown source for projected volume {}", go_quote(&volume.name))));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(spec: Value) -> Result<Option<&'static str>, String> {
        in_pod(&Object::from_value(json!({ "spec": spec })).unwrap()).map_err(|why| why.to_string())
    }

    fn of_volume(volume: Value) -> Result<Option<&'static str>, String> {
        let mut volume = volume;
        volume["name"] = "v".into();
        of(json!({ "volumes": [volume] }))
    }

    fn of_projection(source: Value) -> Result<Option<&'static str>, String> {
        of_volume(json!({"projected": {"sources": [{"downwardAPI": {}}, source]}}))
    }

    #[test]
    fn the_first_reference_counts() {
        let secret = json!([{"name": "s"}]);
        let container = |fields: Value| json!([fields]);
        let key = |of: &str| json!({"env": [{"name": "E", "valueFrom": {of: {"name": "n", "key": "k"}}}]});
        let all = |of: &str| json!({"envFrom": [{of: {"name": "n"}}]});
        let table = [
            (json!({"serviceAccountName": "a", "imagePullSecrets": secret}), Some("serviceaccounts")),
            (json!({"serviceAccount": "a"}), Some("serviceaccounts")),
            (json!({"imagePullSecrets": secret, "resourceClaims": [{"name": "c"}]}), Some("secrets")),
            (json!({"containers": container(key("secretKeyRef"))}), Some("secrets")),
            (json!({"initContainers": container(all("secretRef"))}), Some("secrets")),
            (json!({"ephemeralContainers": container(all("secretRef"))}), Some("secrets")),
            (json!({"containers": container(key("configMapKeyRef"))}), Some("configmaps")),
            (json!({"ephemeralContainers": container(all("configMapRef"))}), Some("configmaps")),
            (
                json!({"resourceClaims": [{"name": "c"}], "volumes": [{"name": "v", "csi": {"driver": "d"}}]}),
                Some("resourceclaims"),
            ),
            (json!({"containers": container(key("fieldRef")), "serviceAccountName": ""}), None),
            (json!({}), None),
        ];
        for (spec, found) in table {
            assert_eq!(of(spec.clone()), Ok(found), "{spec}");
        }
    }

    #[test]
    fn every_kind_of_volume_that_reaches_an_object_is_known() {
        let table = [
            (json!({"configMap": {"name": "n"}}), "configmaps"),
            (json!({"configMap": {}}), "configmaps (via configmap volumes)"),
            (json!({"secret": {"secretName": "n"}}), "secrets"),
            (json!({"secret": {}}), "secrets (via secret volumes)"),
            (json!({"csi": {"driver": "d"}}), "csidrivers (via CSI volumes)"),
            (json!({"csi": {"driver": "d", "nodePublishSecretRef": {"name": "n"}}}), "secrets"),
            (json!({"glusterfs": {"endpoints": "e", "path": "p"}}), "endpoints (via glusterFS volumes)"),
            (json!({"persistentVolumeClaim": {"claimName": "c"}}), "persistentvolumeclaims"),
            (json!({"ephemeral": {}}), "persistentvolumeclaims (via ephemeral volumes)"),
            (json!({"azureFile": {"secretName": "n", "shareName": "s"}}), "secrets"),
            (json!({"azureFile": {"shareName": "s"}}), "secrets (via azureFile volumes)"),
            (json!({"rbd": {"monitors": [], "image": "i", "secretRef": {"name": "n"}}}), "secrets"),
            (json!({"scaleIO": {"gateway": "g", "system": "s", "secretRef": {"name": "n"}}}), "secrets"),
            (json!({"flexVolume": {"driver": "d", "secretRef": {"name": "n"}}}), "secrets"),
        ];
        for (volume, found) in table {
            assert_eq!(of_volume(volume.clone()), Ok(Some(found)), "{volume}");
        }
        let table = [
            (json!({"configMap": {"name": "n"}}), "configmaps"),
            (json!({"configMap": {}}), "configmaps (via projected volumes)"),
            (json!({"secret": {"name": "n"}}), "secrets"),
            (json!({"secret": {}}), "secrets (via projected volumes)"),
            (json!({"serviceAccountToken": {"path": "t"}}), "serviceaccounts (via projected volumes)"),
            (json!({"clusterTrustBundle": {"path": "t"}}), "clustertrustbundles"),
            (json!({"podCertificate": {"signerName": "s", "keyType": "ED25519"}}), "podcertificates"),
        ];
        for (source, found) in table {
            assert_eq!(of_projection(source.clone()), Ok(Some(found)), "{source}");
        }
    }

    #[test]
    fn volumes_of_the_node_itself_are_free() {
        for volume in [
            json!({}),
            json!({"hostPath": {"path": "/"}}),
            json!({"emptyDir": {}}),
            json!({"downwardAPI": {}}),
            json!({"image": {"reference": "r"}}),
            json!({"nfs": {"server": "s", "path": "p"}}),
            json!({"rbd": {"monitors": [], "image": "i", "secretRef": {"name": ""}}}),
            json!({"projected": {}}),
        ] {
            assert_eq!(of_volume(volume.clone()), Ok(None), "{volume}");
        }
    }

    #[test]
    fn an_unknown_source_is_an_error() {
        assert_eq!(of_volume(json!({"new": {}})), Err("unknown volume type for volume  \"v\"".to_owned()));
        assert_eq!(of_projection(json!({"new": {}})), Err("unknown source for projected volume \"v\"".to_owned()));
        for wrong in [
            json!("text"),
            json!({"volumes": "text"}),
            json!({"volumes": ["text"]}),
            json!({"volumes": [{"name": "v", "hostPath": "text"}]}),
            json!({"containers": {"name": "c"}}),
            json!({"containers": [{"name": "c", "env": "text"}]}),
            json!({"imagePullSecrets": "s"}),
            json!({"resourceClaims": 1}),
            json!({"serviceAccountName": 1}),
        ] {
            assert!(of(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
