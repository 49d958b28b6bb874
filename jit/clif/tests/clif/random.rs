//! Random functions of all ops, in loops and branches, on vectors of all kinds.
//!
//! An operation that may return a NaN is followed by one that replaces NaNs, because their bits are unspecified.

use margay_ir::entity::Value;
use margay_ir::function::Signature;
use margay_ir::parse::{cursor::Cursor, desc};
use margay_ops::meaning::{Bits, Desc, mask};
use margay_ops::ops::Opcode;
use margay_ops::types::{Kind, OpType, Type};
use margay_vir::builder::Builder;
use margay_vir::data::{Access, Data};
use margay_vir::function::{Function, Helper};
use margay_vir::meaning::Lanes;
use margay_vir::ops::Op;
use margay_vir::testing;

use crate::maps::{Form, forms};
use crate::native::{Program, sum};
use crate::ops::{data, kinds, operand_type, ops};
use crate::support::{Machine, Numbers, checked, equal, interpreted};

/// The number of bytes of memory.
const SIZE: usize = 2048;

/// Appends random instructions.
struct Generator<'a, 'n> {
    b: Builder<'a>,
    numbers: &'n mut Numbers,
    forms: &'n [Form],
    lanes: u32,
    /// The values that dominate the end of the block.
    known: Vec<Value>,
    /// An address in the middle of the memory.
    address: Value,
}

/// Returns the operation that returns the canonical NaN if an operand is NaN.
fn without_nan(kind: Kind) -> Option<Desc> {
    let text = match kind {
        Kind::F32 => "min.f32{nan}",
        Kind::F64 => "min.f64{nan}",
        _ => return None,
    };
    Some(desc(&mut Cursor::new(text)).unwrap())
}

impl Generator<'_, '_> {
    fn vector(&self, kind: Kind) -> Type {
        Type::vector(kind, self.lanes).unwrap()
    }

    /// Returns a known value of a type or, if there is none, a new constant.
    fn operand(&mut self, ty: Type) -> Value {
        let function = &self.b.function;
        let known = self.known.iter().copied();
        let fitting: Vec<Value> = known.filter(|&value| function.ty(value) == ty).collect();
        if !fitting.is_empty() && self.numbers.below(8) != 0 {
            return fitting[self.numbers.below(fitting.len())];
        }
        let bits = self.numbers.value(ty.kind()) & mask(ty.lane_bits().min(64));
        let value = self.b.constant(ty, bits as u64);
        self.known.push(value);
        value
    }

    /// Adds a value whose NaNs are replaced.
    fn add(&mut self, value: Value) {
        let ty = self.b.function.ty(value);
        let value = match without_nan(ty.kind()) {
            Some(desc) => self.b.map(desc, ty, &[value, value]),
            None => value,
        };
        self.known.push(value);
    }

    fn instruction(&mut self) {
        match self.numbers.below(16) {
            0..8 => self.map(),
            8..12 => self.other(),
            12..15 => self.access(),
            _ => self.call(),
        }
    }

    fn map(&mut self) {
        let form = &self.forms[self.numbers.below(self.forms.len())];
        let is_scalar = self.numbers.below(4) == 0;
        let args: Vec<Value> = form
            .operands
            .iter()
            .map(|ty| match is_scalar || self.numbers.below(4) == 0 {
                true => self.operand(*ty),
                false => self.operand(self.vector(ty.kind())),
            })
            .collect();
        let lanes = if is_scalar { 1 } else { self.lanes };
        let kinds: Vec<Kind> = form.results.iter().map(|ty| ty.kind()).collect();
        for result in self.b.map_all(form.desc, lanes, &args, &kinds) {
            self.add(result);
        }
    }

    /// Appends an op that moves or combines lanes.
    fn other(&mut self) {
        let ops: Vec<Op> = ops().collect();
        let op = ops[self.numbers.below(ops.len())];
        let kinds = kinds(op);
        let kind = kinds[self.numbers.below(kinds.len())];
        let ty = self.vector(kind);
        // The known values have one number of lanes.
        if matches!(op, Op::Half | Op::Join) {
            return self.halves(ty);
        }
        let letters = op.row().operands.chars();
        let types: Option<Vec<Type>> = letters.map(|letter| operand_type(letter, ty)).collect();
        let Some(types) = types else { return };
        let args: Vec<Value> = types.into_iter().map(|ty| self.operand(ty)).collect();
        let data = data(op, ty, self.numbers);
        let data = data[self.numbers.below(data.len())];
        let value = self.b.value(op, ty, data, &args);
        self.known.push(value);
    }

    /// Appends the two halves of a vector, joined in the other order.
    fn halves(&mut self, ty: Type) {
        let value = self.operand(ty);
        let half = Type::vector(ty.kind(), ty.lanes() / 2).unwrap();
        let low = self.b.value(Op::Half, half, Data::Number(0), &[value]);
        let high = self.b.value(Op::Half, half, Data::Number(1), &[value]);
        let joined = self.b.value(Op::Join, ty, Data::Nothing, &[high, low]);
        self.known.push(joined);
    }

    fn access(&mut self) {
        let (memory, kind) = [
            (OpType::U8, Kind::B32),
            (OpType::S16, Kind::B64),
            (OpType::B32, Kind::B32),
            (OpType::B16, Kind::B16),
            (OpType::U64, Kind::B64),
        ][self.numbers.below(5)];
        let bytes = i64::from(memory.bits() / 8);
        let access = Access {
            memory,
            stride: [bytes, bytes, 1, 0, -bytes][self.numbers.below(5)],
            displacement: self.numbers.below(9) as i32 - 4,
        };
        let (ty, masks) = (self.vector(kind), self.vector(Kind::Pred));
        let mask = (self.numbers.below(3) != 0).then(|| self.operand(masks));
        let mut args = vec![self.address];
        let is_indexed = self.numbers.below(2) == 0;
        if is_indexed {
            let words = self.vector(Kind::B32);
            let offsets = self.operand(words);
            let few = self.b.constant(words, 0x3f);
            let and = desc(&mut Cursor::new("and.b32")).unwrap();
            args.push(self.b.map(and, words, &[offsets, few]));
        }
        if self.numbers.below(2) == 0 {
            args.extend(mask);
            let op = if is_indexed { Op::Gather } else { Op::Load };
            let value = self.b.load(op, ty, access, &args);
            self.known.push(value);
        } else {
            args.push(self.operand(ty));
            args.extend(mask);
            let op = if is_indexed { Op::Scatter } else { Op::Store };
            self.b.store(op, ty, access, &args);
        }
    }

    /// Appends a call of the helper `sum` with operands whose sum is even, which it accepts.
    fn call(&mut self) {
        let words = match self.numbers.below(2) {
            0 => Type::B32,
            _ => self.vector(Kind::B32),
        };
        let a = self.operand(words);
        let inst = match words {
            Type::B32 => {
                let head = (Op::Call, None, Data::Number(0));
                self.b.append(head, &[a, a], &[words], &[])
            }
            _ => {
                let masks = self.vector(Kind::Pred);
                let mask = self.operand(masks);
                let head = (Op::CallLanes, Some(masks), Data::Number(0));
                self.b.append(head, &[mask, a, a], &[words], &[])
            }
        };
        let result = self.b.function.results(inst)[0];
        self.known.push(result);
    }

    /// Appends instructions, and a branch around some of them.
    fn diamond(&mut self) {
        let condition = self.operand(Type::PRED);
        let kind = Kind::ALL[self.numbers.below(8)];
        let ty = self.vector(kind);
        let (then, join) = (self.b.block(&[]), self.b.block(&[ty]));
        let passed = self.operand(ty);
        self.b.branch(condition, (then, &[]), (join, &[passed]));
        let before = self.known.clone();
        self.b.switch_to(then);
        for _ in 0..4 {
            self.instruction();
        }
        let passed = self.operand(ty);
        self.b.jump(join, &[passed]);
        self.known = before;
        self.b.switch_to(join);
        self.known.extend(self.b.params());
    }

    /// Appends a loop of three turns, whose parameters are a counter and two vectors.
    fn turns(&mut self) {
        let carried = [0, 1].map(|_| {
            let kind = Kind::ALL[self.numbers.below(8)];
            self.vector(kind)
        });
        let (head, exit) = (
            self.b.block(&[Type::B32, carried[0], carried[1]]),
            self.b.block(&[carried[0]]),
        );
        let three = self.b.constant(Type::B32, 3);
        let first = carried.map(|ty| self.operand(ty));
        self.b.jump(head, &[three, first[0], first[1]]);
        let before = self.known.clone();
        self.b.switch_to(head);
        let params = self.b.params();
        self.known.extend(&params);
        for _ in 0..6 {
            self.instruction();
        }
        let one = self.b.constant(Type::B32, 1);
        let sub = desc(&mut Cursor::new("sub.u32")).unwrap();
        let counter = self.b.map(sub, Type::B32, &[params[0], one]);
        let test = desc(&mut Cursor::new("setp.u32{cmp:ge}")).unwrap();
        let goes_on = self.b.map(test, Type::PRED, &[counter, one]);
        let next = carried.map(|ty| self.operand(ty));
        self.b.branch(
            goes_on,
            (head, &[counter, next[0], next[1]]),
            (exit, &[next[0]]),
        );
        self.known = before;
        self.b.switch_to(exit);
        self.known.extend(self.b.params());
    }
}

fn function(forms: &[Form], lanes: u32, numbers: &mut Numbers) -> Function {
    let mut function = Function {
        name: "random".into(),
        ..Function::default()
    };
    function.helpers.push(Helper {
        no_memory: false,
        name: "sum".into(),
        signature: Signature {
            params: vec![Type::B32; 2],
            returns: vec![Type::B32],
        },
    });
    function.signature.params = vec![Type::B64];
    for kind in Kind::ALL {
        let vector = Type::vector(kind, lanes).unwrap();
        function
            .signature
            .params
            .extend([Type::scalar(kind), vector]);
    }
    let b = Builder::new(&mut function);
    let params = b.params();
    let mut generator = Generator {
        b,
        numbers,
        forms,
        lanes,
        known: params[1..].to_vec(),
        address: params[0],
    };
    for _ in 0..2 {
        for _ in 0..5 {
            generator.instruction();
        }
        generator.diamond();
        generator.turns();
    }
    let known = generator.known.clone();
    generator.b.ret(&known);
    function.signature.returns = known.iter().map(|&value| function.ty(value)).collect();
    checked(function)
}

/// Returns operations whose results contain no NaNs besides those that are replaced.
fn usable_forms() -> Vec<Form> {
    let mut forms = forms();
    forms.retain(|form| form.desc.ty != OpType::F32x2 && form.desc.opcode != Opcode::Unpack);
    forms
}

#[test]
fn random_functions_have_the_results_of_the_interpreter() {
    let forms = usable_forms();
    let mut numbers = Numbers(11);
    for round in 0..80 {
        let lanes = [2, 4, 8, 16, 32][round % 5];
        let function = function(&forms, lanes, &mut numbers);
        let level = if round % 3 == 0 { "none" } else { "speed" };
        let native = Program::with(&function, &[sum as *const u8], (round % 4 != 0, level));
        for _ in 0..2 {
            let mut memory: Vec<u8> = (0..SIZE).map(|_| numbers.next() as u8).collect();
            let base = memory.as_mut_ptr() as u64;
            let params = function.signature.params.iter();
            let mut args: Vec<Lanes> = params.map(|&ty| numbers.lanes(ty)).collect();
            args[0] = [Bits::from(base) + SIZE as Bits / 2].as_slice().into();
            let mut machine = Machine::new(base, memory.clone());
            let expected = interpreted(&function, &args, &mut machine).unwrap();
            let actual = native.run(&args);
            let differs = expected.iter().zip(&actual).position(|(a, b)| a != b);
            assert!(
                differs.is_none(),
                "result {differs:?}: {:x?}, expected {:x?}\nof {args:x?}\n{function}",
                actual[differs.unwrap()],
                expected[differs.unwrap()]
            );
            assert!(memory == machine.bytes, "memory\n{args:x?}\n{function}");
        }
    }
}

/// Returns whether a function observes the bits of numbers, among which may be NaNs.
fn observes_bits(function: &Function) -> bool {
    let is_cast = |data: Data| matches!(data, Data::Lane(desc) if desc.opcode == Opcode::Bitcast);
    function.insts.values().any(|inst| is_cast(inst.data))
}

#[test]
fn the_random_functions_of_all_back_ends_have_the_results_of_the_interpreter() {
    let mut numbers = Numbers(12);
    let mut tested = 0;
    for round in 0..60 {
        let mut memory: Vec<u8> = (0..1024).map(|n| n as u8).collect();
        let base = memory.as_mut_ptr() as u64;
        let choices: Vec<u32> = (0..1 + numbers.below(60))
            .map(|_| numbers.next() as u32)
            .collect();
        let lanes = 2 << (round % 6);
        let function = testing::function(&choices, lanes, base);
        if observes_bits(&function) {
            continue;
        }
        let params = function.signature.params.iter();
        let args: Vec<Lanes> = params.map(|&ty| numbers.lanes(ty)).collect();
        let mut machine = Machine::new(base, memory.clone());
        let expected = interpreted(&function, &args, &mut machine).unwrap();
        let actual = Program::new(&function, &[]).run(&args);
        let types = function.signature.returns.iter();
        for ((expected, actual), ty) in expected.iter().zip(&actual).zip(types) {
            let mut pairs = expected.iter().zip(actual);
            assert!(
                pairs.all(|(&a, &b)| equal(OpType::None, ty.kind(), a, b)),
                "{actual:x?}, expected {expected:x?}\nof {args:x?}\n{function}"
            );
        }
        assert!(memory == machine.bytes, "memory\n{args:x?}\n{function}");
        tested += 1;
    }
    assert!(tested > 15, "{tested} functions");
}
