//! Instructions that do not exist.

use crate::asm::{
    Asm, Cond, Error, Features, Gpr, Inst, Mask, Mem, Op, Operand, Reason, Rounding, Scale, Width,
    Zmm,
};

use Width::{L128, L256, L512, W8, W16, W32, W64};

fn emit(features: Features, inst: Inst) -> Result<(), Reason> {
    let mut asm = Asm::new(features);
    let label = asm.label();
    asm.bind(label).unwrap();
    match asm.emit(&inst) {
        Ok(()) => Ok(()),
        Err(Error::Instruction { op, width, reason }) => {
            assert_eq!((op, width), (inst.op, inst.width));
            assert_eq!(asm.position(), 0);
            Err(reason)
        }
        Err(other) => panic!("{other}"),
    }
}

fn vectors(op: Op, width: Width, numbers: [u8; 3]) -> Inst {
    Inst::new(op, width, &numbers.map(|n| Zmm(n).into()))
}

#[test]
fn vex_has_sixteen_registers_and_no_masks() {
    let avx2 = Features::BASE_AVX2;
    let evex = Reason::Features(Features::AVX512F.with(Features::AVX512VL));
    let wide = Reason::Features(Features::AVX512F);
    let add = |width, numbers| vectors(Op::Vaddps, width, numbers);
    assert_eq!(emit(avx2, add(L256, [15, 15, 15])), Ok(()));
    assert_eq!(emit(avx2, add(L256, [16, 0, 0])), Err(evex));
    assert_eq!(emit(avx2, add(L256, [0, 31, 0])), Err(evex));
    assert_eq!(emit(avx2, add(L256, [0, 0, 16])), Err(evex));
    assert_eq!(emit(avx2, add(L256, [0, 0, 0]).masked(Mask(1))), Err(evex));
    assert_eq!(emit(avx2, add(L512, [0, 0, 0])), Err(wide));
    let broadcast = [
        Zmm(0).into(),
        Zmm(1).into(),
        Mem::base(Gpr(0)).broadcast().into(),
    ];
    assert_eq!(
        emit(avx2, Inst::new(Op::Vaddps, L256, &broadcast)),
        Err(evex)
    );
    // Instructions that only VEX encodes.
    let blend = [0, 1, 2, 16].map(|n| Zmm(n).into());
    assert_eq!(
        emit(Features::ALL, Inst::new(Op::Vpblendvb, L256, &blend)),
        Err(Reason::Field(3))
    );
    let blend = [0, 1, 2, 3].map(|n| Zmm(n).into());
    let blend = Inst::new(Op::Vpblendvb, L256, &blend);
    assert_eq!(emit(Features::ALL, blend), Ok(()));
    assert_eq!(
        emit(Features::ALL, blend.masked(Mask(1))),
        Err(Reason::Mask)
    );
    assert_eq!(
        emit(
            Features::ALL,
            Inst {
                width: L512,
                ..blend
            }
        ),
        Err(Reason::Width)
    );
}

#[test]
fn features_limit_instructions() {
    let only = |feature| Err(Reason::Features(feature));
    let base = Features::BASE_AVX512;
    let compress = Inst::new(Op::Vpcompressb, L512, &[Zmm(1).into(), Zmm(2).into()]);
    let needed = Features::AVX512VBMI2.with(Features::AVX512F);
    assert_eq!(emit(base, compress), only(needed));
    assert_eq!(emit(base.with(needed), compress), Ok(()));
    assert_eq!(
        emit(Features::AVX, vectors(Op::Vpaddd, L256, [0, 1, 2])),
        only(Features::AVX512F.with(Features::AVX512VL))
    );
    assert_eq!(
        emit(Features::AVX, vectors(Op::Vpaddd, L128, [0, 1, 2])),
        Ok(())
    );
    let shift = Inst::new(
        Op::Shlx,
        W64,
        &[Gpr(0).into(), Gpr(1).into(), Gpr(2).into()],
    );
    assert_eq!(emit(Features::NONE, shift), only(Features::BMI2));
    // Not a longer encoding that the target lacks, although it has a shorter displacement.
    let far = [
        Zmm(0).into(),
        Zmm(1).into(),
        Mem::base(Gpr(0)).disp(0x200).into(),
    ];
    assert_eq!(
        emit(Features::BASE_AVX2, Inst::new(Op::Vpaddd, L256, &far)),
        Ok(())
    );
    assert!(Op::Vpaddd.exists(L256, Features::BASE_AVX2));
    assert!(!Op::Vpminsq.exists(L256, Features::BASE_AVX2));
    assert!(!Op::Vpaddd.exists(L512, Features::BASE_AVX2));
}

#[test]
fn options_require_rows_that_allow_them() {
    let add = vectors(Op::Vaddps, L512, [0, 1, 2]);
    let operands = [Zmm(0).into(), Zmm(1).into(), Mem::base(Gpr(0)).into()];
    let memory = Inst::new(Op::Vaddps, L512, &operands);
    let operands = [
        Zmm(0).into(),
        Zmm(1).into(),
        Mem::base(Gpr(0)).broadcast().into(),
    ];
    let bytes = Inst::new(Op::Vpaddb, L512, &operands);
    let store = Inst::new(
        Op::VmovupsStore,
        L512,
        &[Mem::base(Gpr(0)).into(), Zmm(1).into()],
    );
    let operands = [Mask(1).into(), Zmm(1).into(), Zmm(2).into(), 0.into()];
    let compare = Inst::new(Op::Vpcmpd, L512, &operands);
    let count = Inst::new(Op::Add, W64, &[Gpr(0).into(), Gpr(1).into()]);
    let half = Inst { width: L256, ..add };
    let max = Inst {
        op: Op::Vmaxps,
        ..add
    };
    let scalar = vectors(Op::Vaddss, L128, [0, 1, 2]);
    let cases = [
        (
            Inst {
                zeroing: true,
                ..add
            },
            Err(Reason::Zeroing),
        ),
        (add.masked(Mask(8)), Err(Reason::Mask)),
        (add.rounded(Rounding::Up), Ok(())),
        (add.rounded(Rounding::SuppressOnly), Err(Reason::Rounding)),
        (max.rounded(Rounding::SuppressOnly), Ok(())),
        (max.rounded(Rounding::Up), Err(Reason::Rounding)),
        (half.rounded(Rounding::Up), Err(Reason::Rounding)),
        (scalar.rounded(Rounding::Up), Ok(())),
        (memory.rounded(Rounding::Up), Err(Reason::Rounding)),
        (add.locked(), Err(Reason::Lock)),
        (store.masked(Mask(1)), Ok(())),
        (store.zeroed(Mask(1)), Err(Reason::Zeroing)),
        (compare.masked(Mask(1)), Ok(())),
        (compare.zeroed(Mask(1)), Err(Reason::Zeroing)),
        (bytes, Err(Reason::Broadcast)),
        (count.locked(), Err(Reason::Lock)),
        (count.masked(Mask(1)), Err(Reason::Mask)),
    ];
    for (inst, expected) in cases {
        assert_eq!(emit(Features::ALL, inst), expected, "{inst:?}");
    }
}

#[test]
fn gathers_require_masks_and_distinct_registers() {
    let all = Features::ALL;
    let gather = |to, index| {
        let mem = Mem::base(Gpr(0)).lanes(Zmm(index), Scale::X4);
        Inst::new(Op::Vpgatherdd, L512, &[Zmm(to).into(), mem.into()])
    };
    assert_eq!(emit(all, gather(1, 2)), Err(Reason::Mask));
    assert_eq!(emit(all, gather(1, 2).masked(Mask(1))), Ok(()));
    assert_eq!(
        emit(all, gather(2, 2).masked(Mask(1))),
        Err(Reason::Overlap)
    );
    assert_eq!(
        emit(all, gather(1, 2).zeroed(Mask(1))),
        Err(Reason::Zeroing)
    );
    let vector = |to, index, mask| {
        let mem = Mem::base(Gpr(0)).lanes(Zmm(index), Scale::X4);
        Inst::new(
            Op::VpgatherddVector,
            L256,
            &[Zmm(to).into(), mem.into(), Zmm(mask).into()],
        )
    };
    assert_eq!(emit(all, vector(1, 2, 3)), Ok(()));
    for [to, index, mask] in [[1, 1, 2], [1, 2, 1], [1, 2, 2]] {
        assert_eq!(emit(all, vector(to, index, mask)), Err(Reason::Overlap));
    }
    let scatter = [
        Mem::base(Gpr(0)).lanes(Zmm(1), Scale::X4).into(),
        Zmm(1).into(),
    ];
    assert_eq!(
        emit(
            all,
            Inst::new(Op::Vpscatterdd, L512, &scatter).masked(Mask(1))
        ),
        Ok(())
    );
    let scalar = [
        Zmm(1).into(),
        Mem::base(Gpr(0)).index(Gpr(1), Scale::X4).into(),
    ];
    assert_eq!(
        emit(
            all,
            Inst::new(Op::Vpgatherdd, L512, &scalar).masked(Mask(1))
        ),
        Err(Reason::Field(1))
    );
}

fn add(width: Width, operands: &[Operand]) -> Result<(), Reason> {
    emit(Features::ALL, Inst::new(Op::Add, width, operands))
}

#[test]
fn numbers_must_fit_as_signed_or_unsigned() {
    let cases = [
        (W64, 0x7fff_ffff, true),
        (W64, 0x8000_0000, false),
        (W64, -0x8000_0000, true),
        (W64, -0x8000_0001, false),
        (W32, 0xffff_ffff, true),
        (W32, 0x1_0000_0000, false),
        (W32, -0x8000_0001, false),
        (W16, 0xffff, true),
        (W16, 0x1_0000, false),
        (W8, 0xff, true),
        (W8, 0x100, false),
        (W8, -0x81, false),
    ];
    for register in [Gpr(0), Gpr(1)] {
        for (width, number, fits) in cases {
            let result = add(width, &[register.into(), Operand::Imm(number)]);
            let expected = if fits { Ok(()) } else { Err(Reason::Field(1)) };
            assert_eq!(result, expected, "{width:?} {number:#x}");
        }
    }
}

#[test]
fn operands_must_have_the_kinds_of_a_row() {
    let (low, high): (Operand, Operand) = (Gpr(1).into(), Gpr(16).into());
    let memory: Operand = Mem::base(Gpr(0)).into();
    let cases: [(&[Operand], Reason); 9] = [
        (&[low], Reason::Count),
        (&[low, low, low], Reason::Count),
        (&[low; 5], Reason::Count),
        (&[low, Operand::None, low], Reason::Count),
        (&[1.into(), low], Reason::Kind(0)),
        (&[low, Zmm(1).into()], Reason::Kind(1)),
        (&[memory, memory], Reason::Kind(1)),
        (&[high, low], Reason::Field(0)),
        (&[low, high], Reason::Field(1)),
    ];
    for (operands, reason) in cases {
        assert_eq!(add(W64, operands), Err(reason), "{operands:?}");
    }
    assert_eq!(add(L128, &[low, low]), Err(Reason::Width));
    let set = Inst::new(Op::Setcc, W8, &[low, Cond::E.into()]);
    assert_eq!(emit(Features::ALL, set), Err(Reason::Kind(0)));
    assert_eq!(
        emit(Features::ALL, Inst::new(Op::Ret, W64, &[low; 5])),
        Err(Reason::Count)
    );
    let gap = [Operand::None, Operand::None, Cond::E.into()];
    let gap = Inst::new(Op::Ret, W64, &gap);
    assert_eq!(emit(Features::ALL, gap), Err(Reason::Count));
}

#[test]
fn addresses_must_be_possible() {
    let mut asm = Asm::new(Features::ALL);
    let constant = Mem::from(asm.constant(&[0; 8]).unwrap());
    for bad in [
        Mem::base(Gpr(16)),
        Mem::base(Gpr(0)).index(Gpr::RSP, Scale::X1),
        Mem::base(Gpr(0)).index(Gpr(16), Scale::X1),
        Mem::base(Gpr(0)).lanes(Zmm(1), Scale::X1),
        constant.index(Gpr(1), Scale::X1),
    ] {
        let result = add(W64, &[Gpr(0).into(), bad.into()]);
        assert_eq!(result, Err(Reason::Field(1)), "{bad:?}");
    }
}

#[test]
fn rows_of_an_operation_limit_numbers_differently() {
    let round = |number: i64| {
        let operands = [Zmm(0).into(), Zmm(1).into(), number.into()];
        Inst::new(Op::Vrndscaleps, L256, &operands)
    };
    let evex = Reason::Features(Features::AVX512F.with(Features::AVX512VL));
    assert_eq!(emit(Features::BASE_AVX2, round(15)), Ok(()));
    assert_eq!(emit(Features::BASE_AVX2, round(16)), Err(evex));
    assert_eq!(emit(Features::BASE_AVX512, round(16)), Ok(()));
}

#[test]
fn errors_state_the_facts() {
    let mut asm = Asm::new(Features::BASE_AVX2);
    let error = asm.emit(&vectors(Op::Vaddps, L512, [0, 1, 2])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot encode Vaddps in L512: it requires avx512f"
    );
    let error = asm
        .emit(&vectors(Op::Vpblendd, L256, [0, 1, 2]))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot encode Vpblendd in L256: it has another number of operands"
    );
}
