//! Tests the reference functions of floating-point ops against `rustc_apfloat`, an independent implementation:
//! arithmetic and conversions of all IEEE-like formats, in all rounding directions, with edge cases and random bits.
//!
//! If a result is NaN, these tests only check that both implementations return a NaN; the tables `meanings/*.txt`
//! contain the expected bits.

use margay_ops::meaning::{Bits, Desc, Meaning};
use margay_ops::mods::{Mods, Rounding};
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;
use rustc_apfloat::ieee::{BFloat, Double, Float8E4M3FN, Float8E5M2, Half, Quad, Single};
use rustc_apfloat::{Float, FloatConvert, Round};

/// A random number generator (splitmix64). It always generates the same numbers, so that failures
/// are reproducible.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// The numbers of exponent and fraction bits of a format, from which the tests generate edge cases.
#[derive(Clone, Copy)]
struct Layout {
    exponent: u32,
    fraction: u32,
}

const F16: Layout = Layout {
    exponent: 5,
    fraction: 10,
};
const BF16: Layout = Layout {
    exponent: 8,
    fraction: 7,
};
const F32: Layout = Layout {
    exponent: 8,
    fraction: 23,
};
const F64: Layout = Layout {
    exponent: 11,
    fraction: 52,
};

impl Layout {
    fn width(self) -> u32 {
        1 + self.exponent + self.fraction
    }

    /// Returns the encodings of edge cases without the sign: values near which rounding, overflow
    /// or underflow changes.
    fn edges(self) -> Vec<u64> {
        let one = ((1u64 << (self.exponent - 1)) - 1) << self.fraction;
        let infinity = ((1u64 << self.exponent) - 1) << self.fraction;
        let least_normal = 1u64 << self.fraction;
        let half_way = 1u64 << (self.fraction / 2);
        let mut edges = vec![
            0,
            1,
            2,
            3,
            half_way,
            least_normal - 1,
            least_normal,
            least_normal + 1,
        ];
        edges.extend([
            one - 1,
            one,
            one + 1,
            one + half_way,
            one + least_normal,
            one | half_way | 1,
        ]);
        edges.extend([
            infinity - 1,
            infinity - least_normal,
            infinity,
            infinity + 1,
            infinity + least_normal / 2,
        ]);
        edges
    }

    fn sample(self, random: &mut Random) -> Bits {
        let bits = random.next();
        let edges = self.edges();
        let one = ((1u64 << (self.exponent - 1)) - 1) << self.fraction;
        let magnitude = match random.next() % 4 {
            0 => edges[(bits % edges.len() as u64) as usize],
            // Values close to one, so that additions cancel and products stay in range.
            1 => one.wrapping_add_signed((bits as i64 >> (64 - self.fraction - 3)) & !7),
            2 => one.wrapping_add(bits & ((4 << self.fraction) - 1)),
            _ => bits,
        };
        let sign = random.next() << 63 >> (64 - self.width());
        Bits::from((magnitude ^ sign) & (u64::MAX >> (64 - self.width())))
    }
}

const ROUNDINGS: [(Rounding, Round); 4] = [
    (Rounding::Rn, Round::NearestTiesToEven),
    (Rounding::Rz, Round::TowardZero),
    (Rounding::Rm, Round::TowardNegative),
    (Rounding::Rp, Round::TowardPositive),
];

fn run(opcode: Opcode, ty: OpType, src: OpType, mods: Mods, args: &[Bits]) -> Bits {
    let Meaning::Pure(meaning) = opcode.meaning() else {
        panic!("{opcode:?} has no meaning")
    };
    let mut out = [0];
    meaning(
        &Desc {
            opcode,
            ty,
            src,
            mods,
        },
        args,
        &mut out,
    );
    out[0]
}

fn same<F: Float>(got: Bits, want: F) -> bool {
    let got_value = F::from_bits(got);
    got == want.to_bits() || got_value.is_nan() && want.is_nan()
}

fn arithmetic<F: Float + std::fmt::Debug>(ty: OpType, layout: Layout, count: usize) {
    let mut random = Random(ty as u64);
    for case in 0..count {
        let bits: [Bits; 3] = std::array::from_fn(|_| layout.sample(&mut random));
        let [a, b, c] = bits.map(F::from_bits);
        let (rounding, round) = ROUNDINGS[case % 4];
        let wanted = [
            (Opcode::Add, 2, a.add_r(b, round).value),
            (Opcode::Sub, 2, a.sub_r(b, round).value),
            (Opcode::Mul, 2, a.mul_r(b, round).value),
            (Opcode::Div, 2, a.div_r(b, round).value),
            (Opcode::Fma, 3, a.mul_add_r(b, c, round).value),
            (Opcode::Rcp, 1, F::from_u128(1).value.div_r(a, round).value),
        ];
        for (opcode, operands, want) in wanted {
            let mods = Mods::NONE.with_rounding(rounding);
            let got = run(opcode, ty, OpType::None, mods, &bits[..operands]);
            assert!(
                same(got, want),
                "{opcode:?}.{rounding:?}.{ty} {bits:x?}: got {got:#x}, want {:#x}",
                want.to_bits()
            );
        }
    }
}

#[test]
fn arithmetic_is_correctly_rounded() {
    arithmetic::<Half>(OpType::F16, F16, 60_000);
    arithmetic::<BFloat>(OpType::BF16, BF16, 60_000);
    arithmetic::<Single>(OpType::F32, F32, 150_000);
    arithmetic::<Double>(OpType::F64, F64, 150_000);
}

/// Checks square roots. `x` must be between the squares of the root rounded down and the root
/// rounded up, and the root rounded to nearest must be one of these two roots.
fn check_root<F>(ty: OpType, layout: Layout)
where
    F: Float + FloatConvert<Quad> + std::fmt::Debug,
{
    let mut random = Random(7);
    let exact = |f: F| FloatConvert::<Quad>::convert(f, &mut false).value;
    for _ in 0..40_000 {
        let bits = layout.sample(&mut random);
        let x = F::from_bits(bits);
        if x.is_nan() || x.is_negative() || x.is_zero() || x.is_infinite() {
            continue;
        }
        let root = |r| {
            run(
                Opcode::Sqrt,
                ty,
                OpType::None,
                Mods::NONE.with_rounding(r),
                &[bits],
            )
        };
        let (down, up, near) = (root(Rounding::Rm), root(Rounding::Rp), root(Rounding::Rn));
        let square = |bits| {
            let q = exact(F::from_bits(bits));
            (q * q).value
        };
        assert_eq!(down, root(Rounding::Rz), "{bits:#x}");
        assert!(
            square(down) <= exact(x) && square(up) >= exact(x),
            "sqrt {bits:#x}"
        );
        assert!(
            up - down <= 1 && (up == down) == (square(down) == exact(x)),
            "sqrt {bits:#x}"
        );
        // Compares (down + up)^2 with 4x to find which of the two roots is nearer.
        let sum = (exact(F::from_bits(down)) + exact(F::from_bits(up))).value;
        let four_x = (exact(x) * Quad::from_u128(4).value).value;
        let middle = (sum * sum).value;
        let want = if middle > four_x { down } else { up };
        assert_eq!(near, want, "sqrt.rn {bits:#x}");
    }
}

#[test]
fn square_roots_are_correctly_rounded() {
    check_root::<Single>(OpType::F32, F32);
    check_root::<Double>(OpType::F64, F64);
}

fn conversions<S, D>(source: OpType, layout: Layout, destination: OpType, saturate: bool)
where
    S: Float + FloatConvert<D>,
    D: Float,
{
    let mut random = Random(source as u64 * 64 + destination as u64);
    for case in 0..40_000 {
        let bits = layout.sample(&mut random);
        let (rounding, round) = ROUNDINGS[case % 4];
        let mods = Mods::NONE.with_rounding(rounding).with_satfinite(saturate);
        let got = run(Opcode::Cvt, destination, source, mods, &[bits]);
        let value = S::from_bits(bits);
        let mut want: D = value.convert_r(round, &mut false).value;
        if saturate && !value.is_nan() && (want.is_infinite() || want.is_nan()) {
            want = if value.is_negative() {
                -D::largest()
            } else {
                D::largest()
            };
        }
        assert!(
            same(got, want),
            "cvt.{rounding:?}.{destination}.{source} {bits:#x}: got {got:#x}, want {:#x}",
            want.to_bits()
        );
    }
}

#[test]
fn conversions_between_floating_formats_round_once() {
    for saturate in [false, true] {
        conversions::<Double, Single>(OpType::F64, F64, OpType::F32, false);
        conversions::<Double, Half>(OpType::F64, F64, OpType::F16, saturate);
        conversions::<Double, BFloat>(OpType::F64, F64, OpType::BF16, saturate);
        conversions::<Single, Half>(OpType::F32, F32, OpType::F16, saturate);
        conversions::<Single, BFloat>(OpType::F32, F32, OpType::BF16, saturate);
        conversions::<Single, Float8E5M2>(OpType::F32, F32, OpType::E5M2, saturate);
    }
    conversions::<Single, Float8E4M3FN>(OpType::F32, F32, OpType::E4M3, true);
    conversions::<Single, Double>(OpType::F32, F32, OpType::F64, false);
    conversions::<Half, Single>(OpType::F16, F16, OpType::F32, false);
    conversions::<BFloat, Single>(OpType::BF16, BF16, OpType::F32, false);
    conversions::<Half, BFloat>(OpType::F16, F16, OpType::BF16, false);
}

fn to_integers<S: Float>(source: OpType, layout: Layout) {
    let rounds = [
        (Rounding::Rni, Round::NearestTiesToEven),
        (Rounding::Rzi, Round::TowardZero),
        (Rounding::Rmi, Round::TowardNegative),
        (Rounding::Rpi, Round::TowardPositive),
    ];
    let integers = [
        OpType::U8,
        OpType::S8,
        OpType::U16,
        OpType::S16,
        OpType::U32,
        OpType::S32,
        OpType::U64,
        OpType::S64,
    ];
    let mut random = Random(source as u64);
    for case in 0..80_000 {
        let bits = layout.sample(&mut random);
        let value = S::from_bits(bits);
        if value.is_nan() {
            continue;
        }
        let (rounding, round) = rounds[case % 4];
        let ty = integers[case / 4 % 8];
        let width = ty.element_bits() as usize;
        let mask = (1u128 << width) - 1;
        let want = if ty.is_signed() {
            value.to_i128_r(width, round, &mut false).value as u128 & mask
        } else {
            value.to_u128_r(width, round, &mut false).value & mask
        };
        let got = run(
            Opcode::Cvt,
            ty,
            source,
            Mods::NONE.with_rounding(rounding),
            &[bits],
        );
        assert_eq!(got, want, "cvt.{rounding:?}.{ty}.{source} {bits:#x}");
    }
}

#[test]
fn conversions_to_integers_saturate() {
    to_integers::<Half>(OpType::F16, F16);
    to_integers::<BFloat>(OpType::BF16, BF16);
    to_integers::<Single>(OpType::F32, F32);
    to_integers::<Double>(OpType::F64, F64);
}

fn from_integers<D: Float>(destination: OpType) {
    let mut random = Random(destination as u64);
    for case in 0..40_000 {
        let bits = random.next() >> (random.next() % 64);
        let (rounding, round) = ROUNDINGS[case % 4];
        let mods = Mods::NONE.with_rounding(rounding);
        let unsigned = run(Opcode::Cvt, destination, OpType::U64, mods, &[bits.into()]);
        assert!(
            same(unsigned, D::from_u128_r(bits.into(), round).value),
            "{destination} {bits:#x}"
        );
        let signed = run(Opcode::Cvt, destination, OpType::S64, mods, &[bits.into()]);
        assert!(
            same(signed, D::from_i128_r((bits as i64).into(), round).value),
            "{destination} {bits:#x}"
        );
    }
}

#[test]
fn conversions_from_integers_round_once() {
    from_integers::<Half>(OpType::F16);
    from_integers::<BFloat>(OpType::BF16);
    from_integers::<Single>(OpType::F32);
    from_integers::<Double>(OpType::F64);
}

#[test]
fn rounding_to_integral_values_keeps_the_sign() {
    let mut random = Random(99);
    for case in 0..60_000 {
        let bits = F32.sample(&mut random);
        let value = Single::from_bits(bits);
        let (rounding, round) = [
            (Rounding::Rni, Round::NearestTiesToEven),
            (Rounding::Rzi, Round::TowardZero),
            (Rounding::Rmi, Round::TowardNegative),
            (Rounding::Rpi, Round::TowardPositive),
        ][case % 4];
        let mods = Mods::NONE.with_rounding(rounding);
        let got = run(Opcode::Cvt, OpType::F32, OpType::F32, mods, &[bits]);
        let want = value.round_to_integral(round).value;
        assert!(
            same(got, want),
            "cvt.{rounding:?}.f32.f32 {bits:#x}: {got:#x}"
        );
    }
}
