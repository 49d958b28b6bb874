//! The queues behind streams: which task is the last of each, and what a new one waits for.
//!
//! CUDA's rules: work of one stream runs in the order of submission. The *legacy null stream*
//! waits for all earlier work of the context's blocking streams, and later work of these waits
//! for it. Non-blocking streams are independent of it. Each host thread has a *per-thread
//! default stream*, which is a blocking stream.
//!
//! Invariant: the tail of a [`Queue`] is the last task submitted to it; a legacy submission sees
//! the tails of all blocking queues at one moment (it holds the order lock exclusively).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ThreadId;

use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::process::next_id;
use crate::task::Task;

/// What kind of stream.
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
    /// A created stream that synchronises with the legacy stream.
    Blocking,
    /// A created stream that does not (`CU_STREAM_NON_BLOCKING`).
    NonBlocking,
}

/// The work of a stream.
pub(crate) struct Queue {
    id: u64,
    kind: StreamKind,
    priority: i32,
    tail: Mutex<Option<Arc<Task>>>,
    destroyed: AtomicBool,
    /// Work has to ask whether the stream is capturing first.
    watched: AtomicBool,
}

impl Queue {
    fn new(kind: StreamKind, priority: i32) -> Arc<Queue> {
        Arc::new(Queue {
            id: next_id(),
            kind,
            priority,
            tail: Mutex::new(None),
            destroyed: AtomicBool::new(false),
            watched: AtomicBool::new(false),
        })
    }

    /// Unique in the process, never reused.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The kind of its stream.
    pub(crate) fn kind(&self) -> StreamKind {
        self.kind
    }

    /// 0, or less for what goes first.
    pub(crate) fn priority(&self) -> i32 {
        self.priority
    }

    /// Returns whether captures must be consulted before work is submitted.
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

    /// Marks the stream as destroyed; false if it was already.
    pub(crate) fn destroy(&self) -> bool {
        !self.destroyed.swap(true, Ordering::AcqRel)
    }

    /// The last task when it is not complete.
    fn open_tail(&self) -> Option<Arc<Task>> {
        let mut tail = self.tail.lock();
        if tail.as_ref().is_some_and(|task| task.is_done()) {
            *tail = None;
        }
        tail.clone()
    }

    /// Returns whether work is ordered against the legacy stream.
    pub(crate) fn is_blocking(&self) -> bool {
        matches!(self.kind, StreamKind::Blocking | StreamKind::PerThread)
    }
}

/// The queues of a context.
pub(crate) struct Queues {
    order: RwLock<Order>,
}

struct Order {
    legacy: Arc<Queue>,
    /// Every other queue; destroyed ones until their work is complete.
    queues: Vec<Arc<Queue>>,
    per_thread: FxHashMap<ThreadId, Arc<Queue>>,
    /// What new queues begin after (`cuCtxWaitEvent`).
    gate: Option<Arc<Task>>,
}

impl Default for Order {
    fn default() -> Order {
        Order {
            legacy: Queue::new(StreamKind::Legacy, 0),
            queues: Vec::new(),
            per_thread: FxHashMap::default(),
            gate: None,
        }
    }
}

impl Default for Queues {
    fn default() -> Queues {
        Queues {
            order: RwLock::new(Order::default()),
        }
    }
}

type Tails = SmallVec<[Arc<Task>; 4]>;

impl Order {
    fn blocking_tails(&self) -> Tails {
        let blocking = self.queues.iter().filter(|queue| queue.is_blocking());
        blocking.filter_map(|queue| queue.open_tail()).collect()
    }

    fn add(&mut self, queue: &Arc<Queue>) {
        self.queues
            .retain(|queue| !queue.is_destroyed() || queue.open_tail().is_some());
        self.gate = self.gate.take().filter(|gate| !gate.is_done());
        (*queue.tail.lock()).clone_from(&self.gate);
        self.queues.push(Arc::clone(queue));
    }
}

impl Queues {
    /// Forgets all streams (the context's life has ended).
    pub(crate) fn clear(&self) {
        *self.order.write() = Order::default();
    }

    /// The legacy stream's queue.
    pub(crate) fn legacy(&self) -> Arc<Queue> {
        Arc::clone(&self.order.read().legacy)
    }

    /// The queue of the calling thread's default stream, made on first use.
    pub(crate) fn per_thread(&self) -> Arc<Queue> {
        let thread = std::thread::current().id();
        if let Some(queue) = self.order.read().per_thread.get(&thread) {
            return Arc::clone(queue);
        }
        let queue = Queue::new(StreamKind::PerThread, 0);
        let mut order = self.order.write();
        order.add(&queue);
        order.per_thread.insert(thread, Arc::clone(&queue));
        queue
    }

    /// A new queue.
    pub(crate) fn create(&self, kind: StreamKind, priority: i32) -> Arc<Queue> {
        let queue = Queue::new(kind, priority);
        self.order.write().add(&queue);
        queue
    }

    /// Every queue whose stream is not destroyed, the legacy one first.
    pub(crate) fn all(&self) -> Vec<Arc<Queue>> {
        let order = self.order.read();
        let living = order.queues.iter().filter(|queue| !queue.is_destroyed());
        let all = std::iter::once(&order.legacy).chain(living);
        all.map(Arc::clone).collect()
    }

    /// Queues that are made from now on begin after `task`.
    pub(crate) fn hold_new(&self, task: Arc<Task>) {
        self.order.write().gate = Some(task);
    }

    /// The last tasks of all streams that are not complete.
    pub(crate) fn all_tails(&self) -> Tails {
        let order = self.order.read();
        let all = std::iter::once(&order.legacy).chain(&order.queues);
        all.filter_map(|queue| queue.open_tail()).collect()
    }

    /// Returns whether all work that new work of `queue` would wait for is complete.
    pub(crate) fn is_idle(&self, queue: &Queue) -> bool {
        let idle = self.tails_of(queue).is_empty();
        idle && (!queue.is_blocking() || self.order.read().legacy.open_tail().is_none())
    }

    /// The tasks that must be complete for `queue` to be idle.
    pub(crate) fn tails_of(&self, queue: &Queue) -> Tails {
        let mut tails: Tails = queue.open_tail().into_iter().collect();
        if queue.kind == StreamKind::Legacy {
            tails.extend(self.order.read().blocking_tails());
        }
        tails
    }

    /// Appends what `make` makes to `queue`: it is given the queue's last task and those of other
    /// queues that it has to wait for, and returns the new last one. Nothing is released yet.
    pub(crate) fn append(
        &self,
        queue: &Queue,
        make: impl FnOnce(Option<&Arc<Task>>, &[Arc<Task>]) -> Arc<Task>,
    ) -> Arc<Task> {
        let put = |others: &[Arc<Task>]| {
            let mut tail = queue.tail.lock();
            let task = make(tail.as_ref(), others);
            *tail = Some(Arc::clone(&task));
            task
        };
        match queue.kind {
            StreamKind::Legacy => {
                let order = self.order.write();
                put(&order.blocking_tails())
            }
            StreamKind::NonBlocking => put(&[]),
            StreamKind::Blocking | StreamKind::PerThread => {
                let order = self.order.read();
                let legacy: SmallVec<[_; 1]> = order.legacy.open_tail().into_iter().collect();
                put(&legacy)
            }
        }
    }
}
