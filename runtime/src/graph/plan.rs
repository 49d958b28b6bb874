//! The plan of an executable graph. A plan contains a step for each node of a graph and of its nested graphs; steps
//! refer to each other by index.
//!
//! Invariant: the graph with the index 0 of a plan is the outermost graph, and the `order` of each
//! graph is a topological order. Launches share a plan. A change of the executable graph changes a
//! copy of the plan, so that running launches are not affected.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{ConditionalHandle, ConditionalNode, EdgeData, Graph, Node, NodeData, NodeOp};
use super::{InstantiateProblem, InstantiateReason};
use crate::error::Error;

/// A plan: the data of an executable graph that each launch reads.
#[derive(Clone, Default)]
pub(super) struct Plan {
    pub(super) graphs: Vec<PlanGraph>,
    /// For each node, by its ID: the index of its graph in `graphs`, and the index of its step in
    /// this graph.
    pub(super) index: FxHashMap<u64, (usize, usize)>,
    /// The conditional handles of all graphs. Each launch resets the value of a handle to its
    /// default if the program has requested this when it created the handle.
    pub(super) handles: Vec<Arc<ConditionalHandle>>,
}

/// One graph of a plan.
#[derive(Clone, Default)]
pub(super) struct PlanGraph {
    /// The steps of the graph, in the order of the nodes from which they were created.
    pub(super) steps: Vec<Step>,
    /// The indices of all steps in an order in which each step follows its dependencies.
    pub(super) order: Vec<usize>,
}

/// A step of a plan, which is created from a node.
#[derive(Clone)]
pub(super) struct Step {
    /// ID of the node from which the step was created.
    pub(super) origin: u64,
    pub(super) op: StepOp,
    pub(super) dependencies: Vec<(usize, EdgeData)>,
    /// Whether no other step of the graph depends on this step.
    pub(super) last: bool,
    pub(super) enabled: bool,
}

/// The operation of a step. Nested graphs are identified by their index in the plan.
#[derive(Clone)]
pub(super) enum StepOp {
    Node(NodeOp),
    Child(usize),
    Conditional(Arc<ConditionalNode>, Vec<usize>),
}

impl StepOp {
    pub(super) fn kind(&self) -> super::NodeKind {
        match self {
            StepOp::Node(op) => op.kind(),
            StepOp::Child(_) => super::NodeKind::Child,
            StepOp::Conditional(..) => super::NodeKind::Conditional,
        }
    }
}

/// Returns whether the operation is permitted in the body of a conditional node, and in graphs that are nested in a
/// body.
fn allowed_in_body(op: &NodeOp) -> bool {
    use super::NodeKind as K;
    matches!(
        op.kind(),
        K::Kernel | K::Memcpy | K::Memset | K::Empty | K::Child | K::Conditional
    )
}

impl Plan {
    /// Creates the plan of a graph.
    ///
    /// # Errors
    /// Returns a problem if the graph has a cycle, if a node is not permitted in the graph that contains it, or if a
    /// capture into the graph has not ended.
    pub(super) fn of(graph: &Graph) -> Result<Plan, InstantiateProblem> {
        let mut plan = Plan::default();
        let body = graph.inner.state.lock().body;
        plan.add(graph, body)?;
        Ok(plan)
    }

    fn add(&mut self, graph: &Graph, body: bool) -> Result<usize, InstantiateProblem> {
        let (nodes, capturing) = {
            let state = graph.inner.state.lock();
            let handles = state.handles.iter().map(Arc::clone);
            self.handles.extend(handles);
            (
                state.nodes.values().cloned().collect::<Vec<_>>(),
                state.captures > 0,
            )
        };
        if capturing {
            return Err(InstantiateProblem::plain(
                InstantiateReason::Error,
                Error::invalid("a capture into the graph has not ended"),
            ));
        }
        let number = self.graphs.len();
        self.graphs.push(PlanGraph::default());
        let mut steps = Vec::with_capacity(nodes.len());
        for (at, node) in nodes.iter().enumerate() {
            self.index.insert(node.id, (number, at));
            if body && !allowed_in_body(&node.op) {
                let what = format!("{:?} node in a conditional graph", node.op.kind());
                return Err(InstantiateProblem {
                    reason: InstantiateReason::NotSupported,
                    node: Some(graph.node_of(node.id)),
                    error: Error::invalid(what),
                });
            }
            steps.push(self.step(&nodes, node, body)?);
        }
        let order = order(&steps).map_err(|at| InstantiateProblem {
            reason: InstantiateReason::InvalidStructure,
            node: nodes.get(at).map(|node| graph.node_of(node.id)),
            error: Error::invalid("the graph has a cycle"),
        })?;
        self.graphs[number] = PlanGraph { steps, order };
        Ok(number)
    }

    fn step(
        &mut self,
        nodes: &[NodeData],
        node: &NodeData,
        body: bool,
    ) -> Result<Step, InstantiateProblem> {
        let op = match &node.op {
            NodeOp::Child(child) => StepOp::Child(self.add(child, body)?),
            NodeOp::Conditional(conditional) => {
                let bodies = conditional.bodies().iter();
                let bodies = bodies.map(|graph| self.add(graph, true));
                StepOp::Conditional(Arc::clone(conditional), bodies.collect::<Result<_, _>>()?)
            }
            op => StepOp::Node(op.clone()),
        };
        let place = |id: u64| nodes.binary_search_by_key(&id, |node| node.id).ok();
        let dependencies = node.dependencies.iter();
        let dependencies = dependencies.filter_map(|(id, data)| Some((place(id)?, data)));
        Ok(Step {
            origin: node.id,
            op,
            dependencies: dependencies.collect(),
            last: node.dependents.is_empty(),
            enabled: true,
        })
    }

    /// Returns the index of a node's graph, and the index of its step in that graph.
    pub(super) fn find(&self, node: &Node) -> Option<(usize, usize)> {
        self.index.get(&node.id()).copied()
    }
}

/// Returns the indices of all steps in a topological order. If several steps can come next, the step with the lowest
/// index is chosen. If the dependencies have a cycle, returns the index of a step in the cycle as an error.
fn order(steps: &[Step]) -> Result<Vec<usize>, usize> {
    let mut missing: Vec<usize> = steps.iter().map(|s| s.dependencies.len()).collect();
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); steps.len()];
    for (at, step) in steps.iter().enumerate() {
        for (from, _) in &step.dependencies {
            next[*from].push(at);
        }
    }
    let ready = missing.iter().enumerate().filter(|(_, n)| **n == 0);
    let mut ready: BinaryHeap<Reverse<usize>> = ready.map(|(at, _)| Reverse(at)).collect();
    let mut order = Vec::with_capacity(steps.len());
    while let Some(Reverse(at)) = ready.pop() {
        order.push(at);
        for &to in &next[at] {
            missing[to] -= 1;
            if missing[to] == 0 {
                ready.push(Reverse(to));
            }
        }
    }
    match missing.iter().position(|n| *n > 0) {
        None => Ok(order),
        // This step can depend on a cycle without being in the cycle. The search follows its dependencies to a step in
        // the cycle.
        Some(at) => Err(walk_back(steps, &missing, at)),
    }
}

fn walk_back(steps: &[Step], missing: &[usize], mut at: usize) -> usize {
    for _ in 0..steps.len() {
        let waiting = steps[at].dependencies.iter().map(|(from, _)| *from);
        match { waiting }.find(|from| missing[*from] > 0) {
            Some(from) => at = from,
            None => break,
        }
    }
    at
}
