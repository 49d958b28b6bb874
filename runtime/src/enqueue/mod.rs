//! Submits work to streams: launches, copies, fills, host functions, events and graphs. In a capturing stream, the work
//! becomes nodes of a graph; in other streams, it becomes tasks.

mod arrays;
mod events;
mod graphs;
mod natives;

use std::sync::Arc;

use crate::args::KernelArgs;
use crate::capture;
use crate::context::Context;
use crate::copy::{self, Fill, Manner, Transfer};
use crate::error::{CaptureError, Error, Result};
use crate::event::{Event, Record, SharedEvent};
use crate::graph::{HostFunction, Origin, check_live, free_from_outside};
use crate::kernel::Kernel;
use crate::launch::LaunchConfig;
use crate::mem::Allocation;
use crate::memop::{self, MemOp};
use crate::observe::{HostEvent, WaitKind};
use crate::params::Params;
use crate::pointer::{DevicePtr, PointerKind};
use crate::probed::{Probed, Role};
use crate::stream::{Stream, StreamKind};
use crate::task::{HostWork, Task, Work};

impl Stream {
    /// Returns an error and invalidates the affected captures if the stream is watched (see [`crate::capture`]).
    fn check_not_watched(&self) -> Result<()> {
        match self.is_watched() {
            true => capture::refuse(self, CaptureError::Unsupported),
            false => Ok(()),
        }
    }

    /// Launches a kernel with typed arguments.
    ///
    /// # Errors
    /// Returns the same errors as [`Stream::launch_packed`], and [`Error::InvalidValue`] if the number or the sizes of
    /// the arguments do not match the kernel's parameters.
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

    /// Launches a kernel with a parameter space that the caller has filled ([`Kernel::empty_params`]). Does not wait
    /// for the kernel, except in checking runs with blocking launches.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for a parameter space of another size, an invalid shape or too much dynamic shared
    /// memory; [`Error::LaunchOutOfResources`] if a block does not fit on a multiprocessor;
    /// [`Error::CooperativeLaunchTooLarge`]; [`Error::InvalidHandle`] if the kernel belongs to another context; and the
    /// errors of compilation.
    pub fn launch_packed(
        &self,
        kernel: &Kernel,
        config: LaunchConfig,
        params: Params,
    ) -> Result<()> {
        self.check_launch()?;
        if kernel.module().context() != self.context() {
            return Err(Error::InvalidHandle(
                "the kernel belongs to another context".into(),
            ));
        }
        if self.is_watched() {
            return capture::kernel(self, kernel, config, params);
        }
        let Some(order) = kernel.probed()?.and_then(Probed::rehearses) else {
            return self.launch_as(Role::Ordinary, kernel, config, params);
        };
        let _order = order.lock();
        self.launch_as(Role::Rehearsal, kernel, config, params.clone())?;
        self.synchronize()?;
        self.launch_as(Role::Rehearsed, kernel, config, params)?;
        self.synchronize()
    }

    fn launch_as(
        &self,
        role: Role,
        kernel: &Kernel,
        config: LaunchConfig,
        params: Params,
    ) -> Result<()> {
        self.context().make_room();
        let words = self
            .context()
            .machine()
            .timeline
            .as_ref()
            .map(|_| params.words());
        let tools = &self.context().machine().tools;
        let arguments = tools.observe_host().then(|| params.bytes().to_vec());
        let (grid, block, dynamic_shared) = (config.grid, config.block, config.shared);
        let run = kernel.start_as(role, config, params)?;
        self.context().flush_output();
        let launch = run.run.id();
        let work = tools.announce(|work| HostEvent::Launch {
            launch,
            work,
            kernel: kernel.name(),
            grid,
            block,
            dynamic_shared,
            arguments: arguments.as_deref().unwrap_or(&[]),
            stream: Some(self.id()),
            context: self.context().id(),
            device: self.context().ordinal(),
        });
        self.submit_numbered(work, Work::Launch(run));
        if let Some(words) = words {
            self.uses(words, || format!("kernel {}", kernel.name()));
        }
        let findings = self.context().machine().findings.as_ref();
        match findings.is_some_and(|findings| findings.options().blocking_launches) {
            true => self.synchronize(),
            false => Ok(()),
        }
    }

    /// Copies memory in stream order. Like `cuMemcpy*` without `Async`, the call blocks until the
    /// copy is complete, unless both the source and the destination are device memory.
    ///
    /// # Safety
    /// Host memory in the transfer must be valid during the call. (The function itself checks the
    /// addresses of device memory.)
    ///
    /// # Errors
    /// [`Error::InvalidValue`] if a range of device memory is not inside an allocation.
    pub unsafe fn copy(&self, transfer: Transfer) -> Result<()> {
        let life = self.context().life();
        self.check_wait()?;
        self.check_not_watched()?;
        self.submit_copy(transfer, Manner::Sync)?;
        self.context().flush_output();
        self.context().waited(life)
    }

    /// Copies memory in stream order, and returns as early as `cuMemcpy*Async` does. If the source or the destination
    /// is pageable host memory, that memory is read or written before the call returns. All other
    /// copies can run after the call has returned.
    ///
    /// # Safety
    /// Host memory in the transfer must be valid until the copy is complete.
    ///
    /// # Errors
    /// Returns the same errors as [`Stream::copy`].
    pub unsafe fn copy_async(&self, transfer: Transfer) -> Result<()> {
        self.check()?;
        if self.is_watched() {
            return capture::copy(self, transfer);
        }
        self.context().make_room();
        self.submit_copy(transfer, Manner::Async)
    }

    /// Submits a copy, and records and checks its accesses. If the source is staged, only the
    /// access to the destination is recorded, because the copy reads its source before it is
    /// executed.
    fn submit_copy(&self, transfer: Transfer, manner: Manner) -> Result<()> {
        if transfer.bytes() != Some(0) {
            check_live(self.context(), transfer.dst)?;
            check_live(self.context(), transfer.src)?;
        }
        let is_staged = manner == Manner::Staged;
        let has_waited = copy::submit(self, transfer, manner)?;
        self.uses([transfer.src, transfer.dst], || "a copy".to_owned());
        let accesses = transfer.accesses();
        let recorded = if is_staged { 1 } else { accesses.len() };
        self.copies(&accesses[..recorded], "a copy");
        // The clock of the copy does not contain what other host threads have waited for in the meantime.
        if has_waited {
            self.host_waited();
        }
        Ok(())
    }

    /// Copies memory like [`Stream::copy_async`], but reads the source before the call returns, without waiting for
    /// earlier work of the stream (`CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL`). In a captured graph, each launch of
    /// the graph reads the source.
    ///
    /// # Safety
    /// Host memory that the copy writes must be valid until the copy is complete. Host memory that it reads must be
    /// valid until this call returns or, if the stream is capturing, until the copy is complete in each launch of the
    /// graph.
    ///
    /// # Errors
    /// Returns the same errors as [`Stream::copy`].
    pub unsafe fn copy_async_staged(&self, transfer: Transfer) -> Result<()> {
        self.check()?;
        if self.is_watched() {
            return capture::copy(self, transfer);
        }
        self.context().make_room();
        self.submit_copy(transfer, Manner::Staged)
    }

    /// Fills `rows` rows of `count` elements with `value`. An element has `width` (1, 2 or 4) bytes; rows begin `pitch`
    /// bytes apart. Returns without waiting for earlier work of the stream.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] if the range is not inside an allocation or is misaligned.
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
        self.context().make_room();
        if count != 0 && rows != 0 {
            check_live(self.context(), fill.dst)?;
        }
        copy::submit_fill(self, fill)?;
        self.uses([fill.dst], || "a fill".to_owned());
        self.copies(&[(fill.rows(), true)], "a fill");
        Ok(())
    }

    /// Calls `function` on the callback thread after all earlier work of the stream. Later work of the stream waits
    /// until `function` has returned. If the context has failed, the function is not called (`cuLaunchHostFunc`). In a
    /// capturing stream, use [`Stream::launch_host`].
    ///
    /// # Errors
    /// [`CaptureError::Unsupported`] if the stream is capturing.
    pub fn host_function(&self, function: impl FnOnce() + Send + 'static) -> Result<()> {
        self.host_work(Box::new(move |_| function()), false)
    }

    /// Calls `function` like [`Stream::host_function`]. In a capturing stream, adds a node that
    /// calls the function at each launch of the graph. `origin` is stored in the node.
    pub fn launch_host(&self, function: HostFunction, origin: Origin) -> Result<()> {
        self.check()?;
        if self.is_watched() {
            return capture::host(self, function, origin);
        }
        self.host_work(Box::new(move |_| function()), false)
    }

    /// Calls `function` on the callback thread after all earlier work, even if the context has failed
    /// (`cuStreamAddCallback`). The argument of `function` is `Ok` or the error of the context, for example its sticky
    /// fault. Later work of the stream waits until `function` has returned.
    pub fn callback(&self, function: impl FnOnce(Result<()>) + Send + 'static) -> Result<()> {
        self.host_work(Box::new(function), true)
    }

    fn host_work(&self, function: Box<dyn FnOnce(Result<()>) + Send>, always: bool) -> Result<()> {
        self.check()?;
        self.check_not_watched()?;
        self.context().make_room();
        let stream = Some(self.id());
        let tools = &self.context().machine().tools;
        let work = tools.announce(|work| HostEvent::HostFunction {
            work,
            stream,
            context: self.context().id(),
            device: self.context().ordinal(),
        });
        self.submit_numbered(work, Work::Host(HostWork { function, always }));
        Ok(())
    }

    /// Allocates stream-ordered device memory (`cuMemAllocAsync`).
    pub fn alloc_async(&self, bytes: u64) -> Result<DevicePtr> {
        self.check()?;
        match self.alloc_captured(bytes, PointerKind::Device, 0) {
            Some(captured) => captured,
            None => {
                let ptr = self.context().alloc_pooled(bytes)?;
                self.note_allocation(ptr);
                Ok(ptr)
            }
        }
    }

    /// If the stream is capturing, allocates memory of the graph to which the capture adds nodes; otherwise returns
    /// `None`. `label` is stored with the allocation ([`crate::graph::GraphAllocation::label`]).
    ///
    /// # Errors
    /// Returns an error if the capture cannot add the allocation, and [`Error::OutOfMemory`].
    pub fn alloc_captured(
        &self,
        bytes: u64,
        kind: PointerKind,
        label: u64,
    ) -> Option<Result<DevicePtr>> {
        self.is_watched()
            .then(|| capture::alloc(self, bytes, kind, label))
    }

    /// Frees memory after all earlier work of the stream is complete (`cuMemFreeAsync`).
    ///
    /// # Errors
    /// [`Error::InvalidValue`] if no allocation of device memory starts at `ptr`.
    pub fn free_async(&self, ptr: DevicePtr) -> Result<()> {
        self.check()?;
        if self.is_watched() {
            return capture::free(self, ptr);
        }
        let base = ptr.address();
        if let Some(freed) = free_from_outside(base) {
            let freed = freed?;
            let job = Box::new(move || {
                freed.set_allocated(false);
                Ok(())
            });
            self.submit(Work::Device { job, short: true });
            return Ok(());
        }
        let accept = |found: &Allocation| found.pooled || found.is_freeable();
        self.context().owner_of(base, accept)?;
        self.frees(base);
        let freed = self.context().release_on_drop(base);
        self.context().machine().memory.promise(base);
        let job = Box::new(move || {
            drop(freed);
            Ok(())
        });
        self.submit(Work::Device { job, short: true });
        Ok(())
    }

    /// Makes later work of the stream wait for the event's last record. If the record was in a capture, the stream
    /// joins that capture.
    ///
    /// # Errors
    /// [`Error::InvalidHandle`] if the event is destroyed; [`CaptureError::Isolation`] if the stream is capturing and
    /// the event's record was not captured; [`CaptureError::Merge`] if the event was recorded in another capture.
    pub fn wait_event(&self, event: &Event) -> Result<()> {
        self.check()?;
        let kind = WaitKind::StreamEvent;
        let _told = self
            .context()
            .told_wait(kind, Some(self.id()), Some(event.id()));
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

    /// Adds a node to the graph that the stream captures. At each launch of the graph, the node waits for the event's
    /// last record (`CU_EVENT_WAIT_EXTERNAL`).
    ///
    /// # Errors
    /// [`Error::InvalidValue`] if the stream is not capturing.
    pub fn wait_event_external(&self, event: &Event) -> Result<()> {
        self.check()?;
        event.check()?;
        match self.is_watched() {
            true => capture::wait_external(self, event),
            false => Err(Error::invalid("the stream is not capturing")),
        }
    }

    /// Makes later work of the stream wait until the event's record with the number `record` is complete. Any process
    /// may have made the record. A separate thread waits for that record.
    fn wait_for_process(&self, shared: &Arc<SharedEvent>, record: u64) -> Result<()> {
        let (shared, task) = (Arc::clone(shared), self.submit(Work::Caller));
        self.open_order();
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

    /// Submits a marker: a task without work, which is complete when all earlier work of the stream is complete.
    pub(crate) fn mark(&self) -> Result<Arc<Task>> {
        self.check()?;
        self.check_not_watched()?;
        Ok(self.submit(Work::Marker))
    }

    /// Returns whether all work that was submitted to the stream so far is complete.
    pub fn query(&self) -> Result<bool> {
        self.check()?;
        self.check_not_watched()?;
        let is_complete = self.is_complete();
        if is_complete {
            self.host_waited();
            // A reset can have dropped the work since the first check.
            self.check()?;
        }
        Ok(is_complete)
    }

    /// Waits for all work that was submitted to the stream so far.
    pub fn synchronize(&self) -> Result<()> {
        let life = self.context().life();
        self.check_wait()?;
        self.check_not_watched()?;
        let _told = self
            .context()
            .told_wait(WaitKind::Stream, Some(self.id()), None);
        self.wait();
        self.context().flush_output();
        self.context().waited(life)
    }

    /// Destroys a stream that the program created. Work that was submitted to the stream still completes.
    ///
    /// # Errors
    /// [`Error::InvalidHandle`] for default streams and for a stream that is already destroyed.
    pub fn destroy(&self) -> Result<()> {
        self.end()?;
        if self.is_watched() {
            capture::forget_stream(self);
        }
        Ok(())
    }

    /// Performs `ops` one after the other, after all earlier work of the stream. Later work of the
    /// stream waits for the last operation. This function implements `cuStreamBatchMemOp` and the
    /// functions for single operations.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] if an address is misaligned or not inside an allocation, if it is in an allocation of a
    /// graph that is not live, or if an operation writes to memory that is registered as read-only.
    pub fn memory_ops(&self, ops: &[MemOp]) -> Result<()> {
        self.memory_ops_of(ops, || None)
    }

    /// Performs `ops` like [`Stream::memory_ops`]. In a capturing stream, adds a node and stores
    /// the [`Origin`] that `origin` returns in this node.
    ///
    /// # Errors
    /// Returns the same errors as [`Stream::memory_ops`].
    pub fn memory_ops_of(&self, ops: &[MemOp], origin: impl FnOnce() -> Origin) -> Result<()> {
        self.check()?;
        for op in ops {
            op.check(self.context())?;
        }
        if self.is_watched() {
            return capture::memory_ops(self, ops, origin());
        }
        for address in ops.iter().filter_map(MemOp::address) {
            check_live(self.context(), address)?;
        }
        if !ops.is_empty() {
            self.open_order();
            self.submit(memop::work(self.context(), ops.to_vec()));
        }
        Ok(())
    }

    /// Calls `submit`, which submits work to this stream, and orders this work with all work of `contexts`
    /// (`cuMemcpyPeer`). The work begins after everything that was submitted to the contexts before the call.
    /// Everything that is submitted to the contexts after the call waits for the work. Work of capturing streams is not
    /// ordered with this work.
    ///
    /// # Errors
    /// Returns the error of `submit`, or of [`Context::status`] for one of the contexts.
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
        self.open_order();
        submit()?;
        let done = self.mark()?;
        for context in contexts {
            context.wait_task(&done)?;
        }
        Ok(())
    }
}
