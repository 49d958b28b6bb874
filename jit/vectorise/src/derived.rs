//! Scalars that are computed from those of the first chunk, where all chunks of a CTA run together.
//!
//! If a value is affine in the coordinates of the threads ([`coordinates`](margay_ir::analysis::coordinates)), the program
//! keeps the scalar of the first chunk only, whose first thread has the coordinates (0, 0, 0). Those of the other chunks
//! differ from it by constants, or by numbers that are computed at the start of the program. The least and the greatest
//! number of such a value in the CTA are those of threads at block corners, so one test is sufficient for all threads.

use margay_ir::analysis::coordinates::{Condition, ConditionTest, CtaClass, Factor, Form, Sum};
use margay_ir::analysis::speculative::Check;
use margay_ir::analysis::uniformity::Class;
use margay_ir::entity::{Inst, Value};
use margay_ir::function::ValueDef;
use margay_ops::mods::{CmpOp, Mods};
use margay_ops::ops::Opcode;
use margay_ops::sreg::SpecialReg;
use margay_ops::types::{Kind, OpType, Type};

use crate::emitter::{Emitter, Step, Steps, ones};

/// The maximum number of operations of which a condition consists that is evaluated for a whole CTA.
const MAX_DEPTH: usize = 4;

/// Whether a condition holds for all threads of a CTA, and whether it holds for none.
#[derive(Clone, Copy)]
struct Answer {
    all: Value,
    none: Value,
}

impl Emitter<'_> {
    /// Finds the values whose scalars are derived. The checks of `sure` hold.
    pub(crate) fn find_derived(&mut self) {
        self.derived.clear();
        // In code of its own, each chunk computes its own scalars.
        if !self.is_whole() || self.takes_turns {
            return;
        }
        let function = self.kernel.function;
        for &block in &self.kernel.uniformity.loops().order {
            let params = &function.dfg.blocks[block].params;
            let results = function.insts(block).iter();
            let results = results.flat_map(|&inst| function.dfg.results(inst));
            for &value in params.iter().chain(results) {
                if let Some(steps) = self.derivation(value) {
                    self.derived.insert(value, steps);
                }
            }
        }
    }

    /// Returns the steps of a value if its scalars can be derived.
    fn derivation(&mut self, value: Value) -> Option<Steps> {
        let coordinates = self.coordinates?;
        let CtaClass::Affine(form) = coordinates.class(value) else {
            return None;
        };
        let is_integer = matches!(self.kind(value), Kind::B32 | Kind::B64);
        let is_sure = |condition: &Condition| {
            condition.test == ConditionTest::NoWrap
                && condition.bits == 32
                && self.sure.contains(&(condition.value, condition.signed))
        };
        let holds = match self.own_class(value) {
            Class::Varying => self.lazy.contains(&value) && self.has_derived_operands(value),
            _ => form.conditions.iter().all(is_sure),
        };
        match is_integer && holds {
            true => self.steps(form),
            false => None,
        }
    }

    /// Returns whether the check of a value that is computed lazily can be evaluated for all threads of the CTA.
    fn has_derived_operands(&self, value: Value) -> bool {
        let ValueDef::Result(inst, _) = self.source.dfg.values[value].def else {
            return false;
        };
        let is_derived = |arg: &Value| self.derived.contains_key(arg);
        let mut args = self.source.dfg.args(inst).iter();
        let mut varying = args
            .clone()
            .filter(|&&arg| self.own_class(arg) == Class::Varying);
        let check = match self.kernel.speculative.check(inst) {
            None => true,
            Some(Check::NoWrap { value, .. }) => {
                is_derived(&value) && args.any(|&arg| arg == value) && self.kind(value) == Kind::B32
            }
            Some(Check::Chosen { .. }) => false,
        };
        check && varying.all(is_derived)
    }

    /// Returns the value and the signedness of the check of an instruction, if it can be evaluated for all threads of the CTA
    /// before the CTA starts.
    pub(crate) fn check_of_cta(&mut self, inst: Inst) -> Option<(Value, bool)> {
        if !self.is_whole() {
            return None;
        }
        let Some(Check::NoWrap { value, signed, .. }) = self.kernel.speculative.check(inst) else {
            return None;
        };
        let CtaClass::Affine(form) = self.coordinates?.class(value) else {
            return None;
        };
        let is_narrow = self.kind(value) == Kind::B32 && form.is_unconditional();
        let steps = is_narrow.then(|| self.steps(form)).flatten()?;
        self.derived.insert(value, steps);
        Some((value, signed))
    }

    /// Returns whether the scalar of the chunk whose code is being emitted is derived.
    pub(crate) fn is_derived(&self, value: Value) -> bool {
        self.chunk > 0 && self.is_whole() && self.derived.contains_key(&value)
    }

    /// Returns the derived scalar of a value.
    pub(crate) fn derived_scalar(&mut self, value: Value) -> Value {
        let [x, y] = self.derived[&value];
        let group = self.kernel.group;
        let here = group.offset_of(self.chunk, self.kernel.width);
        if let [Step::Constant(x), Step::Constant(y)] = [x, y] {
            let first = self.scalar_of_first(value);
            let distance = x
                .wrapping_mul(here[0])
                .wrapping_add(y.wrapping_mul(here[1]));
            return self.add_constant(first, distance);
        }
        // From the chunk before, with one addition in most cases.
        let mut found = None;
        for chunk in (1..=self.chunk).rev() {
            if let Some(&known) = self.chained.get(&(value, chunk)) {
                found = Some((chunk, known));
                break;
            }
        }
        let (mut chunk, mut scalar) = match found {
            Some(found) => found,
            None => (0, self.scalar_of_first(value)),
        };
        while chunk < self.chunk {
            let from = group.offset_of(chunk, self.kernel.width);
            chunk += 1;
            let to = group.offset_of(chunk, self.kernel.width);
            for (step, distance) in [(x, to[0] - from[0]), (y, to[1] - from[1])] {
                scalar = self.moved(scalar, step, distance);
            }
            self.chained.insert((value, chunk), scalar);
        }
        scalar
    }

    /// Returns a scalar of the value at another position along an axis.
    fn moved(&mut self, scalar: Value, step: Step, distance: i64) -> Value {
        match step {
            _ if distance == 0 => scalar,
            Step::Constant(step) => self.add_constant(scalar, step.wrapping_mul(distance)),
            Step::Value(step) => {
                let way = match distance {
                    1 => step,
                    _ => {
                        let ty = self.out.ty(step);
                        let distance = self.constant(ty, distance as u64 & ones(ty));
                        self.product(step, distance)
                    }
                };
                self.add(scalar, way)
            }
        }
    }

    /// Returns the distance in bytes between the scalar of the chunk and that of the first chunk, if it is derived by adding
    /// a constant.
    pub(crate) fn derived_distance(&self, value: Value) -> Option<i64> {
        if !self.is_derived(value) {
            return None;
        }
        let here = self.kernel.group.offset_of(self.chunk, self.kernel.width);
        match self.derived[&value] {
            [Step::Constant(x), Step::Constant(y)] => {
                x.checked_mul(here[0])?.checked_add(y.checked_mul(here[1])?)
            }
            _ => None,
        }
    }

    /// Returns whether the scalars of a value in all chunks differ by multiples of `bytes`.
    pub(crate) fn differs_by_multiples(&self, value: Value, bytes: u32) -> bool {
        let Some(coordinates) = self
            .coordinates
            .filter(|_| self.derived.contains_key(&value))
        else {
            return false;
        };
        let CtaClass::Affine(form) = coordinates.class(value) else {
            return false;
        };
        let group = self.kernel.group;
        let last = group.offset_of(self.chunk_count - 1, self.kernel.width);
        let is_multiple = |(sum, chunks): (&Sum, i64)| {
            // Along x, neighbouring chunks are a multiple of the width apart.
            let mut terms = sum.terms().iter();
            chunks == 0 || terms.all(|term| term.times % i64::from(bytes) == 0)
        };
        let x = match group.offset_of(1, self.kernel.width) {
            [0, _] => 0,
            _ => 1,
        };
        form.coefficients.iter().zip([x, last[1]]).all(is_multiple)
    }

    /// Returns the steps of a form; `None` if the program cannot compute them at its start.
    fn steps(&mut self, form: &Form) -> Option<Steps> {
        let ty = match form.bits {
            32 => Type::B32,
            64 => Type::B64,
            _ => return None,
        };
        let [x, y, _] = &form.coefficients;
        Some([self.step(x, ty)?, self.step(y, ty)?])
    }

    fn step(&mut self, sum: &Sum, ty: Type) -> Option<Step> {
        if let Some(constant) = sum.as_constant() {
            return Some(Step::Constant(constant));
        }
        let known = self.steps_at_start.get(&(sum.clone(), ty)).copied();
        let value = match known {
            Some(known) => known?,
            None => {
                let made = self.sum_at_start(sum, ty);
                self.steps_at_start.insert((sum.clone(), ty), made);
                made?
            }
        };
        Some(Step::Value(value))
    }

    /// Emits a sum of numbers that are known at the start of the program.
    fn sum_at_start(&mut self, sum: &Sum, ty: Type) -> Option<Value> {
        let mut total: Option<Value> = None;
        for term in sum.terms() {
            let mut product: Option<Value> = None;
            for factor in &term.factors {
                let factor = self.factor_at_start(factor)?;
                product = Some(self.at_start(|e| {
                    let factor = e.resized(factor, ty);
                    match product {
                        Some(product) => e.product(product, factor),
                        None => factor,
                    }
                }));
            }
            total = Some(self.at_start(|e| {
                let times = e.constant(ty, term.times as u64 & ones(ty));
                let product = match product {
                    Some(product) if term.times == 1 => product,
                    Some(product) => e.product(product, times),
                    None => times,
                };
                match total {
                    Some(total) => e.add(total, product),
                    None => product,
                }
            }));
        }
        total
    }

    fn factor_at_start(&mut self, factor: &Factor) -> Option<Value> {
        use SpecialReg as R;
        match factor {
            Factor::Register(register) => match register {
                R::NctaidX | R::NctaidY | R::NctaidZ => self.at_start(|e| e.size(*register)),
                _ => None,
            },
            Factor::Value(value) => {
                let ty = self.source.dfg.ty(*value);
                match self.source.dfg.constant(*value) {
                    Some(bits) => Some(self.at_start(|e| e.constant(ty, bits))),
                    None => self.fixed.get(value).copied(),
                }
            }
            Factor::Base(_) => None,
            Factor::Extended(extension) => {
                let ty = match extension.bits {
                    32 => Type::B32,
                    _ => return None,
                };
                let narrow = self.sum_at_start(&extension.sum, ty)?;
                Some(self.at_start(|e| match extension.signed {
                    true => e.convert(OpType::S64, OpType::S32, narrow),
                    false => e.convert(OpType::U64, OpType::U32, narrow),
                }))
            }
        }
    }

    /// Returns the least and the greatest number of a derived 32-bit value in the CTA, computed in 64 bits.
    fn extent(&mut self, value: Value, signed: bool) -> (Value, Value) {
        let steps = self.derived[&value];
        let [x, y, _] = self.kernel.shape.expect("the program is for one shape");
        let (narrow, wide) = match signed {
            true => (OpType::S32, OpType::S64),
            false => (OpType::U32, OpType::U64),
        };
        let first = self.scalar_of_first(value);
        let base = self.convert(wide, narrow, first);
        let (mut low, mut high) = (base, base);
        let mut constants = [0i64; 2];
        for (step, length) in steps.into_iter().zip([x, y]) {
            let last = i64::from(length) - 1;
            match step {
                Step::Constant(step) => {
                    let way = i64::from(step as i32) * last;
                    constants[usize::from(way > 0)] += way;
                }
                Step::Value(step) if last > 0 => {
                    let step = self.convert(OpType::S64, OpType::S32, step);
                    let last = self.constant(Type::B64, last as u64);
                    let way = self.product(step, last);
                    let zero = self.constant(Type::B64, 0);
                    let [down, up] = [Opcode::Min, Opcode::Max]
                        .map(|opcode| self.simple(opcode, OpType::S64, Type::B64, &[way, zero]));
                    low = self.add(low, down);
                    high = self.add(high, up);
                }
                Step::Value(_) => {}
            }
        }
        low = self.add_constant(low, constants[0]);
        high = self.add_constant(high, constants[1]);
        (low, high)
    }

    /// Returns whether a derived 32-bit value does not wrap in the CTA.
    pub(crate) fn does_not_wrap_in_cta(&mut self, value: Value, signed: bool) -> Value {
        let extent = self.extent(value, signed);
        self.fits(extent, signed)
    }

    /// Returns whether the numbers from `low` to `high` are 32-bit integers.
    fn fits(&mut self, (low, high): (Value, Value), signed: bool) -> Value {
        let (least, most) = match signed {
            true => (i64::from(i32::MIN), i64::from(i32::MAX)),
            false => (0, i64::from(u32::MAX)),
        };
        let least = self.constant(Type::B64, least as u64);
        let most = self.constant(Type::B64, most as u64);
        let low = self.compare((CmpOp::Ge, OpType::S64), low, least);
        let high = self.compare((CmpOp::Le, OpType::S64), high, most);
        self.logic(Opcode::And, &[low, high])
    }

    /// Returns whether a condition holds for all threads of the CTA, and whether it holds for none of them; `None` if a cheap
    /// test does not show this. Both tests may fail for other conditions, too.
    pub(crate) fn decided(&mut self, condition: Value) -> Option<[Value; 2]> {
        if !self.is_whole() || self.takes_turns {
            return None;
        }
        let answer = self.answer(condition, MAX_DEPTH)?;
        Some([answer.all, answer.none])
    }

    fn answer(&mut self, condition: Value, depth: usize) -> Option<Answer> {
        if matches!(self.class(condition), Class::Launch | Class::Cta) {
            let all = self.scalar(condition);
            let none = self.logic(Opcode::Not, &[all]);
            return Some(Answer { all, none });
        }
        let source = self.source;
        let inst = source.dfg.def_inst(condition)?;
        let is_here = !self.restored.contains(&condition) && self.is_available(condition);
        let depth = depth.checked_sub(1).filter(|_| is_here)?;
        let (data, args) = (source.dfg.insts[inst], source.dfg.args(inst));
        match (data.opcode, args) {
            (Opcode::Setp, &[a, b]) if source.dfg.results(inst).len() == 1 => {
                let cmp = data.mods.cmp();
                let is_plain = data.mods == Mods::NONE.with_cmp(cmp);
                let is_narrow = matches!(data.ty, OpType::S32 | OpType::U32);
                (is_plain && is_narrow).then(|| self.compared((cmp, data.ty), a, b))?
            }
            (Opcode::Not, &[a]) => {
                let Answer { all, none } = self.answer(a, depth)?;
                Some(Answer {
                    all: none,
                    none: all,
                })
            }
            (Opcode::And, &[a, b]) => {
                let [a, b] = [self.answer(a, depth)?, self.answer(b, depth)?];
                Some(Answer {
                    all: self.logic(Opcode::And, &[a.all, b.all]),
                    none: self.logic(Opcode::Or, &[a.none, b.none]),
                })
            }
            (Opcode::Or, &[a, b]) => {
                let [a, b] = [self.answer(a, depth)?, self.answer(b, depth)?];
                Some(Answer {
                    all: self.logic(Opcode::Or, &[a.all, b.all]),
                    none: self.logic(Opcode::And, &[a.none, b.none]),
                })
            }
            _ => None,
        }
    }

    /// Evaluates a comparison of a derived value with a number that is equal for the CTA.
    fn compared(&mut self, (cmp, ty): (CmpOp, OpType), a: Value, b: Value) -> Option<Answer> {
        let is_uniform = |value: Value| matches!(self.class(value), Class::Launch | Class::Cta);
        let (value, bound, cmp) = match (is_uniform(a), is_uniform(b)) {
            (false, true) => (a, b, cmp),
            (true, false) => (b, a, swapped(cmp)?),
            _ => return None,
        };
        let (cmp, signed) = ordered(cmp, ty == OpType::S32)?;
        let is_known = self.derived.contains_key(&value)
            && self.own_class(value) != Class::Varying
            && self.is_available(value);
        if !is_known {
            return None;
        }
        let extent = self.extent(value, signed);
        let bound = self.scalar(bound);
        let (narrow, wide) = match signed {
            true => (OpType::S32, OpType::S64),
            false => (OpType::U32, OpType::U64),
        };
        let bound = self.convert(wide, narrow, bound);
        let (low, high) = extent;
        // The ends of the extent for which the comparison is hardest and easiest.
        let (hard, easy) = match cmp {
            CmpOp::Lt | CmpOp::Le => (high, low),
            _ => (low, high),
        };
        let all = self.compare((cmp, OpType::S64), hard, bound);
        let some = self.compare((cmp, OpType::S64), easy, bound);
        let none = self.logic(Opcode::Not, &[some]);
        if self.sure.contains(&(value, signed)) {
            return Some(Answer { all, none });
        }
        let fits = self.fits(extent, signed);
        Some(Answer {
            all: self.logic(Opcode::And, &[all, fits]),
            none: self.logic(Opcode::And, &[none, fits]),
        })
    }
}

/// Returns the comparison with swapped operands.
fn swapped(cmp: CmpOp) -> Option<CmpOp> {
    Some(match cmp {
        CmpOp::Lt => CmpOp::Gt,
        CmpOp::Le => CmpOp::Ge,
        CmpOp::Gt => CmpOp::Lt,
        CmpOp::Ge => CmpOp::Le,
        CmpOp::Lo => CmpOp::Hi,
        CmpOp::Ls => CmpOp::Hs,
        CmpOp::Hi => CmpOp::Lo,
        CmpOp::Hs => CmpOp::Ls,
        _ => return None,
    })
}

/// Returns the comparison of wider integers that is equal to an order comparison, and whether its operands are signed.
fn ordered(cmp: CmpOp, signed: bool) -> Option<(CmpOp, bool)> {
    Some(match cmp {
        CmpOp::Lt | CmpOp::Le | CmpOp::Gt | CmpOp::Ge => (cmp, signed),
        CmpOp::Lo => (CmpOp::Lt, false),
        CmpOp::Ls => (CmpOp::Le, false),
        CmpOp::Hi => (CmpOp::Gt, false),
        CmpOp::Hs => (CmpOp::Ge, false),
        _ => return None,
    })
}
