//! Schedules the work on requests: long work leaves the async worker, and users take turns with it.
//!
//! A worker of the runtime serves all connections, and nothing preempts the worker. Before a future in [`Processor::run`]
//! decodes, patches or evaluates a large input, the future calls [`expect`]. From the next poll on, the future is polled off the
//! worker: the operating system divides the processors between long work and the workers. A poll of long work needs a turn. There
//! are fewer turns than processors, and one sharer has at most half of them, so that neither the workers nor the long work of other
//! sharers wait for the long work of one.
//!
//! A future in [`migrating`] moves to another thread for such a poll, and the worker stays on its thread. For other futures another
//! thread takes over the worker; every thread on which a worker has run keeps freed memory of connections.

use crate::sharer::{self, Sharer};
use futures_util::task::AtomicWaker;
use std::cell::Cell;
use std::collections::HashMap;
use std::future::{pending, poll_fn};
use std::panic::resume_unwind;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::LocalKey;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

/// The bytes that a poll decodes, patches and encodes on a worker: the slowest known input takes 100 ns a byte.
const SHORT_BYTES: usize = 32 << 10;

thread_local! {
    /// The work that the polled future expects; `None` outside of [`Processor::run`].
    static EXPECTED: Cell<Option<Work>> = const { Cell::new(None) };
    /// The place of the polled future; `None` outside of [`migrating`].
    static PLACE: Cell<Option<Place>> = const { Cell::new(None) };
}

/// The amount of work in a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// Short work on a worker: the bytes that are left.
    Short(usize),
    Long,
}

/// The thread that polls a future.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Worker,
    /// A worker, for the last time: the next poll does long work.
    LeftWorker,
    OffWorker,
}

/// The work at the start of a poll.
const SHORT: Work = Work::Short(SHORT_BYTES);

/// The turns of long work, which clones share.
#[derive(Clone, Debug)]
pub struct Processor(Arc<Turns>);

#[derive(Debug)]
struct Turns {
    all: Semaphore,
    /// The turns that service accounts may have together.
    of_service_accounts: Semaphore,
    /// The turns that one sharer may have.
    of_one: usize,
    lines: Mutex<HashMap<Sharer, Weak<Line>>>,
}

/// The turns of one sharer with long work. The queue for all turns is first in, first out; a sharer has at most as many polls in that
/// queue as turns, and so have all service accounts together.
#[derive(Debug)]
struct Line {
    sharer: Sharer,
    own: Semaphore,
    turns: Arc<Turns>,
}

impl Processor {
    /// Creates this number of turns; 0 stands for one less than the number of processors, but at least 1.
    pub fn new(turns: usize) -> Self {
        let turns = match turns {
            0 => std::thread::available_parallelism().map_or(1, |processors| processors.get() - 1),
            turns => turns,
        };
        let turns = turns.clamp(1, Semaphore::MAX_PERMITS);
        Self(Arc::new(Turns {
            all: Semaphore::new(turns),
            of_service_accounts: Semaphore::new(sharer::of_service_accounts(turns)),
            of_one: turns.div_ceil(2),
            lines: Mutex::default(),
        }))
    }

    /// Runs the work on a request.
    pub(crate) async fn run<F: Future>(&self, sharer: &Sharer, work: F) -> F::Output {
        let mut work = pin!(work);
        let short = poll_fn(|context| match with(&EXPECTED, SHORT, || work.as_mut().poll(context)) {
            (Poll::Ready(output), _) => Poll::Ready(Some(output)),
            (Poll::Pending, Work::Short(_)) => Poll::Pending,
            (Poll::Pending, Work::Long) => Poll::Ready(None),
        });
        if let Some(output) = short.await {
            return output;
        }
        let line = self.line(sharer);
        loop {
            let turn = line.turn().await;
            let (step, _) = poll_fn(|context| {
                off_worker(context, |context| with(&EXPECTED, Work::Long, || work.as_mut().poll(context)))
            })
            .await;
            drop(turn);
            match step {
                Poll::Ready(output) => return output,
                Poll::Pending => woken().await,
            }
        }
    }

    fn line(&self, sharer: &Sharer) -> Arc<Line> {
        let mut lines = self.0.lines();
        if let Some(line) = lines.get(sharer).and_then(Weak::upgrade) {
            return line;
        }
        let line = Line { sharer: sharer.clone(), own: Semaphore::new(self.0.of_one), turns: self.0.clone() };
        let line = Arc::new(line);
        lines.insert(sharer.clone(), Arc::downgrade(&line));
        line
    }
}

impl Turns {
    fn lines(&self) -> MutexGuard<'_, HashMap<Sharer, Weak<Line>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    /// Waits for a turn, which ends when the returned value is dropped.
    async fn turn(&self) -> impl Sized + use<'_> {
        // No semaphore is ever closed.
        let own = self.own.acquire().await.ok();
        let of_service_accounts = match self.sharer.is_service_accounts() {
            true => self.turns.of_service_accounts.acquire().await.ok(),
            false => None,
        };
        (self.turns.all.acquire().await.ok(), of_service_accounts, own)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let mut lines = self.turns.lines();
        // The map may already hold a new line of the same sharer.
        if lines.get(&self.sharer).is_some_and(|line| line.strong_count() == 0) {
            lines.remove(&self.sharer);
        }
    }
}

/// Announces the decoding of so many bytes, or other work of that size. Long work goes on at the next poll, in its turn. Has no
/// effect outside of [`Processor::run`].
pub(crate) async fn expect(bytes: usize) {
    let Some(left) = short_left() else { return };
    match left.checked_sub(bytes) {
        Some(left) => set_short_left(left),
        None => expect_long().await,
    }
}

/// Announces work of unknown length.
pub(crate) async fn expect_long() {
    let mut is_announced = short_left().is_none();
    poll_fn(|context| {
        if std::mem::replace(&mut is_announced, true) {
            return Poll::Ready(());
        }
        EXPECTED.set(Some(Work::Long));
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Does work of this size, in decoded bytes, outside of [`Processor::run`]: for long work another thread takes over the worker. On a
/// single-threaded runtime the work blocks the worker.
pub(crate) fn block<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) if bytes > SHORT_BYTES => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// Returns the work that this poll may still do on its worker, in decoded bytes; `None` if long work is allowed.
pub(crate) fn short_left() -> Option<usize> {
    match EXPECTED.get() {
        Some(Work::Short(left)) => Some(left),
        Some(Work::Long) | None => None,
    }
}

/// Sets the value of [`short_left`] after short work.
pub(crate) fn set_short_left(left: usize) {
    if short_left().is_some() {
        EXPECTED.set(Some(Work::Short(left)));
    }
}

/// Polls a future with this state of the thread, and returns the state after the poll.
fn with<S: Copy, T>(key: &'static LocalKey<Cell<Option<S>>>, state: S, poll: impl FnOnce() -> T) -> (T, S) {
    /// Restores the thread's state, even after a panic.
    struct Restore<S: Copy + 'static>(&'static LocalKey<Cell<Option<S>>>, Option<S>);
    impl<S: Copy> Drop for Restore<S> {
        fn drop(&mut self) {
            self.0.set(self.1);
        }
    }
    let _restore = Restore(key, key.replace(Some(state)));
    let output = poll();
    (output, key.get().unwrap_or(state))
}

/// Runs long work, off the worker. Outside of [`migrating`], another thread takes over the worker; on a single-threaded runtime the
/// work blocks the worker.
fn off_worker<T>(context: &mut Context<'_>, work: impl FnOnce(&mut Context<'_>) -> T) -> Poll<T> {
    match PLACE.get() {
        Some(Place::Worker | Place::LeftWorker) => {
            PLACE.set(Some(Place::LeftWorker));
            // Futures between this one and `migrating` may poll only what was woken.
            context.waker().wake_by_ref();
            Poll::Pending
        }
        Some(Place::OffWorker) => Poll::Ready(work(context)),
        None => Poll::Ready(block(usize::MAX, || work(context))),
    }
}

/// Runs a future that moves to a thread of its own for each poll with long work in [`Processor::run`]. If the returned future is
/// dropped during such a poll, the poll ends first.
pub(crate) fn migrating<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> impl Future<Output = T> {
    // On the heap from here on: the returned future is small, and is moved often.
    migrating_on_heap(Box::pin(work))
}

async fn migrating_on_heap<F>(mut work: Pin<Box<F>>) -> F::Output
where
    F: Future<Output: Send> + Send + 'static,
{
    let wakeup = Arc::<Wakeup>::default();
    let waker = Waker::from(wakeup.clone());
    loop {
        let on_worker = poll_fn(|context| {
            if !wakeup.take(context.waker()) {
                return Poll::Pending;
            }
            match with(&PLACE, Place::Worker, || work.as_mut().poll(&mut Context::from_waker(&waker))) {
                (Poll::Ready(output), _) => Poll::Ready(Some(output)),
                (Poll::Pending, Place::LeftWorker) => Poll::Ready(None),
                (Poll::Pending, _) => Poll::Pending,
            }
        });
        if let Some(output) = on_worker.await {
            return output;
        }
        wakeup.clear();
        let waker = waker.clone();
        let poll = beside_workers(move || {
            let mut context = Context::from_waker(&waker);
            let (step, _) = with(&PLACE, Place::OffWorker, || work.as_mut().poll(&mut context));
            (step, work)
        });
        match poll.await {
            (Poll::Ready(output), _) => return output,
            (Poll::Pending, rest) => work = rest,
        }
    }
}

/// Runs work on a thread beside the workers. Panics if the work does.
pub(crate) async fn beside_workers<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(output) => output,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The runtime ends.
            Err(_) => pending().await,
        },
    }
}

/// The waker of a migrating future, the same on every thread. The task is woken for other reasons too: for the end of a poll off the
/// worker, and for the connection.
struct Wakeup {
    is_woken: AtomicBool,
    task: AtomicWaker,
}

impl Default for Wakeup {
    fn default() -> Self {
        Self { is_woken: AtomicBool::new(true), task: AtomicWaker::new() }
    }
}

impl Wakeup {
    /// Returns whether the future is new or was woken. Every later wakeup wakes the task.
    fn take(&self, task: &Waker) -> bool {
        self.task.register(task);
        self.is_woken.swap(false, Ordering::AcqRel)
    }

    /// Forgets the wakeups before a poll.
    fn clear(&self) {
        self.is_woken.store(false, Ordering::Release);
    }
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.task.wake();
    }
}

/// Waits until the task is woken.
async fn woken() {
    let mut is_polled = false;
    poll_fn(|_| if std::mem::replace(&mut is_polled, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use futures_util::future::join_all;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;
    use tokio::runtime::Builder;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn short_work_is_done_at_once_and_long_work_when_it_is_polled_again() {
        let processor = Processor::new(1);
        let step = |bytes| async move {
            expect(SHORT_BYTES / 2).await;
            expect(bytes).await;
            EXPECTED.get()
        };
        assert_eq!(
            processor.run(&Sharer::named("a"), step(SHORT_BYTES / 2)).now_or_never(),
            Some(Some(Work::Short(0)))
        );
        assert_eq!(processor.run(&Sharer::named("a"), step(SHORT_BYTES / 2 + 1)).await, Some(Work::Long));
        // No state is left, neither of the thread nor of the user.
        assert_eq!(EXPECTED.get(), None);
        assert!(processor.0.lines().is_empty());
        expect(usize::MAX).now_or_never().expect("nobody runs this");
    }

    #[test]
    fn long_work_does_not_hold_the_only_worker() {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (processor, (begin, begun)) = (Processor::new(1), oneshot::channel());
        let (end, ended) = std::sync::mpsc::channel();
        let long = runtime.spawn(async move {
            let work = async move {
                expect_long().await;
                begin.send(()).unwrap();
                // Blocks its thread.
                ended.recv_timeout(Duration::from_secs(60)).unwrap();
            };
            processor.run(&Sharer::named("a"), work).await;
        });
        let other = runtime.spawn(async move {
            begun.await.unwrap();
            end.send(()).unwrap();
        });
        runtime.block_on(async {
            other.await.unwrap();
            long.await.unwrap();
        });
    }

    #[test]
    fn a_migrating_future_leaves_the_worker_for_its_long_polls_only() {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let here = || std::thread::current().id();
        let threads = |rounds: usize| {
            let processor = Processor::new(1);
            migrating(async move {
                let before = here();
                let work = async {
                    expect_long().await;
                    let mut found = Vec::new();
                    for round in 0..rounds {
                        found.push(here());
                        // Wakeups during the poll, at its end and long after it.
                        match round % 3 {
                            0 => tokio::task::yield_now().await,
                            1 => tokio::time::sleep(Duration::from_millis(1)).await,
                            _ => drop(tokio::spawn(async {}).await),
                        }
                    }
                    found
                };
                let found = processor.run(&Sharer::named("a"), work).await;
                tokio::time::sleep(Duration::from_millis(1)).await;
                (before, found, here())
            })
        };
        let tasks = (0..4).map(|_| runtime.spawn(threads(30)));
        for task in runtime.block_on(join_all(tasks.collect::<Vec<_>>())) {
            let (before, found, after) = task.unwrap();
            assert_eq!((found.len(), before), (30, after));
            assert!(!found.contains(&before), "the worker did long work");
        }
    }

    #[test]
    fn a_migrating_future_has_one_poll_for_each_wakeup() {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (processor, polls) = (Processor::new(1), Arc::new(AtomicUsize::new(0)));
        let (count, (end, mut ended)) = (polls.clone(), oneshot::channel::<()>());
        let task = runtime.spawn(migrating(async move {
            let work = async {
                expect_long().await;
                poll_fn(|context| {
                    count.fetch_add(1, Ordering::SeqCst);
                    ended.poll_unpin(context)
                })
                .await
            };
            processor.run(&Sharer::named("a"), work).await
        }));
        runtime.block_on(async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            end.send(()).unwrap();
            task.await.unwrap().unwrap();
        });
        assert_eq!(polls.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn a_migrating_future_may_panic_or_be_dropped_and_leaves_the_turn_to_others() {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (processor, (begin, begun)) = (Processor::new(1), oneshot::channel());
        let (end, ended) = std::sync::mpsc::channel();
        let (panicking, dropped) = (processor.clone(), processor.clone());
        let panicking = runtime.spawn(migrating(async move {
            panicking
                .run(&Sharer::named("a"), async {
                    expect_long().await;
                    panic!("of the work")
                })
                .await
        }));
        let dropped = runtime.spawn(migrating(async move {
            let work = async move {
                expect_long().await;
                begin.send(()).unwrap();
                ended.recv_timeout(Duration::from_secs(60)).unwrap();
                pending::<()>().await;
            };
            dropped.run(&Sharer::named("a"), work).await;
        }));
        runtime.block_on(async {
            assert!(panicking.await.unwrap_err().is_panic());
            begun.await.unwrap();
            dropped.abort();
            assert!(dropped.await.unwrap_err().is_cancelled());
            end.send(()).unwrap();
            processor.run(&Sharer::named("b"), expect_long()).await;
            // The other thread drops the future after the turn.
            let gone = async {
                while !processor.0.lines().is_empty() {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(Duration::from_secs(60), gone).await.unwrap();
        });
    }

    /// Runs long work that counts its concurrent runs and yields between them.
    async fn counted(processor: &Processor, user: &str, running: &AtomicUsize, most: &AtomicUsize) {
        let work = async {
            expect_long().await;
            for _ in 0..3 {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(1));
                running.fetch_sub(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
            }
        };
        processor.run(&Sharer::named(user), work).await;
    }

    #[test]
    fn no_more_runs_at_a_time_than_there_are_turns() {
        let runtime = Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
        for (turns, users, bound) in [(2, &["a", "b", "c"][..], 2), (4, &["a"], 2), (1, &["a", "b"], 1)] {
            let (processor, running, most) = (Processor::new(turns), Arc::default(), Arc::default());
            let tasks = (0..8).map(|index| {
                let (processor, user) = (processor.clone(), users[index % users.len()]);
                let (running, most) = (Arc::<AtomicUsize>::clone(&running), Arc::<AtomicUsize>::clone(&most));
                runtime.spawn(async move { counted(&processor, user, &running, &most).await })
            });
            for task in runtime.block_on(join_all(tasks.collect::<Vec<_>>())) {
                task.unwrap();
            }
            assert!(most.load(Ordering::SeqCst) <= bound, "{turns} turns, {users:?}: {most:?} at a time");
        }
    }

    #[tokio::test]
    async fn the_next_turn_is_another_users() {
        let (processor, order) = (Processor::new(1), Mutex::new(Vec::new()));
        let (end, ended) = oneshot::channel::<()>();
        let step = async |user: &'static str| {
            let work = async {
                expect_long().await;
                order.lock().unwrap().push(user);
            };
            processor.run(&Sharer::named(user), work).await;
        };
        let greedy = (0..5).map(|_| step("greedy"));
        let all = async {
            // The futures ask for turns in the order of their first polls.
            tokio::join!(join_all(greedy), step("quiet"));
            end.send(()).unwrap();
        };
        let held = processor.0.all.acquire().await.unwrap();
        let release = async {
            tokio::task::yield_now().await;
            drop(held);
            ended.await.unwrap();
        };
        tokio::join!(all, release);
        let place = order.lock().unwrap().iter().position(|user| *user == "quiet");
        assert!(place <= Some(1), "{order:?}");
    }

    #[tokio::test]
    async fn service_accounts_have_no_more_polls_in_the_queue_than_their_part() {
        let (processor, order) = (Processor::new(1), Mutex::new(Vec::new()));
        let step = async |user: String| {
            let work = async {
                expect_long().await;
                order.lock().unwrap().push(user.clone());
            };
            processor.run(&Sharer::named(&user), work).await;
        };
        let accounts = join_all((0..20).map(|number| step(format!("system:serviceaccount:{number}:a"))));
        let held = processor.0.all.acquire().await.unwrap();
        let release = async {
            tokio::task::yield_now().await;
            drop(held);
        };
        tokio::join!(accounts, step("user".to_owned()), release);
        let place = order.lock().unwrap().iter().position(|user| user == "user");
        assert!(place <= Some(1), "{order:?}");
    }

    #[tokio::test]
    async fn a_cancelled_wait_leaves_the_turn_to_others() {
        let processor = Processor::new(1);
        let held = processor.0.all.acquire().await.unwrap();
        let user = Sharer::named("a");
        let mut waiting = Box::pin(processor.run(&user, expect_long()));
        for _ in 0..3 {
            assert!(waiting.as_mut().now_or_never().is_none());
        }
        drop(waiting);
        assert!(processor.0.lines().is_empty());
        drop(held);
        processor.run(&Sharer::named("a"), expect_long()).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn another_thread_takes_over_a_worker_with_long_work() {
        let long = async {
            let (sent, received) = std::sync::mpsc::channel();
            tokio::spawn(async move { sent.send(()).unwrap() });
            block(SHORT_BYTES + 1, || received.recv_timeout(Duration::from_secs(60)))
        };
        assert_eq!(tokio::spawn(long).await.unwrap(), Ok(()));
    }
}
