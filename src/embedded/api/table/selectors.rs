//! Labels and selectors in a cell.

use super::view::View;
use serde_json::{Map, Value};

/// `labels.FormatLabels`.
pub(super) fn labels(labels: Option<&Map<String, Value>>) -> String {
    none_if_empty(pairs(labels).map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(","))
}

/// `metav1.FormatLabelSelector`.
pub(super) fn formatted(selector: View<'_>) -> String {
    selector_text(selector).map_or_else(|| "<error>".to_owned(), none_if_empty)
}

/// The selector in the form of a query; `None` if the selector is invalid (`metav1.LabelSelectorAsSelector`).
pub(super) fn selector_text(selector: View<'_>) -> Option<String> {
    let equal = pairs(selector.map("/matchLabels")).map(|(key, value)| Some((key.clone(), format!("{key}={value}"))));
    let expressions = selector.items("/matchExpressions").map(|expression| {
        let key = expression.text("/key");
        let mut values = expression.texts("/values");
        values.sort_unstable();
        let values = values.join(",");
        let text = match expression.text("/operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return None,
        };
        Some((key.to_owned(), text))
    });
    let mut requirements = equal.chain(expressions).collect::<Option<Vec<_>>>()?;
    requirements.sort_by(|(one, _), (other, _)| one.cmp(other));
    Some(requirements.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(","))
}

/// A selector as Go prints the struct, for policy bindings.
pub(super) fn go_string(selector: View<'_>) -> String {
    let labels: String = pairs(selector.map("/matchLabels")).map(|(key, value)| format!("{key}: {value},")).collect();
    let expressions: String = selector
        .items("/matchExpressions")
        .map(|each| {
            let values = each.texts("/values").join(" ");
            let (key, operator) = (each.text("/key"), each.text("/operator"));
            format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
        })
        .collect();
    let expressions = format!("[]LabelSelectorRequirement{{{expressions}}}");
    format!("&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:{expressions},}}")
}

fn pairs(labels: Option<&Map<String, Value>>) -> impl Iterator<Item = (&String, &str)> {
    let mut pairs: Vec<_> =
        labels.into_iter().flatten().map(|(key, value)| (key, value.as_str().unwrap_or_default())).collect();
    pairs.sort_unstable();
    pairs.into_iter()
}

fn none_if_empty(text: String) -> String {
    if text.is_empty() { "<none>".to_owned() } else { text }
}
