//! Collectives of a warp: determines which lanes execute a collective together, and computes the
//! results of these lanes (`docs/semantics.md`, "Warps").
//!
//! Lanes that wait at collectives with the same op, the same modifiers and the same member mask form a group, even if
//! they are at different instructions. A group is complete when every lane in its member mask has arrived or exited. If
//! all waiting lanes have the same mask, Margay treats a lane that its mask does not contain as if the mask contained
//! it. For lanes with different masks, see [`has_outsiders`] and [`perform_apart`].

use smallvec::{SmallVec, smallvec};

use crate::{Runner, SyncPoint, lanes};
use margay_ops::meaning::matrix::Product;
use margay_ops::meaning::{Bits, Desc, Meaning, WarpLanes};
use margay_ops::ops::Opcode;

/// Lanes of a warp that wait at collectives with equal descriptions and equal member masks, possibly at different sync
/// points.
#[derive(Clone, Debug)]
pub struct Group {
    /// The operation.
    pub desc: Desc,
    /// The member mask, which is equal for all lanes of the group.
    pub members: u32,
    /// The lanes of the group, which have arrived at the collective.
    pub arrived: u32,
}

/// Returns the index of the operand that is the member mask, or `None` for an op without a member
/// mask.
pub fn mask_operand(desc: &Desc) -> Option<usize> {
    if desc.mods.flag() {
        return None;
    }
    match desc.opcode {
        Opcode::BarWarp | Opcode::Elect | Opcode::Mma => Some(0),
        Opcode::Vote | Opcode::Match | Opcode::Redux => Some(1),
        Opcode::Shfl => Some(3),
        _ => None,
    }
}

/// Returns the groups that the waiting lanes `waiting` of a warp form, in the order of their lowest
/// lanes. Lanes that wait at operations without a member mask are not in a group.
pub fn groups(
    runner: &impl Runner,
    warp: u32,
    waiting: u32,
    sync_points: &[SyncPoint; 32],
) -> SmallVec<[Group; 2]> {
    let mut groups: SmallVec<[Group; 2]> = SmallVec::new();
    let mut known: Option<(SyncPoint, Desc, Option<usize>, Option<Bits>)> = None;
    for lane in lanes(waiting) {
        let sync_point = sync_points[lane as usize];
        let (_, desc, index, constant) = match known {
            Some(known) if known.0 == sync_point => known,
            _ => {
                let desc = runner.sync_point_data(sync_point).desc;
                let index = mask_operand(&desc);
                let constant = index.and_then(|index| runner.constant_operand(sync_point, index));
                *known.insert((sync_point, desc, index, constant))
            }
        };
        let Some(index) = index else {
            continue;
        };
        let members =
            constant.unwrap_or_else(|| runner.operand(warp, lane, sync_point, index)) as u32;
        match groups
            .iter_mut()
            .find(|g| g.desc == desc && g.members == members)
        {
            Some(group) => group.arrived |= 1 << lane,
            None => groups.push(Group {
                desc,
                members,
                arrived: 1 << lane,
            }),
        }
    }
    groups
}

/// Returns all lanes in `groups` that wait at the same operation as the lanes of `group`, with any
/// mask.
pub fn standing(groups: &[Group], group: &Group) -> u32 {
    let alike = groups.iter().filter(|other| other.desc == group.desc);
    alike.fold(0, |lanes, other| lanes | other.arrived)
}

/// Returns whether the lanes that wait at the operation of `group` have different masks, and the
/// mask of at least one of them does not contain this lane. PTX leaves this case undefined, but
/// some programs use such collectives to read values of other lanes.
pub fn has_outsiders(groups: &[Group], group: &Group) -> bool {
    let mut alike = groups.iter().filter(|other| other.desc == group.desc);
    let outsiders = |other: &Group| other.arrived & !other.members != 0;
    alike.clone().count() > 1 && alike.any(outsiders)
}

/// Returns the number of operands and of results of a collective's reference function.
pub fn shape(desc: &Desc) -> (usize, usize) {
    match desc.opcode {
        Opcode::Shfl => (4, 2),
        Opcode::Vote | Opcode::Redux => (2, 1),
        Opcode::Match => (2, 2),
        Opcode::Elect => (1, 2),
        Opcode::Mma => Product::of(desc).map_or((0, 0), |product| product.arity()),
        _ => (0, 0),
    }
}

/// Computes a collective that the lanes `active` of a warp execute together, and writes the results
/// to the registers of these lanes.
pub fn perform(
    runner: &mut impl Runner,
    warp: u32,
    desc: &Desc,
    active: u32,
    sync_points: &[SyncPoint; 32],
) {
    if !matches!(desc.opcode.meaning(), Meaning::Warp(_)) {
        return;
    }
    let first = sync_points[active.trailing_zeros() as usize % 32];
    let together = lanes(active).all(|lane| sync_points[lane as usize] == first);
    if together && runner.perform(warp, first, active) {
        return;
    }
    compute(runner, warp, desc, (active, active), sync_points);
}

/// Returns the lanes whose operands determine the results of the lanes `arrived`, in the case that
/// lanes wait at the same operation with different masks. `members` are those waiting lanes that
/// the mask of `arrived` contains. For a vote, the returned lanes are `members`; if there are no
/// members, the result of the vote is zero. For a reduction, the returned lanes are `members`, or
/// `arrived` if there are no members. For any other operation, the returned lanes are `members` and
/// `arrived`.
pub(super) fn sources_apart(opcode: Opcode, members: u32, arrived: u32) -> u32 {
    let own = match opcode {
        Opcode::Vote => true,
        Opcode::Redux => members != 0,
        _ => false,
    };
    if own { members } else { members | arrived }
}

/// Computes a collective for the lanes of a group, while other lanes wait at the same operation
/// with different masks. Writes the results to the registers of the group's lanes. `standing` are
/// all lanes that wait at the operation. PTX leaves this case undefined. In Margay, `sources_apart`
/// determines the lanes from which the results of the group are computed.
pub fn perform_apart(
    runner: &mut impl Runner,
    warp: u32,
    group: &Group,
    standing: u32,
    sync_points: &[SyncPoint; 32],
) {
    let members = group.members & standing;
    let sources = sources_apart(group.desc.opcode, members, group.arrived);
    if matches!(group.desc.opcode.meaning(), Meaning::Warp(_)) {
        compute(
            runner,
            warp,
            &group.desc,
            (sources, group.arrived),
            sync_points,
        );
    }
}

/// Computes a collective from the operands of the lanes `sources`, and writes the results to the
/// registers of the lanes `readers`.
fn compute(
    runner: &mut impl Runner,
    warp: u32,
    desc: &Desc,
    (sources, readers): (u32, u32),
    sync_points: &[SyncPoint; 32],
) {
    let Meaning::Warp(meaning) = desc.opcode.meaning() else {
        return;
    };
    let (operands, results) = shape(desc);
    let mut args: SmallVec<[[Bits; 32]; 4]> = smallvec![[0; 32]; operands];
    for (index, values) in args.iter_mut().enumerate() {
        if desc.mods.flag() && index + 1 == operands {
            // A form without a mask operand has as its members all lanes that execute it together.
            values.fill(Bits::from(sources));
            continue;
        }
        for lane in lanes(sources) {
            values[lane as usize] = runner.operand(warp, lane, sync_points[lane as usize], index);
        }
    }
    let mut out: SmallVec<[[Bits; 32]; 2]> = smallvec![[0; 32]; results];
    meaning(
        desc,
        &mut WarpLanes {
            active: sources,
            args: &args,
            results: &mut out,
        },
    );
    // The result of a reader that is not a source is the result of the lowest source.
    let any = sources.trailing_zeros() as usize % 32;
    for (index, values) in out.iter().enumerate() {
        for lane in lanes(readers) {
            let from = if sources >> lane & 1 != 0 {
                lane as usize
            } else {
                any
            };
            runner.set_result(warp, lane, sync_points[lane as usize], index, values[from]);
        }
    }
}
