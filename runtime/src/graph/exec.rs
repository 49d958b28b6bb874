//! Executable graphs. An executable graph is created from a graph (instantiation) and can then be launched any number
//! of times. The parameters of its nodes can be changed between launches.

use std::sync::Arc;

use parking_lot::Mutex;

use super::plan::{Plan, StepOp};
use super::user_object::References;
use super::{EdgeData, Graph, GraphAllocation, Node, NodeOp};
use crate::error::{Error, Result};
use crate::process::next_id;
use crate::task::Task;

/// Options for instantiating a graph (`CUgraphInstantiate_flags`).
///
/// ```
/// use margay::graph::{Graph, InstantiateFlags};
///
/// let graph = Graph::new();
/// graph.add_empty(&[])?;
/// let flags = InstantiateFlags { node_priority: true, ..InstantiateFlags::default() };
/// assert!(graph.instantiate(flags)?.flags().node_priority);
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InstantiateFlags {
    /// Whether a launch first frees the allocations that the previous launch did not free.
    pub auto_free: bool,
    /// Whether kernels have the priorities of their nodes instead of the priority of the stream.
    pub node_priority: bool,
    /// Whether device code can launch the graph (unsupported).
    pub device_launch: bool,
}

/// The reason why a graph cannot be instantiated. The numbers of the variants are those of
/// `CUgraphInstantiateResult`.
///
/// ```
/// use margay::graph::{Graph, InstantiateFlags, InstantiateReason};
///
/// let flags = InstantiateFlags { device_launch: true, ..InstantiateFlags::default() };
/// let problem = Graph::new().instantiate(flags).err();
/// assert_eq!(problem.map(|problem| problem.reason), Some(InstantiateReason::Error));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum InstantiateReason {
    /// The field `error` of [`InstantiateProblem`] describes the reason.
    Error = 1,
    /// The graph has a cycle.
    InvalidStructure = 2,
    /// A node is not permitted in the graph that contains it.
    NotSupported = 3,
    /// The graph has a conditional handle that no conditional node uses.
    HandleUnused = 5,
}

/// The reason why a graph cannot be instantiated, and the node that causes the problem.
///
/// ```
/// use margay::graph::{Graph, InstantiateFlags};
///
/// let flags = InstantiateFlags { device_launch: true, ..InstantiateFlags::default() };
/// let problem = Graph::new().instantiate(flags).err().expect("device code cannot launch graphs");
/// assert!(problem.node.is_none());
/// ```
#[derive(Debug, Clone)]
pub struct InstantiateProblem {
    /// The kind of the problem.
    pub reason: InstantiateReason,
    /// The node that causes the problem; `None` if no node causes the problem.
    pub node: Option<Node>,
    /// The error that the instantiating driver call returns for this problem.
    pub error: Error,
}

impl InstantiateProblem {
    pub(super) fn plain(reason: InstantiateReason, error: Error) -> InstantiateProblem {
        InstantiateProblem {
            reason,
            node: None,
            error,
        }
    }
}

impl From<InstantiateProblem> for Error {
    fn from(problem: InstantiateProblem) -> Error {
        problem.error
    }
}

/// An executable graph. Clones refer to the same executable graph. The launches of an executable graph run one after
/// the other.
///
/// ```
/// use margay::graph::Graph;
///
/// let rt = margay::Runtime::new()?;
/// let graph = Graph::new();
/// let node = graph.add_empty(&[])?;
/// let exec = graph.instantiate(Default::default())?;
/// exec.launch(&rt.context()?.legacy_stream())?;
/// rt.synchronize()?;
/// assert_eq!(node.graph()?.id(), graph.id());
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Clone)]
pub struct GraphExec {
    pub(super) inner: Arc<ExecInner>,
}

/// The shared state of a [`GraphExec`].
pub(super) struct ExecInner {
    id: u64,
    flags: InstantiateFlags,
    pub(super) state: Mutex<ExecState>,
}

pub(super) struct ExecState {
    pub(super) plan: Arc<Plan>,
    /// The last task of the last launch.
    pub(super) last: Option<Arc<Task>>,
    pub(super) references: Arc<References>,
}

impl std::fmt::Debug for GraphExec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GraphExec({})", self.inner.id)
    }
}

impl Graph {
    /// Creates an executable graph from the graph, and compiles its kernels.
    ///
    /// # Errors
    /// Returns an [`InstantiateProblem`] if the graph cannot be instantiated.
    pub fn instantiate(&self, flags: InstantiateFlags) -> Result<GraphExec, InstantiateProblem> {
        let failed = |error| InstantiateProblem::plain(InstantiateReason::Error, error);
        if flags.device_launch {
            return Err(failed(Error::unsupported("graphs launched by device code")));
        }
        let plan = Plan::of(self)?;
        if self.unused_handles() {
            return Err(InstantiateProblem::plain(
                InstantiateReason::HandleUnused,
                Error::invalid("a conditional handle has no node"),
            ));
        }
        self.check_steps(&plan)?;
        let mut references = References::default();
        self.collect_references(&mut references);
        let inner = Arc::new(ExecInner {
            id: next_id(),
            flags,
            state: Mutex::new(ExecState {
                plan: Arc::new(plan),
                last: None,
                references: Arc::new(references),
            }),
        });
        if self.has_memory() || self.has_conditionals() {
            let mut state = self.inner.state.lock();
            if state.only_exec.strong_count() > 0 {
                drop(state);
                return Err(failed(Error::invalid(
                    "a graph with memory or conditional nodes has one executable graph at a time",
                )));
            }
            state.only_exec = Arc::downgrade(&inner);
        }
        Ok(GraphExec { inner })
    }

    fn unused_handles(&self) -> bool {
        self.has_unused_handles()
            || self.snapshot().iter().any(|node| match &node.op {
                NodeOp::Child(child) => child.unused_handles(),
                NodeOp::Conditional(node) => node.bodies().iter().any(Graph::unused_handles),
                _ => false,
            })
    }

    /// Checks the operations of all nodes and prepares every kernel once, so that compile errors
    /// are reported at instantiation.
    fn check_steps(&self, plan: &Plan) -> Result<(), InstantiateProblem> {
        for step in plan.graphs.iter().flat_map(|graph| &graph.steps) {
            let StepOp::Node(op) = &step.op else {
                continue;
            };
            op.check_executable().map_err(|error| InstantiateProblem {
                reason: InstantiateReason::Error,
                node: Node::by_id(step.origin),
                error,
            })?;
        }
        Ok(())
    }

    pub(super) fn collect_references(&self, all: &mut References) {
        let nodes = {
            let state = self.inner.state.lock();
            all.add_all(&state.references);
            state.nodes.values().cloned().collect::<Vec<_>>()
        };
        for node in &nodes {
            match &node.op {
                NodeOp::Child(child) => child.collect_references(all),
                NodeOp::Conditional(node) => {
                    for body in node.bodies() {
                        body.collect_references(all);
                    }
                }
                _ => {}
            }
        }
    }
}

impl NodeOp {
    /// Returns an error if a parameter of the operation is invalid. If the operation runs a kernel,
    /// also compiles the kernel and checks its launch.
    pub(super) fn check_executable(&self) -> Result<()> {
        self.check()?;
        if let NodeOp::Kernel(node, attributes) = self {
            node.kernel
                .start(node.launch(attributes), node.params.clone())?;
        }
        Ok(())
    }
}

impl GraphExec {
    /// Returns the executable graph's ID, which is unique in the process and never reused.
    pub fn id(&self) -> u64 {
        self.inner.id
    }

    /// Returns the options with which the graph was instantiated.
    pub fn flags(&self) -> InstantiateFlags {
        self.inner.flags
    }

    /// Returns whether launches run the operation of `node`. Launches skip the operations of
    /// disabled nodes.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for nodes of other graphs, and for nodes of kinds that cannot be disabled.
    pub fn is_enabled(&self, node: &Node) -> Result<bool> {
        let state = self.inner.state.lock();
        let (graph, at) = state.plan.find(node).ok_or_else(not_here)?;
        let step = &state.plan.graphs[graph].steps[at];
        check_switch(&step.op)?;
        Ok(step.enabled)
    }

    /// Determines whether later launches run the operation of `node`.
    ///
    /// # Errors
    /// Returns the same errors as [`GraphExec::is_enabled`].
    pub fn set_enabled(&self, node: &Node, enabled: bool) -> Result<()> {
        let mut state = self.inner.state.lock();
        let (graph, at) = state.plan.find(node).ok_or_else(not_here)?;
        check_switch(&state.plan.graphs[graph].steps[at].op)?;
        Arc::make_mut(&mut state.plan).graphs[graph].steps[at].enabled = enabled;
        Ok(())
    }

    /// Returns a graph with the same nodes and edges, in which disabled nodes are empty nodes. If
    /// an executable graph is launched into a capturing stream, a node with the returned graph is
    /// added to the captured graph.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] if the graph has memory or conditional nodes.
    pub(crate) fn to_graph(&self) -> Result<Graph> {
        let plan = Arc::clone(&self.inner.state.lock().plan);
        let graph = plan.to_graph(0)?;
        let references = Arc::clone(&self.inner.state.lock().references);
        graph.inner.state.lock().references.add_all(&references);
        Ok(graph)
    }
}

impl Plan {
    fn to_graph(&self, number: usize) -> Result<Graph> {
        let graph = Graph::new();
        let steps = &self.graphs[number].steps;
        let mut nodes: Vec<Option<Node>> = vec![None; steps.len()];
        for &at in &self.graphs[number].order {
            let step = &steps[at];
            // Only edges between kernels can have data, and a disabled kernel becomes an empty node.
            let data_of = |from: usize, data| match step.enabled && steps[from].enabled {
                true => data,
                false => EdgeData::default(),
            };
            let dependencies: Vec<_> = step
                .dependencies
                .iter()
                .filter_map(|&(from, data)| Some((nodes[from].clone()?, data_of(from, data))))
                .collect();
            let added = match &step.op {
                _ if !step.enabled => graph.add(NodeOp::Empty, &dependencies),
                StepOp::Child(child) => graph.add_moved(&self.to_graph(*child)?, &dependencies),
                StepOp::Conditional(..)
                | StepOp::Node(NodeOp::MemAlloc(_) | NodeOp::MemFree(_)) => Err(Error::invalid(
                    "a graph with memory or conditional nodes inside another one",
                )),
                StepOp::Node(op) => graph.add(op.clone(), &dependencies),
            };
            nodes[at] = Some(added?);
        }
        Ok(graph)
    }

    /// Returns the allocations of the graph's allocation nodes, except the allocations that a free
    /// node of the same graph frees.
    pub(super) fn left_allocations(&self) -> impl Iterator<Item = &Arc<GraphAllocation>> {
        self.allocations()
            .filter(|allocation| !allocation.is_freed_inside())
    }

    /// Returns the allocations of the graph's allocation nodes.
    pub(super) fn allocations(&self) -> impl Iterator<Item = &Arc<GraphAllocation>> {
        let steps = self.graphs.iter().flat_map(|graph| &graph.steps);
        steps.filter_map(|step| match &step.op {
            StepOp::Node(NodeOp::MemAlloc(allocation)) => Some(allocation),
            _ => None,
        })
    }

    /// Returns the allocations that the graph's free nodes free.
    pub(super) fn frees(&self) -> impl Iterator<Item = &Arc<GraphAllocation>> {
        let steps = self.graphs.iter().flat_map(|graph| &graph.steps);
        steps.filter_map(|step| match &step.op {
            StepOp::Node(NodeOp::MemFree(allocation)) => Some(allocation),
            _ => None,
        })
    }
}

pub(super) fn not_here() -> Error {
    Error::invalid("the executable graph has no such node")
}

fn check_switch(op: &StepOp) -> Result<()> {
    match op {
        StepOp::Node(op) if op.can_be_disabled() => Ok(()),
        _ => Err(Error::invalid("nodes of this kind cannot be disabled")),
    }
}
