//! Streams: queues of work that run in order.
//!
//! [`crate::enqueue`] submits work to streams; [`crate::queue`] orders the work of different streams.

use std::fmt;
use std::sync::Arc;

use crate::checks::Rows;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::native_kernel::MemoryRange;
use crate::observe::HostEvent;
use crate::pointer::DevicePtr;
use crate::process::check_fork;
use crate::queue::{Following, Queue};
use crate::scheduler::Run;
use crate::task::{Dependences, Task, Work};

pub use crate::queue::StreamKind;

/// A CUDA stream: a queue of work. Clones refer to the same stream.
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
    queue: Arc<Queue>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({} {:?})", self.queue.id(), self.queue.kind())
    }
}

impl PartialEq for Stream {
    fn eq(&self, other: &Stream) -> bool {
        Arc::ptr_eq(&self.queue, &other.queue)
    }
}

impl Eq for Stream {}

impl Stream {
    fn of(context: &Context, queue: Arc<Queue>) -> Stream {
        Stream {
            context: context.clone(),
            life: context.life(),
            queue,
        }
    }

    /// Returns the streams of a context that are not destroyed. The legacy stream comes first.
    pub(crate) fn all_of(context: &Context) -> Vec<Stream> {
        let queues = context.inner().queues.all().into_iter();
        queues.map(|queue| Stream::of(context, queue)).collect()
    }

    fn create(context: &Context, kind: StreamKind, priority: i32) -> Result<Stream> {
        if !matches!(kind, StreamKind::Blocking | StreamKind::NonBlocking) {
            return Err(Error::invalid("a default stream cannot be created"));
        }
        let (least, greatest) = context.stream_priority_range();
        let priority = priority.clamp(greatest, least);
        let stream = Stream::of(context, context.inner().queues.create(kind, priority));
        context.machine().tools.tell(|| HostEvent::CreateStream {
            stream: stream.id(),
            context: context.id(),
            priority,
            is_blocking: kind == StreamKind::Blocking,
        });
        Ok(stream)
    }

    /// Returns the context that owns the stream.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Returns the kind of the stream.
    pub fn kind(&self) -> StreamKind {
        self.queue.kind()
    }

    /// Returns the stream's ID, which is unique in the process and never reused (`cuStreamGetId`).
    pub fn id(&self) -> u64 {
        self.queue.id()
    }

    /// Returns the stream's priority. 0 is the lowest priority, and negative numbers are higher
    /// priorities. A requested priority outside the context's range is replaced by the nearest
    /// priority in the range.
    pub fn priority(&self) -> i32 {
        self.queue.priority()
    }

    /// Returns whether the stream may be part of a stream capture, so that the caller must check
    /// captures before it submits work. For a stream that is in no capture, reading this flag is
    /// the only cost of the support for captures.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.queue.is_watched()
    }

    pub(crate) fn set_watched(&self, watched: bool) {
        self.queue.set_watched(watched);
    }

    /// Returns the error of [`Stream::check`], if any, for a call that launches kernels. In a checking
    /// run, reports that the kernels do not run if an earlier fault is the reason.
    pub(crate) fn check_launch(&self) -> Result<()> {
        self.check()
            .inspect_err(|_| self.context.note_skipped_kernel())
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.context.check(self.life)?;
        if self.queue.is_destroyed() {
            return Err(Error::InvalidHandle("the stream is destroyed".into()));
        }
        Ok(())
    }

    pub(crate) fn check_wait(&self) -> Result<()> {
        self.context.check_wait(self.life)?;
        self.check()
    }

    /// Appends work to the stream as a task, and calls [`Task::release`] for this task.
    pub(crate) fn submit(&self, work: Work) -> Arc<Task> {
        self.submit_after(work, None)
    }

    /// Does the same as [`Stream::submit`] for work that tools that observe the host know by a number.
    pub(crate) fn submit_numbered(&self, number: u64, work: Work) -> Arc<Task> {
        self.append(number, work, None)
    }

    /// Does the same as [`Stream::submit`], but the work also waits for the task `more`.
    pub(crate) fn submit_after(&self, work: Work, more: Option<&Arc<Task>>) -> Arc<Task> {
        self.append(0, work, more)
    }

    fn append(&self, number: u64, work: Work, more: Option<&Arc<Task>>) -> Arc<Task> {
        let (queues, owner) = (&self.context.inner().queues, self.context.owner());
        let stores_past = matches!(work, Work::Marker | Work::Host(_));
        let launch = match &work {
            Work::Launch(launch) if self.context.machine().timeline.is_some() => {
                Some(Arc::clone(&launch.run))
            }
            _ => None,
        };
        let following = queues.following();
        let task = queues.append(&self.queue, |tail, others| {
            let before = tail.into_iter().chain(others).chain(more);
            Task::submit_numbered(number, owner, self.queue.priority(), work, before)
        });
        self.follow(following, &task, more);
        if let Some(more) = more {
            queues.join_task(&self.queue, more);
        }
        if stores_past {
            queues.store_past(&self.queue, &task);
        }
        if let Some(run) = launch {
            self.launches(&run);
        }
        task.release();
        task
    }

    /// If tools observe the host, tells them after which work a task of the stream runs. The task has not been released.
    fn follow(&self, following: Option<Following<'_>>, task: &Arc<Task>, more: Option<&Arc<Task>>) {
        if let Some(mut following) = following {
            let queues = &self.context.inner().queues;
            let before = queues.follow(&mut following, &self.queue, task.number(), more);
            // Tools can call foreign code.
            drop(following);
            self.context.machine().tools.tell_dependences(task, before);
        }
    }

    /// Records that the last work of the stream is the launch `run`. The caller must call this
    /// function before the launch begins.
    pub(crate) fn launches(&self, run: &Run) {
        let space = self.context.machine().memory.space();
        let queues = &self.context.inner().queues;
        queues.after_last(&self.queue, |timeline, at, past| match run.accesses() {
            None => timeline.launched(run.id(), (at, past)),
            Some(accesses) => {
                let rows = |range: MemoryRange| Rows::of(range.address, range.bytes);
                let accesses = accesses.into_iter();
                let accesses: Vec<_> = accesses
                    .map(|(range, writes)| (rows(range), writes))
                    .collect();
                let (what, kernel) = ("the native kernel", Some(run.kernel()));
                timeline.copied(space, (at, past), &accesses, what, kernel);
            }
        });
    }

    /// In a checking run that searches for races, records that the last work of the stream is a
    /// copy or fill. `accesses` contains the byte ranges that the copy or fill accesses, and for
    /// each range whether it is written.
    pub(crate) fn copies(&self, accesses: &[(Rows, bool)], what: &'static str) {
        let space = self.context.machine().memory.space();
        let queues = &self.context.inner().queues;
        queues.after_last(&self.queue, |timeline, at, past| {
            timeline.copied(space, (at, past), accesses, what, None);
        });
    }

    /// Appends two tasks between which other tasks can be inserted. The first task waits for all earlier work and for
    /// `more`. The second task becomes the stream's last task. The caller must call [`Task::release`] for both tasks.
    pub(crate) fn bracket(
        &self,
        begin: Work,
        end: Work,
        more: Option<&Arc<Task>>,
    ) -> (Arc<Task>, Arc<Task>) {
        let (queues, owner) = (&self.context.inner().queues, self.context.owner());
        let mut first = None;
        let following = queues.following();
        let last = queues.append(&self.queue, |tail, others| {
            let before = tail.into_iter().chain(others).chain(more);
            let priority = self.queue.priority();
            let begin = first.insert(Task::submit(Arc::clone(&owner), priority, begin, before));
            Task::submit(owner, priority, end, std::iter::once(&*begin))
        });
        if let Some(more) = more {
            queues.join_task(&self.queue, more);
        }
        queues.store_past(&self.queue, &last);
        let first = first.unwrap_or_else(|| Arc::clone(&last));
        self.follow(following, &first, more);
        (first, last)
    }

    /// If tools observe the host, records that the next work of the stream runs after the work `last`.
    pub(crate) fn set_last(&self, last: Dependences) {
        self.context.inner().queues.set_last(&self.queue, last);
    }

    /// Makes later work of the stream wait for a task, unless the stream is part of a capture
    /// ("watched", see [`crate::capture`]).
    pub(crate) fn wait_task(&self, task: &Arc<Task>) {
        if !self.is_watched() {
            self.submit_after(Work::Marker, Some(task));
        }
    }

    /// In a checking run that checks memory, records and checks uses of stream-ordered memory by
    /// work that was just submitted. `what` names the work.
    pub(crate) fn uses(&self, addresses: impl IntoIterator<Item = u64>, what: impl Fn() -> String) {
        let space = self.context.machine().memory.space();
        self.context
            .inner()
            .queues
            .after_last(&self.queue, |timeline, at, past| {
                for address in addresses.into_iter().filter(|&at| space.contains(at)) {
                    timeline.used(space, (at, past), address, &what());
                }
            });
    }

    /// In a checking run that checks memory, records that the stream has allocated stream-ordered
    /// memory. Later uses of the memory must be ordered after this call.
    pub fn note_allocation(&self, ptr: DevicePtr) {
        let space = self.context.machine().memory.space();
        self.context
            .inner()
            .queues
            .in_order(&self.queue, |timeline, at, _| {
                timeline.allocated(space, ptr.address(), at);
            });
    }

    /// In a checking run that checks memory, records and checks that the stream frees
    /// stream-ordered memory.
    pub(crate) fn frees(&self, base: u64) {
        let space = self.context.machine().memory.space();
        self.context
            .inner()
            .queues
            .in_order(&self.queue, |timeline, _, past| {
                timeline.freed(space, past, base);
            });
    }

    /// Records, for the detection of races, that the host has waited for the stream's work.
    pub(crate) fn host_waited(&self) {
        self.context
            .inner()
            .queues
            .host_waited_for_queue(&self.queue);
    }

    /// Records that the order between later work of this stream and other work is unknown, because
    /// it depends on memory or on other processes.
    pub(crate) fn open_order(&self) {
        self.context.inner().queues.open_order(&self.queue);
    }

    /// Returns whether work that is submitted to the stream now can start immediately.
    pub(crate) fn is_idle(&self) -> bool {
        self.context.inner().queues.is_idle(&self.queue)
    }

    /// Returns whether all work that was submitted to the stream so far is complete.
    pub(crate) fn is_complete(&self) -> bool {
        self.context.inner().queues.tails_of(&self.queue).is_empty()
    }

    /// Waits until all work that was submitted to the stream so far is complete.
    pub(crate) fn wait(&self) {
        for task in self.context.inner().queues.tails_of(&self.queue) {
            task.wait();
        }
        self.host_waited();
    }

    /// Destroys a stream that the program created. Work that was submitted to the stream before
    /// still runs.
    ///
    /// # Errors
    /// [`Error::InvalidHandle`] for default streams and for a stream that is already destroyed.
    pub(crate) fn end(&self) -> Result<()> {
        check_fork()?;
        if matches!(self.kind(), StreamKind::Legacy | StreamKind::PerThread) {
            return Err(Error::InvalidHandle("a default stream".into()));
        }
        match self.queue.destroy() {
            true => {
                let (tools, stream) = (&self.context.machine().tools, self.id());
                tools.tell(|| HostEvent::DestroyStream { stream });
                Ok(())
            }
            false => Err(Error::InvalidHandle("the stream is destroyed".into())),
        }
    }
}

impl Context {
    /// Returns the legacy null stream.
    pub fn legacy_stream(&self) -> Stream {
        Stream::of(self, self.inner().queues.legacy())
    }

    /// Returns the calling thread's default stream. The first call of a thread creates the stream.
    pub fn per_thread_stream(&self) -> Stream {
        Stream::of(self, self.inner().queues.per_thread())
    }

    /// Creates a stream; `kind` is `Blocking` or `NonBlocking`.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] if `kind` is the kind of a default stream.
    pub fn create_stream(&self, kind: StreamKind, priority: i32) -> Result<Stream> {
        self.status()?;
        Stream::create(self, kind, priority)
    }
}
