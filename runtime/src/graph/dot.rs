//! Writes a graph as text for Graphviz.

use std::fmt::Write;

use super::{Graph, NodeData, NodeOp};

/// Selects the data that the DOT text contains in addition to the kinds of the nodes (`CUgraphDebugDot_flags`).
///
/// ```
/// use margay::graph::{DotOptions, Graph};
///
/// let graph = Graph::new();
/// graph.add_empty(&[])?;
/// assert!(graph.to_dot(DotOptions::all()).starts_with("digraph"));
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DotOptions {
    /// Whether the text contains the names and launch shapes of kernels.
    pub kernels: bool,
    /// Whether the text contains the addresses and extents of copies.
    pub copies: bool,
    /// Whether the text contains the destinations, values and extents of fills.
    pub fills: bool,
    /// Whether the text contains the IDs of events.
    pub events: bool,
    /// Whether the text contains the addresses and sizes of allocations and frees.
    pub memory: bool,
    /// Whether the text contains the stream memory operations of nodes.
    pub memory_ops: bool,
    /// Whether the text contains the kinds and handles of conditional nodes.
    pub conditionals: bool,
    /// Whether the text states for each kernel whether its launch is cooperative.
    pub attributes: bool,
    /// Whether the text contains the IDs of the nodes.
    pub numbers: bool,
    /// Whether the text contains, for each edge, the index of the edge in the dependent node's list
    /// of dependencies.
    pub edges: bool,
}

impl DotOptions {
    /// Returns options that include all data.
    pub fn all() -> DotOptions {
        DotOptions {
            kernels: true,
            copies: true,
            fills: true,
            events: true,
            memory: true,
            memory_ops: true,
            conditionals: true,
            attributes: true,
            numbers: true,
            edges: true,
        }
    }
}

impl Graph {
    /// Returns the graph in the DOT language of Graphviz. Each graph, including nested graphs, becomes a subgraph whose
    /// name begins with `cluster`, which Graphviz draws as a box.
    pub fn to_dot(&self, options: DotOptions) -> String {
        let mut text = String::from("digraph dot {\n");
        self.write_dot(options, &mut text);
        text.push_str("}\n");
        text
    }

    fn write_dot(&self, options: DotOptions, text: &mut String) {
        // Writing to a string cannot fail.
        let id = self.id();
        let _ = writeln!(text, "subgraph cluster_{id} {{\nlabel=\"graph_{id}\";");
        let nodes = self.snapshot();
        for node in &nodes {
            let label = label(node, options);
            let label = label.replace('\\', "\\\\").replace('"', "\\\"");
            let label = label.replace('\n', "\\n");
            let _ = writeln!(text, "node_{} [label=\"{label}\"];", node.id);
            match &node.op {
                NodeOp::Child(child) => child.write_dot(options, text),
                NodeOp::Conditional(node) => {
                    for body in node.bodies() {
                        body.write_dot(options, text);
                    }
                }
                _ => {}
            }
        }
        for node in &nodes {
            for (number, (from, data)) in node.dependencies.iter().enumerate() {
                let _ = write!(text, "node_{from} -> node_{}", node.id);
                let mut notes = Vec::new();
                if options.edges {
                    notes.push(format!("{number}"));
                }
                if !data.is_plain() {
                    notes.push(format!("port {} type {}", data.from_port, data.kind));
                }
                if !notes.is_empty() {
                    let _ = write!(text, " [label=\"{}\"]", notes.join(" "));
                }
                text.push_str(";\n");
            }
        }
        text.push_str("}\n");
    }
}

fn label(node: &NodeData, options: DotOptions) -> String {
    let mut label = format!("{}\n{:?}", node.local, node.op.kind());
    if options.numbers {
        let _ = write!(label, "\nnode {}", node.id);
    }
    let _ = match &node.op {
        NodeOp::Kernel(kernel, attributes) if options.kernels || options.attributes => {
            if options.attributes {
                let _ = write!(label, "\ncooperative {}", attributes.cooperative());
            }
            let (grid, block) = (kernel.grid.to_array(), kernel.block.to_array());
            let (name, shared) = (kernel.kernel.name(), kernel.shared);
            match options.kernels {
                true => write!(label, "\n{name}\n<<<{grid:?}, {block:?}, {shared}>>>"),
                false => Ok(()),
            }
        }
        NodeOp::Memcpy(copy) if options.copies => {
            let t = &copy.transfer;
            write!(
                label,
                "\n{:#x} <- {:#x}\n{:?}\n{} x {} x {} bytes",
                t.dst, t.src, t.direction, t.width, t.height, t.depth
            )
        }
        NodeOp::Memset(node) if options.fills => {
            let f = &node.fill;
            write!(
                label,
                "\n{:#x} = {:#x}\n{} x {} of {} bytes",
                f.dst, f.value, f.count, f.rows, f.width
            )
        }
        NodeOp::EventWait(event) | NodeOp::EventRecord(event) if options.events => {
            write!(label, "\nevent {}", event.id())
        }
        NodeOp::MemAlloc(memory) | NodeOp::MemFree(memory) if options.memory => {
            let (ptr, bytes) = (memory.ptr().address(), memory.bytes());
            write!(label, "\n{ptr:#x}\n{bytes} bytes")
        }
        NodeOp::MemOps(node) if options.memory_ops => {
            { node.ops.iter() }.try_for_each(|op| write!(label, "\n{op:?}"))
        }
        NodeOp::Conditional(node) if options.conditionals => {
            let (kind, handle) = (node.kind(), node.handle().id());
            write!(label, "\n{kind:?}\nhandle {handle}")
        }
        _ => Ok(()),
    };
    label
}
