//! Random structured kernels with loops, `break`, `continue`, early exits, branch tables and memory.
//!
//! Each thread reads the common part of memory and writes only words of its own, so that the order of threads does not
//! matter. It also adds to counters in shared memory.

mod memory;
mod runs;

use margay_ir::builder::{FunctionBuilder, Variable};
use margay_ir::entity::{Block, Value};
use margay_ir::function::{BlockCall, Function, KernelData, SlotData};
use margay_ir::module::{Module, Target};
use margay_ir::pass::{self, simplify};
use margay_ops::meaning::Desc;
use margay_ops::mods::{CmpOp, Half, Mode, Mods, Rounding, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::sreg::SpecialReg;
use margay_ops::types::{OpType, Type};

use crate::launch::{
    DATA, Launch, Outcome, outcome_of, program, single, vectorised_and_yielded, whole_program,
    words,
};
use crate::thread::End;

/// Words that all threads may read.
const COMMON: u32 = 64;
/// Words of local memory of a thread.
const LOCAL: u32 = 8;
/// Words that a thread owns.
const OWN: u32 = 8;
/// The offset of eight counters in shared memory.
const COUNTERS: u32 = 2048;
const INTEGERS: usize = 6;
const FLOATS: usize = 2;

/// A xorshift generator of pseudorandom numbers.
struct Random(u32);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        (self.0 >> 3) % bound.max(1)
    }
}

struct Generator {
    b: FunctionBuilder,
    random: Random,
    integers: Vec<Variable>,
    floats: Vec<Variable>,
    /// For each loop around the current code, the block with its test and the block behind the loop.
    loops: Vec<(Block, Block)>,
    /// The global index of the thread, and the addresses of the memory and of the words of the thread.
    thread: Value,
    memory: Value,
    own: Value,
    /// The address of an array in local memory, and whether some accesses of it are at generic addresses.
    local: Value,
    has_generic: bool,
    /// Whether loops contain a `yield`.
    waits: bool,
    /// Whether the kernel has no atomics and no local memory, so that its CTAs may run together.
    is_free: bool,
    /// The index of the CTA in dimension x, the index of the thread in its CTA, and the number of threads of a CTA.
    cta: Value,
    in_cta: Value,
    threads: Value,
    budget: u32,
}

fn desc(opcode: Opcode, ty: OpType, mods: Mods) -> Desc {
    Desc {
        opcode,
        ty,
        src: OpType::None,
        mods,
    }
}

const LOW: Mods = Mods::NONE.with_half(Half::Lo);
const WIDE: Mods = Mods::NONE.with_half(Half::Wide);

impl Generator {
    fn integer(&mut self) -> Variable {
        self.integers[self.random.below(INTEGERS as u32) as usize]
    }

    fn float(&mut self) -> Variable {
        self.floats[self.random.below(FLOATS as u32) as usize]
    }

    fn read(&mut self) -> Value {
        let variable = self.integer();
        self.b.read(variable)
    }

    fn small(&mut self, bound: u32) -> Value {
        let number = self.random.below(bound);
        self.b.constant(Type::B32, number.into())
    }

    fn assign(&mut self) {
        let (to, a, b) = (self.integer(), self.read(), self.read());
        let small = self.small(5);
        let value = match self.random.below(12) {
            0 | 1 => self.b.simple(Opcode::Add, OpType::U32, &[a, b]),
            2 => self.b.simple(Opcode::Sub, OpType::U32, &[a, b]),
            3 => self.b.simple(Opcode::Shl, OpType::B32, &[a, small]),
            4 => self
                .b
                .op(desc(Opcode::Mul, OpType::S32, LOW), &[a, b], Type::B32),
            5 => self.b.simple(Opcode::Xor, OpType::B32, &[a, b]),
            6 => {
                let mad = desc(Opcode::Mad, OpType::U32, LOW);
                self.b.op(mad, &[a, small, b], Type::B32)
            }
            7 => {
                let condition = self.condition();
                let selp = desc(Opcode::Selp, OpType::B32, Mods::NONE);
                self.b.op(selp, &[a, b, condition], Type::B32)
            }
            8 => self.load(OpType::B32),
            9 => self.b.simple(Opcode::Min, OpType::S32, &[a, b]),
            10 => {
                let from = self.float();
                let value = self.b.read(from);
                let bits = Desc {
                    src: OpType::F32,
                    ..desc(Opcode::Bitcast, OpType::B32, Mods::NONE)
                };
                self.b.op(bits, &[value], Type::B32)
            }
            _ => a,
        };
        self.b.write(to, value);
    }

    fn assign_float(&mut self) {
        let (to, a, b) = (self.float(), self.float(), self.float());
        let (a, b) = (self.b.read(a), self.b.read(b));
        let rn = Mods::NONE.with_rounding(Rounding::Rn);
        let value = match self.random.below(4) {
            0 => self
                .b
                .op(desc(Opcode::Add, OpType::F32, rn), &[a, b], Type::F32),
            1 => self
                .b
                .op(desc(Opcode::Fma, OpType::F32, rn), &[a, b, a], Type::F32),
            2 => {
                let from = self.read();
                let cvt = Desc {
                    src: OpType::S32,
                    ..desc(Opcode::Cvt, OpType::F32, rn)
                };
                self.b.op(cvt, &[from], Type::F32)
            }
            _ => self.load(OpType::F32),
        };
        self.b.write(to, value);
    }

    fn condition(&mut self) -> Value {
        let (a, b) = (self.read(), self.read());
        let cmp = [CmpOp::Lt, CmpOp::Eq, CmpOp::Ge][self.random.below(3) as usize];
        let setp = desc(Opcode::Setp, OpType::S32, Mods::NONE.with_cmp(cmp));
        self.b.op(setp, &[a, b], Type::PRED)
    }

    fn statements(&mut self, depth: u32) {
        for _ in 0..=self.random.below(4) {
            if self.budget == 0 {
                return;
            }
            self.budget -= 1;
            match self.random.below(if self.is_free { 13 } else { 17 }) {
                16 => self.update(),
                12 => self.walk(),
                13..=15 => self.local(),
                0 | 1 if depth > 0 => self.branch(depth),
                2 | 3 if depth > 0 => self.repeat(depth),
                4 if depth > 0 => self.switch(depth),
                5 if !self.loops.is_empty() => self.leave(),
                6 => self.maybe_exit(),
                7 | 8 => self.store(),
                9 => self.assign_float(),
                _ => self.assign(),
            }
        }
    }

    fn branch(&mut self, depth: u32) {
        let condition = self.condition();
        let [then, other, join] = std::array::from_fn(|_| self.b.create_block());
        self.b.brif(condition, then, other);
        for arm in [then, other] {
            self.b.switch_to(arm);
            self.statements(depth - 1);
            self.b.jump(join);
        }
        self.b.switch_to(join);
    }

    fn switch(&mut self, depth: u32) {
        let index = self.read();
        let three = self.b.constant(Type::B32, 3);
        let index = self.b.simple(Opcode::And, OpType::B32, &[index, three]);
        let arms: Vec<Block> = (0..=2 + self.random.below(2))
            .map(|_| self.b.create_block())
            .collect();
        let join = self.b.create_block();
        let targets = arms.iter().copied().map(BlockCall::to).collect();
        self.table(index, targets);
        for arm in arms {
            self.b.switch_to(arm);
            self.statements(depth - 1);
            self.b.jump(join);
        }
        self.b.switch_to(join);
    }

    fn table(&mut self, index: Value, targets: Vec<BlockCall>) {
        let table = desc(Opcode::BrTable, OpType::None, Mods::NONE);
        let inst = self.b.inst(table, &[index], &[]);
        self.b.function.dfg.targets.insert(inst, targets.into());
    }

    /// A loop of at most four iterations, which tests its condition at its start or at its end.
    fn repeat(&mut self, depth: u32) {
        let counter = self.b.declare(Type::B32);
        let zero = self.b.constant(Type::B32, 0);
        self.b.write(counter, zero);
        let [test, body, end] = std::array::from_fn(|_| self.b.create_block());
        let first = [test, body][self.random.below(2) as usize];
        self.loops.push((test, end));
        self.b.jump(first);
        self.b.switch_to(test);
        if first == test {
            self.wait();
        }
        let (one, three) = (self.b.constant(Type::B32, 1), self.b.constant(Type::B32, 3));
        let old = self.b.read(counter);
        let new = self.b.simple(Opcode::Add, OpType::U32, &[old, one]);
        self.b.write(counter, new);
        let limit = match self.random.below(3) {
            0 => three,
            _ => self.read(),
        };
        let limit = self.b.simple(Opcode::And, OpType::B32, &[limit, three]);
        let setp = desc(Opcode::Setp, OpType::U32, Mods::NONE.with_cmp(CmpOp::Le));
        let more = self.b.op(setp, &[new, limit], Type::PRED);
        self.b.brif(more, body, end);
        self.b.switch_to(body);
        if first == body {
            self.wait();
        }
        self.statements(depth - 1);
        self.b.jump(test);
        self.loops.pop();
        self.b.switch_to(end);
    }

    /// Emits the `yield` at the start of a loop of a kernel in which lanes wait.
    fn wait(&mut self) {
        if !self.waits {
            return;
        }
        let flag = Mods::NONE.with_flag(self.random.below(3) > 0);
        self.sync_point(desc(Opcode::Yield, OpType::None, flag), &[]);
    }

    /// Emits a sync point of the lanes of a warp, which are together.
    fn meet(&mut self) {
        if self.random.below(2) == 0 {
            return self.sync_point(desc(Opcode::Converge, OpType::None, Mods::NONE), &[]);
        }
        let all = self.b.constant(Type::B32, u32::MAX.into());
        self.sync_point(desc(Opcode::BarWarp, OpType::None, Mods::NONE), &[all]);
    }

    /// Emits a sync point at the end of a block.
    fn sync_point(&mut self, desc: Desc, args: &[Value]) {
        let on = self.b.create_block();
        self.b.inst(desc, args, &[]);
        self.b.jump(on);
        self.b.switch_to(on);
    }

    /// Statements that all threads of the CTA execute together, with barriers.
    fn together(&mut self, depth: u32) {
        for _ in 0..=self.random.below(3) {
            match self.random.below(6) {
                0 if depth > 0 => self.repeat_together(depth),
                1 if depth > 0 => self.branch_together(depth),
                2 | 3 => self.exchange(),
                _ => self.statements(2),
            }
        }
    }

    /// A loop that all threads execute equally often.
    fn repeat_together(&mut self, depth: u32) {
        let counter = self.b.declare(Type::B32);
        let zero = self.b.constant(Type::B32, 0);
        self.b.write(counter, zero);
        let [header, body, end] = std::array::from_fn(|_| self.b.create_block());
        self.b.jump(header);
        self.b.switch_to(header);
        let (old, one) = (self.b.read(counter), self.b.constant(Type::B32, 1));
        let new = self.b.simple(Opcode::Add, OpType::U32, &[old, one]);
        self.b.write(counter, new);
        let limit = self.small(4);
        let setp = desc(Opcode::Setp, OpType::U32, Mods::NONE.with_cmp(CmpOp::Le));
        let more = self.b.op(setp, &[new, limit], Type::PRED);
        self.b.brif(more, body, end);
        self.b.switch_to(body);
        self.together(depth - 1);
        let to = self.integer();
        self.b.write(to, new);
        self.b.jump(header);
        self.b.switch_to(end);
    }

    /// A branch whose condition is equal for the CTA.
    fn branch_together(&mut self, depth: u32) {
        let last = self.small(2);
        let setp = desc(Opcode::Setp, OpType::U32, Mods::NONE.with_cmp(CmpOp::Eq));
        let condition = self.b.op(setp, &[self.cta, last], Type::PRED);
        let [then, other, join] = std::array::from_fn(|_| self.b.create_block());
        self.b.brif(condition, then, other);
        for arm in [then, other] {
            self.b.switch_to(arm);
            self.together(depth - 1);
            self.b.jump(join);
        }
        self.b.switch_to(join);
    }

    /// Passes a value to another thread of the CTA through shared memory.
    fn exchange(&mut self) {
        let shared = Mods::NONE.with_space(StateSpace::Shared);
        let two = self.b.constant(Type::B32, 2);
        let own = self.b.simple(Opcode::Shl, OpType::B32, &[self.in_cta, two]);
        let value = self.read();
        self.b
            .inst(desc(Opcode::St, OpType::B32, shared), &[own, value], &[]);
        self.barrier();
        let from = match self.random.below(3) {
            // All threads read one word, their own one, or that of the next thread.
            0 => self.b.constant(Type::B32, 0),
            1 => self.in_cta,
            _ => {
                let one = self.b.constant(Type::B32, 1);
                let next = self.b.simple(Opcode::Add, OpType::U32, &[self.in_cta, one]);
                self.b
                    .simple(Opcode::Rem, OpType::U32, &[next, self.threads])
            }
        };
        let at = self.b.simple(Opcode::Shl, OpType::B32, &[from, two]);
        let word = self
            .b
            .op(desc(Opcode::Ld, OpType::B32, shared), &[at], Type::B32);
        let to = self.integer();
        self.b.write(to, word);
        self.barrier();
    }

    fn barrier(&mut self) {
        let zero = self.b.constant(Type::B32, 0);
        let bar = desc(Opcode::Bar, OpType::None, Mods::NONE.with_mode(Mode::Sync));
        self.b.inst(bar, &[zero, zero], &[]);
    }

    /// A conditional `break` or `continue` of one of the loops around the current code.
    fn leave(&mut self) {
        let condition = self.condition();
        let (test, end) = self.loops[self.random.below(self.loops.len() as u32) as usize];
        let to = [test, end][self.random.below(2) as usize];
        let [arm, next] = std::array::from_fn(|_| self.b.create_block());
        self.b.brif(condition, arm, next);
        self.b.switch_to(arm);
        self.assign();
        self.b.jump(to);
        self.b.switch_to(next);
    }

    fn maybe_exit(&mut self) {
        if self.random.below(4) > 0 {
            return;
        }
        let condition = self.condition();
        let [arm, next] = std::array::from_fn(|_| self.b.create_block());
        self.b.brif(condition, arm, next);
        self.b.switch_to(arm);
        self.b.end(Opcode::Exit, &[]);
        self.b.switch_to(next);
    }
}

/// How the threads of a random kernel meet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// They do not meet.
    Alone,
    /// At barriers.
    Barriers,
    /// The lanes of a warp meet, and each loop has a `yield`.
    Waiting,
    /// They do not meet, and CTAs may run together.
    Runs,
}

/// Returns a random kernel.
fn kernel(seed: u32, form: Form) -> Function {
    let mut b = FunctionBuilder::new(Function {
        kernel: Some(KernelData {
            param_bytes: 8,
            ..KernelData::default()
        }),
        ..Function::default()
    });
    use SpecialReg as R;
    let [x, y, z] = [R::TidX, R::TidY, R::TidZ].map(|r| b.sreg(r));
    let [columns, rows, layers] = [R::NtidX, R::NtidY, R::NtidZ].map(|r| b.sreg(r));
    let [cta, cta_y, cta_z, ctas] =
        [R::CtaidX, R::CtaidY, R::CtaidZ, R::NctaidX].map(|r| b.sreg(r));
    let mul = desc(Opcode::Mul, OpType::S32, LOW);
    let mad = desc(Opcode::Mad, OpType::S32, LOW);
    let plane = b.op(mul, &[rows, columns], Type::B32);
    let threads = b.op(mul, &[plane, layers], Type::B32);
    let in_row = b.op(mad, &[y, columns, x], Type::B32);
    let in_cta = b.op(mad, &[z, plane, in_row], Type::B32);
    if form == Form::Runs {
        return runs::kernel(b, Random(seed));
    }
    // The linear index of the thread in the grid, which has at most one dimension that is not 1 besides x.
    let mut thread = b.simple(Opcode::Add, OpType::U32, &[cta_y, cta_z]);
    for (factor, next) in [(ctas, cta), (layers, z), (rows, y), (columns, x)] {
        let mad = desc(Opcode::Mad, OpType::S32, LOW);
        thread = b.op(mad, &[thread, factor, next], Type::B32);
    }
    let at = b.payload(Opcode::ParamAddr, OpType::U64, 0, Type::B64);
    let param = Mods::NONE.with_space(StateSpace::Param);
    let memory = b.op(desc(Opcode::Ld, OpType::U64, param), &[at], Type::B64);
    let bytes = b.constant(Type::B32, u64::from(4 * OWN));
    let offset = b.op(
        desc(Opcode::Mul, OpType::S32, WIDE),
        &[thread, bytes],
        Type::B64,
    );
    let start = b.constant(Type::B64, u64::from(4 * COMMON));
    let own = b.simple(Opcode::Add, OpType::S64, &[memory, start]);
    let own = b.simple(Opcode::Add, OpType::S64, &[own, offset]);
    let slot = b.slot(SlotData {
        name: String::new(),
        size: 4 * LOCAL,
        align: 16,
    });
    let local = b.payload(Opcode::LocalAddr, OpType::U64, slot.0.into(), Type::B64);
    for word in 0..LOCAL {
        let offset = b.constant(Type::B64, u64::from(4 * word));
        let address = b.simple(Opcode::Add, OpType::S64, &[local, offset]);
        let store = Mods::NONE.with_space(StateSpace::Local);
        b.inst(
            desc(Opcode::St, OpType::B32, store),
            &[address, thread],
            &[],
        );
    }
    let integers: Vec<Variable> = (0..INTEGERS).map(|_| b.declare(Type::B32)).collect();
    let floats: Vec<Variable> = (0..FLOATS).map(|_| b.declare(Type::F32)).collect();
    let lane = b.sreg(SpecialReg::Laneid);
    let three = b.constant(Type::B32, 3);
    for (&variable, value) in integers.iter().zip([x, cta, thread, lane, three]) {
        b.write(variable, value);
    }
    let mut generator = Generator {
        b,
        random: Random(seed),
        integers,
        floats,
        loops: Vec::new(),
        thread,
        memory,
        own,
        local,
        has_generic: seed.is_multiple_of(3),
        waits: form == Form::Waiting,
        is_free: false,
        cta,
        in_cta,
        threads,
        budget: 40,
    };
    for _ in 0..5 {
        match form {
            Form::Barriers => generator.together(2),
            _ => generator.statements(4),
        }
        if form == Form::Waiting {
            generator.meet();
        }
        generator.store();
    }
    generator.b.end(Opcode::Exit, &[]);
    let mut function = generator.b.finish();
    if form == Form::Barriers {
        // Barriers need what the passes prepare.
        let mut module = Module {
            target: Target {
                sm: 80,
                ..Target::default()
            },
            ..Module::default()
        };
        let id = module.add_function(function);
        return pass::prepare(&module, id, None);
    }
    if form == Form::Alone && seed.is_multiple_of(2) {
        simplify::run(&mut function);
    }
    function
}

/// Returns a launch of `threads` threads in blocks of the given shape.
fn launch(seed: u32, grid: [u32; 3], block: [u32; 3]) -> Launch {
    let threads: u32 = grid.iter().chain(&block).product();
    let mut random = Random(seed | 1);
    // Many words are close to the ends of the range of an integer type, where indices wrap.
    let mut word = |_| match random.below(3) {
        0 => random.below(u32::MAX),
        1 => random.below(32).wrapping_sub(16),
        _ => 0x7fff_fff0 + random.below(32),
    };
    let common = (0..COMMON).flat_map(|n| word(n).to_le_bytes());
    let mut data: Vec<u8> = common.collect();
    data.resize(data.len() + (4 * OWN * threads) as usize, 0);
    Launch {
        grid,
        block,
        arguments: vec![DATA],
        data,
        turns: 1 + seed % 5,
    }
}

/// Grids, blocks and widths of chunks. In the last blocks, several chunks run together: rows, or chunks of a row.
const SHAPES: [([u32; 3], [u32; 3], u32); 11] = [
    ([2, 1, 1], [32, 1, 1], 32),
    ([1, 2, 1], [16, 3, 1], 16),
    ([1, 1, 2], [20, 1, 1], 8),
    ([1, 1, 1], [5, 3, 2], 8),
    ([1, 1, 1], [32, 1, 1], 4),
    ([1, 2, 1], [16, 4, 1], 16),
    ([1, 1, 2], [8, 8, 1], 8),
    ([1, 1, 1], [32, 4, 1], 32),
    ([1, 1, 1], [128, 1, 1], 32),
    ([2, 1, 1], [64, 2, 1], 16),
    ([1, 2, 1], [32, 1, 2], 16),
];

fn demand_equal(found: &Outcome, expected: &Outcome, (seed, width): (u32, u32)) {
    let differs = |(found, expected): (u32, u32)| found != expected;
    let pairs = words(&found.data).into_iter().zip(words(&expected.data));
    let first = pairs.map(differs).position(|differs| differs);
    let thread = first.map(|word| (word as u32 - COMMON) / OWN);
    assert!(
        found == expected,
        "seed {seed}, width {width}: thread {thread:?} differs"
    );
}

/// Compares the programs of random kernels with single threads.
fn check(seeds: std::ops::RangeInclusive<u32>, form: Form) -> (usize, usize) {
    let (mut vectorised_kernels, mut all_yielded) = (0, 0);
    for seed in seeds {
        let function = kernel(seed.wrapping_mul(2_654_435_761), form);
        let shapes: &[_] = match form {
            Form::Runs => &runs::SHAPES,
            _ => &SHAPES,
        };
        let (grid, block, width) = shapes[seed as usize % shapes.len()];
        // Most kernels with barriers need chunks of whole warps.
        let width = match form {
            Form::Barriers if seed % 3 > 0 => 32,
            Form::Waiting => 32,
            _ => width,
        };
        if program(&function, block, width).is_err() {
            continue;
        }
        vectorised_kernels += 1;
        let launch = launch(seed, grid, block);
        let expected = single(&function, &launch);
        assert_eq!(expected.end, End::Exit);
        let (found, yielded) = vectorised_and_yielded(&function, &launch, width);
        all_yielded += yielded;
        demand_equal(&found, &expected, (seed, width));
        for in_turn in [false, true] {
            let Some(whole) = whole_program(&function, block, (width, in_turn)) else {
                continue;
            };
            let whole = whole.unwrap_or_else(|refusal| panic!("seed {seed}: {refusal}"));
            let (found, _) = outcome_of(&whole, &function, &launch);
            demand_equal(&found, &expected, (seed, width));
        }
    }
    (vectorised_kernels, all_yielded)
}

#[test]
fn random_kernels_compute_the_same_as_single_threads() {
    assert_eq!(check(1..=250, Form::Alone), (250, 0));
}

#[test]
fn random_kernels_whose_ctas_run_together_compute_the_same_as_single_threads() {
    assert_eq!(check(1..=200, Form::Runs), (200, 0));
}

#[test]
fn random_kernels_with_barriers_compute_the_same_as_single_threads() {
    let (vectorised, stopped) = check(1..=300, Form::Barriers);
    assert!(vectorised > 30 && stopped > 1000, "{vectorised} {stopped}");
}

#[test]
fn random_kernels_whose_lanes_yield_compute_the_same_as_single_threads() {
    let (vectorised, yielded) = check(1..=400, Form::Waiting);
    assert!(vectorised > 150 && yielded > 1000, "{vectorised} {yielded}");
}
