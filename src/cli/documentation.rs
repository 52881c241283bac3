//! Checks that the reference tables of `docs/` have the content of the program.

use super::apiserver;
use super::arguments::Arguments;
use super::table;
use crate::admission::metrics::Metrics;
use crate::admission::{Chain, FrontEndSupport, PluginEnvironment};
use crate::cluster::discovery::Discovery;
use crate::cluster::{self, Cluster, FixedState};
use crate::config::{EmulatedRelease, Limits, Writes, gates};
use crate::front_end;
use crate::metrics::Registry;
use crate::pipeline::Process;
use crate::upstream::{Emulation, ReleaseMetrics, UpstreamRelease};
use crate::{audit, impersonation};
use clap::CommandFactory;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

/// Panics with the lines that should be in the page, unless the page has them one after the other.
#[track_caller]
fn is_in_the_page(page: &str, lines: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/src").join(page);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(lines), "{} should have:\n\n{lines}", path.display());
}

#[test]
fn the_table_of_plugins_is_that_of_the_program() {
    let mut rows = String::new();
    for row in table::rows(crate::plugins::ALL) {
        rows += &format!("| {} |\n", row.join(" | "));
    }
    is_in_the_page("plugins.md", &rows);
}

#[test]
fn the_table_of_the_front_end_is_that_of_the_program() {
    let mut rows = "| plugin | in the front end |\n| --- | --- |\n".to_owned();
    for spec in crate::plugins::ALL {
        let how = match spec.front_end {
            FrontEndSupport::Full => "in full".to_owned(),
            FrontEndSupport::Of(_) => "in part: only for the resources that it checks".to_owned(),
            FrontEndSupport::Part(difference) => format!("in part: {difference}"),
            FrontEndSupport::LeftOut(why) => format!("left out: {why}"),
            FrontEndSupport::Refused(why) => format!("refused at the start: {why}"),
        };
        let _ = writeln!(rows, "| {} | {how} |", spec.name);
    }
    is_in_the_page("front-end.md", &rows);
}

#[test]
fn the_tables_of_flags_are_those_of_the_program() {
    let command = Arguments::command();
    let serve = command.find_subcommand("serve").expect("the subcommand serve");
    let (mut tables, mut heading) = (String::new(), None);
    for flag in serve.get_arguments().filter(|flag| !flag.is_hide_set() && flag.get_id() != "help") {
        if flag.get_help_heading() != heading {
            heading = flag.get_help_heading();
            let title = heading.expect("every flag has a heading");
            tables += &format!("\n### {title}\n\n| flag | default | meaning |\n| --- | --- | --- |\n");
        }
        let name = flag.get_long().expect("every flag has a long name");
        let default = flag.get_default_values().first().map(|value| format!("`{}`", value.to_string_lossy()));
        let help = flag.get_help().expect("every flag has help").to_string().replace('\n', " ");
        tables += &format!("| `--{name}` | {} | {help} |\n", default.unwrap_or_default());
    }
    is_in_the_page("configuration.md", &tables);
}

#[test]
fn the_table_of_kube_apiservers_flags_is_that_of_the_program() {
    let meaning = apiserver::with_meaning();
    let mut table = "| flag | type | effect |\n| --- | --- | --- |\n".to_owned();
    for flag in apiserver::flags().filter(|flag| flag.group != "global") {
        let effect = if meaning.iter().any(|name| name == flag.name) { "as for serve" } else { "none" };
        table += &format!("| `--{}` | {} | {effect} |\n", flag.name, flag.kind);
    }
    is_in_the_page("kube-apiserver.md", &table);
}

/// Collects the product code of `src`, without the parser of `--feature-gates`, and without the embedded API server: its gates decide about
/// fields of objects, as those of any API server behind the proxy do.
fn product(folder: &Path, text: &mut String) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.ends_with("src/embedded") {
            continue;
        }
        if path.is_dir() {
            product(&path, text)?;
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && !path.ends_with("feature_gates.rs")
            && !path.ends_with("tests.rs")
        {
            let code = fs::read_to_string(path)?;
            text.push_str(code.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default());
        }
    }
    Ok(())
}

#[test]
fn the_tables_of_feature_gates_are_those_of_the_program() {
    let mut code = String::new();
    product(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut code).unwrap();
    let asked: Vec<&str> = code.lines().filter(|line| line.contains("is_on(") || line.contains("GATE: &str")).collect();
    let (mut others, mut page) = (String::new(), String::new());
    let head: String = EmulatedRelease::all().map(|release| format!(" {release} |")).collect();
    for name in gates(EmulatedRelease::default()).map(|gate| gate.name) {
        let cells = EmulatedRelease::all().map(|release| {
            let gate = gates(release).find(|gate| gate.name == name).unwrap();
            match gate.facts.filter(|facts| !facts.removed) {
                None => " - |".to_owned(),
                Some(facts) => {
                    let (default, locked) =
                        (if facts.default { "on" } else { "off" }, if facts.locked { ", locked" } else { "" });
                    format!(" {default}, {}{locked} |", facts.stage)
                }
            }
        });
        let row = format!("| {name} |{}", cells.collect::<String>());
        let has_effect = asked.iter().any(|line| line.contains(&format!("\"{name}\"")));
        let into = if has_effect { &mut page } else { &mut others };
        let _ = writeln!(into, "{row}");
    }
    for row in page.lines() {
        is_in_the_page("feature-gates.md", &format!("{row} "));
    }
    let lines = " --- |".repeat(EmulatedRelease::all().count());
    is_in_the_page("feature-gates.md", &format!("| feature gate |{head}\n| --- |{lines}\n{others}"));
}

/// The numbers in the calls of `since` in a text.
fn releases_in(code: &str) -> impl Iterator<Item = &str> {
    code.split(".since(").skip(1).filter_map(|rest| rest.split_once(')')).map(|(minor, _)| minor)
}

#[test]
fn the_page_of_releases_names_every_rule_without_a_gate() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![source.clone()];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.ends_with("tests.rs") {
                continue;
            }
            let code = fs::read_to_string(&path).unwrap_or_default();
            let product = code.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let file = path.strip_prefix(&source).unwrap().display();
            for minor in releases_in(product).filter(|minor| minor.parse::<u16>().is_ok()) {
                is_in_the_page("kubernetes-releases.md", &format!("| 1.{minor} | `src/{file}` | "));
                count += 1;
            }
        }
    }
    assert!(count > 2, "{count} rules are not all that there are");
}

/// Formats a bound from its source text: `32_768`, `seconds(10)`, `milliseconds(300)`, `3 * MEBIBYTE`, `None`.
fn amount(value: &str) -> String {
    let value = value.replace('_', "");
    if let Some(seconds) = value.strip_prefix("seconds(").and_then(|rest| rest.strip_suffix(')')) {
        return format!("{seconds} s");
    }
    if let Some(milliseconds) = value.strip_prefix("milliseconds(").and_then(|rest| rest.strip_suffix(')')) {
        return format!("{milliseconds} ms");
    }
    match value.as_str() {
        "None" => "none".to_owned(),
        "MEBIBYTE" | "1024 * 1024" => "1 MiB".to_owned(),
        _ => match (value.strip_suffix(" * MEBIBYTE"), value.strip_suffix(" * 1024")) {
            (Some(mebibytes), _) => format!("{mebibytes} MiB"),
            (_, Some(kibibytes)) => format!("{kibibytes} KiB"),
            _ => value,
        },
    }
}

/// The name of a field, and what follows.
fn field_of(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("pub ").or_else(|| line.strip_prefix("pub(crate) "))?.split_once(':')
}

#[test]
fn the_table_of_bounds_is_that_of_the_program() {
    let source = include_str!("../config/limits.rs");
    let (fields, defaults) = source.split_once("impl Default for Limits").unwrap();
    let command = Arguments::command();
    let serve = command.find_subcommand("serve").expect("the subcommand serve");
    let flags: Vec<String> =
        serve.get_arguments().filter_map(|flag| flag.get_long()).map(|name| format!("(`--{name}`)")).collect();
    // The bounds that a flag sets, and the others.
    let (mut tables, mut about) =
        (["| bound | value | meaning |\n| --- | --- | --- |\n"; 2].map(str::to_owned), Vec::new());
    for line in fields.split_once("pub struct Limits {").unwrap().1.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("/// ") {
            about.push(text);
        } else if let Some((name, _)) = field_of(line) {
            let start = format!(" {name}: ");
            let value = defaults.lines().find_map(|line| line.split_once(&*start)).unwrap().1.trim_end_matches(',');
            let about = std::mem::take(&mut about).join(" ");
            let table = &mut tables[usize::from(!flags.iter().any(|flag| about.contains(flag)))];
            *table += &format!("| `{name}` | {} | {about} |\n", amount(value));
        }
    }
    // A blank line ends a table, so that neither has a row of the other.
    is_in_the_page("bounds.md", &format!("{}\n", tables[0]));
    is_in_the_page("bounds.md", &format!("{}\n", tables[1]));
}

#[test]
fn the_sum_of_the_bounds_is_that_of_the_program() {
    let (chart, all) = (Limits::default().within_memory(512 << 20).memory(), Limits::default().memory());
    let mebibytes = |bytes: usize| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
    let sum = |memory: &[(&str, usize)]| mebibytes(memory.iter().map(|(_, bytes)| bytes).sum());
    let mut table = "| bound | MiB with a limit of 512 MiB | MiB without a limit |\n| --- | --- | --- |\n".to_owned();
    for ((name, of_chart), (_, without)) in chart.iter().zip(&all) {
        table += &format!("| {name} | {} | {} |\n", mebibytes(*of_chart), mebibytes(*without));
    }
    table += &format!("| sum | {} | {} |\n", sum(&chart), sum(&all));
    is_in_the_page("bounds.md", &table);
}

/// Registers all metrics that the server registers at its start.
fn all_metrics() -> Registry {
    let (registry, limits) = (Registry::new(), Limits::default());
    let cluster = Cluster::fixed(FixedState::default());
    let metrics = Arc::new(Metrics::new(&registry).unwrap());
    let plugins: Vec<_> = crate::plugins::ALL.iter().copied().filter(|spec| spec.default_on).collect();
    let environment = || PluginEnvironment::with_defaults(cluster.clone(), Discovery::unconnected(), metrics.clone());
    Chain::build(&plugins, metrics.clone(), |_| environment()).unwrap();
    registry.register(Box::new(cluster::Metrics::new(cluster).unwrap())).unwrap();
    crate::authn::Metrics::of(&registry).unwrap();
    audit::Metrics::register(&registry).unwrap();
    impersonation::Metrics::register(&registry).unwrap();
    Process::new(&limits, Arc::default(), Writes::default(), &registry).unwrap();
    front_end::FrontEndMetrics::register(&registry).unwrap();
    crate::tenants::TenantMetrics::register(&registry).unwrap();
    crate::app::doctor::metric(&registry).unwrap();
    crate::metrics::ProcessMetrics::register(&registry).unwrap();
    crate::logging::register(&registry).unwrap();
    crate::app::build_info::register(&registry, &crate::config::FeatureGates::default()).unwrap();
    crate::upstream::RestMetrics::of(&registry).unwrap();
    let release = ReleaseMetrics::new(Arc::new(UpstreamRelease::known()), Emulation::default()).unwrap();
    registry.register(Box::new(release)).unwrap();
    registry
}

#[tokio::test]
async fn the_table_of_metrics_is_that_of_the_program() {
    let mut table = "| metric | type | labels | stability | help |\n| --- | --- | --- | --- | --- |\n".to_owned();
    for (name, metric) in all_metrics().descriptions() {
        let (stability, help) = match metric.help.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
            Some((stability, help)) => (stability, help),
            None => ("", metric.help.as_str()),
        };
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        table += &format!("| `{name}` | {} | {} | {stability} | {help} |\n", metric.kind, labels.join(", "));
    }
    is_in_the_page("metrics.md", &table);
}

/// The texts between quotes that follow this one.
fn quoted_after<'a>(code: &'a str, before: &str) -> impl Iterator<Item = &'a str> {
    code.split(before).skip(1).filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next())
}

#[test]
fn every_check_of_doctor_has_a_section() {
    let mut code = String::new();
    product(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/app"), &mut code).unwrap();
    let calls = ["Finding::ok(", "Finding::warning(", "Finding::failure(", "const CHECK: &str ="];
    let mut checks: Vec<&str> = calls.iter().flat_map(|call| quoted_after(&code, call)).collect();
    checks.extend(["rights", "rights of the impersonator"]);
    assert!(checks.len() > 20, "{checks:?}");
    for check in checks {
        is_in_the_page("doctor.md", &format!("\n## {check}\n"));
    }
}
