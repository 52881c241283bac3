//! The bounds of the program that depend on the machine and the cluster, by name.

use crate::body::UNCOUNTED_BYTES;
use std::time::Duration;

/// The least memory for which bounds are derived.
pub(crate) const LEAST_MEMORY: usize = 256 << 20;
/// The memory of the process without clients and caches: the program, its tables, its threads, and free memory of the allocator.
const PROCESS_BYTES: usize = 64 << 20;
/// The parts into which [`Limits::within_memory`] divides the rest of the memory.
const PARTS: usize = 280;
/// The memory of an idle connection: TLS, buffers, and a head that is not counted.
const CONNECTION_BYTES: usize = 32 << 10;
const HEALTH_CONNECTION_BYTES: usize = 16 << 10;
/// The memory of an upgraded connection, whose bytes are copied in both directions.
const UPGRADE_BYTES: usize = 32 << 10;
/// The memory of a watch, besides the part of its answer that waits on the side of the API server.
const WATCH_BYTES: usize = 24 << 10;
/// The memory of a write whose body arrives, besides the part of the body that nobody has read yet: the request, and its first bytes.
const ARRIVING_BYTES: usize = 16 << 10;
/// The memory of a write in progress that is not counted: of its body, and of an answer or the stored object.
const WRITE_BYTES: usize = 2 * UNCOUNTED_BYTES;
/// The memory of a change in the history of the embedded API server, for each byte of its object: the object is decoded.
const DECODED_COPIES: usize = 4;
/// The memory of a cached answer about a token or a permission.
const CACHED_ANSWER_BYTES: usize = 512;
const CACHED_QUOTA_BYTES: usize = 1 << 10;
/// The memory of the metrics of a route: three histograms, and a counter for each code.
const ROUTE_BYTES: usize = 3 << 10;
/// The documents, and the table that is made of them.
const DISCOVERY_COPIES: usize = 2;

/// Upper bounds of sizes, numbers and times.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Number of clients' connections. For a further connection the proxy closes one that has shown less: the first are those that have
    /// sent nothing, the last are authenticated ones without an open request. Of equal connections the proxy closes the oldest one, of the
    /// address that has most; an IPv6 network of 64 bits is one address. Authenticated connections have three quarters.
    pub connections: usize,
    /// Number of connections to each port that have sent nothing. For a further connection the proxy closes the oldest one.
    pub(crate) silent_connections: usize,
    /// Number of TLS handshakes with a complete ClientHello, and of those with an incomplete one. For a further handshake the proxy ends
    /// the oldest one.
    pub(crate) handshakes: usize,
    /// Number of connections without an authenticated request. For a further connection the proxy closes the oldest one without an
    /// open request.
    pub(crate) unauthenticated_connections: usize,
    /// Time from the start of a connection to the end of its TLS handshake.
    pub(crate) handshake_timeout: Duration,
    /// Time for the head of an HTTP/1.1 request to arrive (`http.Server.ReadHeaderTimeout`).
    pub(crate) head_timeout: Duration,
    /// Time without an open request after which the proxy closes an HTTP/2 connection (`http.Server.IdleTimeout`). For HTTP/1.1,
    /// `head_timeout` includes it.
    pub(crate) idle_timeout: Duration,
    /// Time after a GOAWAY for a client to leave the connection.
    pub(crate) goaway_timeout: Duration,
    /// Time without a frame after which the peer of an HTTP/2 connection, a client or the upstream API server, gets a ping.
    pub(crate) ping_interval: Duration,
    /// Time for the answer to a ping.
    pub(crate) ping_timeout: Duration,
    /// Time for the requests in flight at the shutdown (`--shutdown-drain-timeout`).
    pub(crate) drain_timeout: Duration,
    /// Number of connections to the health address. A quarter of them may have sent something. For a further connection the proxy closes
    /// the oldest one that has sent nothing, or else the oldest one.
    pub(crate) health_connections: usize,
    /// Number of bodies that the proxy reads on after it has refused the request, on each port. So a client that is still sending receives
    /// the answer. The proxy reads 256 KiB of each in a second at most.
    pub(crate) unread_bodies: usize,
    /// Size of the head of a request (`http.DefaultMaxHeaderBytes`), and of an answer of the upstream API server.
    pub(crate) head_bytes: u32,
    /// Memory for the heads of requests at the same time, of those that are being read and of those that are being answered. Heads of up
    /// to 8 KiB are not counted. If there is no room, the proxy closes the connection whose head has been incomplete for longest. One
    /// address has at most half of the memory for the heads of requests that are being answered; further requests get 429.
    pub(crate) heads_bytes: usize,
    /// Number of HTTP/2 streams of one connection (`--http2-max-streams-per-connection` of kube-apiserver).
    pub(crate) http2_streams: u32,
    /// Size of the part of a request body that an HTTP/2 client may send before the proxy reads it, and of an answer to the proxy's own
    /// requests that the upstream API server may send.
    pub(crate) stream_window_bytes: u32,
    /// Size of the parts of all request bodies of one HTTP/2 connection that a client may send before the proxy reads them.
    pub(crate) connection_window_bytes: u32,
    /// Size of the part of an answer that waits for an HTTP/2 client.
    pub(crate) send_buffer_bytes: usize,
    /// Size of the part of a request body that waits for the upstream API server.
    pub(crate) upstream_send_buffer_bytes: usize,
    /// Size of the body of a request (`MaxRequestBodyBytes`).
    pub(crate) body_bytes: usize,
    /// Memory for bodies that have arrived, of writes and of reviews, and for what is made of them until the request is answered: four times the
    /// memory of the decoded object. An object with many small maps takes far more memory than its text: a map about 740 bytes. Up to 64 KiB are
    /// not counted. The bodies of one user have at most three eighths of it, unless a single one needs more; a body that needs more than three
    /// quarters of it is refused. Further bodies wait, for `connection_wait_timeout` at most.
    pub(crate) whole_bodies_bytes: usize,
    /// Size of an answer of the upstream API server that the proxy reads itself: a stored object, a review, a dry run.
    pub response_bytes: usize,
    /// Time for a request that is neither a watch nor an upgrade (`--request-timeout`).
    pub(crate) request_timeout: Duration,
    /// Time for a write, whatever its `timeout` parameter (`requestTimeoutUpperBound`).
    pub(crate) mutating_timeout: Duration,
    /// Time that a request may take without a line in the log (`--slow-request-threshold`). 0 for any time.
    pub(crate) slow_request: Duration,
    /// Time for the calls of all webhooks for one object, in all phases (`--admission-timeout`). Without a value only the timeout
    /// of each webhook applies.
    pub(crate) admission_timeout: Option<Duration>,
    /// Number of routes (verb, resource, scope, dry run) whose requests are counted by name. Those of further resources are counted as `other`. Custom resources have half of the routes.
    pub measured_routes: usize,
    /// Number of reads in flight (`--max-requests-inflight`). 0 sets no bound.
    pub requests_inflight: usize,
    /// Number of writes in flight whose bodies have arrived (`--max-mutating-requests-inflight`). 0 sets no bound. Service accounts have three
    /// quarters of this number, of the other bounds of requests in flight, and of everything for which requests wait. The service accounts of
    /// a namespace count as one user, except in `kube-system`.
    pub mutating_requests_inflight: usize,
    /// Memory for the bodies of writes that are arriving, twice the bytes of each so far, but at least 16 KiB and `stream_window_bytes`. If there
    /// is no room, the proxy gives up the oldest body of the user that has most.
    pub(crate) arriving_bodies_bytes: usize,
    /// Number of connections to the webhook front end, as for `connections`. At most half of them have no authenticated request.
    pub(crate) review_connections: usize,
    /// Number of reviews in flight in the webhook front end. Further reviews get 429.
    pub(crate) reviews_inflight: usize,
    /// Number of reviews in flight of one caller of the webhook front end, which is an API server.
    pub(crate) caller_reviews_inflight: usize,
    /// Size of a review, which has the object and the stored object; with a memory limit, half of `arriving_reviews_bytes` at most.
    pub(crate) review_bytes: usize,
    /// Memory for the reviews that are arriving in the webhook front end, as for `arriving_bodies_bytes`. If there is no room, the proxy gives up
    /// the oldest review of the caller that has most.
    pub(crate) arriving_reviews_bytes: usize,
    /// Time for the body of a review to arrive.
    pub(crate) review_body_timeout: Duration,
    /// Number of requests for which the proxy decodes, patches or evaluates something large at the same time. One user has at most
    /// half of them. 0 stands for one less than the number of processors.
    pub long_work: usize,
    /// Number of watches, logs and other long-running requests that are not upgraded. Requests of `system:masters` do not count,
    /// here and in the bounds of upgrades.
    pub(crate) long_running_requests: usize,
    /// Number of long-running requests of one user, who never has more of them than are free.
    pub(crate) user_long_running_requests: usize,
    /// Number of upgraded connections (exec, attach, port-forward). Watches over WebSocket do not count. An upgraded connection no
    /// longer counts as one of `connections`.
    pub(crate) upgrades: usize,
    /// Number of upgraded connections of one user.
    pub(crate) user_upgrades: usize,
    /// Number of creates of one user that wait for initializers. Further ones are refused.
    pub(crate) user_waiting_creates: usize,
    /// Number of CustomResourceDefinitions in the embedded API server. Further ones are refused.
    pub(crate) definitions: usize,
    /// Number of rules (`x-kubernetes-validations`) in one CustomResourceDefinition of the embedded API server. A definition with more is
    /// refused before its rules are compiled.
    pub(crate) definition_rules: usize,
    /// Size of the transaction with which kube-apiserver would store one object of the embedded API server (`--max-request-bytes` of etcd).
    pub(crate) stored_object_bytes: usize,
    /// Size of all objects in the embedded API server (`--quota-backend-bytes`). Without room, only deletions and writes that make an
    /// object smaller succeed. The objects are in memory, so that a memory limit lowers this bound.
    pub(crate) stored_bytes: usize,
    /// Number of changes of each resource that the embedded API server keeps: the start of a watch and a continued list can be that old.
    pub(crate) watch_history: usize,
    /// Size of the objects in the changes of all resources that the embedded API server keeps. With more it drops the oldest changes of the
    /// resource whose changes are the largest.
    pub(crate) watch_history_bytes: usize,
    /// Number of changes in the queue of one watch of the embedded API server. With more the watch is closed.
    pub(crate) watcher_queue: usize,
    /// Number of objects on a page of a list of the embedded API server, whatever `limit` asks for.
    pub(crate) list_page_objects: usize,
    /// Shortest time of a watch of the embedded API server without `timeoutSeconds` (`--min-request-timeout`). The longest time is
    /// twice as long.
    pub(crate) watch_timeout: Duration,
    /// Time between two bookmarks of a watch of the embedded API server.
    pub(crate) bookmark_interval: Duration,
    /// Number of changes that the file of `--data-dir` may lack before further writes wait.
    pub(crate) unwritten_changes: usize,
    /// Size of the cache of the file of `--data-dir`.
    pub(crate) file_cache_bytes: usize,
    /// Number of SubjectAccessReviews about callers at the same time. Further ones wait.
    pub(crate) access_reviews: usize,
    /// Number of SubjectAccessReviews about one user at the same time, or about the service accounts of one namespace. Further ones wait.
    pub(crate) user_access_reviews: usize,
    /// Memory for what the proxy reads from the upstream API server for writes: for the stored object of a write as for `whole_bodies_bytes`,
    /// for lists their length. Up to 64 KiB are not counted. One user has at most three eighths of it; of stored objects that need more, the proxy
    /// has one at a time. Further requests wait, for `connection_wait_timeout` at most.
    pub(crate) whole_answers_bytes: usize,
    /// Size of the answers to writes that the proxy reads from the upstream API server at the same time. Up to 64 KiB of an answer are
    /// not counted. One user has at most three eighths of it. Further answers wait until the deadline of their write, and answers that clients do not
    /// read give way to them.
    pub(crate) write_answers_bytes: usize,
    /// Time that a client has to read the answer to a write while another answer waits for room (`write_answers_bytes`). Then the answer gives
    /// way: the oldest one of the user that has most, or of the user itself if its part is full. The client loses it.
    pub(crate) unread_answer_timeout: Duration,
    /// Number of answers that the proxy has given up because the client did not read them, and of which 64 KiB are in the buffers of a
    /// connection. For a further one the proxy closes the connection that has most of them. HTTP/1.1 connections are closed at once.
    pub(crate) given_up_answers: usize,
    /// Memory for the answers that the proxy reads as a whole for the audit log. One user has at most three eighths of it. Up to 64 KiB of an
    /// answer are not counted. An answer that gets no room within `connection_wait_timeout` is not in its audit event.
    pub(crate) audited_answers_bytes: usize,
    /// Size of a page of the list of objects that a deletecollection deletes.
    pub(crate) page_bytes: usize,
    /// Size of the part of an answer that the upstream API server may send before the client reads it.
    pub(crate) answer_window_bytes: u32,
    /// Size of the part of a watch, or of another long-running request, that the upstream API server may send before the client
    /// reads it.
    pub(crate) watch_window_bytes: u32,
    /// Number of HTTP/2 connections to the upstream API server of each of four kinds: short and long-running requests, of clients
    /// and of the proxy.
    pub(crate) upstream_connections: usize,
    /// Number of requests at the same time on one HTTP/2 connection to the upstream API server, which may set a lower number.
    pub(crate) upstream_streams: usize,
    /// Number of HTTP/1.1 connections in use to an upstream API server without HTTP/2.
    pub(crate) upstream_http1_connections: usize,
    /// Number of idle HTTP/1.1 connections to the upstream API server. With an upstream API server that has HTTP/2, also the number
    /// of HTTP/1.1 connections for short requests.
    pub(crate) idle_connections: usize,
    /// Time to connect to the upstream API server.
    pub(crate) connect_timeout: Duration,
    /// Time that a request waits for a place on a connection to the upstream API server.
    pub(crate) connection_wait_timeout: Duration,
    /// Time for a request of the proxy itself, all attempts included: discovery, a TokenReview, a SubjectAccessReview, a namespace
    /// that the cache does not have.
    pub(crate) call_timeout: Duration,
    /// Time between two questions for missing rights of the proxy's own credentials.
    pub(crate) rights_interval: Duration,
    /// Time between two examinations of the installation by `doctor` in a proxy that runs.
    pub(crate) doctor_interval: Duration,
    /// Time between two probes of the upstream API server, for readiness.
    pub(crate) probe_interval: Duration,
    /// Time for the answer to a probe of the upstream API server.
    pub(crate) probe_timeout: Duration,
    /// Time at the start for the version of the upstream API server, with `--emulated-version=upstream`.
    pub(crate) release_wait: Duration,
    /// Time between two reads of the header names in the ConfigMap `extension-apiserver-authentication`.
    pub(crate) front_proxy_headers_interval: Duration,
    /// Time between two comparisons of what the proxy publishes: the ConfigMaps `kube-admission-proxy-ca` with the file of
    /// InClusterClients, and the CA bundles of its webhook configurations with its authority.
    pub(crate) authority_interval: Duration,
    /// Time for a page of the list that fills a cache.
    pub(crate) list_timeout: Duration,
    /// Time for all pages of the list that fills a cache.
    pub(crate) whole_list_timeout: Duration,
    /// Estimated size of all caches of the upstream API server of the flags, each object with at least 512 bytes. The caches of an API
    /// server with more objects are not synced, and requests that need them are refused.
    pub(crate) caches_bytes: usize,
    /// The same for all API servers together that only tenants name. One of them has at most a quarter.
    pub(crate) tenant_caches_bytes: usize,
    /// Size of one object in the list or watch of a cache.
    pub(crate) object_bytes: usize,
    /// Time for which the watch of a cache may fail before the proxy is not ready. The content of the cache stays in use.
    pub(crate) broken_watch_timeout: Duration,
    /// Size of a discovery document, and of all discovery documents of an API server together.
    pub(crate) discovery_bytes: usize,
    /// Number of group versions that are read one by one from an API server without aggregated discovery.
    pub(crate) discovery_group_versions: usize,
    /// Time between the starts of two reads of discovery, whatever causes them.
    pub(crate) discovery_refresh_interval: Duration,
    /// Time that a request for an unknown resource waits for a read of discovery.
    pub(crate) discovery_lookup_timeout: Duration,
    /// Time from a change of a CustomResourceDefinition or APIService to the read of discovery, because changes come in groups.
    pub(crate) discovery_change_delay: Duration,
    /// Time from such a read to another one, because the discovery of the API server follows its objects late.
    pub(crate) discovery_settle_delay: Duration,
    /// Time between two reads of discovery without a change.
    pub(crate) discovery_interval: Duration,
    /// Longest time between two attempts to read discovery.
    pub(crate) discovery_retry_interval: Duration,
    /// Number of reviews of clients' credentials at the same time (TokenReview, SelfSubjectReview). The clients of one address have at most
    /// half of it. Further requests wait, and then get 429.
    pub(crate) credential_reviews: usize,
    /// Number of reviews of credentials for the requests of one connection at the same time.
    pub(crate) credential_reviews_per_connection: usize,
    /// Time that a request waits for a review of its credentials to begin.
    pub(crate) credential_review_wait_timeout: Duration,
    /// Size of a client's bearer token.
    pub(crate) token_bytes: usize,
    /// Number of cached TokenReviews.
    pub(crate) token_cache_entries: u64,
    /// Time for which an accepted token is cached (`--authentication-token-webhook-cache-ttl`). Rejected tokens are not cached.
    pub(crate) token_cache_ttl: Duration,
    /// Number of cached SubjectAccessReviews.
    pub(crate) authorization_cache_entries: u64,
    /// Time for which an allowed request is cached (`--authorization-webhook-cache-authorized-ttl`).
    pub(crate) authorized_ttl: Duration,
    /// Time for which a refused request is cached (`--authorization-webhook-cache-unauthorized-ttl`).
    pub(crate) unauthorized_ttl: Duration,
    /// Number of SubjectAccessReviews for the impersonation headers of one request.
    pub(crate) impersonation_checks: usize,
    /// Number of times that a write starts over because the stored object changed: as many as there may be writers of one object.
    /// In kube-apiserver only the deadline ends this (`GuaranteedUpdate`).
    pub(crate) conflict_retries: usize,
    /// Number of times that a write starts over after a conflict although the stored object did not change. The reason of the
    /// conflict is another one then, and further attempts only call webhooks again.
    pub(crate) unexplained_retries: usize,
    /// Time for which a write that starts over waits until other writes of the same object that started over have ended. Then the
    /// write goes on beside them.
    pub(crate) conflict_wait: Duration,
    /// Time that a request waits for the first list of a cache (`admission.Handler.WaitForReady`).
    pub(crate) cache_sync_timeout: Duration,
    /// Time for which the proxy keeps the answer about a CustomResourceDefinition that the cache does not have yet.
    pub(crate) definition_ttl: Duration,
    /// Number of kinds of policy parameters. Each is watched as long as a policy names it.
    pub(crate) policy_parameter_kinds: usize,
    /// Size of the policy parameters of one kind, or of one kind in one namespace if bindings name the namespace. If there are
    /// more, the cache keeps none, and requests that need a parameter are refused.
    pub(crate) policy_parameter_bytes: usize,
    /// Number of reads of parameters that no cache has yet, at the same time. Further ones wait. Only since 1.37.
    pub(crate) parameter_reads: usize,
    /// Number of such reads for one user at the same time. Further ones wait.
    pub(crate) user_parameter_reads: usize,
    /// Time for such a read (`getParamDirectly`).
    pub(crate) parameter_read_timeout: Duration,
    /// Number of parameters that are known not to exist.
    pub(crate) missing_parameters: u64,
    /// Time for which a parameter that does not exist is not read again.
    pub(crate) missing_parameter_ttl: Duration,
    /// Number of webhook clients that the proxy keeps.
    pub(crate) webhook_clients: u64,
    /// Size of the answer of a webhook, after decompression too.
    pub(crate) webhook_response_bytes: usize,
    /// Size of the answers of webhooks that are being read at the same time. Up to 64 KiB of an answer are not counted. One webhook
    /// has at most three eighths of it. Further calls wait until their timeout.
    pub(crate) webhook_answers_bytes: usize,
    /// Number of calls in a row without an answer after which the circuit breaker of a webhook endpoint opens
    /// (`--webhook-circuit-breaker-failures`). 0 for never.
    pub(crate) webhook_breaker_failures: usize,
    /// Time within which these calls must follow each other (`--webhook-circuit-breaker-window`).
    pub(crate) webhook_breaker_window: Duration,
    /// Time between two probing calls of an endpoint with an open circuit breaker (`--webhook-circuit-breaker-probe-interval`).
    pub(crate) webhook_breaker_probe_interval: Duration,
    /// Number of webhook endpoints of one plugin that have a circuit breaker.
    pub(crate) webhook_breakers: usize,
    /// Size of the cached answers of ImagePolicyWebhook's backend.
    pub(crate) image_review_cache_bytes: usize,
    /// Number of namespaces whose ResourceQuotas are charged at the same time.
    pub(crate) quota_workers: usize,
    /// Number of requests that wait until a ResourceQuota is charged. Further requests are refused.
    pub(crate) quota_waiting_requests: usize,
    /// Time that a request waits until a ResourceQuota is charged.
    pub(crate) quota_timeout: Duration,
    /// Number of ResourceQuotas that are kept as last written, and of namespaces whose ResourceQuotas were read from the upstream
    /// API server.
    pub(crate) quota_cache_entries: u64,
    /// Time for which the ResourceQuotas of a namespace that the cache does not have yet are kept.
    pub(crate) quota_lookup_ttl: Duration,
    /// Number of events that wait for an audit backend in whose mode requests wait. A further request waits before it begins, until
    /// `request_timeout`. In the mode `batch` the flag of the buffer's size counts.
    pub(crate) audit_queue_events: usize,
    /// Size of the events that wait for the audit log, and for the audit webhook, of which each has half if there are both; of a gateway, also
    /// of those that wait for all tenants' own logs, of which one has at most a quarter. In the mode `batch` further events are dropped and counted; in other modes further requests wait.
    pub(crate) audit_queue_bytes: usize,
    /// Time after which a request that is done but for its audit event frees its seat for another request.
    pub(crate) audit_seat_timeout: Duration,
    /// Number of calls of the audit webhook at the same time. The events of further calls wait.
    pub(crate) audit_webhook_calls: usize,
    /// Time to write the audit queue at the shutdown.
    pub(crate) audit_flush_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        const fn seconds(seconds: u64) -> Duration {
            Duration::from_secs(seconds)
        }
        const fn milliseconds(milliseconds: u64) -> Duration {
            Duration::from_millis(milliseconds)
        }
        const MEBIBYTE: usize = 1024 * 1024;
        Self {
            connections: 32_768,
            silent_connections: 8192,
            handshakes: 1024,
            unauthenticated_connections: 1024,
            handshake_timeout: seconds(10),
            head_timeout: seconds(32),
            idle_timeout: seconds(90),
            goaway_timeout: seconds(10),
            ping_interval: seconds(30),
            ping_timeout: seconds(15),
            drain_timeout: seconds(60),
            health_connections: 8192,
            unread_bodies: 1024,
            head_bytes: 1024 * 1024,
            heads_bytes: 64 * MEBIBYTE,
            http2_streams: 250,
            stream_window_bytes: 1024 * 1024,
            connection_window_bytes: 4096 * 1024,
            send_buffer_bytes: 400 * 1024,
            upstream_send_buffer_bytes: MEBIBYTE,
            body_bytes: 3 * MEBIBYTE,
            whole_bodies_bytes: 4096 * MEBIBYTE,
            response_bytes: 64 * MEBIBYTE,
            request_timeout: seconds(60),
            mutating_timeout: seconds(34),
            slow_request: seconds(5),
            admission_timeout: None,
            measured_routes: 4096,
            requests_inflight: 400,
            mutating_requests_inflight: 200,
            arriving_bodies_bytes: 1024 * MEBIBYTE,
            review_connections: 8192,
            reviews_inflight: 400,
            caller_reviews_inflight: 300,
            review_bytes: 16 * MEBIBYTE,
            arriving_reviews_bytes: 1024 * MEBIBYTE,
            review_body_timeout: seconds(5),
            long_work: 0,
            long_running_requests: 16_384,
            user_long_running_requests: 2048,
            upgrades: 4096,
            user_upgrades: 512,
            user_waiting_creates: 64,
            definitions: 4096,
            definition_rules: 4096,
            stored_object_bytes: 1536 * 1024,
            stored_bytes: 2048 * MEBIBYTE,
            watch_history: 4096,
            watch_history_bytes: 128 * MEBIBYTE,
            watcher_queue: 1024,
            list_page_objects: 10_000,
            watch_timeout: seconds(1800),
            bookmark_interval: seconds(60),
            unwritten_changes: 4096,
            file_cache_bytes: 16 * MEBIBYTE,
            access_reviews: 512,
            user_access_reviews: 32,
            whole_answers_bytes: 256 * MEBIBYTE,
            write_answers_bytes: 128 * MEBIBYTE,
            unread_answer_timeout: seconds(1),
            given_up_answers: 16,
            audited_answers_bytes: 256 * MEBIBYTE,
            page_bytes: 4 * MEBIBYTE,
            answer_window_bytes: 256 * 1024,
            watch_window_bytes: 64 * 1024,
            upstream_connections: 256,
            upstream_streams: 100,
            upstream_http1_connections: 4096,
            idle_connections: 64,
            connect_timeout: seconds(10),
            connection_wait_timeout: seconds(10),
            call_timeout: seconds(10),
            rights_interval: seconds(30),
            doctor_interval: seconds(600),
            probe_interval: seconds(5),
            probe_timeout: seconds(3),
            release_wait: seconds(60),
            front_proxy_headers_interval: seconds(10),
            authority_interval: seconds(10),
            list_timeout: seconds(90),
            whole_list_timeout: seconds(600),
            caches_bytes: 4096 * MEBIBYTE,
            tenant_caches_bytes: 1024 * MEBIBYTE,
            object_bytes: 32 * MEBIBYTE,
            broken_watch_timeout: seconds(300),
            discovery_bytes: 16 * MEBIBYTE,
            discovery_group_versions: 2000,
            discovery_refresh_interval: seconds(1),
            discovery_lookup_timeout: seconds(10),
            discovery_change_delay: milliseconds(300),
            discovery_settle_delay: seconds(5),
            discovery_interval: seconds(300),
            discovery_retry_interval: seconds(30),
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
            conflict_wait: seconds(10),
            cache_sync_timeout: seconds(10),
            definition_ttl: seconds(5),
            policy_parameter_kinds: 256,
            policy_parameter_bytes: 64 * MEBIBYTE,
            parameter_reads: 32,
            user_parameter_reads: 8,
            parameter_read_timeout: seconds(1),
            missing_parameters: 4096,
            missing_parameter_ttl: milliseconds(50),
            webhook_clients: 200,
            webhook_response_bytes: 8 * MEBIBYTE,
            webhook_answers_bytes: 128 * MEBIBYTE,
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
            audit_seat_timeout: seconds(1),
            audit_webhook_calls: 64,
            audit_flush_timeout: seconds(10),
        }
    }
}

impl Limits {
    /// Lowers the bounds of connections for a process with this number of file descriptors: clients' connections take at most
    /// three quarters, and the health port, upgrades, connections to the API server and files share the rest.
    #[must_use]
    pub(crate) fn within_descriptors(self, descriptors: u64) -> Self {
        let descriptors = usize::try_from(descriptors).unwrap_or(usize::MAX);
        let connections = self.connections.min(descriptors / 4 * 3).max(1);
        let reserve = descriptors.saturating_sub(connections);
        let share = |wanted: usize, part: usize| wanted.min(reserve / part).max(1);
        Self {
            health_connections: share(self.health_connections, 4),
            // An upgrade needs a connection on both sides.
            upgrades: share(self.upgrades, 8),
            // There are four kinds of connections; two of them are the proxy's own, and few.
            upstream_http1_connections: share(self.upstream_http1_connections, 8),
            upstream_connections: share(self.upstream_connections, 16),
            review_connections: share(self.review_connections, 16),
            ..self.with_connections(connections)
        }
    }

    /// Lowers the number of clients' connections, and of those that have shown little.
    fn with_connections(self, connections: usize) -> Self {
        Self {
            connections,
            silent_connections: self.silent_connections.min(connections / 2).max(1),
            unauthenticated_connections: self.unauthenticated_connections.min(connections / 4).max(1),
            handshakes: self.handshakes.min(connections / 8).max(1),
            ..self
        }
    }

    /// Sets the bounds of the embedded API server to 0, for a process without one.
    #[must_use]
    pub(crate) fn without_stored_objects(self) -> Self {
        Self { stored_bytes: 0, watch_history_bytes: 0, file_cache_bytes: 0, ..self }
    }

    /// Sets the bounds of the API servers that only tenants name to 0, for a process without them.
    #[must_use]
    pub(crate) fn without_tenants(self) -> Self {
        Self { tenant_caches_bytes: 0, ..self }
    }

    /// Lowers the bounds for a process with this much memory, in bytes, so that their sum ([`Self::memory`]) stays below it. With less than
    /// [`LEAST_MEMORY`] they are those for that much. Bodies have the memory of bounds that are 0.
    #[must_use]
    pub(crate) fn within_memory(self, memory: u64) -> Self {
        let memory = usize::try_from(memory).unwrap_or(usize::MAX).max(LEAST_MEMORY);
        // The sum of all parts below is at most `PARTS`.
        let part = |parts: usize| (memory - PROCESS_BYTES) / PARTS * parts;
        let count = |bound: usize, parts: usize, bytes: usize| bound.min(part(parts) / bytes).max(1);
        // 0 sets no bound of seats.
        let seats = |bound: usize, parts, bytes| count(if bound == 0 { usize::MAX } else { bound }, parts, bytes);
        let unused = |bound: usize, parts: usize| if bound == 0 { parts } else { 0 };
        let bodies = 34
            + unused(self.tenant_caches_bytes, 13)
            + unused(self.stored_bytes, 12)
            + unused(self.watch_history_bytes, 5)
            + unused(self.file_cache_bytes, 2);
        let window = |bound: u32, share: usize| bound.min(u32::try_from(memory / share).unwrap_or(u32::MAX));
        let scaled = Self {
            stream_window_bytes: window(self.stream_window_bytes, 8 << 10),
            connection_window_bytes: window(self.connection_window_bytes, 2 << 10),
            send_buffer_bytes: self.send_buffer_bytes.min(memory / (16 << 10)),
            upstream_send_buffer_bytes: self.upstream_send_buffer_bytes.min(memory / (8 << 10)),
            answer_window_bytes: window(self.answer_window_bytes, 16 << 10),
            watch_window_bytes: window(self.watch_window_bytes, 32 << 10),
            page_bytes: self.page_bytes.min(memory >> 9),
            ..self
        };
        let scaled = {
            let connections = count(scaled.connections, 21, CONNECTION_BYTES);
            scaled.with_connections(connections)
        };
        let (reads, watches) = (scaled.read_bytes(), scaled.watch_bytes());
        let long_running_requests = count(scaled.long_running_requests, 26, watches);
        let upgrades = count(scaled.upgrades, 4, UPGRADE_BYTES);
        let arriving_reviews_bytes = scaled.arriving_reviews_bytes.min(part(6));
        let reviews_inflight = count(scaled.reviews_inflight, 4, UNCOUNTED_BYTES);
        Self {
            health_connections: count(scaled.health_connections, 2, HEALTH_CONNECTION_BYTES),
            review_connections: count(scaled.review_connections, 2, CONNECTION_BYTES),
            heads_bytes: scaled.heads_bytes.min(part(4)),
            arriving_bodies_bytes: scaled.arriving_bodies_bytes.min(part(12)),
            whole_bodies_bytes: scaled.whole_bodies_bytes.min(part(bodies)),
            whole_answers_bytes: scaled.whole_answers_bytes.min(part(17)),
            write_answers_bytes: scaled.write_answers_bytes.min(part(10)),
            audited_answers_bytes: scaled.audited_answers_bytes.min(part(8)),
            arriving_reviews_bytes,
            // The longest review is one of those that arrive.
            review_bytes: scaled.review_bytes.min(arriving_reviews_bytes / 2),
            reviews_inflight,
            caller_reviews_inflight: scaled.caller_reviews_inflight.min(reviews_inflight / 4 * 3).max(1),
            webhook_answers_bytes: scaled.webhook_answers_bytes.min(part(7)),
            audit_queue_bytes: scaled.audit_queue_bytes.min(part(4)),
            caches_bytes: scaled.caches_bytes.min(part(34)),
            tenant_caches_bytes: scaled.tenant_caches_bytes.min(part(13)),
            stored_bytes: scaled.stored_bytes.min(part(12)),
            watch_history_bytes: scaled.watch_history_bytes.min(part(5) / DECODED_COPIES),
            file_cache_bytes: scaled.file_cache_bytes.min(part(2)),
            image_review_cache_bytes: scaled.image_review_cache_bytes.min(part(1)),
            discovery_bytes: scaled.discovery_bytes.min(part(5) / DISCOVERY_COPIES),
            measured_routes: count(scaled.measured_routes, 2, ROUTE_BYTES),
            requests_inflight: seats(scaled.requests_inflight, 16, reads),
            mutating_requests_inflight: seats(scaled.mutating_requests_inflight, 16, WRITE_BYTES),
            long_running_requests,
            user_long_running_requests: scaled.user_long_running_requests.min(long_running_requests / 4).max(1),
            upgrades,
            user_upgrades: scaled.user_upgrades.min(upgrades / 4).max(1),
            token_cache_entries: scaled.token_cache_entries.min((part(1) / CACHED_ANSWER_BYTES) as u64),
            authorization_cache_entries: scaled.authorization_cache_entries.min((part(2) / CACHED_ANSWER_BYTES) as u64),
            quota_cache_entries: scaled.quota_cache_entries.min((part(2) / CACHED_QUOTA_BYTES) as u64),
            ..scaled
        }
    }

    /// The memory of a body of which nothing has arrived: the request, and the part of the body that the client may send before the proxy reads
    /// it.
    pub(crate) fn arriving_place_bytes(&self) -> usize {
        self.stream_window_bytes as usize + ARRIVING_BYTES
    }

    /// Returns the bounds for an API server that only tenants name, whose answers nobody vouches for.
    #[must_use]
    pub(crate) fn for_api_server_of_tenants(&self) -> Self {
        Self {
            object_bytes: self.object_bytes.min(8 << 20),
            discovery_bytes: self.discovery_bytes.min(4 << 20),
            ..self.clone()
        }
    }

    /// The memory of a read in progress: a part of its answer on both sides.
    fn read_bytes(&self) -> usize {
        self.answer_window_bytes as usize + self.send_buffer_bytes
    }

    /// The memory of a watch whose client does not read.
    fn watch_bytes(&self) -> usize {
        self.watch_window_bytes as usize + WATCH_BYTES
    }

    /// The memory that each bound allows, in bytes, and that of the process without clients. Further bounds lie within these: policy
    /// parameters within the caches, silent connections and handshakes within the connections, answers that were given up within the process.
    pub fn memory(&self) -> Vec<(&'static str, usize)> {
        let entries = |entries: u64, bytes: usize| usize::try_from(entries).unwrap_or(usize::MAX).saturating_mul(bytes);
        vec![
            ("the process", PROCESS_BYTES),
            ("connections", self.connections.saturating_mul(CONNECTION_BYTES)),
            ("health_connections", self.health_connections.saturating_mul(HEALTH_CONNECTION_BYTES)),
            ("review_connections", self.review_connections.saturating_mul(CONNECTION_BYTES)),
            // The webhook front end has a listener of its own.
            ("heads_bytes", 2 * self.heads_bytes),
            ("arriving_bodies_bytes", self.arriving_bodies_bytes),
            ("whole_bodies_bytes", self.whole_bodies_bytes),
            ("whole_answers_bytes", self.whole_answers_bytes),
            ("write_answers_bytes", self.write_answers_bytes),
            ("audited_answers_bytes", self.audited_answers_bytes),
            ("arriving_reviews_bytes", self.arriving_reviews_bytes),
            ("reviews_inflight", self.reviews_inflight.saturating_mul(UNCOUNTED_BYTES)),
            ("webhook_answers_bytes", self.webhook_answers_bytes),
            ("audit_queue_bytes", 2 * self.audit_queue_bytes),
            ("caches_bytes", self.caches_bytes),
            ("tenant_caches_bytes", self.tenant_caches_bytes),
            ("stored_bytes", self.stored_bytes),
            ("watch_history_bytes", self.watch_history_bytes.saturating_mul(DECODED_COPIES)),
            ("file_cache_bytes", self.file_cache_bytes),
            ("image_review_cache_bytes", self.image_review_cache_bytes),
            ("discovery_bytes", self.discovery_bytes.saturating_mul(DISCOVERY_COPIES)),
            ("measured_routes", self.measured_routes.saturating_mul(ROUTE_BYTES)),
            ("requests_inflight", self.requests_inflight.saturating_mul(self.read_bytes())),
            ("mutating_requests_inflight", self.mutating_requests_inflight.saturating_mul(WRITE_BYTES)),
            ("long_running_requests", self.long_running_requests.saturating_mul(self.watch_bytes())),
            ("upgrades", self.upgrades.saturating_mul(UPGRADE_BYTES)),
            ("token_cache_entries", entries(self.token_cache_entries, CACHED_ANSWER_BYTES)),
            ("authorization_cache_entries", entries(self.authorization_cache_entries, CACHED_ANSWER_BYTES)),
            ("quota_cache_entries", entries(self.quota_cache_entries, CACHED_QUOTA_BYTES)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::Weight;

    #[test]
    fn connections_leave_descriptors_to_everything_else() {
        assert_eq!(Limits::default().within_descriptors(1 << 20), Limits::default());
        assert_eq!(Limits::default().within_descriptors(u64::MAX), Limits::default());
        let few = Limits::default().within_descriptors(1024);
        assert_eq!((few.connections, few.silent_connections), (768, 384));
        assert_eq!((few.unauthenticated_connections, few.handshakes), (192, 96));
        assert_eq!((few.health_connections, few.upgrades), (64, 32));
        let upstream = few.upstream_http1_connections + few.upstream_connections;
        let taken = few.connections + few.health_connections + 2 * few.upgrades + 2 * upstream;
        assert!(taken + few.review_connections < 1024);
        assert_eq!(Limits::default().within_descriptors(0).connections, 1);
    }

    fn sum(limits: &Limits) -> usize {
        limits.memory().iter().map(|(_, bytes)| bytes).sum()
    }

    #[test]
    fn the_sum_of_all_bounds_is_below_the_memory() {
        for mebibytes in [256, 300, 400, 512, 700, 1024, 2048, 4096, 8192, 65_536] {
            let memory = mebibytes << 20;
            let limits = Limits::default().within_memory(memory);
            assert!(sum(&limits) as u64 <= memory, "{mebibytes}: {} MiB: {:?}", sum(&limits) >> 20, limits.memory());
            for fewer in [
                Limits::default().without_stored_objects(),
                Limits::default().without_tenants(),
                Limits::default().without_stored_objects().without_tenants(),
            ] {
                let fewer = fewer.within_memory(memory);
                assert!(sum(&fewer) as u64 <= memory, "{mebibytes}: {:?}", fewer.memory());
                assert!(fewer.whole_bodies_bytes > limits.whole_bodies_bytes || limits == Limits::default());
            }
            let unbounded = Limits { requests_inflight: 0, mutating_requests_inflight: 0, ..Limits::default() };
            let limits = unbounded.within_memory(memory);
            assert!(sum(&limits) as u64 <= memory && limits.requests_inflight > 0);
        }
        let least = Limits::default().within_memory(LEAST_MEMORY as u64);
        assert_eq!(Limits::default().within_memory(0), least);
        assert!(sum(&least) > LEAST_MEMORY / 4 * 3);
        assert_eq!(Limits::default().within_memory(1 << 40), Limits::default());
        assert_eq!(Limits::default().within_memory(u64::MAX), Limits::default());
    }

    #[test]
    fn the_chart_gives_the_memory_for_as_many_requests_as_the_flags_allow() {
        let values: serde_json::Value =
            serde_saphyr::from_str(include_str!("../../charts/kube-admission-proxy/values.yaml")).unwrap();
        let memory = crate::object::quantity::Quantity::of(values.pointer("/resources/limits/memory")).value();
        let (given, limits) = (Limits::default(), Limits::default().within_memory(memory.try_into().unwrap()));
        assert!(sum(&limits) <= usize::try_from(memory).unwrap());
        assert_eq!(
            (limits.requests_inflight, limits.mutating_requests_inflight),
            (given.requests_inflight, given.mutating_requests_inflight)
        );
        assert!(limits.connections >= 1024 && limits.long_running_requests >= 1024);
        // The longest body fits into the share of one user.
        let weight = |length: usize| Weight::default().of(length);
        assert!(limits.whole_bodies_bytes / 8 * 3 >= weight(limits.body_bytes));
        // So do the longest bodies of several users that arrive, and the longest reviews.
        assert!(limits.arriving_bodies_bytes >= 3 * 2 * limits.body_bytes);
        assert!(limits.whole_bodies_bytes / 4 * 3 >= weight(limits.review_bytes));
    }
}
