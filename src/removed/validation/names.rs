//! The rules for names of Kubernetes 1.8 to 1.19. They accept the same names as [`crate::names`]; some texts differ.

use super::Causes;
use crate::names;

/// `validation.IsDNS1123Subdomain`
pub(super) fn subdomain_errors(text: &[u8]) -> Vec<String> {
    older(names::dns_1123_subdomain_errors(text))
}

/// `validation.IsDNS1123Label`, which has no text of its own for a label with dots.
pub(super) fn label_errors(text: &str) -> Vec<String> {
    const FORM: &str = "a DNS-1123 label must consist of lower case alphanumeric characters or '-', and must start and end with \
        an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
        '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    let is_length = |error: &String| error.starts_with("must be no more than");
    let rename = |error: String| if is_length(&error) { error } else { FORM.to_owned() };
    names::dns_1123_label_errors(text).into_iter().map(rename).collect()
}

/// `validation.IsQualifiedName`
pub(super) fn qualified_name_errors(text: &str) -> Vec<String> {
    let rename = |error: String| match error.strip_prefix("a valid label key ") {
        Some(rest) => format!("a qualified name {rest}"),
        None => error,
    };
    older(names::qualified_name_errors(text)).into_iter().map(rename).collect()
}

/// `validation.IsValidLabelValue`
pub(super) fn label_value_errors(text: &str) -> Vec<String> {
    older(names::label_value_errors(text))
}

/// Changes the texts of later releases, which name RFCs and count bytes, to those of 1.8 to 1.19.
fn older(errors: Vec<String>) -> Vec<String> {
    let rename = |error: String| {
        let error = error.replace("a lowercase RFC 1123 ", "a DNS-1123 ");
        match error.strip_suffix(" bytes") {
            Some(rest) => format!("{rest} characters"),
            None => error,
        }
    };
    errors.into_iter().map(rename).collect()
}

/// `validation.IsFullyQualifiedName`
pub(super) fn full_name(name: &str, field: &str, causes: &mut Causes) {
    let errors = subdomain_errors(name.as_bytes());
    if name.is_empty() {
        causes.required(field, "");
    } else if !errors.is_empty() {
        causes.invalid(field, name, &errors.join(","));
    } else if name.split('.').count() < 3 {
        causes.invalid(field, name, "should be a domain with at least three segments separated by dots");
    }
}

/// Validates the name of a CSI driver (`ValidateCSIDriverName`): a subdomain in any case, by the rule of the release.
pub(super) fn csi_driver(name: &str, field: &str, rule: fn(&[u8]) -> Vec<String>, causes: &mut Causes) {
    const MOST_BYTES: usize = 63;
    if name.is_empty() {
        causes.required(field, "");
    }
    if name.len() > MOST_BYTES {
        causes.too_long(field, MOST_BYTES);
    }
    causes.invalid_each(field, name, rule(name.to_lowercase().as_bytes()));
}

/// `validation.IsEnvVarName`
pub(super) fn variable_errors(text: &str) -> Vec<String> {
    const FORM: &str = "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and \
        must not start with a digit (e.g. 'my.env-name',  or 'MY_ENV.NAME',  or 'MyEnvName1', regex used for validation is \
        '[-._a-zA-Z][-._a-zA-Z0-9]*')";
    let starts_with_digit = text.starts_with(|character: char| character.is_ascii_digit());
    let form = (!is_of_key_characters(text) || starts_with_digit).then(|| FORM.to_owned());
    form.into_iter().chain(dots_error(text)).collect()
}

/// `validation.IsConfigMapKey`
pub(super) fn key_errors(text: &str) -> Vec<String> {
    const MOST_BYTES: usize = 253;
    const FORM: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
        'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
    let length = (text.len() > MOST_BYTES).then(|| format!("must be no more than {MOST_BYTES} characters"));
    let form = (!is_of_key_characters(text)).then(|| FORM.to_owned());
    length.into_iter().chain(form).chain(dots_error(text)).collect()
}

fn is_of_key_characters(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}

/// `hasChDirPrefix`
fn dots_error(text: &str) -> Option<String> {
    match text {
        "." | ".." => Some(format!("must not be '{text}'")),
        _ if text.starts_with("..") => Some("must not start with '..'".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::removed::validation::tests::OLD_SUBDOMAIN;

    const LABEL: &str = "a DNS-1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an \
        alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    const QUALIFIED: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
        alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
        '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

    #[test]
    fn texts_are_those_of_old_releases() {
        let long = "a".repeat(300);
        assert_eq!(subdomain_errors(b"A"), [OLD_SUBDOMAIN]);
        assert_eq!(subdomain_errors(long.as_bytes()), ["must be no more than 253 characters"]);
        assert_eq!(label_errors("a.b"), [LABEL]);
        assert_eq!(label_errors(""), [LABEL]);
        assert_eq!(label_errors(&"A".repeat(64)), ["must be no more than 63 characters", LABEL]);
        assert_eq!(qualified_name_errors("x.io/A_b"), [""; 0]);
        assert_eq!(qualified_name_errors("/a"), ["prefix part must be non-empty"]);
        assert_eq!(qualified_name_errors("A/a"), [format!("prefix part {OLD_SUBDOMAIN}")]);
        let three = format!(
            "a qualified name {QUALIFIED} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        );
        assert_eq!(qualified_name_errors("a/b/c"), [three]);
        let name = format!("name part {QUALIFIED}");
        assert_eq!(qualified_name_errors(""), ["name part must be non-empty", &name]);
        assert_eq!(qualified_name_errors("-"), [name]);
        assert_eq!(qualified_name_errors(&long), ["name part must be no more than 63 characters"]);
        assert_eq!(label_value_errors(&long), ["must be no more than 63 characters"]);
        let value = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start \
            and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
            '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
        assert_eq!(label_value_errors("-"), [value]);
    }

    #[test]
    fn variables_and_keys_have_rules_of_their_own() {
        let variable = "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and must \
            not start with a digit (e.g. 'my.env-name',  or 'MY_ENV.NAME',  or 'MyEnvName1', regex used for validation is \
            '[-._a-zA-Z][-._a-zA-Z0-9]*')";
        let key = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  \
            or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
        for (text, variable_expected, key_expected) in [
            ("A_b-c.d1", vec![], vec![]),
            ("-", vec![], vec![]),
            ("1", vec![variable], vec![]),
            ("", vec![variable], vec![key]),
            ("a b", vec![variable], vec![key]),
            ("é", vec![variable], vec![key]),
            (".", vec!["must not be '.'"], vec!["must not be '.'"]),
            ("..", vec!["must not be '..'"], vec!["must not be '..'"]),
            ("..a", vec!["must not start with '..'"], vec!["must not start with '..'"]),
            ("../", vec![variable, "must not start with '..'"], vec![key, "must not start with '..'"]),
        ] {
            assert_eq!(variable_errors(text), variable_expected, "{text}");
            assert_eq!(key_errors(text), key_expected, "{text}");
        }
        let long = "a".repeat(254);
        assert_eq!(variable_errors(&long), [""; 0]);
        assert_eq!(key_errors(&long), ["must be no more than 253 characters"]);
        assert_eq!(key_errors(&" ".repeat(254)), ["must be no more than 253 characters", key]);
    }
}
