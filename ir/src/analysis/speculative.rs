//! Finds speculatively affine values: values that are affine unless a run-time check fails.
//!
//! A 32-bit index that is affine might wrap between two lanes, so the 64-bit address computed from it is not always
//! affine. A wrap is rare, and a comparison of the values in the first and the last lane detects the wrap. Likewise,
//! the minimum or maximum of an affine value and a uniform bound is usually affine, and a comparison detects the
//! exceptions. [`SpeculativeAffine`] follows such values up to the addresses computed from them, and returns the
//! [`Check`] for each instruction that needs one. If the checks hold, these addresses are affine.
//!
//! Invariant: [`Uniformity`] classifies a speculatively affine value as varying, so code without the checks is
//! correct.

use super::uniformity::{Class, Uniformity};
use crate::analysis::Cfg;
use crate::entity::{Block, Inst, SecondaryMap, Value};
use crate::function::{Function, InstData};
use margay_ops::mods::{Half, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::types::{Kind, OpType};

/// A condition that code checks at run time, and under which the result of an instruction is
/// affine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Check {
    /// The operand does not wrap in its type between the first lane and the last. Its value in each lane is a base plus
    /// `stride * lane`.
    NoWrap {
        /// The operand.
        value: Value,
        /// Difference between the operand's values in neighbouring lanes.
        stride: i64,
        /// Whether the type of the operand is signed.
        signed: bool,
    },
    /// The operand does not wrap between the first lane and the last, and `min` or `max` selects the operand in both of
    /// these lanes.
    Chosen {
        /// The operand.
        value: Value,
        /// Difference between the operand's values in neighbouring lanes.
        stride: i64,
        /// Whether the type of the operand is signed.
        signed: bool,
        /// The other operand.
        bound: Value,
        /// Whether the instruction is `min`; otherwise it is `max`.
        is_min: bool,
    },
}

/// What the analysis has found about a value so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Fact {
    /// The definition of the value has not been visited.
    #[default]
    Unknown,
    /// If the checks hold, the values in neighbouring lanes differ by this stride. Stride 0 means
    /// that the value is equal for all lanes.
    Stride(i64),
    /// The value varies.
    Varies,
}

/// The speculatively affine values of a function.
#[derive(Clone, Debug, Default)]
pub struct SpeculativeAffine {
    facts: SecondaryMap<Value, Fact>,
    checks: SecondaryMap<Inst, Option<Check>>,
}

impl SpeculativeAffine {
    /// Finds the speculatively affine values of a function.
    pub fn new(function: &Function, uniformity: &Uniformity, cfg: &Cfg) -> SpeculativeAffine {
        let mut speculative = SpeculativeAffine::default();
        // The loop terminates, because a fact changes only from `Unknown` to another fact, and from a stride to
        // `Varies`.
        let mut changed = true;
        while changed {
            changed = false;
            for &block in cfg.rpo() {
                changed |= speculative.params(function, uniformity, cfg, block);
                for &inst in function.insts(block) {
                    changed |= speculative.inst(function, uniformity, block, inst);
                }
            }
        }
        speculative
    }

    /// Returns the difference between the values in neighbouring lanes if `value` is speculatively
    /// affine, otherwise `None`.
    pub fn stride(&self, value: Value) -> Option<i64> {
        match self.facts[value] {
            Fact::Stride(stride) => Some(stride),
            _ => None,
        }
    }

    /// Returns the check that must hold so that the result of an instruction is affine; `None` if the instruction needs
    /// no check.
    pub fn check(&self, inst: Inst) -> Option<Check> {
        self.checks[inst]
    }

    fn params(
        &mut self,
        function: &Function,
        uniformity: &Uniformity,
        cfg: &Cfg,
        block: Block,
    ) -> bool {
        let mut changed = false;
        for (index, &param) in function.dfg.blocks[block].params.iter().enumerate() {
            if uniformity.class(param) != Class::Varying {
                continue;
            }
            let integer = matches!(function.dfg.ty(param).kind(), Kind::B32 | Kind::B64);
            let anything = block == function.entry() || uniformity.joins_apart(block);
            let mut fact = Fact::Unknown;
            if anything || !integer {
                fact = Fact::Varies;
            }
            for (pred, call) in cfg.incoming(function, block) {
                let view = View {
                    function,
                    uniformity,
                    speculative: self,
                    block: pred,
                };
                let arg = call.args.get(index).copied();
                let known = arg.map_or(Fact::Varies, |arg| {
                    if uniformity.leaves_apart(function, arg, block) {
                        return Fact::Varies;
                    }
                    view.fact(arg)
                });
                fact = match (fact, known) {
                    (Fact::Unknown, other) | (other, Fact::Unknown) => other,
                    (Fact::Stride(a), Fact::Stride(b)) if a == b => fact,
                    _ => Fact::Varies,
                };
            }
            changed |= self.facts[param] != fact;
            self.facts[param] = fact;
        }
        changed
    }

    fn inst(
        &mut self,
        function: &Function,
        uniformity: &Uniformity,
        block: Block,
        inst: Inst,
    ) -> bool {
        let [result] = *function.dfg.results(inst) else {
            let mut changed = false;
            for &result in function.dfg.results(inst) {
                changed |= self.facts[result] != Fact::Varies;
                self.facts[result] = Fact::Varies;
            }
            return changed;
        };
        if uniformity.class(result) != Class::Varying || self.facts[result] == Fact::Varies {
            return false;
        }
        let view = View {
            function,
            uniformity,
            speculative: self,
            block,
        };
        let args = function.dfg.args(inst).iter();
        let fact = if args.clone().any(|&arg| view.fact(arg) == Fact::Unknown) {
            Fact::Unknown
        } else {
            match view.result(inst) {
                Some((stride, check)) => {
                    self.checks[inst] = check;
                    Fact::Stride(stride)
                }
                None => Fact::Varies,
            }
        };
        let changed = self.facts[result] != fact;
        self.facts[result] = fact;
        changed
    }
}

struct View<'a> {
    function: &'a Function,
    uniformity: &'a Uniformity,
    speculative: &'a SpeculativeAffine,
    block: Block,
}

impl View<'_> {
    fn fact(&self, value: Value) -> Fact {
        match self.uniformity.class_in(self.function, value, self.block) {
            Class::Affine(stride) => Fact::Stride(stride),
            Class::Varying => {
                // If lanes leave a loop in different iterations, they hold values of different iterations. The values
                // of neighbouring lanes then do not differ by the stride.
                let apart = self
                    .uniformity
                    .leaves_apart(self.function, value, self.block);
                if apart {
                    Fact::Varies
                } else {
                    self.speculative.facts[value]
                }
            }
            _ => Fact::Stride(0),
        }
    }

    /// Returns the stride of an operand (0 if the operand is uniform); `None` if the operand varies.
    fn operand(&self, value: Value) -> Option<i64> {
        match self.fact(value) {
            Fact::Stride(stride) => Some(stride),
            _ => None,
        }
    }

    fn constant(&self, value: Value, ty: OpType) -> Option<i64> {
        let bits = self.function.dfg.constant(value)? as i64;
        let width = ty.bits();
        Some(match (ty.is_signed(), width) {
            (_, 64..) => bits,
            (true, _) => bits << (64 - width) >> (64 - width),
            (false, _) => bits & ((1 << width) - 1),
        })
    }

    fn result(&self, inst: Inst) -> Option<(i64, Option<Check>)> {
        let data = &self.function.dfg.insts[inst];
        let args = self.function.dfg.args(inst);
        let integer = data.ty.is_integer() && data.ty.elements() == 1;
        if !integer && data.opcode != Opcode::Cvta || data.mods.sat() || data.mods.carry_out() {
            return None;
        }
        match (data.opcode, args) {
            (Opcode::Add, &[a, b]) => Some((self.operand(a)?.checked_add(self.operand(b)?)?, None)),
            (Opcode::Sub, &[a, b]) => Some((self.operand(a)?.checked_sub(self.operand(b)?)?, None)),
            (Opcode::Shl, &[a, by]) => {
                let by = self.function.dfg.constant(by).filter(|&by| by < 32)?;
                Some((self.operand(a)?.checked_mul(1 << by)?, None))
            }
            (Opcode::Mul, &[a, b]) => self.product(data, a, b),
            (Opcode::Mad, &[a, b, c]) => {
                let (product, check) = match self.product(data, a, b) {
                    Some(product) => product,
                    None => (self.plain_product(data, a, b)?, None),
                };
                Some((product.checked_add(self.operand(c)?)?, check))
            }
            (Opcode::Cvt, &[a]) => self.widened(data, a),
            (Opcode::Cvta, &[a]) => {
                let same = matches!(
                    data.mods.space(),
                    StateSpace::Global | StateSpace::Const | StateSpace::Param
                );
                same.then(|| self.operand(a))?.map(|stride| (stride, None))
            }
            (Opcode::Min | Opcode::Max, &[a, b]) => self.clamped(data, a, b),
            _ => None,
        }
    }

    fn plain_product(&self, data: &InstData, a: Value, b: Value) -> Option<i64> {
        if data.mods.half() != Half::Lo {
            return None;
        }
        match (self.constant(a, data.ty), self.constant(b, data.ty)) {
            (_, Some(scale)) => self.operand(a)?.checked_mul(scale),
            (Some(scale), _) => self.operand(b)?.checked_mul(scale),
            _ => None,
        }
    }

    /// Returns the stride of the product of `a` and `b` and the check that it needs; `None` if the
    /// product is not speculatively affine. One factor must be a constant.
    fn product(&self, data: &InstData, a: Value, b: Value) -> Option<(i64, Option<Check>)> {
        if data.mods.half() == Half::Lo {
            return Some((self.plain_product(data, a, b)?, None));
        }
        if data.mods.half() != Half::Wide || data.ty.bits() != 32 {
            return None;
        }
        let (value, scale) = match (self.constant(a, data.ty), self.constant(b, data.ty)) {
            (_, Some(scale)) => (a, scale),
            (Some(scale), _) => (b, scale),
            _ => return None,
        };
        let operand = self.operand(value)?;
        let check = Check::NoWrap {
            value,
            stride: operand,
            signed: data.ty.is_signed(),
        };
        Some((operand.checked_mul(scale)?, Some(check)))
    }

    /// Returns the stride of the result of a conversion from a 32-bit to a 64-bit integer, and the
    /// check that it needs; `None` if the result is not speculatively affine.
    fn widened(&self, data: &InstData, a: Value) -> Option<(i64, Option<Check>)> {
        let held = self.function.dfg.ty(a) == data.src.held();
        if data.src.bits() != 32 || data.ty.bits() != 64 || !data.src.is_integer() || !held {
            return None;
        }
        let operand = self.operand(a)?;
        let check = Check::NoWrap {
            value: a,
            stride: operand,
            signed: data.src.is_signed(),
        };
        Some((operand, Some(check)))
    }

    /// Returns the stride of the minimum or maximum of an affine value and a uniform bound, and the
    /// check that it needs; `None` if the result is not speculatively affine.
    fn clamped(&self, data: &InstData, a: Value, b: Value) -> Option<(i64, Option<Check>)> {
        if data.ty.bits() != 32 || data.mods.relu() {
            return None;
        }
        let (x, y) = (self.operand(a)?, self.operand(b)?);
        let uniform = |value| {
            self.uniformity
                .class_in(self.function, value, self.block)
                .is_uniform()
        };
        let (value, operand, bound) = match () {
            () if uniform(b) => (a, x, b),
            () if uniform(a) => (b, y, a),
            () => return None,
        };
        let check = Check::Chosen {
            value,
            stride: operand,
            signed: data.ty.is_signed(),
            bound,
            is_min: data.opcode == Opcode::Min,
        };
        Some((operand, Some(check)))
    }
}
