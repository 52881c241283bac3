//! The answer of `doctor`.

use super::arguments::DoctorFormat;
use crate::app::doctor::{Finding, Outcome};
use serde_json::{Value, json};

/// The folder of the pages.
const PAGES: &str = "https://github.com/kube-admission-proxy/kube-admission-proxy/blob/main/docs/src/";

/// Returns the findings: a line each, and one more with the action of an operator; or a JSON object.
pub(super) fn text(findings: &[Finding], format: DoctorFormat) -> String {
    match format {
        DoctorFormat::Json => {
            format!("{:#}\n", json!({ "findings": findings.iter().map(as_json).collect::<Vec<_>>() }))
        }
        DoctorFormat::Text => {
            let lines: String = findings.iter().map(line).collect();
            let count = |outcome| findings.iter().filter(|finding| finding.outcome == outcome).count();
            let (failures, warnings) = (count(Outcome::Failure), count(Outcome::Warning));
            format!("{lines}\n{} checks, {failures} failed, {warnings} with a warning\n", findings.len())
        }
    }
}

fn line(finding: &Finding) -> String {
    let Finding { check, outcome, found, advice } = finding;
    let mark = match outcome {
        Outcome::Ok => "ok  ",
        Outcome::Warning => "warn",
        Outcome::Failure => "FAIL",
    };
    let line = format!("{mark} {check}: {}\n", one_line(found));
    if advice.is_empty() { line } else { format!("{line}     -> {advice} ({PAGES}{})\n", finding.section()) }
}

/// A text of the API server may have several lines.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn as_json(finding: &Finding) -> Value {
    let Finding { check, outcome, found, advice } = finding;
    let outcome = outcome.name();
    match advice.is_empty() {
        true => json!({"check": check, "outcome": outcome, "found": found}),
        false => {
            let page = format!("{PAGES}{}", finding.section());
            json!({"check": check, "outcome": outcome, "found": found, "advice": advice, "page": page})
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_lines_or_json() {
        let ok = Finding { check: "clock", outcome: Outcome::Ok, found: "as\nhere".to_owned(), advice: String::new() };
        let failure = Finding {
            check: "rights",
            outcome: Outcome::Failure,
            found: "no right to list pods".to_owned(),
            advice: "bind the role".to_owned(),
        };
        let findings = [ok, failure];
        let lines = text(&findings, DoctorFormat::Text);
        let page = format!("{PAGES}doctor.md#rights");
        let expected = format!(
            "ok   clock: as here\nFAIL rights: no right to list pods\n     -> bind the role ({page})\n\n2 checks, 1 failed, 0 with a warning\n"
        );
        assert_eq!(lines, expected);
        let json: Value = serde_json::from_str(&text(&findings, DoctorFormat::Json)).unwrap();
        assert_eq!(json["findings"][0], json!({"check": "clock", "outcome": "ok", "found": "as\nhere"}));
        assert_eq!(json["findings"][1]["page"], json!(page));
    }
}
