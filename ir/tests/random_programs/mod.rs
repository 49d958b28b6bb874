//! Random structured programs for tests of analyses, and their execution, one thread after another.
//!
//! Two executions of an instruction, by the same or by different threads, belong to the same instance if they are in
//! the same iteration of all loops around the instruction.

use std::collections::HashMap;

use margay_ir::builder::{FunctionBuilder, Variable};
use margay_ir::entity::{Block, Entity, Value};
use margay_ir::function::{Function, KernelData, payload_sreg};
use margay_ir::pass::simplify;
use margay_ops::meaning::{Bits, Desc, Meaning};
use margay_ops::mods::{BoolOp, CmpOp, Half, Mods, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::sreg::SpecialReg;
use margay_ops::types::{OpType, Type};

/// Number of variables of a program.
const VARIABLES: usize = 7;

/// A xorshift generator of pseudorandom numbers, so that the programs are the same on every
/// machine.
pub(crate) struct Random(pub(crate) u32);

impl Random {
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        (self.0 >> 3) % bound.max(1)
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u32) as usize]
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

    fn read(&mut self) -> Value {
        let variable = self.any();
        self.b.read(variable)
    }

    fn assign(&mut self) {
        let (to, a, b) = (self.any(), self.read(), self.read());
        let shift = self.random.below(4);
        let small = self.b.constant(Type::B32, u64::from(shift));
        let half = Mods::NONE.with_half(Half::Lo);
        let value = match self.random.below(17) {
            0 | 1 => self.b.simple(Opcode::Add, OpType::U32, &[a, b]),
            2 => self.b.simple(Opcode::Sub, OpType::U32, &[a, b]),
            3 => self.b.simple(Opcode::Shl, OpType::B32, &[a, small]),
            4 => self
                .b
                .op(desc(Opcode::Mul, OpType::S32, half), &[a, small], Type::B32),
            5 => {
                let opcode = self.random.one_of(&[Opcode::Xor, Opcode::Or]);
                self.b.simple(opcode, OpType::B32, &[a, b])
            }
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
            8 | 9 => self.through_64_bits(a, small),
            10 => self.through_fewer_bits(a),
            11 => self.unusual(a, b, small),
            12 | 13 => self.some_bits(a),
            _ => a,
        };
        self.b.write(to, value);
    }

    fn convert(&mut self, to: OpType, from: OpType, value: Value) -> Value {
        let desc = Desc {
            opcode: Opcode::Cvt,
            ty: to,
            src: from,
            mods: Mods::NONE,
        };
        self.b.op(desc, &[value], to.held())
    }

    /// Widens a value to 64 bits, applies an operation, and truncates the result to 32 bits.
    fn through_64_bits(&mut self, a: Value, small: Value) -> Value {
        let (wide, narrow) = self
            .random
            .one_of(&[(OpType::S64, OpType::S32), (OpType::U64, OpType::U32)]);
        let value = match self.random.below(2) {
            0 => self.convert(wide, narrow, a),
            _ => {
                let half = Mods::NONE.with_half(Half::Wide);
                self.b
                    .op(desc(Opcode::Mul, narrow, half), &[a, small], Type::B64)
            }
        };
        let four = self.b.constant(Type::B64, 4);
        let moved = self.b.simple(Opcode::Add, wide, &[value, four]);
        self.convert(narrow, wide, moved)
    }

    /// Drops low bits of a value, or selects some of its bits: all bits that the lanes of a warp number, or a part of them.
    fn some_bits(&mut self, a: Value) -> Value {
        let opcodes = [
            (Opcode::Shr, OpType::U32),
            (Opcode::Shr, OpType::S32),
            (Opcode::And, OpType::B32),
        ];
        let (opcode, ty) = self.random.one_of(&opcodes);
        let bits = match opcode {
            Opcode::Shr => self.random.one_of(&[2, 4, 5, 6]),
            _ => self
                .random
                .one_of(&[0xf, 0x1f, 0x3f, 0x20, 0xffff_ffe0, 0xffff_fff0, 0x7f]),
        };
        let bits = self.b.constant(Type::B32, bits);
        self.b.simple(opcode, ty, &[a, bits])
    }

    /// Truncates a value and widens the result to 32 bits.
    fn through_fewer_bits(&mut self, a: Value) -> Value {
        let (narrow, wide) = self.random.one_of(&[
            (OpType::S16, OpType::S32),
            (OpType::U16, OpType::U32),
            (OpType::S8, OpType::S32),
            (OpType::U8, OpType::U32),
        ]);
        let value = self.convert(narrow, wide, a);
        self.convert(wide, narrow, value)
    }

    fn unusual(&mut self, a: Value, b: Value, small: Value) -> Value {
        let ty = self.random.one_of(&[OpType::S32, OpType::U32]);
        let low = Mods::NONE.with_half(Half::Lo);
        match self.random.below(8) {
            0 => self.b.simple(Opcode::Neg, OpType::S32, &[a]),
            1 => self.b.simple(Opcode::Not, OpType::B32, &[a]),
            2 => self.b.simple(Opcode::Min, ty, &[a, b]),
            3 => self.b.simple(Opcode::Max, ty, &[a, b]),
            4 => self.b.simple(Opcode::Shr, ty, &[a, small]),
            5 => self
                .b
                .op(desc(Opcode::Mul24, ty, low), &[a, small], Type::B32),
            6 => self.b.op(desc(Opcode::Mul, ty, low), &[a, b], Type::B32),
            _ => self
                .b
                .op(desc(Opcode::Mad24, ty, low), &[a, b, small], Type::B32),
        }
    }

    fn condition(&mut self) -> Value {
        let first = self.comparison();
        match self.random.below(8) {
            0 => self.b.simple(Opcode::Not, OpType::Pred, &[first]),
            1 | 2 => {
                let second = self.comparison();
                let opcode = self.random.one_of(&[Opcode::And, Opcode::Or]);
                self.b.simple(opcode, OpType::Pred, &[first, second])
            }
            3 => {
                let (a, b) = (self.read(), self.read());
                let op = self.random.one_of(&[BoolOp::And, BoolOp::Or, BoolOp::Xor]);
                let mods = Mods::NONE.with_cmp(CmpOp::Gt).with_bool_op(op);
                let setp = desc(Opcode::Setp, OpType::S32, mods);
                self.b.op(setp, &[a, b, first], Type::PRED)
            }
            _ => first,
        }
    }

    fn comparison(&mut self) -> Value {
        let (mut a, mut b) = (self.read(), self.read());
        if self.random.below(6) == 0 {
            let opcode = self.random.one_of(&[Opcode::Or, Opcode::And]);
            a = self.b.simple(opcode, OpType::B32, &[a, b]);
            let number = self.random.one_of(&[0, u64::from(u32::MAX)]);
            b = self.b.constant(Type::B32, number);
        }
        let cmp = self.random.one_of(&[
            CmpOp::Lt,
            CmpOp::Eq,
            CmpOp::Ge,
            CmpOp::Ne,
            CmpOp::Ls,
            CmpOp::Gt,
        ]);
        let ty = self.random.one_of(&[OpType::S32, OpType::S32, OpType::U32]);
        let setp = desc(Opcode::Setp, ty, Mods::NONE.with_cmp(cmp));
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
        let limit = self.read();
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

/// A random program.
pub(crate) struct Program {
    pub(crate) function: Function,
    /// Headers of the loops around each block, from the outermost.
    around: HashMap<Block, Vec<Block>>,
}

/// Returns a program. Its first variables contain `registers`. The others contain the kernel parameter at offset 0 if
/// `has_parameter`, and zero otherwise.
pub(crate) fn program(seed: u32, registers: &[SpecialReg], has_parameter: bool) -> Program {
    let mut b = FunctionBuilder::new(Function {
        kernel: Some(KernelData {
            param_bytes: 4,
            ..KernelData::default()
        }),
        ..Function::default()
    });
    let variables: Vec<Variable> = (0..VARIABLES).map(|_| b.declare(Type::B32)).collect();
    for (&variable, &register) in variables.iter().zip(registers) {
        let value = b.sreg(register);
        b.write(variable, value);
    }
    if has_parameter {
        let of = desc(Opcode::ParamAddr, OpType::U64, Mods(0));
        let address = b.op(of, &[], Type::B64);
        let load = Mods::NONE.with_space(StateSpace::Param);
        let value = b.op(desc(Opcode::Ld, OpType::U32, load), &[address], Type::B32);
        for &variable in &variables[registers.len()..] {
            b.write(variable, value);
        }
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
    Program {
        function,
        around: generator.around,
    }
}

/// An instance of a value: the value, and the iterations of the loops around its definition.
pub(crate) type Instance = (Value, Vec<u32>);

/// What a thread has done.
pub(crate) enum Event {
    /// The thread has reached a block. Its parameters are already set.
    #[allow(dead_code, reason = "not every test needs the block")]
    Block(Block),
    /// The thread has computed a value, or a block parameter was set.
    Value(Instance),
}

/// The numbers from which a thread computes.
pub(crate) trait Inputs {
    fn register(&self, register: SpecialReg) -> u64;
    fn parameter(&self) -> u32;
}

/// Runs one thread, and calls `seen` for each event, with the values of the thread.
pub(crate) fn run(program: &Program, inputs: &impl Inputs, mut seen: impl FnMut(Event, &[Bits])) {
    let Program { function, around } = program;
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
            seen(Event::Value((param, key.clone())), &values);
        }
        seen(Event::Block(block), &values);
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
                Opcode::ParamAddr => out[0] = 0x1000,
                Opcode::Ld => out[0] = Bits::from(inputs.parameter()),
                Opcode::SReg => {
                    let register = payload_sreg(data.payload()).expect("a register");
                    out[0] = Bits::from(inputs.register(register));
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
                seen(Event::Value((result, key.clone())), &values);
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
