//! The costs of tenants, and the latency of a quiet tenant beside a hostile one. `make tenants` prints the figures, and checks their bounds; nothing
//! else may run on the machine meanwhile.

use super::{Folder, blue, config_map, green, namespace, of, ok, operator};
use crate::harness::{
    Proxy, User, Webhook, block_on, connect, eventually, folder, get, kube_client, kube_client_here, patch, post,
};
use bytes::Bytes;
use http::Request;
use serde_json::json;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The pause between two writes of the quiet tenant.
const PAUSE: Duration = Duration::from_millis(5);

/// How often the quiet tenant is measured alone and beside the hostile one. Many short turns: the machine's own speed changes within seconds.
const ROUNDS: u64 = 40;

/// The time that the requests of the hostile tenant get to end.
const CHANGE: Duration = Duration::from_millis(500);

/// The latencies of the quiet tenant's writes, which one connection sends one after another.
#[derive(Default)]
struct Latencies(Vec<Duration>);

impl Latencies {
    /// Sends writes until the condition holds. The client has a runtime of its own, so that it waits for no other client.
    fn until(proxy: &Proxy, is_over: impl Fn() -> bool) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = runtime.block_on(kube_client_here(&proxy.kubeconfig_at(&green(), "/tenants/green", None)));
        let mut latencies = Vec::new();
        while !is_over() {
            let change = json!({"data": {"n": latencies.len().to_string()}});
            let request = Request::patch("/api/v1/namespaces/green-q/configmaps/own")
                .header("content-type", "application/merge-patch+json")
                .body(change.to_string().into_bytes())
                .unwrap();
            let begun = Instant::now();
            runtime.block_on(client.request_text(request)).unwrap();
            latencies.push(begun.elapsed());
            sleep(PAUSE);
        }
        latencies.sort_unstable();
        Self(latencies)
    }

    fn during(proxy: &Proxy, time: Duration) -> Self {
        let end = Instant::now() + time;
        Self::until(proxy, || Instant::now() >= end)
    }

    fn add(&mut self, others: Self) {
        self.0.extend(others.0);
        self.0.sort_unstable();
    }

    fn at(&self, share: f64) -> Duration {
        self.0[((self.0.len() - 1) as f64 * share) as usize]
    }

    fn print(&self, what: &str) {
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| self.at(share));
        println!("{what}: {} writes, p50 {p50:.1?}, p99 {p99:.1?}, slowest {max:.1?}", self.0.len());
    }
}

/// The quiet tenant's namespace and object.
fn settle(proxy: &Proxy) {
    ok(proxy, &green(), post("/api/v1/namespaces", &namespace("green-q")));
    ok(proxy, &green(), post("/api/v1/namespaces/green-q/configmaps", &config_map("own")));
}

fn reloads(proxy: &Proxy) -> usize {
    proxy.output().lines().filter(|line| line.contains("reloaded") && line.contains("Folder")).count()
}

/// Writes 1000 tenants beside the folder, and moves them in at once.
fn write_all(tenants: &Folder, round: &str) {
    let beside = folder("tenants-beside");
    let name = |index: usize| format!("t{index}.yaml");
    for index in 0..1_000 {
        let spec = of(
            &format!("team-{index}"),
            &json!({"namespaces": {"names": [format!("t{index}-*")]},
            "admission": {"enablePlugins": ["AlwaysPullImages"], "shadow": {"policies": [round]}}}),
        );
        let file = json!({"apiVersion": "config.kube-admission-proxy.dev/v1alpha1", "kind": "Tenant",
            "metadata": {"name": format!("t{index}")}, "spec": spec});
        fs::write(beside.join(name(index)), file.to_string()).unwrap();
    }
    for index in 0..1_000 {
        fs::rename(beside.join(name(index)), tenants.path().join(name(index))).unwrap();
    }
}

#[test]
#[ignore = "a measurement; make tenants"]
fn a_thousand_tenants_are_small_and_quickly_read() {
    let tenants = Folder::blue_and_green();
    let proxy = Proxy::embedded(&[&tenants.flag()]);
    settle(&proxy);
    let _warm_up = Latencies::during(&proxy, Duration::from_secs(3));
    let alone = Latencies::during(&proxy, Duration::from_secs(5));
    alone.print("alone");
    let before = proxy.resident_bytes();
    let mut more = Vec::new();
    let one = User::named("zoe", "team-999");
    for round in ["a", "b", "c", "d"] {
        let (count, is_read) = (reloads(&proxy), AtomicBool::new(false));
        let (latencies, elapsed) = std::thread::scope(|scope| {
            let beside = scope.spawn(|| Latencies::until(&proxy, || is_read.load(Ordering::Relaxed)));
            sleep(PAUSE * 20);
            let begun = Instant::now();
            write_all(&tenants, round);
            let read = catch_unwind(AssertUnwindSafe(|| {
                eventually("a reload", || (reloads(&proxy) > count).then_some(()));
                begun.elapsed()
            }));
            // The time right after a reload counts as part of the reload.
            sleep(Duration::from_millis(500));
            is_read.store(true, Ordering::Relaxed);
            (beside.join().unwrap(), read.unwrap_or_else(|panic| resume_unwind(panic)))
        });
        eventually("the last tenant", || (proxy.send(&one, get("/tenants/t999/api")).status == 200).then_some(()));
        latencies.print(&format!("round {round}"));
        sleep(Duration::from_secs(2));
        more.push(proxy.resident_bytes().saturating_sub(before));
        println!("round {round}: {elapsed:.1?} until 1000 tenants are read, {} MiB more", more.last().unwrap() >> 20);
        assert!(elapsed < Duration::from_secs(2), "a reload took {elapsed:?}");
        let bound = alone.at(1.0) + Duration::from_millis(10);
        assert!(latencies.at(1.0) <= bound, "a write took {:?} during a reload", latencies.at(1.0));
    }
    assert!(more.iter().all(|more| *more <= 50_000_000), "{more:?} bytes");
}

/// One or several requests of the hostile tenant, which threads repeat with a pause while the tenant attacks.
struct Attack<'a> {
    name: &'static str,
    threads: usize,
    pause: Duration,
    run: Requests<'a>,
    count: AtomicUsize,
}

/// Sends the requests of an attack once: the first argument counts the calls.
type Requests<'a> = Box<dyn Fn(usize, &Turn) + Send + Sync + 'a>;

/// The present activity of the hostile tenant.
#[derive(Default)]
struct Turn {
    attacks: AtomicBool,
    is_over: AtomicBool,
}

impl Turn {
    fn is_attack(&self) -> bool {
        self.attacks.load(Ordering::Relaxed)
    }
}

impl Attack<'_> {
    fn run(&self, turn: &Turn) {
        make_idle(rustix::thread::gettid());
        while !turn.is_over.load(Ordering::Relaxed) {
            if turn.is_attack() {
                (self.run)(self.count.fetch_add(1, Ordering::Relaxed), turn);
            }
            sleep(self.pause);
        }
    }
}

/// Attacks that cost the proxy more than the client, so that the client leaves the processors to the proxy.
fn attacks(proxy: &Proxy) -> Vec<Attack<'_>> {
    let maps = "/api/v1/namespaces/blue-h/configmaps";
    let client = kube_client(&proxy.kubeconfig_at(&blue(), "/tenants/blue", None));
    let write = move |path: &str, body: &Bytes| {
        let request = Request::post(path).header("content-type", "application/json").body(body.to_vec()).unwrap();
        let _refused = block_on(client.request_text(request));
    };
    let text = |name: &str, bytes: usize| {
        let data = json!({"x": "x".repeat(bytes)});
        Bytes::from(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}).to_string(),
        )
    };
    let (small, whole, held) = (text("small", 1), text("large", 3 << 20), text("held", 1));
    let (burn, large, hang) = (write.clone(), write.clone(), write);
    let tokens = move |count: usize, _: &Turn| {
        // The proxy may refuse by closing the connection.
        let _refused = proxy.try_send(&User::Token(format!("made-up-{count}")), get("/tenants/blue/api"));
    };
    let watches = move |_, turn: &Turn| {
        let watch = |_| proxy.stream(&blue(), get(&format!("{maps}?watch=1")).over_http2());
        let _open: Vec<_> = (0..50).map(watch).collect();
        while turn.is_attack() {
            sleep(PAUSE);
        }
    };
    let connections = move |_, turn: &Turn| {
        let _open: Vec<_> = (0..100).map(|_| block_on(connect(proxy.port, &blue(), b"h2"))).collect();
        while turn.is_attack() {
            sleep(PAUSE);
        }
    };
    let attack = |name, threads, milliseconds, run| {
        let pause = Duration::from_millis(milliseconds);
        Attack { name, threads, pause, run, count: AtomicUsize::new(0) }
    };
    vec![
        attack("writes above the rate", 1, 10, Box::new(move |_, _| burn(maps, &small))),
        attack("bodies at the bound", 1, 500, Box::new(move |_, _| large(maps, &whole))),
        // Several at once, because each waits for the time limit of the webhook.
        attack(
            "writes whose webhook hangs",
            20,
            50,
            Box::new(move |_, _| hang("/api/v1/namespaces/blue-w/configmaps", &held)),
        ),
        attack("made-up tokens", 1, 200, Box::new(tokens)),
        attack("watches", 1, 100, Box::new(watches)),
        attack("idle connections", 1, 100, Box::new(connections)),
    ]
}

/// Starts a proxy with a quiet and a hostile tenant, whose writes in one namespace wait for the webhook.
fn attacked(tenants: &Folder, webhook: &Webhook) -> Proxy {
    let proxy = Proxy::embedded(&[&tenants.flag()]);
    settle(&proxy);
    for name in ["blue-h", "blue-w"] {
        ok(&proxy, &blue(), post("/api/v1/namespaces", &namespace(name)));
    }
    let configuration = webhook.configuration("Validating", "held", "blue-w", &["/held"]);
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    ok(&proxy, &operator(), post(path, &configuration));
    eventually("a webhook that is known", || {
        proxy.send(
            &blue(),
            patch("/api/v1/namespaces/blue-w/configmaps/first?fieldManager=e", "apply", &config_map("first")),
        );
        (!webhook.take().is_empty()).then_some(())
    });
    proxy
}

#[test]
#[ignore = "a measurement; make tenants"]
fn a_quiet_tenant_is_served_beside_a_hostile_one_as_if_alone() {
    let seconds: u64 = std::env::var("TENANTS_SECONDS").map_or(60, |seconds| seconds.parse().unwrap());
    let tenants = Folder::blue_and_green();
    let limits =
        json!({"writesPerSecond": 20, "writeBurst": 40, "webhookCallsInFlight": 8, "mutatingRequestsInFlight": 50});
    tenants.write("blue", &of("team-blue", &json!({"namespaces": {"names": ["blue-*"]}, "limits": limits})));
    let webhook = Webhook::start();
    // The difference between the two proxies is the part of the proxy; the rest is that of the machine, which the clients share.
    let [proxy, other] = [attacked(&tenants, &webhook), attacked(&tenants, &webhook)];
    let attacks = [attacks(&proxy), attacks(&other)];
    let turns = [Turn::default(), Turn::default()];
    yield_to_the_caller();
    let _warm_up = Latencies::during(&proxy, Duration::from_secs(5));
    let time = Duration::from_millis(seconds * 1000 / ROUNDS);
    let [mut alone, mut beside, mut elsewhere] = [const { Latencies(Vec::new()) }; 3];
    std::thread::scope(|scope| {
        for (attacks, turn) in attacks.iter().zip(&turns) {
            for attack in attacks {
                for _ in 0..attack.threads {
                    scope.spawn(|| attack.run(turn));
                }
            }
        }
        let measured = catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..ROUNDS {
                for (latencies, turn) in
                    [(&mut alone, None), (&mut beside, Some(&turns[0])), (&mut elsewhere, Some(&turns[1]))]
                {
                    turn.inspect(|turn| turn.attacks.store(true, Ordering::Relaxed));
                    latencies.add(Latencies::during(&proxy, time));
                    turn.inspect(|turn| turn.attacks.store(false, Ordering::Relaxed));
                    sleep(CHANGE);
                }
            }
        }));
        webhook.release();
        turns.iter().for_each(|turn| turn.is_over.store(true, Ordering::Relaxed));
        measured.unwrap_or_else(|panic| resume_unwind(panic));
    });
    for attack in &attacks[0] {
        println!("{:>7} times: {}", attack.count.load(Ordering::Relaxed), attack.name);
    }
    alone.print("alone");
    beside.print("beside");
    elsewhere.print("beside the same attacks on another proxy");
    let bound = alone.at(0.99).mul_f64(1.3);
    assert!(beside.at(0.99) <= bound, "p99 {:?} beside, more than {bound:?}", beside.at(0.99));
}

/// Makes every thread of this process but the caller run only while no other thread wants to: they are the hostile tenant's clients and its
/// webhook, which are not on the proxy's machine otherwise.
fn yield_to_the_caller() {
    let own = rustix::thread::gettid();
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let number: i32 = task.unwrap().file_name().to_str().unwrap().parse().unwrap();
        let thread = rustix::thread::Pid::from_raw(number).unwrap();
        if thread != own {
            make_idle(thread);
        }
    }
}

/// Moves a thread to the scheduling policy SCHED_IDLE.
fn make_idle(thread: rustix::thread::Pid) {
    let done = Command::new("chrt").args(["--idle", "--pid", "0", &thread.to_string()]).status().unwrap();
    assert!(done.success(), "chrt of util-linux is needed: {done}");
}
