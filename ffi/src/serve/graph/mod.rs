//! Graphs: making them, their nodes and edges, executable graphs, user objects.

mod attributes;
mod exec;
mod generic;
mod memory;
mod node;
mod params;
mod set;
mod structure;
mod user_object;

pub(crate) use attributes::*;
pub(crate) use exec::*;
pub(crate) use generic::*;
pub(crate) use memory::*;
pub(crate) use node::*;
pub(crate) use params::*;
pub(crate) use set::*;
pub(crate) use structure::*;
pub(crate) use user_object::*;

use margay::graph::{EdgeData, Node};

use crate::convert::read_array;
use crate::handles::node;
use crate::result::{CuResult, Served};
use crate::types::{CUgraphEdgeData, CUgraphNode};

/// Dependencies as the caller lists them.
///
/// # Errors
/// `INVALID_VALUE` for what is no node, and reserved bytes that are not zero.
///
/// # Safety
/// The arrays are null or hold `count` elements.
pub(crate) unsafe fn dependencies(
    nodes: *const CUgraphNode,
    data: *const CUgraphEdgeData,
    count: usize,
) -> Result<Vec<(Node, EdgeData)>, CuResult> {
    // SAFETY: the caller's promise.
    let nodes = unsafe { read_array(nodes, count) }?;
    // SAFETY: the caller's promise.
    let data = unsafe { edge_data(data, count) }?;
    let pairs = nodes.into_iter().zip(data);
    pairs
        .map(|(handle, data)| Ok((node(handle)?, data)))
        .collect()
}

/// Edge data as the caller lists it; null is nothing special for every edge.
///
/// # Errors
/// As [`dependencies`].
///
/// # Safety
/// The array is null or holds `count` elements.
pub(crate) unsafe fn edge_data(
    data: *const CUgraphEdgeData,
    count: usize,
) -> Result<Vec<EdgeData>, CuResult> {
    if data.is_null() {
        return Ok(vec![EdgeData::default(); count]);
    }
    // SAFETY: the caller's promise.
    let data = unsafe { read_array(data, count) }?;
    if data.iter().any(|data| data.reserved != [0; 5]) {
        return Err(CuResult::INVALID_VALUE);
    }
    let plain = data.into_iter().map(|data| EdgeData {
        from_port: data.from_port,
        to_port: data.to_port,
        kind: data.kind,
    });
    Ok(plain.collect())
}

/// Edge data as the caller gets it.
pub(crate) fn edge_data_out(data: EdgeData) -> CUgraphEdgeData {
    CUgraphEdgeData {
        from_port: data.from_port,
        to_port: data.to_port,
        kind: data.kind,
        reserved: [0; 5],
    }
}

/// Fills the caller's array of `room` elements with `values`, and the rest of it with `rest`.
///
/// # Safety
/// `out` is null or has room for `room` elements.
pub(crate) unsafe fn write_list<T: Copy>(out: *mut T, room: usize, values: &[T], rest: T) {
    if out.is_null() {
        return;
    }
    for index in 0..room {
        let value = values.get(index).copied().unwrap_or(rest);
        // SAFETY: the caller gave room for so many.
        unsafe { out.add(index).write_unaligned(value) };
    }
}

/// Answers a list: its length alone when `out` is null, else as much as there is room for, and
/// how much that was.
///
/// # Errors
/// `INVALID_VALUE` when the place of the length is null.
///
/// # Safety
/// `count` is null or valid, and `out` null or has room for `*count` elements.
pub(crate) unsafe fn answer_list<T: Copy>(
    out: *mut T,
    count: *mut usize,
    values: &[T],
    rest: T,
) -> Served {
    if count.is_null() {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: not null; the caller's promise.
    let room = unsafe { count.read_unaligned() };
    // SAFETY: the caller's promise.
    unsafe { write_list(out, room, values, rest) };
    let told = match out.is_null() {
        true => values.len(),
        false => values.len().min(room),
    };
    // SAFETY: as above.
    unsafe { count.write_unaligned(told) };
    Ok(())
}
