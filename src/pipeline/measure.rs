//! The metrics of requests, by kube-apiserver's rules (`k8s.io/apiserver/pkg/endpoints/metrics`): the answers of routes count, and not those of
//! the filters before them.
//!
//! The labels of a route are found once. Clients make up names, so only resources of discovery have series of their own, and the number of
//! series is bounded: definitions may come and go.

mod peak;

use super::Exchange;
use crate::cluster::discovery::Discovery;
use crate::config::Limits;
use crate::metrics::Registry;
use crate::object::version::deprecation;
use crate::request::RequestInfo;
use crate::status::Status;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, Method, Request};
use peak::{InProgress, Peaks};
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    exponential_buckets, linear_buckets,
};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

const API_SERVER: &str = "apiserver";
/// The value of the labels of resources for which there is no room.
const OTHER: &str = "other";
/// The subresources whose requests are connections (`validConnectRequests`).
const CONNECTIONS: [&str; 5] = ["log", "exec", "portforward", "attach", "proxy"];

const DURATIONS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
];
/// The objectives of kube-apiserver begin with the third bucket.
const OBJECTIVES: &[f64] = DURATIONS.split_at(2).1;

/// The labels of a route.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
struct Route<'a> {
    verb: &'static str,
    dry_run: &'static str,
    group: &'a str,
    version: &'a str,
    resource: &'a str,
    subresource: &'a str,
    scope: &'static str,
    component: &'static str,
}

impl Route<'_> {
    fn with_dry_run(&self) -> [&str; 8] {
        let Self { verb, dry_run, group, version, resource, subresource, scope, component } = self;
        [verb, dry_run, group, version, resource, subresource, scope, component]
    }

    fn without_dry_run(&self) -> [&str; 7] {
        let Self { verb, group, version, resource, subresource, scope, component, .. } = self;
        [verb, group, version, resource, subresource, scope, component]
    }
}

/// The names of a route, as they are kept.
#[derive(Debug, Default)]
struct Names {
    group: String,
    version: String,
    resource: String,
    subresource: String,
}

/// The metrics of a route; each has a value from the end of the first request on.
struct Series {
    verb: &'static str,
    dry_run: &'static str,
    scope: &'static str,
    component: &'static str,
    names: Names,
    /// The release that no longer serves a deprecated version; empty if none is known.
    deprecated: Option<String>,
    requests: RwLock<Vec<(u16, IntCounter)>>,
    seconds: OnceLock<Histogram>,
    objective: OnceLock<Histogram>,
    bytes: OnceLock<Histogram>,
}

impl Series {
    fn new(route: &Route<'_>, deprecated: Option<String>) -> Self {
        let Route { verb, dry_run, scope, component, .. } = *route;
        let names = Names {
            group: route.group.to_owned(),
            version: route.version.to_owned(),
            resource: route.resource.to_owned(),
            subresource: route.subresource.to_owned(),
        };
        let (requests, seconds, objective, bytes) = Default::default();
        Self { verb, dry_run, scope, component, names, deprecated, requests, seconds, objective, bytes }
    }

    fn route(&self) -> Route<'_> {
        let Self { verb, dry_run, scope, component, names, .. } = self;
        let Names { group, version, resource, subresource } = names;
        Route { verb, dry_run, group, version, resource, subresource, scope, component }
    }

    fn requests(&self, metrics: &Metrics, code: u16) -> IntCounter {
        let known = self.requests.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, counter)) = known.iter().find(|(known, _)| *known == code) {
            return counter.clone();
        }
        drop(known);
        let route = self.route();
        let [verb, dry_run, group, version, resource, subresource, scope, component] = route.with_dry_run();
        let text = code.to_string();
        let labels = [verb, dry_run, group, version, resource, subresource, scope, component, &text];
        let counter = metrics.requests.with_label_values(&labels);
        self.requests.write().unwrap_or_else(PoisonError::into_inner).push((code, counter.clone()));
        counter
    }
}

struct Metrics {
    requests: IntCounterVec,
    seconds: HistogramVec,
    objectives: HistogramVec,
    validations: HistogramVec,
    bytes: HistogramVec,
    body_bytes: HistogramVec,
    long_running: IntGaugeVec,
    terminations: IntCounterVec,
    aborts: IntCounterVec,
    deprecated: IntGaugeVec,
    authorizations: IntCounterVec,
    authorization_seconds: HistogramVec,
    peaks: Peaks,
    routes: RwLock<HashMap<u64, Arc<Series>>>,
    hasher: RandomState,
    most_routes: usize,
}

/// The metrics of the requests of all tenants, which clones share.
#[derive(Clone)]
pub(super) struct RequestMetrics(Arc<Metrics>);

impl RequestMetrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// If the registry already has one of them.
    pub(super) fn register(registry: &Registry, limits: &Limits) -> prometheus::Result<Self> {
        const WITH_DRY_RUN: [&str; 8] =
            ["verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"];
        let [verb, dry_run, group, version, resource, subresource, scope, component] = WITH_DRY_RUN;
        let without = [verb, group, version, resource, subresource, scope, component];
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let counter = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(counter.clone())).map(|()| counter)
        };
        let gauge = |name: &str, help: &str, labels: &[&str]| {
            let gauge = IntGaugeVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(gauge.clone())).map(|()| gauge)
        };
        let histogram = |name: &str, help: &str, buckets: &[f64], labels: &[&str]| {
            let histogram = HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets.to_vec()), labels)?;
            registry.register(Box::new(histogram.clone())).map(|()| histogram)
        };
        Ok(Self(Arc::new(Metrics {
            requests: counter(
                "apiserver_request_total",
                "[STABLE] Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, component, and HTTP response code.",
                &[verb, dry_run, group, version, resource, subresource, scope, component, "code"],
            )?,
            seconds: histogram(
                "apiserver_request_duration_seconds",
                "[STABLE] Response latency distribution in seconds for each verb, dry run value, group, version, resource, subresource, scope and component.",
                &DURATIONS,
                &WITH_DRY_RUN,
            )?,
            objectives: histogram(
                "apiserver_request_sli_duration_seconds",
                "[ALPHA] Response latency distribution (not counting webhook duration and priority & fairness queue wait times) in seconds for each verb, group, version, resource, subresource, scope and component.",
                OBJECTIVES,
                &without,
            )?,
            validations: histogram(
                "field_validation_request_duration_seconds",
                "[ALPHA] Response latency distribution in seconds for each field validation value",
                OBJECTIVES,
                &["field_validation"],
            )?,
            bytes: histogram(
                "apiserver_response_sizes",
                "[STABLE] Response size distribution in bytes for each group, version, verb, resource, subresource, scope and component.",
                &exponential_buckets(1000.0, 10.0, 7)?,
                &without,
            )?,
            body_bytes: histogram(
                "apiserver_request_body_size_bytes",
                "[ALPHA] Apiserver request body size in bytes broken out by resource and verb.",
                &linear_buckets(50000.0, 100_000.0, 31)?,
                &[group, resource, verb],
            )?,
            long_running: gauge(
                "apiserver_longrunning_requests",
                "[STABLE] Gauge of all active long-running apiserver requests broken out by verb, group, version, resource, scope and component. Not all requests are tracked this way.",
                &without,
            )?,
            terminations: counter(
                "apiserver_request_terminations_total",
                "[ALPHA] Number of requests which apiserver terminated in self-defense.",
                &[verb, group, version, resource, subresource, scope, component, "code"],
            )?,
            aborts: counter(
                "apiserver_request_aborts_total",
                "[ALPHA] Number of requests which apiserver aborted possibly due to a timeout, for each group, version, verb, resource, subresource and scope",
                &[verb, group, version, resource, subresource, scope],
            )?,
            deprecated: gauge(
                "apiserver_requested_deprecated_apis",
                "[STABLE] Gauge of deprecated APIs that have been requested, broken out by API group, version, resource, subresource, and removed_release.",
                &[group, version, resource, subresource, "removed_release"],
            )?,
            authorizations: counter(
                "authorization_attempts_total",
                "[ALPHA] Counter of authorization attempts broken down by result. It can be either 'allowed', 'denied', 'no-opinion' or 'error'.",
                &["result"],
            )?,
            authorization_seconds: histogram(
                "authorization_duration_seconds",
                "[ALPHA] Authorization duration in seconds broken out by result.",
                &exponential_buckets(0.001, 2.0, 15)?,
                &["result"],
            )?,
            peaks: Peaks::register(registry)?,
            routes: RwLock::default(),
            hasher: RandomState::new(),
            most_routes: limits.measured_routes,
        })))
    }

    /// Begins the measurement of a request.
    pub(super) fn begin<B>(&self, request: &Request<B>, info: &RequestInfo) -> Measuring {
        let query = request.uri().query().unwrap_or_default();
        let scope = scope(info);
        Measuring {
            metrics: self.0.clone(),
            started: Instant::now(),
            verb: verb(request.method(), scope, info, request.headers(), query),
            scope,
            dry_run: dry_run(query),
            field_validation: field_validation(query),
            is_read: matches!(*request.method(), Method::GET | Method::HEAD),
            is_aggregated: !info.is_resource_request && wants_aggregated(request.headers()),
            in_progress: (!info.is_long_running()).then(|| self.0.peaks.enter(request.method())),
        }
    }

    /// Records the size of a body that was read.
    pub(super) fn body(&self, info: &RequestInfo, bytes: usize) {
        let verb = if info.verb == "deletecollection" { "delete_collection" } else { &info.verb };
        let labels = [&info.api_group, &info.resource, verb];
        self.0.body_bytes.with_label_values(&labels).observe(bytes as f64);
    }

    /// Records a decision about a caller's permission (`recordAuthorizationMetrics`).
    pub(super) fn authorized<T>(&self, decision: &Result<T, Status>, time: Duration) {
        let result = match decision {
            Ok(_) => "allowed",
            Err(refusal) if refusal.code == 403 => "no-opinion",
            Err(_) => "error",
        };
        self.0.authorizations.with_label_values(&[result]).inc();
        self.0.authorization_seconds.with_label_values(&[result]).observe(time.as_secs_f64());
    }
}

impl Metrics {
    /// The series of a request; `None` for a path or resource that the API server does not have.
    fn series(&self, wanted: &Route<'_>, discovery: &Discovery) -> Option<Arc<Series>> {
        let key = self.hasher.hash_one(wanted);
        let known = self.routes.read().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(series) = known.filter(|series| series.route() == *wanted) {
            return Some(series);
        }
        if wanted.resource.is_empty() {
            return Some(self.add(key, Series::new(wanted, None)));
        }
        let resource = discovery.known(wanted.group, wanted.version, wanted.resource)?;
        if !wanted.subresource.is_empty() && !resource.subresources.contains_key(wanted.subresource) {
            return None;
        }
        let deprecated = deprecation(&resource.kind).map(|text| removed_release(&text));
        let has_room = self.routes.read().unwrap_or_else(PoisonError::into_inner).len() < self.most_routes;
        Some(match has_room {
            true => self.add(key, Series::new(wanted, deprecated)),
            false => Arc::new(Series::new(&folded(wanted), None)),
        })
    }

    fn add(&self, key: u64, series: Series) -> Arc<Series> {
        let series = Arc::new(series);
        self.routes.write().unwrap_or_else(PoisonError::into_inner).insert(key, series.clone());
        series
    }

    /// Counts a request that ended without its handler.
    fn terminated(&self, route: &Route<'_>, code: u16) {
        let [verb, group, version, resource, subresource, scope, component] = route.without_dry_run();
        let labels = [verb, group, version, resource, subresource, scope, component, &code.to_string()];
        self.terminations.with_label_values(&labels).inc();
    }
}

/// The route of a resource for which there is no room.
fn folded<'a>(route: &Route<'a>) -> Route<'a> {
    Route { group: OTHER, version: "", resource: OTHER, subresource: "", ..*route }
}

/// The release in the warning about a deprecated version: `1.38` in `…, unavailable in v1.38+`.
fn removed_release(warning: &str) -> String {
    let release = warning.split_once("unavailable in v").and_then(|(_, rest)| rest.split_once('+'));
    release.map(|(release, _)| release.to_owned()).unwrap_or_default()
}

/// A request whose answer is not known yet.
pub(super) struct Measuring {
    metrics: Arc<Metrics>,
    started: Instant,
    verb: &'static str,
    scope: &'static str,
    dry_run: &'static str,
    field_validation: &'static str,
    is_read: bool,
    is_aggregated: bool,
    in_progress: Option<InProgress>,
}

impl Measuring {
    /// Records the head of the answer. The value records the rest when it is dropped.
    pub(super) fn answered(
        self,
        discovery: &Discovery,
        info: &RequestInfo,
        code: u16,
        refusal: Option<&Status>,
        exchange: &Exchange,
    ) -> Measured {
        let metrics = &self.metrics;
        let wanted = self.route(info);
        let is_dropped = code == 429 && !exchange.is_routed && (self.is_read || refusal.is_some());
        let is_answered = match self.is_read && !exchange.is_routed {
            // The API server's filters answer with 401, 403 and 429.
            true => !matches!(code, 401 | 403 | 429) && (refusal.is_none() || code >= 500),
            false => exchange.is_routed,
        };
        let series = match (is_answered || is_dropped, &wanted) {
            (true, Some(wanted)) => metrics.series(wanted, discovery),
            _ => None,
        };
        let is_late = refusal.is_some_and(Status::is_of_timeout_filter);
        if is_dropped || is_late {
            match (&series, &wanted) {
                (Some(series), _) => metrics.terminated(&series.route(), code),
                (None, Some(wanted)) => metrics.terminated(&folded(wanted), code),
                (None, None) => {}
            }
        }
        if let (true, Some(series)) = (is_dropped, &series) {
            series.requests(metrics, code).inc();
        }
        let series = series.filter(|_| is_answered);
        let long_running = series.as_ref().filter(|_| info.is_long_running() && code < 300).map(|series| {
            let gauge = metrics.long_running.with_label_values(&series.route().without_dry_run());
            gauge.inc();
            gauge
        });
        let is_sized = self.is_read && (self.verb != "CONNECT" || info.subresource == "log");
        Measured {
            started: self.started,
            series,
            code,
            bytes: is_sized.then_some(0),
            webhooks: exchange.webhooks,
            field_validation: self.field_validation,
            long_running,
            _in_progress: self.in_progress,
            metrics: self.metrics,
        }
    }

    /// The route that a request asks for; `None` for a path whose requests kube-apiserver does not count.
    fn route<'a>(&self, info: &'a RequestInfo) -> Option<Route<'a>> {
        let Self { verb, dry_run, scope, .. } = *self;
        let of_path = |subresource, component| {
            let (group, version, resource) = ("", "", "");
            Some(Route { verb, dry_run, group, version, resource, subresource, scope, component })
        };
        if info.is_resource_request && !info.resource.is_empty() {
            let RequestInfo { api_group, api_version, resource, subresource, .. } = info;
            let component = API_SERVER;
            return Some(Route {
                verb,
                dry_run,
                group: api_group,
                version: api_version,
                resource,
                subresource,
                scope,
                component,
            });
        }
        match &*info.path {
            path @ ("/healthz" | "/livez" | "/readyz") => of_path(path, ""),
            path @ ("/api" | "/apis") if self.is_aggregated => of_path(path, API_SERVER),
            "/openapi/v3" => of_path("openapi/v3", ""),
            path if path.starts_with("/openapi/v3/") => of_path("openapi/v3/", ""),
            _ => None,
        }
    }
}

/// An answered request. Dropping the value, when the answer is written, records its time and size.
pub(super) struct Measured {
    metrics: Arc<Metrics>,
    started: Instant,
    /// `None` for a request that does not count.
    series: Option<Arc<Series>>,
    code: u16,
    /// The size of the answer, for the routes that have it.
    bytes: Option<usize>,
    /// The time of webhooks, which is no part of the objective.
    webhooks: Duration,
    field_validation: &'static str,
    long_running: Option<IntGauge>,
    _in_progress: Option<InProgress>,
}

impl Measured {
    /// Adds to the size of the answer.
    pub(super) fn add(&mut self, bytes: usize) {
        self.bytes = self.bytes.map(|sum| sum + bytes);
    }

    /// Counts an answer that is not written to its end.
    pub(super) fn aborted(&self) {
        let Some(series) = &self.series else { return };
        let route = series.route();
        let [verb, group, version, resource, subresource, scope, _] = route.without_dry_run();
        self.metrics.aborts.with_label_values(&[verb, group, version, resource, subresource, scope]).inc();
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        if let Some(gauge) = &self.long_running {
            gauge.dec();
        }
        let Some(series) = &self.series else { return };
        let (metrics, route, time) = (&*self.metrics, series.route(), self.started.elapsed());
        series.requests(metrics, self.code).inc();
        let seconds = || metrics.seconds.with_label_values(&route.with_dry_run());
        series.seconds.get_or_init(seconds).observe(time.as_secs_f64());
        if route.dry_run.is_empty() {
            let objective = || metrics.objectives.with_label_values(&route.without_dry_run());
            let without = time.saturating_sub(self.webhooks);
            series.objective.get_or_init(objective).observe(without.as_secs_f64());
        }
        if let Some(bytes) = self.bytes {
            let sizes = || metrics.bytes.with_label_values(&route.without_dry_run());
            series.bytes.get_or_init(sizes).observe(bytes as f64);
        }
        if let Some(removed) = &series.deprecated {
            let Route { group, version, resource, subresource, .. } = route;
            metrics.deprecated.with_label_values(&[group, version, resource, subresource, removed]).set(1);
        }
        // kube-apiserver names the values and observes nothing (`MonitorRequest`).
        let _ = metrics.validations.with_label_values(&[self.field_validation]);
    }
}

/// `CleanScope`.
fn scope(info: &RequestInfo) -> &'static str {
    if !info.name.is_empty() || info.verb == "create" {
        "resource"
    } else if !info.namespace.is_empty() {
        "namespace"
    } else if info.is_resource_request {
        "cluster"
    } else {
        ""
    }
}

/// `cleanVerb` of `CanonicalVerb`.
fn verb(method: &Method, scope: &str, info: &RequestInfo, headers: &HeaderMap, query: &str) -> &'static str {
    if info.is_resource_request && CONNECTIONS.contains(&&*info.subresource) {
        return "CONNECT";
    }
    match *method {
        Method::GET if info.verb == "watch" || asks_for_watch(query) => "WATCH",
        Method::GET | Method::HEAD if matches!(scope, "resource" | "") => "GET",
        Method::GET | Method::HEAD => "LIST",
        Method::PATCH if is_apply(headers) => "APPLY",
        Method::PATCH => "PATCH",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::CONNECT => "CONNECT",
        _ => OTHER,
    }
}

fn is_apply(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|value| value == "application/apply-patch+yaml")
}

/// Whether the client asks for discovery of all groups in one document.
fn wants_aggregated(headers: &HeaderMap) -> bool {
    headers.get_all(ACCEPT).iter().any(|value| value.to_str().is_ok_and(|text| text.contains("APIGroupDiscoveryList")))
}

/// The values of a parameter of the query. Most requests have none.
fn values<'a>(query: &'a str, name: &'a str) -> impl Iterator<Item = String> + 'a {
    let query = if query.contains(name) { query } else { "" };
    form_urlencoded::parse(query.as_bytes()).filter(move |(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// `getVerbIfWatch`.
fn asks_for_watch(query: &str) -> bool {
    values(query, "watch").next().is_some_and(|value| !matches!(&*value.to_ascii_lowercase(), "0" | "false"))
}

/// `cleanDryRun`.
fn dry_run(query: &str) -> &'static str {
    values(query, "dryRun")
        .fold("", |before, value| if value == "All" && before != "invalid" { "All" } else { "invalid" })
}

/// `cleanFieldValidation`.
fn field_validation(query: &str) -> &'static str {
    if !query.contains("fieldValidation") {
        return "";
    }
    let mut values = values(query, "fieldValidation");
    match (values.next().as_deref(), values.next()) {
        (Some(""), None) => "",
        (Some("Ignore"), None) => "Ignore",
        (Some("Warn"), None) => "Warn",
        (Some("Strict"), None) => "Strict",
        _ => "invalid",
    }
}

#[cfg(test)]
mod tests;
