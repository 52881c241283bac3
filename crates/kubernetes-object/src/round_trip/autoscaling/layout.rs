//! Go structs as data: their fields in order, and the rules by which encoding/json reads and writes them.

use crate::quantity;
use crate::release;
use serde_json::{Map, Value};
use std::fmt::Write;

/// A struct: its fields in Go's order.
pub(crate) struct Struct(&'static [Field]);

struct Field {
    name: &'static str,
    kind: Kind,
    zero: Zero,
}

enum Kind {
    Text,
    /// Of 32 bits.
    Integer,
    /// An integer of 64 bits.
    Long,
    Quantity,
    Time,
    Texts,
    TextMap,
    Struct(&'static Struct),
    Structs(&'static Struct),
}

/// The JSON of a field that is not set.
#[derive(Clone, Copy, PartialEq)]
enum Zero {
    /// The type's zero value.
    Written,
    /// No JSON (`omitempty`).
    Omitted,
    /// `null`, for a pointer or a list.
    Null,
}

const fn field(name: &'static str, kind: Kind, zero: Zero) -> Field {
    Field { name, kind, zero }
}

const REQUIREMENT: &Struct = &Struct(&[
    field("key", Kind::Text, Zero::Written),
    field("operator", Kind::Text, Zero::Written),
    field("values", Kind::Texts, Zero::Omitted),
]);
const SELECTOR: &Struct = &Struct(&[
    field("matchLabels", Kind::TextMap, Zero::Omitted),
    field("matchExpressions", Kind::Structs(REQUIREMENT), Zero::Omitted),
]);
const REFERENCE: &Struct = &Struct(&[
    field("kind", Kind::Text, Zero::Written),
    field("name", Kind::Text, Zero::Written),
    field("apiVersion", Kind::Text, Zero::Omitted),
]);

/// `autoscaling/v1.MetricSpec`.
pub(crate) const METRIC: &Struct = &Struct(&[
    field("type", Kind::Text, Zero::Written),
    field("object", Kind::Struct(OBJECT), Zero::Omitted),
    field("pods", Kind::Struct(PODS), Zero::Omitted),
    field("resource", Kind::Struct(RESOURCE), Zero::Omitted),
    field("containerResource", Kind::Struct(CONTAINER_RESOURCE), Zero::Omitted),
    field("external", Kind::Struct(EXTERNAL), Zero::Omitted),
]);
const OBJECT: &Struct = &Struct(&[
    field("target", Kind::Struct(REFERENCE), Zero::Written),
    field("metricName", Kind::Text, Zero::Written),
    field("targetValue", Kind::Quantity, Zero::Written),
    field("selector", Kind::Struct(SELECTOR), Zero::Omitted),
    field("averageValue", Kind::Quantity, Zero::Omitted),
]);
const PODS: &Struct = &Struct(&[
    field("metricName", Kind::Text, Zero::Written),
    field("targetAverageValue", Kind::Quantity, Zero::Written),
    field("selector", Kind::Struct(SELECTOR), Zero::Omitted),
]);
const RESOURCE: &Struct = &Struct(&[
    field("name", Kind::Text, Zero::Written),
    field("targetAverageUtilization", Kind::Integer, Zero::Omitted),
    field("targetAverageValue", Kind::Quantity, Zero::Omitted),
]);
const CONTAINER_RESOURCE: &Struct = &Struct(&[
    field("name", Kind::Text, Zero::Written),
    field("targetAverageUtilization", Kind::Integer, Zero::Omitted),
    field("targetAverageValue", Kind::Quantity, Zero::Omitted),
    field("container", Kind::Text, Zero::Written),
]);
const EXTERNAL: &Struct = &Struct(&[
    field("metricName", Kind::Text, Zero::Written),
    field("metricSelector", Kind::Struct(SELECTOR), Zero::Omitted),
    field("targetValue", Kind::Quantity, Zero::Omitted),
    field("targetAverageValue", Kind::Quantity, Zero::Omitted),
]);

/// `autoscaling/v1.MetricStatus`.
pub(crate) const METRIC_STATUS: &Struct = &Struct(&[
    field("type", Kind::Text, Zero::Written),
    field("object", Kind::Struct(OBJECT_STATUS), Zero::Omitted),
    field("pods", Kind::Struct(PODS_STATUS), Zero::Omitted),
    field("resource", Kind::Struct(RESOURCE_STATUS), Zero::Omitted),
    field("containerResource", Kind::Struct(CONTAINER_RESOURCE_STATUS), Zero::Omitted),
    field("external", Kind::Struct(EXTERNAL_STATUS), Zero::Omitted),
]);
const OBJECT_STATUS: &Struct = &Struct(&[
    field("target", Kind::Struct(REFERENCE), Zero::Written),
    field("metricName", Kind::Text, Zero::Written),
    field("currentValue", Kind::Quantity, Zero::Written),
    field("selector", Kind::Struct(SELECTOR), Zero::Omitted),
    field("averageValue", Kind::Quantity, Zero::Omitted),
]);
const PODS_STATUS: &Struct = &Struct(&[
    field("metricName", Kind::Text, Zero::Written),
    field("currentAverageValue", Kind::Quantity, Zero::Written),
    field("selector", Kind::Struct(SELECTOR), Zero::Omitted),
]);
const RESOURCE_STATUS: &Struct = &Struct(&[
    field("name", Kind::Text, Zero::Written),
    field("currentAverageUtilization", Kind::Integer, Zero::Omitted),
    field("currentAverageValue", Kind::Quantity, Zero::Written),
]);
const CONTAINER_RESOURCE_STATUS: &Struct = &Struct(&[
    field("name", Kind::Text, Zero::Written),
    field("currentAverageUtilization", Kind::Integer, Zero::Omitted),
    field("currentAverageValue", Kind::Quantity, Zero::Written),
    field("container", Kind::Text, Zero::Written),
]);
const EXTERNAL_STATUS: &Struct = &Struct(&[
    field("metricName", Kind::Text, Zero::Written),
    field("metricSelector", Kind::Struct(SELECTOR), Zero::Omitted),
    field("currentValue", Kind::Quantity, Zero::Written),
    field("currentAverageValue", Kind::Quantity, Zero::Omitted),
]);

/// `autoscaling/v1.HorizontalPodAutoscalerCondition`.
pub(crate) fn condition() -> &'static Struct {
    if release::since(37) { CONDITION } else { CONDITION_BEFORE_1_37 }
}

const CONDITION_FIELDS: &[Field] = &[
    field("type", Kind::Text, Zero::Written),
    field("status", Kind::Text, Zero::Written),
    field("lastTransitionTime", Kind::Time, Zero::Null),
    field("reason", Kind::Text, Zero::Omitted),
    field("message", Kind::Text, Zero::Omitted),
    field("observedGeneration", Kind::Long, Zero::Omitted),
];
const CONDITION: &Struct = &Struct(CONDITION_FIELDS);
const CONDITION_BEFORE_1_37: &Struct = &Struct(CONDITION_FIELDS.split_at(5).0);

/// `autoscaling.HorizontalPodAutoscalerBehavior`: the internal type, whose fields have no JSON names.
pub(crate) const BEHAVIOR: &Struct =
    &Struct(&[field("ScaleUp", Kind::Struct(RULES), Zero::Null), field("ScaleDown", Kind::Struct(RULES), Zero::Null)]);
const RULES: &Struct = &Struct(&[
    field("StabilizationWindowSeconds", Kind::Integer, Zero::Null),
    field("SelectPolicy", Kind::Text, Zero::Null),
    field("Policies", Kind::Structs(POLICY), Zero::Null),
    field("Tolerance", Kind::Quantity, Zero::Null),
]);
const POLICY: &Struct = &Struct(&[
    field("Type", Kind::Text, Zero::Written),
    field("Value", Kind::Integer, Zero::Written),
    field("PeriodSeconds", Kind::Integer, Zero::Written),
]);

impl Struct {
    /// The known fields of a value; `None` if Go cannot decode the value. Field names match in any case, as in encoding/json.
    pub(crate) fn read(&self, value: &Value) -> Option<Value> {
        let given = match value {
            Value::Object(given) => given,
            Value::Null => return Some(Value::Object(Map::new())),
            _ => return None,
        };
        let mut read = Map::new();
        for field in self.0 {
            let any_case = || given.iter().find(|(name, _)| name.eq_ignore_ascii_case(field.name));
            let value = given.get(field.name).or_else(|| Some(any_case()?.1));
            if let Some(value) = value.filter(|value| !value.is_null()) {
                read.insert(field.name.to_owned(), field.kind.read(value)?);
            }
        }
        Some(Value::Object(read))
    }

    /// The output of `json.Marshal`.
    pub(crate) fn written(&self, value: &Value) -> String {
        let mut out = String::new();
        self.write(value, &mut out);
        ["<", ">", "&", "\u{2028}", "\u{2029}"].iter().fold(out, |out, escaped| {
            let code = escaped.chars().next().map_or(0, u32::from);
            if out.contains(escaped) { out.replace(escaped, &format!("\\u{code:04x}")) } else { out }
        })
    }

    fn write(&self, value: &Value, out: &mut String) {
        let mut separator = '{';
        for field in self.0 {
            let value = value.get(field.name);
            let is_empty = match (value, &field.kind) {
                (None, _) => true,
                (Some(Value::String(text)), Kind::Text) => text.is_empty(),
                (Some(Value::Array(items)), _) => items.is_empty(),
                (Some(Value::Object(entries)), Kind::TextMap) => entries.is_empty(),
                _ => false,
            };
            if is_empty && field.zero == Zero::Omitted {
                continue;
            }
            let _ = write!(out, "{separator}\"{}\":", field.name);
            separator = ',';
            match value {
                None if field.zero == Zero::Null => out.push_str("null"),
                _ => field.kind.write(value.unwrap_or(&Value::Null), out),
            }
        }
        out.push_str(if separator == '{' { "{}" } else { "}" });
    }
}

impl Kind {
    fn read(&self, value: &Value) -> Option<Value> {
        Some(match (self, value) {
            (Self::Text, Value::String(_)) => value.clone(),
            (Self::Integer, Value::Number(number)) => i32::try_from(number.as_i64()?).ok()?.into(),
            (Self::Long, Value::Number(number)) => number.as_i64()?.into(),
            (Self::Quantity, Value::String(text)) => quantity::canonical(text).ok()?.into(),
            (Self::Quantity, Value::Number(number)) => quantity::canonical(&number.to_string()).ok()?.into(),
            (Self::Time, Value::String(text)) => {
                let time: jiff::Timestamp = text.parse().ok()?;
                jiff::Timestamp::from_second(time.as_second()).ok()?.to_string().into()
            }
            (Self::Texts, Value::Array(items)) => items.iter().map(text_or_zero).collect::<Option<Vec<_>>>()?.into(),
            (Self::TextMap, Value::Object(entries)) => {
                let text = |(name, value): (&String, &Value)| Some((name.clone(), text_or_zero(value)?));
                Value::Object(entries.iter().map(text).collect::<Option<Map<_, _>>>()?)
            }
            (Self::Struct(of), _) => of.read(value)?,
            (Self::Structs(of), Value::Array(items)) => {
                items.iter().map(|item| of.read(item)).collect::<Option<Vec<_>>>()?.into()
            }
            _ => return None,
        })
    }

    fn write(&self, value: &Value, out: &mut String) {
        match (self, value) {
            (Self::Struct(of), _) => of.write(value, out),
            (Self::Structs(of), Value::Array(items)) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { "," });
                    of.write(item, out);
                }
                out.push(']');
            }
            (Self::Text, Value::Null) => out.push_str("\"\""),
            (Self::Integer | Self::Long, Value::Null) => out.push('0'),
            (Self::Quantity, Value::Null) => out.push_str("\"0\""),
            _ => out.push_str(&value.to_string()),
        }
    }
}

fn text_or_zero(value: &Value) -> Option<Value> {
    match value {
        Value::String(_) => Some(value.clone()),
        Value::Null => Some(Value::String(String::new())),
        _ => None,
    }
}
