//! Stream memory operations.

use std::ffi::c_uint;
use std::sync::Arc;

use margay::Stream;
use margay::memop::{Comparison, MemOp, Reduction, Width};

use crate::convert::read_array;
use crate::guard::Call;
use crate::result::{CuResult, Served};
use crate::types::CUstreamBatchMemOpParams;

/// `CU_STREAM_WAIT_VALUE_FLUSH`. It has no effect, because remote writes are visible immediately.
const FLUSH: c_uint = 1 << 30;
/// `CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER`, which `cuStreamWriteValue32_v2` and `cuStreamWriteValue64_v2` do not
/// accept.
const NO_BARRIER: c_uint = 1;
/// The maximum number of operations in a batch.
const MOST_OPS: c_uint = 256;

/// Values of `CUstreamBatchMemOpType`.
const WAIT_32: c_uint = 1;
const WRITE_32: c_uint = 2;
const FLUSH_REMOTE_WRITES: c_uint = 3;
const WAIT_64: c_uint = 4;
const WRITE_64: c_uint = 5;
const BARRIER: c_uint = 6;
const ATOMIC_REDUCTION: c_uint = 8;
/// The largest number of a memory barrier type. Type 0 is the system barrier and type 1 is the
/// device barrier.
const LAST_BARRIER: c_uint = 1;
/// The value of `CUatomicOperation` for addition; the constants below are its values for other
/// reductions.
const OPERATION_ADD: c_uint = 0;
const OPERATION_AND: c_uint = 5;
const OPERATION_OR: c_uint = 6;
/// Values of `CUstreamAtomicReductionDataType`.
const UNSIGNED_32: c_uint = 2 | 4 | 8;
const UNSIGNED_64: c_uint = 2 | 4 | 16;

/// The operations as the caller passed them. A query of a node's parameters returns these operations.
pub(crate) struct BatchOrigin(pub(crate) Vec<CUstreamBatchMemOpParams>);

fn wait(address: u64, value: u64, width: Width, flags: c_uint) -> Result<MemOp, CuResult> {
    let until = match flags & !FLUSH {
        0 => Comparison::GreaterOrEqual,
        1 => Comparison::Equal,
        2 => Comparison::And,
        3 => Comparison::Nor,
        _ => return Err(CuResult::INVALID_VALUE),
    };
    Ok(MemOp::Wait {
        address,
        value,
        width,
        until,
    })
}

fn write(
    address: u64,
    value: u64,
    width: Width,
    flags: c_uint,
    allowed: c_uint,
) -> Result<MemOp, CuResult> {
    match flags & !allowed {
        0 => Ok(MemOp::Write {
            address,
            value,
            width,
        }),
        _ => Err(CuResult::INVALID_VALUE),
    }
}

/// Returns the flags that `call`, an entry point that writes a value, accepts; they depend on its
/// version.
fn write_flags(call: &Call) -> c_uint {
    match call.name.contains("_v2") {
        true => 0,
        false => NO_BARRIER,
    }
}

fn submit(stream: &Stream, op: MemOp, given: CUstreamBatchMemOpParams) -> Served {
    let origin = || Some(Arc::new(BatchOrigin(vec![given])) as _);
    Ok(stream.memory_ops_of(&[op], origin)?)
}

/// Returns a stream memory operation as the six words that a batch contains for it.
fn words(kind: c_uint, address: u64, value: u64, flags: c_uint) -> CUstreamBatchMemOpParams {
    CUstreamBatchMemOpParams {
        words: [u64::from(kind), address, value, u64::from(flags), 0, 0],
    }
}

pub(crate) fn stream_wait_value_32(
    _: &Call,
    stream: Stream,
    address: u64,
    value: u32,
    flags: c_uint,
) -> Served {
    let value = u64::from(value);
    let op = wait(address, value, Width::W32, flags)?;
    submit(&stream, op, words(WAIT_32, address, value, flags))
}

pub(crate) fn stream_wait_value_64(
    _: &Call,
    stream: Stream,
    address: u64,
    value: u64,
    flags: c_uint,
) -> Served {
    let op = wait(address, value, Width::W64, flags)?;
    submit(&stream, op, words(WAIT_64, address, value, flags))
}

pub(crate) fn stream_write_value_32(
    call: &Call,
    stream: Stream,
    address: u64,
    value: u32,
    flags: c_uint,
) -> Served {
    let value = u64::from(value);
    let op = write(address, value, Width::W32, flags, write_flags(call))?;
    submit(&stream, op, words(WRITE_32, address, value, flags))
}

pub(crate) fn stream_write_value_64(
    call: &Call,
    stream: Stream,
    address: u64,
    value: u64,
    flags: c_uint,
) -> Served {
    let op = write(address, value, Width::W64, flags, write_flags(call))?;
    submit(&stream, op, words(WRITE_64, address, value, flags))
}

/// Returns the lower and the upper 32 bits of `word`.
fn halves(word: u64) -> (c_uint, c_uint) {
    (word as c_uint, (word >> 32) as c_uint)
}

fn read_op(params: &CUstreamBatchMemOpParams) -> Result<MemOp, CuResult> {
    let [first, second, third, fourth, ..] = params.words;
    // Flushes, barriers and reductions have their flags in the first word, next to the operation.
    let ((operation, short_flags), (flags, _)) = (halves(first), halves(fourth));
    match operation {
        WAIT_32 => wait(second, u64::from(third as u32), Width::W32, flags),
        WAIT_64 => wait(second, third, Width::W64, flags),
        WRITE_32 => write(
            second,
            u64::from(third as u32),
            Width::W32,
            flags,
            NO_BARRIER,
        ),
        WRITE_64 => write(second, third, Width::W64, flags, NO_BARRIER),
        FLUSH_REMOTE_WRITES if short_flags == 0 => Ok(MemOp::Barrier),
        BARRIER if short_flags <= LAST_BARRIER => Ok(MemOp::Barrier),
        ATOMIC_REDUCTION if short_flags == 0 => {
            let (with, data_type) = halves(second);
            reduction(third, fourth, with, data_type)
        }
        _ => Err(CuResult::INVALID_VALUE),
    }
}

fn reduction(address: u64, value: u64, with: c_uint, data_type: c_uint) -> Result<MemOp, CuResult> {
    let with = match with {
        OPERATION_ADD => Reduction::Add,
        OPERATION_AND => Reduction::And,
        OPERATION_OR => Reduction::Or,
        _ => return Err(CuResult::INVALID_VALUE),
    };
    let width = match data_type {
        UNSIGNED_32 => Width::W32,
        UNSIGNED_64 => Width::W64,
        _ => return Err(CuResult::INVALID_VALUE),
    };
    Ok(MemOp::Reduce {
        address,
        value,
        width,
        with,
    })
}

/// Returns the operations of a batch, both converted and as the caller passed them.
///
/// # Errors
/// Returns `INVALID_VALUE` for flags other than 0, for more than 256 operations, and for invalid operations.
///
/// # Safety
/// The array must contain `count` elements.
pub(crate) unsafe fn read_ops(
    array: *const CUstreamBatchMemOpParams,
    count: c_uint,
    flags: c_uint,
) -> Result<(Vec<MemOp>, Vec<CUstreamBatchMemOpParams>), CuResult> {
    if flags != 0 || count > MOST_OPS {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: the caller guarantees `count` elements.
    let given = unsafe { read_array(array, count as usize) }?;
    let ops = given.iter().map(read_op).collect::<Result<_, _>>()?;
    Ok((ops, given))
}

pub(crate) fn stream_batch_mem_op(
    _: &Call,
    stream: Stream,
    count: c_uint,
    array: *mut CUstreamBatchMemOpParams,
    flags: c_uint,
) -> Served {
    // SAFETY: the caller guarantees `count` elements.
    let (ops, given) = unsafe { read_ops(array, count, flags) }?;
    Ok(stream.memory_ops_of(&ops, || Some(Arc::new(BatchOrigin(given)) as _))?)
}
