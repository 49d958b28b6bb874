//! How many chunks of a kernel run together in the wide back end.
//!
//! Operations whose results all chunks of such a group need run once, and the others overlap. Loops over memory access
//! longer pieces of it in each iteration. A group needs more registers, and the iterations of a loop continue until no
//! thread of the group needs another one.

use margay_ir::analysis::coordinates::{CtaClass, Factor, Shape, Sum, Test};
use margay_ir::analysis::uniformity::{Assumptions, Class};
use margay_ir::analysis::{Cfg, Coordinates, Uniformity};
use margay_ir::entity::{Block, Inst, Value};
use margay_ir::function::Function;
use margay_ops::mods::{AtomOp, StateSpace};
use margay_ops::ops::{Effects, Opcode};
use margay_ops::types::Kind;
use margay_vectorise::{Group, is_computed, runs_several_ctas};

use super::wide::size_of;
use crate::slices::live_words;
use crate::specialisation::Specialisation;

/// The maximum number of instructions of kernels that run several chunks of 16 lanes together.
const MAX_INSTS: usize = 1_000;
/// The maximum number of live vectors of each chunk of 16 lanes, of which four run together. There are 32 vector registers.
const MAX_LIVE: usize = 7;
/// The limits for chunks of 32 lanes, of which two or four run together. Four are better only if loops load from memory and do
/// not store.
const MAX_INSTS_OF_TWO: usize = 500;
const MAX_LIVE_OF_TWO: usize = 12;
const MAX_INSTS_OF_FOUR: usize = 300;
const MAX_LIVE_OF_FOUR: usize = 5;
/// The maximum number of instructions of kernels that run two chunks together without such a loop.
const MAX_INSTS_WITHOUT_LOOPS: usize = 150;

/// Returns which chunks of a kernel run together.
pub(super) fn group(function: &Function, specialisation: Specialisation, width: u32) -> Group {
    let mut most = specialisation.group();
    // A group may also consist of chunks of several CTAs.
    let may_span = most.chunks() == 1
        && specialisation.has(Specialisation::ALIGNED)
        && width == 32
        && runs_several_ctas(function);
    if may_span {
        most = most.of(2);
    }
    let yields = || function.has_effects(Effects::YIELDS);
    if most.chunks() == 1 || yields() || !has_free_atomics(function) {
        return most.of(1);
    }
    let insts = size_of(function);
    let chunks = match most {
        Group::Rows(chunks) => {
            // The lanes of a warp that meet must run together.
            let meets = || function.has_effects(Effects::SYNC_WARP);
            let fits = || meets() || live_words(function).1 <= MAX_LIVE;
            match width == 16 && insts <= MAX_INSTS && fits() {
                true => chunks,
                false => 1,
            }
        }
        Group::Line(most) => chunks_of_line(function, insts).min(most),
        _ => chunks_of_line(function, insts),
    };
    most.of(chunks)
}

/// The maximum number of instructions of all chunks of a CTA for which there is code without a loop over the chunks, and of
/// these chunks.
const MAX_INSTS_OF_WHOLE: usize = 9_000;
const MAX_CHUNKS_OF_WHOLE: usize = 32;
/// The maximum number of live vectors of each chunk of 16 lanes if all chunks of a CTA run together.
const MAX_LIVE_OF_WHOLE: usize = 12;

/// Returns the maximum number of chunks of a CTA in code for one shape of CTAs, which contains no loop over the chunks; 0 if
/// there is no such code. It pays for kernels with barriers, because their values then stay in registers.
pub(super) fn whole_chunks(function: &Function) -> u32 {
    let mut insts = function.blocks().iter().flat_map(|&b| function.insts(b));
    let has_barriers = insts.any(|&inst| function.dfg.insts[inst].opcode == Opcode::Bar);
    if !has_barriers || !has_free_atomics(function) {
        return 0;
    }
    let chunks = MAX_INSTS_OF_WHOLE / size_of(function).max(1);
    chunks.min(MAX_CHUNKS_OF_WHOLE) as u32
}

/// Returns how the chunks of CTAs of one shape run, in code for this shape.
pub(super) fn whole_group(
    function: &Function,
    (specialisation, [x, y, _]): (Specialisation, [u32; 3]),
    width: u32,
) -> Group {
    let chunks = x * y / width;
    // Lanes that diverge cost the same in both forms. A chunk that skips code as a whole does so only in a turn of its own.
    let has_tiles = specialisation.has(Specialisation::TILED);
    let uniformity = Uniformity::new(function, specialisation.assumptions(width));
    let diverges = |block: Block| uniformity.branch(function, block) == Class::Varying;
    let is_even = || {
        let mut uneven = uneven_branches(function).into_iter();
        uneven.all(|block| has_tiles && diverges(block))
    };
    let together = live_words(function).1 <= MAX_LIVE_OF_WHOLE && is_even();
    match together {
        true => Group::All { chunks, x },
        false => Group::Each { chunks, x },
    }
}

/// Returns the blocks whose branches the threads of a CTA are likely to take differently. The others are uniform, or compare a
/// number that is affine in the coordinates of the threads with one that does not change during the launch, such as the size
/// of a matrix.
fn uneven_branches(function: &Function) -> Vec<Block> {
    let cfg = Cfg::new(function);
    let coordinates = Coordinates::new(function, &cfg, Shape::of(function));
    let is_fixed = |sum: &Sum| {
        let mut all = true;
        sum.each_leaf(&mut |leaf| {
            all &= match leaf {
                Factor::Register(_) => true,
                Factor::Value(value) => matches!(coordinates.class(*value), CtaClass::Launch),
                Factor::Base(_) | Factor::Extended(_) => false,
            };
        });
        all
    };
    let is_even = |block: Block| {
        if coordinates.branch(function, block) != CtaClass::Varying {
            return true;
        }
        let inst = function.layout.terminator(block);
        let condition = inst.and_then(|inst| function.dfg.args(inst).first());
        let predicate = condition.and_then(|&condition| coordinates.predicate(condition));
        predicate.is_some_and(|predicate| {
            predicate.all.iter().all(|test| match test {
                Test::Guard(guard) => is_fixed(&guard.bound),
                Test::Uniform { .. } => true,
            })
        })
    };
    let blocks = function.blocks().iter().copied();
    blocks.filter(|&block| !is_even(block)).collect()
}

/// Returns whether the order in which threads perform the atomics of a kernel makes no difference. The threads of a group
/// perform each atomic in order, but the atomics of its chunks alternate.
fn has_free_atomics(function: &Function) -> bool {
    let used = function.used_values();
    let mut insts = function.blocks().iter().flat_map(|&b| function.insts(b));
    insts.all(|&inst| {
        let data = &function.dfg.insts[inst];
        let is_atomic = matches!(data.opcode, Opcode::Atom | Opcode::Red);
        let is_commutative = data.ty.is_integer()
            && matches!(
                data.mods.atom_op(),
                AtomOp::Add | AtomOp::Min | AtomOp::Max | AtomOp::And | AtomOp::Or | AtomOp::Xor
            );
        let mut results = function.dfg.results(inst).iter();
        !is_atomic || is_commutative && !results.any(|&result| used[result])
    })
}

/// Returns how many chunks of 32 lanes run together.
fn chunks_of_line(function: &Function, insts: usize) -> u32 {
    let assumptions = Assumptions {
        whole_rows: true,
        ntid_x_zeros: 5,
        ..Assumptions::default()
    };
    let uniformity = Uniformity::new(function, assumptions);
    if insts > MAX_INSTS_OF_TWO || !has_even_loops(function, &uniformity) {
        return 1;
    }
    let streams = accesses_in_loops(function, &uniformity, Opcode::Ld);
    let stores = accesses_in_loops(function, &uniformity, Opcode::St);
    let synchronises = || {
        let mut all = function.blocks().iter().flat_map(|&b| function.insts(b));
        all.any(|&inst| function.effects(inst).is_sync_point())
    };
    if !streams && (insts > MAX_INSTS_WITHOUT_LOOPS || synchronises()) {
        return 1;
    }
    match live_words(function).1 {
        ..=MAX_LIVE_OF_FOUR if streams && !stores && insts <= MAX_INSTS_OF_FOUR => 4,
        ..=MAX_LIVE_OF_FOUR => 2,
        ..=MAX_LIVE_OF_TWO if !synchronises() => 2,
        _ => 1,
    }
}

/// Returns whether a loop contains loads from, or stores to, global memory at addresses that differ between lanes.
fn accesses_in_loops(function: &Function, uniformity: &Uniformity, opcode: Opcode) -> bool {
    let loops = uniformity.loops();
    loops.order.iter().any(|&block| {
        let is_access = |&inst: &Inst| {
            let data = &function.dfg.insts[inst];
            data.opcode == opcode
                && matches!(data.mods.space(), StateSpace::Global | StateSpace::None)
                && !uniformity.class(function.dfg.args(inst)[0]).is_uniform()
        };
        loops.innermost(block).is_some() && function.insts(block).iter().any(is_access)
    })
}

/// Returns the sync points of the lanes of a warp.
pub(super) fn sync_points_of_warps(function: &Function) -> impl Iterator<Item = Opcode> + '_ {
    let blocks = function.blocks().iter();
    let insts = blocks.flat_map(|&block| function.insts(block));
    insts
        .filter(|&&inst| function.effects(inst).contains(Effects::SYNC_WARP))
        .map(|&inst| function.dfg.insts[inst].opcode)
}

/// Returns whether the threads of a CTA are likely to run about the same number of iterations of all loops: the conditions
/// of their exits do not depend on floating-point numbers or on loaded values that differ between lanes.
fn has_even_loops(function: &Function, uniformity: &Uniformity) -> bool {
    let (loops, cfg) = (uniformity.loops(), Cfg::new(function));
    let is_even = |value: Value| {
        let is_equal = |value| uniformity.class(value) != Class::Varying;
        let is_integer = |value| !matches!(function.dfg.ty(value).kind(), Kind::F32 | Kind::F64);
        is_computed((function, &cfg), value, is_equal, is_integer)
    };
    loops.order.iter().all(|&block| {
        let leaves = function
            .successors(block)
            .iter()
            .any(|call| loops.around_only(block, call.block).next().is_some());
        let Some(inst) = function.layout.terminator(block).filter(|_| leaves) else {
            return true;
        };
        let mut args = function.dfg.args(inst).iter();
        args.all(|&arg| is_even(arg))
    })
}
