//! Stream capture.

use std::collections::HashMap;
use std::ffi::c_uint;
use std::sync::LazyLock;

use margay::Stream;
use margay::capture::{CaptureMode, CaptureStatus, DependencyUpdate, exchange_thread_mode};
use margay::graph::Graph;
use parking_lot::Mutex;

use super::graph::{dependencies, edge_data_out};
use crate::convert::{OptOut, Out};
use crate::guard::Call;
use crate::handles::{graph_handle, is_own_graph, node_handle, own_graph};
use crate::result::{CuResult, Served};
use crate::types::{CUgraph, CUgraphEdgeData, CUgraphNode};

fn mode(number: c_uint) -> Result<CaptureMode, CuResult> {
    match number {
        0 => Ok(CaptureMode::Global),
        1 => Ok(CaptureMode::ThreadLocal),
        2 => Ok(CaptureMode::Relaxed),
        _ => Err(CuResult::INVALID_VALUE),
    }
}

pub(crate) fn thread_exchange_stream_capture_mode(_: &Call, place: *mut c_uint) -> Served {
    if place.is_null() {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: the pointer is not null; the caller guarantees that it is valid.
    let wanted = mode(unsafe { place.read() })?;
    let before = exchange_thread_mode(wanted);
    // SAFETY: the pointer is not null; the caller guarantees that it is valid.
    unsafe { place.write(before as c_uint) };
    Ok(())
}

/// The arrays that a query of a capturing stream returned: the stream's dependencies and the data of their edges. The
/// driver API guarantees that the arrays stay valid until the next query or the end of the capture.
type Told = (Box<[CUgraphNode]>, Box<[CUgraphEdgeData]>);

static TOLD: LazyLock<Mutex<HashMap<u64, Told>>> = LazyLock::new(Mutex::default);

/// Frees the arrays ([`Told`]) that the last query of a capturing stream returned.
pub(crate) fn forget_told(stream: &Stream) {
    TOLD.lock().remove(&stream.id());
}

pub(crate) fn stream_begin_capture_v1(_: &Call, stream: Stream) -> Served {
    Ok(stream.begin_capture(CaptureMode::Global)?)
}

pub(crate) fn stream_begin_capture(_: &Call, stream: Stream, number: c_uint) -> Served {
    Ok(stream.begin_capture(mode(number)?)?)
}

pub(crate) fn stream_begin_capture_to_graph(
    _: &Call,
    stream: Stream,
    graph: Graph,
    nodes: *const CUgraphNode,
    data: *const CUgraphEdgeData,
    count: usize,
    number: c_uint,
) -> Served {
    // SAFETY: the caller guarantees `count` elements.
    let nodes = unsafe { dependencies(nodes, data, count) }?;
    Ok(stream.begin_capture_to(&graph, &nodes, mode(number)?)?)
}

/// Ends a capture. `out` may be null if a node or the program already owns the graph.
pub(crate) fn stream_end_capture(_: &Call, stream: Stream, out: OptOut<CUgraph>) -> Served {
    if !out.is_wanted() {
        let info = stream.capture_info();
        let known = info.is_some_and(|info| info.graph.is_owned() || is_own_graph(&info.graph));
        if !known {
            return Err(CuResult::INVALID_VALUE);
        }
    }
    out.set(CUgraph(0));
    let ended = stream.end_capture();
    forget_told(&stream);
    out.set(own_graph(ended?));
    Ok(())
}

pub(crate) fn stream_is_capturing(_: &Call, stream: Stream, status: Out<c_uint>) -> Served {
    status.set(stream.capture_status()? as c_uint);
    Ok(())
}

pub(crate) fn stream_get_capture_info_v1(
    _: &Call,
    stream: Stream,
    status: Out<c_uint>,
    id: OptOut<u64>,
) -> Served {
    let current = stream.capture_status()?;
    status.set(current as c_uint);
    if let (CaptureStatus::Active, Some(info)) = (current, stream.capture_info()) {
        id.set(info.id);
    }
    Ok(())
}

pub(crate) fn stream_get_capture_info_v3(
    _: &Call,
    stream: Stream,
    status: Out<c_uint>,
    id: OptOut<u64>,
    graph: OptOut<CUgraph>,
    nodes: OptOut<*const CUgraphNode>,
    data: OptOut<*const CUgraphEdgeData>,
    count: OptOut<usize>,
) -> Served {
    let current = stream.capture_status()?;
    let info = match current {
        CaptureStatus::Active => stream.capture_info(),
        _ => None,
    };
    let Some(info) = info else {
        status.set(current as c_uint);
        return Ok(());
    };
    let plain = info.dependencies.iter().all(|(_, data)| data.is_plain());
    if nodes.is_wanted() && !data.is_wanted() && !plain {
        return Err(CuResult::LOSSY_QUERY);
    }
    status.set(current as c_uint);
    id.set(info.id);
    graph.set(graph_handle(&info.graph));
    count.set(info.dependencies.len());
    if nodes.is_wanted() || data.is_wanted() {
        let dependencies = info.dependencies.iter();
        let (handles, said): (Vec<_>, Vec<_>) = dependencies
            .map(|(node, data)| (node_handle(node), edge_data_out(*data)))
            .unzip();
        let told: Told = (handles.into_boxed_slice(), said.into_boxed_slice());
        nodes.set(told.0.as_ptr());
        data.set(told.1.as_ptr());
        TOLD.lock().insert(stream.id(), told);
    }
    Ok(())
}

pub(crate) fn stream_get_capture_info_v2(
    call: &Call,
    stream: Stream,
    status: Out<c_uint>,
    id: OptOut<u64>,
    graph: OptOut<CUgraph>,
    nodes: OptOut<*const CUgraphNode>,
    count: OptOut<usize>,
) -> Served {
    let data = OptOut::unwanted();
    stream_get_capture_info_v3(call, stream, status, id, graph, nodes, data, count)
}

pub(crate) fn stream_update_capture_dependencies_v2(
    _: &Call,
    stream: Stream,
    nodes: *mut CUgraphNode,
    data: *const CUgraphEdgeData,
    count: usize,
    flags: c_uint,
) -> Served {
    let how = match flags {
        0 => DependencyUpdate::Add,
        1 => DependencyUpdate::Set,
        _ => return Err(CuResult::INVALID_VALUE),
    };
    // SAFETY: the caller guarantees `count` elements.
    let nodes = unsafe { dependencies(nodes, data, count) }?;
    Ok(stream.update_capture_dependencies(&nodes, how)?)
}

pub(crate) fn stream_update_capture_dependencies(
    call: &Call,
    stream: Stream,
    nodes: *mut CUgraphNode,
    count: usize,
    flags: c_uint,
) -> Served {
    let data = std::ptr::null();
    stream_update_capture_dependencies_v2(call, stream, nodes, data, count, flags)
}
