//! Tokens, in every place of a request that can carry one.

use super::fake::{Upstream, failure};
use super::*;
use crate::user::{ALL_AUTHENTICATED, ALL_UNAUTHENTICATED, ANONYMOUS};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderName;
use serde_json::{Value, json};
use std::time::Duration;

fn connection() -> Connection {
    Connection {
        remote: ([127, 0, 0, 1], 1).into(),
        certificates: Vec::new(),
        kept: Default::default(),
        server_name: None,
        is_http2: false,
        state: Default::default(),
    }
}

fn connection_from(last: u8) -> Connection {
    Connection { remote: ([10, 0, 0, last], 1).into(), ..connection() }
}

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let pair =
        |(name, value): &(&str, &str)| (HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
    pairs.iter().map(pair).collect()
}

/// A reviewer for which a token that starts with "good" is alice's.
fn reviewer() -> Arc<Upstream> {
    Upstream::with_status(|review| match review["spec"]["token"].as_str().unwrap() {
        good if good.starts_with("good") => {
            json!({"authenticated": true, "user": {"username": "alice", "groups": ["dev"]}})
        }
        _ => json!({"authenticated": false}),
    })
}

fn authenticator(upstream: &Arc<Upstream>, change: impl Fn(&mut Config)) -> Authenticator {
    let mut config = Config { token_review: Some(upstream.client()), ..Config::default() };
    change(&mut config);
    Authenticator::new(Schemes::new(config), &Sharing::ByUser, None)
}

async fn username(authenticator: &Authenticator, pairs: &[(&str, &str)]) -> Result<String, Unauthorized> {
    let found = authenticator.authenticate(&mut headers(pairs), &connection()).await?;
    Ok(found.user.username.clone())
}

#[tokio::test]
async fn a_token_is_reviewed_once_whoever_asks() {
    let upstream = reviewer();
    let authenticator = authenticator(&upstream, |_| {});
    let ask = |token: &'static str| username(&authenticator, Box::leak(Box::new([("authorization", token)])));
    let (a, b) = tokio::join!(ask("Bearer good"), ask("bearer good x"));
    assert_eq!((a.unwrap().as_str(), b.unwrap().as_str()), ("alice", "alice"));
    assert_eq!(upstream.count(), 1);
    for reviews in [2, 3] {
        assert_eq!(ask("Bearer bad").await.unwrap_err().reasons, ["invalid bearer token"]);
        assert_eq!(upstream.count(), reviews);
    }
}

#[tokio::test]
async fn the_user_is_authenticated_and_the_token_gone() {
    let upstream = reviewer();
    let mut headers = headers(&[("authorization", "Bearer good"), ("x-remote-user", "root")]);
    let found = authenticator(&upstream, |_| {}).authenticate(&mut headers, &connection()).await.unwrap();
    assert_eq!(found.user.groups, ["dev", ALL_AUTHENTICATED]);
    assert!(headers.is_empty(), "{headers:?}");
    assert_eq!(found.credentials, None);
}

#[tokio::test(start_paused = true)]
async fn a_good_token_is_reviewed_again_after_ten_seconds() {
    let upstream = reviewer();
    let authenticator = authenticator(&upstream, |_| {});
    for (seconds, wanted) in [(0, 1), (9, 1), (1, 2)] {
        tokio::time::advance(Duration::from_secs(seconds)).await;
        username(&authenticator, &[("authorization", "Bearer good")]).await.unwrap();
        assert_eq!(upstream.count(), wanted);
    }
}

#[tokio::test(start_paused = true)]
async fn an_upstream_in_trouble_is_asked_again_and_never_believed() {
    for (answer, attempts) in [(failure(500, "InternalError", "down"), 5), (failure(403, "Forbidden", "no"), 1)] {
        let upstream = Upstream::new(move |_, _| answer.clone());
        let authenticator = authenticator(&upstream, |config| config.anonymous = true);
        for call in 1..=2 {
            assert!(username(&authenticator, &[("authorization", "Bearer good")]).await.is_err());
            assert_eq!(upstream.count(), call * attempts);
        }
    }
}

#[tokio::test]
async fn only_a_request_without_credentials_is_anonymous() {
    let upstream = reviewer();
    let open = authenticator(&upstream, |config| config.anonymous = true);
    let closed = authenticator(&upstream, |_| {});
    type Row = (&'static [(&'static str, &'static str)], Option<&'static str>);
    let table: [Row; 5] = [
        (&[], Some(ANONYMOUS)),
        (&[("authorization", "Basic x")], Some(ANONYMOUS)),
        (&[("authorization", "Bearer ")], Some(ANONYMOUS)),
        (&[("authorization", "Bearer good")], Some("alice")),
        (&[("authorization", "Bearer bad")], None),
    ];
    for (headers, wanted) in table {
        assert_eq!(username(&open, headers).await.ok().as_deref(), wanted, "{headers:?}");
        let closed = username(&closed, headers).await.ok();
        assert_eq!(closed.as_deref(), wanted.filter(|name| *name != ANONYMOUS), "{headers:?}");
    }
    let spaced = closed.authenticate(&mut headers(&[("authorization", "Bearer  good")]), &connection()).await;
    assert_eq!(spaced.unwrap_err().warnings.len(), 1);
}

#[tokio::test]
async fn a_websocket_may_carry_its_token_as_a_protocol() {
    let upstream = reviewer();
    let authenticator = authenticator(&upstream, |_| {});
    let token = |token: &str| format!("base64url.bearer.authorization.k8s.io.{}", URL_SAFE_NO_PAD.encode(token));
    let (good, bad) = (token("good"), token("bad"));
    let table = [
        (format!("{good}, v5.channel.k8s.io, x"), true),
        (good.clone(), false),
        (format!("{bad}, x"), false),
        (format!("{good},{good},x"), false),
        (format!("{good}=,x"), false),
    ];
    for (protocol, accepted) in table {
        let mut headers = headers(&[("connection", "keep-alive, Upgrade"), ("upgrade", "WebSocket")]);
        headers.insert("sec-websocket-protocol", protocol.parse().unwrap());
        let found = authenticator.authenticate(&mut headers, &connection()).await;
        assert_eq!(found.is_ok(), accepted, "{protocol}");
        if accepted {
            assert_eq!(headers["sec-websocket-protocol"], "v5.channel.k8s.io,x");
        }
    }
    assert!(username(&authenticator, &[("sec-websocket-protocol", &format!("{good},x"))]).await.is_err());
}

#[tokio::test]
async fn the_file_is_asked_before_the_upstream() {
    let upstream = reviewer();
    let file = StaticTokens::parse(b"good,filed,1\n").unwrap();
    let authenticator = authenticator(&upstream, |config| {
        config.token_file = Some(Arc::new(ArcSwap::from_pointee(StaticTokens::parse(b"good,filed,1\n").unwrap())));
    });
    assert!(file.user("good").is_some());
    assert_eq!(username(&authenticator, &[("authorization", "Bearer good")]).await.unwrap(), "filed");
    assert_eq!(upstream.count(), 0);
    assert_eq!(username(&authenticator, &[("authorization", "Bearer good2")]).await.unwrap(), "alice");
}

#[tokio::test]
async fn a_token_for_somebody_else_is_no_token() {
    for (granted, accepted) in [(json!([]), true), (json!(["x", "api"]), true), (json!(["x"]), false)] {
        let upstream = Upstream::with_status(move |review| {
            assert_eq!(review["spec"]["audiences"], json!(["api"]));
            json!({"authenticated": true, "user": {"username": "alice"}, "audiences": granted})
        });
        let authenticator = authenticator(&upstream, |config| config.api_audiences = vec!["api".into()]);
        assert_eq!(username(&authenticator, &[("authorization", "Bearer good")]).await.is_ok(), accepted);
    }
}

#[tokio::test]
async fn passthrough_shows_the_upstream_the_clients_own_credentials() {
    let upstream = Upstream::new(|path, review: &Value| {
        assert_eq!(
            (path, &review["kind"]),
            ("/apis/authentication.k8s.io/v1/selfsubjectreviews", &json!("SelfSubjectReview"))
        );
        (
            201,
            json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {},
            "status": {"userInfo": {"username": "alice", "groups": ["g"]}}}),
        )
    });
    let authenticator = Authenticator::new(
        Schemes::new(Config { passthrough: Some(upstream.transport()), anonymous: true, ..Config::default() }),
        &Sharing::ByUser,
        None,
    );
    for _ in 0..2 {
        let mut headers = headers(&[("authorization", "Basic eDp5"), ("impersonate-user", "root")]);
        let found = authenticator.authenticate(&mut headers, &connection()).await.unwrap();
        assert_eq!((found.user.username.as_str(), found.user.groups.join(" ")), ("alice", "g".into()));
        assert_eq!(found.credentials.unwrap().authorization.unwrap(), "Basic eDp5");
        assert!(!headers.contains_key("authorization"));
    }
    assert_eq!(upstream.count(), 1);
    let sent = upstream.calls.lock().unwrap()[0].0.clone();
    assert_eq!(sent["authorization"], "Basic eDp5");
    assert!(!sent.contains_key("impersonate-user"));
    let nobody = authenticator.authenticate(&mut HeaderMap::new(), &connection()).await.unwrap();
    assert_eq!((nobody.user.username.as_str(), nobody.credentials), (ANONYMOUS, Some(ClientCredentials::default())));
}

#[tokio::test]
async fn passthrough_refuses_what_the_upstream_refuses() {
    let upstream = Upstream::new(|_, _| failure(401, "Unauthorized", "Unauthorized"));
    let authenticator = Authenticator::new(
        Schemes::new(Config { passthrough: Some(upstream.transport()), anonymous: true, ..Config::default() }),
        &Sharing::ByUser,
        None,
    );
    for asked in 1..=2 {
        assert!(username(&authenticator, &[("authorization", "Bearer bad")]).await.is_err());
        assert_eq!(upstream.count(), asked);
    }
}

#[test]
fn every_user_but_anonymous_is_in_the_group_of_authenticated_users() {
    let groups = |name: &str, groups: &[&str]| {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        UserInfo { username: name.into(), groups, ..UserInfo::default() }.with_authenticated_group().groups.join(" ")
    };
    assert_eq!(groups("a", &["g"]), "g system:authenticated");
    assert_eq!(groups("a", &[ALL_AUTHENTICATED]), ALL_AUTHENTICATED);
    assert_eq!(groups("a", &[ALL_UNAUTHENTICATED]), ALL_UNAUTHENTICATED);
    assert_eq!(groups(ANONYMOUS, &[]), "");
}

/// A reviewer that answers only after the test releases an answer.
fn slow_reviewer() -> (kube::Client, Arc<tokio::sync::Semaphore>, Arc<std::sync::atomic::AtomicUsize>) {
    let (answers, asked) = (Arc::new(tokio::sync::Semaphore::new(0)), Arc::new(std::sync::atomic::AtomicUsize::new(0)));
    let held = (answers.clone(), asked.clone());
    let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
        let (answers, asked) = held.clone();
        async move {
            asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            answers.acquire().await.unwrap().forget();
            let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "metadata": {}, "spec": {},
                "status": {"authenticated": false}});
            let body = kube::client::Body::from(serde_json::to_vec(&review).unwrap());
            Ok::<_, std::convert::Infallible>(http::Response::builder().status(201).body(body).unwrap())
        }
    });
    (kube::Client::new(service, "default"), answers, asked)
}

#[tokio::test(start_paused = true)]
async fn reviews_have_a_bound_and_fewer_for_one_connection() {
    let (client, answers, asked) = slow_reviewer();
    let limits = Limits { credential_reviews: 3, credential_reviews_per_connection: 2, ..Limits::default() };
    let authenticator = Authenticator::new(
        Schemes::new(Config { token_review: Some(client), limits: Arc::new(limits), ..Config::default() }),
        &Sharing::ByUser,
        None,
    );
    let connections = [1, 2, 3].map(connection_from);
    let ask = |connection: usize, token: usize| {
        let (connection, authenticator) = (&connections[connection], &authenticator);
        async move {
            let token = format!("Bearer made-up-{token}");
            authenticator.authenticate(&mut headers(&[("authorization", &token)]), connection).await.unwrap_err()
        }
    };
    let all = async { tokio::join!(ask(0, 0), ask(0, 1), ask(0, 2), ask(1, 3), ask(2, 4)) };
    let telling = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        answers.add_permits(3);
    };
    let ((a, b, c, d, e), ()) = tokio::join!(all, telling);
    assert_eq!(
        [a, b, c, d, e].map(|refused| refused.unreviewed == Some(Unreviewed::Busy)),
        [false, false, true, false, true]
    );
    assert_eq!(asked.load(std::sync::atomic::Ordering::SeqCst), 3);
    answers.add_permits(1);
    assert_eq!(ask(2, 4).await.unreviewed, None);
    assert_eq!(
        crate::status::Status::from(Unauthorized { unreviewed: Some(Unreviewed::Busy), ..Unauthorized::default() })
            .code,
        429
    );
}

#[tokio::test(start_paused = true)]
async fn an_address_has_half_of_the_reviews_over_all_its_connections() {
    let (client, answers, _) = slow_reviewer();
    let limits = Limits { credential_reviews: 4, credential_reviews_per_connection: 4, ..Limits::default() };
    let authenticator = Authenticator::new(
        Schemes::new(Config { token_review: Some(client), limits: Arc::new(limits), ..Config::default() }),
        &Sharing::ByUser,
        None,
    );
    let connections = [1, 1, 1, 2, 2].map(connection_from);
    let ask = async |at: usize| {
        let mut headers = headers(&[("authorization", &format!("Bearer made-up-{at}"))]);
        authenticator.authenticate(&mut headers, &connections[at]).await.unwrap_err().unreviewed
            == Some(Unreviewed::Busy)
    };
    let telling = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        answers.add_permits(4);
    };
    let (busy, ()) = tokio::join!(futures_util::future::join_all((0..5).map(ask)), telling);
    assert_eq!(busy, [false, false, true, false, false]);
}

#[tokio::test(start_paused = true)]
async fn requests_that_address_one_tenant_have_half_of_the_reviews() {
    let (client, answers, asked) = slow_reviewer();
    let limits = Limits { credential_reviews: 4, credential_reviews_per_connection: 4, ..Limits::default() };
    let schemes = Schemes::new(Config { token_review: Some(client), limits: Arc::new(limits), ..Config::default() });
    let of = |name: &str| Authenticator::new(schemes.clone(), &Sharing::AsTenant(name.into()), None);
    let (blue, green) = (of("blue"), of("green"));
    let connections = [1, 2].map(connection_from);
    let ask = |connection: usize, token: usize| {
        let (connection, authenticator) = (&connections[connection], [&blue, &green][connection]);
        async move {
            let token = format!("Bearer made-up-{token}");
            authenticator.authenticate(&mut headers(&[("authorization", &token)]), connection).await.unwrap_err()
        }
    };
    let all = async { tokio::join!(ask(0, 0), ask(0, 1), ask(0, 2), ask(1, 3), ask(1, 4)) };
    let telling = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        answers.add_permits(4);
    };
    let ((a, b, c, d, e), ()) = tokio::join!(all, telling);
    assert_eq!(
        [a, b, c, d, e].map(|refused| refused.unreviewed == Some(Unreviewed::Busy)),
        [false, false, true, false, false]
    );
    assert_eq!(asked.load(std::sync::atomic::Ordering::SeqCst), 4);
}

#[tokio::test(start_paused = true)]
async fn after_a_refusal_a_connection_has_no_further_tokens_reviewed() {
    let (client, answers, asked) = slow_reviewer();
    let config = Config { token_review: Some(client), closes_unauthenticated: true, ..Config::default() };
    let authenticator = Authenticator::new(Schemes::new(config), &Sharing::ByUser, None);
    let connection = Connection { is_http2: true, ..connection() };
    let ask = async |token: usize| {
        let mut headers = headers(&[("authorization", &format!("Bearer made-up-{token}"))]);
        authenticator.authenticate(&mut headers, &connection).await.unwrap_err().unreviewed == Some(Unreviewed::Busy)
    };
    answers.add_permits(8);
    let busy = futures_util::future::join_all((0..250).map(&ask)).await;
    assert_eq!(busy.iter().filter(|busy| !**busy).count(), 8);
    assert_eq!(asked.load(std::sync::atomic::Ordering::SeqCst), 8);
    assert!(ask(250).await && connection.state.is_closing());
}

#[tokio::test(start_paused = true)]
async fn further_requests_with_the_token_that_was_rejected_are_unauthorized() {
    let (client, answers, asked) = slow_reviewer();
    let config = Config { token_review: Some(client), closes_unauthenticated: true, ..Config::default() };
    let authenticator = Authenticator::new(Schemes::new(config), &Sharing::ByUser, None);
    let connection = Connection { is_http2: true, ..connection() };
    let is_busy = async |token: &str| {
        let mut headers = headers(&[("authorization", &format!("Bearer {token}"))]);
        authenticator.authenticate(&mut headers, &connection).await.unwrap_err().unreviewed == Some(Unreviewed::Busy)
    };
    answers.add_permits(8);
    assert!(!is_busy("expired").await);
    assert!(!is_busy("expired").await);
    assert!(is_busy("another").await);
    assert_eq!(asked.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_connection_is_closed_after_a_request_that_did_not_authenticate() {
    let upstream = reviewer();
    let (good, bad): (&[_], &[_]) = (&[("authorization", "Bearer good")], &[("authorization", "Bearer bad")]);
    // The columns: the gate's state, HTTP/2 or not, the requests, and the closing of the connection.
    for (gate, is_http2, requests, closed) in [
        (true, true, [good, good], false),
        (true, true, [good, bad], true),
        (true, true, [good, &[]], true),
        (true, false, [good, bad], false),
        (true, false, [good, &[]], false),
        (true, false, [bad, bad], true),
        (true, false, [&[], &[]], false),
        (false, true, [bad, bad], false),
        (false, false, [bad, bad], false),
    ] {
        let authenticator = authenticator(&upstream, |config| {
            (config.closes_unauthenticated, config.anonymous) = (gate, true);
        });
        let connection = Connection { is_http2, ..connection() };
        for request in requests {
            let _ = authenticator.authenticate(&mut headers(request), &connection).await;
        }
        assert_eq!(connection.state.is_closing(), closed, "{gate} {is_http2} {requests:?}");
        assert_eq!(connection.state.is_authenticated(), requests.contains(&good), "{gate} {is_http2} {requests:?}");
    }
}

#[tokio::test]
async fn a_token_that_is_too_long_is_refused_without_a_review() {
    let upstream = reviewer();
    let authenticator = authenticator(&upstream, |config| Arc::make_mut(&mut config.limits).token_bytes = 4);
    assert!(username(&authenticator, &[("authorization", "Bearer good")]).await.is_ok());
    let refused = username(&authenticator, &[("authorization", "Bearer good2")]).await.unwrap_err();
    assert_eq!(refused.reasons, ["invalid bearer token"]);
    assert_eq!(upstream.count(), 1);
}

#[tokio::test]
async fn no_scheme_gives_a_client_the_mark_of_admitted_requests() {
    let upstream = Upstream::with_status(|_| {
        let extra = json!({"kube-admission-proxy.dev/admitted": ["ns/main"], "scopes": ["a"]});
        json!({"authenticated": true, "user": {"username": "alice", "groups": ["dev", "system:masters"], "extra": extra}})
    });
    let found = |prefix: &'static str| {
        let authenticator = authenticator(&upstream, |config| config.group_prefix = prefix.to_owned());
        async move {
            let mut headers = headers(&[("authorization", "Bearer good")]);
            authenticator.authenticate(&mut headers, &connection()).await.unwrap().user
        }
    };
    let user = found("").await;
    assert_eq!(user.extra.keys().collect::<Vec<_>>(), ["scopes"]);
    assert_eq!(user.groups, ["dev", "system:masters", ALL_AUTHENTICATED]);
    assert_eq!(found("via-proxy:").await.groups, ["via-proxy:dev", "system:masters", ALL_AUTHENTICATED]);
}
