//! `metav1.ObjectMeta` from JSON and back to it, as Go does both.

use super::{numbers, time};
use crate::object::decode::go_type;
use serde_json::{Map, Value};

/// How many unknown fields are noted (`sigs.k8s.io/json` stops there).
const MAX_UNKNOWN: usize = 100;

/// Decoded metadata.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    /// The known fields that are not empty.
    pub(super) fields: Map<String, Value>,
    /// Paths of the others.
    pub(super) unknown: Vec<String>,
}

/// Decodes a `metadata`; null is empty (`schemaobjectmeta.GetObjectMeta`).
///
/// # Errors
/// Go's text, when a field is of the wrong type.
pub(super) fn decode(value: &Value) -> Result<Metadata, String> {
    let mut decoder = Decoder::default();
    let fields = match value {
        Value::Object(object) => decoder.object(object, &OBJECT_META)?,
        Value::Null => Map::new(),
        other => return Err(format!("json: cannot unmarshal {} into Go value of type v1.ObjectMeta", go_type(other))),
    };
    match decoder.first_error {
        Some(error) => Err(error),
        None => Ok(Metadata { fields, unknown: decoder.unknown }),
    }
}

/// The same, leaving out what is of the wrong type; none if it is no object at all.
pub(super) fn decode_leniently(value: &Value) -> Option<Metadata> {
    let object = match value {
        Value::Object(object) => object,
        Value::Null => return Some(Metadata::default()),
        _ => return None,
    };
    let mut metadata = Metadata::default();
    for (name, value) in object {
        let alone = Value::Object([(name.clone(), value.clone())].into_iter().collect());
        if let Ok(decoded) = decode(&alone) {
            metadata.fields.extend(decoded.fields);
            metadata.unknown.extend(decoded.unknown);
        }
    }
    Some(metadata)
}

/// A Go struct.
struct Struct {
    name: &'static str,
    fields: &'static [(&'static str, Kind)],
}

/// A Go type.
enum Kind {
    /// A string by its Go type; written also when it is empty where it is `required`.
    String {
        go: &'static str,
        required: bool,
    },
    /// Written also when it is 0 where it is a pointer.
    Integer {
        pointer: bool,
    },
    Boolean,
    /// Written as null when it is the zero time where it is a pointer.
    Time {
        pointer: bool,
    },
    Strings,
    StringMap,
    Structs(&'static Struct),
    /// `FieldsV1`
    Raw,
}

const STRING: Kind = Kind::String { go: "string", required: false };
const REQUIRED: Kind = Kind::String { go: "string", required: true };

static OBJECT_META: Struct = Struct {
    name: "ObjectMeta",
    fields: &[
        ("name", STRING),
        ("generateName", STRING),
        ("namespace", STRING),
        ("selfLink", STRING),
        ("uid", Kind::String { go: "types.UID", required: false }),
        ("resourceVersion", STRING),
        ("generation", Kind::Integer { pointer: false }),
        ("creationTimestamp", Kind::Time { pointer: false }),
        ("deletionTimestamp", Kind::Time { pointer: true }),
        ("deletionGracePeriodSeconds", Kind::Integer { pointer: true }),
        ("labels", Kind::StringMap),
        ("annotations", Kind::StringMap),
        ("ownerReferences", Kind::Structs(&OWNER_REFERENCE)),
        ("finalizers", Kind::Strings),
        ("managedFields", Kind::Structs(&MANAGED_FIELDS_ENTRY)),
    ],
};

static OWNER_REFERENCE: Struct = Struct {
    name: "OwnerReference",
    fields: &[
        ("apiVersion", REQUIRED),
        ("kind", REQUIRED),
        ("name", REQUIRED),
        ("uid", Kind::String { go: "types.UID", required: true }),
        ("controller", Kind::Boolean),
        ("blockOwnerDeletion", Kind::Boolean),
    ],
};

static MANAGED_FIELDS_ENTRY: Struct = Struct {
    name: "ManagedFieldsEntry",
    fields: &[
        ("manager", STRING),
        ("operation", Kind::String { go: "v1.ManagedFieldsOperationType", required: false }),
        ("apiVersion", STRING),
        ("time", Kind::Time { pointer: true }),
        ("fieldsType", STRING),
        ("fieldsV1", Kind::Raw),
        ("subresource", STRING),
    ],
};

/// Where a value is: for errors the names alone, for unknown fields indices too.
#[derive(Default)]
struct Decoder {
    names: Vec<&'static str>,
    path: String,
    unknown: Vec<String>,
    first_error: Option<String>,
}

impl Decoder {
    fn object(&mut self, object: &Map<String, Value>, schema: &'static Struct) -> Result<Map<String, Value>, String> {
        let mut decoded = Map::new();
        for (name, value) in object {
            let Some((name, kind)) = schema.fields.iter().find(|(known, _)| known == name) else {
                if self.unknown.len() < MAX_UNKNOWN {
                    let dot = if self.path.is_empty() { "" } else { "." };
                    self.unknown.push(format!("{}{dot}{name}", self.path));
                }
                continue;
            };
            self.names.push(name);
            let length = self.path.len();
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(name);
            if let Some(value) = self.value(value, kind, schema)? {
                decoded.insert((*name).to_owned(), value);
            }
            self.path.truncate(length);
            self.names.pop();
        }
        for (name, kind) in schema.fields {
            if matches!(kind, Kind::String { required: true, .. }) && !decoded.contains_key(*name) {
                decoded.insert((*name).to_owned(), "".into());
            }
        }
        Ok(decoded)
    }

    /// A field as Go writes it again; none where it leaves it out.
    fn value(&mut self, value: &Value, kind: &Kind, owner: &'static Struct) -> Result<Option<Value>, String> {
        let written = match (kind, value) {
            (_, Value::Null) => None,
            (Kind::String { .. }, Value::String(text)) => (!text.is_empty()).then(|| value.clone()),
            (Kind::Boolean, Value::Bool(_)) | (Kind::Raw, _) => Some(value.clone()),
            (Kind::Integer { pointer }, Value::Number(number)) => match number.as_i64() {
                Some(whole) => (*pointer || whole != 0).then(|| value.clone()),
                None => {
                    self.mismatch(&format!("number {}", numbers::text(number)), kind, owner);
                    None
                }
            },
            // What a type says that decodes itself ends the decoding.
            (Kind::Time { pointer }, Value::String(text)) => match time::canonical(text)? {
                Some(time) => Some(time.into()),
                None => pointer.then_some(Value::Null),
            },
            (Kind::Time { .. }, other) => return Err(self.error(go_type(other), "string", owner)),
            (Kind::Strings, Value::Array(items)) => {
                let items: Vec<Value> = items.iter().map(|item| self.string(item, owner)).collect();
                (!items.is_empty()).then_some(Value::Array(items))
            }
            (Kind::StringMap, Value::Object(map)) => {
                let map: Map<_, _> = map.iter().map(|(key, value)| (key.clone(), self.string(value, owner))).collect();
                (!map.is_empty()).then_some(Value::Object(map))
            }
            (Kind::Structs(schema), Value::Array(items)) => {
                let items = self.structs(items, schema, owner)?;
                (!items.is_empty()).then_some(Value::Array(items))
            }
            (_, other) => {
                self.mismatch(go_type(other), kind, owner);
                None
            }
        };
        Ok(written)
    }

    fn string(&mut self, value: &Value, owner: &'static Struct) -> Value {
        match value {
            Value::String(_) => return value.clone(),
            Value::Null => {}
            other => self.mismatch(go_type(other), &STRING, owner),
        }
        "".into()
    }

    fn structs(
        &mut self,
        items: &[Value],
        schema: &'static Struct,
        owner: &'static Struct,
    ) -> Result<Vec<Value>, String> {
        let nothing = Map::new();
        let mut decoded = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let object = match item {
                Value::Object(object) => object,
                Value::Null => &nothing,
                other => {
                    let error = self.error(go_type(other), &format!("v1.{}", schema.name), owner);
                    self.first_error.get_or_insert(error);
                    continue;
                }
            };
            let length = self.path.len();
            self.path.push_str(&format!("[{index}]"));
            decoded.push(Value::Object(self.object(object, schema)?));
            self.path.truncate(length);
        }
        Ok(decoded)
    }

    /// Go goes on after a value of the wrong type, and says the first one in the end.
    fn mismatch(&mut self, found: &str, kind: &Kind, owner: &'static Struct) {
        if self.first_error.is_some() {
            return;
        }
        let expected = match kind {
            Kind::String { go, .. } => (*go).to_owned(),
            Kind::Integer { .. } => "int64".to_owned(),
            Kind::Boolean => "bool".to_owned(),
            Kind::Time { .. } | Kind::Raw => "string".to_owned(),
            Kind::Strings => "[]string".to_owned(),
            Kind::StringMap => "map[string]string".to_owned(),
            Kind::Structs(schema) => format!("[]v1.{}", schema.name),
        };
        self.first_error = Some(self.error(found, &expected, owner));
    }

    fn error(&self, found: &str, expected: &str, owner: &'static Struct) -> String {
        let (owner, path) = (owner.name, self.names.join("."));
        format!("json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {expected}")
    }
}
