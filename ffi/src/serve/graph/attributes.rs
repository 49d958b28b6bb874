//! Implements the entry points for attributes of kernel nodes.

use std::ffi::c_uint;

use margay::graph::{KernelAttributes, Node, NodeOp};

use crate::convert::{In, Out};
use crate::guard::Call;
use crate::result::{CuResult, Served};
use crate::types::CUkernelNodeAttrValue;

fn attributes_of(node: &Node) -> Result<KernelAttributes, CuResult> {
    match node.op()? {
        NodeOp::Kernel(_, attributes) => Ok(attributes),
        _ => Err(CuResult::INVALID_VALUE),
    }
}

fn replace(node: &Node, attributes: KernelAttributes) -> Served {
    match node.op()? {
        NodeOp::Kernel(kernel, _) => Ok(node.set_op(NodeOp::Kernel(kernel, attributes))?),
        _ => Err(CuResult::INVALID_VALUE),
    }
}

pub(crate) fn graph_kernel_node_copy_attributes(
    _: &Call,
    destination: Node,
    source: Node,
) -> Served {
    replace(&destination, attributes_of(&source)?)
}

pub(crate) fn graph_kernel_node_get_attribute(
    _: &Call,
    node: Node,
    attribute: c_uint,
    out: Out<CUkernelNodeAttrValue>,
) -> Served {
    let bytes = attributes_of(&node)?.get(attribute)?;
    out.set(CUkernelNodeAttrValue { bytes });
    Ok(())
}

pub(crate) fn graph_kernel_node_set_attribute(
    _: &Call,
    node: Node,
    attribute: c_uint,
    value: In<CUkernelNodeAttrValue>,
) -> Served {
    let mut attributes = attributes_of(&node)?;
    attributes.set(attribute, value.0.bytes)?;
    replace(&node, attributes)
}
