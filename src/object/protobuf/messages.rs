//! What the messages are: `messages.txt`, read once.

use super::wire::Scalar;
use std::collections::HashMap;
use std::sync::LazyLock;

static TABLE: LazyLock<Table> = LazyLock::new(|| Table::read(include_str!("messages.txt")));

#[derive(Default)]
struct Table {
    /// Package of a `group/version`.
    packages: HashMap<&'static str, &'static str>,
    messages: HashMap<&'static str, Message>,
}

/// A message.
#[derive(Default)]
pub(super) struct Message {
    package: &'static str,
    fields: Vec<(u32, Field)>,
}

/// A field of a message.
pub(super) struct Field {
    /// In JSON.
    pub(super) name: &'static str,
    pub(super) is_repeated: bool,
    /// The type is that of the values; keys are strings.
    pub(super) is_map: bool,
    /// Its fields stand in the enclosing object in JSON.
    pub(super) is_inline: bool,
    /// Zero values are in the JSON too.
    pub(super) writes_zeros: bool,
    pub(super) scalar: Option<Scalar>,
    /// The type's full name.
    pub(super) kind: &'static str,
}

impl Message {
    pub(super) fn field(&self, number: u32) -> Option<&Field> {
        self.fields.iter().find(|(n, _)| *n == number).map(|(_, field)| field)
    }
}

impl Field {
    /// The type's message, if it is one.
    pub(super) fn message(&self) -> Option<&'static Message> {
        TABLE.messages.get(self.kind)
    }
}

/// The message of a kind. Options are of every group version, as kube-apiserver registers them.
pub(super) fn of_kind(api_version: &str, kind: &str) -> Option<&'static Message> {
    let key = if api_version.contains('/') { api_version.to_owned() } else { format!("/{api_version}") };
    let package = TABLE.packages.get(&*key)?;
    let options = || kind.ends_with("Options").then(|| TABLE.messages.get(&*format!("apis.meta.v1.{kind}"))).flatten();
    TABLE.messages.get(&*format!("{package}.{kind}")).or_else(options)
}

impl Table {
    fn read(text: &'static str) -> Self {
        let mut table = Self::default();
        let mut message = "";
        for line in text.lines() {
            if let Some(package) = line.strip_prefix("@ ") {
                table.packages.extend(package.split_once(' '));
            } else if let Some(field) = line.strip_prefix(' ') {
                let entry = table.messages.entry(message).or_default();
                let package = entry.package;
                entry.fields.extend(Field::read(field, package));
            } else {
                message = line;
                let package = line.rsplit_once('.').map_or("", |(package, _)| package);
                table.messages.insert(line, Message { package, fields: Vec::new() });
            }
        }
        table
    }
}

impl Field {
    fn read(line: &'static str, package: &str) -> Option<(u32, Self)> {
        let mut words = line.split(' ');
        let (number, flags, name, kind) = (words.next()?.parse().ok()?, words.next()?, words.next()?, words.next()?);
        let scalar = match kind {
            "string" => Some(Scalar::String),
            "bytes" => Some(Scalar::Bytes),
            "bool" => Some(Scalar::Bool),
            "int32" | "int64" => Some(Scalar::Int),
            "uint32" | "uint64" => Some(Scalar::Uint),
            "double" => Some(Scalar::Double),
            _ => None,
        };
        // Full names live as long as the table, which is forever.
        let kind: &'static str = if kind.starts_with('.') { format!("{package}{kind}").leak() } else { kind };
        let has = |flag| flags.contains(flag);
        let field = Self {
            name,
            is_repeated: has('r'),
            is_map: has('m'),
            is_inline: has('i'),
            writes_zeros: has('z'),
            scalar,
            kind,
        };
        Some((number, field))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_of_a_field_is_known() {
        assert!(TABLE.messages.len() > 900, "{}", TABLE.messages.len());
        for (name, message) in &TABLE.messages {
            for (_, field) in &message.fields {
                assert!(field.scalar.is_some() || field.message().is_some(), "{name}.{}: {}", field.name, field.kind);
                assert!(!field.is_inline || field.message().is_some(), "{name}.{}", field.name);
            }
        }
    }

    #[test]
    fn kinds_are_found_by_their_api_version() {
        for (api_version, kind) in [
            ("v1", "Pod"),
            ("apps/v1", "Deployment"),
            ("v1", "DeleteOptions"),
            ("apps/v1", "DeleteOptions"),
            ("authorization.k8s.io/v1", "SelfSubjectAccessReview"),
        ] {
            assert!(of_kind(api_version, kind).is_some(), "{api_version} {kind}");
        }
        assert!(of_kind("v1", "Nothing").is_none());
        assert!(of_kind("example.com/v1", "Pod").is_none());
    }
}
