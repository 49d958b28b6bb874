//! Control flow, and loops over lanes whose values are in memory.

use margay_ir::entity::Value;
use margay_ir::function::BlockCall;
use margay_ops::types::{Kind, Type};
use margay_vir::data::Data;
use margay_vir::ops::Op as VirOp;
use regalloc2::{RegClass, VReg};
use smallvec::{SmallVec, smallvec};

use super::{Regs, Selector, Val, one};
use crate::asm::{Cond, Op, Width};
use crate::code::{Cause, bytes_of};
use crate::mach::{Action, Base, Inst, Label, Mem};

impl Selector<'_> {
    /// Stores the lanes of a vector in the scratch area; those of a mask as bytes.
    pub(crate) fn spill_lanes(&mut self, val: &Val, offset: u32) {
        if val.ty.kind() != Kind::Pred {
            return self.spill_value(val, offset);
        }
        let lanes = val.ty.lanes();
        let mask = self.mask_reg(val);
        if !self.has_masks() {
            self.reserve(offset + 64);
            return self.spread_bits(mask, lanes, offset);
        }
        let ones = self.ones_in(mask, 8, lanes);
        let bytes = self.splat_constant(1, 8);
        let bytes = self.v2(Op::Vpandd, super::prim::length(8, lanes), ones, bytes);
        let ty = in_memory(val.ty);
        self.spill_value(&Val::new(ty, one(bytes)), offset);
    }

    /// Loads lanes that are in the scratch area; those of a mask are bytes.
    pub(crate) fn reload_lanes(&mut self, ty: Type, offset: u32) -> Regs {
        if ty.kind() == Kind::Pred && !self.has_masks() {
            return one(self.gathered_bits(ty.lanes(), offset));
        }
        let regs = self.reload_value(in_memory(ty), offset);
        if ty.kind() != Kind::Pred {
            return regs;
        }
        one(self.test(8, ty.lanes(), regs[0], regs[0]))
    }

    /// Stores the bits of a mask as bytes in the scratch area.
    fn spread_bits(&mut self, mask: VReg, lanes: u32, offset: u32) {
        let ones = self.imm(0x0101_0101_0101_0101);
        for number in 0..lanes.div_ceil(8) {
            let moved = match number {
                0 => mask,
                _ => self.g2i(Op::Shr, Width::W64, mask, i64::from(8 * number)),
            };
            let bytes = self.g3(Op::Pdep, Width::W64, moved, ones);
            let to = Mem::at(Base::Scratch, (offset + 8 * number) as i32);
            self.effect(Self::general_store(64, bytes, to));
        }
    }

    /// Loads the bits of a mask that are bytes in the scratch area.
    fn gathered_bits(&mut self, lanes: u32, offset: u32) -> VReg {
        let ones = self.imm(0x0101_0101_0101_0101);
        let mut whole = None;
        for number in 0..lanes.div_ceil(8) {
            let bytes = self.load_general(64, Mem::at(Base::Scratch, (offset + 8 * number) as i32));
            let bits = self.g3(Op::Pext, Width::W64, bytes, ones);
            let kept = match lanes {
                8.. => bits,
                _ => self.g2i(Op::And, Width::W32, bits, (1 << lanes) - 1),
            };
            whole = Some(match whole {
                None => kept,
                Some(whole) => {
                    let moved = self.g2i(Op::Shl, Width::W64, kept, i64::from(8 * number));
                    self.g2(Op::Or, Width::W64, whole, moved)
                }
            });
        }
        whole.unwrap_or(ones)
    }

    /// Sets a value in the scratch area to zero.
    pub(crate) fn clear(&mut self, ty: Type, offset: u32) {
        if ty.lanes() == 1 {
            let zero = self.imm(0);
            for word in 0..bytes_of(ty).div_ceil(8) {
                self.effect(Self::general_store(
                    64,
                    zero,
                    Mem::at(Base::Scratch, (offset + 8 * word) as i32),
                ));
            }
            return self.reserve(offset + bytes_of(ty).next_multiple_of(8));
        }
        let zero = self.splat_constant(0, 64);
        let regs = (0..self.register_count(ty)).map(|_| zero).collect();
        self.spill_value(&Val::new(ty, regs), offset);
    }

    /// Returns the base for the address of lane `lane` of a value at an offset in the scratch area.
    pub(crate) fn lane_address(&mut self, offset: u32, bytes: u32, lane: VReg) -> Base {
        let start = self.address_of(Mem::at(Base::Scratch, offset as i32));
        if bytes <= 8 {
            return Base::Reg(self.address_of(Selector::indexed(start, lane, bytes as u8, 0)));
        }
        let scaled = self.g2i(Op::Shl, Width::W64, lane, bytes.trailing_zeros().into());
        Base::Reg(self.address_of(Selector::indexed(start, scaled, 1, 0)))
    }

    /// Ends the current block.
    pub(crate) fn end_with(
        &mut self,
        action: Action,
        succs: SmallVec<[(Label, SmallVec<[VReg; 8]>); 2]>,
    ) {
        self.effect(Inst::of(action, Width::W64));
        let current = self.current;
        self.mach.block(current).succs = succs;
    }

    /// Starts a loop over the one bits of a register, from the lowest on. The body follows; [`Selector::end_loop`] ends it.
    pub(crate) fn lane_loop(&mut self, bits: VReg) -> LaneLoop {
        let (enter, skip) = (self.mach.label(), self.mach.label());
        let (label, exit) = (self.mach.label(), self.mach.label());
        let param = self.mach.vreg(RegClass::Int);
        self.mach.block(label).params = vec![param];
        self.flags(Op::Test, Width::W64, bits, bits);
        self.end_with(
            Action::Branch(Cond::Ne),
            smallvec![(enter, smallvec![]), (skip, smallvec![])],
        );
        self.start(skip);
        self.end_with(Action::Jump, smallvec![(exit, smallvec![])]);
        self.start(enter);
        self.end_with(Action::Jump, smallvec![(label, smallvec![bits])]);
        self.start(label);
        let lane = self.g_of(Op::Tzcnt, Width::W64, param);
        let rest = self.g_of(Op::Blsr, Width::W64, param);
        LaneLoop {
            label,
            exit,
            lane,
            rest,
        }
    }

    /// Ends a loop over bits, and starts the block behind it.
    pub(crate) fn end_loop(&mut self, label: Label, rest: VReg, exit: Label) {
        let (again, done) = (self.mach.label(), self.mach.label());
        self.flags(Op::Test, Width::W64, rest, rest);
        self.end_with(
            Action::Branch(Cond::Ne),
            smallvec![(again, smallvec![]), (done, smallvec![])],
        );
        self.start(again);
        self.end_with(Action::Jump, smallvec![(label, smallvec![rest])]);
        self.start(done);
        self.end_with(Action::Jump, smallvec![(exit, smallvec![])]);
        self.start(exit);
    }

    pub(crate) fn fence(&mut self) {
        self.effect(Inst::of(Action::Op(Op::Mfence), Width::W64));
    }

    pub(crate) fn trap_if(&mut self, number: u64) {
        let vir = self.vir;
        let condition = vir.args(self.inst)[0];
        let cond = self.condition(condition);
        let place = self.place(Cause::Trap(number));
        self.effect(Inst {
            place,
            ..Inst::of(Action::TrapIf(cond), Width::W64)
        });
    }

    /// Sets the flags for a predicate, and returns the condition that holds if it is true.
    fn condition(&mut self, value: Value) -> Cond {
        if let Some(cond) = self.folded_condition(value) {
            return cond;
        }
        let val = self.val(value);
        let pred = self.gpr(&val);
        self.flags(Op::Test, Width::W32, pred, pred);
        Cond::Ne
    }

    /// Computes a predicate that an instruction of this function defines by setting the flags again, so that the
    /// predicate itself is not needed.
    fn folded_condition(&mut self, value: Value) -> Option<Cond> {
        let vir = self.vir;
        let margay_ir::function::ValueDef::Result(inst, 0) = vir.values[value].def else {
            return None;
        };
        let data = vir.insts[inst];
        let args: SmallVec<[Val; 4]> = vir.args(inst).iter().map(|&arg| self.val(arg)).collect();
        match (data.op, data.data) {
            (VirOp::Any | VirOp::All, _) if args[0].ty.lanes() > 1 && args[0].bits.is_none() => {
                Some(self.mask_flags(data.op, args[0].regs[0], args[0].ty.lanes()))
            }
            (VirOp::Map, Data::Lane(desc)) if data.ty.is_some_and(|ty| ty.lanes() == 1) => {
                let is_plain = desc.opcode == margay_ops::ops::Opcode::Setp
                    && desc.mods.bool_op() == margay_ops::mods::BoolOp::None
                    && desc.ty.is_integer()
                    && desc.ty.elements() == 1
                    && args.len() == 2
                    && !args[0].ty.is_float();
                if is_plain {
                    self.scalar_compare(&desc, &args[0], &args[1])
                } else {
                    None
                }
            }
            _ => None,
        }
    }

    /// Returns the block to which a branch leads, and the registers that it passes.
    fn target(&mut self, call: &BlockCall) -> (Label, SmallVec<[VReg; 8]>) {
        let label = self.labels[call.block].expect("no branch leads to the entry block");
        let mut passed = SmallVec::new();
        for &arg in &call.args {
            let val = self.val(arg);
            passed.extend(self.regs_of(&val));
        }
        (label, passed)
    }

    pub(crate) fn jump(&mut self) {
        let vir = self.vir;
        let target = self.target(&vir.targets(self.inst)[0]);
        self.end_with(Action::Jump, smallvec![target]);
    }

    /// Ends the current block with a branch. An edge gets a block of its own if it passes values or another edge leads to
    /// the same block, so that no edge is critical.
    fn branch_to(&mut self, action: Action, targets: &[BlockCall]) {
        let mut own: SmallVec<[(Label, &BlockCall); 2]> = SmallVec::new();
        let mut edges: SmallVec<[Label; 2]> = SmallVec::new();
        for call in targets {
            edges.push(match self.labels[call.block] {
                Some(label) if call.args.is_empty() && self.edges[call.block] == 1 => label,
                _ => {
                    let edge = self.mach.label();
                    own.push((edge, call));
                    edge
                }
            });
        }
        let succs = edges.iter().map(|&edge| (edge, smallvec![])).collect();
        match action {
            Action::Table => {
                let current = self.current;
                self.mach.block(current).succs = succs;
            }
            action => self.end_with(action, succs),
        }
        for (edge, call) in own {
            self.start(edge);
            let target = self.target(call);
            self.end_with(Action::Jump, smallvec![target]);
        }
    }

    pub(crate) fn branch(&mut self) {
        let vir = self.vir;
        let cond = self.condition(vir.args(self.inst)[0]);
        self.branch_to(Action::Branch(cond), vir.targets(self.inst));
    }

    pub(crate) fn branch_table(&mut self) {
        let vir = self.vir;
        let val = self.vals()[0].clone();
        let targets = vir.targets(self.inst);
        // Entry 0 is the default target: the index is limited to the number of entries, and then increased by 1, modulo
        // the number.
        let index = self.gpr(&val);
        let count = targets.len() as u64;
        let last = self.imm(count - 1);
        self.flags(Op::Cmp, Width::W32, index, last);
        let limited = self.choose(Cond::B, index, last);
        let table = self.mach.vreg(RegClass::Int);
        let mut inst = Inst::of(Action::Table, Width::W64);
        inst.src[0] = limited;
        inst.second = table;
        self.effect(inst);
        // The default target is the last entry.
        let rotated: Vec<BlockCall> = targets[1..].iter().chain(&targets[..1]).cloned().collect();
        self.branch_to(Action::Table, &rotated);
    }
}

/// A loop over lanes.
pub(crate) struct LaneLoop {
    pub(crate) label: Label,
    pub(crate) exit: Label,
    /// The number of the lane.
    pub(crate) lane: VReg,
    /// The bits of the lanes that follow.
    pub(crate) rest: VReg,
}

/// Returns the type of a vector whose lanes are in memory one by one: masks have bytes.
pub(crate) fn in_memory(ty: Type) -> Type {
    match ty.kind() {
        Kind::Pred => Type::vector(Kind::B8, ty.lanes()).expect("the lanes of a type"),
        _ => ty,
    }
}
