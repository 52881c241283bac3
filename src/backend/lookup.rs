//! A backend that answers questions: a GET with a query, answered with a JSON object.

use super::identity::Identity;
use super::request::{Chunks, Target};
use super::tls::{Source, Tls, Trust};
use super::{AGENT, Access, CallFailure, Client, Endpoint, InvalidAddress, Proxies, SetupError, response};
use crate::cluster::Cluster;
use crate::config::Limits;
use http::Method;
use http::uri::PathAndQuery;
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::time::Instant;

/// A backend at a URL.
pub(crate) struct Lookup {
    client: Client,
    cluster: Arc<Cluster>,
    path: String,
}

impl Lookup {
    /// Creates the backend. `authorities` is the file of the issuers of its certificate; without a file, the system's roots count.
    ///
    /// # Errors
    /// If the URL cannot be used or has a query, or the file cannot be read.
    pub(crate) fn new(
        url: &str,
        authorities: Option<PathBuf>,
        cluster: Arc<Cluster>,
        limits: &Limits,
    ) -> Result<Self, SetupError> {
        if !url.contains("://") || url.contains(['?', '#']) {
            return Err(InvalidAddress::Query(url.to_owned()).into());
        }
        let endpoint = Endpoint::server(url)?.of_operator();
        let trust = authorities.map_or(Trust::System, |file| Trust::Bundle(Source::File(file)));
        let access = Access {
            tls: Arc::new(Tls::new(trust, None, true)?),
            server_name: None,
            identity: Arc::new(Identity::default()),
            agent: AGENT,
            compression: true,
            proxy: Proxies::of_process().for_endpoint(&endpoint),
        };
        let path = endpoint.path().to_owned();
        Ok(Self { client: Client::new(endpoint, access, limits.webhook_response_bytes)?, cluster, path })
    }

    /// Sends the question and returns the object in the answer. There is no second attempt.
    ///
    /// # Errors
    /// If no object comes back until the deadline.
    pub(crate) async fn ask(
        &self,
        question: &[(&str, &str)],
        deadline: Instant,
    ) -> Result<Map<String, Value>, CallFailure> {
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(question).finish();
        let path = if self.path.is_empty() { "/" } else { &self.path };
        let path = PathAndQuery::from_maybe_shared(format!("{path}?{query}"));
        let path = path.map_err(|error| CallFailure::Other(error.to_string()))?;
        let target = Target { method: Method::GET, path, body: Chunks::default(), referer: None };
        let answer = self.client.follow(&self.cluster, &target, deadline).await?;
        response::check(&answer).map_err(|status| CallFailure::Status(Box::new(status)))?;
        Ok(response::object(&answer)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::testing::{HookServer, Reply};
    use crate::cluster::FixedState;
    use std::time::Duration;

    fn lookup(url: &str, authorities: Option<PathBuf>) -> Result<Lookup, SetupError> {
        Lookup::new(url, authorities, Cluster::fixed(FixedState::default()), &Limits::default())
    }

    #[tokio::test]
    async fn a_question_is_a_get_with_a_query() {
        let json = |body: &str| Reply::Http(200, "application/json", body.into());
        let replies = [
            ("usage", json("{\"value\": 1}")),
            ("list", json("[]")),
            ("no", Reply::Http(404, "text/plain", "x".into())),
        ];
        let server = HookServer::start(&replies).await;
        let folder = tempfile::tempdir().unwrap();
        let authorities = folder.path().join("ca.crt");
        std::fs::write(&authorities, server.ca()).unwrap();
        let at = |path: &str| lookup(&server.url(path), Some(authorities.clone())).unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        let answer = at("/usage").ask(&[("image", "a:1&b"), ("kind", "cpu")], deadline).await.unwrap();
        assert_eq!(Value::from(answer), serde_json::json!({"value": 1}));
        assert_eq!(server.seen()[0].path, "/usage?image=a%3A1%26b&kind=cpu");
        for path in ["/list", "/no"] {
            assert!(at(path).ask(&[], deadline).await.is_err(), "{path}");
        }
    }

    #[tokio::test]
    async fn a_call_ends_at_its_deadline() {
        let server = HookServer::start(&[("hang", Reply::Hang)]).await;
        let folder = tempfile::tempdir().unwrap();
        let authorities = folder.path().join("ca.crt");
        std::fs::write(&authorities, server.ca()).unwrap();
        let lookup = lookup(&server.url("/hang"), Some(authorities)).unwrap();
        assert!(lookup.ask(&[], Instant::now() + Duration::from_millis(200)).await.is_err());
    }

    #[test]
    fn urls_that_cannot_be_asked_are_errors() {
        for url in ["", "metrics", "ftp://metrics", "http://", "http://a/b?c=d", "http://user:secret@a/"] {
            assert!(lookup(url, None).is_err(), "{url}");
        }
        assert!(lookup("http://metrics.example:8080/usage", None).is_ok());
        assert!(lookup("https://metrics.example", Some("/nonexistent/ca.crt".into())).is_err());
    }
}
