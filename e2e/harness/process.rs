//! A child process that never outlives the tests.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, OnceLock};

/// A running program with its output in a file. The program is stopped when this value is dropped, or when the tests' process ends in any
/// way.
pub struct Process {
    child: Child,
    log: PathBuf,
}

/// A server or a controller of another project.
pub struct Program {
    process: Process,
}

impl Program {
    /// Starts a program of `E2E_PROGRAMS`.
    pub fn start(name: &str, arguments: &[String]) -> Self {
        let log = super::folder(name).join(format!("{name}.log"));
        Self { process: Process::start(Command::new(program(name)).args(arguments), log) }
    }

    /// The output so far.
    pub fn output(&self) -> String {
        self.process.output()
    }
}

/// A binary of `KUBEBUILDER_ASSETS`.
pub fn binary(name: &str) -> PathBuf {
    let folder = std::env::var_os("KUBEBUILDER_ASSETS").expect("KUBEBUILDER_ASSETS is not set: run `make e2e`");
    let path = PathBuf::from(folder).join(name);
    assert!(path.is_file(), "there is no {}: run `make e2e-assets`", path.display());
    path
}

/// A program of another project that the Makefile builds in `E2E_PROGRAMS`.
pub fn program(name: &str) -> PathBuf {
    let folder =
        std::env::var_os("E2E_PROGRAMS").expect("E2E_PROGRAMS is not set: run `make e2e` or `make e2e-programs`");
    let path = PathBuf::from(folder).join(name);
    assert!(path.is_file(), "there is no {}: run `make e2e` or `make e2e-programs`", path.display());
    path
}

/// The folder of a Go module, which is downloaded if it is missing.
pub fn go_module(with_version: &str) -> PathBuf {
    let mut command = Command::new(std::env::var_os("GO").unwrap_or_else(|| "go".into()));
    let output =
        command.args(["mod", "download", "-json", with_version]).current_dir(super::folder("go")).output().unwrap();
    let module: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(output.status.success(), "{module}");
    module["Dir"].as_str().unwrap().into()
}

impl Process {
    /// Starts the program.
    pub fn start(command: &mut Command, log: PathBuf) -> Self {
        let output = File::create(&log).unwrap();
        let errors = output.try_clone().unwrap();
        let child = command.stdin(Stdio::null()).stdout(output).stderr(errors).spawn();
        let child = child.unwrap_or_else(|error| panic!("{:?}: {error}", command.get_program()));
        reaper_told('+', child.id());
        Self { child, log }
    }

    /// The output so far.
    pub fn output(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The path of the output.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Fails the test if the program has ended.
    pub fn must_run(&mut self) {
        if let Some(status) = self.child.try_wait().unwrap() {
            panic!("{} ended with {status}:\n{}", self.log.display(), self.output());
        }
    }

    /// The resident size of the process, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// Sends a signal, and returns at once.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status();
        assert!(status.unwrap().success());
    }

    /// Waits for the end of the program, and returns its exit status.
    pub fn wait(&mut self) -> ExitStatus {
        super::eventually(&format!("the end of {}", self.log.display()), || self.child.try_wait().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        reaper_told('-', self.child.id());
    }
}

/// Reports a process to the reaper when it starts (`+`) or has ended (`-`).
///
/// The reaper is a shell that reads from a pipe. The pipe closes when the tests' process ends, even by a signal or without running the
/// destructors of statics; the reaper then stops the remaining processes.
fn reaper_told(what: char, pid: u32) {
    static REAPER: OnceLock<Mutex<Child>> = OnceLock::new();
    const SCRIPT: &str = r#"
        pids=" "
        trap "" INT TERM
        while read -r what pid; do
            case $what in
                +) pids="$pids$pid " ;;
                -) case $pids in *" $pid "*) pids="${pids%% "$pid" *} ${pids#* "$pid" }" ;; esac ;;
            esac
        done
        for pid in $pids; do kill -KILL "$pid" 2>/dev/null; done
    "#;
    let reaper = REAPER
        .get_or_init(|| Mutex::new(Command::new("sh").arg("-c").arg(SCRIPT).stdin(Stdio::piped()).spawn().unwrap()));
    let mut shell = reaper.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let _ = writeln!(shell.stdin.as_mut().unwrap(), "{what} {pid}");
}
