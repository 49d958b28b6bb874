//! What programs give streams: launches, copies, fills, host functions, events, graphs. A capturing stream takes it as
//! nodes of a graph, others as tasks.

mod arrays;
mod events;
mod graphs;

use std::sync::Arc;

use crate::args::KernelArgs;
use crate::capture;
use crate::context::Context;
use crate::copy::{self, Fill, Manner, Transfer};
use crate::error::{CaptureError, Error, Result};
use crate::event::{Event, Record, SharedEvent};
use crate::graph::{HostFunction, Origin, free_from_outside};
use crate::kernel::Kernel;
use crate::launch::LaunchConfig;
use crate::memop::{self, MemOp};
use crate::params::Params;
use crate::pointer::{DevicePtr, PointerKind};
use crate::stream::{Stream, StreamKind};
use crate::task::{HostWork, Task, Work};

impl Stream {
    /// Refuses calls that wait for a stream which captures.
    fn check_not_watched(&self) -> Result<()> {
        match self.is_watched() {
            true => capture::refuse(self, CaptureError::Unsupported),
            false => Ok(()),
        }
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
        if kernel.module().context() != self.context() {
            return Err(Error::InvalidHandle(
                "the kernel belongs to another context".into(),
            ));
        }
        if self.is_watched() {
            return capture::kernel(self, kernel, config, params);
        }
        let run = kernel.start(config, params)?;
        self.context().flush_output();
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
        self.context().flush_output();
        self.context().fault_status()
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
            None => self.context().alloc_pooled(bytes),
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
        self.context().owner_of(base, |found| !found.internal)?;
        let freed = self.context().release_on_drop(base);
        self.context().machine().memory.promise(base);
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
            Record::Captured(recorded) => capture::wait_captured(self, recorded),
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

    /// Whether all work is complete.
    pub fn query(&self) -> Result<bool> {
        self.check()?;
        self.check_not_watched()?;
        Ok(self.is_complete())
    }

    /// Waits for all work submitted so far.
    pub fn synchronize(&self) -> Result<()> {
        self.check_wait()?;
        self.check_not_watched()?;
        self.wait();
        self.context().flush_output();
        self.context().fault_status()
    }

    /// Ends a created stream; work in it still completes.
    ///
    /// # Errors
    /// [`Error::InvalidHandle`] for default streams and when it is destroyed already.
    pub fn destroy(&self) -> Result<()> {
        self.end()?;
        if self.is_watched() {
            capture::forget_stream(self);
        }
        Ok(())
    }

    /// Does `ops` one after the other when all earlier work is complete; later work waits for the
    /// last one (`cuStreamBatchMemOp` and its single forms).
    ///
    /// # Errors
    /// [`Error::InvalidValue`] when an address is not aligned or no memory of the device.
    pub fn memory_ops(&self, ops: &[MemOp]) -> Result<()> {
        self.memory_ops_of(ops, || None)
    }

    /// The same; a capturing stream's node gets the [`Origin`] that `origin` makes.
    ///
    /// # Errors
    /// As [`Stream::memory_ops`].
    pub fn memory_ops_of(&self, ops: &[MemOp], origin: impl FnOnce() -> Origin) -> Result<()> {
        self.check()?;
        for op in ops {
            op.check(self.context())?;
        }
        if self.is_watched() {
            return capture::memory_ops(self, ops, origin());
        }
        if !ops.is_empty() {
            self.submit(memop::work(ops.to_vec()));
        }
        Ok(())
    }

    /// Submits work in order with everything else in some contexts (`cuMemcpyPeer`): it begins when all that they were
    /// given so far is complete, and what they are given from now on waits for it. Streams that capture keep out of it.
    ///
    /// # Errors
    /// What `submit` fails with, and the errors of the contexts.
    pub fn in_order_with<E: From<Error>>(
        &self,
        contexts: &[Context],
        submit: impl FnOnce() -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        for context in contexts {
            context.status()?;
        }
        for context in contexts {
            for tail in context.inner().queues.all_tails() {
                self.wait_task(&tail);
            }
        }
        submit()?;
        let done = self.mark()?;
        for context in contexts {
            context.wait_task(&done)?;
        }
        Ok(())
    }
}
