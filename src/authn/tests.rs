//! Tokens, through every place that a request can carry one in.

use super::fake::{Upstream, failure};
use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderName;
use serde_json::{Value, json};

fn connection() -> Connection {
    Connection {
        remote: ([127, 0, 0, 1], 1).into(),
        certificates: Vec::new(),
        verified: VerifiedCertificates::default(),
        is_http2: false,
        state: Default::default(),
    }
}

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let pair =
        |(name, value): &(&str, &str)| (HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
    pairs.iter().map(pair).collect()
}

/// Whoever's token starts with "good" is alice.
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
    Authenticator::new(config)
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
    for _ in 0..2 {
        assert_eq!(ask("Bearer bad").await.unwrap_err().reasons, ["invalid bearer token"]);
    }
    assert_eq!(upstream.count(), 2);
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
async fn what_the_upstream_said_expires() {
    let upstream = reviewer();
    let authenticator = authenticator(&upstream, |_| {});
    for token in ["Bearer good", "Bearer bad"] {
        for wanted in [1, 1, 2] {
            if wanted == 2 {
                tokio::time::advance(Duration::from_secs(10)).await;
            }
            let _ = username(&authenticator, &[("authorization", token)]).await;
            assert_eq!(upstream.count(), wanted, "{token}");
        }
        upstream.bodies();
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
    let authenticator =
        Authenticator::new(Config { passthrough: Some(upstream.transport()), anonymous: true, ..Config::default() });
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
    let authenticator =
        Authenticator::new(Config { passthrough: Some(upstream.transport()), anonymous: true, ..Config::default() });
    for _ in 0..2 {
        assert!(username(&authenticator, &[("authorization", "Bearer bad")]).await.is_err());
    }
    assert_eq!(upstream.count(), 1);
}

#[test]
fn everybody_who_is_somebody_is_authenticated() {
    let groups = |name: &str, groups: &[&str]| {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        UserInfo { username: name.into(), groups, ..UserInfo::default() }.with_authenticated_group().groups.join(" ")
    };
    assert_eq!(groups("a", &["g"]), "g system:authenticated");
    assert_eq!(groups("a", &[ALL_AUTHENTICATED]), ALL_AUTHENTICATED);
    assert_eq!(groups("a", &[ALL_UNAUTHENTICATED]), ALL_UNAUTHENTICATED);
    assert_eq!(groups(ANONYMOUS, &[]), "");
}
