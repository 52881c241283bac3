//! The elements of paths that identify the items of a list.

use super::node::{Items, ListType};
use crate::go_text::go_quote;
use crate::go_text::numbers::canonicalize;
use serde_json::Value as Json;

/// The identity of an item in a list.
#[derive(Clone, Debug, PartialEq)]
pub enum Element {
    /// The item's keys, by name.
    Keys(Vec<(String, Json)>),
    /// The item's value.
    Value(Json),
}

impl Element {
    /// The element as `metadata.managedFields` writes it.
    pub fn field(&self) -> String {
        match self {
            Self::Value(item) => format!("v:{item}"),
            Self::Keys(keys) => format!("k:{}", Json::Object(keys.iter().cloned().collect())),
        }
    }

    /// The element as a part of a path in error texts.
    pub fn path(&self) -> String {
        let value = |value: &Json| match value {
            Json::String(text) => go_quote(text),
            other => other.to_string(),
        };
        match self {
            Self::Value(item) => format!("[={}]", value(item)),
            Self::Keys(keys) => {
                let keys: Vec<_> = keys.iter().map(|(name, key)| format!("{name}={}", value(key))).collect();
                format!("[{}]", keys.join(","))
            }
        }
    }
}

/// The reason why an item has no identity in its list, with the text of structured-merge-diff.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoIdentity(String);

/// Returns the identity of an item (`listItemToPathElement`).
///
/// # Errors
/// If the list's type or the item allows no identity.
pub fn element(list: &ListType<'_>, item: &Json) -> Result<Element, NoIdentity> {
    match &list.items {
        Items::Atomic => Err(NoIdentity("invalid indexing of non-associative list".into())),
        Items::Set => match item {
            Json::Object(_) => Err(NoIdentity("associative list without keys has an element that's a map type".into())),
            Json::Array(_) => Err(NoIdentity("not supported: associative list with lists as elements".into())),
            Json::Null => {
                Err(NoIdentity("associative list without keys has an element that's an explicit null".into()))
            }
            item => Ok(Element::Value(canonical(item.clone()))),
        },
        Items::Keys(names) => {
            let fields = match item {
                Json::Null => return Err(NoIdentity("associative list with keys may not have a null element".into())),
                Json::Object(fields) => fields,
                _ => return Err(NoIdentity("associative list with keys may not have non-map elements".into())),
            };
            let of_type = list.element.atom().map;
            let mut keys = Vec::new();
            for &name in names {
                let default = || of_type.as_ref()?.default(name).map(std::borrow::Cow::into_owned);
                keys.extend(fields.get(name).cloned().or_else(default).map(|key| (name.to_owned(), canonical(key))));
            }
            if keys.is_empty() {
                let names: Vec<_> = names.iter().map(|name| go_quote(name)).collect();
                return Err(NoIdentity(format!(
                    "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
                    names.join(" ")
                )));
            }
            keys.sort_by(|(a, _), (b, _)| a.cmp(b));
            Ok(Element::Keys(keys))
        }
    }
}

/// Writes equal numbers alike, so that they make equal keys.
fn canonical(mut key: Json) -> Json {
    canonicalize(&mut key);
    key
}
