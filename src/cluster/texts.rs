//! Labels or annotations as they are kept of many objects: in as little room as they take.

use crate::object::selector::Labels;
use std::collections::BTreeMap;

/// Texts by keys, which do not change. Thousands of small ones are kept, so none has room to grow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts(Box<[(Box<str>, Box<str>)]>);

impl Texts {
    /// The text of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(known, _)| (**known).cmp(key)).ok()?;
        self.0.get(at).map(|(_, text)| &**text)
    }

    /// Every key with its text, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, text)| (&**key, &**text))
    }
}

impl From<BTreeMap<String, String>> for Texts {
    fn from(texts: BTreeMap<String, String>) -> Self {
        Self(texts.into_iter().map(|(key, text)| (key.into(), text.into())).collect())
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
        assert_eq!(Texts::default().get("a"), None);
    }
}
