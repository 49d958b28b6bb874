//! Adds nodes to graphs.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::links::Links;
use super::memory::GraphAllocation;
use super::{
    ConditionalHandle, ConditionalKind, ConditionalNode, EdgeData, Graph, GraphState, HostFunction,
    HostNode, KernelAttributes, KernelNode, MemOpsNode, MemcpyNode, MemoryNodes, MemsetNode, Node,
    NodeData, NodeOp, no_such_node, registry,
};
use crate::args::KernelArgs;
use crate::context::Context;
use crate::copy::{Fill, Transfer};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::kernel::Kernel;
use crate::launch::LaunchConfig;
use crate::memop::MemOp;
use crate::native_kernel::NativeKernel;
use crate::pointer::DevicePtr;
use crate::process::next_id;

impl GraphState {
    fn push(&mut self, id: u64, op: NodeOp) {
        let local = self.next_local;
        self.next_local += 1;
        self.memory_nodes.add(&op);
        let node = NodeData {
            id,
            local,
            op,
            dependencies: Links::default(),
            dependents: Links::default(),
        };
        self.nodes.insert(id, node);
    }

    /// If `op` frees an allocation, checks that this graph may free the allocation, and records in the allocation that
    /// a node frees it. Accepts all other operations.
    fn check_memory(&self, op: &NodeOp) -> Result<()> {
        let NodeOp::MemFree(freed) = op else {
            return Ok(());
        };
        let address = Arc::as_ptr(freed).addr();
        if self.memory_nodes.freed.contains(&address) {
            return Err(Error::invalid(
                "the allocation is freed in this graph already",
            ));
        }
        freed.freed_by(self.memory_nodes.allocated.contains(&address))
    }
}

impl MemoryNodes {
    pub(super) fn is_empty(&self) -> bool {
        self.allocated.is_empty() && self.freed.is_empty()
    }

    fn add(&mut self, op: &NodeOp) {
        match op {
            NodeOp::MemAlloc(allocation) => self.allocated.insert(Arc::as_ptr(allocation).addr()),
            NodeOp::MemFree(allocation) => self.freed.insert(Arc::as_ptr(allocation).addr()),
            _ => false,
        };
    }
}

/// Maximum nesting depth of graphs. Operations on nested graphs are recursive and use stack memory for each level.
const MAX_NESTED: usize = 100;

impl Graph {
    /// Adds a node that depends on `dependencies`.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for dependencies of other graphs, for duplicate dependencies and for invalid parameters;
    /// [`Error::Unsupported`] if graphs are nested too deeply, and for interprocess events; for child graphs also the
    /// errors of [`Graph::duplicate`]; for kernels also the errors of a launch.
    pub fn add(&self, op: NodeOp, dependencies: &[(Node, EdgeData)]) -> Result<Node> {
        op.check()?;
        let op = match op {
            NodeOp::Child(child) => return self.add_copy_of(&child, dependencies),
            NodeOp::Conditional(node) if node.bodies().iter().any(Graph::is_owned) => {
                return Err(Error::invalid("the conditional node belongs to a graph"));
            }
            op => op,
        };
        self.insert(op, dependencies)
    }

    fn insert(&self, op: NodeOp, dependencies: &[(Node, EdgeData)]) -> Result<Node> {
        let inside = match &op {
            NodeOp::Child(child) => 1 + child.height(),
            NodeOp::Conditional(_) => 1,
            _ => 0,
        };
        if inside > 0 && self.and_around().count() - 1 + inside > MAX_NESTED {
            return Err(Error::unsupported(format!(
                "graphs that are nested more than {MAX_NESTED} deep"
            )));
        }
        let mut state = self.inner.state.lock();
        let mut seen = FxHashSet::default();
        for (node, data) in dependencies {
            let here = std::ptr::eq(node.graph.as_ptr(), Arc::as_ptr(&self.inner));
            if !here {
                return Err(no_such_node());
            }
            data.check(state.node(node.id)?.op.kind(), op.kind())?;
            if !seen.insert(node.id) {
                return Err(Error::invalid("a dependency is listed twice"));
            }
        }
        state.check_memory(&op)?;
        let id = next_id();
        let owned = match &op {
            NodeOp::Child(child) => vec![child.clone()],
            NodeOp::Conditional(node) => node.bodies().to_vec(),
            _ => Vec::new(),
        };
        state.push(id, op);
        for (node, data) in dependencies {
            state.link(node.id, id, *data)?;
        }
        for graph in owned {
            graph.inner.state.lock().owner = Some(self.node_of(id));
        }
        registry::NODES.add(id, Arc::downgrade(&self.inner));
        Ok(self.node_of(id))
    }

    /// Adds a node that runs a kernel with typed arguments.
    ///
    /// # Errors
    /// Returns the same errors as [`Graph::add`].
    pub fn add_kernel<A: KernelArgs>(
        &self,
        dependencies: &[Node],
        kernel: &Kernel,
        config: LaunchConfig,
        args: A,
    ) -> Result<Node> {
        let mut params = kernel.empty_params();
        args.pack(&kernel.info().params, params.bytes_mut())?;
        let node = KernelNode::new(kernel.clone(), config, params, None);
        let op = NodeOp::Kernel(Arc::new(node), KernelAttributes::of(&config));
        self.add(op, &plain(dependencies))
    }

    /// Adds a node that runs a native kernel in `context`. Each launch of the graph runs all tasks again.
    ///
    /// # Errors
    /// Returns the same errors as [`Graph::add`].
    pub fn add_native(
        &self,
        dependencies: &[Node],
        context: &Context,
        kernel: &NativeKernel,
    ) -> Result<Node> {
        context.status()?;
        let (bound, config, params) = Kernel::of_native(context, kernel)?;
        if kernel.tasks() == 0 {
            return self.add_empty(dependencies);
        }
        let node = KernelNode::new(bound, config, params, None);
        let op = NodeOp::Kernel(Arc::new(node), KernelAttributes::of(&config));
        self.add(op, &plain(dependencies))
    }

    /// Adds a node that copies memory.
    ///
    /// # Safety
    /// Host memory in the transfer must be valid at each launch of the graph.
    ///
    /// # Errors
    /// Returns the same errors as [`Graph::add`].
    pub unsafe fn add_copy(
        &self,
        dependencies: &[Node],
        context: &Context,
        transfer: Transfer,
    ) -> Result<Node> {
        let node = MemcpyNode {
            transfer,
            context: context.clone(),
            origin: None,
        };
        self.add(NodeOp::Memcpy(Arc::new(node)), &plain(dependencies))
    }

    /// Adds a node that fills memory.
    ///
    /// # Errors
    /// Returns the same errors as [`Graph::add`].
    pub fn add_fill(&self, dependencies: &[Node], context: &Context, fill: Fill) -> Result<Node> {
        let node = MemsetNode {
            fill,
            context: context.clone(),
        };
        self.add(NodeOp::Memset(Arc::new(node)), &plain(dependencies))
    }

    /// Adds a node that calls a function at each launch of the graph.
    ///
    /// # Errors
    /// Returns the same errors as [`Graph::add`].
    pub fn add_host(&self, dependencies: &[Node], function: HostFunction) -> Result<Node> {
        let node = HostNode {
            function,
            origin: None,
        };
        self.add(NodeOp::Host(Arc::new(node)), &plain(dependencies))
    }

    /// Adds a node that does nothing.
    ///
    /// # Errors
    /// Returns the same errors as [`Graph::add`].
    pub fn add_empty(&self, dependencies: &[Node]) -> Result<Node> {
        self.add(NodeOp::Empty, &plain(dependencies))
    }

    /// Adds a node that records an event.
    ///
    /// # Errors
    /// Returns the same errors as [`Graph::add`].
    pub fn add_event_record(&self, dependencies: &[Node], event: &Event) -> Result<Node> {
        self.add(NodeOp::EventRecord(event.clone()), &plain(dependencies))
    }

    /// Adds a node that waits for an event.
    ///
    /// # Errors
    /// Returns the same errors as [`Graph::add`].
    pub fn add_event_wait(&self, dependencies: &[Node], event: &Event) -> Result<Node> {
        self.add(NodeOp::EventWait(event.clone()), &plain(dependencies))
    }

    /// Adds a node that performs stream memory operations.
    ///
    /// # Errors
    /// Returns the same errors as [`Graph::add`].
    pub fn add_memory_ops(
        &self,
        dependencies: &[Node],
        context: &Context,
        ops: Vec<MemOp>,
    ) -> Result<Node> {
        let node = MemOpsNode {
            ops,
            context: context.clone(),
            origin: None,
        };
        self.add(NodeOp::MemOps(Arc::new(node)), &plain(dependencies))
    }

    /// Adds a node that allocates memory; returns the node and the address. The address is the same at every launch.
    ///
    /// # Errors
    /// Returns the same errors as [`Graph::add`], and [`Error::OutOfMemory`].
    pub fn add_alloc(
        &self,
        dependencies: &[Node],
        context: &Context,
        bytes: u64,
    ) -> Result<(Node, DevicePtr)> {
        let allocation = GraphAllocation::new(context, bytes)?;
        let ptr = allocation.ptr();
        let node = self.add(NodeOp::MemAlloc(allocation), &plain(dependencies))?;
        Ok((node, ptr))
    }

    /// Adds a node that frees an allocation of this or another graph.
    ///
    /// # Errors
    /// Returns the same errors as [`Graph::add`], and [`Error::InvalidValue`] if no allocation of a graph begins at
    /// `ptr`. Also returns [`Error::InvalidValue`] if a node of this graph, or a node of the graph that contains the
    /// allocation node, already frees the allocation. If this graph contains the allocation node, the function also
    /// returns this error if a node of any other graph already frees the allocation.
    pub fn add_free(&self, dependencies: &[Node], ptr: DevicePtr) -> Result<Node> {
        self.add_free_behind(&plain(dependencies), ptr)
    }

    /// Does the same as [`Graph::add_free`], but for dependencies with edge data.
    ///
    /// # Errors
    /// Returns the same errors as [`Graph::add_free`].
    pub fn add_free_behind(
        &self,
        dependencies: &[(Node, EdgeData)],
        ptr: DevicePtr,
    ) -> Result<Node> {
        let op = NodeOp::MemFree(super::memory::find(ptr.address())?);
        self.add(op, dependencies)
    }

    /// Adds a node that runs a copy of `child`.
    ///
    /// # Errors
    /// Returns the same errors as [`Graph::add`] and [`Graph::duplicate`].
    pub fn add_child(&self, dependencies: &[Node], child: &Graph) -> Result<Node> {
        self.add_copy_of(child, &plain(dependencies))
    }

    fn add_copy_of(&self, child: &Graph, dependencies: &[(Node, EdgeData)]) -> Result<Node> {
        self.insert(NodeOp::Child(child.duplicate()?), dependencies)
    }

    /// Adds a node that runs `child`, and makes the node the owner of `child`.
    ///
    /// # Errors
    /// Returns the same errors as [`Graph::add`], and [`Error::InvalidValue`] if a node already owns `child`, if
    /// `child` is this graph or contains this graph, if `child` has conditional nodes, or if `child` has memory nodes
    /// and an executable graph of it exists.
    pub fn add_moved(&self, child: &Graph, dependencies: &[(Node, EdgeData)]) -> Result<Node> {
        if self.and_around().any(|graph| graph == *child) {
            return Err(Error::invalid("a graph cannot contain itself"));
        }
        if child.is_owned() || child.has_conditionals() {
            return Err(Error::invalid("the graph cannot be moved into a node"));
        }
        if child.inner.state.lock().only_exec.strong_count() > 0 {
            return Err(Error::invalid("the graph has an executable graph"));
        }
        self.insert(NodeOp::Child(child.clone()), dependencies)
    }

    /// Creates a handle for the value of a conditional node of this graph. Device code sets the value, and the node
    /// tests it. If `assign` is true, each launch resets the value to `default`.
    pub fn conditional_handle(
        &self,
        context: &Context,
        default: u32,
        assign: bool,
    ) -> Arc<ConditionalHandle> {
        let handle = ConditionalHandle::new(context, default, assign);
        self.inner.state.lock().handles.push(Arc::clone(&handle));
        handle
    }

    /// Adds a conditional node with `size` empty body graphs.
    ///
    /// # Errors
    /// Returns the same errors as [`Graph::add`], and [`Error::InvalidValue`] for a size that `kind` does not permit or
    /// a handle that another node uses.
    pub fn add_conditional(
        &self,
        dependencies: &[(Node, EdgeData)],
        handle: &Arc<ConditionalHandle>,
        kind: ConditionalKind,
        size: u32,
    ) -> Result<(Node, Arc<ConditionalNode>)> {
        let node = ConditionalNode::new(handle, kind, size)?;
        let added = self.insert(NodeOp::Conditional(Arc::clone(&node)), dependencies);
        match added {
            Ok(added) => Ok((added, node)),
            Err(error) => {
                handle.set_used(false);
                Err(error)
            }
        }
    }

    /// Returns whether this graph has a handle that no conditional node uses.
    pub(super) fn has_unused_handles(&self) -> bool {
        let state = self.inner.state.lock();
        state.handles.iter().any(|handle| !handle.is_used())
    }

    /// Creates an empty graph that is the body of a conditional node.
    pub(super) fn body() -> Graph {
        let graph = Graph::new();
        graph.inner.state.lock().body = true;
        graph
    }
}

fn plain(nodes: &[Node]) -> Vec<(Node, EdgeData)> {
    nodes
        .iter()
        .map(|node| (node.clone(), EdgeData::default()))
        .collect()
}
