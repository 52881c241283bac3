//! Checks that all files that repeat the Makefile's version of Kubernetes agree with it.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Kubernetes' modules with version numbers of their own.
const OTHER_MODULES: [&str; 3] = ["k8s.io/gengo", "k8s.io/klog", "k8s.io/system-validators"];

/// Files that name another release on purpose.
const OF_OTHER_RELEASES: [&str; 3] = ["e2e/newer_server.rs", "e2e/newer/go.mod", "e2e/older/go.mod"];

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).unwrap()
}

/// `KUBERNETES_VERSION` of the Makefile, such as `1.36.3`, and its minor version, such as `36`.
fn version() -> (String, u64) {
    let makefile = read("Makefile");
    let version = makefile.lines().find_map(|line| line.strip_prefix("KUBERNETES_VERSION := ")).unwrap();
    (version.to_owned(), version.split('.').nth(1).unwrap().parse().unwrap())
}

/// The repository's files with one of these endings, by their paths.
fn files(endings: &[&str]) -> Vec<(String, String)> {
    fn below(folder: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                below(&path, endings, found);
            } else if path.is_file() && endings.iter().any(|ending| name.ends_with(ending)) {
                found.push(path);
            }
        }
    }
    let mut paths = Vec::new();
    below(Path::new(ROOT), endings, &mut paths);
    paths.sort();
    let name = |path: &PathBuf| path.strip_prefix(ROOT).unwrap().to_str().unwrap().to_owned();
    paths.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn constants_are_of_the_version() {
    let (version, minor) = version();
    for (file, expected) in [
        ("Cargo.toml", format!("features = [\"v1_{minor}\"]")),
        ("crates/kubernetes-object/src/release.rs", format!("const OLDER: (u16, &str) = ({minor}, \"{version}\");")),
        ("src/config/release.rs", format!("const DEFAULT: u16 = {minor};")),
    ] {
        assert!(read(file).contains(&expected), "{file} has no {expected}");
    }
}

#[test]
fn the_older_api_server_is_two_minors_older() {
    let (_, minor) = version();
    let (older, of_older) = other_version("OLDER_VERSION");
    assert_eq!(of_older, minor - 2);
    assert!(read("e2e/older/go.mod").contains(&format!("k8s.io/kubernetes v{older}")));
}

/// The version with this name in the Makefile, and its minor version.
fn other_version(name: &str) -> (String, u64) {
    let start = format!("{name} := ");
    let makefile = read("Makefile");
    let version = makefile.lines().find_map(|line| line.strip_prefix(&*start)).unwrap().to_owned();
    let minor = version.split('.').nth(1).unwrap().parse().unwrap();
    (version, minor)
}

#[test]
fn the_newest_emulated_release_is_that_of_the_newer_api_server() {
    let (newer, minor) = other_version("NEWER_VERSION");
    assert!(read("src/config/release.rs").contains(&format!("const NEWEST: u16 = {minor};")));
    assert!(read("e2e/newer/go.mod").contains(&format!("k8s.io/kubernetes v{newer}")));
    let recorded = format!("const NEWER: (u16, &str) = ({minor}, \"{newer}\");");
    assert!(read("crates/kubernetes-object/src/release.rs").contains(&recorded));
    let staging = newer.replacen("1.", "v0.", 1);
    for tool in ["cel-vectors", "protobuf-table"] {
        let modules = read(&format!("tools/{tool}/kubernetes-1.{minor}.mod"));
        assert!(modules.contains(&format!("k8s.io/apimachinery {staging}")), "{tool}");
    }
    let oldest = minor - 3;
    assert!(read("src/config/release.rs").contains(&format!("const OLDEST: u16 = {oldest};")));
}

#[test]
fn go_modules_are_of_the_version() {
    let (version, _) = version();
    let staging = version.replacen("1.", "v0.", 1);
    let mut count = 0;
    for (file, text) in files(&["go.mod"]) {
        if OF_OTHER_RELEASES.contains(&&*file) {
            continue;
        }
        for line in text.lines() {
            // A line of go.mod is a requirement, or has one on the right side of a replacement.
            let line = line.split("=>").last().unwrap();
            let mut words = line.split_whitespace().filter(|word| *word != "require");
            let (Some(module), Some(found)) = (words.next(), words.next()) else { continue };
            // Modules without releases have a time and a commit as their version; a replaced module has no version of its own.
            let is_other = OTHER_MODULES.iter().any(|other| module.starts_with(other)) || found.starts_with("v0.0.0");
            if !module.starts_with("k8s.io/") || is_other {
                continue;
            }
            let expected = if module == "k8s.io/kubernetes" { format!("v{version}") } else { staging.clone() };
            assert_eq!(found, expected, "{file}: {module}");
            count += 1;
        }
    }
    assert!(count > 20, "{count} requirements are not all that there are");
}

/// The last minor release with a plugin that Kubernetes removed since. Texts about removed plugins name older releases.
const LAST_WITH_REMOVED_PLUGINS: u32 = 30;

#[test]
fn texts_speak_of_the_version() {
    let (version, _) = version();
    let mut count = 0;
    for (file, text) in files(&[".md", ".rs", ".py", ".go", ".toml", ".yaml"]) {
        if OF_OTHER_RELEASES.contains(&&*file) {
            continue;
        }
        for (number, line) in (1..).zip(text.lines()) {
            for said in ["kube-apiserver ", "Kubernetes "].into_iter().flat_map(|name| line.split(name).skip(1)) {
                let end = said.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(said.len());
                let said = said[..end].trim_end_matches('.');
                let Some(minor) = said.strip_prefix("1.").and_then(|rest| rest.split('.').next()?.parse::<u32>().ok())
                else {
                    continue;
                };
                if minor <= LAST_WITH_REMOVED_PLUGINS {
                    continue;
                }
                let is_right = said == version || version.starts_with(&format!("{said}."));
                assert!(is_right, "{file}:{number} speaks of {said}");
                count += 1;
            }
        }
    }
    assert!(count > 20, "{count} places are not all that there are");
}
