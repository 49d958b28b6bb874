//! The queues of streams. A queue stores its last task; this module determines which tasks a new
//! task waits for.
//!
//! CUDA orders work by these rules. Work of one stream runs in the order of submission. The *legacy
//! null stream* waits for all earlier work of the context's blocking streams, and later work of
//! blocking streams waits for the legacy stream. Non-blocking streams are independent of the legacy
//! stream. Each host thread has a *per-thread default stream*, which is a blocking stream.
//!
//! Invariants: the tail of a [`Queue`] is the last task submitted to it, unless that task is complete. A queue whose
//! tail is not complete is in the list of busy queues, except the queue of the legacy stream. A submission to the
//! legacy stream holds the order lock exclusively, so no tail of a blocking queue changes while the submission reads
//! all of these tails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard, RwLock};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::observe::{Dependence, DependenceKind};
use crate::process::{next_id, thread_id};
use crate::task::{Dependences, Task};
use crate::timeline::{Clock, Point, Timeline};

/// The kind of a stream.
///
/// ```
/// use margay::StreamKind;
///
/// let context = margay::Runtime::new()?.context()?;
/// let stream = context.create_stream(StreamKind::NonBlocking, 0)?;
/// assert_eq!(stream.kind(), StreamKind::NonBlocking);
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamKind {
    /// The legacy null stream (`CU_STREAM_LEGACY`).
    Legacy,
    /// A host thread's default stream (`CU_STREAM_PER_THREAD`).
    PerThread,
    /// A stream that the program created and that synchronises with the legacy stream.
    Blocking,
    /// A stream that the program created and that does not synchronise with the legacy stream
    /// (`CU_STREAM_NON_BLOCKING`).
    NonBlocking,
}

/// The last task of a queue.
#[derive(Default)]
struct Tail {
    task: Option<Arc<Task>>,
    /// Whether the queue is in the list of busy queues (the field `busy` of [`Queues`]), or is about to be added
    /// to this list.
    is_listed: bool,
}

impl Tail {
    /// Returns the queue's last task if it is not complete.
    fn open(&mut self) -> Option<Arc<Task>> {
        if self.task.as_ref().is_some_and(|task| task.is_done()) {
            self.task = None;
        }
        self.task.clone()
    }

    /// Makes `task` the queue's last task. Returns whether the caller must add the queue to the
    /// list of busy queues.
    fn set(&mut self, task: Arc<Task>) -> bool {
        self.task = Some(task);
        !std::mem::replace(&mut self.is_listed, true)
    }
}

/// The queue of a stream: its last task and its state.
pub(crate) struct Queue {
    id: u64,
    kind: StreamKind,
    priority: i32,
    tail: Mutex<Tail>,
    destroyed: AtomicBool,
    /// Whether the stream may be part of a stream capture, so that the caller must check captures
    /// before it submits work.
    watched: AtomicBool,
    /// If the order of work is recorded for the race detector: the work that is complete before the
    /// next work of the queue starts.
    past: Mutex<Clock>,
    /// If tools observe the host: the work after which the next work of the queue runs.
    last: Mutex<Last>,
}

/// The work after which the next work of a queue runs, for tools that observe the host.
#[derive(Clone, Default)]
struct Last {
    works: Dependences,
    /// The number of the change that stored this value, in the order of all changes of the context.
    change: u64,
}

/// The number of pieces of work that a queue without own work keeps: the newest ones. A stream that only waits for
/// events would otherwise keep all work that it has ever waited for.
const MOST_LAST: usize = 64;

impl Queue {
    fn new(kind: StreamKind, priority: i32) -> Arc<Queue> {
        Arc::new(Queue {
            id: next_id(),
            kind,
            priority,
            tail: Mutex::default(),
            destroyed: AtomicBool::new(false),
            watched: AtomicBool::new(false),
            past: Mutex::default(),
            last: Mutex::default(),
        })
    }

    /// Returns the queue's ID, which is unique in the process and never reused.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Returns the kind of the stream.
    pub(crate) fn kind(&self) -> StreamKind {
        self.kind
    }

    /// Returns the stream's priority: 0, or a negative number for a higher priority.
    pub(crate) fn priority(&self) -> i32 {
        self.priority
    }

    /// Returns whether the stream may be part of a stream capture, so that the caller must check
    /// captures before it submits work.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Relaxed)
    }

    pub(crate) fn set_watched(&self, watched: bool) {
        self.watched.store(watched, Ordering::Relaxed);
    }

    /// Returns whether the program has destroyed the stream.
    pub(crate) fn is_destroyed(&self) -> bool {
        self.destroyed.load(Ordering::Acquire)
    }

    /// Marks the stream as destroyed; returns false if it was already destroyed.
    pub(crate) fn destroy(&self) -> bool {
        !self.destroyed.swap(true, Ordering::AcqRel)
    }

    /// Returns the last task of the queue if the task is not complete.
    fn open_tail(&self) -> Option<Arc<Task>> {
        self.tail.lock().open()
    }

    /// Returns the last task of a queue in the list of busy queues. If the task is complete, the caller must remove the
    /// queue from the list.
    fn busy_tail(&self) -> Option<Arc<Task>> {
        let mut tail = self.tail.lock();
        let task = tail.open();
        tail.is_listed = task.is_some();
        task
    }

    /// Returns whether the work of the queue is ordered with the work of the legacy stream.
    pub(crate) fn is_blocking(&self) -> bool {
        matches!(self.kind, StreamKind::Blocking | StreamKind::PerThread)
    }
}

/// Removes all but the newest pieces of work from a list.
fn keep_newest(works: &mut Dependences) {
    if works.len() > MOST_LAST {
        works.sort_by_key(|known| std::cmp::Reverse(known.work));
        works.truncate(MOST_LAST);
        works.reverse();
    }
}

impl Following<'_> {
    fn set(&mut self, queue: &Queue, works: Dependences) {
        *self.0 += 1;
        *queue.last.lock() = Last {
            works,
            change: *self.0,
        };
    }
}

/// The queues of a context.
pub(crate) struct Queues {
    order: RwLock<Order>,
    /// The record of the order of work; `None` if the order is not recorded.
    timeline: Option<Arc<Timeline>>,
    /// Whether tools observe the host.
    is_observed: bool,
    /// The number of changes of the fields [`Queue::last`] so far. Whoever reads or changes one of these fields holds this
    /// lock, so that the order of the changes is the order in which work is submitted.
    changes: Mutex<u64>,
}

/// The right to record the order of work for tools.
pub(crate) struct Following<'a>(MutexGuard<'a, u64>);

struct Order {
    legacy: Arc<Queue>,
    /// All queues except the queue of the legacy stream. The queue of a destroyed stream is removed
    /// after its work is complete.
    queues: Vec<Arc<Queue>>,
    /// The length of `queues` at which the queues of destroyed streams are removed. It is
    /// proportional to the number of queues that remained after the last removal, so the amortised
    /// cost of a new queue is constant.
    remove_at: usize,
    /// Every queue whose last task is not complete, except the queue of the legacy stream, and some queues whose last
    /// task is complete. A program can have tens of thousands of streams, most of them idle.
    busy: Mutex<Vec<Arc<Queue>>>,
    per_thread: FxHashMap<u64, Arc<Queue>>,
    /// A task for which the first work of every new queue waits (`cuCtxWaitEvent`).
    gate: Option<Arc<Task>>,
    /// The union of the clocks ([`Clock`]) of all removed queues.
    removed: Clock,
    /// If tools observe the host: the last work of blocking queues that were removed since the last work of the legacy
    /// stream.
    removed_last: Mutex<Dependences>,
}

impl Default for Order {
    fn default() -> Order {
        Order {
            legacy: Queue::new(StreamKind::Legacy, 0),
            queues: Vec::new(),
            remove_at: LEAST_REMOVED,
            busy: Mutex::default(),
            per_thread: FxHashMap::default(),
            gate: None,
            removed: Clock::default(),
            removed_last: Mutex::default(),
        }
    }
}

/// The minimum number of new queues after which the queues of destroyed streams are removed.
const LEAST_REMOVED: usize = 16;

type Tails = SmallVec<[Arc<Task>; 4]>;

impl Order {
    fn blocking_tails(&self) -> Tails {
        self.busy_tails(|queue| queue.is_blocking()).collect()
    }

    fn all_tails(&self) -> Tails {
        let legacy = self.legacy.open_tail().into_iter();
        legacy.chain(self.busy_tails(|_| true)).collect()
    }

    /// Removes the queues whose work is complete from the list of busy queues. Returns the last
    /// task of each remaining queue for which `wanted` returns true.
    fn busy_tails(&self, wanted: impl Fn(&Queue) -> bool) -> impl Iterator<Item = Arc<Task>> {
        let mut tails = Tails::new();
        self.busy.lock().retain(|queue| {
            let tail = queue.busy_tail();
            let is_busy = tail.is_some();
            tails.extend(tail.filter(|_| wanted(queue)));
            is_busy
        });
        tails.into_iter()
    }

    /// Removes each queue whose stream is destroyed and whose work is complete.
    fn remove_destroyed(&mut self) {
        self.busy
            .get_mut()
            .retain(|queue| queue.busy_tail().is_some());
        let is_over = |queue: &mut Arc<Queue>| queue.is_destroyed() && queue.open_tail().is_none();
        let over: Vec<Arc<Queue>> = self.queues.extract_if(.., is_over).collect();
        for queue in over.iter().filter(|queue| queue.is_blocking()) {
            let last = queue.last.lock();
            let removed = self.removed_last.get_mut();
            removed.extend(last.works.iter().copied());
            keep_newest(removed);
        }
        self.removed
            .join_all(over.iter().map(|queue| queue.past.lock().clone()));
        self.remove_at = 2 * self.queues.len() + LEAST_REMOVED;
    }

    fn add(&mut self, queue: &Arc<Queue>) {
        if self.queues.len() >= self.remove_at {
            self.remove_destroyed();
        }
        if let Some(past) = self.gate.as_ref().and_then(|gate| gate.past()) {
            queue.past.lock().join(past);
        }
        if let Some(gate) = &self.gate {
            queue.last.lock().works = gate.dependences(DependenceKind::Event);
        }
        self.gate = self.gate.take().filter(|gate| !gate.is_done());
        if let Some(gate) = &self.gate
            && queue.tail.lock().set(Arc::clone(gate))
        {
            self.busy.get_mut().push(Arc::clone(queue));
        }
        self.queues.push(Arc::clone(queue));
    }
}

impl Queues {
    /// Creates the queues of a context. `is_observed` states whether tools observe the host.
    pub(crate) fn new(timeline: Option<Arc<Timeline>>, is_observed: bool) -> Queues {
        Queues {
            order: RwLock::default(),
            timeline,
            is_observed,
            changes: Mutex::new(0),
        }
    }

    /// If tools observe the host, begins to record the order of work. The caller appends a task and calls
    /// [`Queues::follow`] while it holds the result.
    pub(crate) fn following(&self) -> Option<Following<'_>> {
        self.is_observed.then(|| Following(self.changes.lock()))
    }

    /// Removes all queues, because the context has been destroyed or reset.
    pub(crate) fn clear(&self) {
        self.host_waited_for_all();
        *self.order.write() = Order::default();
    }

    /// Returns the legacy stream's queue.
    pub(crate) fn legacy(&self) -> Arc<Queue> {
        Arc::clone(&self.order.read().legacy)
    }

    /// Returns the queue of the calling thread's default stream. The first call of a thread creates the queue.
    pub(crate) fn per_thread(&self) -> Arc<Queue> {
        let thread = thread_id();
        if let Some(queue) = self.order.read().per_thread.get(&thread) {
            return Arc::clone(queue);
        }
        let queue = Queue::new(StreamKind::PerThread, 0);
        let mut order = self.order.write();
        order.add(&queue);
        order.per_thread.insert(thread, Arc::clone(&queue));
        queue
    }

    /// Creates a queue.
    pub(crate) fn create(&self, kind: StreamKind, priority: i32) -> Arc<Queue> {
        let queue = Queue::new(kind, priority);
        self.order.write().add(&queue);
        queue
    }

    /// Returns every queue whose stream is not destroyed. The legacy stream's queue comes first.
    pub(crate) fn all(&self) -> Vec<Arc<Queue>> {
        let order = self.order.read();
        let living = order.queues.iter().filter(|queue| !queue.is_destroyed());
        let all = std::iter::once(&order.legacy).chain(living);
        all.map(Arc::clone).collect()
    }

    /// Makes the work of queues that are created after this call wait for `task`.
    pub(crate) fn hold_new(&self, task: Arc<Task>) {
        self.order.write().gate = Some(task);
    }

    /// Returns the last task of every queue whose last task is not complete.
    pub(crate) fn all_tails(&self) -> Tails {
        self.order.read().all_tails()
    }

    /// Returns whether new work of `queue` could start immediately: all work that it would have to
    /// wait for is complete.
    pub(crate) fn is_idle(&self, queue: &Queue) -> bool {
        let idle = self.tails_of(queue).is_empty();
        idle && (!queue.is_blocking() || self.order.read().legacy.open_tail().is_none())
    }

    /// Returns the incomplete tasks after which all work of `queue` is complete. For the legacy stream, these include
    /// the last tasks of all blocking streams.
    pub(crate) fn tails_of(&self, queue: &Queue) -> Tails {
        let mut tails: Tails = queue.open_tail().into_iter().collect();
        if queue.kind == StreamKind::Legacy {
            tails.extend(self.order.read().blocking_tails());
        }
        tails
    }

    /// Appends a task to `queue`. `make` receives the queue's last task and the tasks of other
    /// queues that the new task must wait for, and returns the new task. The caller must call
    /// [`Task::release`] for the new task.
    pub(crate) fn append(
        &self,
        queue: &Arc<Queue>,
        make: impl FnOnce(Option<&Arc<Task>>, &[Arc<Task>]) -> Arc<Task>,
    ) -> Arc<Task> {
        let put = |others: &[Arc<Task>]| {
            let mut tail = queue.tail.lock();
            let task = make(tail.task.as_ref(), others);
            let is_new = tail.set(Arc::clone(&task));
            (task, is_new)
        };
        match queue.kind {
            StreamKind::Legacy => {
                let order = self.order.write();
                self.advance(&order, queue);
                put(&order.blocking_tails()).0
            }
            StreamKind::NonBlocking => {
                if self.timeline.is_some() {
                    self.advance(&self.order.read(), queue);
                }
                let (task, is_new) = put(&[]);
                if is_new {
                    self.order.read().busy.lock().push(Arc::clone(queue));
                }
                task
            }
            StreamKind::Blocking | StreamKind::PerThread => {
                let order = self.order.read();
                self.advance(&order, queue);
                let legacy: SmallVec<[_; 1]> = order.legacy.open_tail().into_iter().collect();
                let (task, is_new) = put(&legacy);
                if is_new {
                    order.busy.lock().push(Arc::clone(queue));
                }
                task
            }
        }
    }

    /// Adds a task to a queue's record of work, and returns the work after which the task runs. `number` is the number of
    /// the task, and `more` a task of another queue after which it runs.
    pub(crate) fn follow(
        &self,
        following: &mut Following<'_>,
        queue: &Queue,
        number: u64,
        more: Option<&Arc<Task>>,
    ) -> Dependences {
        let order = self.order.read();
        let Last { works, change } = queue.last.lock().clone();
        let mut before = works;
        let mut add = |others: &Dependences| {
            let kind = DependenceKind::NullStream;
            before.extend(others.iter().map(|other| Dependence { kind, ..*other }));
        };
        // What another queue has recorded before the last work of this queue was awaited by that work.
        let mut add_newer = |other: &Queue| {
            let last = other.last.lock();
            if last.change > change {
                add(&last.works);
            }
        };
        match queue.kind {
            StreamKind::Legacy => {
                let blocking = order.queues.iter().filter(|other| other.is_blocking());
                blocking.for_each(|other| add_newer(other));
                add(&std::mem::take(&mut order.removed_last.lock()));
            }
            StreamKind::Blocking | StreamKind::PerThread => add_newer(&order.legacy),
            StreamKind::NonBlocking => {}
        }
        if let Some(more) = more {
            before.extend(more.dependences(DependenceKind::Event));
        }
        let mut seen = FxHashSet::default();
        before.retain(|known| seen.insert(known.work));
        keep_newest(&mut before);
        let works = match number {
            0 => before.clone(),
            work => {
                let kind = DependenceKind::StreamOrder;
                Dependences::from_iter([Dependence { work, kind }])
            }
        };
        following.set(queue, works);
        before
    }

    /// If tools observe the host, makes `last` the work after which the next work of a queue runs.
    pub(crate) fn set_last(&self, queue: &Queue, last: Dependences) {
        if let Some(mut following) = self.following() {
            following.set(queue, last);
        }
    }

    /// If the order of work is recorded, adds a piece of work to the [`Clock`] of a queue and
    /// returns the piece of work and the clock. The clock is the set of work that is complete
    /// before the queue's next work starts.
    fn advance(&self, order: &Order, queue: &Queue) -> Option<(Point, Clock)> {
        let timeline = self.timeline.as_ref()?;
        let mut before = Clock::default();
        timeline.add_host(&mut before);
        match queue.kind {
            StreamKind::Legacy => {
                let blocking = order.queues.iter().filter(|other| other.is_blocking());
                let pasts = blocking.map(|other| other.past.lock().clone());
                before.join_all(pasts.chain([order.removed.clone()]));
            }
            StreamKind::Blocking | StreamKind::PerThread => before.join(&order.legacy.past.lock()),
            StreamKind::NonBlocking => {}
        }
        let mut past = queue.past.lock();
        past.join(&before);
        let point = past.advance(queue.id);
        Some((point, past.clone()))
    }

    /// If the order of work is recorded, calls `f` with the timeline, the last piece of work of a
    /// queue and the queue's [`Clock`].
    pub(crate) fn after_last(&self, queue: &Queue, f: impl FnOnce(&Timeline, Point, &Clock)) {
        if let Some(timeline) = &self.timeline {
            let past = queue.past.lock().clone();
            f(timeline, past.last(queue.id), &past);
        }
    }

    /// Does the same as [`Queues::after_last`], but first adds a piece of work to the queue and
    /// passes this piece to `f`.
    pub(crate) fn in_order(&self, queue: &Queue, f: impl FnOnce(&Timeline, Point, &Clock)) {
        let Some(timeline) = &self.timeline else {
            return;
        };
        let advanced = self.advance(&self.order.read(), queue);
        if let Some((point, past)) = advanced {
            f(timeline, point, &past);
        }
    }

    /// Records that all later work of a queue runs after `task`. The task itself was not appended
    /// to the queue.
    pub(crate) fn join_task(&self, queue: &Queue, task: &Task) {
        if let Some(past) = task.past().filter(|_| self.timeline.is_some()) {
            queue.past.lock().join(past);
        }
    }

    /// Stores the [`Clock`] of a queue in a task for which other queues or the host can wait.
    pub(crate) fn store_past(&self, queue: &Queue, task: &Task) {
        if self.timeline.is_some() {
            task.set_past(queue.past.lock().clone());
        }
    }

    /// Records that the order between a queue's later work and other work is unknown.
    pub(crate) fn open_order(&self, queue: &Queue) {
        if self.timeline.is_some() {
            queue.past.lock().open();
        }
    }

    /// Records that the host has waited for the work of a queue.
    pub(crate) fn host_waited_for_queue(&self, queue: &Queue) {
        let Some(timeline) = &self.timeline else {
            return;
        };
        let order = self.order.read();
        let mut pasts = vec![&queue.past];
        if queue.kind == StreamKind::Legacy {
            let blocking = order.queues.iter().filter(|other| other.is_blocking());
            pasts.extend(blocking.map(|other| &other.past));
        }
        timeline.host_waited_for(&pasts);
    }

    /// Records that the host has waited for a task.
    pub(crate) fn host_waited_for(&self, task: &Task) {
        if let (Some(timeline), Some(past)) = (&self.timeline, task.past()) {
            timeline.host_waited(past);
        }
    }

    /// Records that the host has waited for the work of all queues.
    pub(crate) fn host_waited_for_all(&self) {
        let Some(timeline) = &self.timeline else {
            return;
        };
        let order = self.order.read();
        timeline.host_waited(&order.removed);
        let all = std::iter::once(&order.legacy).chain(&order.queues);
        let pasts: Vec<&Mutex<Clock>> = all.map(|queue| &queue.past).collect();
        timeline.host_waited_for(&pasts);
    }
}
