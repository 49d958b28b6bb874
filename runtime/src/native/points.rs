//! Completes points in place of generated code: warp collectives and the reductions of barriers.
//!
//! Generated code calls these between two regions of a warp, when all of the warp's lanes stand at the
//! point; [`super::native_cta`] calls [`perform`] for lanes that met in the general form. Operands are
//! read from the warp's frame and results written there, array by array.

use margay_ir::exec::arrays::{self, Lanes};
use margay_ir::exec::lanes;
use margay_ir::meaning::{Bits, Desc, Meaning, WarpLanes};
use margay_ir::mods::AtomOp;
use margay_ir::ops::Opcode;
use margay_jit::abi::NativeContext;
use margay_jit::points::{Place, PointPlaces};

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

    /// The low 32 bits of an operand's lanes.
    fn words(self, place: Place) -> Lanes {
        match place {
            Place::Absent => [0; 32],
            Place::Constant(bits) => [bits as u32; 32],
            Place::Stored { offset, bytes } => {
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

    fn put_words(self, place: Place, values: &Lanes) {
        let Place::Stored { offset, bytes } = place else {
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

    fn wide(self, place: Place, lane: usize) -> Bits {
        match place {
            Place::Absent => 0,
            Place::Constant(bits) => bits.into(),
            Place::Stored { offset, bytes } => {
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

    fn put_wide(self, place: Place, lane: usize, value: Bits) {
        if let Place::Stored { offset, bytes } = place {
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
pub(super) fn perform(frame: Frame, point: &PointPlaces, active: u32) {
    let (operands, results) = shape(&point.desc);
    let args: [Lanes; 3] = std::array::from_fn(|i| {
        if i < operands {
            frame.words(point.args[i])
        } else {
            [0; 32]
        }
    });
    let mut out = [[0; 32]; 2];
    if !arrays::perform(&point.desc, active, &args, &mut out) {
        return perform_wide(frame, point, active, (operands, results));
    }
    for (&place, values) in point.results[..results].iter().zip(&out) {
        if active == u32::MAX {
            frame.put_words(place, values);
        } else {
            for lane in lanes(active) {
                let lane = lane as usize;
                frame.put_wide(place, lane, values[lane].into());
            }
        }
    }
}

/// The same by the op's meaning, for operands wider than 32 bits and floating-point reductions.
fn perform_wide(
    frame: Frame,
    point: &PointPlaces,
    active: u32,
    (operands, results): (usize, usize),
) {
    let Meaning::Warp(meaning) = point.desc.opcode.meaning() else {
        return;
    };
    let mut args = [[0 as Bits; 32]; 3];
    for (values, &place) in args[..operands].iter_mut().zip(&point.args) {
        for lane in lanes(active) {
            values[lane as usize] = frame.wide(place, lane as usize);
        }
    }
    let mut out = [[0 as Bits; 32]; 2];
    let mut warp = WarpLanes {
        active,
        args: &args[..operands],
        results: &mut out[..results],
    };
    meaning(&point.desc, &mut warp);
    for (&place, values) in point.results[..results].iter().zip(&out) {
        for lane in lanes(active) {
            frame.put_wide(place, lane as usize, values[lane as usize]);
        }
    }
}

/// The member mask's place; operations without one, and old forms, have none.
fn mask_place(point: &PointPlaces) -> Place {
    let mask = margay_ir::exec::collective::mask_operand(&point.desc);
    mask.map_or(Place::Absent, |index| point.args[index])
}

/// Completes a collective at which all lanes of a warp stand: lanes meet by mask. Not zero, with
/// nothing done, when some wait for lanes that named other masks.
pub(super) unsafe extern "C" fn collective(
    _: *mut NativeContext,
    frame: *mut u8,
    point: *const PointPlaces,
    count: u32,
) -> i32 {
    // SAFETY: generated code passes its own warp's frame, and a point of its kernel.
    let (frame, point) = unsafe { (Frame::new(frame), &*point) };
    let active = u32::MAX >> (32 - count.clamp(1, 32));
    let place = mask_place(point);
    if !matches!(place, Place::Stored { .. }) {
        perform(frame, point, active);
        return 0;
    }
    let masks = frame.words(place);
    if groups(&masks, active).any(|(mask, group)| mask & active & !group != 0) {
        return 1;
    }
    for (_, group) in groups(&masks, active) {
        perform(frame, point, group);
    }
    0
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

/// Completes a reducing barrier at which all threads of a CTA stand.
pub(super) unsafe extern "C" fn reduce(
    context: *mut NativeContext,
    frames: *mut u8,
    point: *const PointPlaces,
    stride: u32,
) {
    // SAFETY: generated code passes its own context, and a point of its kernel.
    let (threads, point) = unsafe { ((*context).threads, &*point) };
    let frame = |warp: u32| {
        // SAFETY: generated code passes the frames of all warps of its CTA, one behind the other.
        unsafe { Frame::new(frames.add(warp as usize * stride as usize)) }
    };
    let warps = threads.div_ceil(32);
    let count_of = |warp: u32| {
        let here = (threads - warp * 32).min(32) as usize;
        let on = frame(warp).words(point.args[2]);
        on[..here].iter().map(|value| value & 1).sum::<u32>()
    };
    let count: u32 = (0..warps).map(count_of).sum();
    let value = match point.desc.mods.atom_op() {
        AtomOp::And => u32::from(count == threads),
        AtomOp::Or => u32::from(count != 0),
        _ => count,
    };
    for warp in 0..warps {
        frame(warp).put_words(point.results[0], &[value; 32]);
    }
}
