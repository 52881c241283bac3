//! Runs the kubectl sessions of the documentation's pages against the embedded API server.

use crate::harness::{Proxy, User, binary, eventually};
use std::path::Path;
use std::process::Command;

fn read(page: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page)).unwrap()
}

/// The commands of the text's sessions, each with the output that the text shows.
fn session(text: &str) -> Vec<(String, String)> {
    let blocks = text.split("```console\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let of_clients = blocks.filter(|block| !block.starts_with("$ kube-admission-proxy"));
    let commands = of_clients.flat_map(|block| block.strip_prefix("$ ").unwrap().split("\n$ "));
    let parts = commands.map(|command| command.split_once('\n').unwrap_or((command, "")));
    parts.map(|(command, output)| (command.to_owned(), output.trim_end().to_owned())).collect()
}

/// The output with every age replaced by that of a new object.
fn without_ages(output: &str) -> String {
    let line = |line: &str| {
        let digits = line.strip_suffix('s').map(|rest| rest.trim_end_matches(|letter: char| letter.is_ascii_digit()));
        match digits.filter(|rest| rest.ends_with(' ')) {
            Some(rest) => format!("{rest}0s"),
            None => line.to_owned(),
        }
    };
    output.trim_end().lines().map(line).collect::<Vec<_>>().join("\n")
}

fn plays(proxy: &Proxy, pages: &[&str]) {
    plays_commands(proxy, pages.iter().flat_map(|page| session(&read(page))));
}

/// Runs the sessions below a heading of the page.
pub fn plays_section(proxy: &Proxy, page: &str, heading: &str) {
    let text = read(page);
    let section = text.split("\n## ").find(|section| section.lines().next() == Some(heading));
    let commands = session(section.unwrap_or_else(|| panic!("{page} has no heading {heading}")));
    assert!(!commands.is_empty(), "{heading} has no session");
    plays_commands(proxy, commands.into_iter());
}

fn plays_commands(proxy: &Proxy, commands: impl Iterator<Item = (String, String)>) {
    let kubeconfig = proxy.kubeconfig(&User::admin());
    let kubectl = binary("kubectl");
    let path = format!("{}:{}", kubectl.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let run = |command: &str| {
        let command = format!("{command} 2>&1").replace(":10280/", &format!(":{}/", proxy.health_port()));
        let mut shell = Command::new("sh");
        shell.args(["-c", &command]).current_dir(env!("CARGO_MANIFEST_DIR"));
        let output = shell.env("PATH", &path).env("KUBECONFIG", &kubeconfig).output().unwrap();
        without_ages(&String::from_utf8(output.stdout).unwrap())
    };
    for (command, expected) in commands.filter(|(command, _)| !command.starts_with("export ")) {
        if !command.contains("create deployment big") {
            assert_eq!(run(&command), expected, "{command}");
            continue;
        }
        // The policy of the page takes effect once it is in the proxy's cache.
        eventually(&format!("{command}: {expected}"), || {
            if run(&command) == expected {
                return Some(());
            }
            run("kubectl -n shop delete deployment big --ignore-not-found");
            None
        });
    }
}

#[test]
fn the_session_of_the_readme_is_what_kubectl_prints() {
    plays(&Proxy::embedded(&["--enable-admission-plugins=AlwaysPullImages"]), &["README.md"]);
}

#[test]
fn the_sessions_about_policies_are_what_kubectl_prints() {
    let proxy = Proxy::embedded(&["--enable-admission-plugins=AlwaysPullImages"]);
    plays(&proxy, &["docs/src/getting-started.md", "docs/src/policies.md"]);
}

#[test]
fn the_session_about_tests_is_what_kubectl_prints() {
    plays_section(&Proxy::embedded(&[]), "docs/src/testing.md", "The session");
}
