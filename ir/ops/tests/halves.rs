//! Tests that the conversions of 16-bit formats without branches return the results of `cvt`, which
//! `float_oracle.rs` tests.

use margay_ops::meaning::approx::{Host, halves};
use margay_ops::meaning::{Bits, Desc, Meaning};
use margay_ops::mods::{Mods, Rounding};
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;

fn cvt(ty: OpType, src: OpType, bits: Bits) -> u32 {
    let opcode = Opcode::Cvt;
    let Meaning::Pure(meaning) = opcode.meaning() else {
        panic!("cvt has no meaning")
    };
    let mods = Mods::NONE.with_rounding(Rounding::Rn);
    let mut out = [0];
    meaning(
        &Desc {
            opcode,
            ty,
            src,
            mods,
        },
        &[bits],
        &mut out,
    );
    out[0] as u32
}

#[test]
fn widening_agrees_on_every_encoding() {
    for bits in 0..1 << 16 {
        let half = halves::single_of_half(&mut Host, bits);
        assert_eq!(
            half.to_bits(),
            cvt(OpType::F32, OpType::F16, bits as Bits),
            "f16 {bits:#x}"
        );
        let bfloat = halves::single_of_bfloat(&mut Host, bits);
        assert_eq!(
            bfloat.to_bits(),
            cvt(OpType::F32, OpType::BF16, bits as Bits),
            "bf16 {bits:#x}"
        );
    }
}

#[test]
fn narrowing_agrees_around_every_encoding_and_tie() {
    for bits in 0..1u32 << 16 {
        for (ty, value) in [
            (
                OpType::F16,
                halves::single_of_half(&mut Host, bits as i32).to_bits(),
            ),
            (OpType::BF16, bits << 16),
        ] {
            let tie = if ty == OpType::F16 { 1 << 12 } else { 1 << 15 };
            for near in [0, 1, tie - 1, tie, tie + 1, 3 * tie, 2 * tie - 1] {
                for bits in [value.wrapping_add(near), value.wrapping_sub(near)] {
                    let x = f32::from_bits(bits);
                    let got = if ty == OpType::F16 {
                        halves::half_of_single(&mut Host, x)
                    } else {
                        halves::bfloat_of_single(&mut Host, x)
                    };
                    assert_eq!(
                        got as u32,
                        cvt(ty, OpType::F32, bits.into()),
                        "{ty} of {bits:#x}"
                    );
                }
            }
        }
    }
}

#[test]
fn narrowing_agrees_on_subnormal_results() {
    let mut state = 9u64;
    for _ in 0..200_000 {
        state = state
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        // Exponents from 2^-27 to 2^-12.
        let field = 100 + (state >> 60) as u32;
        let bits = field << 23 | (state >> 20) as u32 & 0x007f_ffff | (state as u32 & 1) << 31;
        let got = halves::half_of_single(&mut Host, f32::from_bits(bits));
        assert_eq!(
            got as u32,
            cvt(OpType::F16, OpType::F32, bits.into()),
            "f16 of {bits:#x}"
        );
    }
}

/// Computes `fma.rn.f16` with the reference function of the op.
fn fma(x: u32, y: u32, z: u32) -> u32 {
    let opcode = Opcode::Fma;
    let Meaning::Pure(meaning) = opcode.meaning() else {
        panic!("fma has no meaning")
    };
    let desc = Desc {
        opcode,
        ty: OpType::F16,
        src: OpType::None,
        mods: Mods::NONE.with_rounding(Rounding::Rn),
    };
    let mut out = [0];
    meaning(&desc, &[x, y, z].map(Bits::from), &mut out);
    out[0] as u32
}

#[test]
fn fused_products_are_rounded_once() {
    let one = |x: u32, y: u32, z: u32| {
        let [a, b, c] = [x, y, z].map(|bits| halves::single_of_half(&mut Host, bits as i32));
        let value = halves::fused_to_odd(&mut Host, a, b, c);
        let got = halves::half_of_single(&mut Host, value) as u32;
        assert_eq!(got, fma(x, y, z), "{x:#x} * {y:#x} + {z:#x}");
    };
    let special = [
        0, 0x8000, 1, 0x8001, 0x3ff, 0x400, 0x8400, 0x3c00, 0xbc00, 0x3c01, 0x7bff, 0xfbff, 0x7c00,
        0xfc00, 0x7fff, 0x7e01, 0x1400, 0x2bff, 0x5801,
    ];
    for x in special {
        for y in special {
            for z in special {
                one(x, y, z);
            }
        }
    }
    // Two kinds of operands are tested: operands whose sum would be a tie without the smallest addend, and random
    // operands.
    let mut state = 5u64;
    for _ in 0..400_000 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let [x, y] = [state >> 16 & 0xffff, state >> 32 & 0xffff].map(|bits| bits as u32);
        let z = (state >> 48) as u32;
        one(x, y, z);
        one(x, y, z & 0x8003);
        one(x | 0x400, y & 0xff80, z & 0x83ff);
    }
}
