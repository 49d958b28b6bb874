//! Compares the classes of values in a CTA with executions of random programs, for all threads of blocks with one to
//! three dimensions.
//!
//! For each thread and each instance of a value, the test evaluates the value's form with the numbers that the thread
//! holds: the CTA-uniform values, and the bases of affine values. It checks that the form gives the value, and that all
//! threads of the CTA agree about base, coefficients and conditions. It also checks the lanes of each predicate, and
//! the numbers that recipes need.

mod random_programs;

use std::collections::{BTreeMap, HashMap};

use margay_ir::analysis::coordinates::{
    Condition, ConditionTest, Coordinates, CtaClass, CtaValues, Factor, Form, Recipe, Shape, Test,
};
use margay_ir::analysis::{Cfg, Dominators};
use margay_ir::entity::{Block, Entity, Value};
use margay_ir::function::Function;
use margay_ops::meaning::{Bits, Meaning};
use margay_ops::sreg::SpecialReg;
use random_programs::{Event, Inputs, Instance, Program, program, run};

const PROGRAMS: u32 = 500;
const CTAS: u32 = 2;
const SHAPES: [[u32; 3]; 6] = [
    [13, 1, 1],
    [4, 3, 1],
    [3, 2, 2],
    [1, 5, 2],
    [8, 4, 1],
    [40, 1, 1],
];
/// Values of the kernel parameter: small ones, and some near the ends of integer types.
const PARAMETERS: [u32; 8] = [
    3,
    100,
    0x7fff_fff0,
    0xffff_fff8,
    0xfa,
    0x7ff9,
    0x8000_0001,
    0x7fff_fffd,
];

/// The registers that the programs read.
const REGISTERS: [SpecialReg; 5] = [
    SpecialReg::TidX,
    SpecialReg::TidY,
    SpecialReg::TidZ,
    SpecialReg::CtaidX,
    SpecialReg::NtidX,
];

/// A thread of a launch.
#[derive(Clone, Copy)]
struct Thread {
    cta: u32,
    at: [u32; 3],
    shape: [u32; 3],
    parameter: u32,
}

impl Thread {
    fn number(&self) -> u32 {
        let [columns, rows, _] = self.shape;
        self.at[0] + columns * (self.at[1] + rows * self.at[2])
    }
}

impl Inputs for Thread {
    fn register(&self, register: SpecialReg) -> u64 {
        u64::from(match register {
            SpecialReg::TidX => self.at[0],
            SpecialReg::TidY => self.at[1],
            SpecialReg::TidZ => self.at[2],
            SpecialReg::CtaidX => self.cta,
            SpecialReg::NtidX => self.shape[0],
            _ => panic!("{} is not generated", register.name()),
        })
    }

    fn parameter(&self) -> u32 {
        self.parameter
    }
}

/// The numbers that a thread holds.
struct Held<'a> {
    thread: Thread,
    values: &'a [Bits],
    bases: &'a [u64],
}

impl CtaValues for Held<'_> {
    fn value(&self, value: Value) -> u64 {
        self.values[value.index()] as u64
    }

    fn base(&self, value: Value) -> u64 {
        self.bases[value.index()]
    }

    fn register(&self, register: SpecialReg) -> u64 {
        self.thread.register(register)
    }
}

/// Numbers of checks that a test has made.
type Counts = BTreeMap<&'static str, u32>;

/// The expected numbers of the threads of a launch: those that the first thread has, for each CTA (or `None` for the
/// whole launch) and each key.
struct Expected<K>(HashMap<(Option<u32>, K), Vec<u64>>);

impl<K: std::hash::Hash + Eq + std::fmt::Debug + Clone> Expected<K> {
    fn check(&mut self, cta: Option<u32>, key: K, numbers: Vec<u64>) {
        let known = self.0.entry((cta, key.clone())).or_insert(numbers.clone());
        assert_eq!(*known, numbers, "{key:?} differs between threads");
    }
}

/// The checks of one program.
struct Checker<'a> {
    function: &'a Function,
    coordinates: &'a Coordinates,
    /// For each block, some of the values that can be computed again at its start.
    recomputable: HashMap<Block, Vec<Value>>,
    instances: Expected<Instance>,
    visits: Expected<(Block, u32, Factor)>,
    counts: Counts,
}

fn low_bits(bits: u32) -> u64 {
    u64::MAX >> (64 - bits)
}

impl Checker<'_> {
    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// Returns whether a condition holds in the CTA of a thread.
    fn holds(&self, condition: &Condition, held: &Held<'_>) -> bool {
        let Condition {
            value,
            bits,
            signed,
            test,
        } = *condition;
        let shape = held.thread.shape;
        let line = |value: Value| {
            let form = self.coordinates.form(self.function, value).unwrap();
            let narrow = Form {
                bits: bits.min(form.bits),
                ..form
            };
            narrow.line(held, signed)
        };
        let this = line(value);
        let (low, high) = this.extent(shape);
        this.fits(shape, bits, signed)
            && match test {
                ConditionTest::NoWrap => true,
                ConditionTest::AtMost(bound) => high <= line(bound).base,
                ConditionTest::AtLeast(bound) => low >= line(bound).base,
            }
    }

    fn all_hold<'c>(
        &self,
        conditions: impl IntoIterator<Item = &'c Condition>,
        held: &Held<'_>,
    ) -> bool {
        let mut conditions = conditions.into_iter();
        conditions.all(|condition| self.holds(condition, held))
    }

    /// Checks one instance of a value, and stores the base of an affine value in `bases`.
    fn value(&mut self, thread: Thread, instance: Instance, values: &[Bits], bases: &mut [u64]) {
        let value = instance.0;
        let bits = values[value.index()] as u64;
        let held = Held {
            thread,
            values,
            bases,
        };
        match self.coordinates.class(value) {
            CtaClass::Launch => {
                self.count("launch");
                self.instances.check(None, instance, vec![bits]);
            }
            CtaClass::Cta => {
                self.count("cta");
                self.instances.check(Some(thread.cta), instance, vec![bits]);
            }
            CtaClass::Affine(form) => {
                let mask = low_bits(form.bits);
                let steps: Vec<u64> = form
                    .coefficients
                    .iter()
                    .map(|sum| sum.evaluate(&held) & mask)
                    .collect();
                let moves = steps.iter().zip(thread.at);
                let base = moves.fold(bits, |base, (step, at)| {
                    base.wrapping_sub(step.wrapping_mul(at.into()))
                }) & mask;
                let holds = self.all_hold(&form.conditions, &held);
                let mut numbers = vec![u64::from(holds)];
                bases[value.index()] = base;
                if holds {
                    let held = Held {
                        thread,
                        values,
                        bases,
                    };
                    assert_eq!(form.evaluate(&held, thread.at), bits, "{value} is {form}");
                    numbers.push(base);
                    numbers.extend(steps);
                }
                let kind = match (form.is_unconditional(), holds) {
                    (true, _) => "affine",
                    (false, true) => "conditional",
                    (false, false) => "failed",
                };
                self.count(kind);
                self.instances.check(Some(thread.cta), instance, numbers);
                return;
            }
            CtaClass::Varying => return self.predicate(value, &held),
        }
        if let Some(form) = self.coordinates.form(self.function, value) {
            assert_eq!(form.evaluate(&held, thread.at), bits, "{value} is {form}");
        }
    }

    /// Checks the lane of a thread in the chunks that contain the thread.
    fn predicate(&mut self, value: Value, held: &Held<'_>) {
        let Some(predicate) = self.coordinates.predicate(value) else {
            return;
        };
        let shape = held.thread.shape;
        let conditions: Vec<Condition> = predicate.conditions().collect();
        let is_exact = |test: &Test| match test {
            Test::Guard(guard) => guard.line(held).is_exact(shape),
            Test::Uniform { .. } => true,
        };
        if !self.all_hold(&conditions, held) || !predicate.all.iter().all(is_exact) {
            return self.count("undecided");
        }
        let number = held.thread.number();
        let expected = held.values[value.index()] & 1 != 0;
        for width in [4, 16, 32] {
            let (first, lane) = (number - number % width, number % width);
            let mask = predicate.chunk(held, shape, first, width);
            let found = mask >> lane & 1 != 0;
            assert_eq!(found, expected, "{value}: {predicate}, thread {number}");
        }
        self.count(match predicate.all.len() {
            1 => "guard",
            _ => "conjunction",
        });
        if let [Test::Guard(guard)] = predicate.all.as_slice()
            && let Some(decided) = guard.line(held).decided(shape)
            && conditions.iter().any(|c| c.test == ConditionTest::NoWrap)
        {
            assert_eq!(decided, expected, "{value}: {predicate}");
            self.count("decided");
        }
    }

    /// Checks the numbers that recipes need at the start of a block, which a thread has reached for the `visit`-th time.
    fn block(&mut self, block: Block, visit: u32, held: &Held<'_>) {
        let all = self.recomputable.remove(&block).unwrap_or_default();
        for &value in &all {
            let recipe = self.coordinates.recomputable(self.function, value, block);
            let recipe = recipe.expect("the value can be computed again");
            for need in &recipe.needs {
                let number = match need {
                    Factor::Value(value) => held.value(*value),
                    Factor::Base(value) => held.base(*value),
                    other => panic!("{other} can be computed anywhere"),
                };
                let needed_by = match recipe.class {
                    CtaClass::Affine(form) => self.all_hold(&form.conditions, held),
                    _ => true,
                };
                if needed_by {
                    let key = (block, visit, need.clone());
                    self.visits.check(Some(held.thread.cta), key, vec![number]);
                }
            }
            if let Some(bits) = self.computed(value, &recipe, held) {
                assert_eq!(bits, held.value(value), "{value}: {recipe:?}");
                self.count(match (recipe.class, recipe.steps.len()) {
                    (CtaClass::Launch | CtaClass::Cta, _) => "uniform",
                    (_, 0) => "recomputed",
                    (_, 1) => "one step",
                    _ => "steps",
                });
            }
        }
        self.recomputable.insert(block, all);
    }
}

impl Checker<'_> {
    /// Follows a recipe. `None` if conditions do not hold.
    fn computed(&self, value: Value, recipe: &Recipe<'_>, held: &Held<'_>) -> Option<u64> {
        let dfg = &self.function.dfg;
        let mut known: HashMap<Value, Bits> = HashMap::new();
        let of = |known: &HashMap<Value, Bits>, value: Value| match known.get(&value) {
            Some(&bits) => Some(bits),
            None => match self.coordinates.class(value) {
                CtaClass::Affine(form) => {
                    let holds = self.all_hold(&form.conditions, held);
                    holds.then(|| Bits::from(form.evaluate(held, held.thread.at)))
                }
                // Rematerialised values and those of the CTA are held.
                _ => Some(held.values[value.index()]),
            },
        };
        for &inst in &recipe.steps {
            let args = dfg.args(inst).iter().map(|&arg| of(&known, arg));
            let args: Option<Vec<Bits>> = args.collect();
            let Meaning::Pure(meaning) = dfg.insts[inst].opcode.meaning() else {
                panic!("{inst} is a step");
            };
            let mut out = [0; 2];
            let count = dfg.results(inst).len();
            meaning(&dfg.insts[inst].desc(), &args?, &mut out[..count]);
            known.extend(dfg.results(inst).iter().copied().zip(out));
        }
        of(&known, value).map(|bits| bits as u64)
    }
}

/// Returns, for each block, some of the values that can be computed again at its start.
fn recomputable(function: &Function, coordinates: &Coordinates) -> HashMap<Block, Vec<Value>> {
    let cfg = Cfg::new(function);
    let dominators = Dominators::new(&cfg);
    let mut all = HashMap::new();
    for &block in cfg.rpo() {
        let homes = cfg.rpo().iter().copied();
        let before = homes.filter(|&home| home != block && dominators.dominates(&cfg, home, block));
        let values = before.flat_map(|home| {
            let results = function.insts(home).iter();
            results
                .flat_map(|&inst| function.dfg.results(inst))
                .copied()
        });
        let chosen = values
            .filter(|value| (value.index() + block.index()) % 6 == 0)
            .filter(|&value| coordinates.recomputable(function, value, block).is_some());
        all.insert(block, chosen.collect());
    }
    all
}

fn check(program: &Program, coordinates: &Coordinates, shape: [u32; 3], parameter: u32) -> Counts {
    let function = &program.function;
    let mut checker = Checker {
        function,
        coordinates,
        recomputable: recomputable(function, coordinates),
        instances: Expected(HashMap::new()),
        visits: Expected(HashMap::new()),
        counts: Counts::new(),
    };
    let [columns, rows, planes] = shape;
    for number in 0..CTAS * columns * rows * planes {
        let row = number / columns;
        let thread = Thread {
            cta: number / (columns * rows * planes),
            at: [number % columns, row % rows, row / rows % planes],
            shape,
            parameter,
        };
        let mut bases = vec![0; function.dfg.values.len()];
        let mut visits: HashMap<Block, u32> = HashMap::new();
        run(program, &thread, |event, values| match event {
            Event::Value(instance) => checker.value(thread, instance, values, &mut bases),
            Event::Block(block) => {
                let visit = visits.entry(block).or_default();
                *visit += 1;
                let held = Held {
                    thread,
                    values,
                    bases: &bases,
                };
                checker.block(block, *visit, &held);
            }
        });
    }
    checker.counts
}

#[test]
fn forms_give_the_values_in_every_execution() {
    let mut counts = Counts::new();
    for seed in 1..=PROGRAMS {
        let program = program(seed * 7919, &REGISTERS, true);
        let shape = SHAPES[seed as usize % SHAPES.len()];
        let parameter = PARAMETERS[seed as usize / 2 % PARAMETERS.len()];
        let known = match seed % 3 {
            0 => Shape::exactly(shape),
            _ => Shape::ANY,
        };
        let cfg = Cfg::new(&program.function);
        let coordinates = Coordinates::new(&program.function, &cfg, known);
        for (what, count) in check(&program, &coordinates, shape, parameter) {
            *counts.entry(what).or_default() += count;
        }
    }
    println!("{counts:?}");
    // The test requires many checks of each kind, so that an analysis which classifies all values as varying fails.
    for what in [
        "launch",
        "cta",
        "affine",
        "conditional",
        "failed",
        "guard",
        "conjunction",
        "decided",
        "recomputed",
        "one step",
        "steps",
        "uniform",
    ] {
        assert!(
            counts.get(what).is_some_and(|&count| count > 100),
            "{what}: {counts:?}"
        );
    }
}
