//! The bound on calls that the API server itself serves: such a call is a request to the API server, and webhooks may match the
//! request. A call within a call fails, because a configuration could otherwise make an endless chain.

use std::future::Future;

tokio::task_local! {
    /// Set while a webhook is called that the API server serves.
    static IN_CALL: ();
}

fn is_in_call() -> bool {
    IN_CALL.try_with(|()| ()).is_ok()
}

/// Runs a call that the API server serves; `None` within another such call.
pub(super) async fn alone<F: Future>(call: F) -> Option<F::Output> {
    if is_in_call() { None } else { Some(IN_CALL.scope((), call).await) }
}

/// Wraps the work of a task that is about to be started, because a task does not inherit the bound from the task that starts it.
pub(crate) fn carried<F: Future>(work: F) -> impl Future<Output = F::Output> {
    let is_nested = is_in_call();
    async move { if is_nested { IN_CALL.scope((), work).await } else { work.await } }
}

#[cfg(test)]
mod tests {
    use super::super::{Clients, Endpoint, Kubeconfig};
    use super::*;
    use crate::body::Body;
    use crate::cluster::{Cluster, Loopback};
    use crate::config::Limits;
    use crate::status::Status;
    use async_trait::async_trait;
    use bytes::Bytes;
    use http::{Response, Uri, header};
    use std::sync::{Arc, Mutex, OnceLock};
    use std::time::Duration;
    use tokio::time::Instant;

    /// An API server that calls its own webhook again for each request, in a task of its own, and redirects.
    #[derive(Default)]
    struct Recursive {
        cluster: OnceLock<Arc<Cluster>>,
        nested: Mutex<Vec<String>>,
    }

    async fn call(cluster: &Cluster) -> Result<u16, String> {
        let clients = Clients::new(&Limits::default(), Kubeconfig::default());
        let client = clients.client(Endpoint::service("default", "kubernetes", 443, "/hook", Vec::new())).unwrap();
        let answer = client.post(cluster, Default::default(), Some(1), Instant::now() + Duration::from_secs(30)).await;
        answer.map(|answer| answer.status.as_u16()).map_err(|why| why.to_string())
    }

    #[async_trait]
    impl Loopback for Recursive {
        async fn create(&self, path: &'static str, _: &serde_json::Value) -> Result<(), Status> {
            panic!("nothing is created at {path}");
        }

        async fn post(&self, uri: Uri, _: Body, _: usize) -> Result<Response<Bytes>, Status> {
            assert_eq!(uri, "/hook?timeout=1s");
            let cluster = self.cluster.get().unwrap().clone();
            let direct = call(&cluster).await.unwrap_err();
            let in_task = tokio::spawn(carried(async move { call(&cluster).await })).await.unwrap().unwrap_err();
            self.nested.lock().unwrap().extend([direct, in_task]);
            let answer = Response::builder().status(307).header(header::LOCATION, "/api/v1/namespaces");
            Ok(answer.body(Bytes::new()).unwrap())
        }
    }

    #[tokio::test]
    async fn a_call_within_a_call_fails_and_no_redirect_is_followed() {
        let (cluster, server) = (Cluster::unconnected(), Arc::new(Recursive::default()));
        assert!(server.cluster.set(cluster.clone()).is_ok());
        let loopback: Arc<dyn Loopback> = server.clone();
        cluster.loop_back_to(Arc::downgrade(&loopback));
        assert_eq!(call(&cluster).await, Ok(307));
        let nested = server.nested.lock().unwrap();
        assert_eq!(nested.len(), 2);
        assert!(
            nested.iter().all(|why| why.ends_with("the call of another webhook that the API server serves")),
            "{nested:?}"
        );
    }
}
