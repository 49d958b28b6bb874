//! Control flow, traps, slots and fences.

use cranelift_codegen::ir::{self, BlockArg, InstBuilder, types};
use margay_ir::entity::Inst;
use margay_ir::function::BlockCall;
use margay_ops::types::Kind;
use margay_vir::ops::Op;
use rustc_hash::FxHashMap;

use crate::Error;
use crate::abi::TRAP;
use crate::lower::Lower;

/// The alignment that Cranelift gives to a stack slot.
const FRAME_ALIGN: u32 = 16;

impl Lower<'_, '_> {
    pub(crate) fn terminator(&mut self, inst: Inst) -> Result<(), Error> {
        let function = self.function;
        let (args, targets) = (function.args(inst), function.targets(inst));
        match function.insts[inst].op {
            Op::Jump => {
                let (block, passed) = self.target(&targets[0])?;
                self.code.b.ins().jump(block, &passed);
            }
            Op::Brif => {
                let condition = self.scalar(args[0]);
                let (then, others) = (self.target(&targets[0])?, self.target(&targets[1])?);
                let b = &mut *self.code.b;
                b.ins()
                    .brif(condition, then.0, &then.1, others.0, &others.1);
            }
            Op::BrTable => self.branch_table(inst)?,
            Op::Trap => {
                // Cranelift merges a block that only traps into the branch to it, whose place the trap would have.
                self.code.b.ins().fence();
                self.code.b.ins().trap(TRAP);
            }
            Op::Ret => self.ret(inst),
            other => return Err(Error::Invalid(format!("{other:?} ends a block"))),
        }
        Ok(())
    }

    /// Returns the Cranelift block and the arguments of a branch target.
    fn target(&mut self, call: &BlockCall) -> Result<(ir::Block, Vec<BlockArg>), Error> {
        let Some(block) = self.blocks[call.block] else {
            return Err(Error::Invalid(format!("a branch leads to {}", call.block)));
        };
        let registers = call.args.iter().flat_map(|&value| self.get(value));
        Ok((block, registers.map(BlockArg::Value).collect()))
    }

    /// Emits a jump to one of several targets. Equal targets share an edge, because register allocation visits all pairs
    /// of edges to a block.
    fn branch_table(&mut self, inst: Inst) -> Result<(), Error> {
        let function = self.function;
        let targets = function.targets(inst);
        let index = self.scalar(function.args(inst)[0]);
        let mut edges: FxHashMap<&BlockCall, ir::Block> = FxHashMap::default();
        let mut order = Vec::new();
        let mut calls = Vec::new();
        for target in targets {
            let edge = *edges.entry(target).or_insert_with(|| {
                let edge = self.code.b.create_block();
                order.push((target, edge));
                edge
            });
            let pool = &mut self.code.b.func.dfg.value_lists;
            calls.push(ir::BlockCall::new(
                edge,
                std::iter::empty::<BlockArg>(),
                pool,
            ));
        }
        let table = ir::JumpTableData::new(calls[0], &calls[1..]);
        let table = self.code.b.create_jump_table(table);
        self.code.b.ins().br_table(index, table);
        for (target, edge) in order {
            self.code.b.switch_to_block(edge);
            let (block, passed) = self.target(target)?;
            self.code.b.ins().jump(block, &passed);
        }
        Ok(())
    }

    pub(crate) fn trap_if(&mut self, inst: Inst) {
        let condition = self.scalar(self.function.args(inst)[0]);
        self.code.b.ins().trapnz(condition, TRAP);
    }

    pub(crate) fn fence(&mut self, _: Inst) {
        self.code.b.ins().fence();
    }

    /// Creates the stack slots of the function's slots. Those with a large alignment have room for it.
    pub(crate) fn create_slots(&mut self) {
        for slot in self.function.slots.values() {
            let size = slot.size.max(1);
            let room = match slot.align > FRAME_ALIGN {
                true => slot.align,
                false => 0,
            };
            let slot = self.stack_slot(size.saturating_add(room));
            self.slots.push(slot);
        }
    }

    pub(crate) fn slot_address(&mut self, inst: Inst) {
        let number = self.number(inst) as usize;
        let data = self.function.slots.values().nth(number);
        let align = data.map_or(1, |slot| slot.align);
        let b = &mut *self.code.b;
        let mut address = b.ins().stack_addr(types::I64, self.slots[number], 0);
        if align > FRAME_ALIGN {
            address = b.ins().iadd_imm_s(address, i64::from(align) - 1);
            address = b.ins().band_imm_s(address, -i64::from(align));
        }
        debug_assert_eq!(self.kind(self.result(inst)), Kind::B64);
        self.define(self.result(inst), [address].as_slice());
    }
}
