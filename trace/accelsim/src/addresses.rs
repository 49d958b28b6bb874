//! The addresses of the lanes of a memory instruction, and their three modes.

use std::iter::FusedIterator;

/// The addresses of the lanes whose mask bits are set, in ascending order of lanes.
///
/// The variants are the modes of the file. Two values with different modes can have the same addresses: compare
/// [`Addresses::lanes`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Addresses {
    /// Mode 0: one address for each lane.
    List(Box<[u64]>),
    /// Mode 1: the address of the first lane, and the distance between neighbours.
    Stride {
        /// The address of the first active lane.
        base: u64,
        /// The distance in bytes.
        stride: i32,
    },
    /// Mode 2: the address of the first lane, and the distance of each further active lane from the previous one.
    Deltas {
        /// The address of the first active lane.
        base: u64,
        /// The distances in bytes.
        deltas: Box<[i64]>,
    },
}

impl Addresses {
    /// Returns the addresses in the mode that the original tracer chooses (`TOOL_COMPRESS=1`). `lanes` holds one address
    /// for each set bit of the mask, in ascending order of lanes.
    ///
    /// Mode 1 is for contiguous lanes with one distance that fits 32 bits; a single lane is contiguous with none and has
    /// mode 2; an empty mask has mode 1.
    pub fn compress(mask: u32, lanes: &[u64]) -> Addresses {
        let Some((&base, further)) = lanes.split_first() else {
            return Addresses::Stride { base: 0, stride: 0 };
        };
        if let Some(stride) = common_stride(mask, lanes) {
            return Addresses::Stride { base, stride };
        }
        let distance = |(next, previous): (&u64, &u64)| next.wrapping_sub(*previous) as i64;
        Addresses::Deltas {
            base,
            deltas: further.iter().zip(lanes).map(distance).collect(),
        }
    }

    /// Returns the addresses as a list (`TOOL_COMPRESS=0`).
    pub fn list(lanes: &[u64]) -> Addresses {
        Addresses::List(lanes.into())
    }

    /// Returns the addresses of the lanes of `mask`, with their lanes.
    pub fn lanes(&self, mask: u32) -> Lanes<'_> {
        Lanes {
            addresses: self,
            mask,
            previous: None,
            index: 0,
        }
    }

    /// Returns the address of the first lane, or none if the mask is empty.
    pub fn first(&self, mask: u32) -> Option<u64> {
        self.lanes(mask).next().map(|(_, address)| address)
    }

    /// Returns the number of lanes that this has addresses for, at most the number of lanes of `mask`. The lanes of mode 1
    /// are contiguous.
    pub fn count(&self, mask: u32) -> usize {
        let lanes = mask.count_ones() as usize;
        match self {
            Addresses::List(list) => lanes.min(list.len()),
            Addresses::Stride { .. } => {
                (mask >> (mask.trailing_zeros() & 31)).trailing_ones() as usize
            }
            Addresses::Deltas { deltas, .. } => lanes.min(deltas.len() + 1),
        }
    }

    /// Returns whether there is one address for each lane of `mask`, and no more.
    pub(crate) fn fits(&self, mask: u32) -> bool {
        let lanes = mask.count_ones() as usize;
        match self {
            Addresses::List(list) => list.len() == lanes,
            Addresses::Stride { .. } => self.count(mask) == lanes,
            Addresses::Deltas { deltas, .. } => deltas.len() == lanes.saturating_sub(1),
        }
    }

    /// Returns the number of the mode.
    pub fn mode(&self) -> u8 {
        match self {
            Addresses::List(_) => 0,
            Addresses::Stride { .. } => 1,
            Addresses::Deltas { .. } => 2,
        }
    }
}

/// Returns the distance of mode 1, or none if the addresses need mode 2.
fn common_stride(mask: u32, lanes: &[u64]) -> Option<i32> {
    let first = mask.trailing_zeros();
    let contiguous = (mask >> first).wrapping_add(1).is_power_of_two();
    // The run of all 32 lanes overflows to 0.
    if !contiguous && mask != u32::MAX {
        return None;
    }
    let [base, second, ..] = lanes else {
        return None;
    };
    let stride = second.wrapping_sub(*base) as u32 as i32;
    let step = i64::from(stride) as u64;
    let regular = |pair: &[u64]| pair[1].wrapping_sub(pair[0]) == step;
    lanes.windows(2).all(regular).then_some(stride)
}

/// Iterator over `(lane, address)` in ascending order of lanes.
#[derive(Clone, Debug)]
pub struct Lanes<'a> {
    addresses: &'a Addresses,
    mask: u32,
    previous: Option<u64>,
    index: usize,
}

impl Lanes<'_> {
    /// Returns the address of the lane after `previous`.
    fn address(&self) -> Option<u64> {
        match (self.addresses, self.previous) {
            (Addresses::List(list), _) => list.get(self.index).copied(),
            (Addresses::Stride { base, .. } | Addresses::Deltas { base, .. }, None) => Some(*base),
            (Addresses::Stride { stride, .. }, Some(address)) => {
                Some(address.wrapping_add_signed(i64::from(*stride)))
            }
            (Addresses::Deltas { deltas, .. }, Some(address)) => {
                let delta = deltas.get(self.index - 1)?;
                Some(address.wrapping_add_signed(*delta))
            }
        }
    }
}

impl Iterator for Lanes<'_> {
    type Item = (u32, u64);

    fn next(&mut self) -> Option<(u32, u64)> {
        if self.mask == 0 {
            return None;
        }
        let lane = self.mask.trailing_zeros();
        self.mask &= self.mask - 1;
        let address = self.address()?;
        self.previous = Some(address);
        self.index += 1;
        Some((lane, address))
    }
}

impl FusedIterator for Lanes<'_> {}
