//! Reviews at the upstream, and the caching of answers.

use super::*;
use crate::authn::fake::{Upstream, failure};
use crate::config::Limits;
use http::HeaderValue;
use serde_json::{Value, json};
use std::sync::Arc;

fn alice() -> UserInfo {
    UserInfo {
        username: "alice".into(),
        uid: "u1".into(),
        groups: vec!["dev".into()],
        extra: [("k".to_owned(), vec!["v".to_owned()])].into(),
    }
}

fn list_pods() -> RequestInfo {
    RequestInfo {
        is_resource_request: true,
        verb: "list".into(),
        api_version: "v1".into(),
        namespace: "default".into(),
        resource: "pods".into(),
        path: "/api/v1/namespaces/default/pods".into(),
        ..RequestInfo::default()
    }
}

fn authorizer(upstream: &Arc<Upstream>) -> Authorizer {
    Authorizer::new(
        AccessReviews::new(Config::new(Mode::Webhook, Reviewer::Subject(upstream.client()), &Limits::default())),
        Sharing::ByUser,
    )
}

fn deciding(status: Value) -> Arc<Upstream> {
    Upstream::with_status(move |_| status.clone())
}

#[tokio::test]
async fn asks_for_the_user_and_the_selected_objects() {
    let upstream = deciding(json!({"allowed": true}));
    let info = RequestInfo { field_selector: "spec.nodeName=n".into(), label_selector: "a!=b,c".into(), ..list_pods() };
    authorizer(&upstream).authorize(&alice(), &info, None).await.unwrap();
    assert_eq!(
        upstream.bodies()[0]["spec"],
        json!({
            "user": "alice", "uid": "u1", "groups": ["dev"], "extra": {"k": ["v"]},
            "resourceAttributes": {
                "verb": "list", "version": "v1", "namespace": "default", "resource": "pods",
                "fieldSelector": {"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n"]}]},
                "labelSelector": {"requirements": [
                    {"key": "a", "operator": "NotIn", "values": ["b"]}, {"key": "c", "operator": "Exists"}]}
            }
        })
    );
    let path = RequestInfo { verb: "get".into(), path: "/x".into(), ..RequestInfo::default() };
    authorizer(&upstream).authorize(&alice(), &path, None).await.unwrap();
    assert_eq!(upstream.bodies()[0]["spec"]["nonResourceAttributes"], json!({"verb": "get", "path": "/x"}));
}

#[tokio::test(start_paused = true)]
async fn a_yes_is_believed_for_ten_seconds_and_a_no_not_at_all() {
    for (allowed, after_9_s) in [(true, 1), (false, 2)] {
        let upstream = deciding(json!({"allowed": allowed}));
        let (authorizer, user, info) = (authorizer(&upstream), alice(), list_pods());
        let ask = || authorizer.authorize(&user, &info, None);
        let (first, second) = tokio::join!(ask(), ask());
        assert_eq!((first.is_ok(), second.is_ok(), upstream.count()), (allowed, allowed, 1));
        tokio::time::advance(Duration::from_secs(9)).await;
        let _ = ask().await;
        assert_eq!(upstream.count(), after_9_s);
        tokio::time::advance(Duration::from_secs(1)).await;
        let _ = ask().await;
        assert_eq!(upstream.count(), after_9_s + 1);
    }
}

#[tokio::test]
async fn a_change_of_rights_is_seen_at_once() {
    let upstream = deciding(json!({"allowed": true}));
    let authorizer = authorizer(&upstream);
    for wanted in [1, 1] {
        authorizer.authorize(&alice(), &list_pods(), None).await.unwrap();
        assert_eq!(upstream.count(), wanted);
    }
    let answers = &authorizer.reviews.answers;
    let is_apart = |name: &&str| answers.scope(name) != answers.scope("default");
    let other = ["b", "c", "d", "e"].into_iter().find(is_apart).unwrap();
    for (namespace, wanted) in [(other, 1), ("default", 2), ("", 3)] {
        authorizer.forget_answers(namespace);
        authorizer.authorize(&alice(), &list_pods(), None).await.unwrap();
        assert_eq!(upstream.count(), wanted);
    }
}

#[tokio::test]
async fn answers_are_for_one_user_and_one_thing() {
    let upstream = deciding(json!({"allowed": true}));
    let authorizer = authorizer(&upstream);
    let bob = UserInfo { username: "bob".into(), ..alice() };
    let other = RequestInfo { name: "x".into(), ..list_pods() };
    for (user, info) in [(&alice(), &list_pods()), (&bob, &list_pods()), (&alice(), &other)] {
        authorizer.authorize(user, info, None).await.unwrap();
    }
    assert_eq!(upstream.count(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_users_of_a_tenant_have_its_part_of_the_reviews_and_all_answers() {
    let upstream = deciding(json!({"allowed": true}));
    let config = Config::new(Mode::Webhook, Reviewer::Subject(upstream.client()), &Limits::default());
    let reviews = AccessReviews::new(Config { reviews: 2, ..config });
    let [blue, green] = ["blue", "green"].map(|name| Authorizer::new(reviews.clone(), Sharing::AsTenant(name.into())));
    let taken = reviews.of_tenants.take(&Sharer::Tenant("blue".into()), 1).await;
    let status = blue.authorize(&alice(), &list_pods(), None).await.unwrap_err();
    assert_eq!((status.code, upstream.count()), (500, 0));
    green.authorize(&alice(), &list_pods(), None).await.unwrap();
    blue.authorize(&alice(), &list_pods(), None).await.unwrap();
    assert_eq!(upstream.count(), 1);
    drop(taken);
    let bob = UserInfo { username: "bob".into(), ..alice() };
    blue.authorize(&bob, &list_pods(), None).await.unwrap();
}

#[tokio::test]
async fn long_attributes_are_not_kept() {
    let upstream = deciding(json!({"allowed": true}));
    let authorizer = authorizer(&upstream);
    let info = RequestInfo { name: "x".repeat(MAX_CACHED_ATTRIBUTES_BYTES), ..list_pods() };
    for _ in 0..2 {
        authorizer.authorize(&alice(), &info, None).await.unwrap();
    }
    assert_eq!(upstream.count(), 2);
}

#[tokio::test]
async fn a_refusal_carries_the_reviewers_reason() {
    let upstream = deciding(json!({"allowed": false, "reason": "because"}));
    let status = authorizer(&upstream).authorize(&alice(), &list_pods(), None).await.unwrap_err();
    assert_eq!(
        (status.code, status.message.as_str()),
        (
            403,
            r#"pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "default": because"#
        )
    );
}

#[tokio::test]
async fn an_undecided_request_is_refused_and_not_cached() {
    let upstream = Upstream::new(|_, _| failure(400, "BadRequest", "what?"));
    let authorizer = authorizer(&upstream);
    for _ in 0..2 {
        let status = authorizer.authorize(&alice(), &list_pods(), None).await.unwrap_err();
        assert_eq!((status.code, status.message.as_str()), (500, "Internal error occurred: what?"));
    }
    assert_eq!(upstream.count(), 2);
    let both = deciding(json!({"allowed": true, "denied": true}));
    let status = self::authorizer(&both).authorize(&alice(), &list_pods(), None).await.unwrap_err();
    assert_eq!(status.code, 500);
}

#[tokio::test]
async fn waiting_for_an_answer_takes_little_memory() {
    let upstream = deciding(json!({"allowed": true}));
    let (authorizer, user, info) = (authorizer(&upstream), alice(), list_pods());
    let question = authorizer.authorize(&user, &info, None);
    assert!(size_of_val(&question) < 16 << 10, "{}", size_of_val(&question));
}

#[tokio::test]
async fn always_allow_leaves_requests_to_the_upstream_but_not_checks() {
    let upstream = deciding(json!({"allowed": false}));
    let authorizer = Authorizer::new(
        AccessReviews::new(Config::new(Mode::AlwaysAllow, Reviewer::Subject(upstream.client()), &Limits::default())),
        Sharing::ByUser,
    );
    authorizer.authorize(&alice(), &list_pods(), None).await.unwrap();
    assert_eq!(upstream.count(), 0);
    assert!(!authorizer.check(&alice(), &AccessAttributes::default(), None).await.unwrap().allowed);
}

#[tokio::test]
async fn with_passthrough_the_client_asks_about_itself() {
    let upstream = deciding(json!({"allowed": true}));
    let authorizer = Authorizer::new(
        AccessReviews::new(Config::new(
            Mode::Webhook,
            Reviewer::Oneself(upstream.transport(), upstream.client()),
            &Limits::default(),
        )),
        Sharing::ByUser,
    );
    let credentials = |token| ClientCredentials {
        authorization: Some(HeaderValue::from_static(token)),
        impersonation: vec![("impersonate-user".parse().unwrap(), HeaderValue::from_static("bob"))],
    };
    for token in ["Bearer a", "Bearer a", "Bearer b"] {
        authorizer.authorize(&alice(), &list_pods(), Some(&credentials(token))).await.unwrap();
    }
    assert_eq!(upstream.count(), 2, "one client's answer is not another's");
    let (headers, body) = upstream.calls.lock().unwrap()[0].clone();
    assert_eq!(
        (&headers["authorization"], &headers["impersonate-user"]),
        (&"Bearer a".parse().unwrap(), &"bob".parse().unwrap())
    );
    assert_eq!((&body["kind"], body["spec"].get("user")), (&json!("SelfSubjectAccessReview"), None));
    assert_eq!(authorizer.authorize(&alice(), &list_pods(), None).await.unwrap_err().code, 500);
}

#[tokio::test]
async fn with_passthrough_the_proxy_asks_about_anybody_else() {
    let upstream = deciding(json!({"allowed": true}));
    let reviewer = Reviewer::Oneself(upstream.transport(), upstream.client());
    let authorizer =
        Authorizer::new(AccessReviews::new(Config::new(Mode::Webhook, reviewer, &Limits::default())), Sharing::ByUser);
    for _ in 0..2 {
        assert!(authorizer.check_about(&alice(), &AccessAttributes::default()).await.unwrap().allowed);
    }
    let (headers, body) = upstream.calls.lock().unwrap()[0].clone();
    assert_eq!((&body["kind"], &body["spec"]["user"]), (&json!("SubjectAccessReview"), &json!("alice")));
    assert!(!headers.contains_key("authorization"));
    assert_eq!(upstream.count(), 1);
    let upstream = Upstream::new(|_, _| failure(403, "", "no"));
    let reviewer = Reviewer::Oneself(upstream.transport(), upstream.client());
    let authorizer =
        Authorizer::new(AccessReviews::new(Config::new(Mode::Webhook, reviewer, &Limits::default())), Sharing::ByUser);
    assert!(authorizer.check_about(&alice(), &AccessAttributes::default()).await.is_err());
}

#[tokio::test]
async fn a_client_that_may_not_ask_may_not_act() {
    for code in [401, 403] {
        let upstream = Upstream::new(move |_, _| failure(code, "", "no"));
        let authorizer = Authorizer::new(
            AccessReviews::new(Config::new(
                Mode::Webhook,
                Reviewer::Oneself(upstream.transport(), upstream.client()),
                &Limits::default(),
            )),
            Sharing::ByUser,
        );
        let refused = authorizer.authorize(&alice(), &list_pods(), Some(&ClientCredentials::default())).await;
        assert_eq!(refused.unwrap_err().code, 403);
    }
}
