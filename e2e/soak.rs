//! A quiet tenant beside a hostile one for half an hour: latency, memory and freshness of caches. `make soak` runs it.

use crate::harness::{Request, User, connect, delete, get, patch, post};
use crate::hostile::{Gateway, HOSTILE, LATE, QUIET, hostile, map, moving_patch, quiet, refused, unread_answers};
use serde_json::json;
use std::io::Write;
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The time between two requests of the quiet tenant.
const BEAT: Duration = Duration::from_millis(50);
/// The number of requests of the quiet tenant from one change of the policy's parameter to the next.
const BEATS_OF_A_PARAMETER: usize = 200;
/// The time after which a change of the parameter must have an effect.
const STALE: Duration = Duration::from_secs(5);
/// A resident size that grows by less is flat.
const MEMORY_NOISE: u64 = 8 << 20;

#[derive(Default)]
struct Figures {
    latencies: Vec<Duration>,
    /// The time from each change of the parameter to the first request that it rejects.
    delays: Vec<Duration>,
    /// The resident sizes of the proxy in bytes.
    sizes: Vec<u64>,
}

impl Figures {
    /// Sends the quiet tenant's requests for this long.
    fn of(gateway: &Gateway, time: Duration) -> Self {
        let (user, proxy, end) = (quiet(), &gateway.proxy, Instant::now() + time);
        let create = |name: &str| post(&format!("{QUIET}/configmaps?dryRun=All"), &map(name));
        let requests = [
            (create("good"), 201),
            (get(&format!("{QUIET}/configmaps/own")), 200),
            (get(&format!("{QUIET}/configmaps")), 200),
        ];
        let mut figures = Self::default();
        let timed = |request: &Request, code: u16| {
            let start = Instant::now();
            let answer = proxy.send(&user, request.clone());
            let latency = start.elapsed();
            assert_eq!(answer.status, code, "{} {}: {}", request.method, request.path, answer.text());
            latency
        };
        for (beat, (request, code)) in requests.iter().cycle().enumerate() {
            if Instant::now() >= end {
                return figures;
            }
            figures.latencies.push(timed(request, *code));
            if beat % BEATS_OF_A_PARAMETER == 0 {
                let name = format!("evil-{}-{beat}", time.as_secs());
                let parameter =
                    patch(&format!("{QUIET}/configmaps/forbidden"), "merge", &json!({"data": {"name": name}}));
                timed(&parameter, 200);
                let changed = Instant::now();
                while proxy.send(&user, create(&name)).status != 422 {
                    assert!(changed.elapsed() < STALE, "the parameter {name} has no effect");
                    sleep(BEAT / 5);
                }
                figures.delays.push(changed.elapsed());
                figures.sizes.push(proxy.resident_bytes());
            }
            sleep(BEAT);
        }
        figures
    }

    fn latency(&self, share: f64) -> Duration {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        sorted[((sorted.len() - 1) as f64 * share) as usize]
    }

    fn slowest_change(&self) -> Duration {
        self.delays.iter().max().copied().unwrap_or_default()
    }

    /// The mean resident size in the second and in the last quarter of the time; in the first one the process warms up.
    fn growth(&self) -> [u64; 2] {
        let quarter = self.sizes.len() / 4;
        let mean = |sizes: &[u64]| sizes.iter().sum::<u64>() / sizes.len() as u64;
        [mean(&self.sizes[quarter..2 * quarter]), mean(&self.sizes[3 * quarter..])]
    }
}

/// One or several requests of the hostile tenant, which a thread repeats with a pause.
struct Attack<'a> {
    name: &'static str,
    pause: Duration,
    run: Box<dyn Fn(usize) + Send + Sync + 'a>,
}

fn attacks(gateway: &Gateway) -> Vec<Attack<'_>> {
    let proxy = &gateway.proxy;
    // The proxy may refuse by closing the connection.
    let sends = move |user: &User, request: Request| drop(proxy.try_send(user, request));
    let (refused, maps) = (refused(), format!("{HOSTILE}/configmaps"));
    let attack = |name, milliseconds, run| Attack { name, pause: Duration::from_millis(milliseconds), run };
    let stores = move |turn: usize| {
        let one = format!("{maps}/soak-{}", turn % 50);
        let late = json!([{"op": "add", "path": "/metadata/managedFields/0/time", "value": LATE},
            {"op": "add", "path": "/metadata/labels", "value": {"turn": turn.to_string()}}]);
        sends(&hostile(), post(&maps, &map(&format!("soak-{}", turn % 50))));
        sends(&hostile(), patch(&format!("{one}?fieldManager=other"), "json", &late));
        sends(&hostile(), delete(&one));
    };
    let half_requests = move |_| {
        let open = || -> std::io::Result<TcpStream> {
            let mut socket = TcpStream::connect(("127.0.0.1", proxy.health_port()))?;
            socket.write_all(b"GET /livez HTTP/1.1\r\n")?;
            Ok(socket)
        };
        let _sockets: Vec<_> = (0..100).map(|_| open()).collect();
        sleep(Duration::from_secs(20));
    };
    let idle = move |_| {
        let _connections: Vec<_> =
            (0..200).map(|_| crate::harness::block_on(connect(proxy.port, &User::Anonymous, b"h2"))).collect();
        sleep(Duration::from_secs(20));
    };
    let unread = move |_| {
        let _answers = unread_answers(gateway, 2, 100);
        sleep(Duration::from_secs(20));
    };
    let watches = move |_| drop(proxy.stream(&hostile(), get(&format!("{HOSTILE}/configmaps?watch=1")).over_http2()));
    let token = move |turn| sends(&User::Token(format!("made-up-{turn}")), get("/version"));
    let refusals = move |turn: usize| sends(&hostile(), refused[turn % refused.len()].1.clone());
    vec![
        attack("requests to be refused", 200, Box::new(refusals)),
        attack(
            "patches that move long lists",
            2_000,
            Box::new(move |_| sends(&hostile(), moving_patch(100_000, 9_990))),
        ),
        attack("made-up tokens", 100, Box::new(token)),
        attack("objects that are stored", 200, Box::new(stores)),
        attack("cancelled watches", 200, Box::new(watches)),
        attack("half requests to the probes' port", 1_000, Box::new(half_requests)),
        attack("idle connections", 1_000, Box::new(idle)),
        attack("answers that nobody reads", 1_000, Box::new(unread)),
    ]
}

#[test]
#[ignore = "runs for SOAK_MINUTES, 30 if it is not set; make soak"]
fn a_quiet_tenant_is_served_beside_a_hostile_one() {
    let minutes: u64 = std::env::var("SOAK_MINUTES").map_or(30, |minutes| minutes.parse().unwrap());
    let gateway = Gateway::start();
    let _warm_up = Figures::of(&gateway, Duration::from_secs(10));
    let alone = Figures::of(&gateway, Duration::from_secs(60 * minutes / 10));
    let attacks = attacks(&gateway);
    let counts: Vec<AtomicUsize> = attacks.iter().map(|_| AtomicUsize::new(0)).collect();
    let is_over = AtomicBool::new(false);
    let beside = std::thread::scope(|scope| {
        for (attack, count) in attacks.iter().zip(&counts) {
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    (attack.run)(count.fetch_add(1, Ordering::Relaxed));
                    sleep(attack.pause);
                }
            });
        }
        // The threads must also end if the quiet tenant is not served.
        let beside = catch_unwind(AssertUnwindSafe(|| Figures::of(&gateway, Duration::from_secs(60 * minutes))));
        is_over.store(true, Ordering::Relaxed);
        beside.unwrap_or_else(|panic| resume_unwind(panic))
    });
    for (attack, count) in attacks.iter().zip(&counts) {
        println!("{:>7} times: {}", count.load(Ordering::Relaxed), attack.name);
    }
    for (name, figures) in [("alone", &alone), ("beside", &beside)] {
        let [p50, p99] = [0.5, 0.99].map(|share| figures.latency(share));
        let (count, slowest) = (figures.latencies.len(), figures.slowest_change());
        println!("{name}: {count} requests, p50 {p50:?}, p99 {p99:?}; a change counts after {slowest:?} at most");
    }
    let [before, after] = beside.growth();
    println!("resident: {} MiB, in the end {} MiB", before >> 20, after >> 20);
    assert!(beside.latency(0.99) <= 2 * alone.latency(0.99));
    assert!(after <= before + (before / 10).max(MEMORY_NOISE));
}
