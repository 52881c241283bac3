use super::*;
use serde_json::Value;
use std::io::Write;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, PoisonError};

/// Runs the code with a log; returns its lines.
fn lines(format: Format, level: u32, modules: &str, run: impl FnOnce()) -> Vec<String> {
    let written = Arc::<Mutex<Vec<String>>>::default();
    let (levels, lines) = (Levels::new(level, modules.parse().unwrap()), written.clone());
    let write = move |line| lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    let subscriber = tracing_subscriber::registry().with(layer(format, Arc::new(levels), write));
    tracing::subscriber::with_default(subscriber, run);
    std::mem::take(&mut written.lock().unwrap_or_else(PoisonError::into_inner))
}

fn say() {
    tracing::error!(error = "no \"route\"\n", count = 2, "cannot read");
    tracing::warn!(name = ?Some("ä"), is_good = false, "odd");
    tracing::info!("plain");
    tracing::debug!("decision");
    tracing::debug!(target: REQUEST_LOG, verb = "GET", "audit-ID" = "1", tenant = None::<&str>, resp = 200, "HTTP");
    tracing::info!(target: "rustls::client", "handshake");
    tracing::debug!(target: "rustls::client", "details");
    tracing::warn!(target: "kube_client::client", "a secret");
}

#[test]
fn text_is_that_of_klog() {
    let lines = lines(Format::Text, 0, "", say);
    let (heads, rest): (Vec<_>, Vec<_>) = lines.iter().map(|line| line.split_once("] ").unwrap()).unzip();
    assert_eq!(
        rest,
        [
            "\"cannot read\" count=2 err=\"no \\\"route\\\"\\n\"\n",
            "\"odd\" name=\"Some(\\\"ä\\\")\" is_good=false\n",
            "\"plain\"\n"
        ]
    );
    let head = regex::Regex::new(r"^[EWI]\d{4} \d\d:\d\d:\d\d\.\d{6} [ \d]{7} tests\.rs:\d+$").unwrap();
    assert!(heads.iter().all(|line| head.is_match(line)), "{heads:?}");
    assert_eq!(heads.iter().map(|line| &line[..1]).collect::<String>(), "EWI");
}

#[test]
fn json_has_the_names_of_component_base() {
    let lines = lines(Format::Json, 3, "", say);
    let mut parsed: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    for line in &mut parsed {
        let line = line.as_object_mut().unwrap();
        assert!(line.remove("ts").unwrap().as_f64().unwrap() > 1.7e12);
        assert!(line.remove("caller").unwrap().as_str().unwrap().starts_with("logging/tests.rs:"));
    }
    assert_eq!(
        parsed,
        [
            serde_json::json!({"msg": "cannot read", "count": 2, "err": "no \"route\"\n"}),
            serde_json::json!({"msg": "odd", "v": 0, "name": "Some(\"ä\")", "is_good": false}),
            serde_json::json!({"msg": "plain", "v": 0}),
            serde_json::json!({"msg": "decision", "v": 2}),
            serde_json::json!({"msg": "HTTP", "v": 3, "verb": "GET", "audit-ID": "1", "resp": 200}),
        ]
    );
    let order = ["{\"ts\":", ",\"caller\":", ",\"msg\":", ",\"count\":", ",\"err\":"].map(|name| lines[0].find(name));
    assert!(order.is_sorted() && order[0] == Some(0), "{}", lines[0]);
}

#[test]
fn levels_and_modules_decide_what_is_logged() {
    let messages = |level, modules| {
        let lines = lines(Format::Json, level, modules, say);
        let message = |line: &String| serde_json::from_str::<Value>(line).unwrap()["msg"].as_str().unwrap().to_owned();
        lines.iter().skip(3).map(message).collect::<Vec<_>>().join(" ")
    };
    for (level, modules, expected) in [
        (0, "", ""),
        (1, "", ""),
        (2, "", "decision"),
        (3, "", "decision HTTP"),
        (6, "", "decision HTTP handshake"),
        (8, "", "decision HTTP handshake details"),
        (0, "tests=2", "decision"),
        (0, "te*=3", "decision HTTP"),
        (0, "levels=5", ""),
        (2, "tests=1", "decision"),
    ] {
        assert_eq!(messages(level, modules), expected, "{level} {modules}");
    }
}

#[test]
fn the_code_can_ask_whether_requests_are_logged() {
    for (level, expected) in [(2, false), (3, true)] {
        lines(Format::Text, level, "", || {
            assert_eq!(tracing::enabled!(target: REQUEST_LOG, tracing::Level::DEBUG), expected, "{level}");
        });
    }
}

#[test]
fn a_value_is_bounded() {
    let long = "ä".repeat(1 << 20);
    let lines = lines(Format::Json, 0, "", || {
        tracing::info!(long, list = ?vec![&long; 10], %long, "{long}");
    });
    assert!(lines[0].len() < 5 * (8 << 10), "{}", lines[0].len());
    assert!(serde_json::from_str::<Value>(&lines[0]).is_ok());
}

#[test]
fn the_level_of_a_running_log_changes() {
    let levels = Arc::new(Levels::new(0, Modules::default()));
    let written = Arc::<Mutex<Vec<String>>>::default();
    let lines = written.clone();
    let write = move |line| lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    let subscriber = tracing_subscriber::registry().with(layer(Format::Text, levels.clone(), write));
    tracing::subscriber::with_default(subscriber, || {
        for level in [0, 2, 0] {
            levels.set(level);
            tracing::callsite::rebuild_interest_cache();
            tracing::debug!("decision at {level}");
        }
    });
    let written = written.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(written.len() == 1 && written[0].contains("decision at 2"), "{written:?}");
}

#[test]
fn texts_are_cut() {
    assert_eq!(cut(&"ä".repeat(2 * MAX_TEXT)).chars().count(), MAX_TEXT);
}

/// An output that takes one write for each message.
struct Slow(Receiver<()>, Arc<Mutex<Vec<u8>>>);

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.recv().map_err(io::Error::other)?;
        self.1.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_output_that_nobody_reads_stops_nobody() {
    let (reads, reading) = sync_channel(1 << 16);
    let written = Arc::<Mutex<Vec<u8>>>::default();
    let output = Output::start(Slow(reading, written.clone())).unwrap();
    let line = format!("{}\n", "x".repeat(1023));
    let (most, dropped) = (output::MAX_BYTES / line.len(), DROPPED.get());
    for _ in 0..most + 7 {
        output.push(line.clone());
    }
    assert_eq!(DROPPED.get() - dropped, 7);
    // Reads begin again.
    for _ in 0..most + 1 {
        reads.send(()).unwrap();
    }
    output.flush(Duration::MAX);
    output.push("last\n".to_owned());
    output.flush(Duration::MAX);
    let written = String::from_utf8(written.lock().unwrap_or_else(PoisonError::into_inner).clone()).unwrap();
    assert!(written.lines().count() == most + 1 && written.ends_with("\nlast\n"));
}
