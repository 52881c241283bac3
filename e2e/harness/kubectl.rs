//! The real kubectl.

use super::process::{Process, binary};
use super::{eventually, folder};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// kubectl as one user of one server.
pub struct Kubectl {
    kubeconfig: PathBuf,
    home: PathBuf,
}

/// The result of a kubectl command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    pub success: bool,
    pub stdout: String,
    pub stderr: String,
}

impl Kubectl {
    pub fn new(kubeconfig: PathBuf) -> Self {
        Self { kubeconfig, home: folder("kubectl") }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary("kubectl"));
        // kubectl runs editors and `diff`.
        let path = std::env::var_os("PATH").unwrap_or_default();
        command.args(arguments).env_clear().env("PATH", path);
        command.env("HOME", &self.home).env("KUBECONFIG", &self.kubeconfig);
        command
    }

    /// Runs kubectl with `input` as its standard input, and waits for its end.
    pub fn run_with_input(&self, arguments: &[&str], input: &str) -> Done {
        let file = self.home.join("input");
        std::fs::write(&file, input).unwrap();
        let input = Stdio::from(std::fs::File::open(file).unwrap());
        let output = self.command(arguments).stdin(input).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Done { success: output.status.success(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Runs kubectl, and waits for its end.
    pub fn run(&self, arguments: &[&str]) -> Done {
        self.run_with_input(arguments, "")
    }

    /// Runs kubectl, checks that it succeeds, and returns its output.
    pub fn ok(&self, arguments: &[&str]) -> String {
        self.ok_with_input(arguments, "")
    }

    /// Runs kubectl with this input, checks that it succeeds, and returns its output.
    pub fn ok_with_input(&self, arguments: &[&str], input: &str) -> String {
        let done = self.run_with_input(arguments, input);
        assert!(done.success, "kubectl {arguments:?}: {}{}", done.stdout, done.stderr);
        done.stdout
    }

    /// Runs a command that opens an editor, in which this sed command runs; returns the output.
    pub fn edit(&self, arguments: &[&str], sed: &str) -> String {
        let mut command = self.command(arguments);
        let output = command.env("KUBE_EDITOR", format!("sed -i {sed}")).output().unwrap();
        assert!(output.status.success(), "kubectl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Starts a command that does not end by itself.
    pub fn start(&self, arguments: &[&str]) -> Running {
        let log = folder("kubectl-running").join("output");
        Running(Process::start(&mut self.command(arguments), log))
    }
}

/// A running kubectl.
pub struct Running(Process);

impl Running {
    /// Waits until the output contains this text.
    pub fn prints(&mut self, text: &str) {
        eventually(&format!("{text:?} in {}", self.0.log().display()), || self.0.output().contains(text).then_some(()));
    }
}
