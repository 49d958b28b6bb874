//! Gathers whose lanes repeat the addresses of the first lanes.
//!
//! The addresses follow a [`Pattern`]. If the first lanes have a constant distance, the gather becomes a `load` of these
//! lanes, whose elements are then repeated. If their distance is a multiple of a scalar, it becomes a `gather` of these
//! lanes. Both have the faults of the gather, because the lanes that repeat an address come after the first lane with
//! this address. Operations on such lanes also compute the first lanes only.
//!
//! Only gathers without a mask change, because otherwise a lane may run while the first lane with its address does not.

use margay_ir::entity::{Block, Inst, Value};
use margay_ir::function::{ValueDef, resolve};
use margay_ops::ops::Opcode;
use margay_ops::types::{Kind, OpType, Type};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::linear::Linear;
use super::patterns::{Pattern, Patterns, difference};
use super::{Addresses, product};
use crate::data::{Access, Data};
use crate::function::Function;
use crate::ops::Op;
use crate::passes::emitter::{Emitter, made, plain};

/// What is known about the gathers of a function.
#[derive(Default)]
pub(super) struct Repeats {
    patterns: Patterns,
    /// The first lanes of vectors that repeat them.
    halves: FxHashMap<Value, Value>,
    /// Lane 0 of vectors, computed in the current block.
    firsts: FxHashMap<Value, Value>,
}

/// How the first lanes of a gather access memory.
enum Distance {
    /// At a constant distance, in bytes.
    Known(i64),
    /// At a distance of this scalar times a number of bytes.
    Scaled(Value, i64),
}

impl Repeats {
    /// Forgets what is known in one block only.
    pub(super) fn begin_block(&mut self) {
        self.halves.clear();
        self.firsts.clear();
    }
}

impl Addresses<'_> {
    /// Replaces a gather whose lanes repeat the addresses of the first lanes, and appends the new instructions to the list.
    /// Returns whether it has done this.
    pub(super) fn repeat(
        &mut self,
        (block, inst): (Block, Inst),
        access: Access,
        list: &mut Vec<Inst>,
    ) -> bool {
        let found = self.repeated(inst, access);
        let Some((count, distance, form)) = found else {
            return false;
        };
        let &[base, offsets] = self.function.args(inst) else {
            return false;
        };
        let ty = self.function.ty(self.function.results(inst)[0]);
        let place = self.function.places[inst];
        let Some(first_lanes) = Type::vector(ty.kind(), count) else {
            return false;
        };
        let first = self.first_lane(offsets, place, list);
        let mut emitter = Emitter {
            function: self.function,
            list,
            place,
        };
        let first = product(&mut emitter, first, access.stride);
        let current = match emitter.function.constant(base) {
            Some(0) => first,
            _ => emitter.lane64(Opcode::Add, &[base, first]),
        };
        let (op, data, rest) = match distance {
            Distance::Known(stride) => (Op::Load, Access { stride, ..access }, None),
            Distance::Scaled(value, stride) => {
                let ty = Type::vector(Kind::B64, count).expect("the type of offsets");
                let zero = emitter.constant(Type::B64, 0);
                let steps = emitter.value(Op::Affine, ty, Data::Number(stride as u64), &[zero]);
                let multiply = Data::Lane(plain(Opcode::Mul, OpType::U64));
                let offsets = emitter.value(Op::Map, ty, multiply, &[steps, value]);
                (
                    Op::Gather,
                    Access {
                        stride: 1,
                        ..access
                    },
                    Some(offsets),
                )
            }
        };
        let args: SmallVec<[Value; 2]> = [current].into_iter().chain(rest).collect();
        let new = made(
            self.function,
            op,
            first_lanes,
            Data::Access(data),
            &args,
            place,
        );
        let form = form.unwrap_or_else(|| Linear::of(current));
        self.set_address(block, new, &form, Some(current), list);
        let lanes = self.function.results(new)[0];
        self.repeat_lanes(self.function.results(inst)[0], lanes, place, list);
        true
    }

    /// Returns the number of lanes that the other lanes of a gather repeat, their distance, and the form of the address of
    /// the first, if it has one.
    fn repeated(&mut self, inst: Inst, access: Access) -> Option<(u32, Distance, Option<Linear>)> {
        let function = &*self.function;
        let &[base, offsets] = function.args(inst) else {
            return None;
        };
        if function.insts[inst].op != Op::Gather || function.ty(offsets).kind() != Kind::B64 {
            return None;
        }
        let pattern = self.repeats.patterns.of((function, &self.forms), offsets)?;
        let count = pattern.period();
        let is_repeated = count < pattern.known.len();
        let distance = distance(&pattern, count, access.stride)?;
        if !is_repeated && matches!(distance, Distance::Scaled(..)) {
            return None;
        }
        let first = pattern.first();
        let form = first.and_then(|first| self.forms.scalar(base).plus(&first, access.stride));
        Some((count as u32, distance, form))
    }

    /// Computes lane 0 of a vector that has a pattern.
    fn first_lane(&mut self, value: Value, place: u64, list: &mut Vec<Inst>) -> Value {
        let ty = self.function.ty(value);
        if ty.lanes() == 1 {
            return value;
        }
        if let Some(&first) = self.repeats.firsts.get(&value) {
            return first;
        }
        let kind = Type::scalar(ty.kind());
        let known = self.repeats.patterns.known(self.function, value, u32::MAX);
        let inst = self.function.def_inst(value);
        let op = inst.map(|inst| self.function.insts[inst]);
        let args: SmallVec<[Value; 4]> =
            inst.map_or_else(SmallVec::new, |inst| self.function.args(inst).into());
        let first = match (known, op) {
            (Some(lanes), _) => {
                let bits = lanes[0] as u64;
                let inst = made(self.function, Op::Const, kind, Data::Number(bits), &[], 0);
                list.push(inst);
                self.function.results(inst)[0]
            }
            (None, Some(data)) if matches!(data.op, Op::Splat | Op::Affine) => args[0],
            (None, Some(data)) if data.op == Op::Map => {
                let args: SmallVec<[Value; 4]> = args
                    .iter()
                    .map(|&arg| self.first_lane(arg, place, list))
                    .collect();
                if let Some(known) = self.without_zero(&data.data, &args) {
                    self.repeats.firsts.insert(value, known);
                    return known;
                }
                let inst = made(self.function, Op::Map, kind, data.data, &args, place);
                list.push(inst);
                self.function.results(inst)[0]
            }
            _ => unreachable!("a vector with a pattern is a splat, affine or computed"),
        };
        self.repeats.firsts.insert(value, first);
        first
    }

    /// Returns the value of a sum or product with a constant operand 0.
    fn without_zero(&self, data: &Data, args: &[Value]) -> Option<Value> {
        let (Data::Lane(desc), &[a, b]) = (data, args) else {
            return None;
        };
        let is_zero = |value| self.function.constant(value) == Some(0);
        match (desc.opcode, is_zero(a), is_zero(b)) {
            (Opcode::Add, true, _) | (Opcode::Mul, _, true) => Some(b),
            (Opcode::Add, _, true) | (Opcode::Mul, true, _) => Some(a),
            _ => None,
        }
    }

    /// Makes `result` the vector that repeats the lanes `lanes`.
    fn repeat_lanes(&mut self, result: Value, lanes: Value, place: u64, list: &mut Vec<Inst>) {
        let mut emitter = Emitter {
            function: self.function,
            list,
            place,
        };
        let all = emitter.function.ty(result);
        let mut whole = lanes;
        if emitter.function.ty(lanes).lanes() == 1 {
            whole = emitter.value(Op::Splat, all, Data::Nothing, &[lanes]);
        }
        while emitter.function.ty(whole) != all {
            let count = 2 * emitter.function.ty(whole).lanes();
            let ty = Type::vector(all.kind(), count).expect("at most the lanes of the result");
            whole = emitter.value(Op::Join, ty, Data::Nothing, &[whole, whole]);
        }
        self.function.values[result].def = ValueDef::Alias(whole);
        if self.function.ty(lanes).lanes() > 1 {
            self.repeats.halves.insert(whole, lanes);
        }
    }

    /// If all vectors that an operation uses repeat their first lanes, computes these lanes only. Returns whether it has
    /// done this.
    pub(super) fn shorten(&mut self, inst: Inst, list: &mut Vec<Inst>) -> bool {
        if self.repeats.halves.is_empty() {
            return false;
        }
        let data = self.function.insts[inst];
        let &[result] = self.function.results(inst) else {
            return false;
        };
        let ty = self.function.ty(result);
        if data.op != Op::Map || data.ty != Some(ty) || ty.kind() == Kind::Pred {
            return false;
        }
        let Some(args) = self.first_lanes(inst) else {
            return false;
        };
        let count = args.iter().map(|&arg| self.function.ty(arg).lanes()).max();
        let ty = count.and_then(|count| Type::vector(ty.kind(), count));
        let Some(ty) = ty.filter(|ty| ty.lanes() > 1) else {
            return false;
        };
        let place = self.function.places[inst];
        let new = made(self.function, Op::Map, ty, data.data, &args, place);
        list.push(new);
        let lanes = self.function.results(new)[0];
        self.repeat_lanes(result, lanes, place, list);
        true
    }

    /// Returns the operands of an operation, with vectors replaced by the lanes that they repeat; `None` if one does not
    /// repeat lanes or repeats another number of lanes.
    fn first_lanes(&self, inst: Inst) -> Option<SmallVec<[Value; 4]>> {
        let function: &Function = self.function;
        let mut count = None;
        let args = function.args(inst).iter().map(|&arg| {
            let arg = resolve(&function.values, arg);
            if function.ty(arg).lanes() == 1 {
                return Some(arg);
            }
            let lanes = *self.repeats.halves.get(&arg)?;
            let repeated = function.ty(lanes).lanes();
            (*count.get_or_insert(repeated) == repeated).then_some(lanes)
        });
        args.collect()
    }
}

/// Returns the distance of the first `count` lanes of a pattern, if they have one. The numbers of the pattern are multiples
/// of `stride` bytes.
fn distance(pattern: &Pattern, count: usize, stride: i64) -> Option<Distance> {
    if count == 1 {
        return Some(Distance::Known(0));
    }
    let known = difference(&pattern.known[..count])?;
    let Some((value, numbers)) = &pattern.scaled else {
        return Some(Distance::Known(known.wrapping_mul(stride)));
    };
    let scaled = difference(&numbers[..count])?;
    (known == 0).then(|| Distance::Scaled(*value, scaled.wrapping_mul(stride)))
}
