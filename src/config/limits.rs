//! Every bound of the program, by name.

use std::time::Duration;

/// What the program takes, keeps and waits for at most.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Connections open at a time; further ones wait in the kernel's queue.
    pub connections: usize,
    /// Connections of which no request has authenticated yet; for a further one the oldest that has no open request ends.
    pub unauthenticated_connections: usize,
    /// TLS handshakes at a time; further connections wait in the kernel's queue, for a second at most: then the oldest handshake
    /// ends.
    pub handshakes: usize,
    /// Time for a TLS handshake.
    pub handshake_timeout: Duration,
    /// Time for a request's head to arrive over HTTP/1.1 (`http.Server.ReadHeaderTimeout`).
    pub head_timeout: Duration,
    /// Time without an open request after which an HTTP/2 connection is closed (`http.Server.IdleTimeout`); over HTTP/1.1
    /// `head_timeout` includes it.
    pub idle_timeout: Duration,
    /// Time for a client to leave a connection that is closed: after a GOAWAY without an open request, and for new requests.
    pub goaway_timeout: Duration,
    /// Connections of probes and scrapers to the health port; for a further one the oldest ends.
    pub health_connections: usize,
    /// Bytes of a request's head (`http.DefaultMaxHeaderBytes`).
    pub head_bytes: u32,
    /// HTTP/2 streams of one connection (`--http2-max-streams-per-connection`).
    pub http2_streams: u32,
    /// Bytes of a request's body (`MaxRequestBodyBytes`).
    pub body_bytes: usize,
    /// Bytes of an answer that the proxy itself has to read: an old object, a review, a dry run.
    pub response_bytes: usize,
    /// Time for a request that is no watch and no upgrade (`--request-timeout`).
    pub request_timeout: Duration,
    /// Time for a write, whatever it asks for (`requestTimeoutUpperBound`).
    pub mutating_timeout: Duration,
    /// Time for the calls of webhooks in all phases on one object (`--admission-timeout`); none for as long as each may take.
    pub admission_timeout: Option<Duration>,
    /// Reads in flight (`--max-requests-inflight`); 0 for any number.
    pub requests_inflight: usize,
    /// Writes in flight (`--max-mutating-requests-inflight`); 0 for any number.
    pub mutating_requests_inflight: usize,
    /// Requests of which something large is decoded, patched or evaluated at the same time; half of them at most are one user's.
    /// 0 for one less than there are processors.
    pub long_work: usize,
    /// Watches, logs and other long-running requests at a time that are not upgraded; `system:masters` do not count, here and below.
    pub long_running_requests: usize,
    /// How many of them are one user's; no more than are left to others, as of all requests.
    pub user_long_running_requests: usize,
    /// Upgraded connections, but watches: exec, attach, port-forward. They no longer count as `connections`.
    pub upgrades: usize,
    /// How many of them are one user's.
    pub user_upgrades: usize,
    /// Access reviews about callers that are asked at the same time; further ones wait.
    pub access_reviews: usize,
    /// How many of them are about one user.
    pub user_access_reviews: usize,
    /// Bytes of answers of the API server that the proxy holds at the same time to read them as a whole, lists and old objects of more
    /// than 256 KiB; half of them at most are one user's. Further ones wait, as long as for a connection.
    pub whole_answers_bytes: usize,
    /// Bytes of a page of the list of what a deletecollection deletes.
    pub page_bytes: usize,
    /// Bytes of an answer that the API server may send ahead of a client that does not read.
    pub answer_window_bytes: u32,
    /// The same of a watch or another long-running request.
    pub watch_window_bytes: u32,
    /// HTTP/2 connections to the API server behind, of each kind: for short and for long-running requests, of clients and of the proxy.
    pub upstream_connections: usize,
    /// HTTP/1.1 connections with a request on them, to an API server that speaks nothing newer.
    pub upstream_http1_connections: usize,
    /// Idle HTTP/1.1 connections kept to the API server behind; to one that speaks HTTP/2 as many at most for short requests.
    pub idle_connections: usize,
    /// Time to connect to the API server behind.
    pub connect_timeout: Duration,
    /// Wait for a place on a connection to the API server behind.
    pub connection_wait_timeout: Duration,
    /// Time for a call that the proxy makes for itself, all attempts included: discovery, a review of a token or of
    /// an access, a namespace that the cache lacks.
    pub call_timeout: Duration,
    /// Between two questions whether the API server behind still answers, for readiness.
    pub probe_interval: Duration,
    /// Time for its answer to one.
    pub probe_timeout: Duration,
    /// Between two reads of the names of the headers in which the API server behind takes a front proxy's word.
    pub front_proxy_headers_interval: Duration,
    /// Time for a page of a list that fills a cache.
    pub list_timeout: Duration,
    /// Bytes of a single object that a cache lists or watches.
    pub object_bytes: usize,
    /// How long the watch of a cache may fail before the proxy is not ready; what the cache holds goes on counting.
    pub broken_watch_timeout: Duration,
    /// Bytes of a discovery document.
    pub discovery_bytes: usize,
    /// Reviews of clients' credentials at a time (TokenReview, SelfSubjectReview). Requests that need a further one wait, then get
    /// 429.
    pub credential_reviews: usize,
    /// The same for the requests of one connection.
    pub credential_reviews_per_connection: usize,
    /// Wait for a place for such a review.
    pub credential_review_wait_timeout: Duration,
    /// Bytes of a client's token.
    pub token_bytes: usize,
    /// Tokens whose review is remembered.
    pub token_cache_entries: u64,
    /// How long it is remembered that a token is good (`--authentication-token-webhook-cache-ttl`); that it is not is never
    /// remembered.
    pub token_cache_ttl: Duration,
    /// Access reviews that are remembered.
    pub authorization_cache_entries: u64,
    /// How long a yes is remembered (`--authorization-webhook-cache-authorized-ttl`).
    pub authorized_ttl: Duration,
    /// How long a no is remembered (`--authorization-webhook-cache-unauthorized-ttl`).
    pub unauthorized_ttl: Duration,
    /// Access reviews that the impersonation headers of one request may cause.
    pub impersonation_checks: usize,
    /// Times that a write starts over because the object changed meanwhile: as many as there may be writers of one object.
    /// In kube-apiserver only the deadline ends this (`GuaranteedUpdate`).
    pub conflict_retries: usize,
    /// Times that a write starts over although the object is the one that was admitted before: then the conflict is about something
    /// else, and another attempt only asks webhooks again.
    pub unexplained_retries: usize,
    /// Wait for caches to hold their first list (`admission.Handler.WaitForReady`).
    pub cache_sync_timeout: Duration,
    /// How long it is remembered what the API server said of a CustomResourceDefinition that is not in the cache yet.
    pub definition_ttl: Duration,
    /// Kinds that policies take parameters from; each is watched as long as a policy names it.
    pub policy_parameter_kinds: usize,
    /// Bytes of the objects that policies take parameters from, of one kind, or of one kind in a namespace where bindings
    /// name it. Where there are more, none is kept, and requests that need one are refused.
    pub policy_parameter_bytes: usize,
    /// Webhook clients that are kept.
    pub webhook_clients: u64,
    /// Bytes of a webhook's answer, also after decompression.
    pub webhook_response_bytes: usize,
    /// Calls in a row without an answer after which a webhook is not called for a while
    /// (`--webhook-circuit-breaker-failures`); 0 for never.
    pub webhook_breaker_failures: usize,
    /// The time in which they count (`--webhook-circuit-breaker-window`).
    pub webhook_breaker_window: Duration,
    /// Between two calls that try whether it answers again (`--webhook-circuit-breaker-probe-interval`).
    pub webhook_breaker_probe_interval: Duration,
    /// Webhook endpoints of a plugin that have a circuit breaker.
    pub webhook_breakers: usize,
    /// Bytes of the answers that ImagePolicyWebhook remembers.
    pub image_review_cache_bytes: usize,
    /// Namespaces whose quotas are charged at the same time.
    pub quota_workers: usize,
    /// Requests that wait for their quotas to be charged; further ones are refused.
    pub quota_waiting_requests: usize,
    /// Wait for the quotas to be charged.
    pub quota_timeout: Duration,
    /// Quotas that are remembered as they were last written, and namespaces whose quotas were asked of the API server.
    pub quota_cache_entries: u64,
    /// How long it is remembered what quotas the API server says a namespace has, before the cache knows.
    pub quota_lookup_ttl: Duration,
    /// Audit events waiting to be written; what comes on top is dropped and counted.
    pub audit_queue_events: usize,
    /// Bytes of audit events waiting to be written.
    pub audit_queue_bytes: usize,
    /// Time to write what waits in the audit queue, at the end.
    pub audit_flush_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        const fn seconds(seconds: u64) -> Duration {
            Duration::from_secs(seconds)
        }
        const MEBIBYTE: usize = 1024 * 1024;
        Self {
            connections: 32_768,
            unauthenticated_connections: 1024,
            handshakes: 256,
            handshake_timeout: seconds(10),
            head_timeout: seconds(32),
            idle_timeout: seconds(90),
            goaway_timeout: seconds(10),
            health_connections: 1024,
            head_bytes: 1024 * 1024,
            http2_streams: 250,
            body_bytes: 3 * MEBIBYTE,
            response_bytes: 64 * MEBIBYTE,
            request_timeout: seconds(60),
            mutating_timeout: seconds(34),
            admission_timeout: None,
            requests_inflight: 400,
            mutating_requests_inflight: 200,
            long_work: 0,
            long_running_requests: 16_384,
            user_long_running_requests: 2048,
            upgrades: 4096,
            user_upgrades: 512,
            access_reviews: 512,
            user_access_reviews: 32,
            whole_answers_bytes: 128 * MEBIBYTE,
            page_bytes: 4 * MEBIBYTE,
            answer_window_bytes: 256 * 1024,
            watch_window_bytes: 64 * 1024,
            upstream_connections: 256,
            upstream_http1_connections: 4096,
            idle_connections: 64,
            connect_timeout: seconds(10),
            connection_wait_timeout: seconds(10),
            call_timeout: seconds(10),
            probe_interval: seconds(5),
            probe_timeout: seconds(3),
            front_proxy_headers_interval: seconds(10),
            list_timeout: seconds(90),
            object_bytes: 32 * MEBIBYTE,
            broken_watch_timeout: seconds(300),
            discovery_bytes: 16 * MEBIBYTE,
            credential_reviews: 64,
            credential_reviews_per_connection: 8,
            credential_review_wait_timeout: seconds(1),
            token_bytes: 64 * 1024,
            token_cache_entries: 4096,
            token_cache_ttl: seconds(10),
            authorization_cache_entries: 8192,
            authorized_ttl: seconds(10),
            unauthorized_ttl: seconds(0),
            impersonation_checks: 64,
            conflict_retries: 64,
            unexplained_retries: 2,
            cache_sync_timeout: seconds(10),
            definition_ttl: seconds(5),
            policy_parameter_kinds: 256,
            policy_parameter_bytes: 64 * MEBIBYTE,
            webhook_clients: 200,
            webhook_response_bytes: 8 * MEBIBYTE,
            webhook_breaker_failures: 0,
            webhook_breaker_window: seconds(30),
            webhook_breaker_probe_interval: seconds(5),
            webhook_breakers: 1000,
            image_review_cache_bytes: 16 * MEBIBYTE,
            quota_workers: 5,
            quota_waiting_requests: 10_000,
            quota_timeout: seconds(10),
            quota_cache_entries: 10_000,
            quota_lookup_ttl: seconds(30),
            audit_queue_events: 10_000,
            audit_queue_bytes: 64 * MEBIBYTE,
            audit_flush_timeout: seconds(10),
        }
    }
}

impl Limits {
    /// The same limits for a process with so many file descriptors: clients' connections take three quarters of them at most, and the
    /// health port, upgrades, connections to the API server and files share the rest.
    #[must_use]
    pub fn within_descriptors(self, descriptors: u64) -> Self {
        let descriptors = usize::try_from(descriptors).unwrap_or(usize::MAX);
        let connections = self.connections.min(descriptors / 4 * 3).max(1);
        let reserve = descriptors.saturating_sub(connections);
        let share = |wanted: usize, part: usize| wanted.min(reserve / part).max(1);
        Self {
            connections,
            unauthenticated_connections: self.unauthenticated_connections.min(connections / 4).max(1),
            handshakes: self.handshakes.min(connections / 8).max(1),
            health_connections: share(self.health_connections, 4),
            // Each is a connection on both sides.
            upgrades: share(self.upgrades, 8),
            // Of four kinds; two of them are the proxy's own, and few.
            upstream_http1_connections: share(self.upstream_http1_connections, 8),
            upstream_connections: share(self.upstream_connections, 16),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_to_everything_else() {
        assert_eq!(Limits::default().within_descriptors(1 << 20), Limits::default());
        assert_eq!(Limits::default().within_descriptors(u64::MAX), Limits::default());
        let few = Limits::default().within_descriptors(1024);
        assert_eq!((few.connections, few.unauthenticated_connections, few.handshakes), (768, 192, 96));
        assert_eq!((few.health_connections, few.upgrades), (64, 32));
        let upstream = few.upstream_http1_connections + few.upstream_connections;
        assert!(few.connections + few.health_connections + 2 * few.upgrades + 2 * upstream < 1024);
        assert_eq!(Limits::default().within_descriptors(0).connections, 1);
    }
}
