use iced_x86::{Decoder, Formatter, NasmFormatter};
use margay_x64::asm::{Asm, Cond, Features, Gpr, Inst, Mask, Mem, Op, Rounding, Scale, Width, Zmm};

#[test]
fn instructions_decode_to_what_was_encoded() {
    let mut asm = Asm::new(Features::ALL);
    let (a, b) = (Zmm(1), Zmm(17));
    let mem = Mem::base(Gpr::RSP).index(Gpr(9), Scale::X8).disp(128);
    let l = asm.label();
    asm.bind(l).unwrap();
    for i in [
        Inst::new(Op::Vaddps, Width::L512, &[a.into(), b.into(), mem.into()]).zeroed(Mask(3)),
        Inst::new(
            Op::Vaddps,
            Width::L256,
            &[a.into(), Zmm(2).into(), Zmm(3).into()],
        ),
        Inst::new(Op::Vaddps, Width::L512, &[a.into(), b.into(), b.into()]).rounded(Rounding::Up),
        Inst::new(
            Op::Vpandd,
            Width::L256,
            &[a.into(), a.into(), Mem::base(Gpr(12)).disp(256).into()],
        ),
        Inst::new(
            Op::Vaddps,
            Width::L512,
            &[
                a.into(),
                b.into(),
                Mem::base(Gpr(13)).disp(-4).broadcast().into(),
            ],
        ),
        Inst::new(
            Op::Vpgatherdd,
            Width::L512,
            &[
                a.into(),
                Mem::base(Gpr(13)).lanes(Zmm(31), Scale::X4).into(),
            ],
        )
        .masked(Mask(1)),
        Inst::new(Op::Add, Width::W64, &[Gpr(8).into(), 5.into()]),
        Inst::new(Op::Mov, Width::W64, &[Gpr(8).into(), 5.into()]),
        Inst::new(
            Op::Mov,
            Width::W8,
            &[Gpr(6).into(), Mem::base(Gpr::RBP).into()],
        ),
        Inst::new(
            Op::Kand,
            Width::W16,
            &[Mask(1).into(), Mask(2).into(), Mask(3).into()],
        ),
        Inst::new(Op::Setcc, Width::W8, &[Cond::Le.into(), Gpr(5).into()]),
        Inst::new(Op::Jcc, Width::W64, &[Cond::Le.into(), l.into()]),
    ] {
        asm.emit(&i).unwrap();
    }
    let done = asm.finish().unwrap();
    let mut out = Vec::new();
    let mut f = NasmFormatter::new();
    for i in Decoder::with_ip(64, &done.bytes, 0, 0) {
        let mut s = String::new();
        f.format(&i, &mut s);
        out.push(s);
    }
    assert_eq!(
        out,
        [
            "vaddps zmm1{k3}{z},zmm17,[rsp+r9*8+80h]",
            "vaddps ymm1,ymm2,ymm3",
            "vaddps zmm1,zmm17,zmm17,{ru-sae}",
            "vpandd ymm1,ymm1,[r12+100h]",
            "vaddps zmm1,zmm17,[r13-4]{1to16}",
            "vpgatherdd zmm1{k1},[r13+zmm31*4]",
            "add r8,5",
            "mov r8d,5",
            "mov sil,[rbp]",
            "kandw k1,k2,k3",
            "setle bpl",
            "jle short 0",
        ]
    );
}
