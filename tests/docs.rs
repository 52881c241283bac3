//! Checks the documentation: links have targets, the named files and tests exist, and the program prints the output that the pages show.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

/// Pages outside of `docs/src`.
const ELSEWHERE: [&str; 5] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", ".github/SECURITY.md"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All pages, by their paths from the root.
fn pages() -> BTreeMap<PathBuf, String> {
    let book = fs::read_dir(root().join("docs/src")).unwrap().map(|entry| entry.unwrap().path());
    let book = book.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let all = book.chain(ELSEWHERE.iter().map(|name| root().join(name)));
    all.map(|path| (path.strip_prefix(root()).unwrap().to_owned(), fs::read_to_string(&path).unwrap())).collect()
}

/// The text outside of code blocks.
fn prose(page: &str) -> String {
    let mut is_code = false;
    let outside = page.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    });
    outside.collect::<Vec<_>>().join("\n")
}

/// The text without code in backticks.
fn without_code(text: &str) -> String {
    text.split('`').step_by(2).collect()
}

/// The targets of `[text](target)`.
fn links(page: &str) -> Vec<String> {
    let text = without_code(&prose(page));
    text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap().to_owned()).collect()
}

/// The anchors of the headings, as mdBook and GitHub make them.
fn anchors(page: &str) -> BTreeSet<String> {
    let prose = prose(page);
    let headings = prose.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let anchor = |heading: &str| {
        let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
        kept.collect::<String>().to_lowercase().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

/// The path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => assert!(parts.pop(), "{}", path.display()),
            Component::CurDir => {}
            part => parts.push(part),
        }
    }
    parts
}

#[test]
fn every_link_leads_to_a_page_and_a_heading_of_it() {
    let pages = pages();
    let mut broken = Vec::new();
    for (path, text) in &pages {
        for link in links(text).into_iter().filter(|link| !link.starts_with("https://")) {
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = match file {
                "" => path.clone(),
                file => normal(&path.parent().unwrap().join(file)),
            };
            let has_anchor = |page: &String| anchor.is_empty() || anchors(page).contains(anchor);
            let leads_out = path.starts_with("docs") && !target.starts_with("docs/src");
            if leads_out || !root().join(&target).exists() || !pages.get(&target).is_none_or(has_anchor) {
                broken.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new());
}

#[test]
fn every_page_is_in_the_summary() {
    let pages = pages();
    let listed: BTreeSet<PathBuf> =
        links(&pages[Path::new("docs/src/SUMMARY.md")]).iter().map(|link| Path::new("docs/src").join(link)).collect();
    let is_page = |path: &&PathBuf| path.starts_with("docs/src") && !path.ends_with("SUMMARY.md");
    assert_eq!(pages.keys().filter(is_page).cloned().collect::<BTreeSet<_>>(), listed);
}

#[test]
fn the_readme_is_short() {
    assert!(pages()[Path::new("README.md")].lines().count() <= 150);
}

#[test]
fn files_and_tests_that_pages_name_exist() {
    let mut missing = Vec::new();
    for (page, text) in pages().iter().filter(|(page, _)| !page.ends_with("CHANGELOG.md")) {
        let prose = prose(text);
        let mut source: Option<String> = None;
        for code in prose.split('`').skip(1).step_by(2) {
            let is_path = ["src/", "crates/", "e2e/", "tests/", "config/", "tools/", "docs/"]
                .iter()
                .any(|start| code.starts_with(start));
            if is_path && !code.contains(char::is_whitespace) && !code.contains('{') {
                let path = root().join(code.trim_end_matches('/'));
                if !path.exists() {
                    missing.push(format!("{}: {code}", page.display()));
                }
                source = fs::read_to_string(path).ok();
            } else if let Some(source) = source.take().filter(|_| page.ends_with("differences.md"))
                && !source.contains(&format!("fn {code}("))
            {
                missing.push(format!("{}: {code}", page.display()));
            }
        }
    }
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn every_difference_names_its_test() {
    let page = &pages()[Path::new("docs/src/differences.md")];
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| difference |"));
    let untested: Vec<_> = rows
        .filter(|row| !row.starts_with("| ---"))
        .filter(|row| !row.trim_end_matches([' ', '|']).rsplit(" | ").next().is_some_and(|test| test.starts_with('`')))
        .collect();
    assert_eq!(untested, Vec::<&str>::new());
}

#[test]
fn files_that_pages_show_are_shown_as_they_are() {
    let mut shown = 0;
    for (page, text) in pages() {
        for part in text.split("<!-- file: ").skip(1) {
            let (file, rest) = part.split_once(" -->\n```yaml\n").unwrap();
            let content = fs::read_to_string(root().join(file)).unwrap();
            assert!(rest.starts_with(&format!("{content}```\n")), "{}: {file} is:\n\n{content}", page.display());
            shown += 1;
        }
    }
    assert!(shown > 0);
}

/// Runs the program as a page shows it, on free ports, and returns its output without lines of the log.
fn output(arguments: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kube-admission-proxy"));
    command.current_dir(root()).args(arguments.split_whitespace());
    if arguments.starts_with("serve") {
        command.args(["--secure-port=0", "--health-bind-address=127.0.0.1:0"]);
    }
    let output = command.output().unwrap();
    let texts = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    let lines = texts.iter().flat_map(|text| text.lines());
    // Lines of the log have a level and a date.
    let is_of_log = |line: &str| {
        let date = line.strip_prefix(['I', 'W', 'E']).and_then(|rest| rest.split_once(' '));
        date.is_some_and(|(date, _)| date.len() == 4 && date.bytes().all(|byte| byte.is_ascii_digit()))
    };
    lines.filter(|line| !is_of_log(line)).map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_program_prints_what_pages_show() {
    let mut shown = 0;
    for (page, text) in pages() {
        for block in text.split("```console\n").skip(1).map(|rest| rest.split("```").next().unwrap()) {
            let Some(session) = block.strip_prefix("$ kube-admission-proxy ") else { continue };
            let (arguments, expected) = session.split_once('\n').unwrap();
            let printed = output(arguments);
            assert_eq!(printed, expected, "{}: {arguments} prints:\n\n{printed}", page.display());
            shown += 1;
        }
    }
    assert!(shown > 0);
}

/// Starts the program with a copy of `config/` in which `folder` replaces the folders of an installation, and waits until it serves.
fn serves_with(folder: &Path, flags: &[&str]) {
    let kubeconfig = folder.join("kubeconfig");
    let mut child = Command::new(env!("CARGO_BIN_EXE_kube-admission-proxy"))
        .args(["serve", "--bind-address=127.0.0.1", "--secure-port=0", "--health-bind-address=127.0.0.1:0"])
        .arg(format!("--write-kubeconfig={}", kubeconfig.display()))
        .args(flags)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(line, format!("export KUBECONFIG={}\n", kubeconfig.display()), "{flags:?}");
}

#[test]
fn the_example_configurations_of_plugins_are_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().to_str().unwrap();
    for entry in fs::read_dir(root().join("config")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let text = text.replace("/etc/kube-admission-proxy", here).replace("/var/run/secrets/image-policy", here);
        fs::write(folder.path().join(path.file_name().unwrap()), text).unwrap();
    }
    fs::write(folder.path().join("token"), "secret").unwrap();
    for manifests in ["mutating", "validating", "mutating-policies", "validating-policies"] {
        fs::create_dir(folder.path().join(manifests)).unwrap();
    }
    let file = |name: &str| format!("--admission-control-config-file={here}/{name}");
    let plugins =
        "--enable-admission-plugins=PodNodeSelector,PodTolerationRestriction,EventRateLimit,ImagePolicyWebhook";
    serves_with(folder.path(), &[&file("plugins.yaml"), plugins]);
    serves_with(folder.path(), &[&file("in-cluster-clients.yaml"), "--enable-admission-plugins=InClusterClients"]);
    let gate = "--feature-gates=ManifestBasedAdmissionControlConfig=true";
    serves_with(folder.path(), &[&file("admission-manifests.yaml"), gate]);
    serves_with(folder.path(), &[&format!("--tenants-dir={}", root().join("config/tenants").display())]);
    let removed = root().join("config/removed/admission.yaml");
    let removed = format!("--admission-control-config-file={}", removed.display());
    let plugins = "--enable-admission-plugins=PodSecurityPolicy,PersistentVolumeLabel,InitialResources";
    serves_with(folder.path(), &[&removed, plugins]);
}
