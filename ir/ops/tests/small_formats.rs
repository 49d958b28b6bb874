//! Tests floating-point formats of at most eight bits with all encodings. The tests compute the
//! value of every encoding from the definition of the format, and find every rounded result by a
//! search through all encodings.

use margay_ops::meaning::{Bits, Desc, Meaning};
use margay_ops::mods::{Mods, Rounding};
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;

/// The numbers of exponent and fraction bits of a format, its exponent bias, and the number of its
/// non-negative encodings that are finite numbers.
struct Format {
    ty: OpType,
    packed: OpType,
    fraction: u32,
    bias: i32,
    numbers: u32,
    sign: u32,
    nan: u32,
}

const fn format(ty: OpType, packed: OpType, shape: (u32, i32, u32), sign: u32, nan: u32) -> Format {
    Format {
        ty,
        packed,
        fraction: shape.0,
        bias: shape.1,
        numbers: shape.2,
        sign,
        nan,
    }
}

const FORMATS: [Format; 5] = [
    format(OpType::E4M3, OpType::E4M3x2, (3, 7, 0x7f), 0x80, 0x7f),
    format(OpType::E5M2, OpType::E5M2x2, (2, 15, 0x7c), 0x80, 0x7f),
    format(OpType::E3M2, OpType::E3M2x2, (2, 3, 0x20), 0x20, 0x1f),
    format(OpType::E2M3, OpType::E2M3x2, (3, 1, 0x20), 0x20, 0x1f),
    format(OpType::E2M1, OpType::E2M1x2, (1, 1, 0x08), 0x08, 0x07),
];

impl Format {
    fn value(&self, encoding: u32) -> f64 {
        let magnitude = encoding & (self.sign - 1);
        let (field, digits) = (
            magnitude >> self.fraction,
            magnitude & ((1 << self.fraction) - 1),
        );
        let unit = 2f64.powi((field.max(1)) as i32 - self.bias - self.fraction as i32);
        let leading = if field == 0 { 0 } else { 1 << self.fraction };
        let value = f64::from(digits + leading) * unit;
        if encoding & self.sign != 0 {
            -value
        } else {
            value
        }
    }

    /// Returns the encoding to which the finite value `x` is rounded. A value out of range is
    /// rounded to the nearest finite value.
    fn rounded(&self, x: f64, rounding: Rounding) -> u32 {
        let sign = if x.is_sign_negative() { self.sign } else { 0 };
        let distance = |encoding: u32| (self.value(encoding) - x.abs()).abs();
        let best = match rounding {
            Rounding::Rz => (0..self.numbers)
                .rev()
                .find(|&e| self.value(e) <= x.abs())
                .unwrap(),
            _ => (0..self.numbers)
                .min_by(|&a, &b| {
                    distance(a)
                        .total_cmp(&distance(b))
                        .then((a & 1).cmp(&(b & 1)))
                })
                .unwrap(),
        };
        best | sign
    }
}

fn run(ty: OpType, src: OpType, mods: Mods, args: &[Bits]) -> Bits {
    let opcode = Opcode::Cvt;
    let Meaning::Pure(meaning) = opcode.meaning() else {
        panic!("cvt has no meaning")
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

fn single(x: f32) -> Bits {
    x.to_bits().into()
}

#[test]
fn every_encoding_widens_to_its_value() {
    for format in &FORMATS {
        for encoding in (0..format.numbers).chain(format.sign..format.sign + format.numbers) {
            let stride = format.packed.bits() / 2;
            let pair = Bits::from(encoding) << stride | Bits::from(encoding);
            let got = run(OpType::F16x2, format.packed, Mods::NONE, &[pair]);
            assert_eq!(got >> 16, got & 0xffff);
            let wide = run(OpType::F64, OpType::F16, Mods::NONE, &[got & 0xffff]);
            let want = format.value(encoding);
            assert_eq!(wide, want.to_bits().into(), "{} {encoding:#x}", format.ty);
        }
    }
}

#[test]
fn narrowing_finds_the_right_neighbour() {
    let mut state = 5u64;
    for format in &FORMATS {
        let largest = format.value(format.numbers - 1);
        for case in 0..20_000u32 {
            state = state
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(0x1405_7b7e_f767_814f);
            // The value is near an encoding, half way to the next encoding, or anywhere up to twice the largest value.
            let base = format.value((state >> 40) as u32 % format.numbers);
            let next = format.value(((state >> 40) as u32 + 1) % format.numbers);
            let anywhere = (state >> 11) as f64 / (1u64 << 53) as f64 * 2.0 * largest;
            let mut x = [base, (base + next) / 2.0, anywhere][case as usize % 3] as f32;
            x = [x, f32::from_bits(x.to_bits() + 1), -x][(state >> 8) as usize % 3];
            for rounding in [Rounding::Rn, Rounding::Rz] {
                let mods = Mods::NONE.with_rounding(rounding).with_satfinite(true);
                let got = run(format.packed, OpType::F32, mods, &[single(x), single(1.0)]);
                let stride = format.packed.bits() / 2;
                let want = format.rounded(x.into(), rounding);
                assert_eq!(
                    got >> stride,
                    want.into(),
                    "{rounding:?} {} {x:e}",
                    format.ty
                );
                assert_eq!(got & 0xf, Bits::from(format.rounded(1.0, rounding)) & 0xf);
            }
        }
        let mods = Mods::NONE.with_rounding(Rounding::Rn).with_satfinite(true);
        let nan = run(format.ty, OpType::F32, mods, &[0x7fc0_0000]);
        assert_eq!(nan, format.nan.into(), "{} of NaN", format.ty);
    }
}

#[test]
fn stochastic_rounding_goes_up_as_often_as_the_fraction_says() {
    // The value 1 plus k/8192 units in the last place of f16 rounds up for exactly k of the 8192 random words.
    for k in [0u32, 1, 100, 4096, 8191] {
        let x = f32::from_bits(0x3f80_0000 + k);
        let mods = Mods::NONE.with_rounding(Rounding::Rs);
        let ups = (0..8192u32)
            .filter(|&random| {
                let args = [single(0.0), single(x), Bits::from(random)];
                run(OpType::F16x2, OpType::F32, mods, &args) == 0x3c01
            })
            .count();
        assert_eq!(ups, k as usize);
    }
}

#[test]
fn powers_of_two_round_in_their_direction() {
    let scale = |x: f32, rounding| {
        let mods = Mods::NONE.with_rounding(rounding);
        run(OpType::UE8M0x2, OpType::F32, mods, &[single(x), single(x)]) & 0xff
    };
    for field in 1..254u32 {
        let power = f32::from_bits(field << 23);
        let above = f32::from_bits((field << 23) + 1);
        assert_eq!(scale(power, Rounding::Rz), field.into());
        assert_eq!(scale(power, Rounding::Rp), field.into());
        assert_eq!(scale(above, Rounding::Rz), field.into());
        assert_eq!(scale(above, Rounding::Rp), Bits::from(field) + 1);
    }
}
