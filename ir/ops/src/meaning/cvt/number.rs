//! Converts one element: decodes the element to an exact number, and encodes this number in the
//! destination format.

use crate::meaning::soft::{self, Format, Number, Real, Round};
use crate::meaning::{Bits, Desc, float, int, mask};
use crate::mods::Rounding;
use crate::types::OpType;

/// The number of fraction bits of the fixed-point format `s2f6`.
const FIXED_FRACTION: i32 = 6;
/// The exponent bias of the format `ue8m0`: the element `e` represents `2^(e - 127)`.
const SCALE_BIAS: i32 = 127;

/// A source element: the exact number that it represents, and its bits, which contain the payload
/// if it is a NaN.
#[derive(Clone, Copy)]
pub(super) struct Value {
    number: Number,
    payload: Bits,
}

impl Value {
    /// Decodes `bits`, an element of the type `desc.src`, and multiplies it by `2^(scale - 127)` if
    /// the conversion has a scale factor that applies to the source.
    pub(super) fn decode(desc: &Desc, bits: Bits, scale: Option<u8>) -> Value {
        let number = decode_number(desc, bits);
        let scaled_up = Format::of(desc.src) != Some(Format::F32) && desc.ty == OpType::BF16x2;
        let number = match scale {
            Some(scale) if scaled_up => scaled(number, scale, 1),
            _ => number,
        };
        Value {
            number,
            payload: bits,
        }
    }
}

fn decode_number(desc: &Desc, bits: Bits) -> Number {
    match desc.src {
        OpType::UE8M0 | OpType::UE8M0x2 => power_of_two(bits as u8),
        OpType::S2F6x2 => {
            let value = bits as u8 as i8;
            Number::Finite(Real {
                negative: value < 0,
                significand: value.unsigned_abs().into(),
                exponent: -FIXED_FRACTION,
            })
        }
        OpType::TF32 => Format::TF32.decode(bits >> 13),
        _ => match Format::of(desc.src) {
            Some(format) => format.decode(flush_single(desc, &format, bits)),
            None => {
                let value = int::value(desc.src, bits);
                Number::Finite(Real::integer(value < 0, value.unsigned_abs()))
            }
        },
    }
}

/// If `format` is `f32` and the op has the modifier `.ftz`, replaces a subnormal value by zero.
/// Otherwise, returns `bits` unchanged.
fn flush_single(desc: &Desc, format: &Format, bits: Bits) -> Bits {
    if *format == Format::F32 {
        float::input(desc, format, bits)
    } else {
        bits
    }
}

/// Returns the value of a `ue8m0` element; an element with all bits set is NaN.
fn power_of_two(field: u8) -> Number {
    if field == u8::MAX {
        return Number::Nan;
    }
    Number::Finite(Real {
        negative: false,
        significand: 1,
        exponent: i32::from(field) - SCALE_BIAS,
    })
}

/// Multiplies `number` by the power of two that `scale` encodes if `direction` is 1; divides it by this power if
/// `direction` is -1.
fn scaled(number: Number, scale: u8, direction: i32) -> Number {
    match (number, power_of_two(scale)) {
        (_, Number::Nan) => Number::Nan,
        (Number::Finite(real), _) => {
            let exponent = real.exponent + direction * (i32::from(scale) - SCALE_BIAS);
            Number::Finite(Real { exponent, ..real })
        }
        (other, _) => other,
    }
}

/// Encodes a number as an integer: rounds it, and then clamps it to the destination's range. A NaN becomes 0, or the
/// bit pattern of the least signed value if the source is `f64` or the destination has 64 bits.
pub(super) fn encode_integer(desc: &Desc, value: Value) -> Bits {
    let ty = desc.ty;
    let (low, high) = int::range(ty);
    let round = match desc.mods.rounding() {
        Rounding::None => Round::Zero,
        given => Round::of(given),
    };
    let integer = match value.number {
        Number::Nan if desc.src != OpType::F64 && ty.element_bits() < 64 => 0,
        Number::Nan => 1 << ty.element_bits().saturating_sub(1),
        Number::Infinity(negative) => {
            if negative {
                low
            } else {
                high
            }
        }
        Number::Finite(real) => {
            let (negative, magnitude) = real.to_integer(round);
            let magnitude = i128::try_from(magnitude).unwrap_or(i128::MAX);
            (if negative { -magnitude } else { magnitude }).clamp(low, high)
        }
    };
    integer as Bits & mask(ty.element_bits())
}

/// Encodes a number as an element of the destination type, which is a floating-point or fixed-point
/// type.
pub(super) fn encode_float(desc: &Desc, value: Value, round: Round, scale: Option<u8>) -> Bits {
    match desc.ty {
        OpType::UE8M0 | OpType::UE8M0x2 => encode_scale(desc, value.number, round),
        OpType::S2F6x2 => {
            let number = scale.map_or(value.number, |s| scaled(value.number, s, -1));
            encode_fixed(desc, number, round)
        }
        _ => match Format::of(desc.ty) {
            Some(format) => encode_binary(desc, &format, value, round),
            None => 0,
        },
    }
}

fn encode_binary(desc: &Desc, format: &Format, value: Value, round: Round) -> Bits {
    let integral = matches!(
        desc.mods.rounding(),
        Rounding::Rni | Rounding::Rzi | Rounding::Rmi | Rounding::Rpi
    );
    let number = if integral {
        soft::round_to_integral(value.number, round)
    } else {
        value.number
    };
    let bits = match number {
        Number::Nan => converted_nan(desc, format, value.payload),
        // Formats without infinities always saturate.
        _ => format.encode(number, round, desc.mods.satfinite()),
    };
    let bits = if *format == Format::F32 {
        flush_single(desc, format, bits)
    } else {
        bits
    };
    let bits = clamp(desc, format, number, bits);
    if desc.ty == OpType::TF32 {
        widened_tf32(format, bits)
    } else {
        bits
    }
}

/// Returns the NaN to which a NaN with the bits `payload` is converted. It is the canonical NaN of
/// the destination format, but conversions to `f64` keep the payload of the source.
fn converted_nan(desc: &Desc, format: &Format, payload: Bits) -> Bits {
    if *format != Format::F64 {
        return format.nan;
    }
    let quiet = 1 << 51;
    match Format::of(desc.src) {
        Some(source) if source.specials == soft::Specials::Ieee => {
            let sign = if source.is_negative(payload) {
                format.sign_bit()
            } else {
                0
            };
            let digits = payload & mask(source.fraction_bits);
            sign | format.infinity() | quiet | digits << (52 - source.fraction_bits)
        }
        _ => format.nan,
    }
}

/// Applies the modifiers `.sat` (limits the value to the range from 0 to 1) and `.relu` (replaces
/// negative values by 0). In formats without NaN, the encoder has already replaced a NaN by the
/// largest value, which this function does not change.
fn clamp(desc: &Desc, format: &Format, number: Number, bits: Bits) -> Bits {
    if desc.mods.sat() {
        float::clamp_to_one(format, bits)
    } else if desc.mods.relu() && number != Number::Nan {
        float::clamp_to_zero(format, bits)
    } else {
        bits
    }
}

/// Returns the `tf32` value `bits` in the upper bits of a 32-bit register. If the value is a NaN,
/// returns the canonical NaN of `f32`.
fn widened_tf32(format: &Format, bits: Bits) -> Bits {
    if format.is_nan(bits) {
        Format::F32.nan
    } else {
        bits << 13
    }
}

/// Encodes a number in the format `ue8m0`, which represents powers of two. The sign is dropped.
/// Zero and values below the smallest power become the smallest power. Values above the greatest
/// power become NaN or, with `.satfinite`, the greatest power.
fn encode_scale(desc: &Desc, number: Number, round: Round) -> Bits {
    let overflow = if desc.mods.satfinite() { 0xfe } else { 0xff };
    let real = match number {
        Number::Nan => return 0xff,
        Number::Infinity(_) => return overflow,
        Number::Finite(real) => real,
    };
    let Some(top) = real.significand.checked_ilog2() else {
        return 0;
    };
    let exact = real.significand.is_power_of_two();
    let up = round == Round::Up && !exact;
    match top as i32 + real.exponent + SCALE_BIAS + i32::from(up) {
        ..=0 => 0,
        field @ 1..=0xfe => field as Bits,
        _ => overflow,
    }
}

/// Encodes a number as a fixed-point byte. A value out of range becomes the nearest value in the
/// range, and a NaN becomes the greatest value.
fn encode_fixed(desc: &Desc, number: Number, round: Round) -> Bits {
    let (low, high) = (if desc.mods.relu() { 0 } else { -128 }, 127);
    let value = match number {
        Number::Nan => high,
        Number::Infinity(negative) => {
            if negative {
                low
            } else {
                high
            }
        }
        Number::Finite(real) => {
            let units = Real {
                exponent: real.exponent + FIXED_FRACTION,
                ..real
            };
            let (negative, magnitude) = units.to_integer(round);
            let magnitude = i128::try_from(magnitude).unwrap_or(i128::MAX);
            (if negative { -magnitude } else { magnitude }).clamp(low, high)
        }
    };
    value as Bits & 0xff
}
