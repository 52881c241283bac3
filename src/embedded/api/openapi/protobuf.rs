//! OpenAPI v2 in protobuf: the messages of gnostic's `OpenAPIv2.proto` that the operations and schemas of custom resources need.

use serde_json::{Map, Value};

/// A `Document` with these paths and definitions alone.
pub(super) fn document(paths: &Map<String, Value>, definitions: &Map<String, Value>) -> Vec<u8> {
    let mut document = Message::default();
    document.message(8, |all| named(all, 2, paths, path));
    document.message(9, |all| named(all, 1, definitions, schema));
    document.0
}

/// A protobuf message.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push((value & 0x7f) as u8);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u64, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }

    fn text(&mut self, field: u64, value: Option<&Value>) {
        if let Some(text) = value.and_then(Value::as_str) {
            self.bytes(field, text.as_bytes());
        }
    }

    fn texts(&mut self, field: u64, value: Option<&Value>) {
        items(value).for_each(|item| self.text(field, Some(item)));
    }

    fn boolean(&mut self, field: u64, value: Option<&Value>) {
        if value == Some(&Value::Bool(true)) {
            self.varint(field << 3);
            self.varint(1);
        }
    }

    fn integer(&mut self, field: u64, value: Option<&Value>) {
        if let Some(number) = value.and_then(Value::as_i64) {
            self.varint(field << 3);
            self.varint(number.cast_unsigned());
        }
    }

    fn double(&mut self, field: u64, value: Option<&Value>) {
        if let Some(number) = value.and_then(Value::as_f64) {
            self.varint(field << 3 | 1);
            self.0.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// An `Any`, which has a value in YAML. JSON is YAML.
    fn any(&mut self, field: u64, value: Option<&Value>) {
        if let Some(value) = value {
            self.message(field, |any| any.bytes(2, format!("{value}\n").as_bytes()));
        }
    }

    fn extensions(&mut self, field: u64, of: &Value) {
        let fields = of.as_object().into_iter().flatten();
        for (name, value) in fields.filter(|(name, _)| name.starts_with("x-")) {
            self.message(field, |extension| {
                extension.bytes(1, name.as_bytes());
                extension.any(2, Some(value));
            });
        }
    }
}

fn items(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

/// Writes the entries of a map, as messages of a name and a value.
fn named(to: &mut Message, field: u64, entries: &Map<String, Value>, write: impl Fn(&mut Message, &Value)) {
    for (name, value) in entries {
        to.message(field, |entry| {
            entry.bytes(1, name.as_bytes());
            entry.message(2, |to| write(to, value));
        });
    }
}

fn path(to: &mut Message, item: &Value) {
    for (field, method) in [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (8, "patch")] {
        if let Some(value) = item.get(method) {
            to.message(field, |to| operation(to, value));
        }
    }
    items(item.get("parameters")).for_each(|value| to.message(9, |to| parameter(to, value)));
}

fn operation(to: &mut Message, operation: &Value) {
    to.texts(1, operation.get("tags"));
    to.text(5, operation.get("operationId"));
    to.texts(6, operation.get("produces"));
    to.texts(7, operation.get("consumes"));
    items(operation.get("parameters")).for_each(|value| to.message(8, |to| parameter(to, value)));
    to.message(9, |to| {
        if let Some(Value::Object(responses)) = operation.get("responses") {
            named(to, 1, responses, |to, value| to.message(1, |to| response(to, value)));
        }
    });
    to.texts(10, operation.get("schemes"));
    to.extensions(13, operation);
}

fn response(to: &mut Message, response: &Value) {
    to.text(1, response.get("description"));
    if let Some(of) = response.get("schema") {
        to.message(2, |to| to.message(1, |to| schema(to, of)));
    }
}

fn parameter(to: &mut Message, parameter: &Value) {
    if let Some(reference) = parameter.get("$ref") {
        to.message(2, |to| to.text(1, Some(reference)));
        return;
    }
    let place = parameter.get("in").and_then(Value::as_str).unwrap_or_default();
    to.message(1, |to| {
        if place == "body" {
            to.message(1, |to| {
                to.text(2, parameter.get("name"));
                to.text(3, parameter.get("in"));
                to.boolean(4, parameter.get("required"));
                to.message(5, |to| schema(to, parameter.get("schema").unwrap_or(&Value::Null)));
            });
            return;
        }
        // The messages of parameters in a path and in a query differ in the numbers of their fields.
        let (message, kind, unique) = if place == "path" { (4, 5, 19) } else { (3, 6, 20) };
        to.message(2, |to| {
            to.message(message, |to| {
                to.boolean(1, parameter.get("required"));
                to.text(2, parameter.get("in"));
                to.text(4, parameter.get("name"));
                to.text(kind, parameter.get("type"));
                to.boolean(unique, parameter.get("uniqueItems"));
            });
        });
    });
}

fn schema(to: &mut Message, schema: &Value) {
    for (field, name) in [(1, "$ref"), (2, "format"), (3, "title"), (4, "description"), (13, "pattern")] {
        to.text(field, schema.get(name));
    }
    for (field, name) in [(6, "multipleOf"), (7, "maximum"), (9, "minimum")] {
        to.double(field, schema.get(name));
    }
    for (field, name) in [(8, "exclusiveMaximum"), (10, "exclusiveMinimum"), (16, "uniqueItems")] {
        to.boolean(field, schema.get(name));
    }
    let counts = [
        (11, "maxLength"),
        (12, "minLength"),
        (14, "maxItems"),
        (15, "minItems"),
        (17, "maxProperties"),
        (18, "minProperties"),
    ];
    for (field, name) in counts {
        to.integer(field, schema.get(name));
    }
    to.texts(19, schema.get("required"));
    items(schema.get("enum")).for_each(|value| to.any(20, Some(value)));
    match schema.get("additionalProperties") {
        Some(Value::Bool(allowed)) => to.message(21, |to| {
            to.varint(2 << 3);
            to.varint(u64::from(*allowed));
        }),
        Some(additional) => to.message(21, |to| to.message(1, |to| self::schema(to, additional))),
        None => {}
    }
    if let Some(kind) = schema.get("type") {
        to.message(22, |to| to.text(1, Some(kind)));
    }
    if let Some(of) = schema.get("items") {
        to.message(23, |to| to.message(1, |to| self::schema(to, of)));
    }
    if let Some(Value::Object(properties)) = schema.get("properties") {
        to.message(25, |to| named(to, 1, properties, self::schema));
    }
    if let Some(documents) = schema.get("externalDocs") {
        to.message(29, |to| {
            to.text(1, documents.get("description"));
            to.text(2, documents.get("url"));
        });
    }
    to.any(30, schema.get("example"));
    to.extensions(31, schema);
}
