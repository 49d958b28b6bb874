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
use crate::capture;
use crate::context::{Context, PointerKind};
use crate::copy::{self, Fill, Manner, Transfer};
use crate::error::{CaptureError, Error, Result};
use crate::event::{Event, Record, SharedEvent};
use crate::graph::{HostFunction, Origin, free_from_outside};
use crate::kernel::Kernel;
use crate::launch::LaunchConfig;
use crate::params::Params;
use crate::process::next_id;
use crate::task::{HostWork, Task, Work};

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

/// The queue behind a stream.
struct Line {
    id: u64,
    kind: StreamKind,
    priority: i32,
    tail: Mutex<Option<Arc<Task>>>,
    destroyed: AtomicBool,
    /// Work has to ask [`crate::capture`] first.
    watched: AtomicBool,
}

impl Line {
    fn new(kind: StreamKind, priority: i32) -> Arc<Line> {
        Arc::new(Line {
            id: next_id(),
            kind,
            priority,
            tail: Mutex::new(None),
            destroyed: AtomicBool::new(false),
            watched: AtomicBool::new(false),
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

    /// Appends what `make` makes to `line`: it is given the line's last task and those of other
    /// lines that it has to wait for, and returns the new last one. Nothing is released yet.
    fn append(
        &self,
        line: &Line,
        make: impl FnOnce(Option<&Arc<Task>>, &[Arc<Task>]) -> Arc<Task>,
    ) -> Arc<Task> {
        let put = |others: &[Arc<Task>]| {
            let mut tail = line.tail.lock();
            let task = make(tail.as_ref(), others);
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
///
/// ```
/// use std::sync::mpsc;
///
/// let context = margay::Runtime::new()?.context()?;
/// let stream = context.create_stream(margay::StreamKind::Blocking, 0)?;
/// let (sender, receiver) = mpsc::channel();
/// stream.host_function(move || drop(sender.send("done")))?;
/// stream.synchronize()?;
/// assert_eq!(receiver.recv(), Ok("done"));
/// # Ok::<(), margay::Error>(())
/// ```
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

    /// Whether work has to ask [`crate::capture`]: the one load that captures cost a stream.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.line.watched.load(Ordering::Relaxed)
    }

    pub(crate) fn set_watched(&self, watched: bool) {
        self.line.watched.store(watched, Ordering::Relaxed);
    }

    /// Refuses calls that wait for a stream which captures.
    fn check_not_watched(&self) -> Result<()> {
        match self.is_watched() {
            true => capture::refuse(self, CaptureError::Unsupported),
            false => Ok(()),
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
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
        let task = streams.append(&self.line, |tail, others| {
            let before = tail.into_iter().chain(others).chain(more);
            Task::submit(&self.context, self.line.priority, work, before)
        });
        task.release();
        task
    }

    /// Two tasks that work of any shape can go between: the first behind all earlier work and
    /// `more`, the second the stream's last one. Neither is released.
    pub(crate) fn bracket(
        &self,
        begin: Work,
        end: Work,
        more: Option<&Arc<Task>>,
    ) -> (Arc<Task>, Arc<Task>) {
        let streams = &self.context.inner().streams;
        let mut first = None;
        let last = streams.append(&self.line, |tail, others| {
            let before = tail.into_iter().chain(others).chain(more);
            let priority = self.line.priority;
            let begin = first.insert(Task::submit(&self.context, priority, begin, before));
            Task::submit(&self.context, priority, end, std::iter::once(&*begin))
        });
        let first = first.unwrap_or_else(|| Arc::clone(&last));
        (first, last)
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
        if self.is_watched() {
            return capture::kernel(self, kernel, config, params);
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
        self.check_not_watched()?;
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
        if self.is_watched() {
            return capture::copy(self, transfer);
        }
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
        if self.is_watched() {
            return capture::fill(self, fill);
        }
        copy::submit_fill(self, fill)
    }

    /// Runs `function` on the callback thread when all earlier work is complete; later work
    /// waits for it. It is not run when the context has failed (`cuLaunchHostFunc`). What a
    /// capture takes must be callable again: see [`Stream::launch_host`].
    ///
    /// # Errors
    /// [`CaptureError::Unsupported`] while the stream is capturing.
    pub fn host_function(&self, function: impl FnOnce() + Send + 'static) -> Result<()> {
        self.host_work(Box::new(move |_| function()), false)
    }

    /// The same with a function that a capturing stream's graph calls at each launch; `origin` goes
    /// to its node.
    pub fn launch_host(&self, function: HostFunction, origin: Origin) -> Result<()> {
        self.check()?;
        if self.is_watched() {
            return capture::host(self, function, origin);
        }
        self.host_work(Box::new(move |_| function()), false)
    }

    /// The same, but always run and told the status (`cuStreamAddCallback`).
    pub fn callback(&self, function: impl FnOnce(Result<()>) + Send + 'static) -> Result<()> {
        self.host_work(Box::new(function), true)
    }

    fn host_work(&self, function: Box<dyn FnOnce(Result<()>) + Send>, always: bool) -> Result<()> {
        self.check()?;
        self.check_not_watched()?;
        self.submit(Work::Host(HostWork { function, always }));
        Ok(())
    }

    /// Memory that is allocated in stream order (`cuMemAllocAsync`).
    pub fn alloc_async(&self, bytes: u64) -> Result<DevicePtr> {
        self.check()?;
        match self.alloc_captured(bytes, PointerKind::Device, 0) {
            Some(captured) => captured,
            None => self.context.alloc_pooled(bytes),
        }
    }

    /// An allocation of the graph that the stream captures into; `None` unless it is capturing. `label` is kept with it
    /// ([`crate::graph::GraphAllocation::label`]).
    ///
    /// # Errors
    /// As other captured work; [`Error::OutOfMemory`].
    pub fn alloc_captured(
        &self,
        bytes: u64,
        kind: PointerKind,
        label: u64,
    ) -> Option<Result<DevicePtr>> {
        self.is_watched()
            .then(|| capture::alloc(self, bytes, kind, label))
    }

    /// Frees memory when all earlier work of the stream is complete (`cuMemFreeAsync`).
    ///
    /// # Errors
    /// [`Error::InvalidValue`] when it is not the start of device memory.
    pub fn free_async(&self, ptr: DevicePtr) -> Result<()> {
        self.check()?;
        if self.is_watched() {
            return capture::free(self, ptr);
        }
        let base = ptr.address();
        if let Some(freed) = free_from_outside(base) {
            let freed = freed?;
            let job = Box::new(move || {
                drop(freed);
                Ok(())
            });
            self.submit(Work::Device { job, short: true });
            return Ok(());
        }
        self.context.owner_of(base, |found| !found.internal)?;
        let freed = self.context.release_on_drop(base);
        self.context.machine().memory.promise(base);
        let job = Box::new(move || {
            drop(freed);
            Ok(())
        });
        self.submit(Work::Device { job, short: true });
        Ok(())
    }

    /// Later work waits for the event's last record. A stream that is not capturing joins the
    /// capture in which the event was recorded.
    ///
    /// # Errors
    /// [`Error::InvalidHandle`] when the event is destroyed; [`CaptureError::Isolation`] when the
    /// stream is capturing and the event's record was not captured, [`CaptureError::Merge`] when
    /// it was in another capture.
    pub fn wait_event(&self, event: &Event) -> Result<()> {
        self.check()?;
        match event.record_of()? {
            Record::Captured(recorded) => capture::wait_captured(self, &recorded),
            _ if self.is_watched() && self.kind() != StreamKind::Legacy => {
                capture::wait_outside(self)
            }
            record => {
                self.check_not_watched()?;
                if let Some((shared, last)) = event.foreign() {
                    return self.wait_for_process(&shared, last);
                }
                if let Record::Task(task) = record
                    && !event.flags().interprocess
                {
                    self.submit_after(Work::Marker, Some(&task));
                }
                Ok(())
            }
        }
    }

    /// Later work waits for a task, unless it is captured.
    pub(crate) fn wait_task(&self, task: &Arc<Task>) {
        if !self.is_watched() {
            self.submit_after(Work::Marker, Some(task));
        }
    }

    /// Later work of each launch of the captured graph waits for the event's last record
    /// (`CU_EVENT_WAIT_EXTERNAL`).
    ///
    /// # Errors
    /// [`Error::InvalidValue`] when the stream is not capturing.
    pub fn wait_event_external(&self, event: &Event) -> Result<()> {
        self.check()?;
        event.check()?;
        match self.is_watched() {
            true => capture::wait_external(self, event),
            false => Err(Error::invalid("the stream is not capturing")),
        }
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
        self.check_not_watched()?;
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
        self.check_not_watched()?;
        let streams = &self.context.inner().streams;
        Ok(streams.tails_of(&self.line).is_empty())
    }

    /// Waits for all work submitted so far.
    pub fn synchronize(&self) -> Result<()> {
        self.check_wait()?;
        self.check_not_watched()?;
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
        crate::process::check_fork()?;
        if matches!(self.kind(), StreamKind::Legacy | StreamKind::PerThread) {
            return Err(Error::InvalidHandle("a default stream".into()));
        }
        if self.line.destroyed.swap(true, Ordering::AcqRel) {
            return Err(Error::InvalidHandle("the stream is destroyed".into()));
        }
        if self.is_watched() {
            capture::forget_stream(self);
        }
        Ok(())
    }
}
