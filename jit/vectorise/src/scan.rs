//! Which operations may be translated: a fast test that finds most of the kernels that the vectoriser refuses.

use margay_ir::entity::Inst;
use margay_ir::function::{Function, InstData};
use margay_ops::meaning::Meaning;
use margay_ops::mods::{MemOrder, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;
use margay_vir::meaning::is_update;

/// Returns whether the vectoriser may accept a function: it contains only operations that may be translated.
pub fn may_accept(function: &Function) -> bool {
    let mut blocks = function.blocks().iter();
    blocks.all(|&block| {
        let mut insts = function.insts(block).iter();
        insts.all(|&inst| may_translate(function, inst))
    })
}

fn may_translate(function: &Function, inst: Inst) -> bool {
    let data = &function.dfg.insts[inst];
    match data.opcode {
        Opcode::Ld | Opcode::St => data.mods.order() != MemOrder::Volatile,
        Opcode::Atom | Opcode::Red => is_plain_update(data),
        Opcode::Const
        | Opcode::SReg
        | Opcode::SymbolAddr
        | Opcode::ParamAddr
        | Opcode::LocalAddr
        | Opcode::Cvta
        | Opcode::Fence
        | Opcode::Bar
        | Opcode::Yield
        | Opcode::Jump
        | Opcode::Brif
        | Opcode::BrTable
        | Opcode::Exit
        | Opcode::Ret
        | Opcode::Trap
        | Opcode::Unreachable => true,
        opcode => {
            is_collective(function, inst)
                || opcode.effects().is_pure() && matches!(opcode.meaning(), Meaning::Pure(_))
        }
    }
}

/// Returns whether an atomic is translated: it updates one integer of 32 or 64 bits, or adds to one `f32` or `f64`.
pub(crate) fn is_plain_update(data: &InstData) -> bool {
    data.mods.space() != StateSpace::Local && is_update(&data.desc())
}

/// The number of lanes of a warp.
pub(crate) const WARP: u32 = 32;

/// Returns whether a sync point is a collective that is translated where all lanes of a warp are together.
pub(crate) fn is_collective(function: &Function, inst: Inst) -> bool {
    let data = &function.dfg.insts[inst];
    let args = function.dfg.args(inst);
    let constant = |index: usize| args.get(index).and_then(|&arg| function.dfg.constant(arg));
    let is_for_all = |index: usize| constant(index) == Some(u32::MAX.into());
    match data.opcode {
        Opcode::Converge | Opcode::ActiveMask => true,
        Opcode::BarWarp => constant(0).is_some(),
        Opcode::Vote => is_for_all(1),
        Opcode::Redux => is_for_all(1) && data.ty != OpType::F32,
        Opcode::Shfl => is_for_all(3),
        Opcode::Mma => is_for_all(0),
        _ => false,
    }
}
