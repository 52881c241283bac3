//! A definition in the internal version: fields that all versions have in common stand at the top
//! (`Convert_v1_CustomResourceDefinitionSpec_To_apiextensions_CustomResourceDefinitionSpec`).

use serde_json::{Map, Value};
use std::collections::HashMap;

/// A JSON object of a definition. A value of a wrong type counts as missing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a>(pub(super) &'a Map<String, Value>);

impl<'a> Fields<'a> {
    pub(super) fn of(value: &'a Value) -> Option<Self> {
        value.as_object().map(Self)
    }

    /// A field that is not null.
    pub(super) fn given(self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn text(self, name: &str) -> &'a str {
        self.optional_text(name).unwrap_or_default()
    }

    pub(super) fn optional_text(self, name: &str) -> Option<&'a str> {
        self.0.get(name).and_then(Value::as_str)
    }

    pub(super) fn flag(self, name: &str) -> bool {
        self.0.get(name) == Some(&Value::Bool(true))
    }

    pub(super) fn object(self, name: &str) -> Option<Self> {
        self.0.get(name).and_then(Self::of)
    }

    pub(super) fn list(self, name: &str) -> &'a [Value] {
        self.0.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    pub(super) fn texts(self, name: &str) -> impl Iterator<Item = &'a str> {
        self.list(name).iter().filter_map(Value::as_str)
    }

    /// The objects of a list, with their places.
    pub(super) fn objects(self, name: &str) -> impl Iterator<Item = (usize, Self)> {
        self.list(name).iter().enumerate().filter_map(|(index, item)| Some((index, Self::of(item)?)))
    }

    /// The objects of a map, with their keys.
    pub(super) fn map(self, name: &str) -> impl Iterator<Item = (&'a str, Self)> {
        let fields = self.0.get(name).and_then(Value::as_object).into_iter().flatten();
        fields.filter_map(|(key, value)| Some((key.as_str(), Self::of(value)?)))
    }

    /// Whether a field is a list or an object that is not empty.
    pub(super) fn has_any(self, name: &str) -> bool {
        match self.0.get(name) {
            Some(Value::Array(items)) => !items.is_empty(),
            Some(Value::Object(fields)) => !fields.is_empty(),
            _ => false,
        }
    }
}

/// The fields that a definition has once, or once for each version.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shared<'a> {
    /// `schema`, or `validation` at the top.
    pub(super) validation: Option<Fields<'a>>,
    pub(super) subresources: Option<Fields<'a>>,
    pub(super) columns: &'a [Value],
    pub(super) selectable: &'a [Value],
}

impl<'a> Shared<'a> {
    fn of(version: Fields<'a>) -> Self {
        Self {
            validation: version.object("schema"),
            subresources: version.object("subresources"),
            columns: version.list("additionalPrinterColumns"),
            selectable: version.list("selectableFields"),
        }
    }

    /// The schema.
    pub(super) fn schema(&self) -> Option<&'a Value> {
        self.validation?.given("openAPIV3Schema").filter(|schema| schema.is_object())
    }

    pub(super) fn has_status(&self) -> bool {
        self.subresources.is_some_and(|subresources| subresources.given("status").is_some())
    }
}

/// A version.
#[derive(Clone, Copy, Debug)]
pub(super) struct Version<'a> {
    pub(super) fields: Fields<'a>,
    pub(super) own: Shared<'a>,
}

/// The `spec`.
#[derive(Clone, Debug)]
pub(super) struct Spec<'a> {
    pub(super) fields: Fields<'a>,
    pub(super) top: Shared<'a>,
    pub(super) versions: Vec<Version<'a>>,
}

impl<'a> Spec<'a> {
    pub(super) fn of(fields: Fields<'a>) -> Self {
        let objects = fields.objects("versions").map(|(_, version)| version);
        let mut versions: Vec<_> =
            objects.map(|version| Version { fields: version, own: Shared::of(version) }).collect();
        let mut top = Shared::default();
        if let Some(first) = versions.first().map(|version| version.own) {
            let are_all = |is_same: &dyn Fn(&Shared<'a>) -> bool| versions.iter().all(|version| is_same(&version.own));
            let same = |one: Option<Fields<'a>>, other: Option<Fields<'a>>| {
                one.map(|fields| fields.0) == other.map(|fields| fields.0)
            };
            let has_validation = are_all(&|own| same(own.validation, first.validation));
            let has_subresources = are_all(&|own| same(own.subresources, first.subresources));
            let has_columns = are_all(&|own| own.columns == first.columns);
            let has_selectable = are_all(&|own| own.selectable == first.selectable);
            if has_validation {
                top.validation = first.validation;
                versions.iter_mut().for_each(|version| version.own.validation = None);
            }
            if has_subresources {
                top.subresources = first.subresources;
                versions.iter_mut().for_each(|version| version.own.subresources = None);
            }
            if has_columns {
                top.columns = first.columns;
                versions.iter_mut().for_each(|version| version.own.columns = &[]);
            }
            if has_selectable {
                top.selectable = first.selectable;
                versions.iter_mut().for_each(|version| version.own.selectable = &[]);
            }
        }
        Self { fields, top, versions }
    }

    /// The name of the first version.
    pub(super) fn version(&self) -> &'a str {
        self.versions.first().map_or("", |version| version.fields.text("name"))
    }

    /// The schemas.
    pub(super) fn schemas(&self) -> impl Iterator<Item = &'a Value> {
        let versions = self.versions.iter().filter_map(|version| version.own.schema());
        self.top.schema().into_iter().chain(versions)
    }

    /// The versions by their names. The first one of a name counts.
    pub(super) fn by_name(&self) -> HashMap<&'a str, Version<'a>> {
        let versions = self.versions.iter().rev();
        versions.map(|version| (version.fields.text("name"), *version)).collect()
    }

    /// The schema of one of the versions.
    pub(super) fn schema_of(&self, version: &Version<'a>) -> Option<&'a Value> {
        version.own.schema().or_else(|| self.top.schema())
    }

    /// Whether fields that the schemas do not describe are kept.
    pub(super) fn preserves(&self) -> bool {
        self.fields.flag("preserveUnknownFields")
    }

    /// Whether a subresource `status` exists, for one version or for all.
    pub(super) fn has_any_status(&self) -> bool {
        self.top.has_status() || self.versions.iter().any(|version| version.own.has_status())
    }
}

/// The schemas directly below a schema, of all places that can hold one (`SchemaHas`).
pub(super) fn children<'a>(schema: Fields<'a>) -> impl Iterator<Item = Fields<'a>> {
    let single = ["items", "not", "additionalProperties", "additionalItems"];
    let lists = ["items", "allOf", "anyOf", "oneOf"];
    let maps = ["properties", "patternProperties", "definitions", "dependencies"];
    let single = single.into_iter().filter_map(move |name| schema.object(name));
    let lists = lists.into_iter().flat_map(move |name| schema.objects(name).map(|(_, child)| child));
    single.chain(lists).chain(maps.into_iter().flat_map(move |name| schema.map(name).map(|(_, child)| child)))
}

/// Whether the test accepts a schema or a schema below it (`SchemaHas`).
pub(super) fn has(schema: &Value, test: &dyn Fn(Fields<'_>) -> bool) -> bool {
    fn within(schema: Fields<'_>, test: &dyn Fn(Fields<'_>) -> bool) -> bool {
        test(schema) || children(schema).any(|child| within(child, test))
    }
    Fields::of(schema).is_some_and(|schema| within(schema, test))
}
