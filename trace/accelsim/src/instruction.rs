//! One line of a trace: an instruction that a warp executed.

use crate::addresses::Addresses;
use crate::dim::Dim3;
use crate::opcode::Opcode;
use crate::register::{Register, Sources};

/// An instruction that a warp executed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Instruction {
    /// The source line. Only in files with `-enable lineinfo = 1`.
    pub line: Option<u32>,
    /// The offset in bytes of the instruction in its function.
    pub pc: u64,
    /// The lanes that executed it: bit i is set if lane i was active and its guard predicate was true.
    pub mask: u32,
    /// The destination register.
    pub destination: Option<Register>,
    /// The opcode with all its tokens.
    pub opcode: Opcode,
    /// The source registers.
    pub sources: Sources,
    /// The width column: not 0 if the instruction has addresses. The simulator takes the width from the opcode instead
    /// ([`Opcode::width`]).
    pub width: u32,
    /// The addresses of the lanes. In a raw trace, the first line of an asynchronous copy has addresses in shared memory.
    pub addresses: Option<Addresses>,
    /// The immediate operand. Only DEPBAR needs it.
    pub immediate: i64,
    /// What only version 6 has.
    pub extra: Option<Box<Extra>>,
}

impl Instruction {
    /// Returns an instruction without registers and addresses.
    pub fn new(pc: u64, mask: u32, opcode: Opcode) -> Instruction {
        Instruction {
            line: None,
            pc,
            mask,
            destination: None,
            opcode,
            sources: Sources::NONE,
            width: 0,
            addresses: None,
            immediate: 0,
            extra: None,
        }
    }
}

/// The columns that only version 6 has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Extra {
    /// The commit-group flag of opcodes with `GMMA`.
    pub commit_group: Option<u64>,
    /// The access of a tensor-memory instruction.
    pub tensor: Option<TensorAccess>,
    /// The second immediate operand.
    pub second_immediate: Option<i64>,
    /// The values of the destination, then of the sources. Empty if the file has none.
    pub values: Vec<RegisterValue>,
}

/// The access of a tensor-memory instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorAccess {
    /// The address of the barrier.
    pub barrier: u64,
    /// The CTAs of a multicast.
    pub cta_mask: Option<u64>,
    /// The number of bytes.
    pub bytes: u64,
    /// The number of bytes that lie outside of the tensor.
    pub out_of_bounds_bytes: u64,
    /// The addresses.
    pub addresses: TensorAddresses,
}

/// The addresses of a tensor-memory instruction, whose number does not depend on the mask.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TensorAddresses {
    /// Mode 0: all addresses.
    List(Vec<u64>),
    /// Mode 2: the first address, and the distance of each further one from the previous one.
    Deltas {
        /// The first address.
        base: u64,
        /// The distances in bytes.
        deltas: Vec<i64>,
    },
}

impl TensorAddresses {
    /// Returns all addresses.
    pub fn decoded(&self) -> Vec<u64> {
        match self {
            TensorAddresses::List(list) => list.clone(),
            TensorAddresses::Deltas { base, deltas } => {
                let mut addresses = vec![*base];
                let mut address = *base;
                for delta in deltas {
                    address = address.wrapping_add_signed(*delta);
                    addresses.push(address);
                }
                addresses
            }
        }
    }
}

/// The value of a register.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RegisterValue {
    /// All lanes have this value.
    Same(u64),
    /// The value of each lane.
    Lanes(Box<[u64; 32]>),
}

/// Where an instruction of a raw trace ran (`TOOL_TRACE_CORE=1`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Core {
    /// The number of the core.
    pub core: u32,
    /// The number of the warp on the core.
    pub warp: u32,
}

/// The place of a CTA in a cluster. Version 6 only.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Cluster {
    /// The position of the cluster in the grid of clusters.
    pub id: Dim3,
    /// The position of the CTA in the cluster.
    pub cta: Dim3,
    /// The linear index of the CTA in the cluster.
    pub rank: u32,
}

/// The instructions of a warp.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WarpTrace {
    /// The number of the warp in its CTA.
    pub warp: u32,
    /// The instructions in program order.
    pub instructions: Vec<Instruction>,
}

/// The instructions of a CTA.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CtaTrace {
    /// The position of the CTA in the grid.
    pub cta: Dim3,
    /// The place in the cluster, if the file has it.
    pub cluster: Option<Cluster>,
    /// The warps in the order of the file.
    pub warps: Vec<WarpTrace>,
}
