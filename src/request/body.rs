//! A request's body: reading it, telling what it is, and decoding it as the handlers of kube-apiserver do.
//!
//! The errors are those of `handlers/create.go`, `update.go` and `rest.go`, text for text. Options are in `body/options.rs`.

mod options;

pub use options::{OptionsKind, WriteOptions};

use crate::object::decode::{self, Decoded, go_quote};
use crate::object::normal::{self, Normal};
use crate::object::structural::{self, Structural};
use crate::object::{GroupVersionKind, Object, protobuf, schema, typed};
use crate::status::{Cause, Status};
use crate::upstream::Body;
use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt;
use serde_json::{Map, Value};

/// Parameters of a media type; nobody has a use for more than one or two.
const MAX_PARAMETERS: usize = 16;

/// Bytes past the limit that are read to no purpose: a client that is still sending does not hear the answer otherwise
/// (`maxPostHandlerReadBytes`).
const DISCARDED_BYTES: usize = 256 * 1024;

/// How much of a body an error shows.
const SUMMARY_BYTES: usize = 30;

/// Reads a whole body, of at most `limit` bytes (`handlers.limitedReadBody`).
///
/// # Errors
/// 413 when it is longer, without reading it if it was announced to be far longer; 500 when it breaks off.
pub async fn read(mut body: Body, limit: usize) -> Result<Bytes, Status> {
    let too_large = || Status::too_large(&format!("limit is {limit}"));
    let bearable = limit.saturating_add(DISCARDED_BYTES);
    if body.size_hint().lower() > bearable as u64 {
        return Err(too_large());
    }
    let (mut whole, mut length) = (BytesMut::new(), 0);
    while let Some(frame) = body.frame().await {
        let data = match frame {
            Ok(frame) => frame.into_data().unwrap_or_default(),
            Err(_) if length > limit => break,
            Err(error) => return Err(Status::plain(error.to_string())),
        };
        length += data.len();
        if length <= limit {
            whole.extend_from_slice(&data);
        } else if length <= bearable {
            whole = BytesMut::new();
        } else {
            break;
        }
    }
    if length > limit { Err(too_large()) } else { Ok(whole.freeze()) }
}

/// In what form an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MediaType {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
    /// `application/vnd.kubernetes.protobuf`.
    Protobuf,
}

impl MediaType {
    /// As a `Content-Type` header has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }
}

/// What kube-apiserver says it accepts, in its order.
const ACCEPTED: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// The same for custom resources.
const ACCEPTED_OF_CUSTOM: [&str; 2] = ["application/json", "application/yaml"];

/// From a `Content-Type` header; none is JSON (`negotiation.NegotiateInputSerializer`).
///
/// # Errors
/// 415 for what kube-apiserver does not read either, CBOR without its feature gate among it.
pub fn media_type(content_type: Option<&str>) -> Result<MediaType, Status> {
    let unsupported = || Status::unsupported_media_type(&ACCEPTED);
    let content_type = content_type.unwrap_or_default();
    if content_type.is_empty() {
        return Ok(MediaType::Json);
    }
    let (media_type, parameters) = match content_type.split_once(';') {
        Some((media_type, parameters)) => (media_type, Some(parameters)),
        None => (content_type, None),
    };
    if !parameters.is_none_or(are_parameters) {
        return Err(unsupported());
    }
    match media_type.trim().to_ascii_lowercase().as_str() {
        "application/json" => Ok(MediaType::Json),
        "application/yaml" => Ok(MediaType::Yaml),
        "application/vnd.kubernetes.protobuf" => Ok(MediaType::Protobuf),
        _ => Err(unsupported()),
    }
}

/// `name=value` pairs after semicolons, and one more semicolon at the end (Go's `mime.ParseMediaType`).
fn are_parameters(text: &str) -> bool {
    let is_token = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?=".contains(&byte))
    };
    let mut seen: Vec<(String, &str)> = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let Some((name, after)) = rest.split_once('=') else { return false };
        let name = name.trim().to_ascii_lowercase();
        let length = match after.strip_prefix('"') {
            Some(quoted) => match end_of_quoted(quoted) {
                Some(end) => end + 2,
                None => return false,
            },
            None => after.find([';', ' ', '\t']).unwrap_or(after.len()),
        };
        let (value, after) = after.split_at(length);
        if !is_token(&name) || !value.starts_with('"') && !is_token(value) {
            return false;
        }
        // A parameter may be said again, but not otherwise.
        match seen.iter().find(|(other, _)| *other == name) {
            Some((_, other)) if other.trim_matches('"') != value.trim_matches('"') => return false,
            Some(_) => {}
            None if seen.len() == MAX_PARAMETERS => return false,
            None => seen.push((name, value)),
        }
        let after = after.trim_start();
        rest = match after.strip_prefix(';') {
            Some(after) => after.trim_start(),
            None if after.is_empty() => "",
            None => return false,
        };
    }
    true
}

/// Where the closing quote stands.
fn end_of_quoted(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    })
}

/// An object as a client sent it.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodedObject {
    /// The object; apiVersion and kind are those of the URL's resource also where the client left them out.
    pub object: Object,
    /// What strict decoding says of duplicate keys, one warning each: `duplicate field "data.a"`; for YAML
    /// `line 4: key "a" already set in map`.
    pub duplicates: Vec<String>,
    /// What it says besides, in the order of the text: `unknown field "spec.foo"`. Of built-in kinds in JSON, duplicates are
    /// here.
    pub unknown: Vec<String>,
    /// Whether whoever reads the body's bytes reads this very object in them, so that they can be passed on. Never so of
    /// YAML, which two parsers read in two ways.
    pub is_verbatim: bool,
}

impl DecodedObject {
    /// The errors that `fieldValidation=Strict` puts after `strict decoding error: `; none of what is well written.
    pub fn strict_errors(&self, media_type: MediaType) -> Option<String> {
        let duplicates = match (self.duplicates.is_empty(), media_type) {
            (true, _) => None,
            (false, MediaType::Yaml) => Some(format!("yaml: unmarshal errors:\n  {}", self.duplicates.join("\n  "))),
            (false, _) => Some(self.duplicates.join(", ")),
        };
        let unknown = (!self.unknown.is_empty()).then(|| self.unknown.join(", "));
        match (duplicates, unknown) {
            (Some(duplicates), Some(unknown)) => Some(format!("{duplicates}, {unknown}")),
            (duplicates, unknown) => duplicates.or(unknown),
        }
    }

    /// The same, one by one.
    pub fn strict_warnings(&self) -> impl Iterator<Item = &String> {
        self.duplicates.iter().chain(&self.unknown)
    }
}

/// What becomes of an object that was read.
#[derive(Clone, Copy)]
pub enum Form<'a> {
    /// It stays as it was sent.
    AsSent,
    /// It is pruned and gets defaults, as in kube-apiserver's decoders; a custom resource by this schema, if there is one.
    Normal(Option<&'a Structural>),
}

/// Decodes the body of a create or update. `expected` is the kind of the URL's resource or subresource: kinds that are
/// not built in are decoded as custom resources are.
///
/// # Errors
/// 400 with kube-apiserver's text for what is no object of this kind; 415 for a custom resource in protobuf.
pub fn decode_object(
    bytes: &[u8],
    media_type: MediaType,
    expected: &GroupVersionKind,
    form: Form<'_>,
) -> Result<DecodedObject, Status> {
    let unrecognized = |why: &str| {
        let (kind, summary) = (&expected.kind, summary(bytes));
        Status::bad_request(format!("the object provided is unrecognized (must be of type {kind}): {why} ({summary})"))
    };
    let decoded = match media_type {
        MediaType::Json => decode_json(bytes),
        MediaType::Yaml => decode::yaml(bytes),
        MediaType::Protobuf => return decode_protobuf(bytes, expected, form, unrecognized),
    };
    let Decoded { value, duplicates } = decoded.map_err(|why| unrecognized(&why))?;
    let sent = sent_kind(&value).map_err(|why| unrecognized(&why))?;
    let fields = match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    let has_duplicates = !duplicates.is_empty();
    let mut texts = match media_type {
        MediaType::Yaml => duplicates.clone(),
        _ => duplicates.iter().map(|path| format!("duplicate field {}", go_quote(path))).collect(),
    };
    let normal = match typed::is_known(expected) {
        true => {
            check_built_in(bytes, &sent, expected).map_err(|misfit| misfit.into_status(expected))?;
            let handled = |why: String| cannot_be_handled(&expected.kind, &expected.version, expected, &why);
            match (form, media_type) {
                (Form::AsSent, _) => as_sent(expected, fields),
                (Form::Normal(_), MediaType::Json) => {
                    texts.clear();
                    known(normal::built_in_json(expected, Decoded { value: Value::Object(fields), duplicates }, bytes))
                }
                (Form::Normal(_), _) => known(normal::built_in(expected, Value::Object(fields))),
            }
            .map_err(handled)?
        }
        false => {
            check_custom(bytes, &sent, expected, &fields).map_err(|problem| match problem {
                Custom::Unrecognized(why) => unrecognized(&why),
                Custom::Refused(status) => status,
            })?;
            let handled = |why: String| cannot_be_handled(&sent.kind, &sent.version, expected, &why);
            by_schema(form, fields).map_err(handled)?
        }
    };
    let Normal { mut object, unknown } = normal;
    name_kind(&mut object, expected);
    // Of a key that is there twice, the next reader could take the other one; what is unknown it would warn of once more.
    let is_verbatim = media_type == MediaType::Json && !has_duplicates && unknown.is_empty();
    Ok(DecodedObject { object, duplicates: texts, unknown, is_verbatim })
}

/// A built-in object as it was sent, if its fields have the types of the kind.
fn as_sent(kind: &GroupVersionKind, fields: Map<String, Value>) -> Result<Normal, String> {
    match typed::decode(kind, Value::Object(fields.clone())) {
        Some(Err(why)) => Err(why),
        _ => Ok(unchanged(fields)),
    }
}

/// A custom resource, decoded by its schema where there is one.
fn by_schema(form: Form<'_>, fields: Map<String, Value>) -> Result<Normal, String> {
    match form {
        Form::Normal(Some(schema)) => schema.normalize(Value::Object(fields)),
        _ => Ok(unchanged(fields)),
    }
}

fn unchanged(fields: Map<String, Value>) -> Normal {
    Normal { object: Object::from_value(Value::Object(fields)).unwrap_or_default(), unknown: Vec::new() }
}

/// Every built-in kind has a decoder.
fn known(normal: Option<Result<Normal, String>>) -> Result<Normal, String> {
    normal.unwrap_or_else(|| Err("no decoder knows this kind".to_owned()))
}

/// Sets apiVersion and kind to those of the URL's resource.
fn name_kind(object: &mut Object, kind: &GroupVersionKind) {
    if !kind.is_said(object.api_version(), object.kind()) {
        let fields = object.fields_mut();
        fields.insert("apiVersion".into(), kind.api_version().into());
        fields.insert("kind".into(), kind.kind.clone().into());
    }
}

fn decode_json(bytes: &[u8]) -> Result<Decoded, String> {
    decode::json(bytes).map_err(|why| format!("couldn't get version/kind; json parse error: {why}"))
}

/// `protobuf.Serializer.Decode`: what the body does not say of its kind is as expected.
fn decode_protobuf(
    bytes: &[u8],
    expected: &GroupVersionKind,
    form: Form<'_>,
    unrecognized: impl Fn(&str) -> Status,
) -> Result<DecodedObject, Status> {
    if schema::of(expected).is_none() {
        return Err(Status::unsupported_media_type(&ACCEPTED_OF_CUSTOM));
    }
    let envelope = protobuf::open(bytes).map_err(|why| unrecognized(&why))?;
    let sent = Sent::of_protobuf(&envelope, expected);
    check_built_in(bytes, &sent, expected).map_err(|misfit| misfit.into_status(expected))?;
    let message = envelope.object(&sent.group, &sent.version, &sent.kind);
    let handled = |why: String| cannot_be_handled(&sent.kind, &sent.version, expected, &why);
    let protobuf::Message { fields, is_complete } = message.map_err(handled)?;
    let Normal { mut object, .. } = match form {
        Form::AsSent => unchanged(fields),
        Form::Normal(_) => known(normal::built_in(expected, Value::Object(fields))).map_err(handled)?,
    };
    name_kind(&mut object, expected);
    Ok(DecodedObject { object, duplicates: Vec::new(), unknown: Vec::new(), is_verbatim: is_complete })
}

/// `apiVersion` and `kind` as they were sent, the group and version split.
struct Sent {
    group: String,
    version: String,
    kind: String,
}

impl Sent {
    /// `copyKindDefaults`
    fn of_protobuf(envelope: &protobuf::Envelope<'_>, expected: &GroupVersionKind) -> Self {
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

    fn group_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }
}

/// `json.SimpleMetaFactory.Interpret`.
fn sent_kind(value: &Value) -> Result<Sent, String> {
    let fields = match value {
        Value::Object(fields) => fields,
        Value::Null => return Ok(Sent { group: String::new(), version: String::new(), kind: String::new() }),
        other => {
            return Err(format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct \
                 {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
                decode::go_type(other)
            ));
        }
    };
    // encoding/json, which kube-apiserver looks with, does not mind the case.
    let field = |name: &str| {
        let found = fields
            .get(name)
            .or_else(|| fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value));
        match found {
            None | Some(Value::Null) => Ok(""),
            Some(Value::String(text)) => Ok(text.as_str()),
            Some(other) => Err(format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go struct field .{name} of \
                 type string",
                decode::go_type(other)
            )),
        }
    };
    let (api_version, kind) = (field("apiVersion")?, field("kind")?);
    let (group, version) = match api_version.split('/').collect::<Vec<_>>()[..] {
        [_] => ("", api_version),
        [group, version] => (group, version),
        _ => return Err(format!("unexpected GroupVersion string: {api_version}")),
    };
    Ok(Sent { group: group.into(), version: version.into(), kind: kind.into() })
}

fn cannot_be_handled(kind: &str, version: &str, expected: &GroupVersionKind, why: &str) -> Status {
    let version = go_quote(version);
    Status::bad_request(format!("{kind} in version {version} cannot be handled as a {}: {why}", expected.kind))
}

/// Kinds of every version, which are no resources.
const META_KINDS: [&str; 7] =
    ["CreateOptions", "DeleteOptions", "GetOptions", "ListOptions", "PatchOptions", "UpdateOptions", "WatchEvent"];

/// Versions that kube-apiserver decodes but does not serve by default, by group.
const UNSERVED_VERSIONS: [(&str, &[&str]); 18] = [
    ("admissionregistration.k8s.io", &["v1alpha1", "v1beta1"]),
    ("apps", &["v1beta1", "v1beta2"]),
    ("authentication.k8s.io", &["v1alpha1", "v1beta1"]),
    ("authorization.k8s.io", &["v1beta1"]),
    ("batch", &["v1beta1"]),
    ("certificates.k8s.io", &["v1alpha1", "v1beta1"]),
    ("coordination.k8s.io", &["v1alpha2", "v1beta1"]),
    ("discovery.k8s.io", &["v1beta1"]),
    ("events.k8s.io", &["v1beta1"]),
    ("extensions", &["v1beta1"]),
    ("flowcontrol.apiserver.k8s.io", &["v1beta1", "v1beta2", "v1beta3"]),
    ("networking.k8s.io", &["v1beta1"]),
    ("node.k8s.io", &["v1alpha1", "v1beta1"]),
    ("policy", &["v1beta1"]),
    ("rbac.authorization.k8s.io", &["v1alpha1", "v1beta1"]),
    ("resource.k8s.io", &["v1alpha3", "v1beta1", "v1beta2"]),
    ("scheduling.k8s.io", &["v1alpha1", "v1beta1"]),
    ("storage.k8s.io", &["v1alpha1", "v1beta1"]),
];

/// Kinds that moved from one group to another.
const MOVED_KINDS: [&str; 6] = ["DaemonSet", "Deployment", "Ingress", "NetworkPolicy", "ReplicaSet", "Scale"];

/// Why a body's kind is not the one that its URL asks for.
enum Misfit {
    /// The kind in another version.
    Version(String),
    /// Another kind, or one that does not exist.
    Kind { kind: String, version: String, why: String },
}

impl Misfit {
    fn into_text(self) -> String {
        match self {
            Self::Version(why) | Self::Kind { why, .. } => why,
        }
    }

    fn into_status(self, expected: &GroupVersionKind) -> Status {
        match self {
            Self::Version(message) => Status::bad_request(message),
            Self::Kind { kind, version, why } => cannot_be_handled(&kind, &version, expected, &why),
        }
    }
}

fn check_built_in(bytes: &[u8], sent: &Sent, expected: &GroupVersionKind) -> Result<(), Misfit> {
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
    let unserved = UNSERVED_VERSIONS.iter().any(|(group, versions)| {
        let here = *group == sent.group && versions.contains(&sent.version.as_str());
        here && (sent.group == expected.group || MOVED_KINDS.contains(&sent.kind.as_str()))
    });
    let same_kind = sent.kind == expected.kind;
    let is_eviction = sent.kind == "Eviction" && sent.group == "policy" && sent.version == "v1beta1";
    if same_kind && is_eviction {
        return Ok(());
    }
    let registered = schema::of(&sent).is_some()
        || META_KINDS.contains(&sent.kind.as_str())
            && schema::kinds().any(|(kind, _)| kind.api_version() == sent.api_version())
        || (sent.kind == "List" && sent.api_version() == "v1");
    if same_kind && (registered || unserved) {
        let (found, wanted) = (sent.api_version(), expected.api_version());
        let message =
            format!("the API version in the data ({found}) does not match the expected API version ({wanted})");
        return Err(Misfit::Version(message));
    }
    let why = if registered {
        let internal = match expected.group.as_str() {
            "" | "events.k8s.io" => "core",
            group => group.split('.').next().unwrap_or_default(),
        };
        format!("converting ({}.{}) to ({internal}.{}): unknown conversion", sent.version, sent.kind, expected.kind)
    } else {
        not_registered(&sent.kind, &sent.api_version())
    };
    Err(Misfit::Kind { kind: sent.kind, version: sent.version, why })
}

/// Why what a patch made of an object is no longer an object of its kind.
pub enum Unfit {
    /// It cannot be decoded: the patch is invalid.
    Invalid(String),
    /// It is refused as such.
    Refused(Status),
}

/// Decodes what a patch made of an object (`jsonPatcher.applyPatchToCurrentObject`).
///
/// # Errors
/// When apiVersion or kind changed, or a field has another type.
pub fn decode_patched(
    patched: Value,
    expected: &GroupVersionKind,
    schema: Option<&Structural>,
) -> Result<Normal, Unfit> {
    let sent = sent_kind(&patched).map_err(Unfit::Invalid)?;
    let Value::Object(fields) = patched else { return Err(Unfit::Invalid("the patched object is no object".into())) };
    let decoded = match typed::is_known(expected) {
        true => {
            check_built_in(b"", &sent, expected).map_err(|misfit| Unfit::Invalid(misfit.into_text()))?;
            known(normal::built_in(expected, Value::Object(fields)))
        }
        false => {
            if let Some(why) = structural::metadata_error(&fields) {
                return Err(Unfit::Invalid(why));
            }
            check_custom(b"", &sent, expected, &fields).map_err(|problem| match problem {
                Custom::Unrecognized(why) => Unfit::Invalid(why),
                Custom::Refused(status) => Unfit::Refused(status),
            })?;
            by_schema(Form::Normal(schema), fields)
        }
    };
    let mut normal = decoded.map_err(Unfit::Invalid)?;
    name_kind(&mut normal.object, expected);
    Ok(normal)
}

/// The 422 of a patch whose outcome, or which itself (`shown`), cannot be decoded.
pub fn invalid_patch(shown: &str, why: &str) -> Status {
    let why = format!("Invalid value: {}: {why}", go_quote(shown));
    let text = format!("patch: {why}");
    let cause = Cause { reason: "FieldValueInvalid".into(), message: why, field: "patch".into() };
    Status::invalid("", "", "", &text, vec![cause])
}

/// `runtime.notRegisteredErr`; the scheme's name is where kube-apiserver 1.36 makes it.
fn not_registered(kind: &str, api_version: &str) -> String {
    let (kind, api_version) = (go_quote(kind), go_quote(api_version));
    format!("no kind {kind} is registered for version {api_version} in scheme \"pkg/runtime/scheme.go:111\"")
}

enum Custom {
    Unrecognized(String),
    Refused(Status),
}

/// Custom resources must say what they are.
fn check_custom(
    bytes: &[u8],
    sent: &Sent,
    expected: &GroupVersionKind,
    fields: &Map<String, Value>,
) -> Result<(), Custom> {
    // Whoever looked first did not mind the case; whoever reads the object does.
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
        // kube-apiserver notices when it validates the object, after the mutating phase.
        let why = format!("Invalid value: {}: must be {}", go_quote(&sent.kind), expected.kind);
        let text = format!("kind: {why}");
        let cause = Cause { reason: "FieldValueInvalid".into(), message: why, field: "kind".into() };
        let name = fields.get("metadata").and_then(|metadata| metadata.get("name")).and_then(Value::as_str);
        let status = Status::invalid(&sent.group, &sent.kind, name.unwrap_or_default(), &text, vec![cause]);
        return Err(Custom::Refused(status));
    }
    Ok(())
}

/// `handlers.summarizeData`.
fn summary(bytes: &[u8]) -> String {
    let shown = bytes.get(..SUMMARY_BYTES).unwrap_or(bytes);
    let more = if shown.len() < bytes.len() { " ..." } else { "" };
    match bytes.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(shown)),
        Some(_) => shown.iter().map(|byte| format!("{byte:02x}")).chain([more.to_owned()]).collect(),
    }
}

/// Makes an object's namespace that of the request; cluster-scoped resources, `namespaces` among them, have none
/// (`rest.EnsureObjectNamespaceMatchesRequestNamespace`).
///
/// # Errors
/// 400 when the object names another namespace.
pub fn ensure_namespace(object: &mut Object, namespace: &str) -> Result<(), Status> {
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

/// Whether an update's object has the name of the URL (`handlers.checkName`).
///
/// # Errors
/// 400 when it has none or another.
pub fn check_name(object: &Object, name: &str) -> Result<(), Status> {
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

/// Whether a new object has a name or a `generateName` (`validation.ValidateObjectMetaAccessor`). kube-apiserver checks
/// this only after the mutating phase.
///
/// # Errors
/// 422 when it has neither.
pub fn check_new_name(object: &Object, kind: &GroupVersionKind) -> Result<(), Status> {
    if !object.name().is_empty() || !object.generate_name().is_empty() {
        return Ok(());
    }
    let why = "Required value: name or generateName is required";
    let cause = Cause { reason: "FieldValueRequired".into(), message: why.into(), field: "metadata.name".into() };
    Err(Status::invalid(&kind.group, &kind.kind, "", &format!("metadata.name: {why}"), vec![cause]))
}

#[cfg(test)]
mod tests;
