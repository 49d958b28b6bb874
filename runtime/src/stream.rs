//! Streams: queues of work that run in order.
//!
//! CUDA's rules: work of one stream runs in the order of submission. The *legacy null stream*
//! waits for all earlier work of the context's blocking streams, and later work of these waits
//! for it. Non-blocking streams are independent of it. Each host thread has a *per-thread
//! default stream*, which is a blocking stream.

use crate::args::KernelArgs;
use crate::buffer::DevicePtr;
use crate::context::Context;
use crate::copy::Transfer;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::kernel::Kernel;
use crate::launch::LaunchConfig;

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

/// A queue of work. Clones are the same stream.
#[derive(Debug, Clone)]
pub struct Stream {
    context: Context,
}

impl Stream {
    /// The context that owns the stream.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Its kind.
    pub fn kind(&self) -> StreamKind {
        StreamKind::Legacy
    }

    /// Unique in the process, never reused (`cuStreamGetId`).
    pub fn id(&self) -> u64 {
        0
    }

    /// Its priority: 0 is lowest, negative is higher, clamped to the context's range.
    pub fn priority(&self) -> i32 {
        0
    }

    /// Launches a kernel with typed arguments. Returns before the kernel runs.
    pub fn launch<A: KernelArgs>(
        &self,
        kernel: &Kernel,
        config: LaunchConfig,
        args: A,
    ) -> Result<()> {
        let mut params = vec![0; kernel.info().param_bytes as usize];
        args.pack(&kernel.info().params, &mut params)?;
        self.launch_packed(kernel, config, params)
    }

    /// Launches a kernel with its parameter space already filled.
    pub fn launch_packed(
        &self,
        kernel: &Kernel,
        config: LaunchConfig,
        params: Vec<u8>,
    ) -> Result<()> {
        let _ = (kernel, config, params);
        Err(Error::unsupported("launching"))
    }

    /// A copy in this stream that blocks like `cuMemcpy*` without `Async`.
    ///
    /// # Safety
    /// Host memory that the transfer names is valid for it (device memory is looked up).
    pub unsafe fn copy(&self, transfer: Transfer) -> Result<()> {
        let _ = transfer;
        Err(Error::unsupported("copies"))
    }

    /// A copy in this stream that returns early where CUDA's does: pageable sources are read
    /// before it returns, pageable destinations are written before it returns, everything else
    /// is left to run.
    ///
    /// # Safety
    /// As [`Stream::copy`], until the copy is complete.
    pub unsafe fn copy_async(&self, transfer: Transfer) -> Result<()> {
        let _ = transfer;
        Err(Error::unsupported("copies"))
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
        let _ = (dst, value, width, count, rows, pitch);
        Err(Error::unsupported("fills"))
    }

    /// Runs `function` on the callback thread when all earlier work is complete; later work
    /// waits for it. It is not run when the context has failed (`cuLaunchHostFunc`).
    pub fn host_function(&self, function: impl FnOnce() + Send + 'static) -> Result<()> {
        let _ = function;
        Err(Error::unsupported("host functions"))
    }

    /// The same, but always run and told the status (`cuStreamAddCallback`).
    pub fn callback(&self, function: impl FnOnce(Result<()>) + Send + 'static) -> Result<()> {
        let _ = function;
        Err(Error::unsupported("host functions"))
    }

    /// Memory that is allocated in stream order (`cuMemAllocAsync`).
    pub fn alloc_async(&self, bytes: u64) -> Result<DevicePtr> {
        self.context.alloc(bytes)
    }

    /// Frees memory when all earlier work of the stream is complete (`cuMemFreeAsync`).
    pub fn free_async(&self, ptr: DevicePtr) -> Result<()> {
        let _ = ptr;
        Err(Error::unsupported("stream-ordered frees"))
    }

    /// Later work waits for the event's last record.
    pub fn wait_event(&self, event: &Event) -> Result<()> {
        let _ = event;
        Err(Error::unsupported("events"))
    }

    /// Whether all work is complete.
    pub fn query(&self) -> Result<bool> {
        Err(Error::unsupported("streams"))
    }

    /// Waits for all work submitted so far.
    pub fn synchronize(&self) -> Result<()> {
        Err(Error::unsupported("streams"))
    }

    /// Ends a created stream; work in it still completes.
    ///
    /// # Errors
    /// [`Error::InvalidHandle`] for the two default streams.
    pub fn destroy(&self) -> Result<()> {
        Ok(())
    }
}
