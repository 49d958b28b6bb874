//! The reference functions of collectives of a warp: `shfl`, `vote`, `match`, `redux`, `elect` and
//! `activemask`.
//!
//! The engine calls these functions for one *group* at a time: the lanes that execute a collective together.
//! [`WarpLanes::active`] contains the lanes of the group. All these lanes have the same member mask, and the mask
//! contains all of them, unless the program executes a collective with undefined behaviour (`margay_exec::collective`
//! then chooses the lanes). The functions never read the operands of lanes outside the group. If the source lane of a
//! `shfl` is outside the group, PTX leaves the result undefined. In Margay, the result of the reading lane is then its
//! own operand.

use super::soft::Format;
use super::{Bits, Desc, WarpLanes, atomic, mask, minmax};
use crate::mods::{AtomOp, Mode};

fn lanes(active: u32) -> impl Iterator<Item = usize> {
    (0..32).filter(move |lane| active >> lane & 1 != 0)
}

fn operand(warp: &WarpLanes<'_>, index: usize, lane: usize) -> Bits {
    warp.args.get(index).map_or(0, |values| values[lane])
}

fn store(warp: &mut WarpLanes<'_>, index: usize, lane: usize, value: Bits) {
    if let Some(values) = warp.results.get_mut(index) {
        values[lane] = value;
    }
}

/// Writes `value` to the result with the given index in all active lanes.
fn broadcast(warp: &mut WarpLanes<'_>, index: usize, value: Bits) {
    for lane in lanes(warp.active) {
        store(warp, index, lane, value);
    }
}

/// Returns whether the operand `c` of a shuffle describes a width that CUDA C++ permits: a power of
/// two from 1 to 32. `nvcc` sets the bits above the lowest eight bits of `c` to 32 minus the width,
/// and the lowest eight bits to 31 or 0. If the lowest eight bits have another value, which only
/// occurs in inline PTX, returns true.
pub fn is_shuffle_of_width(c: u32) -> bool {
    let width = 32_u32.wrapping_sub(c >> 8);
    !matches!(c & 0xff, 0 | 0x1f) || matches!(width, 1 | 2 | 4 | 8 | 16 | 32)
}

/// Returns the source lane that `lane` reads in a `shfl`, and whether the source lane is in the
/// range that `c` permits. If the source lane is not in range, the lane reads its own value.
#[inline]
pub fn shuffle_source(mode: Mode, lane: u32, b: u32, c: u32) -> (u32, bool) {
    let (offset, clamp, segment) = (b & 31, c & 31, c >> 8 & 31);
    let last = lane & segment | clamp & !segment;
    let first = lane & segment;
    let (source, inside) = match mode {
        Mode::Up => {
            let source = lane.wrapping_sub(offset);
            (source, source as i32 >= last as i32)
        }
        Mode::Down => (lane + offset, lane + offset <= last),
        Mode::Bfly => (lane ^ offset, lane ^ offset <= last),
        _ => {
            let source = first | offset & !segment;
            (source, source <= last)
        }
    };
    if inside {
        (source & 31, true)
    } else {
        (lane, false)
    }
}

/// Computes `shfl`. The operands are the value, the lane or offset, and a word that limits the
/// range of source lanes (the clamp and the segment mask). The results are the value of the source
/// lane, and a predicate that states whether the source lane is in this range. PTX leaves the value of
/// a source lane that does not participate undefined; here it is zero. Published programs, among them sums of
/// segments whose last lanes have exited, need a value that does not change a sum.
pub fn shfl(desc: &Desc, warp: &mut WarpLanes<'_>) {
    for lane in lanes(warp.active) {
        let b = operand(warp, 1, lane) as u32;
        let c = operand(warp, 2, lane) as u32;
        let (source, inside) = shuffle_source(desc.mods.mode(), lane as u32, b, c);
        let present = warp.active >> source & 1 != 0;
        let value = operand(warp, 0, source as usize % 32);
        store(warp, 0, lane, if present { value } else { 0 });
        store(warp, 1, lane, inside.into());
    }
}

/// Combines the predicates of the active lanes, as the modifier `.all`, `.any`, `.uni` or `.ballot`
/// specifies.
pub fn vote(desc: &Desc, warp: &mut WarpLanes<'_>) {
    let ballot = lanes(warp.active)
        .filter(|&lane| operand(warp, 0, lane) & 1 != 0)
        .fold(0u32, |ballot, lane| ballot | 1 << lane);
    let value = match desc.mods.mode() {
        Mode::All => (ballot == warp.active).into(),
        Mode::Any => (ballot != 0).into(),
        Mode::Uni => (ballot == 0 || ballot == warp.active).into(),
        _ => ballot.into(),
    };
    broadcast(warp, 0, value);
}

/// Finds active lanes with equal values. With `.any`, the result of a lane is the mask of the lanes
/// that have the same value as this lane. With `.all`, the result of every lane is the mask of the
/// active lanes if all values are equal, and zero otherwise; a second result states whether the
/// values are equal.
pub fn match_sync(desc: &Desc, warp: &mut WarpLanes<'_>) {
    let equal_to = |warp: &WarpLanes<'_>, lane: usize| {
        lanes(warp.active)
            .filter(|&other| operand(warp, 0, other) == operand(warp, 0, lane))
            .fold(0u32, |equal, other| equal | 1 << other)
    };
    for lane in lanes(warp.active) {
        let equal = equal_to(warp, lane);
        if desc.mods.mode() == Mode::All {
            let all = equal == warp.active;
            store(warp, 0, lane, if all { equal.into() } else { 0 });
            store(warp, 1, lane, all.into());
        } else {
            store(warp, 0, lane, equal.into());
        }
    }
}

/// Combines the values of all active lanes with the op's operation (such as add), in the order of
/// the lanes.
pub fn redux(desc: &Desc, warp: &mut WarpLanes<'_>) {
    let value = match Format::of(desc.ty) {
        Some(format) => reduce_floats(desc, warp, &format),
        None => reduce_integers(desc, warp),
    };
    broadcast(warp, 0, value);
}

fn reduce_integers(desc: &Desc, warp: &WarpLanes<'_>) -> Bits {
    let values = lanes(warp.active).map(|lane| operand(warp, 0, lane));
    let whole = values.reduce(|a, b| atomic::integer(desc.ty, desc.mods.atom_op(), a, &[b]));
    whole.unwrap_or_default() & mask(desc.ty.bits())
}

fn reduce_floats(desc: &Desc, warp: &WarpLanes<'_>, format: &Format) -> Bits {
    let pick = if desc.mods.atom_op() == AtomOp::Max {
        minmax::max
    } else {
        minmax::min
    };
    // The reduction starts by combining the first value with itself, so that `.abs` and the NaN rules also apply if
    // there is only one lane.
    let Some(first) = lanes(warp.active).next() else {
        return format.nan;
    };
    lanes(warp.active).fold(operand(warp, 0, first), |a, lane| {
        let mut out = [0];
        pick(desc, &[a, operand(warp, 0, lane)], &mut out);
        out[0]
    })
}

/// Elects the lowest active lane. The results of each lane are the number of the elected lane, and
/// a predicate that states whether the lane is the elected lane.
pub fn elect(_: &Desc, warp: &mut WarpLanes<'_>) {
    let leader = warp.active.trailing_zeros();
    for lane in lanes(warp.active) {
        store(warp, 0, lane, leader.into());
        store(warp, 1, lane, (lane as u32 == leader).into());
    }
}

/// Returns, in each active lane, the mask of the active lanes.
pub fn activemask(_: &Desc, warp: &mut WarpLanes<'_>) {
    let active = warp.active.into();
    broadcast(warp, 0, active);
}

#[cfg(test)]
mod tests {
    use super::is_shuffle_of_width;

    /// Checks the values that `nvcc` passes as the operand `c`: `(32 - width) << 8 | 0x1f`, or
    /// without `| 0x1f` for `shfl.up`.
    #[test]
    fn shuffle_widths_are_powers_of_two_up_to_32() {
        let operands = |width: i32| {
            let above = ((32 - width) << 8) as u32;
            [above, above | 0x1f]
        };
        for width in -70..=70 {
            let allowed = [1, 2, 4, 8, 16, 32].contains(&width);
            for c in operands(width) {
                assert_eq!(is_shuffle_of_width(c), allowed, "{width}");
            }
        }
        // Inline PTX with a negative index of the last lane.
        for low in (0..=0xff).filter(|low| ![0, 0x1f].contains(low)) {
            assert!(is_shuffle_of_width(0xffff_ff00 | low), "{low:#x}");
        }
    }
}
