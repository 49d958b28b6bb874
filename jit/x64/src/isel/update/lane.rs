//! The update of memory in one lane.
//!
//! Only the thread that runs the code accesses shared memory, so the updates of shared memory are not locked. Others are
//! locked instructions, which are sequentially consistent. An operation without such an instruction is a loop around
//! `cmpxchg`.

use margay_ops::mods::AtomOp;
use margay_ops::types::OpType;
use regalloc2::{RegClass, VReg};
use smallvec::{SmallVec, smallvec};

use super::{Lane, Operand, Update, scratch};
use crate::asm::{Cond, Op, Width};
use crate::code::Cause;
use crate::isel::Selector;
use crate::isel::scalar::general;
use crate::mach::{Action, Base, Inst, Mem};

/// The update of a lane.
pub(super) struct LaneUpdate<'u> {
    update: &'u Update,
    lane: Lane,
    mem: Mem,
    operands: SmallVec<[Operand; 2]>,
}

impl<'u> LaneUpdate<'u> {
    /// Returns the update of a lane whose address has an offset.
    pub(super) fn new(
        update: &'u Update,
        lane: Lane,
        offset: VReg,
        operands: SmallVec<[Operand; 2]>,
    ) -> LaneUpdate<'u> {
        let mem = match update.base {
            Some(base) => Selector::indexed(base, offset, 1, 0),
            None => Mem::at(Base::Reg(offset), 0),
        };
        LaneUpdate {
            update,
            lane,
            mem,
            operands,
        }
    }

    fn bits(&self) -> u32 {
        self.update.bits()
    }

    /// Returns an instruction on memory.
    fn access(&self, op: Op) -> Inst {
        Inst {
            mem: self.mem,
            ..Inst::of(Action::Op(op), general(self.bits()))
        }
    }
}

impl Selector<'_> {
    /// Updates memory in a lane, and keeps the old contents if something uses them.
    pub(super) fn update_lane(&mut self, lane: &LaneUpdate<'_>) {
        let update = lane.update;
        if let Some(op) = update.in_place() {
            let mut inst = lane.access(op);
            match lane.operands[0] {
                Operand::Number(number) => inst.imm = Some(number.into()),
                Operand::Reg(reg) => inst.src[0] = reg,
            }
            inst.lock = !update.is_shared();
            let inst = self.in_lane(lane, inst);
            return self.push(inst);
        }
        let old = match update.is_shared() {
            true => self.shared_update(lane),
            false => self.locked_update(lane),
        };
        if let Some(results) = update.results {
            let to = scratch(results, lane.bits() / 8, lane.lane);
            self.effect(match old.class() {
                RegClass::Int => Self::general_store(lane.bits(), old, to),
                _ => float_store(lane.bits(), old, to),
            });
        }
    }

    /// Updates memory that no other thread accesses. Returns the old contents.
    fn shared_update(&mut self, lane: &LaneUpdate<'_>) -> VReg {
        let bits = lane.bits();
        let (old, inst) = if lane.update.adds_floats() {
            let (op, len) = float_load(bits);
            let load = Inst {
                len,
                ..lane.access(op)
            };
            let load = self.in_lane(lane, load);
            let old = self.result(RegClass::Float, load);
            let new = self.float_sum(lane, old);
            (old, float_store(bits, new, lane.mem))
        } else {
            let old = self.loaded_content(lane);
            let new = self.integer_update(lane, old);
            (old, Self::general_store(bits, new, lane.mem))
        };
        let inst = self.in_lane(lane, inst);
        self.push(inst);
        old
    }

    /// Returns an operand in a register.
    fn operand_register(&mut self, lane: &LaneUpdate<'_>, number: usize) -> VReg {
        match lane.operands[number] {
            Operand::Reg(reg) => reg,
            Operand::Number(number) if lane.bits() == 32 => self.imm(u64::from(number as u32)),
            Operand::Number(number) => self.imm(i64::from(number) as u64),
        }
    }

    /// Sets the place of an instruction that accesses memory in a lane.
    fn in_lane(&mut self, lane: &LaneUpdate<'_>, mut inst: Inst) -> Inst {
        match lane.lane {
            Lane::Number(number) => inst.place = self.access_place(number, 1, lane.bits()),
            Lane::Register(reg) => {
                inst.place = self.place(Cause::Loop {
                    lane: 0,
                    bytes: lane.bits() / 8,
                    operand: Default::default(),
                });
                inst.lane = reg;
            }
        }
        inst.has_effect = true;
        inst
    }

    /// Loads the old contents into a general register.
    fn loaded_content(&mut self, lane: &LaneUpdate<'_>) -> VReg {
        let inst = self.in_lane(lane, lane.access(Op::Mov));
        self.result(RegClass::Int, inst)
    }

    /// Updates memory with locked instructions. Returns the old contents in a general register.
    fn locked_update(&mut self, lane: &LaneUpdate<'_>) -> VReg {
        match lane.update.op() {
            AtomOp::Exch => self.exchanged(lane, Op::Xchg),
            AtomOp::Add if !lane.update.adds_floats() => self.exchanged(lane, Op::Xadd),
            AtomOp::Cas => {
                let [expected, new] = [0, 1].map(|number| self.operand_register(lane, number));
                self.compared_and_swapped(lane, expected, new)
            }
            _ => self.repeated_update(lane),
        }
    }

    /// Exchanges the operand with the contents of memory.
    fn exchanged(&mut self, lane: &LaneUpdate<'_>, op: Op) -> VReg {
        let mut inst = lane.access(op);
        inst.tied = self.operand_register(lane, 0);
        inst.lock = true;
        let inst = self.in_lane(lane, inst);
        self.result(RegClass::Int, inst)
    }

    /// Replaces the contents of memory if they are equal to `expected`. Returns the old contents, and sets the zero flag
    /// if they are equal.
    fn compared_and_swapped(&mut self, lane: &LaneUpdate<'_>, expected: VReg, new: VReg) -> VReg {
        let mut inst = lane.access(Op::Cmpxchg);
        inst.tied = expected;
        inst.src[0] = new;
        inst.lock = true;
        let inst = self.in_lane(lane, inst);
        self.result(RegClass::Int, inst)
    }

    /// Repeats the update until no other thread has changed the memory between the load and the swap.
    fn repeated_update(&mut self, lane: &LaneUpdate<'_>) -> VReg {
        let first = self.loaded_content(lane);
        let [again, retry, done] = std::array::from_fn(|_| self.mach.label());
        let read = self.mach.vreg(RegClass::Int);
        self.mach.block(again).params = vec![read];
        self.end_with(Action::Jump, smallvec![(again, smallvec![first])]);
        self.start(again);
        let new = match lane.update.adds_floats() {
            false => self.integer_update(lane, read),
            true => {
                let old = self.vector_of_gpr(read, lane.bits());
                let sum = self.float_sum(lane, old);
                self.gpr_of_vector(sum, lane.bits())
            }
        };
        let seen = self.compared_and_swapped(lane, read, new);
        self.end_with(
            Action::Branch(Cond::E),
            smallvec![(done, smallvec![]), (retry, smallvec![])],
        );
        self.start(retry);
        self.end_with(Action::Jump, smallvec![(again, smallvec![seen])]);
        self.start(done);
        seen
    }

    /// Returns the sum of floating-point numbers. Subnormal `f32` operands and results are flushed to zero, except in
    /// shared memory and with `.noftz`.
    fn float_sum(&mut self, lane: &LaneUpdate<'_>, old: VReg) -> VReg {
        let update = lane.update;
        let operand = self.operand_register(lane, 0);
        if update.bits() == 64 {
            return self.v2(Op::Vaddsd, Width::L128, old, operand);
        }
        if update.desc.ty != OpType::F32 || update.is_shared() || update.desc.mods.noftz() {
            return self.v2(Op::Vaddss, Width::L128, old, operand);
        }
        let [old, operand] = [old, operand].map(|reg| self.flush(1, reg));
        let sum = self.v2(Op::Vaddss, Width::L128, old, operand);
        self.flush(1, sum)
    }

    /// Returns the new contents, in general registers.
    fn integer_update(&mut self, lane: &LaneUpdate<'_>, old: VReg) -> VReg {
        let (len, op) = (general(lane.bits()), lane.update.op());
        let b = self.operand_register(lane, 0);
        let is_signed = lane.update.desc.ty.is_signed();
        match op {
            AtomOp::Add => self.g2(Op::Add, len, old, b),
            AtomOp::And => self.g2(Op::And, len, old, b),
            AtomOp::Or => self.g2(Op::Or, len, old, b),
            AtomOp::Xor => self.g2(Op::Xor, len, old, b),
            AtomOp::Min | AtomOp::Max => {
                let keeps = match (op, is_signed) {
                    (AtomOp::Min, true) => Cond::L,
                    (AtomOp::Min, false) => Cond::B,
                    (_, true) => Cond::G,
                    (_, false) => Cond::A,
                };
                self.flags(Op::Cmp, len, old, b);
                self.choose(keeps, old, b)
            }
            AtomOp::Inc => {
                let next = self.g2i(Op::Add, len, old, 1);
                let zero = self.imm(0);
                self.flags(Op::Cmp, len, old, b);
                self.choose(Cond::Ae, zero, next)
            }
            AtomOp::Dec => {
                let next = self.g2i(Op::Sub, len, old, 1);
                self.flags(Op::Cmp, len, old, b);
                let next = self.choose(Cond::A, b, next);
                self.flags(Op::Test, len, old, old);
                self.choose(Cond::E, b, next)
            }
            AtomOp::Cas => {
                let new = self.operand_register(lane, 1);
                self.flags(Op::Cmp, len, old, b);
                self.choose(Cond::E, new, old)
            }
            _ => b,
        }
    }
}

/// Returns the instruction that loads a floating-point number.
pub(super) fn float_load(bits: u32) -> (Op, Width) {
    match bits {
        32 => (Op::VmovssLoad, Width::L128),
        _ => (Op::Vmovq, Width::L128),
    }
}

/// Returns the instruction that stores a floating-point number.
fn float_store(bits: u32, value: VReg, mem: Mem) -> Inst {
    let op = match bits {
        32 => Op::VmovssStore,
        _ => Op::VmovqStore,
    };
    let mut inst = Inst::of(Action::Op(op), Width::L128);
    inst.src[0] = value;
    inst.mem = mem;
    inst
}
