//! What a node does, and what an edge says.

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
use crate::params::Params;

use super::Graph;
use super::conditional::ConditionalNode;
use super::memory::GraphAllocation;

/// What the caller wants back when it asks for a node's parameters; the runtime never looks at it.
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
    /// A graph inside the graph.
    Child = 4,
    /// Nothing.
    Empty = 5,
    /// A wait for an event.
    EventWait = 6,
    /// A record of an event.
    EventRecord = 7,
    /// An allocation.
    MemAlloc = 10,
    /// The end of an allocation.
    MemFree = 11,
    /// Stream memory operations.
    MemOps = 12,
    /// A choice or a loop.
    Conditional = 13,
}

/// What a node does. Clones share the parts, which never change.
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
    /// Copies.
    Memcpy(Arc<MemcpyNode>),
    /// Fills.
    Memset(Arc<MemsetNode>),
    /// Calls a function of the program.
    Host(Arc<HostNode>),
    /// Runs the graph that it owns.
    Child(Graph),
    /// Joins its dependencies.
    Empty,
    /// Waits for an event's last record.
    EventWait(Event),
    /// Records an event.
    EventRecord(Event),
    /// Begins an allocation.
    MemAlloc(Arc<GraphAllocation>),
    /// Ends an allocation.
    MemFree(Arc<GraphAllocation>),
    /// Waits for memory and writes it.
    MemOps(Arc<MemOpsNode>),
    /// Runs one of its graphs, or one again and again.
    Conditional(Arc<ConditionalNode>),
}

impl fmt::Debug for NodeOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeOp::{:?}", self.kind())
    }
}

impl NodeOp {
    /// Its kind.
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

    /// Checks the parts that need no graph.
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            NodeOp::Kernel(node, attributes) => {
                node.kernel
                    .check_launch(&node.launch(attributes), &node.params)?;
            }
            NodeOp::Memcpy(node) => {
                node.context.status()?;
                node.transfer.check(&node.context)?;
            }
            NodeOp::Memset(node) => {
                node.context.status()?;
                if !node.fill.check(&node.context)? {
                    return Err(Error::invalid("a fill of nothing"));
                }
            }
            NodeOp::MemOps(node) => {
                node.context.status()?;
                if node.ops.is_empty() {
                    return Err(Error::invalid("a batch of no operations"));
                }
                for op in &node.ops {
                    op.check(&node.context)?;
                }
            }
            NodeOp::EventWait(event) | NodeOp::EventRecord(event) => {
                event.check()?;
                if event.flags().interprocess {
                    return Err(Error::unsupported("events of several processes in graphs"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether a launch may leave it out (`cuGraphNodeSetEnabled`).
    pub(crate) fn can_be_disabled(&self) -> bool {
        matches!(
            self,
            NodeOp::Kernel(..) | NodeOp::Memcpy(_) | NodeOp::Memset(_)
        )
    }
}

/// A kernel with its shape and arguments.
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
    /// Blocks in the grid.
    pub grid: Dim3,
    /// Threads in a block.
    pub block: Dim3,
    /// Dynamic shared memory of a block, in bytes.
    pub shared: u32,
    /// The packed arguments.
    pub params: Params,
    /// See [`Origin`].
    pub origin: Origin,
    addresses: OnceLock<Box<[usize]>>,
}

impl KernelNode {
    /// A kernel node; cluster and cooperation of `config` are attributes of a node.
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

    /// The shape with what the attributes add.
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

    /// Where each argument lies, for as long as the node keeps them.
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

/// The attributes of a kernel node by `CUlaunchAttributeID`; those that were not set are zero.
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
    /// Access policy window, cooperative, cluster dimension and its policy, priority, memory
    /// synchronisation domain map and domain, preferred cluster, carve-out of shared memory.
    const ALL: [u32; 9] = [1, 2, 4, 5, 8, 9, 10, 11, 14];
    /// A node that device code may change.
    const DEVICE_UPDATABLE: u32 = 13;

    /// Those of a launch.
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

    /// An attribute's value.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for numbers that are no attribute of a kernel node.
    pub fn get(&self, id: u32) -> Result<AttributeValue> {
        KernelAttributes::known(id)?;
        Ok(self.0.get(&id).copied().unwrap_or([0; 64]))
    }

    /// Changes an attribute.
    ///
    /// # Errors
    /// As [`KernelAttributes::get`]; [`Error::Unsupported`] for nodes that device code updates.
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

    /// Whether all blocks may wait for each other.
    pub fn cooperative(&self) -> bool {
        self.words(KernelAttributes::COOPERATIVE)[0] != 0
    }

    /// 0, or less for what goes first.
    pub fn priority(&self) -> i32 {
        self.words(KernelAttributes::PRIORITY)[0].cast_signed()
    }

    fn cluster(&self) -> Option<Dim3> {
        let [x, y, z] = self.words(KernelAttributes::CLUSTER);
        (x != 0 || y != 0 || z != 0).then(|| Dim3::new(x.max(1), y.max(1), z.max(1)))
    }
}

/// A copy. Host memory is read and written when the node runs.
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
    /// What is copied.
    pub transfer: Transfer,
    /// Where it runs.
    pub context: Context,
    /// See [`Origin`].
    pub origin: Origin,
}

/// A fill.
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
    /// What is filled.
    pub fill: Fill,
    /// Where it runs.
    pub context: Context,
}

/// A function of the program, called at each launch.
pub type HostFunction = Arc<dyn Fn() + Send + Sync>;

/// A host function.
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
    /// See [`Origin`].
    pub origin: Origin,
}

/// Stream memory operations.
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
    /// The operations, at least one.
    pub ops: Vec<MemOp>,
    /// Where they run.
    pub context: Context,
    /// See [`Origin`].
    pub origin: Origin,
}

/// What an edge says besides its ends (`CUgraphEdgeData`).
///
/// ```
/// use margay::graph::EdgeData;
///
/// assert!(EdgeData::default().is_plain());
/// assert!(!EdgeData { from_port: 1, to_port: 0, kind: 1 }.is_plain());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct EdgeData {
    /// When it is triggered: 0 when the first node is complete; kernels know 1 (programmatic) and
    /// 2 (launch order). All of them wait for completion here.
    pub from_port: u8,
    /// 0.
    pub to_port: u8,
    /// 0: an ordinary dependency, 1: a programmatic one.
    pub kind: u8,
}

impl EdgeData {
    const PROGRAMMATIC: u8 = 1;

    /// Whether it says nothing beyond the dependency.
    pub fn is_plain(self) -> bool {
        self == EdgeData::default()
    }

    /// Checks it between nodes of these kinds.
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
