//! exec and port-forward: admitted, then forwarded byte by byte.

use crate::harness::{Api, Kubelet, Proxy, User, block_on, get, patch, post, unique, upstream};
use crate::tenants::{Folder, of};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A node with the replacement kubelet, and a pod on it.
fn pod_on(kubelet: &Kubelet) -> String {
    let api = upstream();
    let (node, namespace) = (unique("node"), api.namespace("exec"));
    let admin = |request| {
        let answer = api.send(&User::admin(), request);
        assert!(answer.status < 300, "{}", answer.text());
    };
    admin(post("/api/v1/nodes", &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}})));
    let status: Value = json!({"status": {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.port}},
    }});
    admin(patch(&format!("/api/v1/nodes/{node}/status"), "merge", &status));
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"},
                     "spec": {"nodeName": node, "containers": [{"name": "a", "image": "a"}]}});
    admin(post(&format!("/api/v1/namespaces/{namespace}/pods"), &pod));
    format!("/api/v1/namespaces/{namespace}/pods/one")
}

/// Upgrades at this path and sends `ping`; returns the head of the response and the echoed bytes.
fn ping(api: &Api, path: &str) -> (String, String) {
    block_on(async {
        let mut connection = crate::harness::connect(api.port, &User::admin(), b"http/1.1").await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
             X-Stream-Protocol-Version: v4.channel.k8s.io\r\nContent-Length: 0\r\n\r\n"
        );
        connection.write_all(head.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(connection.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        if !head.starts_with("HTTP/1.1 101") {
            let length =
                head.to_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            connection.read_exact(&mut body).await.unwrap();
            return (head, String::from_utf8_lossy(&body).into_owned());
        }
        connection.write_all(b"ping").await.unwrap();
        let mut back = [0; 4];
        connection.read_exact(&mut back).await.unwrap();
        (head, String::from_utf8_lossy(&back).into_owned())
    })
}

#[test]
fn exec_attach_and_port_forward_carry_bytes_both_ways() {
    let kubelet = Kubelet::start();
    let pod = pod_on(&kubelet);
    let proxy = Proxy::before(upstream(), &[]);
    for subresource in
        ["exec?command=sh&command=-c&stdin=true&container=a", "attach?stdin=true&container=a", "portforward"]
    {
        let path = format!("{pod}/{subresource}");
        let (direct, echo) = ping(upstream(), &path);
        assert_eq!(echo, "ping", "{direct}{echo}");
        let (through, echo) = ping(&proxy, &path);
        assert_eq!(echo, "ping", "{through}{echo}");
        assert!(through.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{through}");
        assert!(through.to_lowercase().contains("upgrade: spdy/3.1"), "{through}");
    }
    let heads = kubelet.heads();
    // The kubelet received equal requests.
    for pair in heads.chunks(2) {
        assert_eq!(pair[0].lines().next(), pair[1].lines().next());
    }
}

#[test]
fn exec_is_admitted_first() {
    let kubelet = Kubelet::start();
    let pod = pod_on(&kubelet);
    let proxy = Proxy::before(upstream(), &["--enable-admission-plugins=AlwaysDeny"]);
    for subresource in ["exec?command=sh", "attach", "portforward"] {
        let (head, body) = ping(&proxy, &format!("{pod}/{subresource}"));
        assert!(head.starts_with("HTTP/1.1 403"), "{head}{body}");
    }
    assert_eq!(kubelet.heads(), Vec::<String>::new());
}

#[test]
fn exec_works_by_the_path_of_a_tenant() {
    let kubelet = Kubelet::start();
    let pod = pod_on(&kubelet);
    let namespace = pod.split('/').nth(4).unwrap();
    let tenants = Folder::blue_and_green();
    tenants.write("red", &of("system:masters", &json!({"namespaces": {"names": [namespace]}})));
    let proxy = Proxy::before(upstream(), &[&tenants.flag()]);
    let (head, echo) = ping(&proxy, &format!("/tenants/red{pod}/exec?command=sh&stdin=true&container=a"));
    assert_eq!(echo, "ping", "{head}");
    let (head, body) = ping(&proxy, &format!("/tenants/blue{pod}/exec?command=sh&stdin=true&container=a"));
    assert!(head.starts_with("HTTP/1.1 403"), "{head}{body}");
    assert_eq!(kubelet.heads().len(), 1);
}

#[test]
fn without_an_upgrade_the_answer_is_the_api_servers() {
    let proxy = Proxy::before(upstream(), &[]);
    let namespace = upstream().namespace("no-exec");
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": {"containers": [{"name": "a", "image": "a"}]}});
    upstream().accepts(post(&format!("/api/v1/namespaces/{namespace}/pods"), &pod));
    for name in ["one", "missing"] {
        for subresource in ["exec?command=sh", "portforward", "log", "proxy/x"] {
            let request = get(&format!("/api/v1/namespaces/{namespace}/pods/{name}/{subresource}"));
            let direct = upstream().send(&User::admin(), request.clone());
            let through = proxy.send(&User::admin(), request);
            assert_eq!((through.status, through.text()), (direct.status, direct.text()), "{name}/{subresource}");
        }
    }
    let kubectl = |api: &Api| api.kubectl(&User::admin()).run(&["exec", "-n", &namespace, "one", "--", "true"]);
    assert_eq!(kubectl(&proxy), kubectl(upstream()));
}
