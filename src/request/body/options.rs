//! `CreateOptions`, `UpdateOptions`, `PatchOptions` and `DeleteOptions`: from the query, and for deletes also from the body.

use super::check::{Sent, not_registered, sent_kind};
use super::{Malformed, MediaType};
use crate::go_text::go_quote;
use crate::kind::GroupVersionKind;
use crate::object::patch::PatchType;
use crate::object::{Object, cbor, decode, protobuf, typed};
use crate::request::query::{self, query_pairs};
use crate::status::{Cause, Status, invalid};
use serde_json::{Map, Value, json};

/// The bytes that a field manager's name may have (`validation.FieldManagerMaxLength`).
const MAX_FIELD_MANAGER_BYTES: usize = 128;

/// The kind of a request's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionsKind {
    /// `CreateOptions`.
    Create,
    /// `UpdateOptions`.
    Update,
    /// `PatchOptions`, which admission sees as `UpdateOptions` or `CreateOptions`.
    Patch(PatchType),
    /// `DeleteOptions`.
    Delete,
}

impl OptionsKind {
    /// The kind's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Patch(_) => "PatchOptions",
            Self::Delete => "DeleteOptions",
        }
    }
}

/// The options of a mutating request. Options that the request's kind of options does not have are unset.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WriteOptions {
    /// The values of `dryRun`; every value is `All`.
    pub dry_run: Vec<String>,
    /// `fieldManager`.
    pub field_manager: String,
    /// `fieldValidation`: empty, `Ignore`, `Warn` or `Strict`.
    pub(crate) field_validation: String,
    /// `force` of an apply.
    pub(crate) force: Option<bool>,
    /// `gracePeriodSeconds`.
    pub(crate) grace_period_seconds: Option<i64>,
    /// `orphanDependents`.
    pub(crate) orphan_dependents: Option<bool>,
    /// `propagationPolicy`.
    pub(crate) propagation_policy: Option<String>,
    /// `preconditions` of a delete; in a query `uid` and `resourceVersion`.
    pub(crate) preconditions: Option<Map<String, Value>>,
}

impl WriteOptions {
    /// Reads the options from a query string.
    ///
    /// # Errors
    /// 400 for a value that cannot be parsed, 422 for one that is not allowed.
    pub fn from_query(query: &str, kind: OptionsKind) -> Result<Self, Status> {
        let mut options = Self::default();
        let mut seen = Vec::new();
        for (name, value) in query_pairs(query) {
            if name == "dryRun" {
                options.dry_run.push(value);
                continue;
            }
            // The first of several values counts.
            if seen.contains(&name) {
                continue;
            }
            match (&*name, kind) {
                ("fieldManager", OptionsKind::Create | OptionsKind::Update | OptionsKind::Patch(_)) => {
                    options.field_manager = value;
                }
                ("fieldValidation", OptionsKind::Create | OptionsKind::Update | OptionsKind::Patch(_)) => {
                    options.field_validation = value;
                }
                ("force", OptionsKind::Patch(_)) => options.force = Some(is_true(&value)),
                ("gracePeriodSeconds", OptionsKind::Delete) => {
                    options.grace_period_seconds = Some(integer(&value)?);
                }
                ("orphanDependents", OptionsKind::Delete) => options.orphan_dependents = Some(is_true(&value)),
                ("propagationPolicy", OptionsKind::Delete) => options.propagation_policy = Some(value),
                // `Convert_url_Values_To_v1_DeleteOptions`
                ("uid" | "resourceVersion", OptionsKind::Delete) if !value.is_empty() => {
                    options.preconditions.get_or_insert_default().insert(name.clone(), value.into());
                }
                _ => continue,
            }
            seen.push(name);
        }
        options.validate(kind)?;
        Ok(options)
    }

    /// Reads the options of a delete from its body, or from the query if there is no body (`handlers.DeleteResource`).
    ///
    /// # Errors
    /// 400 if the body is not a `DeleteOptions`, 422 for values that are not allowed.
    pub fn for_delete(body: &[u8], media_type: MediaType, query: &str) -> Result<Self, Status> {
        if body.is_empty() {
            return Self::from_query(query, OptionsKind::Delete);
        }
        let (value, sent) = read(body, media_type).map_err(Status::bad_request)?;
        if !sent.kind.is_empty() && sent.kind != "DeleteOptions" {
            let version = if sent.version.is_empty() { "meta.k8s.io/v1".to_owned() } else { sent.group_version() };
            return Err(Status::bad_request(not_registered(&sent.kind, &version)));
        }
        let fields = value.as_object().cloned().unwrap_or_default();
        let kind = GroupVersionKind::new("", "v1", "DeleteOptions");
        if let Some(Err(why)) = typed::decode(&kind, Value::Object(fields.clone())) {
            return Err(Status::bad_request(why));
        }
        let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
        let options = Self {
            dry_run: fields
                .get("dryRun")
                .and_then(Value::as_array)
                .map(|values| values.iter().map(|value| value.as_str().unwrap_or_default().to_owned()).collect())
                .unwrap_or_default(),
            grace_period_seconds: fields.get("gracePeriodSeconds").and_then(Value::as_i64),
            orphan_dependents: fields.get("orphanDependents").and_then(Value::as_bool),
            propagation_policy: text("propagationPolicy"),
            preconditions: fields.get("preconditions").and_then(Value::as_object).cloned(),
            ..Self::default()
        };
        options.validate(OptionsKind::Delete)?;
        Ok(options)
    }

    /// Whether the request is a dry run.
    pub(crate) fn is_dry_run(&self) -> bool {
        !self.dry_run.is_empty()
    }

    /// Returns the treatment of unknown and duplicate fields: `Ignore`, `Warn` (the default) or `Strict`.
    pub(crate) fn validation_directive(&self) -> &str {
        if self.field_validation.is_empty() { "Warn" } else { &self.field_validation }
    }

    /// Returns the options object that admission sees. For a patch, `kind` is `UpdateOptions`, or `CreateOptions` if the patch
    /// creates an object.
    pub(crate) fn as_options_object(&self, kind: OptionsKind) -> Object {
        let mut fields = Map::new();
        fields.insert("kind".into(), kind.as_str().into());
        fields.insert("apiVersion".into(), "meta.k8s.io/v1".into());
        let mut set = |name: &str, value: Value| {
            fields.insert(name.to_owned(), value);
        };
        if !self.dry_run.is_empty() {
            set("dryRun", json!(self.dry_run));
        }
        if kind == OptionsKind::Delete {
            if let Some(seconds) = self.grace_period_seconds {
                set("gracePeriodSeconds", seconds.into());
            }
            if let Some(orphan) = self.orphan_dependents {
                set("orphanDependents", orphan.into());
            }
            if let Some(policy) = &self.propagation_policy {
                set("propagationPolicy", policy.as_str().into());
            }
            if let Some(preconditions) = &self.preconditions {
                set("preconditions", Value::Object(preconditions.clone()));
            }
        } else {
            if !self.field_manager.is_empty() {
                set("fieldManager", self.field_manager.as_str().into());
            }
            if !self.field_validation.is_empty() {
                set("fieldValidation", self.field_validation.as_str().into());
            }
            if let (OptionsKind::Patch(_), Some(force)) = (kind, self.force) {
                set("force", force.into());
            }
        }
        Object::from_value(Value::Object(fields)).unwrap_or_default()
    }

    /// `ValidateCreateOptions`, `ValidateUpdateOptions`, `ValidatePatchOptions`, `ValidateDeleteOptions`.
    fn validate(&self, kind: OptionsKind) -> Result<(), Status> {
        let mut causes = Vec::new();
        match kind {
            OptionsKind::Delete => self.validate_delete(&mut causes),
            OptionsKind::Patch(PatchType::Apply) if self.field_manager.is_empty() => {
                causes.push(cause("fieldManager", "FieldValueRequired", "Required value: is required for apply patch"));
            }
            OptionsKind::Patch(PatchType::Json | PatchType::Merge | PatchType::Strategic) if self.force.is_some() => {
                let why = "Forbidden: may not be specified for non-apply patch";
                causes.push(cause("force", "FieldValueForbidden", why));
            }
            _ => {}
        }
        self.validate_field_manager(&mut causes);
        if self.dry_run.iter().any(|value| value != "All") {
            let found = json!(self.dry_run).to_string();
            causes.push(not_supported("dryRun", &found, "\"All\""));
        }
        if !["", "Ignore", "Strict", "Warn"].contains(&self.field_validation.as_str()) {
            let found = go_quote(&self.field_validation);
            causes.push(not_supported("fieldValidation", &found, "\"\", \"Ignore\", \"Strict\", \"Warn\""));
        }
        invalid::options(kind.as_str(), causes).map_or(Ok(()), Err)
    }

    fn validate_delete(&self, causes: &mut Vec<Cause>) {
        let Some(policy) = &self.propagation_policy else { return };
        let found = go_quote(policy);
        if self.orphan_dependents.is_some() {
            let why = format!("Invalid value: {found}: orphanDependents and deletionPropagation cannot be both set");
            causes.push(cause("propagationPolicy", "FieldValueInvalid", &why));
        }
        if !["Foreground", "Background", "Orphan"].contains(&policy.as_str()) {
            let allowed = "\"Foreground\", \"Background\", \"Orphan\", \"nil\"";
            causes.push(not_supported("propagationPolicy", &found, allowed));
        }
    }

    fn validate_field_manager(&self, causes: &mut Vec<Cause>) {
        if self.field_manager.len() > MAX_FIELD_MANAGER_BYTES {
            let why = format!("Too long: may not be more than {MAX_FIELD_MANAGER_BYTES} bytes");
            causes.push(cause("fieldManager", "FieldValueTooLong", &why));
        }
        for (position, character) in self.field_manager.char_indices() {
            if !crate::go_text::is_printable(character) {
                let found = go_quote(&self.field_manager);
                let code = character as u32;
                let why = format!("Invalid value: {found}: invalid character U+{code:04X} (at position {position})");
                causes.push(cause("fieldManager", "FieldValueInvalid", &why));
            }
        }
    }
}

/// Reads a body of delete options, with its apiVersion and kind.
fn read(body: &[u8], media_type: MediaType) -> Result<(Value, Sent), Malformed> {
    let value = match media_type {
        MediaType::Json => super::decode_json(body)?.value,
        MediaType::Yaml => decode::yaml(body).map_err(Malformed::of)?.value,
        MediaType::Protobuf => {
            let envelope = protobuf::open(body).map_err(Malformed::of)?;
            let sent = Sent::of_protobuf(&envelope, &GroupVersionKind::new("meta.k8s.io", "v1", "DeleteOptions"));
            let is_options = sent.kind == "DeleteOptions";
            let message = if is_options {
                envelope.object(&sent.group, &sent.version, &sent.kind).map_err(Malformed::of)?
            } else {
                protobuf::Message::default()
            };
            return Ok((Value::Object(message.fields), sent));
        }
        MediaType::Cbor => {
            let options = GroupVersionKind::new("meta.k8s.io", "v1", "DeleteOptions");
            let sent = Sent::of_cbor(body, &options).map_err(Malformed::of)?;
            if sent.version.is_empty() {
                return Err(Malformed(format!("Object 'apiVersion' is missing in '{}'", cbor::diagnose(body))));
            }
            let is_options = sent.kind == "DeleteOptions";
            let value = match typed::decode_cbor(&options, body).filter(|_| is_options) {
                Some(typed) => typed.map_err(Malformed::of)?.value,
                None => Value::Null,
            };
            return Ok((value, sent));
        }
    };
    let sent = sent_kind(&value)?;
    Ok((value, sent))
}

fn cause(field: &str, reason: &str, message: &str) -> Cause {
    Cause { reason: reason.into(), message: message.into(), field: field.into() }
}

fn not_supported(field: &str, found: &str, allowed: &str) -> Cause {
    cause(field, "FieldValueNotSupported", &format!("Unsupported value: {found}: supported values: {allowed}"))
}

/// Whether the value is not `0` or `false` (`runtime.Convert_Slice_string_To_bool`).
fn is_true(value: &str) -> bool {
    value != "0" && !value.eq_ignore_ascii_case("false")
}

fn integer(value: &str) -> Result<i64, Status> {
    query::integer(value).map_err(Status::bad_request)
}
