//! The table of plugins.

use super::arguments::Format;
use crate::admission::{Phases, Spec};
use crate::plugins;
use serde_json::{Value, json};
use std::borrow::Cow;

/// Returns the list of plugins, in the order of the chain. As a table it has one line a plugin.
pub(super) fn plugins(all: &[&'static Spec], format: Format) -> String {
    match format {
        Format::Json => {
            let plugins: Vec<Value> = rows(all).map(as_json).collect();
            format!("{:#}\n", json!({ "plugins": plugins }))
        }
        Format::Table => table(all, 4),
        Format::Wide => table(all, 5),
    }
}

fn as_json([name, phase, default, configuration, about]: [Cow<'static, str>; 5]) -> Value {
    let configuration = Some(configuration).filter(|kind| kind != "-");
    let is_default = default == "on";
    json!({"name": name, "phase": phase, "default": is_default, "configuration": configuration, "effect": about})
}

/// Returns a table with the first columns.
fn table(all: &[&'static Spec], columns: usize) -> String {
    let mut rows = vec![["NAME", "PHASE", "DEFAULT", "CONFIGURATION", "WHAT IT DOES"].map(Cow::Borrowed)];
    rows.extend(self::rows(all));
    let mut widths = [0; 5];
    for row in &rows {
        widths.iter_mut().zip(row).for_each(|(width, cell)| *width = cell.len().max(*width));
    }
    let mut table = String::new();
    for row in &rows {
        let cells = row.iter().zip(widths).take(columns);
        let line: String = cells.map(|(cell, width)| format!("{cell:width$}  ")).collect();
        table.push_str(line.trim_end());
        table.push('\n');
    }
    table
}

/// Returns the cells of each plugin's line.
pub(super) fn rows(all: &[&'static Spec]) -> impl Iterator<Item = [Cow<'static, str>; 5]> {
    all.iter().map(|spec| {
        let phase = match spec.phases {
            Phases::Mutating => "mutating",
            Phases::Validating => "validating",
            Phases::Both => "both",
        };
        let default = if spec.default_on { "on" } else { "off" };
        let about = match (spec.removed, plugins::releases(spec)) {
            (None, None) => spec.about.into(),
            (None, Some(releases)) => format!("{} {releases}", spec.about).into(),
            (Some(removed), _) => format!("{} {removed}", spec.about).into(),
        };
        [spec.name.into(), phase.into(), default.into(), spec.configuration.unwrap_or("-").into(), about]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plugin_is_a_line_of_aligned_columns() {
        let table = plugins(crate::plugins::ALL, Format::Wide);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), crate::plugins::ALL.len() + 1);
        let column = lines[0].find("PHASE").unwrap();
        for (line, spec) in lines[1..].iter().zip(crate::plugins::ALL) {
            assert_eq!(line.split_whitespace().next(), Some(spec.name));
            assert!(line.contains(spec.about) && !line[column..].starts_with(' '), "{line}");
        }
        let narrow = plugins(crate::plugins::ALL, Format::Table);
        assert!(narrow.lines().zip(&lines).all(|(line, wide)| line.len() < 140 && wide.starts_with(line)), "{narrow}");
    }

    #[test]
    fn json_has_the_same_facts() {
        let list: Value = serde_json::from_str(&plugins(crate::plugins::ALL, Format::Json)).unwrap();
        let security =
            list["plugins"].as_array().unwrap().iter().find(|plugin| plugin["name"] == "PodSecurity").unwrap();
        assert_eq!((&security["phase"], &security["default"]), (&json!("validating"), &json!(true)));
        assert!(security["configuration"].as_str().unwrap().contains("PodSecurityConfiguration"), "{security}");
    }
}
