//! Where the generated code finds the data of a launch.

use margay_ir::function::Function;
use margay_ops::mods::StateSpace;
use margay_ops::ops::Opcode;

/// The offsets in bytes of the fields of the context that generated code accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(
    missing_docs,
    reason = "each field is the offset of the context's field of the same name"
)]
pub struct ContextLayout {
    pub params: u32,
    pub shared_base: u32,
    pub local_base: u32,
    pub local_stride: u32,
    pub local_bytes: u32,
    pub ctaid: u32,
    pub ntid: u32,
    pub threads: u32,
    pub nctaid: u32,
    pub cta: u32,
    pub thread: u32,
    pub ended_line: u32,
    pub ended_loc: u32,
    pub sm_warps: u32,
    pub symbols: u32,
    pub tid: u32,
    pub reach_base: u32,
    pub reach_bytes: u32,
    pub phase: u32,
    pub alone: u32,
    pub moved: u32,
    pub lane: u32,
    pub turn_budget: u32,
    pub row_threads: u32,
    pub row_start: u32,
}

/// The status values that generated code returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "each field is the status of the same name")]
pub struct StatusValues {
    pub ok: u32,
    pub trap: u32,
    pub unreachable: u32,
    pub general: u32,
}

/// Places of the program's instructions consist of the instruction of the kernel (low 32 bits), the number of the chunk
/// among those that run together ([`place_chunk`]), and this bit: it is set if the field `lane` of the context contains
/// the distance of the first thread that executes the instruction from the thread in the context.
pub const NOTED: u64 = 1 << 40;

/// Returns the number of the chunk for which the instruction at a place runs.
pub fn place_chunk(place: u64) -> u32 {
    (place >> 32) as u32 & 0xff
}

/// The minimum size in bytes of the inaccessible memory on both sides of the range of device memory.
pub const REACH_MARGIN: i64 = 60 << 10;

/// The limit of offsets in a window to which code adds constants without wrapping. Windows have at most this size, and no
/// other memory is in the following 4 GiB.
pub(crate) const NEAR: u64 = 1 << 31;

/// How local memory is laid out ([`crate::local`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LocalLayout {
    /// The bytes of each thread are contiguous.
    Threads,
    /// The units of `unit` bytes with the same offset of the threads of a chunk are contiguous.
    Rows { unit: u32 },
}

impl LocalLayout {
    /// Returns the layout for a kernel. If lanes may yield, other code may continue them.
    pub(crate) fn of(function: &Function, may_yield: bool) -> LocalLayout {
        if may_yield {
            return LocalLayout::Threads;
        }
        let blocks = function.blocks().iter();
        let insts = blocks.flat_map(|&block| function.insts(block));
        let mut unit = 1;
        for &inst in insts {
            let data = &function.dfg.insts[inst];
            match data.opcode {
                Opcode::Ld | Opcode::St if data.mods.space() == StateSpace::Local => {
                    unit = unit.max(data.ty.bits() / 8);
                }
                Opcode::Cvta if data.mods.space() == StateSpace::Local => {
                    return LocalLayout::Threads;
                }
                _ => {}
            }
        }
        LocalLayout::Rows { unit }
    }
}
