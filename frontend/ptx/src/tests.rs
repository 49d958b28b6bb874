//! Unit tests of the matcher, which finds the form that an instruction matches. The test
//! `frontend/ptx/tests/forms.rs` compares the syntax table with recorded results of ptxas.

use super::*;
use margay_ops::mods::{MemOrder, Rounding, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;

fn forms() -> Forms {
    Forms::new(Version::new(8, 5), Target::parse("sm_80").unwrap())
}

fn shapes(top: &[OperandShape]) -> OperandShapes {
    OperandShapes {
        top: top.iter().copied().collect(),
        nested: Vec::new(),
        narrow: false,
    }
}

const R: OperandShape = OperandShape::Register(OpType::B32);
const F: OperandShape = OperandShape::Register(OpType::F32);
const D: OperandShape = OperandShape::Register(OpType::U64);

#[test]
fn modifiers_may_come_in_any_order() {
    for spelled in ["add.rz.ftz.f32", "add.ftz.rz.f32", "add.f32.ftz.rz"] {
        let matched = forms().instruction(spelled, &shapes(&[F, F, F])).unwrap();
        let desc = matched.get().desc;
        assert_eq!(desc.opcode, Opcode::Add);
        assert_eq!(desc.ty, OpType::F32);
        assert_eq!(desc.mods.rounding(), Rounding::Rz);
        assert!(desc.mods.ftz() && !desc.mods.sat());
    }
}

#[test]
fn loads_tell_space_order_and_width() {
    let mut operands = shapes(&[
        OperandShape::Vector(Nested { start: 0, len: 2 }),
        OperandShape::MemoryRegister(OpType::B64),
    ]);
    operands.nested = vec![F, F];
    let matched = forms()
        .instruction("ld.relaxed.gpu.global.v2.f32", &operands)
        .unwrap();
    let mods = matched.get().desc.mods;
    assert_eq!(mods.space(), StateSpace::Global);
    assert_eq!(mods.order(), MemOrder::Relaxed);
    assert_eq!(mods.vec(), 2);
}

#[test]
fn errors_point_at_what_is_wrong() {
    let mut forms = forms();
    let mut kind = |spelled: &str, operands: &[OperandShape]| {
        forms
            .instruction(spelled, &shapes(operands))
            .unwrap_err()
            .kind
    };
    assert_eq!(kind("addd.s32", &[R, R, R]), FormErrorKind::UnknownOpcode);
    assert_eq!(
        kind("add.int", &[R, R, R]),
        FormErrorKind::UnknownModifier(0)
    );
    assert_eq!(
        kind("add.s32.approx", &[R, R, R]),
        FormErrorKind::IllegalModifier(1)
    );
    assert_eq!(
        kind("add.s32", &[R, R]),
        FormErrorKind::OperandCount { least: 3, most: 3 }
    );
    assert_eq!(kind("add.s32", &[R, R, D]), FormErrorKind::Operand(2));
    assert_eq!(
        kind("fma.f32", &[F, F, F, F]),
        FormErrorKind::MissingModifier
    );
    assert_eq!(kind("add", &[R, R, R]), FormErrorKind::MissingType);
    assert_eq!(kind("vote.any.pred", &[R, R]), FormErrorKind::Withdrawn);
    assert!(matches!(
        kind("elect.sync", &[R, R]),
        FormErrorKind::Target(_)
    ));
    assert_eq!(
        kind(
            "ld.shared.u32",
            &[R, OperandShape::MemorySymbol(StateSpace::Global)]
        ),
        FormErrorKind::StateSpace(1)
    );
    assert_eq!(
        kind("bar.sync", &[OperandShape::Int(16)]),
        FormErrorKind::Range(0)
    );
}
