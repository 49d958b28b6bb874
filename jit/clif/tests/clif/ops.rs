//! The ops that create, move and combine lanes, for all kinds and numbers of lanes.

use margay_ir::entity::Value;
use margay_ir::parse::{cursor::Cursor, desc};
use margay_ops::types::{Kind, OpType, Type};
use margay_vir::builder::Builder;
use margay_vir::data::Data;
use margay_vir::function::Function;
use margay_vir::meaning::Lanes;
use margay_vir::ops::{Op, Types};

use crate::native::Program;
use crate::support::{Machine, Numbers, checked, equal, interpreted};

/// The ops that this module tests, which are those with a reference function.
pub(crate) fn ops() -> impl Iterator<Item = Op> {
    let ops = Op::ALL.iter().copied();
    ops.filter(|op| op.row().meaning.is_some() && *op != Op::Reduce)
}

/// Returns the kinds that the type of an op may have.
pub(crate) fn kinds(op: Op) -> Vec<Kind> {
    let is_permitted = |kind: &Kind| match op.row().types {
        Types::Masks => *kind == Kind::Pred,
        Types::Integers => matches!(kind, Kind::B8 | Kind::B16 | Kind::B32 | Kind::B64),
        _ => true,
    };
    Kind::ALL.into_iter().filter(is_permitted).collect()
}

/// Returns the type of an operand with a letter of the op table, or `None` if there is none.
pub(crate) fn operand_type(letter: char, ty: Type) -> Option<Type> {
    let vector = |kind, lanes| Type::vector(kind, lanes);
    match letter {
        't' => Some(ty),
        'e' => Some(Type::scalar(ty.kind())),
        'h' if ty.lanes() > 1 => vector(ty.kind(), ty.lanes() / 2),
        'd' => vector(ty.kind(), ty.lanes() * 2),
        'm' => vector(Kind::Pred, ty.lanes()),
        'i' => vector(Kind::B32, ty.lanes()),
        'q' => Some(Type::B64),
        _ => None,
    }
}

/// Returns numbers that the data of an op may be.
pub(crate) fn data(op: Op, ty: Type, numbers: &mut Numbers) -> Vec<Data> {
    let lanes = ty.lanes() as usize;
    let bits = numbers.value(ty.kind()) as u64;
    match op {
        Op::Const => vec![Data::Number(bits), Data::Number(0)],
        Op::Affine => [0, 1, 3, u64::MAX, 1 << 40].map(Data::Number).into(),
        Op::Extract | Op::Insert => {
            let middle = numbers.below(lanes) as u64;
            vec![Data::Number(middle), Data::Number(lanes as u64 - 1)]
        }
        Op::Half => vec![Data::Number(0), Data::Number(1)],
        _ => vec![Data::Nothing],
    }
}

/// Appends an op for each of its data, if it has such operands, and returns the results.
fn append(b: &mut Builder<'_>, op: Op, ty: Type, numbers: &mut Numbers) -> Vec<Value> {
    let types: Option<Vec<Type>> = op
        .row()
        .operands
        .chars()
        .map(|letter| operand_type(letter, ty))
        .collect();
    let Some(types) = types else {
        return Vec::new();
    };
    let entry = b.function.entry();
    let mut results = Vec::new();
    for data in data(op, ty, numbers) {
        let args: Vec<Value> = types
            .iter()
            .map(|&ty| {
                b.function.signature.params.push(ty);
                b.function.append_param(entry, ty)
            })
            .collect();
        results.push(b.value(op, ty, data, &args));
    }
    results
}

/// Compares a function that returns `values` with the interpreter.
fn compare(mut function: Function, values: &[Value], level: &str, numbers: &mut Numbers) {
    function.signature.returns = values.iter().map(|&value| function.ty(value)).collect();
    let function = checked(function);
    let native = Program::with(&function, &[], (true, level));
    for _ in 0..6 {
        let params = &function.signature.params;
        let args: Vec<Lanes> = params.iter().map(|&ty| numbers.lanes(ty)).collect();
        let mut machine = Machine::new(0, Vec::new());
        let expected = interpreted(&function, &args, &mut machine).unwrap();
        let actual = native.run(&args);
        let types = function.signature.returns.iter();
        for ((expected, actual), ty) in expected.iter().zip(&actual).zip(types) {
            let of = match ty.kind() {
                Kind::F32 => OpType::F32,
                Kind::F64 => OpType::F64,
                _ => OpType::None,
            };
            let mut pairs = expected.iter().zip(actual);
            assert!(
                pairs.all(|(&a, &b)| equal(of, ty.kind(), a, b)),
                "{actual:x?}, expected {expected:x?}\nof {args:x?}\n{function}"
            );
        }
    }
}

#[test]
fn ops_without_memory_have_the_results_of_the_interpreter() {
    let mut numbers = Numbers(3);
    for log2 in 0..7 {
        for kind in Kind::ALL {
            let ty = Type::vector(kind, 1 << log2).unwrap();
            let mut function = Function::default();
            let mut b = Builder::new(&mut function);
            let values: Vec<Value> = ops()
                .filter(|&op| kinds(op).contains(&kind))
                .flat_map(|op| append(&mut b, op, ty, &mut numbers))
                .collect();
            b.ret(&values);
            let level = if log2 % 2 == 0 { "speed" } else { "none" };
            compare(function, &values, level, &mut numbers);
        }
    }
}

/// Operations with two operands and a result of one kind: those with vector code, with scalar code, and without code.
const COMBINATIONS: &[(&str, Kind)] = &[
    ("and.pred", Kind::Pred),
    ("xor.pred", Kind::Pred),
    ("xor.b8", Kind::B8),
    ("max.s16", Kind::B16),
    ("add.f16{rn}", Kind::B16),
    ("add.u32", Kind::B32),
    ("rem.s32", Kind::B32),
    ("min.u64", Kind::B64),
    ("add.f32{rn}", Kind::F32),
    ("mul.f32{rn ftz}", Kind::F32),
    ("add.f32{rp}", Kind::F32),
    ("max.f32", Kind::F32),
    ("div.f64{rz}", Kind::F64),
    ("add.f64{rn}", Kind::F64),
];

#[test]
fn reductions_combine_lanes_in_the_order_of_the_interpreter() {
    let mut numbers = Numbers(4);
    for log2 in 0..7 {
        let mut function = Function::default();
        let mut b = Builder::new(&mut function);
        let entry = b.function.entry();
        let values: Vec<Value> = COMBINATIONS
            .iter()
            .map(|&(text, kind)| {
                let desc = desc(&mut Cursor::new(text)).unwrap();
                let ty = Type::vector(kind, 1 << log2).unwrap();
                b.function.signature.params.push(ty);
                let param = b.function.append_param(entry, ty);
                b.value(Op::Reduce, ty, Data::Lane(desc), &[param])
            })
            .collect();
        b.ret(&values);
        compare(function, &values, "speed", &mut numbers);
    }
}

#[test]
fn masks_of_two_lanes_have_no_further_lanes() {
    // The masks are computed, so that the lanes of the registers beyond the second are true where a wrong program would
    // use them.
    let text = "func @f(predx2, b32x2) -> (b64, pred, pred, b32, b32, b64, b32, b32x2, b32x2) {
block0(v0: predx2, v1: b32x2):
  v2: predx2 = map.predx2{not.pred} v0
  v3: b64 = ballot.predx2 v2
  v4: pred = any.predx2 v2
  v5: pred = all.predx2 v2
  v6: b32 = count.predx2 v2
  v7: b32 = first.predx2 v2
  v8: predx2 = const.predx2{0x1}
  v9: b64 = ballot.predx2 v8
  v10: b32 = count.predx2 v8
  v11: b32x2 = compress.b32x2 v1, v2
  v12: b32x2 = expand.b32x2 v1, v2
  ret v3, v4, v5, v6, v7, v9, v10, v11, v12
}
";
    let function = crate::support::parsed(text);
    let native = Program::new(&function, &[]);
    for mask in [[0, 0], [0, 1], [1, 0], [1, 1]] {
        let args: [Lanes; 2] = [mask.as_slice().into(), [7, 8].as_slice().into()];
        let mut machine = Machine::new(0, Vec::new());
        let expected = interpreted(&function, &args, &mut machine).unwrap();
        assert_eq!(native.run(&args), expected, "{mask:?}");
    }
}
