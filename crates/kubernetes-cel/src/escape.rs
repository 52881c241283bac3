//! Names of properties that are no identifiers of the language.

/// The name of a property in expressions; `None` if it has none (`cel.Escape`).
pub fn escape(property: &str) -> Option<String> {
    if property.is_empty() || property.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if is_reserved(property) {
        return Some(format!("__{property}__"));
    }
    let mut escaped = String::with_capacity(property.len());
    let mut rest = property.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '_' if rest.next_if_eq(&'_').is_some() => escaped.push_str("__underscores__"),
            '.' => escaped.push_str("__dot__"),
            '-' => escaped.push_str("__dash__"),
            '/' => escaped.push_str("__slash__"),
            c if c.is_ascii_alphanumeric() || c == '_' => escaped.push(c),
            _ => return None,
        }
    }
    Some(escaped)
}

/// Whether a word is reserved by the language (`celReservedSymbols`).
pub fn is_reserved(word: &str) -> bool {
    const RESERVED: &[&str] = &[
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ];
    RESERVED.contains(&word)
}

/// The property with this name in expressions; `None` if the name is no escaped name (`cel.Unescape`).
pub fn unescape(name: &str) -> Option<String> {
    let mut property = String::with_capacity(name.len());
    let mut rest = name;
    while let Some((before, inner)) = rest.split_once("__") {
        let word = inner.split_once('_').filter(|(word, after)| !word.is_empty() && after.starts_with('_'));
        let Some((word, after)) = word else {
            // No escape sequence begins here.
            let (kept, after) = rest.split_at(before.len() + 1);
            property.push_str(kept);
            rest = after;
            continue;
        };
        property.push_str(before);
        match word {
            "underscores" => property.push_str("__"),
            "dot" => property.push('.'),
            "dash" => property.push('-'),
            "slash" => property.push('/'),
            word if name.len() == word.len() + 4 && escape(word).as_deref() == Some(name) => property.push_str(word),
            _ => return None,
        }
        rest = after.strip_prefix('_').unwrap_or(after);
    }
    property.push_str(rest);
    Some(property)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_escaped_and_back() {
        for (property, name) in [
            ("namespace", Some("__namespace__")),
            ("a-b.c/d__e_f", Some("a__dash__b__dot__c__slash__d__underscores__e_f")),
            ("_a", Some("_a")),
            ("___", Some("__underscores___")),
            ("1a", None),
            ("a b", None),
            ("é", None),
            ("", None),
        ] {
            assert_eq!(escape(property).as_deref(), name, "{property}");
            if let Some(name) = name {
                assert_eq!(unescape(name).as_deref(), Some(property), "{name}");
            }
        }
        assert_eq!(unescape("a__nothing__"), None);
    }
}
