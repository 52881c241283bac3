//! Authentication: the proxy's responses equal those of the API server.

use crate::harness::{Api, ControlPlane, Proxy, Request, User, folder, get, only, pki, post, proxy_only, upstream};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

fn who_am_i() -> Request {
    post(
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        &json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}),
    )
}

fn user_info(answer: &crate::harness::Answer) -> Value {
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["status"]["userInfo"].clone()
}

#[test]
fn a_client_certificate_names_the_user_as_it_does_at_the_api_server() {
    let proxy = Proxy::before(upstream(), &[]);
    let direct = user_info(&upstream().send(&User::developer(), who_am_i()));
    let through = user_info(&proxy.send(&User::developer(), who_am_i()));
    assert_eq!(through["username"], "alice");
    assert_eq!(through, direct);
}

/// A service account's namespace and token.
fn token_of_a_robot() -> (String, String) {
    let namespace = upstream().namespace("tokens");
    let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    upstream().accepts(post(&accounts, &account));
    let ask = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let answer = upstream().send(&User::admin(), post(&format!("{accounts}/robot/token"), &ask));
    assert_eq!(answer.status, 201, "{}", answer.text());
    (namespace, answer.json()["status"]["token"].as_str().unwrap().to_owned())
}

#[test]
fn a_service_accounts_token_is_reviewed_by_the_api_server() {
    let proxy = Proxy::before(upstream(), &[]);
    let (namespace, token) = token_of_a_robot();
    // A token for an account that has a token already: a subresource with a kind of its own.
    let ask = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/robot/token");
    let answer = proxy.send(&User::admin(), post(&path, &ask));
    assert_eq!(answer.status, 201, "{}", answer.text());
    let robot = User::Token(token);
    let direct = user_info(&upstream().send(&robot, who_am_i()));
    let through = user_info(&proxy.send(&robot, who_am_i()));
    assert_eq!(through["username"], format!("system:serviceaccount:{namespace}:robot"));
    assert_eq!(through, direct);
}

#[test]
fn tokens_of_the_token_file_are_known() {
    let file = folder("tokens").join("tokens.csv");
    std::fs::write(&file, "sesame,bob,42,\"developers,team-b\"\n").unwrap();
    let proxy = Proxy::embedded(&[&format!("--token-auth-file={}", file.display())]);
    let info = user_info(&proxy.send(&User::Token("sesame".into()), who_am_i()));
    assert_eq!(info["username"], "bob");
    assert_eq!(info["uid"], "42");
    assert_eq!(info["groups"], json!(["developers", "team-b", "system:authenticated"]));
    assert!(!proxy.output().contains("sesame"));
}

#[test]
fn an_unknown_client_gets_the_api_servers_401() {
    let proxy = Proxy::before(upstream(), &[]);
    let strangers = [User::Anonymous, User::Token("guess".into())];
    for user in strangers {
        let answer = proxy.send(&user, get("/api/v1/namespaces"));
        assert_eq!(answer.status, 401, "{user:?}: {}", answer.text());
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                            "message": "Unauthorized", "reason": "Unauthorized", "code": 401});
        assert_eq!(answer.json(), status);
    }
    let stranger = User::Certificate(Arc::new(pki().stranger("admin").0));
    match proxy.try_send(&stranger, get("/api/v1/namespaces")) {
        Ok(answer) => assert_eq!(answer.status, 401, "{}", answer.text()),
        // The handshake failed already.
        Err(_) => assert!(upstream().try_send(&stranger, get("/version")).is_err()),
    }
}

#[test]
fn anonymous_callers_are_known_where_they_are_wanted() {
    let proxy = Proxy::embedded(&["--anonymous-auth"]);
    let info = user_info(&proxy.send(&User::Anonymous, who_am_i()));
    assert_eq!(info["username"], "system:anonymous");
    assert_eq!(info["groups"], json!(["system:unauthenticated"]));
}

#[test]
fn impersonation_is_effective_with_the_right_and_refused_without() {
    let proxy = Proxy::before(upstream(), &[]);
    let request = || {
        who_am_i()
            .header("impersonate-user", "carol")
            .header("impersonate-uid", "7")
            .header("impersonate-group", "developers")
            .header("impersonate-extra-scopes", "view")
    };
    let direct = user_info(&upstream().send(&User::admin(), request()));
    assert_eq!(user_info(&proxy.send(&User::admin(), request())), direct);

    let direct = upstream().send(&User::developer(), request());
    let through = proxy.send(&User::developer(), request());
    assert_eq!((through.status, through.json()), (direct.status, direct.json()));
    assert_eq!(through.status, 403);
}

#[test]
fn identity_headers_of_other_clients_than_a_front_proxy_are_ignored() {
    let ca = pki().front_proxy_ca().display().to_string();
    let flags = [
        &*format!("--requestheader-client-ca-file={ca}"),
        "--requestheader-allowed-names=front-proxy",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
    ];
    let proxy = Proxy::before(upstream(), &flags);
    let claim = || who_am_i().header("x-remote-user", "root").header("x-remote-group", "system:masters");
    let info = user_info(&proxy.send(&User::developer(), claim()));
    assert_eq!(info["username"], "alice");

    let front = User::Certificate(Arc::new(pki().front_proxy("front-proxy")));
    let info = user_info(&proxy.send(&front, claim()));
    assert_eq!(
        (&info["username"], &info["groups"]),
        (&json!("root"), &json!(["system:masters", "system:authenticated"]))
    );

    let other = User::Certificate(Arc::new(pki().front_proxy("other")));
    assert_eq!(proxy.send(&other, claim()).status, 401);
}

/// A token of a service account that may do everything.
fn token_for_the_proxy(upstream: &Api) -> String {
    let accounts = "/api/v1/namespaces/kube-system/serviceaccounts";
    let send = |request| {
        let answer = upstream.send(&User::admin(), request);
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()
    };
    send(post(
        accounts,
        &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "admission-proxy"}}),
    ));
    send(post(
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        &json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "admission-proxy"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [{"kind": "ServiceAccount", "name": "admission-proxy", "namespace": "kube-system"}]}),
    ));
    let ask = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    send(post(&format!("{accounts}/admission-proxy/token"), &ask))["status"]["token"].as_str().unwrap().to_owned()
}

/// A kubeconfig with a front proxy's certificate, and with this token for the proxy's own requests.
fn front_proxys_kubeconfig(upstream: &Api, token: &str) -> PathBuf {
    let kubeconfig = upstream.kubeconfig(&User::Certificate(Arc::new(pki().front_proxy("front-proxy"))));
    let mut config: Value = serde_json::from_slice(&std::fs::read(&kubeconfig).unwrap()).unwrap();
    config["users"][0]["user"]["token"] = json!(token);
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    kubeconfig
}

#[test]
fn a_front_proxy_sends_requests_in_the_callers_name() {
    let kubeconfig = front_proxys_kubeconfig(upstream(), &token_for_the_proxy(upstream()));
    let proxy = Proxy::before_kubeconfig(&kubeconfig, &["--upstream-identity=requestheader"]);
    let through = user_info(&proxy.send(&User::developer(), who_am_i()));
    assert_eq!(through, user_info(&upstream().send(&User::developer(), who_am_i())));
}

/// The API server joins the groups of all group headers of its configuration.
#[test]
fn no_header_that_the_upstream_believes_a_front_proxy_is_believed_a_client() {
    let names = [
        "--requestheader-username-headers=X-Gateway-User".to_owned(),
        "--requestheader-group-headers=X-Gateway-Group".to_owned(),
        "--requestheader-extra-headers-prefix=X-Gateway-Extra-".to_owned(),
    ];
    // These headers are configured in addition to the X-Remote- ones.
    let upstream = ControlPlane::start("gateway", &[only(&[]), names.into()].concat());
    let kubeconfig = front_proxys_kubeconfig(&upstream, &token_for_the_proxy(&upstream));
    let proxy = Proxy::before_kubeconfig(&kubeconfig, &["--upstream-identity=requestheader"]);
    let forged = |request: Request| {
        let names = ["x-gateway-user", "X-Gateway-Group", "x-gateway-extra-scopes", "x-remote-group"];
        names.into_iter().fold(request, |request, name| request.header(name, "system:masters"))
    };
    let direct = user_info(&upstream.send(&User::developer(), who_am_i()));
    assert_eq!(user_info(&proxy.send(&User::developer(), forged(who_am_i()))), direct);
    let secrets = get("/api/v1/namespaces/kube-system/secrets");
    assert_eq!(proxy.send(&User::named("mallory", ""), forged(secrets)).status, 403);
}

#[test]
fn a_front_proxy_that_may_not_read_the_names_is_not_ready_and_passes_nothing_on() {
    let kubeconfig = front_proxys_kubeconfig(upstream(), "made up");
    let proxy = Proxy::starting(&kubeconfig, &["--upstream-identity=requestheader"]);
    let reason = crate::harness::eventually("the check", || {
        proxy.health("/readyz/front-proxy-headers").filter(|(_, text)| text.contains("answers with 401"))
    });
    assert_eq!(reason.0, 500);
    assert_eq!(proxy.send(&User::developer(), get("/api/v1/nodes")).status, 503);
}

#[test]
fn with_passthrough_the_caller_shows_the_upstream_its_own_token_and_the_proxy_needs_no_rights() {
    let token = User::Token(token_of_a_robot().1);
    let kubeconfig = upstream().kubeconfig(&User::named("powerless", ""));
    // Plugins that read the cluster would need permissions.
    let [_, none] = proxy_only(&[]);
    let proxy = Proxy::before_kubeconfig(&kubeconfig, &["--upstream-identity=passthrough", &none]);
    let through = user_info(&proxy.send(&token, who_am_i()));
    assert_eq!(through, user_info(&upstream().send(&token, who_am_i())));
    let direct = upstream().send(&token, get("/api/v1/nodes"));
    let answer = proxy.send(&token, get("/api/v1/nodes"));
    assert_eq!((answer.status, answer.json()), (403, direct.json()));
}
