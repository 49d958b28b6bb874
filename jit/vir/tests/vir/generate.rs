//! Generates random functions: branches, loops with induction variables, masks, and accesses of a small memory.

use margay_ir::entity::{Block, Value};
use margay_ir::function::Signature;
use margay_ir::parse::{cursor::Cursor, desc};
use margay_ops::meaning::{Bits, Desc, mask};
use margay_ops::types::{Kind, OpType, Type};
use margay_vir::builder::Builder;
use margay_vir::data::{Access, Data};
use margay_vir::function::{Function, Helper};
use margay_vir::interpreter::{Fault, run};
use margay_vir::meaning::Lanes;
use margay_vir::ops::Op;

use crate::support::{BASE, Machine};

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
    ("add.f32{rn}", &[Kind::F32; 2], Kind::F32),
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
    /// An address in memory.
    base: Value,
    /// Addresses that dominate the end of the block, each with an access.
    addresses: Vec<(Value, Access)>,
    place: u64,
}

impl Generator<'_, '_> {
    fn vector(&self, kind: Kind) -> Type {
        Type::vector(kind, self.lanes).unwrap()
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
        let half = Type::vector(kind, self.lanes / 2).unwrap();
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
            14..=19 => return self.memory(),
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

    /// Returns `base`, a constant and multiples of induction variables, in some order.
    fn address(&mut self) -> Value {
        let mut sum = self.base;
        if self.choices.below(4) == 0 {
            sum = self.b.constant(Type::B64, BASE + 512);
        }
        for _ in 0..self.choices.below(4) {
            let counter = match self.counters.is_empty() {
                true => None,
                false => Some(self.counters[self.choices.below(self.counters.len())]),
            };
            let constant = [4, 16, 1, 64, 8, 0][self.choices.below(6)];
            let constant = self.b.constant(Type::B64, constant);
            let term = match (self.choices.below(5), counter) {
                (0, Some(counter)) => counter,
                (1, Some(counter)) => {
                    let amount = self.b.constant(Type::B32, 2);
                    self.scalar("shl.b64", &[counter, amount])
                }
                (2, Some(counter)) => self.scalar("mul.u64{half:lo}", &[counter, constant]),
                (3, Some(counter)) => {
                    let next = self.scalar("add.u64", &[counter, constant]);
                    self.scalar("mul.u64{half:lo}", &[next, constant])
                }
                _ => constant,
            };
            let text = ["add.u64", "add.s64", "sub.u64"][self.choices.below(3)];
            sum = self.scalar(text, &[sum, term]);
        }
        sum
    }

    fn scalar(&mut self, text: &str, args: &[Value]) -> Value {
        self.b.map(operation(text), Type::B64, args)
    }

    /// Returns offsets of lanes: random ones, equal ones, or ones that increase by the same amount.
    fn offsets(&mut self) -> Value {
        let wide = self.vector(Kind::B64);
        let ty = self.vector(Kind::B32);
        match self.choices.below(7) {
            6 => {
                let few = self.operand(wide);
                let by = self.b.constant(wide, 0x3f);
                let few = self.b.map(operation("and.b64"), wide, &[few, by]);
                let base = self.counters.last().copied();
                let base = base.unwrap_or_else(|| self.b.constant(Type::B64, 3));
                let text = ["add.s64", "sub.u64"][self.choices.below(2)];
                self.b.map(operation(text), wide, &[few, base])
            }
            0 => {
                let base = match self.counters.last() {
                    Some(&counter) => counter,
                    None => self.b.constant(Type::B64, 3),
                };
                let stride = Data::Number([1, 2, u64::MAX][self.choices.below(3)]);
                let offsets = self.b.value(Op::Affine, wide, stride, &[base]);
                let by = self.b.constant(wide, 2);
                match self.choices.below(2) {
                    0 => offsets,
                    _ => self.b.map(operation("add.s64"), wide, &[offsets, by]),
                }
            }
            1 => {
                let counter = self.counters.last().copied();
                let base = counter.unwrap_or_else(|| self.b.constant(Type::B64, 3));
                self.b.value(Op::Splat, wide, Data::Nothing, &[base])
            }
            2 => {
                let base = self.b.constant(Type::B32, 0xffff_fffe);
                let stride = Data::Number([1, 0x1000_0000][self.choices.below(2)]);
                self.b.value(Op::Affine, ty, stride, &[base])
            }
            _ => {
                let offsets = self.operand(ty);
                let few = self.b.constant(ty, 0x3f);
                self.b.map(operation("and.b32"), ty, &[offsets, few])
            }
        }
    }

    fn memory(&mut self) {
        let kind = [Kind::B32, Kind::B32, Kind::F32][self.choices.below(3)];
        let memory = match kind {
            Kind::F32 => OpType::F32,
            _ => [OpType::U8, OpType::S16, OpType::B32][self.choices.below(3)],
        };
        let mut access = Access {
            memory,
            stride: [-4, -1, 0, 1, 2, 4, 4, 4, 8][self.choices.below(9)],
            displacement: self.choices.below(9) as i32 * 4 - 16,
        };
        // Many accesses are equal to earlier ones, or overlap them.
        let count = self.addresses.len();
        let address = match count != 0 && self.choices.below(4) != 0 {
            true => {
                let (address, earlier) = self.addresses[self.choices.below(count)];
                if earlier.memory.held() == memory.held() && self.choices.below(4) != 0 {
                    access = earlier;
                }
                address
            }
            false => self.address(),
        };
        self.addresses.push((address, access));
        let lanes = [1, self.lanes, self.lanes][self.choices.below(3)];
        let is_scalar = lanes == 1;
        let ty = Type::vector(kind, lanes).unwrap();
        let masks = match self.choices.below(3) {
            0 => Some(self.operand(Type::vector(Kind::Pred, lanes).unwrap())),
            _ => None,
        };
        self.place += 1;
        self.b.at(self.place);
        match self.choices.below(8) {
            0..=3 => {
                let args: Vec<Value> = [address].into_iter().chain(masks).collect();
                let value = self.b.load(Op::Load, ty, access, &args);
                self.known.push(value);
            }
            4..=5 => {
                let value = self.operand(ty);
                let args: Vec<Value> = [address, value].into_iter().chain(masks).collect();
                self.b.store(Op::Store, ty, access, &args);
            }
            _ if is_scalar => {}
            6 => {
                let offsets = self.offsets();
                let args: Vec<Value> = [address, offsets].into_iter().chain(masks).collect();
                let value = self.b.load(Op::Gather, ty, access, &args);
                self.known.push(value);
            }
            _ => {
                let (offsets, value) = (self.offsets(), self.operand(ty));
                let args = [address, offsets, value].into_iter().chain(masks);
                let args: Vec<Value> = args.collect();
                self.b.store(Op::Scatter, ty, access, &args);
            }
        }
        self.b.at(0);
    }

    /// Appends a trap, a call or a fence.
    fn effect(&mut self) {
        self.place += 1;
        self.b.at(self.place);
        match self.choices.below(4) {
            0 => {
                let on = self.operand(Type::PRED);
                let mask = self.operand(self.vector(Kind::Pred));
                let all = self
                    .b
                    .value(Op::All, self.vector(Kind::Pred), Data::Nothing, &[mask]);
                let both = self.b.map(operation("and.pred"), Type::PRED, &[on, all]);
                self.b.trap(self.place, Some(both));
            }
            1 => {
                let mask = self.operand(self.vector(Kind::Pred));
                let value = self.operand(self.vector(Kind::B32));
                let ty = self.vector(Kind::Pred);
                let head = (Op::CallLanes, Some(ty), Data::Number(0));
                let result = self.vector(Kind::B32);
                let inst = self.b.append(head, &[mask, value, value], &[result], &[]);
                self.known.push(self.b.function.results(inst)[0]);
            }
            2 => {
                self.b
                    .append((Op::Fence, None, Data::Nothing), &[], &[], &[]);
            }
            _ => {}
        }
        self.b.at(0);
    }

    /// Appends a loop with up to five iterations, which carries a vector. Its condition is at the end or at the start.
    fn repeated(&mut self, depth: usize) {
        let kind = [Kind::F32, Kind::B32][self.choices.below(2)];
        let ty = self.vector(kind);
        let first = self.choices.below(4) as u64;
        let step = [1, 1, 3, u64::MAX][self.choices.below(4)];
        let is_while = self.choices.below(2) == 0;
        let turns = self.choices.below(4) as u64 + u64::from(!is_while);
        let limit = first.wrapping_add(step.wrapping_mul(turns));
        let first = self.b.constant(Type::B64, first);
        let carried = self.operand(ty);
        let header = self.b.block(&[Type::B64, ty]);
        let (body, exit) = (self.b.block(&[]), self.b.block(&[ty]));
        match self.choices.below(3) {
            0 => {
                // The loop is entered from two blocks.
                let condition = self.operand(Type::PRED);
                let other = self.b.block(&[]);
                self.b
                    .branch(condition, (header, &[first, carried]), (other, &[]));
                self.b.switch_to(other);
                self.b.jump(header, &[first, carried]);
            }
            _ => self.b.jump(header, &[first, carried]),
        }
        let before = (self.known.clone(), self.addresses.clone());
        self.b.switch_to(header);
        let params = self.b.params();
        let (counter, value) = (params[0], params[1]);
        self.known.push(value);
        self.counters.push(counter);
        let finish = |this: &mut Self, at: Value| {
            let limit = this.b.constant(Type::B64, limit);
            this.b
                .map(operation("setp.u64{cmp:ne}"), Type::PRED, &[at, limit])
        };
        if is_while {
            let more = finish(self, counter);
            self.b.branch(more, (body, &[]), (exit, &[value]));
        } else {
            for _ in 0..self.choices.below(3) {
                self.memory();
            }
            self.instruction();
            self.b.jump(body, &[]);
        }
        self.b.switch_to(body);
        for _ in 0..3 {
            self.instruction();
        }
        self.effect();
        if depth > 0 {
            self.repeated(depth - 1);
        }
        self.instruction();
        let step = self.b.constant(Type::B64, step);
        let next = self.scalar("add.u64", &[counter, step]);
        let last = self.known.iter().rfind(|&&v| self.b.function.ty(v) == ty);
        let passed = match (last, self.choices.below(2)) {
            (Some(&last), 0) => last,
            _ => self.operand(ty),
        };
        if is_while {
            self.b.jump(header, &[next, passed]);
        } else {
            let more = finish(self, next);
            self.b
                .branch(more, (header, &[next, passed]), (exit, &[passed]));
        }
        self.counters.pop();
        (self.known, self.addresses) = before;
        self.b.switch_to(exit);
        self.known.extend(self.b.params());
    }

    /// Appends a chain of blocks, some of which branch to a later block, and returns all known values at the end.
    fn blocks(&mut self, count: usize, instructions: usize) {
        for _ in 0..count {
            for _ in 0..instructions {
                self.instruction();
            }
            self.effect();
            if self.choices.below(2) == 0 {
                let depth = self.choices.below(2);
                self.repeated(depth);
            }
            let condition = self.operand(Type::PRED);
            let ty = self.vector(Kind::F32);
            let (then, other): (Block, Block) = (self.b.block(&[]), self.b.block(&[ty]));
            let passed = self.operand(ty);
            self.b.branch(condition, (then, &[]), (other, &[passed]));
            let before = (self.known.clone(), self.addresses.clone());
            self.b.switch_to(then);
            self.memory();
            self.instruction();
            let passed = self.operand(ty);
            self.b.jump(other, &[passed]);
            (self.known, self.addresses) = before;
            self.b.switch_to(other);
            self.known.extend(self.b.params());
        }
    }
}

/// Returns an operation of lanes.
pub(crate) fn operation(text: &str) -> Desc {
    desc(&mut Cursor::new(text)).unwrap()
}

/// Returns a function that returns all values that it knows at its end.
pub(crate) fn function(numbers: &[u32], lanes: u32) -> Function {
    let mut function = Function {
        name: "random".into(),
        ..Function::default()
    };
    let vectors = KINDS.map(|kind| Type::vector(kind, lanes).unwrap());
    function.signature.params = vectors.to_vec();
    let scalars = [Type::B64, Type::PRED, Type::B32, Type::F32];
    function.signature.params.extend(scalars);
    function.helpers.push(Helper {
        name: "sum".into(),
        signature: Signature {
            params: vec![Type::B32; 2],
            returns: vec![Type::B32],
        },
    });
    let b = Builder::new(&mut function);
    let known = b.params();
    let mut generator = Generator {
        b,
        choices: Choices { numbers, next: 0 },
        lanes,
        base: known[KINDS.len()],
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

/// What a function leaves behind: its results or the fault that ended it, the contents of memory, and the number of calls.
pub(crate) type Outcome = (Result<Vec<Lanes>, Fault>, Vec<u8>, u32);

/// Runs a function with random arguments. The scalar of type `b64` is an address in memory.
pub(crate) fn outcome(function: &Function, seed: u32) -> Outcome {
    let random = |n: usize| {
        Bits::from(seed)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_right(7 * n as u32)
    };
    let params = function.signature.params.iter().enumerate();
    let args: Vec<Lanes> = params
        .map(|(p, ty)| {
            let lane = |n: usize| match *ty == Type::B64 {
                true => Bits::from(BASE + 400),
                false => random(n + 64 * p) & mask(ty.lane_bits()),
            };
            (0..ty.lanes() as usize).map(lane).collect()
        })
        .collect();
    let mut machine = Machine::new((0..1024).map(|n| n as u8).collect());
    let results = run(function, &args, &mut machine, 5_000);
    (results, machine.bytes, machine.calls)
}
