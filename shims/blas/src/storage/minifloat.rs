//! The 8-bit and 4-bit floating-point types.

use super::{Load, Store};

/// 4 bits of exponent (bias 7), 3 bits of fraction, no infinities, largest number 448.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(transparent)]
pub(crate) struct E4M3(pub(crate) u8);

/// 5 bits of exponent (bias 15), 2 bits of fraction, infinities as in IEEE formats, largest number 57344.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(transparent)]
pub(crate) struct E5M2(pub(crate) u8);

/// The numbers of a format's 256 codes. `fraction`: bits of fraction; the exponent has the others.
const fn decode(fraction: u32, infinities: bool) -> [f32; 256] {
    let bias = (1 << (6 - fraction)) - 1;
    let top = (1 << (7 - fraction)) - 1;
    let mut table = [0.0; 256];
    let mut code = 0u32;
    while code < 256 {
        let magnitude = code & 0x7f;
        let exponent = magnitude >> fraction;
        let digits = magnitude & ((1 << fraction) - 1);
        let nan = if infinities {
            exponent == top && digits != 0
        } else {
            magnitude == 0x7f
        };
        let value = if nan {
            f32::NAN
        } else if infinities && exponent == top {
            f32::INFINITY
        } else if exponent == 0 {
            // 2^(1 - bias - fraction) for each unit.
            digits as f32 * f32::from_bits((127 + 1 - bias - fraction) << 23)
        } else {
            f32::from_bits(((exponent + 127 - bias) << 23) | (digits << (23 - fraction)))
        };
        table[code as usize] = if code >= 128 { -value } else { value };
        code += 1;
    }
    table
}

static E4M3_VALUES: [f32; 256] = decode(3, false);
static E5M2_VALUES: [f32; 256] = decode(2, true);

/// The code of the nearest number of a format. `largest` is its largest finite number.
#[inline(always)]
fn encode(value: f32, fraction: u32, largest: f32, nan: u8) -> u8 {
    let sign = if value.is_sign_negative() { 0x80 } else { 0 };
    if value.is_nan() {
        return nan | sign;
    }
    let bias = (1 << (6 - fraction)) - 1;
    let least = 128 - bias;
    let magnitude = value.abs().min(largest * 2.0);
    let exponent = (magnitude.to_bits() >> 23).max(least);
    // The distance of two numbers of the format with this exponent, and its reciprocal: powers of two.
    let unit = f32::from_bits((exponent - fraction) << 23);
    let per_unit = f32::from_bits((254 - (exponent - fraction)) << 23);
    let rounded = ((magnitude * per_unit).round_ties_even() * unit).min(largest);
    let bits = rounded.to_bits();
    if bits >> 23 < least {
        (rounded * per_unit) as u8 | sign
    } else {
        (((bits >> 23) - 127 + bias) << fraction
            | ((bits >> (23 - fraction)) & ((1 << fraction) - 1))) as u8
            | sign
    }
}

impl Load<f32> for E4M3 {
    #[inline(always)]
    fn load(self) -> f32 {
        E4M3_VALUES[self.0 as usize]
    }
}

impl Store<f32> for E4M3 {
    #[inline(always)]
    fn store(value: f32) -> E4M3 {
        E4M3(encode(value, 3, 448.0, 0x7f))
    }
}

impl Load<f32> for E5M2 {
    #[inline(always)]
    fn load(self) -> f32 {
        E5M2_VALUES[self.0 as usize]
    }
}

impl Store<f32> for E5M2 {
    #[inline(always)]
    fn store(value: f32) -> E5M2 {
        E5M2(encode(value, 2, 57344.0, 0x7f))
    }
}

/// The magnitudes of E2M1: 2 bits of exponent (bias 1), 1 bit of fraction, neither infinities nor NaN.
const E2M1_VALUES: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

/// The number of an E2M1 code in the low 4 bits.
#[inline(always)]
pub(crate) fn e2m1_value(code: u8) -> f32 {
    let magnitude = E2M1_VALUES[usize::from(code & 7)];
    if code & 8 != 0 { -magnitude } else { magnitude }
}

/// The E2M1 code of the nearest number, ties to even. Larger numbers become the largest one, and NaN becomes 6.
#[inline(always)]
pub(crate) fn e2m1_code(value: f32) -> u8 {
    if value.is_nan() {
        return 7;
    }
    let magnitude = value.abs();
    // In the middle between two numbers, the one with an even code is chosen.
    let above = [
        magnitude > 0.25,
        magnitude >= 0.75,
        magnitude > 1.25,
        magnitude >= 1.75,
        magnitude > 2.5,
        magnitude >= 3.5,
        magnitude > 5.0,
    ];
    let code: u8 = above.into_iter().map(u8::from).sum();
    if value.is_sign_negative() {
        code | 8
    } else {
        code
    }
}

/// The number of a UE8M0 code: a power of two, or NaN.
#[inline(always)]
pub(crate) fn ue8m0_value(code: u8) -> f32 {
    match code {
        0 => f32::from_bits(0x0040_0000),
        255 => f32::NAN,
        exponent => f32::from_bits(u32::from(exponent) << 23),
    }
}

/// The number of a UE4M3 code: an E4M3 code whose sign is ignored.
#[inline(always)]
pub(crate) fn ue4m3_value(code: u8) -> f32 {
    E4M3_VALUES[usize::from(code & 0x7f)]
}
