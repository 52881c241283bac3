//! Connections to the API server over real sockets.

mod http1;

use super::*;
use crate::body::{empty, full};
use crate::config::Limits;
use crate::server::certificates::Issued;
use crate::server::testing::{Served, ask, serve, silent};
use crate::server::{Connection, Drain};
use crate::status::Status;
use crate::user::UserInfo;
use bytes::Bytes;
use futures_util::FutureExt;
use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt;
use http_body_util::StreamBody;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

/// Writes a kubeconfig for a server.
fn kubeconfig(directory: &Path, url: &str, authority: Option<&str>, user: &serde_json::Value) -> PathBuf {
    let path = directory.join("kubeconfig");
    let mut cluster = serde_json::json!({"server": url});
    if let Some(pem) = authority {
        std::fs::write(directory.join("ca.crt"), pem).unwrap();
        cluster["certificate-authority"] = "ca.crt".into();
    }
    let config = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "c", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    });
    std::fs::write(&path, config.to_string()).unwrap();
    path
}

async fn remote_of(served: &Served, prefix: &str, user: serde_json::Value) -> (Remote, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("https://{}{prefix}", served.address);
    let path = kubeconfig(directory.path(), &url, Some(&served.authority.pem()), &user);
    (Remote::from_kubeconfig(&path, Arc::default()).await.unwrap(), directory)
}

async fn plain_remote(address: SocketAddr, limits: Limits) -> (Remote, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let path = kubeconfig(directory.path(), &format!("http://{address}"), None, &serde_json::json!({}));
    (Remote::from_kubeconfig(&path, Arc::new(limits)).await.unwrap(), directory)
}

fn get(path: &str) -> Request<Body> {
    Request::get(path).body(empty()).unwrap()
}

fn jane() -> UserInfo {
    UserInfo { username: "jane".into(), groups: vec!["system:authenticated".into()], ..UserInfo::default() }
}

fn forwarder(transport: SharedTransport) -> Forwarder {
    Forwarder::new(transport, CallerIdentity::Impersonate, Drain::new())
}

async fn text(response: Response<Body>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// Answers with facts about the request, one a line.
async fn describe(request: Request<Incoming>) -> Response<Body> {
    let connection = request.extensions().get::<Arc<Connection>>().unwrap();
    let header = |name| request.headers().get(name).map_or("-", |value| value.to_str().unwrap());
    Response::new(full(format!(
        "{} {} {} {}",
        request.uri().path_and_query().unwrap(),
        header(header::AUTHORIZATION.as_str()),
        header("impersonate-user"),
        connection.certificates.len(),
    )))
}

fn files_of(issued: &Issued) -> serde_json::Value {
    use base64::{Engine, engine::general_purpose::STANDARD};
    serde_json::json!({
        "client-certificate-data": STANDARD.encode(&issued.certificate_pem),
        "client-key-data": STANDARD.encode(&issued.key_pem),
        "token": "own",
    })
}

#[tokio::test]
async fn sends_the_proxys_own_credentials_below_the_urls_path() {
    let served = serve(describe);
    let issued = served.authority.client("proxy", "system:masters").unwrap();
    let (remote, _directory) = remote_of(&served, "/prefix/", files_of(&issued)).await;
    let forwarder = forwarder(Arc::new(remote));
    let mut request = get("/api/v1/pods?watch=1");
    request.headers_mut().insert(header::AUTHORIZATION, "Bearer client".parse().unwrap());
    let response = forwarder.forward(request, &jane(), None).await.unwrap();
    assert_eq!(text(response).await, "/prefix/api/v1/pods?watch=1 Bearer own jane 1");
}

/// The certificate of a recorded case, with the key of another one.
fn recorded(certificate: &str, key: &str) -> Issued {
    use crate::x509::recorded::case;
    use base64::{Engine, engine::general_purpose::STANDARD};
    let pem =
        |kind: &str, der: &[u8]| format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", STANDARD.encode(der));
    let certificate_pem = pem("CERTIFICATE", &case(certificate).chain[0]);
    Issued { certificate_pem, key_pem: pem("PRIVATE KEY", &case(key).key) }
}

#[tokio::test]
async fn a_certificate_of_version_1_is_the_proxys_own_credential() {
    let issued = recorded;
    for name in ["version 1", "version 1 with an RSA key"] {
        let served = serve(describe);
        let (remote, _directory) = remote_of(&served, "", files_of(&issued(name, name))).await;
        assert_eq!(text(remote.send(get("/")).await.unwrap()).await, "/ Bearer own - 1", "{name}");
    }
    let directory = tempfile::tempdir().unwrap();
    let user = files_of(&issued("version 1", "a leaf of an authority"));
    let path = kubeconfig(directory.path(), "https://127.0.0.1:1", None, &user);
    let error = Remote::from_kubeconfig(&path, Arc::default()).await.unwrap_err().to_string();
    assert!(error.starts_with("the client certificate cannot be used: "), "{error}");
    let user = files_of(&issued("version 1", "version 1"));
    let path = kubeconfig(directory.path(), "https://127.0.0.1:1", None, &user);
    assert!(Remote::from_kubeconfig(&path, Arc::default()).await.is_ok(), "with the system's roots");
    let served = serve(describe);
    let path = kubeconfig(directory.path(), &format!("https://{}", served.address), None, &user);
    change(&path, "\"server\"", "\"insecure-skip-tls-verify\":true,\"server\"");
    let remote = Remote::from_kubeconfig(&path, Arc::default()).await.unwrap();
    assert_eq!(text(remote.send(get("/")).await.unwrap()).await, "/ Bearer own - 1");
}

fn change(path: &Path, from: &str, to: &str) {
    std::fs::write(path, std::fs::read_to_string(path).unwrap().replace(from, to)).unwrap();
}

#[tokio::test]
async fn a_credential_plugin_gives_a_certificate_of_version_1_or_a_token() {
    let (served, directory) = (serve(describe), tempfile::tempdir().unwrap());
    let output = directory.path().join("credential");
    let remote = async |status: serde_json::Value, command: &str| {
        let version = "client.authentication.k8s.io/v1";
        let credential = serde_json::json!({"apiVersion": version, "kind": "ExecCredential", "status": status});
        std::fs::write(&output, credential.to_string()).unwrap();
        let exec = serde_json::json!({
            "apiVersion": version, "command": command, "args": [output], "interactiveMode": "Never",
            "provideClusterInfo": true,
        });
        let (url, user) = (format!("https://{}", served.address), serde_json::json!({"exec": exec}));
        let path = kubeconfig(directory.path(), &url, Some(&served.authority.pem()), &user);
        Remote::from_kubeconfig(&path, Arc::default()).await
    };
    let issued = recorded("version 1", "version 1");
    let pair = serde_json::json!({
        "clientCertificateData": issued.certificate_pem, "clientKeyData": issued.key_pem,
    });
    for (status, answer) in [(pair, "/ - - 1"), (serde_json::json!({"token": "own"}), "/ Bearer own - 0")] {
        let remote = remote(status, "cat").await.unwrap();
        assert_eq!(text(remote.send(get("/")).await.unwrap()).await, answer);
    }
    for (command, why) in [("false", "exit status: 1"), ("/nowhere", "No such file or directory (os error 2)")] {
        let error = remote(serde_json::json!({"token": "secret"}), command).await.unwrap_err().to_string();
        assert_eq!(error, format!("the credential plugin \"{command}\" cannot be used: {why}"));
    }
}

#[tokio::test]
async fn an_authority_that_go_parses_stands_in_a_kubeconfig_beside_others() {
    use rcgen::{CertificateParams, CustomExtension, KeyPair};
    let mut params = CertificateParams::default();
    let mut extension = CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![5, 0]);
    // webpki refuses such an authority.
    extension.set_criticality(true);
    params.custom_extensions.push(extension);
    let odd = params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem();
    let (served, directory) = (serve(describe), tempfile::tempdir().unwrap());
    let (url, user) = (format!("https://{}", served.address), serde_json::json!({"token": "own"}));
    let version_1 = recorded("version 1", "version 1").certificate_pem;
    let authorities = format!("{odd}\n{version_1}\n{}", served.authority.pem());
    let path = kubeconfig(directory.path(), &url, Some(&authorities), &user);
    let remote = Remote::from_kubeconfig(&path, Arc::default()).await.unwrap();
    assert_eq!(text(remote.send(get("/")).await.unwrap()).await, "/ Bearer own - 0");
    let garbage = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    let path = kubeconfig(directory.path(), &url, Some(garbage), &user);
    let error = Remote::from_kubeconfig(&path, Arc::default()).await.unwrap_err().to_string();
    assert!(error.starts_with("certificate-authority cannot be used: x509: "), "{error}");
}

#[tokio::test]
async fn no_path_leads_out_of_the_urls_own() {
    let served = serve(describe);
    let (below, _directory) = remote_of(&served, "/prefix", serde_json::json!({"token": "own"})).await;
    let (alone, _other) = remote_of(&served, "", serde_json::json!({"token": "own"})).await;
    let (below, alone) = (forwarder(Arc::new(below)), forwarder(Arc::new(alone)));
    for path in ["/../v3", "/api/../../v3", "/%2e%2E/v3", "/a%2f..%2f..%2fv3", "/..%5Cv3", "/a/.%2e/..;/v3", "//../v3"]
    {
        let refusal = below.forward(get(path), &jane(), None).await.unwrap_err();
        assert_eq!(refusal.code, 404, "{path}");
        let answer = text(alone.forward(get(path), &jane(), None).await.unwrap()).await;
        assert!(answer.starts_with(&format!("{path} ")), "{answer}");
    }
    assert_eq!(below.forward(get("*"), &jane(), None).await.unwrap_err().code, 404);
    for path in ["/", "/api/v1/pods/a..b/", "/api/v1/namespaces/n/services/s/proxy//a%2Fb"] {
        let answer = text(below.forward(get(path), &jane(), None).await.unwrap()).await;
        assert!(answer.starts_with(&format!("/prefix{path} ")), "{answer}");
    }
}

#[tokio::test]
async fn a_client_that_speaks_for_itself_never_travels_on_the_proxys_certificate() {
    let served = serve(describe);
    let issued = served.authority.client("proxy", "system:masters").unwrap();
    let (remote, _directory) = remote_of(&served, "", files_of(&issued)).await;
    let forwarder = Forwarder::new(Arc::new(remote), CallerIdentity::Passthrough, Drain::new());
    let authorization = Some("Bearer client".parse().unwrap());
    let credentials = ClientCredentials { authorization, impersonation: Vec::new() };
    let response = forwarder.forward(get("/api"), &jane(), Some(&credentials)).await.unwrap();
    assert_eq!(text(response).await, "/api Bearer client - 0");
}

#[tokio::test]
async fn an_empty_tls_server_name_is_none() {
    let served = serve(describe);
    let directory = tempfile::tempdir().unwrap();
    let url = format!("https://{}", served.address);
    let user = serde_json::json!({"token": "own"});
    let path = kubeconfig(directory.path(), &url, Some(&served.authority.pem()), &user);
    let named = std::fs::read_to_string(&path).unwrap().replace("\"server\"", "\"tls-server-name\":\"\",\"server\"");
    std::fs::write(&path, named).unwrap();
    let remote = Remote::from_kubeconfig(&path, Arc::default()).await.unwrap();
    assert_eq!(text(remote.send(get("/")).await.unwrap()).await, "/ Bearer own - 0");
}

#[tokio::test]
async fn follows_a_changed_kubeconfig() {
    let served = serve(describe);
    let (remote, directory) = remote_of(&served, "", serde_json::json!({"token": "one"})).await;
    let asked = async || text(remote.send(get("/")).await.unwrap()).await;
    assert_eq!(asked().await, "/ Bearer one - 0");
    let url = format!("https://{}", served.address);
    let ca = served.authority.pem();
    kubeconfig(directory.path(), &url, Some(&ca), &serde_json::json!({"token": "two"}));
    while asked().await != "/ Bearer two - 0" {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn refuses_a_kubeconfig_that_wants_a_proxy_in_between() {
    let directory = tempfile::tempdir().unwrap();
    let path = kubeconfig(directory.path(), "https://127.0.0.1:1", None, &serde_json::json!({}));
    let with_proxy =
        std::fs::read_to_string(&path).unwrap().replace("\"server\"", "\"proxy-url\":\"http://p\",\"server\"");
    std::fs::write(&path, with_proxy).unwrap();
    let error = Remote::from_kubeconfig(&path, Arc::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "proxy-url is not supported");
}

#[tokio::test]
async fn trailers_pass_in_both_directions() {
    let served = serve(|request: Request<Incoming>| async move {
        Response::new(request.into_body().map_err(Into::into).boxed_unsync())
    });
    let (remote, _directory) = remote_of(&served, "", serde_json::json!({})).await;
    let mut trailers = HeaderMap::new();
    trailers.insert("x-end", "1".parse().unwrap());
    let frames = [Ok(http_body::Frame::data(Bytes::from("data"))), Ok(http_body::Frame::trailers(trailers.clone()))];
    let body = StreamBody::new(futures_util::stream::iter(frames)).boxed_unsync();
    let request = Request::post("/").body(body).unwrap();
    let response = forwarder(Arc::new(remote)).forward(request, &jane(), None).await.unwrap();
    let collected = response.into_body().collect().await.unwrap();
    assert_eq!(collected.trailers(), Some(&trailers));
    assert_eq!(collected.to_bytes(), "data");
}

#[tokio::test]
async fn three_hundred_watches_share_three_connections_and_leave_room_when_they_end() {
    let seen = Arc::new(Mutex::new(HashSet::new()));
    let connections = Arc::clone(&seen);
    let served = serve(move |request: Request<Incoming>| {
        connections.lock().unwrap().insert(request.extensions().get::<Arc<Connection>>().unwrap().remote);
        async { Response::new(silent().0) }
    });
    let (remote, _directory) = remote_of(&served, "", serde_json::json!({})).await;
    for _ in 0..2 {
        let watches = futures_util::future::join_all((0..300).map(|_| remote.send(get("/watch")))).await;
        assert!(watches.iter().all(Result::is_ok));
        assert_eq!(seen.lock().unwrap().len(), 3);
    }
}

#[tokio::test]
async fn no_request_of_a_client_holds_a_connection_of_the_proxys_own_requests() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let connections = Arc::clone(&seen);
    let served = serve(move |request: Request<Incoming>| {
        connections.lock().unwrap().push(request.extensions().get::<Arc<Connection>>().unwrap().remote);
        async { Response::new(silent().0) }
    });
    let directory = tempfile::tempdir().unwrap();
    let url = format!("https://{}", served.address);
    let path = kubeconfig(directory.path(), &url, Some(&served.authority.pem()), &serde_json::json!({}));
    let limits = Limits {
        upstream_connections: 1,
        upstream_streams: 1,
        connection_wait_timeout: Duration::from_millis(50),
        ..Limits::default()
    };
    let remote = Remote::from_kubeconfig(&path, Arc::new(limits)).await.unwrap();
    let request = |is_clients, is_long_running| {
        let mut request = get("/");
        if is_clients {
            request.extensions_mut().insert(OfClient);
        }
        if is_long_running {
            request.extensions_mut().insert(LongRunning);
        }
        request
    };
    let mut held = Vec::new();
    for (is_clients, is_long_running) in [(true, false), (true, true), (false, false), (false, true)] {
        held.push(remote.send(request(is_clients, is_long_running)).await.unwrap());
        if is_long_running {
            let full = remote.send(request(is_clients, is_long_running)).await;
            assert!(matches!(full, Err(UpstreamError::Timeout)));
        }
    }
    assert_eq!(seen.lock().unwrap().iter().collect::<HashSet<_>>().len(), 4);
}

#[tokio::test]
async fn a_connection_outlives_any_number_of_cancelled_watches() {
    let seen = Arc::new(Mutex::new(HashSet::new()));
    let connections = Arc::clone(&seen);
    let served = serve(move |request: Request<Incoming>| {
        connections.lock().unwrap().insert(request.extensions().get::<Arc<Connection>>().unwrap().remote);
        let frames =
            futures_util::stream::iter((0..8).map(|_| Ok(http_body::Frame::data(vec![b'x'; 16 << 10].into()))));
        let events = futures_util::StreamExt::chain(frames, futures_util::stream::pending());
        async { Response::new(StreamBody::new(events).boxed_unsync()) }
    });
    let (remote, _directory) = remote_of(&served, "", serde_json::json!({})).await;
    let watch = || {
        let mut request = get("/watch");
        request.extensions_mut().insert(LongRunning);
        remote.send(request)
    };
    let other = watch().await.unwrap();
    // Twice as many cancelled streams as h2 allows errors by default, with frames under way for each.
    for _ in 0..2048 / 64 {
        let watches = (0..64).map(|_| async {
            let mut watch = watch().await.unwrap();
            assert!(watch.body_mut().frame().await.unwrap().is_ok());
        });
        futures_util::future::join_all(watches).await;
    }
    let mut body = other.into_body();
    for _ in 0..8 {
        assert!(body.frame().await.unwrap().is_ok());
    }
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_client_that_goes_away_ends_its_request_upstream() {
    let (ends, mut ended) = mpsc::unbounded_channel();
    let served = serve(move |_| {
        let (body, dropped) = silent();
        ends.send(dropped).unwrap();
        async { Response::new(body) }
    });
    let (remote, _directory) = remote_of(&served, "", serde_json::json!({})).await;
    let watch = remote.send(get("/watch")).await.unwrap();
    let dropped = ended.recv().await.unwrap();
    drop(watch);
    assert!(dropped.await.is_err());
}

#[tokio::test]
async fn a_watch_outlives_the_kubeconfig_it_was_made_of() {
    let (events, watched) = mpsc::unbounded_channel::<Result<http_body::Frame<Bytes>, BoxError>>();
    let watched = Arc::new(Mutex::new(Some(watched)));
    let served = serve(move |_| {
        let mut watched = watched.lock().unwrap().take().unwrap();
        let frames = futures_util::stream::poll_fn(move |context| watched.poll_recv(context));
        async { Response::new(StreamBody::new(frames).boxed_unsync()) }
    });
    let (remote, _directory) = remote_of(&served, "", serde_json::json!({})).await;
    let watch = remote.send(get("/watch")).await.unwrap();
    // Drops the remote's pool, as a reload does.
    drop(remote);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    events.send(Ok(http_body::Frame::data(Bytes::from("event")))).unwrap();
    drop(events);
    assert_eq!(text(watch).await, "event");
}

#[tokio::test]
async fn an_interrupted_answer_is_an_error() {
    let served = serve(|_| async {
        let frames = [Ok(http_body::Frame::data(Bytes::from("half"))), Err(BoxError::from("broken"))];
        Response::new(StreamBody::new(futures_util::stream::iter(frames)).boxed_unsync())
    });
    let (remote, _directory) = remote_of(&served, "", serde_json::json!({})).await;
    let forwarder = forwarder(Arc::new(remote));
    let front = serve(move |request: Request<Incoming>| {
        let forwarder = forwarder.clone();
        async move {
            let mut request = request.map(|body| body.map_err(Into::into).boxed_unsync());
            strip_connection(&mut request);
            forwarder.forward(request, &jane(), None).await.unwrap()
        }
    });
    let answer = front.http2(None).await.send_request(ask("/")).await;
    assert!(async { answer?.into_body().collect().await }.await.is_err());
    let answer = front.http1(None).await.send_request(ask("/")).await;
    assert!(async { answer?.into_body().collect().await }.await.is_err());
}

async fn refused(address: SocketAddr) -> Status {
    let (remote, _directory) = plain_remote(address, Limits::default()).await;
    forwarder(Arc::new(remote)).forward(get("/"), &jane(), None).await.unwrap_err()
}

#[tokio::test]
async fn a_server_that_is_down_or_resets_is_a_503() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    assert_eq!(refused(address).await.code, 503);

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            // Reads a byte first, so that the connection ends while the request is under way.
            let _ = stream.read_u8().await;
        }
    });
    let status = refused(address).await;
    assert_eq!((status.code, status.reason.as_str()), (503, "ServiceUnavailable"));
}

#[tokio::test]
async fn a_request_without_a_connection_waits_for_one_for_a_bounded_time() {
    let limits = Limits {
        upstream_http1_connections: 1,
        connection_wait_timeout: Duration::from_millis(50),
        ..Limits::default()
    };
    let (remote, _directory) = plain_remote(http1::plain_server().await, limits).await;
    let unread = remote.send(get("/")).await.unwrap();
    assert!(matches!(remote.send(get("/")).await, Err(UpstreamError::Timeout)));
    let (answer, ()) = tokio::join!(remote.send(get("/")), async { drop(unread) });
    assert!(answer.is_ok());
}

/// Upgrades and echoes the bytes.
async fn echo_upgrade(mut request: Request<Incoming>) -> Response<Body> {
    assert_eq!(request.headers()["impersonate-user"], "jane");
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let (mut read, mut write) = tokio::io::split(TokioIo::new(upgrade.await.unwrap()));
        let _ = tokio::io::copy(&mut read, &mut write).await;
    });
    Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "SPDY/3.1")
        .body(empty())
        .unwrap()
}

#[tokio::test]
async fn an_upgrade_passes_bytes_both_ways_and_ends_with_the_drain() {
    let served = serve(echo_upgrade);
    let (remote, _directory) = remote_of(&served, "", serde_json::json!({})).await;
    let drain = Drain::new();
    let forwarder = Forwarder::new(Arc::new(remote), CallerIdentity::Impersonate, drain.clone());
    let seat: Arc<dyn std::any::Any + Send + Sync> = Arc::new(());
    let is_kept = Arc::downgrade(&seat);
    let kept = Mutex::new(Some(KeptUntilClose(seat)));
    let kept = Arc::new(kept);
    let front = serve(move |request: Request<Incoming>| {
        let (forwarder, kept) = (forwarder.clone(), kept.clone());
        async move {
            let mut request = request.map(|body| body.map_err(Into::into).boxed_unsync());
            strip_connection(&mut request);
            if let Some(kept) = kept.lock().unwrap().take() {
                request.extensions_mut().insert(kept);
            }
            forwarder.forward(request, &jane(), None).await.unwrap()
        }
    });
    let mut request = ask("/exec");
    request.headers_mut().insert(header::CONNECTION, "Upgrade".parse().unwrap());
    request.headers_mut().insert(header::UPGRADE, "SPDY/3.1".parse().unwrap());
    let mut response = front.http1(None).await.send_request(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    assert_eq!(response.headers()[header::UPGRADE], "SPDY/3.1");
    let mut stream = TokioIo::new(hyper::upgrade::on(&mut response).await.unwrap());
    stream.write_all(b"hello").await.unwrap();
    let mut back = [0; 5];
    stream.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"hello");
    assert!(is_kept.upgrade().is_some());

    drain.start(Duration::ZERO).await;
    drain.finished().await;
    assert!(is_kept.upgrade().is_none());
    // A connection that ends without close_notify gives an error, which counts as an end as well.
    let end = stream.read(&mut back).await;
    assert!(matches!(end, Ok(0) | Err(_)));
}

#[tokio::test]
async fn an_upgrade_that_the_server_refuses_is_passed_as_it_is() {
    let served = serve(|_| async { Response::builder().status(403).body(full("no")).unwrap() });
    let (remote, _directory) = remote_of(&served, "", serde_json::json!({})).await;
    let mut request = get("/exec");
    request.headers_mut().insert(header::CONNECTION, "Upgrade".parse().unwrap());
    request.headers_mut().insert(header::UPGRADE, "websocket".parse().unwrap());
    strip_connection(&mut request);
    let response = forwarder(Arc::new(remote)).forward(request, &jane(), None).await.unwrap();
    assert_eq!(response.status(), 403);
    assert_eq!(text(response).await, "no");
}

#[tokio::test]
async fn a_request_that_is_dropped_while_it_waits_is_cancelled() {
    let (started, start) = oneshot::channel();
    let started = Mutex::new(Some(started));
    let transport = from_fn(move |_| {
        let guard = started.lock().unwrap().take().unwrap();
        async move {
            let _guard: oneshot::Sender<()> = guard;
            std::future::pending().await
        }
    });
    let forwarder = forwarder(transport);
    let user = jane();
    let mut waiting = Box::pin(forwarder.forward(get("/"), &user, None));
    assert!(waiting.as_mut().now_or_never().is_none());
    drop(waiting);
    assert!(start.await.is_err());
}
