//! Implements the entry points for graphs, their nodes and edges, executable graphs and user
//! objects.

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

/// Reads the arrays `nodes` and `data`, with which the caller lists dependencies.
///
/// # Errors
/// Returns `INVALID_VALUE` for invalid nodes and for reserved bytes that are not zero.
///
/// # Safety
/// Each array must be null or contain `count` elements.
pub(crate) unsafe fn dependencies(
    nodes: *const CUgraphNode,
    data: *const CUgraphEdgeData,
    count: usize,
) -> Result<Vec<(Node, EdgeData)>, CuResult> {
    // SAFETY: the caller guarantees `count` elements.
    let nodes = unsafe { read_array(nodes, count) }?;
    // SAFETY: the caller guarantees `count` elements.
    let data = unsafe { edge_data(data, count) }?;
    let pairs = nodes.into_iter().zip(data);
    pairs
        .map(|(handle, data)| Ok((node(handle)?, data)))
        .collect()
}

/// Reads the edge data that the caller lists. If `data` is null, every edge has the default data.
///
/// # Errors
/// Returns `INVALID_VALUE` for reserved bytes that are not zero.
///
/// # Safety
/// The array must be null or contain `count` elements.
pub(crate) unsafe fn edge_data(
    data: *const CUgraphEdgeData,
    count: usize,
) -> Result<Vec<EdgeData>, CuResult> {
    if data.is_null() {
        return Ok(vec![EdgeData::default(); count]);
    }
    // SAFETY: the caller guarantees `count` elements.
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

/// Converts edge data to the structure of the driver API.
pub(crate) fn edge_data_out(data: EdgeData) -> CUgraphEdgeData {
    CUgraphEdgeData {
        from_port: data.from_port,
        to_port: data.to_port,
        kind: data.kind,
        reserved: [0; 5],
    }
}

/// Fills the caller's array of `room` elements with `values`, and the remaining elements with `rest`.
///
/// # Safety
/// `out` must be null or point to memory for `room` elements.
pub(crate) unsafe fn write_list<T: Copy>(out: *mut T, room: usize, values: &[T], rest: T) {
    if out.is_null() {
        return;
    }
    for index in 0..room {
        let value = values.get(index).copied().unwrap_or(rest);
        // SAFETY: the caller guarantees memory for `room` elements.
        unsafe { out.add(index).write_unaligned(value) };
    }
}

/// Returns the list `values` to the caller of an entry point. If `out` is null, this function
/// writes only the list's length to `count`. Otherwise it fills the `*count` elements at `out` with
/// the first values of the list, or with `rest` where the list has ended, and stores the number of
/// written values in `count`.
///
/// # Errors
/// Returns `INVALID_VALUE` if `count` is null.
///
/// # Safety
/// `count` must be null or valid. `out` must be null or point to memory for `*count` elements.
pub(crate) unsafe fn answer_list<T: Copy>(
    out: *mut T,
    count: *mut usize,
    values: &[T],
    rest: T,
) -> Served {
    if count.is_null() {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: the pointer is not null; the caller guarantees that it is valid.
    let room = unsafe { count.read_unaligned() };
    // SAFETY: the caller guarantees memory for `room` elements.
    unsafe { write_list(out, room, values, rest) };
    let told = match out.is_null() {
        true => values.len(),
        false => values.len().min(room),
    };
    // SAFETY: the pointer is not null; the caller guarantees that it is valid.
    unsafe { count.write_unaligned(told) };
    Ok(())
}
