//! Fetches discovery from the API server.

use super::parse::{self, Document, Found, Undiscovered};
use super::{GroupVersion, Table};
use crate::body::chain;
use crate::body::{Body, BoxError, Pieces};
use crate::config::Limits;
use crate::upstream::SharedTransport;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use http::header::ACCEPT;
use http::{Request, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Accepts aggregated discovery, its earlier version, and the legacy documents of older servers, in this order.
const ACCEPTED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
/// The number of parallel calls for group versions, if the API server has no aggregated discovery.
const PARALLEL_CALLS: usize = 4;
/// The size from which on a document takes a worker too long.
const LONG_BYTES: usize = 256 << 10;

/// The result of a refresh: the resources of each group version, or `None` if they could not be fetched.
#[derive(Debug, Default)]
pub(super) struct Fetched(HashMap<String, HashMap<String, Option<GroupVersion>>>);

impl Fetched {
    fn add(&mut self, group: String, version: String, resources: Option<GroupVersion>) {
        self.0.entry(group).or_default().insert(version, resources);
    }

    fn add_found(&mut self, found: Found, old: &Table) {
        let known = || old.0.get(&found.group).and_then(|versions| versions.get(&found.version));
        let outdated = found.stale && known().is_some();
        self.add(found.group, found.version, (!outdated).then_some(found.resources));
    }

    /// The new table. Group versions that could not be fetched keep their old resources.
    pub(super) fn into_table(self, old: &Table) -> Table {
        let table = self.0.into_iter().map(|(group, versions)| {
            let versions = versions.into_iter().filter_map(|(version, resources)| {
                let kept = || old.0.get(&group)?.get(&version).cloned();
                Some((version.clone(), resources.or_else(kept)?))
            });
            let versions = versions.collect();
            (group, versions)
        });
        Table(table.collect())
    }
}

/// Fetches the resources of all group versions. The failure of a single group version is not an error.
pub(super) async fn all(
    transport: &SharedTransport,
    limits: &Arc<Limits>,
    old: &Table,
) -> Result<Fetched, Undiscovered> {
    let mut fetched = Fetched::default();
    let room = Arc::new(AtomicUsize::new(limits.discovery_bytes));
    for path in ["/api", "/apis"] {
        let Some(body) = call(transport, path, limits, &room).await? else { continue };
        match parsed(body).await.map_err(|error| Undiscovered::of(format!("{path}: {error}")))? {
            Document::Aggregated(groups) => groups.into_iter().for_each(|found| fetched.add_found(found, old)),
            Document::Versions(versions) => one_by_one(transport, versions, limits, &room, &mut fetched, old).await?,
        }
    }
    Ok(fetched)
}

/// The document, parsed off the worker if it is long.
async fn parsed(body: Bytes) -> Result<Document, BoxError> {
    if body.len() <= LONG_BYTES {
        return Ok(parse::root(&body)?);
    }
    Ok(tokio::task::spawn_blocking(move || parse::root(&body)).await??)
}

async fn one_by_one(
    transport: &SharedTransport,
    versions: Vec<(String, String)>,
    limits: &Arc<Limits>,
    room: &Arc<AtomicUsize>,
    fetched: &mut Fetched,
    old: &Table,
) -> Result<(), Undiscovered> {
    if versions.len() > limits.discovery_group_versions {
        return Err(Undiscovered::of(format!(
            "{} groups' versions are more than the {} that are read",
            versions.len(),
            limits.discovery_group_versions
        )));
    }
    let ask = |(group, version)| ask(transport.clone(), group, version, limits.clone(), room.clone());
    let calls = versions.into_iter().map(ask);
    let mut answers = stream::iter(calls).buffer_unordered(PARALLEL_CALLS);
    while let Some((group, version, found)) = answers.next().await {
        match found {
            Ok(found) => fetched.add_found(found, old),
            Err(error) => {
                tracing::warn!(%error, "discovery of one group failed; its known resources stay in use");
                fetched.add(group, version, None);
            }
        }
    }
    Ok(())
}

/// One group and version, and the result of the call.
type Answer = (String, String, Result<Found, Undiscovered>);

fn ask(
    transport: SharedTransport,
    group: String,
    version: String,
    limits: Arc<Limits>,
    room: Arc<AtomicUsize>,
) -> BoxFuture<'static, Answer> {
    Box::pin(async move {
        let path = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        let found = match call(&transport, &path, &limits, &room).await {
            Ok(Some(body)) => {
                parse::legacy(&body, &group, &version).map_err(|error| Undiscovered::of(format!("{path}: {error}")))
            }
            Ok(None) => Err(Undiscovered::of(format!("{path}: not found"))),
            Err(error) => Err(error),
        };
        (group, version, found)
    })
}

/// The body of a 200. `None` for a 404, because a server may lack `/api` or `/apis`. `room` has the bytes that the documents of a refresh
/// may still have.
async fn call(
    transport: &SharedTransport,
    path: &str,
    limits: &Limits,
    room: &AtomicUsize,
) -> Result<Option<Bytes>, Undiscovered> {
    let exchange = async {
        let request = Request::get(path).header(ACCEPT, ACCEPTED).body(crate::body::empty());
        let request = request.map_err(|error| Undiscovered::of(format!("{path}: {error}")))?;
        let response = transport.send(request).await;
        let response = response.map_err(|error| Undiscovered::unanswered(format!("{path}: {}", chain(&error))))?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Ok(None),
            status => return Err(Undiscovered::of(format!("{path}: the API server answered {status}"))),
        }
        let body = collect(response.into_body(), limits.discovery_bytes).await;
        let body = body.map_err(|error| Undiscovered::of(format!("{path}: {error}")))?;
        let left = |room: usize| room.checked_sub(body.len());
        if room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).is_err() {
            let all = limits.discovery_bytes;
            return Err(Undiscovered::of(format!("{path}: the documents are larger than {all} bytes together")));
        }
        Ok(Some(body))
    };
    let answer = tokio::time::timeout(limits.call_timeout, exchange).await;
    answer.unwrap_or_else(|_| Err(Undiscovered::of(format!("{path}: no answer in time"))))
}

/// Reads a whole body, unless the body is larger than `limit` bytes.
async fn collect(mut body: Body, limit: usize) -> Result<Bytes, BoxError> {
    let mut pieces = Pieces::default();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        if pieces.len() + data.len() > limit {
            return Err(format!("the body is larger than {limit} bytes").into());
        }
        pieces.push(data, body.size_hint().lower().min(limit as u64));
    }
    Ok(pieces.into_bytes())
}
