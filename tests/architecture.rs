//! The layers of `src`: each file or folder imports only layers before its own.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The files and folders of `src`, from the lowest layer up. Below them are the crates of `crates/`, whose dependencies Cargo enforces.
const LAYERS: [&str; 34] = [
    "user",
    "removed",
    "initializers",
    "body",
    "answers",
    "derived",
    "metrics",
    "shares",
    "processor",
    "config",
    "server",
    "request",
    "response",
    "upstream",
    "authn",
    "authz",
    "impersonation",
    "embedded",
    "cluster",
    "admission",
    "tenants",
    "audit",
    "backend",
    "conversion",
    "matching",
    "expressions",
    "manifests",
    "policies",
    "webhooks",
    "plugins",
    "front_end",
    "pipeline",
    "app",
    "cli",
];

/// The only plugin that starts a task: its rounds of checks serve several requests at once.
const PLUGIN_WITH_A_TASK: &str = "plugins/resource_quota/rounds.rs";

/// The files and folders that start tasks or threads. A request does its work in its own task.
const WITH_TASKS: [&str; 19] = [
    "app.rs",
    "app/reviews.rs",
    "app/tenancy.rs",
    "audit/log.rs",
    "backend/",
    "cluster/",
    "embedded/garbage.rs",
    "embedded/serve.rs",
    "embedded/store/keeper.rs",
    "pipeline/answers.rs",
    PLUGIN_WITH_A_TASK,
    "policies/source.rs",
    "processor.rs",
    "server/drain.rs",
    "server/health.rs",
    "server/listener.rs",
    "server/reload.rs",
    "upstream/",
    "webhooks/shadow.rs",
];

/// A line of product code with its position.
struct Line {
    file: String,
    number: usize,
    text: String,
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        match path.is_dir() {
            true => files_below(&path, found),
            false if path.extension().is_some_and(|extension| extension == "rs") => found.push(path),
            false => {}
        }
    }
}

/// The names of modules that are compiled for tests only, as `FOLDER/NAME`.
fn test_modules(files: &[(String, String)]) -> Vec<String> {
    let mut found = Vec::new();
    for (file, text) in files {
        let folder = match file.strip_suffix("/mod.rs").or_else(|| file.strip_suffix("lib.rs")) {
            Some(folder) => folder,
            None => file.strip_suffix(".rs").unwrap(),
        };
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for pair in lines.windows(2) {
            let name = pair[1].trim_start_matches("pub(crate) ").trim_start_matches("pub ").strip_prefix("mod ");
            let name = name.and_then(|rest| rest.strip_suffix(';'));
            if let Some(name) = name.filter(|_| pair[0] == "#[cfg(test)]") {
                found.push(format!("{folder}/{name}"));
            }
        }
    }
    found
}

/// The product code of `src`: without tests and comments.
fn product() -> Vec<Line> {
    product_of("src")
}

/// The product code of a folder.
fn product_of(folder: &str) -> Vec<Line> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut paths = Vec::new();
    files_below(&source, &mut paths);
    let name = |path: &Path| path.strip_prefix(&source).unwrap().to_str().unwrap().to_owned();
    let files: Vec<(String, String)> =
        paths.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect();
    let tests = test_modules(&files);
    let is_test = |file: &str| {
        let at = file.trim_end_matches(".rs");
        at.ends_with("_tests") || tests.iter().any(|test| at == test || at.starts_with(&format!("{test}/")))
    };
    let mut lines = Vec::new();
    for (file, text) in files.iter().filter(|(file, _)| !is_test(file)) {
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for (number, line) in (1..).zip(code.lines()) {
            let text = line.split("//").next().unwrap().to_owned();
            lines.push(Line { file: file.clone(), number, text });
        }
    }
    lines
}

/// The layer of a file, or `None` for the crate's roots.
fn layer(file: &str) -> Option<&str> {
    let first = file.split('/').next().unwrap();
    let name = first.strip_suffix(".rs").unwrap_or(first);
    (!["lib", "main"].contains(&name)).then_some(name)
}

/// The layers that a line names after `crate::`.
fn imports(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split("crate::").skip(1).map(move |rest| rest.split(|c| !is_part(c)).next().unwrap())
}

#[test]
fn imports_go_down() {
    let rank: BTreeMap<&str, usize> = LAYERS.iter().zip(0..).map(|(name, at)| (*name, at)).collect();
    let lines = product();
    let mut faults = Vec::new();
    for Line { file, number, text } in &lines {
        let Some(from) = layer(file) else { continue };
        let Some(own) = rank.get(from) else {
            faults.push(format!("src/{file}: {from} has no place in LAYERS: add it above what it imports"));
            continue;
        };
        for to in imports(text).filter(|to| rank.get(to).is_some_and(|other| other > own)) {
            faults.push(format!(
                "src/{file}:{number}: {from} imports {to}, which stands above it: move what is imported down, or the importer up"
            ));
        }
    }
    faults.sort();
    faults.dedup();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn tasks_are_started_where_the_table_has_them() {
    let words = ["tokio::spawn(", ".spawn(", "spawn_blocking(", "block_in_place(", "thread::spawn(", "thread::Builder"];
    let lines = product();
    let starting = lines.iter().filter(|line| words.iter().any(|word| line.text.contains(word)));
    let (mut faults, mut used) = (Vec::new(), Vec::new());
    for Line { file, number, text } in starting {
        match WITH_TASKS.iter().find(|place| file == *place || place.ends_with('/') && file.starts_with(*place)) {
            Some(place) => used.push(place),
            None => faults.push(format!("src/{file}:{number}: starts a task: {}", text.trim())),
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let stale: Vec<_> = WITH_TASKS.iter().filter(|place| !used.contains(place)).collect();
    assert!(stale.is_empty(), "these start no task: remove them from the table: {stale:?}");
}

/// Whether a line names a `Result` whose error is a `String`.
fn has_text_as_error(text: &str) -> bool {
    let text = text.replace("->", "  ");
    text.split("Result<").skip(1).any(|rest| {
        let mut depth = 1;
        let mut last = 0;
        for (at, c) in rest.char_indices() {
            match c {
                '<' | '(' | '[' => depth += 1,
                '>' | ')' | ']' => depth -= 1,
                ',' if depth == 1 => last = at + 1,
                _ => {}
            }
            if depth == 0 {
                return last > 0 && rest[last..at].trim() == "String";
            }
        }
        false
    })
}

#[test]
fn errors_are_types() {
    assert!(has_text_as_error("fn a() -> Result<Vec<(u8, String)>, String> {"));
    assert!(!has_text_as_error("fn a() -> Result<Map<u8, String>, Fault> {"));
    let mut lines = product();
    for folder in ["crates/kubernetes-object/src", "crates/kubernetes-cel/src"] {
        lines.extend(
            product_of(folder).into_iter().map(|line| Line { file: format!("../{folder}/{}", line.file), ..line }),
        );
    }
    let found: Vec<String> = lines
        .iter()
        .filter(|line| has_text_as_error(&line.text))
        .map(|line| format!("src/{}:{}: name what failed: {}", line.file, line.number, line.text.trim()))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn plugins_know_nothing_of_http_clients_and_tasks() {
    let words = ["hyper::", "http::", "kube::", "tokio::spawn", "tokio::task", "upstream::", "server::"];
    let found: Vec<String> = product()
        .iter()
        .filter(|line| line.file.starts_with("plugins/") && line.file != PLUGIN_WITH_A_TASK)
        .filter(|line| words.iter().any(|word| line.text.contains(word)))
        .map(|line| format!("src/{}:{}: {}", line.file, line.number, line.text.trim()))
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_plugin_is_in_the_table() {
    let lines = product();
    let table: Vec<&str> =
        lines.iter().filter(|line| line.file == "plugins/mod.rs").map(|line| line.text.trim()).collect();
    let mut count = 0;
    for line in lines.iter().filter(|line| line.text.contains("static SPEC: Spec")) {
        let plugin = line.file.strip_prefix("plugins/").unwrap().trim_end_matches(".rs").trim_end_matches("/mod");
        let entry = format!("&{plugin}::SPEC,");
        assert!(table.contains(&&*entry), "src/{}: the plugin is missing in ALL of src/plugins/mod.rs", line.file);
        count += 1;
    }
    assert!(count > 40, "{count} plugins are not all that there are");
}
