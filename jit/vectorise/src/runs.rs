//! Which values advance linearly along a row of threads, and which kernels run several CTAs together.
//!
//! A *run* is a number of CTAs that are adjacent in dimension x of the grid. A row of a run consists of the threads of
//! these CTAs with the same `%tid.y` and `%tid.z`. The position of a thread in this row is `%tid.x` plus `%ntid.x` for
//! each CTA of the run before its own. Where the code reads `%tid.x`, it takes this position, and where it reads
//! `%ctaid.x`, it takes that of the run's first CTA. The sum `%ctaid.x * %ntid.x + %tid.x` therefore is that of the
//! thread. A kernel may run several CTAs together if it uses these two registers only in such sums, with equal factors,
//! and if no thread can observe in which order CTAs run. Other kernels have runs of one CTA.
//!
//! This analysis finds, for values that depend on nothing but constants, parameters and special registers, the factor with
//! which they advance along a row. A value that is extended to 64 bits must not wrap in its type within the row. The
//! program tests this before the run.

use margay_ir::entity::{Inst, SecondaryMap, Value};
use margay_ir::function::{Function, InstData, payload_sreg};
use margay_ops::mods::{Half, StateSpace};
use margay_ops::ops::{Effects, Opcode};
use margay_ops::sreg::SpecialReg;
use margay_ops::types::Kind;
use rustc_hash::FxHashMap;

use crate::Kernel;

/// A value of 32 bits that must not wrap in its type within a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unwrapped {
    pub(crate) value: Value,
    pub(crate) step: i64,
    pub(crate) signed: bool,
}

/// What a program needs to know to run rows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Runs {
    /// Whether a run may have more than one CTA.
    pub(crate) several: bool,
    /// The distances between the values of adjacent threads of a row. All these values can be computed at the start of a
    /// row.
    pub(crate) steps: FxHashMap<Value, i64>,
    /// The values that must not wrap.
    pub(crate) unwrapped: Vec<Unwrapped>,
}

/// The row whose chunks are being emitted.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// The position of the first of the chunks that run together.
    pub(crate) position: Value,
    /// `%tid.y` and `%tid.z`.
    pub(crate) tid: [Value; 2],
    /// The values of the row's first thread, and the distances between adjacent threads.
    pub(crate) bases: FxHashMap<Value, (Value, i64)>,
}

/// How a value depends on the position of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Fact {
    /// It depends on more than constants, parameters and special registers, or not linearly on the position.
    #[default]
    Other,
    /// `%ctaid.x`.
    Cta,
    /// `%ntid.x`.
    Length,
    /// `%tid.x`, or its extension to 64 bits.
    Thread,
    /// `thread * %tid.x + cta * %ctaid.x * %ntid.x` plus a number that is equal for all threads of the row.
    Linear { thread: i64, cta: i64 },
}

const EQUAL: Fact = Fact::Linear { thread: 0, cta: 0 };

impl Fact {
    /// Returns the factors of `%tid.x` and of `%ctaid.x * %ntid.x`.
    fn factors(self) -> Option<(i64, i64)> {
        match self {
            Fact::Other | Fact::Cta => None,
            Fact::Length => Some((0, 0)),
            Fact::Thread => Some((1, 0)),
            Fact::Linear { thread, cta } => Some((thread, cta)),
        }
    }

    /// Returns whether the value is correct for all threads of a run of several CTAs.
    fn is_balanced(self) -> bool {
        match self {
            Fact::Other => true,
            fact => fact.factors().is_some_and(|(thread, cta)| thread == cta),
        }
    }

    fn is_equal(self) -> bool {
        self.factors() == Some((0, 0))
    }

    fn plus(self, other: Fact, times: i64) -> Option<Fact> {
        let ((a, b), (c, d)) = (self.factors()?, other.factors()?);
        Some(Fact::Linear {
            thread: a.wrapping_add(c.wrapping_mul(times)),
            cta: b.wrapping_add(d.wrapping_mul(times)),
        })
    }
}

/// Returns whether the threads of a kernel cannot observe in which order CTAs run, and the code of a row does not depend on
/// the CTA of a thread except through the registers that this module describes.
fn has_free_order(function: &Function) -> bool {
    let blocks = function.blocks().iter();
    let mut insts = blocks.flat_map(|&block| function.insts(block));
    insts.all(|&inst| {
        let data = &function.dfg.insts[inst];
        let effects = function.effects(inst);
        let is_private = |space| {
            matches!(
                space,
                StateSpace::Shared | StateSpace::SharedCluster | StateSpace::Local
            )
        };
        let is_known = match data.opcode {
            Opcode::SReg => payload_sreg(data.payload()).is_some_and(is_position),
            Opcode::LocalAddr | Opcode::Fence => false,
            Opcode::Ld | Opcode::St | Opcode::Cvta => !is_private(data.mods.space()),
            Opcode::Atom | Opcode::Red => false,
            _ => true,
        };
        is_known && !effects.is_sync_point() && !effects.contains(Effects::YIELDS)
    })
}

/// Returns whether a register has the same value for all threads of a row of a run, or is one of the two registers that
/// determine the position in it.
fn is_position(register: SpecialReg) -> bool {
    use SpecialReg as R;
    matches!(
        register,
        R::TidX | R::TidY | R::TidZ | R::NtidX | R::NtidY | R::NtidZ
    ) || matches!(
        register,
        R::CtaidX | R::CtaidY | R::CtaidZ | R::NctaidX | R::NctaidY | R::NctaidZ
    )
}

/// Returns whether several CTAs of a kernel may run together.
#[must_use]
pub fn runs_several_ctas(function: &Function) -> bool {
    has_free_order(function) && Search::new(function, true).run().is_some()
}

impl Runs {
    /// Finds how the values of a kernel advance; `None` if its code does not run rows. The checks of the instructions
    /// `checks` must hold, and the values in `is_affine` then are scalars.
    pub(crate) fn new(
        kernel: &Kernel<'_>,
        checks: &[Inst],
        is_scalar: impl Fn(Value) -> bool,
    ) -> Option<Runs> {
        let function = kernel.function;
        let found = match has_free_order(function) {
            true => Search::new(function, true).run(),
            false => None,
        };
        let several = found.is_some();
        let search = found.or_else(|| Search::new(function, false).run())?;
        // All checks must be among the values that are tested for rows.
        let is_tested = |&inst: &Inst| {
            let result = function.dfg.results(inst)[0];
            search.facts[result].factors().is_some()
        };
        if !checks.iter().all(is_tested) {
            return None;
        }
        let mut runs = Runs {
            several,
            ..Runs::default()
        };
        let order = &kernel.uniformity.loops().order;
        for &inst in order.iter().flat_map(|&block| function.insts(block)) {
            let &[result] = function.dfg.results(inst) else {
                continue;
            };
            let Some((step, cta)) = search.facts[result].factors() else {
                continue;
            };
            if (several && step != cta) || !is_scalar(result) {
                continue;
            }
            runs.steps.insert(result, step);
        }
        runs.unwrapped = search.unwrapped;
        let limit = runs.unwrapped.len() <= MAX_TESTS;
        limit.then_some(runs)
    }
}

/// The maximum distance between the values of adjacent threads, of values that are extended to 64 bits.
const MAX_STEP: i64 = 1 << 16;
/// The maximum number of values that are tested before a run.
const MAX_TESTS: usize = 12;

struct Search<'a> {
    function: &'a Function,
    /// Whether runs have several CTAs.
    several: bool,
    facts: SecondaryMap<Value, Fact>,
    unwrapped: Vec<Unwrapped>,
}

impl<'a> Search<'a> {
    fn new(function: &'a Function, several: bool) -> Search<'a> {
        Search {
            function,
            several,
            facts: SecondaryMap::default(),
            unwrapped: Vec::new(),
        }
    }

    /// Visits all instructions. Returns `None` if a use of a register prevents runs of several CTAs.
    fn run(mut self) -> Option<Search<'a>> {
        let function = self.function;
        let cfg = margay_ir::analysis::Cfg::new(function);
        for &block in cfg.rpo() {
            for &inst in function.insts(block) {
                let fact = self.fact(inst);
                if fact.is_none() && self.several && !self.is_balanced(inst) {
                    return None;
                }
                for &result in function.dfg.results(inst) {
                    self.facts[result] = fact.unwrap_or_default();
                }
            }
        }
        Some(self)
    }

    /// Returns whether the operands of an instruction are correct for all threads of a run.
    fn is_balanced(&self, inst: Inst) -> bool {
        let dfg = &self.function.dfg;
        let targets = dfg.targets(inst).iter();
        let passed = targets.flat_map(|call| &call.args);
        let mut all = dfg.args(inst).iter().chain(passed);
        all.all(|&value| self.of(value).is_balanced())
    }

    fn of(&self, value: Value) -> Fact {
        match self.function.dfg.constant(value) {
            Some(_) => EQUAL,
            None => self.facts[value],
        }
    }

    /// Returns what is known about the results of an instruction; `None` if they do not depend linearly on the position.
    fn fact(&mut self, inst: Inst) -> Option<Fact> {
        let function = self.function;
        let dfg = &function.dfg;
        let data = &dfg.insts[inst];
        let args = dfg.args(inst);
        match data.opcode {
            Opcode::Const | Opcode::ParamAddr | Opcode::SymbolAddr => return Some(EQUAL),
            Opcode::SReg => return self.register(payload_sreg(data.payload())?),
            Opcode::Ld if margay_ir::analysis::regions::is_param_load(function, inst) => {
                return self.of(args[0]).is_equal().then_some(EQUAL);
            }
            opcode if !opcode.effects().is_pure() => return None,
            _ => {}
        }
        let &[result] = dfg.results(inst) else {
            return None;
        };
        let is_integer = |value: Value| matches!(dfg.ty(value).kind(), Kind::B32 | Kind::B64);
        let bits = |value: Value| dfg.ty(value).lane_bits();
        if !args.is_empty() && args.iter().all(|&arg| self.of(arg).is_equal()) {
            let lengths = args.iter().all(|&arg| self.of(arg) == Fact::Length);
            let keeps = data.opcode == Opcode::Cvt && widens(data) && bits(args[0]) == 32;
            return Some(match lengths && keeps {
                true => Fact::Length,
                false => EQUAL,
            });
        }
        let is_plain = data.ty.is_integer() && data.ty.elements() == 1 && !data.mods.sat();
        if !is_plain || !is_integer(result) || !args.iter().all(|&arg| is_integer(arg)) {
            return None;
        }
        match (data.opcode, args) {
            (Opcode::Add, &[a, b]) => self.of(a).plus(self.of(b), 1),
            (Opcode::Sub, &[a, b]) => self.of(a).plus(self.of(b), -1),
            (Opcode::Mul, &[a, b]) if data.mods.half() == Half::Lo => self.product(a, b),
            (Opcode::Mad, &[a, b, c]) if data.mods.half() == Half::Lo => {
                self.product(a, b)?.plus(self.of(c), 1)
            }
            (Opcode::Mul, &[a, b]) if data.mods.half() == Half::Wide => {
                self.wide_product((a, b), data.ty.is_signed())
            }
            (Opcode::Mad, &[a, b, c]) if data.mods.half() == Half::Wide => self
                .wide_product((a, b), data.ty.is_signed())?
                .plus(self.of(c), 1),
            (Opcode::Shl, &[a, b]) => {
                let by = dfg.constant(b).filter(|&by| by < 32)?;
                EQUAL.plus(self.of(a), 1 << by)
            }
            (Opcode::Cvt, &[a]) if widens(data) && bits(a) == 32 => match self.of(a) {
                fact @ (Fact::Cta | Fact::Length | Fact::Thread) => Some(fact),
                _ => self.extended(a, data.src.is_signed()),
            },
            (Opcode::Cvt, &[a])
                if data.src.bits() == bits(a)
                    && data.ty.bits() <= bits(a)
                    && data.ty.bits() == bits(result) =>
            {
                self.linear(a)
            }
            (Opcode::Bitcast, &[a]) if data.src.is_integer() && bits(a) == bits(result) => {
                self.linear(a)
            }
            (Opcode::Cvta, &[a]) if bits(a) == bits(result) => {
                let space = data.mods.space();
                matches!(space, StateSpace::Global | StateSpace::Const)
                    .then(|| self.linear(a))
                    .flatten()
            }
            _ => None,
        }
    }

    fn register(&self, register: SpecialReg) -> Option<Fact> {
        use SpecialReg as R;
        Some(match register {
            R::TidX => Fact::Thread,
            R::NtidX => Fact::Length,
            R::CtaidX if self.several => Fact::Cta,
            register if is_position(register) => EQUAL,
            _ => return None,
        })
    }

    /// Returns the fact of a value as a sum.
    fn linear(&self, value: Value) -> Option<Fact> {
        EQUAL.plus(self.of(value), 1)
    }

    /// Returns the fact of a product in the width of the factors.
    fn product(&self, a: Value, b: Value) -> Option<Fact> {
        let (one, other) = (self.of(a), self.of(b));
        if matches!(
            (one, other),
            (Fact::Cta, Fact::Length) | (Fact::Length, Fact::Cta)
        ) {
            return Some(Fact::Linear { thread: 0, cta: 1 });
        }
        if one.is_equal() && other.is_equal() {
            return Some(EQUAL);
        }
        self.scaled(a, b)
    }

    /// Returns the fact of a product with a constant.
    fn scaled(&self, a: Value, b: Value) -> Option<Fact> {
        let dfg = &self.function.dfg;
        let (value, by) = match (dfg.constant(a), dfg.constant(b)) {
            (_, Some(by)) => (a, (by, b)),
            (Some(by), _) => (b, (by, a)),
            _ => return None,
        };
        let bits = dfg.ty(by.1).lane_bits();
        let by = margay_ops::meaning::sign_extend(by.0.into(), bits) as i64;
        EQUAL.plus(self.of(value), by)
    }

    /// Returns the fact of a product of 64 bits of factors of 32 bits.
    fn wide_product(&mut self, (a, b): (Value, Value), signed: bool) -> Option<Fact> {
        let (one, other) = (self.of(a), self.of(b));
        // The product is less than 2^42.
        if matches!(
            (one, other),
            (Fact::Cta, Fact::Length) | (Fact::Length, Fact::Cta)
        ) {
            return Some(Fact::Linear { thread: 0, cta: 1 });
        }
        let dfg = &self.function.dfg;
        let (value, by) = match (dfg.constant(a), dfg.constant(b)) {
            (_, Some(by)) => (a, by),
            (Some(by), _) => (b, by),
            _ => return None,
        };
        let by = match signed {
            true => i64::from(by as i32),
            false => i64::from(by as u32),
        };
        let value = self.extended(value, signed)?;
        EQUAL.plus(value, by)
    }

    /// Returns the fact of the extension of a value to 64 bits.
    fn extended(&mut self, value: Value, signed: bool) -> Option<Fact> {
        let fact = self.of(value);
        if fact == Fact::Thread {
            return Some(fact);
        }
        let (thread, cta) = fact.factors()?;
        if self.several && thread != cta {
            return None;
        }
        let step = i64::from(thread as i32);
        // Other values wrap in most rows.
        if step.abs() > MAX_STEP {
            return None;
        }
        let test = Unwrapped {
            value,
            step,
            signed,
        };
        if !self.unwrapped.contains(&test) {
            self.unwrapped.push(test);
        }
        Some(Fact::Linear {
            thread: step,
            cta: if self.several { step } else { 0 },
        })
    }
}

/// Returns whether a conversion extends an integer of 32 bits to 64 bits.
fn widens(data: &InstData) -> bool {
    data.src.is_integer() && data.src.bits() == 32 && data.ty.is_integer() && data.ty.bits() == 64
}
