//! The rules for names, and the error texts for invalid names (`k8s.io/apimachinery/pkg/util/validation`). Each function whose
//! name ends in `_errors` returns no text for a valid name.

const DNS_1123_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS_1123_SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS_1035_LABEL: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED_NAME: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";

/// `DNS1123LabelMaxLength`, which also bounds the value of a label and the name part of its key.
const MAX_LABEL_BYTES: usize = 63;
/// `DNS1123SubdomainMaxLength`.
const MAX_SUBDOMAIN_BYTES: usize = 253;

/// `validation.IsDNS1123Label`.
pub fn dns_1123_label_errors(text: impl AsRef<[u8]>) -> Vec<String> {
    let text = text.as_ref();
    let mut errors = too_long(text, MAX_LABEL_BYTES, "characters");
    if !has_label_form(text) {
        errors.push(if has_subdomain_form(text) {
            "must not contain dots".to_owned()
        } else {
            mismatch(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end \
                 with an alphanumeric character",
                DNS_1123_LABEL,
                &["my-name", "123-abc"],
            )
        });
    }
    errors
}

/// Whether [`dns_1123_label_errors`] returns no error.
pub fn is_dns_1123_label(text: &str) -> bool {
    text.len() <= MAX_LABEL_BYTES && has_label_form(text.as_bytes())
}

/// `validation.IsDNS1123Subdomain`.
pub fn dns_1123_subdomain_errors(text: impl AsRef<[u8]>) -> Vec<String> {
    subdomain_errors(text.as_ref(), "characters")
}

/// Whether [`dns_1123_subdomain_errors`] returns no error.
pub fn is_dns_1123_subdomain(text: &str) -> bool {
    text.len() <= MAX_SUBDOMAIN_BYTES && has_subdomain_form(text.as_bytes())
}

/// Returns errors that count in this unit: `validation.IsDNS1123Subdomain` names characters, `content.IsDNS1123Subdomain` bytes;
/// both count bytes.
fn subdomain_errors(text: &[u8], unit: &str) -> Vec<String> {
    let mut errors = too_long(text, MAX_SUBDOMAIN_BYTES, unit);
    if !has_subdomain_form(text) {
        errors.push(mismatch(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and \
             end with an alphanumeric character",
            DNS_1123_SUBDOMAIN,
            &["example.com"],
        ));
    }
    errors
}

/// `validation.IsDNS1035Label`.
pub fn dns_1035_label_errors(text: impl AsRef<[u8]>) -> Vec<String> {
    let text = text.as_ref();
    let mut errors = too_long(text, MAX_LABEL_BYTES, "characters");
    if !(has_label_form(text) && text.first().is_some_and(u8::is_ascii_lowercase)) {
        errors.push(mismatch(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, \
             and end with an alphanumeric character",
            DNS_1035_LABEL,
            &["my-name", "abc-123"],
        ));
    }
    errors
}

/// `validation.IsQualifiedName`, which is `content.IsLabelKey`.
pub fn qualified_name_errors(text: impl AsRef<[u8]>) -> Vec<String> {
    let form = || {
        mismatch(
            "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            QUALIFIED_NAME,
            &["MyName", "my.name", "123-abc"],
        )
    };
    let mut errors = Vec::new();
    let name = match text.as_ref().split(|byte| *byte == b'/').collect::<Vec<_>>()[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                errors
                    .extend(subdomain_errors(prefix, "bytes").into_iter().map(|error| format!("prefix part {error}")));
            }
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                form()
            )];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    }
    errors.extend(too_long(name, MAX_LABEL_BYTES, "bytes").into_iter().map(|error| format!("name part {error}")));
    if !has_name_form(name) {
        errors.push(format!("name part {}", form()));
    }
    errors
}

/// Whether [`qualified_name_errors`] returns no error.
pub fn is_qualified_name(text: &str) -> bool {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    prefix.is_none_or(is_dns_1123_subdomain) && name.len() <= MAX_LABEL_BYTES && has_name_form(name.as_bytes())
}

/// `validation.IsValidLabelValue`, which is `content.IsLabelValue`.
pub fn label_value_errors(text: impl AsRef<[u8]>) -> Vec<String> {
    let text = text.as_ref();
    let mut errors = too_long(text, MAX_LABEL_BYTES, "bytes");
    if !(text.is_empty() || has_name_form(text)) {
        errors.push(mismatch(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and \
             end with an alphanumeric character",
            LABEL_VALUE,
            &["MyValue", "my_value", "12345"],
        ));
    }
    errors
}

/// `validation.IsDomainPrefixedPath`: returns each error with the invalid part. The path must not be empty.
pub fn domain_prefixed_path_errors(path: &str) -> Vec<(&str, String)> {
    const PATH: &str = r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')";
    let Some((host, rest)) = path.split_once('/').filter(|(host, rest)| !host.is_empty() && !rest.is_empty()) else {
        return vec![(path, "must be a domain-prefixed path (such as \"acme.io/foo\")".to_owned())];
    };
    let mut errors: Vec<_> = dns_1123_subdomain_errors(host).into_iter().map(|error| (host, error)).collect();
    if !rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte)) {
        errors.push((rest, PATH.to_owned()));
    }
    errors
}

/// `content.IsPathSegmentName`. An empty name is valid.
pub fn path_segment_errors(name: &str) -> Vec<String> {
    match name {
        "." | ".." => vec![format!("may not be '{name}'")],
        _ => {
            let parts = ["/", "%"].into_iter().filter(|part| name.contains(part));
            parts.map(|part| format!("may not contain '{part}'")).collect()
        }
    }
}

/// Whether [`path_segment_errors`] returns no error.
pub fn is_path_segment(name: &str) -> bool {
    !matches!(name, "." | "..") && !name.contains(['/', '%'])
}

/// Changes the end of a name's prefix so that the prefix can be checked as a name (`validation.maskTrailingDash`). Go also
/// replaces the byte before the dash, so the result need not be UTF-8.
pub fn mask_trailing_dash(prefix: &str) -> Vec<u8> {
    match prefix.as_bytes() {
        [before @ .., _, b'-'] => [before, b"a"].concat(),
        prefix => prefix.to_vec(),
    }
}

fn too_long(text: &[u8], most: usize, unit: &str) -> Vec<String> {
    if text.len() > most { vec![format!("must be no more than {most} {unit}")] } else { Vec::new() }
}

/// `RegexError`.
fn mismatch(why: &str, pattern: &str, examples: &[&str]) -> String {
    let examples: Vec<_> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{why} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

/// Whether a text of any length matches `dns1123LabelFmt`.
fn has_label_form(text: &[u8]) -> bool {
    let is_inner = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    matches!((text.first(), text.last()), (Some(first), Some(last)) if *first != b'-' && *last != b'-')
        && text.iter().all(is_inner)
}

fn has_subdomain_form(text: &[u8]) -> bool {
    text.split(|byte| *byte == b'.').all(has_label_form)
}

/// Whether a text of any length matches `labelKeyFmt`.
fn has_name_form(text: &[u8]) -> bool {
    let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    text.first().is_some_and(u8::is_ascii_alphanumeric)
        && text.last().is_some_and(u8::is_ascii_alphanumeric)
        && text.iter().all(is_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_valid_as_in_kubernetes() {
        let (label, longer) = ("a".repeat(63), "a".repeat(64));
        let subdomain = format!("{longer}.{}", "b".repeat(253 - 65));
        let longest = format!("{subdomain}c");
        // A DNS label, a DNS subdomain, a DNS 1035 label, a qualified name, a label's value, a path segment.
        for (name, expected) in [
            ("", "....vs"),
            ("a", "lsdqvs"),
            ("a-1", "lsdqvs"),
            ("1a", "ls.qvs"),
            ("a.b", ".s.qvs"),
            ("a..b", "...qvs"),
            ("a_b", "...qvs"),
            ("A", "...qvs"),
            ("-a", ".....s"),
            ("a-", ".....s"),
            (".", "......"),
            ("..", "......"),
            ("é", ".....s"),
            ("a\n", ".....s"),
            ("a%", "......"),
            ("x.io/A", "...q.."),
            ("X.io/a", "......"),
            ("a..b/c", "......"),
            ("/a", "......"),
            ("a/", "......"),
            ("a/b/c", "......"),
            (&label, "lsdqvs"),
            (&longer, ".s...s"),
            (&subdomain, ".s...s"),
            (&longest, ".....s"),
        ] {
            let lists = [
                dns_1123_label_errors(name),
                dns_1123_subdomain_errors(name),
                dns_1035_label_errors(name),
                qualified_name_errors(name),
                label_value_errors(name),
                path_segment_errors(name),
            ];
            let letters = lists.iter().zip("lsdqvs".chars());
            let found: String = letters.map(|(errors, letter)| if errors.is_empty() { letter } else { '.' }).collect();
            assert_eq!(found, expected, "{name:?}");
            assert_eq!(is_dns_1123_label(name), lists[0].is_empty(), "{name:?}");
            assert_eq!(is_dns_1123_subdomain(name), lists[1].is_empty(), "{name:?}");
            assert_eq!(is_qualified_name(name), lists[3].is_empty(), "{name:?}");
            assert_eq!(is_path_segment(name), lists[5].is_empty(), "{name:?}");
        }
    }

    #[test]
    fn lengths_are_counted_in_the_unit_of_the_go_function() {
        let long = "a".repeat(254);
        assert_eq!(dns_1123_label_errors(&long), ["must be no more than 63 characters"]);
        assert_eq!(dns_1123_subdomain_errors(&long), ["must be no more than 253 characters"]);
        assert_eq!(dns_1035_label_errors(&long), ["must be no more than 63 characters"]);
        assert_eq!(label_value_errors(&long), ["must be no more than 63 bytes"]);
        let (prefix, name) = ("prefix part must be no more than 253 bytes", "name part must be no more than 63 bytes");
        assert_eq!(qualified_name_errors(format!("{long}/{long}")), [prefix, name]);
    }

    #[test]
    fn a_label_with_dots_has_an_error_of_its_own() {
        assert_eq!(dns_1123_label_errors("a.b"), ["must not contain dots"]);
        assert!(dns_1123_label_errors("a..b")[0].starts_with("a lowercase RFC 1123 label"));
    }

    #[test]
    fn a_prefix_may_end_in_a_dash() {
        for (prefix, expected) in [("ab-", "aa"), ("a_-", "aa"), ("-", "-"), ("a", "a"), ("a.-", "aa")] {
            assert_eq!(mask_trailing_dash(prefix), expected.as_bytes(), "{prefix}");
        }
        assert!(!dns_1123_label_errors(mask_trailing_dash("é-")).is_empty());
    }

    #[test]
    fn a_domain_prefixed_path_has_a_domain_and_a_path() {
        for (path, expected) in [
            ("a.io/x/y", vec![]),
            ("a.io", vec!["a.io"]),
            ("a.io/", vec!["a.io/"]),
            ("A/x", vec!["A"]),
            ("A/#", vec!["A", "#"]),
        ] {
            let found: Vec<_> = domain_prefixed_path_errors(path).into_iter().map(|(part, _)| part).collect();
            assert_eq!(found, expected, "{path}");
        }
    }
}
