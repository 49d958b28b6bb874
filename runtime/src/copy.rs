//! Describes, checks, submits and executes copies and fills. All copy functions describe their
//! copies as a [`Transfer`] with one to three dimensions.
//!
//! Invariant: an address is looked up before a copy is submitted, and is accessed only through `fault::access`. If the
//! memory is freed or unmapped after the lookup, the copy returns an error and does not crash.

mod fill;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::checks::{self, Rows};
use crate::context::Context;
use crate::divided::{self, Helpers};
use crate::error::{Error, Result};
use crate::fault::access;
use crate::observe::{CopyDirection, HostEvent, MemoryPlace};
use crate::pointer::{DevicePtr, PointerKind};
use crate::service::in_host_function;
use crate::stream::Stream;
use crate::task::{DeviceJob, Work};

pub use fill::Fill;

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
    let (machine, priority) = (Arc::clone(stream.context().machine()), stream.priority());
    let job: DeviceJob = if stages {
        let staged = transfer.stage()?;
        let call = checks::host::submission();
        Box::new(move || {
            let helpers = machine.copy_helpers(priority);
            checks::host::perform(call, || transfer.run_staged(helpers, staged))
        })
    } else {
        let call = checks::host::submission();
        Box::new(move || {
            let helpers = machine.copy_helpers(priority);
            checks::host::perform(call, || transfer.run(helpers))
        })
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
        Ok(()) => {
            let helpers = stream.context().machine().copy_helpers(stream.priority());
            checks::host::perform(checks::host::submission(), || transfer.run(helpers))
        }
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
    let (machine, priority) = (Arc::clone(stream.context().machine()), stream.priority());
    let job = Box::new(move || {
        let helpers = machine.copy_helpers(priority);
        checks::host::perform(call, || fill.run(helpers))
    });
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

/// Divides a range of bytes into the parts of the rows that it contains. The bytes of all rows are counted without gaps,
/// and each row has `width` bytes. Returns the index of each row, and the offset and the number of the bytes in it.
fn rows_of(range: Range<u64>, width: u64) -> impl Iterator<Item = (u64, u64, u64)> {
    let width = width.max(1);
    let rows = range.start / width..range.end.div_ceil(width);
    rows.map(move |row| {
        let start = range.start.max(row * width) - row * width;
        let end = range.end.min((row + 1) * width) - row * width;
        (row, start, end - start)
    })
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

    /// Returns the addresses of the destination and the source of a row. The rows of all slices are counted together.
    fn row(&self, index: u64) -> (u64, u64) {
        let (slice, row) = (index / self.height, index % self.height);
        let dst = self.dst + slice * self.dst_slice + row * self.dst_pitch;
        let src = self.src + slice * self.src_slice + row * self.src_pitch;
        (dst, src)
    }

    /// Calls `f` for each row, with the addresses of its destination and its source.
    fn rows(&self, mut f: impl FnMut(u64, u64) -> Result<()>) -> Result<()> {
        (0..self.depth * self.height).try_for_each(|row| {
            let (dst, src) = self.row(row);
            f(dst, src)
        })
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

    /// Returns whether the source and the destination may have common bytes.
    fn may_overlap(&self) -> bool {
        let span = |pitch, slice| self.span(pitch, slice).unwrap_or(u64::MAX);
        let dst = span(self.dst_pitch, self.dst_slice);
        let src = span(self.src_pitch, self.src_slice);
        self.dst.wrapping_sub(self.src) < src || self.src.wrapping_sub(self.dst) < dst
    }

    /// Copies the bytes. Other threads help with a large copy.
    pub(crate) fn run(self, helpers: Helpers<'_>) -> Result<()> {
        let _unblocked = crate::fault::keep_for_copy();
        let _zones = checks::host::Zones::of([self.dst, self.src]);
        let to_host = self.direction == Direction::DeviceToHost;
        if self.is_contiguous() {
            let bytes = self.width * self.height * self.depth;
            let copy = move |range: Range<u64>| {
                let (dst, src) = (self.dst + range.start, self.src + range.start);
                copy_bytes(dst, src, range.end - range.start)
            };
            // The result of a copy between overlapping ranges depends on the order in which its bytes are copied.
            match self.may_overlap() {
                true => copy(0..bytes)?,
                false => divided::perform(helpers, bytes, copy)?,
            }
            checks::host::copied(self.dst, self.src, bytes, to_host);
            return Ok(());
        }
        if !self.may_overlap() {
            let bytes = self.width * self.height * self.depth;
            divided::perform(helpers, bytes, move |range| {
                for (row, start, bytes) in rows_of(range, self.width) {
                    let (dst, src) = self.row(row);
                    copy_bytes(dst + start, src + start, bytes)?;
                }
                Ok(())
            })?;
            return self.rows(|dst, src| {
                checks::host::copied(dst, src, self.width, to_host);
                Ok(())
            });
        }
        self.rows(|dst, src| {
            copy_bytes(dst, src, self.width)?;
            checks::host::copied(dst, src, self.width, to_host);
            Ok(())
        })
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

    /// Writes the staged bytes to the destination of the copy. Other threads help with a large copy.
    fn run_staged(self, helpers: Helpers<'_>, staged: Staged) -> Result<()> {
        let _unblocked = crate::fault::keep_for_copy();
        let _zones = checks::host::Zones::of([self.dst]);
        divided::perform(helpers, staged.0.len() as u64, move |range| {
            for (row, start, bytes) in rows_of(range, self.width) {
                let first = (row * self.width + start) as usize;
                let bytes = &staged.0[first..first + bytes as usize];
                // SAFETY: the destination was looked up as memory of this runtime when the copy was submitted.
                unsafe { access::write(self.row(row).0 + start, bytes) }.map_err(inaccessible)?;
            }
            Ok(())
        })?;
        self.rows(|dst, src| {
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
mod tests;
