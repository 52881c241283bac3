//! Lists a resource and then watches it, until the future is dropped.
//!
//! A [`Follower`] gets items and events as text, one by one, so that an undecodable object does not affect the others. Pages
//! are bounded in bytes.

use super::decode::{Event, Identity, List, ListMeta};
use crate::body::Pieces;
use crate::config::Limits;
use crate::processor;
use bytes::{Bytes, BytesMut};
use http::{Request, Response, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt;
use kube::Resource;
use kube::api::ApiResource;
use kube::client::Body;
use serde::Deserialize;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// Items of the first page. A further page has as many items as fit into [`PAGE_TARGET`], and at most four times as many as the
/// previous page.
const FIRST_PAGE: usize = 16;
/// The maximum number of items of a page.
const LARGEST_PAGE: usize = 500;
/// The bytes that a page should have.
const PAGE_TARGET: usize = 4 << 20;
/// The maximum bytes of a page of more than one item. A larger page is requested again with fewer items.
const PAGE_BYTES: usize = 16 << 20;
/// `timeoutSeconds` of a watch.
const WATCH_SECONDS: u64 = 290;
/// The time for which a watch may be silent. The time is longer than [`WATCH_SECONDS`], so a silent connection is dead.
const WATCH_SILENCE: Duration = Duration::from_secs(WATCH_SECONDS + 30);
/// The time that a watch must last. A shorter watch counts as failed.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);
/// The pause between two lists of a resource that the API server does not have.
const ABSENT_INTERVAL: Duration = Duration::from_secs(30);
/// The pause between two lists of a resource with more objects than the cache may hold.
const FULL_INTERVAL: Duration = Duration::from_secs(60);
/// The pause after the first failure. Each further failure doubles the pause.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The maximum bytes of an answer that is not a list, and the number of its characters in error texts.
const SMALL_ANSWER: usize = 1 << 20;
const QUOTED: usize = 300;

/// The bounds of a list or watch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The time limit of a page of a list.
    pub(super) list_timeout: Duration,
    /// The time limit of all pages of a list.
    pub(super) whole_list_timeout: Duration,
    /// The maximum bytes of a single object.
    pub(super) object_bytes: usize,
}

impl Bounds {
    /// The bounds of the list and watch that fill a cache.
    pub(super) fn of_cache(limits: &Limits) -> Self {
        Self {
            list_timeout: limits.list_timeout,
            whole_list_timeout: limits.whole_list_timeout,
            object_bytes: limits.object_bytes,
        }
    }
}

/// A resource of the API server, in all namespaces or in one namespace.
#[derive(Clone)]
pub(super) struct Source {
    client: kube::Client,
    resource: ApiResource,
    path: String,
}

impl Source {
    /// All objects of a kind.
    pub(super) fn all<K: Resource<DynamicType = ()>>(client: kube::Client) -> Self {
        Self::of(client, ApiResource::erase::<K>(&()), None)
    }

    /// The objects of a resource in a namespace, or in all namespaces.
    pub(super) fn of(client: kube::Client, resource: ApiResource, namespace: Option<&str>) -> Self {
        let ApiResource { group, version, plural, .. } = &resource;
        let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        let path = match namespace {
            None => format!("{root}/{plural}"),
            Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
        };
        Self { client, resource, path }
    }

    /// The kind of the objects.
    pub(super) fn kind(&self) -> &str {
        &self.resource.kind
    }

    async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Response<Body>, Failure> {
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
        let request = Request::get(format!("{path}?{query}")).body(Body::empty());
        let request = request.map_err(|error| Failure::Broken(error.to_string()))?;
        let sent = self.client.send(request).await;
        let response = sent.map_err(|error| Failure::Unanswered(crate::body::chain(&error)))?;
        if response.status() == StatusCode::OK {
            return Ok(response);
        }
        let code = response.status();
        let body = whole(response.into_body(), SMALL_ANSWER).await.unwrap_or_default();
        Err(Failure::refused(code, &body))
    }

    async fn page(&self, items: usize, next: Option<&str>, bytes: usize) -> Result<Bytes, Failure> {
        let items = items.to_string();
        let mut query = vec![("limit", &*items)];
        query.extend(next.map(|next| ("continue", next)));
        whole(self.get(&self.path, &query).await?.into_body(), bytes).await
    }

    /// Whether discovery confirms within [`ABSENT_INTERVAL`] that the API server does not have the resource.
    pub(super) async fn is_surely_absent(&self) -> bool {
        matches!(timeout(ABSENT_INTERVAL, self.is_absent()).await, Ok(Ok(true)))
    }

    /// Whether discovery shows that the API server does not have the resource. A 404 alone may come from a proxy in between.
    async fn is_absent(&self) -> Result<bool, Failure> {
        #[derive(Deserialize)]
        struct Groups {
            groups: Vec<Group>,
        }
        #[derive(Deserialize)]
        struct Group {
            name: String,
            versions: Vec<Version>,
        }
        #[derive(Deserialize)]
        struct Version {
            version: String,
        }
        #[derive(Deserialize)]
        struct Resources {
            resources: Vec<Named>,
        }
        #[derive(Deserialize)]
        struct Named {
            name: String,
        }
        let ApiResource { group, version, plural, .. } = &self.resource;
        let root = match group.is_empty() {
            true => format!("/api/{version}"),
            false => {
                let all: Groups = self.document("/apis").await?;
                let is_it = |found: &Group| {
                    found.name == *group && found.versions.iter().any(|served| served.version == *version)
                };
                if !all.groups.iter().any(is_it) {
                    return Ok(true);
                }
                format!("/apis/{group}/{version}")
            }
        };
        let known: Resources = self.document(&root).await?;
        Ok(!known.resources.iter().any(|resource| resource.name == *plural))
    }

    async fn document<T: serde::de::DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let body = whole(self.get(path, &[]).await?.into_body(), SMALL_ANSWER).await?;
        serde_json::from_slice(&body).map_err(|_| Failure::Broken(format!("{path} is no discovery document")))
    }
}

/// The reason why a list or watch ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The API server answered with an error.
    #[error("the API server answered {0}: {1}")]
    Refused(u16, String),
    /// The resourceVersion or the continue token is too old.
    #[error("the version is too old")]
    Expired,
    #[error("the list takes too long")]
    Slow,
    #[error("an answer of more than {0} bytes")]
    Large(usize),
    /// The answer is neither a list nor an event. The parser's message is left out, because it may quote the answer.
    #[error("the answer is neither a list nor an event")]
    Garbled,
    #[error(
        "it has more objects than the caches may hold: give the proxy more memory (--memory-limit), or delete objects"
    )]
    Full,
    #[error("the list has no end: two of its pages have the same continue token")]
    Endless,
    /// No group serves the resource of a removed API.
    #[error("{0}")]
    Missing(String),
    /// The API server gave no answer, or the answer broke off.
    #[error("{0}")]
    Unanswered(String),
    #[error("{0}")]
    Broken(String),
}

impl Failure {
    fn refused(code: StatusCode, body: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Status {
            message: String,
        }
        if code == StatusCode::GONE {
            return Self::Expired;
        }
        let said = serde_json::from_slice(body).map(|status: Status| status.message);
        let said = said.unwrap_or_else(|_| String::from_utf8_lossy(body).trim().to_owned());
        Self::Refused(code.as_u16(), said.chars().take(QUOTED).collect())
    }

    /// Whether the cause is the API server's absence, which the log has once, from the probe.
    pub(super) fn is_unanswered(&self) -> bool {
        matches!(self, Self::Unanswered(_))
    }

    /// The HTTP code of the API server's error.
    pub(super) fn code(&self) -> Option<u16> {
        match self {
            Self::Refused(code, _) => Some(*code),
            _ => None,
        }
    }
}

/// The receiver of a resource's objects.
pub(super) trait Follower {
    /// A list begins. Items of an earlier list that did not end are void.
    fn begin(&mut self);
    /// An item of the list.
    fn item(&mut self, object: &str);
    /// The list is complete.
    fn end(&mut self);
    /// An object was added or changed.
    fn applied(&mut self, object: &str);
    /// An object was deleted.
    fn deleted(&mut self, object: &str);
    /// The API server answered, and the watch works.
    fn answered(&mut self);
    /// The API server does not have the resource. Returns whether to look for the resource again later; [`follow`] ends otherwise.
    fn absent(&mut self) -> bool;
    /// The list or watch failed and will be retried.
    fn failed(&mut self, failure: &Failure);
    /// Whether the follower holds too many objects. The resource is then listed again after [`FULL_INTERVAL`].
    fn is_full(&self) -> bool {
        false
    }
}

/// Lists and watches a resource, for ever unless the follower ends at an absent resource.
pub(super) async fn follow(source: &Source, bounds: Bounds, follower: &mut impl Follower) {
    let mut pauses = Pauses::default();
    loop {
        match list(source, bounds, follower).await {
            Ok(version) => {
                follower.answered();
                watch(source, bounds, version, follower, &mut pauses).await;
            }
            Err(failure) => {
                if !retry(source, &failure, follower, &mut pauses).await {
                    return;
                }
            }
        }
    }
}

/// Reports a failure, and waits for the time of the next list. Returns false if there is no next list.
async fn retry(source: &Source, failure: &Failure, follower: &mut impl Follower, pauses: &mut Pauses) -> bool {
    let pause = match failure {
        Failure::Full => FULL_INTERVAL,
        Failure::Refused(404, _) if source.is_surely_absent().await => {
            if !follower.absent() {
                return false;
            }
            sleep(ABSENT_INTERVAL).await;
            return true;
        }
        _ => pauses.next(),
    };
    follower.failed(failure);
    sleep(pause).await;
    true
}

/// Lists all objects. Returns the resourceVersion of the list.
async fn list(source: &Source, bounds: Bounds, follower: &mut impl Follower) -> Result<String, Failure> {
    follower.begin();
    let (mut items, mut next) = (FIRST_PAGE, None);
    let deadline = Instant::now() + bounds.whole_list_timeout;
    // The hashes of the tokens of all pages.
    let (hasher, mut seen) = (RandomState::new(), HashSet::new());
    loop {
        let bytes = if items == 1 { bounds.object_bytes } else { PAGE_BYTES.min(bounds.object_bytes) };
        let until = deadline.min(Instant::now() + bounds.list_timeout);
        let page = timeout_at(until, source.page(items, next.as_deref(), bytes)).await;
        let page = match page {
            Err(_) => return Err(Failure::Slow),
            Ok(Err(Failure::Large(_))) if items > 1 => {
                items = (items / 8).max(1);
                continue;
            }
            Ok(page) => page?,
        };
        let (metadata, count) = processor::block(page.len(), || read_page(&page, follower))?;
        let wanted = PAGE_TARGET / (page.len() / count.max(1)).max(1);
        items = wanted.clamp(1, (items * 4).min(LARGEST_PAGE));
        next = metadata.r#continue.filter(|token| !token.is_empty());
        let Some(token) = &next else {
            follower.end();
            return Ok(metadata.resource_version.unwrap_or_default());
        };
        if !seen.insert(hasher.hash_one(token)) {
            return Err(Failure::Endless);
        }
    }
}

/// Passes the items of a page to the follower. Returns the metadata of the list, and the number of items.
fn read_page(page: &[u8], follower: &mut impl Follower) -> Result<(ListMeta, usize), Failure> {
    let text = String::from_utf8_lossy(page);
    let list: List<'_> = serde_json::from_str(&text).map_err(|_| Failure::Garbled)?;
    let items = list.items.unwrap_or_default();
    items.iter().for_each(|item| follower.item(item.get()));
    if follower.is_full() { Err(Failure::Full) } else { Ok((list.metadata, items.len())) }
}

/// Watches from a resourceVersion on. Returns when a new list is needed.
async fn watch(
    source: &Source,
    bounds: Bounds,
    mut version: String,
    follower: &mut impl Follower,
    pauses: &mut Pauses,
) {
    loop {
        let begun = Instant::now();
        let ended = watch_once(source, bounds, &mut version, follower).await;
        let lasted = begun.elapsed() >= SHORTEST_WATCH;
        if lasted {
            pauses.reset();
        }
        match ended {
            Ok(()) if lasted => {}
            Ok(()) => sleep(pauses.next()).await,
            Err(Failure::Expired) => {
                tracing::info!(kind = source.kind(), "too old resource version; listing again");
                if !lasted {
                    sleep(pauses.next()).await;
                }
                return;
            }
            Err(failure @ (Failure::Refused(404, _) | Failure::Full)) => {
                // The list that follows ends at an absent resource.
                retry(source, &failure, follower, pauses).await;
                return;
            }
            Err(failure) => {
                follower.failed(&failure);
                sleep(pauses.next()).await;
                // A watch from the same version would send the same event again.
                if matches!(failure, Failure::Garbled | Failure::Large(_)) {
                    return;
                }
            }
        }
    }
}

async fn watch_once(
    source: &Source,
    bounds: Bounds,
    version: &mut String,
    follower: &mut impl Follower,
) -> Result<(), Failure> {
    let seconds = WATCH_SECONDS.to_string();
    let query = [
        ("watch", "true"),
        ("allowWatchBookmarks", "true"),
        ("timeoutSeconds", &*seconds),
        ("resourceVersion", &*version),
    ];
    let response = match timeout(WATCH_SILENCE, source.get(&source.path, &query)).await {
        Ok(response) => response?,
        Err(_) => return Err(Failure::Broken("the watch is silent".into())),
    };
    let mut lines = Lines::new(response.into_body(), bounds.object_bytes);
    // A watch that fails within [`SHORTEST_WATCH`] does not count as an answer.
    let mut next = match timeout(SHORTEST_WATCH, lines.next()).await {
        Ok(first) => first?,
        Err(_) => {
            follower.answered();
            lines.next().await?
        }
    };
    while let Some(line) = next {
        if let Some(seen) = processor::block(line.len(), || read_event(&line, follower))? {
            *version = seen;
        }
        follower.answered();
        if follower.is_full() {
            return Err(Failure::Full);
        }
        next = lines.next().await?;
    }
    Ok(())
}

/// Passes an event to the follower. Returns the resourceVersion of its object.
fn read_event(line: &[u8], follower: &mut impl Follower) -> Result<Option<String>, Failure> {
    let line = String::from_utf8_lossy(line);
    let event: Event<'_> = serde_json::from_str(&line).map_err(|_| Failure::Garbled)?;
    let object = event.object.get();
    match &*event.r#type {
        "ADDED" | "MODIFIED" => follower.applied(object),
        "DELETED" => follower.deleted(object),
        "ERROR" => return Err(error_event(object)),
        _ => {}
    }
    Ok(Identity::of(object).resource_version.filter(|seen| !seen.is_empty()))
}

/// The failure in an event of the type `ERROR`, whose object is a Status.
fn error_event(object: &str) -> Failure {
    #[derive(Deserialize)]
    struct Status {
        #[serde(default)]
        code: u16,
    }
    let code = serde_json::from_str(object).map_or(500, |status: Status| status.code);
    Failure::refused(StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), object.as_bytes())
}

/// Reads a whole body of at most `bytes` bytes.
async fn whole(mut body: Body, bytes: usize) -> Result<Bytes, Failure> {
    let mut pieces = Pieces::default();
    while let Some(data) = data(&mut body).await? {
        if pieces.len() + data.len() > bytes {
            return Err(Failure::Large(bytes));
        }
        pieces.push(data, body.size_hint().lower().min(bytes as u64));
    }
    Ok(pieces.into_bytes())
}

/// Reads the next data of a body. `None` at the end.
async fn data(body: &mut Body) -> Result<Option<Bytes>, Failure> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Failure::Unanswered(crate::body::chain(&error)))?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

/// The lines of a watch.
struct Lines {
    body: Body,
    read: BytesMut,
    /// The length of the prefix of `read` that contains no line end.
    searched: usize,
    bytes: usize,
}

impl Lines {
    fn new(body: Body, bytes: usize) -> Self {
        Self { body, read: BytesMut::new(), searched: 0, bytes }
    }

    /// Reads the next line. `None` at the end, also if the body ends within a line.
    async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            if let Some(at) = memchr::memchr(b'\n', self.read.get(self.searched..).unwrap_or_default()) {
                let line = self.read.split_to(self.searched + at + 1).freeze();
                self.searched = 0;
                if line.trim_ascii().is_empty() {
                    continue;
                }
                return Ok(Some(line));
            }
            self.searched = self.read.len();
            if self.searched > self.bytes {
                return Err(Failure::Large(self.bytes));
            }
            match timeout(WATCH_SILENCE, data(&mut self.body)).await {
                Ok(Ok(Some(data))) => self.read.extend_from_slice(&data),
                Ok(Ok(None)) => return Ok(None),
                Ok(Err(failure)) => return Err(failure),
                Err(_) => return Err(Failure::Broken("the watch is silent".into())),
            }
        }
    }
}

/// The pause before a retry, which grows with the number of failures in a row.
#[derive(Default)]
struct Pauses(u32);

impl Pauses {
    fn next(&mut self) -> Duration {
        let pause = FIRST_PAUSE.saturating_mul(1 << self.0.min(10)).min(LONGEST_PAUSE);
        self.0 = self.0.saturating_add(1);
        // Jitter, so that replicas that fail together do not retry together.
        pause.mul_f64(0.75 + rand::random::<f64>() / 2.0)
    }

    fn reset(&mut self) {
        self.0 = 0;
    }
}
