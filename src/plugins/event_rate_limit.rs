//! EventRateLimit: limits the rate of events of the server, a namespace, a user, or a source.

use crate::admission::{
    Attributes, BuildError, Denial, FrontEndSupport, Operations, Phases, Plugin, PluginEnvironment, Resources, Spec,
};
use crate::status::Status;
use crate::status::invalid::aggregate;
use async_trait::async_trait;
use lru::LruCache;
use serde::Deserialize;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::time::Instant;

/// The plugin's facts.
pub(crate) static SPEC: Spec = Spec {
    name: "EventRateLimit",
    default_on: false,
    phases: Phases::Validating,
    operations: Operations::CREATE.or(Operations::UPDATE),
    // Events of events.k8s.io have another kind, which kube-apiserver does not limit.
    resources: Resources::Only(&[("", "events", "")]),
    needs: &[],
    configuration: Some("eventratelimit.admission.k8s.io/v1alpha1 Configuration"),
    removed: None,
    front_end: FrontEndSupport::Full,
    about: "Limits the rate of events, by server, namespace, user or source.",
    build,
};

/// The default number of buckets of a limit (`defaultCacheSize`).
const BUCKETS: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq)]
enum LimitType {
    Server,
    Namespace,
    User,
    SourceAndObject,
}

const TYPES: [(&str, LimitType); 4] = [
    ("Server", LimitType::Server),
    ("Namespace", LimitType::Namespace),
    ("User", LimitType::User),
    ("SourceAndObject", LimitType::SourceAndObject),
];

#[derive(Default, Deserialize)]
#[serde(default)]
struct Configuration {
    limits: Vec<Limit>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Limit {
    r#type: String,
    qps: i32,
    burst: i32,
    cache_size: i32,
}

struct EventRateLimit(Vec<Enforcer>);

/// One limit, and its token buckets by key.
struct Enforcer {
    limit_type: LimitType,
    name: &'static str,
    tokens_per_second: f64,
    burst: f64,
    /// The number of buckets: the least recently used one gives way to a new one, at once, as in the cache of `k8s.io/utils/lru`. A cache that
    /// evicts when it has time would refuse an event that kube-apiserver accepts.
    most: usize,
    buckets: Mutex<LruCache<String, Arc<Mutex<Bucket>>>>,
}

/// A token bucket, in its state at the last use.
struct Bucket {
    tokens: f64,
    at: Instant,
}

fn build(environment: &PluginEnvironment<'_>) -> Result<Box<dyn Plugin>, BuildError> {
    let empty = "limits: Invalid value: null: must not be empty";
    let configuration = environment.configuration.ok_or(BuildError::Unconfigured(empty))?;
    configuration.expect_kind("eventratelimit.admission.k8s.io/v1alpha1", "Configuration")?;
    let read: Configuration =
        serde_json::from_value(configuration.value.clone()).map_err(|error| configuration.invalid(error))?;
    let plugin = EventRateLimit::new(&read).map_err(|why| configuration.invalid(why))?;
    Ok(Box::new(plugin))
}

/// All faults of the configured limits.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct InvalidLimits(String);

impl EventRateLimit {
    /// Builds the limits, or returns all validation errors (`ValidateConfiguration`).
    fn new(configuration: &Configuration) -> Result<Self, InvalidLimits> {
        let mut faults = Vec::new();
        if configuration.limits.is_empty() {
            faults.push("limits: Invalid value: null: must not be empty".to_owned());
        }
        let mut enforcers = Vec::new();
        for (i, limit) in configuration.limits.iter().enumerate() {
            let path = format!("limits[{i}]");
            let known = TYPES.iter().find(|(name, _)| *name == limit.r#type);
            if known.is_none() {
                let supported = "supported values: \"Namespace\", \"Server\", \"SourceAndObject\", \"User\"";
                faults.push(format!("{path}.type: Unsupported value: {:?}: {supported}", limit.r#type));
            }
            for (field, value) in [("burst", limit.burst), ("qps", limit.qps)] {
                if value <= 0 {
                    faults.push(format!("{path}.{field}: Invalid value: {value}: must be positive"));
                }
            }
            if limit.cache_size < 0 && limit.r#type != "Server" {
                faults.push(format!("{path}.cacheSize: Invalid value: {}: must not be negative", limit.cache_size));
            }
            enforcers.extend(known.map(|(name, limit_type)| Enforcer::new(name, *limit_type, limit)));
        }
        aggregate(faults).map_or(Ok(Self(enforcers)), |why| Err(InvalidLimits(why)))
    }
}

#[async_trait]
impl Plugin for EventRateLimit {
    fn has_side_effects(&self, attributes: &Attributes) -> bool {
        !attributes.dry_run
    }

    async fn validate(&self, attributes: &Attributes) -> Result<(), Denial> {
        if attributes.dry_run {
            return Ok(());
        }
        // Each limit takes a token, even if another limit refuses.
        let reached = aggregate(self.0.iter().filter_map(|enforcer| enforcer.refusal(attributes)));
        reached.map_or(Ok(()), |reached| Err(too_many(&reached)))
    }
}

/// `NewTooManyRequestsError`, without details and so without retryAfterSeconds.
fn too_many(why: &str) -> Denial {
    Status::failure(429, "TooManyRequests", format!("Too many requests: {why}")).into()
}

impl Enforcer {
    fn new(name: &'static str, limit_type: LimitType, limit: &Limit) -> Self {
        let most = match limit_type {
            LimitType::Server => 1,
            _ => usize::try_from(limit.cache_size).ok().filter(|size| *size > 0).unwrap_or(BUCKETS),
        };
        let (tokens_per_second, burst) = (limit.qps.into(), limit.burst.into());
        // A bounded cache would take the memory of all its buckets now.
        Self { limit_type, name, tokens_per_second, burst, most, buckets: Mutex::new(LruCache::unbounded()) }
    }

    /// Returns the bucket of a key, which is full if it is new.
    fn bucket(&self, key: &str) -> Arc<Mutex<Bucket>> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let full = || Arc::new(Mutex::new(Bucket { tokens: self.burst, at: Instant::now() }));
        let bucket = buckets.get_or_insert_ref(key, full).clone();
        if buckets.len() > self.most {
            buckets.pop_lru();
        }
        bucket
    }

    /// Takes a token. The token returns to the bucket if the API server refuses the event as invalid. If the bucket is empty,
    /// returns the text of the refusal.
    fn refusal(&self, attributes: &Attributes) -> Option<String> {
        let key = self.key(attributes);
        let shared = self.bucket(&key);
        let mut bucket = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let gained = now.duration_since(bucket.at).as_secs_f64() * self.tokens_per_second;
        bucket.tokens = (bucket.tokens + gained).min(self.burst);
        bucket.at = now;
        if bucket.tokens >= 1.0 {
            bucket.tokens -= 1.0;
            drop(bucket);
            attributes.effects.undo_with(move || shared.lock().unwrap_or_else(PoisonError::into_inner).tokens += 1.0);
            return None;
        }
        Some(format!("limit reached on type {} for key {key}", self.name))
    }

    fn key(&self, attributes: &Attributes) -> String {
        match self.limit_type {
            LimitType::Server => String::new(),
            LimitType::Namespace => attributes.namespace.clone(),
            LimitType::User => attributes.context.user.username.clone(),
            LimitType::SourceAndObject => attributes.object.as_ref().map_or_else(String::new, |event| {
                let object = |field| event.str(&["involvedObject", field]);
                let source = |field| event.str(&["source", field]);
                let about = ["kind", "namespace", "name", "uid", "apiVersion"].map(object);
                [[source("component"), source("host")].concat(), about.concat()].concat()
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::Operation;
    use crate::plugins::checker::attributes;
    use serde_json::{Value, json};
    use std::time::Duration;

    fn plugin(limits: Value) -> EventRateLimit {
        EventRateLimit::new(&serde_json::from_value(json!({ "limits": limits })).unwrap()).unwrap()
    }

    fn event(namespace: &str, host: &str) -> Attributes {
        let event = json!({"metadata": {"name": "e", "namespace": namespace}, "source": {"component": "c", "host": host},
            "involvedObject": {"kind": "Pod", "name": "p"}});
        attributes(Operation::Create, "", "events", Some(event), None)
    }

    async fn refusal(plugin: &EventRateLimit, attributes: &Attributes) -> Option<String> {
        let refused = plugin.validate(attributes).await.err()?;
        Some(refused.into_status(attributes).message)
    }

    #[tokio::test(start_paused = true)]
    async fn a_bucket_runs_dry_and_fills_again() {
        let plugin = plugin(json!([{"type": "Server", "qps": 1, "burst": 2}]));
        let event = event("n", "h");
        assert_eq!(refusal(&plugin, &event).await, None);
        assert_eq!(refusal(&plugin, &event).await, None);
        let text = "Too many requests: limit reached on type Server for key ";
        assert_eq!(refusal(&plugin, &event).await.as_deref(), Some(text));
        tokio::time::advance(Duration::from_millis(999)).await;
        assert!(refusal(&plugin, &event).await.is_some());
        tokio::time::advance(Duration::from_millis(2)).await;
        assert_eq!(refusal(&plugin, &event).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_returns_if_the_event_is_refused_as_invalid() {
        let plugin = plugin(json!([{"type": "Server", "qps": 1, "burst": 1}, {"type": "User", "qps": 1, "burst": 2}]));
        let event = event("n", "h");
        assert_eq!(refusal(&plugin, &event).await, None);
        event.effects.undo();
        assert_eq!(refusal(&plugin, &event).await, None);
        event.effects.undo();
        event.effects.undo();
        // A token returns only once. If one limit refuses, the token of the other limit can still return.
        assert_eq!(refusal(&plugin, &event).await, None);
        assert!(refusal(&plugin, &event).await.is_some_and(|why| !why.contains("User")));
        event.effects.undo();
        assert_eq!(refusal(&plugin, &event).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn each_key_has_its_own_bucket() {
        for (limit, other) in [("Namespace", event("m", "h")), ("SourceAndObject", event("n", "i"))] {
            let plugin = plugin(json!([{"type": limit, "qps": 1, "burst": 1}]));
            assert_eq!(refusal(&plugin, &event("n", "h")).await, None);
            assert_eq!(refusal(&plugin, &other).await, None);
            let text = refusal(&plugin, &event("n", "h")).await.unwrap();
            let key = if limit == "Namespace" { "n" } else { "chPodp" };
            assert_eq!(text, format!("Too many requests: limit reached on type {limit} for key {key}"));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_limit_is_asked_and_named() {
        let plugin =
            plugin(json!([{"type": "User", "qps": 1, "burst": 1}, {"type": "Namespace", "qps": 1, "burst": 2}]));
        let event = event("n", "h");
        assert_eq!(refusal(&plugin, &event).await, None);
        let user = "limit reached on type User for key alice";
        assert_eq!(refusal(&plugin, &event).await, Some(format!("Too many requests: {user}")));
        let both = format!("Too many requests: [{user}, limit reached on type Namespace for key n]");
        assert_eq!(refusal(&plugin, &event).await, Some(both));
    }

    #[tokio::test(start_paused = true)]
    async fn a_dry_run_takes_no_token_and_is_never_refused() {
        let plugin = plugin(json!([{"type": "Server", "qps": 1, "burst": 1}]));
        let mut rehearsal = event("n", "h");
        rehearsal.dry_run = true;
        assert_eq!(refusal(&plugin, &rehearsal).await, None);
        assert_eq!(refusal(&plugin, &event("n", "h")).await, None);
        assert_eq!(refusal(&plugin, &rehearsal).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_forgotten_key_starts_with_a_full_bucket() {
        let plugin = plugin(json!([{"type": "Namespace", "qps": 1, "burst": 1, "cacheSize": 1}]));
        assert_eq!(refusal(&plugin, &event("n", "h")).await, None);
        assert!(refusal(&plugin, &event("n", "h")).await.is_some());
        assert_eq!(refusal(&plugin, &event("m", "h")).await, None);
        assert_eq!(refusal(&plugin, &event("n", "h")).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_key_that_was_not_used_for_longest_is_forgotten() {
        let plugin = plugin(json!([{"type": "Namespace", "qps": 1, "burst": 1, "cacheSize": 2}]));
        let refused = async |namespace: &str| refusal(&plugin, &event(namespace, "h")).await.is_some();
        assert_eq!([refused("a").await, refused("b").await, refused("a").await], [false, false, true]);
        // The bucket of b gives way, since a was used after it.
        assert_eq!([refused("c").await, refused("a").await, refused("b").await], [false, true, false]);
        assert_eq!([refused("c").await, refused("b").await], [false, true]);
    }

    #[test]
    fn all_faults_of_the_limits_are_named() {
        let limits = json!({"limits": [{"type": "X", "qps": 1, "burst": 0}, {"type": "User", "qps": -1, "burst": 1, "cacheSize": -1}]});
        let wrong = EventRateLimit::new(&serde_json::from_value(limits).unwrap()).err().unwrap();
        assert_eq!(
            wrong.to_string(),
            "[limits[0].type: Unsupported value: \"X\": supported values: \"Namespace\", \"Server\", \"SourceAndObject\", \"User\", \
             limits[0].burst: Invalid value: 0: must be positive, limits[1].qps: Invalid value: -1: must be positive, \
             limits[1].cacheSize: Invalid value: -1: must not be negative]"
        );
        assert!(EventRateLimit::new(&Configuration::default()).is_err());
    }
}
