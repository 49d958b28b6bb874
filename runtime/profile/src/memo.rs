//! The costs of the last request of an access, because most requests of an instruction have the same pattern: the same
//! lanes with the same distances between their addresses.
//!
//! The number of sectors depends only on the pattern and on the first address modulo the size of a sector, and the
//! number of cycles of shared memory only on the pattern and on the first address modulo the size of all banks.

use margay::observe::{Access, AccessKind, Addresses, Space};

use crate::requests::{self, BANKS_BYTES, Even, Lanes, SECTOR_BYTES};

/// What a request costs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Cost {
    /// Global and constant memory: number of sectors. Shared memory: number of cycles.
    pub(crate) units: u64,
    /// Shared memory: number of cycles without bank conflicts.
    pub(crate) ideal_cycles: u64,
    /// Atomic operations: number of lanes with the address of a lower lane.
    pub(crate) collisions: u64,
    /// The common distance of the addresses ([`requests::stride_of`]).
    pub(crate) stride: Option<Option<i64>>,
}

/// The last pattern of an access, and its costs by the position of the first address.
#[derive(Clone, Debug)]
pub(crate) struct Memo {
    mask: u32,
    bytes: u32,
    pattern: Pattern,
    /// For each position of the first address: the units, or 0 if they are not known.
    units: [u32; BANKS_BYTES as usize],
    ideal_cycles: u64,
    collisions: u64,
    stride: Option<Option<i64>>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Pattern {
    /// No request has been seen.
    None,
    Strided(i64),
    /// The distances of the addresses of the active lanes from the first of them.
    Each(Box<[u64; 32]>),
}

impl Default for Memo {
    fn default() -> Memo {
        Memo {
            mask: 0,
            bytes: 0,
            pattern: Pattern::None,
            units: [0; BANKS_BYTES as usize],
            ideal_cycles: 0,
            collisions: 0,
            stride: None,
        }
    }
}

impl Memo {
    /// Returns what a request costs. For local memory, `units` has no meaning.
    pub(crate) fn cost(&mut self, access: &Access<'_>) -> Cost {
        let first = first_address(access);
        // Near the end of the address space, the costs of a pattern can differ.
        if first > u64::MAX >> 1 {
            return cost_of(access);
        }
        if !self.is_same(access, first) {
            self.mask = access.mask;
            self.bytes = access.bytes;
            self.pattern = pattern_of(access, first);
            self.units = [0; BANKS_BYTES as usize];
        }
        let place = (first % BANKS_BYTES) as usize;
        if self.units[place] == 0 {
            let cost = cost_of(access);
            // The number of units is at most 32 times the number of bytes of an access, and not 0.
            self.units[place] = cost.units as u32;
            self.ideal_cycles = cost.ideal_cycles;
            self.collisions = cost.collisions;
            self.stride = cost.stride;
            return cost;
        }
        Cost {
            units: self.units[place].into(),
            ideal_cycles: self.ideal_cycles,
            collisions: self.collisions,
            stride: self.stride,
        }
    }

    fn is_same(&self, access: &Access<'_>, first: u64) -> bool {
        if self.mask != access.mask || self.bytes != access.bytes {
            return false;
        }
        match (&self.pattern, access.addresses) {
            (Pattern::Strided(known), Addresses::Strided { stride, .. }) => *known == stride,
            (Pattern::Each(known), Addresses::Each(all)) => {
                let mut pairs = known.iter().zip(all);
                pairs.all(|(known, address)| *known == address.wrapping_sub(first))
            }
            _ => false,
        }
    }
}

fn first_address(access: &Access<'_>) -> u64 {
    match access.addresses {
        Addresses::Strided { base, stride } => {
            let lane = u64::from(access.mask.trailing_zeros());
            base.wrapping_add((stride as u64).wrapping_mul(lane))
        }
        Addresses::Each(all) => all.first().copied().unwrap_or(0),
    }
}

fn pattern_of(access: &Access<'_>, first: u64) -> Pattern {
    match access.addresses {
        Addresses::Strided { stride, .. } => Pattern::Strided(stride),
        Addresses::Each(all) => {
            let mut distances = [0; 32];
            for (distance, address) in distances.iter_mut().zip(all) {
                *distance = address.wrapping_sub(first);
            }
            Pattern::Each(Box::new(distances))
        }
    }
}

/// Computes what a request costs.
fn cost_of(access: &Access<'_>) -> Cost {
    let even = Even::of(access);
    let (units, ideal_cycles) = match access.space {
        Space::Shared | Space::SharedCluster => {
            let cycles = even.and_then(|even| even.bank_cycles());
            cycles.unwrap_or_else(|| Lanes::of(access).bank_cycles())
        }
        _ => {
            let sectors = even.and_then(|even| even.sectors());
            (sectors.unwrap_or_else(|| Lanes::of(access).sectors()), 0)
        }
    };
    Cost {
        units,
        ideal_cycles,
        collisions: match access.kind {
            AccessKind::Atomic => Lanes::of(access).collisions(),
            _ => 0,
        },
        stride: requests::stride_of(access),
    }
}

const _: () = assert!(BANKS_BYTES.is_multiple_of(SECTOR_BYTES));
