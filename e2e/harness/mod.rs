//! Starts control planes, proxies and webhooks, and sends requests to them.
//!
//! All functions block, so that a test reads as a list of steps and expected results.

mod api;
mod client;
mod control_plane;
mod kubectl;
mod kubelet;
mod later;
mod pki;
mod process;
mod proxy;
mod relay;
mod reviewed;
mod user;
mod webhook;
pub mod differential;
pub mod seen;
mod pair;

pub use api::{Api, kube_client, kube_client_here};
pub use client::{Answer, Kept, Request, certificates, connect, delete, field, get, patch, post, protobuf_of, put};
pub use control_plane::{ControlPlane, Hidden, admitting, etcd, every_plugin, only, upstream};
pub use kubectl::Kubectl;
pub use kubelet::Kubelet;
pub use later::{Later, Received};
pub use pair::Pair;
pub use pki::pki;
pub use process::{Process, Program, binary, go_module, program};
pub use proxy::{Proxy, known_plugins, proxy_only};
pub use relay::Relay;
pub use reviewed::{Reviewed, Side};
pub use user::User;
pub use webhook::{Review, WEBHOOK_SECONDS, Webhook};

use std::fmt::Display;
use std::fs::File;
use std::future::Future;
use std::net::TcpListener;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// The longest time to wait for a start, or for the effect of a change: 90 s, times `E2E_PATIENCE`.
pub fn patience() -> Duration {
    patient(Duration::from_secs(90))
}

/// A time after which a test fails, or sees less, times `E2E_PATIENCE`.
pub fn patient(time: Duration) -> Duration {
    static FACTOR: OnceLock<f64> = OnceLock::new();
    let factor = FACTOR.get_or_init(|| std::env::var("E2E_PATIENCE").map_or(1.0, |factor| factor.parse().unwrap()));
    time.mul_f64(*factor)
}

/// A time in seconds, as flags of kubectl and other programs in Go have it.
pub fn seconds(time: Duration) -> String {
    format!("{}s", time.as_secs())
}

/// The runtime of the clients and servers in this process.
pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        Runtime::new().unwrap()
    })
}

/// Runs a future to its end.
pub fn block_on<F: Future>(future: F) -> F::Output {
    runtime().block_on(future)
}

/// A port without a listener, which no other test on this machine is given: it lies below the ports that Linux gives to clients and to
/// `bind` with port 0, and in a range that this process has locked. None is given twice.
pub fn free_port() -> u16 {
    static LOCKED: Mutex<(Vec<File>, Range<u16>)> = Mutex::new((Vec::new(), 0..0));
    let mut locked = LOCKED.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let (files, ports) = &mut *locked;
        match ports.next() {
            Some(port) if TcpListener::bind(("127.0.0.1", port)).is_ok() => return port,
            Some(_) => {}
            None => {
                let (file, range) = lock_ports();
                files.push(file);
                *ports = range;
            }
        }
    }
}

/// A range of ports, and the file whose lock lets no other process have it.
fn lock_ports() -> (File, Range<u16>) {
    const LENGTH: u16 = 1000;
    let folder = std::env::temp_dir().join("kube-admission-proxy-e2e-ports");
    std::fs::create_dir_all(&folder).unwrap();
    let lock = |start: u16| {
        let file = File::create(folder.join(start.to_string())).unwrap();
        file.try_lock().ok().map(|()| (file, start..start + LENGTH))
    };
    (10..32).map(|thousand| thousand * LENGTH).find_map(lock).expect("other tests have all ranges of ports")
}

/// A new folder below the folder of this run.
pub fn folder(name: &str) -> PathBuf {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    let root = ROOT.get_or_init(|| {
        let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("e2e-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        root
    });
    let folder = root.join(format!("{name}-{}", number()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A unique name.
pub fn unique(prefix: &str) -> String {
    format!("{prefix}-{}", number())
}

/// Every fifth of many generated cases, or of each `E2E_EVERY`: `make full` takes all.
pub fn sampled<T>(cases: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    cases.step_by(std::env::var("E2E_EVERY").map_or(5, |every| every.parse().unwrap()))
}

fn number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Calls `ask` until it returns a value; `what` describes the wait in the error message.
pub fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    eventually_as(what, || ask().ok_or(""))
}

/// As [`eventually`], with the last error in the error message.
pub fn eventually_as<T, E: Display>(what: &str, mut ask: impl FnMut() -> Result<T, E>) -> T {
    // Questions take CPU time from what they wait for.
    const LONGEST_PAUSE: Duration = Duration::from_millis(200);
    let end = Instant::now() + patience();
    let mut pause = Duration::from_millis(10);
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(error) => assert!(Instant::now() < end, "waited in vain: {what} {error}"),
        }
        std::thread::sleep(pause);
        pause = (pause * 3 / 2).min(LONGEST_PAUSE);
    }
}
