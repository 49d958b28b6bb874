//! The operations of graph nodes, and the data that an edge between two nodes carries.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::context::Context;
use crate::copy::{Fill, Transfer};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::kernel::Kernel;
use crate::launch::{Dim3, LaunchConfig};
use crate::memop::MemOp;
use crate::native_kernel::NativeKernel;
use crate::params::Params;

use super::Graph;
use super::conditional::ConditionalNode;
use super::memory::GraphAllocation;

/// Data that the caller stores with a node. A query of the node's parameters returns these data.
/// The runtime does not use them.
pub type Origin = Option<Arc<dyn Any + Send + Sync>>;

/// The kinds of nodes, with the numbers of `CUgraphNodeType`.
///
/// ```
/// use margay::graph::{Graph, NodeKind};
///
/// let graph = Graph::new();
/// let node = graph.add_empty(&[])?;
/// assert_eq!(node.op()?.kind(), NodeKind::Empty);
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum NodeKind {
    /// A kernel.
    Kernel = 0,
    /// A copy.
    Memcpy = 1,
    /// A fill.
    Memset = 2,
    /// A host function.
    Host = 3,
    /// A node that runs a nested graph.
    Child = 4,
    /// A node that does nothing.
    Empty = 5,
    /// A node that waits for an event.
    EventWait = 6,
    /// A node that records an event.
    EventRecord = 7,
    /// An allocation.
    MemAlloc = 10,
    /// A node that frees an allocation.
    MemFree = 11,
    /// Stream memory operations.
    MemOps = 12,
    /// A conditional node, which chooses one of its graphs or repeats a graph.
    Conditional = 13,
}

/// The operation of a node. Clones share the parameters, which never change.
///
/// ```
/// use margay::graph::{Graph, NodeOp};
///
/// let graph = Graph::new();
/// let node = graph.add(NodeOp::Empty, &[])?;
/// assert!(matches!(node.op()?, NodeOp::Empty));
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Clone)]
pub enum NodeOp {
    /// Runs a kernel.
    Kernel(Arc<KernelNode>, KernelAttributes),
    /// Copies memory.
    Memcpy(Arc<MemcpyNode>),
    /// Fills memory.
    Memset(Arc<MemsetNode>),
    /// Calls a function of the program.
    Host(Arc<HostNode>),
    /// Runs the graph that the node owns.
    Child(Graph),
    /// Does nothing, and is complete when its dependencies are complete.
    Empty,
    /// Waits for the last record of an event.
    EventWait(Event),
    /// Records an event.
    EventRecord(Event),
    /// Allocates memory of a graph.
    MemAlloc(Arc<GraphAllocation>),
    /// Frees memory of a graph.
    MemFree(Arc<GraphAllocation>),
    /// Performs stream memory operations.
    MemOps(Arc<MemOpsNode>),
    /// Runs one of the node's graphs, or runs the only graph of the node repeatedly. A value
    /// determines which graph runs, or how long the graph is repeated.
    Conditional(Arc<ConditionalNode>),
}

impl fmt::Debug for NodeOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeOp::{:?}", self.kind())
    }
}

impl NodeOp {
    /// Returns the kind of the operation.
    pub fn kind(&self) -> NodeKind {
        match self {
            NodeOp::Kernel(..) => NodeKind::Kernel,
            NodeOp::Memcpy(_) => NodeKind::Memcpy,
            NodeOp::Memset(_) => NodeKind::Memset,
            NodeOp::Host(_) => NodeKind::Host,
            NodeOp::Child(_) => NodeKind::Child,
            NodeOp::Empty => NodeKind::Empty,
            NodeOp::EventWait(_) => NodeKind::EventWait,
            NodeOp::EventRecord(_) => NodeKind::EventRecord,
            NodeOp::MemAlloc(_) => NodeKind::MemAlloc,
            NodeOp::MemFree(_) => NodeKind::MemFree,
            NodeOp::MemOps(_) => NodeKind::MemOps,
            NodeOp::Conditional(_) => NodeKind::Conditional,
        }
    }

    /// Returns an error if a parameter of the operation is invalid. Does not perform the checks for
    /// which the graph that contains the node must be known.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            NodeOp::Kernel(node, attributes) => {
                node.kernel
                    .check_launch(&node.launch(attributes), &node.params, None)?;
            }
            NodeOp::Memcpy(node) => {
                node.context.status()?;
                node.transfer.check(&node.context)?;
            }
            NodeOp::Memset(node) => {
                node.context.status()?;
                if !node.fill.check(&node.context)? {
                    return Err(Error::invalid("a fill of 0 bytes"));
                }
            }
            NodeOp::MemOps(node) => {
                node.context.status()?;
                if node.ops.is_empty() {
                    return Err(Error::invalid("an empty batch of operations"));
                }
                for op in &node.ops {
                    op.check(&node.context)?;
                }
            }
            NodeOp::EventWait(event) | NodeOp::EventRecord(event) => {
                event.check()?;
                if event.flags().interprocess {
                    return Err(Error::unsupported("interprocess events in graphs"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns whether a launch may skip the operation (`cuGraphNodeSetEnabled`).
    pub(crate) fn can_be_disabled(&self) -> bool {
        matches!(
            self,
            NodeOp::Kernel(..) | NodeOp::Memcpy(_) | NodeOp::Memset(_)
        )
    }
}

/// A kernel, and the shape and the arguments of its launch.
///
/// ```
/// use margay::graph::KernelNode;
///
/// let rt = margay::Runtime::new()?;
/// let module = rt.load_ptx(".version 7.0 .target sm_80 .address_size 64 .visible .entry nothing() { ret; }")?;
/// let kernel = module.kernel("nothing")?;
/// let params = kernel.empty_params();
/// let node = KernelNode::new(kernel, margay::LaunchConfig::new(4, 32), params, None);
/// assert_eq!((node.grid.x, node.block.x), (4, 32));
/// # Ok::<(), margay::Error>(())
/// ```
pub struct KernelNode {
    /// The kernel.
    pub kernel: Kernel,
    /// Number of blocks in each dimension of the grid.
    pub grid: Dim3,
    /// Number of threads in each dimension of a block.
    pub block: Dim3,
    /// Dynamic shared memory of a block, in bytes.
    pub shared: u32,
    /// The packed arguments.
    pub params: Params,
    /// Data that the caller has stored with the node (see [`Origin`]).
    pub origin: Origin,
    addresses: OnceLock<Box<[usize]>>,
}

impl KernelNode {
    /// Creates a kernel node with the shape in `config`. The cluster shape, the cooperative flag and the priority of
    /// `config` are not used, because they are attributes of the node ([`KernelAttributes::of`]).
    pub fn new(kernel: Kernel, config: LaunchConfig, params: Params, origin: Origin) -> KernelNode {
        KernelNode {
            kernel,
            grid: config.grid,
            block: config.block,
            shared: config.shared,
            params,
            origin,
            addresses: OnceLock::new(),
        }
    }

    /// Returns the native kernel that the node runs; `None` if it runs a kernel of a module.
    pub fn native(&self) -> Option<&NativeKernel> {
        self.params.native().map(Arc::as_ref)
    }

    /// Returns the launch configuration: the shape of this node, with the cluster shape and the cooperative flag of
    /// `attributes`.
    pub fn launch(&self, attributes: &KernelAttributes) -> LaunchConfig {
        LaunchConfig {
            grid: self.grid,
            block: self.block,
            shared: self.shared,
            cluster: attributes.cluster(),
            cooperative: attributes.cooperative(),
            priority: None,
        }
    }

    /// Returns the address of each argument. The addresses are valid while the node exists.
    pub fn argument_addresses(&self) -> &[usize] {
        self.addresses.get_or_init(|| {
            let base = self.params.address() as usize;
            let params = self.kernel.params().iter();
            params.map(|param| base + param.offset as usize).collect()
        })
    }
}

/// The value of an attribute: the bytes of `CUlaunchAttributeValue`.
pub type AttributeValue = [u8; 64];

/// The attributes of a kernel node by `CUlaunchAttributeID`. All bytes of an attribute that was not set are zero.
///
/// ```
/// use margay::graph::KernelAttributes;
///
/// let config = margay::LaunchConfig::new(1, 32).with_cooperative();
/// assert!(KernelAttributes::of(&config).cooperative());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelAttributes(BTreeMap<u32, AttributeValue>);

impl KernelAttributes {
    const COOPERATIVE: u32 = 2;
    const CLUSTER: u32 = 4;
    const PRIORITY: u32 = 8;
    /// The supported attributes: access policy window, cooperative, cluster dimension, cluster scheduling policy,
    /// priority, memory synchronisation domain map, memory synchronisation domain, preferred cluster dimension, and
    /// preferred shared-memory carve-out.
    const ALL: [u32; 9] = [1, 2, 4, 5, 8, 9, 10, 11, 14];
    /// The attribute that permits device code to change the node (unsupported).
    const DEVICE_UPDATABLE: u32 = 13;

    /// Returns the attributes of a launch configuration.
    pub fn of(config: &LaunchConfig) -> KernelAttributes {
        let mut attributes = KernelAttributes::default();
        if config.cooperative {
            attributes.put(KernelAttributes::COOPERATIVE, &[1]);
        }
        if let Some(cluster) = config.cluster {
            attributes.put(KernelAttributes::CLUSTER, &cluster.to_array());
        }
        if let Some(priority) = config.priority.filter(|&asked| asked != 0) {
            attributes.put(KernelAttributes::PRIORITY, &[priority.cast_unsigned()]);
        }
        attributes
    }

    fn put(&mut self, id: u32, words: &[u32]) {
        let mut value = [0; 64];
        for (place, word) in value.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        self.0.insert(id, value);
    }

    fn known(id: u32) -> Result<()> {
        match id {
            KernelAttributes::DEVICE_UPDATABLE => {
                Err(Error::unsupported("kernel nodes that device code updates"))
            }
            id if KernelAttributes::ALL.contains(&id) => Ok(()),
            _ => Err(Error::invalid(format!("kernel node attribute {id}"))),
        }
    }

    /// Returns the value of an attribute.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for IDs that are not attributes of a kernel node; [`Error::Unsupported`] for the
    /// attribute that permits device code to change the node.
    pub fn get(&self, id: u32) -> Result<AttributeValue> {
        KernelAttributes::known(id)?;
        Ok(self.0.get(&id).copied().unwrap_or([0; 64]))
    }

    /// Changes an attribute.
    ///
    /// # Errors
    /// Returns the same errors as [`KernelAttributes::get`].
    pub fn set(&mut self, id: u32, value: AttributeValue) -> Result<()> {
        KernelAttributes::known(id)?;
        self.0.insert(id, value);
        Ok(())
    }

    fn words(&self, id: u32) -> [u32; 3] {
        let value = self.0.get(&id).copied().unwrap_or([0; 64]);
        [0, 1, 2].map(|at| {
            let word = &value[4 * at..4 * at + 4];
            u32::from_ne_bytes(word.try_into().unwrap_or_default())
        })
    }

    /// Returns whether the launch is cooperative, so that all its blocks are allowed to wait for
    /// each other.
    pub fn cooperative(&self) -> bool {
        self.words(KernelAttributes::COOPERATIVE)[0] != 0
    }

    /// Returns the priority: 0, or a negative number for a higher priority.
    pub fn priority(&self) -> i32 {
        self.words(KernelAttributes::PRIORITY)[0].cast_signed()
    }

    fn cluster(&self) -> Option<Dim3> {
        let [x, y, z] = self.words(KernelAttributes::CLUSTER);
        (x != 0 || y != 0 || z != 0).then(|| Dim3::new(x.max(1), y.max(1), z.max(1)))
    }
}

/// The parameters of a node that copies memory. Host memory is accessed when the node runs.
///
/// ```
/// use margay::graph::MemcpyNode;
///
/// let rt = margay::Runtime::new()?;
/// let (from, to) = (rt.upload(&[1u8, 2])?, rt.alloc::<u8>(2)?);
/// let transfer = margay::Transfer::on_device(to.ptr(), from.ptr(), 2);
/// let node = MemcpyNode { transfer, context: rt.context()?, origin: None };
/// assert_eq!(node.transfer.width, 2);
/// # Ok::<(), margay::Error>(())
/// ```
pub struct MemcpyNode {
    /// The transfer.
    pub transfer: Transfer,
    /// The context in which the copy runs.
    pub context: Context,
    /// Data that the caller has stored with the node (see [`Origin`]).
    pub origin: Origin,
}

/// The parameters of a node that fills memory.
///
/// ```
/// use margay::copy::Fill;
/// use margay::graph::MemsetNode;
///
/// let rt = margay::Runtime::new()?;
/// let words = rt.alloc::<u32>(4)?;
/// let fill = Fill { dst: words.ptr().address(), value: 7, width: 4, count: 4, rows: 1, pitch: 0 };
/// let node = MemsetNode { fill, context: rt.context()? };
/// assert_eq!(node.fill.value, 7);
/// # Ok::<(), margay::Error>(())
/// ```
pub struct MemsetNode {
    /// The fill.
    pub fill: Fill,
    /// The context in which the fill runs.
    pub context: Context,
}

/// A function of the program, which is called at each launch of a graph.
pub type HostFunction = Arc<dyn Fn() + Send + Sync>;

/// The parameters of a node that calls a host function.
///
/// ```
/// use margay::graph::HostNode;
///
/// let node = HostNode { function: std::sync::Arc::new(|| println!("called")), origin: None };
/// (node.function)();
/// ```
pub struct HostNode {
    /// The function.
    pub function: HostFunction,
    /// Data that the caller has stored with the node (see [`Origin`]).
    pub origin: Origin,
}

/// The parameters of a node that performs stream memory operations.
///
/// ```
/// use margay::graph::MemOpsNode;
/// use margay::memop::MemOp;
///
/// let context = margay::Runtime::new()?.context()?;
/// let node = MemOpsNode { ops: vec![MemOp::Barrier], context, origin: None };
/// assert_eq!(node.ops.len(), 1);
/// # Ok::<(), margay::Error>(())
/// ```
pub struct MemOpsNode {
    /// The operations. [`Graph::add`] requires at least one.
    pub ops: Vec<MemOp>,
    /// The context in which the operations run.
    pub context: Context,
    /// Data that the caller has stored with the node (see [`Origin`]).
    pub origin: Origin,
}

/// The data of an edge, apart from its nodes (`CUgraphEdgeData`).
///
/// ```
/// use margay::graph::EdgeData;
///
/// assert!(EdgeData::default().is_plain());
/// assert!(!EdgeData { from_port: 1, to_port: 0, kind: 1 }.is_plain());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct EdgeData {
    /// The point in the execution of the first node after which the second node may start. The
    /// value 0 stands for the completion of the first node. The value 1 (programmatic) is permitted
    /// only for a programmatic dependency. The value 2 (launch order) is permitted if the first
    /// node is a kernel. Margay treats the values 1 and 2 like 0.
    pub from_port: u8,
    /// Always 0.
    pub to_port: u8,
    /// Kind of the dependency: 0 is an ordinary dependency, 1 is a programmatic dependency, which only two kernels can
    /// have and for which `from_port` must be 1 or 2.
    pub kind: u8,
}

impl EdgeData {
    const PROGRAMMATIC: u8 = 1;

    /// Returns whether all fields are 0: the second node starts when the first node is complete.
    pub fn is_plain(self) -> bool {
        self == EdgeData::default()
    }

    /// Returns an error if an edge from a node of kind `from` to a node of kind `to` cannot have
    /// this data.
    pub(crate) fn check(self, from: NodeKind, to: NodeKind) -> Result<()> {
        let kernels = from == NodeKind::Kernel && to == NodeKind::Kernel;
        let good = self.to_port == 0
            && match (self.kind, self.from_port) {
                (0, 0) => true,
                (0, 2) => from == NodeKind::Kernel,
                (EdgeData::PROGRAMMATIC, 1 | 2) => kernels,
                _ => false,
            };
        match good {
            true => Ok(()),
            false => Err(Error::invalid(format!("{self:?} from {from:?} to {to:?}"))),
        }
    }
}
