//! Validates the lists of sysctls of a PodSecurityPolicy.

use crate::removed::validation::{Causes, texts};
use serde_json::Value;

/// `SysctlMaxLength`
const MAX_BYTES: usize = 253;
/// `SysctlPatternFmt`
const PATTERN: &str = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?\.)*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]";

/// A list of sysctls in a policy.
struct List<'a> {
    /// The path of the list.
    field: String,
    sysctls: Vec<&'a str>,
}

pub(super) fn check(spec: &Value, causes: &mut Causes) {
    let lists = ["allowedUnsafeSysctls", "forbiddenSysctls"]
        .map(|field| List { field: format!("spec.{field}"), sysctls: texts(spec, field) });
    for List { field, sysctls } in &lists {
        patterns(sysctls, field, causes);
    }
    let [allowed, forbidden] = lists;
    overlaps(&allowed, &forbidden, causes);
}

/// `validatePodSecurityPolicySysctls`
fn patterns(sysctls: &[&str], field: &str, causes: &mut Causes) {
    let mut covers_all = false;
    for (index, sysctl) in sysctls.iter().enumerate() {
        let field = format!("{field}[{index}]");
        if sysctl.is_empty() {
            causes.invalid(field, sysctl, "empty sysctl not allowed");
        } else if !is_pattern(sysctl) {
            let why = format!("must have at most {MAX_BYTES} characters and match regex {PATTERN}");
            causes.invalid(field, sysctl, &why);
        } else if sysctl.starts_with('*') {
            covers_all = true;
        }
    }
    if covers_all && sysctls.len() > 1 {
        causes.forbidden(format!("{field}.items"), "if '*' is present, must not specify other sysctls");
    }
}

/// `IsValidSysctlPattern`, without slashes.
fn is_pattern(name: &str) -> bool {
    let is_end = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_segment = |segment: &str| {
        matches!((segment.bytes().next(), segment.bytes().last()), (Some(first), Some(last)) if is_end(&first) && is_end(&last))
            && segment.bytes().all(|byte| is_end(&byte) || matches!(byte, b'-' | b'_'))
    };
    let (parents, last) = name.rsplit_once('.').map_or((None, name), |(parents, last)| (Some(parents), last));
    // The part before a final asterisk may end in any character of a segment, and may be empty.
    let is_last = match last.strip_suffix('*') {
        Some(start) => start.is_empty() || is_segment(&format!("{start}0")),
        None => is_segment(last),
    };
    name.len() <= MAX_BYTES && is_last && parents.is_none_or(|parents| parents.split('.').all(is_segment))
}

/// `validatePodSecurityPolicySysctlListsDoNotOverlap`
fn overlaps(allowed: &List<'_>, forbidden: &List<'_>, causes: &mut Causes) {
    for (allowed_index, one) in allowed.sysctls.iter().enumerate() {
        for (forbidden_index, other) in forbidden.sysctls.iter().enumerate() {
            let is_allowed_covered = match other.strip_suffix('*') {
                Some(prefix) => one.strip_suffix('*').unwrap_or(one).starts_with(prefix),
                None => one == other,
            };
            let is_forbidden_covered = one
                .strip_suffix('*')
                .is_some_and(|prefix| other.strip_suffix('*').unwrap_or(other).starts_with(prefix));
            if is_allowed_covered {
                let field = format!("{}[{allowed_index}]", allowed.field);
                causes.invalid(field, one, &format!("sysctl overlaps with {other}"));
            } else if is_forbidden_covered {
                let field = format!("{}[{forbidden_index}]", forbidden.field);
                causes.invalid(field, other, &format!("sysctl overlaps with {one}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::removed::validation::tests::lines;
    use serde_json::json;

    #[track_caller]
    fn check_lists(allowed: Value, forbidden: Value, expected: &[&str]) {
        let spec = json!({"allowedUnsafeSysctls": allowed, "forbiddenSysctls": forbidden});
        let mut causes = Causes::default();
        check(&spec, &mut causes);
        assert_eq!(lines(causes.0), expected, "{spec}");
    }

    #[test]
    fn patterns_are_sysctls_with_an_asterisk_at_the_end() {
        let long = format!("{}a", "a.".repeat(126));
        let longer = format!("{long}a");
        for (pattern, expected) in [
            ("*", true),
            ("a", true),
            ("kernel.shm_rmid-forced", true),
            ("kernel.*", true),
            ("kernel.shm*", true),
            ("kernel.shm_*", true),
            ("a-*", true),
            ("0.9", true),
            (&long, true),
            (&longer, false),
            ("", false),
            ("kernel.", false),
            (".kernel", false),
            ("a..b", false),
            ("kernel.shm_", false),
            ("-a", false),
            ("-*", false),
            ("_.a", false),
            ("a_.b", false),
            ("**", false),
            ("*.a", false),
            ("a*b", false),
            ("kernel/shm", false),
            ("Kernel", false),
            ("é", false),
        ] {
            assert_eq!(is_pattern(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn a_pattern_is_valid_and_an_asterisk_stands_alone() {
        check_lists(json!(["a.b", "c.*"]), json!(["d"]), &[]);
        check_lists(json!(["*"]), json!([]), &[]);
        check_lists(
            json!(["", "A"]),
            json!(["*", "a"]),
            &[
                "spec.allowedUnsafeSysctls[0]: Invalid value: \"\": empty sysctl not allowed",
                "spec.allowedUnsafeSysctls[1]: Invalid value: \"A\": must have at most 253 characters and match regex \
                 ([a-z0-9]([-_a-z0-9]*[a-z0-9])?\\.)*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]",
                "spec.forbiddenSysctls.items: Forbidden: if '*' is present, must not specify other sysctls",
                "spec.allowedUnsafeSysctls[0]: Invalid value: \"\": sysctl overlaps with *",
                "spec.allowedUnsafeSysctls[1]: Invalid value: \"A\": sysctl overlaps with *",
            ],
        );
    }

    #[test]
    fn the_lists_do_not_overlap() {
        let allowed = |one: &str, other: &str| {
            format!("spec.allowedUnsafeSysctls[0]: Invalid value: \"{one}\": sysctl overlaps with {other}")
        };
        let forbidden = |one: &str, other: &str| {
            format!("spec.forbiddenSysctls[0]: Invalid value: \"{other}\": sysctl overlaps with {one}")
        };
        for (one, other, expected) in [
            ("a.b", "a.b", Some(allowed("a.b", "a.b"))),
            ("a.b", "a.c", None),
            ("a.b", "a.*", Some(allowed("a.b", "a.*"))),
            ("a.*", "a.b", Some(forbidden("a.*", "a.b"))),
            ("a.*", "a.*", Some(allowed("a.*", "a.*"))),
            ("a.b*", "a.*", Some(allowed("a.b*", "a.*"))),
            ("a.*", "a.b*", Some(forbidden("a.*", "a.b*"))),
            ("a.*", "b.*", None),
            ("a.*", "a", None),
        ] {
            let expected: Vec<_> = expected.iter().map(String::as_str).collect();
            check_lists(json!([one]), json!([other]), &expected);
        }
        let first = forbidden("a.*", "a.b");
        let second = "spec.forbiddenSysctls[1]: Invalid value: \"a.c\": sysctl overlaps with a.*";
        check_lists(json!(["a.*", "b"]), json!(["a.b", "a.c"]), &[&first, second]);
    }
}
