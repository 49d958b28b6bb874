//! `update`: all operations, in shared and in other memory, with and without a mask and a result.

use margay_ir::parse::{cursor::Cursor, desc};
use margay_ops::meaning::{Bits, Desc};
use margay_ops::types::{Kind, Type};
use margay_vir::builder::Builder;
use margay_vir::function::Function;
use margay_vir::meaning::Lanes;
use margay_vir::verify;
use margay_x64::Target;
use margay_x64::code::{Cause, Place};
use smallvec::smallvec;

use crate::native::{Memory, check_for, parsed, targets};
use crate::operations::Random;

const OPERATIONS: &[&str] = &[
    "add.u32", "add.u64", "and.b32", "and.b64", "or.b32", "or.b64", "xor.b32", "xor.b64",
    "exch.b32", "exch.b64", "cas.b32", "cas.b64", "min.s32", "min.s64", "min.u32", "min.u64",
    "max.s32", "max.s64", "max.u32", "max.u64", "inc.u32", "dec.u32", "add.f32", "add.f64",
];

/// How an operand is passed.
#[derive(Clone, Copy, PartialEq)]
enum Passed {
    Lanes,
    Scalar,
    Constant(u64),
}

/// The form of an update.
#[derive(Clone, Copy)]
struct Form {
    lanes: u32,
    offsets: Kind,
    operands: Passed,
    has_mask: bool,
    has_result: bool,
}

/// Returns the description of an operation such as `add.u32` in a state space.
fn update(text: &str, space: &str) -> Desc {
    let (op, ty) = text.split_once('.').unwrap();
    let text = format!("atom.{ty}{{op:{op} space:{space}}}");
    desc(&mut Cursor::new(&text)).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn function(desc: Desc, form: Form) -> Function {
    let vector = |kind: Kind| Type::vector(kind, form.lanes).unwrap();
    let kind = desc.ty.held().kind();
    let mut function = Function {
        name: "update".into(),
        ..Function::default()
    };
    let is_cas = desc.mods.atom_op() == margay_ops::mods::AtomOp::Cas;
    let params = &mut function.signature.params;
    params.extend([Type::B64, vector(form.offsets)]);
    for _ in 0..1 + usize::from(is_cas) {
        match form.operands {
            Passed::Lanes => params.push(vector(kind)),
            Passed::Scalar => params.push(Type::scalar(kind)),
            Passed::Constant(_) => {}
        }
    }
    params.extend(form.has_mask.then(|| vector(Kind::Pred)));
    let mut b = Builder::new(&mut function);
    let mut args = b.params();
    if let Passed::Constant(bits) = form.operands {
        for _ in 0..1 + usize::from(is_cas) {
            let bits = bits & margay_ops::meaning::mask(kind.bits()) as u64;
            let operand = b.constant(Type::scalar(kind), bits);
            args.insert(2, operand);
        }
    }
    let result = b.update(desc, vector(kind), &args, form.has_result);
    b.ret(result.as_slice());
    function.signature.returns = result.iter().map(|_| vector(kind)).collect();
    let problems = verify::function(&function);
    assert!(problems.is_empty(), "{problems:?}\n{function}");
    function
}

const SIZE: usize = 128;

/// Returns the bits of a value, which is below 4 if it is a floating-point number: the bits of NaNs are not compared.
fn finite(kind: Kind, bits: Bits) -> Bits {
    match kind {
        Kind::F32 | Kind::F64 => bits & !(1 << (kind.bits() - 2)),
        _ => bits,
    }
}

/// Returns arguments. Many lanes update the same bytes, and compare-and-swap often finds what it expects.
fn arguments(function: &Function, memory: &Memory, random: &mut Random) -> Vec<Lanes> {
    let params = function.signature.params.iter().enumerate();
    params
        .map(|(index, &ty)| match index {
            0 => smallvec![Bits::from(memory.address())],
            1 => (0..ty.lanes())
                .map(|_| Bits::from(random.next() % 8 * 8))
                .collect(),
            _ => (0..ty.lanes())
                .map(|_| match random.below(2) {
                    0 => finite(ty.kind(), random.value(ty.kind())),
                    _ => Bits::from(random.next() % 4) & margay_ops::meaning::mask(ty.lane_bits()),
                })
                .collect(),
        })
        .collect()
}

fn check_form(desc: Desc, form: Form, target: &(&'static str, Target), random: &mut Random) {
    let function = function(desc, form);
    let kind = desc.ty.held().kind();
    let mut contents = Vec::new();
    while contents.len() < SIZE {
        let value = finite(kind, random.value(kind)).to_le_bytes();
        contents.extend(&value[..desc.ty.bits() as usize / 8]);
    }
    let mut memory = Memory::new(contents);
    let inputs: Vec<Vec<Lanes>> = (0..3)
        .map(|_| arguments(&function, &memory, random))
        .collect();
    check_for(target, &function, &inputs, &mut memory);
}

#[test]
fn updates() {
    let mut random = Random(3);
    let targets = targets();
    for text in OPERATIONS {
        for space in ["global", "shared"] {
            let desc = update(text, space);
            for lanes in [1, 2, 4, 8, 16, 32, 64] {
                for (has_mask, has_result) in
                    [(false, false), (false, true), (true, false), (true, true)]
                {
                    let kind = desc.ty.held().kind();
                    let constant = Passed::Constant(finite(kind, random.value(kind)) as u64);
                    let form = Form {
                        lanes,
                        offsets: [Kind::B32, Kind::B64][random.below(2)],
                        operands: [Passed::Lanes, Passed::Scalar, constant][random.below(3)],
                        has_mask,
                        has_result,
                    };
                    let Some(target) = targets.get(random.below(targets.len().max(1))) else {
                        return;
                    };
                    check_form(desc, form, target, &mut random);
                }
            }
        }
    }
}

#[test]
fn an_update_of_all_lanes_with_an_absolute_address_has_no_base() {
    let function = parsed(
        "func @counts(b64x16, b32x16) -> (b32x16) {
block0(v0: b64x16, v1: b32x16):
  v2: b64 = const.b64{0x0}
  v3: b32x16 = update.b32x16{atom.u32{op:add space:shared}} v2, v0, v1
  ret v3
}
",
    );
    let mut memory = Memory::new(vec![0; 64]);
    let address = Bits::from(memory.address());
    let args: Vec<Lanes> = vec![
        (0..16).map(|n| address + 4 * (n % 3)).collect(),
        (1..17).collect(),
    ];
    crate::native::check(&function, &args, &mut memory);
}

#[test]
fn places_name_the_lanes_of_updates() {
    let function = parsed(
        "func @lanes(b64, b32x4, b32, predx4) -> () {
block0(v0: b64, v1: b32x4, v2: b32, v3: predx4):
  update.b32x4{red.u32{op:add space:shared}} v0, v1, v2  ; 5
  update.b32x4{red.u32{op:add space:global}} v0, v1, v2, v3  ; 6
  ret
}
",
    );
    for (_, target) in targets() {
        let code = margay_x64::compile(&function, &target).unwrap();
        let lanes = |number: u64| -> Vec<Option<u32>> {
            let places = code.places.iter().filter(|place| place.place == number);
            let lane = places.map(|place| match place.cause {
                Cause::Access {
                    first, lanes: 1, ..
                } => Some(first),
                _ => None,
            });
            lane.collect()
        };
        assert_eq!(lanes(5), [Some(0), Some(1), Some(2), Some(3)]);
        // The number of the lane is in a register.
        assert_eq!(lanes(6), [None]);
        let counted = |place: &&Place| matches!(place.cause, Cause::Loop { bytes: 4, .. });
        assert_eq!(code.places.iter().filter(counted).count(), 1);
    }
}

#[test]
fn a_function_with_many_updates_has_loops() {
    let update = "  update.b32x32{red.u32{op:add space:shared}} v0, v1, v2\n";
    let text = format!(
        "func @many(b64, b32x32, b32) -> () {{\nblock0(v0: b64, v1: b32x32, v2: b32):\n{}  ret\n}}\n",
        update.repeat(100)
    );
    let function = parsed(&text);
    for (_, target) in targets() {
        let code = margay_x64::compile(&function, &target).unwrap();
        assert_eq!(code.places.len(), 64 * 32 + 36);
    }
}
