//! The queue of requests that wait for their quotas. A round checks and charges all waiting requests of a namespace together,
//! with one write per quota (`quotaEvaluator`).

use super::check::{Request, check};
use super::evaluator::Gates;
use super::metrics::Queue;
use super::quotas::{Quota, Quotas};
use crate::admission::Denial;
use crate::cluster::Cluster;
use crate::config::Limits;
use crate::status::Status;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};

/// The number of retries of a round if a quota could not be written.
const RETRIES: usize = 3;

/// The waiting requests, and their workers.
pub(super) struct Rounds {
    quotas: Quotas,
    cluster: Arc<Cluster>,
    gates: Gates,
    waiting: Mutex<Waiting>,
    queue: Queue,
    max_waiting: usize,
    workers: Semaphore,
    timeout: Duration,
}

/// The waiting requests by namespace. A namespace with a worker has an entry, even if no request waits.
#[derive(Default)]
struct Waiting {
    count: usize,
    by_namespace: HashMap<String, Vec<Waiter>>,
}

struct Waiter {
    request: Request,
    answer: oneshot::Sender<Result<(), Denial>>,
}

impl Waiter {
    fn answer(self, answer: Result<(), Denial>) {
        // Fails if the request was cancelled, which is harmless.
        let _ = self.answer.send(answer);
    }
}

impl Rounds {
    pub(super) fn new(cluster: Arc<Cluster>, gates: Gates, limits: &Limits, queue: Queue) -> Self {
        Self {
            quotas: Quotas::new(cluster.clone(), limits),
            cluster,
            gates,
            waiting: Mutex::default(),
            queue,
            max_waiting: limits.quota_waiting_requests,
            workers: Semaphore::new(limits.quota_workers.max(1)),
            timeout: limits.quota_timeout,
        }
    }

    /// See [`Quotas::has_none`].
    pub(super) fn has_no_quotas(&self, namespace: &str) -> bool {
        self.quotas.has_none(namespace)
    }

    /// See [`Quotas::may_have`].
    pub(super) fn may_have_quotas(&self, namespace: &str, interest: impl Fn(&BTreeSet<String>) -> bool) -> bool {
        self.quotas.may_have(namespace, interest)
    }

    /// Checks a request against the namespace's quotas, and charges the request.
    pub(super) async fn evaluate(self: &Arc<Self>, namespace: &str, request: Request) -> Result<(), Denial> {
        let (answer, answered) = oneshot::channel();
        self.add(namespace, Waiter { request, answer })?;
        match tokio::time::timeout(self.timeout, answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Denial::Plain("DEFAULT DENY".to_owned())),
            Err(_) => Err(Status::internal_error("resource quota evaluation timed out").into()),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a request, and starts a worker for the namespace if there is none.
    fn add(self: &Arc<Self>, namespace: &str, waiter: Waiter) -> Result<(), Denial> {
        let mut waiting = self.waiting();
        if waiting.count >= self.max_waiting {
            return Err(Status::too_many_requests("too many wait for their resource quotas").into());
        }
        waiting.count += 1;
        match waiting.by_namespace.entry(namespace.to_owned()) {
            Entry::Occupied(mut entry) => {
                if entry.get().is_empty() {
                    self.queue.added(namespace);
                }
                entry.get_mut().push(waiter);
            }
            Entry::Vacant(entry) => {
                self.queue.added(namespace);
                entry.insert(vec![waiter]);
                // The worker is a separate task, because the first request may be cancelled while others wait.
                tokio::spawn(self.clone().work(namespace.to_owned()));
            }
        }
        Ok(())
    }

    /// Takes the waiting requests of the namespace. `None` if no request waits; the worker's entry is removed then.
    fn take(&self, namespace: &str) -> Option<Vec<Waiter>> {
        let mut waiting = self.waiting();
        let waiters = waiting.by_namespace.get_mut(namespace).map(std::mem::take).unwrap_or_default();
        waiting.count = waiting.count.saturating_sub(waiters.len());
        if waiters.is_empty() {
            waiting.by_namespace.remove(namespace);
            return None;
        }
        self.queue.started(namespace);
        Some(waiters)
    }

    async fn work(self: Arc<Self>, namespace: String) {
        let mut working = Working { rounds: &self, namespace: &namespace, is_done: false };
        loop {
            let Ok(_one_of_few) = self.workers.acquire().await else { return };
            let Some(mut waiters) = self.take(&namespace) else { break };
            // A cancelled request is not charged.
            waiters.retain(|waiter| !waiter.answer.is_closed());
            self.round(&namespace, waiters).await;
            self.queue.finished(&namespace);
        }
        working.is_done = true;
    }

    /// `checkAttributes`
    async fn round(&self, namespace: &str, mut waiters: Vec<Waiter>) {
        let mut quotas = match self.quotas.of(namespace).await {
            Ok(quotas) => quotas,
            Err(status) => return refuse(waiters, &status),
        };
        let mut written = BTreeSet::new();
        for retry in 0..=RETRIES {
            let charged = self.charge(&mut quotas, waiters);
            if charged.is_empty() {
                return;
            }
            let Some((failed, status)) = self.write(&quotas, &mut written).await else {
                return charged.into_iter().for_each(|(waiter, _)| waiter.answer(Ok(())));
            };
            let is_paid = |indexes: &[usize]| indexes.iter().all(|index| !failed.contains(index));
            waiters = Vec::new();
            for (waiter, indexes) in charged {
                if is_paid(&indexes) { waiter.answer(Ok(())) } else { waiters.push(waiter) }
            }
            if waiters.is_empty() {
                return;
            }
            if retry == RETRIES {
                return refuse(waiters, &status);
            }
            quotas = match self.quotas.fresh(namespace).await {
                Ok(quotas) => quotas,
                Err(_) => return refuse(waiters, &status),
            };
            // The written quotas still count for coverage, but the remaining requests have already been charged to them.
            for quota in &mut quotas {
                quota.is_settled = written.contains(&quota.name);
            }
        }
    }

    /// Checks the requests one after the other, each with the usage that earlier requests leave. Answers the requests that need
    /// no write, and returns the others with the indexes of the charged quotas.
    fn charge(&self, quotas: &mut [Quota], waiters: Vec<Waiter>) -> Vec<(Waiter, Vec<usize>)> {
        let mut charged = Vec::new();
        for waiter in waiters {
            match check(quotas, &waiter.request, &self.cluster, &self.gates) {
                Err(denial) => waiter.answer(Err(denial)),
                Ok(charges) if charges.is_empty() || waiter.request.dry_run => waiter.answer(Ok(())),
                // The namespace had no quota when the request came.
                Ok(_) if !waiter.request.is_authorized => waiter.answer(Err(Status::try_again_later().into())),
                Ok(charges) => {
                    let indexes = charges.iter().map(|charge| charge.index).collect();
                    for charge in charges {
                        if let Some(quota) = quotas.get_mut(charge.index) {
                            (quota.used, quota.is_changed) = (charge.used, true);
                        }
                    }
                    charged.push((waiter, indexes));
                }
            }
        }
        charged
    }

    /// Writes the changed quotas. Returns the indexes of the failed writes, and the last error.
    async fn write(&self, quotas: &[Quota], written: &mut BTreeSet<String>) -> Option<(BTreeSet<usize>, Status)> {
        let (mut failed, mut last) = (BTreeSet::new(), None);
        for (index, quota) in quotas.iter().enumerate().filter(|(_, quota)| quota.is_changed) {
            match self.quotas.write(quota).await {
                Ok(()) => drop(written.insert(quota.name.clone())),
                Err(status) => {
                    tracing::debug!(quota = quota.name, code = status.code, "a quota could not be charged");
                    failed.insert(index);
                    last = Some(status);
                }
            }
        }
        last.map(|status| (failed, status))
    }
}

fn refuse(waiters: Vec<Waiter>, status: &Status) {
    waiters.into_iter().for_each(|waiter| waiter.answer(Err(status.clone().into())));
}

/// The worker of a namespace. If the worker ends early, the drop removes the waiting requests.
struct Working<'a> {
    rounds: &'a Rounds,
    namespace: &'a str,
    is_done: bool,
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            let mut waiting = self.rounds.waiting();
            let left = waiting.by_namespace.remove(self.namespace).unwrap_or_default();
            waiting.count = waiting.count.saturating_sub(left.len());
            self.rounds.queue.abandoned(self.namespace);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::Previous;
    use super::super::evaluator::{Evaluator, Subject};
    use super::*;
    use crate::cluster::FixedState;
    use crate::config::FeatureGates;
    use crate::object::quantity::Quantity;
    use k8s_openapi::api::core::v1::ResourceQuota;
    use serde_json::json;

    fn rounds(limits: &Limits) -> Arc<Rounds> {
        let metadata = json!({"name": "q", "namespace": "n", "resourceVersion": "1"});
        let status = json!({"hard": {"configmaps": "9"}, "used": {"configmaps": "0"}});
        let quota = serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap();
        let cluster = Cluster::fixed(FixedState::default().with::<ResourceQuota>(vec![quota]));
        let queue = Queue::new(&crate::metrics::Registry::new()).unwrap();
        Arc::new(Rounds::new(cluster, Gates::new(&FeatureGates::default()), limits, queue))
    }

    fn request() -> Request {
        let usage = [("configmaps".to_owned(), Quantity::whole(1))].into();
        Request {
            evaluator: Evaluator::Count(vec!["configmaps".to_owned()]),
            new: Subject { usage, ..Subject::default() },
            previous: Previous::None,
            limited_names: BTreeSet::new(),
            limited_scopes: Vec::new(),
            dry_run: false,
            is_authorized: true,
            is_status: false,
        }
    }

    async fn refusal(rounds: &Arc<Rounds>) -> Option<Status> {
        refusal_of(rounds, request()).await
    }

    async fn refusal_of(rounds: &Arc<Rounds>, request: Request) -> Option<Status> {
        match rounds.evaluate("n", request).await.err()? {
            Denial::Status(status) => Some(*status),
            other => panic!("{other:?}"),
        }
    }

    async fn used(rounds: &Rounds) -> String {
        let quotas = rounds.quotas.fresh("n").await.unwrap();
        quotas[0].used["configmaps"].to_string()
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_waits_too_long_times_out_and_is_not_charged() {
        let rounds = rounds(&Limits { quota_workers: 1, ..Limits::default() });
        let busy = rounds.workers.acquire().await.unwrap();
        let status = refusal(&rounds).await.unwrap();
        assert_eq!((status.code, &*status.reason), (500, "InternalError"));
        assert_eq!(status.message, "Internal error occurred: resource quota evaluation timed out");
        drop(busy);
        assert_eq!(refusal(&rounds).await, None);
        assert_eq!(used(&rounds).await, "1");
    }

    #[tokio::test]
    async fn a_request_without_a_known_permission_is_sent_again_and_not_charged() {
        let rounds = rounds(&Limits::default());
        let unknown = || Request { is_authorized: false, ..request() };
        assert_eq!(refusal_of(&rounds, unknown()).await, Some(Status::try_again_later()));
        assert_eq!(used(&rounds).await, "0");
        // No quota is charged for these.
        assert_eq!(refusal_of(&rounds, Request { dry_run: true, ..unknown() }).await, None);
        assert_eq!(refusal_of(&rounds, Request { new: Subject::default(), ..unknown() }).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_waiting_requests_is_bounded() {
        let rounds = rounds(&Limits { quota_workers: 1, quota_waiting_requests: 2, ..Limits::default() });
        let busy = rounds.workers.acquire().await.unwrap();
        let all = futures_util::future::join_all((0..3).map(|_| refusal(&rounds)));
        let (answers, ()) = tokio::join!(all, async {
            tokio::task::yield_now().await;
            drop(busy);
        });
        let codes: Vec<Option<u16>> = answers.into_iter().map(|status| status.map(|status| status.code)).collect();
        assert_eq!(codes, [None, None, Some(429)]);
        assert_eq!(refusal(&rounds).await, None);
        let waiting = rounds.waiting();
        assert_eq!((waiting.count, waiting.by_namespace.len()), (0, 0));
    }

    #[tokio::test]
    async fn a_cancelled_request_does_not_block_the_others() {
        let rounds = rounds(&Limits::default());
        let mut first = Box::pin(rounds.evaluate("n", request()));
        // The first request waits, and its arrival started the worker.
        assert!(futures_util::poll!(&mut first).is_pending());
        let second = refusal(&rounds);
        drop(first);
        assert_eq!(second.await, None);
        assert_eq!(used(&rounds).await, "1");
    }

    #[tokio::test]
    async fn a_request_without_a_worker_is_refused() {
        let rounds = rounds(&Limits::default());
        rounds.workers.close();
        assert!(matches!(rounds.evaluate("n", request()).await, Err(Denial::Plain(text)) if text == "DEFAULT DENY"));
        assert!(rounds.waiting().by_namespace.is_empty());
    }
}
