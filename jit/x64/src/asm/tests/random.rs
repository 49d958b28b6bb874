//! Random instructions, most of which do not exist: nothing panics, and what is encoded decodes to the same.

use proptest::prelude::*;

use super::check;
use super::rows::context;
use crate::asm::encode::{encode, encode_as};
use crate::asm::{
    Asm, Base, Cond, Constant, Features, Gpr, Inst, Label, Mask, Mem, Op, Operand, Rounding, Scale,
    Symbol, Width, Zmm,
};

fn scale() -> impl Strategy<Value = Scale> {
    prop::sample::select(vec![Scale::X1, Scale::X2, Scale::X4, Scale::X8])
}

fn disp() -> impl Strategy<Value = i32> {
    prop_oneof![
        Just(0),
        -200..200,
        (-200..200i32).prop_map(|x| x * 64),
        any::<i32>()
    ]
}

fn memory() -> impl Strategy<Value = Mem> {
    let base = prop_oneof![
        1 => Just(Base::None),
        6 => (0..17u8).prop_map(|n| Base::Gpr(Gpr(n))),
        1 => Just(Base::Label(Label(0))),
        1 => Just(Base::Symbol(Symbol(3))),
        1 => Just(Base::Constant(Constant(0))),
    ];
    let index = prop_oneof![
        3 => Just(None),
        3 => (0..17u8, scale()).prop_map(|(n, scale)| Some(Mem::base(Gpr(0)).index(Gpr(n), scale).index)),
        1 => (0..33u8, scale()).prop_map(|(n, scale)| Some(Mem::base(Gpr(0)).lanes(Zmm(n), scale).index)),
    ];
    (base, index, disp(), prop::bool::weighted(0.2)).prop_map(|(base, index, disp, broadcast)| {
        let mem = Mem::at(base).disp(disp);
        Mem {
            index: index.unwrap_or(mem.index),
            broadcast,
            ..mem
        }
    })
}

fn operand() -> impl Strategy<Value = Operand> {
    let number = prop_oneof![-129i64..260, any::<i64>(), any::<i32>().prop_map(i64::from)];
    prop_oneof![
        1 => Just(Operand::None),
        4 => (0..18u8).prop_map(|n| Gpr(n).into()),
        6 => (0..34u8).prop_map(|n| Zmm(n).into()),
        2 => (0..9u8).prop_map(|n| Mask(n).into()),
        4 => memory().prop_map(Operand::from),
        3 => number.prop_map(Operand::from),
        1 => prop::sample::select(Cond::ALL.to_vec()).prop_map(Operand::from),
        1 => Just(Label(0).into()),
    ]
}

/// An instruction whose operands have the classes of the operation, most of the time.
fn instruction() -> impl Strategy<Value = Inst> {
    let op = prop::sample::select(Op::ALL.to_vec());
    let width = prop::sample::select(Width::ALL.to_vec());
    let mask = prop_oneof![3 => Just(0u8), 2 => 1..9u8];
    let rounding = prop_oneof![
        4 => Just(Rounding::Mxcsr),
        1 => prop::sample::select(vec![Rounding::Nearest, Rounding::Down, Rounding::Up, Rounding::Zero, Rounding::SuppressOnly]),
    ];
    let operands = prop::collection::vec((operand(), 0..32u8, any::<bool>()), 4);
    let options = (
        mask,
        prop::bool::weighted(0.2),
        rounding,
        prop::bool::weighted(0.1),
    );
    (op, width, operands, options).prop_map(
        |(op, width, operands, (mask, zeroing, rounding, lock))| {
            let mut inst = Inst::new(op, width, &operands.iter().map(|x| x.0).collect::<Vec<_>>());
            let slots = op.slots(width).iter().filter(|x| x.implied().is_none());
            let stated = slots.clone().count();
            if operands[0].2 || operands[1].2 {
                for (n, slot) in slots.enumerate() {
                    let number = operands[n].1;
                    inst.operands[n] = match slot.class() {
                        Some(crate::asm::Class::Gpr) => Gpr(number % 16).into(),
                        Some(crate::asm::Class::Vector) => Zmm(number).into(),
                        Some(crate::asm::Class::Mask) => Mask(number % 8).into(),
                        None => inst.operands[n],
                    };
                }
                inst.operands[stated..].fill(Operand::None);
            }
            Inst {
                mask: Mask(mask),
                zeroing,
                rounding,
                lock,
                ..inst
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn instructions_encode_to_themselves_or_not_at_all(inst in instruction()) {
        let Ok(encoded) = encode(&inst, &context()) else { return Ok(()) };
        let bytes = &encoded.bytes[..encoded.len];
        let rows = inst.op.rows().iter().filter(|row| {
            encode_as(row, &inst, &context()).is_ok_and(|x| &x.bytes[..x.len] == bytes)
        });
        let problems: Vec<String> = rows.filter_map(|row| check::check(row, &inst, bytes).err()).collect();
        prop_assert_eq!(problems, Vec::<String>::new());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn sequences_never_panic(list in prop::collection::vec(instruction(), 0..20), features in 0..4u8) {
        let features = [Features::NONE, Features::BASE_AVX2, Features::BASE_AVX512, Features::ALL][usize::from(features)];
        let mut asm = Asm::new(features);
        let label = asm.label();
        asm.constant(&[1, 2]).unwrap();
        let mut sizes = Vec::new();
        for inst in &list {
            let before = asm.position();
            match asm.emit(inst) {
                Ok(()) => sizes.push(asm.position() - before),
                Err(_) => prop_assert_eq!(asm.position(), before),
            }
        }
        asm.bind(label).unwrap();
        let done = asm.finish().unwrap();
        let mut at = 0;
        for size in sizes {
            check::decode(&done.bytes[at..at + size as usize]).map_err(TestCaseError::fail)?;
            at += size as usize;
        }
        prop_assert_eq!(at, done.code_size as usize);
    }
}
