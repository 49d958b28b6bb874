//! Instructions that do not exist.

use crate::asm::{
    Asm, Base, Cond, Error, Features, Gpr, Inst, Mask, Mem, Op, Operand, Reason, Rounding, Scale,
    Width, Zmm,
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
    let all = Features::ALL;
    let add = vectors(Op::Vaddps, L512, [0, 1, 2]);
    assert_eq!(
        emit(
            all,
            Inst {
                zeroing: true,
                ..add
            }
        ),
        Err(Reason::Zeroing)
    );
    assert_eq!(emit(all, add.masked(Mask(8))), Err(Reason::Mask));
    assert_eq!(
        emit(all, add.rounded(Rounding::SuppressOnly)),
        Err(Reason::Rounding)
    );
    assert_eq!(
        emit(
            all,
            vectors(Op::Vmaxps, L512, [0, 1, 2]).rounded(Rounding::Up)
        ),
        Err(Reason::Rounding)
    );
    assert_eq!(
        emit(
            all,
            vectors(Op::Vaddps, L256, [0, 1, 2]).rounded(Rounding::Up)
        ),
        Err(Reason::Rounding)
    );
    assert_eq!(
        emit(
            all,
            vectors(Op::Vaddss, L128, [0, 1, 2]).rounded(Rounding::Up)
        ),
        Ok(())
    );
    let memory = [Zmm(0).into(), Zmm(1).into(), Mem::base(Gpr(0)).into()];
    assert_eq!(
        emit(
            all,
            Inst::new(Op::Vaddps, L512, &memory).rounded(Rounding::Up)
        ),
        Err(Reason::Rounding)
    );
    assert_eq!(emit(all, add.locked()), Err(Reason::Lock));
    let store = Inst::new(
        Op::VmovupsStore,
        L512,
        &[Mem::base(Gpr(0)).into(), Zmm(1).into()],
    );
    assert_eq!(emit(all, store.masked(Mask(1))), Ok(()));
    assert_eq!(emit(all, store.zeroed(Mask(1))), Err(Reason::Zeroing));
    let compare = [Mask(1).into(), Zmm(1).into(), Zmm(2).into(), 0.into()];
    let compare = Inst::new(Op::Vpcmpd, L512, &compare);
    assert_eq!(emit(all, compare.masked(Mask(1))), Ok(()));
    assert_eq!(emit(all, compare.zeroed(Mask(1))), Err(Reason::Zeroing));
    let bytes = [
        Zmm(0).into(),
        Zmm(1).into(),
        Mem::base(Gpr(0)).broadcast().into(),
    ];
    assert_eq!(
        emit(all, Inst::new(Op::Vpaddb, L512, &bytes)),
        Err(Reason::Broadcast)
    );
    let count = Inst::new(Op::Add, W64, &[Gpr(0).into(), Gpr(1).into()]);
    assert_eq!(emit(all, count.locked()), Err(Reason::Lock));
    assert_eq!(emit(all, count.masked(Mask(1))), Err(Reason::Mask));
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

#[test]
fn operands_must_fit() {
    let all = Features::ALL;
    let add = |width, operands: &[Operand]| emit(all, Inst::new(Op::Add, width, operands));
    assert_eq!(
        add(W64, &[Gpr(0).into(), 0x8000_0000i64.into()]),
        Err(Reason::Field(1))
    );
    assert_eq!(
        add(
            W64,
            &[Gpr(0).into(), 0xffff_ffff_8000_0000u64.cast_signed().into()]
        ),
        Ok(())
    );
    assert_eq!(add(W32, &[Gpr(0).into(), 0xffff_ffffi64.into()]), Ok(()));
    assert_eq!(
        add(W32, &[Gpr(0).into(), 0x1_0000_0000i64.into()]),
        Err(Reason::Field(1))
    );
    assert_eq!(
        add(W16, &[Gpr(1).into(), 0x1_0000.into()]),
        Err(Reason::Field(1))
    );
    assert_eq!(
        add(W8, &[Gpr(1).into(), 0x100.into()]),
        Err(Reason::Field(1))
    );
    assert_eq!(
        add(W8, &[Gpr(1).into(), (-0x81).into()]),
        Err(Reason::Field(1))
    );
    assert_eq!(
        add(W64, &[Gpr(16).into(), Gpr(1).into()]),
        Err(Reason::Field(0))
    );
    assert_eq!(
        add(W64, &[Gpr(1).into(), Gpr(255).into()]),
        Err(Reason::Field(1))
    );
    assert_eq!(add(W64, &[Gpr(1).into()]), Err(Reason::Count));
    assert_eq!(add(W64, &[1.into(), Gpr(1).into()]), Err(Reason::Kind(0)));
    assert_eq!(
        add(W64, &[Gpr(1).into(), Zmm(1).into()]),
        Err(Reason::Kind(1))
    );
    assert_eq!(
        add(W64, &[Gpr(1).into(), Gpr(1).into(), Gpr(1).into()]),
        Err(Reason::Count)
    );
    assert_eq!(
        add(L128, &[Gpr(1).into(), Gpr(1).into()]),
        Err(Reason::Width)
    );
    let two = Mem::base(Gpr(0));
    assert_eq!(add(W64, &[two.into(), two.into()]), Err(Reason::Kind(1)));
    for bad in [
        Mem::base(Gpr(16)),
        Mem::base(Gpr(0)).index(Gpr::RSP, Scale::X1),
        Mem::base(Gpr(0)).index(Gpr(16), Scale::X1),
        Mem::base(Gpr(0)).lanes(Zmm(1), Scale::X1),
    ] {
        assert_eq!(
            add(W64, &[Gpr(0).into(), bad.into()]),
            Err(Reason::Field(1)),
            "{bad:?}"
        );
    }
    let mut asm = Asm::new(all);
    let constant = Base::Constant(asm.constant(&[0; 8]).unwrap());
    let indexed = Mem::at(constant).index(Gpr(1), Scale::X1);
    let add = Inst::new(Op::Add, W64, &[Gpr(0).into(), indexed.into()]);
    assert!(asm.emit(&add).is_err());
    let set = [Gpr(0).into(), Cond::E.into()];
    assert_eq!(
        emit(all, Inst::new(Op::Setcc, W8, &set)),
        Err(Reason::Kind(0))
    );
    let round = [Zmm(0).into(), Zmm(1).into(), 16.into()];
    let round = Inst::new(Op::Vrndscaleps, L256, &round);
    assert_eq!(emit(Features::BASE_AVX512, round), Ok(()));
    assert_eq!(
        emit(Features::BASE_AVX2, round),
        Err(Reason::Features(Features::AVX512F.with(Features::AVX512VL)))
    );
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
