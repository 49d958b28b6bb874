//! Tests of conversions.

use half::{bf16, f16};

use super::{BF16, E4M3, E5M2, F16, Load, Store};

/// Single-precision numbers whose roundings differ: beside each number of 16 bits, and beside the middles.
fn neighbours(bits: u32) -> [f32; 3] {
    [bits.wrapping_sub(1), bits, bits.wrapping_add(1)].map(f32::from_bits)
}

#[test]
fn half_precision_equals_another_implementation() {
    for code in 0..=u16::MAX {
        let (got, want) = (Load::<f32>::load(F16(code)), f16::from_bits(code).to_f32());
        assert!(
            got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()),
            "{code:#x}"
        );
        let (got, want) = (
            Load::<f32>::load(BF16(code)),
            bf16::from_bits(code).to_f32(),
        );
        assert!(
            got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()),
            "{code:#x}"
        );
    }
    for upper in 0..=u16::MAX {
        for lower in [0, 0x1000, 0x2000, 0x3000, 0x7fff, 0x8000, 0xf000] {
            for value in neighbours(u32::from(upper) << 16 | lower) {
                let (got, want) = (F16::store(value), f16::from_f32(value));
                assert!(
                    got.0 == want.to_bits() || (value.is_nan() && f16::from_bits(got.0).is_nan()),
                    "{value:e}"
                );
                let (got, want) = (BF16::store(value), bf16::from_f32(value));
                assert!(
                    got.0 == want.to_bits() || (value.is_nan() && bf16::from_bits(got.0).is_nan()),
                    "{value:e}"
                );
            }
        }
    }
}

#[test]
fn small_formats_have_their_numbers() {
    let e4m3 = |code| Load::<f32>::load(E4M3(code));
    assert_eq!(
        [0x00, 0x01, 0x07, 0x08, 0x38, 0x40, 0x7e, 0xb8].map(e4m3),
        [
            0.0,
            1.0 / 512.0,
            7.0 / 512.0,
            1.0 / 64.0,
            1.0,
            2.0,
            448.0,
            -1.0
        ]
    );
    assert!(e4m3(0x7f).is_nan() && e4m3(0xff).is_nan());
    let e5m2 = |code| Load::<f32>::load(E5M2(code));
    assert_eq!(
        [0x00, 0x01, 0x03, 0x04, 0x3c, 0x7b, 0x7c, 0xfc].map(e5m2),
        [
            0.0,
            1.0 / 65536.0,
            3.0 / 65536.0,
            1.0 / 16384.0,
            1.0,
            57344.0,
            f32::INFINITY,
            f32::NEG_INFINITY
        ]
    );
    assert!((0x7d..=0x7f).all(|code| e5m2(code).is_nan()));
    // E5M2 is the upper half of IEEE half precision.
    for code in 0..=u8::MAX {
        let want = f16::from_bits(u16::from(code) << 8).to_f32();
        assert!(e5m2(code) == want || want.is_nan());
    }
}

/// Checks that each number between the codes of a format rounds to the nearer one, and the middle to the even code.
fn check_rounding(load: impl Fn(u8) -> f32, store: impl Fn(f32) -> u8, largest: u8) {
    for code in 0..largest {
        let (low, high) = (load(code), load(code + 1));
        let middle = (low + high) / 2.0;
        let even = if code % 2 == 0 { code } else { code + 1 };
        let cases = [
            (low, code),
            (high, code + 1),
            (middle, even),
            (middle.next_down(), code),
            (middle.next_up(), code + 1),
        ];
        for (value, want) in cases {
            assert_eq!(store(value), want, "{value:e}");
            assert_eq!(store(-value), want | 0x80, "{value:e}");
        }
    }
    for value in [load(largest) * 1.01, 1e30, f32::MAX, f32::INFINITY] {
        assert_eq!(
            [store(value), store(-value)],
            [largest, largest | 0x80],
            "{value:e}"
        );
    }
    assert_eq!([store(1e-30), store(f32::from_bits(1))], [0, 0]);
    assert!(load(store(f32::NAN)).is_nan());
}

#[test]
fn small_formats_round_to_nearest_even() {
    check_rounding(|code| E4M3(code).load(), |value| E4M3::store(value).0, 0x7e);
    check_rounding(|code| E5M2(code).load(), |value| E5M2::store(value).0, 0x7b);
}

#[test]
fn integers_round_and_saturate() {
    let i8_of = |value: f32| -> i8 { Store::store(value) };
    assert_eq!(
        [0.5, 1.5, -2.5, 126.6, 1e9, -1e9, f32::NAN].map(i8_of),
        [0, 2, -2, 127, 127, -128, 0]
    );
    let from_i32 = |value: i32| -> i8 { Store::store(value) };
    assert_eq!([5, 300, -300].map(from_i32), [5, 127, -128]);
}
