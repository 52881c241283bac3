//! `--max-requests-inflight`, `--max-mutating-requests-inflight`, and the bounds of watches and upgrades: a request above a bound
//! gets 429.

use super::connect;
use crate::config::Limits;
use crate::metrics::Registry;
use crate::request::RequestInfo;
use crate::status::Status;
use crate::user::UserInfo;
use http::Method;
use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts};
use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Seats of four kinds: for reads and writes (`filters.WithMaxInFlightLimit`), for long-running requests, for upgrades. A user
/// gets no more seats of a kind than are left, so that a user whose requests do not end leaves room for others.
pub struct InFlight {
    reads: Option<Arc<Seats>>,
    writes: Option<Arc<Seats>>,
    long_running: Arc<Seats>,
    upgrades: Arc<Seats>,
    /// The seats of a tenant among those of the whole process.
    of_process: Option<OfProcess>,
    /// Whether members of `system:masters` need seats.
    counts_all: bool,
    metrics: Metrics,
}

/// The long-running requests and upgrades of all tenants, and the name under which one tenant takes seats among them.
struct OfProcess {
    tenant: Arc<UserInfo>,
    long_running: Arc<Seats>,
    upgrades: Arc<Seats>,
}

/// The metrics of all seats, which clones share.
#[derive(Clone)]
struct Metrics {
    taken: IntGaugeVec,
    refused: IntCounterVec,
    unread: IntCounter,
}

/// A seat, free again when all its clones are dropped.
#[derive(Clone)]
pub(super) struct Seat {
    _taken: Option<Arc<Taken>>,
    _of_process: Option<Arc<Taken>>,
    unread: IntCounter,
}

struct Taken(Arc<Seats>, Arc<UserInfo>);

struct Seats {
    free: Mutex<Free>,
    /// The seats that one user may have.
    of_one: usize,
    /// The gauge of taken seats; `None` if other seats of the same requests are counted.
    taken: Option<IntGauge>,
    refused: IntCounter,
}

struct Free {
    left: usize,
    taken: HashMap<Name, usize>,
}

/// A user, identified by name.
struct Name(Arc<UserInfo>);

impl Metrics {
    fn register(registry: &Registry) -> prometheus::Result<Self> {
        let opts = Opts::new(
            "kube_admission_proxy_requests_inflight",
            "Number of requests in flight, by kind (read, write, long_running or upgrade).",
        );
        let taken = IntGaugeVec::new(opts, &["kind"])?;
        let opts = Opts::new(
            "kube_admission_proxy_requests_refused_total",
            "Number of requests that were refused because too many of their kind were in flight, by kind.",
        );
        let refused = IntCounterVec::new(opts, &["kind"])?;
        let unread = IntCounter::new(
            "kube_admission_proxy_answers_given_up_total",
            "Number of answers that the proxy gave up because the client read nothing for --request-timeout.",
        )?;
        registry.register(Box::new(taken.clone()))?;
        registry.register(Box::new(refused.clone()))?;
        registry.register(Box::new(unread.clone()))?;
        Ok(Self { taken, refused, unread })
    }

    fn seats(&self, kind: &str, left: usize, of_one: usize) -> Arc<Seats> {
        let free = Mutex::new(Free { left, taken: HashMap::new() });
        let (taken, refused) = (self.taken.with_label_values(&[kind]), self.refused.with_label_values(&[kind]));
        Arc::new(Seats { free, of_one, taken: Some(taken), refused })
    }
}

impl InFlight {
    /// Creates the seats from the limits.
    ///
    /// # Errors
    /// If the registry already has the metrics.
    pub fn new(limits: &Limits, registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self::with(limits, registry.once("seats", Metrics::register)?))
    }

    fn with(limits: &Limits, metrics: Metrics) -> Self {
        let bounded = |kind, left: usize| (left > 0).then(|| metrics.seats(kind, left, left));
        Self {
            reads: bounded("read", limits.requests_inflight),
            writes: bounded("write", limits.mutating_requests_inflight),
            long_running: metrics.seats(
                "long_running",
                limits.long_running_requests,
                limits.user_long_running_requests,
            ),
            upgrades: metrics.seats("upgrade", limits.upgrades, limits.user_upgrades),
            of_process: None,
            counts_all: false,
            metrics,
        }
    }

    /// Creates the seats that the tenants of a process share.
    ///
    /// # Errors
    /// If the registry already has the metrics.
    pub fn of_tenants(limits: &Limits, registry: &Registry) -> prometheus::Result<Self> {
        let all = Self::new(limits, registry)?;
        // The seats of the tenants are the ones that are counted.
        let shared = |seats: &Arc<Seats>, left| {
            let free = Mutex::new(Free { left, taken: HashMap::new() });
            Arc::new(Seats { free, of_one: usize::MAX, taken: None, refused: seats.refused.clone() })
        };
        let long_running = shared(&all.long_running, limits.long_running_requests);
        let upgrades = shared(&all.upgrades, limits.upgrades);
        Ok(Self { of_process: Some(OfProcess { tenant: Arc::default(), long_running, upgrades }), ..all })
    }

    /// Creates the seats of a tenant with these limits. Its long-running requests and upgrades also take seats of the process, of which a
    /// tenant gets no more than are left. If `counts_all`, members of `system:masters` need seats too.
    #[must_use]
    pub fn of_tenant(&self, tenant: &str, limits: &Limits, counts_all: bool) -> Self {
        let of_process = self.of_process.as_ref().map(|shared| OfProcess {
            tenant: Arc::new(UserInfo { username: tenant.to_owned(), ..UserInfo::default() }),
            long_running: shared.long_running.clone(),
            upgrades: shared.upgrades.clone(),
        });
        Self { of_process, counts_all, ..Self::with(limits, self.metrics.clone()) }
    }

    /// Takes a seat.
    ///
    /// # Errors
    /// 429 if no seat is left, or the user has as many seats as one user may have.
    pub(super) fn enter(
        &self,
        method: &Method,
        info: &RequestInfo,
        upgrades: bool,
        user: &Arc<UserInfo>,
    ) -> Result<Seat, Status> {
        let free = Seat { _taken: None, _of_process: None, unread: self.metrics.unread.clone() };
        if user.is_privileged() && !self.counts_all {
            return Ok(free);
        }
        let Some(seats) = self.seats(method, info, upgrades) else { return Ok(free) };
        let Some(taken) = seats.enter(user) else { return Err(Status::try_again_later()) };
        let of_process = self.of_process.as_ref().and_then(|of_process| {
            let shared = match seats {
                _ if Arc::ptr_eq(seats, &self.long_running) => &of_process.long_running,
                _ if Arc::ptr_eq(seats, &self.upgrades) => &of_process.upgrades,
                _ => return None,
            };
            Some(shared.enter(&of_process.tenant))
        });
        match of_process {
            Some(None) => Err(Status::try_again_later()),
            _ => Ok(Seat { _taken: Some(taken), _of_process: of_process.flatten(), ..free }),
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
    /// Counts an answer that was given up.
    pub(super) fn count_unread(&self) {
        self.unread.inc();
    }
}

impl Seats {
    fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(self: &Arc<Self>, user: &Arc<UserInfo>) -> Option<Arc<Taken>> {
        if self.take(user) {
            return Some(Arc::new(Taken(self.clone(), user.clone())));
        }
        self.refused.inc();
        None
    }

    /// Takes a seat for the user; false if the user gets no seat.
    fn take(&self, user: &Arc<UserInfo>) -> bool {
        let Free { left, taken } = &mut *self.free();
        match taken.get_mut(&*user.username) {
            Some(count) if *count >= *left || *count >= self.of_one => return false,
            Some(count) => *count += 1,
            None if *left == 0 || self.of_one == 0 => return false,
            None => drop(taken.insert(Name(user.clone()), 1)),
        }
        *left -= 1;
        self.taken.iter().for_each(IntGauge::inc);
        true
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let Self(seats, user) = self;
        let Free { left, taken } = &mut *seats.free();
        *left += 1;
        seats.taken.iter().for_each(IntGauge::dec);
        let Some(count) = taken.get_mut(&*user.username) else { return };
        *count -= 1;
        if *count == 0 {
            taken.remove(&*user.username);
        }
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0.username
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.0.username == other.0.username
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.username.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::request_info;

    const PODS: &str = "/api/v1/namespaces/n/pods";

    fn user(name: &str) -> Arc<UserInfo> {
        Arc::new(UserInfo { username: name.into(), ..UserInfo::default() })
    }

    fn in_flight(limits: Limits) -> InFlight {
        InFlight::new(&limits, &Registry::new()).unwrap()
    }

    fn seats(reads: usize, writes: usize) -> InFlight {
        in_flight(Limits { requests_inflight: reads, mutating_requests_inflight: writes, ..Limits::default() })
    }

    impl InFlight {
        fn ask(&self, method: Method, uri: &str, user: &Arc<UserInfo>) -> Result<Seat, Status> {
            self.enter(&method, &request_info(&method, &uri.parse().unwrap()), false, user)
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
        let exec = |user| in_flight.enter(&Method::POST, &info, true, user);
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
    fn a_tenant_has_seats_of_its_own_and_leaves_watches_for_others() {
        let limits = Limits { mutating_requests_inflight: 1, long_running_requests: 4, ..Limits::default() };
        let all = InFlight::of_tenants(&limits, &Registry::new()).unwrap();
        let [blue, green, default] = [("blue", true), ("green", true), ("default", false)]
            .map(|(name, all_count)| all.of_tenant(name, &limits, all_count));
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
