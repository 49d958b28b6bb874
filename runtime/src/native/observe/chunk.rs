//! Examines the accesses of the lanes of a chunk together.
//!
//! Usually all accesses are permitted. In this case, the examiner examines the lanes as a single
//! range of addresses if possible, and otherwise lane by lane. If all lanes need the same lookup,
//! the examiner performs the lookup only once. If an access is not permitted, the examiner examines
//! each lane as a separate access.

use margay_ir::observe::{AccessMode, ObservedAccess};
use margay_ops::meaning::Bits;
use margay_ops::mods::StateSpace;
use margay_shadow::init::Written;
use margay_shadow::race::Shape;
use margay_shadow::values::Values;
use smallvec::SmallVec;

use super::order::stored_bytes;
use super::{Examiner, Observed};

/// The operands of one lane.
pub(super) type LaneOperands = SmallVec<[Bits; 8]>;

/// The addresses that the lanes of a chunk access.
#[derive(Clone, Copy, Debug)]
pub(in crate::native) enum Addresses<'a> {
    /// The host address of the first lane, the distance in bytes between consecutive lanes, and the start of the window
    /// of 32-bit offsets that contains the addresses (0 if no window contains them).
    Strided {
        first: u64,
        stride: i64,
        window: u64,
    },
    /// The host address of each lane.
    Each(&'a [u64]),
}

impl<'a> Addresses<'a> {
    /// Describes the addresses of lanes. The result is `Strided` if the active lanes have a common stride, else `Each`.
    pub(in crate::native) fn of_each(each: &'a [u64], active: u32) -> Addresses<'a> {
        let Some(rest) = active.checked_sub(1).map(|below| active & below) else {
            return Addresses::Each(each);
        };
        let first = active.trailing_zeros();
        let next = match rest {
            0 => first,
            _ => rest.trailing_zeros(),
        };
        let apart = each[next as usize].wrapping_sub(each[first as usize]) as i64;
        let lanes = i64::from(next - first).max(1);
        let stride = apart / lanes;
        let start = each[first as usize].wrapping_sub((stride as u64).wrapping_mul(first.into()));
        let strided = Addresses::Strided {
            first: start,
            stride,
            window: 0,
        };
        let mut same = (0u32..)
            .zip(each)
            .map(|(lane, &address)| active >> lane & 1 == 0 || strided.of(lane) == address);
        match same.all(|same| same) {
            true => strided,
            false => Addresses::Each(each),
        }
    }

    /// Returns the host address that a lane accesses.
    pub(in crate::native) fn of(&self, lane: u32) -> u64 {
        match *self {
            Addresses::Strided {
                first,
                stride,
                window,
            } => {
                let at = first.wrapping_add((stride as u64).wrapping_mul(lane.into()));
                match window {
                    0 => at,
                    _ => window + (at.wrapping_sub(window) as u32 as u64),
                }
            }
            Addresses::Each(each) => each[lane as usize],
        }
    }
}

/// The accesses that the lanes of a chunk perform with one instruction.
#[derive(Clone, Copy, Debug)]
pub(in crate::native) struct Chunk<'a> {
    /// Mask of the lanes that access memory.
    pub(in crate::native) active: u32,
    pub(in crate::native) addresses: Addresses<'a>,
    /// The values of the operands: a row for each operand, with a value for each lane.
    pub(in crate::native) operands: &'a [u8],
    /// Number of bytes of one operand of one lane.
    pub(in crate::native) operand_bytes: usize,
    /// Number of lanes.
    pub(in crate::native) width: usize,
}

impl Chunk<'_> {
    /// Returns the operands of a lane.
    pub(super) fn operands_of(&self, lane: u32) -> LaneOperands {
        let row = self.width * self.operand_bytes;
        if row == 0 {
            return LaneOperands::new();
        }
        let rows = self.operands.chunks_exact(row);
        rows.map(|row| {
            let mut cell = [0; 16];
            let at = lane as usize * self.operand_bytes;
            cell[..self.operand_bytes].copy_from_slice(&row[at..at + self.operand_bytes]);
            Bits::from_le_bytes(cell)
        })
        .collect()
    }

    /// Returns the mask of the lanes that store the bytes that `values` already records for their
    /// addresses.
    pub(super) fn equal_stores(&self, access: &ObservedAccess, values: &Values) -> u32 {
        if let Some((first, bytes)) = self.contiguous_operands(access)
            && values.equal(self.addresses.of(first), bytes)
        {
            return self.active;
        }
        let equal = |lane: &u32| {
            let address = self.addresses.of(*lane);
            match self.only_operand(access, *lane) {
                Some(bytes) => values.equal(address, bytes),
                None => values.equal(address, &stored_bytes(access, &self.operands_of(*lane))),
            }
        };
        let equal = self.lanes().filter(equal);
        equal.fold(0, |mask, lane| mask | 1 << lane)
    }

    /// Records in `values` the bytes that the lanes store.
    pub(super) fn record_stores(&self, access: &ObservedAccess, values: &mut Values) {
        if let Some((first, bytes)) = self.contiguous_operands(access) {
            return values.store(self.addresses.of(first), bytes);
        }
        for lane in self.lanes() {
            let address = self.addresses.of(lane);
            match self.only_operand(access, lane) {
                Some(bytes) => values.store(address, bytes),
                None => values.store(address, &stored_bytes(access, &self.operands_of(lane))),
            }
        }
    }

    /// If the access has only one operand, returns the bytes of `lane` in this operand, which the
    /// lane stores.
    fn only_operand(&self, access: &ObservedAccess, lane: u32) -> Option<&[u8]> {
        let (bytes, at) = (access.bytes as usize, lane as usize * self.operand_bytes);
        let one = self.operands.len() == self.width * self.operand_bytes
            && access.element == access.bytes
            && bytes <= self.operand_bytes;
        one.then(|| self.operands.get(at..at + bytes)).flatten()
    }

    /// If the operands contain the bytes that all active lanes store, in the same order as in
    /// memory and without gaps, returns the first active lane and these bytes.
    fn contiguous_operands(&self, access: &ObservedAccess) -> Option<(u32, &[u8])> {
        let bytes = self.operand_bytes;
        let element = access.element as usize;
        let whole = self.operands.len() == self.width * bytes
            && (element, access.bytes as usize) == (bytes, bytes);
        if !whole || self.shape(access) != Shape::Adjacent {
            return None;
        }
        let first = self.active.trailing_zeros();
        let from = first as usize * bytes;
        let count = self.active.count_ones() as usize * bytes;
        Some((first, self.operands.get(from..from + count)?))
    }

    /// Returns the address that `lane` must access: its address in `used`, or its original address
    /// if `used` is `None`.
    pub(in crate::native) fn used(&self, used: Option<&[u64; 32]>, lane: u32) -> u64 {
        match used {
            Some(used) => used[lane as usize],
            None => self.addresses.of(lane),
        }
    }

    /// Returns the active lanes, the lowest first.
    pub(super) fn lanes(&self) -> impl Iterator<Item = u32> + use<> {
        let mut left = self.active;
        std::iter::from_fn(move || {
            (left != 0).then(|| {
                let lane = left.trailing_zeros();
                left &= left - 1;
                lane
            })
        })
    }

    /// Returns the start and length of the smallest range that contains the accesses of all active
    /// lanes. Each lane accesses `bytes` bytes. Returns `None` if the lanes have no common stride
    /// or their addresses wrap.
    pub(super) fn hull(&self, bytes: u32) -> Option<(u64, u64)> {
        let Addresses::Strided { stride, .. } = self.addresses else {
            return None;
        };
        if self.active == 0 {
            return None;
        }
        let (low, high) = (
            self.active.trailing_zeros(),
            31 - self.active.leading_zeros(),
        );
        let (a, b) = (self.addresses.of(low), self.addresses.of(high));
        let span = stride.unsigned_abs().checked_mul(u64::from(high - low))?;
        (a.abs_diff(b) == span).then(|| (a.min(b), span + u64::from(bytes)))
    }

    /// Does the same as [`Chunk::hull`], but also returns the range if the lanes have no common
    /// stride.
    pub(super) fn span(&self, bytes: u32) -> Option<(u64, u64)> {
        match self.addresses {
            Addresses::Strided { .. } => self.hull(bytes),
            Addresses::Each(each) => span(each, self.active, bytes).map(|(low, len, _)| (low, len)),
        }
    }

    /// Returns the pattern of the addresses of the active lanes.
    pub(super) fn shape(&self, access: &ObservedAccess) -> Shape {
        match self.addresses {
            Addresses::Strided { stride: 0, .. } => Shape::Uniform,
            Addresses::Strided { stride, .. }
                if stride == i64::from(access.bytes) && self.range(access).is_some() =>
            {
                Shape::Adjacent
            }
            _ => Shape::Any,
        }
    }

    /// Returns the start and length of the range that the active lanes access, if their addresses are equal, or if
    /// their accesses are adjacent without gaps.
    fn range(&self, access: &ObservedAccess) -> Option<(u64, u64)> {
        let Addresses::Strided { stride, .. } = self.addresses else {
            return None;
        };
        let whole = self.active >> self.active.trailing_zeros();
        let gaps = whole & whole.wrapping_add(1) != 0;
        (stride == 0 || stride.unsigned_abs() == u64::from(access.bytes) && !gaps)
            .then(|| self.hull(access.bytes))
            .flatten()
    }
}

/// Returns the start and length of the smallest range that contains the accesses of all active
/// lanes, and the bitwise OR of their addresses. Each lane accesses `bytes` bytes. Returns `None`
/// if no lane is active or the length overflows.
fn span(each: &[u64], active: u32, bytes: u32) -> Option<(u64, u64, u64)> {
    let (mut low, mut high, mut together) = (u64::MAX, 0, 0);
    for (lane, &address) in each.iter().enumerate() {
        if active >> lane & 1 != 0 {
            low = low.min(address);
            high = high.max(address);
            together |= address;
        }
    }
    let len = high.checked_sub(low)?.checked_add(bytes.into())?;
    Some((low, len, together))
}

impl Examiner<'_> {
    /// Examines the accesses of a chunk. `at` contains the thread of its first lane. Returns the
    /// address that each lane must use; `None` if each lane uses its original address. If the
    /// access has unused elements and a lane is active, the result is never `None`.
    pub(in crate::native) fn chunk(
        &mut self,
        cta: u64,
        at: &Observed<'_>,
        chunk: &Chunk<'_>,
    ) -> Option<[u64; 32]> {
        if chunk.active == 0 {
            return None;
        }
        self.move_to(cta);
        // In a vector load with unused elements, each lane accesses several separate ranges, which only `access`
        // supports.
        if at.access.unused != 0 || !self.all_permitted(at, chunk) {
            let mut used = [0; 32];
            for lane in chunk.lanes() {
                let own = Observed {
                    thread: at.thread + lane,
                    ..*at
                };
                let operands = chunk.operands_of(lane);
                let address = chunk.addresses.of(lane);
                used[lane as usize] = match self.access(cta, &own, address, &operands) {
                    Ok(address) => address,
                    // The launch ends after all lanes of the chunk have been examined (`helpers::check_lanes`).
                    Err(kind) => {
                        self.wrong_access.get_or_insert((kind, own.thread));
                        self.spare(own.thread, own.access)
                    }
                };
            }
            return Some(used);
        }
        if self.launch.waits.is_observed() {
            for lane in chunk.lanes() {
                let own = Observed {
                    thread: at.thread + lane,
                    ..*at
                };
                let range = (chunk.addresses.of(lane), at.access.bytes);
                let waits = &self.launch.waits;
                waits.note(cta, &own, range, &chunk.operands_of(lane));
            }
        }
        self.initialisation_of_lanes(at, chunk);
        if self.orders() {
            self.make_space();
            self.note_immediate(at, chunk);
            self.order_lanes(at, chunk);
        }
        None
    }

    /// Returns whether all active lanes may access their addresses. Returns false also for some permitted accesses,
    /// such as generic addresses of parameters or of local memory.
    fn all_permitted(&mut self, at: &Observed<'_>, chunk: &Chunk<'_>) -> bool {
        let access = at.access;
        let align = u64::from(access.bytes).next_power_of_two();
        let writes = access.mode.writes();
        if let Some((low, len)) = chunk.hull(access.bytes)
            && let Addresses::Strided { stride, .. } = chunk.addresses
            && (chunk.active.is_power_of_two() || stride.unsigned_abs().is_multiple_of(align))
            && low.is_multiple_of(align)
            && self.holds_for_all(access.space, (low, len), writes)
        {
            return true;
        }
        if let Addresses::Each(each) = chunk.addresses
            && let Some((low, len, together)) = span(each, chunk.active, access.bytes)
            && together & (align - 1) == 0
            && self.holds_for_all(access.space, (low, len), writes)
        {
            return true;
        }
        chunk.lanes().all(|lane| {
            let address = chunk.addresses.of(lane);
            let range = (address, u64::from(access.bytes));
            address.is_multiple_of(align) && self.holds_for_all(access.space, range, writes)
        })
    }

    /// Adds a finding for each read of bytes that have not been written, and records which bytes
    /// the lanes write.
    fn initialisation_of_lanes(&mut self, at: &Observed<'_>, chunk: &Chunk<'_>) {
        let findings = self.findings;
        let Some(initialised) = &findings.shadow().initialised else {
            return;
        };
        if at.access.space == StateSpace::Const {
            return;
        }
        if let Some((start, len)) = chunk.range(at.access) {
            match at.access.mode {
                AccessMode::Store => return self.written.set(initialised, start, len),
                AccessMode::Load
                    if self.written.written(initialised, start, len) == Written::All =>
                {
                    return;
                }
                _ => {}
            }
        } else if let Some((low, len)) = chunk.span(at.access.bytes)
            && let Some(record) = self.written.within(initialised, low, len)
        {
            let mut lanes = chunk.lanes().map(|lane| chunk.addresses.of(lane));
            match at.access.mode {
                AccessMode::Store => {
                    return lanes.for_each(|address| record.set(address, at.access.bytes.into()));
                }
                AccessMode::Load
                    if lanes.all(|address| record.is_written(address, at.access.bytes.into())) =>
                {
                    return;
                }
                _ => {}
            }
        }
        for lane in chunk.lanes() {
            let own = Observed {
                thread: at.thread + lane,
                ..*at
            };
            self.initialisation(&own, chunk.addresses.of(lane), at.access.bytes);
        }
    }
}
