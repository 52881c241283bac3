//! Plugins with a configuration, compared with kube-apiserver's own with the same configuration.

use super::pods::{as_developer, container, generated, pod, pods};
use crate::harness::differential::as_of_plugin;
use crate::harness::{Answer, Pair, Request, User, eventually, folder, patch, post, unique};
use serde_json::{Value, json};
use std::fs;
use std::sync::OnceLock;

/// Namespaces that PodNodeSelector's configuration names.
const LISTED: &str = "selector-listed";
const LISTED_TIGHTLY: &str = "selector-listed-tightly";

/// Both sides of every test in this module and in `objects`.
pub fn pair() -> &'static Pair {
    static PAIR: OnceLock<Pair> = OnceLock::new();
    let plugins = [
        "PodNodeSelector",
        "PodTolerationRestriction",
        "EventRateLimit",
        "StorageObjectInUseProtection",
        "OwnerReferencesPermissionEnforcement",
        "PersistentVolumeClaimResize",
        "CertificateApproval",
        "CertificateSigning",
        "CertificateSubjectRestriction",
        "DenyServiceExternalIPs",
    ];
    PAIR.get_or_init(|| {
        let file = folder("configured").join("admission.yaml");
        fs::write(&file, CONFIGURATION).unwrap();
        let flag = format!("--admission-control-config-file={}", file.display());
        Pair::start(&plugins, &[flag], &super::objects::before())
    })
}

const CONFIGURATION: &str = "
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: PodNodeSelector
  configuration:
    podNodeSelectorPluginConfig:
      clusterDefaultNodeSelector: region=west, tier = any
      selector-listed: region=west,tier=any,x=y
      selector-listed-tightly: x=y
- name: PodTolerationRestriction
  configuration:
    apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1
    kind: Configuration
    default: [{key: cluster, operator: Exists}]
    whitelist:
    - {key: cluster, operator: Exists}
    - {key: allowed, operator: Exists, effect: NoExecute, tolerationSeconds: 10}
    - {key: exact, operator: Equal, value: v}
    - {key: node.kubernetes.io/memory-pressure, operator: Exists, effect: NoSchedule}
- name: EventRateLimit
  configuration:
    apiVersion: eventratelimit.admission.k8s.io/v1alpha1
    kind: Configuration
    limits:
    - {type: Namespace, qps: 1, burst: 2, cacheSize: 50}
    - {type: SourceAndObject, qps: 1, burst: 1}
    - {type: User, qps: 1000, burst: 1000}
    - {type: Server, qps: 1000, burst: 1000}
";

fn namespace(name: &str, annotations: Value) -> Request {
    let metadata = json!({"name": name, "annotations": annotations});
    post("/api/v1/namespaces", &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}))
}

#[test]
fn pods_go_where_their_namespace_goes() {
    let here = unique("selector");
    let of = |which: &str| format!("{here}-{which}");
    let selector = |text: &str| json!({"scheduler.alpha.kubernetes.io/node-selector": text});
    pair().set_up(&[
        namespace(&of("plain"), json!({})),
        namespace(&of("own"), selector("a=b, c = d")),
        namespace(&of("empty"), selector("")),
        namespace(&of("broken"), selector("a=b=c")),
        namespace(&of("invalid"), selector("a b=c")),
        namespace(&of("no-value"), selector("a")),
        namespace(LISTED, json!({})),
        namespace(LISTED_TIGHTLY, json!({})),
    ]);
    let create = |namespace: &str, name: &str, selector: Value| {
        post(&pods(namespace), &pod(name, json!({ "nodeSelector": selector })))
    };
    let plain = of("plain");
    pair().compare(as_developer(vec![
        create(&plain, "bare", Value::Null),
        create(&plain, "more", json!({"x": "y"})),
        create(&plain, "same", json!({"region": "west"})),
        create(&plain, "conflict", json!({"region": "east"})),
        post(&pods(&plain), &generated("conflict-", json!({"nodeSelector": {"region": "east"}}))),
        post(&pods(&plain), &pod("invalid", json!({"containers": [], "nodeSelector": {"region": "east"}}))),
        create(&of("own"), "bare", Value::Null),
        create(&of("own"), "conflict", json!({"c": "x"})),
        create(&of("own"), "region", json!({"region": "east"})),
        create(&of("empty"), "bare", Value::Null),
        create(&of("empty"), "given", json!({"region": "east"})),
        create(&of("broken"), "bare", Value::Null),
        create(&of("invalid"), "bare", Value::Null),
        create(&of("no-value"), "bare", Value::Null),
        create(LISTED, "bare", Value::Null),
        create(LISTED, "on-list", json!({"x": "y"})),
        create(LISTED, "off-list", json!({"x": "z"})),
        create(LISTED, "not-on-list", json!({"other": "o"})),
        post(&pods(LISTED), &generated("off-list-", json!({"nodeSelector": {"x": "z"}}))),
        create(LISTED_TIGHTLY, "bare", Value::Null),
        create(&of("missing"), "bare", Value::Null),
        patch(&format!("{}/bare", pods(&plain)), "merge", &json!({"metadata": {"labels": {"a": "b"}}})),
        post(&format!("{}?dryRun=All", pods(&plain)), &pod("dry", json!({}))),
        patch(&format!("{}/applied?fieldManager=me", pods(&plain)), "apply", &pod("applied", json!({}))),
    ]));
}

#[test]
fn pods_tolerate_what_their_namespace_lets_them() {
    let here = unique("tolerated");
    let of = |which: &str| format!("{here}-{which}");
    let (defaults, whitelist) =
        ("scheduler.alpha.kubernetes.io/defaultTolerations", "scheduler.alpha.kubernetes.io/tolerationsWhitelist");
    let own = r#"[{"key":"own","operator":"Equal","value":"v","effect":"NoSchedule"}]"#;
    let list = r#"[{"key":"own","operator":"Exists"},{"key":"","operator":"Exists","effect":"NoSchedule"}]"#;
    pair().set_up(&[
        namespace(&of("plain"), json!({})),
        namespace(&of("own"), json!({defaults: own, whitelist: list})),
        namespace(&of("empty"), json!({defaults: "", whitelist: ""})),
        namespace(&of("empty-list"), json!({defaults: "[]", whitelist: "[]"})),
        namespace(&of("broken"), json!({defaults: "{"})),
        namespace(&of("broken-list"), json!({whitelist: "{\"a\": 1}"})),
        namespace(&of("wrong"), json!({defaults: r#"[{"key":"own","operator":7}]"#})),
    ]);
    let create = |namespace: &str, name: &str, tolerations: Value| {
        post(&pods(namespace), &pod(name, json!({ "tolerations": tolerations })))
    };
    let asking = |name: &str, requests: Value| {
        post(&pods(&of("plain")), &pod(name, json!({"containers": [container("a", json!({ "requests": requests }))]})))
    };
    let toleration = |key: &str, effect: &str, seconds: Value| json!([{"key": key, "operator": "Exists", "effect": effect, "tolerationSeconds": seconds}]);
    let plain = of("plain");
    let one = format!("{}/bare", pods(&plain));
    pair().compare(as_developer(vec![
        create(&plain, "bare", Value::Null),
        create(&plain, "shorter", toleration("allowed", "NoExecute", json!(5))),
        create(&plain, "longer", toleration("allowed", "NoExecute", json!(11))),
        create(&plain, "for-ever", toleration("allowed", "NoExecute", Value::Null)),
        create(&plain, "other-effect", toleration("allowed", "NoSchedule", Value::Null)),
        create(&plain, "exact", json!([{"key": "exact", "operator": "Equal", "value": "v"}])),
        create(&plain, "without-operator", json!([{"key": "exact", "value": "v"}])),
        create(&plain, "wider", json!([{"key": "exact", "operator": "Exists"}])),
        create(&plain, "wildcard", json!([{"operator": "Exists"}])),
        create(&plain, "narrower", json!([{"key": "cluster", "value": "v", "operator": "Equal", "effect": "NoSchedule"}])),
        create(&plain, "unknown", toleration("unknown", "NoSchedule", Value::Null)),
        post(&pods(&plain), &generated("unknown-", json!({"tolerations": toleration("unknown", "NoSchedule", Value::Null)}))),
        asking("burstable", json!({"cpu": "1"})),
        asking("zero", json!({"cpu": "0"})),
        asking("storage", json!({"ephemeral-storage": "1Gi"})),
        create(&of("own"), "bare", Value::Null),
        create(&of("own"), "wider", toleration("own", "", Value::Null)),
        create(&of("own"), "cluster", toleration("cluster", "NoExecute", Value::Null)),
        create(&of("own"), "any", toleration("any", "NoSchedule", Value::Null)),
        create(&of("empty"), "bare", Value::Null),
        create(&of("empty"), "unknown", toleration("unknown", "NoSchedule", Value::Null)),
        create(&of("empty-list"), "unknown", toleration("unknown", "NoSchedule", Value::Null)),
        create(&of("broken"), "bare", Value::Null),
        create(&of("broken-list"), "bare", Value::Null),
        create(&of("wrong"), "bare", Value::Null),
        patch(&one, "merge", &json!({"metadata": {"labels": {"a": "b"}}})),
        patch(
            &one,
            "json",
            &json!([{"op": "add", "path": "/spec/tolerations/-", "value": {"key": "late", "operator": "Exists"}}]),
        ),
        post(
            &pods(&plain),
            &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "claims"}, "status": {"qosClass": "Guaranteed"},
                    "spec": {"containers": [{"name": "a", "image": "i"}]}}),
        ),
    ]));
}

#[test]
fn events_come_in_bounded_numbers() {
    let here = unique("events");
    let of = |which: &str| format!("{here}-{which}");
    let quiet = of("quiet");
    pair().set_up(&[namespace(&of("one"), json!({})), namespace(&of("two"), json!({})), namespace(&quiet, json!({}))]);
    let event = |namespace: &str, name: &str, object: &str| {
        let involved = json!({"apiVersion": "v1", "kind": "Pod", "name": object, "namespace": namespace, "uid": "u"});
        json!({"apiVersion": "v1", "kind": "Event", "metadata": {"generateName": name}, "reason": "r", "message": "m",
               "involvedObject": involved, "source": {"component": "kubelet", "host": "n1"}})
    };
    let events = |namespace: &str| format!("/api/v1/namespaces/{namespace}/events");
    // However slow the machine is, requests above the rate are rejected in the end.
    let refused = |request: &dyn Fn(u32) -> Request| {
        let answers = pair().sides().map(|api| {
            let mut count = 0;
            eventually("an event too many", || {
                count += 1;
                let answer = api.send(&User::developer(), request(count));
                (answer.status != 201 && answer.status != 200).then_some(answer)
            })
        });
        let seen = |answer: &Answer| {
            (answer.status, as_of_plugin(answer.json()), answer.header("retry-after"), answer.header("warning"))
        };
        assert_eq!(seen(&answers[1]), seen(&answers[0]));
        assert_eq!(answers[0].status, 429, "{}", answers[0].text());
    };
    // The same object every time: its limit is lower than the namespace's.
    refused(&|_| post(&events(&of("one")), &event(&of("one"), "same-", "p")));
    // A new object every time: the namespace's limit applies.
    refused(&|count| post(&events(&of("two")), &event(&of("two"), "other-", &format!("p{count}"))));
    pair().set_up(&[post(
        &events(&quiet),
        &json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "known"}, "reason": "r",
                "involvedObject": {"kind": "Pod", "name": "q", "namespace": quiet}}),
    )]);
    refused(&|count| patch(&format!("{}/known", events(&quiet)), "merge", &json!({ "count": count })));
    // An event that is refused as invalid takes no token of the next one.
    let odd = of("odd");
    pair().set_up(&[namespace(&odd, json!({}))]);
    let invalid = |_| {
        let mut event = event(&odd, "invalid-", "p");
        event["involvedObject"]["namespace"] = json!("elsewhere");
        post(&events(&odd), &event)
    };
    let valid = post(&events(&odd), &event(&odd, "valid-", "p"));
    let odd = (0..6).map(invalid).chain([valid]).collect();
    pair().compare(as_developer(odd));
    // Requests without a limit succeed even when all tokens are used up.
    let dry = format!("{}?dryRun=All", events(&quiet));
    let modern = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"generateName": "modern-"},
                        "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "c", "reportingInstance": "i",
                        "action": "a", "reason": "r", "type": "Normal", "regarding": {"kind": "Pod", "name": "q", "namespace": quiet}});
    let free = (0..5).flat_map(|_| {
        [
            post(&dry, &event(&quiet, "dry-", "q")),
            post(&format!("/apis/events.k8s.io/v1/namespaces/{quiet}/events"), &modern),
        ]
    });
    pair().compare(as_developer(free.collect()));
}
