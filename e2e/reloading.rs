//! Changes while the proxy runs, of its files and of the upstream API server, which need no restart.

use crate::harness::{
    Api, ControlPlane, Proxy, Relay, Request, User, delete, eventually, folder, get, only, patch, pki, post, unique,
    upstream,
};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A folder with files as Kubernetes mounts them: one symlink replaces all files at once.
struct Mount(PathBuf);

impl Mount {
    fn new(files: &[(&str, String)]) -> Self {
        let mount = Self(folder("mount"));
        mount.swap("first", files);
        for (name, _) in files {
            symlink(Path::new("..data").join(name), mount.path(name)).unwrap();
        }
        mount
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn swap(&self, version: &str, files: &[(&str, String)]) {
        let made = self.path(version);
        fs::create_dir(&made).unwrap();
        for (name, content) in files {
            fs::write(made.join(name), content).unwrap();
        }
        symlink(version, self.path("..new")).unwrap();
        fs::rename(self.path("..new"), self.path("..data")).unwrap();
    }
}

fn who_am_i() -> Request {
    post(
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        &json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}),
    )
}

#[test]
fn certificate_authorities_and_tokens_are_read_again_and_connections_stay() {
    let read = |path: &PathBuf| fs::read_to_string(path).unwrap();
    let (first, second) = (&pki().server, pki().another_server());
    let (stranger, strangers) = pki().stranger("carol");
    let own = read(pki().ca());
    let token = |token: &str| format!("{token},bob,42,\n");
    let files = |certificate: &str, key: &str, authorities: &str, tokens: &str| {
        [("tls.crt", certificate), ("tls.key", key), ("ca.crt", authorities), ("tokens.csv", tokens)]
            .map(|(name, content)| (name, content.to_owned()))
    };
    let mount = Mount::new(&files(&read(&first.certificate), &read(&first.key), &own, &token("sesame")));
    let proxy = Proxy::serving(
        upstream(),
        &mount.path("tls.crt"),
        &mount.path("tls.key"),
        &mount.path("ca.crt"),
        &[&format!("--token-auth-file={}", mount.path("tokens.csv").display())],
    );
    let stranger = User::Certificate(Arc::new(stranger));
    let [old, new] = ["sesame", "open"].map(|token| User::Token(token.to_owned()));
    let codes = || [&stranger, &old, &new].map(|user| proxy.send(user, who_am_i()).status);
    assert_eq!(codes(), [401, 201, 401]);
    let certificate = proxy.certificate();
    let mut watch = proxy.stream(&User::developer(), get("/api/v1/namespaces?watch=true"));
    assert_eq!(watch.status, 200);

    let started = Instant::now();
    let both = own.clone() + &read(&strangers);
    mount.swap("second", &files(&read(&second.certificate), &read(&second.key), &both, &token("open")));
    eventually("another certificate", || (proxy.certificate() != certificate).then_some(()));
    eventually("another authority and other tokens", || (codes() == [201, 401, 201]).then_some(()));
    // The proxy got the event of the change, and did not notice the change by polling.
    assert!(started.elapsed() < Duration::from_secs(50));
    let served = proxy.certificate();

    // Invalid files are not used.
    mount.swap("third", &files("no certificate", "no key", "no authority", "no,token\n"));
    eventually("that all three are refused", || {
        (proxy.output().matches("cannot reload; the last content stays in use").count() >= 3).then_some(())
    });
    assert_eq!(proxy.certificate(), served);
    assert_eq!(codes(), [201, 401, 201]);

    mount.swap("fourth", &files(&read(&first.certificate), &read(&first.key), &own, &token("open")));
    eventually("the first certificate", || (proxy.certificate() == certificate).then_some(()));
    eventually("one authority less", || (codes() == [401, 401, 201]).then_some(()));

    // A client that was connected all the time has noticed no change.
    let name = upstream().namespace("after");
    while watch.next_json().unwrap()["object"]["metadata"]["name"] != name {}
}

#[test]
fn changes_during_a_restart_of_the_api_server_are_seen_afterwards() {
    let plane = ControlPlane::start("restarting", &only(&[]));
    let relay = Relay::to(plane.port);
    let kubeconfig = Api { port: relay.port }.kubeconfig(&User::named("admission-proxy", "system:masters"));
    let namespace = unique("restarted");
    let path = format!("/api/v1/namespaces/{namespace}");
    let sends = |api: &Api, request: Request| {
        let answer = api.send(&User::admin(), request);
        assert!(answer.status < 300, "{}", answer.text());
    };
    let object = |kind: &str, name: &str, more: Value| {
        let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
        object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        object
    };
    sends(&plane, post("/api/v1/namespaces", &object("Namespace", &namespace, json!({}))));
    sends(&plane, post(&format!("{path}/serviceaccounts"), &object("ServiceAccount", "default", json!({}))));
    let limits = json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "1m"}}]}});
    sends(&plane, post(&format!("{path}/limitranges"), &object("LimitRange", "tight", limits)));

    let proxy = Proxy::before_kubeconfig(&kubeconfig, &["--authorization-mode=AlwaysAllow"]);
    let pod = |container: Value| {
        let mut one = json!({"name": "a", "image": "i"});
        one.as_object_mut().unwrap().extend(container.as_object().unwrap().clone());
        post(&format!("{path}/pods?dryRun=All"), &object("Pod", "p", json!({"spec": {"containers": [one]}})))
    };
    let large = pod(json!({"resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}}));
    let capable = json!({"capabilities": {"add": ["SYS_ADMIN"]}});
    let capable = pod(json!({"securityContext": capable, "resources": {"limits": {"cpu": "1m"}}}));
    let says = |request: &Request, text: &str| {
        eventually(text, || {
            let answer = proxy.try_send(&User::developer(), request.clone()).ok()?;
            answer.text().contains(text).then_some(())
        });
    };
    says(&large, "maximum cpu usage per Container is 1m");
    assert_eq!(proxy.send(&User::developer(), capable.clone()).status, 201);

    // The proxy gets no event of the following changes, and the restarted API server no longer has these events.
    relay.turn_to(0);
    let label = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}});
    sends(&plane, delete(&format!("{path}/limitranges/tight")));
    sends(&plane, patch(&path, "merge", &label));
    let plane = plane.restarted(&only(&[]));
    relay.turn_to(plane.port);

    says(&capable, "violates PodSecurity");
    says(&large, "\"kind\":\"Pod\"");
    assert!(proxy.output().contains("too old resource version"), "{}", proxy.output());
}
