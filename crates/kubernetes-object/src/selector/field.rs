//! Field selectors of query strings (`k8s.io/apimachinery/pkg/fields`).

use super::InvalidSelector;

/// Requirements on fields, all of which must hold (`fields.Selector`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

/// One requirement of a [`FieldSelector`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    /// The path of the field, such as `metadata.name`.
    pub field: String,
    /// Whether the field must have the value; otherwise it must not.
    pub equals: bool,
    /// The value.
    pub value: String,
}

impl FieldSelector {
    /// Parses a query string's `fieldSelector` (`fields.ParseSelector`).
    ///
    /// # Errors
    /// If the text is no selector, with the text of kube-apiserver's 400.
    pub fn parse(text: &str) -> Result<Self, InvalidSelector> {
        let mut terms = split_terms(text);
        terms.sort_unstable();
        let mut requirements = Vec::new();
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            let Some((field, operator, value)) = split_term(term) else {
                return Err(InvalidSelector(format!("invalid selector: '{text}'; can't understand '{term}'")));
            };
            let requirement =
                FieldRequirement { field: field.to_owned(), equals: operator != "!=", value: unescape(value)? };
            // The term `=` alone requires nothing.
            if !requirement.field.is_empty() || !requirement.value.is_empty() {
                requirements.push(requirement);
            }
        }
        Ok(Self { requirements })
    }

    /// The requirements, sorted.
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// Whether the selector matches everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether fields match; `field` returns the value at a path, empty if there is none.
    pub fn matches(&self, field: impl Fn(&str) -> String) -> bool {
        self.requirements
            .iter()
            .all(|requirement| (field(&requirement.field) == requirement.value) == requirement.equals)
    }

    /// The value that a field must have, if the selector requires one (`RequiresExactMatch`).
    pub fn exact_match(&self, field: &str) -> Option<&str> {
        let requirement =
            self.requirements.iter().find(|requirement| requirement.equals && requirement.field == field)?;
        Some(&requirement.value)
    }
}

/// Splits at commas without a backslash before them.
fn split_terms(text: &str) -> Vec<&str> {
    let mut escaped = false;
    text.split(|c| {
        let splits = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        splits
    })
    .collect()
}

fn split_term(term: &str) -> Option<(&str, &'static str, &str)> {
    term.char_indices().find_map(|(at, _)| {
        let (field, rest) = term.split_at(at);
        let operator = ["!=", "==", "="].into_iter().find(|operator| rest.starts_with(operator))?;
        Some((field, operator, rest.strip_prefix(operator)?))
    })
}

fn unescape(value: &str) -> Result<String, InvalidSelector> {
    let mut text = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => text.push(escaped),
                other => {
                    let sequence: String = std::iter::once('\\').chain(other).collect();
                    return Err(InvalidSelector(format!(
                        "invalid field selector: invalid escape sequence: {sequence}"
                    )));
                }
            },
            ',' | '=' => {
                return Err(InvalidSelector(format!(
                    "invalid field selector: unescaped character in value: {}",
                    character as u32
                )));
            }
            other => text.push(other),
        }
    }
    Ok(text)
}

/// Escapes a value for a field selector (`fields.EscapeValue`).
pub fn escape_field_value(value: &str) -> String {
    value.replace('\\', r"\\").replace(',', r"\,").replace('=', r"\=")
}
