//! Adds and removes edges, removes nodes, and changes the parameters of nodes.

use rustc_hash::FxHashSet;

use super::{EdgeData, Graph, GraphState, Node, NodeOp, no_such_node, registry};
use crate::error::{Error, Result};

/// An edge: the first node, the second node, which depends on the first node, and the data of the edge.
pub type Edge = (Node, Node, EdgeData);

impl GraphState {
    /// Returns an error if the edge is from a node to itself, if it exists already, or if the kinds of the two nodes do
    /// not permit `data`.
    fn check_edge(&self, from: u64, to: u64, data: EdgeData) -> Result<()> {
        let (source, target) = (self.node(from)?, self.node(to)?);
        if from == to {
            return Err(Error::invalid("a node cannot depend on itself"));
        }
        data.check(source.op.kind(), target.op.kind())?;
        if target.dependencies.get(from).is_some() {
            return Err(Error::invalid("the edge exists already"));
        }
        Ok(())
    }

    pub(super) fn link(&mut self, from: u64, to: u64, data: EdgeData) -> Result<()> {
        self.node_mut(to)?.dependencies.push(from, data);
        self.node_mut(from)?.dependents.push(to, ());
        Ok(())
    }

    /// Removes edges. Each element of `edges` contains the first node and the second node of an
    /// edge.
    fn unlink(&mut self, edges: impl IntoIterator<Item = (u64, u64)>) {
        for (from, to) in edges {
            if let Some(node) = self.nodes.get_mut(&from) {
                node.dependents.remove(to);
            }
            if let Some(node) = self.nodes.get_mut(&to) {
                node.dependencies.remove(from);
            }
        }
    }
}

impl Graph {
    fn own(&self, node: &Node) -> Result<u64> {
        let same = std::ptr::eq(node.graph.as_ptr(), std::sync::Arc::as_ptr(&self.inner));
        same.then_some(node.id).ok_or_else(no_such_node)
    }

    /// Returns all edges, in the order of the dependent nodes.
    pub fn edges(&self) -> Vec<Edge> {
        let state = self.inner.state.lock();
        let mut edges = Vec::new();
        for node in state.nodes.values() {
            for (from, data) in node.dependencies.iter() {
                edges.push((self.node_of(from), self.node_of(node.id), data));
            }
        }
        edges
    }

    /// Adds all edges in `edges`. If one of these edges is invalid, adds none of them.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for nodes of other graphs, for an edge that already exists or occurs twice in `edges`,
    /// for an edge from a node to itself, and for edge data that the nodes do not permit.
    pub fn add_edges(&self, edges: &[Edge]) -> Result<()> {
        let mut state = self.inner.state.lock();
        for (done, (from, to, data)) in edges.iter().enumerate() {
            let checked = self.own(from).and_then(|from| {
                let to = self.own(to)?;
                state.check_edge(from, to, *data)?;
                state.link(from, to, *data)
            });
            if let Err(error) = checked {
                let done = edges[..done].iter();
                state.unlink(done.map(|(from, to, _)| (from.id, to.id)));
                return Err(error);
            }
        }
        Ok(())
    }

    /// Removes all edges in `edges`. If one of these edges is invalid, removes none of them.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for edges that do not exist with the given data or occur twice in `edges`, and for
    /// graphs that have memory nodes, because their edges cannot be removed.
    pub fn remove_edges(&self, edges: &[Edge]) -> Result<()> {
        let mut state = self.inner.state.lock();
        if !edges.is_empty() && !state.memory_nodes.is_empty() {
            return Err(Error::invalid(
                "edges of graphs with memory nodes cannot be removed",
            ));
        }
        let mut removed = FxHashSet::default();
        for (from, to, data) in edges {
            let (from, to) = (self.own(from)?, self.own(to)?);
            if !removed.insert((from, to)) || state.node(to)?.dependencies.get(from) != Some(*data)
            {
                return Err(Error::invalid("no such edge"));
            }
        }
        state.unlink(removed);
        Ok(())
    }
}

impl Node {
    /// Removes the node and its edges from its graph (`cuGraphDestroyNode`).
    ///
    /// # Errors
    /// [`Error::InvalidValue`] if the node no longer exists or its graph has memory nodes.
    pub fn remove(&self) -> Result<()> {
        let graph = self.graph()?;
        let mut state = graph.inner.state.lock();
        if !state.memory_nodes.is_empty() {
            return Err(Error::invalid(
                "nodes of graphs with memory nodes cannot be removed",
            ));
        }
        let node = state.node(self.id)?.clone();
        let dependencies = node.dependencies.iter().map(|(from, _)| (from, self.id));
        let dependents = node.dependents.iter().map(|(to, ())| (self.id, to));
        state.unlink(dependencies.chain(dependents));
        let removed = state.nodes.remove(&self.id);
        registry::NODES.remove(&self.id);
        drop(state);
        // The nested graphs that the node may own are dropped here, while no lock is held.
        drop((node, removed));
        Ok(())
    }

    /// Replaces the node's operation by an operation of the same kind (`cuGraphNodeSetParams`).
    ///
    /// # Errors
    /// [`Error::InvalidValue`] if the node no longer exists or if the two operations have different
    /// kinds; [`Error::Unsupported`] for kinds whose parameters cannot change; and the errors that
    /// [`Graph::add`] returns for such an operation.
    pub fn set_op(&self, op: NodeOp) -> Result<()> {
        op.check()?;
        let graph = self.graph()?;
        let mut state = graph.inner.state.lock();
        let node = state.node_mut(self.id)?;
        if node.op.kind() != op.kind() {
            return Err(Error::invalid("the node is of a different kind"));
        }
        if let NodeOp::Child(_)
        | NodeOp::MemAlloc(_)
        | NodeOp::MemFree(_)
        | NodeOp::Conditional(_)
        | NodeOp::Empty = op
        {
            return Err(Error::unsupported("new parameters for a node of this kind"));
        }
        let old = std::mem::replace(&mut node.op, op);
        drop(state);
        drop(old);
        Ok(())
    }
}
