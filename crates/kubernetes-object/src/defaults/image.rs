//! The default pull policy of an image: `Always` if the tag is `latest`, otherwise `IfNotPresent`.

use super::fields::{Fields, is_zero, text};
use regex::Regex;
use std::sync::LazyLock;

/// The pattern of github.com/distribution/reference, with the name, the tag and the digest as groups.
static REFERENCE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let word = "[a-z0-9]+";
    let path = format!(r"{word}(?:(?:[._]|__|-+){word})*");
    let label = "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])";
    let host = format!(r"(?:{label}(?:\.{label})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?");
    let digest = "[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9A-Fa-f]{32,}";
    let tag = "[0-9A-Za-z_][0-9A-Za-z_.-]{0,127}";
    Regex::new(&format!("^(?:(?:{host}/)?({path}(?:/{path})*))(?::({tag}))?(?:@({digest}))?$")).ok()
});

/// `RepositoryNameTotalLengthMax`.
const LONGEST_PATH: usize = 255;

/// Sets the pull policy by the image's tag, if no policy is set.
pub(super) fn default_pull_policy(fields: &mut Fields, image: &str, policy: &str) {
    if is_zero(fields, policy) {
        let chosen = if is_latest(text(fields, image)) { "Always" } else { "IfNotPresent" };
        fields.insert(policy.to_owned(), chosen.into());
    }
}

/// Whether `parsers.ParseImageName` finds the tag `latest`. It assumes this tag for an image without a tag and a digest, and finds no tag
/// in a name that it cannot parse.
fn is_latest(image: &str) -> bool {
    let name = image.split_once('@').map_or(image, |(name, _)| name);
    let last = name.rsplit('/').next().unwrap_or_default();
    let may_be = match last.split_once(':') {
        Some((_, tag)) => tag == "latest",
        None => name.len() == image.len(),
    };
    may_be && is_valid(image)
}

fn is_valid(image: &str) -> bool {
    let is_hexadecimal = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if image.len() == 64 && is_hexadecimal(image) {
        return false;
    }
    let (domain, remainder) = split_domain(image);
    let repository = remainder.split(':').next().unwrap_or_default();
    if repository.chars().any(char::is_uppercase) {
        return false;
    }
    // Go adds `library/` to names without a slash, which here only affects the length.
    let prefix = if domain == DOCKER && !remainder.contains('/') { "library/" } else { "" };
    let Some(reference) = REFERENCE.as_ref() else { return false };
    let whole = format!("{domain}/{prefix}{remainder}");
    let Some(found) = reference.captures(&whole) else { return false };
    let digest = found.get(3).map(|digest| digest.as_str().split_once(':'));
    let is_digest = match digest {
        None => true,
        Some(Some(("sha256", sum))) => sum.len() == 64 && is_hexadecimal(sum),
        Some(Some(("sha384", sum))) => sum.len() == 96 && is_hexadecimal(sum),
        Some(Some(("sha512", sum))) => sum.len() == 128 && is_hexadecimal(sum),
        Some(_) => false,
    };
    is_digest && found.get(1).is_some_and(|path| path.as_str().len() <= LONGEST_PATH)
}

const DOCKER: &str = "docker.io";

/// `splitDockerDomain`: the part before the first slash is the domain, if that part has the form of one.
fn split_domain(image: &str) -> (&str, &str) {
    match image.split_once('/') {
        Some(("index.docker.io", rest)) => (DOCKER, rest),
        Some((first, rest))
            if first == "localhost" || first.contains(['.', ':']) || first.chars().any(char::is_uppercase) =>
        {
            (first, rest)
        }
        _ => (DOCKER, image),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_without_a_tag_or_with_latest_is_latest() {
        let sum = "0".repeat(64);
        for (image, expected) in [
            ("nginx", true),
            ("nginx:latest", true),
            ("nginx:1.27", false),
            ("registry.local:5000/team/web", true),
            ("registry.local:5000/team/web:latest", true),
            ("localhost/web", true),
            ("[::1]:5000/web", true),
            ("Team/web", true),
            ("team/Web", false),
            ("Nginx", false),
            ("", false),
            ("nginx:", false),
            ("-nginx", false),
            ("a__b/c--d", true),
            ("a___b", false),
            (&*format!("nginx@sha256:{sum}"), false),
            (&*format!("nginx:latest@sha256:{sum}"), true),
            (&*format!("nginx:latest@md5:{sum}"), false),
            ("nginx:latest@sha256:abc", false),
            (&*sum, false),
            (&*"a/".repeat(140), false),
            (&*format!("{}b", "a/".repeat(123)), true),
            (&*format!("{}b", "a/".repeat(128)), false),
        ] {
            assert_eq!(is_latest(image), expected, "{image}");
        }
    }
}
