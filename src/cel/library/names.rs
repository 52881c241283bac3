//! What Kubernetes' names must be like, and what it says of those that are not (`apimachinery/pkg/api/validate/content`).

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const LABEL_1035: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";

const KEY_WRONG: &str =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

const EMPTY: &str = "must be non-empty";
const MAX_LABEL: usize = 63;
const MAX_SUBDOMAIN: usize = 253;

/// What is wrong with a text; nothing if it may be one.
pub(super) type Check = fn(&[u8]) -> Vec<String>;

/// `IsDNS1123Label`.
pub(super) fn label(text: &[u8]) -> Vec<String> {
    let mut wrong = too_long(text, MAX_LABEL, "characters");
    if !is_label(text) {
        wrong.push(if is_subdomain(text) {
            "must not contain dots".to_owned()
        } else {
            mismatch(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end \
                 with an alphanumeric character",
                LABEL,
                &["my-name", "123-abc"],
            )
        });
    }
    wrong
}

/// `IsDNS1123Subdomain`.
pub(super) fn subdomain(text: &[u8]) -> Vec<String> {
    subdomain_of(text, "characters")
}

fn subdomain_of(text: &[u8], unit: &str) -> Vec<String> {
    let mut wrong = too_long(text, MAX_SUBDOMAIN, unit);
    if !is_subdomain(text) {
        wrong.push(mismatch(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and \
             end with an alphanumeric character",
            SUBDOMAIN,
            &["example.com"],
        ));
    }
    wrong
}

/// `IsDNS1035Label`.
pub(super) fn label_1035(text: &[u8]) -> Vec<String> {
    let mut wrong = too_long(text, MAX_LABEL, "characters");
    if !(is_label(text) && text.first().is_some_and(u8::is_ascii_lowercase)) {
        wrong.push(mismatch(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, \
             and end with an alphanumeric character",
            LABEL_1035,
            &["my-name", "abc-123"],
        ));
    }
    wrong
}

/// `IsLabelKey`.
pub(super) fn qualified(text: &[u8]) -> Vec<String> {
    let examples = ["MyName", "my.name", "123-abc"];
    let mut wrong = Vec::new();
    let parts: Vec<_> = text.split(|byte| *byte == b'/').collect();
    let name = match parts[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                wrong.push(format!("prefix part {EMPTY}"));
            } else {
                wrong.extend(subdomain_of(prefix, "bytes").into_iter().map(|wrong| format!("prefix part {wrong}")));
            }
            name
        }
        _ => {
            let why = mismatch(KEY_WRONG, KEY, &examples);
            return vec![format!(
                "a valid label key {why} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        wrong.push(format!("name part {EMPTY}"));
    } else {
        wrong.extend(too_long(name, MAX_LABEL, "bytes").into_iter().map(|wrong| format!("name part {wrong}")));
    }
    if !is_key(name) {
        wrong.push(format!("name part {}", mismatch(KEY_WRONG, KEY, &examples)));
    }
    wrong
}

/// `IsLabelValue`.
pub(super) fn label_value(text: &[u8]) -> Vec<String> {
    let mut wrong = too_long(text, MAX_LABEL, "bytes");
    if !(text.is_empty() || is_key(text)) {
        wrong.push(mismatch(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and \
             end with an alphanumeric character",
            VALUE,
            &["MyValue", "my_value", "12345"],
        ));
    }
    wrong
}

/// A text to which something is appended may end in a hyphen (`maskTrailingDash`, which takes the byte before with it).
pub(super) fn prefix(text: &[u8], check: Check) -> Vec<String> {
    match text {
        [before @ .., _, b'-'] => check(&[before, b"a"].concat()),
        text => check(text),
    }
}

/// Both mean bytes: two packages of Kubernetes say it.
fn too_long(text: &[u8], most: usize, unit: &str) -> Vec<String> {
    if text.len() > most { vec![format!("must be no more than {most} {unit}")] } else { Vec::new() }
}

/// `RegexError`.
fn mismatch(why: &str, pattern: &str, examples: &[&str]) -> String {
    let examples: Vec<_> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{why} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

fn is_label(text: &[u8]) -> bool {
    let is_inner = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    matches!((text.first(), text.last()), (Some(first), Some(last)) if *first != b'-' && *last != b'-')
        && text.iter().all(is_inner)
}

fn is_subdomain(text: &[u8]) -> bool {
    text.split(|byte| *byte == b'.').all(is_label)
}

fn is_key(text: &[u8]) -> bool {
    let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    matches!((text.first(), text.last()), (Some(first), Some(last)) if first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric())
        && text.iter().all(is_inner)
}
