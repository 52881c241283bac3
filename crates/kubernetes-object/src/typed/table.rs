//! The Go types of the built-in kinds: their fields, and their treatment by `encoding/json`.
//!
//! `tools/protobuf-table` writes the table from the Go types. The text is part of the binary and is parsed once, at the first use; the
//! parsed table borrows from it.

use crate::kind::GroupVersionKind;
use crate::release;
use std::collections::HashMap;
use std::sync::LazyLock;

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::parse(include_str!("types.txt")));

/// The type of a built-in kind.
pub(super) fn of(kind: &GroupVersionKind) -> Option<&'static Type> {
    let table = &*TABLE;
    let found = table.kinds.get(&(kind.group.as_str(), kind.version.as_str(), kind.kind.as_str()));
    table.types.get(*found.or_else(|| table.kinds.get(&("*", "*", kind.kind.as_str())))?)
}

/// Whether a kind has a type of its own, rather than one that all groups share.
pub(super) fn has(kind: &GroupVersionKind) -> bool {
    TABLE.kinds.contains_key(&(kind.group.as_str(), kind.version.as_str(), kind.kind.as_str()))
}

/// `metav1.ObjectMeta`
pub(super) fn object_meta() -> Option<&'static Type> {
    static FOUND: LazyLock<Option<&'static Type>> =
        LazyLock::new(|| TABLE.types.iter().find(|one| one.name == "meta.v1.ObjectMeta"));
    *FOUND
}

/// The shapes of the unions of JSON schemas in a CustomResourceDefinition: a schema, a list of schemas, a list of strings.
pub(super) fn json_schema() -> &'static [Shape; 3] {
    &TABLE.json_schema
}

/// The shape of the items in a list of bytes.
pub(super) fn byte() -> &'static Shape {
    static BYTE: Shape = Shape { is_pointer: false, name: None, holds: Holds::Uint8 };
    &BYTE
}

/// The shape of a number in an `IntOrString`.
pub(super) fn int32() -> &'static Shape {
    static INT32: Shape = Shape { is_pointer: false, name: None, holds: Holds::Int32 };
    &INT32
}

/// A Go struct.
#[derive(Debug)]
pub(super) struct Type {
    /// The name with package and version: `core.v1.Pod`.
    name: &'static str,
    /// The fields, sorted by name.
    fields: Box<[Field]>,
    /// A hash table of positions in `fields`, by [`hash`]: the position plus one, or 0.
    places: Box<[u16]>,
    /// Positions of the fields that are always written.
    written: Box<[u16]>,
    /// The number of values that Go writes for a zero value of this type.
    pub(super) zeros: usize,
}

/// A JSON field of a [`Type`].
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    /// `omitempty`
    pub(super) omits_empty: bool,
    /// `omitzero`
    pub(super) omits_zero: bool,
    /// The Go names of the structs that the field is embedded in.
    pub(super) embedded: Option<&'static str>,
}

/// The Go type of a field, of an item of a list, or of a value of a map.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) is_pointer: bool,
    /// The name of the type, if it does not follow from `holds`.
    name: Option<&'static str>,
    pub(super) holds: Holds,
}

#[derive(Debug)]
pub(super) enum Holds {
    String,
    Bool,
    Uint8,
    Int32,
    Int64,
    Float64,
    Bytes,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// Any JSON: `RawExtension`, `FieldsV1`, the `JSON` of schemas.
    Raw(&'static str),
    SchemaOrBool,
    SchemaOrArray,
    SchemaOrStrings,
    Struct(u16),
    List(Box<Shape>),
    Map(&'static str, Box<Shape>),
}

/// The type with an index of [`Holds::Struct`].
pub(super) fn resolve(index: u16) -> Option<&'static Type> {
    TABLE.types.get(usize::from(index))
}

impl Type {
    fn new(name: &'static str, fields: Box<[Field]>) -> Self {
        let written = fields.iter().zip(0..).filter(|(field, _)| field.is_always_written()).map(|(_, at)| at).collect();
        let mut places = vec![0; (2 * fields.len() + 1).next_power_of_two()].into_boxed_slice();
        for (field, place) in fields.iter().zip(1..) {
            let mut at = hash(field.name) & (places.len() - 1);
            while places.get(at).is_some_and(|taken| *taken != 0) {
                at = (at + 1) & (places.len() - 1);
            }
            places.get_mut(at).into_iter().for_each(|free| *free = place);
        }
        Self { name, fields, places, written, zeros: 0 }
    }

    /// The field with a JSON name.
    pub(super) fn field(&self, name: &str) -> Option<&Field> {
        let mut at = hash(name);
        loop {
            at &= self.places.len() - 1;
            let field = self.fields.get(usize::from(*self.places.get(at)?).checked_sub(1)?)?;
            if field.name == name {
                return Some(field);
            }
            at += 1;
        }
    }

    /// The fields that Go writes even if they are zero.
    pub(super) fn written(&self) -> impl Iterator<Item = &Field> {
        self.written.iter().filter_map(|at| self.fields.get(usize::from(*at)))
    }

    /// `Pod`
    pub(super) fn go_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }

    /// `v1.Pod`
    pub(super) fn go_type(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(_, name)| name)
    }
}

/// A hash of a field name, with few collisions among the fields of a type.
fn hash(name: &str) -> usize {
    let bytes = name.as_bytes();
    let byte = |at: usize| bytes.get(at).copied().map_or(0, usize::from);
    bytes.len()
        ^ byte(0).wrapping_mul(7)
        ^ byte(bytes.len() / 2).wrapping_mul(31)
        ^ byte(bytes.len().wrapping_sub(1)).wrapping_mul(3)
}

impl Field {
    /// Whether Go writes the field for every value.
    fn is_always_written(&self) -> bool {
        !self.omits_zero && (!self.omits_empty || !self.shape.is_pointer && self.shape.holds.is_struct())
    }
}

impl Shape {
    /// The type's name in Go's errors.
    pub(super) fn go_type(&self) -> String {
        if self.is_pointer { format!("*{}", self.pointee()) } else { self.pointee() }
    }

    /// The name of the type without the pointer.
    pub(super) fn pointee(&self) -> String {
        if let Some(name) = self.name {
            return name.to_owned();
        }
        match &self.holds {
            Holds::String => "string",
            Holds::Bool => "bool",
            Holds::Uint8 => "uint8",
            Holds::Int32 => "int32",
            Holds::Int64 => "int64",
            Holds::Float64 => "float64",
            Holds::Bytes => "[]uint8",
            Holds::Time => "v1.Time",
            Holds::MicroTime => "v1.MicroTime",
            Holds::Quantity => "resource.Quantity",
            Holds::IntOrString => "intstr.IntOrString",
            Holds::Raw(name) => name,
            Holds::SchemaOrBool => "v1.JSONSchemaPropsOrBool",
            Holds::SchemaOrArray => "v1.JSONSchemaPropsOrArray",
            Holds::SchemaOrStrings => "v1.JSONSchemaPropsOrStringArray",
            Holds::Struct(index) => resolve(*index).map_or("struct", Type::go_type),
            Holds::List(items) => return format!("[]{}", items.go_type()),
            Holds::Map(key, values) => return format!("map[{key}]{}", values.go_type()),
        }
        .to_owned()
    }
}

impl Holds {
    /// Whether the type is a Go struct, which is never empty for `omitempty`.
    fn is_struct(&self) -> bool {
        match self {
            Self::String
            | Self::Bool
            | Self::Uint8
            | Self::Int32
            | Self::Int64
            | Self::Float64
            | Self::Bytes
            | Self::List(_)
            | Self::Map(..) => false,
            Self::Time
            | Self::MicroTime
            | Self::Quantity
            | Self::IntOrString
            | Self::Raw(_)
            | Self::SchemaOrBool
            | Self::SchemaOrArray
            | Self::SchemaOrStrings
            | Self::Struct(_) => true,
        }
    }

    /// Whether the type is a scalar of Go itself.
    pub(super) fn is_scalar(&self) -> bool {
        matches!(self, Self::String | Self::Bool | Self::Uint8 | Self::Int32 | Self::Int64 | Self::Float64)
    }

    /// Whether `null` resets the previous value, even without a pointer.
    pub(super) fn is_reset_by_null(&self) -> bool {
        matches!(self, Self::Bytes | Self::Time | Self::MicroTime | Self::Quantity | Self::List(_) | Self::Map(..))
    }

    /// Whether Go's JSON for a value other than nil may be `null`.
    pub(super) fn may_be_null(&self) -> bool {
        matches!(self, Self::Time | Self::MicroTime | Self::SchemaOrArray | Self::SchemaOrStrings)
    }
}

struct Table {
    types: Vec<Type>,
    kinds: HashMap<(&'static str, &'static str, &'static str), usize>,
    json_schema: [Shape; 3],
}

impl Table {
    /// Parses the text. Skips a line that is malformed; a test checks that there is none.
    fn parse(text: &'static str) -> Self {
        let names = || release::lines(text).filter_map(|line| line.strip_prefix("= ")?.split(' ').next());
        let indices: HashMap<&str, u16> = names().zip(0..).collect();
        let mut types: Vec<Type> = Vec::with_capacity(indices.len());
        let mut kinds = HashMap::new();
        let mut fields = Vec::new();
        for line in release::lines(text).rev() {
            let Some(heading) = line.strip_prefix("= ") else {
                fields.extend(field(line, &indices));
                continue;
            };
            let mut words = heading.split(' ');
            let name = words.next().unwrap_or_default();
            for kind in words {
                if let [group, version, kind] = kind.split('/').collect::<Vec<_>>()[..] {
                    kinds.insert((group, version, kind), indices.len() - 1 - types.len());
                }
            }
            fields.reverse();
            types.push(Type::new(name, std::mem::take(&mut fields).into_boxed_slice()));
        }
        types.reverse();
        for index in 0..types.len() {
            let zeros = zeros(&types, index);
            types.get_mut(index).into_iter().for_each(|of| of.zeros = zeros);
        }
        let plain = |holds| Shape { is_pointer: false, name: None, holds };
        let index = indices.get("apiextensions.v1.JSONSchemaProps").copied().unwrap_or_default();
        let schema = || plain(Holds::Struct(index));
        let schemas = plain(Holds::List(Box::new(schema())));
        let strings = plain(Holds::List(Box::new(plain(Holds::String))));
        Self { types, kinds, json_schema: [schema(), schemas, strings] }
    }
}

/// The number of values that Go writes for a zero value. Terminates, since structs contain themselves only through pointers.
fn zeros(types: &[Type], index: usize) -> usize {
    let Some(one) = types.get(index) else { return 0 };
    let count = |field: &Field| match field.shape.holds {
        Holds::Struct(index) if !field.shape.is_pointer => 1 + zeros(types, usize::from(index)),
        _ => 1,
    };
    one.written().map(count).sum()
}

fn field(line: &'static str, indices: &HashMap<&str, u16>) -> Option<Field> {
    let mut words = line.split(' ');
    let (name, held, flags) = (words.next()?, words.next()?, words.next()?);
    Some(Field {
        name,
        shape: shape(held, indices)?,
        omits_empty: flags.contains('o'),
        omits_zero: flags.contains('z'),
        embedded: words.next(),
    })
}

fn shape(text: &'static str, indices: &HashMap<&str, u16>) -> Option<Shape> {
    let (is_pointer, text) = match text.strip_prefix('*') {
        Some(text) => (true, text),
        None => (false, text),
    };
    let (name, text) = match text.split_once('=') {
        // Otherwise the name belongs to the element type.
        Some((name, text)) if !name.contains(['[', '{', '*']) => (Some(name), text),
        _ => (None, text),
    };
    let holds = match text {
        "[]uint8" => Holds::Bytes,
        "string" => Holds::String,
        "bool" => Holds::Bool,
        "uint8" => Holds::Uint8,
        "int32" => Holds::Int32,
        "int64" => Holds::Int64,
        "float64" => Holds::Float64,
        "time" => Holds::Time,
        "microtime" => Holds::MicroTime,
        "quantity" => Holds::Quantity,
        "int-or-string" => Holds::IntOrString,
        "raw-extension" => Holds::Raw("runtime.RawExtension"),
        "fields-v1" => Holds::Raw("v1.FieldsV1"),
        "json" => Holds::Raw("v1.JSON"),
        "schema-or-bool" => Holds::SchemaOrBool,
        "schema-or-array" => Holds::SchemaOrArray,
        "schema-or-strings" => Holds::SchemaOrStrings,
        _ => match (text.strip_prefix("[]"), text.strip_prefix('{').and_then(|text| text.split_once('}'))) {
            (Some(items), _) => Holds::List(Box::new(shape(items, indices)?)),
            (_, Some(("", values))) => Holds::Map("string", Box::new(shape(values, indices)?)),
            (_, Some((key, values))) => Holds::Map(key, Box::new(shape(values, indices)?)),
            _ => Holds::Struct(*indices.get(text)?),
        },
    };
    Some(Shape { is_pointer, name, holds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read() {
        let lines = TABLE.types.iter().map(|one| 1 + one.fields.len()).sum::<usize>();
        assert_eq!(lines, release::lines(include_str!("types.txt")).count());
        for one in &TABLE.types {
            assert!(one.fields.is_sorted_by_key(|field| field.name), "{}", one.name);
            for field in &one.fields {
                assert!(one.field(field.name).is_some_and(|found| std::ptr::eq(found, field)), "{}", field.name);
            }
            assert!(one.field("").is_none() && one.field("noSuchField").is_none());
        }
        assert!(json_schema()[0].go_type() == "v1.JSONSchemaProps");
    }

    #[test]
    fn every_built_in_kind_of_the_schema_has_a_type() {
        for (kind, _) in crate::schema::kinds() {
            assert!(of(&kind).is_some(), "{kind:?}");
        }
        assert!(of(&GroupVersionKind::new("example.com", "v1", "DeleteOptions")).is_some());
        assert!(of(&GroupVersionKind::new("example.com", "v1", "Pod")).is_none());
    }

    #[test]
    fn types_have_the_names_of_go() {
        let pod = of(&GroupVersionKind::new("", "v1", "Pod")).unwrap();
        assert_eq!((pod.go_name(), pod.go_type()), ("Pod", "v1.Pod"));
        let Holds::Struct(spec) = pod.field("spec").unwrap().shape.holds else { panic!() };
        let spec = resolve(spec).unwrap();
        for (field, expected) in [
            ("containers", "[]v1.Container"),
            ("nodeSelector", "map[string]string"),
            ("overhead", "v1.ResourceList"),
            ("restartPolicy", "v1.RestartPolicy"),
            ("hostUsers", "*bool"),
        ] {
            assert_eq!(spec.field(field).unwrap().shape.go_type(), expected);
        }
    }
}
