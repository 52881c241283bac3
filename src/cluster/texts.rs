//! Labels or annotations in a compact form, because many objects are cached.

use crate::object::selector::Labels;
use std::collections::BTreeMap;

/// An immutable map from keys to texts. All keys and texts of an object share one allocation, because thousands of small maps
/// are cached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    text: Box<str>,
    /// The ends of each key and each text, alternating.
    ends: Box<[u32]>,
}

impl Texts {
    /// The text of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == key).map(|(_, text)| text)
    }

    /// Every key with its text, sorted by key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut start = 0;
        let mut next = move |end: u32| self.text.get(std::mem::replace(&mut start, end as usize)..end as usize);
        self.ends.as_chunks().0.iter().filter_map(move |[key, text]| Some((next(*key)?, next(*text)?)))
    }

    /// Whether the map has no keys.
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

impl From<BTreeMap<String, String>> for Texts {
    fn from(texts: BTreeMap<String, String>) -> Self {
        let mut end = 0;
        let ends = texts.iter().flat_map(|(key, text)| [key.len(), text.len()]).map(|length| {
            end += length;
            // An object never reaches 4 GiB.
            u32::try_from(end).unwrap_or(u32::MAX)
        });
        let ends = ends.collect();
        let text: String = texts.iter().flat_map(|(key, text)| [key.as_str(), text]).collect();
        Self { text: text.into(), ends }
    }
}

impl FromIterator<(String, String)> for Texts {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(texts: T) -> Self {
        BTreeMap::from_iter(texts).into()
    }
}

impl Labels for Texts {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_put_in() {
        let of = |pairs: &[(&str, &str)]| Texts::from_iter(pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())));
        let texts = of(&[("b", "2"), ("a", "1"), ("c", ""), ("a", "4")]);
        assert_eq!(["a", "b", "c", "d", ""].map(|key| texts.get(key)), [Some("4"), Some("2"), Some(""), None, None]);
        assert_eq!(texts, of(&[("a", "4"), ("b", "2"), ("c", "")]));
        assert_eq!(texts.iter().collect::<Vec<_>>(), [("a", "4"), ("b", "2"), ("c", "")]);
        assert_ne!(of(&[("ab", "c")]), of(&[("a", "bc")]));
        assert!(Texts::default().is_empty() && !texts.is_empty());
        assert_eq!(Texts::default().get("a"), None);
    }
}
