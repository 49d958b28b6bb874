//! Implements the copies between arrays and memory, and between two arrays, whose parameters give
//! positions in arrays as byte offsets.

use std::ffi::{c_uint, c_void};
use std::sync::Arc;

use margay::{Direction, Stream, Transfer};

use super::copy::{Wait, run, run_here};
use crate::guard::Call;
use crate::handles::ArrayObject;
use crate::result::{CuResult, Served};

/// Returns the address of the range of `bytes` bytes that begins at the byte offset `offset` of an
/// array, or an error if the array does not contain the range. The rows of an array are contiguous.
fn bytes_of(array: &ArrayObject, offset: usize, bytes: usize) -> Result<u64, CuResult> {
    array.array.check()?;
    let (base, [row, rows, slices]) = array.array.place();
    let end = (offset as u64).checked_add(bytes as u64);
    match end {
        Some(end) if end <= row * rows * slices => Ok(base.address() + offset as u64),
        _ => Err(CuResult::INVALID_VALUE),
    }
}

fn linear(dst: u64, src: u64, bytes: usize, direction: Direction) -> Transfer {
    Transfer::linear(dst, src, bytes as u64, direction)
}

pub(crate) fn memcpy_dtoa(
    call: &Call,
    dst: Arc<ArrayObject>,
    offset: usize,
    src: u64,
    bytes: usize,
) -> Served {
    let dst = bytes_of(&dst, offset, bytes)?;
    run_here(call, linear(dst, src, bytes, Direction::DeviceToDevice))
}

pub(crate) fn memcpy_atod(
    call: &Call,
    dst: u64,
    src: Arc<ArrayObject>,
    offset: usize,
    bytes: usize,
) -> Served {
    let src = bytes_of(&src, offset, bytes)?;
    run_here(call, linear(dst, src, bytes, Direction::DeviceToDevice))
}

fn htoa(
    dst: &ArrayObject,
    offset: usize,
    src: *const c_void,
    bytes: usize,
) -> Result<Transfer, CuResult> {
    let dst = bytes_of(dst, offset, bytes)?;
    Ok(linear(dst, src as u64, bytes, Direction::HostToDevice))
}

fn atoh(
    dst: *mut c_void,
    src: &ArrayObject,
    offset: usize,
    bytes: usize,
) -> Result<Transfer, CuResult> {
    let src = bytes_of(src, offset, bytes)?;
    Ok(linear(dst as u64, src, bytes, Direction::DeviceToHost))
}

pub(crate) fn memcpy_htoa(
    call: &Call,
    dst: Arc<ArrayObject>,
    offset: usize,
    src: *const c_void,
    bytes: usize,
) -> Served {
    run_here(call, htoa(&dst, offset, src, bytes)?)
}

pub(crate) fn memcpy_htoa_v1(
    call: &Call,
    dst: Arc<ArrayObject>,
    offset: c_uint,
    src: *const c_void,
    bytes: c_uint,
) -> Served {
    run_here(call, htoa(&dst, offset as usize, src, bytes as usize)?)
}

pub(crate) fn memcpy_htoa_async(
    _: &Call,
    dst: Arc<ArrayObject>,
    offset: usize,
    src: *const c_void,
    bytes: usize,
    stream: Stream,
) -> Served {
    run(&stream, htoa(&dst, offset, src, bytes)?, Wait::No)
}

pub(crate) fn memcpy_htoa_async_v1(
    _: &Call,
    dst: Arc<ArrayObject>,
    offset: c_uint,
    src: *const c_void,
    bytes: c_uint,
    stream: Stream,
) -> Served {
    let transfer = htoa(&dst, offset as usize, src, bytes as usize)?;
    run(&stream, transfer, Wait::No)
}

pub(crate) fn memcpy_atoh(
    call: &Call,
    dst: *mut c_void,
    src: Arc<ArrayObject>,
    offset: usize,
    bytes: usize,
) -> Served {
    run_here(call, atoh(dst, &src, offset, bytes)?)
}

pub(crate) fn memcpy_atoh_v1(
    call: &Call,
    dst: *mut c_void,
    src: Arc<ArrayObject>,
    offset: c_uint,
    bytes: c_uint,
) -> Served {
    run_here(call, atoh(dst, &src, offset as usize, bytes as usize)?)
}

pub(crate) fn memcpy_atoh_async(
    _: &Call,
    dst: *mut c_void,
    src: Arc<ArrayObject>,
    offset: usize,
    bytes: usize,
    stream: Stream,
) -> Served {
    run(&stream, atoh(dst, &src, offset, bytes)?, Wait::No)
}

pub(crate) fn memcpy_atoh_async_v1(
    _: &Call,
    dst: *mut c_void,
    src: Arc<ArrayObject>,
    offset: c_uint,
    bytes: c_uint,
    stream: Stream,
) -> Served {
    let transfer = atoh(dst, &src, offset as usize, bytes as usize)?;
    run(&stream, transfer, Wait::No)
}

pub(crate) fn memcpy_atoa(
    call: &Call,
    dst: Arc<ArrayObject>,
    dst_offset: usize,
    src: Arc<ArrayObject>,
    src_offset: usize,
    bytes: usize,
) -> Served {
    let to = bytes_of(&dst, dst_offset, bytes)?;
    let from = bytes_of(&src, src_offset, bytes)?;
    run_here(call, linear(to, from, bytes, Direction::DeviceToDevice))
}

pub(crate) fn memcpy_atoa_v1(
    call: &Call,
    dst: Arc<ArrayObject>,
    dst_offset: c_uint,
    src: Arc<ArrayObject>,
    src_offset: c_uint,
    bytes: c_uint,
) -> Served {
    let (to, from) = (dst_offset as usize, src_offset as usize);
    memcpy_atoa(call, dst, to, src, from, bytes as usize)
}
