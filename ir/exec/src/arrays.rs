//! Computes common collectives of a warp from arrays that contain a 32-bit value for each lane.
//! This is faster than the reference functions of the ops, because the values are not converted to
//! [`Bits`](margay_ops::meaning::Bits).
//!
//! Invariant: for every collective that this module can compute, the results equal those of the
//! op's reference function ([`margay_ops::meaning::warp`]). The tests in this file compare the
//! results in each lane.

use margay_ops::meaning::warp::shuffle_source;
use margay_ops::meaning::{Desc, atomic};
use margay_ops::mods::Mode;
use margay_ops::ops::Opcode;

/// A 32-bit value for each lane.
pub type Lanes = [u32; 32];

/// Computes a collective that the lanes `active` execute together, and writes the results to `out`.
/// `args` contains the operands except the member mask. If this module cannot compute the
/// collective, returns false and does not change `out`.
pub fn perform(desc: &Desc, active: u32, args: &[Lanes; 3], out: &mut [Lanes; 2]) -> bool {
    if desc.opcode != Opcode::Elect && desc.opcode != Opcode::ActiveMask && desc.ty.bits() > 32 {
        return false;
    }
    match desc.opcode {
        Opcode::Shfl => shuffle(desc.mods.mode(), active, args, out),
        Opcode::Vote => out[0] = [vote(desc.mods.mode(), active, &args[0]); 32],
        Opcode::Redux if desc.ty.is_integer() => out[0] = [reduce(desc, active, &args[0]); 32],
        Opcode::Match => equals(desc.mods.mode(), active, &args[0], out),
        Opcode::ActiveMask => out[0] = [active; 32],
        Opcode::Elect => {
            let leader = active.trailing_zeros().min(31);
            out[0] = [leader; 32];
            out[1] = std::array::from_fn(|lane| u32::from(lane as u32 == leader));
        }
        _ => return false,
    }
    true
}

/// Computes a collective at which the lanes `standing` wait with the member masks `masks`, and
/// writes the results to `out`. The mask of at least one lane does not contain this lane. The
/// results equal those of [`crate::collective::perform_apart`]. If this module cannot compute the
/// collective, returns false; the content of `out` is then unspecified.
pub fn perform_apart(
    desc: &Desc,
    (standing, masks): (u32, &Lanes),
    args: &[Lanes; 3],
    out: &mut [Lanes; 2],
) -> bool {
    if desc.opcode == Opcode::Vote {
        let ballot = ballot(standing, &args[0]);
        for (value, mask) in out[0].iter_mut().zip(masks) {
            let members = mask & standing;
            let counted = counted(desc.mods.mode(), members, ballot & members);
            // The result of a vote without members is zero.
            *value = if members == 0 { 0 } else { counted };
        }
        return true;
    }
    let mut rest = standing;
    while rest != 0 {
        let mask = masks[rest.trailing_zeros() as usize % 32];
        let same = |same, lane: usize| same | u32::from(masks[lane] == mask) << lane;
        let arrived = (0..32).fold(0, same) & rest;
        rest &= !arrived;
        let sources = crate::collective::sources_apart(desc.opcode, mask & standing, arrived);
        let mut found = [[0; 32]; 2];
        if !perform(desc, sources, args, &mut found) {
            return false;
        }
        for (values, found) in out.iter_mut().zip(&found) {
            for lane in crate::lanes(arrived) {
                values[lane as usize] = found[lane as usize];
            }
        }
    }
    true
}

/// Computes a `shfl`. Each mode has its own copy of the loop over the lanes, so that the loop does
/// not test the mode.
fn shuffle(mode: Mode, active: u32, args: &[Lanes; 3], out: &mut [Lanes; 2]) {
    match mode {
        Mode::Up => shuffle_by(Mode::Up, active, args, out),
        Mode::Down => shuffle_by(Mode::Down, active, args, out),
        Mode::Bfly => shuffle_by(Mode::Bfly, active, args, out),
        _ => shuffle_by(Mode::Idx, active, args, out),
    }
}

#[inline(always)]
fn shuffle_by(mode: Mode, active: u32, args: &[Lanes; 3], out: &mut [Lanes; 2]) {
    let [values, b, c] = args;
    for lane in 0..32u32 {
        let i = lane as usize;
        let (source, inside) = shuffle_source(mode, lane, b[i], c[i]);
        let present = active >> source & 1 != 0;
        let value = values[source as usize % 32];
        out[0][i] = if present { value } else { 0 };
        out[1][i] = inside.into();
    }
}

/// Computes a `shfl` that all lanes of a warp execute with the same operands `b` and `c`. The results equal those of
/// [`perform`]. This function is faster, because the source of each lane depends on two numbers only.
pub fn shuffle_of_all(mode: Mode, values: &Lanes, b: u32, c: u32) -> [Lanes; 2] {
    match mode {
        Mode::Up => shuffle_all_by(Mode::Up, values, b, c),
        Mode::Down => shuffle_all_by(Mode::Down, values, b, c),
        Mode::Bfly => shuffle_all_by(Mode::Bfly, values, b, c),
        _ => shuffle_all_by(Mode::Idx, values, b, c),
    }
}

#[inline(always)]
fn shuffle_all_by(mode: Mode, values: &Lanes, b: u32, c: u32) -> [Lanes; 2] {
    let mut out = [[0; 32]; 2];
    for lane in 0..32u32 {
        let (source, inside) = shuffle_source(mode, lane, b, c);
        out[0][lane as usize] = values[source as usize % 32];
        out[1][lane as usize] = inside.into();
    }
    out
}

/// Computes a `shfl` for several groups of lanes at once. `members` contains, for each lane, the mask of the lanes that
/// are in its group. The results for a lane equal those of [`perform`] with the lane's group as `active`.
pub fn shuffle_in_groups(mode: Mode, members: &Lanes, args: &[Lanes; 3], out: &mut [Lanes; 2]) {
    let [values, b, c] = args;
    for lane in 0..32 {
        let (source, inside) = shuffle_source(mode, lane as u32, b[lane], c[lane]);
        let present = members[lane] >> source & 1 != 0;
        let value = values[source as usize % 32];
        out[0][lane] = if present { value } else { 0 };
        out[1][lane] = inside.into();
    }
}

fn ballot(active: u32, predicate: &Lanes) -> u32 {
    let all = (0..32).fold(0, |mask, lane| mask | (predicate[lane] & 1) << lane);
    all & active
}

fn vote(mode: Mode, active: u32, predicate: &Lanes) -> u32 {
    counted(mode, active, ballot(active, predicate))
}

/// Returns the result of a vote by the lanes `active`, of which the lanes `ballot` have a true predicate.
fn counted(mode: Mode, active: u32, ballot: u32) -> u32 {
    match mode {
        Mode::All => (ballot == active).into(),
        Mode::Any => (ballot != 0).into(),
        Mode::Uni => (ballot == 0 || ballot == active).into(),
        _ => ballot,
    }
}

fn reduce(desc: &Desc, active: u32, values: &Lanes) -> u32 {
    let (ty, op) = (desc.ty, desc.mods.atom_op());
    let present = crate::lanes(active).map(|lane| values[lane as usize].into());
    present
        .reduce(|a, b| atomic::integer(ty, op, a, &[b]))
        .unwrap_or(0) as u32
}

fn equals(mode: Mode, active: u32, values: &Lanes, out: &mut [Lanes; 2]) {
    for lane in crate::lanes(active) {
        let value = values[lane as usize];
        let equal = (0..32).fold(0, |mask, i| mask | u32::from(values[i] == value) << i) & active;
        let i = lane as usize;
        if mode == Mode::All {
            let all = equal == active;
            out[0][i] = if all { equal } else { 0 };
            out[1][i] = all.into();
        } else {
            out[0][i] = equal;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use margay_ops::meaning::{Bits, Meaning, WarpLanes};
    use margay_ops::mods::{AtomOp, Mods};
    use margay_ops::types::OpType;

    /// Returns the collectives that the tests compute, each with its number of results and its
    /// number of operands.
    fn operations() -> Vec<(Desc, usize, usize)> {
        let desc = |opcode, ty, mods| Desc {
            opcode,
            ty,
            src: OpType::None,
            mods,
        };
        let mut all = Vec::new();
        for mode in [Mode::Up, Mode::Down, Mode::Bfly, Mode::Idx] {
            let mods = Mods::NONE.with_mode(mode);
            all.push((desc(Opcode::Shfl, OpType::B32, mods), 2, 3));
        }
        for mode in [Mode::All, Mode::Any, Mode::Uni, Mode::Ballot] {
            let mods = Mods::NONE.with_mode(mode);
            all.push((desc(Opcode::Vote, OpType::Pred, mods), 1, 1));
        }
        for (mode, results) in [(Mode::All, 2), (Mode::Any, 1)] {
            let mods = Mods::NONE.with_mode(mode);
            all.push((desc(Opcode::Match, OpType::B32, mods), results, 1));
        }
        for (op, ty) in [
            (AtomOp::Add, OpType::U32),
            (AtomOp::Min, OpType::S32),
            (AtomOp::Max, OpType::U32),
            (AtomOp::Xor, OpType::B32),
        ] {
            let mods = Mods::NONE.with_atom_op(op);
            all.push((desc(Opcode::Redux, ty, mods), 1, 1));
        }
        all.push((desc(Opcode::Elect, OpType::None, Mods::NONE), 2, 0));
        all.push((desc(Opcode::ActiveMask, OpType::None, Mods::NONE), 1, 0));
        all
    }

    /// Returns the expected results of a collective whose lanes have different masks, for the lanes
    /// `arrived`, which have the same mask. This function calls the op's reference function to
    /// compute them. `members` are the lanes of the mask of `arrived` that wait at the collective.
    fn apart(desc: &Desc, args: &[[Bits; 32]], members: u32, arrived: u32) -> [[Bits; 32]; 2] {
        let Meaning::Warp(meaning) = desc.opcode.meaning() else {
            panic!("{} is not a collective", desc.opcode.name());
        };
        let active = match desc.opcode {
            Opcode::Vote => members,
            Opcode::Redux if members != 0 => members,
            _ => members | arrived,
        };
        let mut results = [[0; 32]; 2];
        let mut warp = WarpLanes {
            active,
            args,
            results: &mut results,
        };
        meaning(desc, &mut warp);
        // The result of a lane that is not a source is the result of the lowest source.
        let lowest = active.trailing_zeros() as usize % 32;
        for values in &mut results {
            for lane in (0..32).filter(|lane| active >> lane & 1 == 0) {
                values[lane] = values[lowest];
            }
        }
        results
    }

    proptest! {
        #[test]
        fn lanes_apart_get_what_their_masks_say(
            values in vec(prop_oneof![0u32..3, any::<u32>()], 32),
            b in vec(0u32..40, 32),
            c in vec(prop_oneof![Just(0x1fu32), Just(0), Just(0x181f), any::<u32>()], 32),
            masks in vec(prop_oneof![Just(0u32), Just(0xff), Just(u32::MAX), any::<u32>()], 32),
            standing in 1u32..,
        ) {
            let [values, b, c, masks] = [values, b, c, masks]
                .map(|lanes| -> Lanes { lanes.try_into().expect("32 lanes") });
            for (desc, results, operands) in operations() {
                if operands == 0 {
                    continue;
                }
                let wide = |lanes: &Lanes| lanes.map(Bits::from);
                let args = [wide(&values), wide(&b), wide(&c)];
                let mut out = [[0; 32]; 2];
                prop_assert!(perform_apart(&desc, (standing, &masks), &[values, b, c], &mut out));
                for lane in crate::lanes(standing) {
                    let lane = lane as usize;
                    let arrived = crate::lanes(standing)
                        .filter(|&other| masks[other as usize] == masks[lane])
                        .fold(0, |all, other| all | 1 << other);
                    let expected = apart(&desc, &args[..operands], masks[lane] & standing, arrived);
                    for index in 0..results {
                        prop_assert_eq!(
                            Bits::from(out[index][lane]),
                            expected[index][lane],
                            "{} lane {} result {}", desc.opcode.name(), lane, index
                        );
                    }
                }
            }
        }

        #[test]
        fn shuffles_in_groups_equal_those_of_each_group(
            values in proptest::array::uniform32(any::<u32>()),
            b in proptest::array::uniform32(0u32..40),
            c in proptest::array::uniform32(prop_oneof![Just(0x1fu32), Just(0x181f), any::<u32>()]),
            number in proptest::array::uniform32(0usize..4),
            active in any::<u32>(),
        ) {
            let group = |of: usize| {
                let same = crate::lanes(active).filter(|&lane| number[lane as usize] == of);
                same.fold(0, |all, lane| all | 1 << lane)
            };
            let members = number.map(group);
            let args = [values, b, c];
            for mode in [Mode::Up, Mode::Down, Mode::Bfly, Mode::Idx] {
                let mut out = [[0; 32]; 2];
                shuffle_in_groups(mode, &members, &args, &mut out);
                for lane in crate::lanes(active) {
                    let mut expected = [[0; 32]; 2];
                    shuffle(mode, members[lane as usize], &args, &mut expected);
                    for (found, expected) in out.iter().zip(&expected) {
                        prop_assert_eq!(found[lane as usize], expected[lane as usize]);
                    }
                }
            }
        }

        #[test]
        fn shuffles_of_all_lanes_equal_the_meaning(
            values in proptest::array::uniform32(any::<u32>()),
            b in 0u32..70,
            c in prop_oneof![Just(0x1fu32), Just(0), Just(0x181f), any::<u32>()],
        ) {
            for mode in [Mode::Up, Mode::Down, Mode::Bfly, Mode::Idx] {
                let mods = Mods::NONE.with_mode(mode);
                let desc = Desc {
                    opcode: Opcode::Shfl,
                    ty: OpType::B32,
                    src: OpType::None,
                    mods,
                };
                let args = [values.map(Bits::from), [b.into(); 32], [c.into(); 32]];
                let expected = apart(&desc, &args, u32::MAX, u32::MAX);
                let out = shuffle_of_all(mode, &values, b, c);
                prop_assert_eq!(out.map(|lanes| lanes.map(Bits::from)), expected, "{:?}", mode);
            }
        }

        #[test]
        fn equal_to_the_meanings(
            values in proptest::array::uniform32(prop_oneof![0u32..3, any::<u32>()]),
            b in proptest::array::uniform32(0u32..40),
            c in proptest::array::uniform32(prop_oneof![Just(0x1fu32), Just(0), Just(0x181f), any::<u32>()]),
            active in 1u32..,
        ) {
            for (desc, results, operands) in operations() {
                let Meaning::Warp(meaning) = desc.opcode.meaning() else {
                    panic!("{} is not a collective", desc.opcode.name());
                };
                let wide = |lanes: &Lanes| lanes.map(Bits::from);
                let args = [wide(&values), wide(&b), wide(&c)];
                let mut expected = [[0; 32]; 2];
                meaning(&desc, &mut WarpLanes {
                    active,
                    args: &args[..operands],
                    results: &mut expected[..results],
                });
                let mut out = [[0; 32]; 2];
                prop_assert!(perform(&desc, active, &[values, b, c], &mut out));
                for lane in crate::lanes(active) {
                    for index in 0..results {
                        prop_assert_eq!(
                            Bits::from(out[index][lane as usize]),
                            expected[index][lane as usize],
                            "{} lane {} result {}", desc.opcode.name(), lane, index
                        );
                    }
                }
            }
        }
    }
}
