//! Every operation of the IR without side effects, in `map`: all types, each modifier, several numbers of lanes, and
//! operands that are vectors, scalars and constants.

use margay_ir::verify;
use margay_ops::meaning::{Bits, Desc, Meaning, mask};
use margay_ops::mods::Mods;
use margay_ops::ops::{Opcode, Pattern};
use margay_ops::types::{Kind, OpType, Type};
use margay_vir::builder::Builder;
use margay_vir::function::Function;
use margay_vir::meaning::Lanes;
use smallvec::smallvec;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::native::{Memory, check_for, targets};

/// A random number generator.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let x = self.0;
        (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ x >> 32
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 11) as usize % limit
    }

    /// Returns a value of a kind that is often at a limit.
    pub(crate) fn value(&mut self, kind: Kind) -> Bits {
        let random = Bits::from(self.next()) << 64 | Bits::from(self.next());
        let bits = kind.bits();
        let integer = [
            0,
            1,
            2,
            31,
            32,
            33,
            63,
            64,
            255,
            mask(bits),
            mask(bits) >> 1,
            1 << (bits - 1),
            random,
            random & 0xff,
        ];
        let single = [
            0u32,
            0x8000_0000,
            1,
            0x8000_0001,
            0x007f_ffff,
            0x807f_ffff,
            0x0080_0000,
            0x3f80_0000,
            0xbf80_0000,
            0x3f00_0000,
            0x4f00_0000,
            0xcf00_0000,
            0x4f80_0000,
            0x5f00_0000,
            0x5f80_0000,
            0x7f80_0000,
            0xff80_0000,
            0x7fc0_0000,
            0x7f80_0001,
            0x7f7f_ffff,
            0x7e80_0000,
            0x7e80_0001,
            0x4b00_0001,
            0x3eff_ffff,
            0x42ff_0000,
            0xc2fc_0000,
        ];
        let double = [
            0u64,
            1 << 63,
            1,
            0x000f_ffff_ffff_ffff,
            0x0010_0000_0000_0000,
            0x3ff0_0000_0000_0000,
            0x41e0_0000_0000_0000,
            0xc1e0_0000_0000_0000,
            0x41ef_ffff_ffff_ffff,
            0x43e0_0000_0000_0000,
            0x43f0_0000_0000_0000,
            0x7ff0_0000_0000_0000,
            0xfff0_0000_0000_0000,
            0x7ff8_0000_0000_0000,
            0x7ff0_0000_0000_0001,
            0x7fef_ffff_ffff_ffff,
            0x3690_0000_0000_0000,
            0x380f_ffff_ffff_ffff,
            0x41df_ffff_ffc0_0000,
            0x4060_0000_0000_0000,
        ];
        // Numbers near 1, whose sums and products are ordinary.
        let near_one = |field: u64, digits: u32| {
            let exponent = field - 4 + random as u64 % 9;
            exponent << digits
                | (random as u64 >> 8) & ((1 << digits) - 1)
                | (random as u64 >> 5 & 1) << (bits - 1)
        };
        let chosen = match (kind, self.below(4)) {
            (Kind::F32, 0) => near_one(127, 23).into(),
            (Kind::F32, 1) => u64::from(single[self.below(single.len())]).into(),
            (Kind::F64, 0) => near_one(1023, 52).into(),
            (Kind::F64, 1) => double[self.below(double.len())].into(),
            (Kind::F64, 2) => {
                let single = f32::from_bits(random as u32);
                f64::from(single).to_bits().into()
            }
            (_, 0 | 1) => integer[self.below(integer.len())],
            (Kind::B16, 2) => [
                0x3c00, 0x7c00, 0x7e00, 0x0001, 0x8001, 0x7bff, 0xfc00, 0x3f80, 0x7f80,
            ][self.below(9)],
            _ => random,
        };
        chosen & mask(bits)
    }

    pub(crate) fn lanes(&mut self, ty: Type) -> Lanes {
        (0..ty.lanes()).map(|_| self.value(ty.kind())).collect()
    }

    /// Returns operands of a function.
    pub(crate) fn operands(&mut self, function: &Function) -> Vec<Lanes> {
        let params = function.signature.params.iter();
        params.map(|&ty| self.lanes(ty)).collect()
    }
}

/// An operation with the kinds of its operands and results.
struct Operation {
    desc: Desc,
    args: Vec<Kind>,
    results: Vec<Kind>,
}

/// Returns the kinds that the letters of a shape allow, one list for each number of optional values.
fn kinds(letters: &str, desc: &Desc) -> Vec<Vec<Kind>> {
    let source = if desc.src == OpType::None {
        desc.ty
    } else {
        desc.src
    };
    let mut lists: Vec<Vec<Kind>> = vec![Vec::new()];
    let mut letters = letters.chars().peekable();
    while let Some(letter) = letters.next() {
        let wide = |ty: OpType| ty.widened().held().kind();
        let kind = match letter {
            't' | 'T' | 'x' => desc.ty.held().kind(),
            's' | 'S' => desc.src.held().kind(),
            'm' => source.held().kind(),
            'w' if desc.mods.half() == margay_ops::mods::Half::Wide => wide(desc.ty),
            'w' => desc.ty.held().kind(),
            'p' | 'c' => Kind::Pred,
            'b' | 'a' => Kind::B32,
            _ => Kind::B64,
        };
        let mut longer = lists.clone();
        longer.iter_mut().for_each(|list| list.push(kind));
        let is_optional = letters.peek() == Some(&'?') || letter == 'c';
        if letters.peek() == Some(&'?') {
            letters.next();
        }
        match is_optional {
            true => lists.extend(longer),
            false => lists = longer,
        }
    }
    lists
}

/// Returns lists of kinds for the patterns that are not letters.
fn pattern_kinds(pattern: Pattern, desc: &Desc, is_result: bool) -> Vec<Vec<Kind>> {
    match pattern {
        Pattern::Letters(letters) => kinds(letters, desc),
        Pattern::Parts => {
            let (whole, part) = if is_result {
                (desc.src, desc.ty)
            } else {
                (desc.ty, desc.src)
            };
            let count = (whole.bits() / part.bits().max(1)) as usize;
            vec![vec![part.held().kind(); count]]
        }
        Pattern::Converted => {
            let from = desc.src.held().kind();
            vec![vec![from], vec![from; 2], vec![from, from, Kind::B32]]
        }
        _ => Vec::new(),
    }
}

/// Returns the sets of modifiers that are tested: each value of each field, and some pairs.
fn modifiers(opcode: Opcode) -> Vec<Mods> {
    let mut all = vec![Mods::NONE];
    let fields: Vec<_> = Mods::FIELDS
        .iter()
        .filter(|field| opcode.shape().mods.contains(&field.name))
        .collect();
    for field in &fields {
        for value in 1..64 {
            all.extend(field.set(Mods::NONE, value));
        }
    }
    let singles = all.clone();
    for &first in &singles {
        for &second in &singles {
            let overlaps = fields
                .iter()
                .any(|field| field.get(first) != 0 && field.get(second) != 0);
            let both = Mods(first.0 | second.0);
            if !overlaps && first.0 < second.0 && both.is_canonical() {
                all.push(both);
            }
        }
    }
    all
}

/// Returns the operations of an opcode that pass the verifier.
fn operations(opcode: Opcode) -> Vec<Operation> {
    let shape = opcode.shape();
    let mut all = Vec::new();
    let sources = shape.sources.iter().copied().chain([OpType::None]);
    for src in sources {
        for &ty in shape.types {
            for mods in modifiers(opcode) {
                let desc = Desc {
                    opcode,
                    ty,
                    src,
                    mods,
                };
                let args = pattern_kinds(shape.operands, &desc, false);
                let results = pattern_kinds(shape.results, &desc, true);
                for args in &args {
                    for results in &results {
                        let scalars = |kinds: &[Kind]| -> Vec<Type> {
                            kinds.iter().map(|&kind| Type::scalar(kind)).collect()
                        };
                        // The verifier accepts casts between types of different widths, which have no meaning.
                        let casts =
                            opcode != Opcode::Bitcast || args[0].bits() == results[0].bits();
                        if casts
                            && !results.is_empty()
                            && verify::operation(desc, &scalars(args), &scalars(results)).is_none()
                        {
                            all.push(Operation {
                                desc,
                                args: args.clone(),
                                results: results.clone(),
                            });
                        }
                    }
                }
            }
        }
    }
    all
}

/// How an operand is passed.
#[derive(Clone, Copy, PartialEq)]
enum Passed {
    Vector,
    Scalar,
    Constant(u64),
}

/// Returns a function that applies an operation once.
fn function(operation: &Operation, lanes: u32, passed: &[Passed]) -> Function {
    let mut function = Function {
        name: "operation".into(),
        ..Function::default()
    };
    let vector = |kind: Kind| Type::vector(kind, lanes).unwrap();
    for (&kind, passed) in operation.args.iter().zip(passed) {
        match passed {
            Passed::Vector => function.signature.params.push(vector(kind)),
            Passed::Scalar => function.signature.params.push(Type::scalar(kind)),
            Passed::Constant(_) => {}
        }
    }
    function.signature.returns = operation.results.iter().map(|&kind| vector(kind)).collect();
    let mut b = Builder::new(&mut function);
    let mut params = b.params().into_iter();
    let args: Vec<_> = operation
        .args
        .iter()
        .zip(passed)
        .map(|(&kind, passed)| match passed {
            Passed::Constant(bits) => b.constant(vector(kind), *bits),
            _ => params.next().unwrap(),
        })
        .collect();
    let results = b.map_all(operation.desc, lanes, &args, &operation.results);
    b.ret(&results);
    function
}

/// Checks the operations of some opcodes; returns how many have been checked.
fn check_opcodes(opcodes: &[Opcode]) -> usize {
    let mut random = Random(7);
    let mut memory = Memory::new(vec![0; 64]);
    let targets = targets();
    let (mut count, mut failures) = (0, Vec::new());
    for &opcode in opcodes {
        let operations = operations(opcode);
        // So many modifiers exist for some ops that a sample must do.
        let step = operations.len().div_ceil(60).max(1);
        for operation in operations.iter().step_by(step) {
            let rotating = [1, 2, 4, 8, 32, 64][random.below(6)];
            for lanes in [16, rotating] {
                let passed: Vec<Passed> = operation
                    .args
                    .iter()
                    .enumerate()
                    .map(|(index, &kind)| match random.below(5) {
                        0 if lanes > 1 => Passed::Scalar,
                        1 if kind.bits() <= 64 => Passed::Constant(random.value(kind) as u64),
                        // The table of a logical function and the selector of bytes are constants in practice.
                        _ if kind.bits() <= 64 && opcode == Opcode::Lop3 && index == 3 => {
                            Passed::Constant(random.next() & 0xff)
                        }
                        _ => Passed::Vector,
                    })
                    .collect();
                let function = function(operation, lanes, &passed);
                let target = &targets[random.below(targets.len())];
                let inputs: Vec<Vec<Lanes>> = (0..4).map(|_| random.operands(&function)).collect();
                let outcome = catch_unwind(AssertUnwindSafe(|| {
                    check_for(target, &function, &inputs, &mut memory)
                }));
                if let Err(panic) = outcome {
                    failures.push(panic.downcast_ref::<String>().cloned().unwrap_or_default());
                }
                count += 1;
            }
        }
    }
    let shown = &failures[..failures.len().min(40)];
    assert!(
        failures.is_empty(),
        "{} of {count} failed:\n{}",
        failures.len(),
        shown.join("\n")
    );
    count
}

/// Returns the opcodes of operations without side effects.
fn pure() -> Vec<Opcode> {
    let is_pure = |opcode: &Opcode| matches!(opcode.meaning(), Meaning::Pure(_));
    Opcode::ALL.iter().copied().filter(is_pure).collect()
}

macro_rules! groups {
    ($($name:ident: $number:literal;)*) => {$(
        #[test]
        fn $name() {
            if targets().is_empty() {
                return;
            }
            let all = pure();
            let part: Vec<Opcode> = all.iter().copied().skip($number).step_by(8).collect();
            assert!(check_opcodes(&part) > 100);
        }
    )*};
}

groups! {
    operations_of_group_0: 0;
    operations_of_group_1: 1;
    operations_of_group_2: 2;
    operations_of_group_3: 3;
    operations_of_group_4: 4;
    operations_of_group_5: 5;
    operations_of_group_6: 6;
    operations_of_group_7: 7;
}

#[test]
fn shifts_by_constants_at_the_width_are_right() {
    let _: Lanes = smallvec![0];
    let operations = operations(Opcode::Shl);
    let mut random = Random(3);
    let mut memory = Memory::new(vec![0; 64]);
    for operation in &operations {
        for amount in [0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 0xffff_ffff] {
            for lanes in [1, 16] {
                let function = function(
                    operation,
                    lanes,
                    &[Passed::Vector, Passed::Constant(amount)],
                );
                let inputs = vec![random.operands(&function)];
                for target in &targets() {
                    check_for(target, &function, &inputs, &mut memory);
                }
            }
        }
    }
}

/// Operations that kernels execute often: each has native code at both levels.
const NATIVE: &[(&str, &[Kind], Kind)] = &[
    ("add.u32", &[Kind::B32; 2], Kind::B32),
    ("mul.s32{half:hi}", &[Kind::B32; 2], Kind::B32),
    ("mul.u32{half:wide}", &[Kind::B32; 2], Kind::B64),
    ("mad.s32{half:lo}", &[Kind::B32; 3], Kind::B32),
    ("mul.u64{half:hi}", &[Kind::B64; 2], Kind::B64),
    ("div.s32", &[Kind::B32; 2], Kind::B32),
    ("rem.u32", &[Kind::B32; 2], Kind::B32),
    ("shl.b32", &[Kind::B32; 2], Kind::B32),
    ("shr.s64", &[Kind::B64, Kind::B32], Kind::B64),
    ("bfe.u32", &[Kind::B32; 3], Kind::B32),
    ("bfi.b32", &[Kind::B32; 4], Kind::B32),
    ("prmt.b32", &[Kind::B32; 3], Kind::B32),
    ("shf.b32{mode:l}", &[Kind::B32; 3], Kind::B32),
    ("popc.b32", &[Kind::B32], Kind::B32),
    ("clz.b64", &[Kind::B64], Kind::B32),
    ("brev.b32", &[Kind::B32], Kind::B32),
    ("dp4a.u32.s32", &[Kind::B32; 3], Kind::B32),
    ("setp.f32{cmp:lt}", &[Kind::F32; 2], Kind::Pred),
    ("setp.s64{cmp:ge}", &[Kind::B64; 2], Kind::Pred),
    ("selp.b64", &[Kind::B64, Kind::B64, Kind::Pred], Kind::B64),
    ("add.f32{rn ftz}", &[Kind::F32; 2], Kind::F32),
    ("fma.f64{rn}", &[Kind::F64; 3], Kind::F64),
    ("div.f32{rn}", &[Kind::F32; 2], Kind::F32),
    ("sqrt.f32{rn}", &[Kind::F32], Kind::F32),
    ("rsqrt.f32{ftz approx}", &[Kind::F32], Kind::F32),
    ("max.f32", &[Kind::F32; 2], Kind::F32),
    ("ex2.f32{ftz approx}", &[Kind::F32], Kind::F32),
    ("sin.f32{approx}", &[Kind::F32], Kind::F32),
    ("lg2.f32{approx}", &[Kind::F32], Kind::F32),
    ("tanh.f32{approx}", &[Kind::F32], Kind::F32),
    ("tanh.f16x2{approx}", &[Kind::B32], Kind::B32),
    ("ex2.bf16{approx}", &[Kind::B16], Kind::B16),
    ("cvt.f32.s32{rn}", &[Kind::B32], Kind::F32),
    ("cvt.u32.f32{rzi}", &[Kind::F32], Kind::B32),
    ("cvt.f32.f16", &[Kind::B16], Kind::F32),
    ("cvt.bf16.f32{rn}", &[Kind::F32], Kind::B16),
    ("cvt.f64.f32", &[Kind::F32], Kind::F64),
    ("fma.f16x2{rn}", &[Kind::B32; 3], Kind::B32),
    ("add.bf16x2{rn}", &[Kind::B32; 2], Kind::B32),
];

#[test]
fn frequent_operations_have_native_code() {
    for &(text, args, result) in NATIVE {
        let desc =
            margay_ir::parse::desc(&mut margay_ir::parse::cursor::Cursor::new(text)).unwrap();
        let operation = Operation {
            desc,
            args: args.into(),
            results: vec![result],
        };
        for lanes in [1, 16, 64] {
            let function = function(&operation, lanes, &vec![Passed::Vector; args.len()]);
            for features in [
                margay_x64::Features::LEVEL_AVX512,
                margay_x64::Features::LEVEL_AVX2,
            ] {
                let target = margay_x64::Target {
                    features,
                    prefers_256_bits: false,
                };
                let code = margay_x64::compile(&function, &target).unwrap();
                assert_eq!(
                    code.fallbacks().next(),
                    None,
                    "{text} in {lanes} lanes with {features:?}"
                );
            }
        }
    }
}
