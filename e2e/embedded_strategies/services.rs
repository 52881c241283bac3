//! Services: their addresses and ports.

use super::{compare, with};
use crate::harness::{delete, get, patch, post, put};
use serde_json::{Value, json};

fn service(name: &str, spec: Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": {"a": "b"}, "ports": [{"name": "p", "port": 80}]}});
    object["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    object
}

#[test]
fn addresses_of_services_are_allocated_and_refused_as_by_kube_apiserver() {
    compare("strategies-addresses", |namespace| {
        let services = format!("/api/v1/namespaces/{namespace}/services");
        let at = |name: &str| format!("{services}/{name}");
        let new = |name: &str, spec: Value| post(&services, &service(name, spec));
        let dry = |name: &str, spec: Value| post(&format!("{services}?dryRun=All"), &service(name, spec));
        let change = |name: &str, spec: Value| patch(&at(name), "merge", &json!({ "spec": spec }));
        vec![
            new("taken", json!({"clusterIP": "10.0.0.2"})),
            new("x", json!({"clusterIP": "10.0.0.2"})),
            new("x", json!({"clusterIP": "10.0.0.2", "clusterIPs": ["10.0.0.2"]})),
            dry("x", json!({"clusterIP": "10.0.0.2"})),
            dry("x", json!({"clusterIP": "10.0.0.3"})),
            dry("x", json!({})),
            new("x", json!({"clusterIP": "10.0.0.0"})),
            new("x", json!({"clusterIP": "10.0.0.255"})),
            new("x", json!({"clusterIP": "10.9.0.1"})),
            new("x", json!({"clusterIP": "fd00::1"})),
            new("x", json!({"clusterIP": "nonsense"})),
            new("x", json!({"clusterIPs": ["10.0.0.3"]})),
            new("x", json!({"clusterIP": "10.0.0.3", "clusterIPs": ["10.0.0.4"]})),
            new("x", json!({"clusterIP": "10.0.0.3", "clusterIPs": ["10.0.0.3", "fd00::1"]})),
            new(
                "x",
                json!({"clusterIP": "10.0.0.3", "clusterIPs": ["10.0.0.3", "fd00::1"], "ipFamilyPolicy": "PreferDualStack"}),
            ),
            new("x", json!({"ipFamilies": ["IPv6"]})),
            new("x", json!({"ipFamilies": ["IPv4", "IPv6"]})),
            new("x", json!({"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack"})),
            new("x", json!({"ipFamilies": ["IPv5"]})),
            new("x", json!({"ipFamilyPolicy": "RequireDualStack"})),
            new("x", json!({"ipFamilyPolicy": "Nonsense"})),
            new("dual", json!({"ipFamilyPolicy": "PreferDualStack"})),
            new("Bad_Name", json!({"ipFamilyPolicy": "RequireDualStack"})),
            new("Bad_Name", json!({})),
            new("headless", json!({"clusterIP": "None"})),
            new("headless-dual", json!({"clusterIP": "None", "ipFamilyPolicy": "PreferDualStack"})),
            new("headless-6", json!({"clusterIP": "None", "ipFamilies": ["IPv6"]})),
            new("free", json!({"clusterIP": "None", "selector": null})),
            new("free-single", json!({"clusterIP": "None", "selector": null, "ipFamilyPolicy": "SingleStack"})),
            new("free-6", json!({"clusterIP": "None", "selector": null, "ipFamilies": ["IPv6"]})),
            new("named", json!({"type": "ExternalName", "externalName": "e.test"})),
            new("x", json!({"type": "ExternalName", "externalName": "e.test", "clusterIP": "10.0.0.3"})),
            new("x", json!({"type": "ExternalName"})),
            // Updates.
            change("taken", json!({"clusterIP": "10.0.0.3"})),
            change("taken", json!({"clusterIP": "10.0.0.3", "clusterIPs": ["10.0.0.3"]})),
            change("taken", json!({"clusterIP": null, "clusterIPs": null})),
            change("taken", json!({"clusterIP": null})),
            change("taken", json!({"clusterIP": "None"})),
            change("taken", json!({"ipFamilies": null, "ipFamilyPolicy": null})),
            change("taken", json!({"ipFamilyPolicy": "RequireDualStack"})),
            change("taken", json!({"ipFamilyPolicy": "PreferDualStack"})),
            change("taken", json!({"ipFamilyPolicy": "SingleStack"})),
            change("taken", json!({"ipFamilies": ["IPv4", "IPv6"]})),
            change("headless", json!({"clusterIP": "10.0.0.5"})),
            change("headless", json!({"clusterIP": null, "clusterIPs": null})),
            change("headless-dual", json!({"ipFamilyPolicy": "SingleStack"})),
            change("free", json!({"ipFamilyPolicy": "SingleStack"})),
            change("free-single", json!({"ipFamilyPolicy": "RequireDualStack"})),
            put(&at("taken"), &service("taken", json!({}))),
            put(&at("taken"), &service("taken", json!({"clusterIP": "10.0.0.2"}))),
            put(&at("named"), &service("named", json!({"clusterIP": "10.0.0.2"}))),
            put(&at("named"), &service("named", json!({"clusterIP": "10.0.0.6"}))),
            put(&at("named"), &service("named", json!({"type": "ExternalName", "externalName": "e.test"}))),
            change("named", json!({"type": "ClusterIP", "externalName": null})),
            change("taken", json!({"type": "ExternalName", "externalName": "e.test"})),
            get(&at("taken")),
            new("again", json!({"clusterIP": "10.0.0.2"})),
            delete(&at("again")),
            put(&at("new"), &service("new", json!({"clusterIP": "10.0.0.7"}))),
            put(&at("new-2"), &service("new-2", json!({"clusterIP": "10.0.0.7"}))),
        ]
    });
}

#[test]
fn ports_of_services_are_allocated_and_refused_as_by_kube_apiserver() {
    // Other tests on the same kube-apiserver have ports below these, and draw those from 30086 on.
    compare("strategies-ports", |namespace| {
        let services = format!("/api/v1/namespaces/{namespace}/services");
        let at = |name: &str| format!("{services}/{name}");
        let new = |name: &str, spec: Value| post(&services, &service(name, spec));
        let dry = |name: &str, spec: Value| post(&format!("{services}?dryRun=All"), &service(name, spec));
        let change = |name: &str, spec: Value| patch(&at(name), "merge", &json!({ "spec": spec }));
        let ports = |kind: &str, ports: Value| json!({"type": kind, "ports": ports});
        let one = |port: i64| json!([{"name": "p", "port": 80, "nodePort": port}]);
        let both = |first: Value, second: Value| {
            json!([{"name": "t", "port": 53, "protocol": "TCP", "nodePort": first},
            {"name": "u", "port": 53, "protocol": "UDP", "nodePort": second}])
        };
        let local = |more: Value| {
            let mut spec = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"});
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            spec
        };
        vec![
            new("a", ports("NodePort", one(30040))),
            new("x", ports("NodePort", one(30040))),
            new("x", ports("LoadBalancer", one(30040))),
            new("x", ports("NodePort", one(29999))),
            new("x", ports("NodePort", one(80))),
            new("x", ports("NodePort", one(70000))),
            new("x", ports("NodePort", one(-1))),
            new("x", ports("ClusterIP", one(30041))),
            dry("x", ports("NodePort", one(30040))),
            dry("x", ports("NodePort", json!([{"name": "p", "port": 80}]))),
            // One number for two protocols of a port.
            new("both", ports("NodePort", both(json!(30042), json!(30042)))),
            new("shared", ports("NodePort", both(json!(30043), Value::Null))),
            new("shared-2", ports("NodePort", both(Value::Null, json!(30044)))),
            new(
                "x",
                ports(
                    "NodePort",
                    json!([{"name": "t", "port": 1, "nodePort": 30045}, {"name": "u", "port": 2, "nodePort": 30045}]),
                ),
            ),
            new(
                "two",
                ports(
                    "NodePort",
                    json!([{"name": "t", "port": 1, "nodePort": 30046}, {"name": "u", "port": 1, "protocol": "UDP", "nodePort": 30047}]),
                ),
            ),
            new("none", json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false})),
            new(
                "some",
                json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false,
                "ports": [{"name": "p", "port": 80, "nodePort": 30048}, {"name": "q", "port": 81}]}),
            ),
            // Health checks.
            new("local", local(json!({"healthCheckNodePort": 30050}))),
            new("x", local(json!({"healthCheckNodePort": 30050}))),
            new("x", local(json!({"healthCheckNodePort": 30040}))),
            new("x", local(json!({"healthCheckNodePort": 80}))),
            new("x", json!({"type": "LoadBalancer", "healthCheckNodePort": 30051})),
            new("cluster", json!({"type": "LoadBalancer"})),
            change("cluster", json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 30050})),
            change("cluster", json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 30051})),
            change("cluster", json!({"healthCheckNodePort": 30052})),
            change("cluster", json!({"healthCheckNodePort": null})),
            change("cluster", json!({"externalTrafficPolicy": "Cluster"})),
            // Updates.
            change("a", json!({"ports": [{"name": "p", "port": 81}]})),
            change(
                "a",
                json!({"ports": [{"name": "q", "port": 81, "nodePort": 30040}, {"name": "p", "port": 82, "nodePort": 30053}]}),
            ),
            change("a", json!({"ports": one(30042)})),
            change("a", json!({"ports": one(30054)})),
            change("a", json!({"ports": one(10)})),
            change(
                "a",
                json!({"ports": [{"name": "p", "port": 80, "nodePort": 30054}, {"name": "q", "port": 81, "nodePort": 30054}]}),
            ),
            new("b", ports("NodePort", one(30040))),
            change("a", json!({"type": "ClusterIP"})),
            new("c", ports("NodePort", one(30054))),
            put(&at("c"), &service("c", ports("NodePort", json!([{"name": "p", "port": 80}])))),
            put(&at("c"), &service("c", json!({}))),
            change("c", json!({"type": "LoadBalancer", "loadBalancerClass": "e.test/c", "ports": one(30055)})),
            patch(
                &format!("{}/status", at("c")),
                "merge",
                &json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}},
                "spec": {"type": "ClusterIP"}, "metadata": {"labels": {"s": "1"}}}),
            ),
            change("c", json!({"type": "NodePort"})),
            patch(
                &format!("{}/status", at("c")),
                "merge",
                &json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}),
            ),
            change("c", json!({"type": "ExternalName", "externalName": "e.test"})),
            get(&at("c")),
            change("none", json!({"allocateLoadBalancerNodePorts": true})),
            change("none", json!({"type": "ClusterIP"})),
            post(
                &services,
                &with(
                    service("status", json!({})),
                    "/status",
                    json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}),
                ),
            ),
        ]
    });
}
