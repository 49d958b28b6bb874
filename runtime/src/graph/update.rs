//! Changes to an executable graph. A change replaces the parameters of a single node, or it
//! replaces the parameters of all nodes by those of the corresponding nodes of another graph.
//!
//! An update first pairs the nodes of the two graphs. The search for pairs begins with the nodes on
//! which no other node depends, and follows the edges backwards. Nodes and edges are visited in the
//! order in which they were added (CUDA driver API, `cuGraphExecUpdate`). Invariant: if an update
//! fails, the executable graph is unchanged.

use std::sync::Arc;

use super::exec::not_here;
use super::plan::{Plan, PlanGraph, StepOp};
use super::user_object::References;
use super::{Graph, GraphExec, Node, NodeOp};
use crate::copy::Transfer;
use crate::error::{Error, Result};

/// The reason why an update failed. The numbers of the variants are those of
/// `CUgraphExecUpdateResult`.
///
/// ```
/// use margay::graph::{Graph, UpdateReason};
///
/// let (old, new) = (Graph::new(), Graph::new());
/// old.add_empty(&[])?;
/// let exec = old.instantiate(Default::default())?;
/// let problem = exec.update(&new).err();
/// assert_eq!(problem.map(|p| p.reason), Some(UpdateReason::TopologyChanged));
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum UpdateReason {
    /// The field `error` of [`UpdateProblem`] describes the reason.
    Error = 1,
    /// The two graphs have different numbers of nodes or different edges.
    TopologyChanged = 2,
    /// The kinds of two corresponding nodes differ.
    NodeTypeChanged = 3,
    /// The new node has different values of parameters that an update cannot change.
    ParametersChanged = 5,
    /// A node of this kind cannot be updated.
    NotSupported = 6,
    /// The new kernel and the kernel that it would replace belong to different contexts.
    UnsupportedFunctionChange = 7,
    /// The new node has different values of attributes that an update cannot change.
    AttributesChanged = 8,
}

/// The reason why an update failed, and the node that causes the problem.
///
/// ```
/// use margay::graph::Graph;
///
/// let (old, new) = (Graph::new(), Graph::new());
/// old.add_empty(&[])?;
/// let problem = old.instantiate(Default::default())?.update(&new).err();
/// assert!(matches!(margay::Error::from(problem.expect("a node is gone")), margay::Error::GraphUpdate(_)));
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct UpdateProblem {
    /// The kind of the problem.
    pub reason: UpdateReason,
    /// The node of the new graph that causes the problem; `None` if no node causes the problem.
    pub node: Option<Node>,
    /// If the problem is an edge of the new graph, the node at which this edge begins.
    pub from: Option<Node>,
    /// The error, if the reason is [`UpdateReason::Error`].
    pub error: Option<Error>,
}

impl UpdateProblem {
    fn at(reason: UpdateReason, origin: u64) -> UpdateProblem {
        UpdateProblem {
            reason,
            node: Node::by_id(origin),
            from: None,
            error: None,
        }
    }

    fn error(error: Error) -> UpdateProblem {
        UpdateProblem {
            reason: UpdateReason::Error,
            node: None,
            from: None,
            error: Some(error),
        }
    }
}

impl From<UpdateProblem> for Error {
    fn from(problem: UpdateProblem) -> Error {
        match problem.error {
            Some(error) => error,
            None => Error::GraphUpdate(format!("{:?}", problem.reason)),
        }
    }
}

/// Returns, for each step of the old graph, the index of the corresponding step of the new graph.
fn pair(old: &PlanGraph, new: &PlanGraph) -> Result<Vec<usize>, UpdateProblem> {
    use UpdateReason::TopologyChanged;
    if old.steps.len() != new.steps.len() {
        return Err(UpdateProblem {
            reason: TopologyChanged,
            node: None,
            from: None,
            error: None,
        });
    }
    let exits = |graph: &PlanGraph| -> Vec<usize> {
        let steps = graph.steps.iter().enumerate();
        steps.filter(|(_, s)| s.last).map(|(at, _)| at).collect()
    };
    let (old_exits, new_exits) = (exits(old), exits(new));
    if old_exits.len() != new_exits.len() {
        let more = new_exits.get(old_exits.len()).or(new_exits.last());
        let origin = more.map_or(0, |at| new.steps[*at].origin);
        return Err(UpdateProblem::at(TopologyChanged, origin));
    }
    let mut pairs: Vec<Option<usize>> = vec![None; old.steps.len()];
    let mut taken = vec![false; new.steps.len()];
    let mut todo: Vec<(usize, usize)> = Vec::new();
    for (&a, &b) in old_exits.iter().zip(&new_exits) {
        pairs[a] = Some(b);
        taken[b] = true;
        todo.push((a, b));
    }
    while let Some((a, b)) = todo.pop() {
        let (from_old, from_new) = (&old.steps[a].dependencies, &new.steps[b].dependencies);
        let here = UpdateProblem::at(TopologyChanged, new.steps[b].origin);
        if from_old.len() != from_new.len() {
            return Err(here);
        }
        for ((x, x_data), (y, y_data)) in from_old.iter().zip(from_new) {
            let same = match pairs[*x] {
                Some(other) => other == *y,
                None => !taken[*y],
            };
            if !same || x_data != y_data {
                return Err(UpdateProblem {
                    from: Node::by_id(new.steps[*y].origin),
                    ..here
                });
            }
            if pairs[*x].is_none() {
                pairs[*x] = Some(*y);
                taken[*y] = true;
                todo.push((*x, *y));
            }
        }
    }
    pairs
        .into_iter()
        .collect::<Option<Vec<_>>>()
        .ok_or(UpdateProblem {
            reason: TopologyChanged,
            node: None,
            from: None,
            error: None,
        })
}

/// Returns an error if an update must not replace the operation `old` by `new`. The caller ensures that the two
/// operations have the same kind.
fn replaces(old: &NodeOp, new: &NodeOp) -> Result<(), UpdateReason> {
    use UpdateReason as R;
    match (old, new) {
        (NodeOp::Kernel(old, old_attributes), NodeOp::Kernel(new, attributes)) => {
            if old.kernel.module().context() != new.kernel.module().context() {
                return Err(R::UnsupportedFunctionChange);
            }
            match old_attributes.cooperative() == attributes.cooperative() {
                true => Ok(()),
                false => Err(R::AttributesChanged),
            }
        }
        (NodeOp::Memcpy(old), NodeOp::Memcpy(new)) => {
            let same = old.context == new.context
                && old.transfer.direction == new.transfer.direction
                && is_linear(&old.transfer)
                && is_linear(&new.transfer);
            let equal = old.transfer == new.transfer && old.context == new.context;
            if same || equal {
                return Ok(());
            }
            Err(R::ParametersChanged)
        }
        (NodeOp::Memset(old), NodeOp::Memset(new)) => {
            let shape = |fill: &crate::copy::Fill| (fill.width, fill.count, fill.rows, fill.pitch);
            let flat = old.fill.rows == 1 && new.fill.rows == 1;
            let same = flat || shape(&old.fill) == shape(&new.fill);
            match same && old.context == new.context {
                true => Ok(()),
                false => Err(R::ParametersChanged),
            }
        }
        (NodeOp::MemAlloc(old), NodeOp::MemAlloc(new))
        | (NodeOp::MemFree(old), NodeOp::MemFree(new)) => match Arc::ptr_eq(old, new) {
            true => Ok(()),
            false => Err(R::NotSupported),
        },
        _ => Ok(()),
    }
}

fn is_linear(transfer: &Transfer) -> bool {
    transfer.height == 1 && transfer.depth == 1
}

impl GraphExec {
    /// Replaces the operation of a node by another operation of the same kind. The change applies only to later
    /// launches.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for nodes of other graphs, for an operation of another kind or context, and for changes
    /// that an executable graph does not permit; [`Error::Unsupported`] for allocations, frees and empty nodes; for
    /// kernels also the errors of a launch.
    pub fn set_op(&self, node: &Node, op: NodeOp) -> Result<()> {
        let mut state = self.inner.state.lock();
        let (graph, at) = state.plan.find(node).ok_or_else(not_here)?;
        let step = &state.plan.graphs[graph].steps[at];
        let StepOp::Node(old) = &step.op else {
            return Err(Error::invalid("the node is of a different kind"));
        };
        if old.kind() != op.kind() {
            return Err(Error::invalid("the node is of a different kind"));
        }
        if matches!(op, NodeOp::MemAlloc(_) | NodeOp::MemFree(_) | NodeOp::Empty) {
            return Err(Error::unsupported("new parameters for a node of this kind"));
        }
        let op = match (old, op) {
            // The attributes of a kernel node are not part of its parameters, so the node keeps its attributes.
            (NodeOp::Kernel(_, attributes), NodeOp::Kernel(new, _)) => {
                NodeOp::Kernel(new, attributes.clone())
            }
            (_, op) => op,
        };
        replaces(old, &op)
            .map_err(|reason| Error::invalid(format!("the node cannot change: {reason:?}")))?;
        op.check_executable()?;
        Arc::make_mut(&mut state.plan).graphs[graph].steps[at].op = StepOp::Node(op);
        Ok(())
    }

    /// Updates the nested graph of a child node. The change applies only to later launches.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for nodes that the executable graph does not have, for nodes that are not child nodes,
    /// and for each reason for which [`GraphExec::update`] fails.
    pub fn set_child(&self, node: &Node, child: &Graph) -> Result<()> {
        let mut state = self.inner.state.lock();
        let (graph, at) = state.plan.find(node).ok_or_else(not_here)?;
        let StepOp::Child(number) = state.plan.graphs[graph].steps[at].op else {
            return Err(Error::invalid("the node is of a different kind"));
        };
        let new = Plan::of(child)?;
        let mut plan = (*state.plan).clone();
        // According to CUDA's documentation, this call returns the same error code for all differences between the
        // graphs.
        plan.adopt(number, &new, 0)
            .map_err(|problem| Error::invalid(Error::from(problem).to_string()))?;
        state.plan = Arc::new(plan);
        Ok(())
    }

    /// Replaces the parameters of all nodes by the parameters of the nodes of another graph, which
    /// must have the same nodes and edges (`cuGraphExecUpdate`).
    ///
    /// # Errors
    /// Returns an [`UpdateProblem`] if the update fails. The executable graph is then unchanged.
    pub fn update(&self, graph: &Graph) -> Result<(), UpdateProblem> {
        let new = Plan::of(graph).map_err(|problem| UpdateProblem::error(problem.error))?;
        let mut state = self.inner.state.lock();
        let mut plan = (*state.plan).clone();
        plan.adopt(0, &new, 0)?;
        plan.handles.clone_from(&new.handles);
        state.plan = Arc::new(plan);
        // From now on, the executable graph keeps the user objects of the new graph. The user objects that only the old
        // graph had are kept until the incomplete launches are complete.
        let mut references = References::default();
        graph.collect_references(&mut references);
        let before = std::mem::replace(&mut state.references, Arc::new(references));
        drop(state);
        drop(before);
        Ok(())
    }
}

impl Plan {
    /// Copies the operations of the graph with index `theirs` in `new` to the steps of the graph with index `ours` in
    /// this plan.
    fn adopt(&mut self, ours: usize, new: &Plan, theirs: usize) -> Result<(), UpdateProblem> {
        let pairs = pair(&self.graphs[ours], &new.graphs[theirs])?;
        for (at, other) in pairs.into_iter().enumerate() {
            let step = &new.graphs[theirs].steps[other];
            let problem = |reason| UpdateProblem::at(reason, step.origin);
            let old = self.graphs[ours].steps[at].op.clone();
            if old.kind() != step.op.kind() {
                return Err(problem(UpdateReason::NodeTypeChanged));
            }
            match (old, &step.op) {
                (StepOp::Node(old), StepOp::Node(op)) => {
                    replaces(&old, op).map_err(problem)?;
                    op.check_executable().map_err(|error| UpdateProblem {
                        error: Some(error),
                        ..problem(UpdateReason::Error)
                    })?;
                    self.graphs[ours].steps[at].op = StepOp::Node(op.clone());
                }
                (StepOp::Child(ours), StepOp::Child(theirs)) => self.adopt(ours, new, *theirs)?,
                (StepOp::Conditional(old, bodies), StepOp::Conditional(node, others)) => {
                    if old.kind() != node.kind() || bodies.len() != others.len() {
                        return Err(problem(UpdateReason::ParametersChanged));
                    }
                    for (ours, theirs) in bodies.iter().zip(others) {
                        self.adopt(*ours, new, *theirs)?;
                    }
                    let op = StepOp::Conditional(Arc::clone(node), bodies);
                    self.graphs[ours].steps[at].op = op;
                }
                _ => return Err(problem(UpdateReason::NodeTypeChanged)),
            }
        }
        Ok(())
    }
}
