//! Tests of the embedded API server over a socket.

use super::super::{Server, serve};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

#[tokio::test]
async fn both_versions_of_http_are_served_until_the_shutdown_which_ends_watches() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let server = tokio::spawn(serve(Server::new(Arc::default()), listener, async { drop(stopped.await) }));
    for http2 in [false, true] {
        let client = Client::builder(TokioExecutor::new()).http2_only(http2).build_http();
        let post = Request::post(format!("http://{address}/api/v1/namespaces/default/configmaps"))
            .body(Full::new(bytes::Bytes::from(format!("{{\"metadata\": {{\"name\": \"http2-{http2}\"}}}}"))));
        let response = client.request(post.unwrap()).await.unwrap();
        assert_eq!(response.status(), StatusCode::CREATED);
    }
    let client = Client::builder(TokioExecutor::new()).build_http();
    let watch =
        Request::get(format!("http://{address}/api/v1/configmaps?watch=1")).body(Full::<bytes::Bytes>::default());
    let mut events = client.request(watch.unwrap()).await.unwrap().into_body();
    let first = events.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(first.starts_with(b"{\"type\":\"ADDED\""));
    stop.send(()).unwrap();
    server.await.unwrap();
    // The stream ends, with or without an error.
    while let Some(Ok(_)) = events.frame().await {}
}
