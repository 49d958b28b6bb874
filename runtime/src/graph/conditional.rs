//! Conditional nodes. A conditional node contains graphs and runs one of them, or runs a graph
//! repeatedly. A value that device code sets determines which graph runs, or how long the graph is
//! repeated.
//!
//! Source: CUDA programming guide, "Conditional Graph Nodes". After the dependencies of the node are complete, the
//! launch reads the value and submits the tasks of the graph that the value selects. The node is complete when these
//! tasks are complete. A loop ([`ConditionalKind::While`]) repeats these steps as long as the value is not 0.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::{Graph, registry};
use crate::conditional::ConditionalValue;
use crate::context::Context;
use crate::error::{Error, Result};

/// The value that a conditional node tests.
///
/// ```
/// let rt = margay::Runtime::new()?;
/// let graph = margay::graph::Graph::new();
/// let handle = graph.conditional_handle(&rt.context()?, 1, true);
/// assert_eq!(handle.value(), 1);
/// # Ok::<(), margay::Error>(())
/// ```
pub struct ConditionalHandle {
    context: Context,
    value: Arc<ConditionalValue>,
    default: u32,
    assign: bool,
    used: AtomicBool,
}

impl fmt::Debug for ConditionalHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConditionalHandle({})", self.id())
    }
}

impl Drop for ConditionalHandle {
    fn drop(&mut self) {
        registry::CONDITIONALS.remove(&self.id());
    }
}

impl ConditionalHandle {
    pub(super) fn new(context: &Context, default: u32, assign: bool) -> Arc<ConditionalHandle> {
        let handle = Arc::new(ConditionalHandle {
            context: context.clone(),
            value: ConditionalValue::new(default),
            default,
            assign,
            used: AtomicBool::new(false),
        });
        registry::CONDITIONALS.add(handle.id(), Arc::downgrade(&handle));
        handle
    }

    /// Returns the handle with this ID; `None` if the handle no longer exists.
    pub fn by_id(id: u64) -> Option<Arc<ConditionalHandle>> {
        registry::CONDITIONALS.get(&id)
    }

    /// Returns the ID that device code passes to `cudaGraphSetConditional`. The ID is unique in the process.
    pub fn id(&self) -> u64 {
        self.value.id()
    }

    /// Returns the context in which the conditional node runs.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Returns the current value that the node tests.
    pub fn value(&self) -> u32 {
        self.value.get()
    }

    /// Resets the value to the default if the handle was created with this option. Each launch of
    /// the graph begins with a call of this function.
    pub(super) fn begin(&self) {
        if self.assign {
            self.value.set(self.default);
        }
    }

    pub(super) fn is_used(&self) -> bool {
        self.used.load(Ordering::Acquire)
    }

    pub(super) fn set_used(&self, used: bool) {
        self.used.store(used, Ordering::Release);
    }
}

/// The kind of a conditional node, which determines how the node uses its value. The numbers are those of
/// `CUgraphConditionalNodeType`.
///
/// ```
/// use margay::graph::{ConditionalKind, Graph};
///
/// let rt = margay::Runtime::new()?;
/// let graph = Graph::new();
/// let handle = graph.conditional_handle(&rt.context()?, 0, true);
/// let (_node, conditional) = graph.add_conditional(&[], &handle, ConditionalKind::If, 2)?;
/// assert_eq!(conditional.kind(), ConditionalKind::If);
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum ConditionalKind {
    /// Runs the first graph if the value is not 0; otherwise runs the second graph, if there is one.
    If = 0,
    /// Runs the graph repeatedly as long as the value is not 0.
    While = 1,
    /// Runs the graph whose index is equal to the value, if there is such a graph.
    Switch = 2,
}

/// A conditional node, which chooses one of its graphs or repeats a graph.
///
/// ```
/// use std::sync::Arc;
/// use margay::graph::{ConditionalKind, Graph};
///
/// let rt = margay::Runtime::new()?;
/// let graph = Graph::new();
/// let handle = graph.conditional_handle(&rt.context()?, 0, true);
/// let (_node, choice) = graph.add_conditional(&[], &handle, ConditionalKind::If, 2)?;
/// choice.bodies()[0].add_host(&[], Arc::new(|| println!("not zero")))?;
/// choice.bodies()[1].add_host(&[], Arc::new(|| println!("zero")))?;
/// # Ok::<(), margay::Error>(())
/// ```
pub struct ConditionalNode {
    handle: Arc<ConditionalHandle>,
    kind: ConditionalKind,
    bodies: Vec<Graph>,
    attached: OnceLock<Arc<dyn Any + Send + Sync>>,
}

/// Maximum number of body graphs of a switch node.
const MOST_BODIES: u32 = 1 << 16;

impl ConditionalNode {
    pub(super) fn new(
        handle: &Arc<ConditionalHandle>,
        kind: ConditionalKind,
        size: u32,
    ) -> Result<Arc<ConditionalNode>> {
        let good = match kind {
            ConditionalKind::If => matches!(size, 1 | 2),
            ConditionalKind::While => size == 1,
            ConditionalKind::Switch => (1..=MOST_BODIES).contains(&size),
        };
        if !good {
            return Err(Error::invalid(format!("{size} graphs of {kind:?}")));
        }
        if handle.used.swap(true, Ordering::AcqRel) {
            return Err(Error::invalid("another node uses the handle"));
        }
        Ok(Arc::new(ConditionalNode {
            handle: Arc::clone(handle),
            kind,
            bodies: (0..size).map(|_| Graph::body()).collect(),
            attached: OnceLock::new(),
        }))
    }

    /// Returns the handle of the value that the node tests.
    pub fn handle(&self) -> &Arc<ConditionalHandle> {
        &self.handle
    }

    /// Returns how the node uses the value.
    pub fn kind(&self) -> ConditionalKind {
        self.kind
    }

    /// Returns the body graphs of the node.
    pub fn bodies(&self) -> &[Graph] {
        &self.bodies
    }

    /// Returns a field in which the caller can store data of any type. The data exist as long as
    /// the node exists.
    pub fn attached(&self) -> &OnceLock<Arc<dyn Any + Send + Sync>> {
        &self.attached
    }

    /// Returns the index of the graph to run now; `None` if the node runs no graph.
    pub(super) fn choice(&self) -> Option<usize> {
        let value = self.handle.value();
        let index = match self.kind {
            ConditionalKind::If => usize::from(value == 0),
            ConditionalKind::While if value == 0 => return None,
            ConditionalKind::While => 0,
            ConditionalKind::Switch => value as usize,
        };
        (index < self.bodies.len()).then_some(index)
    }
}
