//! Parts of definitions as Go prints them in errors: the JSON of their internal types, whose fields have Go's names.

use super::internal::{Fields, Shared, Version};
use crate::go_text::json::{self, string};
use serde_json::Value;

/// The form of a field.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    Flag,
    /// A pointer: null if the field is missing.
    Value,
    /// JSON in a pointer or a list: null if the field is missing.
    Schema,
    Schemas,
    SchemaMap,
    Items,
    SchemaOrFlag,
    Dependencies,
    Documentation,
    Rules,
}

use Shape::{Dependencies, Documentation, Flag, Items, Rules, Schema, SchemaMap, SchemaOrFlag, Schemas, Text};

/// `apiextensions.JSONSchemaProps`
const SCHEMA: [(&str, &str, Shape); 43] = [
    ("ID", "id", Text),
    ("Schema", "$schema", Text),
    ("Ref", "$ref", Shape::Value),
    ("Description", "description", Text),
    ("Type", "type", Text),
    ("Nullable", "nullable", Flag),
    ("Format", "format", Text),
    ("Title", "title", Text),
    ("Default", "default", Shape::Value),
    ("Maximum", "maximum", Shape::Value),
    ("ExclusiveMaximum", "exclusiveMaximum", Flag),
    ("Minimum", "minimum", Shape::Value),
    ("ExclusiveMinimum", "exclusiveMinimum", Flag),
    ("MaxLength", "maxLength", Shape::Value),
    ("MinLength", "minLength", Shape::Value),
    ("Pattern", "pattern", Text),
    ("MaxItems", "maxItems", Shape::Value),
    ("MinItems", "minItems", Shape::Value),
    ("UniqueItems", "uniqueItems", Flag),
    ("MultipleOf", "multipleOf", Shape::Value),
    ("Enum", "enum", Shape::Value),
    ("MaxProperties", "maxProperties", Shape::Value),
    ("MinProperties", "minProperties", Shape::Value),
    ("Required", "required", Shape::Value),
    ("Items", "items", Items),
    ("AllOf", "allOf", Schemas),
    ("OneOf", "oneOf", Schemas),
    ("AnyOf", "anyOf", Schemas),
    ("Not", "not", Schema),
    ("Properties", "properties", SchemaMap),
    ("AdditionalProperties", "additionalProperties", SchemaOrFlag),
    ("PatternProperties", "patternProperties", SchemaMap),
    ("Dependencies", "dependencies", Dependencies),
    ("AdditionalItems", "additionalItems", SchemaOrFlag),
    ("Definitions", "definitions", SchemaMap),
    ("ExternalDocs", "externalDocs", Documentation),
    ("Example", "example", Shape::Value),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", Shape::Value),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", Flag),
    ("XIntOrString", "x-kubernetes-int-or-string", Flag),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Shape::Value),
    ("XListType", "x-kubernetes-list-type", Shape::Value),
    ("XMapType", "x-kubernetes-map-type", Shape::Value),
];
const RULES: (&str, &str, Shape) = ("XValidations", "x-kubernetes-validations", Rules);

/// The names of the fields of a schema that have a value, in Go's order.
pub(super) fn given(schema: Fields<'_>) -> impl Iterator<Item = &'static str> {
    SCHEMA
        .into_iter()
        .chain([RULES])
        .filter(move |(_, name, shape)| match shape {
            Text => !schema.text(name).is_empty(),
            Flag => schema.flag(name),
            _ => schema.given(name).is_some(),
        })
        .map(|(go, ..)| go)
}

/// A schema.
pub(super) fn schema(schema: Fields<'_>) -> String {
    let fields =
        SCHEMA.iter().chain([&RULES]).map(|(go, name, shape)| format!("\"{go}\":{}", field(schema, name, *shape)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

fn field(schema: Fields<'_>, name: &str, shape: Shape) -> String {
    let null = || "null".to_owned();
    match shape {
        Text => string(schema.text(name)),
        Flag => schema.flag(name).to_string(),
        _ if schema.given(name).is_none() => null(),
        Shape::Value => schema.given(name).map_or_else(null, json::text),
        Schema => schema.object(name).map_or_else(null, self::schema),
        Schemas => list(schema.list(name), self::schema),
        SchemaMap => map(schema, name, |value| Fields::of(value).map_or_else(null, self::schema)),
        Items => items(schema),
        SchemaOrFlag => {
            let allows = schema.given(name) != Some(&Value::Bool(false));
            let inner = schema.object(name).map_or_else(null, self::schema);
            format!("{{\"Allows\":{allows},\"Schema\":{inner}}}")
        }
        Dependencies => map(schema, name, |value| {
            let inner = Fields::of(value).map_or_else(null, self::schema);
            let names = if value.is_array() { json::text(value) } else { null() };
            format!("{{\"Schema\":{inner},\"Property\":{names}}}")
        }),
        Documentation => schema.object(name).map_or_else(null, |docs| {
            format!("{{\"Description\":{},\"URL\":{}}}", string(docs.text("description")), string(docs.text("url")))
        }),
        Rules => list(schema.list(name), rule),
    }
}

/// The `items` of a schema.
pub(super) fn items(parent: Fields<'_>) -> String {
    let one = parent.object("items").map_or_else(|| "null".to_owned(), schema);
    let many = if parent.list("items").is_empty() { "null".to_owned() } else { list(parent.list("items"), schema) };
    format!("{{\"Schema\":{one},\"JSONSchemas\":{many}}}")
}

fn list(items: &[Value], print: fn(Fields<'_>) -> String) -> String {
    let items: Vec<_> = items.iter().filter_map(Fields::of).map(print).collect();
    format!("[{}]", items.join(","))
}

fn map(schema: Fields<'_>, name: &str, print: impl Fn(&Value) -> String) -> String {
    let fields = schema.given(name).and_then(Value::as_object).into_iter().flatten();
    let fields: Vec<_> = fields.map(|(key, value)| format!("{}:{}", string(key), print(value))).collect();
    format!("{{{}}}", fields.join(","))
}

fn rule(rule: Fields<'_>) -> String {
    let given = |name: &str| rule.given(name).map_or_else(|| "null".to_owned(), json::text);
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        string(rule.text("rule")),
        string(rule.text("message")),
        string(rule.text("messageExpression")),
        given("reason"),
        string(rule.text("fieldPath")),
        given("optionalOldSelf")
    )
}

/// The list of versions.
pub(super) fn versions(versions: &[Version<'_>]) -> String {
    let versions: Vec<_> = versions.iter().map(version).collect();
    format!("[{}]", versions.join(","))
}

fn version(version: &Version<'_>) -> String {
    let Version { fields, own } = version;
    let warning = fields.given("deprecationWarning").map_or_else(|| "null".to_owned(), json::text);
    format!(
        "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{warning},{}}}",
        string(fields.text("name")),
        fields.flag("served"),
        fields.flag("storage"),
        fields.flag("deprecated"),
        shared(own)
    )
}

fn shared(own: &Shared<'_>) -> String {
    let null = || "null".to_owned();
    let validation = own.validation.map_or_else(null, |validation| {
        format!("{{\"OpenAPIV3Schema\":{}}}", validation.object("openAPIV3Schema").map_or_else(null, schema))
    });
    let subresources = own.subresources.map_or_else(null, |subresources| {
        let status = subresources.object("status").map_or_else(null, |_| "{}".to_owned());
        let scale = subresources.object("scale").map_or_else(null, |scale| {
            format!(
                "{{\"SpecReplicasPath\":{},\"StatusReplicasPath\":{},\"LabelSelectorPath\":{}}}",
                string(scale.text("specReplicasPath")),
                string(scale.text("statusReplicasPath")),
                scale.given("labelSelectorPath").map_or_else(null, json::text)
            )
        });
        format!("{{\"Status\":{status},\"Scale\":{scale}}}")
    });
    let column = |column: Fields<'_>| {
        format!(
            "{{\"Name\":{},\"Type\":{},\"Format\":{},\"Description\":{},\"Priority\":{},\"JSONPath\":{}}}",
            string(column.text("name")),
            string(column.text("type")),
            string(column.text("format")),
            string(column.text("description")),
            column.given("priority").and_then(Value::as_i64).unwrap_or_default(),
            string(column.text("jsonPath"))
        )
    };
    let selectable = |field: Fields<'_>| format!("{{\"JSONPath\":{}}}", string(field.text("jsonPath")));
    let columns = if own.columns.is_empty() { null() } else { list(own.columns, column) };
    let selectable = if own.selectable.is_empty() { null() } else { list(own.selectable, selectable) };
    format!(
        "\"Schema\":{validation},\"Subresources\":{subresources},\"AdditionalPrinterColumns\":{columns},\
         \"SelectableFields\":{selectable}"
    )
}
