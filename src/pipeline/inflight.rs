//! `--max-requests-inflight`, `--max-mutating-requests-inflight`, and the bounds of watches and upgrades: a request above a bound
//! gets 429.
//!
//! A write takes its seat when its body has arrived. Until then it has a place among the bodies that arrive: a client that sends a body slowly
//! keeps nobody else from writing.

use super::connect;
use crate::arrivals::{Arrival, Arrivals};
use crate::config::Limits;
use crate::logging::cut;
use crate::look::listed;
use crate::metrics::Registry;
use crate::request::RequestInfo;
use crate::sharer::{self, Sharer, Sharing};
use crate::status::Status;
use crate::user::UserInfo;
use http::Method;
use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Seats of four kinds: for reads and writes (`filters.WithMaxInFlightLimit`), for long-running requests, for upgrades. A sharer gets
/// no more seats of a kind than are left, so that one whose requests do not end leaves room for others.
pub(super) struct InFlight {
    reads: Option<Arc<Seats>>,
    writes: Option<Arc<Seats>>,
    bodies: Arrivals,
    long_running: Arc<Seats>,
    upgrades: Arc<Seats>,
    /// The seats of one of several tenants among those of the whole process.
    of_process: Option<OfProcess>,
    /// Whether members of `system:masters` need seats.
    counts_all: bool,
    metrics: Metrics,
}

/// The arriving bodies, long-running requests and upgrades of all tenants, and the sharer that one tenant is among them.
struct OfProcess {
    tenant: Sharer,
    bodies: Arrivals,
    long_running: Arc<Seats>,
    upgrades: Arc<Seats>,
}

/// The metrics of all seats, which clones share.
#[derive(Clone)]
struct Metrics {
    taken: IntGaugeVec,
    refused: IntCounterVec,
    arriving: IntGauge,
    given_up: IntCounter,
    unread: IntCounter,
}

/// A seat, free again when all its clones are dropped.
#[derive(Clone)]
pub(super) struct Seat {
    taken: Option<Arc<Taken>>,
    of_process: Option<Arc<Taken>>,
    arriving: Option<Arc<Arriving>>,
    unread: IntCounter,
}

/// The place of a write whose body is arriving.
struct Arriving {
    place: Arrival,
    of_process: Option<Arrival>,
    /// The seats among which the write takes one then.
    writes: Arc<Seats>,
    arriving: IntGauge,
    given_up: IntCounter,
}

/// A seat that is taken until it is released, or dropped.
struct Taken {
    seats: Arc<Seats>,
    sharer: Sharer,
    is_released: AtomicBool,
}

struct Seats {
    free: Mutex<Free>,
    /// The seats that one sharer may have.
    of_one: usize,
    /// The gauge of taken seats; `None` if other seats of the same requests are counted.
    taken: Option<IntGauge>,
    refused: IntCounter,
}

struct Free {
    left: usize,
    /// The seats that are left for service accounts.
    left_for_service_accounts: usize,
    taken: HashMap<Sharer, usize>,
}

impl Free {
    fn new(left: usize) -> Self {
        Self { left, left_for_service_accounts: sharer::of_service_accounts(left), taken: HashMap::new() }
    }

    /// Whether a sharer gets a seat: it never gets more than are left.
    fn is_for(&self, sharer: &Sharer, of_one: usize) -> bool {
        let left = match sharer.is_service_accounts() {
            true => self.left.min(self.left_for_service_accounts),
            false => self.left,
        };
        let count = self.taken.get(sharer).copied().unwrap_or_default();
        count < left && count < of_one
    }
}

impl Metrics {
    fn register(registry: &Registry) -> prometheus::Result<Self> {
        let opts = Opts::new(
            "kube_admission_proxy_requests_inflight",
            "Number of requests in flight, by kind (read, write, body, long_running or upgrade). A write whose body is not there yet is of the kind body.",
        );
        let taken = IntGaugeVec::new(opts, &["kind"])?;
        let opts = Opts::new(
            "kube_admission_proxy_requests_refused_total",
            "Number of requests that were refused because too many of their kind were in flight, by kind.",
        );
        let refused = IntCounterVec::new(opts, &["kind"])?;
        let unread = IntCounter::new(
            "kube_admission_proxy_answers_given_up_total",
            "Number of answers that the proxy gave up because the client read nothing for --request-timeout, or not in time while another answer waited for room.",
        )?;
        registry.register(Box::new(taken.clone()))?;
        registry.register(Box::new(refused.clone()))?;
        registry.register(Box::new(unread.clone()))?;
        let (arriving, given_up) = (taken.with_label_values(&["body"]), refused.with_label_values(&["body"]));
        Ok(Self { taken, refused, arriving, given_up, unread })
    }

    fn seats(&self, kind: &str, left: usize, of_one: usize) -> Arc<Seats> {
        let free = Mutex::new(Free::new(left));
        let (taken, refused) = (self.taken.with_label_values(&[kind]), self.refused.with_label_values(&[kind]));
        Arc::new(Seats { free, of_one, taken: Some(taken), refused })
    }
}

/// The seats that the tenants of a process share, and the metrics of all seats.
pub(super) struct ProcessSeats {
    bodies: Arrivals,
    long_running: Arc<Seats>,
    upgrades: Arc<Seats>,
    metrics: Metrics,
}

impl ProcessSeats {
    /// Creates the seats from the limits.
    ///
    /// # Errors
    /// If the registry already has the metrics.
    pub(super) fn new(limits: &Limits, registry: &Registry) -> prometheus::Result<Self> {
        let metrics = registry.once("seats", Metrics::register)?;
        // The seats of the tenants are the ones that are counted.
        let shared = |kind, left| {
            let (free, refused) = (Mutex::new(Free::new(left)), metrics.refused.with_label_values(&[kind]));
            Arc::new(Seats { free, of_one: usize::MAX, taken: None, refused })
        };
        Ok(Self {
            bodies: Arrivals::new(limits.arriving_bodies_bytes, limits.arriving_place_bytes()),
            long_running: shared("long_running", limits.long_running_requests),
            upgrades: shared("upgrade", limits.upgrades),
            metrics,
        })
    }
}

impl InFlight {
    /// Creates the seats of a tenant with these limits. The long-running requests and upgrades of one of several tenants also take seats of the
    /// process, of which a tenant gets no more than are left, and its arriving bodies are among those of the process. If `counts_all`, members
    /// of `system:masters` need seats too.
    #[must_use]
    pub(super) fn new(process: &ProcessSeats, limits: &Limits, sharing: &Sharing, counts_all: bool) -> Self {
        let metrics = process.metrics.clone();
        let bounded = |kind, left: usize| (left > 0).then(|| metrics.seats(kind, left, left));
        let of_process = sharing.as_tenant().map(|tenant| OfProcess {
            tenant,
            bodies: process.bodies.clone(),
            long_running: process.long_running.clone(),
            upgrades: process.upgrades.clone(),
        });
        Self {
            reads: bounded("read", limits.requests_inflight),
            writes: bounded("write", limits.mutating_requests_inflight),
            bodies: Arrivals::new(limits.arriving_bodies_bytes, limits.arriving_place_bytes()),
            long_running: metrics.seats(
                "long_running",
                limits.long_running_requests,
                limits.user_long_running_requests,
            ),
            upgrades: metrics.seats("upgrade", limits.upgrades, limits.user_upgrades),
            of_process,
            counts_all,
            metrics,
        }
    }

    /// The taken seats by user, of those that have most.
    pub(super) fn look(&self) -> Value {
        let kinds = [
            ("read", self.reads.as_ref()),
            ("write", self.writes.as_ref()),
            ("long_running", Some(&self.long_running)),
            ("upgrade", Some(&self.upgrades)),
        ];
        listed(kinds.into_iter().filter_map(|(kind, seats)| Some(seats?.look(kind))))
    }

    /// Takes a seat; for a write with a body, a place among the bodies that arrive.
    ///
    /// # Errors
    /// 429 if no seat is left, or the sharer has as many seats as it may have.
    pub(super) fn enter(
        &self,
        method: &Method,
        info: &RequestInfo,
        upgrades: bool,
        has_body: bool,
        user: &Arc<UserInfo>,
    ) -> Result<Seat, Status> {
        let free = Seat { taken: None, of_process: None, arriving: None, unread: self.metrics.unread.clone() };
        if user.is_privileged() && !self.counts_all {
            return Ok(free);
        }
        let Some(seats) = self.seats(method, info, upgrades) else { return Ok(free) };
        let sharer = Sharer::User(user.clone());
        if has_body && self.writes.as_ref().is_some_and(|writes| Arc::ptr_eq(seats, writes)) {
            // A body need not arrive if there would be no seat for it.
            seats.check(&sharer)?;
            return Ok(Seat { arriving: Some(Arc::new(self.arrive(sharer, seats))), ..free });
        }
        let taken = seats.enter(sharer)?;
        let of_process = match &self.of_process {
            Some(shared) if Arc::ptr_eq(seats, &self.long_running) => Some((&shared.long_running, &shared.tenant)),
            Some(shared) if Arc::ptr_eq(seats, &self.upgrades) => Some((&shared.upgrades, &shared.tenant)),
            _ => None,
        };
        let of_process = of_process.map(|(shared, tenant)| shared.enter(tenant.clone())).transpose()?;
        Ok(Seat { taken: Some(taken), of_process, ..free })
    }

    fn arrive(&self, sharer: Sharer, writes: &Arc<Seats>) -> Arriving {
        self.metrics.arriving.inc();
        Arriving {
            place: self.bodies.enter(sharer),
            of_process: self.of_process.as_ref().map(|shared| shared.bodies.enter(shared.tenant.clone())),
            writes: writes.clone(),
            arriving: self.metrics.arriving.clone(),
            given_up: self.metrics.given_up.clone(),
        }
    }

    /// Returns the seats for a request. Only a request that the API server could connect or stream is long-running: any other
    /// request under such a name is a read or a write, which costs access reviews before its refusal. A watch over WebSocket is a
    /// watch.
    fn seats(&self, method: &Method, info: &RequestInfo, upgrades: bool) -> Option<&Arc<Seats>> {
        let is_get = *method == Method::GET;
        let is_connect = connect::is_possible(method, info);
        if is_get && info.verb == "watch" {
            return Some(&self.long_running);
        }
        if upgrades && (is_get || is_connect) {
            return Some(&self.upgrades);
        }
        if is_connect || (is_get && info.is_long_running()) {
            return Some(&self.long_running);
        }
        let is_read = matches!(info.verb.as_str(), "get" | "list" | "watch" | "head" | "options");
        if is_read { self.reads.as_ref() } else { self.writes.as_ref() }
    }
}

impl Seat {
    /// Takes the seat of a write whose body has arrived.
    ///
    /// # Errors
    /// 429 if no seat is left.
    pub(super) fn arrived(self) -> Result<Self, Status> {
        let Some(arriving) = &self.arriving else { return Ok(self) };
        let taken = arriving.writes.enter(arriving.place.sharer().clone())?;
        Ok(Self { taken: Some(taken), arriving: None, ..self })
    }

    /// The memory of the arriving body, in the pipeline and in the process.
    pub(super) fn arrivals(&self) -> [Option<&Arrival>; 2] {
        let arriving = self.arriving.as_deref();
        [arriving.map(|arriving| &arriving.place), arriving.and_then(|arriving| arriving.of_process.as_ref())]
    }

    /// Resolves to a 429 if the arriving body is given up for another one.
    pub(super) async fn given_up(&self) -> Status {
        let Some(arriving) = &self.arriving else { return pending().await };
        match &arriving.of_process {
            Some(of_process) => tokio::select! {
                () = arriving.place.given_up() => {}
                () = of_process.given_up() => {}
            },
            None => arriving.place.given_up().await,
        }
        arriving.given_up.inc();
        Status::try_again_later()
    }

    /// Frees the seat for another request while this one, whose work is done, waits for its audit event.
    pub(super) fn release(&self) {
        self.taken.iter().chain(&self.of_process).for_each(|taken| taken.release());
    }

    /// Counts an answer that was given up.
    pub(super) fn count_unread(&self) {
        self.unread.inc();
    }
}

impl Seats {
    fn look(&self, kind: &str) -> Value {
        let free = self.free();
        let mut users: Vec<(String, usize)> =
            free.taken.iter().map(|(sharer, count)| (cut(&sharer.to_string()), *count)).collect();
        let left = free.left;
        drop(free);
        users.sort_by(|(one, of_one), (other, of_other)| of_other.cmp(of_one).then_with(|| one.cmp(other)));
        let taken: usize = users.iter().map(|(_, count)| count).sum();
        let users = listed(users.into_iter().map(|(user, seats)| json!({"user": user, "seats": seats})));
        json!({"kind": kind, "taken": taken, "free": left, "users": users})
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a seat.
    fn enter(self: &Arc<Self>, sharer: Sharer) -> Result<Arc<Taken>, Status> {
        let mut free = self.free();
        if !free.is_for(&sharer, self.of_one) {
            return Err(self.refuse());
        }
        free.left -= 1;
        if sharer.is_service_accounts() {
            free.left_for_service_accounts -= 1;
        }
        *free.taken.entry(sharer.clone()).or_default() += 1;
        self.taken.iter().for_each(IntGauge::inc);
        Ok(Arc::new(Taken { seats: self.clone(), sharer, is_released: AtomicBool::new(false) }))
    }

    /// Checks that the sharer would get a seat now.
    fn check(&self, sharer: &Sharer) -> Result<(), Status> {
        if self.free().is_for(sharer, self.of_one) { Ok(()) } else { Err(self.refuse()) }
    }

    fn refuse(&self) -> Status {
        self.refused.inc();
        Status::try_again_later()
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        self.arriving.dec();
    }
}

impl Taken {
    fn release(&self) {
        if self.is_released.swap(true, Ordering::Relaxed) {
            return;
        }
        let Self { seats, sharer, .. } = self;
        let mut free = seats.free();
        free.left += 1;
        if sharer.is_service_accounts() {
            free.left_for_service_accounts += 1;
        }
        seats.taken.iter().for_each(IntGauge::dec);
        let Some(count) = free.taken.get_mut(sharer) else { return };
        *count -= 1;
        if *count == 0 {
            free.taken.remove(sharer);
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
impl InFlight {
    /// The seats of the only tenant of a process.
    pub(super) fn alone(limits: &Limits) -> Self {
        Self::new(&ProcessSeats::new(limits, &Registry::new()).unwrap(), limits, &Sharing::ByUser, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::request_info;
    use futures_util::FutureExt;

    const PODS: &str = "/api/v1/namespaces/n/pods";

    fn user(name: &str) -> Arc<UserInfo> {
        Arc::new(UserInfo { username: name.into(), ..UserInfo::default() })
    }

    fn in_flight(limits: Limits) -> InFlight {
        InFlight::alone(&limits)
    }

    fn seats(reads: usize, writes: usize) -> InFlight {
        in_flight(Limits { requests_inflight: reads, mutating_requests_inflight: writes, ..Limits::default() })
    }

    impl InFlight {
        fn ask(&self, method: Method, uri: &str, user: &Arc<UserInfo>) -> Result<Seat, Status> {
            self.enter(&method, &request_info(&method, &uri.parse().unwrap()), false, false, user)
        }

        /// A create whose body is on the way.
        fn begin(&self, user: &Arc<UserInfo>) -> Result<Seat, Status> {
            self.enter(&Method::POST, &request_info(&Method::POST, &PODS.parse().unwrap()), false, true, user)
        }
    }

    #[test]
    fn refuses_a_further_request_until_a_seat_is_free() {
        let (in_flight, [a, b]) = (seats(0, 1), ["a", "b"].map(user));
        let seat = in_flight.ask(Method::POST, PODS, &a).unwrap_or_else(|_| unreachable!());
        assert_eq!(in_flight.ask(Method::POST, PODS, &b).err().unwrap().code, 429);
        assert!(in_flight.ask(Method::GET, PODS, &b).is_ok());
        let clone = seat.clone();
        drop(seat);
        assert!(in_flight.ask(Method::POST, PODS, &b).is_err());
        drop(clone);
        assert!(in_flight.ask(Method::POST, PODS, &b).is_ok());
        let seat = in_flight.ask(Method::POST, PODS, &a).unwrap_or_else(|_| unreachable!());
        seat.release();
        seat.clone().release();
        assert!(in_flight.ask(Method::POST, PODS, &b).is_ok());
        drop(seat);
        let writes = in_flight.writes.as_ref().unwrap();
        assert_eq!((writes.refused.get(), writes.taken.as_ref().unwrap().get()), (2, 0));
    }

    #[test]
    fn each_request_has_a_seat_of_its_kind() {
        let in_flight = seats(1, 1);
        let kind = |method: &str, uri: &str, upgrades| {
            let method = method.parse().unwrap();
            let found = in_flight.seats(&method, &request_info(&method, &uri.parse().unwrap()), upgrades).unwrap();
            let kinds =
                [in_flight.reads.as_ref().unwrap(), in_flight.writes.as_ref().unwrap(), &in_flight.long_running];
            let at = kinds.iter().position(|seats| Arc::ptr_eq(seats, found));
            ["read", "write", "long", "upgrade"][at.unwrap_or(3)]
        };
        for (method, path, plain, upgraded) in [
            ("GET", "/pods", "read", "upgrade"),
            ("GET", "/pods?watch=1", "long", "long"),
            ("POST", "/pods", "write", "write"),
            ("GET", "/pods/p/log", "long", "upgrade"),
            ("POST", "/pods/p/log", "write", "write"),
            ("GET", "/pods/p/exec", "long", "upgrade"),
            ("POST", "/pods/p/exec", "long", "upgrade"),
            ("PUT", "/pods/p/exec", "write", "write"),
            ("POST", "/pods/p/portforward", "long", "upgrade"),
            ("DELETE", "/pods/p/proxy/x", "long", "upgrade"),
            ("POST", "/services/s/proxy/x", "long", "upgrade"),
            ("POST", "/services/s/exec", "write", "write"),
            ("POST", "/configmaps/c/proxy", "write", "write"),
            ("POST", "/nodes/n/proxy", "write", "write"),
        ] {
            let uri = format!("/api/v1/namespaces/n{path}");
            assert_eq!((kind(method, &uri, false), kind(method, &uri, true)), (plain, upgraded), "{method} {path}");
        }
        assert_eq!(kind("POST", "/api/v1/nodes/n/proxy/metrics", false), "long");
        assert_eq!(kind("POST", "/api/v1/watch/pods", false), "read");
        assert_eq!(kind("POST", "/apis/apps/v1/namespaces/n/deployments/d/exec", false), "write");
    }

    #[test]
    fn a_user_has_watches_and_upgrades_up_to_a_bound() {
        let in_flight = in_flight(Limits { user_long_running_requests: 2, user_upgrades: 1, ..Limits::default() });
        let [a, b] = ["a", "b"].map(user);
        let watch = |user| in_flight.ask(Method::GET, "/api/v1/pods?watch=1", user);
        let info = request_info(&Method::POST, &format!("{PODS}/p/exec").parse().unwrap());
        let exec = |user| in_flight.enter(&Method::POST, &info, true, false, user);
        let watches = [watch(&a), watch(&a)];
        assert_eq!(watch(&a).err().unwrap().code, 429);
        assert!(watches.iter().all(Result::is_ok) && watch(&b).is_ok());
        let first = exec(&a);
        assert_eq!(exec(&a).err().unwrap().code, 429);
        assert!(first.is_ok() && exec(&b).is_ok());
    }

    #[test]
    fn a_user_takes_no_more_seats_than_are_left() {
        let in_flight = seats(0, 12);
        let taken_by = |name: &str| {
            let enter = || in_flight.ask(Method::POST, PODS, &user(name)).ok();
            std::iter::from_fn(enter).collect::<Vec<_>>()
        };
        let [greedy, second, third] = ["greedy", "second", "third"].map(taken_by);
        assert_eq!([greedy.len(), second.len(), third.len()], [6, 3, 2]);
        drop(greedy);
        assert_eq!(taken_by("greedy").len(), 4);
        drop((second, third));
        assert_eq!(taken_by("greedy").len(), 6);
        let free = in_flight.writes.as_ref().unwrap().free();
        assert!(free.left == 12 && free.taken.is_empty());
    }

    #[test]
    fn service_accounts_of_a_namespace_have_the_seats_of_one_user() {
        let in_flight = seats(0, 16);
        let taken_by = |namespace: &str| {
            let accounts = (0..20).map(|number| user(&format!("system:serviceaccount:{namespace}:{number}")));
            accounts.filter_map(|user| in_flight.ask(Method::POST, PODS, &user).ok()).collect::<Vec<_>>()
        };
        let taken = ["a", "b", "c", "d", "e"].map(taken_by);
        assert_eq!(taken.each_ref().map(Vec::len), [6, 3, 2, 1, 0]);
        // Namespaces that a client makes at will leave the reserve to users.
        let of_user: Vec<Seat> = std::iter::from_fn(|| in_flight.ask(Method::POST, PODS, &user("u")).ok()).collect();
        assert_eq!(of_user.len(), 2);
        drop((taken, of_user));
        let free = in_flight.writes.as_ref().unwrap().free();
        assert!(free.left == 16 && free.left_for_service_accounts == 12 && free.taken.is_empty());
    }

    #[test]
    fn a_write_has_a_seat_when_its_body_has_arrived() {
        let arriving_bodies_bytes = 4 * Limits::default().arriving_place_bytes();
        let limits = Limits { mutating_requests_inflight: 2, arriving_bodies_bytes, ..Limits::default() };
        let (in_flight, [slow, quick]) = (in_flight(limits), ["slow", "quick"].map(user));
        // Bodies that do not arrive leave the seats, and the places of bodies, to others.
        let stalled: Vec<Seat> = (0..20).map_while(|_| in_flight.begin(&slow).ok()).collect();
        assert_eq!((stalled.len(), in_flight.writes.as_ref().unwrap().free().left), (20, 2));
        let given_up = |seat: &Seat| seat.given_up().now_or_never().map(|refusal| refusal.code);
        let count = stalled.iter().filter(|seat| given_up(seat) == Some(429)).count();
        assert_eq!((count, in_flight.bodies.count()), (16, 4));
        let begun = in_flight.begin(&quick).unwrap_or_else(|_| unreachable!());
        assert_eq!(given_up(&begun), None);
        let written = begun.arrived();
        assert!(written.is_ok());
        let mut arrived = stalled.into_iter().map(Seat::arrived);
        let first = arrived.next().unwrap();
        assert!(first.is_ok());
        assert_eq!(arrived.next().unwrap().err().unwrap().code, 429);
        // A body is not read without a seat for it.
        assert_eq!(in_flight.begin(&quick).err().unwrap().code, 429);
        drop((first, written, arrived));
        assert!(in_flight.bodies.count() == 0 && in_flight.begin(&quick).is_ok());
        assert_eq!((in_flight.metrics.arriving.get(), in_flight.metrics.given_up.get()), (0, 16));
    }

    #[test]
    fn a_tenant_has_seats_of_its_own_and_leaves_watches_for_others() {
        let limits = Limits { mutating_requests_inflight: 1, long_running_requests: 4, ..Limits::default() };
        let all = ProcessSeats::new(&limits, &Registry::new()).unwrap();
        let [blue, green, default] = [("blue", true), ("green", true), ("default", false)]
            .map(|(name, all_count)| InFlight::new(&all, &limits, &Sharing::AsTenant(name.into()), all_count));
        let masters = UserInfo { username: "m".into(), groups: vec!["system:masters".into()], ..UserInfo::default() };
        let [a, b, masters] = [user("a"), user("b"), Arc::new(masters)];
        let write = |of: &InFlight, user| of.ask(Method::POST, PODS, user);
        let seats = [write(&blue, &a), write(&green, &a), write(&default, &a)];
        assert!(seats.iter().all(Result::is_ok));
        assert_eq!(write(&blue, &b).err().unwrap().code, 429);
        assert!(write(&blue, &masters).is_err() && write(&default, &masters).is_ok());
        let watches = |of: &InFlight| -> Vec<Seat> {
            let ask = |user| of.ask(Method::GET, "/api/v1/pods?watch=1", user).ok();
            [&a, &b, &a, &b].into_iter().filter_map(ask).collect()
        };
        let (of_blue, of_green) = (watches(&blue), watches(&green));
        assert_eq!((of_blue.len(), of_green.len()), (2, 1));
        drop(of_blue);
        assert!(!watches(&green).is_empty());
    }

    #[test]
    fn masters_always_get_an_answer() {
        let in_flight = seats(0, 1);
        let _seat = in_flight.ask(Method::POST, PODS, &user("a"));
        let masters =
            UserInfo { username: "admin".into(), groups: vec!["system:masters".into()], ..UserInfo::default() };
        assert!(in_flight.ask(Method::POST, PODS, &Arc::new(masters)).is_ok());
    }
}
