//! The tables in the README say what the program says.

use super::arguments::Arguments;
use super::table;
use clap::CommandFactory;

const README: &str = include_str!("../../README.md");

/// The README has these lines, one after the other; the failure shows what should stand there.
#[track_caller]
fn is_in_the_readme(lines: &str) {
    assert!(README.contains(lines), "README.md should have:\n\n{lines}");
}

#[test]
fn the_table_of_plugins_is_that_of_the_program() {
    let mut rows = String::new();
    for row in table::rows(crate::plugins::ALL) {
        rows += &format!("| {} |\n", row.join(" | "));
    }
    is_in_the_readme(&rows);
}

#[test]
fn what_check_prints_is_what_it_prints() {
    let report = super::check::check(&["config/expressions.yaml".into()], &[]);
    is_in_the_readme(&format!("$ kube-admission-proxy check config/expressions.yaml\n{report}```"));
}

#[test]
fn the_table_of_flags_is_that_of_the_program() {
    let command = Arguments::command();
    let serve = command.find_subcommand("serve").expect("the subcommand serve");
    let mut rows = String::new();
    for flag in serve.get_arguments().filter(|flag| !flag.is_hide_set() && flag.get_id() != "help") {
        let name = flag.get_long().expect("every flag has a long name");
        let default = flag.get_default_values().first().map(|value| format!("`{}`", value.to_string_lossy()));
        let help = flag.get_help().expect("every flag has help").to_string().replace('\n', " ");
        rows += &format!("| `--{name}` | {} | {help} |\n", default.unwrap_or_default());
    }
    is_in_the_readme(&rows);
}
