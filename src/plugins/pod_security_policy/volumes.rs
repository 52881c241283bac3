//! The rules for volumes: `volumes`, `allowedHostPaths`, `allowedFlexVolumes`, `allowedCSIDrivers`.

use super::pod::{Pod, Undecodable};
use super::policy::AllowedHostPath;
use super::report::{Quoted, Report};
use crate::object::Object;
use serde_json::{Map, Value};

/// The sources of a volume in the order in which kube-apiserver looks for them (`GetVolumeFSType`). Only the first one counts.
const SOURCES: [&str; 29] = [
    "hostPath",
    "emptyDir",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "persistentVolumeClaim",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "downwardAPI",
    "fc",
    "azureFile",
    "configMap",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "storageos",
    "projected",
    "portworxVolume",
    "scaleIO",
    "csi",
    "ephemeral",
];

/// A volume.
#[derive(Debug)]
pub(super) struct Volume<'a> {
    name: &'a str,
    /// The type of the volume, as policies name it.
    kind: &'a str,
    source: &'a Value,
}

impl<'a> Volume<'a> {
    /// The volumes of a pod.
    ///
    /// # Errors
    /// If the volumes are no list of objects.
    pub(super) fn all(pod: &'a Object) -> Result<Vec<Self>, Undecodable> {
        match pod.get(&["spec", "volumes"]) {
            None | Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Array(volumes)) => {
                let read = |volume: &'a Value| volume.as_object().map(Self::read).ok_or(Undecodable::Volumes);
                volumes.iter().map(read).collect()
            }
            Some(_) => Err(Undecodable::Volumes),
        }
    }

    fn read(volume: &'a Map<String, Value>) -> Self {
        let of = |field: &str| volume.get_key_value(field).filter(|(_, source)| !source.is_null());
        // A type that Kubernetes added after 1.24 has the name of its field, so that a policy may allow it.
        let later = || volume.iter().find(|(field, source)| *field != "name" && !source.is_null());
        let source = SOURCES.iter().find_map(|field| of(field)).or_else(later);
        let (kind, source) = match source {
            Some((field, source)) if field == "cephfs" => ("cephFS", source),
            Some((field, source)) => (field.as_str(), source),
            // The default of the API server.
            None => ("emptyDir", &Value::Null),
        };
        Self { name: volume.get("name").and_then(Value::as_str).unwrap_or_default(), kind, source }
    }

    fn text(&self, field: &str) -> &'a str {
        self.source.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether each source of a projected volume is one that the API server itself puts into the volume of a service account
    /// token (`IsOnlyServiceAccountTokenSources`).
    fn has_only_token_sources(&self) -> bool {
        let sources = self.source.get("sources").and_then(Value::as_array);
        sources.into_iter().flatten().all(|source| {
            let of = |field: &str| source.get(field).filter(|source| !source.is_null());
            let (token, map, fields) = (of("serviceAccountToken"), of("configMap"), of("downwardAPI"));
            let has = |value: &Value, field: &str, want: &str| {
                value.get(field).and_then(Value::as_str).unwrap_or_default() == want
            };
            let is_namespace = |item: &Value| {
                has(item, "path", "namespace")
                    && item.get("fieldRef").is_some_and(|field| {
                        has(field, "apiVersion", "v1") && has(field, "fieldPath", "metadata.namespace")
                    })
            };
            let items = fields.and_then(|fields| fields.get("items")).and_then(Value::as_array);
            (token.is_some() || map.is_some() || fields.is_some())
                && token.is_none_or(|token| has(token, "path", "token") && has(token, "audience", ""))
                && map.is_none_or(|map| has(map, "name", "kube-root-ca.crt"))
                && items.into_iter().flatten().all(is_namespace)
        })
    }
}

/// The rules for volumes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct VolumeRule {
    /// The types that pods may have; `*` is all types.
    pub(super) types: Vec<String>,
    /// The paths that hostPath volumes may have; all if empty.
    pub(super) host_paths: Vec<AllowedHostPath>,
    /// The drivers that flexVolumes may have; all if empty.
    pub(super) flex_drivers: Vec<String>,
    /// The drivers that inline CSI volumes may have; all if empty.
    pub(super) csi_drivers: Vec<String>,
}

impl VolumeRule {
    /// Checks a pod's volumes (`validatePodVolumes`).
    pub(super) fn check(&self, pod: &Pod<'_>, report: &mut Report) {
        let allows_all = self.allows("*");
        for (index, volume) in pod.volumes.iter().enumerate() {
            if !allows_all && !self.allows_type(volume) {
                let detail = format_args!("{} volumes are not allowed to be used", volume.kind);
                report.invalid(format_args!("spec.volumes[{index}]"), Quoted(volume.kind), detail);
            } else {
                self.check_source(pod, index, volume, report);
            }
            if report.is_complete() {
                return;
            }
        }
    }

    fn allows(&self, kind: &str) -> bool {
        self.types.iter().any(|allowed| allowed == kind)
    }

    fn allows_type(&self, volume: &Volume<'_>) -> bool {
        let is_token = || volume.kind == "projected" && volume.has_only_token_sources();
        self.allows(volume.kind) || (self.allows("secret") && is_token())
    }

    fn check_source(&self, pod: &Pod<'_>, index: usize, volume: &Volume<'_>, report: &mut Report) {
        let is_forbidden =
            |drivers: &[String], driver: &str| !drivers.is_empty() && !drivers.iter().any(|allowed| allowed == driver);
        match volume.kind {
            "hostPath" => self.check_host_path(pod, index, volume, report),
            "flexVolume" if is_forbidden(&self.flex_drivers, volume.text("driver")) => {
                let path = format_args!("spec.volumes[{index}].driver");
                report.invalid(path, Quoted(volume.text("driver")), "Flexvolume driver is not allowed to be used");
            }
            "csi" if is_forbidden(&self.csi_drivers, volume.text("driver")) => {
                let path = format_args!("spec.volumes[{index}].csi.driver");
                report.invalid(path, Quoted(volume.text("driver")), "Inline CSI driver is not allowed to be used");
            }
            _ => {}
        }
    }

    fn check_host_path(&self, pod: &Pod<'_>, index: usize, volume: &Volume<'_>, report: &mut Report) {
        let path = volume.text("path");
        match self.host_path(path) {
            HostPath::Writable => {}
            HostPath::ReadOnly => {
                for (place, mount) in pod.writable_mounts(volume.name) {
                    let path = format_args!("{place}.volumeMounts[{mount}].readOnly");
                    report.invalid(path, false, "must be read-only");
                }
            }
            HostPath::Forbidden => {
                let field = format_args!("spec.volumes[{index}].hostPath.pathPrefix");
                report.invalid(field, Quoted(path), "is not allowed to be used");
            }
        }
    }

    /// `AllowsHostVolumePath`
    fn host_path(&self, path: &str) -> HostPath {
        if self.host_paths.is_empty() {
            return HostPath::Writable;
        }
        let mut best = HostPath::Forbidden;
        for allowed in &self.host_paths {
            if !has_path_prefix(path, allowed.path_prefix.as_deref().unwrap_or_default()) {
                continue;
            }
            if !allowed.read_only.unwrap_or_default() {
                return HostPath::Writable;
            }
            best = HostPath::ReadOnly;
        }
        best
    }
}

/// The use of a path of the host that a policy allows.
enum HostPath {
    Writable,
    ReadOnly,
    Forbidden,
}

/// Whether the path is the prefix or a path below the prefix. One slash at the end of either does not count.
fn has_path_prefix(path: &str, prefix: &str) -> bool {
    let [path, prefix] = [path, prefix].map(|path| path.strip_suffix('/').unwrap_or(path));
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_at_the_end_of_a_segment() {
        for (path, prefix, want) in [
            ("/foo", "/foo", true),
            ("/foo/", "/foo", true),
            ("/foo", "/foo/", true),
            ("/foo/bar", "/foo", true),
            ("/foo/bar", "/foo/", true),
            ("/foobar", "/foo", false),
            ("/foobar", "/foo/", false),
            ("/", "/foo", false),
            ("/foo", "/", true),
            ("/foo", "", true),
            ("", "/foo", false),
        ] {
            assert_eq!(has_path_prefix(path, prefix), want, "{path} {prefix}");
        }
    }
}
