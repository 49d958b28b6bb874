//! Random functions, for the tests of passes and back ends.
//!
//! [`function`] returns functions that each back end can run without help, and [`program`] returns programs with everything
//! that a function may contain.

mod programs;

use margay_ir::entity::{Block, Value};
use margay_ir::function::Signature;
use margay_ir::parse::{cursor::Cursor, desc};
use margay_ops::meaning::{Desc, mask};
use margay_ops::types::{Kind, OpType, Type};

use crate::builder::Builder;
use crate::data::{Access, Data};
use crate::function::{Function, Helper};
use crate::ops::Op;

pub use programs::MEMORY;

/// Operations in lanes: the operation, the kinds of its operands, and the kind of its result.
const LANE_OPERATIONS: &[(&str, &[Kind], Kind)] = &[
    ("add.u32", &[Kind::B32; 2], Kind::B32),
    ("mul.s32{half:hi}", &[Kind::B32; 2], Kind::B32),
    ("shr.s32", &[Kind::B32; 2], Kind::B32),
    ("max.s16", &[Kind::B16; 2], Kind::B16),
    ("xor.b8", &[Kind::B8; 2], Kind::B8),
    ("sub.u64", &[Kind::B64; 2], Kind::B64),
    ("setp.u32{cmp:lt}", &[Kind::B32; 2], Kind::Pred),
    ("setp.f32{cmp:leu}", &[Kind::F32; 2], Kind::Pred),
    ("not.pred", &[Kind::Pred], Kind::Pred),
    ("selp.b32", &[Kind::B32, Kind::B32, Kind::Pred], Kind::B32),
    ("fma.f32{rz}", &[Kind::F32; 3], Kind::F32),
    ("div.f64{rn}", &[Kind::F64; 2], Kind::F64),
    ("cvt.f32.u32{rn}", &[Kind::B32], Kind::F32),
    ("cvt.s32.f64{rzi}", &[Kind::F64], Kind::B32),
    ("cvt.u64.s16", &[Kind::B16], Kind::B64),
    ("bitcast.b32.f32", &[Kind::F32], Kind::B32),
    ("bitcast.b32.b32", &[Kind::B32], Kind::B32),
    ("cvt.u32.s32", &[Kind::B32], Kind::B32),
    ("sub.s32", &[Kind::B32; 2], Kind::B32),
    ("mul.u32{half:lo}", &[Kind::B32; 2], Kind::B32),
    ("min.u32", &[Kind::B32; 2], Kind::B32),
    ("neg.s32", &[Kind::B32], Kind::B32),
    ("not.b32", &[Kind::B32], Kind::B32),
    ("and.b32", &[Kind::B32; 2], Kind::B32),
    ("or.b32", &[Kind::B32; 2], Kind::B32),
    ("shl.b32", &[Kind::B32; 2], Kind::B32),
    ("setp.s32{cmp:ge}", &[Kind::B32; 2], Kind::Pred),
    ("and.pred", &[Kind::Pred; 2], Kind::Pred),
    ("or.pred", &[Kind::Pred; 2], Kind::Pred),
    ("selp.f32", &[Kind::F32, Kind::F32, Kind::Pred], Kind::F32),
    ("add.u64", &[Kind::B64; 2], Kind::B64),
    ("mul.u64{half:lo}", &[Kind::B64; 2], Kind::B64),
    ("shl.b64", &[Kind::B64, Kind::B32], Kind::B64),
];

const KINDS: [Kind; 7] = [
    Kind::Pred,
    Kind::B8,
    Kind::B16,
    Kind::B32,
    Kind::B64,
    Kind::F32,
    Kind::F64,
];

/// Numbers that choose what a function contains.
struct Choices<'a> {
    numbers: &'a [u32],
    next: usize,
}

impl Choices<'_> {
    fn below(&mut self, limit: usize) -> usize {
        self.next += 1;
        self.numbers[self.next % self.numbers.len()].wrapping_mul(self.next as u32 | 1) as usize
            % limit
    }
}

/// Appends random instructions. All vectors have `lanes` lanes, and `known` contains values that dominate the end of the
/// block.
struct Generator<'a, 'b> {
    b: Builder<'a>,
    choices: Choices<'b>,
    lanes: u32,
    known: Vec<Value>,
    /// The induction variables of the loops around the current block.
    counters: Vec<Value>,
    /// The address of the memory of a bounded function; `None` for programs.
    memory: Option<u64>,
    /// An address in the memory of a program.
    base: Option<Value>,
    /// Addresses that dominate the end of the block, each with an access.
    addresses: Vec<(Value, Access)>,
    place: u64,
}

impl Generator<'_, '_> {
    fn vector(&self, kind: Kind) -> Type {
        Type::vector(kind, self.lanes).expect("a power of two")
    }

    /// Returns a known value of a type or, if there is none, a new constant.
    fn operand(&mut self, ty: Type) -> Value {
        let fitting: Vec<Value> = self
            .known
            .iter()
            .copied()
            .filter(|&v| self.b.function.ty(v) == ty)
            .collect();
        if !fitting.is_empty() && self.choices.below(8) != 0 {
            return fitting[self.choices.below(fitting.len())];
        }
        let random = (self.choices.below(1 << 31) as u64).wrapping_mul(0x1234_5678_9abc);
        let special = [0, 1, 2, 8, 31, u64::MAX, 1 << 31, random];
        let bits = special[self.choices.below(8)] & mask(ty.lane_bits()) as u64;
        let value = self.b.constant(ty, bits);
        self.known.push(value);
        value
    }

    fn instruction(&mut self) {
        let kind = KINDS[self.choices.below(KINDS.len())];
        let integer = [Kind::B8, Kind::B16, Kind::B32, Kind::B64][self.choices.below(4)];
        let (vector, masks) = (self.vector(kind), self.vector(Kind::Pred));
        let half = Type::vector(kind, self.lanes / 2).expect("a power of two");
        let number = Data::Number(self.choices.below(self.lanes as usize) as u64);
        let (op, ty, data, operands): (Op, Type, Data, Vec<Type>) = match self.choices.below(24) {
            0 => (
                Op::Affine,
                self.vector(integer),
                number,
                vec![Type::scalar(integer)],
            ),
            1 => (Op::Splat, vector, Data::Nothing, vec![Type::scalar(kind)]),
            2 => (Op::Extract, vector, number, vec![vector]),
            3 => (Op::Insert, vector, number, vec![vector, Type::scalar(kind)]),
            4 => (
                Op::Permute,
                vector,
                Data::Nothing,
                vec![vector, self.vector(Kind::B32)],
            ),
            5 => (
                Op::Permute2,
                vector,
                Data::Nothing,
                vec![vector, vector, self.vector(Kind::B32)],
            ),
            6 => (Op::Compress, vector, Data::Nothing, vec![vector, masks]),
            7 => (Op::Expand, vector, Data::Nothing, vec![vector, masks]),
            8 => (Op::Ballot, masks, Data::Nothing, vec![masks]),
            9 => (Op::Mask, masks, Data::Nothing, vec![Type::B64]),
            10 => {
                let op = [Op::Any, Op::All, Op::Count, Op::First][self.choices.below(4)];
                (op, masks, Data::Nothing, vec![masks])
            }
            11 => (
                Op::Half,
                half,
                Data::Number(number.number() % 2),
                vec![vector],
            ),
            12 => (Op::Join, vector, Data::Nothing, vec![half, half]),
            13 => return self.reduction(),
            14..=19 => return self.access(),
            _ => return self.lane_operation(),
        };
        let args: Vec<Value> = operands.into_iter().map(|ty| self.operand(ty)).collect();
        let value = self.b.value(op, ty, data, &args);
        self.known.push(value);
    }

    fn lane_operation(&mut self) {
        let (text, operands, result) = LANE_OPERATIONS[self.choices.below(LANE_OPERATIONS.len())];
        let desc = operation(text);
        let is_scalar = self.choices.below(4) == 0;
        let args: Vec<Value> = operands
            .iter()
            .map(|&kind| match is_scalar || self.choices.below(4) == 0 {
                true => self.operand(Type::scalar(kind)),
                false => self.operand(self.vector(kind)),
            })
            .collect();
        let ty = if is_scalar {
            Type::scalar(result)
        } else {
            self.vector(result)
        };
        let value = self.b.map(desc, ty, &args);
        self.known.push(value);
    }

    fn reduction(&mut self) {
        let text = ["add.u32", "min.s32", "or.b32"][self.choices.below(3)];
        let ty = self.vector(Kind::B32);
        let of = self.operand(ty);
        let value = self
            .b
            .value(Op::Reduce, ty, Data::Lane(operation(text)), &[of]);
        self.known.push(value);
    }

    fn access(&mut self) {
        match self.memory {
            Some(memory) => self.bounded_access(memory),
            None => self.program_access(),
        }
    }

    fn bounded_access(&mut self, memory: u64) {
        let stride = self.choices.below(9) as i64 - 4;
        let access = Access {
            memory: [OpType::U8, OpType::S16, OpType::B32][self.choices.below(3)],
            stride,
            displacement: 4 * self.choices.below(5) as i32 - 8,
        };
        let ty = self.vector(Kind::B32);
        let address = self.b.constant(Type::B64, memory + 512);
        let masks = self.operand(self.vector(Kind::Pred));
        match self.choices.below(4) {
            0 => {
                let value = self.b.load(Op::Load, ty, access, &[address, masks]);
                self.known.push(value);
            }
            1 => {
                let value = self.operand(ty);
                self.b.store(Op::Store, ty, access, &[address, value]);
            }
            number => {
                let offsets = self.operand(ty);
                let few = self.b.constant(ty, 0x3f);
                let offsets = self.b.map(operation("and.b32"), ty, &[offsets, few]);
                if number == 2 {
                    let value = self.b.load(Op::Gather, ty, access, &[address, offsets]);
                    self.known.push(value);
                } else {
                    let value = self.operand(ty);
                    self.b
                        .store(Op::Scatter, ty, access, &[address, offsets, value, masks]);
                }
            }
        }
    }

    /// Appends a loop of a few turns, which passes a vector on.
    fn bounded_loop(&mut self, instructions: usize) {
        let kind = [Kind::F32, Kind::B64, Kind::Pred][self.choices.below(3)];
        let ty = self.vector(kind);
        let turns = self.choices.below(4) as u64;
        let (body, after) = (self.b.block(&[Type::B32, ty]), self.b.block(&[]));
        let (start, passed) = (self.b.constant(Type::B32, 0), self.operand(ty));
        self.b.jump(body, &[start, passed]);
        self.b.switch_to(body);
        let params = self.b.params();
        self.known.extend(&params);
        for _ in 0..instructions {
            self.instruction();
        }
        let (one, limit) = (
            self.b.constant(Type::B32, 1),
            self.b.constant(Type::B32, turns),
        );
        let next = self
            .b
            .map(operation("add.u32"), Type::B32, &[params[0], one]);
        let again = self
            .b
            .map(operation("setp.u32{cmp:lt}"), Type::PRED, &[next, limit]);
        let passed = self.operand(ty);
        self.b.branch(again, (body, &[next, passed]), (after, &[]));
        self.b.switch_to(after);
    }

    /// Appends a chain of blocks, some of which branch to a later block, and returns all known values at the end.
    fn blocks(&mut self, count: usize, instructions: usize) {
        for _ in 0..count {
            for _ in 0..instructions {
                self.instruction();
            }
            if self.memory.is_none() {
                self.effect();
            }
            if self.choices.below(2) == 0 {
                match self.memory {
                    Some(_) => self.bounded_loop(instructions / 2),
                    None => {
                        let depth = self.choices.below(2);
                        self.repeated(depth);
                    }
                }
            }
            let condition = self.operand(Type::PRED);
            let ty = self.vector(Kind::F32);
            let (then, other): (Block, Block) = (self.b.block(&[]), self.b.block(&[ty]));
            let passed = self.operand(ty);
            self.b.branch(condition, (then, &[]), (other, &[passed]));
            let before = (self.known.clone(), self.addresses.clone());
            self.b.switch_to(then);
            self.access();
            self.instruction();
            let passed = self.operand(ty);
            self.b.jump(other, &[passed]);
            (self.known, self.addresses) = before;
            self.b.switch_to(other);
            self.known.extend(self.b.params());
        }
    }
}

/// Returns an operation of lanes. Panics if the text is wrong.
pub(crate) fn operation(text: &str) -> Desc {
    desc(&mut Cursor::new(text)).expect("an operation")
}

/// Returns a function that returns all values that it knows at its end. Its vectors have `lanes` lanes. It ends after a
/// bounded number of instructions without a fault, and accesses only the 1 KiB of memory at the address `memory`.
pub fn function(numbers: &[u32], lanes: u32, memory: u64) -> Function {
    made(numbers, lanes, Some(memory))
}

/// Returns a program with loops of a few iterations, traps, calls of a helper with two operands and a result of type `b32`,
/// and accesses of memory around the address that is its only parameter of the scalar type `b64`, or around the address
/// [`MEMORY`]. Accesses may fault. Instructions that may fault have different places.
pub fn program(numbers: &[u32], lanes: u32) -> Function {
    made(numbers, lanes, None)
}

fn made(numbers: &[u32], lanes: u32, memory: Option<u64>) -> Function {
    let mut function = Function {
        name: "random".into(),
        ..Function::default()
    };
    let vectors = KINDS.map(|kind| Type::vector(kind, lanes).expect("a power of two"));
    function.signature.params = vectors.to_vec();
    if memory.is_none() {
        let scalars = [Type::B64, Type::PRED, Type::B32, Type::F32];
        function.signature.params.extend(scalars);
        function.helpers.push(Helper {
            no_memory: false,
            name: "sum".into(),
            signature: Signature {
                params: vec![Type::B32; 2],
                returns: vec![Type::B32],
            },
        });
    }
    let b = Builder::new(&mut function);
    let known = b.params();
    let mut generator = Generator {
        b,
        choices: Choices { numbers, next: 0 },
        lanes,
        memory,
        base: known.get(KINDS.len()).copied(),
        known,
        addresses: Vec::new(),
        counters: Vec::new(),
        place: 0,
    };
    generator.blocks(3, 8);
    let known = generator.known.clone();
    generator.b.ret(&known);
    function.signature.returns = known.iter().map(|&value| function.ty(value)).collect();
    function
}
