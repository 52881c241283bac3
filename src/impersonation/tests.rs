//! The users that a requestor may impersonate. The texts are a kube-apiserver 1.36's.

use super::*;
use crate::authn::fake::Upstream;
use crate::authz::{AccessReviews, Config, Mode, Reviewer};
use crate::config::Limits;
use crate::sharer::Sharing;
use http::HeaderName;
use serde_json::{Value, json};

/// An upstream that allows what these lines name: `user verb group/resource[/subresource] [namespace/]name`.
fn allowing(lines: &'static [&'static str]) -> Arc<Upstream> {
    Upstream::with_status(move |review| json!({"allowed": lines.contains(&asked(review).as_str())}))
}

fn asked(review: &Value) -> String {
    let spec = &review["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let a = &spec["resourceAttributes"];
    let subresource =
        Some(text(&a["subresource"])).filter(|s| !s.is_empty()).map(|s| format!("/{s}")).unwrap_or_default();
    let namespace = Some(text(&a["namespace"])).filter(|s| !s.is_empty()).map(|s| format!("{s}/")).unwrap_or_default();
    format!(
        "{} {} {}/{}{subresource} {namespace}{}",
        text(&spec["user"]),
        text(&a["verb"]),
        text(&a["group"]),
        text(&a["resource"]),
        text(&a["name"])
    )
}

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&str, &str)| {
        (HeaderName::from_bytes(format!("impersonate-{name}").as_bytes()).unwrap(), value.parse().unwrap())
    };
    pairs.iter().map(pair).collect()
}

fn user(name: &str) -> UserInfo {
    UserInfo { username: name.into(), ..UserInfo::default() }
}

fn list_pods() -> RequestInfo {
    RequestInfo {
        is_resource_request: true,
        verb: "list".into(),
        resource: "pods".into(),
        api_version: "v1".into(),
        ..RequestInfo::default()
    }
}

struct Case {
    impersonation: Impersonation,
    authorizer: Authorizer,
    upstream: Arc<Upstream>,
}

impl Case {
    fn new(lines: &'static [&'static str]) -> Self {
        let upstream = allowing(lines);
        let authorizer = Authorizer::new(
            AccessReviews::new(Config::new(
                Mode::AlwaysAllow,
                Reviewer::Subject(upstream.client()),
                &Limits::default(),
            )),
            Sharing::ByUser,
        );
        Self { impersonation: Impersonation::default(), authorizer, upstream }
    }

    async fn apply(&self, requestor: &UserInfo, pairs: &[(&str, &str)]) -> Result<Option<Impersonated>, Status> {
        let mut headers = headers(pairs);
        headers.insert("accept", "x".parse().unwrap());
        let result = self.impersonation.apply(&mut headers, requestor, &list_pods(), &self.authorizer, None).await;
        assert_eq!(headers.len(), 1, "{headers:?}");
        result
    }

    async fn refusal(&self, requestor: &str, pairs: &[(&str, &str)]) -> (u16, String) {
        let status = self.apply(&user(requestor), pairs).await.unwrap_err();
        (status.code, status.message)
    }
}

#[tokio::test]
async fn a_request_without_the_headers_causes_no_check() {
    let case = Case::new(&[]);
    assert_eq!(case.apply(&user("alice"), &[]).await, Ok(None));
    assert_eq!(case.apply(&user("alice"), &[("foo", "x")]).await, Ok(None));
    assert_eq!(case.upstream.count(), 0);
}

#[tokio::test]
async fn headers_without_a_user_make_no_sense() {
    let case = Case::new(&[]);
    let table: [(&[(&str, &str)], &str); 2] = [
        (&[("group", "g")], r#"Name:"", UID:"", Groups:[]string{"g"}, Extra:map[string][]string(nil)"#),
        (
            &[("extra-foo%2fbar", "v"), ("uid", "7")],
            r#"Name:"", UID:"7", Groups:[]string(nil), Extra:map[string][]string{"foo/bar":[]string{"v"}}"#,
        ),
    ];
    for (headers, user) in table {
        let message = format!("requested &user.DefaultInfo{{{user}}} without impersonating a user name");
        assert_eq!(case.refusal("alice", headers).await, (400, message));
    }
}

#[tokio::test]
async fn refuses_as_kube_apiserver_does() {
    let case = Case::new(&["imp impersonate /users bob"]);
    let on = |mode: &str| {
        format!(
            r#"pods is forbidden: User "alice" cannot impersonate-on:{mode}:list resource "pods" in API group "" at the cluster scope"#
        )
    };
    assert_eq!(case.refusal("alice", &[("user", "bob")]).await, (403, on("user-info")));
    assert_eq!(case.refusal("alice", &[("user", "system:serviceaccount:ns:sa")]).await, (403, on("serviceaccount")));
    assert_eq!(case.refusal("alice", &[("user", "system:node:n1")]).await, (403, on("arbitrary-node")));
    // A requestor who has impersonated by the legacy verb before gets the rejection of the legacy mode.
    let bob = case.apply(&user("imp"), &[("user", "bob")]).await.unwrap().unwrap();
    assert_eq!((bob.user.groups.join(" "), bob.constraint.as_str()), ("system:authenticated".into(), ""));
    let group = r#"groups "g" is forbidden: User "imp" cannot impersonate resource "groups" in API group "" at the cluster scope"#;
    assert_eq!(case.refusal("imp", &[("user", "bob"), ("group", "g")]).await, (403, group.into()));
    let carl = r#"users "carl" is forbidden: User "imp" cannot impersonate resource "users" in API group "" at the cluster scope"#;
    assert_eq!(case.refusal("imp", &[("user", "carl")]).await, (403, carl.into()));
}

#[tokio::test]
async fn every_part_of_a_user_is_checked_in_order() {
    let case = Case::new(&[
        "imp impersonate /users bob",
        "imp impersonate authentication.k8s.io/uids 7",
        "imp impersonate /groups g",
        "imp impersonate authentication.k8s.io/userextras/foo/bar v",
    ]);
    let wanted = [("user", "bob"), ("extra-Foo%2fBar", "v"), ("uid", "7"), ("group", "g")];
    let bob = case.apply(&user("imp"), &wanted).await.unwrap().unwrap();
    assert_eq!((bob.user.username.as_str(), bob.user.uid.as_str()), ("bob", "7"));
    assert_eq!(
        (bob.user.groups.join(" "), bob.user.extra["foo/bar"].join(" ")),
        ("g system:authenticated".into(), "v".into())
    );
    let order: Vec<_> = case.upstream.bodies().iter().map(asked).collect();
    assert_eq!(
        order,
        [
            "imp impersonate-on:user-info:list /pods ",
            "imp impersonate /users bob",
            "imp impersonate authentication.k8s.io/uids 7",
            "imp impersonate /groups g",
            "imp impersonate authentication.k8s.io/userextras/foo/bar v",
        ]
    );
}

#[tokio::test]
async fn the_groups_follow_from_the_impersonated_user() {
    let case = Case::new(&[
        "imp impersonate /serviceaccounts ns/sa",
        "imp impersonate /users system:anonymous",
        "imp impersonate /users bob",
        "imp impersonate /users system:serviceaccount:BAD:sa",
        "imp impersonate /groups system:unauthenticated",
    ]);
    let table: [(&[(&str, &str)], &str); 4] = [
        (
            &[("user", "system:serviceaccount:ns:sa")],
            "system:serviceaccounts system:serviceaccounts:ns system:authenticated",
        ),
        (&[("user", "system:anonymous")], "system:unauthenticated"),
        (&[("user", "bob"), ("group", "system:unauthenticated")], "system:unauthenticated"),
        (&[("user", "system:serviceaccount:BAD:sa")], "system:authenticated"),
    ];
    for (headers, groups) in table {
        let found = case.apply(&user("imp"), headers).await.unwrap().unwrap();
        assert_eq!(found.user.groups.join(" "), groups, "{headers:?}");
    }
}

#[tokio::test]
async fn constrained_impersonation_needs_both_verbs() {
    let case = Case::new(&[
        "imp impersonate-on:user-info:list /pods ",
        "imp impersonate:user-info authentication.k8s.io/users bob",
        "imp impersonate:user-info authentication.k8s.io/groups *",
    ]);
    let four = [("user", "bob"), ("group", "a"), ("group", "b"), ("group", "c"), ("group", "d")];
    let bob = case.apply(&user("imp"), &four).await.unwrap().unwrap();
    assert_eq!(bob.constraint, "impersonate:user-info");
    let groups = r#"resource "groups" in API group "authentication.k8s.io" at the cluster scope"#;
    let extras = groups.replace("groups", "userextras");
    let invalid = "impersonating an invalid key in extra is not allowed: extra.key: Invalid value:";
    let table = [
        (("group", "system:masters"), groups, "impersonating the system:masters group is not allowed".to_owned()),
        (("group", ""), groups, "impersonating the empty string group is not allowed".to_owned()),
        (
            ("extra-key", "v"),
            &extras,
            format!("{invalid} \"key\": must be a domain-prefixed path (such as \"acme.io/foo\")"),
        ),
        (
            ("extra-A_b.com%2fk", "v"),
            &extras,
            format!(
                "{invalid} \"a_b.com\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
                 '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                 validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ),
        ),
        (
            ("extra-a.com%2f%22", "v"),
            &extras,
            format!(r#"{invalid} "\"": Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')"#),
        ),
        (("extra-a.com%2fk", ""), &extras, "impersonating the empty string value in extra is not allowed".to_owned()),
    ];
    for (header, resource, why) in table {
        let (_, message) = case.refusal("imp", &[("user", "bob"), header]).await;
        let wanted = format!(r#" is forbidden: User "imp" cannot impersonate:user-info {resource}: {why}"#);
        assert!(message.ends_with(&wanted), "{message}");
    }
}

#[tokio::test]
async fn with_passthrough_the_upstream_gets_the_headers_once_they_are_allowed() {
    let upstream = Upstream::with_status(|_| json!({"allowed": true}));
    let authorizer = Authorizer::new(
        AccessReviews::new(Config::new(
            Mode::Webhook,
            Reviewer::Oneself(upstream.transport(), upstream.client()),
            &Limits::default(),
        )),
        Sharing::ByUser,
    );
    let own = ClientCredentials::default();
    let mut headers = headers(&[("user", "bob"), ("foo", "x")]);
    let impersonation = Impersonation::default();
    let alice = user("alice");
    let found =
        impersonation.apply(&mut headers, &alice, &list_pods(), &authorizer, Some(&own)).await.unwrap().unwrap();
    let sent = upstream.calls.lock().unwrap()[0].0.clone();
    assert!(!sent.contains_key("impersonate-user"), "the requestor asks as itself");
    let mut upstream_headers = HeaderMap::new();
    found.credentials.unwrap().write_to(&mut upstream_headers);
    assert_eq!(upstream_headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["impersonate-user"]);
}

#[tokio::test]
async fn a_pod_may_be_its_own_node() {
    let case = Case::new(&[
        "system:serviceaccount:ns:agent impersonate-on:associated-node:list /pods ",
        "system:serviceaccount:ns:agent impersonate:associated-node authentication.k8s.io/nodes *",
    ]);
    let mut agent = user("system:serviceaccount:ns:agent");
    agent.extra.insert("authentication.kubernetes.io/node-name".into(), vec!["n1".into()]);
    let node = case.apply(&agent, &[("user", "system:node:n1")]).await.unwrap().unwrap();
    assert_eq!(node.user.groups, ["system:nodes", "system:authenticated"]);
    assert_eq!(
        case.upstream.bodies()[0]["spec"]["extra"],
        json!({"authentication.kubernetes.io/associated-node-keys": ["authentication.kubernetes.io/node-name"]})
    );
    assert!(case.apply(&agent, &[("user", "system:node:n2")]).await.is_err());
}

#[tokio::test]
async fn without_the_gate_only_the_old_verb_counts() {
    let mut case = Case::new(&[
        "new impersonate:user-info authentication.k8s.io/users bob",
        "new impersonate-on:user-info:list /pods ",
        "old impersonate /users bob",
    ]);
    assert!(case.apply(&user("new"), &[("user", "bob")]).await.is_ok());
    case.impersonation = Impersonation::default().with_gate(false);
    let (code, message) = case.refusal("new", &[("user", "bob")]).await;
    assert_eq!((code, message.contains("cannot impersonate resource \"users\"")), (403, true), "{message}");
    let bob = case.apply(&user("old"), &[("user", "bob")]).await.unwrap().unwrap();
    assert_eq!((bob.user.username.as_str(), bob.constraint.as_str()), ("bob", ""));
}

#[tokio::test]
async fn attempts_and_checks_are_counted_by_mode() {
    let registry = crate::metrics::Registry::new();
    let mut case = Case::new(&[
        "new impersonate:user-info authentication.k8s.io/users bob",
        "new impersonate-on:user-info:list /pods ",
    ]);
    case.impersonation = Impersonation::default().with_metrics(Metrics::register(&registry).unwrap());
    case.apply(&user("new"), &[("user", "bob")]).await.unwrap();
    case.apply(&user("mallory"), &[("user", "bob")]).await.unwrap_err();
    let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
    for line in [
        "apiserver_impersonation_attempts_total{decision=\"allowed\",mode=\"user-info\"} 1",
        "apiserver_impersonation_attempts_total{decision=\"denied\",mode=\"\"} 1",
        "apiserver_impersonation_attempts_duration_seconds_count{decision=\"allowed\",mode=\"user-info\"} 1",
        "apiserver_impersonation_authorization_attempts_total{decision=\"allowed\",mode=\"user-info\"} 2",
        "apiserver_impersonation_authorization_attempts_total{decision=\"denied\",mode=\"legacy\"} 1",
    ] {
        assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
    }
}

#[tokio::test]
async fn one_request_causes_no_more_checks_than_allowed() {
    let mut case = Case::new(&["imp impersonate /users bob", "imp impersonate /groups g"]);
    case.impersonation = Impersonation::new(5);
    let groups = [("group", "g"); 10];
    let wanted: Vec<_> = [("user", "bob")].into_iter().chain(groups).collect();
    case.apply(&user("imp"), &wanted).await.unwrap_err();
    assert!(case.upstream.count() <= 5);
}

#[tokio::test]
async fn the_mark_of_admitted_requests_cannot_be_impersonated() {
    let case = Case::new(&[
        "imp impersonate /users bob",
        "imp impersonate authentication.k8s.io/userextras/kube-admission-proxy.dev/admitted ns/main",
    ]);
    for key in ["extra-kube-admission-proxy.dev%2fadmitted", "extra-Kube-Admission-Proxy.dev%2f%41dmitted"] {
        let (code, message) = case.refusal("imp", &[("user", "bob"), (key, "ns/main")]).await;
        assert_eq!(code, 403, "{message}");
        assert!(message.contains("kube-admission-proxy.dev/admitted marks requests"), "{message}");
    }
    assert_eq!(case.upstream.count(), 0);
}
