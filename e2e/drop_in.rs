//! The program in the place of kube-apiserver and etcd: by name, with their flags, under controller-runtime's envtest.

use crate::harness::{ControlPlane, Proxy, User, binary, folder, only, patience, program, seconds};
use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_kube-admission-proxy");

/// The program under another name.
fn named(name: &str) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg0(name);
    command
}

fn text(output: &[u8]) -> String {
    String::from_utf8(output.to_vec()).unwrap()
}

/// Runs the test of a controller with these variables.
pub(crate) fn envtest(variables: &[(&str, &Path)]) -> Output {
    let mut command = Command::new(program("envtest"));
    let patience = seconds(patience());
    for event in ["START", "STOP"] {
        command.env(format!("KUBEBUILDER_CONTROLPLANE_{event}_TIMEOUT"), &patience);
    }
    command.env("PATIENCE", patience).envs(variables.iter().copied()).output().unwrap()
}

#[test]
fn envtest_runs_unchanged_on_the_links() {
    let assets = folder("envtest");
    let made = Command::new(PROGRAM).arg("envtest").arg(&assets).output().unwrap();
    assert!(made.status.success(), "{}", text(&made.stderr));
    assert_eq!(text(&made.stdout), format!("export KUBEBUILDER_ASSETS={}\n", assets.display()));
    let output = envtest(&[("KUBEBUILDER_ASSETS", assets.as_path())]);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn the_same_test_passes_on_kube_apiserver_itself() {
    let assets = binary("kube-apiserver");
    let output = envtest(&[("KUBEBUILDER_ASSETS", assets.parent().unwrap())]);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn the_same_test_passes_on_kube_apiserver_behind_the_proxy() {
    // envtest disables the plugin ServiceAccount too.
    let plugins = ["--enable-admission-plugins=AlwaysPullImages", "--disable-admission-plugins=ServiceAccount"];
    let upstream = ControlPlane::start("envtest", &[only(&[]), vec!["--allow-privileged=true".to_owned()]].concat());
    let proxy = Proxy::before(&upstream, &plugins);
    let kubeconfig = proxy.kubeconfig(&User::admin());
    let output = envtest(&[("USE_EXISTING_CLUSTER", Path::new("true")), ("KUBECONFIG", kubeconfig.as_path())]);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

/// The names of the flags in a help.
fn flags(help: &[u8]) -> BTreeSet<String> {
    let names = text(help);
    let names = names.lines().filter_map(|line| {
        line.trim_start()
            .trim_start_matches("-v, ")
            .trim_start_matches("-h, ")
            .trim_start_matches('[')
            .strip_prefix("--")
    });
    names
        .map(|rest| {
            rest.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '-')).next().unwrap().to_owned()
        })
        .collect()
}

#[test]
fn every_flag_in_the_help_of_kube_apiserver_is_known() {
    let real = Command::new(binary("kube-apiserver")).arg("--help").output().unwrap();
    let own = named("kube-apiserver").arg("--help").output().unwrap();
    assert!(own.status.success());
    let unknown: Vec<_> = flags(&real.stdout).difference(&flags(&own.stdout)).cloned().collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    assert!(flags(&real.stdout).len() > 150);
}

#[test]
fn a_wrong_command_line_is_refused_as_by_kube_apiserver() {
    for arguments in [&["--foo"][..], &["-x"], &["--secure-port"], &["argument"], &["--version"]] {
        let [real, own] = [Command::new(binary("kube-apiserver")), named("kube-apiserver")].map(|mut command| {
            let output = command.args(arguments).output().unwrap();
            (output.status.code(), text(&output.stdout), text(&output.stderr))
        });
        assert_eq!(own, real, "{arguments:?}");
    }
}

#[test]
fn the_tarball_holds_both_binaries() {
    let folder = folder("sideload");
    let archive = folder.join("assets.tar.gz");
    let made = Command::new(PROGRAM).arg("envtest").arg(format!("--tar={}", archive.display())).output().unwrap();
    assert!(made.status.success(), "{}", text(&made.stderr));
    let unpacked = Command::new("tar").args(["-xzf", "assets.tar.gz"]).current_dir(&folder).status().unwrap();
    assert!(unpacked.success());
    let version =
        Command::new(folder.join("controller-tools/envtest/kube-apiserver")).arg("--version").output().unwrap();
    assert_eq!(text(&version.stdout), "Kubernetes v1.36.3\n");
}
