//! Implements the entry points that instantiate, launch, update and destroy executable graphs.

use std::ffi::{c_char, c_uint, c_ulonglong};

use margay::Stream;
use margay::graph::{
    Graph, GraphExec, InstantiateFlags, InstantiateProblem, Node, UpdateProblem, UpdateReason,
};

use crate::convert::{OptOut, Out};
use crate::guard::Call;
use crate::handles::{graph_execs, node_handle, stream};
use crate::result::{CuResult, Served};
use crate::types::{
    CUDA_GRAPH_INSTANTIATE_PARAMS, CUgraph, CUgraphExec, CUgraphExecUpdateResultInfo, CUgraphNode,
};

/// Values of `CUgraphInstantiate_flags`.
const AUTO_FREE: u64 = 1;
const UPLOAD: u64 = 2;
const DEVICE_LAUNCH: u64 = 4;
const NODE_PRIORITY: u64 = 8;

fn read_flags(flags: u64, allowed: u64) -> Result<InstantiateFlags, CuResult> {
    let both = AUTO_FREE | DEVICE_LAUNCH;
    if flags & !allowed != 0 || flags & both == both {
        return Err(CuResult::INVALID_VALUE);
    }
    Ok(InstantiateFlags {
        auto_free: flags & AUTO_FREE != 0,
        node_priority: flags & NODE_PRIORITY != 0,
        device_launch: flags & DEVICE_LAUNCH != 0,
    })
}

fn keep(exec: GraphExec) -> Result<CUgraphExec, CuResult> {
    let handle = graph_execs().insert(exec);
    handle.map(CUgraphExec).ok_or(CuResult::OUT_OF_MEMORY)
}

pub(crate) fn graph_instantiate_with_flags(
    _: &Call,
    out: Out<CUgraphExec>,
    graph: Graph,
    flags: c_ulonglong,
) -> Served {
    let flags = read_flags(flags, AUTO_FREE | DEVICE_LAUNCH | NODE_PRIORITY)?;
    let exec = graph.instantiate(flags).map_err(|problem| problem.error)?;
    out.set(keep(exec)?);
    Ok(())
}

fn node_of(problem: &InstantiateProblem) -> CUgraphNode {
    problem.node.as_ref().map_or(CUgraphNode(0), node_handle)
}

pub(crate) fn graph_instantiate_with_params(
    call: &Call,
    out: Out<CUgraphExec>,
    graph: Graph,
    params: *mut CUDA_GRAPH_INSTANTIATE_PARAMS,
) -> Served {
    if params.is_null() {
        return Err(CuResult::INVALID_VALUE);
    }
    // SAFETY: the pointer is not null; the caller guarantees that it is valid.
    let mut given = unsafe { params.read_unaligned() };
    let mut tell = |node: CUgraphNode, result: c_uint| {
        given.error_node = node;
        given.result = result;
        // SAFETY: the pointer is not null; the caller guarantees that it is valid.
        unsafe { params.write_unaligned(given) };
    };
    const GENERAL: c_uint = 1;
    tell(CUgraphNode(0), GENERAL);
    let all = AUTO_FREE | UPLOAD | DEVICE_LAUNCH | NODE_PRIORITY;
    // SAFETY: the pointer is not null; the caller guarantees that it is valid.
    let (flags, upload_stream) = unsafe { ((*params).flags, (*params).upload_stream) };
    let read = read_flags(flags, all)?;
    let upload = match flags & UPLOAD {
        0 => None,
        _ => Some(stream(upload_stream, call).map_err(|_| CuResult::INVALID_VALUE)?),
    };
    let exec = match graph.instantiate(read) {
        Ok(exec) => exec,
        Err(problem) => {
            tell(node_of(&problem), problem.reason as c_uint);
            return Err(problem.error.into());
        }
    };
    if let Some(stream) = upload {
        exec.upload(&stream)?;
    }
    out.set(keep(exec)?);
    tell(CUgraphNode(0), 0);
    Ok(())
}

/// Implements the versions of `cuGraphInstantiate` before CUDA 12, which write the error message to a buffer.
pub(crate) fn graph_instantiate(
    _: &Call,
    out: Out<CUgraphExec>,
    graph: Graph,
    error_node: OptOut<CUgraphNode>,
    log: *mut c_char,
    room: usize,
) -> Served {
    let result = graph.instantiate(InstantiateFlags::default());
    let (node, text) = match &result {
        Ok(_) => (CUgraphNode(0), String::new()),
        Err(problem) => (node_of(problem), problem.error.to_string()),
    };
    error_node.set(node);
    if !log.is_null() && room > 0 {
        let len = text.len().min(room - 1);
        // SAFETY: the caller guarantees `room` bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast(), log, len);
            log.add(len).write(0);
        }
    }
    out.set(keep(result.map_err(|problem| problem.error)?)?);
    Ok(())
}

pub(crate) fn graph_exec_get_flags(_: &Call, exec: GraphExec, out: Out<u64>) -> Served {
    let flags = exec.flags();
    let bit = |set: bool, bit: u64| if set { bit } else { 0 };
    out.set(
        bit(flags.auto_free, AUTO_FREE)
            | bit(flags.device_launch, DEVICE_LAUNCH)
            | bit(flags.node_priority, NODE_PRIORITY),
    );
    Ok(())
}

pub(crate) fn graph_exec_get_id(_: &Call, exec: GraphExec, out: Out<c_uint>) -> Served {
    out.set(exec.id() as c_uint);
    Ok(())
}

pub(crate) fn graph_upload(_: &Call, exec: GraphExec, stream: Stream) -> Served {
    Ok(exec.upload(&stream)?)
}

pub(crate) fn graph_launch(_: &Call, exec: GraphExec, stream: Stream) -> Served {
    Ok(exec.launch(&stream)?)
}

pub(crate) fn graph_exec_destroy(_: &Call, handle: CUgraphExec) -> Served {
    let exec = graph_execs().remove(handle.0);
    exec.map(|_| ()).ok_or(CuResult::INVALID_VALUE)
}

pub(crate) fn graph_node_set_enabled(
    _: &Call,
    exec: GraphExec,
    node: Node,
    enabled: c_uint,
) -> Served {
    Ok(exec.set_enabled(&node, enabled != 0)?)
}

pub(crate) fn graph_node_get_enabled(
    _: &Call,
    exec: GraphExec,
    node: Node,
    out: Out<c_uint>,
) -> Served {
    out.set(c_uint::from(exec.is_enabled(&node)?));
    Ok(())
}

/// Returns the structure with details that `cuGraphExecUpdate` writes for its caller: the result
/// and, after a failure, the nodes that caused it.
fn info_of(result: Result<(), &UpdateProblem>) -> CUgraphExecUpdateResultInfo {
    let handle = |node: Option<&Node>| node.map_or(CUgraphNode(0), node_handle);
    match result {
        Ok(()) => CUgraphExecUpdateResultInfo {
            result: 0,
            error_node: CUgraphNode(0),
            error_from_node: CUgraphNode(0),
        },
        Err(problem) => CUgraphExecUpdateResultInfo {
            result: problem.reason as c_uint,
            error_node: handle(problem.node.as_ref()),
            error_from_node: handle(problem.from.as_ref()),
        },
    }
}

fn update(exec: &GraphExec, graph: CUgraph) -> (CUgraphExecUpdateResultInfo, Served) {
    let graph = match crate::handles::graph(graph) {
        Ok(graph) => graph,
        Err(code) => {
            let info = CUgraphExecUpdateResultInfo {
                result: UpdateReason::Error as c_uint,
                ..info_of(Ok(()))
            };
            return (info, Err(code));
        }
    };
    match exec.update(&graph) {
        Ok(()) => (info_of(Ok(())), Ok(())),
        Err(problem) => (
            info_of(Err(&problem)),
            Err(CuResult::GRAPH_EXEC_UPDATE_FAILURE),
        ),
    }
}

pub(crate) fn graph_exec_update_v2(
    _: &Call,
    exec: GraphExec,
    graph: CUgraph,
    out: Out<CUgraphExecUpdateResultInfo>,
) -> Served {
    let (info, served) = update(&exec, graph);
    out.set(info);
    served
}

pub(crate) fn graph_exec_update(
    _: &Call,
    exec: GraphExec,
    graph: CUgraph,
    node: OptOut<CUgraphNode>,
    result: Out<c_uint>,
) -> Served {
    let (info, served) = update(&exec, graph);
    node.set(info.error_node);
    result.set(info.result);
    served
}
