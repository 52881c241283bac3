//! The layers of `src`, of `src/embedded`, of `src/pipeline` and of the crates kubernetes-cel and kubernetes-object: each file or folder imports
//! only layers before its own.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The files and folders of `src`, from the lowest layer up. Below them are the crates of `crates/`, whose dependencies Cargo enforces.
const LAYERS: [&str; 41] = [
    "user",
    "sharer",
    "crowd",
    "removed",
    "initializers",
    "body",
    "arrivals",
    "answers",
    "derived",
    "x509",
    "metrics",
    "logging",
    "look",
    "shares",
    "processor",
    "turns",
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
    "backend",
    "audit",
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

/// The files of `src/pipeline`, from the lowest layer up.
const LAYERS_OF_PIPELINE: [&str; 42] = [
    "ready",
    "gateway",
    "target",
    "rest",
    "answer_object",
    "owners",
    "before_storage",
    "eviction",
    "owner_references",
    "dry_run",
    "permission",
    "connect",
    "inflight",
    "measure",
    "request_log",
    "answers",
    "audited",
    "write",
    "negotiate",
    "resource_version",
    "managed_fields",
    "admit",
    "outgoing",
    "initializers",
    "unknown_fields",
    "field_owners",
    "cluster_ips",
    "view",
    "deletion",
    "delete",
    "collection",
    "create",
    "update",
    "apply",
    "patch",
    "look",
    "loopback",
    "confinement",
    "tenant",
    "parts",
    "identity",
    "tenancy",
];

/// The files and folders of `src/embedded`, from the lowest layer up. Strategies know nothing of HTTP, and verbs nothing of controllers.
const LAYERS_OF_EMBEDDED: [&str; 14] = [
    "name",
    "identity",
    "settings",
    "store",
    "custom",
    "api",
    "rbac",
    "strategies",
    "waiting",
    "server",
    "http",
    "verbs",
    "controllers",
    "serve",
];

/// The files and folders of the crate kubernetes-cel, from the lowest layer up.
const LAYERS_OF_CEL: [&str; 25] = [
    "error",
    "release",
    "work",
    "re2",
    "types",
    "escape",
    "message_types",
    "schema",
    "value",
    "function",
    "library",
    "declarations",
    "well_known",
    "messages",
    "source",
    "environment",
    "ast",
    "parse",
    "check",
    "plan",
    "eval",
    "estimate",
    "compile",
    "rules",
    "typecheck",
];

/// The files and folders of the crate kubernetes-object, from the lowest layer up.
const LAYERS_OF_OBJECT: [&str; 29] = [
    "go_text",
    "kind",
    "release",
    "memory",
    "decode",
    "cbor",
    "names",
    "name",
    "quantity",
    "defaults",
    "unwritten",
    "object",
    "kinds",
    "version",
    "schema",
    "typed",
    "round_trip",
    "convert",
    "normal",
    "status",
    "object_meta",
    "structural",
    "merge",
    "managed_fields",
    "patch",
    "protobuf",
    "selector",
    "validation",
    "custom_resource_definition",
];

/// A folder whose files and folders are layers.
struct Room {
    /// The folder of the crate's root.
    crate_folder: &'static str,
    /// The path of the module in the crate; empty for the root.
    module: &'static [&'static str],
    layers: &'static [&'static str],
    /// The name of the table.
    table: &'static str,
}

const ROOMS: [Room; 5] = [
    Room { crate_folder: "src", module: &[], layers: &LAYERS, table: "LAYERS" },
    Room { crate_folder: "src", module: &["embedded"], layers: &LAYERS_OF_EMBEDDED, table: "LAYERS_OF_EMBEDDED" },
    Room { crate_folder: "src", module: &["pipeline"], layers: &LAYERS_OF_PIPELINE, table: "LAYERS_OF_PIPELINE" },
    Room { crate_folder: "crates/kubernetes-cel/src", module: &[], layers: &LAYERS_OF_CEL, table: "LAYERS_OF_CEL" },
    Room {
        crate_folder: "crates/kubernetes-object/src",
        module: &[],
        layers: &LAYERS_OF_OBJECT,
        table: "LAYERS_OF_OBJECT",
    },
];

/// The only plugin that starts a task: its rounds of checks serve several requests at once.
const PLUGIN_WITH_A_TASK: &str = "plugins/resource_quota/rounds.rs";

/// The files and folders that start tasks or threads. A request does its work in its own task.
const WITH_TASKS: [&str; 25] = [
    "app.rs",
    "app/doctor/followed.rs",
    "app/reviews.rs",
    "app/tenancy/folder.rs",
    "audit/file.rs",
    "audit/log.rs",
    "audit/webhook.rs",
    "backend/",
    "cli/behind.rs",
    "cluster/",
    "embedded/controllers/expiry.rs",
    "embedded/controllers/garbage.rs",
    "embedded/store/keeper.rs",
    "logging/output.rs",
    "pipeline/answers.rs",
    PLUGIN_WITH_A_TASK,
    "policies/source.rs",
    "processor.rs",
    "server/drain.rs",
    "server/health.rs",
    "server/listener.rs",
    "server/reload.rs",
    "server/unread.rs",
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
                found.push(format!("{folder}/{name}").trim_start_matches('/').to_owned());
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

/// The path of a file's module in its crate.
fn module_of(file: &str) -> Vec<&str> {
    let path: Vec<&str> = file.trim_end_matches(".rs").split('/').collect();
    match path.as_slice() {
        ["lib" | "main"] => Vec::new(),
        [parents @ .., "mod"] => parents.to_vec(),
        _ => path,
    }
}

/// A path in the code of a file, with its line.
struct Named {
    number: usize,
    path: String,
    /// Whether the path is that of a `use`.
    is_import: bool,
}

/// The paths of `use` statements, with all their braces, and the paths elsewhere that begin with `crate` or `super`.
fn names(lines: &[&Line]) -> Vec<Named> {
    let mut found = Vec::new();
    let mut rest = lines.iter();
    while let Some(Line { number, text, .. }) = rest.next() {
        let Some(begin) = import(text) else {
            found.extend(inline(text).map(|path| Named { number: *number, path, is_import: false }));
            continue;
        };
        let (mut number, mut text) = (*number, begin);
        let (mut prefixes, mut name) = (Vec::<String>::new(), String::new());
        loop {
            for c in text.chars().chain([' ']) {
                match c {
                    '{' => prefixes.push(std::mem::take(&mut name)),
                    ',' | '}' | ';' => {
                        let end = std::mem::take(&mut name);
                        let end = end.split(" as ").next().unwrap().trim();
                        if !end.is_empty() {
                            let path = format!("{}{end}", prefixes.concat());
                            found.push(Named { number, path: path.replace(' ', ""), is_import: true });
                        }
                        if c == '}' {
                            prefixes.pop();
                        }
                    }
                    c => name.push(c),
                }
            }
            if text.contains(';') {
                break;
            }
            let Some(next) = rest.next() else { break };
            (number, text) = (next.number, &next.text);
        }
    }
    found
}

/// The text after the word `use` of a statement.
fn import(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let text = match text.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1.trim_start(),
        Some(rest) => rest.trim_start(),
        None => text,
    };
    text.strip_prefix("use ")
}

/// The paths in a line that begin with `crate` or `super`.
fn inline(text: &str) -> impl Iterator<Item = String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_:".contains(c);
    text.split(move |c| !is_part(c) && c != '$')
        .filter(|path| path.starts_with("crate::") || path.starts_with("super::"))
        .map(str::to_owned)
}

/// The path from the crate's root; `None` for a path into another crate or into the file itself.
fn from_root(module: &[&str], path: &str) -> Option<Vec<String>> {
    let mut parts = path.split("::").peekable();
    let mut whole: Vec<String> = module.iter().map(|part| (*part).to_owned()).collect();
    match *parts.peek()? {
        "crate" => {
            parts.next();
            whole.clear();
        }
        "super" => {
            while parts.next_if(|part| *part == "super").is_some() {
                whole.pop();
            }
        }
        _ => return None,
    }
    whole.extend(parts.map(str::to_owned));
    Some(whole)
}

/// The imports of a room that go up.
fn imports_that_go_up(room: &Room) -> Vec<String> {
    let Room { crate_folder, module: within, layers, table } = room;
    let rank: BTreeMap<&str, usize> = layers.iter().zip(0..).map(|(name, at)| (*name, at)).collect();
    let lines = product_of(crate_folder);
    let mut files: BTreeMap<&str, Vec<&Line>> = BTreeMap::new();
    lines.iter().for_each(|line| files.entry(&line.file).or_default().push(line));
    // The names that the room's root imports from its layers, by which the layers may name them too.
    let of_root = files.iter().filter(|(file, _)| **file != "main.rs" && module_of(file) == *within);
    let imported = of_root.flat_map(|(_, lines)| names(lines)).filter(|named| named.is_import).filter_map(|named| {
        let (first, last) = (named.path.split("::").next()?, named.path.rsplit("::").next()?);
        Some((last.to_owned(), first.to_owned()))
    });
    let imported: BTreeMap<String, String> = imported.filter(|(_, first)| rank.contains_key(&**first)).collect();
    let (mut faults, mut seen) = (Vec::new(), Vec::new());
    for (file, lines) in &files {
        let module = module_of(file);
        let Some(from) = module.strip_prefix(*within).and_then(|rest| rest.first()) else { continue };
        let Some(own) = rank.get(from) else {
            faults.push(format!("{crate_folder}/{file}: {from} has no place in {table}: add it above what it imports"));
            continue;
        };
        seen.push(*from);
        for Named { number, path, .. } in names(lines) {
            let Some(whole) = from_root(&module, &path) else { continue };
            let whole: Vec<&str> = whole.iter().map(String::as_str).collect();
            let Some(to) = whole.strip_prefix(*within).and_then(|rest| rest.first()) else { continue };
            let to = imported.get(*to).map_or(*to, String::as_str);
            if rank.get(to).is_some_and(|other| other > own) {
                faults.push(format!(
                    "{crate_folder}/{file}:{number}: {from} imports {to}, which stands above it in {table}: \
                     move what is imported down, or the importer up"
                ));
            }
        }
    }
    let stale = layers.iter().filter(|layer| !seen.contains(*layer));
    faults.extend(stale.map(|layer| format!("{crate_folder}: {layer} of {table} is no file or folder")));
    faults.sort();
    faults.dedup();
    faults
}

#[test]
fn imports_go_down() {
    let faults: Vec<String> = ROOMS.iter().flat_map(imports_that_go_up).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn imports_are_found_in_all_their_forms() {
    let text =
        ["use super::{a, b::{C as D, e},", "    f};", "pub(crate) use crate::g::H;", "let x = crate::i::J(super::k);"];
    let lines: Vec<Line> =
        (1..).zip(text).map(|(number, text)| Line { file: "room/own.rs".into(), number, text: text.into() }).collect();
    let found = names(&lines.iter().collect::<Vec<_>>());
    let found: Vec<(usize, String)> = found.into_iter().map(|named| (named.number, named.path)).collect();
    let expected = [
        (1, "super::a"),
        (1, "super::b::C"),
        (1, "super::b::e"),
        (2, "super::f"),
        (3, "crate::g::H"),
        (4, "crate::i::J"),
        (4, "super::k"),
    ];
    assert_eq!(found, expected.map(|(number, path)| (number, path.to_owned())));
    let module = module_of("room/own.rs");
    assert_eq!(from_root(&module, "super::b::C").unwrap(), ["room", "b", "C"]);
    assert_eq!(from_root(&module, "crate::g::H").unwrap(), ["g", "H"]);
    assert_eq!(from_root(&module, "serde_json::json"), None);
}

#[test]
fn a_type_that_other_folders_import_has_a_name_of_its_own() {
    let lines = product();
    let mut files: BTreeMap<&str, Vec<&Line>> = BTreeMap::new();
    lines.iter().for_each(|line| files.entry(&line.file).or_default().push(line));
    // For each name of a type the folders that it is imported from, each with the folders that import it.
    let mut imported: BTreeMap<String, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for (file, lines) in &files {
        let module = module_of(file);
        let Some(own) = module.first() else { continue };
        for named in names(lines).into_iter().filter(|named| named.is_import) {
            let Some(path) = from_root(&module, &named.path) else { continue };
            let [home, .., name] = path.as_slice() else { continue };
            let is_type = name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase);
            if is_type && home != own {
                let homes = imported.entry(name.clone()).or_default();
                homes.entry(home.clone()).or_default().insert((*own).to_owned());
            }
        }
    }
    let mut faults = Vec::new();
    for (name, homes) in &imported {
        // A folder that imports the name itself passes the same type on.
        let passed_on: BTreeSet<&String> = homes.values().flatten().collect();
        let homes: Vec<&String> = homes.keys().filter(|home| !passed_on.contains(home)).collect();
        if homes.len() > 1 {
            faults.push(format!("{name} is a type of each of {homes:?}, and other folders import both: rename one"));
        }
    }
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

/// The lines that only tests compile and that stand inside product code: in a function, or among the fields of a type.
fn test_code_inside_product_code(lines: &[Line]) -> Vec<&Line> {
    let has_test = |text: &str, begin: &str| {
        let conditions = text.split(begin).skip(1);
        conditions.flat_map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_')).any(|word| word == "test")
    };
    let indent = |line: &Line| line.text.len() - line.text.trim_start().len();
    let is_inside = |at: usize| {
        let own = indent(&lines[at]);
        let before = lines[..at].iter().rev().filter(|line| !line.text.trim().is_empty() && indent(line) < own);
        let around = before.map(|line| line.text.trim()).find(|text| *text != "{" && !text.starts_with("where"));
        let may_have_items = |text: &str| text.starts_with("impl") || text.split(' ').any(|word| word == "mod");
        own > 0 && !around.is_some_and(may_have_items)
    };
    let found = lines.iter().enumerate().filter(|(at, line)| {
        has_test(&line.text, "cfg!(") || has_test(line.text.trim_start(), "#[cfg") && is_inside(*at)
    });
    found.map(|(_, line)| line).collect()
}

/// A counter of the objects that a list passes, which no answer shows, and a measure of the longest transaction, which a client sees only on an
/// idle machine.
const MEASURES: [&str; 2] = ["embedded/store/lock.rs", "embedded/store/objects.rs"];

#[test]
fn product_code_is_the_same_in_tests() {
    let mut faults = Vec::new();
    let crates = ["kubernetes-object", "kubernetes-cel", "kube-test-server"].map(|name| format!("crates/{name}/src"));
    for folder in crates.iter().map(String::as_str).chain(["src"]) {
        let mut lines = product_of(folder);
        lines.retain(|line| !MEASURES.contains(&&*line.file));
        let found = test_code_inside_product_code(&lines);
        faults.extend(found.into_iter().map(|Line { file, number, text }| {
            format!(
                "{folder}/{file}:{number}: {}: a test must run the code of the product. Give the type a trait or a \
                 client that a test implements, and move this code into a module of tests",
                text.trim()
            )
        }));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn test_code_is_found_in_functions_and_among_fields() {
    let text = "\
#[cfg(test)]
use a::B;
struct S {
    a: u8,
    #[cfg(test)]
    b: u8,
}
enum E {
    #[cfg(any(test, unix))]
    A,
}
impl<T> S
where
    T: B,
{
    #[cfg(test)]
    fn a(&self) {}
    fn b(
        &self,
    ) {
        #[cfg(test)]
        return;
        if x && cfg!(test) {
            #[cfg(not(test))]
            return;
        }
        #[cfg(feature = \"tests\")]
        return;
    }
}
#[cfg(test)]
mod fixed {
    #[cfg(test)]
    fn a() {}
}
";
    let lines: Vec<Line> =
        (1..).zip(text.lines()).map(|(number, text)| Line { file: "a.rs".into(), number, text: text.into() }).collect();
    let numbers: Vec<usize> = test_code_inside_product_code(&lines).iter().map(|line| line.number).collect();
    assert_eq!(numbers, [5, 9, 21, 23, 24]);
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
