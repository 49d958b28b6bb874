//! Completes points in place of generated code: warp collectives and the reductions of barriers.
//!
//! Generated code calls these between two regions of a warp, when all of the warp's lanes stand at the
//! point; [`super::native_cta`] calls [`perform`] for lanes that met in the general form. Operands are
//! read from the warp's frame and results written there, array by array.

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

/// The frame of one warp, as generated code lays it out.
#[derive(Clone, Copy)]
pub(super) struct Frame(*mut u8);

impl Frame {
    /// # Safety
    /// `start` must be the frame of a warp whose kernel has the points used with it, and nobody else
    /// may use the frame meanwhile.
    pub(super) unsafe fn new(start: *mut u8) -> Frame {
        Frame(start)
    }

    /// Where each lane stands.
    fn stops(self) -> Lanes {
        // SAFETY: a frame begins with 32 stop words.
        unsafe { self.0.cast::<Lanes>().read() }
    }

    /// Lanes that have not exited.
    fn alive(self) -> u32 {
        // SAFETY: the word lies there in every frame.
        unsafe { self.0.add(FRAME_ALIVE as usize).cast::<u32>().read() }
    }

    fn set_alive(self, lanes: u32) {
        // SAFETY: the word lies there in every frame.
        unsafe { self.0.add(FRAME_ALIVE as usize).cast::<u32>().write(lanes) }
    }

    /// Some lanes, of 32, stand at a stop.
    fn put_stops(self, lanes: Range<u32>, stop: u32) {
        for lane in lanes {
            // SAFETY: a frame begins with 32 stop words.
            unsafe { self.0.cast::<u32>().add(lane as usize).write(stop) }
        }
    }

    /// The low 32 bits of an operand's lanes.
    pub(super) fn words(self, place: LaneStorage) -> Lanes {
        match place {
            LaneStorage::Absent => [0; 32],
            LaneStorage::Constant(bits) => [bits as u32; 32],
            LaneStorage::Stored { offset, bytes } => {
                // SAFETY: an array of 32 such elements lies there in the frame.
                let at = unsafe { self.0.add(offset as usize) };
                match bytes {
                    // SAFETY: as above.
                    1 => unsafe { at.cast::<[u8; 32]>().read() }.map(u32::from),
                    // SAFETY: as above; arrays are aligned to their elements.
                    2 => unsafe { at.cast::<[u16; 32]>().read() }.map(u32::from),
                    // SAFETY: as above.
                    4 => unsafe { at.cast::<Lanes>().read() },
                    _ => std::array::from_fn(|lane| self.wide(place, lane) as u32),
                }
            }
        }
    }

    /// The lanes of an operand that has an array of 32-bit elements in the frame; of another, its frame's first words.
    /// Nobody may write to the frame as long as they are borrowed.
    pub(super) fn row<'a>(self, place: LaneStorage) -> &'a Lanes {
        let offset = match place {
            LaneStorage::Stored { offset, bytes: 4 } => offset,
            _ => 0,
        };
        // SAFETY: an array of 32 such elements lies there in the frame, aligned to them; a frame begins with one.
        unsafe { &*self.0.add(offset as usize).cast::<Lanes>() }
    }

    pub(super) fn put_words(self, place: LaneStorage, values: &Lanes) {
        let LaneStorage::Stored { offset, bytes } = place else {
            return;
        };
        // SAFETY: an array of 32 such elements lies there in the frame.
        let at = unsafe { self.0.add(offset as usize) };
        match bytes {
            // SAFETY: as above.
            1 => unsafe { at.cast::<[u8; 32]>().write(values.map(|v| v as u8)) },
            // SAFETY: as above; arrays are aligned to their elements.
            2 => unsafe { at.cast::<[u16; 32]>().write(values.map(|v| v as u16)) },
            // SAFETY: as above.
            4 => unsafe { at.cast::<Lanes>().write(*values) },
            _ => {
                for (lane, &value) in values.iter().enumerate() {
                    self.put_wide(place, lane, value.into());
                }
            }
        }
    }

    /// Writes the values of the lanes `active`.
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
                // SAFETY: the lane's element lies there in the frame, and has at most 16 bytes.
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
            // SAFETY: as in `wide`.
            unsafe {
                let at = self.0.add(offset as usize + lane * bytes as usize);
                at.copy_from_nonoverlapping(cell.as_ptr(), bytes as usize);
            }
        }
    }
}

/// Number of operands before the member mask, and of results.
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

/// Computes a collective for a group of lanes and stores its results.
pub(super) fn perform(frame: Frame, point: &SyncPointPlaces, active: u32) {
    if point.desc.opcode == Opcode::Mma {
        if products::perform(frame, point, active) {
            return;
        }
        let shape = margay_exec::collective::shape(&point.desc);
        return perform_wide(frame, point, active, shape);
    }
    let (operands, results) = shape(&point.desc);
    let args = operands_of(frame, point, operands);
    let mut out = [[0; 32]; 2];
    if !arrays::perform(&point.desc, active, &args, &mut out) {
        return perform_wide(frame, point, active, (operands, results));
    }
    for (&place, values) in point.results[..results].iter().zip(&out) {
        frame.put_active(place, active, values);
    }
}

/// The same by the op's meaning, for operands wider than 32 bits, floating-point reductions and
/// products of matrices.
fn perform_wide(
    frame: Frame,
    point: &SyncPointPlaces,
    active: u32,
    (operands, results): (usize, usize),
) {
    let Meaning::Warp(meaning) = point.desc.opcode.meaning() else {
        return;
    };
    let mut args = vec![[0 as Bits; 32]; operands];
    for (values, &place) in args.iter_mut().zip(&point.args) {
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
    meaning(&point.desc, &mut warp);
    for (&place, values) in point.results.iter().zip(&out) {
        for lane in lanes(active) {
            frame.put_wide(place, lane as usize, values[lane as usize]);
        }
    }
}

/// The member mask's place; operations without one, and old forms, have none.
fn mask_place(point: &SyncPointPlaces) -> LaneStorage {
    let mask = margay_exec::collective::mask_operand(&point.desc);
    mask.map_or(LaneStorage::Absent, |index| point.args[index])
}

/// Completes a collective at which all lanes of a warp stand: lanes meet by mask. Not zero, with
/// nothing done, when some wait for lanes that named other masks.
pub(super) unsafe extern "C" fn collective(
    _: *mut NativeContext,
    frame: *mut u8,
    point: *const SyncPointPlaces,
    active: u32,
) -> i32 {
    // SAFETY: generated code passes its own warp's frame, and a point of its kernel.
    let (frame, point) = unsafe { (Frame::new(frame), &*point) };
    if is_complete(frame, point, active, active) {
        perform_groups(frame, point, active);
        return 0;
    }
    i32::from(!perform_apart(frame, point, active))
}

/// Completes a collective at which all lanes of a warp stand, some of which named masks without themselves
/// and others other masks. Undefined in PTX, but nobody else can come; false, with nothing done, where all are
/// in their own masks, or for what is rare.
fn perform_apart(frame: Frame, point: &SyncPointPlaces, standing: u32) -> bool {
    let place = mask_place(point);
    let masks = frame.words(place);
    let outside = |lane: &u32| masks[*lane as usize] >> lane & 1 == 0;
    if !matches!(place, LaneStorage::Stored { .. }) || !lanes(standing).any(|lane| outside(&lane)) {
        return false;
    }
    if point.desc.opcode == Opcode::BarWarp {
        return true;
    }
    let (operands, results) = shape(&point.desc);
    let args = operands_of(frame, point, operands);
    let mut out = [[0; 32]; 2];
    let done = arrays::perform_apart(&point.desc, (standing, &masks), &args, &mut out);
    if done {
        for (&place, values) in point.results[..results].iter().zip(&out) {
            frame.put_active(place, standing, values);
        }
    }
    done
}

/// The low 32 bits of a collective's first operands.
fn operands_of(frame: Frame, point: &SyncPointPlaces, count: usize) -> [Lanes; 3] {
    std::array::from_fn(|i| match i < count {
        true => frame.words(point.args[i]),
        false => [0; 32],
    })
}

/// Whether none of the lanes `standing` at a collective waits for a lane that is alive but has named
/// another mask or stands elsewhere.
fn is_complete(frame: Frame, point: &SyncPointPlaces, standing: u32, alive: u32) -> bool {
    match mask_place(point) {
        LaneStorage::Absent => true,
        LaneStorage::Constant(mask) => mask as u32 & alive & !standing == 0,
        place => {
            let masks = frame.words(place);
            groups(&masks, standing).all(|(mask, group)| {
                // Lanes outside the mask that they name are the scheduler's, when masks differ.
                mask & alive & !group == 0 && (group & !mask == 0 || group == standing)
            })
        }
    }
}

fn perform_groups(frame: Frame, point: &SyncPointPlaces, active: u32) {
    match mask_place(point) {
        place @ LaneStorage::Stored { .. } => {
            for (_, group) in groups(&frame.words(place), active) {
                perform(frame, point, group);
            }
        }
        _ => perform(frame, point, active),
    }
}

/// Each mask that active lanes name, and the lanes that name it.
fn groups(masks: &Lanes, active: u32) -> impl Iterator<Item = (u32, u32)> {
    let mut rest = active;
    std::iter::from_fn(move || {
        let mask = masks[rest.trailing_zeros() as usize % 32];
        let same = |same, lane| same | u32::from(masks[lane as usize] == mask) << lane;
        let group = (0..32).fold(0, same) & rest;
        rest &= !group;
        (group != 0).then_some((mask, group))
    })
}

/// Decides which lanes of a warp go on whose lanes have parted: of those that wait for nobody, the ones
/// furthest behind.
pub(super) unsafe extern "C" fn sort_out(
    context: *mut NativeContext,
    frame: *mut u8,
    points: *const SyncPointPlaces,
    count: u32,
) -> i32 {
    // SAFETY: generated code passes its own context, which nobody else uses meanwhile.
    let context = unsafe { &mut *context };
    // SAFETY: generated code passes its own warp's frame.
    let frame = unsafe { Frame::new(frame) };
    // SAFETY: generated code passes all points of its kernel.
    let points = unsafe { std::slice::from_raw_parts(points, count as usize) };
    let stops = frame.stops();
    context.alive &= !standing_at(&stops, SyncPoint::EXIT.0);
    let alive = context.alive;
    let mut rest = alive;
    let mut first: Option<(u32, u32)> = None;
    let mut barriers = 0;
    // Where lanes stand that only the scheduler can let go on, furthest behind: those that gave way.
    let mut held = u32::MAX;
    while rest != 0 {
        let stop = stops[rest.trailing_zeros() as usize];
        let standing = standing_at(&stops, stop) & rest;
        rest &= !standing;
        let Some(point) = points.get(stop as usize) else {
            return sorted::GENERAL;
        };
        let goes_on = match point.completion {
            // `bar.warp.sync` needs nothing but its members.
            Completion::Nothing | Completion::Collective => {
                is_complete(frame, point, standing, alive)
            }
            Completion::Barrier | Completion::Reduction => {
                barriers |= standing;
                context.stop = stop;
                false
            }
            Completion::General => {
                held = held.min(stop);
                false
            }
        };
        if goes_on && first.is_none_or(|(known, _)| stop < known) {
            first = Some((stop, standing));
        }
    }
    if let Some((stop, group)) = first {
        let point = &points[stop as usize];
        if point.completion == Completion::Nothing && held < stop {
            // They may catch up: the warp would fall apart by chance.
            return sorted::GENERAL;
        }
        if point.completion == Completion::Collective {
            perform_groups(frame, point, group);
        }
        (context.stop, context.group) = (stop, group);
        return sorted::GROUP;
    }
    let together = barriers == standing_at(&stops, context.stop) & alive;
    if barriers == alive && (alive == 0 || together) {
        sorted::ARRIVED
    } else {
        sorted::GENERAL
    }
}

/// The lanes that stand at a stop.
fn standing_at(stops: &Lanes, stop: u32) -> u32 {
    (0..32).fold(0, |mask, lane| {
        mask | u32::from(stops[lane] == stop) << lane
    })
}

/// Completes a reducing barrier at which all threads of a CTA stand that have not exited.
pub(super) unsafe extern "C" fn reduce(
    context: *mut NativeContext,
    frames: *mut u8,
    point: *const SyncPointPlaces,
    stride: u32,
) {
    // SAFETY: generated code passes its own context, and a point of its kernel.
    let (warps, point) = unsafe { ((*context).warps, &*point) };
    let frame = |warp: u32| {
        // SAFETY: generated code passes the frames of all warps of its CTA, one behind the other.
        unsafe { Frame::new(frames.add(warp as usize * stride as usize)) }
    };
    let (mut threads, mut count) = (0, 0);
    for warp in 0..warps {
        let alive = frame(warp).alive();
        let on = frame(warp).words(point.args[2]);
        threads += alive.count_ones();
        count += lanes(alive).map(|lane| on[lane as usize] & 1).sum::<u32>();
    }
    let value = match point.desc.mods.atom_op() {
        AtomOp::And => u32::from(count == threads),
        AtomOp::Or => u32::from(count != 0),
        _ => count,
    };
    for warp in 0..warps {
        frame(warp).put_words(point.results[0], &[value; 32]);
    }
}

/// Writes what the frames' headers say of a CTA none of whose threads is missing: the threads from `first` to `end` have
/// come to `stop`, those behind them have not moved.
pub(super) unsafe extern "C" fn settle(
    context: *mut NativeContext,
    frames: *mut u8,
    stop: u32,
    first: u32,
    end: u32,
    stride: u32,
) {
    // SAFETY: generated code passes its own context.
    let warps = unsafe { (*context).warps };
    for warp in first / 32..warps {
        let lane = |thread: u32| thread.saturating_sub(32 * warp).min(32);
        let lanes = lane(first)..lane(end);
        let gone = lanes.len() == 32 && stop == SyncPoint::EXIT.0;
        // SAFETY: generated code passes the frames of all warps of its CTA, one behind the other.
        let frame = unsafe { Frame::new(frames.add(warp as usize * stride as usize)) };
        frame.put_stops(lanes, stop);
        frame.set_alive(if gone { 0 } else { u32::MAX });
    }
}
