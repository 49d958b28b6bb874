//! Prepares the calls of a function: the code after each call is moved to a separate block, and the stack pointer and
//! the index of the continuation become values. Also assigns frame offsets to the values that are live across calls.

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::code::{Code, stored_bytes};
use crate::analysis::slots;
use crate::entity::{Block, Inst, Slot, Value};
use crate::function::{Function, SlotData, SourceLoc, ValueDef};
use crate::pass::copy::{jump, new_block};
use margay_ops::mods::{Mode, Mods};
use margay_ops::ops::Opcode;
use margay_ops::types::{OpType, Type};

/// Maximum total size in bytes of a function's slots.
pub(super) const MAX_SLOTS: u32 = 1 << 28;
/// Alignment in bytes of frames, and therefore of the slots at the start of a frame.
const ALIGN: u32 = 16;

/// A call. In its block, only a jump follows the call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Site {
    pub(super) block: Block,
    pub(super) call: Inst,
    /// The block with the code after the call. Its parameters are the results and the callee's stack pointer.
    pub(super) tail: Block,
    /// The parameter of `tail` that is the callee's stack pointer.
    pub(super) back: Value,
}

/// The result of [`open`]: the prepared calls in a function.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) sites: Vec<Site>,
    /// The stack pointer.
    pub(super) pointer: Value,
    /// For a kernel, the local-memory slot that serves as the kernel's frame.
    pub(super) slot: Option<Slot>,
}

/// Prepares the calls in `function` for their replacement by jumps. Afterwards the last operand of
/// each call is the caller's stack pointer. In functions other than kernels, `ret` has the index of
/// the continuation and the stack pointer as operands, and `local.addr` has the stack pointer as an
/// operand.
pub(super) fn open(function: &mut Function) -> Open {
    let slot = function.kernel.is_some().then(|| {
        function.slots.push(SlotData {
            name: String::new(),
            size: 0,
            align: ALIGN,
        })
    });
    let (pointer, number) = match slot {
        Some(slot) => (kernel_pointer(function, slot), None),
        None => {
            let entry = function.entry();
            let number = function.dfg.append_param(entry, Type::B32);
            (function.dfg.append_param(entry, Type::B64), Some(number))
        }
    };
    let mut sites = Vec::new();
    let mut order = Vec::new();
    for block in function.blocks().to_vec() {
        let mut here = block;
        order.push(here);
        while let Some(site) = split(function, here) {
            sites.push(site);
            order.push(site.tail);
            here = site.tail;
        }
    }
    function.layout.order = order;
    for inst in function
        .blocks()
        .iter()
        .flat_map(|&b| function.insts(b).to_vec())
        .collect::<Vec<_>>()
    {
        match (function.dfg.insts[inst].opcode, number) {
            (Opcode::Call | Opcode::CallIndirect, _) => add_args(function, inst, &[pointer]),
            (Opcode::Ret, Some(number)) => add_args(function, inst, &[number, pointer]),
            // Slots of a kernel begin at the start of local memory, so `local.addr` in a kernel needs no stack pointer.
            (Opcode::LocalAddr, Some(_)) => add_args(function, inst, &[pointer]),
            _ => {}
        }
    }
    crate::edit::resolve_aliases(function);
    Open {
        sites,
        pointer,
        slot,
    }
}

fn kernel_pointer(function: &mut Function, slot: Slot) -> Value {
    let entry = function.entry();
    let mut code = Code::new(function, SourceLoc::default());
    let desc = super::code::with(Opcode::LocalAddr, OpType::U64, Mods(u64::from(slot.0)));
    let address = code.op(desc, &[], Type::B64);
    let pointer = code.cvta(address, Mode::None);
    let insts = code.insts;
    function.layout.insts[entry].splice(0..0, insts);
    pointer
}

fn add_args(function: &mut Function, inst: Inst, more: &[Value]) {
    let mut args: SmallVec<[Value; 8]> = SmallVec::from_slice(function.dfg.args(inst));
    args.extend_from_slice(more);
    set_args(function, inst, &args);
}

/// Replaces all operands of an instruction.
pub(super) fn set_args(function: &mut Function, inst: Inst, args: &[Value]) {
    function.dfg.insts[inst].args = function.dfg.pool.push(args);
}

/// Splits a block after its first call; returns `None` if the block has no call.
fn split(function: &mut Function, block: Block) -> Option<Site> {
    let calls = |&inst: &Inst| {
        let opcode = function.dfg.insts[inst].opcode;
        matches!(opcode, Opcode::Call | Opcode::CallIndirect)
    };
    let index = function.insts(block).iter().position(calls)?;
    let call = function.insts(block)[index];
    let tail = new_block(function);
    let rest = function.layout.insts[block].split_off(index + 1);
    function.layout.insts[tail] = rest;
    let results: SmallVec<[Value; 4]> = SmallVec::from_slice(function.dfg.results(call));
    for result in results {
        let param = function.dfg.append_param(tail, function.dfg.ty(result));
        function.dfg.values[result].def = ValueDef::Alias(param);
    }
    let back = function.dfg.append_param(tail, Type::B64);
    // This jump passes no arguments. [`super::merge`] replaces it, and the jump with which the callee returns passes
    // the arguments.
    let onward = jump(function, block, tail, &[]);
    function.dfg.locs[onward] = function.dfg.locs[call];
    Some(Site {
        block,
        call,
        tail,
        back,
    })
}

/// Assigns an offset in the frame to each saved value. Returns the offsets, and the size of the frame in bytes. For
/// each value, `at` lists the indices of the calls across which the value is live. Two values may share an offset if
/// they are not live across the same call.
pub(super) fn places(function: &Function, types: &[Type], at: &[Vec<usize>]) -> (Vec<u32>, u32) {
    let calls = at.iter().flatten().max().map_or(0, |&last| last + 1);
    let mut together: Vec<Vec<usize>> = vec![Vec::new(); calls];
    for (value, calls) in at.iter().enumerate() {
        for &call in calls {
            together[call].push(value);
        }
    }
    let mut end = match function.kernel {
        Some(_) => 0,
        None => slots::layout(function).1,
    };
    let mut places = vec![u32::MAX; types.len()];
    for bytes in [16, 8, 4, 2, 1] {
        let mut used = 0;
        for value in (0..types.len()).filter(|&value| stored_bytes(types[value]) == bytes) {
            let others = at[value].iter().flat_map(|&call| &together[call]);
            let taken: FxHashSet<u32> = others.map(|&other| places[other]).collect();
            let place = (0u32..)
                .map(|i| end + bytes * i)
                .find(|p| !taken.contains(p));
            places[value] = place.unwrap_or(end);
            used = used.max(places[value] + bytes - end);
        }
        end += used;
    }
    (places, end.next_multiple_of(ALIGN))
}
