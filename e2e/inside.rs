//! What a running proxy tells an operator: its log, and its pages.

use crate::harness::{Proxy, User, eventually, get, post};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

/// Code and text of the answer of the health port.
fn asked(proxy: &Proxy, head: &str, body: &str) -> (u16, String) {
    let mut connection = TcpStream::connect(("127.0.0.1", proxy.health_port())).unwrap();
    let length = body.len();
    write!(connection, "{head}\r\nHost: health\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
    let mut text = String::new();
    connection.read_to_string(&mut text).unwrap();
    let code = text.split_whitespace().nth(1).unwrap().parse().unwrap();
    (code, text.split_once("\r\n\r\n").unwrap().1.to_owned())
}

#[test]
fn the_level_of_the_log_changes_while_the_proxy_runs() {
    let proxy = Proxy::embedded(&["--logging-format=json"]);
    let lines = || -> Vec<Value> {
        let output = proxy.output();
        let whole = output.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
    };
    assert_eq!(proxy.send(&User::admin(), get("/version?early=sesame")).status, 200);
    let answer = asked(&proxy, "PUT /debug/flags/v HTTP/1.0", "3");
    assert_eq!(answer, (200, "successfully set klog.logging.verbosity to 3\n".to_owned()));
    assert_eq!(proxy.send(&User::admin(), get("/version?late=sesame&pretty=1")).status, 200);
    let line = eventually("a line about a request", || lines().into_iter().find(|line| line["msg"] == "HTTP"));
    let shown = ["v", "verb", "URI", "resp"].map(|name| line[name].clone());
    assert_eq!(shown, [json!(3), json!("GET"), json!("/version?late=<masked>&pretty=1"), json!(200)]);
    assert!(line["caller"].as_str().unwrap().starts_with("pipeline/request_log.rs:"), "{line}");
    assert!(!proxy.output().contains("sesame"));
}

#[test]
fn an_operator_looks_into_the_proxy() {
    let proxy = Proxy::embedded(&["--enable-admission-plugins=AlwaysPullImages"]);
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "looked"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    // The service account of the namespace is made after the start.
    eventually("a pod", || (proxy.send(&User::admin(), post(pods, &pod)).status == 201).then_some(()));
    let server = format!("--server=http://127.0.0.1:{}", proxy.health_port());
    let run = |flags: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_kube-admission-proxy")).arg("status").args(flags).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let text = run(&[&server]);
    assert!(text.contains("PLUGIN") && text.contains("AlwaysPullImages") && text.contains("CACHE"), "{text}");
    let shown: Value = serde_json::from_str(&run(&[&server, "--output=json"])).unwrap();
    let plugins = shown["tenants"]["items"][0]["plugins"]["items"].as_array().unwrap();
    let plugin = plugins.iter().find(|plugin| plugin["name"] == "AlwaysPullImages").unwrap();
    assert!(plugin["admit"]["calls"].as_u64().unwrap() > 0, "{plugin}");
    let through = proxy.send(&User::admin(), get("/debug/admission"));
    assert_eq!((through.status, &through.json()["plugins"]["items"][0]["name"]), (200, &plugins[0]["name"]));
    let (code, html) = asked(&proxy, "GET /debug/admission HTTP/1.0\r\nAccept: text/html", "");
    assert!(code == 200 && html.starts_with("<!DOCTYPE html>") && html.contains("AlwaysPullImages"), "{html}");
    let (code, flags) = asked(&proxy, "GET /flagz HTTP/1.0", "");
    assert!(code == 200 && flags.contains("\nenable-admission-plugins:[AlwaysPullImages]\n"), "{flags}");
    let (code, text) = asked(&proxy, "GET /statusz HTTP/1.0", "");
    assert!(code == 200 && text.contains("\nEmulation version: 1.3"), "{text}");
}
