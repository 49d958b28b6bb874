//! Lowers `map` and `reduce`: operations of the IR in each lane.
//!
//! [`TABLE`] contains the lowering of each operation to instructions, by the op and the kind of its type. A lowering
//! serves groups of lanes and scalars ([`crate::code`]); it returns `None` for operations that it does not support in the
//! mode. It may have emitted instructions before it returned `None`; they are unused and therefore harmless.

mod approx;
mod bits;
mod carry;
mod compare;
mod convert;
mod counts;
mod data;
mod directed;
mod fields;
mod float;
mod halves;
mod integer;
mod packed;

use cranelift_codegen::ir::{self, InstBuilder, types};
use margay_ir::entity::{Inst, Value};
use margay_ir::function::ValueDef;
use margay_ops::meaning::Desc;
use margay_ops::ops::Opcode;
use margay_ops::types::{Kind, OpType, Type};
use margay_vir::data::Data;
use margay_vir::ops::Op;
use smallvec::{SmallVec, smallvec};

use crate::calls::count;
use crate::code::{Code, Mode};
use crate::group::{Group, Registers, groups, lane_bytes, registers, scalar_type, vector_type};
use crate::lower::Lower;

/// An operand of a lowering.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    kind: Kind,
    /// The lanes, in the form of the mode.
    group: Group,
    /// The scalar that all lanes are; `None` if the operand is a vector.
    uniform: Option<ir::Value>,
    /// The bits of all lanes, if they are known.
    known: Option<u64>,
    /// Whether no lane is a subnormal `f32`.
    is_normal: bool,
}

/// An operation with its operands.
pub(crate) struct Operation<'a> {
    desc: &'a Desc,
    args: &'a [Operand],
    results: &'a [Kind],
}

/// The results of a lowering.
type Results = SmallVec<[Group; 2]>;

/// Emits the instructions of an operation.
type Lowering = fn(&mut Code<'_, '_>, &Operation<'_>) -> Option<Results>;

/// The kind of an operation's type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Domain {
    /// Integers and untyped bits of 8 to 64 bits.
    Integer,
    /// `f32` and `f64`.
    Float,
    /// `f16`, `bf16`, and pairs of them.
    Half,
    /// Pairs of `f32`.
    Pair,
    /// Packed integers.
    Packed,
    /// Truth values.
    Pred,
    /// Everything, also types that belong to another domain.
    Any,
}

impl Domain {
    fn of(ty: OpType) -> Domain {
        match ty {
            OpType::F32 | OpType::F64 => Domain::Float,
            OpType::F16 | OpType::F16x2 | OpType::BF16 | OpType::BF16x2 => Domain::Half,
            OpType::F32x2 => Domain::Pair,
            OpType::Pred => Domain::Pred,
            _ if !ty.is_integer() || ty.bits() < 8 => Domain::Any,
            _ if ty.elements() > 1 => Domain::Packed,
            _ if ty.bits() <= 64 => Domain::Integer,
            _ => Domain::Any,
        }
    }
}

const TABLE: &[(Opcode, Domain, Lowering)] = &[
    (Opcode::Bitcast, Domain::Any, data::bitcast),
    (Opcode::Pack, Domain::Any, data::pack),
    (Opcode::Unpack, Domain::Any, data::unpack),
    (Opcode::Add, Domain::Integer, integer::add),
    (Opcode::Add, Domain::Float, float::add),
    (Opcode::Add, Domain::Half, halves::arithmetic),
    (Opcode::Add, Domain::Pair, float::pair),
    (Opcode::Add, Domain::Packed, packed::arithmetic),
    (Opcode::Sub, Domain::Integer, integer::sub),
    (Opcode::Sub, Domain::Float, float::sub),
    (Opcode::Sub, Domain::Half, halves::arithmetic),
    (Opcode::Sub, Domain::Pair, float::pair),
    (Opcode::Sub, Domain::Packed, packed::arithmetic),
    (Opcode::Mul, Domain::Integer, integer::mul),
    (Opcode::Mul, Domain::Float, float::mul),
    (Opcode::Mul, Domain::Half, halves::arithmetic),
    (Opcode::Mul, Domain::Pair, float::pair),
    (Opcode::Mad, Domain::Integer, integer::mad),
    (Opcode::Fma, Domain::Float, float::fma),
    (Opcode::Fma, Domain::Half, halves::arithmetic),
    (Opcode::Fma, Domain::Pair, float::pair),
    (Opcode::Addc, Domain::Integer, carry::addc),
    (Opcode::Subc, Domain::Integer, carry::subc),
    (Opcode::Madc, Domain::Integer, carry::madc),
    (Opcode::Mul24, Domain::Integer, integer::mul24),
    (Opcode::Mad24, Domain::Integer, integer::mad24),
    (Opcode::Sad, Domain::Integer, integer::sad),
    (Opcode::Div, Domain::Integer, integer::div),
    (Opcode::Div, Domain::Float, float::div),
    (Opcode::Rem, Domain::Integer, integer::rem),
    (Opcode::Neg, Domain::Integer, integer::neg),
    (Opcode::Neg, Domain::Float, float::neg),
    (Opcode::Neg, Domain::Half, halves::sign),
    (Opcode::Neg, Domain::Packed, packed::sign),
    (Opcode::Abs, Domain::Integer, integer::abs),
    (Opcode::Abs, Domain::Float, float::abs),
    (Opcode::Abs, Domain::Half, halves::sign),
    (Opcode::Abs, Domain::Packed, packed::sign),
    (Opcode::Min, Domain::Integer, integer::min),
    (Opcode::Min, Domain::Float, float::extreme),
    (Opcode::Min, Domain::Half, halves::extreme),
    (Opcode::Min, Domain::Packed, packed::extreme),
    (Opcode::Max, Domain::Integer, integer::max),
    (Opcode::Max, Domain::Float, float::extreme),
    (Opcode::Max, Domain::Half, halves::extreme),
    (Opcode::Max, Domain::Packed, packed::extreme),
    (Opcode::Popc, Domain::Integer, counts::popc),
    (Opcode::Clz, Domain::Integer, counts::clz),
    (Opcode::Bfind, Domain::Integer, counts::bfind),
    (Opcode::Brev, Domain::Integer, counts::brev),
    (Opcode::Bfe, Domain::Integer, fields::bfe),
    (Opcode::Bfi, Domain::Integer, fields::bfi),
    (Opcode::Szext, Domain::Integer, fields::szext),
    (Opcode::Bmsk, Domain::Integer, fields::bmsk),
    (Opcode::Prmt, Domain::Integer, fields::prmt),
    (Opcode::Dp4a, Domain::Integer, integer::dp4a),
    (Opcode::Dp2a, Domain::Integer, integer::dp2a),
    (Opcode::Rcp, Domain::Float, float::rcp),
    (Opcode::Sqrt, Domain::Float, float::sqrt),
    (Opcode::Rsqrt, Domain::Float, float::rsqrt),
    (Opcode::Copysign, Domain::Float, float::copysign),
    (Opcode::Sin, Domain::Float, approx::function),
    (Opcode::Sin, Domain::Half, halves::function),
    (Opcode::Cos, Domain::Float, approx::function),
    (Opcode::Cos, Domain::Half, halves::function),
    (Opcode::Lg2, Domain::Float, approx::function),
    (Opcode::Lg2, Domain::Half, halves::function),
    (Opcode::Ex2, Domain::Float, approx::function),
    (Opcode::Ex2, Domain::Half, halves::function),
    (Opcode::Tanh, Domain::Float, approx::function),
    (Opcode::Tanh, Domain::Half, halves::function),
    (Opcode::Testp, Domain::Float, compare::testp),
    (Opcode::Set, Domain::Any, compare::set),
    (Opcode::Setp, Domain::Any, compare::setp),
    (Opcode::Selp, Domain::Any, compare::selp),
    (Opcode::Slct, Domain::Any, compare::slct),
    (Opcode::And, Domain::Integer, bits::and),
    (Opcode::And, Domain::Pred, bits::and),
    (Opcode::Or, Domain::Integer, bits::or),
    (Opcode::Or, Domain::Pred, bits::or),
    (Opcode::Xor, Domain::Integer, bits::xor),
    (Opcode::Xor, Domain::Pred, bits::xor),
    (Opcode::Not, Domain::Integer, bits::not),
    (Opcode::Not, Domain::Pred, bits::negate),
    (Opcode::Cnot, Domain::Integer, bits::cnot),
    (Opcode::Cnot, Domain::Pred, bits::negate),
    (Opcode::Lop3, Domain::Integer, bits::lop3),
    (Opcode::Shl, Domain::Integer, bits::shl),
    (Opcode::Shr, Domain::Integer, bits::shr),
    (Opcode::Shf, Domain::Integer, bits::shf),
    (Opcode::Cvt, Domain::Any, convert::cvt),
];

/// Emits the instructions of an operation, if it has a lowering that supports it.
fn lower(code: &mut Code<'_, '_>, operation: &Operation<'_>) -> Option<Results> {
    let (opcode, domain) = (operation.desc.opcode, Domain::of(operation.desc.ty));
    let mut rows = TABLE.iter();
    let (.., lowering) =
        rows.find(|row| row.0 == opcode && (row.1 == domain || row.1 == Domain::Any))?;
    let results = lowering(code, operation)?;
    // An op may have modifiers with further results that its lowering for the type does not know.
    (results.len() == operation.results.len()).then_some(results)
}

/// Returns one result.
fn one(result: Group) -> Option<Results> {
    Some(smallvec![result])
}

impl Operation<'_> {
    fn arg(&self, index: usize) -> Option<&Operand> {
        self.args.get(index)
    }

    /// Returns an operand as integers of 32 or 64 bits. Narrower integers are extended as `ty` says.
    fn integer(&self, code: &mut Code<'_, '_>, index: usize, ty: OpType) -> Option<Group> {
        let operand = self.arg(index)?;
        let bits = ty.bits();
        if operand.kind.bits() != bits || operand.kind == Kind::Pred || bits > 64 {
            return None;
        }
        let lanes = code.as_int(operand.group);
        Some(match bits < 32 && ty.is_signed() {
            true => code.sign_extended(lanes, bits),
            false => lanes,
        })
    }

    /// Returns an operand with 32 bits as integers.
    fn word(&self, code: &mut Code<'_, '_>, index: usize) -> Option<Group> {
        self.integer(code, index, OpType::B32)
    }

    /// Returns an operand as floating-point numbers of the type `ty`. With `ftz`, subnormal `f32` become zero.
    fn float(&self, code: &mut Code<'_, '_>, index: usize, ty: OpType, ftz: bool) -> Option<Group> {
        let operand = self.arg(index)?;
        if operand.kind.bits() != ty.bits() || ty.bits() < 32 || ty.bits() > 64 {
            return None;
        }
        let lanes = code.as_float(operand.group);
        Some(match ftz && ty == OpType::F32 && !operand.is_normal {
            true => float::flush(code, lanes),
            false => lanes,
        })
    }

    /// Returns an operand that is a truth value.
    fn truth(&self, index: usize) -> Option<Group> {
        let operand = self.arg(index)?;
        (operand.kind == Kind::Pred).then_some(operand.group)
    }
}

/// An operand of a `map`.
#[derive(Clone)]
struct Input {
    ty: Type,
    registers: Registers,
    known: Option<u64>,
    is_normal: bool,
}

/// The operations whose results are flushed if they have `.ftz`.
const FLUSHED: &[Opcode] = &[
    Opcode::Add,
    Opcode::Sub,
    Opcode::Mul,
    Opcode::Fma,
    Opcode::Div,
    Opcode::Rcp,
    Opcode::Sqrt,
    Opcode::Rsqrt,
    Opcode::Sin,
    Opcode::Cos,
    Opcode::Lg2,
    Opcode::Ex2,
    Opcode::Min,
    Opcode::Max,
    Opcode::Neg,
    Opcode::Abs,
];

impl Lower<'_, '_> {
    pub(crate) fn map(&mut self, inst: Inst) {
        let function = self.function;
        let Data::Lane(desc) = function.insts[inst].data else {
            return;
        };
        let input = |&value: &Value| Input {
            ty: self.ty(value),
            registers: self.get(value),
            known: self.known(value),
            is_normal: self.is_normal(value),
        };
        let inputs: Vec<Input> = function.args(inst).iter().map(input).collect();
        let results = function.results(inst);
        let kinds: Vec<Kind> = results.iter().map(|&value| self.kind(value)).collect();
        let found = self.mapped(&desc, self.lanes(inst), &inputs, &kinds);
        for (&result, registers) in results.iter().zip(found) {
            self.define(result, registers);
        }
    }

    /// Returns whether it is known that no lane of a value is a subnormal `f32`.
    fn is_normal(&self, value: Value) -> bool {
        if let Some(bits) = self.known(value) {
            return !f32::from_bits(bits as u32).is_subnormal();
        }
        let ValueDef::Result(inst, _) = self.function.values[value].def else {
            return false;
        };
        let data = &self.function.insts[inst];
        match data.data {
            Data::Lane(desc) if data.op == Op::Map && desc.ty == OpType::F32 => {
                desc.mods.ftz() && FLUSHED.contains(&desc.opcode)
                    || desc.opcode == Opcode::Cvt && desc.src.is_integer()
            }
            _ => data.op == Op::Splat && self.is_normal(self.function.args(inst)[0]),
        }
    }

    /// Combines the lanes of a vector: the lower half with the upper half, until one lane is left.
    pub(crate) fn reduce(&mut self, inst: Inst) {
        let (value, result) = (self.function.args(inst)[0], self.result(inst));
        let Data::Lane(desc) = self.function.insts[inst].data else {
            return;
        };
        let kind = self.kind(value);
        let (mut registers, mut lanes) = (self.get(value), self.ty(value).lanes());
        while lanes > 1 {
            let halves =
                [false, true].map(|is_upper| self.half_of(&registers, kind, lanes, is_upper));
            lanes /= 2;
            let ty = Type::vector(kind, lanes).expect("half of a number of lanes");
            let inputs = halves.map(|registers| Input {
                ty,
                registers,
                known: None,
                is_normal: false,
            });
            registers = self.mapped(&desc, lanes, &inputs, &[kind]).remove(0);
        }
        self.define(result, registers);
    }

    /// Applies an operation to each lane of values with `lanes` lanes, or of scalars.
    fn mapped(
        &mut self,
        desc: &Desc,
        lanes: u32,
        inputs: &[Input],
        results: &[Kind],
    ) -> Vec<Registers> {
        if lanes > 1
            && let Some(found) = self.in_vectors(desc, lanes, inputs, results)
        {
            return found;
        }
        if let Some(found) = self.lane_by_lane(desc, lanes, inputs, results) {
            if lanes > 1 {
                count(&mut self.report.unrolled, desc.opcode.name());
            }
            return found;
        }
        let args: Vec<(Type, Registers)> = inputs
            .iter()
            .map(|input| (input.ty, input.registers.clone()))
            .collect();
        self.applied(*desc, lanes, &args, results)
    }

    fn in_vectors(
        &mut self,
        desc: &Desc,
        lanes: u32,
        inputs: &[Input],
        results: &[Kind],
    ) -> Option<Vec<Registers>> {
        let splats: Vec<Option<Group>> = inputs
            .iter()
            .map(|input| {
                let is_scalar = input.ty.lanes() == 1;
                is_scalar.then(|| self.splat(input.registers[0], input.ty.kind()))
            })
            .collect();
        let mut found = vec![Registers::new(); results.len()];
        self.code.mode = Mode::Vector;
        for index in 0..groups(lanes) {
            let operands: Vec<Operand> = inputs
                .iter()
                .zip(&splats)
                .map(|(input, splat)| {
                    let kind = input.ty.kind();
                    let group = || Self::group(&input.registers, kind, index);
                    Operand {
                        kind,
                        group: splat.unwrap_or_else(group),
                        uniform: splat.map(|_| input.registers[0]),
                        known: input.known,
                        is_normal: input.is_normal,
                    }
                })
                .collect();
            let operation = Operation {
                desc,
                args: &operands,
                results,
            };
            let outputs = lower(&mut self.code, &operation)?;
            for ((&kind, output), found) in results.iter().zip(outputs).zip(&mut found) {
                found.extend_from_slice(&self.vector_result(kind, output)?);
            }
        }
        Some(found)
    }

    /// Converts the result of a lowering to a group of a kind; `None` if the lanes have another width.
    fn vector_result(&mut self, kind: Kind, result: Group) -> Option<Group> {
        if result.len() != registers(kind) {
            return None;
        }
        let bits = self.code.bits(result);
        if bits != 8 * lane_bytes(kind) && kind != Kind::B128 {
            return None;
        }
        let result = result.map(|register| self.code.cast(register, vector_type(kind)));
        Some(result.map(|register| self.cleared(register, kind)))
    }

    fn lane_by_lane(
        &mut self,
        desc: &Desc,
        lanes: u32,
        inputs: &[Input],
        results: &[Kind],
    ) -> Option<Vec<Registers>> {
        let mut found: Vec<Vec<ir::Value>> = vec![Vec::new(); results.len()];
        self.code.mode = Mode::Scalar;
        for lane in 0..lanes {
            let operands: Vec<Operand> = inputs
                .iter()
                .map(|input| {
                    let kind = input.ty.kind();
                    let scalar = match input.ty.lanes() {
                        1 => input.registers[0],
                        _ => self.extract(&input.registers, kind, lane),
                    };
                    Operand {
                        kind,
                        group: self.working(scalar, kind).into(),
                        uniform: Some(scalar),
                        known: input.known,
                        is_normal: input.is_normal,
                    }
                })
                .collect();
            let operation = Operation {
                desc,
                args: &operands,
                results,
            };
            let outputs = lower(&mut self.code, &operation)?;
            for ((&kind, output), found) in results.iter().zip(outputs).zip(&mut found) {
                found.push(self.scalar_result(kind, output[0])?);
            }
        }
        let all = results.iter().zip(found).map(|(&kind, scalars)| {
            if lanes == 1 {
                return Registers::from_slice(&scalars);
            }
            let lanes: Vec<ir::Value> = scalars
                .into_iter()
                .map(|scalar| self.widened(scalar, kind))
                .collect();
            self.gathered(&lanes, kind)
        });
        Some(all.collect())
    }

    /// Returns a scalar as an operand of a lowering: integers have at least 32 bits.
    fn working(&mut self, scalar: ir::Value, kind: Kind) -> ir::Value {
        match kind {
            Kind::B8 | Kind::B16 => self.code.b.ins().uextend(types::I32, scalar),
            _ => scalar,
        }
    }

    /// Converts the result of a lowering to a scalar of a kind; `None` if it has another width.
    fn scalar_result(&mut self, kind: Kind, result: ir::Value) -> Option<ir::Value> {
        let ty = scalar_type(kind);
        let from = self.code.b.func.dfg.value_type(result);
        match kind {
            Kind::B8 | Kind::B16 if from == types::I32 => {
                Some(self.code.b.ins().ireduce(ty, result))
            }
            _ if from.bits() == ty.bits() => Some(self.code.cast(result, ty)),
            _ => None,
        }
    }
}
