//! What each mode of an audit backend promises while the backend fails, hangs and comes back.

use crate::harness::{Api, ControlPlane, Proxy, User, eventually, folder, get, only, post, unique, upstream};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Writes a policy with these rules.
fn policy(folder: &Path, rules: &str) -> String {
    let path = folder.join("policy.yaml");
    std::fs::write(&path, format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{rules}]\n")).unwrap();
    format!("--audit-policy-file={}", path.display())
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

/// Whether a log has the last event of a request.
fn has_event(log: &str, id: &str) -> bool {
    log.lines().filter(|line| line.ends_with('}')).any(|line| {
        let event: Value = serde_json::from_str(line).unwrap();
        event["auditID"] == id && event["stage"] == "ResponseComplete"
    })
}

/// The sum of a metric of the proxy.
fn counted(proxy: &Proxy, name: &str) -> f64 {
    let (_, metrics) = proxy.health("/metrics").unwrap();
    let values = metrics.lines().filter(|line| line.starts_with(name)).filter_map(|line| line.rsplit_once(' '));
    values.map(|(_, value)| value.parse::<f64>().unwrap()).sum()
}

#[test]
fn the_event_of_an_answer_is_in_the_log_before_the_client_has_the_answer() {
    let folder = folder("blocking");
    let log = folder.join("audit.log");
    let rules = "{level: RequestResponse, verbs: [create, get]}, {level: Metadata}";
    let flags = [format!("--audit-log-path={}", log.display()), policy(&folder, rules)];
    let proxy = Proxy::before(upstream(), &[&flags[0], &flags[1], "--audit-log-maxsize=1"]);
    let maps = format!("/api/v1/namespaces/{}/configmaps", proxy.namespace("blocking"));
    let text = || {
        let mut files: Vec<PathBuf> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|end| end == "log"));
        files.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect::<String>()
    };
    let big = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "big"}, "data": {"k": "v".repeat(300_000)}});
    let (big_path, first) = (format!("{maps}/big"), format!("{maps}/missing"));
    for (number, request) in [
        post(&maps, &big),
        get(&big_path),
        get(&maps),
        get(&first),
        get("/version"),
        get(&format!("{maps}?watch=1&timeoutSeconds=1")),
    ]
    .into_iter()
    .enumerate()
    {
        for client in ["http1", "http2"] {
            let id = format!("{client}-{number}");
            let request = request.clone().header("audit-id", &id);
            let request = if client == "http2" { request.over_http2() } else { request };
            proxy.send(&User::developer(), request);
            assert!(has_event(&text(), &id), "{id}");
        }
    }
    // The policy is a file too.
    assert!(std::fs::read_dir(&folder).unwrap().count() > 2, "the log was rotated: {folder:?}");
}

#[test]
fn a_log_that_hangs_holds_up_the_requests_that_are_audited_and_no_others() {
    let folder = folder("hanging");
    let pipe = folder.join("audit.log");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let rules = "{level: Metadata, verbs: [create], omitStages: [RequestReceived]}, {level: None}";
    let flags = [format!("--audit-log-path={}", pipe.display()), policy(&folder, rules)];
    let proxy = Proxy::embedded(&[&flags[0], &flags[1], "--max-mutating-requests-inflight=1"]);
    // Nobody reads the pipe.
    let (answers, answered) = mpsc::channel();
    std::thread::scope(|scope| {
        let proxy = &proxy;
        for name in ["one", "two"] {
            let answers = answers.clone();
            let create = move || proxy.send(&User::developer(), post(MAPS, &map(name)).header("audit-id", name)).status;
            scope.spawn(move || answers.send(create()).unwrap());
            // The object is stored, and the request has no seat any more.
            let path = format!("{MAPS}/{name}");
            eventually(name, || (proxy.send(&User::developer(), get(&path)).status == 200).then_some(()));
            let path = format!("{path}?dryRun=All");
            let free = || proxy.send(&User::developer(), crate::harness::delete(&path)).status == 200;
            eventually("a free seat", || free().then_some(()));
        }
        assert!(answered.recv_timeout(Duration::from_millis(100)).is_err(), "an answer came before its event");
        assert_eq!(proxy.health("/readyz").unwrap().0, 200);
        // The reader comes back.
        let mut lines = BufReader::new(std::fs::File::open(&pipe).unwrap()).lines();
        let text: Vec<String> = (0..2).map(|_| lines.next().unwrap().unwrap()).collect();
        assert!(["one", "two"].iter().all(|id| has_event(&text.join("\n"), id)));
        assert_eq!([answered.recv().unwrap(), answered.recv().unwrap()], [201, 201]);
    });
    assert_eq!(counted(&proxy, "apiserver_audit_error_total"), 0.0);
}

#[test]
fn in_batch_mode_no_request_waits_for_the_log() {
    let folder = folder("batch");
    let pipe = folder.join("audit.log");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let rules = "{level: Metadata, verbs: [create], omitStages: [RequestReceived]}, {level: None}";
    let flags = [format!("--audit-log-path={}", pipe.display()), policy(&folder, rules)];
    let proxy = Proxy::embedded(&[&flags[0], &flags[1], "--audit-log-mode=batch", "--audit-log-batch-buffer-size=2"]);
    let names: Vec<String> = (0..6).map(|number| format!("map-{number}")).collect();
    for name in &names {
        assert_eq!(proxy.send(&User::developer(), post(MAPS, &map(name)).header("audit-id", name)).status, 201);
    }
    // One event or more are being written, and two are in the buffer.
    let lost = counted(&proxy, "apiserver_audit_error_total{plugin=\"buffered\"}");
    assert!((1.0..=3.0).contains(&lost), "{lost}");
    let mut lines = BufReader::new(std::fs::File::open(&pipe).unwrap()).lines();
    let text: Vec<String> = (0..6 - lost as usize).map(|_| lines.next().unwrap().unwrap()).collect();
    assert!(names.iter().take(2).all(|id| has_event(&text.join("\n"), id)));
}

#[test]
fn a_log_that_fails_fails_requests_only_if_it_is_strict_as_with_kube_apiserver() {
    let folder = folder("failing");
    let rules = "{level: Metadata, resources: [{group: '', resources: [configmaps]}]}, {level: None}";
    let policy = policy(&folder, rules);
    for mode in ["blocking", "blocking-strict"] {
        let flags = ["--audit-log-path=/dev/full".to_owned(), policy.clone(), format!("--audit-log-mode={mode}")];
        let reference = ControlPlane::start(&unique("failing"), &[only(&[]), flags.to_vec()].concat());
        let proxy = Proxy::before(upstream(), &flags.each_ref().map(String::as_str));
        let sides: [&Api; 2] = [&reference, &proxy];
        let [expected, found] = sides.map(|api| {
            [get(&format!("{MAPS}/missing?a=%3Cb%3E&c=%22")), get("/version")].map(|request| {
                let answer = api.send(&User::admin(), request);
                let kind = answer.headers.get("content-type").cloned();
                (answer.status, kind, answer.text().replace(char::is_whitespace, " "))
            })
        });
        assert_eq!(expected[0], found[0], "{mode}");
        assert_eq!((expected[1].0, found[1].0), (200, 200), "{mode}");
        assert_eq!(found[0].0, if mode == "blocking" { 404 } else { 500 });
        assert!(counted(&proxy, "apiserver_audit_error_total{plugin=\"log\"}") > 0.0);
        assert_eq!(counted(&proxy, "apiserver_audit_requests_rejected_total") > 0.0, mode == "blocking-strict");
    }
}

/// A server of EventLists over plain HTTP. It answers with the present code, or not until the code is not 0.
struct EventServer {
    port: u16,
    code: Arc<AtomicU16>,
    lists: Arc<Mutex<Vec<Value>>>,
}

impl EventServer {
    fn start(code: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (code, lists) = (Arc::new(AtomicU16::new(code)), Arc::<Mutex<Vec<Value>>>::default());
        let (present, seen) = (code.clone(), lists.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, present, seen) = (stream.unwrap(), present.clone(), seen.clone());
                std::thread::spawn(move || while answer_events(&stream, &present, &seen).is_some() {});
            }
        });
        Self { port, code, lists }
    }

    fn answers(&self, code: u16) {
        self.code.store(code, Ordering::SeqCst);
    }

    fn kubeconfig(&self, folder: &Path) -> String {
        let path = folder.join(format!("events-{}.kubeconfig", self.port));
        let server = format!("http://127.0.0.1:{}/events", self.port);
        let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": server}}], "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]});
        std::fs::write(&path, config.to_string()).unwrap();
        format!("--audit-webhook-config-file={}", path.display())
    }

    /// The lists that the server has received, whatever it answered.
    fn lists(&self) -> Vec<Value> {
        self.lists.lock().unwrap().clone()
    }

    /// Whether the last event of a request has arrived.
    fn has(&self, id: &str) -> bool {
        let is_it = |event: &Value| event["auditID"] == id && event["stage"] == "ResponseComplete";
        self.lists().iter().any(|list| list["items"].as_array().unwrap().iter().any(is_it))
    }
}

/// Answers one request of a connection; `None` at its end.
fn answer_events(stream: &TcpStream, code: &AtomicU16, lists: &Mutex<Vec<Value>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let (mut length, mut line) = (0, String::new());
    while reader.read_line(&mut line).ok()? > 0 && line != "\r\n" {
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    if line.is_empty() {
        return None;
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    lists.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
    let code = eventually("the code of the answer", || Some(code.load(Ordering::SeqCst)).filter(|code| *code > 0));
    let head = format!("HTTP/1.1 {code} Any\r\ncontent-length: 2\r\ncontent-type: application/json\r\n\r\n{{}}");
    (&*stream).write_all(head.as_bytes()).ok()
}

#[test]
fn a_webhook_gets_the_events_that_kube_apiserver_posts() {
    let folder = folder("events");
    let rules = "{level: Request, resources: [{group: '', resources: [configmaps]}], verbs: [create]}, {level: None}";
    let policy = policy(&folder, rules);
    let servers = [EventServer::start(200), EventServer::start(200)];
    let kubeconfigs = servers.each_ref().map(|server| server.kubeconfig(&folder));
    let flags =
        |kubeconfig: &str| vec![kubeconfig.to_owned(), policy.clone(), "--audit-webhook-mode=blocking".to_owned()];
    let [first, second] = &kubeconfigs;
    let reference = ControlPlane::start("events", &[only(&[]), flags(first)].concat());
    let proxy = Proxy::before(upstream(), &flags(second).iter().map(String::as_str).collect::<Vec<_>>());
    let sides: [&Api; 2] = [&reference, &proxy];
    let name = unique("events");
    let [expected, found] = [0, 1].map(|side| {
        let create = post(MAPS, &map(&name)).header("audit-id", &name).header("user-agent", "e2e");
        assert_eq!(sides[side].send(&User::admin(), create).status, 201);
        assert!(servers[side].has(&name), "the event is there before the answer");
        let mut lists = servers[side].lists();
        for list in &mut lists {
            assert_eq!(list["items"].as_array().unwrap().len(), 1);
            let event = list["items"][0].as_object_mut().unwrap();
            for changing in ["requestReceivedTimestamp", "stageTimestamp", "annotations", "sourceIPs", "user"] {
                event.remove(changing);
            }
        }
        lists
    });
    assert_eq!(expected, found);
}

#[test]
fn a_webhook_that_fails_hangs_and_comes_back_gets_what_its_mode_promises() {
    let folder = folder("webhook");
    let rules = "{level: Metadata, verbs: [create], omitStages: [RequestReceived]}, {level: None}";
    let policy = policy(&folder, rules);
    // A request of the mode blocking waits for a server that hangs, and for the repetitions of a call that fails.
    let server = EventServer::start(0);
    let flags = [server.kubeconfig(&folder), policy.clone()];
    let modes = ["--audit-webhook-mode=blocking", "--audit-webhook-initial-backoff=10ms"];
    let proxy = Proxy::embedded(&[&flags[0], &flags[1], modes[0], modes[1]]);
    let (answers, answered) = mpsc::channel();
    std::thread::scope(|scope| {
        let (proxy, answers) = (&proxy, &answers);
        let create = |name: &'static str| {
            let answers = answers.clone();
            scope.spawn(move || {
                let create = post(MAPS, &map(name)).header("audit-id", name);
                answers.send((name, proxy.send(&User::developer(), create).status)).unwrap();
            });
        };
        create("hung");
        eventually("the call", || server.has("hung").then_some(()));
        assert_eq!(proxy.send(&User::developer(), get(&format!("{MAPS}/hung"))).status, 200);
        assert!(answered.recv_timeout(Duration::from_millis(100)).is_err(), "the answer came before the server's");
        server.answers(500);
        eventually("another attempt", || (server.lists().len() > 2).then_some(()));
        server.answers(200);
        assert_eq!(answered.recv().unwrap(), ("hung", 201));
        // Five attempts fail, and the request goes on.
        server.answers(500);
        create("failed");
        assert_eq!(answered.recv().unwrap(), ("failed", 201));
    });
    assert_eq!(counted(&proxy, "apiserver_audit_error_total{plugin=\"webhook\"}"), 1.0);
    drop(proxy);

    // In the mode batch no request waits, and the events arrive when the server is back.
    let server = EventServer::start(0);
    let flags = [server.kubeconfig(&folder), policy];
    let waits = ["--audit-webhook-batch-max-wait=10ms", "--audit-webhook-batch-buffer-size=100"];
    let proxy = Proxy::embedded(&[&flags[0], &flags[1], waits[0], waits[1]]);
    let names: Vec<String> = (0..5).map(|number| format!("batch-{number}")).collect();
    for name in &names {
        assert_eq!(proxy.send(&User::developer(), post(MAPS, &map(name)).header("audit-id", name)).status, 201);
    }
    server.answers(200);
    eventually("all events", || names.iter().all(|name| server.has(name)).then_some(()));
    assert_eq!(counted(&proxy, "apiserver_audit_error_total"), 0.0);
}
