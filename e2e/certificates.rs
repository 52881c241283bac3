//! Client certificates: the recorded answers of kube-apiserver are those of the running proxy.

use crate::harness::{Proxy, Request, User, eventually, folder, pki, post};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

/// A recorded chain (`src/x509/recorded.jsonl`).
struct Recorded {
    bundle: String,
    user: User,
    /// The status code; 0 for a refused handshake.
    code: u64,
    name: Value,
}

fn pem(kind: &str, base64: &Value) -> String {
    format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", base64.as_str().unwrap())
}

fn recorded(names: &[&str]) -> Vec<Recorded> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/x509/recorded.jsonl");
    let lines: Vec<Value> =
        fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let folder = folder("certificates");
    let chain = |names: &Value| {
        names.as_array().unwrap().iter().fold(String::new(), |mut chain, name| {
            let line = lines.iter().find(|line| line["certificate"] == *name).unwrap();
            write!(chain, "{}", pem("CERTIFICATE", &line["der"])).unwrap();
            chain
        })
    };
    let of = |(index, name): (usize, &&str)| {
        let line = lines.iter().find(|line| line["case"] == **name).unwrap();
        let file = |end: &str| folder.join(format!("{index}.{end}"));
        fs::write(file("crt"), chain(&line["chain"])).unwrap();
        fs::write(file("key"), pem("PRIVATE KEY", &line["key"])).unwrap();
        let (bundle, user) = (chain(&line["bundle"]), User::of_files(file("crt"), file("key")));
        Recorded { bundle, user, code: line["code"].as_u64().unwrap(), name: line["user"].clone() }
    };
    names.iter().enumerate().map(of).collect()
}

/// A file with the authorities of this run and those of recorded chains.
fn authorities(cases: &[Recorded]) -> PathBuf {
    let path = folder("certificates").join("authorities.crt");
    let bundles: String = cases.iter().map(|case| case.bundle.as_str()).collect();
    fs::write(&path, fs::read_to_string(pki().ca()).unwrap() + &bundles).unwrap();
    path
}

fn who_am_i() -> Request {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &review)
}

#[test]
fn clients_are_accepted_and_refused_as_by_kube_apiserver() {
    let names = [
        "a leaf of an authority",
        "version 1",
        "version 1 with an RSA key",
        "a trusted leaf",
        "a trusted leaf signs another",
        "a certificate of a server in the bundle signs",
        "a root that may not sign certificates",
        "a root for servers",
        "a leaf for any usage",
        "an unknown critical extension",
        "an extension twice",
        "an expired leaf",
    ];
    let cases = recorded(&names);
    let proxy = Proxy::embedded_for(&authorities(&cases), &[]);
    for http2 in [false, true] {
        for (case, name) in cases.iter().zip(names) {
            let request = if http2 { who_am_i().over_http2() } else { who_am_i() };
            match (case.code, proxy.try_send(&case.user, request)) {
                (0, Err(_)) => {}
                (201, Ok(answer)) => {
                    assert_eq!(answer.status, 201, "{name}: {}", answer.text());
                    assert_eq!(answer.json()["status"]["userInfo"]["username"], case.name, "{name}");
                }
                (401, Ok(answer)) => assert_eq!(answer.status, 401, "{name}: {}", answer.text()),
                (code, answer) => panic!("{name}: {answer:?} instead of {code}"),
            }
        }
    }
    // One address causes one line a minute, whatever it sends.
    let refused = "client certificate refused";
    eventually("a line about a refused certificate", || proxy.output().contains(refused).then_some(()));
    let output = proxy.output();
    let lines: Vec<&str> = output.lines().filter(|line| line.contains(refused)).collect();
    assert!(lines.len() < 3, "{lines:?}");
    assert!(
        lines[0].starts_with('W') && lines[0].contains("remote=\"127.0.0.1:") && lines[0].contains("CN=alice"),
        "{lines:?}"
    );
    let (_, metrics) = proxy.health("/metrics").unwrap();
    let value = |name: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{metrics}"));
        line.trim().parse::<f64>().unwrap()
    };
    assert!(value("apiserver_tls_handshake_errors_total ") >= 2.0);
    assert!(value("authentication_attempts{result=\"error\"} ") >= 10.0);
}

#[test]
fn a_certificate_of_version_1_is_a_credential_for_the_api_server() {
    let cases = recorded(&["version 1"]);
    let upstream = Proxy::embedded_for(&authorities(&cases), &["--authorization-mode=AlwaysAllow"]);
    let proxy = Proxy::before_kubeconfig(&upstream.kubeconfig(&cases[0].user), &[]);
    let answer = proxy.send(&User::developer(), who_am_i());
    assert_eq!(answer.json()["status"]["userInfo"]["username"], "alice", "{}", answer.text());
}
