//! Lowers the video selectors of SIMD video instructions, which operate on the two halves or the
//! four bytes of 32-bit registers. In this module, a *lane* is one of these halves or bytes, not a
//! thread.
//!
//! In PTX, the selector of each source (`a.h20`, `b.b7654`) can select parts of both source
//! registers. Lowering emits a byte permutation (`prmt`) for each source, which performs this
//! selection. The operands of the IR op are the permuted sources, and the op contains a mask of the
//! lanes that it writes in the result.

use margay_ir::entity::Value;
use margay_ops::meaning::Desc;
use margay_ops::mods::Mods;
use margay_ops::ops::Opcode;
use margay_ops::types::{OpType, Type};

use super::function::FunctionLowering;
use crate::ast::{Operand, OperandKind};

/// Returns the number of lanes of a SIMD video op, or `None` for other ops.
pub(super) fn lanes(opcode: Opcode) -> Option<u32> {
    if (Opcode::Vadd2..=Opcode::Vset2).contains(&opcode) {
        Some(2)
    } else if (Opcode::Vadd4..=Opcode::Vset4).contains(&opcode) {
        Some(4)
    } else {
        None
    }
}

/// Returns the digits of a video selector, last digit first. The last digit belongs to lane 0.
fn digits(selector: &str) -> impl Iterator<Item = u32> {
    selector.chars().rev().map_while(|c| c.to_digit(8))
}

/// Returns the control operand of a `prmt` that returns the parts of the two sources which
/// `selector` selects.
fn control(selector: &str, lanes: u32) -> u64 {
    let width = 4 / lanes;
    let mut control = 0;
    for (lane, part) in digits(selector).take(lanes as usize).enumerate() {
        for byte in 0..width {
            let nibble = u64::from((part * width + byte) & 7);
            control |= nibble << (4 * (lane as u32 * width + byte));
        }
    }
    control
}

/// Returns a mask of the lanes that `selector`, the selector of the result, contains.
fn mask(selector: &str) -> u8 {
    digits(selector).fold(0, |mask, lane| mask | 1 << (lane & 3))
}

impl FunctionLowering<'_, '_> {
    /// Replaces each source in `args` by the parts that its selector selects, and stores in `desc`
    /// the mask of the lanes that the op writes.
    pub(super) fn select_lanes(
        &mut self,
        lanes: u32,
        operands: &[Operand],
        desc: &mut Desc,
        args: &mut [Value],
    ) {
        let (own, other) = if lanes == 2 {
            ("h10", "h32")
        } else {
            ("b3210", "b7654")
        };
        let selector = |operand: Option<&Operand>, usual: &str| match operand.map(|o| o.kind) {
            Some(OperandKind::Component { selector, .. }) => self.ast.text(selector).to_owned(),
            _ => usual.to_owned(),
        };
        let written = mask(&selector(operands.first(), ""));
        let picks = [
            control(&selector(operands.get(1), own), lanes),
            control(&selector(operands.get(2), other), lanes),
        ];
        desc.mods = desc.mods.with_dsel(written).with_asel(0).with_bsel(0);
        let [a, b, ..] = *args else { return };
        for (arg, pick) in args.iter_mut().zip(picks) {
            let pick = self.b.constant(Type::B32, pick);
            let permute = Desc {
                opcode: Opcode::Prmt,
                ty: OpType::B32,
                src: OpType::None,
                mods: Mods::NONE,
            };
            *arg = self.b.op(permute, &[a, b, pick], Type::B32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_become_permutations() {
        assert_eq!(control("b3210", 4), 0x3210);
        assert_eq!(control("b7654", 4), 0x7654);
        assert_eq!(control("b1234", 4), 0x1234);
        assert_eq!(control("h10", 2), 0x3210);
        assert_eq!(control("h32", 2), 0x7654);
        assert_eq!(control("h03", 2), 0x1076);
        assert_eq!(mask(""), 0);
        assert_eq!(mask("h1"), 0b10);
        assert_eq!(mask("b310"), 0b1011);
    }
}
