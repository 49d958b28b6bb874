//! Computes operations with the host's floating-point instructions, for ordinary `f32` and `f64`
//! values (see [`is_ordinary`]) and rounding to nearest even.
//!
//! IEEE 754 specifies the results of these operations, so the results equal the results of
//! [`soft`](super::soft).

use super::{Frame, Operation};
use crate::meaning::soft::{Format, Round};
use crate::meaning::{Bits, Desc, mask};

/// Returns the result that the host computes, before the modifiers `.ftz`, `.sat` and `.relu` are
/// performed. Returns `None` unless each operand is +0 or ordinary ([`is_ordinary`]), and the
/// result is ordinary. For such values, neither the NaN rules nor the host's flush-to-zero flags
/// matter.
#[inline(always)]
pub(super) fn result(
    desc: &Desc,
    operands: &[Bits; 4],
    operation: &Operation,
    frame: &Frame,
) -> Option<Bits> {
    let is_mixed = desc.src != desc.ty && Format::of(desc.src).is_some();
    if frame.round != Round::NearestEven || is_mixed {
        return None;
    }
    let format = &frame.format;
    let usable = |bits: Bits| (bits == 0) | is_ordinary(format, bits);
    let [a, b, c, d] = *operands;
    let bits = match *format {
        Format::F32 => {
            let value = |bits: Bits| f32::from_bits(bits as u32);
            let result = (operation.single)(&[value(a), value(b), value(c), value(d)]);
            Bits::from(result.to_bits())
        }
        Format::F64 => {
            let value = |bits: Bits| f64::from_bits(bits as u64);
            let result = (operation.double)(&[value(a), value(b), value(c), value(d)]);
            Bits::from(result.to_bits())
        }
        _ => return None,
    };
    let usable = usable(a) & usable(b) & usable(c) & usable(d);
    (usable & is_ordinary(format, bits)).then_some(bits)
}

/// Returns whether a value is ordinary: its biased exponent differs by at least two from the least and from the
/// greatest value of the exponent field.
#[inline(always)]
fn is_ordinary(format: &Format, bits: Bits) -> bool {
    let field = (format.magnitude(bits) >> format.fraction_bits) as u32;
    field.wrapping_sub(2) < mask(format.exponent_bits) as u32 - 3
}

#[cfg(test)]
mod tests {
    use super::super::{ADD, DIV, FMA, MUL, RCP, SQRT, SUB, exactly};
    use super::*;
    use crate::mods::Mods;
    use crate::ops::Opcode;
    use crate::types::OpType;

    /// Returns the operands for the tests: values whose exponents are at or near the limits, and
    /// values with random bits.
    fn values(ty: OpType) -> Vec<Bits> {
        let (fraction, exponents) = match ty {
            OpType::F32 => (23, 255u64),
            _ => (52, 2047),
        };
        let middle = exponents / 2;
        let exponents = [
            0,
            1,
            2,
            3,
            middle,
            middle + 1,
            exponents - 2,
            exponents - 1,
            exponents,
        ];
        let mut random = 1u64;
        let mut all = Vec::new();
        for exponent in exponents {
            for last in [0, 1, (1u64 << fraction) - 1] {
                all.push(exponent << fraction | last);
            }
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let bits = exponent << fraction | random >> (64 - fraction);
            all.extend([bits, bits | 1 << (ty.bits() - 1)]);
        }
        all.into_iter().map(Bits::from).collect()
    }

    #[test]
    fn results_of_the_host_are_exact() {
        let mut compared = 0;
        for ty in [OpType::F32, OpType::F64] {
            let desc = Desc {
                opcode: Opcode::Add,
                ty,
                src: OpType::None,
                mods: Mods::default(),
            };
            let frame = Frame::of(&desc).expect("a floating-point type");
            let values = values(ty);
            for (operation, count) in [
                (&ADD, 2),
                (&SUB, 2),
                (&MUL, 2),
                (&DIV, 2),
                (&FMA, 3),
                (&RCP, 1),
                (&SQRT, 1),
            ] {
                for &a in &values {
                    for &b in &values {
                        let c = values[(a as usize ^ b as usize) % values.len()];
                        let mut operands = [a, b, c, 0];
                        operands[count..].fill(0);
                        if let Some(bits) = result(&desc, &operands, operation, &frame) {
                            let exact = exactly(&desc, &operands, count, operation, frame);
                            assert_eq!(bits, exact, "{ty:?} {operands:x?}");
                            compared += 1;
                        }
                    }
                }
            }
        }
        assert!(compared > 1000, "{compared}");
    }
}
