//! Moves of bits between values of different widths.

use cranelift_codegen::ir::{InstBuilder, types};
use margay_ops::types::Kind;

use super::{Operation, Results, one};
use crate::code::Code;
use crate::group::Group;

pub(super) fn bitcast(_: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let (operand, &result) = (op.arg(0)?, op.results.first()?);
    (operand.kind.bits() == result.bits()).then_some(())?;
    one(operand.group)
}

/// Returns an operand as integers of 32 bits or more.
fn part(code: &mut Code<'_, '_>, op: &Operation<'_>, index: usize) -> Option<Group> {
    let operand = op.arg(index)?;
    match operand.kind {
        Kind::Pred | Kind::B128 => None,
        _ => Some(code.as_int(operand.group)),
    }
}

/// Concatenates operands to at most 64 bits, or two operands to 128 bits.
pub(super) fn pack(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let bits = op.desc.src.bits();
    let whole = bits * op.args.len() as u32;
    (matches!(bits, 8 | 16 | 32 | 64) && whole == op.desc.ty.bits()).then_some(())?;
    let parts: Vec<Group> = (0..op.args.len())
        .map(|index| part(code, op, index))
        .collect::<Option<_>>()?;
    one(match (bits, whole) {
        _ if parts.len() == 1 => parts[0],
        (64, 128) => joined(code, parts[0], parts[1]),
        (_, 64) => {
            let (low, high) = parts.split_at(parts.len() / 2);
            let (low, high) = (
                concatenated(code, low, bits),
                concatenated(code, high, bits),
            );
            code.join_words(low, high)
        }
        (_, ..=32) => concatenated(code, &parts, bits),
        _ => return None,
    })
}

/// Concatenates parts to at most 32 bits.
fn concatenated(code: &mut Code<'_, '_>, parts: &[Group], bits: u32) -> Group {
    let mut whole = parts[0];
    for (index, &part) in (0..).zip(parts).skip(1) {
        let moved = code.shl(part, index * bits);
        whole = code.or(whole, moved);
    }
    whole
}

/// Returns lanes of 128 bits with the given halves.
fn joined(code: &mut Code<'_, '_>, low: Group, high: Group) -> Group {
    if !code.is_vector() {
        return code.b.ins().iconcat(low[0], high[0]).into();
    }
    let lane = |index: usize| (index / 2, (index % 2) as u8 * 8);
    let registers = [0, 1, 2, 3].map(|index| {
        let (register, first) = lane(index);
        let from = [first, first + 4, 16 + first, 20 + first];
        let words = code.words(low[register], high[register], from);
        code.cast(words, types::I64X2)
    });
    Group::new(&registers)
}

/// Splits the operand into results with equally many bits; the inverse of [`pack`].
pub(super) fn unpack(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let (bits, whole) = (op.desc.ty.bits(), op.desc.src.bits());
    let count = op.results.len() as u32;
    (matches!(bits, 8 | 16 | 32 | 64) && bits * count == whole).then_some(())?;
    if whole == 128 {
        return (bits == 64).then(|| halves(code, op))?;
    }
    let value = part(code, op, 0)?;
    let words = match whole {
        64 => vec![code.low_words(value), code.high_words(value)],
        _ => vec![value],
    };
    let per = 32u32.checked_div(bits).filter(|&per| per > 0)?;
    let results = (0..count).map(|index| {
        let word = words[(index / per) as usize];
        let moved = match index % per {
            0 => word,
            place => code.shr(word, place * bits),
        };
        code.truncated(moved, bits)
    });
    Some(results.collect())
}

/// Splits lanes of 128 bits.
fn halves(code: &mut Code<'_, '_>, op: &Operation<'_>) -> Option<Results> {
    let whole = op.arg(0)?;
    (whole.kind == Kind::B128).then_some(())?;
    if !code.is_vector() {
        let (low, high) = code.b.ins().isplit(whole.group[0]);
        return Some([low.into(), high.into()].into_iter().collect());
    }
    let half = |first: u8| {
        let registers = [0, 2].map(|lane| {
            let from = [first, first + 4, 16 + first, 20 + first];
            let words = code.words(whole.group[lane], whole.group[lane + 1], from);
            code.cast(words, types::I64X2)
        });
        Group::new(&registers)
    };
    Some([0, 8].map(half).into_iter().collect())
}
