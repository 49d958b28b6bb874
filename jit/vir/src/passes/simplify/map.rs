//! Rules for operations of the IR in lanes.

use margay_ir::entity::{Inst, Value};
use margay_ops::meaning::{Bits, Desc, mask};
use margay_ops::mods::{Half, Mods};
use margay_ops::ops::Opcode;
use margay_ops::types::{Class, OpType, Type};
use smallvec::{SmallVec, smallvec};

use super::{Change, Rewriter};
use crate::data::Data;
use crate::meaning::apply;
use crate::ops::Op;
use crate::passes::emitter::plain;

pub(super) fn rule(rewriter: &mut Rewriter<'_>, inst: Inst) -> Option<Change> {
    let data = rewriter.function.insts[inst];
    let (Data::Lane(desc), Some(ty)) = (data.data, data.ty) else {
        return None;
    };
    if let Some(change) = one_lane(rewriter, inst, &desc, ty) {
        return Some(change);
    }
    let mut operation = Operation {
        args: rewriter.function.args(inst).into(),
        rewriter,
        inst,
        desc,
        ty,
    };
    match desc.opcode {
        Opcode::Selp => operation.select(),
        Opcode::Setp => operation.compare(),
        Opcode::Cvt | Opcode::Bitcast => operation.convert(),
        Opcode::Mul if desc.mods == WIDE => operation.wide_product(),
        _ if operation.is_whole_integer() => operation.integer(),
        _ => None,
    }
}

/// If all lanes of a vector operation have equal operands, computes one lane.
fn one_lane(rewriter: &mut Rewriter<'_>, inst: Inst, desc: &Desc, ty: Type) -> Option<Change> {
    if ty.lanes() == 1 || rewriter.function.args(inst).is_empty() {
        return None;
    }
    let is_uniform = |&arg: &Value| {
        let function = &*rewriter.function;
        let op = function.def_inst(arg).map(|inst| function.insts[inst].op);
        function.ty(arg).lanes() == 1 || matches!(op, Some(Op::Splat | Op::Const))
    };
    if !rewriter.function.args(inst).iter().all(is_uniform) {
        return None;
    }
    let args: SmallVec<[Value; 4]> = rewriter.function.args(inst).into();
    let results: SmallVec<[Type; 2]> = rewriter
        .function
        .results(inst)
        .iter()
        .map(|&value| rewriter.function.ty(value))
        .collect();
    let scalars: SmallVec<[Value; 4]> = args.iter().map(|&arg| scalar(rewriter, arg)).collect();
    let types: SmallVec<[Type; 2]> = results.iter().map(|ty| Type::scalar(ty.kind())).collect();
    let head = (Op::Map, Some(Type::scalar(ty.kind())), Data::Lane(*desc));
    let new = rewriter.function.make_inst(head, &scalars, &types);
    rewriter.function.places[new] = rewriter.place;
    let lanes: SmallVec<[Value; 2]> = rewriter.function.results(new).into();
    rewriter.add(new);
    let values = lanes.iter().zip(&results).map(|(&lane, &ty)| {
        let lane = margay_ir::function::resolve(&rewriter.function.values, lane);
        rewriter.emit(Op::Splat, ty, Data::Nothing, &[lane])
    });
    Some(Change::Values(values.collect()))
}

/// Returns the lane of a value whose lanes are equal.
fn scalar(rewriter: &mut Rewriter<'_>, value: Value) -> Value {
    let ty = rewriter.function.ty(value);
    if ty.lanes() == 1 {
        return value;
    }
    if let Some(bits) = rewriter.function.constant(value) {
        return rewriter.constant(Type::scalar(ty.kind()), bits);
    }
    match rewriter.def_as(value, Op::Splat) {
        Some(args) => args[0],
        None => value,
    }
}

/// Whether the operands of an operation may be swapped.
pub(in crate::passes) fn is_commutative(opcode: Opcode) -> bool {
    use Opcode::{Add, And, Max, Min, Mul, Or, Xor};
    matches!(opcode, Add | Mul | And | Or | Xor | Min | Max)
}

/// Whether an operation is one of plain integers, or of truth values, with as many bits as the lanes of the result.
pub(in crate::passes) fn is_whole_integer(desc: &Desc, ty: Type) -> bool {
    let has_no_mods =
        desc.mods == Mods::NONE || desc.opcode == Opcode::Mul && desc.mods == LOW_HALF;
    let is_integer = desc.ty.is_integer() || desc.ty.class() == Class::Pred;
    has_no_mods
        && is_integer
        && desc.src == OpType::None
        && desc.ty.elements() == 1
        && desc.ty.bits() == ty.lane_bits()
        && ty.lane_bits() <= 64
        && !ty.is_float()
}

const WIDE: Mods = Mods::NONE.with_half(Half::Wide);
const LOW_HALF: Mods = Mods::NONE.with_half(Half::Lo);

struct Operation<'a, 'b> {
    rewriter: &'a mut Rewriter<'b>,
    inst: Inst,
    desc: Desc,
    ty: Type,
    args: SmallVec<[Value; 4]>,
}

impl Operation<'_, '_> {
    /// Replaces a wide product with a power of two by a conversion and a shift.
    fn wide_product(&mut self) -> Option<Change> {
        let (narrow, wide) = match self.desc.ty {
            OpType::S32 => (OpType::S32, OpType::S64),
            OpType::U32 => (OpType::U32, OpType::U64),
            _ => return None,
        };
        let function = &*self.rewriter.function;
        let known = |index: usize| {
            function
                .constant(self.args[index])
                .filter(|bits| bits.is_power_of_two())
        };
        let (other, bits) = match (known(0), known(1)) {
            (_, Some(bits)) => (self.args[0], bits),
            (Some(bits), None) => (self.args[1], bits),
            (None, None) => return None,
        };
        // As a signed number, this power of two is negative.
        if narrow == OpType::S32 && bits == 1 << 31 {
            return None;
        }
        let lanes = function.ty(other).lanes();
        let ty = Type::vector(self.ty.kind(), lanes)?;
        let desc = Desc {
            src: narrow,
            ..plain(Opcode::Cvt, wide)
        };
        let extended = self.rewriter.emit(Op::Map, ty, Data::Lane(desc), &[other]);
        let by = self
            .rewriter
            .constant(Type::B32, bits.trailing_zeros().into());
        let shift = Data::Lane(plain(Opcode::Shl, OpType::B64));
        self.rewriter
            .set(self.inst, Op::Map, shift, &[extended, by])
    }

    fn is_whole_integer(&self) -> bool {
        is_whole_integer(&self.desc, self.ty)
    }

    fn ones(&self) -> u64 {
        mask(self.ty.lane_bits()) as u64
    }

    /// Returns a value as the only result.
    fn is(&mut self, value: Value) -> Option<Change> {
        let value = self.rewriter.as_type(value, self.ty)?;
        Change::value(value)
    }

    fn is_constant(&mut self, bits: u64) -> Option<Change> {
        let value = self.rewriter.constant(self.ty, bits);
        Change::value(value)
    }

    /// Returns the bits of a constant with equal lanes.
    fn constant(&self, value: Value) -> Option<u64> {
        self.rewriter.function.constant(value)
    }

    /// Returns the operands of a value that this op, with the type of this operation, computes.
    fn operands(&self, value: Value, opcode: Opcode) -> Option<&[Value]> {
        let function = &*self.rewriter.function;
        let inst = function.def_inst(value)?;
        let data = &function.insts[inst];
        let is_same = data.op == Op::Map
            && matches!(data.data, Data::Lane(desc)
                if desc.opcode == opcode && is_whole_integer(&desc, function.ty(value)))
            && function.ty(value).lane_bits() == self.ty.lane_bits();
        is_same.then(|| function.args(inst))
    }

    fn integer(&mut self) -> Option<Change> {
        match self.args[..] {
            [a] => self.unary(a),
            [a, b] => self.binary(a, b),
            _ => None,
        }
    }

    /// `not` and `neg` are their own inverses.
    fn unary(&mut self, a: Value) -> Option<Change> {
        let opcode = self.desc.opcode;
        if !matches!(opcode, Opcode::Not | Opcode::Neg) {
            return None;
        }
        let &[inner] = self.operands(a, opcode)? else {
            return None;
        };
        self.is(inner)
    }

    fn binary(&mut self, a: Value, b: Value) -> Option<Change> {
        let opcode = self.desc.opcode;
        if is_commutative(opcode) && self.constant(a).is_some() && self.constant(b).is_none() {
            return self.rewriter.set_args(self.inst, &[b, a]);
        }
        if let Some(constant) = self.constant(b)
            && let Some(change) = self.with_constant(a, constant)
        {
            return Some(change);
        }
        if self.constant(a) == Some(0) && matches!(opcode, Opcode::Shl | Opcode::Shr) {
            return self.is_constant(0);
        }
        if a == b {
            return self.with_itself(a);
        }
        if matches!(opcode, Opcode::And | Opcode::Or) {
            return self.absorbed(a, b).or_else(|| self.absorbed(b, a));
        }
        None
    }

    /// Rules for a constant second operand.
    fn with_constant(&mut self, a: Value, constant: u64) -> Option<Change> {
        let ones = self.ones();
        match (self.desc.opcode, constant) {
            (Opcode::Add | Opcode::Sub | Opcode::Or | Opcode::Xor, 0)
            | (Opcode::Shl | Opcode::Shr, 0)
            | (Opcode::Mul, 1) => self.is(a),
            (Opcode::And | Opcode::Mul, 0) => self.is_constant(0),
            (Opcode::And, _) if constant == ones => self.is(a),
            (Opcode::Or, _) if constant == ones => self.is_constant(ones),
            (Opcode::Xor, _) if constant == ones => self.inverted(a),
            (Opcode::Sub, _) => {
                let negated = constant.wrapping_neg() & ones;
                self.with_new_constant(Opcode::Add, a, negated)
            }
            (Opcode::Shl, by) if by >= u64::from(self.ty.lane_bits()) => self.is_constant(0),
            (Opcode::Mul, _) if constant.is_power_of_two() => self.shifted(a, constant),
            (opcode @ (Opcode::Add | Opcode::And | Opcode::Or | Opcode::Xor | Opcode::Mul), _) => {
                self.reassociated(opcode, a, constant)
            }
            _ => None,
        }
    }

    /// Changes the operation into another one with a constant second operand.
    fn with_new_constant(&mut self, opcode: Opcode, a: Value, bits: u64) -> Option<Change> {
        let ty = self.rewriter.function.ty(self.args[1]);
        let constant = self.rewriter.constant(ty, bits);
        let desc = Desc {
            opcode,
            ..self.desc
        };
        let args = [a, constant];
        self.rewriter
            .set(self.inst, Op::Map, Data::Lane(desc), &args)
    }

    /// `x ^ -1` is `not x`.
    fn inverted(&mut self, a: Value) -> Option<Change> {
        let desc = plain(Opcode::Not, self.desc.ty);
        self.rewriter
            .set(self.inst, Op::Map, Data::Lane(desc), &[a])
    }

    /// A product with a power of two is a shift.
    fn shifted(&mut self, a: Value, factor: u64) -> Option<Change> {
        let ty = match self.ty.lane_bits() {
            16 => OpType::B16,
            32 => OpType::B32,
            64 => OpType::B64,
            _ => return None,
        };
        let amount = factor.trailing_zeros().into();
        let amount = self.rewriter.constant(Type::B32, amount);
        let data = Data::Lane(plain(Opcode::Shl, ty));
        self.rewriter.set(self.inst, Op::Map, data, &[a, amount])
    }

    /// `(x op c) op d` is `x op (c op d)`.
    fn reassociated(&mut self, opcode: Opcode, a: Value, constant: u64) -> Option<Change> {
        let &[inner, first] = self.operands(a, opcode)? else {
            return None;
        };
        let first = self.constant(first)?;
        let mut bits = [0];
        apply(&self.desc, &[first.into(), constant.into()], &mut bits);
        self.with_new_constant(opcode, inner, bits[0] as u64)
    }

    fn with_itself(&mut self, a: Value) -> Option<Change> {
        match self.desc.opcode {
            Opcode::And | Opcode::Or | Opcode::Min | Opcode::Max => self.is(a),
            Opcode::Sub | Opcode::Xor => self.is_constant(0),
            _ => None,
        }
    }

    /// Rules for `a & b` and `a | b` if `b` contains `a`.
    fn absorbed(&mut self, a: Value, b: Value) -> Option<Change> {
        let (this, other) = match self.desc.opcode {
            Opcode::And => (Opcode::And, Opcode::Or),
            _ => (Opcode::Or, Opcode::And),
        };
        let contains = |operands: Option<&[Value]>| operands.is_some_and(|of| of.contains(&a));
        if contains(self.operands(b, this)) {
            return self.is(b);
        }
        if contains(self.operands(b, other)) {
            return self.is(a);
        }
        if contains(self.operands(b, Opcode::Not)) {
            let bits = if this == Opcode::And { 0 } else { self.ones() };
            return self.is_constant(bits);
        }
        None
    }

    /// Comparisons of an integer with itself do not depend on it.
    fn compare(&mut self) -> Option<Change> {
        let &[a, b] = self.args.as_slice() else {
            return None;
        };
        if a != b || !self.desc.ty.is_integer() || self.desc.ty.elements() != 1 {
            return None;
        }
        let results: SmallVec<[Value; 2]> = self.rewriter.function.results(self.inst).into();
        let mut bits: SmallVec<[Bits; 2]> = smallvec![0; results.len()];
        apply(&self.desc, &[0, 0], &mut bits);
        let values = results.iter().zip(bits).map(|(&result, bits)| {
            let ty = self.rewriter.function.ty(result);
            self.rewriter.constant(ty, bits as u64)
        });
        Some(Change::Values(values.collect()))
    }

    fn select(&mut self) -> Option<Change> {
        let &[a, b, on] = self.args.as_slice() else {
            return None;
        };
        if self.desc.ty.bits() != self.ty.lane_bits() {
            return None;
        }
        if let Some(on) = self.constant(on) {
            return self.is(if on != 0 { a } else { b });
        }
        if a == b {
            return self.is(a);
        }
        if let Some(inner) = self.not_of(on) {
            return self.rewriter.set_args(self.inst, &[b, a, inner]);
        }
        if let Some(chosen) = self.chosen(a, on, 0) {
            return self.rewriter.set_args(self.inst, &[chosen, b, on]);
        }
        if let Some(chosen) = self.chosen(b, on, 1) {
            return self.rewriter.set_args(self.inst, &[a, chosen, on]);
        }
        match self.constant(b) == Some(0) && self.is_zero_elsewhere(a, on) {
            true => self.is(a),
            false => None,
        }
    }

    /// Returns the mask of which a mask is the inverse.
    fn not_of(&self, on: Value) -> Option<Value> {
        let function = &*self.rewriter.function;
        let inst = function.def_inst(on)?;
        let is_not =
            matches!(function.insts[inst].data, Data::Lane(desc) if desc.opcode == Opcode::Not);
        is_not.then(|| function.args(inst)[0])
    }

    /// If `value` is chosen by the mask `on`, returns what it is where the mask is true (operand 0) or false (1).
    fn chosen(&self, value: Value, on: Value, operand: usize) -> Option<Value> {
        let function = &*self.rewriter.function;
        let inst = function.def_inst(value)?;
        let data = &function.insts[inst];
        let is_same = data.op == Op::Map && data.data == Data::Lane(self.desc);
        let args = function.args(inst);
        (is_same && args.get(2) == Some(&on)).then(|| args[operand])
    }

    /// Returns whether a value is zero in all lanes in which the mask is false, because the same mask made it.
    fn is_zero_elsewhere(&self, value: Value, on: Value) -> bool {
        let function = &*self.rewriter.function;
        let Some(inst) = function.def_inst(value) else {
            return false;
        };
        let mask = match function.insts[inst].op {
            Op::Load | Op::Expand => function.args(inst).get(1),
            Op::Gather => function.args(inst).get(2),
            _ => None,
        };
        mask == Some(&on)
    }

    /// Conversions that keep all bits.
    fn convert(&mut self) -> Option<Change> {
        let &[a] = self.args.as_slice() else {
            return None;
        };
        let Desc { ty, src, mods, .. } = self.desc;
        let keeps_bits = match self.desc.opcode {
            Opcode::Bitcast => true,
            _ => {
                mods == Mods::NONE
                    && ty.is_integer()
                    && src.is_integer()
                    && ty.elements() == 1
                    && src.elements() == 1
                    && ty.bits() == src.bits()
                    && ty.bits() == self.ty.lane_bits()
            }
        };
        let kind = self.rewriter.function.ty(a).kind();
        if keeps_bits && kind == self.ty.kind() {
            return self.is(a);
        }
        None
    }
}
