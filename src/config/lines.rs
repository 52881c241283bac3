//! The lines of fields in a text of YAML or JSON.

/// Returns the line of a field such as `spec.members[1].name`: of its last key that has a line of its own; 0 if none has.
pub(crate) fn line_of(text: &str, field: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let (mut at, mut found, mut indent) = (0, 0, None);
    for part in field.split('.') {
        let (key, index) = match part.split_once('[') {
            Some((key, rest)) => (key, rest.trim_end_matches(']').parse::<usize>().ok()),
            None => (part, None),
        };
        let indent_of = |line: &str| line.len() - line.trim_start_matches([' ', '-']).len();
        let is_key = |line: &str| {
            let rest = line.trim_start_matches([' ', '-', '{', '"']);
            rest.strip_prefix(key).is_some_and(|rest| rest.starts_with([':', '"']))
        };
        let next = lines.iter().enumerate().skip(at).find(|(_, line)| is_key(line) && Some(indent_of(line)) > indent);
        let Some((line, text)) = next else { break };
        (found, at, indent) = (line + 1, line + 1, Some(indent_of(text)));
        if let Some(index) = index {
            let items = lines.iter().enumerate().skip(at).filter(|(_, line)| line.trim_start().starts_with("- "));
            let Some((line, text)) = items.take(index + 1).nth(index) else { break };
            (found, at) = (line + 1, line);
            indent = Some(text.len() - text.trim_start().len());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_has_the_line_of_its_last_key() {
        let text = "kind: Pod\nmetadata:\n  labels: {a: b}\nspec:\n  containers:\n  - name: a\n    image: x\n  - name: b\n    image: y\n";
        for (field, line) in [
            ("kind", 1),
            ("metadata.labels[a]", 3),
            ("spec.containers[1].image", 9),
            ("spec.containers[0].resources.limits", 6),
            ("spec.volumes", 4),
            ("status", 0),
        ] {
            assert_eq!(line_of(text, field), line, "{field}");
        }
    }
}
