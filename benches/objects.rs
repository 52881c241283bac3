//! The embedded API server with many objects: durable creates in a second, the memory of 100,000 ConfigMaps beyond their JSON, a list in pages,
//! and a change that 1,000 watches see. Wall time; `make bench-objects` runs it.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::BodyExt;
use kube_admission_proxy::internal::body::{Body, empty, full};
use kube_admission_proxy::internal::embedded::Server;
use kube_admission_proxy::internal::upstream::Transport;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use tokio::runtime::Builder;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WRITERS: usize = 16;
const WATCHES: usize = 1000;
const PAGE: usize = 500;

/// A number from the environment.
fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

async fn send(server: &Arc<Server>, method: Method, path: &str, body: Body) -> http::Response<Body> {
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let request = request.header("user-agent", "kubectl/v1.36.3").body(body).unwrap();
    let response = server.send(request).await.unwrap();
    assert!(response.status().is_success(), "{path}: {}", response.status());
    response
}

async fn bytes_of(response: http::Response<Body>) -> Bytes {
    response.into_body().collect().await.unwrap().to_bytes()
}

fn config_map(number: usize) -> String {
    let data = json!({"key": "x".repeat(200), "other": number.to_string()});
    let metadata = json!({"name": format!("object-{number:06}"), "labels": {"app": "bench"}});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}).to_string()
}

/// Creates `count` ConfigMaps by as many writers at once, and returns the creates in a second.
async fn create(server: &Arc<Server>, count: usize) -> f64 {
    let next = Arc::new(AtomicUsize::new(0));
    let before = Instant::now();
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let (server, next) = (server.clone(), next.clone());
            tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    send(&server, Method::POST, CONFIG_MAPS, full(config_map(number))).await;
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    count as f64 / before.elapsed().as_secs_f64()
}

/// Lists all ConfigMaps in pages. Returns their number and the size of their JSON.
async fn list(server: &Arc<Server>) -> (usize, usize) {
    let (mut count, mut size, mut token) = (0, 0, String::new());
    loop {
        let path = format!("{CONFIG_MAPS}?limit={PAGE}&continue={token}");
        let page = bytes_of(send(server, Method::GET, &path, empty()).await).await;
        size += page.len();
        let page: Value = serde_json::from_slice(&page).unwrap();
        count += page["items"].as_array().unwrap().len();
        match page["metadata"]["continue"].as_str() {
            Some(next) if !next.is_empty() => token = next.to_owned(),
            _ => return (count, size),
        }
    }
}

/// Opens watches, changes one object, and waits until every watch has shown the change.
async fn watch(server: &Arc<Server>) {
    let newest: Value = serde_json::from_slice(
        &bytes_of(send(server, Method::GET, &format!("{CONFIG_MAPS}?limit=1"), empty()).await).await,
    )
    .unwrap();
    let version = newest["metadata"]["resourceVersion"].as_str().unwrap();
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={version}");
    let mut watches = Vec::new();
    for _ in 0..WATCHES {
        watches.push(send(server, Method::GET, &path, empty()).await.into_body());
    }
    let before = Instant::now();
    let watches: Vec<_> = watches
        .into_iter()
        .map(|mut events| tokio::spawn(async move { events.frame().await.unwrap().unwrap().into_data().unwrap() }))
        .collect();
    send(server, Method::POST, CONFIG_MAPS, full(config_map(999_999))).await;
    for watch in watches {
        let event: Value = serde_json::from_slice(&watch.await.unwrap()).unwrap();
        assert_eq!(event["object"]["metadata"]["name"], "object-999999");
    }
    println!("{WATCHES} watches saw a create after {:.1} ms", before.elapsed().as_secs_f64() * 1000.0);
}

fn main() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let count = number("OBJECTS", 100_000);
    runtime.block_on(async {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let server = Server::in_folder(folder.path(), Arc::default()).unwrap();
        println!("{:.0} durable creates/s with {WRITERS} writers", create(&server, count / 5).await);
        server.close().await;
        drop(server);
        let before = Instant::now();
        let server = Server::in_folder(folder.path(), Arc::default()).unwrap();
        println!("{} objects read in {:.2} s at the start", count / 5, before.elapsed().as_secs_f64());
        drop(server);
        let server = Server::new(Arc::default());
        let before = resident_bytes();
        println!("{:.0} creates/s in memory", create(&server, count).await);
        let resident = resident_bytes().saturating_sub(before);
        let started = Instant::now();
        let (listed, size) = list(&server).await;
        assert_eq!(listed, count);
        println!("{listed} objects listed in pages of {PAGE} in {:.2} s", started.elapsed().as_secs_f64());
        let beyond = (resident as f64 - size as f64) / listed as f64;
        println!("{} bytes of JSON an object, {beyond:.0} bytes of memory beyond it", size / listed);
        watch(&server).await;
    });
}
