//! Implements batched copies, copies with attributes, and 3D copies between contexts.
//!
//! The copies of a batch may run in any order. This module submits them in the order of the list. Location hints have
//! no effect, because all memory is memory of the host. If the attributes of a copy declare that its source is valid
//! only during the call, the source is read before the call returns; memory that the runtime manages is then read out
//! of stream order.

use std::ffi::{c_uint, c_ulonglong};

use margay::{Context, Direction, Runtime, Stream, StreamKind, Transfer};

use super::copy::{array_box, between, memcpy_3d, memcpy_3d_async};
use super::managed::groups;
use crate::convert::{In, OptOut, read_array};
use crate::guard::Call;
use crate::handles::{arrays, contexts, stream};
use crate::result::{CuResult, Served};
use crate::types::{
    CUDA_MEMCPY3D, CUDA_MEMCPY3D_BATCH_OP, CUDA_MEMCPY3D_PEER, CUarray, CUcontext,
    CUmemcpy3DOperand, CUmemcpyAttributes, CUstream,
};

/// The valid values of `CUmemcpySrcAccessOrder`.
const ORDERS: std::ops::RangeInclusive<c_uint> = 1..=3;
const DURING_CALL: c_uint = 2;
/// `CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE`.
const COPY_FLAGS: c_uint = 1;
/// `CU_MEMCPY_OPERAND_TYPE_POINTER` and `CU_MEMCPY_OPERAND_TYPE_ARRAY`.
const POINTER: c_uint = 1;
const ARRAY: c_uint = 2;
/// `CU_MEMORYTYPE_HOST`.
const HOST: c_uint = 1;
/// `CU_MEMORYTYPE_ARRAY`.
const ARRAY_MEMORY: c_uint = 3;

fn check_attributes(order: c_uint, flags: c_uint) -> Served {
    match ORDERS.contains(&order) && flags & !COPY_FLAGS == 0 {
        true => Ok(()),
        false => Err(CuResult::INVALID_VALUE),
    }
}

/// Returns an error if `stream` is the legacy default stream. Batched copies and copies with
/// attributes are possible in every other stream.
fn check_stream(stream: &Stream) -> Served {
    match stream.kind() {
        StreamKind::Legacy => Err(CuResult::INVALID_VALUE),
        _ => Ok(()),
    }
}

/// Submits a copy. `order` is a `CUmemcpySrcAccessOrder`, which determines when the source is read.
fn submit(stream: &Stream, transfer: Transfer, order: c_uint) -> Served {
    if transfer.dst == 0 || transfer.src == 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    let ours = Runtime::global()?.pointer_info(transfer.src).is_some();
    // SAFETY: the caller of the entry point guarantees that host memory stays valid until the copy is complete, or, for
    // a source that is read during the call, until the call returns.
    unsafe {
        match order == DURING_CALL && ours {
            true => stream.copy_async_staged(transfer),
            false => stream.copy_async(transfer),
        }
    }?;
    Ok(())
}

/// The copies of a batch (destination, source, size), and the source access order of each copy.
struct Batch {
    copies: Vec<(u64, u64, usize)>,
    orders: Vec<c_uint>,
}

impl Batch {
    /// # Safety
    /// Each array must be null or contain as many elements as its count states.
    unsafe fn read(
        dsts: *mut u64,
        srcs: *mut u64,
        sizes: *mut usize,
        count: usize,
        attributes: *mut CUmemcpyAttributes,
        firsts: *mut usize,
        attribute_count: usize,
    ) -> Result<Batch, CuResult> {
        // SAFETY: the caller guarantees that the arrays are valid.
        let (dsts, srcs, sizes, attributes, firsts) = unsafe {
            (
                read_array(dsts.cast_const(), count)?,
                read_array(srcs.cast_const(), count)?,
                read_array(sizes.cast_const(), count)?,
                read_array(attributes.cast_const(), attribute_count)?,
                read_array(firsts.cast_const(), attribute_count)?,
            )
        };
        if count == 0 {
            return Err(CuResult::INVALID_VALUE);
        }
        for entry in &attributes {
            check_attributes(entry.src_access_order, entry.flags)?;
        }
        let orders = groups(&firsts, count)?;
        let orders = orders.into_iter().map(|g| attributes[g].src_access_order);
        let copies = dsts.into_iter().zip(srcs).zip(sizes);
        Ok(Batch {
            copies: copies.map(|((dst, src), size)| (dst, src, size)).collect(),
            orders: orders.collect(),
        })
    }

    /// Submits all copies of the batch. If a copy fails, the error contains its index in the batch.
    fn submit(&self, stream: &Stream) -> Result<(), (usize, CuResult)> {
        let all = self.copies.iter().zip(&self.orders).enumerate();
        for (index, (&(dst, src, size), &order)) in all {
            let transfer = Transfer::linear(dst, src, size as u64, Direction::Unified);
            let done = match size {
                0 => Err(CuResult::INVALID_VALUE),
                _ => submit(stream, transfer, order),
            };
            done.map_err(|code| (index, code))?;
        }
        Ok(())
    }
}

#[expect(clippy::too_many_arguments, reason = "the interface's own list")]
pub(crate) fn memcpy_batch_async_v2(
    _: &Call,
    dsts: *mut u64,
    srcs: *mut u64,
    sizes: *mut usize,
    count: usize,
    attributes: *mut CUmemcpyAttributes,
    firsts: *mut usize,
    attribute_count: usize,
    stream: Stream,
) -> Served {
    check_stream(&stream)?;
    // SAFETY: the caller guarantees that the arrays are valid.
    let batch = unsafe {
        Batch::read(
            dsts,
            srcs,
            sizes,
            count,
            attributes,
            firsts,
            attribute_count,
        )
    }?;
    batch.submit(&stream).map_err(|(_, code)| code)
}

/// Implements the first version of `cuMemcpyBatchAsync`, which has the output `fail_idx`. This output receives the
/// index of the failed copy, or `usize::MAX` if no particular copy causes the failure.
#[expect(clippy::too_many_arguments, reason = "the interface's own list")]
pub(crate) fn memcpy_batch_async_v1(
    _: &Call,
    dsts: *mut u64,
    srcs: *mut u64,
    sizes: *mut usize,
    count: usize,
    attributes: *mut CUmemcpyAttributes,
    firsts: *mut usize,
    attribute_count: usize,
    failed: OptOut<usize>,
    stream: Stream,
) -> Served {
    failed.set(usize::MAX);
    check_stream(&stream)?;
    // SAFETY: the caller guarantees that the arrays are valid.
    let batch = unsafe {
        Batch::read(
            dsts,
            srcs,
            sizes,
            count,
            attributes,
            firsts,
            attribute_count,
        )
    }?;
    batch.submit(&stream).map_err(|(index, code)| {
        failed.set(index);
        code
    })
}

pub(crate) fn memcpy_with_attributes_async(
    _: &Call,
    dst: u64,
    src: u64,
    size: usize,
    attributes: *mut CUmemcpyAttributes,
    stream: Stream,
) -> Served {
    check_stream(&stream)?;
    if attributes.is_null() || size == 0 {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: the pointer is not null; the caller guarantees that it is valid.
    let attributes = unsafe { attributes.read_unaligned() };
    let order = attributes.src_access_order;
    check_attributes(order, attributes.flags)?;
    let transfer = Transfer::linear(dst, src, size as u64, Direction::Unified);
    submit(&stream, transfer, order)
}

/// Returns the size in bytes of the elements in which the extent of the copy is given: the texel
/// size for copies from or to arrays, otherwise 1.
fn element(op: &CUDA_MEMCPY3D_BATCH_OP) -> Result<usize, CuResult> {
    let mut found = None;
    for side in [&op.src, &op.dst] {
        if side.kind == ARRAY {
            let object = arrays().get(side.words[0] as usize);
            let bytes = object.ok_or(CuResult::INVALID_VALUE)?.array.texel_bytes();
            if found.is_some_and(|known| known != bytes) {
                return Err(CuResult::INVALID_VALUE);
            }
            found = Some(bytes);
        }
    }
    Ok(found.unwrap_or(1) as usize)
}

/// Returns the address of the first byte, the row pitch and the slice pitch of one side of a 3D
/// copy. `extent` is given in bytes, rows and slices.
fn operand(
    side: &CUmemcpy3DOperand,
    extent: [usize; 3],
    element: usize,
) -> Result<(u64, u64, u64), CuResult> {
    let words = side.words;
    let element_bytes = element as u64;
    match side.kind {
        POINTER => {}
        ARRAY => {
            let [array, x, y, z] = words.map(|word| word as usize);
            let x = x.checked_mul(element).ok_or(CuResult::INVALID_VALUE)?;
            let found = array_box(CUarray(array), [x, y, z], extent);
            return found.ok_or(CuResult::INVALID_VALUE);
        }
        _ => return Err(CuResult::INVALID_VALUE),
    }
    let or = |given: u64, least: usize| if given == 0 { least as u64 } else { given };
    let length = words[1].checked_mul(element_bytes);
    let length = length.ok_or(CuResult::INVALID_VALUE)?;
    let (pitch, rows) = (or(length, extent[0]), or(words[2], extent[1]));
    let fits = pitch >= extent[0] as u64 && rows >= extent[1] as u64;
    let slice = pitch.checked_mul(rows).filter(|_| fits);
    Ok((words[0], pitch, slice.ok_or(CuResult::INVALID_VALUE)?))
}

fn submit_box(stream: &Stream, op: &CUDA_MEMCPY3D_BATCH_OP) -> Served {
    check_attributes(op.src_access_order, op.flags)?;
    if op.extent.contains(&0) {
        return Err(CuResult::INVALID_VALUE);
    }
    let element = element(op)?;
    let [width, height, depth] = op.extent;
    let width = width.checked_mul(element).ok_or(CuResult::INVALID_VALUE)?;
    let extent = [width, height, depth];
    let (src, src_pitch, src_slice) = operand(&op.src, extent, element)?;
    let (dst, dst_pitch, dst_slice) = operand(&op.dst, extent, element)?;
    let [width, height, depth] = extent.map(|extent| extent as u64);
    let transfer = Transfer {
        dst,
        src,
        direction: Direction::Unified,
        width,
        height,
        depth,
        dst_pitch,
        dst_slice,
        src_pitch,
        src_slice,
    };
    submit(stream, transfer, op.src_access_order)
}

/// Submits 3D copies. The error contains the index of the copy that fails, or `usize::MAX` if no
/// particular copy causes the failure.
fn submit_boxes(
    count: usize,
    list: *mut CUDA_MEMCPY3D_BATCH_OP,
    flags: c_ulonglong,
    stream: &Stream,
) -> Result<(), (usize, CuResult)> {
    let whole = |code| (usize::MAX, code);
    check_stream(stream).map_err(whole)?;
    if flags != 0 || count == 0 {
        return Err(whole(CuResult::INVALID_VALUE));
    }
    // SAFETY: the caller guarantees that the array is valid.
    let list = unsafe { read_array(list.cast_const(), count) }.map_err(whole)?;
    for (index, op) in list.iter().enumerate() {
        submit_box(stream, op).map_err(|code| (index, code))?;
    }
    Ok(())
}

pub(crate) fn memcpy_3d_batch_async_v2(
    _: &Call,
    count: usize,
    list: *mut CUDA_MEMCPY3D_BATCH_OP,
    flags: c_ulonglong,
    stream: Stream,
) -> Served {
    submit_boxes(count, list, flags, &stream).map_err(|(_, code)| code)
}

pub(crate) fn memcpy_3d_batch_async_v1(
    _: &Call,
    count: usize,
    list: *mut CUDA_MEMCPY3D_BATCH_OP,
    failed: OptOut<usize>,
    flags: c_ulonglong,
    stream: Stream,
) -> Served {
    submit_boxes(count, list, flags, &stream).map_err(|(index, code)| {
        failed.set(index);
        code
    })
}

pub(crate) fn memcpy_3d_with_attributes_async(
    _: &Call,
    op: *mut CUDA_MEMCPY3D_BATCH_OP,
    flags: c_ulonglong,
    stream: Stream,
) -> Served {
    submit_boxes(1, op, flags, &stream).map_err(|(_, code)| code)
}

/// Converts the parameters of a 3D copy between contexts to those of a 3D copy that names no
/// contexts. For a side in device or unified memory, checks that its context exists.
fn of_peers(copy: &CUDA_MEMCPY3D_PEER) -> Result<CUDA_MEMCPY3D, CuResult> {
    let sides = [
        (copy.src_memory_type, copy.src_context),
        (copy.dst_memory_type, copy.dst_context),
    ];
    for (kind, context) in sides {
        if !matches!(kind, HOST | ARRAY_MEMORY) {
            known(context)?;
        }
    }
    Ok(CUDA_MEMCPY3D {
        src_x_in_bytes: copy.src_x_in_bytes,
        src_y: copy.src_y,
        src_z: copy.src_z,
        src_lod: copy.src_lod,
        src_memory_type: copy.src_memory_type,
        src_host: copy.src_host,
        src_device: copy.src_device,
        src_array: copy.src_array,
        reserved0: std::ptr::null_mut(),
        src_pitch: copy.src_pitch,
        src_height: copy.src_height,
        dst_x_in_bytes: copy.dst_x_in_bytes,
        dst_y: copy.dst_y,
        dst_z: copy.dst_z,
        dst_lod: copy.dst_lod,
        dst_memory_type: copy.dst_memory_type,
        dst_host: copy.dst_host,
        dst_device: copy.dst_device,
        dst_array: copy.dst_array,
        reserved1: std::ptr::null_mut(),
        dst_pitch: copy.dst_pitch,
        dst_height: copy.dst_height,
        width_in_bytes: copy.width_in_bytes,
        height: copy.height,
        depth: copy.depth,
    })
}

fn known(context: CUcontext) -> Result<Context, CuResult> {
    let found = contexts().get(context.0);
    found
        .map(|object| object.context)
        .ok_or(CuResult::INVALID_CONTEXT)
}

pub(crate) fn memcpy_3d_peer(call: &Call, copy: In<CUDA_MEMCPY3D_PEER>) -> Served {
    let plain = of_peers(&copy.0)?;
    // A side in host memory or in an array need not name a context. If it names none, the current context is used for
    // this side.
    let here = stream(CUstream(0), call)?.context().clone();
    let side = |context: CUcontext| known(context).unwrap_or_else(|_| here.clone());
    let sides = [side(copy.0.dst_context), side(copy.0.src_context)];
    between(call, sides, || memcpy_3d(call, In(plain)))
}

pub(crate) fn memcpy_3d_peer_async(
    call: &Call,
    copy: In<CUDA_MEMCPY3D_PEER>,
    stream: Stream,
) -> Served {
    memcpy_3d_async(call, In(of_peers(&copy.0)?), stream)
}
