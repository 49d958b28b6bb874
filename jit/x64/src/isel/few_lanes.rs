//! Accesses by few lanes that are known, at a constant distance, such as those of the first and the last thread of a row.
//! Each lane has an access of its own, which is faster than a gather or a scatter.

use margay_ops::types::Kind;
use margay_vir::constants::mask_bits;
use regalloc2::{RegClass, VReg};
use smallvec::SmallVec;

use super::memory::Parts;
use super::{Regs, Selector};
use crate::mach::Mem;

/// The maximum number of lanes that have an access each.
const MOST_LANES: u32 = 4;

/// The maximum distance of two lanes in bytes.
const FARTHEST: i64 = 1 << 24;

/// The numbers of lanes.
type Numbers = SmallVec<[u32; MOST_LANES as usize]>;

impl Selector<'_> {
    /// Returns the bits of the access's mask if they are known and differ.
    fn known_mask(&self, parts: &Parts) -> Option<u64> {
        parts.mask.as_ref().filter(|mask| mask.bits.is_none())?;
        mask_bits(self.vir, *self.vir.args(self.inst).last()?)
    }

    /// Returns the lanes of an access that is not contiguous, in ascending order, if they are known and few.
    pub(super) fn few_lanes(&self, parts: &Parts) -> Option<Numbers> {
        let is_possible = self.has_masks()
            && parts.offsets.is_none()
            && parts.ty.kind() != Kind::B128
            && parts.bits() <= 64
            && (-FARTHEST..=FARTHEST).contains(&parts.access.stride);
        if !is_possible || parts.is_contiguous() {
            return None;
        }
        let bits = self.known_mask(parts)? & u64::MAX >> (64 - parts.ty.lanes());
        let lanes = (0..64).filter(|lane| bits >> lane & 1 == 1);
        (bits.count_ones() <= MOST_LANES).then(|| lanes.collect())
    }

    /// Returns the number of lanes in a register of the access's value.
    fn lanes_of_register(&self, parts: &Parts) -> u32 {
        parts.ty.lanes().min(self.width / parts.ty.lane_bits())
    }

    /// Returns the mask that consists of a lane, and the memory operand of an access to a register of `lanes` lanes, with
    /// which it accesses the element of this lane.
    fn place_of_lane(&mut self, parts: &Parts, lane: u32, lanes: u32) -> (VReg, Mem) {
        let number = lane % lanes;
        let distance = i64::from(lane) * parts.access.stride;
        let in_register = i64::from(number * parts.bits() / 8);
        let mem = self.base(parts, (distance - in_register) as i32);
        (self.mask_constant(1 << number), mem)
    }

    /// Loads the elements of few lanes. The other lanes are zero.
    pub(super) fn loaded_lanes(&mut self, parts: &Parts, numbers: &Numbers) -> Regs {
        let (bits, lanes) = (parts.bits(), self.lanes_of_register(parts));
        let registers = parts.ty.lanes() / lanes;
        (0..registers)
            .map(|register| {
                let mut loaded = None;
                for &lane in numbers.iter().filter(|&&lane| lane / lanes == register) {
                    let (mask, mem) = self.place_of_lane(parts, lane, lanes);
                    let mut inst = self.masked_load(bits, lanes, register * lanes, mask, mem);
                    if let Some(before) = loaded {
                        inst.tied = before;
                        inst.zeroing = false;
                    }
                    loaded = Some(self.result(RegClass::Float, inst));
                }
                let loaded = loaded.unwrap_or_else(|| self.splat_constant(0, 64));
                let (to, signed) = (parts.ty.lane_bits(), parts.signed());
                self.resized(loaded, bits, to, signed, lanes)
            })
            .collect()
    }

    /// Stores the elements of few lanes.
    pub(super) fn stored_lanes(&mut self, parts: &Parts, numbers: &Numbers) {
        let Some(value) = &parts.value else {
            return;
        };
        let (bits, lanes) = (parts.bits(), self.lanes_of_register(parts));
        for &lane in numbers {
            let (mask, mem) = self.place_of_lane(parts, lane, lanes);
            let register = lane / lanes;
            let reg = self.narrowed(value, bits, lanes, register);
            let mut inst = self.masked_store(bits, lanes, reg, mask, mem);
            inst.place = self.access_place(register * lanes, lanes, bits);
            self.effect(inst);
        }
    }
}
