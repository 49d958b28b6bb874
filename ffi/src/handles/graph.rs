//! Handles of graphs, nodes, executable graphs and user objects.
//!
//! The runtime assigns an ID to each graph and to each node, and never reuses an ID. A handle contains this ID and the
//! kind of object, and becomes invalid when the object is destroyed. The program owns every graph that no node owns,
//! except a graph that a capture in progress has created. The program owns such a graph after the capture has
//! succeeded. A list in this module contains the graphs that the program owns. A graph leaves the list when the program
//! destroys the graph or a node becomes its owner.

use std::collections::HashMap;
use std::sync::LazyLock;

use margay::checks::CallStack;
use margay::graph::{Graph, GraphExec, Node, UserObject};
use parking_lot::Mutex;

use crate::checking;
use crate::convert::FromAbi;
use crate::guard::Call;
use crate::handle_table::HandleTable;
use crate::result::CuResult;
use crate::types::{CUgraph, CUgraphExec, CUgraphNode, CUuserObject};

const GRAPH: usize = 28;
const NODE: usize = 29;
const KIND_SHIFT: u32 = 3;
const NUMBER_SHIFT: u32 = 8;

/// Returns the table of executable graphs.
pub(crate) fn graph_execs() -> &'static HandleTable<GraphExec> {
    static TABLE: HandleTable<GraphExec> = HandleTable::new(30);
    &TABLE
}

/// Returns the table of user objects.
pub(crate) fn user_objects() -> &'static HandleTable<UserObject> {
    static TABLE: HandleTable<UserObject> = HandleTable::new(31);
    &TABLE
}

/// A graph, and in checking runs the stack of the call that created it.
type OwnedGraph = (Graph, Option<CallStack>);

static OWNED: LazyLock<Mutex<HashMap<u64, OwnedGraph>>> = LazyLock::new(Mutex::default);

fn pack(kind: usize, number: u64) -> usize {
    (number as usize) << NUMBER_SHIFT | kind << KIND_SHIFT
}

fn number_of(kind: usize, handle: usize) -> Option<u64> {
    let low = handle & ((1 << NUMBER_SHIFT) - 1);
    (low == kind << KIND_SHIFT).then_some((handle >> NUMBER_SHIFT) as u64)
}

/// Returns the handle of a graph.
pub(crate) fn graph_handle(graph: &Graph) -> CUgraph {
    CUgraph(pack(GRAPH, graph.id()))
}

/// Returns the handle of a node.
pub(crate) fn node_handle(node: &Node) -> CUgraphNode {
    CUgraphNode(pack(NODE, node.id()))
}

/// Adds a graph to the list of the graphs that the program owns, unless a node owns the graph. Returns the graph's
/// handle.
pub(crate) fn own_graph(graph: Graph) -> CUgraph {
    let handle = graph_handle(&graph);
    if !graph.is_owned() {
        let call = checking::creation();
        OWNED.lock().insert(graph.id(), (graph, call));
    }
    handle
}

/// Returns whether a graph is in the list of the graphs that the program owns.
pub(crate) fn is_own_graph(graph: &Graph) -> bool {
    OWNED.lock().contains_key(&graph.id())
}

/// Returns the handles of the graphs that the program owns, with the stacks of the calls that created them.
pub(crate) fn all_graphs() -> Vec<(usize, Option<CallStack>)> {
    let owned = OWNED.lock();
    let graphs = owned.values();
    graphs
        .map(|(graph, call)| (graph_handle(graph).0, call.clone()))
        .collect()
}

/// Removes a graph from the list of the graphs that the program owns, because the graph is destroyed or a node becomes
/// its owner.
///
/// # Errors
/// Returns `INVALID_VALUE` if the handle is invalid or the program does not own the graph.
pub(crate) fn disown_graph(handle: CUgraph) -> Result<Graph, CuResult> {
    number_of(GRAPH, handle.0)
        .and_then(|number| OWNED.lock().remove(&number))
        .map(|(graph, _)| graph)
        .ok_or(CuResult::INVALID_VALUE)
}

/// Returns the graph that `handle` denotes, or `INVALID_VALUE` if the handle is invalid.
pub(crate) fn graph(handle: CUgraph) -> Result<Graph, CuResult> {
    number_of(GRAPH, handle.0)
        .and_then(Graph::by_id)
        .ok_or(CuResult::INVALID_VALUE)
}

/// Returns the node that `handle` denotes, or `INVALID_VALUE` if the handle is invalid.
pub(crate) fn node(handle: CUgraphNode) -> Result<Node, CuResult> {
    number_of(NODE, handle.0)
        .and_then(Node::by_id)
        .ok_or(CuResult::INVALID_VALUE)
}

impl FromAbi<CUgraph> for Graph {
    unsafe fn from_abi(raw: CUgraph, _call: &Call) -> Result<Graph, CuResult> {
        graph(raw)
    }
}

impl FromAbi<CUgraphNode> for Node {
    unsafe fn from_abi(raw: CUgraphNode, _call: &Call) -> Result<Node, CuResult> {
        node(raw)
    }
}

impl FromAbi<CUgraphExec> for GraphExec {
    unsafe fn from_abi(raw: CUgraphExec, _call: &Call) -> Result<GraphExec, CuResult> {
        graph_execs().get(raw.0).ok_or(CuResult::INVALID_VALUE)
    }
}

impl FromAbi<CUuserObject> for UserObject {
    unsafe fn from_abi(raw: CUuserObject, _call: &Call) -> Result<UserObject, CuResult> {
        user_objects().get(raw.0).ok_or(CuResult::INVALID_VALUE)
    }
}
