//! Linear forms of 64-bit values: sums of values with constant factors and of a constant, modulo 2^64.

use margay_ir::analysis::Cfg;
use margay_ir::entity::{Inst, SecondaryMap, Value};
use margay_ops::mods::Half;
use margay_ops::ops::Opcode;
use margay_ops::types::{Kind, Type};
use smallvec::SmallVec;

use crate::constants::signed_number;
use crate::data::Data;
use crate::function::Function;
use crate::ops::Op;
use crate::passes::simplify::is_whole_integer;

/// The maximum number of terms of a linear form.
pub(super) const MOST_TERMS: usize = 4;

/// `sum(factor * value) + constant`. The terms are sorted by value; no factor is 0.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Linear {
    pub(super) terms: SmallVec<[(Value, i64); MOST_TERMS]>,
    pub(super) constant: i64,
}

impl Linear {
    /// Returns the form of a constant.
    pub(super) fn constant(constant: i64) -> Linear {
        Linear {
            terms: SmallVec::new(),
            constant,
        }
    }

    /// Returns the form that has a value as its only term.
    pub(super) fn of(value: Value) -> Linear {
        Linear {
            terms: SmallVec::from_iter([(value, 1)]),
            constant: 0,
        }
    }

    /// Returns `self + factor * other`; `None` if it has too many terms.
    pub(super) fn plus(&self, other: &Linear, factor: i64) -> Option<Linear> {
        let mut sum = self.clone();
        sum.constant = sum
            .constant
            .wrapping_add(other.constant.wrapping_mul(factor));
        for &(value, times) in &other.terms {
            let times = times.wrapping_mul(factor);
            match sum.terms.binary_search_by_key(&value, |&(value, _)| value) {
                Ok(at) => sum.terms[at].1 = sum.terms[at].1.wrapping_add(times),
                Err(at) => sum.terms.insert(at, (value, times)),
            }
        }
        sum.terms.retain(|&mut (_, factor)| factor != 0);
        (sum.terms.len() <= MOST_TERMS).then_some(sum)
    }

    /// Returns `factor * self`.
    pub(super) fn times(&self, factor: i64) -> Linear {
        let scaled = Linear::default().plus(self, factor);
        scaled.expect("a product has no more terms than its factor")
    }
}

/// A vector whose lanes are `base + stride * lane`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Lanes {
    pub(super) base: Linear,
    pub(super) stride: i64,
}

/// The linear forms of the 64-bit values of a function.
pub(super) struct Forms {
    /// The forms of scalars. The value of `scalars` is the number of the form plus 1; 0 if there is none.
    forms: Vec<Linear>,
    scalars: SecondaryMap<Value, u32>,
    vectors: SecondaryMap<Value, Option<Box<Lanes>>>,
}

impl Forms {
    /// Computes the forms of all values.
    pub(super) fn new(function: &Function, cfg: &Cfg) -> Forms {
        let mut forms = Forms {
            forms: Vec::new(),
            scalars: SecondaryMap::default(),
            vectors: SecondaryMap::default(),
        };
        for &inst in cfg.rpo().iter().flat_map(|&block| &function.body[block]) {
            let Some(ty) = function.insts[inst].ty else {
                continue;
            };
            let &[result] = function.results(inst) else {
                continue;
            };
            if ty == Type::B64 && function.ty(result) == ty {
                if let Some(form) = forms.scalar_of(function, inst) {
                    forms.forms.push(form);
                    forms.scalars[result] = forms.forms.len() as u32;
                }
            } else if ty.kind() == Kind::B64 && function.ty(result) == ty {
                forms.vectors[result] = forms.vector_of(function, inst).map(Box::new);
            }
        }
        forms
    }

    /// Returns the form of a scalar of type `b64`.
    pub(super) fn scalar(&self, value: Value) -> Linear {
        match self.scalars[value].checked_sub(1) {
            Some(number) => self.forms[number as usize].clone(),
            None => Linear::of(value),
        }
    }

    /// Returns the form of a vector of `b64`, or of a scalar that all lanes use; `None` if its lanes have no such form.
    pub(super) fn vector(&self, function: &Function, value: Value) -> Option<Lanes> {
        if function.ty(value) == Type::B64 {
            return Some(Lanes {
                base: self.scalar(value),
                stride: 0,
            });
        }
        self.vectors[value].as_deref().cloned()
    }

    /// If a vector of `b64` is the sum or difference of a vector and of something that is equal in all lanes, returns the
    /// vector and the form of what is added to it.
    pub(super) fn split(&self, function: &Function, value: Value) -> Option<(Value, Linear)> {
        let ty = function.ty(value);
        let inst = function.def_inst(value)?;
        let (Data::Lane(desc), &[a, b]) = (function.insts[inst].data, function.args(inst)) else {
            return None;
        };
        if ty.kind() != Kind::B64 || !is_whole_integer(&desc, ty) {
            return None;
        }
        let uniform = |value| {
            let form = self.vector(function, value)?;
            (form.stride == 0).then_some(form.base)
        };
        let (rest, part) = match (desc.opcode, uniform(b)) {
            (Opcode::Add, Some(part)) => (a, part),
            (Opcode::Sub, Some(part)) => (a, part.times(-1)),
            (Opcode::Add, None) => (b, uniform(a)?),
            _ => return None,
        };
        (function.ty(rest) == ty).then_some((rest, part))
    }

    fn scalar_of(&self, function: &Function, inst: Inst) -> Option<Linear> {
        let data = &function.insts[inst];
        let args = function.args(inst);
        match (data.op, data.data) {
            (Op::Const, Data::Number(bits)) => Some(Linear::constant(bits as i64)),
            (Op::Map, Data::Lane(desc)) => {
                if desc.opcode == Opcode::Mad && desc.mods.half() == Half::Lo {
                    let &[a, b, c] = args else {
                        return None;
                    };
                    let is_plain = desc.ty.bits() == 64 && !desc.mods.sat();
                    let factor = function.constant(b)?;
                    let product = self.scalar(a).times(factor as i64);
                    return is_plain.then(|| self.scalar(c).plus(&product, 1)).flatten();
                }
                if !is_whole_integer(&desc, Type::B64) {
                    return None;
                }
                let &[a, b] = args else {
                    return None;
                };
                let first = self.scalar(a);
                match (desc.opcode, function.constant(b)) {
                    (Opcode::Add, _) => first.plus(&self.scalar(b), 1),
                    (Opcode::Sub, _) => first.plus(&self.scalar(b), -1),
                    (opcode, Some(by)) => Some(first.times(factor(opcode, by)?)),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn vector_of(&self, function: &Function, inst: Inst) -> Option<Lanes> {
        let data = &function.insts[inst];
        let args = function.args(inst);
        let uniform = |base| Some(Lanes { base, stride: 0 });
        match (data.op, data.data) {
            (Op::Const, Data::Number(bits)) => uniform(Linear::constant(bits as i64)),
            (Op::Splat, _) => uniform(self.scalar(args[0])),
            (Op::Affine, number) => Some(Lanes {
                base: self.scalar(args[0]),
                stride: signed_number(Type::B64, &number),
            }),
            (Op::Map, Data::Lane(desc)) if is_whole_integer(&desc, Type::B64) => {
                let &[a, b] = args else {
                    return None;
                };
                let first = self.vector(function, a)?;
                let sign = match (desc.opcode, function.constant(b)) {
                    (Opcode::Add, _) => 1,
                    (Opcode::Sub, _) => -1,
                    (opcode, Some(by)) => {
                        let factor = factor(opcode, by)?;
                        return Some(Lanes {
                            base: first.base.times(factor),
                            stride: first.stride.wrapping_mul(factor),
                        });
                    }
                    _ => return None,
                };
                let second = self.vector(function, b)?;
                Some(Lanes {
                    base: first.base.plus(&second.base, sign)?,
                    stride: first.stride.wrapping_add(second.stride.wrapping_mul(sign)),
                })
            }
            _ => None,
        }
    }
}

/// Returns the factor by which an operation with the constant second operand `by` multiplies.
pub(super) fn factor(opcode: Opcode, by: u64) -> Option<i64> {
    match opcode {
        Opcode::Mul => Some(by as i64),
        Opcode::Shl => Some(1i64.checked_shl(u32::try_from(by).ok()?).unwrap_or(0)),
        _ => None,
    }
}
