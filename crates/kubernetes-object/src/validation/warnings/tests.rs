use super::warnings;
use crate::Object;
use crate::kind::{GroupVersionKind, split_api_version};
use serde_json::{Value, json};

/// The warnings of a write of an object of this version and kind.
fn of_write(kind: &str, object: &Value, old: Option<&Value>, subresource: &str) -> Vec<String> {
    let (version, kind) = kind.split_once(' ').unwrap();
    let (group, version) = split_api_version(version);
    let object_of = |value: &Value| Object::from_value(value.clone()).unwrap();
    let old = old.map(object_of);
    warnings(&GroupVersionKind::new(group, version, kind), &object_of(object), old.as_ref(), subresource)
}

fn of(kind: &str, object: Value) -> Vec<String> {
    of_write(kind, &object, None, "")
}

fn of_pod(spec: Value) -> Vec<String> {
    of("v1 Pod", json!({"metadata": {"name": "p"}, "spec": spec}))
}

#[test]
fn addresses_and_networks_that_are_not_canonical_are_named() {
    let addresses = |address: &str| of("v1 Service", json!({"spec": {"loadBalancerIP": address}}));
    for (address, expected) in [
        ("10.0.0.1", None),
        ("2001:db8::1", None),
        ("010.0.0.1", Some("spec.loadBalancerIP: non-standard IP address \"010.0.0.1\" is invalid: use \"10.0.0.1\"")),
        (
            "::ffff:10.0.0.1",
            Some("spec.loadBalancerIP: non-standard IP address \"::ffff:10.0.0.1\" is invalid: use \"10.0.0.1\""),
        ),
        (
            "2001:DB8::1",
            Some(
                "spec.loadBalancerIP: IPv6 address \"2001:DB8::1\" should be in RFC 5952 canonical format (\"2001:db8::1\")",
            ),
        ),
    ] {
        assert_eq!(addresses(address), Vec::from_iter(expected), "{address}");
    }
    let networks = |network: &str| of("v1 Node", json!({"spec": {"podCIDRs": [network]}}));
    for (network, expected) in [
        ("10.0.0.0/8", vec![]),
        (
            "10.1.2.3/8",
            vec![
                "spec.podCIDRs[0]: CIDR value \"10.1.2.3/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \"10.1.2.3/32\"?)",
            ],
        ),
        (
            "010.0.0.0/8",
            vec!["spec.podCIDRs[0]: non-standard CIDR value \"010.0.0.0/8\" is invalid: use \"10.0.0.0/8\""],
        ),
        (
            "10.0.0.0/08",
            vec!["spec.podCIDRs[0]: non-standard CIDR value \"10.0.0.0/08\" is invalid: use \"10.0.0.0/8\""],
        ),
        (
            "::ffff:10.0.0.0/104",
            vec!["spec.podCIDRs[0]: non-standard CIDR value \"::ffff:10.0.0.0/104\" is invalid: use \"10.0.0.0/8\""],
        ),
        (
            "2001:DB8::/32",
            vec![
                "spec.podCIDRs[0]: IPv6 CIDR value \"2001:DB8::/32\" should be in RFC 5952 canonical format (\"2001:db8::/32\")",
            ],
        ),
    ] {
        assert_eq!(networks(network), expected, "{network}");
    }
}

#[test]
fn only_fractions_of_bytes_are_named() {
    let of_memory =
        |amount: &str| of_pod(json!({"containers": [{"name": "c", "resources": {"limits": {"memory": amount}}}]}));
    for amount in ["1", "1Gi", "1E", "9E", "1k", "0"] {
        assert_eq!(of_memory(amount), Vec::<String>::new(), "{amount}");
    }
    for amount in ["100m", "1n", "1500m"] {
        let expected = format!(
            "spec.containers[0].resources.limits[memory]: fractional byte value {amount:?} is invalid, must be an integer"
        );
        assert_eq!(of_memory(amount), [expected]);
    }
}

#[test]
fn conflicts_of_ports_are_named_with_the_earlier_port() {
    let ports = |ports: Value| of_pod(json!({"containers": [{"name": "c", "ports": ports}]}));
    let port = |more: Value| {
        let mut port = json!({"containerPort": 80, "protocol": "TCP"});
        port.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        port
    };
    let (none, one, two) = (port(json!({})), port(json!({"hostPort": 1})), port(json!({"hostPort": 2})));
    let (bound, other) =
        (port(json!({"hostPort": 1, "hostIP": "1.2.3.4"})), port(json!({"hostPort": 1, "hostIP": "4.3.2.1"})));
    for (first, second, expected) in [
        (&none, &none, Some("duplicate")),
        (&one, &none, Some("overlapping")),
        (&none, &two, Some("overlapping")),
        (&one, &bound, Some("dangerously ambiguous")),
        (&bound, &one, Some("dangerously ambiguous")),
        (&one, &two, None),
        (&bound, &other, None),
    ] {
        let expected = expected.map(|what| {
            format!("spec.containers[0].ports[1]: {what} port definition with spec.containers[0].ports[0]")
        });
        assert_eq!(ports(json!([first, second])), Vec::from_iter(expected), "{first} {second}");
    }
}

#[test]
fn overlapping_paths_of_a_volume_are_named() {
    let items = |paths: &[&str]| {
        let items: Vec<Value> = paths.iter().map(|path| json!({"key": "k", "path": path})).collect();
        of_pod(json!({"volumes": [{"name": "v", "configMap": {"name": "m", "items": items}}]}))
    };
    assert_eq!(items(&["a", "b", "ab", "a.b"]), Vec::<String>::new());
    let text = |text: &str| format!("volume \"v\" (ConfigMap \"m\"): overlapping paths: {text}");
    assert_eq!(
        items(&["a/b", "a", "a/b/c/"]),
        [text("\"a\" with \"a/b\""), text("\"a/b/c\" with \"a/b\""), text("\"a/b/c\" with \"a\"")]
    );
}

#[test]
fn a_template_is_looked_at_again_when_the_generation_changes() {
    let deployment = |generation: i64| {
        json!({"metadata": {"name": "a.b", "generation": generation},
            "spec": {"template": {"spec": {"nodeSelector": {"beta.kubernetes.io/os": "linux"}}}}})
    };
    let kind = "apps/v1 Deployment";
    let label = "spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead";
    let created = of(kind, deployment(1));
    assert_eq!((created.len(), created[1].as_str()), (2, label));
    assert!(created[0].starts_with("metadata.name: this is used in Pod names and hostnames, "), "{created:?}");
    assert_eq!(of_write(kind, &deployment(2), Some(&deployment(1)), ""), [label]);
    assert_eq!(of_write(kind, &deployment(1), Some(&deployment(1)), ""), Vec::<String>::new());
    assert_eq!(of_write(kind, &deployment(2), Some(&deployment(1)), "status"), Vec::<String>::new());
}

#[test]
fn warnings_take_time_that_grows_with_their_number_and_not_with_pairs() {
    // A comparison of each item with each other one would not end.
    let ports: Vec<Value> = (0..200_000)
        .map(|n| json!({"containerPort": 80, "protocol": "TCP", "hostPort": 1, "hostIP": format!("10.{}.{}.{}", n / 65_536, n / 256 % 256, n % 256)}))
        .collect();
    let items: Vec<Value> = (0..200_000).map(|n| json!({"key": "k", "path": format!("p{n}")})).collect();
    let volume = json!({"name": "v", "configMap": {"name": "m", "items": items}});
    let spec = json!({"containers": [{"name": "c", "ports": ports}], "volumes": [volume]});
    assert_eq!(of_pod(spec), Vec::<String>::new());
    let same: Vec<Value> = (0..200_000).map(|_| json!({"containerPort": 80, "protocol": "TCP", "name": "p"})).collect();
    let items: Vec<Value> = (0..200_000).map(|_| json!({"key": "k", "path": "p"})).collect();
    let volume = json!({"name": "v", "configMap": {"name": "m", "items": items}});
    let found = of_pod(json!({"containers": [{"name": "c", "ports": same}], "volumes": [volume]}));
    let characters: usize = found.iter().map(|text| text.chars().count()).sum();
    assert!((4096..5000).contains(&characters), "{characters}");
}
