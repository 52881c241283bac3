//! Compares the object in a body with the URL: the kind, the namespace, the name.

use super::{Malformed, cannot_be_handled};
use crate::go_text::go_quote;
use crate::kind::GroupVersionKind;
use crate::object::typed::{self, DecodeError, TypeMeta};
use crate::object::{Object, protobuf, structural};
use crate::status::{Cause, Status};
use serde_json::{Map, Value};

/// `apiVersion` and `kind` of a body, with the group and the version split.
pub(super) struct Sent {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
}

impl Sent {
    /// `copyKindDefaults`
    pub(super) fn of_protobuf(envelope: &protobuf::Envelope<'_>, expected: &GroupVersionKind) -> Self {
        let (group, version) = match envelope.api_version.split('/').collect::<Vec<_>>()[..] {
            [version] => ("", version),
            [group, version] => (group, version),
            _ => ("", ""),
        };
        let (group, version) =
            if version.is_empty() { (&*expected.group, &*expected.version) } else { (group, version) };
        let kind = if envelope.kind.is_empty() { &expected.kind } else { &envelope.kind };
        Self { group: group.into(), version: version.into(), kind: kind.clone() }
    }

    /// Reads the apiVersion and kind of a CBOR body that is decoded into a type (`gvkWithDefaults`).
    pub(super) fn of_cbor(bytes: &[u8], expected: &GroupVersionKind) -> Result<Self, DecodeError> {
        typed::type_meta(bytes).map(|meta| Self::of_type_meta(meta, expected))
    }

    pub(super) fn of_type_meta(meta: TypeMeta, expected: &GroupVersionKind) -> Self {
        let (group, version) = match meta.api_version.split('/').collect::<Vec<_>>()[..] {
            [version] => ("", version),
            [group, version] => (group, version),
            _ => ("", ""),
        };
        let is_of_group = group.is_empty() || group == expected.group;
        let (group, version) = match version.is_empty() && is_of_group {
            true => (expected.group.as_str(), expected.version.as_str()),
            false => (group, version),
        };
        let kind = if meta.kind.is_empty() { expected.kind.clone() } else { meta.kind };
        Self { group: group.into(), version: version.into(), kind }
    }

    pub(super) fn group_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }
}

/// `json.SimpleMetaFactory.Interpret`.
pub(super) fn sent_kind(value: &Value) -> Result<Sent, Malformed> {
    let fields = match value {
        Value::Object(fields) => fields,
        Value::Null => return Ok(Sent { group: String::new(), version: String::new(), kind: String::new() }),
        other => {
            return Err(Malformed(format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct \
                 {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
                crate::go_text::go_type(other)
            )));
        }
    };
    kind_in(fields)
}

/// Reads the apiVersion and kind among the fields of an object.
pub(super) fn kind_in(fields: &Map<String, Value>) -> Result<Sent, Malformed> {
    // kube-apiserver reads these fields with encoding/json, which ignores case and takes the last of several keys. The order of
    // the keys is lost here, so the key with the exact case counts.
    let field = |name: &str| {
        let mut found = "";
        for (key, value) in fields.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name)) {
            match value {
                Value::Null => {}
                Value::String(text) if found.is_empty() || key == name => found = text,
                Value::String(_) => {}
                other => {
                    return Err(Malformed(format!(
                        "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go struct field \
                         .{name} of type string",
                        crate::go_text::go_type(other)
                    )));
                }
            }
        }
        Ok(found)
    };
    let (api_version, kind) = (field("apiVersion")?, field("kind")?);
    let (group, version) = match api_version.split('/').collect::<Vec<_>>()[..] {
        [_] => ("", api_version),
        [group, version] => (group, version),
        _ => return Err(Malformed(format!("unexpected GroupVersion string: {api_version}"))),
    };
    Ok(Sent { group: group.into(), version: version.into(), kind: kind.into() })
}

/// Kinds that every version has, and that are not resources.
const META_KINDS: [&str; 7] =
    ["CreateOptions", "DeleteOptions", "GetOptions", "ListOptions", "PatchOptions", "UpdateOptions", "WatchEvent"];

/// Kinds of removed versions, which kube-apiserver still decodes and whose messages are not in the table: apiVersion and kind.
const REMOVED_KINDS: [(&str, &str); 5] = [
    ("apiextensions.k8s.io/v1beta1", "ConversionReview"),
    ("apiextensions.k8s.io/v1beta1", "CustomResourceDefinition"),
    ("apiextensions.k8s.io/v1beta1", "CustomResourceDefinitionList"),
    ("apiregistration.k8s.io/v1beta1", "APIService"),
    ("apiregistration.k8s.io/v1beta1", "APIServiceList"),
];

/// Kinds of the scheme that no URL serves: apiVersion and kind (`pkg/apis/{admission,imagepolicy}/install`).
const UNSERVED_KINDS: [(&str, &str); 3] = [
    ("admission.k8s.io/v1", "AdmissionReview"),
    ("admission.k8s.io/v1beta1", "AdmissionReview"),
    ("imagepolicy.k8s.io/v1alpha1", "ImageReview"),
];
/// Groups that a server of their own decodes, in a scheme of its own (`apiextensions-apiserver`, `kube-aggregator`).
const OF_OTHER_SERVERS: [&str; 2] = ["apiextensions.k8s.io", "apiregistration.k8s.io"];
/// Groups of kinds that are in answers alone.
const OF_ANSWERS: [&str; 2] = ["apidiscovery.k8s.io", "meta.k8s.io"];

/// Kinds of `v1` that every scheme knows (`metav1.AddToGroupVersion`).
const UNVERSIONED: [&str; 5] = ["APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "Status"];

/// Whether the scheme that decodes the objects of a group knows a kind, served or not (`legacyscheme.Scheme` and its neighbours).
fn is_registered(sent: &GroupVersionKind, group: &str) -> bool {
    let (api_version, kind) = (sent.api_version(), sent.kind.as_str());
    if api_version == "v1" && UNVERSIONED.contains(&kind) {
        return true;
    }
    let server = |group: &str| OF_OTHER_SERVERS.iter().find(|other| **other == group).copied();
    if META_KINDS.contains(&kind) && (api_version == "v1" || server(&sent.group) == server(group)) {
        return protobuf::has_version(&sent.group, &sent.version)
            || REMOVED_KINDS.iter().any(|(version, _)| *version == api_version);
    }
    if server(&sent.group) != server(group) || OF_ANSWERS.contains(&sent.group.as_str()) {
        return false;
    }
    protobuf::has_encoding(&sent.group, &sent.version, kind)
        || UNSERVED_KINDS.iter().chain(&REMOVED_KINDS).any(|known| *known == (&*api_version, kind))
        || (kind, &*api_version) == ("List", "v1")
}

/// The mismatch between a body's kind and the kind of its URL.
pub(super) enum Misfit {
    /// The expected kind in another version.
    Version(String),
    /// Another kind, or an unknown one.
    Kind { kind: String, version: String, why: String },
}

impl Misfit {
    pub(super) fn into_text(self) -> String {
        match self {
            Self::Version(why) | Self::Kind { why, .. } => why,
        }
    }

    pub(super) fn into_status(self, expected: &GroupVersionKind) -> Status {
        match self {
            Self::Version(message) => Status::bad_request(message),
            Self::Kind { kind, version, why } => cannot_be_handled(&kind, &version, expected, &why),
        }
    }
}

pub(super) fn check_built_in(bytes: &[u8], sent: &Sent, expected: &GroupVersionKind) -> Result<(), Misfit> {
    let kind = if sent.kind.is_empty() { &expected.kind } else { &sent.kind };
    let unset = sent.version.is_empty() && (sent.group.is_empty() || sent.group == expected.group);
    if unset || (sent.group == expected.group && sent.version == expected.version) {
        if *kind == expected.kind {
            return Ok(());
        }
    } else if sent.version.is_empty() {
        let why = format!("Object 'apiVersion' is missing in '{}'", String::from_utf8_lossy(bytes));
        return Err(Misfit::Kind { kind: kind.clone(), version: String::new(), why });
    }
    let sent = if unset {
        GroupVersionKind::new(&*expected.group, &*expected.version, &**kind)
    } else {
        GroupVersionKind::new(&*sent.group, &*sent.version, &**kind)
    };
    let same_kind = sent.kind == expected.kind;
    let is_eviction = sent.kind == "Eviction" && sent.group == "policy" && sent.version == "v1beta1";
    if same_kind && is_eviction {
        return Ok(());
    }
    let registered = is_registered(&sent, &expected.group);
    if same_kind && registered {
        let (found, wanted) = (sent.api_version(), expected.api_version());
        let message =
            format!("the API version in the data ({found}) does not match the expected API version ({wanted})");
        return Err(Misfit::Version(message));
    }
    let why = if registered {
        let internal = match expected.group.as_str() {
            "" | "events.k8s.io" => "core",
            "internal.apiserver.k8s.io" => "apiserverinternal",
            group => group.split('.').next().unwrap_or_default(),
        };
        format!("converting ({}.{}) to ({internal}.{}): unknown conversion", sent.version, sent.kind, expected.kind)
    } else {
        not_registered(&sent.kind, &sent.api_version())
    };
    Err(Misfit::Kind { kind: sent.kind, version: sent.version, why })
}

/// `runtime.notRegisteredErr`; the scheme's name is the source line that creates the scheme in kube-apiserver 1.36.
pub(super) fn not_registered(kind: &str, api_version: &str) -> String {
    let (kind, api_version) = (go_quote(kind), go_quote(api_version));
    format!("no kind {kind} is registered for version {api_version} in scheme \"pkg/runtime/scheme.go:111\"")
}

/// Checks the apiVersion and kind of an object whose kind was built in, which need not have them.
///
/// # Errors
/// 400 if the object is of another kind, or has metadata of wrong types.
pub(super) fn check_removed(
    bytes: &[u8],
    sent: &Sent,
    expected: &GroupVersionKind,
    fields: &Map<String, Value>,
) -> Result<(), Status> {
    check_built_in(bytes, sent, expected).map_err(|misfit| misfit.into_status(expected))?;
    structural::metadata_error(fields)
        .map_or(Ok(()), |why| Err(cannot_be_handled(&expected.kind, &expected.version, expected, &why)))
}

pub(super) enum Custom {
    Unrecognized(String),
    Refused(Status),
}

/// Checks the apiVersion and kind of a custom resource, which must have both.
pub(super) fn check_custom(
    bytes: &[u8],
    sent: &Sent,
    expected: &GroupVersionKind,
    fields: &Map<String, Value>,
) -> Result<(), Custom> {
    // The apiVersion and kind were first read without regard to case; the object itself is read with it.
    let says = |name: &str| fields.get(name).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    if !says("kind") {
        return Err(Custom::Unrecognized(format!("Object 'Kind' is missing in '{}'", String::from_utf8_lossy(bytes))));
    }
    if let Some(why) = structural::metadata_error(fields) {
        return Err(Custom::Refused(cannot_be_handled(&sent.kind, &sent.version, expected, &why)));
    }
    let found = if says("apiVersion") { sent.group_version() } else { String::new() };
    let wanted = expected.api_version();
    if found != wanted {
        let message =
            format!("the API version in the data ({found}) does not match the expected API version ({wanted})");
        return Err(Custom::Refused(Status::bad_request(message)));
    }
    if sent.kind != expected.kind {
        // kube-apiserver finds this when it validates the object, after the mutating phase.
        let why = format!("Invalid value: {}: must be {}", go_quote(&sent.kind), expected.kind);
        let text = format!("kind: {why}");
        let cause = Cause { reason: "FieldValueInvalid".into(), message: why, field: "kind".into() };
        let name = fields.get("metadata").and_then(|metadata| metadata.get("name")).and_then(Value::as_str);
        let status = Status::invalid(&sent.group, &sent.kind, name.unwrap_or_default(), &text, vec![cause]);
        return Err(Custom::Refused(status));
    }
    Ok(())
}

/// Sets an object's namespace to the request's; a cluster-scoped resource, such as `namespaces`, has no namespace
/// (`rest.EnsureObjectNamespaceMatchesRequestNamespace`).
///
/// # Errors
/// 400 if the object has another namespace.
pub(crate) fn ensure_namespace(object: &mut Object, namespace: &str) -> Result<(), Status> {
    let found = object.namespace();
    if found == namespace {
        return Ok(());
    }
    if namespace.is_empty() {
        object.remove(&["metadata", "namespace"]);
        return Ok(());
    }
    if found.is_empty() && object.set(&["metadata", "namespace"], namespace.into()) {
        return Ok(());
    }
    Err(Status::bad_request("the namespace of the provided object does not match the namespace sent on the request"))
}

/// Checks that an update's object has the name in the URL (`handlers.checkName`).
///
/// # Errors
/// 400 if the object has no name, or another one.
pub(crate) fn check_name(object: &Object, name: &str) -> Result<(), Status> {
    let found = object.name();
    if found.is_empty() {
        let message = format!("the name of the object ({name} based on URL) was undeterminable: name must be provided");
        return Err(Status::bad_request(message));
    }
    if found != name {
        let message = format!("the name of the object ({found}) does not match the name on the URL ({name})");
        return Err(Status::bad_request(message));
    }
    Ok(())
}

/// Checks that a new object has a name or a `generateName` (`validation.ValidateObjectMetaAccessor`). kube-apiserver checks this
/// only after the mutating phase.
///
/// # Errors
/// 422 if the object has neither.
pub(crate) fn check_new_name(object: &Object, kind: &GroupVersionKind) -> Result<(), Status> {
    if !object.name().is_empty() || !object.generate_name().is_empty() {
        return Ok(());
    }
    let why = "Required value: name or generateName is required";
    let cause = Cause { reason: "FieldValueRequired".into(), message: why.into(), field: "metadata.name".into() };
    Err(Status::invalid(&kind.group, &kind.kind, "", &format!("metadata.name: {why}"), vec![cause]))
}
