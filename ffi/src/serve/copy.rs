//! Implements the entry points for copies. Each of them converts its arguments to one [`Transfer`]
//! in one stream.

use std::ffi::c_void;

use margay::{Context, Direction, Stream, Transfer};

use super::pointer::is_synchronous;
use crate::checking;
use crate::convert::In;
use crate::guard::Call;
use crate::handles::{arrays, stream};
use crate::result::{CuResult, Served};
use crate::types::{CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUarray, CUstream};

/// Values of `CUmemorytype`.
const HOST: u32 = 1;
const DEVICE: u32 = 2;
const ARRAY: u32 = 3;
const UNIFIED: u32 = 4;

/// Whether the call is synchronous. A synchronous copy between device memory can return before it is complete
/// ([`Stream::copy`]).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    Yes,
    No,
}

pub(super) fn run(stream: &Stream, transfer: Transfer, wait: Wait) -> Served {
    if transfer.width == 0 || transfer.height == 0 || transfer.depth == 0 {
        return Ok(());
    }
    checking::copy(&transfer)?;
    if transfer.dst == 0 || transfer.src == 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: the caller of the entry point guarantees that host memory is valid until the call returns, or, if the
    // call does not wait, until the copy is complete.
    unsafe {
        match wait {
            Wait::Yes => stream.copy(transfer)?,
            Wait::No => stream.copy_async(transfer)?,
        }
    }
    Ok(())
}

/// Runs a synchronous copy ([`Wait::Yes`]) in the default stream of the entry point. If the program has set
/// `CU_POINTER_ATTRIBUTE_SYNC_MEMOPS` for the source or the destination, waits until the copy is complete.
pub(super) fn run_here(call: &Call, transfer: Transfer) -> Served {
    let stream = stream(CUstream(0), call)?;
    run(&stream, transfer, Wait::Yes)?;
    if [transfer.src, transfer.dst].into_iter().any(is_synchronous) {
        stream.synchronize()?;
    }
    Ok(())
}

fn linear(dst: u64, src: u64, bytes: usize, direction: Direction) -> Transfer {
    Transfer::linear(dst, src, bytes as u64, direction)
}

pub(crate) fn memcpy(call: &Call, dst: u64, src: u64, bytes: usize) -> Served {
    run_here(call, linear(dst, src, bytes, Direction::Unified))
}

pub(crate) fn memcpy_peer(
    call: &Call,
    dst: u64,
    dst_context: Context,
    src: u64,
    src_context: Context,
    bytes: usize,
) -> Served {
    let transfer = linear(dst, src, bytes, Direction::DeviceToDevice);
    between(call, [dst_context, src_context], || {
        run_here(call, transfer)
    })
}

/// Runs a copy in order with all work of up to three contexts: the current context and the contexts of source and
/// destination (`cuMemcpyPeer`).
pub(super) fn between(call: &Call, sides: [Context; 2], copy: impl FnOnce() -> Served) -> Served {
    let stream = stream(CUstream(0), call)?;
    let mut contexts = vec![stream.context().clone()];
    for side in sides {
        if contexts.iter().all(|context| context.id() != side.id()) {
            contexts.push(side);
        }
    }
    stream.in_order_with(&contexts, copy)
}

pub(crate) fn memcpy_htod(call: &Call, dst: u64, src: *const c_void, bytes: usize) -> Served {
    run_here(
        call,
        linear(dst, src as u64, bytes, Direction::HostToDevice),
    )
}

pub(crate) fn memcpy_dtoh(call: &Call, dst: *mut c_void, src: u64, bytes: usize) -> Served {
    run_here(
        call,
        linear(dst as u64, src, bytes, Direction::DeviceToHost),
    )
}

pub(crate) fn memcpy_dtod(call: &Call, dst: u64, src: u64, bytes: usize) -> Served {
    run_here(call, linear(dst, src, bytes, Direction::DeviceToDevice))
}

pub(crate) fn memcpy_async(_: &Call, dst: u64, src: u64, bytes: usize, stream: Stream) -> Served {
    run(
        &stream,
        linear(dst, src, bytes, Direction::Unified),
        Wait::No,
    )
}

pub(crate) fn memcpy_peer_async(
    _: &Call,
    dst: u64,
    _dst_context: Context,
    src: u64,
    _src_context: Context,
    bytes: usize,
    stream: Stream,
) -> Served {
    let transfer = linear(dst, src, bytes, Direction::DeviceToDevice);
    run(&stream, transfer, Wait::No)
}

pub(crate) fn memcpy_htod_async(
    _: &Call,
    dst: u64,
    src: *const c_void,
    bytes: usize,
    stream: Stream,
) -> Served {
    let transfer = linear(dst, src as u64, bytes, Direction::HostToDevice);
    run(&stream, transfer, Wait::No)
}

pub(crate) fn memcpy_dtoh_async(
    _: &Call,
    dst: *mut c_void,
    src: u64,
    bytes: usize,
    stream: Stream,
) -> Served {
    let transfer = linear(dst as u64, src, bytes, Direction::DeviceToHost);
    run(&stream, transfer, Wait::No)
}

pub(crate) fn memcpy_dtod_async(
    _: &Call,
    dst: u64,
    src: u64,
    bytes: usize,
    stream: Stream,
) -> Served {
    let transfer = linear(dst, src, bytes, Direction::DeviceToDevice);
    run(&stream, transfer, Wait::No)
}

/// The source or the destination of a 2D or 3D copy, as the parameters of the copy describe it.
struct Side {
    kind: u32,
    host: u64,
    device: u64,
    array: CUarray,
    x: usize,
    y: usize,
    z: usize,
    pitch: usize,
    /// The number of rows in a slice. 0 means `y` plus the number of copied rows.
    rows: usize,
}

/// Source or destination of a copy: the address of the first byte, the row pitch and the slice
/// pitch in bytes, and whether the memory is host memory (`None` for unified addresses).
struct CopySide {
    start: u64,
    pitch: u64,
    slice: u64,
    on_host: Option<bool>,
}

/// Returns the address of the first byte, the row pitch and the slice pitch of a box in an array.
/// The offset and the extent of the box are given in bytes, rows and slices. Returns `None` if the
/// handle is invalid, or if the box is not inside the array or contains partial texels.
pub(super) fn array_box(
    array: CUarray,
    [x, y, z]: [usize; 3],
    [width, height, depth]: [usize; 3],
) -> Option<(u64, u64, u64)> {
    let object = arrays().get(array.0)?;
    object.array.check().ok()?;
    let (base, [row, rows, slices]) = object.array.place();
    let texel = object.array.texel_bytes() as usize;
    let fits = |start: usize, count: usize, size: u64| {
        let end = start.checked_add(count);
        end.is_some_and(|end| end as u64 <= size)
    };
    let inside = fits(x, width, row)
        && fits(y, height, rows)
        && fits(z, depth, slices)
        && x.is_multiple_of(texel)
        && width.is_multiple_of(texel);
    let slice = row * rows;
    inside.then(|| {
        let offset = z as u64 * slice + y as u64 * row + x as u64;
        (base.address() + offset, row, slice)
    })
}

impl Side {
    /// Returns the position of the box in the array of this side; `None` if [`array_box`] returns
    /// `None`.
    fn place_in_array(&self, extent: [usize; 3]) -> Option<CopySide> {
        let (start, pitch, slice) = array_box(self.array, [self.x, self.y, self.z], extent)?;
        Some(CopySide {
            start,
            pitch,
            slice,
            on_host: Some(false),
        })
    }

    /// Returns the position of the side in memory, or `None` if pitch, rows and offsets are inconsistent or overflow.
    fn place(&self, width: usize, height: usize) -> Option<CopySide> {
        let row_bytes = width.checked_add(self.x)?;
        let pitch = match self.pitch {
            0 => row_bytes,
            pitch => pitch,
        };
        let row_count = height.checked_add(self.y)?;
        let rows = match self.rows {
            0 => row_count,
            rows => rows,
        };
        if pitch < row_bytes || rows < row_count {
            return None;
        }
        let slice = pitch.checked_mul(rows)?;
        let offset = slice
            .checked_mul(self.z)?
            .checked_add(pitch.checked_mul(self.y)?)?
            .checked_add(self.x)?;
        let (base, on_host) = match self.kind {
            HOST => (self.host, Some(true)),
            DEVICE => (self.device, Some(false)),
            _ => (self.device, None),
        };
        Some(CopySide {
            start: if base == 0 {
                0
            } else {
                base.checked_add(offset as u64)?
            },
            pitch: pitch as u64,
            slice: slice as u64,
            on_host,
        })
    }
}

fn boxed(src: &Side, dst: &Side, extent: [usize; 3]) -> Result<Transfer, CuResult> {
    let kinds = HOST..=UNIFIED;
    if !kinds.contains(&src.kind) || !kinds.contains(&dst.kind) {
        return Err(CuResult::INVALID_VALUE);
    }
    let [width, height, depth] = extent;
    let place = |side: &Side| {
        let place = match side.kind {
            ARRAY => side.place_in_array(extent),
            _ => side.place(width, height),
        };
        place.ok_or(CuResult::INVALID_VALUE)
    };
    let (from, to) = (place(src)?, place(dst)?);
    let direction = match (from.on_host, to.on_host) {
        (Some(true), Some(true)) => Direction::HostToHost,
        (Some(true), Some(false)) => Direction::HostToDevice,
        (Some(false), Some(true)) => Direction::DeviceToHost,
        (Some(false), Some(false)) => Direction::DeviceToDevice,
        _ => Direction::Unified,
    };
    Ok(Transfer {
        dst: to.start,
        src: from.start,
        direction,
        width: width as u64,
        height: height as u64,
        depth: depth as u64,
        dst_pitch: to.pitch,
        dst_slice: to.slice,
        src_pitch: from.pitch,
        src_slice: from.slice,
    })
}

fn rectangle(copy: &CUDA_MEMCPY2D) -> Result<Transfer, CuResult> {
    let src = Side {
        kind: copy.src_memory_type,
        host: copy.src_host as u64,
        device: copy.src_device,
        array: copy.src_array,
        x: copy.src_x_in_bytes,
        y: copy.src_y,
        z: 0,
        pitch: copy.src_pitch,
        rows: 0,
    };
    let dst = Side {
        kind: copy.dst_memory_type,
        host: copy.dst_host as u64,
        device: copy.dst_device,
        array: copy.dst_array,
        x: copy.dst_x_in_bytes,
        y: copy.dst_y,
        z: 0,
        pitch: copy.dst_pitch,
        rows: 0,
    };
    boxed(&src, &dst, [copy.width_in_bytes, copy.height, 1])
}

/// Converts the parameters of a 3D copy to a [`Transfer`].
///
/// # Errors
/// Returns `INVALID_VALUE` for invalid parameters.
pub(crate) fn cuboid(copy: &CUDA_MEMCPY3D) -> Result<Transfer, CuResult> {
    if copy.src_lod != 0 || copy.dst_lod != 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    let src = Side {
        kind: copy.src_memory_type,
        host: copy.src_host as u64,
        device: copy.src_device,
        array: copy.src_array,
        x: copy.src_x_in_bytes,
        y: copy.src_y,
        z: copy.src_z,
        pitch: copy.src_pitch,
        rows: copy.src_height,
    };
    let dst = Side {
        kind: copy.dst_memory_type,
        host: copy.dst_host as u64,
        device: copy.dst_device,
        array: copy.dst_array,
        x: copy.dst_x_in_bytes,
        y: copy.dst_y,
        z: copy.dst_z,
        pitch: copy.dst_pitch,
        rows: copy.dst_height,
    };
    boxed(&src, &dst, [copy.width_in_bytes, copy.height, copy.depth])
}

pub(crate) fn memcpy_2d(call: &Call, copy: In<CUDA_MEMCPY2D>) -> Served {
    run_here(call, rectangle(&copy.0)?)
}

/// `cuMemcpy2DUnaligned`, with which the runtime library performs `cudaMemcpy2D`. The pitch of a copy of one row has no
/// effect: programs pass a smaller one than the row (CUDALibrarySamples, `cuSOLVER/gesv`).
pub(crate) fn memcpy_2d_unaligned(call: &Call, copy: In<CUDA_MEMCPY2D>) -> Served {
    let mut copy = copy.0;
    if copy.height <= 1 && copy.src_y == 0 && copy.dst_y == 0 {
        (copy.src_pitch, copy.dst_pitch) = (0, 0);
    }
    run_here(call, rectangle(&copy)?)
}

pub(crate) fn memcpy_2d_async(_: &Call, copy: In<CUDA_MEMCPY2D>, stream: Stream) -> Served {
    run(&stream, rectangle(&copy.0)?, Wait::No)
}

pub(crate) fn memcpy_3d(call: &Call, copy: In<CUDA_MEMCPY3D>) -> Served {
    run_here(call, cuboid(&copy.0)?)
}

pub(crate) fn memcpy_3d_async(_: &Call, copy: In<CUDA_MEMCPY3D>, stream: Stream) -> Served {
    run(&stream, cuboid(&copy.0)?, Wait::No)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(kind: u32, pitch: usize, rows: usize) -> Side {
        Side {
            kind,
            host: 0x1000,
            device: 0x9000,
            array: CUarray(0),
            x: 4,
            y: 2,
            z: 1,
            pitch,
            rows,
        }
    }

    #[test]
    fn a_box_starts_at_its_offsets() {
        let transfer = boxed(&side(HOST, 32, 8), &side(DEVICE, 64, 4), [16, 2, 3]);
        let transfer = transfer.unwrap_or_else(|code| panic!("{code:?}"));
        assert_eq!(transfer.src, 0x1000 + 32 * 8 + 2 * 32 + 4);
        assert_eq!(transfer.dst, 0x9000 + 64 * 4 + 2 * 64 + 4);
        assert_eq!(transfer.direction, Direction::HostToDevice);
        assert_eq!((transfer.src_slice, transfer.dst_slice), (256, 256));
    }

    #[test]
    fn missing_pitches_mean_close_packing() {
        let transfer = boxed(&side(HOST, 0, 0), &side(UNIFIED, 0, 0), [16, 2, 1]);
        let transfer = transfer.unwrap_or_else(|code| panic!("{code:?}"));
        assert_eq!(transfer.src_pitch, 20);
        assert_eq!(transfer.src_slice, 20 * 4);
        assert_eq!(transfer.direction, Direction::Unified);
    }

    #[test]
    fn impossible_boxes_are_invalid() {
        let code = |src: Side, extent| boxed(&src, &side(DEVICE, 0, 0), extent).err();
        let invalid = Some(CuResult::INVALID_VALUE);
        assert_eq!(
            code(side(HOST, 8, 0), [16, 1, 1]),
            invalid,
            "pitch below width"
        );
        assert_eq!(
            code(side(HOST, 32, 3), [16, 2, 1]),
            invalid,
            "slice below height"
        );
        assert_eq!(
            code(side(HOST, 0, 0), [usize::MAX, 2, 1]),
            invalid,
            "overflow"
        );
        assert_eq!(
            code(side(HOST, usize::MAX, 0), [1, 2, 1]),
            invalid,
            "overflow"
        );
        assert_eq!(code(side(0, 0, 0), [1, 1, 1]), invalid, "no such kind");
        let array = code(side(ARRAY, 0, 0), [1, 1, 1]);
        assert_eq!(array, invalid, "no array");
    }
}
