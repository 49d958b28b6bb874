//! Streams: queues of work that run in order.
//!
//! CUDA's rules: work of one stream runs in the order of submission. The *legacy null stream*
//! waits for all earlier work of the context's blocking streams, and later work of these waits
//! for it. Non-blocking streams are independent of it. Each host thread has a *per-thread
//! default stream*, which is a blocking stream.
//!
//! Invariant: the tail of a [`Line`] is the last task submitted to it; a legacy submission sees
//! the tails of all blocking lines at one moment (it holds the order lock exclusively).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ThreadId;

use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::args::KernelArgs;
use crate::buffer::DevicePtr;
use crate::context::Context;
use crate::copy::{self, Fill, Manner, Transfer};
use crate::error::{Error, Result};
use crate::event::{Event, SharedEvent};
use crate::kernel::Kernel;
use crate::launch::LaunchConfig;
use crate::machine::next_id;
use crate::params::Params;
use crate::task::{HostWork, Task, Work};

/// What kind of stream.
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

/// The queue behind a stream.
struct Line {
    id: u64,
    kind: StreamKind,
    priority: i32,
    tail: Mutex<Option<Arc<Task>>>,
    destroyed: AtomicBool,
}

impl Line {
    fn new(kind: StreamKind, priority: i32) -> Arc<Line> {
        Arc::new(Line {
            id: next_id(),
            kind,
            priority,
            tail: Mutex::new(None),
            destroyed: AtomicBool::new(false),
        })
    }

    /// The last task when it is not complete.
    fn open_tail(&self) -> Option<Arc<Task>> {
        let mut tail = self.tail.lock();
        if tail.as_ref().is_some_and(|task| task.is_done()) {
            *tail = None;
        }
        tail.clone()
    }

    /// Ordered against the legacy stream.
    fn is_blocking(&self) -> bool {
        matches!(self.kind, StreamKind::Blocking | StreamKind::PerThread)
    }
}

/// The streams of a context.
pub(crate) struct Streams {
    order: RwLock<Order>,
}

struct Order {
    legacy: Arc<Line>,
    /// Every other line; destroyed ones until their work is complete.
    lines: Vec<Arc<Line>>,
    per_thread: FxHashMap<ThreadId, Arc<Line>>,
    /// What new lines begin behind (`cuCtxWaitEvent`).
    gate: Option<Arc<Task>>,
}

impl Default for Order {
    fn default() -> Order {
        Order {
            legacy: Line::new(StreamKind::Legacy, 0),
            lines: Vec::new(),
            per_thread: FxHashMap::default(),
            gate: None,
        }
    }
}

impl Default for Streams {
    fn default() -> Streams {
        Streams {
            order: RwLock::new(Order::default()),
        }
    }
}

type Tails = SmallVec<[Arc<Task>; 4]>;

impl Order {
    fn blocking_tails(&self) -> Tails {
        let blocking = self.lines.iter().filter(|line| line.is_blocking());
        blocking.filter_map(|line| line.open_tail()).collect()
    }

    fn add(&mut self, line: &Arc<Line>) {
        self.lines
            .retain(|line| !line.destroyed.load(Ordering::Relaxed) || line.open_tail().is_some());
        self.gate = self.gate.take().filter(|gate| !gate.is_done());
        (*line.tail.lock()).clone_from(&self.gate);
        self.lines.push(Arc::clone(line));
    }
}

impl Streams {
    /// Forgets all streams (the context's life has ended).
    pub(crate) fn clear(&self) {
        *self.order.write() = Order::default();
    }

    /// Streams that are made from now on begin behind `task`.
    pub(crate) fn hold_new(&self, task: Arc<Task>) {
        self.order.write().gate = Some(task);
    }

    /// The last tasks of all streams that are not complete.
    pub(crate) fn all_tails(&self) -> Tails {
        let order = self.order.read();
        let all = std::iter::once(&order.legacy).chain(&order.lines);
        all.filter_map(|line| line.open_tail()).collect()
    }

    /// What must be complete for `line` to be idle.
    fn tails_of(&self, line: &Line) -> Tails {
        let mut tails: Tails = line.open_tail().into_iter().collect();
        if line.kind == StreamKind::Legacy {
            tails.extend(self.order.read().blocking_tails());
        }
        tails
    }

    /// Appends `work` to `line`, after `more` too. The task is not released yet.
    fn append(
        &self,
        context: &Context,
        line: &Line,
        work: Work,
        more: Option<&Arc<Task>>,
    ) -> Arc<Task> {
        let put = |others: &[Arc<Task>]| {
            let mut tail = line.tail.lock();
            let before = tail.iter().chain(others).chain(more);
            let task = Task::submit(context, work, before);
            *tail = Some(Arc::clone(&task));
            task
        };
        match line.kind {
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

/// A queue of work. Clones are the same stream.
#[derive(Clone)]
pub struct Stream {
    context: Context,
    life: u64,
    line: Arc<Line>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({} {:?})", self.line.id, self.line.kind)
    }
}

impl PartialEq for Stream {
    fn eq(&self, other: &Stream) -> bool {
        Arc::ptr_eq(&self.line, &other.line)
    }
}

impl Eq for Stream {}

impl Stream {
    fn of(context: &Context, line: Arc<Line>) -> Stream {
        Stream {
            context: context.clone(),
            life: context.life(),
            line,
        }
    }

    /// Every stream of a context, the legacy one first.
    pub(crate) fn all_of(context: &Context) -> Vec<Stream> {
        let order = context.inner().streams.order.read();
        let living = order.lines.iter();
        let living = living.filter(|line| !line.destroyed.load(Ordering::Acquire));
        let all = std::iter::once(&order.legacy).chain(living);
        all.map(|line| Stream::of(context, Arc::clone(line)))
            .collect()
    }

    pub(crate) fn legacy(context: &Context) -> Stream {
        let order = context.inner().streams.order.read();
        Stream::of(context, Arc::clone(&order.legacy))
    }

    pub(crate) fn per_thread(context: &Context) -> Stream {
        let thread = std::thread::current().id();
        let streams = &context.inner().streams;
        if let Some(line) = streams.order.read().per_thread.get(&thread) {
            return Stream::of(context, Arc::clone(line));
        }
        let line = Line::new(StreamKind::PerThread, 0);
        let mut order = streams.order.write();
        order.add(&line);
        order.per_thread.insert(thread, Arc::clone(&line));
        Stream::of(context, line)
    }

    pub(crate) fn create(context: &Context, kind: StreamKind, priority: i32) -> Result<Stream> {
        if !matches!(kind, StreamKind::Blocking | StreamKind::NonBlocking) {
            return Err(Error::invalid("a default stream cannot be created"));
        }
        let (least, greatest) = context.stream_priority_range();
        let line = Line::new(kind, priority.clamp(greatest, least));
        context.inner().streams.order.write().add(&line);
        Ok(Stream::of(context, line))
    }

    /// The context that owns the stream.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Its kind.
    pub fn kind(&self) -> StreamKind {
        self.line.kind
    }

    /// Unique in the process, never reused (`cuStreamGetId`).
    pub fn id(&self) -> u64 {
        self.line.id
    }

    /// Its priority: 0 is lowest, negative is higher, clamped to the context's range.
    pub fn priority(&self) -> i32 {
        self.line.priority
    }

    fn check(&self) -> Result<()> {
        self.context.check(self.life)?;
        if self.line.destroyed.load(Ordering::Acquire) {
            return Err(Error::InvalidHandle("the stream is destroyed".into()));
        }
        Ok(())
    }

    fn check_wait(&self) -> Result<()> {
        self.context.check_wait(self.life)?;
        self.check()
    }

    /// Appends work and lets it start.
    pub(crate) fn submit(&self, work: Work) -> Arc<Task> {
        self.submit_after(work, None)
    }

    fn submit_after(&self, work: Work, more: Option<&Arc<Task>>) -> Arc<Task> {
        let streams = &self.context.inner().streams;
        let task = streams.append(&self.context, &self.line, work, more);
        task.release();
        task
    }

    /// Launches a kernel with typed arguments. Returns before the kernel runs.
    ///
    /// # Errors
    /// As [`Stream::launch_packed`], and [`Error::InvalidValue`] when number or sizes of the
    /// arguments are not the kernel's.
    pub fn launch<A: KernelArgs>(
        &self,
        kernel: &Kernel,
        config: LaunchConfig,
        args: A,
    ) -> Result<()> {
        let mut params = kernel.empty_params();
        args.pack(&kernel.info().params, params.bytes_mut())?;
        self.launch_packed(kernel, config, params)
    }

    /// Launches a kernel with its parameter space ([`Kernel::empty_params`]) already filled.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for a space of another size and for a shape that no device takes, [`Error::LaunchOutOfResources`]
    /// for one that this kernel cannot have, [`Error::CooperativeLaunchTooLarge`], the errors of
    /// compilation, [`Error::InvalidHandle`] when the kernel is of another context.
    pub fn launch_packed(
        &self,
        kernel: &Kernel,
        config: LaunchConfig,
        params: Params,
    ) -> Result<()> {
        self.check()?;
        if kernel.module().context() != &self.context {
            return Err(Error::InvalidHandle(
                "the kernel belongs to another context".into(),
            ));
        }
        let run = kernel.start(config, params)?;
        self.context.flush_output();
        self.submit(Work::Launch(run));
        Ok(())
    }

    /// A copy in this stream that blocks like `cuMemcpy*` without `Async`: until it is complete,
    /// except from device to device.
    ///
    /// # Safety
    /// Host memory that the transfer names is valid for it (device memory is looked up).
    ///
    /// # Errors
    /// [`Error::InvalidValue`] when device memory is not what it should be.
    pub unsafe fn copy(&self, transfer: Transfer) -> Result<()> {
        self.check_wait()?;
        copy::submit(self, transfer, Manner::Sync)?;
        self.context.flush_output();
        self.context.fault_status()
    }

    /// A copy in this stream that returns early where CUDA's does: pageable sources are read
    /// before it returns, pageable destinations are written before it returns, everything else
    /// is left to run.
    ///
    /// # Safety
    /// As [`Stream::copy`], until the copy is complete.
    ///
    /// # Errors
    /// As [`Stream::copy`].
    pub unsafe fn copy_async(&self, transfer: Transfer) -> Result<()> {
        self.check()?;
        copy::submit(self, transfer, Manner::Async)
    }

    /// Fills `rows` rows of `count` elements of `width` (1, 2 or 4) bytes, `pitch` bytes apart,
    /// with `value`. Asynchronous.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] when the range is not device memory or misaligned.
    pub fn fill(
        &self,
        dst: DevicePtr,
        value: u32,
        width: u32,
        count: u64,
        rows: u64,
        pitch: u64,
    ) -> Result<()> {
        self.check()?;
        let fill = Fill {
            dst: dst.address(),
            value,
            width,
            count,
            rows,
            pitch,
        };
        copy::submit_fill(self, fill)
    }

    /// Runs `function` on the callback thread when all earlier work is complete; later work
    /// waits for it. It is not run when the context has failed (`cuLaunchHostFunc`).
    pub fn host_function(&self, function: impl FnOnce() + Send + 'static) -> Result<()> {
        self.host_work(Box::new(move |_| function()), false)
    }

    /// The same, but always run and told the status (`cuStreamAddCallback`).
    pub fn callback(&self, function: impl FnOnce(Result<()>) + Send + 'static) -> Result<()> {
        self.host_work(Box::new(function), true)
    }

    fn host_work(&self, function: Box<dyn FnOnce(Result<()>) + Send>, always: bool) -> Result<()> {
        self.check()?;
        self.submit(Work::Host(HostWork { function, always }));
        Ok(())
    }

    /// Memory that is allocated in stream order (`cuMemAllocAsync`).
    pub fn alloc_async(&self, bytes: u64) -> Result<DevicePtr> {
        self.check()?;
        self.context.alloc_pooled(bytes)
    }

    /// Frees memory when all earlier work of the stream is complete (`cuMemFreeAsync`).
    ///
    /// # Errors
    /// [`Error::InvalidValue`] when it is not the start of device memory.
    pub fn free_async(&self, ptr: DevicePtr) -> Result<()> {
        self.check()?;
        let base = ptr.address();
        self.context.owner_of(base, |found| !found.internal)?;
        let context = self.context.clone();
        let job = Box::new(move || context.release(base));
        self.submit(Work::Device { job, short: true });
        Ok(())
    }

    /// Later work waits for the event's last record.
    ///
    /// # Errors
    /// [`Error::InvalidHandle`] when the event is destroyed.
    pub fn wait_event(&self, event: &Event) -> Result<()> {
        self.check()?;
        let snapshot = event.snapshot()?;
        if let Some((shared, record)) = event.foreign() {
            return self.wait_for_process(&shared, record);
        }
        if let Some(task) = snapshot.filter(|_| !event.flags().interprocess) {
            self.submit_after(Work::Marker, Some(&task));
        }
        Ok(())
    }

    /// Later work waits for another process, which a thread of its own watches.
    fn wait_for_process(&self, shared: &Arc<SharedEvent>, record: u64) -> Result<()> {
        let (shared, task) = (Arc::clone(shared), self.submit(Work::Caller));
        let watched = Arc::clone(&task);
        let thread = std::thread::Builder::new().name("margay-event".into());
        let started = thread.spawn(move || {
            watched.wait_turn();
            shared.wait(record);
            watched.complete();
        });
        started.map(|_| ()).map_err(|error| {
            task.wait_turn();
            task.complete();
            Error::OperatingSystem(error.to_string())
        })
    }

    /// A point in the stream, complete when all earlier work is.
    pub(crate) fn mark(&self) -> Result<Arc<Task>> {
        self.check()?;
        Ok(self.submit(Work::Marker))
    }

    /// Whether all earlier work is complete right now.
    pub(crate) fn is_idle(&self) -> bool {
        self.context.inner().streams.tails_of(&self.line).is_empty()
            && (!self.line.is_blocking()
                || Stream::legacy(&self.context).line.open_tail().is_none())
    }

    /// Whether all work is complete.
    pub fn query(&self) -> Result<bool> {
        self.check()?;
        let streams = &self.context.inner().streams;
        Ok(streams.tails_of(&self.line).is_empty())
    }

    /// Waits for all work submitted so far.
    pub fn synchronize(&self) -> Result<()> {
        self.check_wait()?;
        for task in self.context.inner().streams.tails_of(&self.line) {
            task.wait();
        }
        self.context.flush_output();
        self.context.fault_status()
    }

    /// Ends a created stream; work in it still completes.
    ///
    /// # Errors
    /// [`Error::InvalidHandle`] for default streams and when it is destroyed already.
    pub fn destroy(&self) -> Result<()> {
        crate::machine::check_fork()?;
        if matches!(self.kind(), StreamKind::Legacy | StreamKind::PerThread) {
            return Err(Error::InvalidHandle("a default stream".into()));
        }
        if self.line.destroyed.swap(true, Ordering::AcqRel) {
            return Err(Error::InvalidHandle("the stream is destroyed".into()));
        }
        Ok(())
    }
}
