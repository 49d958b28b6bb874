//! Completes sync points for generated code: collectives of warps, and barriers with a reduction.
//!
//! Generated code calls [`collective`] when all lanes of a warp wait at a collective, [`sort_out`] when the lanes of a
//! warp have diverged, [`reduce`] when all threads of a CTA wait at a barrier with a reduction, and [`settle`] when
//! other code continues after the uniform path. If the CTA scheduler completes a collective instead of generated code,
//! [`super::native_cta`] calls [`perform`] for the lanes that take part. The functions read operands from the warp's
//! frame and write results to it, one array for each operand or result.

use std::ops::Range;

use margay_exec::arrays::{self, Lanes};
use margay_exec::{SyncPoint, lanes};
use margay_ir::analysis::regions::FRAME_ALIVE;
use margay_jit::abi::{NativeContext, sorted};
use margay_jit::sync_points::{Completion, LaneStorage, SyncPointPlaces};
use margay_ops::meaning::{Bits, Desc, Meaning, WarpLanes};
use margay_ops::mods::AtomOp;
use margay_ops::ops::Opcode;

use super::products;

/// The frame of one warp, in the layout of generated code.
#[derive(Clone, Copy)]
pub(super) struct Frame(*mut u8);

impl Frame {
    /// # Safety
    /// `start` must be the start of a warp's frame. The sync points that callers pass to methods of
    /// the frame must be sync points of the warp's kernel. No other code may use the frame at the
    /// same time.
    pub(super) unsafe fn new(start: *mut u8) -> Frame {
        Frame(start)
    }

    /// Returns the number of the sync point at which each lane waits.
    fn stop_words(self) -> Lanes {
        // SAFETY: a frame begins with 32 stop words.
        unsafe { self.0.cast::<Lanes>().read() }
    }

    /// Returns the mask of the lanes that have not exited.
    fn alive(self) -> u32 {
        // SAFETY: every frame contains this word at this offset.
        unsafe { self.0.add(FRAME_ALIVE as usize).cast::<u32>().read() }
    }

    fn set_alive(self, lanes: u32) {
        // SAFETY: every frame contains this word at this offset.
        unsafe { self.0.add(FRAME_ALIVE as usize).cast::<u32>().write(lanes) }
    }

    /// Sets the number of the sync point at which each lane in `lanes` waits.
    fn put_stop_words(self, lanes: Range<u32>, sync_point: u32) {
        for lane in lanes {
            // SAFETY: a frame begins with 32 stop words.
            unsafe { self.0.cast::<u32>().add(lane as usize).write(sync_point) }
        }
    }

    /// Returns the low 32 bits of the value at `place` for each lane.
    pub(super) fn words(self, place: LaneStorage) -> Lanes {
        match place {
            LaneStorage::Absent => [0; 32],
            LaneStorage::Constant(bits) => [bits as u32; 32],
            LaneStorage::Stored { offset, bytes } => {
                // SAFETY: the frame contains an array of 32 elements of this size at this offset.
                let at = unsafe { self.0.add(offset as usize) };
                match bytes {
                    // SAFETY: the array has 32 elements of one byte.
                    1 => unsafe { at.cast::<[u8; 32]>().read() }.map(u32::from),
                    // SAFETY: the array has 32 elements of two bytes; arrays are aligned to their elements.
                    2 => unsafe { at.cast::<[u16; 32]>().read() }.map(u32::from),
                    // SAFETY: the array has 32 elements of four bytes; arrays are aligned to their elements.
                    4 => unsafe { at.cast::<Lanes>().read() },
                    _ => std::array::from_fn(|lane| self.wide(place, lane) as u32),
                }
            }
        }
    }

    /// Returns the values of an operand that has an array of 32-bit elements in the frame. For any
    /// other operand, the result is the first words of the frame, which callers must not use. The
    /// frame must not be written while the result is borrowed.
    pub(super) fn row<'a>(self, place: LaneStorage) -> &'a Lanes {
        let offset = match place {
            LaneStorage::Stored { offset, bytes: 4 } => offset,
            _ => 0,
        };
        // SAFETY: the frame contains an aligned array of 32 elements of four bytes at this offset; there is also such
        // an array at offset 0.
        unsafe { &*self.0.add(offset as usize).cast::<Lanes>() }
    }

    pub(super) fn put_words(self, place: LaneStorage, values: &Lanes) {
        let LaneStorage::Stored { offset, bytes } = place else {
            return;
        };
        // SAFETY: the frame contains an array of 32 elements of this size at this offset.
        let at = unsafe { self.0.add(offset as usize) };
        match bytes {
            // SAFETY: the array has 32 elements of one byte.
            1 => unsafe { at.cast::<[u8; 32]>().write(values.map(|v| v as u8)) },
            // SAFETY: the array has 32 elements of two bytes; arrays are aligned to their elements.
            2 => unsafe { at.cast::<[u16; 32]>().write(values.map(|v| v as u16)) },
            // SAFETY: the array has 32 elements of four bytes; arrays are aligned to their elements.
            4 => unsafe { at.cast::<Lanes>().write(*values) },
            _ => {
                for (lane, &value) in values.iter().enumerate() {
                    self.put_wide(place, lane, value.into());
                }
            }
        }
    }

    /// Writes `values` for the lanes in `active`; the values of other lanes do not change.
    pub(super) fn put_active(self, place: LaneStorage, active: u32, values: &Lanes) {
        if active == u32::MAX {
            return self.put_words(place, values);
        }
        if let LaneStorage::Stored {
            bytes: 1 | 2 | 4, ..
        } = place
        {
            let mut all = self.words(place);
            for (lane, word) in all.iter_mut().enumerate() {
                if active >> lane & 1 != 0 {
                    *word = values[lane];
                }
            }
            return self.put_words(place, &all);
        }
        for lane in lanes(active) {
            let lane = lane as usize;
            self.put_wide(place, lane, values[lane].into());
        }
    }

    pub(super) fn wide(self, place: LaneStorage, lane: usize) -> Bits {
        match place {
            LaneStorage::Absent => 0,
            LaneStorage::Constant(bits) => bits.into(),
            LaneStorage::Stored { offset, bytes } => {
                let mut cell = [0; 16];
                // SAFETY: the frame contains the lane's element at this offset; it has at most 16 bytes.
                unsafe {
                    let at = self.0.add(offset as usize + lane * bytes as usize);
                    at.copy_to_nonoverlapping(cell.as_mut_ptr(), bytes as usize);
                }
                Bits::from_le_bytes(cell)
            }
        }
    }

    pub(super) fn put_wide(self, place: LaneStorage, lane: usize, value: Bits) {
        if let LaneStorage::Stored { offset, bytes } = place {
            let cell = value.to_le_bytes();
            // SAFETY: the frame contains the lane's element at this offset; it has at most 16 bytes.
            unsafe {
                let at = self.0.add(offset as usize + lane * bytes as usize);
                at.copy_from_nonoverlapping(cell.as_ptr(), bytes as usize);
            }
        }
    }
}

/// Returns how many operands the op has before its member mask, and how many results it has.
fn shape(desc: &Desc) -> (usize, usize) {
    match desc.opcode {
        Opcode::Shfl => (3, 2),
        Opcode::Vote | Opcode::Redux => (1, 1),
        Opcode::Match => (1, 2),
        Opcode::Elect => (0, 2),
        Opcode::ActiveMask => (0, 1),
        _ => (0, 0),
    }
}

/// Computes a collective for the lanes in `active` and writes the results to the frame.
pub(super) fn perform(frame: Frame, sync_point: &SyncPointPlaces, active: u32) {
    if sync_point.desc.opcode == Opcode::Mma {
        if products::perform(frame, sync_point, active) {
            return;
        }
        let shape = margay_exec::collective::shape(&sync_point.desc);
        return perform_wide(frame, sync_point, active, shape);
    }
    if shuffle_by_constants(frame, sync_point, active) {
        return;
    }
    let (operands, results) = shape(&sync_point.desc);
    let args = operands_of(frame, sync_point, operands);
    let mut out = [[0; 32]; 2];
    if !arrays::perform(&sync_point.desc, active, &args, &mut out) {
        return perform_wide(frame, sync_point, active, (operands, results));
    }
    for (&place, values) in sync_point.results[..results].iter().zip(&out) {
        frame.put_active(place, active, values);
    }
}

/// Computes a `shfl` of 32-bit values that all lanes of a warp execute, if its second and third operands are constants,
/// and writes the results to the frame. Returns false and changes nothing if the collective is another one. Scans and
/// reductions of warps consist of such shuffles, so this path makes no copies of operands.
fn shuffle_by_constants(frame: Frame, sync_point: &SyncPointPlaces, active: u32) -> bool {
    let desc = &sync_point.desc;
    let &[
        value,
        LaneStorage::Constant(b),
        LaneStorage::Constant(c),
        ..,
    ] = &sync_point.args[..]
    else {
        return false;
    };
    if desc.opcode != Opcode::Shfl
        || active != u32::MAX
        || !matches!(value, LaneStorage::Stored { bytes: 4, .. })
    {
        return false;
    }
    let out = arrays::shuffle_of_all(desc.mods.mode(), frame.row(value), b as u32, c as u32);
    for (&place, values) in sync_point.results.iter().zip(&out) {
        frame.put_words(place, values);
    }
    true
}

/// Computes a `shfl` of 32-bit values for all groups of the lanes in `active` at once, and writes the results to the
/// frame. Returns false and changes nothing if the collective is another one, or if a lane is not in its own mask.
fn shuffle_in_groups(
    frame: Frame,
    sync_point: &SyncPointPlaces,
    active: u32,
    masks: &Lanes,
) -> bool {
    let desc = &sync_point.desc;
    let value = sync_point.args[0];
    if desc.opcode != Opcode::Shfl
        || !matches!(value, LaneStorage::Stored { bytes: 4, .. })
        || lanes(active).any(|lane| masks[lane as usize] >> lane & 1 == 0)
    {
        return false;
    }
    let args = operands_of(frame, sync_point, 3);
    let mut out = [[0; 32]; 2];
    let members = masks.map(|mask| mask & active);
    arrays::shuffle_in_groups(desc.mods.mode(), &members, &args, &mut out);
    for (&place, values) in sync_point.results.iter().zip(&out) {
        frame.put_active(place, active, values);
    }
    true
}

/// Performs a collective with the op's reference function. [`perform`] calls this function for
/// operands wider than 32 bits, for floating-point reductions, and for matrix products that
/// [`products`] does not compute.
fn perform_wide(
    frame: Frame,
    sync_point: &SyncPointPlaces,
    active: u32,
    (operands, results): (usize, usize),
) {
    let Meaning::Warp(meaning) = sync_point.desc.opcode.meaning() else {
        return;
    };
    let mut args = vec![[0 as Bits; 32]; operands];
    for (values, &place) in args.iter_mut().zip(&sync_point.args) {
        for lane in lanes(active) {
            values[lane as usize] = frame.wide(place, lane as usize);
        }
    }
    let mut out = vec![[0 as Bits; 32]; results];
    let mut warp = WarpLanes {
        active,
        args: &args,
        results: &mut out,
    };
    meaning(&sync_point.desc, &mut warp);
    for (&place, values) in sync_point.results.iter().zip(&out) {
        for lane in lanes(active) {
            frame.put_wide(place, lane as usize, values[lane as usize]);
        }
    }
}

/// Returns where the member mask of a sync point is stored. Operations without a mask, and the deprecated forms without
/// `.sync`, have no member mask.
fn mask_place(sync_point: &SyncPointPlaces) -> LaneStorage {
    let mask = margay_exec::collective::mask_operand(&sync_point.desc);
    mask.map_or(LaneStorage::Absent, |index| sync_point.args[index])
}

/// Completes a collective at which all lanes of a warp wait. Lanes with equal member masks form a group. Returns 0 if
/// the collective is complete. Returns 1 and changes nothing if the CTA scheduler must complete the collective, for
/// example because the mask of a lane contains live lanes that have other masks.
pub(super) unsafe extern "C" fn collective(
    _: *mut NativeContext,
    frame: *mut u8,
    sync_point: *const SyncPointPlaces,
    active: u32,
) -> i32 {
    // SAFETY: generated code passes its own warp's frame, and a sync point of its kernel.
    let (frame, sync_point) = unsafe { (Frame::new(frame), &*sync_point) };
    if is_complete(frame, sync_point, active, active) {
        perform_groups(frame, sync_point, active);
        return 0;
    }
    i32::from(!perform_apart(frame, sync_point, active))
}

/// Completes a collective at which all lanes of a warp wait, if some lanes are missing in their own
/// member masks. PTX does not define the result of such a collective. No other lane can still
/// arrive at the collective, so the function need not wait. Returns false and changes nothing if
/// the mask of each lane contains this lane, if the mask is a constant, or if
/// [`arrays::perform_apart`] does not support the operation.
fn perform_apart(frame: Frame, sync_point: &SyncPointPlaces, standing: u32) -> bool {
    let place = mask_place(sync_point);
    let masks = frame.words(place);
    let outside = |lane: &u32| masks[*lane as usize] >> lane & 1 == 0;
    if !matches!(place, LaneStorage::Stored { .. }) || !lanes(standing).any(|lane| outside(&lane)) {
        return false;
    }
    if sync_point.desc.opcode == Opcode::BarWarp {
        return true;
    }
    let (operands, results) = shape(&sync_point.desc);
    let args = operands_of(frame, sync_point, operands);
    let mut out = [[0; 32]; 2];
    let done = arrays::perform_apart(&sync_point.desc, (standing, &masks), &args, &mut out);
    if done {
        for (&place, values) in sync_point.results[..results].iter().zip(&out) {
            frame.put_active(place, standing, values);
        }
    }
    done
}

/// Returns the low 32 bits of the first `count` operands of a collective.
fn operands_of(frame: Frame, sync_point: &SyncPointPlaces, count: usize) -> [Lanes; 3] {
    std::array::from_fn(|i| match i < count {
        true => frame.words(sync_point.args[i]),
        false => [0; 32],
    })
}

/// Returns whether the lanes in `standing`, which wait at a collective, can complete it. They
/// cannot complete it if one of their member masks contains a live lane that has another mask or
/// waits at another sync point, or if their masks differ and a mask does not contain its own lane.
fn is_complete(frame: Frame, sync_point: &SyncPointPlaces, standing: u32, alive: u32) -> bool {
    match mask_place(sync_point) {
        LaneStorage::Absent => true,
        LaneStorage::Constant(mask) => mask as u32 & alive & !standing == 0,
        place => {
            let masks = frame.words(place);
            if alive & !standing == 0 && are_tiles(&masks) || is_partition(&masks, standing, alive)
            {
                return true;
            }
            groups(&masks, standing).all(|(mask, group)| {
                // If the masks differ and a mask does not contain its own lane, the CTA scheduler handles the
                // collective.
                mask & alive & !group == 0 && (group & !mask == 0 || group == standing)
            })
        }
    }
}

/// The member masks of all lanes for groups of 1, 2, 4, 8, 16 and 32 lanes.
static TILES: [Lanes; 6] = {
    let mut tiles = [[0; 32]; 6];
    let mut at = 0;
    while at < 6 * 32 {
        let (log2, lane) = (at / 32, at % 32);
        let size = 1 << log2;
        tiles[log2][lane] = (u32::MAX >> (32 - size)) << (lane & !(size - 1));
        at += 1;
    }
    tiles
};

/// Returns whether the warp consists of groups of 1, 2, 4, ... neighbouring lanes, so that the mask of each lane is its
/// group. The compiler turns this test into vector code.
fn are_tiles(masks: &Lanes) -> bool {
    let size = masks[0].count_ones();
    let of_size = |tiles: &Lanes| {
        let pairs = masks.iter().zip(tiles);
        pairs.fold(0, |bits, (mask, tile)| bits | (mask ^ tile)) == 0
    };
    size.is_power_of_two() && of_size(&TILES[size.trailing_zeros() as usize])
}

/// Returns whether the lanes in `standing` form groups so that the mask of each lane, without the lanes that have
/// exited, is the lane's group. This test takes the same time for any number of groups.
fn is_partition(masks: &Lanes, standing: u32, alive: u32) -> bool {
    let mut members = 0;
    for lane in lanes(standing) {
        let mask = masks[lane as usize];
        let leader = (mask & alive).trailing_zeros() as usize % 32;
        if mask >> lane & 1 == 0 || masks[leader] != mask || standing >> leader & 1 == 0 {
            return false;
        }
        if leader as u32 == lane {
            members += (mask & alive).count_ones();
        }
    }
    // A group is a subset of its mask without exited lanes. The sums are equal only if all these sets are equal.
    members == standing.count_ones()
}

/// Computes a collective for the lanes in `active`, for which [`is_complete`] holds.
fn perform_groups(frame: Frame, sync_point: &SyncPointPlaces, active: u32) {
    // A barrier has no results.
    if sync_point.desc.opcode == Opcode::BarWarp {
        return;
    }
    match mask_place(sync_point) {
        place @ LaneStorage::Stored { .. } => {
            let masks = frame.words(place);
            if shuffle_in_groups(frame, sync_point, active, &masks) {
                return;
            }
            for (_, group) in groups(&masks, active) {
                perform(frame, sync_point, group);
            }
        }
        _ => perform(frame, sync_point, active),
    }
}

/// Returns each different member mask of the lanes in `active`, with the mask of the lanes that
/// have this member mask.
fn groups(masks: &Lanes, active: u32) -> impl Iterator<Item = (u32, u32)> {
    let mut rest = active;
    std::iter::from_fn(move || {
        let mask = masks[rest.trailing_zeros() as usize % 32];
        // Usually all masks are equal. The compiler turns this comparison into vector code, but not the next one.
        let differing = masks.iter().fold(0, |bits, one| bits | (one ^ mask));
        let same = |same, lane| same | u32::from(masks[lane as usize] == mask) << lane;
        let group = match differing {
            0 => rest,
            _ => (0..32).fold(0, same) & rest,
        };
        rest &= !group;
        (group != 0).then_some((mask, group))
    })
}

/// Selects the lanes that run next in a diverged warp. Lanes at the same sync point form a group.
/// Of the groups that need not wait for other lanes, the group with the lowest sync point number
/// runs next. Returns a constant of `sorted`, which states whether a group runs next, all live lanes
/// wait at the same barrier (or no lane is live), or the CTA scheduler must choose the lanes.
pub(super) unsafe extern "C" fn sort_out(
    context: *mut NativeContext,
    frame: *mut u8,
    sync_points: *const SyncPointPlaces,
    count: u32,
) -> i32 {
    // SAFETY: generated code passes its own context, which no other code uses at the same time.
    let context = unsafe { &mut *context };
    // SAFETY: generated code passes its own warp's frame.
    let frame = unsafe { Frame::new(frame) };
    // SAFETY: generated code passes all sync points of its kernel.
    let sync_points = unsafe { std::slice::from_raw_parts(sync_points, count as usize) };
    let stop_words = frame.stop_words();
    context.alive &= !standing_at(&stop_words, SyncPoint::EXIT.0);
    let alive = context.alive;
    let mut rest = alive;
    let mut first: Option<(u32, u32)> = None;
    let mut barriers = 0;
    // The lowest sync point number of the held lanes. Only the CTA scheduler can release held lanes, for example lanes
    // that have yielded.
    let mut held = u32::MAX;
    while rest != 0 {
        let number = stop_words[rest.trailing_zeros() as usize];
        let standing = standing_at(&stop_words, number) & rest;
        rest &= !standing;
        let Some(sync_point) = sync_points.get(number as usize) else {
            return sorted::GENERAL;
        };
        let goes_on = match sync_point.completion {
            // A `bar.warp.sync` is complete when its members have arrived.
            Completion::Nothing | Completion::Collective => {
                is_complete(frame, sync_point, standing, alive)
            }
            Completion::Barrier | Completion::Reduction => {
                barriers |= standing;
                context.sync_point = number;
                false
            }
            Completion::General => {
                held = held.min(number);
                false
            }
        };
        if goes_on && first.is_none_or(|(known, _)| number < known) {
            first = Some((number, standing));
        }
    }
    if let Some((number, group)) = first {
        let sync_point = &sync_points[number as usize];
        if sync_point.completion == Completion::Nothing && held < number {
            // The held lanes can still reach this sync point and join the group. If the group continued now, timing
            // would decide whether the warp reconverges here.
            return sorted::GENERAL;
        }
        if sync_point.completion == Completion::Collective {
            perform_groups(frame, sync_point, group);
        }
        (context.sync_point, context.group) = (number, group);
        return sorted::GROUP;
    }
    let together = barriers == standing_at(&stop_words, context.sync_point) & alive;
    if barriers == alive && (alive == 0 || together) {
        sorted::ARRIVED
    } else {
        sorted::GENERAL
    }
}

/// Returns the mask of the lanes that wait at the sync point `number`.
fn standing_at(stop_words: &Lanes, number: u32) -> u32 {
    (0..32).fold(0, |mask, lane| {
        mask | u32::from(stop_words[lane] == number) << lane
    })
}

/// Completes a barrier with a reduction (`barrier.red`). All threads of the CTA that have not
/// exited must wait at the barrier.
pub(super) unsafe extern "C" fn reduce(
    context: *mut NativeContext,
    frames: *mut u8,
    sync_point: *const SyncPointPlaces,
    stride: u32,
) {
    // SAFETY: generated code passes its own context, and a sync point of its kernel.
    let (warps, sync_point) = unsafe { ((*context).warps, &*sync_point) };
    let frame = |warp: u32| {
        // SAFETY: generated code passes the contiguous frames of all warps of its CTA.
        unsafe { Frame::new(frames.add(warp as usize * stride as usize)) }
    };
    let (mut threads, mut count) = (0, 0);
    for warp in 0..warps {
        let alive = frame(warp).alive();
        let on = frame(warp).words(sync_point.args[2]);
        threads += alive.count_ones();
        count += lanes(alive).map(|lane| on[lane as usize] & 1).sum::<u32>();
    }
    let value = match sync_point.desc.mods.atom_op() {
        AtomOp::And => u32::from(count == threads),
        AtomOp::Or => u32::from(count != 0),
        _ => count,
    };
    for warp in 0..warps {
        frame(warp).put_words(sync_point.results[0], &[value; 32]);
    }
}

/// Writes the frame headers of a CTA in which each warp has 32 lanes. The threads from `first` up to but not
/// including `end` have reached `sync_point`; later threads have not run in this phase.
pub(super) unsafe extern "C" fn settle(
    context: *mut NativeContext,
    frames: *mut u8,
    sync_point: u32,
    first: u32,
    end: u32,
    stride: u32,
) {
    // SAFETY: generated code passes its own context.
    let warps = unsafe { (*context).warps };
    for warp in first / 32..warps {
        let lane = |thread: u32| thread.saturating_sub(32 * warp).min(32);
        let lanes = lane(first)..lane(end);
        let gone = lanes.len() == 32 && sync_point == SyncPoint::EXIT.0;
        // SAFETY: generated code passes the contiguous frames of all warps of its CTA.
        let frame = unsafe { Frame::new(frames.add(warp as usize * stride as usize)) };
        frame.put_stop_words(lanes, sync_point);
        frame.set_alive(if gone { 0 } else { u32::MAX });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_neighbouring_lanes_are_tiles() {
        let examples = [
            (1, 5, 1 << 5),
            (2, 31, 0xc000_0000),
            (4, 6, 0xf0),
            (8, 9, 0xff00),
            (16, 16, 0xffff_0000),
            (32, 0, u32::MAX),
        ];
        for (size, lane, mask) in examples {
            let masks: Lanes = std::array::from_fn(|lane| {
                let first = lane / size * size;
                (first..first + size).fold(0, |mask, lane| mask | 1 << lane)
            });
            assert_eq!(masks[lane], mask);
            assert!(are_tiles(&masks), "{size}");
            for wrong in [0, 1, 31] {
                let mut masks = masks;
                masks[wrong] ^= 1 << 7;
                assert!(!are_tiles(&masks), "{size}");
            }
        }
        assert!(!are_tiles(&[0; 32]));
        assert!(!are_tiles(&[0xff; 32]));
    }
}
