//! The recorded answers of each release, as `tools/cel-vectors/answers.py` writes them.

use crate::release::Release;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// The lines of a file with the answers of 1.36; and the same lines with those of 1.37, from the file with the differing and the additional
/// ones. `asked` are the fields that make the question.
pub(crate) fn by_release(first: &str, since_37: &str, asked: &[&str]) -> Vec<(Release, Json)> {
    let lines = |text: &str| text.lines().map(|line| serde_json::from_str::<Json>(line).unwrap()).collect::<Vec<_>>();
    let question = |line: &Json| asked.iter().map(|field| line[field].to_string()).collect::<Vec<_>>();
    let mut all: Vec<(Release, Json)> = lines(first).into_iter().map(|line| (Release::of(36), line)).collect();
    let mut changed: BTreeMap<Vec<String>, Json> =
        lines(since_37).into_iter().map(|line| (question(&line), line)).collect();
    for line in lines(first) {
        let line = changed.get(&question(&line)).unwrap_or(&line).clone();
        all.push((Release::of(37), line));
    }
    lines(first).iter().for_each(|line| drop(changed.remove(&question(line))));
    all.extend(changed.into_values().map(|line| (Release::of(37), line)));
    for (release, line) in &mut all {
        if line["environment"] == "stored" {
            *release = release.stored();
        }
    }
    all
}
