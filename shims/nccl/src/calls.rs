//! Checks the arguments of operations on communicators.

use std::sync::Arc;

use crate::collective::{Call, Kind};
use crate::comm::{self, Comm, Factor, Value};
use crate::group::{self, Job};
use crate::matching::Message;
use crate::place;
use crate::reduce::{DataType, Reduction};
use crate::status::{Outcome, Status, failure, need};

fn data_type(number: i32) -> Outcome<DataType> {
    let text = "the data type is unknown";
    DataType::of(number).ok_or_else(|| failure(Status::INVALID_ARGUMENT, text))
}

fn rank(comm: &Comm, number: i32) -> Outcome<usize> {
    let found = usize::try_from(number)
        .ok()
        .filter(|&rank| rank < comm.ranks);
    let text = || format!("there is no rank {number} among {}", comm.ranks);
    found.ok_or_else(|| failure(Status::INVALID_ARGUMENT, &text()))
}

/// Returns the operation with this number and its factor.
fn reduction(comm: &Comm, number: i32, data_type: DataType) -> Outcome<(Reduction, Value)> {
    if let Some(built_in) = Reduction::built_in(number) {
        return Ok((built_in, Value::Bytes(0)));
    }
    let index = usize::try_from(number.wrapping_sub(Reduction::PRE_MUL_SUM)).ok();
    let factors = comm.factors.lock();
    let factor = index.and_then(|index| factors.get(index).copied().flatten());
    need(factor.is_some(), "the operation is unknown")?;
    let factor = factor.ok_or(Status::INTERNAL)?;
    need(
        factor.data_type == data_type,
        "the operation has another data type",
    )?;
    Ok((Reduction::PreMulSum, factor.value))
}

/// `ncclRedOpCreatePreMulSum`.
pub(crate) fn create_operation(
    op: *mut i32,
    scalar: usize,
    kind: i32,
    residence: i32,
    handle: usize,
) -> Outcome {
    const ON_DEVICE: i32 = 0;
    const ON_HOST: i32 = 1;
    let comm = comm::get_ready(handle)?;
    let data_type = data_type(kind)?;
    need(scalar != 0, "the scalar is null")?;
    let value = match residence {
        ON_DEVICE => Value::At(scalar),
        ON_HOST => {
            let mut bytes = [0; 8];
            for (index, byte) in bytes.iter_mut().take(data_type.bytes()).enumerate() {
                let read = place::read((scalar as *const u8).wrapping_add(index));
                need(read.is_some(), "the scalar is not readable")?;
                *byte = read.unwrap_or_default();
            }
            Value::Bytes(u64::from_le_bytes(bytes))
        }
        _ => return need(false, "the place of the scalar is unknown"),
    };
    let mut factors = comm.factors.lock();
    let free = factors.iter().position(Option::is_none);
    let index = free.unwrap_or(factors.len());
    let stored = place::write(op, Reduction::PRE_MUL_SUM + index as i32);
    need(
        stored.is_some(),
        "the place for the operation is not writable",
    )?;
    let factor = Some(Factor { data_type, value });
    match free {
        Some(index) => factors[index] = factor,
        None => factors.push(factor),
    }
    Ok(())
}

/// `ncclRedOpDestroy`.
pub(crate) fn destroy_operation(op: i32, handle: usize) -> Outcome {
    let comm = comm::get_ready(handle)?;
    let index = usize::try_from(op.wrapping_sub(Reduction::PRE_MUL_SUM)).ok();
    let mut factors = comm.factors.lock();
    let place = index.and_then(|index| factors.get_mut(index));
    let removed = place.and_then(Option::take);
    need(removed.is_some(), "the operation is unknown")
}

/// A collective function.
#[allow(
    clippy::too_many_arguments,
    reason = "the arguments of NCCL's functions"
)]
pub(crate) fn collective(
    kind: Kind,
    send: usize,
    receive: usize,
    count: usize,
    type_number: i32,
    op: i32,
    root: i32,
    handle: usize,
    stream: usize,
) -> Outcome {
    let comm = comm::get_ready(handle)?;
    let data_type = data_type(type_number)?;
    let (reduction, factor) = reduction(&comm, op, data_type)?;
    let root = rank(&comm, root)?;
    let call = Call {
        kind,
        send,
        receive,
        count,
        data_type,
        reduction,
        factor,
        root,
    };
    group::add(Job::Collective(comm, stream, call))
}

fn add(comm: &Arc<Comm>, stream: usize, message: Message) -> Outcome {
    need(
        message.address != 0 || message.bytes == 0,
        "a buffer is null",
    )?;
    group::add(Job::Message(Arc::clone(comm), stream, message))
}

/// Returns the number of bytes of `count` values, after a check that `blocks` blocks of them fit into memory.
fn bytes(count: usize, data_type: DataType, blocks: usize) -> Outcome<usize> {
    let size = count.checked_mul(data_type.bytes());
    let all = size.and_then(|size| size.checked_mul(blocks));
    let fits = all.is_some_and(|all| isize::try_from(all).is_ok());
    need(fits, "the number of values is too large")?;
    size.ok_or(Status::INTERNAL)
}

/// `ncclSend` and `ncclRecv`.
pub(crate) fn message(
    sends: bool,
    address: usize,
    count: usize,
    type_number: i32,
    peer: i32,
    handle: usize,
    stream: usize,
) -> Outcome {
    let comm = comm::get_ready(handle)?;
    let bytes = bytes(count, data_type(type_number)?, 1)?;
    let peer = rank(&comm, peer)?;
    let message = Message {
        sends,
        peer,
        address,
        bytes,
    };
    add(&comm, stream, message)
}

/// Sends a block to each rank with `sends`, and receives one from each rank with `receives`.
fn blocks(
    comm: &Arc<Comm>,
    stream: usize,
    bytes: usize,
    sends: impl Fn(usize) -> Option<usize>,
    receives: impl Fn(usize) -> Option<usize>,
) -> Outcome {
    if bytes == 0 {
        return Ok(());
    }
    group::start()?;
    let mut outcome = Ok(());
    for peer in 0..comm.ranks {
        let addresses = [(true, sends(peer)), (false, receives(peer))];
        for (sends, address) in addresses {
            let Some(address) = address else { continue };
            let message = Message {
                sends,
                peer,
                address,
                bytes,
            };
            outcome = outcome.and_then(|()| add(comm, stream, message));
        }
    }
    if let Err(status) = outcome {
        group::note_failure(status);
    }
    group::end()
}

/// `ncclAlltoAll`.
pub(crate) fn all_to_all(
    send: usize,
    receive: usize,
    count: usize,
    type_number: i32,
    handle: usize,
    stream: usize,
) -> Outcome {
    let comm = comm::get_ready(handle)?;
    let bytes = bytes(count, data_type(type_number)?, comm.ranks)?;
    need(
        bytes == 0 || (send != 0 && receive != 0),
        "a buffer is null",
    )?;
    let block = |base: usize| move |peer: usize| base.checked_add(peer * bytes);
    blocks(&comm, stream, bytes, block(send), block(receive))
}

/// `ncclGather`.
pub(crate) fn gather(
    send: usize,
    receive: usize,
    count: usize,
    type_number: i32,
    root: i32,
    handle: usize,
    stream: usize,
) -> Outcome {
    let comm = comm::get_ready(handle)?;
    let bytes = bytes(count, data_type(type_number)?, comm.ranks)?;
    let root = rank(&comm, root)?;
    let is_root = comm.rank == root;
    let missing = send == 0 || (is_root && receive == 0);
    need(bytes == 0 || !missing, "a buffer is null")?;
    let sends = |peer: usize| (peer == root).then_some(send);
    let receives = |peer: usize| receive.checked_add(peer * bytes).filter(|_| is_root);
    blocks(&comm, stream, bytes, sends, receives)
}

/// `ncclScatter`.
pub(crate) fn scatter(
    send: usize,
    receive: usize,
    count: usize,
    type_number: i32,
    root: i32,
    handle: usize,
    stream: usize,
) -> Outcome {
    let comm = comm::get_ready(handle)?;
    let bytes = bytes(count, data_type(type_number)?, comm.ranks)?;
    let root = rank(&comm, root)?;
    let is_root = comm.rank == root;
    let missing = receive == 0 || (is_root && send == 0);
    need(bytes == 0 || !missing, "a buffer is null")?;
    let sends = |peer: usize| send.checked_add(peer * bytes).filter(|_| is_root);
    let receives = |peer: usize| (peer == root).then_some(receive);
    blocks(&comm, stream, bytes, sends, receives)
}
