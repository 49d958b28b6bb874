//! Tests that the errors of the approximate functions are within the bounds in the PTX ISA. The
//! errors are differences from the results of `f64` functions.
//!
//! The tests check every 4,099th `f32`. With `MARGAY_EXHAUSTIVE=1`, they check every `f32` in the
//! range where a function is neither linear nor constant, and print the worst errors; this takes
//! minutes. The exhaustive run does not check `rcp` and `rsqrt`, because they consist of correctly
//! rounded operations, which `float_oracle.rs` tests.

use margay_ops::meaning::approx::{Host, functions};
use margay_ops::meaning::{Bits, Desc, Meaning};
use margay_ops::mods::{Mods, Precision, Rounding};
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;

fn run(opcode: Opcode, ty: OpType, mods: Mods, args: &[Bits]) -> Bits {
    let Meaning::Pure(meaning) = opcode.meaning() else {
        panic!("{opcode:?} has no meaning")
    };
    let mut out = [0];
    meaning(
        &Desc {
            opcode,
            ty,
            src: OpType::None,
            mods,
        },
        args,
        &mut out,
    );
    out[0]
}

fn single(opcode: Opcode, x: f32) -> f32 {
    let mods = Mods::NONE.with_precision(Precision::Approx);
    f32::from_bits(run(opcode, OpType::F32, mods, &[x.to_bits().into()]) as u32)
}

/// Returns the distance between neighbouring `f32` values at `x`.
fn ulp(x: f64) -> f64 {
    let exponent = (x.abs().max(f64::from(f32::MIN_POSITIVE)).to_bits() >> 52) as i32 - 1023;
    2f64.powi(exponent - 23)
}

/// A function that returns the error of the result `got` for the argument `x`, in units of the
/// error bound in the PTX ISA. `want` is the exact result.
type Measure = fn(x: f64, got: f64, want: f64) -> f64;

struct Function {
    opcode: Opcode,
    /// The range of absolute values of arguments in which the exhaustive run checks every `f32`.
    /// The exhaustive run checks negative arguments only for `ex2`. For a negative argument, each
    /// other function returns NaN or the result for the absolute value, possibly negated.
    dense: (f32, f32),
    reference: fn(f64) -> f64,
    measure: Measure,
    /// The bound on Margay's error, in units of the bound in the ISA. For most functions, this bound is tighter than
    /// the bound in the ISA, so that the test also detects wrong constants that cause only small errors.
    most: f64,
}

const LOG_ABSOLUTE: f64 = 1.0 / (1 << 22) as f64;

const FUNCTIONS: [Function; 7] = [
    Function {
        opcode: Opcode::Ex2,
        dense: (1e-8, 151.0),
        reference: f64::exp2,
        measure: |_, got, want| (got - want).abs() / (2.0 * ulp(want)),
        most: 0.46,
    },
    Function {
        opcode: Opcode::Lg2,
        dense: (0.2, 5.0),
        reference: f64::log2,
        measure: |x, got, want| {
            let error = (got - want).abs() / LOG_ABSOLUTE;
            if x > 0.5 && x < 2.0 {
                error
            } else {
                error / want.abs()
            }
        },
        most: 0.33,
    },
    Function {
        opcode: Opcode::Sin,
        dense: (2e-4, 315.0),
        reference: f64::sin,
        measure: angle_error,
        most: 0.17,
    },
    Function {
        opcode: Opcode::Cos,
        dense: (2e-4, 315.0),
        reference: f64::cos,
        measure: angle_error,
        most: 0.21,
    },
    Function {
        opcode: Opcode::Tanh,
        dense: (2e-4, 10.0),
        reference: f64::tanh,
        measure: |_, got, want| relative(got, want) * 2f64.powi(11),
        most: 1.0 / 1024.0,
    },
    Function {
        opcode: Opcode::Rsqrt,
        dense: (1.0, 1.0),
        reference: |x| 1.0 / x.sqrt(),
        measure: |_, got, want| relative(got, want) * 2f64.powf(22.9),
        most: 1.0,
    },
    Function {
        opcode: Opcode::Rcp,
        dense: (1.0, 1.0),
        reference: |x| 1.0 / x,
        measure: |_, got, want| (got - want).abs() / ulp(want),
        most: 0.5,
    },
];

fn relative(got: f64, want: f64) -> f64 {
    if got == want {
        0.0
    } else {
        (got - want).abs() / want.abs()
    }
}

fn angle_error(x: f64, got: f64, want: f64) -> f64 {
    let error = (got - want).abs();
    if x.abs() <= std::f64::consts::TAU {
        error * 2f64.powf(20.5)
    } else if x.abs() <= 100.0 * std::f64::consts::PI {
        error * 2f64.powf(14.7)
    } else {
        // For large angles, the result only has to be in [-1, 1].
        got.abs() - 1.0
    }
}

/// Returns the largest error of a function for the arguments with these encodings, and the argument
/// with this error.
fn worst(function: &Function, encodings: impl Iterator<Item = u32>) -> (f64, f32) {
    let mut worst = (0.0, 0.0);
    for bits in encodings {
        let x = f32::from_bits(bits);
        let want = (function.reference)(x.into());
        let got = single(function.opcode, x);
        if want.is_nan() {
            assert_eq!(got.to_bits(), 0x7fff_ffff, "{:?} of {x:e}", function.opcode);
            continue;
        }
        if f64::from(want as f32).is_infinite() || (want as f32) == 0.0 {
            // A result at a limit of the format may round to either side of the limit.
            let exact = (want as f32).to_bits() == got.to_bits();
            assert!(
                exact || want.is_finite() && want != 0.0,
                "{:?} of {x:e}: {got:e}",
                function.opcode
            );
            continue;
        }
        let error = (function.measure)(x.into(), got.into(), want);
        if error.is_nan() || error > worst.0 {
            worst = (error, x);
        }
    }
    worst
}

fn check(function: &Function, (error, at): (f64, f32)) {
    let opcode = function.opcode;
    assert!(
        error <= function.most,
        "{opcode:?}: {error} of the bound, at {at:e}"
    );
}

#[test]
fn errors_stay_within_the_bounds_of_the_isa() {
    let exhaustive = std::env::var_os("MARGAY_EXHAUSTIVE").is_some();
    for function in &FUNCTIONS {
        check(function, worst(function, (0..=u32::MAX).step_by(4099)));
        if exhaustive {
            let (low, high) = function.dense;
            let dense = low.to_bits()..high.to_bits();
            let both = dense.flat_map(|bits| [bits, bits | 1 << 31]);
            let positive = function.opcode != Opcode::Ex2;
            let (error, at) = worst(function, both.filter(|bits| !positive || bits >> 31 == 0));
            eprintln!("{:?}: {error:.4} of the bound, at {at:e}", function.opcode);
            check(function, (error, at));
        }
    }
}

/// Converts a value of the type `ty` to `f64` with the reference function of `cvt`, which
/// `float_oracle.rs` tests.
fn widen(ty: OpType, bits: Bits) -> f64 {
    let (opcode, src) = (Opcode::Cvt, ty);
    let Meaning::Pure(meaning) = opcode.meaning() else {
        panic!()
    };
    let mut out = [0];
    meaning(
        &Desc {
            opcode,
            ty: OpType::F64,
            src,
            mods: Mods::NONE,
        },
        &[bits],
        &mut out,
    );
    f64::from_bits(out[0] as u64)
}

/// A test case: the op, the format of its operand, a function that computes the exact result,
/// whether the error is relative, and the binary logarithm of the error bound.
type HalfCase = (Opcode, OpType, fn(f64) -> f64, bool, f64);

#[test]
fn half_precision_errors_stay_within_the_bounds() {
    let cases: [HalfCase; 4] = [
        (Opcode::Ex2, OpType::F16, f64::exp2, true, -9.9),
        (Opcode::Ex2, OpType::BF16, f64::exp2, true, -7.0),
        (Opcode::Tanh, OpType::F16, f64::tanh, false, -10.987),
        (Opcode::Tanh, OpType::BF16, f64::tanh, false, -8.0),
    ];
    for (opcode, ty, reference, is_relative, bound) in cases {
        let ftz = opcode == Opcode::Ex2 && ty == OpType::BF16;
        let mods = Mods::NONE.with_precision(Precision::Approx).with_ftz(ftz);
        let least_normal = if ty == OpType::F16 {
            2f64.powi(-14)
        } else {
            2f64.powi(-126)
        };
        let largest = if ty == OpType::F16 { 65504.0 } else { 3.38e38 };
        for bits in 0..1 << 16 {
            let x = widen(ty, bits);
            let want = reference(x);
            let got = widen(ty, run(opcode, ty, mods, &[bits]));
            if want.is_nan() {
                assert!(got.is_nan());
            } else if is_relative && want < least_normal {
                assert!(
                    (got - want).abs() <= least_normal,
                    "{opcode:?}.{ty} {x}: {got}"
                );
            } else if is_relative && want > largest {
                assert!(got >= largest, "{opcode:?}.{ty} {x}: {got}");
            } else {
                let error = (got - want).abs() / if is_relative { want } else { 1.0 };
                assert!(
                    error <= 2f64.powf(bound),
                    "{opcode:?}.{ty} {x}: {got}, want {want}"
                );
            }
        }
    }
}

#[test]
fn division_stays_within_two_units() {
    let mut state = 1u64;
    for case in 0..200_000 {
        state = state
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        let (a, b) = (
            f32::from_bits((state >> 32) as u32),
            f32::from_bits(state as u32 ^ (state >> 17) as u32),
        );
        let precision = if case % 2 == 0 {
            Precision::Approx
        } else {
            Precision::Full
        };
        if a.is_nan() || b.is_nan() || precision == Precision::Approx && b.abs() > 2f32.powi(126) {
            continue;
        }
        let mods = Mods::NONE.with_precision(precision);
        let got = run(
            Opcode::Div,
            OpType::F32,
            mods,
            &[a.to_bits().into(), b.to_bits().into()],
        );
        let (got, want) = (f32::from_bits(got as u32), f64::from(a) / f64::from(b));
        if want.is_nan() || (want as f32).is_infinite() {
            continue;
        }
        assert!(
            (f64::from(got) - want).abs() <= 2.0 * ulp(want),
            "{a:e} / {b:e}: {got:e}"
        );
    }
}

#[test]
fn double_precision_starts_are_good_to_twenty_bits() {
    let mods = Mods::NONE.with_precision(Precision::Approx).with_ftz(true);
    let mut state = 3u64;
    for _ in 0..100_000 {
        state = state
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        let x = f64::from_bits(state & 0x7fff_ffff_0000_0000);
        if !x.is_normal() || x > 1e300 {
            continue;
        }
        let cases: [(Opcode, f64); 2] = [(Opcode::Rcp, 1.0 / x), (Opcode::Rsqrt, 1.0 / x.sqrt())];
        for (opcode, want) in cases {
            let bits = run(opcode, OpType::F64, mods, &[x.to_bits().into()]);
            assert_eq!(bits & 0xffff_ffff, 0);
            let got = f64::from_bits(bits as u64);
            assert!(
                relative(got, want) <= 2f64.powi(-20),
                "{opcode:?} {x:e}: {got:e}"
            );
        }
    }
    // These operations have no `rounding`.
    assert_eq!(mods.rounding(), Rounding::None);
}

/// Test cases: an op (sine or cosine), an argument next to a whole, half or quarter turn, and the
/// result for this argument, computed with 60 digits and rounded. If the reduction of the angle
/// loses digits, the functions do not return these values.
const NEAR_TURNS: [(Opcode, u32, u32); 9] = [
    (Opcode::Sin, 0x40490fdb, 0xb3bbbd2e), // pi
    (Opcode::Sin, 0x40c90fdb, 0x343bbd2e),
    (Opcode::Sin, 0x41490fdb, 0x34bbbd2e),
    (Opcode::Sin, 0x439d1463, 0x36c55799), // 100 pi
    (Opcode::Cos, 0x3fc90fdb, 0xb33bbd2e), // pi / 2
    (Opcode::Sin, 0x4b2562ae, 0x33a411de), // 3450066 pi
    (Opcode::Sin, 0x4b6695dd, 0xb4fe092a), // 4810186 pi
    (Opcode::Sin, 0x4ac85efe, 0x3528090d), // 2089946 pi
    (Opcode::Sin, 0xcb2562ae, 0xb3a411de),
];

#[test]
fn angles_next_to_whole_turns_keep_all_digits() {
    for (opcode, x, want) in NEAR_TURNS {
        let got = single(opcode, f32::from_bits(x)).to_bits();
        assert!(
            got.abs_diff(want) <= 1,
            "{opcode:?} {x:#x}: {got:#x}, want {want:#x}"
        );
    }
}

/// Tests that the functions themselves perform the modifier `.ftz`, because a code generator emits
/// their operations without the reference functions of the ops.
#[test]
fn functions_flush_by_themselves() {
    let subnormal = f32::from_bits(0x807f_ffff);
    let host = &mut Host;
    assert_eq!(functions::ex2(host, -126.0, true), f32::MIN_POSITIVE);
    assert_eq!(functions::ex2(host, -126.5, true).to_bits(), 0);
    assert_eq!(functions::sin(host, subnormal, true).to_bits(), 1 << 31);
    assert_eq!(functions::lg2(host, -subnormal, true), f32::NEG_INFINITY);
    assert_eq!(functions::lg2(host, subnormal, true), f32::NEG_INFINITY);
}
