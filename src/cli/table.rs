//! The table of plugins.

use crate::admission::{Phases, Spec};
use std::borrow::Cow;

/// Returns the table with one line a plugin, in the order of the chain.
pub(super) fn plugins(all: &[&'static Spec]) -> String {
    let mut rows = vec![["NAME", "PHASE", "DEFAULT", "CONFIGURATION", "WHAT IT DOES"].map(Cow::Borrowed)];
    rows.extend(self::rows(all));
    let mut widths = [0; 4];
    for row in &rows {
        widths.iter_mut().zip(row).for_each(|(width, cell)| *width = cell.len().max(*width));
    }
    let mut table = String::new();
    for row in &rows {
        for (cell, width) in row.iter().zip(widths) {
            table.push_str(&format!("{cell:width$}  "));
        }
        table.push_str(&row[4]);
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
        let about = match spec.removed {
            None => spec.about.into(),
            Some(removed) => format!("{} {removed}", spec.about).into(),
        };
        [spec.name.into(), phase.into(), default.into(), spec.configuration.unwrap_or("-").into(), about]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plugin_is_a_line_of_aligned_columns() {
        let table = plugins(crate::plugins::ALL);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), crate::plugins::ALL.len() + 1);
        let column = lines[0].find("PHASE").unwrap();
        for (line, spec) in lines[1..].iter().zip(crate::plugins::ALL) {
            assert_eq!(line.split_whitespace().next(), Some(spec.name));
            assert!(line.contains(spec.about) && !line[column..].starts_with(' '), "{line}");
        }
    }
}
