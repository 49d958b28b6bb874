//! Describes, checks, submits and executes copies and fills. All copy functions describe their
//! copies as a [`Transfer`] with one to three dimensions.
//!
//! Invariant: an address is looked up before a copy is submitted, and is accessed only through `fault::access`. If the
//! memory is freed or unmapped after the lookup, the copy returns an error and does not crash.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::checks::{self, Rows};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::fault::access;
use crate::observe::{CopyDirection, HostEvent, MemoryPlace};
use crate::pointer::{DevicePtr, PointerKind};
use crate::service::in_host_function;
use crate::stream::Stream;
use crate::task::{DeviceJob, Work};

/// The kinds of memory, host or device, of the source and the destination of a transfer.
///
/// ```
/// use margay::{Direction, Transfer};
///
/// let transfer = Transfer::linear(0x1000, 0x2000, 64, Direction::DeviceToDevice);
/// assert_eq!(transfer.direction, Direction::DeviceToDevice);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Host to device.
    HostToDevice,
    /// Device to host.
    DeviceToHost,
    /// Device to device.
    DeviceToDevice,
    /// Host to host.
    HostToHost,
    /// The runtime looks up each address to find out the kind of its memory (`cuMemcpy`, `CU_MEMORYTYPE_UNIFIED`).
    Unified,
}

/// A copy of bytes in one to three dimensions.
///
/// ```
/// use margay::Transfer;
///
/// let rt = margay::Runtime::new()?;
/// let (from, to) = (rt.upload(&[1u32, 2, 3])?, rt.alloc::<u32>(3)?);
/// let transfer = Transfer::on_device(to.ptr(), from.ptr(), 12);
/// // SAFETY: no host memory takes part.
/// unsafe { rt.context()?.legacy_stream().copy(transfer)? };
/// assert_eq!(to.to_vec()?, [1, 2, 3]);
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Address of the first byte that is written.
    pub dst: u64,
    /// Address of the first byte that is read.
    pub src: u64,
    /// The kinds of memory of the source and the destination.
    pub direction: Direction,
    /// Bytes in a row.
    pub width: u64,
    /// Rows in a slice.
    pub height: u64,
    /// Number of slices.
    pub depth: u64,
    /// Number of bytes from the start of a row of the destination to the start of the next row.
    pub dst_pitch: u64,
    /// Number of bytes from the start of a slice of the destination to the start of the next slice.
    pub dst_slice: u64,
    /// Number of bytes from the start of a row of the source to the start of the next row.
    pub src_pitch: u64,
    /// Number of bytes from the start of a slice of the source to the start of the next slice.
    pub src_slice: u64,
}

impl Transfer {
    /// Returns a transfer of `bytes` contiguous bytes.
    pub fn linear(dst: u64, src: u64, bytes: u64, direction: Direction) -> Transfer {
        Transfer {
            dst,
            src,
            direction,
            width: bytes,
            height: 1,
            depth: 1,
            dst_pitch: bytes,
            dst_slice: bytes,
            src_pitch: bytes,
            src_slice: bytes,
        }
    }

    /// Returns a transfer from host memory to device memory.
    pub fn to_device(dst: DevicePtr, src: *const u8, bytes: u64) -> Transfer {
        Transfer::linear(dst.address(), src as u64, bytes, Direction::HostToDevice)
    }

    /// Returns a transfer from device memory to host memory.
    pub fn to_host(dst: *mut u8, src: DevicePtr, bytes: u64) -> Transfer {
        Transfer::linear(dst as u64, src.address(), bytes, Direction::DeviceToHost)
    }

    /// Returns a transfer from device memory to device memory.
    pub fn on_device(dst: DevicePtr, src: DevicePtr, bytes: u64) -> Transfer {
        Transfer::linear(
            dst.address(),
            src.address(),
            bytes,
            Direction::DeviceToDevice,
        )
    }
}

/// A fill of one or more rows.
///
/// ```
/// use margay::copy::Fill;
///
/// // Four words with the value 7, in one row.
/// let fill = Fill { dst: 0x1000, value: 7, width: 4, count: 4, rows: 1, pitch: 0 };
/// assert_eq!(fill.width as u64 * fill.count, 16);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fill {
    /// Address of the first byte that is written.
    pub dst: u64,
    /// The value of each element.
    pub value: u32,
    /// Bytes of an element: 1, 2 or 4.
    pub width: u32,
    /// Elements in a row.
    pub count: u64,
    /// Number of rows.
    pub rows: u64,
    /// Number of bytes from the start of a row to the start of the next row.
    pub pitch: u64,
}

/// States in which cases a call waits until its copy is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// The call waits in the cases in which `cuMemcpy*` waits.
    Sync,
    /// The call waits in the cases in which `cuMemcpy*Async` waits.
    Async,
    /// Like `Async`, but the source is read before the call returns.
    Staged,
}

/// The kind of memory of the source or the destination of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Device,
    /// Pinned or registered host memory.
    Pinned,
    Pageable,
}

/// Maximum size in bytes of a short copy or fill, which the submitting thread performs itself if all earlier work is
/// complete.
const SHORT: u64 = 64 << 10;

/// Maximum number of staged bytes in the process. Bytes are *staged* if they were read from the
/// source when a copy was submitted, and are kept until the copy is executed. If a new copy would
/// exceed the maximum, the call that submits the copy waits for the earlier work of the stream and
/// then copies the bytes itself.
const MOST_STAGED: u64 = 256 << 20;

/// Number of staged bytes in the process.
static STAGED: AtomicU64 = AtomicU64::new(0);

/// Staged bytes: the source of a submitted copy.
struct Staged(Vec<u8>);

impl Drop for Staged {
    fn drop(&mut self) {
        STAGED.fetch_sub(self.0.len() as u64, Ordering::Relaxed);
    }
}

/// Submits a copy, and tells the tools that observe the host ([`crate::observe`]). Waits for the
/// copy if `manner` and the kinds of memory require this, or if the staged bytes would exceed [`MOST_STAGED`]. In a
/// host function, returns [`Error::NotPermitted`] instead of waiting. If the source is pageable and the stream is idle,
/// copies on the calling thread at once. Returns whether the copy was performed on the calling thread after a wait for
/// the stream's earlier work, so that it is complete.
pub(crate) fn submit(stream: &Stream, transfer: Transfer, manner: Manner) -> Result<bool> {
    if transfer.width == 0 || transfer.height == 0 || transfer.depth == 0 {
        return Ok(false);
    }
    let (dst, src) = transfer.sides(stream.context())?;
    let on_device = dst == Side::Device && src == Side::Device;
    let waits = match manner {
        Manner::Sync => !on_device,
        Manner::Async | Manner::Staged => dst == Side::Pageable,
    };
    let stages = src == Side::Pageable || manner == Manner::Staged;
    let bytes = transfer.bytes().ok_or_else(overflow)?;
    let full = stages && STAGED.load(Ordering::Relaxed).saturating_add(bytes) > MOST_STAGED;
    if waits || full {
        stream.check_wait()?;
    }
    // In a host function, work that another thread submits meanwhile could wait for this thread.
    let idle = src == Side::Pageable && !in_host_function() && stream.is_idle();
    let tools = &stream.context().machine().tools;
    let work = tools.announce(|work| transfer.event(work, stream.context(), Some(stream.id())));
    if waits || full || idle {
        return copy_here(stream, work, &transfer).map(|()| true);
    }
    let short = bytes <= SHORT;
    let job: DeviceJob = if stages {
        let staged = transfer.stage()?;
        let call = checks::host::submission();
        Box::new(move || checks::host::perform(call, || transfer.run_staged(&staged.0)))
    } else {
        let call = checks::host::submission();
        Box::new(move || checks::host::perform(call, || transfer.run()))
    };
    stream.submit_numbered(work, Work::Device { job, short });
    Ok(false)
}

/// Waits until the earlier work of the stream is complete, and copies on the calling thread. If the
/// context has a sticky fault, or was reset during the wait, copies nothing and returns an error.
fn copy_here(stream: &Stream, work: u64, transfer: &Transfer) -> Result<()> {
    let life = stream.context().life();
    let task = stream.submit_numbered(work, Work::Caller);
    task.wait_turn();
    stream.context().inner().begin_work(&task);
    let outcome = match stream.context().waited(life) {
        Ok(()) => checks::host::perform(checks::host::submission(), || transfer.run()),
        failed => failed,
    };
    task.complete();
    outcome
}

/// Checks and submits a fill, and tells the tools that observe the host ([`crate::observe`]). Does nothing if the fill is
/// empty.
pub(crate) fn submit_fill(stream: &Stream, fill: Fill) -> Result<()> {
    if !fill.check(stream.context())? {
        return Ok(());
    }
    let short = fill.is_short();
    let call = checks::host::submission();
    let job = Box::new(move || checks::host::perform(call, || fill.run()));
    let tools = &stream.context().machine().tools;
    let work = tools.announce(|work| fill.event(work, stream.context(), Some(stream.id())));
    stream.submit_numbered(work, Work::Device { job, short });
    Ok(())
}

fn overflow() -> Error {
    Error::invalid("the size overflows")
}

/// Checks that `span` bytes at `address` are inside one allocation or contiguous mappings. If `writes` is true, also
/// checks that the device may write to the allocation. Returns the kind of the memory.
fn within(context: &Context, address: u64, span: u64, writes: bool) -> Result<Side> {
    let found = context.machine().memory.holding(address, span);
    let found = found.ok_or_else(|| {
        Error::invalid(format!(
            "{span} bytes at {address:#x} are not inside an allocation"
        ))
    })?;
    if writes && found.flags.read_only {
        return Err(Error::invalid(format!(
            "the memory at {address:#x} is registered as read-only"
        )));
    }
    Ok(match found.kind {
        PointerKind::Device | PointerKind::Managed => Side::Device,
        PointerKind::Pinned | PointerKind::Registered => Side::Pinned,
    })
}

impl Fill {
    /// Returns the event of the fill for tools that observe the runtime ([`crate::observe`]).
    /// `work` is the number of the work, and `stream` the ID of the fill's stream; `None` for a node of a graph.
    pub(crate) fn event(
        &self,
        work: u64,
        context: &Context,
        stream: Option<u64>,
    ) -> HostEvent<'static> {
        HostEvent::Fill {
            work,
            value: self.value,
            bytes: u64::from(self.width) * self.count * self.rows,
            to: self.dst,
            place: place_of(context, self.dst),
            stream,
            context: context.id(),
            device: context.ordinal(),
        }
    }

    /// Returns an error if the arguments of the fill are invalid, or if the filled memory is not
    /// inside an allocation. Otherwise, returns whether the fill has at least one byte.
    pub(crate) fn check(&self, context: &Context) -> Result<bool> {
        if !matches!(self.width, 1 | 2 | 4) {
            return Err(Error::invalid(format!("element width {}", self.width)));
        }
        let width = u64::from(self.width);
        let row = self.count.checked_mul(width).ok_or_else(overflow)?;
        let several = self.rows > 1;
        if !self.dst.is_multiple_of(width) || (several && !self.pitch.is_multiple_of(width)) {
            return Err(Error::invalid("the fill is not aligned to its element"));
        }
        if several && self.pitch < row {
            return Err(Error::invalid("the pitch is smaller than a row"));
        }
        if row == 0 || self.rows == 0 {
            return Ok(false);
        }
        let last = self.pitch.checked_mul(self.rows - 1);
        let span = last.ok_or_else(overflow)?.checked_add(row);
        within(context, self.dst, span.ok_or_else(overflow)?, true)?;
        Ok(true)
    }

    /// Returns whether the fill has at most [`SHORT`] bytes. Such a fill takes less time than
    /// passing it to another thread.
    pub(crate) fn is_short(&self) -> bool {
        let row = self.count.saturating_mul(u64::from(self.width));
        row.saturating_mul(self.rows) <= SHORT
    }

    /// Returns the bytes that the fill writes.
    pub(crate) fn rows(&self) -> Rows {
        Rows {
            start: self.dst,
            width: self.count * u64::from(self.width),
            height: self.rows,
            pitch: self.pitch,
            depth: 1,
            slice: 0,
        }
    }

    /// Fills the memory.
    pub(crate) fn run(self) -> Result<()> {
        let _unblocked = crate::fault::keep_for_copy();
        let _zones = checks::host::Zones::of([self.dst]);
        let count = self.count as usize;
        for row in 0..self.rows {
            let dst = self.dst + row * self.pitch;
            // SAFETY: the range was looked up as memory of this runtime when the fill was submitted. If it has been
            // freed since, the access faults, and the fault is returned as an error.
            let outcome = unsafe {
                match self.width {
                    1 => access::fill8(dst, self.value as u8, count),
                    2 => access::fill16(dst, self.value as u16, count),
                    _ => access::fill32(dst, self.value, count),
                }
            };
            outcome.map_err(inaccessible)?;
            checks::host::written(dst, self.count * u64::from(self.width));
        }
        Ok(())
    }
}

fn inaccessible(fault: access::AccessFault) -> Error {
    Error::invalid(fault.to_string())
}

impl Transfer {
    /// Returns the number of bytes to copy; `None` on overflow.
    pub(crate) fn bytes(&self) -> Option<u64> {
        self.width.checked_mul(self.height)?.checked_mul(self.depth)
    }

    /// Returns the byte ranges of the destination and of the source. For each range, also returns
    /// whether the transfer writes to the range.
    pub(crate) fn accesses(&self) -> [(Rows, bool); 2] {
        let side = |start, pitch, slice| Rows {
            start,
            width: self.width,
            height: self.height,
            pitch,
            depth: self.depth,
            slice,
        };
        let dst = side(self.dst, self.dst_pitch, self.dst_slice);
        [
            (dst, true),
            (side(self.src, self.src_pitch, self.src_slice), false),
        ]
    }

    /// Returns the number of bytes from the first to the last byte of the source or the
    /// destination.
    fn span(&self, pitch: u64, slice: u64) -> Result<u64> {
        let rows = pitch.checked_mul(self.height - 1);
        let slices = slice.checked_mul(self.depth - 1);
        rows.zip(slices)
            .and_then(|(rows, slices)| rows.checked_add(slices))
            .and_then(|start| start.checked_add(self.width))
            .ok_or_else(overflow)
    }

    /// Returns the kinds of memory of the destination and the source. Returns an error if memory that the direction
    /// states to be device memory, or that is in the address range of device memory, is not inside an allocation, and
    /// for a null pointer.
    fn sides(&self, context: &Context) -> Result<(Side, Side)> {
        use Direction as D;
        self.bytes().ok_or_else(overflow)?;
        let dst_is_device = matches!(self.direction, D::HostToDevice | D::DeviceToDevice);
        let src_is_device = matches!(self.direction, D::DeviceToHost | D::DeviceToDevice);
        // The device writes the destination, except in copies between host memory.
        let writes = self.direction != D::HostToHost;
        let dst_span = self.span(self.dst_pitch, self.dst_slice)?;
        let src_span = self.span(self.src_pitch, self.src_slice)?;
        Ok((
            side(context, self.dst, dst_span, dst_is_device, writes)?,
            side(context, self.src, src_span, src_is_device, false)?,
        ))
    }

    /// Calls `f` for each row, with the addresses of its destination and its source.
    fn rows(&self, mut f: impl FnMut(u64, u64) -> Result<()>) -> Result<()> {
        for slice in 0..self.depth {
            for row in 0..self.height {
                let dst = self.dst + slice * self.dst_slice + row * self.dst_pitch;
                let src = self.src + slice * self.src_slice + row * self.src_pitch;
                f(dst, src)?;
            }
        }
        Ok(())
    }

    fn is_contiguous(&self) -> bool {
        let row = self.width;
        let slice = row * self.height;
        let rows = self.height == 1 || (self.dst_pitch == row && self.src_pitch == row);
        let slices = self.depth == 1 || (self.dst_slice == slice && self.src_slice == slice);
        rows && slices
    }

    /// Returns the event of the copy for tools that observe the runtime ([`crate::observe`]).
    /// `work` is the number of the work, and `stream` the ID of the copy's stream; `None` for a node of a graph.
    pub(crate) fn event(
        &self,
        work: u64,
        context: &Context,
        stream: Option<u64>,
    ) -> HostEvent<'static> {
        HostEvent::Copy {
            work,
            direction: match self.direction {
                Direction::HostToDevice => CopyDirection::HostToDevice,
                Direction::DeviceToHost => CopyDirection::DeviceToHost,
                Direction::DeviceToDevice => CopyDirection::DeviceToDevice,
                Direction::HostToHost => CopyDirection::HostToHost,
                Direction::Unified => CopyDirection::Unified,
            },
            bytes: self.bytes().unwrap_or(0),
            to: self.dst,
            from: self.src,
            places: [self.dst, self.src].map(|address| place_of(context, address)),
            stream,
            context: context.id(),
            device: context.ordinal(),
        }
    }

    /// Returns an error if the transfer has an invalid size, or if its device memory is not inside
    /// an allocation. Otherwise, returns whether the transfer has at least one byte.
    pub(crate) fn check(&self, context: &Context) -> Result<bool> {
        if self.width == 0 || self.height == 0 || self.depth == 0 {
            return Ok(false);
        }
        self.sides(context).map(|_| true)
    }

    /// Returns whether the copy has at most [`SHORT`] bytes. Such a copy takes less time than
    /// passing it to another thread.
    pub(crate) fn is_short(&self) -> bool {
        self.bytes().is_some_and(|bytes| bytes <= SHORT)
    }

    /// Copies the bytes.
    pub(crate) fn run(self) -> Result<()> {
        let _unblocked = crate::fault::keep_for_copy();
        let _zones = checks::host::Zones::of([self.dst, self.src]);
        let to_host = self.direction == Direction::DeviceToHost;
        let copy = |dst, src, bytes| {
            copy_bytes(dst, src, bytes)?;
            checks::host::copied(dst, src, bytes, to_host);
            Ok(())
        };
        if self.is_contiguous() {
            return copy(self.dst, self.src, self.width * self.height * self.depth);
        }
        self.rows(|dst, src| copy(dst, src, self.width))
    }

    /// Reads the source of the copy into a new buffer.
    fn stage(&self) -> Result<Staged> {
        let _unblocked = crate::fault::keep_for_copy();
        let bytes = self.bytes().ok_or_else(overflow)?;
        let mut staged = Vec::new();
        staged
            .try_reserve_exact(bytes as usize)
            .map_err(|_| Error::OutOfMemory {
                requested: bytes,
                free: 0,
            })?;
        staged.resize(bytes as usize, 0);
        STAGED.fetch_add(bytes, Ordering::Relaxed);
        let mut staged = Staged(staged);
        let mut rest = staged.0.as_mut_slice();
        self.rows(|_, src| {
            let (row, after) = std::mem::take(&mut rest).split_at_mut(self.width as usize);
            rest = after;
            access::read(row, src).map_err(inaccessible)
        })?;
        Ok(staged)
    }

    fn run_staged(self, staged: &[u8]) -> Result<()> {
        let _unblocked = crate::fault::keep_for_copy();
        let _zones = checks::host::Zones::of([self.dst]);
        let mut rows = staged.chunks_exact(self.width as usize);
        self.rows(|dst, src| {
            let row = rows.next().unwrap_or_default();
            // SAFETY: the destination was looked up as memory of this runtime when the copy was submitted.
            unsafe { access::write(dst, row) }.map_err(inaccessible)?;
            checks::host::copied(dst, src, self.width, false);
            Ok(())
        })
    }
}

fn side(
    context: &Context,
    address: u64,
    span: u64,
    must_be_ours: bool,
    writes: bool,
) -> Result<Side> {
    if address.checked_add(span).is_none() {
        return Err(overflow());
    }
    let memory = &context.machine().memory;
    // An address in freed device memory is an error too: an access to this memory could cause a signal that reaches the
    // program's own handlers.
    if must_be_ours || memory.lookup(address).is_some() || memory.overlaps(address, span) {
        return within(context, address, span, writes);
    }
    if address == 0 {
        return Err(Error::invalid("a null pointer"));
    }
    Ok(Side::Pageable)
}

/// Returns the memory that contains an address, for tools.
fn place_of(context: &Context, address: u64) -> MemoryPlace {
    match context.machine().memory.lookup(address) {
        None => MemoryPlace::Pageable,
        Some(found) => match found.kind {
            PointerKind::Device => MemoryPlace::Device(found.device),
            PointerKind::Managed => MemoryPlace::Managed,
            PointerKind::Pinned | PointerKind::Registered => MemoryPlace::Pinned,
        },
    }
}

fn copy_bytes(dst: u64, src: u64, bytes: u64) -> Result<()> {
    // SAFETY: device memory was looked up; the caller of `Stream::copy` guarantees that host memory is valid; a fault
    // is returned as an error.
    unsafe { access::copy(dst, src, bytes as usize) }.map_err(inaccessible)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Runtime;

    #[test]
    fn host_memory_must_end_before_the_last_address() {
        let runtime = Runtime::new().expect("a runtime");
        let buffer = runtime.upload(&[0u32; 16]).expect("room");
        let context = runtime.context().expect("a context");
        let check = |distance: u64| {
            let source = distance.wrapping_neg() as *const u8;
            Transfer::to_device(buffer.ptr(), source, 64).check(&context)
        };
        assert!(matches!(check(65), Ok(true)));
        let error = check(64).expect_err("past the last address");
        assert_eq!(error.to_string(), overflow().to_string());
    }
}
