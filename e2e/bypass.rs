//! No write bypasses admission: a plugin denies every write here, so every successful write is a bypass.

mod others;
mod tricks;
mod wire;

use crate::harness::{Api, ControlPlane, Kept, Proxy, Request, User, block_on, delete, get, only, upstream};
use futures_util::future::join_all;
use others::other_writes;
use tricks::{attempts, config_map};

/// Requests that kube-apiserver interprets in another way than the proxy, which rejects ambiguous requests.
const REFUSED_OUTRIGHT: [&str; 10] = [
    "two slashes behind the path",
    "a slash, escaped",
    "a slash, escaped twice",
    "an overlong slash",
    "a backslash, escaped",
    "an escape that is none",
    "an escape of another kind",
    "an empty group",
    "a host over HTTP/2",
    "protobuf with its metadata twice",
];

fn nothing_slips_past(proxy: &Proxy, behind: &Api, namespace: &str) {
    let behind = &behind.kept();
    for user in [User::admin(), User::developer()] {
        for (name, request) in attempts(namespace) {
            let what = format!("{name}: {} {} {:?}", request.method, request.path, request.headers);
            let reads = matches!(request.method.as_str(), "GET" | "HEAD" | "OPTIONS");
            // A closed connection counts as a rejection.
            if let Ok(answer) = proxy.try_send(&user, request) {
                assert!(reads || answer.status >= 400, "{what}: {} {}", answer.status, answer.text());
            }
            assert!(stored(behind, namespace).is_empty(), "{what}: slipped past");
        }
        assert_eq!(written_by_wire(proxy, behind, &user, namespace), [""; 0], "slipped past");
        // A request that two parsers read differently may have written under another name.
        assert_eq!(stored(behind, namespace), [""; 0], "slipped past in bytes");
    }
}

/// The names of the stored ConfigMaps.
fn stored(api: &Kept, namespace: &str) -> Vec<String> {
    // The API server writes this one into each namespace.
    let query = "fieldSelector=metadata.name!%3Dkube-root-ca.crt";
    let list = api.send(&User::admin(), get(&format!("/api/v1/namespaces/{namespace}/configmaps?{query}"))).json();
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// Sends all attempts in bytes at the same time, each with a ConfigMap of its own. Returns the attempts whose ConfigMaps are stored.
fn written_by_wire(to: &Api, behind: &Kept, user: &User, namespace: &str) -> Vec<&'static str> {
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let of = |index: usize| {
        let mut map = config_map();
        map["metadata"]["name"] = format!("slipped-{index:03}").into();
        wire::attempts(&maps, &map.to_string())
    };
    let attempts: Vec<wire::Wire> = (0..of(0).len()).map(|index| of(index).swap_remove(index)).collect();
    block_on(join_all(attempts.iter().map(|attempt| attempt.send(to.port, user))));
    let stored = stored(behind, namespace);
    let names = attempts.iter().enumerate().map(|(index, attempt)| (format!("slipped-{index:03}"), attempt.name));
    names.filter(|(name, _)| stored.contains(name)).map(|(_, attempt)| attempt).collect()
}

#[test]
fn many_of_the_attempts_do_write_where_nothing_is_denied() {
    let namespace = upstream().namespace("bypass");
    let slipped = format!("/api/v1/namespaces/{namespace}/configmaps/slipped");
    let attempts = attempts(&namespace);
    let mut written = 0;
    for (_, request) in attempts {
        let _ = upstream().try_send(&User::admin(), request);
        written += u32::from(upstream().send(&User::admin(), delete(&slipped)).status == 200);
    }
    assert!(written >= 50, "only {written}");
    let by_wire = written_by_wire(upstream(), &upstream().kept(), &User::admin(), &namespace);
    assert!(by_wire.len() >= 20, "only {by_wire:?}");
}

#[test]
fn no_write_slips_past_admission_to_a_real_server() {
    let namespace = upstream().namespace("bypass");
    let proxy = Proxy::before(upstream(), &["--enable-admission-plugins=AlwaysDeny"]);
    nothing_slips_past(&proxy, upstream(), &namespace);
}

#[test]
fn no_write_slips_past_admission_in_cbor() {
    let gate = "--feature-gates=CBORServingAndStorage=true";
    let behind = ControlPlane::start("bypass-cbor", &[only(&[]), vec![gate.to_owned()]].concat());
    let namespace = behind.namespace("bypass");
    let proxy = Proxy::before(&behind, &["--enable-admission-plugins=AlwaysDeny", gate]);
    nothing_slips_past(&proxy, &behind, &namespace);
}

#[test]
fn no_write_slips_past_admission_to_the_embedded_server() {
    let proxy = Proxy::embedded(&["--enable-admission-plugins=AlwaysDeny"]);
    nothing_slips_past(&proxy, &proxy, "default");
}

#[test]
fn every_trick_has_the_code_that_a_real_server_gives_it() {
    let reference = ControlPlane::start("tricked", &only(&["AlwaysDeny"]));
    let proxy = Proxy::before(
        upstream(),
        &["--enable-admission-plugins=AlwaysDeny", "--disable-admission-plugins=NamespaceLifecycle"],
    );
    let code = |api: &Api, request: Request| api.try_send(&User::admin(), request).map_or(0, |answer| answer.status);
    let mut differences = Vec::new();
    for (name, request) in attempts("default") {
        let (expected, found) = (code(&reference, request.clone()), code(&proxy, request));
        if expected != found && !REFUSED_OUTRIGHT.contains(&&*name) {
            differences.push(format!("{name}: {expected} there, {found} here"));
        }
    }
    assert!(differences.is_empty(), "{differences:#?}");
}

#[test]
fn every_other_write_is_refused_as_a_real_server_does() {
    let reference = ControlPlane::start("refusing", &only(&["AlwaysDeny"]));
    let proxy = Proxy::before(
        upstream(),
        &["--enable-admission-plugins=AlwaysDeny", "--disable-admission-plugins=NamespaceLifecycle"],
    );
    let mut differences = Vec::new();
    for (name, request) in other_writes() {
        let code = |api: &Api| api.try_send(&User::admin(), request.clone()).map_or(0, |answer| answer.status);
        let (expected, found) = (code(&reference), code(&proxy));
        if expected != found || found < 400 {
            differences.push(format!("{name}: {expected} there, {found} here"));
        }
    }
    assert!(differences.is_empty(), "{differences:#?}");
}
