//! `status`: prints what a running proxy shows at `/debug/admission`.

use super::arguments::{Status, StatusFormat};
use anyhow::{Context as _, Result, ensure};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::pin::pin;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::Builder;

/// The path of the page.
const PATH: &str = "/debug/admission";
/// The time for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The bytes of an answer.
const MAX_BYTES: usize = 64 << 20;
/// The characters that clear a terminal.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

/// Prints the status, with `--watch` again and again.
///
/// # Errors
/// If the proxy does not answer.
pub(super) fn print(flags: &Status) -> Result<()> {
    let server: Uri = flags.server.parse().with_context(|| format!("--server={}", flags.server))?;
    ensure!(server.scheme_str() == Some("http"), "--server={server}: must be the http:// address of the health port");
    let runtime = Builder::new_current_thread().enable_all().build()?;
    loop {
        let shown = runtime.block_on(async { tokio::time::timeout(PATIENCE, ask(&server)).await });
        let shown = shown.with_context(|| format!("{server} does not answer")).flatten()?;
        let text = match flags.output {
            StatusFormat::Json => format!("{shown:#}\n"),
            StatusFormat::Text => text(&shown),
        };
        if !flags.watch {
            print!("{text}");
            return Ok(());
        }
        print!("{CLEAR}{text}");
        io::stdout().flush()?;
        std::thread::sleep(flags.interval);
    }
}

/// Reads the page of the health port.
async fn ask(server: &Uri) -> Result<Value> {
    let host = server.host().context("--server has no host")?;
    let address = (host.trim_matches(['[', ']']), server.port_u16().unwrap_or(80));
    let stream = TcpStream::connect(address).await.with_context(|| server.to_string())?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::get(PATH)
        .header(http::header::HOST, server.authority().map_or("", |authority| authority.as_str()))
        .header(http::header::ACCEPT, "application/json")
        .body(Empty::<Bytes>::new())?;
    let asking = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body =
            Limited::new(response.into_body(), MAX_BYTES).collect().await.map_err(|error| anyhow::anyhow!(error))?;
        Ok::<_, anyhow::Error>((status, body.to_bytes()))
    };
    let mut asking = pin!(asking);
    // The end of the connection leaves what was received.
    let (status, body) = tokio::select! {
        answer = &mut asking => answer?,
        _ = connection => asking.await?,
    };
    ensure!(status == StatusCode::OK, "{server}{PATH}: {status}: {}", String::from_utf8_lossy(&body).trim());
    serde_json::from_slice(&body).with_context(|| format!("{server}{PATH}: no JSON: is it the health port of a proxy?"))
}

/// The status as tables.
fn text(shown: &Value) -> String {
    let mut text = format!(
        "kube-admission-proxy {}, as Kubernetes {}, up for {} s\n",
        cell(shown, "/version"),
        cell(shown, "/emulatedVersion"),
        cell(shown, "/uptimeSeconds"),
    );
    let (tenants, omitted) = items(shown, "/tenants");
    for tenant in tenants {
        if tenant.get("tenant").is_some_and(Value::is_string) {
            let _written = writeln!(text, "\nTENANT {}", cell(tenant, "/tenant"));
        }
        if tenant.get("upstreamDown") == Some(&Value::Bool(true)) {
            text.push_str("\nThe API server does not answer.\n");
        }
        let (plugins, _) = items(tenant, "/plugins");
        let phases = plugins.iter().flat_map(|plugin| {
            let phases = ["admit", "validate"].into_iter().filter(|phase| plugin.get(phase).is_some());
            phases.map(move |phase| {
                let of = |name: &str| cell(plugin, &format!("/{phase}/{name}"));
                vec![cell(plugin, "/name"), phase.to_owned(), of("calls"), of("refusals"), of("seconds")]
            })
        });
        table(&mut text, &["PLUGIN", "PHASE", "CALLS", "REFUSALS", "SECONDS"], phases.collect(), 0);
        for plugin in plugins {
            let (webhooks, omitted) = items(plugin, "/webhooks");
            let fields = ["name", "endpoint", "breaker", "calls", "failures", "p50Seconds", "p99Seconds", "lastError"];
            let head = ["WEBHOOK", "ENDPOINT", "BREAKER", "CALLS", "FAILURES", "P50", "P99", "LAST ERROR"];
            table(&mut text, &head, rows(webhooks, &fields), omitted);
            let (policies, omitted) = items(plugin, "/policies");
            let bindings = |policy: &Value| {
                let (bindings, _) = items(policy, "/bindings");
                bindings.iter().map(|binding| cell(binding, "/name")).collect::<Vec<_>>().join(",")
            };
            let policies = policies.iter().map(|policy| {
                let of = |name: &str| cell(policy, &format!("/{name}"));
                vec![of("name"), bindings(policy), of("failurePolicy"), of("shadow"), of("fault")]
            });
            let head = ["POLICY", "BINDINGS", "FAILURE POLICY", "SHADOW", "FAULT"];
            table(&mut text, &head, policies.collect(), omitted);
        }
        let (caches, omitted) = items(tenant, "/caches");
        let fields = ["kind", "objects", "bytes", "ageSeconds", "problem", "lastError"];
        table(
            &mut text,
            &["CACHE", "OBJECTS", "BYTES", "AGE", "PROBLEM", "LAST ERROR"],
            rows(caches, &fields),
            omitted,
        );
        let (seats, _) = items(tenant, "/seats");
        let users = seats.iter().map(|kind| {
            let (users, _) = items(kind, "/users");
            let most = users.iter().take(5).map(|user| format!("{}: {}", cell(user, "/user"), cell(user, "/seats")));
            vec![cell(kind, "/kind"), cell(kind, "/taken"), cell(kind, "/free"), most.collect::<Vec<_>>().join(", ")]
        });
        table(&mut text, &["SEATS", "TAKEN", "FREE", "USERS WITH MOST"], users.collect(), 0);
    }
    if omitted > 0 {
        let _written = writeln!(text, "\nand {omitted} more tenants");
    }
    text
}

/// The items of a list, and the number of those that are left out.
fn items<'a>(value: &'a Value, path: &str) -> (&'a [Value], u64) {
    let list = value.pointer(path);
    let items = list.and_then(|list| list.get("items")).and_then(Value::as_array);
    let omitted = list.and_then(|list| list.get("omitted")).and_then(Value::as_u64);
    (items.map(Vec::as_slice).unwrap_or_default(), omitted.unwrap_or_default())
}

fn rows(items: &[Value], fields: &[&str]) -> Vec<Vec<String>> {
    items.iter().map(|item| fields.iter().map(|field| cell(item, &format!("/{field}"))).collect()).collect()
}

/// A field as the text of a cell, without characters that a terminal would obey.
fn cell(value: &Value, path: &str) -> String {
    match value.pointer(path) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) if text.is_empty() => "-".to_owned(),
        Some(Value::String(text)) => text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect(),
        Some(other) => other.to_string(),
    }
}

/// Writes a table, unless it is empty.
fn table(text: &mut String, head: &[&str], rows: Vec<Vec<String>>, omitted: u64) {
    if rows.is_empty() {
        return;
    }
    let mut lines = vec![head.iter().map(|name| (*name).to_owned()).collect()];
    lines.extend(rows);
    let mut widths = vec![0; head.len()];
    for line in &lines {
        widths.iter_mut().zip(line).for_each(|(width, cell)| *width = cell.chars().count().max(*width));
    }
    text.push('\n');
    for line in &lines {
        let cells: String = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}  ")).collect();
        let _written = writeln!(text, "{}", cells.trim_end());
    }
    if omitted > 0 {
        let _written = writeln!(text, "and {omitted} more");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    fn shown() -> Value {
        json!({"version": "1", "emulatedVersion": "1.36", "uptimeSeconds": 7, "tenants": {"omitted": 0, "items": [{
            "tenant": null,
            "upstreamDown": false,
            "plugins": {"omitted": 0, "items": [
                {"name": "Priority", "admit": {"calls": 3, "refusals": 1, "seconds": 0.5}},
                {"name": "ValidatingAdmissionPolicy", "validate": {"calls": 0, "refusals": 0, "seconds": 0.0},
                 "policies": {"omitted": 2, "items": [{"name": "p", "failurePolicy": "Fail", "fault": "\u{1b}[31mred", "shadow": false,
                    "bindings": {"omitted": 0, "items": [{"name": "a"}, {"name": "b"}]}}]}},
            ]},
            "caches": {"omitted": 0, "items": [{"kind": "Pods", "objects": 2, "bytes": 10, "ageSeconds": 1, "problem": null, "lastError": null}]},
            "seats": {"omitted": 0, "items": [{"kind": "read", "taken": 1, "free": 399, "users": {"omitted": 0, "items": [{"user": "u", "seats": 1}]}}]},
        }]}})
    }

    #[test]
    fn the_status_is_tables_for_a_terminal() {
        assert_eq!(
            text(&shown()),
            "kube-admission-proxy 1, as Kubernetes 1.36, up for 7 s\n\n\
             PLUGIN                     PHASE     CALLS  REFUSALS  SECONDS\n\
             Priority                   admit     3      1         0.5\n\
             ValidatingAdmissionPolicy  validate  0      0         0.0\n\n\
             POLICY  BINDINGS  FAILURE POLICY  SHADOW  FAULT\n\
             p       a,b       Fail            false    [31mred\n\
             and 2 more\n\n\
             CACHE  OBJECTS  BYTES  AGE  PROBLEM  LAST ERROR\n\
             Pods   2        10     1    -        -\n\n\
             SEATS  TAKEN  FREE  USERS WITH MOST\n\
             read   1      399   u: 1\n"
        );
    }

    #[tokio::test]
    async fn the_page_is_read_from_the_health_port() {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server: Uri = format!("http://{}", socket.local_addr().unwrap()).parse().unwrap();
        for (answer, outcome) in [
            ("HTTP/1.1 200 OK\r\ncontent-length: 7\r\nconnection: close\r\n\r\n{\"a\":1}", "{\"a\":1}"),
            ("HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno", "403 Forbidden: no"),
            ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok", "no JSON"),
            ("", ""),
        ] {
            let serving = async {
                let (mut stream, _) = socket.accept().await.unwrap();
                let mut request = [0; 1024];
                let read = stream.read(&mut request).await.unwrap();
                assert!(request[..read].starts_with(b"GET /debug/admission HTTP/1.1\r\n"));
                stream.write_all(answer.as_bytes()).await.unwrap();
            };
            let ((), asked) = tokio::join!(serving, ask(&server));
            let text = asked.map_or_else(|error| format!("{error:#}"), |value| value.to_string());
            assert!(text.contains(outcome), "{text}");
        }
    }
}
