//! Names that a mistyped name may stand for.

/// The least similarity (Jaro) of a name that is proposed. With less, names are proposed that share a few letters only.
const LEAST: f64 = 0.85;
/// Letters from which a part of a name stands for the name.
const PART: usize = 4;

/// The most similar of `names`; `None` if none is similar.
fn similar<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.to_lowercase();
    let score = |name: &str| match given.len() >= PART && name.contains(&given) {
        true => 1.0,
        false => strsim::jaro(&given, name),
    };
    let scored = names.into_iter().map(|name| (score(&name.to_lowercase()), name));
    scored.filter(|(score, _)| *score > LEAST).max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, name)| name)
}

/// The hint about an unknown plugin, in parentheses.
pub(crate) fn plugin_hint<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    match similar(given, names) {
        Some(name) => format!(r#"(similar: {name:?}; "kube-admission-proxy plugins" lists all)"#),
        None => r#"("kube-admission-proxy plugins" lists all)"#.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_name_has_the_nearest_as_its_hint() {
        let names = ["AlwaysPullImages", "AlwaysAdmit", "PodNodeSelector", "PodSecurity"];
        let of = |given| similar(given, names);
        assert_eq!(of("AlwaysPullImage"), Some("AlwaysPullImages"));
        assert_eq!(of("podnodeselectors"), Some("PodNodeSelector"));
        assert_eq!(of("PodSecurtiy"), Some("PodSecurity"));
        assert_eq!(of("PullImages"), Some("AlwaysPullImages"));
        assert_eq!(of("Images"), Some("AlwaysPullImages"));
        assert_eq!(of("LimitPod"), None);
        assert_eq!(of("X"), None);
        assert_eq!(of(""), None);
        assert_eq!(plugin_hint("X", names), r#"("kube-admission-proxy plugins" lists all)"#);
    }
}
