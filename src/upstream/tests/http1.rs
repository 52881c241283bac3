//! Requests over HTTP/1.1.

use super::*;

/// A server without TLS that answers with the number of the connection.
pub(super) async fn plain_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut number = 0;
        while let Ok((stream, _)) = listener.accept().await {
            number += 1;
            let service = hyper::service::service_fn(move |request: Request<Incoming>| async move {
                assert_eq!(request.uri().authority(), None);
                Ok::<_, std::convert::Infallible>(Response::new(full(number.to_string())))
            });
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}

#[tokio::test]
async fn a_connection_without_http2_is_used_again_when_its_answer_was_read() {
    let (remote, _directory) = plain_remote(plain_server().await, Limits::default()).await;
    assert_eq!(text(remote.send(get("/")).await.unwrap()).await, "1");
    // The connection's task decides when the connection is free, so some more may be made, but not one a request.
    let mut numbers = HashSet::new();
    for _ in 0..50 {
        numbers.insert(text(remote.send(get("/")).await.unwrap()).await);
    }
    assert!(numbers.len() < 25, "{numbers:?}");
    let unread = remote.send(get("/")).await.unwrap();
    let other = text(remote.send(get("/")).await.unwrap()).await;
    assert_ne!(text(unread).await, other);
}

/// Answers with the HTTP version of the request.
async fn protocol(request: Request<Incoming>) -> Response<Body> {
    Response::new(full(format!("{:?}", request.version())))
}

/// Sends short reads until one goes by HTTP/1.1, and returns its answer.
async fn over_http1(remote: &Remote) -> Response<Body> {
    loop {
        let response = remote.send(get("/")).await.unwrap();
        if response.version() == http::Version::HTTP_11 {
            return response;
        }
        text(response).await;
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn only_short_requests_use_http1_as_soon_as_it_is_known() {
    let served = serve(protocol);
    let (remote, _directory) = remote_of(&served, "", serde_json::json!({})).await;
    assert_eq!(text(remote.send(get("/")).await.unwrap()).await, "HTTP/2.0");
    assert_eq!(text(over_http1(&remote).await).await, "HTTP/1.1");
    for _ in 0..20 {
        assert_eq!(text(remote.send(get("/")).await.unwrap()).await, "HTTP/1.1");
    }
    let mut watch = get("/?watch=true");
    watch.extensions_mut().insert(LongRunning);
    let of_any_length = StreamBody::new(futures_util::stream::empty::<Result<http_body::Frame<Bytes>, BoxError>>());
    let stream = Request::post("/").body(of_any_length.boxed_unsync()).unwrap();
    let long = Request::post("/").body(full(vec![b'x'; (256 << 10) + 1])).unwrap();
    for request in [watch, stream, long] {
        assert_eq!(text(remote.send(request).await.unwrap()).await, "HTTP/2.0");
    }
    for body in [empty(), full("x"), full(vec![b'x'; 256 << 10])] {
        let write = Request::post("/").body(body).unwrap();
        assert_eq!(text(remote.send(write).await.unwrap()).await, "HTTP/1.1");
    }
    // The server has ended the connection, since it did not read the body.
    text(over_http1(&remote).await).await;
    let both = tokio::join!(remote.send(get("/")), remote.send(get("/")));
    assert_eq!((both.0.unwrap().version(), both.1.unwrap().version()), (http::Version::HTTP_11, http::Version::HTTP_2));
}

/// A relay to a server whose connections can be cut: the first one is the connection with HTTP/2.
struct Relay {
    remote: Remote,
    connections: Arc<Mutex<Vec<tokio::task::JoinHandle<()>>>>,
    _directory: TempDir,
}

impl Relay {
    async fn to(served: &Served) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let directory = tempfile::tempdir().unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let connections = Arc::<Mutex<Vec<_>>>::default();
        let (accepted, server) = (Arc::clone(&connections), served.address);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let relay = tokio::spawn(async move {
                    let mut onward = tokio::net::TcpStream::connect(server).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut stream, &mut onward).await;
                });
                accepted.lock().unwrap().push(relay);
            }
        });
        let path = kubeconfig(directory.path(), &url, Some(&served.authority.pem()), &serde_json::json!({}));
        let remote = Remote::from_kubeconfig(&path, Arc::default()).await.unwrap();
        Self { remote, connections, _directory: directory }
    }

    fn cut(&self, connection: usize) {
        self.connections.lock().unwrap()[connection].abort();
    }
}

#[tokio::test]
async fn a_read_that_meets_the_end_of_its_connection_is_asked_again() {
    let served = serve(protocol);
    let relay = Relay::to(&served).await;
    text(over_http1(&relay.remote).await).await;
    relay.cut(1);
    assert_eq!(text(relay.remote.send(get("/")).await.unwrap()).await, "HTTP/2.0");
    assert_eq!(text(over_http1(&relay.remote).await).await, "HTTP/1.1");
}

#[tokio::test]
async fn a_write_whose_answer_never_came_is_not_sent_again() {
    let (starts, mut started) = mpsc::unbounded_channel();
    let served = serve(move |request: Request<Incoming>| {
        let is_write = request.method() == http::Method::POST;
        if is_write {
            starts.send(request.version()).unwrap();
        }
        async move { if is_write { std::future::pending().await } else { protocol(request).await } }
    });
    let relay = Relay::to(&served).await;
    text(over_http1(&relay.remote).await).await;
    let write = relay.remote.send(Request::post("/").body(full("x")).unwrap());
    let cut = async {
        assert_eq!(started.recv().await, Some(http::Version::HTTP_11));
        relay.cut(1);
    };
    let (answer, ()) = tokio::join!(write, cut);
    assert!(matches!(answer, Err(UpstreamError::Unreachable(_))));
    assert!(started.try_recv().is_err());
}

#[tokio::test]
async fn an_answer_over_http1_that_breaks_off_is_an_error_and_its_connection_is_not_used_again() {
    let (starts, mut started) = mpsc::unbounded_channel();
    let served = serve(move |request: Request<Incoming>| {
        let body = if request.version() == http::Version::HTTP_2 {
            empty()
        } else {
            let (events, mut sent) = mpsc::unbounded_channel::<Result<http_body::Frame<Bytes>, BoxError>>();
            events.send(Ok(http_body::Frame::data(Bytes::from("half")))).unwrap();
            starts.send(events).unwrap();
            StreamBody::new(futures_util::stream::poll_fn(move |context| sent.poll_recv(context))).boxed_unsync()
        };
        async { Response::new(body) }
    });
    let (remote, _directory) = remote_of(&served, "", serde_json::json!({})).await;
    for _ in 0..2 {
        let answer = over_http1(&remote).await;
        started.recv().await.unwrap().send(Err("broken".into())).unwrap();
        assert!(answer.into_body().collect().await.is_err());
    }
}

#[tokio::test]
async fn a_client_that_goes_away_ends_its_read_over_http1() {
    let (ends, mut ended) = mpsc::unbounded_channel();
    let served = serve(move |request: Request<Incoming>| {
        let body = if request.version() == http::Version::HTTP_2 {
            empty()
        } else {
            let (body, dropped) = silent();
            ends.send(dropped).unwrap();
            body
        };
        async { Response::new(body) }
    });
    let (remote, _directory) = remote_of(&served, "", serde_json::json!({})).await;
    let read = over_http1(&remote).await;
    let dropped = ended.recv().await.unwrap();
    drop(read);
    assert!(dropped.await.is_err());
}
