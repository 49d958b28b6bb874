//! A fast test that finds most of the kernels that the vectoriser refuses, without any analysis.

use margay_ir::entity::Inst;
use margay_ir::function::Function;
use margay_ops::meaning::Meaning;
use margay_ops::mods::{MemOrder, StateSpace};
use margay_ops::ops::Opcode;

use crate::collective::is_collective;

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
        Opcode::Ld | Opcode::St => {
            data.mods.space() != StateSpace::Local && data.mods.order() != MemOrder::Volatile
        }
        Opcode::Const
        | Opcode::SReg
        | Opcode::SymbolAddr
        | Opcode::ParamAddr
        | Opcode::Cvta
        | Opcode::Fence
        | Opcode::Bar
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
