//! Operations on scalar integers and predicates, in general registers.
//!
//! Invariant: a register that contains an integer of fewer than 64 bits, or a predicate, is zero in its upper bits.

use margay_ops::meaning::Desc;
use margay_ops::mods::{BoolOp, CmpOp, Half};
use margay_ops::ops::Opcode;
use margay_ops::types::{Kind, OpType, Type};
use regalloc2::{RegClass, VReg};
use smallvec::{SmallVec, smallvec};

use super::prim::Shift;
use super::{Regs, Selector, Val, one};
use crate::asm::{Cond, Op, Width};
use crate::mach::{Action, Inst, Mem};

/// An operand of a general instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operand {
    Reg(VReg),
    Imm(i32),
}

/// Returns the length of instructions on integers of `bits` bits.
pub(crate) fn general(bits: u32) -> Width {
    if bits > 32 { Width::W64 } else { Width::W32 }
}

/// Returns the condition of a comparison of integers, and whether it is a comparison of signed numbers.
pub(crate) fn condition(cmp: CmpOp, signed: bool) -> Option<(Cond, bool)> {
    let by_sign = |below, less| Some((if signed { less } else { below }, signed));
    match cmp {
        CmpOp::Eq => Some((Cond::E, signed)),
        CmpOp::Ne => Some((Cond::Ne, signed)),
        CmpOp::Lt => by_sign(Cond::B, Cond::L),
        CmpOp::Le => by_sign(Cond::Be, Cond::Le),
        CmpOp::Gt => by_sign(Cond::A, Cond::G),
        CmpOp::Ge => by_sign(Cond::Ae, Cond::Ge),
        CmpOp::Lo => Some((Cond::B, false)),
        CmpOp::Ls => Some((Cond::Be, false)),
        CmpOp::Hi => Some((Cond::A, false)),
        CmpOp::Hs => Some((Cond::Ae, false)),
        _ => None,
    }
}

type Outs = Option<SmallVec<[Regs; 2]>>;

fn result(reg: VReg) -> Outs {
    Some(smallvec![one(reg)])
}

impl Selector<'_> {
    /// A general instruction with one source, which the result overwrites.
    pub(crate) fn g1(&mut self, op: Op, len: Width, a: VReg) -> VReg {
        let mut inst = Inst::of(Action::Op(op), len);
        inst.tied = a;
        self.result(RegClass::Int, inst)
    }

    /// A general instruction with two sources, the first of which the result overwrites.
    pub(crate) fn g2(&mut self, op: Op, len: Width, a: VReg, b: VReg) -> VReg {
        let mut inst = Inst::of(Action::Op(op), len);
        inst.tied = a;
        inst.src[0] = b;
        self.result(RegClass::Int, inst)
    }

    /// A general instruction with a source that the result overwrites and an immediate operand.
    pub(crate) fn g2i(&mut self, op: Op, len: Width, a: VReg, imm: i64) -> VReg {
        let mut inst = Inst::of(Action::Op(op), len);
        inst.tied = a;
        inst.imm = Some(imm);
        self.result(RegClass::Int, inst)
    }

    /// A general instruction with one source and another result register.
    pub(crate) fn g_of(&mut self, op: Op, len: Width, a: VReg) -> VReg {
        let mut inst = Inst::of(Action::Op(op), len);
        inst.src[0] = a;
        self.result(RegClass::Int, inst)
    }

    /// A general instruction with two sources and another result register.
    pub(crate) fn g3(&mut self, op: Op, len: Width, a: VReg, b: VReg) -> VReg {
        let mut inst = Inst::of(Action::Op(op), len);
        inst.src = [a, b];
        self.result(RegClass::Int, inst)
    }

    /// Returns the address of memory.
    pub(crate) fn address_of(&mut self, mem: Mem) -> VReg {
        let mut inst = Inst::of(Action::Op(Op::Lea), Width::W64);
        inst.mem = mem;
        self.result(RegClass::Int, inst)
    }

    /// Compares two registers and sets the flags.
    pub(crate) fn flags(&mut self, op: Op, len: Width, a: VReg, b: VReg) {
        let mut inst = Inst::of(Action::Op(op), len);
        inst.src = [a, b];
        self.push(inst);
    }

    /// Compares a register with an immediate operand and sets the flags.
    pub(crate) fn flags_imm(&mut self, op: Op, len: Width, a: VReg, imm: i64) {
        let mut inst = Inst::of(Action::Op(op), len);
        inst.src[0] = a;
        inst.imm = Some(imm);
        self.push(inst);
    }

    /// Returns 0 or 1 by the flags.
    pub(crate) fn set(&mut self, cond: Cond) -> VReg {
        let byte = self.result(RegClass::Int, Inst::of(Action::Set(cond), Width::W32));
        self.g_of(Op::Movzx8, Width::W32, byte)
    }

    /// Returns `yes` if the condition of the flags holds, and `no` otherwise.
    pub(crate) fn choose(&mut self, cond: Cond, yes: VReg, no: VReg) -> VReg {
        let mut inst = Inst::of(Action::Move(cond), Width::W64);
        inst.tied = no;
        inst.src[0] = yes;
        self.result(RegClass::Int, inst)
    }

    /// Returns the general register that contains a scalar.
    pub(crate) fn gpr(&mut self, val: &Val) -> VReg {
        match val.bits {
            Some(bits) if val.ty.kind() == Kind::Pred => self.imm(bits & 1),
            Some(bits) => self.imm(bits),
            None => val.regs[0],
        }
    }

    /// Returns a scalar as an operand of an instruction with operands of `bits` bits.
    fn operand(&mut self, val: &Val, bits: u32) -> Operand {
        let extended = val.bits.map(|value| {
            let shift = 64 - bits.max(32);
            (value << shift) as i64 >> shift
        });
        match extended.map(i32::try_from) {
            Some(Ok(imm)) => Operand::Imm(imm),
            _ => Operand::Reg(self.gpr(val)),
        }
    }

    fn with_operand(&mut self, (op, op_imm): (Op, Op), len: Width, a: VReg, b: Operand) -> VReg {
        match b {
            Operand::Reg(b) => self.g2(op, len, a, b),
            Operand::Imm(imm) => self.g2i(op_imm, len, a, imm.into()),
        }
    }

    /// Clears the bits of a register beyond the lowest `bits`.
    pub(crate) fn zero_extended(&mut self, a: VReg, bits: u32) -> VReg {
        match bits {
            1 => self.g2i(Op::And, Width::W32, a, 1),
            8 => self.g_of(Op::Movzx8, Width::W32, a),
            16 => self.g_of(Op::Movzx16, Width::W32, a),
            _ => a,
        }
    }

    /// Sign-extends the lowest `bits` bits of a register to 32 or 64 bits.
    pub(crate) fn sign_extended(&mut self, a: VReg, bits: u32, len: Width) -> VReg {
        match bits {
            8 => self.g_of(Op::Movsx8, len, a),
            16 => self.g_of(Op::Movsx16, len, a),
            32 if len == Width::W64 => self.g_of(Op::Movsxd, len, a),
            _ => a,
        }
    }

    /// Selects an operation whose operands and results are scalars; `None` if it has no lowering in general registers.
    pub(crate) fn scalar_map(&mut self, desc: &Desc, args: &[Val], results: &[Type]) -> Outs {
        let is_general = |ty: Type| !ty.is_float();
        let ty = desc.ty;
        match desc.opcode {
            Opcode::Bitcast => return self.scalar_bitcast(args, results),
            Opcode::Pack | Opcode::Unpack => return self.scalar_pack(desc, args, results),
            _ if !args.iter().all(|arg| is_general(arg.ty)) => return None,
            _ if !results.iter().all(|&ty| is_general(ty)) => return None,
            Opcode::Selp if ty.bits() <= 64 => return self.scalar_selp(args),
            _ if ty.elements() != 1 || ty.is_float() || ty.bits() > 64 => return None,
            _ => {}
        }
        match desc.opcode {
            Opcode::Add | Opcode::Sub => self.scalar_sum(desc, args),
            Opcode::Mul | Opcode::Mad => self.scalar_product(desc, args),
            Opcode::And | Opcode::Or | Opcode::Xor => self.scalar_logic(desc, args),
            Opcode::Not => {
                let a = self.gpr(&args[0]);
                let bits = ty.bits();
                result(match bits {
                    1 => self.g2i(Op::Xor, Width::W32, a, 1),
                    _ => {
                        let all = self.g1(Op::Not, general(bits), a);
                        self.zero_extended(all, bits)
                    }
                })
            }
            Opcode::Shl | Opcode::Shr => self.scalar_shift(desc, args),
            Opcode::Min | Opcode::Max => self.scalar_extreme(desc, args),
            Opcode::Abs | Opcode::Neg => self.scalar_sign(desc, args),
            Opcode::Setp => self.scalar_setp(desc, args, results),
            Opcode::Cvt => self.scalar_cvt(desc, args),
            Opcode::Popc => {
                let a = self.gpr(&args[0]);
                result(self.g_of(Op::Popcnt, general(ty.bits()), a))
            }
            Opcode::Clz => {
                let a = self.gpr(&args[0]);
                result(self.g_of(Op::Lzcnt, general(ty.bits()), a))
            }
            Opcode::Div | Opcode::Rem if !desc.mods.sat() => self.scalar_div(desc, args),
            _ => None,
        }
    }

    fn scalar_bitcast(&mut self, args: &[Val], results: &[Type]) -> Outs {
        let (from, to) = (&args[0], results[0]);
        if from.ty.kind().bits() > 64 || from.ty.lane_bits() != to.lane_bits() {
            return None;
        }
        let reg = match (from.ty.is_float(), to.is_float()) {
            (false, false) => self.gpr(from),
            (false, true) => {
                let reg = self.gpr(from);
                self.vector_of_gpr(reg, to.lane_bits())
            }
            (true, false) => {
                let reg = self.piece(from, 1, 0);
                let reg = self.reg(&reg);
                self.gpr_of_vector(reg, to.lane_bits())
            }
            (true, true) => {
                let reg = self.piece(from, 1, 0);
                self.reg(&reg)
            }
        };
        result(reg)
    }

    fn scalar_pack(&mut self, desc: &Desc, args: &[Val], results: &[Type]) -> Outs {
        let part = if desc.opcode == Opcode::Pack {
            desc.src.bits()
        } else {
            desc.ty.bits()
        };
        let whole = if desc.opcode == Opcode::Pack {
            desc.ty.bits()
        } else {
            desc.src.bits()
        };
        if !(8..=64).contains(&part) {
            return None;
        }
        if desc.opcode == Opcode::Pack {
            let words: SmallVec<[VReg; 4]> = args.iter().map(|arg| self.gpr(arg)).collect();
            let per = (64 / part).max(1) as usize;
            let halves: Regs = words
                .chunks(per)
                .map(|parts| self.packed(part, parts))
                .collect();
            let complete = words.len() as u32 * part == whole;
            return complete.then(|| smallvec![halves]);
        }
        let count = results.len() as u32;
        let from: Regs = match args[0].bits {
            Some(bits) => {
                let (low, high) = (self.imm(bits), self.imm(0));
                smallvec![low, high]
            }
            None => args[0].regs.clone(),
        };
        if part * count != whole || part > 64 {
            return None;
        }
        let outs = (0..count).map(|n| {
            let (word, shift) = ((n * part / 64) as usize, n * part % 64);
            let moved = match shift {
                0 => from[word],
                _ => self.g2i(Op::Shr, Width::W64, from[word], shift.into()),
            };
            one(match part {
                32 => self.g_of(Op::Mov, Width::W32, moved),
                _ => self.zero_extended(moved, part),
            })
        });
        Some(outs.collect())
    }

    /// Returns 64 bits that consist of parts.
    fn packed(&mut self, part: u32, parts: &[VReg]) -> VReg {
        let mut whole = parts[0];
        for (number, &next) in (1..).zip(&parts[1..]) {
            let moved = self.g2i(Op::Shl, Width::W64, next, i64::from(part) * number);
            whole = self.g2(Op::Or, Width::W64, whole, moved);
        }
        whole
    }

    fn scalar_selp(&mut self, args: &[Val]) -> Outs {
        if args[0].ty.lane_bits() > 64 {
            return None;
        }
        let (a, b, p) = (self.gpr(&args[0]), self.gpr(&args[1]), self.gpr(&args[2]));
        self.flags(Op::Test, Width::W32, p, p);
        result(self.choose(Cond::Ne, a, b))
    }

    fn scalar_sum(&mut self, desc: &Desc, args: &[Val]) -> Outs {
        if desc.mods.sat() || desc.mods.carry_out() {
            return None;
        }
        let bits = desc.ty.bits();
        let len = general(bits);
        let a = self.gpr(&args[0]);
        let b = self.operand(&args[1], bits);
        let ops = match desc.opcode {
            Opcode::Add => (Op::Add, Op::Add),
            _ => (Op::Sub, Op::Sub),
        };
        let sum = self.with_operand(ops, len, a, b);
        result(self.zero_extended(sum, bits))
    }

    fn scalar_product(&mut self, desc: &Desc, args: &[Val]) -> Outs {
        let (bits, signed) = (desc.ty.bits(), desc.ty.is_signed());
        if desc.mods.sat() || desc.mods.carry_out() || bits < 16 {
            return None;
        }
        let (a, b) = (self.gpr(&args[0]), self.gpr(&args[1]));
        let (product, width) = match (desc.mods.half(), bits) {
            (Half::Hi, 64) => (self.high_product(signed, a, b), 64),
            (Half::Hi, _) => {
                let whole = self.wide_product(signed, bits, a, b);
                let op = if signed { Op::Sar } else { Op::Shr };
                (self.g2i(op, Width::W64, whole, bits.into()), bits)
            }
            (Half::Wide, 64) => (self.g2(Op::Imul, Width::W64, a, b), 64),
            (Half::Wide, _) => (self.wide_product(signed, bits, a, b), 2 * bits),
            _ => (self.g2(Op::Imul, general(bits), a, b), bits),
        };
        let whole = match desc.opcode {
            Opcode::Mad => {
                let c = self.operand(&args[2], width);
                self.with_operand((Op::Add, Op::Add), general(width), product, c)
            }
            _ => product,
        };
        result(match width {
            32 => self.g_of(Op::Mov, Width::W32, whole),
            _ => self.zero_extended(whole, width),
        })
    }

    /// Returns the product of two integers of up to 32 bits in 64 bits.
    fn wide_product(&mut self, signed: bool, bits: u32, a: VReg, b: VReg) -> VReg {
        let (a, b) = match signed {
            true => (
                self.sign_extended(a, bits, Width::W64),
                self.sign_extended(b, bits, Width::W64),
            ),
            false => (a, b),
        };
        self.g2(Op::Imul, Width::W64, a, b)
    }

    /// Returns the upper half of the product of two integers of 64 bits.
    fn high_product(&mut self, signed: bool, a: VReg, b: VReg) -> VReg {
        let low = self.mach.vreg(RegClass::Int);
        let mut inst = Inst::of(Action::Wide(signed), Width::W64);
        inst.tied = a;
        inst.src[0] = b;
        inst.second = low;
        self.result(RegClass::Int, inst)
    }

    fn scalar_logic(&mut self, desc: &Desc, args: &[Val]) -> Outs {
        let ops = match desc.opcode {
            Opcode::And => (Op::And, Op::And),
            Opcode::Or => (Op::Or, Op::Or),
            _ => (Op::Xor, Op::Xor),
        };
        let a = self.gpr(&args[0]);
        let b = match desc.ty {
            OpType::Pred => Operand::Reg(self.gpr(&args[1])),
            ty => self.operand(&args[1], ty.bits()),
        };
        let len = general(desc.ty.bits());
        result(self.with_operand(ops, len, a, b))
    }

    fn scalar_shift(&mut self, desc: &Desc, args: &[Val]) -> Outs {
        let (bits, signed) = (desc.ty.bits(), desc.ty.is_signed());
        let how = match (desc.opcode, signed) {
            (Opcode::Shl, _) => Shift::Left,
            (_, true) => Shift::Arithmetic,
            _ => Shift::Right,
        };
        let (len, a) = (general(bits), self.gpr(&args[0]));
        let a = match how {
            Shift::Arithmetic => self.sign_extended(a, bits, len),
            _ => a,
        };
        let (op, op_imm) = match how {
            Shift::Left => (Op::Shlx, Op::Shl),
            Shift::Right => (Op::Shrx, Op::Shr),
            Shift::Arithmetic => (Op::Sarx, Op::Sar),
        };
        let limit = if how == Shift::Arithmetic {
            bits - 1
        } else {
            bits
        };
        let shifted = if let Some(amount) = args[1].bits {
            let amount = (amount as u32).min(limit);
            if amount == bits {
                return result(self.imm(0));
            }
            self.g2i(op_imm, len, a, amount.into())
        } else {
            let by = self.gpr(&args[1]);
            let zero = self.imm(0);
            let most = self.imm(limit.into());
            self.flags_imm(Op::Cmp, Width::W32, by, limit.into());
            if how == Shift::Arithmetic {
                let by = self.choose(Cond::A, most, by);
                self.g3(op, len, a, by)
            } else {
                let shifted = self.g3(op, len, a, by);
                self.choose(Cond::Ae, zero, shifted)
            }
        };
        result(match (bits, how) {
            (..32, Shift::Left | Shift::Arithmetic) => self.zero_extended(shifted, bits),
            _ => shifted,
        })
    }

    fn scalar_extreme(&mut self, desc: &Desc, args: &[Val]) -> Outs {
        let (bits, signed) = (desc.ty.bits(), desc.ty.is_signed());
        if args.len() != 2 || desc.mods.relu() || bits < 32 {
            return None;
        }
        let (a, b) = (self.gpr(&args[0]), self.gpr(&args[1]));
        self.flags(Op::Cmp, general(bits), a, b);
        let cond = match (desc.opcode, signed) {
            (Opcode::Min, true) => Cond::L,
            (Opcode::Min, false) => Cond::B,
            (_, true) => Cond::G,
            (_, false) => Cond::A,
        };
        result(self.choose(cond, a, b))
    }

    fn scalar_sign(&mut self, desc: &Desc, args: &[Val]) -> Outs {
        let bits = desc.ty.bits();
        let len = general(bits);
        let a = self.gpr(&args[0]);
        let negated = self.g1(Op::Neg, len, a);
        let negated = self.zero_extended(negated, bits);
        if desc.opcode == Opcode::Neg {
            return result(negated);
        }
        if !desc.ty.is_signed() {
            return result(a);
        }
        let extended = self.sign_extended(a, bits, Width::W32);
        self.flags(Op::Test, len, extended, extended);
        result(self.choose(Cond::L, negated, a))
    }

    /// Compares two integers, and returns the condition of the flags that holds if the comparison does.
    pub(crate) fn scalar_compare(&mut self, desc: &Desc, a: &Val, b: &Val) -> Option<Cond> {
        let bits = desc.ty.bits();
        let (cond, signed) = condition(desc.mods.cmp(), desc.ty.is_signed())?;
        let len = general(bits);
        let (x, y) = (self.gpr(a), self.operand(b, bits));
        if bits < 32 {
            let y = self.gpr(b);
            let (x, y) = match signed {
                true => (
                    self.sign_extended(x, bits, len),
                    self.sign_extended(y, bits, len),
                ),
                false => (x, y),
            };
            self.flags(Op::Cmp, len, x, y);
            return Some(cond);
        }
        match y {
            Operand::Reg(y) => self.flags(Op::Cmp, len, x, y),
            Operand::Imm(imm) => self.flags_imm(Op::Cmp, len, x, imm.into()),
        }
        Some(cond)
    }

    fn scalar_setp(&mut self, desc: &Desc, args: &[Val], results: &[Type]) -> Outs {
        condition(desc.mods.cmp(), desc.ty.is_signed())?;
        let with = match desc.mods.bool_op() {
            BoolOp::None => None,
            op => Some((op, self.gpr(args.get(2)?))),
        };
        let cond = self.scalar_compare(desc, &args[0], &args[1])?;
        let holds = self.set(cond);
        let outcomes: SmallVec<[VReg; 2]> = match results.len() {
            1 => smallvec![holds],
            _ => smallvec![holds, self.g2i(Op::Xor, Width::W32, holds, 1)],
        };
        let combined = outcomes.into_iter().map(|outcome| {
            one(match with {
                None => outcome,
                Some((BoolOp::And, with)) => self.g2(Op::And, Width::W32, outcome, with),
                Some((BoolOp::Or, with)) => self.g2(Op::Or, Width::W32, outcome, with),
                Some((_, with)) => self.g2(Op::Xor, Width::W32, outcome, with),
            })
        });
        Some(combined.collect())
    }

    fn scalar_cvt(&mut self, desc: &Desc, args: &[Val]) -> Outs {
        let (to, from) = (desc.ty, desc.src);
        if desc.mods.sat()
            || !from.is_integer()
            || from.elements() != 1
            || from.bits() < 8
            || args.len() != 1
        {
            return None;
        }
        let a = self.gpr(&args[0]);
        let extended = match from.is_signed() && to.bits() > from.bits() {
            true => self.sign_extended(a, from.bits(), general(to.bits())),
            false => a,
        };
        result(match to.bits() {
            32 if from.bits() == 64 => self.g_of(Op::Mov, Width::W32, extended),
            bits if bits < 32 => self.zero_extended(extended, bits),
            _ => extended,
        })
    }

    fn scalar_div(&mut self, desc: &Desc, args: &[Val]) -> Outs {
        let (bits, signed) = (desc.ty.bits(), desc.ty.is_signed());
        let (a, b) = (self.gpr(&args[0]), self.gpr(&args[1]));
        let (mut a, b) = match signed && bits < 64 {
            true => (
                self.sign_extended(a, bits, Width::W64),
                self.sign_extended(b, bits, Width::W64),
            ),
            false => (a, b),
        };
        let (one_, ones) = (self.imm(1), self.imm(u64::MAX));
        let mut divisor = b;
        if signed && bits == 64 {
            // The least integer divided by -1 raises an exception; the negation divided by 1 has the same results.
            let negated = self.g1(Op::Neg, Width::W64, a);
            self.flags_imm(Op::Cmp, Width::W64, b, -1);
            a = self.choose(Cond::E, negated, a);
            self.flags_imm(Op::Cmp, Width::W64, b, -1);
            divisor = self.choose(Cond::E, one_, b);
        }
        self.flags(Op::Test, Width::W64, b, b);
        divisor = self.choose(Cond::E, one_, divisor);
        let rest = self.mach.vreg(RegClass::Int);
        let len = if signed { Width::W64 } else { general(bits) };
        let mut inst = Inst::of(Action::Divide(signed), len);
        inst.tied = a;
        inst.src[0] = divisor;
        inst.second = rest;
        inst.has_effect = true;
        let quotient = self.result(RegClass::Int, inst);
        let whole = if desc.opcode == Opcode::Div {
            quotient
        } else {
            rest
        };
        self.flags(Op::Test, Width::W64, b, b);
        let whole = self.choose(Cond::E, ones, whole);
        result(match bits {
            32 => self.g_of(Op::Mov, Width::W32, whole),
            _ => self.zero_extended(whole, bits),
        })
    }

    /// Returns the address `base + index * scale + disp` as a memory operand.
    pub(crate) fn indexed(base: VReg, index: VReg, scale: u8, disp: i32) -> Mem {
        Mem {
            index,
            scale,
            ..Mem::at(crate::mach::Base::Reg(base), disp)
        }
    }
}
