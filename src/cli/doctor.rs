//! The answer of `doctor`.

use super::arguments::DoctorFormat;
use crate::app::doctor::{Finding, Outcome};
use serde_json::{Value, json};

/// The folder of the pages.
const PAGES: &str = "https://github.com/kube-admission-proxy/kube-admission-proxy/blob/main/docs/src/";

/// Tenants whose names stand in a line.
const SHOWN_TENANTS: usize = 10;

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
    let Finding { check, outcome, found, advice, tenants } = finding;
    let mark = match outcome {
        Outcome::Ok => "ok  ",
        Outcome::Warning => "warn",
        Outcome::Failure => "FAIL",
    };
    let of = if tenants.is_empty() { String::new() } else { format!(" ({})", shown(tenants)) };
    let line = format!("{mark} {check}{of}: {}\n", one_line(found));
    if advice.is_empty() { line } else { format!("{line}     -> {advice} ({PAGES}{})\n", finding.section()) }
}

/// The names of tenants, at most some of them.
fn shown(tenants: &[String]) -> String {
    let more = tenants.len().saturating_sub(SHOWN_TENANTS);
    let names: Vec<&str> = tenants.iter().take(SHOWN_TENANTS).map(String::as_str).collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{} {}{more}", if tenants.len() == 1 { "tenant" } else { "tenants" }, names.join(", "))
}

/// A text of an API server may have several lines, and characters that change what a terminal shows.
fn one_line(text: &str) -> String {
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

fn as_json(finding: &Finding) -> Value {
    let Finding { check, outcome, found, advice, tenants } = finding;
    let mut object = json!({"check": check, "outcome": outcome.name(), "found": found});
    if !advice.is_empty() {
        object["advice"] = json!(advice);
        object["page"] = json!(format!("{PAGES}{}", finding.section()));
    }
    if !tenants.is_empty() {
        object["tenants"] = json!(tenants);
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_lines_or_json() {
        let ok = Finding {
            check: "clock",
            outcome: Outcome::Ok,
            found: "as\n\u{1b}here".to_owned(),
            advice: String::new(),
            tenants: vec!["a".to_owned(), "b".to_owned()],
        };
        let failure = Finding {
            check: "rights",
            outcome: Outcome::Failure,
            found: "no right to list pods".to_owned(),
            advice: "bind the role".to_owned(),
            tenants: Vec::new(),
        };
        let findings = [ok, failure];
        let lines = text(&findings, DoctorFormat::Text);
        let page = format!("{PAGES}doctor.md#rights");
        let expected = format!(
            "ok   clock (tenants a, b): as here\nFAIL rights: no right to list pods\n     -> bind the role ({page})\n\n2 checks, 1 failed, 0 with a warning\n"
        );
        assert_eq!(lines, expected);
        let json: Value = serde_json::from_str(&text(&findings, DoctorFormat::Json)).unwrap();
        assert_eq!(
            json["findings"][0],
            json!({"check": "clock", "outcome": "ok", "found": "as\n\u{1b}here", "tenants": ["a", "b"]})
        );
        assert_eq!(json["findings"][1]["page"], json!(page));
    }
}
