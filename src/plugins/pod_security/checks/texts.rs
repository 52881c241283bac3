//! The parts of the checks' messages.

/// `"a", "b"`, without escapes.
pub(super) fn join_quoted<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let quoted: Vec<String> = items.into_iter().map(|item| format!("\"{}\"", item.as_ref())).collect();
    quoted.join(", ")
}

/// The singular for a count of one, else the plural.
pub(super) fn pluralize<'a>(singular: &'a str, plural: &'a str, count: usize) -> &'a str {
    if count == 1 { singular } else { plural }
}

/// `container "a"` or `containers "a", "b"`.
pub(super) fn containers(names: &[&str]) -> String {
    format!("{} {}", pluralize("container", "containers", names.len()), join_quoted(names))
}

/// The pod, if `pod` is set, and the containers: `pod and container "a"`.
pub(super) fn setters(pod: bool, names: &[&str]) -> String {
    match (pod, names) {
        (true, []) => "pod".to_owned(),
        (true, names) => format!("pod and {}", containers(names)),
        (false, names) => containers(names),
    }
}
