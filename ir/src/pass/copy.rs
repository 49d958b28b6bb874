//! Copies the body of a function into another function, for inlining and [`super::calls`].

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::entity::{Block, Entity, Inst, Slot, Value};
use crate::function::{BlockCall, Function};
use margay_ops::meaning::Desc;
use margay_ops::mods::Mods;
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;

/// Creates a block that is not in the layout yet.
pub(super) fn new_block(function: &mut Function) -> Block {
    function.dfg.blocks.push(Default::default())
}

/// Ends the block `from` with a jump to `to`.
pub(super) fn jump(function: &mut Function, from: Block, to: Block, args: &[Value]) -> Inst {
    let desc = Desc {
        opcode: Opcode::Jump,
        ty: OpType::None,
        src: OpType::None,
        mods: Mods::NONE,
    };
    let inst = function.dfg.make_inst(desc, &[], &[]);
    let call = BlockCall {
        block: to,
        args: SmallVec::from_slice(args),
    };
    function
        .dfg
        .targets
        .insert(inst, SmallVec::from_iter([call]));
    function.append_inst(from, inst);
    inst
}

/// Copies the body of a callee into a caller.
pub(super) struct Copier<'a> {
    caller: &'a mut Function,
    callee: &'a Function,
    tail: Block,
    /// The copy of each block of the callee.
    pub(super) blocks: FxHashMap<Block, Block>,
    values: FxHashMap<Value, Value>,
    first_slot: usize,
}

impl<'a> Copier<'a> {
    /// Creates a copier. The copier replaces each return by a jump to `tail` that passes the results as arguments.
    pub(super) fn new(caller: &'a mut Function, callee: &'a Function, tail: Block) -> Self {
        let first_slot = caller.slots.len();
        for slot in callee.slots.values() {
            caller.slots.push(slot.clone());
        }
        Copier {
            caller,
            callee,
            tail,
            blocks: FxHashMap::default(),
            values: FxHashMap::default(),
            first_slot,
        }
    }

    /// Copies the blocks of the callee into the caller. The copies are not in the layout yet.
    pub(super) fn copy_blocks(&mut self) {
        for &block in self.callee.blocks() {
            let new = new_block(self.caller);
            self.blocks.insert(block, new);
            for &param in &self.callee.dfg.blocks[block].params {
                let value = self.caller.dfg.append_param(new, self.callee.dfg.ty(param));
                self.values.insert(param, value);
            }
        }
        // A definition may come after its uses in the layout, so this function creates all results before
        // [`Self::connect`] sets the operands.
        let mut pairs = Vec::new();
        for &block in self.callee.blocks() {
            for &inst in self.callee.insts(block) {
                let new = self.copy_inst(inst);
                pairs.push((inst, new));
                let target = self.blocks[&block];
                self.caller.append_inst(target, new);
            }
        }
        for (old, new) in pairs {
            self.connect(old, new);
        }
    }

    fn copy_inst(&mut self, inst: Inst) -> Inst {
        let dfg = &self.callee.dfg;
        let mut desc = dfg.insts[inst].desc();
        if desc.opcode == Opcode::LocalAddr {
            let slot = Slot::new(self.first_slot + desc.mods.0 as usize);
            desc.mods = Mods(u64::from(slot.0));
        }
        let is_return = desc.opcode == Opcode::Ret;
        if is_return {
            desc.opcode = Opcode::Jump;
        }
        let types: SmallVec<[_; 4]> = dfg.results(inst).iter().map(|&v| dfg.ty(v)).collect();
        // `connect` overwrites these operands in place, so the number of operands must already be correct.
        let args: SmallVec<[Value; 8]> = if is_return {
            SmallVec::new()
        } else {
            SmallVec::from_slice(dfg.args(inst))
        };
        let new = self.caller.dfg.make_inst(desc, &args, &types);
        self.caller.dfg.locs[new] = dfg.locs[inst];
        for (&old, i) in dfg.results(inst).iter().zip(0..) {
            let value: Value = self.caller.dfg.results(new)[i];
            self.values.insert(old, value);
        }
        new
    }

    fn value(&self, old: Value) -> Value {
        self.values[&self.callee.dfg.resolve(old)]
    }

    fn connect(&mut self, old: Inst, new: Inst) {
        if self.callee.dfg.insts[old].opcode == Opcode::Ret {
            let args = self
                .callee
                .dfg
                .args(old)
                .iter()
                .map(|&v| self.value(v))
                .collect();
            let call = BlockCall {
                block: self.tail,
                args,
            };
            self.caller
                .dfg
                .targets
                .insert(new, SmallVec::from_iter([call]));
            return;
        }
        let args: SmallVec<[Value; 8]> = self
            .callee
            .dfg
            .args(old)
            .iter()
            .map(|&v| self.value(v))
            .collect();
        let list = self.caller.dfg.insts[new].args;
        self.caller.dfg.pool.get_mut(list).copy_from_slice(&args);
        let calls: SmallVec<[BlockCall; 2]> = self
            .callee
            .dfg
            .targets(old)
            .iter()
            .map(|call| BlockCall {
                block: self.blocks[&call.block],
                args: call.args.iter().map(|&v| self.value(v)).collect(),
            })
            .collect();
        if !calls.is_empty() {
            self.caller.dfg.targets.insert(new, calls);
        }
    }
}
