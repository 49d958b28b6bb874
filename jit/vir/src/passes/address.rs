//! Addresses of memory accesses.
//!
//! - A constant part of an address becomes the displacement of the access.
//! - An address that changes by the same amount in each iteration of a loop becomes a block parameter of the loop, a
//!   *pointer*, to which the loop adds that amount. Accesses whose addresses differ by constants share a pointer.
//! - A `gather` or `scatter` whose offsets are `base + stride * lane` becomes a `load` or `store`. If all lanes of a load
//!   without a mask have the same address, one lane is loaded. Parts of offsets that are equal in all lanes become parts
//!   of the base. If lanes of a gather repeat the addresses of the first lanes, only the first lanes access memory.
//!
//! All sums are modulo 2^64, as addresses are, so a sum is never wrong because it overflows. Offsets of 32 bits are
//! sign-extended, so they are only considered if they are constants.

mod linear;
mod patterns;
mod pointers;
mod repeat;

use margay_ir::analysis::cfg::remove_unreachable;
use margay_ir::entity::{Block, Inst, Value};
use margay_ir::function::ValueDef;
use margay_ops::meaning::sign_extend;
use margay_ops::ops::Opcode;
use margay_ops::types::{Kind, Type};
use smallvec::SmallVec;

use self::linear::{Forms, Lanes, Linear};
use self::pointers::Pointers;
use self::repeat::Repeats;
use super::Options;
use super::emitter::Emitter;
use super::loops::Forest;
use crate::constants;
use crate::data::{Access, Data, lanes_of};
use crate::function::Function;
use crate::ops::Op;

/// The maximum number of parts that are removed from offsets.
const MOST_PARTS: usize = 4;

/// Simplifies the addresses of all accesses.
pub fn run(function: &mut Function, options: &Options) {
    let without_loops = remove_unreachable(function);
    let forest = Forest::new(function);
    let cfg = forest.as_ref().map_or(&without_loops, |forest| &forest.cfg);
    let mut pass = Addresses {
        forms: Forms::new(function, cfg),
        pointers: forest
            .as_ref()
            .map(|forest| Pointers::new(function, forest, options.hoisted_scalars)),
        repeats: Repeats::default(),
        function,
    };
    for &block in cfg.rpo() {
        pass.block(block);
    }
    if let Some(pointers) = pass.pointers {
        pointers.finish(pass.function);
    }
    if let Some(forest) = &forest {
        forest.remove_empty(function);
    }
    margay_ir::edit::resolve_aliases(function);
}

struct Addresses<'a> {
    function: &'a mut Function,
    forms: Forms,
    pointers: Option<Pointers<'a>>,
    repeats: Repeats,
}

impl Addresses<'_> {
    fn block(&mut self, block: Block) {
        // The block stays complete until its end, because `pointers` needs its terminator.
        let insts = self.function.body[block].clone();
        let mut list = Vec::with_capacity(insts.len());
        self.repeats.begin_block();
        for inst in insts {
            let Data::Access(access) = self.function.insts[inst].data else {
                if !self.shorten(inst, &mut list) {
                    list.push(inst);
                }
                continue;
            };
            match self.without_offsets(inst, access) {
                Some((access, address)) => {
                    self.become_contiguous(inst, access);
                    self.set_address(block, inst, &address, None, &mut list);
                }
                None if self.repeat((block, inst), access, &mut list) => continue,
                None => {
                    let address = self.function.args(inst)[0];
                    let form = self.forms.scalar(address);
                    match self.with_shorter_offsets(inst, access, &form) {
                        Some(form) => self.set_address(block, inst, &form, None, &mut list),
                        None => self.set_address(block, inst, &form, Some(address), &mut list),
                    }
                }
            }
            self.load_one_lane(inst, &mut list);
        }
        self.function.body[block] = list;
    }

    /// If the offsets of a `gather` or `scatter` are `base + stride * lane`, returns the access and the address of the
    /// equal `load` or `store`.
    fn without_offsets(&self, inst: Inst, access: Access) -> Option<(Access, Linear)> {
        let args = self.function.args(inst);
        if !matches!(self.function.insts[inst].op, Op::Gather | Op::Scatter) {
            return None;
        }
        let Lanes { base, stride } = match self.function.ty(args[1]).kind() {
            Kind::B64 => self.forms.vector(self.function, args[1])?,
            _ => constant_offsets(self.function, args[1])?,
        };
        let address = self.forms.scalar(args[0]).plus(&base, access.stride)?;
        let stride = stride.wrapping_mul(access.stride);
        Some((Access { stride, ..access }, address))
    }

    /// If the offsets of a `gather` or `scatter` are sums with parts that are equal in all lanes, removes these parts from
    /// the offsets and returns the sum of the address `form` and of the parts. Offsets of 32 bits stay, because the sum
    /// may wrap.
    fn with_shorter_offsets(
        &mut self,
        inst: Inst,
        access: Access,
        form: &Linear,
    ) -> Option<Linear> {
        if !matches!(self.function.insts[inst].op, Op::Gather | Op::Scatter) {
            return None;
        }
        let mut sum = None;
        for _ in 0..MOST_PARTS {
            let offsets = self.function.args(inst)[1];
            let Some((rest, part)) = self.forms.split(self.function, offsets) else {
                break;
            };
            sum = Some(sum.as_ref().unwrap_or(form).plus(&part, access.stride)?);
            let args = self.function.insts[inst].args;
            self.function.pool.get_mut(args)[1] = rest;
        }
        sum
    }

    /// Changes a `gather` or `scatter` into a `load` or `store`, whose address is set later.
    fn become_contiguous(&mut self, inst: Inst, access: Access) {
        let args: SmallVec<[Value; 4]> = self.function.args(inst).into();
        let args: SmallVec<[Value; 4]> = args[..1].iter().chain(&args[2..]).copied().collect();
        let list = self.function.pool.push(&args);
        let data = &mut self.function.insts[inst];
        data.op = match data.op {
            Op::Gather => Op::Load,
            _ => Op::Store,
        };
        (data.args, data.data) = (list, Data::Access(access));
    }

    /// Sets the address of an access to a linear form. `current` is the value that has this form, if there is one.
    fn set_address(
        &mut self,
        block: Block,
        inst: Inst,
        form: &Linear,
        current: Option<Value>,
        list: &mut Vec<Inst>,
    ) {
        let Data::Access(access) = self.function.insts[inst].data else {
            return;
        };
        let place = self.function.places[inst];
        let folded = i64::from(access.displacement).checked_add(form.constant);
        let folded = folded.and_then(|sum| i32::try_from(sum).ok());
        let displacement = folded.unwrap_or(access.displacement);
        let mut rest = form.clone();
        if folded.is_some() {
            rest.constant = 0;
        }
        let pointer = match &mut self.pointers {
            Some(pointers) if folded.is_some() => {
                pointers.find(self.function, &self.forms, block, &rest)
            }
            _ => None,
        };
        let address = match (pointer, current) {
            (Some(pointer), _) => pointer,
            (None, Some(current)) if rest == *form => current,
            (None, current) => match current.and_then(|value| self.peeled(value, &rest)) {
                Some(value) => value,
                None => {
                    let function = &mut *self.function;
                    let mut emitter = Emitter {
                        function,
                        list,
                        place,
                    };
                    emit(&mut emitter, &rest)
                }
            },
        };
        self.function.insts[inst].data = Data::Access(Access {
            displacement,
            ..access
        });
        let args = self.function.insts[inst].args;
        self.function.pool.get_mut(args)[0] = address;
        list.push(inst);
    }

    /// Returns the value with the form `form` from which sums with constants lead to `value`.
    fn peeled(&self, mut value: Value, form: &Linear) -> Option<Value> {
        while let Some((inner, _)) = super::aliases::sum(self.function, value) {
            value = inner;
            if self.forms.scalar(value) == *form {
                return Some(value);
            }
        }
        None
    }

    /// If all lanes of the load at the end of the list have the same address, loads one lane.
    fn load_one_lane(&mut self, inst: Inst, list: &mut Vec<Inst>) {
        let data = self.function.insts[inst];
        let (Op::Load, Data::Access(access), Some(ty)) = (data.op, data.data, data.ty) else {
            return;
        };
        let &[address] = self.function.args(inst) else {
            return;
        };
        if access.stride != 0 || lanes_of(data.ty) == 1 {
            return;
        }
        list.pop();
        let result = self.function.results(inst)[0];
        let mut emitter = Emitter {
            place: self.function.places[inst],
            function: self.function,
            list,
        };
        let scalar = Type::scalar(ty.kind());
        let lane = emitter.value(Op::Load, scalar, data.data, &[address]);
        let vector = emitter.value(Op::Splat, ty, Data::Nothing, &[lane]);
        self.function.values[result].def = ValueDef::Alias(vector);
    }
}

/// Returns the form of offsets of 32 bits with a constant form, after their sign extension.
fn constant_offsets(function: &Function, value: Value) -> Option<Lanes> {
    let lanes = constants::lanes(function, value)?;
    let bits = function.ty(value).lane_bits();
    let lanes: SmallVec<[i64; 16]> = lanes
        .iter()
        .map(|&lane| sign_extend(lane, bits) as i64)
        .collect();
    let &first = lanes.first()?;
    let stride = lanes.get(1).map_or(0, |second| second - first);
    let is_affine = lanes.windows(2).all(|pair| pair[1] - pair[0] == stride);
    is_affine.then(|| Lanes {
        base: Linear::constant(first),
        stride,
    })
}

/// Appends instructions that compute a linear form, and returns the sum.
fn emit(emitter: &mut Emitter<'_>, form: &Linear) -> Value {
    let mut sum = None;
    for &(value, factor) in &form.terms {
        let term = product(emitter, value, factor);
        sum = Some(match sum {
            None => term,
            Some(sum) => emitter.lane64(Opcode::Add, &[sum, term]),
        });
    }
    match (sum, form.constant) {
        (Some(sum), 0) => sum,
        (None, constant) => emitter.constant(Type::B64, constant as u64),
        (Some(sum), constant) => {
            let constant = emitter.constant(Type::B64, constant as u64);
            emitter.lane64(Opcode::Add, &[sum, constant])
        }
    }
}

/// Appends an instruction that computes `value * factor`.
fn product(emitter: &mut Emitter<'_>, value: Value, factor: i64) -> Value {
    if factor == 1 {
        return value;
    }
    let factor = factor as u64;
    if factor.is_power_of_two() {
        let amount = emitter.constant(Type::B32, factor.trailing_zeros().into());
        return emitter.lane64(Opcode::Shl, &[value, amount]);
    }
    let factor = emitter.constant(Type::B64, factor);
    emitter.lane64(Opcode::Mul, &[value, factor])
}
