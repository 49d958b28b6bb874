//! Compares the uniformity analysis with executions. The tests run random structured programs, one lane after another.
//! They check that a value which the analysis classifies as equal for several threads is equal in these threads.
//!
//! Two executions of an instruction, by the same or by different threads, belong to the same instance if they are in
//! the same iteration of all loops around the instruction. For each instance, the tests compare the values of all
//! lanes, warps and CTAs that execute it.

use std::collections::{BTreeMap, HashMap};

use margay_ir::analysis::uniformity::{Assumptions, Class, Uniformity};
use margay_ir::builder::{FunctionBuilder, Variable};
use margay_ir::entity::{Block, Entity, Value};
use margay_ir::function::{Function, KernelData, payload_sreg};
use margay_ir::pass::simplify;
use margay_ops::meaning::{Bits, Desc, Meaning};
use margay_ops::mods::{CmpOp, Half, Mods};
use margay_ops::ops::Opcode;
use margay_ops::sreg::SpecialReg;
use margay_ops::types::{OpType, Type};

const PROGRAMS: u32 = 300;
const VARIABLES: usize = 7;
const WARPS: u32 = 2;
const CTAS: u32 = 2;

/// A xorshift generator of pseudorandom numbers, so that the programs are the same on every
/// machine.
struct Random(u32);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        (self.0 >> 3) % bound.max(1)
    }
}

/// A generator of random programs with 32-bit variables, branches, and loops with `break` and `continue`.
struct Generator {
    b: FunctionBuilder,
    random: Random,
    variables: Vec<Variable>,
    /// For each loop around the current code, the header, which is the target of `continue`, and the target of `break`.
    loops: Vec<(Block, Block)>,
    /// Headers of the loops around each block.
    around: HashMap<Block, Vec<Block>>,
    budget: u32,
}

impl Generator {
    fn block(&mut self) -> Block {
        let block = self.b.create_block();
        let headers = self.loops.iter().map(|(header, _)| *header).collect();
        self.around.insert(block, headers);
        block
    }

    fn any(&mut self) -> Variable {
        self.variables[self.random.below(VARIABLES as u32) as usize]
    }

    fn assign(&mut self) {
        let (to, from, other) = (self.any(), self.any(), self.any());
        let (a, b) = (self.b.read(from), self.b.read(other));
        let shift = self.random.below(4);
        let small = self.b.constant(Type::B32, u64::from(shift));
        let half = Mods::NONE.with_half(Half::Lo);
        let value = match self.random.below(11) {
            0 | 1 => self.b.simple(Opcode::Add, OpType::U32, &[a, b]),
            2 => self.b.simple(Opcode::Sub, OpType::U32, &[a, b]),
            3 => self.b.simple(Opcode::Shl, OpType::B32, &[a, small]),
            4 => self
                .b
                .op(desc(Opcode::Mul, OpType::S32, half), &[a, small], Type::B32),
            5 => self.b.simple(Opcode::Xor, OpType::B32, &[a, b]),
            6 => self.b.op(
                desc(Opcode::Mad, OpType::U32, half),
                &[a, b, small],
                Type::B32,
            ),
            7 => {
                let condition = self.condition();
                let selp = desc(Opcode::Selp, OpType::B32, Mods::NONE);
                self.b.op(selp, &[a, b, condition], Type::B32)
            }
            8 => self.through_64_bits(a),
            _ => a,
        };
        self.b.write(to, value);
    }

    /// Widens a value to 64 bits, applies an operation, and truncates the result to 32 bits.
    fn through_64_bits(&mut self, a: Value) -> Value {
        let (wide, narrow) = match self.random.below(2) {
            0 => (OpType::S64, OpType::S32),
            _ => (OpType::U64, OpType::U32),
        };
        let convert = |ty, src| Desc {
            opcode: Opcode::Cvt,
            ty,
            src,
            mods: Mods::NONE,
        };
        let value = self.b.op(convert(wide, narrow), &[a], Type::B64);
        let four = self.b.constant(Type::B64, 4);
        let moved = self.b.simple(Opcode::Add, wide, &[value, four]);
        self.b.op(convert(narrow, wide), &[moved], Type::B32)
    }

    fn condition(&mut self) -> Value {
        let (a, b) = (self.any(), self.any());
        let (a, b) = (self.b.read(a), self.b.read(b));
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
            match self.random.below(8) {
                0 | 1 if depth > 0 => self.branch(depth),
                2 if depth > 0 => self.turn(depth),
                3 if !self.loops.is_empty() => self.leave(),
                _ => self.assign(),
            }
        }
    }

    fn branch(&mut self, depth: u32) {
        let condition = self.condition();
        let (then, other, join) = (self.block(), self.block(), self.block());
        self.b.brif(condition, then, other);
        for arm in [then, other] {
            self.b.switch_to(arm);
            self.statements(depth - 1);
            self.b.jump(join);
        }
        self.b.switch_to(join);
    }

    /// Generates a loop of at most three iterations.
    fn turn(&mut self, depth: u32) {
        let counter = self.b.declare(Type::B32);
        let zero = self.b.constant(Type::B32, 0);
        self.b.write(counter, zero);
        let end = self.block();
        let header = self.b.create_block();
        self.loops.push((header, end));
        let headers = self.loops.iter().map(|(header, _)| *header).collect();
        self.around.insert(header, headers);
        let body = self.block();
        self.b.jump(header);
        self.b.switch_to(header);
        let (one, three) = (self.b.constant(Type::B32, 1), self.b.constant(Type::B32, 3));
        let old = self.b.read(counter);
        let new = self.b.simple(Opcode::Add, OpType::U32, &[old, one]);
        self.b.write(counter, new);
        let limit = self.any();
        let limit = self.b.read(limit);
        let limit = self.b.simple(Opcode::And, OpType::B32, &[limit, three]);
        let setp = desc(Opcode::Setp, OpType::U32, Mods::NONE.with_cmp(CmpOp::Le));
        let more = self.b.op(setp, &[new, limit], Type::PRED);
        self.b.brif(more, body, end);
        self.b.switch_to(body);
        self.statements(depth - 1);
        self.b.jump(header);
        self.loops.pop();
        self.b.switch_to(end);
    }

    /// Generates a conditional `break` or `continue` of one of the loops around the current code.
    fn leave(&mut self) {
        let condition = self.condition();
        let which = self.random.below(self.loops.len() as u32) as usize;
        let (header, end) = self.loops[which];
        let to = [header, end][self.random.below(2) as usize];
        let (arm, next) = (self.block(), self.block());
        self.b.brif(condition, arm, next);
        self.b.switch_to(arm);
        self.assign();
        self.b.jump(to);
        self.b.switch_to(next);
    }
}

fn desc(opcode: Opcode, ty: OpType, mods: Mods) -> Desc {
    Desc {
        opcode,
        ty,
        src: OpType::None,
        mods,
    }
}

fn program(seed: u32) -> (Function, HashMap<Block, Vec<Block>>) {
    let mut b = FunctionBuilder::new(Function {
        kernel: Some(KernelData::default()),
        ..Function::default()
    });
    let variables: Vec<Variable> = (0..VARIABLES).map(|_| b.declare(Type::B32)).collect();
    let registers = [
        SpecialReg::TidX,
        SpecialReg::CtaidX,
        SpecialReg::NtidX,
        SpecialReg::Warpid,
        SpecialReg::Laneid,
    ];
    for (&variable, register) in variables.iter().zip(registers) {
        let value = b.sreg(register);
        b.write(variable, value);
    }
    let mut generator = Generator {
        b,
        random: Random(seed),
        variables,
        loops: Vec::new(),
        around: HashMap::new(),
        budget: 40,
    };
    for _ in 0..5 {
        generator.statements(4);
    }
    generator.b.end(Opcode::Exit, &[]);
    let mut function = generator.b.finish();
    if seed.is_multiple_of(2) {
        simplify::run(&mut function);
    }
    (function, generator.around)
}

/// A thread: CTA, warp, lane.
#[derive(Clone, Copy)]
struct Thread {
    cta: u32,
    warp: u32,
    lane: u32,
}

/// An instance of a value: the value, and the iterations of the loops around its definition.
type Instance = (Value, Vec<u32>);

/// Runs one thread, and calls `seen` for each value that the thread computes.
fn run(
    function: &Function,
    around: &HashMap<Block, Vec<Block>>,
    thread: Thread,
    mut seen: impl FnMut(Instance, Bits),
) {
    let dfg = &function.dfg;
    let mut values: Vec<Bits> = vec![0; dfg.values.len()];
    let mut turns: HashMap<Block, u32> = HashMap::new();
    let mut block = function.entry();
    for _ in 0..100_000 {
        let headers = around.get(&block).map_or(&[][..], Vec::as_slice);
        let key: Vec<u32> = headers
            .iter()
            .map(|h| turns.get(h).copied().unwrap_or(0))
            .collect();
        for &param in &dfg.blocks[block].params {
            seen((param, key.clone()), values[param.index()]);
        }
        let mut next = None;
        for &inst in function.insts(block) {
            let data = &dfg.insts[inst];
            let args: Vec<Bits> = dfg.args(inst).iter().map(|v| values[v.index()]).collect();
            let mut out = [0; 2];
            match data.opcode {
                Opcode::Exit => return,
                Opcode::Jump => next = Some(0),
                Opcode::Brif => next = Some(usize::from(args[0] & 1 == 0)),
                Opcode::Const => out[0] = Bits::from(data.payload()),
                Opcode::SReg => {
                    out[0] = Bits::from(match payload_sreg(data.payload()) {
                        Some(SpecialReg::TidX) => thread.warp * 32 + thread.lane,
                        Some(SpecialReg::CtaidX) => thread.cta,
                        Some(SpecialReg::NtidX) => WARPS * 32,
                        Some(SpecialReg::Warpid) => thread.warp,
                        _ => thread.lane,
                    });
                }
                _ => match data.opcode.meaning() {
                    Meaning::Pure(meaning) => {
                        let count = dfg.results(inst).len();
                        meaning(&data.desc(), &args, &mut out[..count]);
                    }
                    _ => panic!("{} is not generated", data.opcode.name()),
                },
            }
            for (&result, bits) in dfg.results(inst).iter().zip(out) {
                values[result.index()] = bits;
                seen((result, key.clone()), bits);
            }
        }
        let call = &function.successors(block)[next.expect("a block ends")];
        let inside = around.get(&call.block).map_or(&[][..], Vec::as_slice);
        if inside.last() == Some(&call.block) {
            // At a loop header, an edge from inside the loop starts the next iteration, and an edge from outside starts
            // the first iteration.
            let comes_back = headers.contains(&call.block);
            let count = turns.entry(call.block).or_insert(0);
            *count = if comes_back { *count + 1 } else { 0 };
        }
        let args: Vec<Bits> = call.args.iter().map(|v| values[v.index()]).collect();
        for (&param, bits) in dfg.blocks[call.block].params.iter().zip(args) {
            values[param.index()] = bits;
        }
        block = call.block;
    }
    panic!("a program without end");
}

/// The expected values. For each instance, and each group of threads in which the value must be equal or affine, the
/// map contains the value of lane 0, which is computed from the first value that the test has seen.
#[derive(Default)]
struct Bases(BTreeMap<(u32, u32, Instance), Bits>);

impl Bases {
    fn check(&mut self, class: Class, ty: Type, thread: Thread, instance: Instance, bits: Bits) {
        let lane = i128::from(thread.lane);
        let width = margay_ops::meaning::mask(ty.lane_bits());
        let (group, stride) = match class {
            Class::Launch => ((0, 0), 0),
            Class::Cta => ((thread.cta, 0), 0),
            Class::Warp => ((thread.cta, thread.warp), 0),
            Class::Affine(stride) => ((thread.cta, thread.warp), i128::from(stride)),
            Class::Varying => return,
        };
        let base = (bits as i128).wrapping_sub(stride * lane) as Bits & width;
        let key = (group.0, group.1, instance.clone());
        let known = *self.0.entry(key).or_insert(base);
        assert_eq!(known, base, "{instance:?} is {class} but differs");
    }
}

#[test]
fn shared_values_are_shared_in_every_execution() {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for seed in 1..=PROGRAMS {
        let (function, around) = program(seed * 7919);
        let uniformity = Uniformity::new(&function, Assumptions::of_block([WARPS * 32, 1, 1]));
        for value in function.dfg.values.keys() {
            let name = match uniformity.class(value) {
                Class::Launch => "launch",
                Class::Cta => "cta",
                Class::Warp => "warp",
                Class::Affine(_) => "affine",
                Class::Varying => "varying",
            };
            *counts.entry(name).or_default() += 1;
        }
        let mut bases = Bases::default();
        for number in 0..CTAS * WARPS * 32 {
            let thread = Thread {
                cta: number / (WARPS * 32),
                warp: number / 32 % WARPS,
                lane: number % 32,
            };
            run(&function, &around, thread, |instance, bits| {
                let class = uniformity.class(instance.0);
                let ty = function.dfg.ty(instance.0);
                bases.check(class, ty, thread, instance, bits);
            });
        }
    }
    // The test also requires a minimum number of values of each class, so that an analysis which classifies all values
    // as varying fails.
    for name in ["launch", "cta", "warp", "affine"] {
        assert!(counts[name] > 200, "{counts:?}");
    }
}
