//! Graphs. A program describes work once as a graph, and can then launch the graph many times.
//!
//! A [`Graph`] contains nodes and edges and can be changed. A [`GraphExec`] is a checked copy of a graph that can be
//! launched into streams (`launch`). A program can change the parameters of single nodes of a
//! [`GraphExec`], or replace the parameters of all nodes by those of another graph (`update`).
//! Sources: CUDA programming guide, "CUDA Graphs"; CUDA driver API, "Graph Management".
//!
//! Invariants: the nodes of a graph are in the order of their IDs, which is the order in which they were added. Both
//! nodes of an edge store the edge. A nested graph belongs to exactly one node. A graph's lock
//! protects only the tables of this graph. It does not protect the tables of nested graphs. The
//! lock of an outer graph is taken before the lock of a nested graph.

mod add;
mod conditional;
mod dot;
mod edges;
mod exec;
mod launch;
mod links;
mod memory;
mod node;
mod plan;
mod registry;
#[cfg(test)]
mod tests;
mod update;
mod user_object;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::error::{Error, Result};
use crate::process::next_id;

pub use conditional::{ConditionalHandle, ConditionalKind, ConditionalNode};
pub use dot::DotOptions;
pub use edges::Edge;
pub use exec::{GraphExec, InstantiateFlags, InstantiateProblem, InstantiateReason};
pub use memory::is_graph_memory;
pub use memory::{GraphAllocation, GraphMemory};
pub(crate) use memory::{check_live, forget_context, free_from_outside, graph_allocation};
pub use node::{
    AttributeValue, EdgeData, HostFunction, HostNode, KernelAttributes, KernelNode, MemOpsNode,
    MemcpyNode, MemsetNode, NodeKind, NodeOp, Origin,
};
pub use update::{UpdateProblem, UpdateReason};
pub use user_object::UserObject;

use exec::ExecInner;
use links::Links;
use user_object::References;

/// A graph of nodes that perform work. Clones refer to the same graph; [`Graph::duplicate`] creates
/// a copy of the graph.
///
/// ```
/// use margay::graph::Graph;
///
/// let rt = margay::Runtime::new()?;
/// let graph = Graph::new();
/// let first = graph.add_empty(&[])?;
/// graph.add_host(&[first], std::sync::Arc::new(|| println!("runs at each launch")))?;
/// let stream = rt.context()?.legacy_stream();
/// graph.instantiate(Default::default())?.launch(&stream)?;
/// stream.synchronize()?;
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Clone)]
pub struct Graph {
    pub(crate) inner: Arc<Inner>,
}

/// A reference to a node of a graph, which does not keep the graph alive.
///
/// ```
/// use margay::graph::Graph;
///
/// let graph = Graph::new();
/// let first = graph.add_empty(&[])?;
/// let second = graph.add_empty(&[first])?;
/// assert_eq!(second.dependencies()?.len(), 1);
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Clone)]
pub struct Node {
    graph: Weak<Inner>,
    id: u64,
}

/// The shared state of a [`Graph`].
pub struct Inner {
    id: u64,
    state: Mutex<GraphState>,
}

struct GraphState {
    /// The nodes by ID. IDs ascend in the order in which nodes are added.
    nodes: BTreeMap<u64, NodeData>,
    memory_nodes: MemoryNodes,
    /// The node that owns this graph.
    owner: Option<Node>,
    /// Whether the graph is a body of a conditional node.
    body: bool,
    /// Number of captures that are adding nodes to the graph.
    captures: u32,
    next_local: u32,
    references: References,
    handles: Vec<Arc<ConditionalHandle>>,
    /// A reference to the executable graph of this graph. It is set only if this graph may have
    /// only one executable graph at a time.
    only_exec: Weak<ExecInner>,
    /// ID of the graph of which this graph is a copy; 0 if this graph is not a copy.
    copy_of: u64,
    /// If this graph is a copy, maps the ID of each node of the original graph to the ID of its copy.
    copies: FxHashMap<u64, u64>,
}

/// The allocations that the nodes of a graph allocate and free. Nodes of nested graphs are not
/// considered. Nodes of a graph with allocation or free nodes cannot be removed, so the sets only
/// grow.
#[derive(Clone, Default)]
struct MemoryNodes {
    /// Addresses of the [`GraphAllocation`]s that the graph allocates.
    allocated: FxHashSet<usize>,
    /// Addresses of the [`GraphAllocation`]s that the graph frees.
    freed: FxHashSet<usize>,
}

#[derive(Clone)]
struct NodeData {
    id: u64,
    local: u32,
    op: NodeOp,
    dependencies: Links<EdgeData>,
    dependents: Links<()>,
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Graph({})", self.inner.id)
    }
}

impl PartialEq for Graph {
    fn eq(&self, other: &Graph) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Eq for Graph {}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({})", self.id)
    }
}

impl PartialEq for Node {
    fn eq(&self, other: &Node) -> bool {
        self.id == other.id
    }
}

impl Eq for Node {}

impl Drop for Inner {
    fn drop(&mut self) {
        registry::GRAPHS.remove(&self.id);
        for id in self.state.get_mut().nodes.keys() {
            registry::NODES.remove(id);
        }
    }
}

impl GraphState {
    fn node(&self, id: u64) -> Result<&NodeData> {
        self.nodes.get(&id).ok_or_else(no_such_node)
    }

    fn node_mut(&mut self, id: u64) -> Result<&mut NodeData> {
        self.nodes.get_mut(&id).ok_or_else(no_such_node)
    }
}

fn no_such_node() -> Error {
    Error::invalid("not a node of this graph")
}

impl Default for Graph {
    fn default() -> Graph {
        Graph::new()
    }
}

impl Graph {
    /// Creates an empty graph.
    pub fn new() -> Graph {
        let id = next_id();
        let inner = Arc::new(Inner {
            id,
            state: Mutex::new(GraphState {
                nodes: BTreeMap::new(),
                memory_nodes: MemoryNodes::default(),
                owner: None,
                body: false,
                captures: 0,
                next_local: 0,
                references: References::default(),
                handles: Vec::new(),
                only_exec: Weak::new(),
                copy_of: 0,
                copies: FxHashMap::default(),
            }),
        });
        registry::GRAPHS.add(id, Arc::downgrade(&inner));
        Graph { inner }
    }

    /// Returns the graph with this ID; `None` if the graph no longer exists.
    pub fn by_id(id: u64) -> Option<Graph> {
        registry::GRAPHS.get(&id).map(|inner| Graph { inner })
    }

    /// Returns the graph's ID, which is unique in the process and never reused.
    pub fn id(&self) -> u64 {
        self.inner.id
    }

    /// Returns whether a node owns the graph. A graph that a node owns is destroyed together with the node.
    pub fn is_owned(&self) -> bool {
        self.inner.state.lock().owner.is_some()
    }

    fn node_of(&self, id: u64) -> Node {
        Node {
            graph: Arc::downgrade(&self.inner),
            id,
        }
    }

    /// Returns the nodes in the order in which they were added.
    pub fn nodes(&self) -> Vec<Node> {
        let state = self.inner.state.lock();
        state.nodes.keys().map(|id| self.node_of(*id)).collect()
    }

    /// Returns the nodes without dependencies.
    pub fn roots(&self) -> Vec<Node> {
        let state = self.inner.state.lock();
        let roots = state.nodes.values().filter(|n| n.dependencies.is_empty());
        roots.map(|n| self.node_of(n.id)).collect()
    }

    /// Returns copies of the data of all nodes.
    fn snapshot(&self) -> Vec<NodeData> {
        self.inner.state.lock().nodes.values().cloned().collect()
    }

    /// Returns whether `test` returns true for the operation of any node of this graph or of a nested graph.
    fn any_op(&self, test: &dyn Fn(&NodeOp) -> bool) -> bool {
        self.snapshot().iter().any(|node| {
            test(&node.op)
                || match &node.op {
                    NodeOp::Child(child) => child.any_op(test),
                    NodeOp::Conditional(node) => node.bodies().iter().any(|body| body.any_op(test)),
                    _ => false,
                }
        })
    }

    /// Returns this graph and the graphs that contain it, from the innermost to the outermost.
    fn and_around(&self) -> impl Iterator<Item = Graph> {
        std::iter::successors(Some(self.clone()), |graph| {
            let owner = graph.inner.state.lock().owner.clone();
            owner.and_then(|node| node.graph().ok())
        })
    }

    /// Returns the number of nesting levels of graphs inside this graph; 0 if no node has a nested graph.
    fn height(&self) -> usize {
        let nested = |node: &NodeData| match &node.op {
            NodeOp::Child(child) => 1 + child.height(),
            NodeOp::Conditional(node) => {
                let heights = node.bodies().iter().map(Graph::height);
                1 + heights.max().unwrap_or(0)
            }
            _ => 0,
        };
        self.snapshot().iter().map(nested).max().unwrap_or(0)
    }

    fn has_memory(&self) -> bool {
        self.any_op(&|op| matches!(op, NodeOp::MemAlloc(_) | NodeOp::MemFree(_)))
    }

    fn has_conditionals(&self) -> bool {
        self.any_op(&|op| matches!(op, NodeOp::Conditional(_)))
    }

    /// Returns a copy of the graph and of its nested graphs (`cuGraphClone`).
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for graphs with memory or conditional nodes.
    pub fn duplicate(&self) -> Result<Graph> {
        if self.has_memory() || self.has_conditionals() {
            return Err(Error::invalid(
                "graphs with memory or conditional nodes cannot be copied",
            ));
        }
        self.copy()
    }

    fn copy(&self) -> Result<Graph> {
        let copy = Graph::new();
        let (nodes, references) = (self.snapshot(), self.inner.state.lock().references.clone());
        let mut ids = FxHashMap::default();
        let mut made = Vec::with_capacity(nodes.len());
        for node in &nodes {
            let id = next_id();
            ids.insert(node.id, id);
            let op = match &node.op {
                NodeOp::Child(child) => {
                    let child = child.copy()?;
                    child.inner.state.lock().owner = Some(copy.node_of(id));
                    NodeOp::Child(child)
                }
                op => op.clone(),
            };
            made.push(NodeData {
                id,
                op,
                ..node.clone()
            });
        }
        let new = |id: u64| ids.get(&id).copied().unwrap_or_default();
        for node in &mut made {
            let dependencies = node.dependencies.iter();
            node.dependencies = dependencies.map(|(id, data)| (new(id), data)).collect();
            let dependents = node.dependents.iter();
            node.dependents = dependents.map(|(id, ())| (new(id), ())).collect();
            registry::NODES.add(node.id, Arc::downgrade(&copy.inner));
        }
        let mut state = copy.inner.state.lock();
        let original = self.inner.state.lock();
        state.next_local = original.next_local;
        state.memory_nodes = original.memory_nodes.clone();
        drop(original);
        state.nodes = made.into_iter().map(|node| (node.id, node)).collect();
        state.references = references;
        state.copy_of = self.id();
        state.copies = ids;
        drop(state);
        Ok(copy)
    }

    /// Returns the node of this copy that was copied from `original` (`cuGraphNodeFindInClone`).
    ///
    /// # Errors
    /// [`Error::InvalidValue`] if the copy has no such node.
    pub fn find_copy(&self, original: &Node) -> Result<Node> {
        let state = self.inner.state.lock();
        let found = state.copies.get(&original.id);
        match found.filter(|id| state.nodes.contains_key(id)) {
            Some(id) => Ok(self.node_of(*id)),
            None => {
                // The original node can be in a nested graph. Its copy is then in the copy of that nested graph.
                drop(state);
                let nodes = self.snapshot();
                let children = nodes.iter().filter_map(|node| match &node.op {
                    NodeOp::Child(child) => Some(child.clone()),
                    _ => None,
                });
                { children }
                    .find_map(|child| child.find_copy(original).ok())
                    .ok_or_else(|| Error::invalid("the copy has no such node"))
            }
        }
    }

    /// Transfers `count` references to a user object from the caller to the graph. The object stays
    /// alive as long as the graph, a copy of the graph, or an executable graph that was created
    /// from the graph or a copy exists.
    pub fn retain_object(&self, object: &UserObject, count: u32) {
        self.inner.state.lock().references.add(object, count);
    }

    /// Releases `count` references that [`Graph::retain_object`] has transferred to the graph.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] if the graph has fewer than `count` references to the object.
    pub fn release_object(&self, object: &UserObject, count: u32) -> Result<()> {
        let mut state = self.inner.state.lock();
        state.references.remove(object, count)
    }

    /// Records that a capture into the graph has begun (`true`) or ended (`false`). The graph
    /// cannot be instantiated during the capture.
    pub(crate) fn set_capturing(&self, capturing: bool) {
        let mut state = self.inner.state.lock();
        state.captures = match capturing {
            true => state.captures + 1,
            false => state.captures.saturating_sub(1),
        };
    }
}

impl Node {
    /// Returns the node with this ID; `None` if the node no longer exists.
    pub fn by_id(id: u64) -> Option<Node> {
        let inner = registry::NODES.get(&id)?;
        Some(Graph { inner }.node_of(id))
    }

    /// Returns the node's ID, which is unique in the process and never reused.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the graph to which the node belongs.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] if the graph no longer exists.
    pub fn graph(&self) -> Result<Graph> {
        let inner = self.graph.upgrade().ok_or_else(no_such_node)?;
        Ok(Graph { inner })
    }

    /// Returns the node's local ID, which is unique in its graph. A copy of the node has the same local ID.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] if the node no longer exists.
    pub fn local_id(&self) -> Result<u32> {
        let graph = self.graph()?;
        let state = graph.inner.state.lock();
        Ok(state.node(self.id)?.local)
    }

    /// Returns the operation of the node.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] if the node no longer exists.
    pub fn op(&self) -> Result<NodeOp> {
        let graph = self.graph()?;
        let state = graph.inner.state.lock();
        Ok(state.node(self.id)?.op.clone())
    }

    /// Returns the nodes on which this node depends, with the data of the edges.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] if the node no longer exists.
    pub fn dependencies(&self) -> Result<Vec<(Node, EdgeData)>> {
        let graph = self.graph()?;
        let state = graph.inner.state.lock();
        let edges = state.node(self.id)?.dependencies.iter();
        Ok(edges.map(|(id, data)| (graph.node_of(id), data)).collect())
    }

    /// Returns the nodes that depend on this node, with the data of the edges.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] if the node no longer exists.
    pub fn dependents(&self) -> Result<Vec<(Node, EdgeData)>> {
        let graph = self.graph()?;
        let state = graph.inner.state.lock();
        let data = |to: u64| {
            let target = state.node(to).ok();
            let data = target.and_then(|node| node.dependencies.get(self.id));
            data.unwrap_or_default()
        };
        let ids = &state.node(self.id)?.dependents;
        Ok(ids
            .iter()
            .map(|(id, ())| (graph.node_of(id), data(id)))
            .collect())
    }
}
