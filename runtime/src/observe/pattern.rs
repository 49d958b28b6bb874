//! The patterns of counted accesses.

use margay_ir::function::SourceLoc;
use margay_ir::observe::ObservedAccess;
use margay_jit::counters::PERIOD;

use super::Space;
use super::raw::{RawAccess, RawAddresses};

/// The number of requests by the address of the first lane modulo [`PERIOD`].
pub(super) type Places = [u64; PERIOD];

/// The identity of a counted instruction, in the order of delivery.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Instruction {
    /// The packed source position.
    pub(super) loc: u64,
    pub(super) space: Space,
    /// The packed properties of the access.
    pub(super) access: u64,
}

/// The lanes of a request and the distances of their addresses from the address of the first of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Shape {
    pub(super) mask: u32,
    /// The distances modulo 2^64; 0 for lanes that are not in the mask.
    pub(super) distances: [u64; 32],
}

impl Shape {
    /// Returns the shape of a request and the address of its first lane.
    pub(super) fn of(what: &RawAccess<'_>) -> (Shape, u64) {
        let mask = what.mask;
        let low = mask.trailing_zeros() as usize % 32;
        let first = what.addresses.of(low);
        let distances = std::array::from_fn(|lane| match mask >> lane & 1 {
            0 => 0,
            _ => what.addresses.of(lane).wrapping_sub(first),
        });
        (Shape { mask, distances }, first)
    }

    /// Returns the lowest address of the first lane that is `place` modulo [`PERIOD`] and for which no lane has a
    /// negative address.
    fn lowest(&self, place: usize) -> u64 {
        let least = self.distances.iter().map(|&distance| distance as i64).min();
        let below = least.unwrap_or(0).min(0).unsigned_abs();
        let period = PERIOD as u64;
        let place = place as u64;
        place
            + below
                .saturating_sub(place)
                .div_ceil(period)
                .saturating_mul(period)
    }

    /// Returns addresses with this shape, of which the first one is `place` modulo [`PERIOD`].
    pub(super) fn addresses(&self, place: usize) -> [u64; 32] {
        let first = self.lowest(place);
        self.distances.map(|distance| first.wrapping_add(distance))
    }
}

/// The common distance of the lanes of a request, or the distance of each lane.
#[derive(Clone, Copy, Debug)]
enum Steps {
    Strided(i64),
    Each,
}

/// The requests of an instruction with one shape.
#[derive(Debug)]
struct Requests {
    shape: Shape,
    steps: Steps,
    places: Box<Places>,
}

/// The requests of an instruction that the host has counted.
#[derive(Default, Debug)]
pub(super) struct Counted {
    shapes: Vec<Requests>,
}

/// Maximum number of shapes of an instruction. If an instruction has more, requests with the other shapes are passed to
/// tools as events.
pub(super) const SHAPES: usize = 16;

impl Counted {
    /// Counts a request. Returns false if its shape is not one of the counted ones, and there are too many of these.
    pub(super) fn count(&mut self, what: &RawAccess<'_>) -> bool {
        if let Some((index, first)) = self.find(what) {
            self.shapes[index].places[first as usize % PERIOD] += 1;
            return true;
        }
        if self.shapes.len() == SHAPES {
            return false;
        }
        let (shape, first) = Shape::of(what);
        let mut places = Box::new([0; PERIOD]);
        places[first as usize % PERIOD] = 1;
        self.shapes.push(Requests {
            shape,
            steps: match what.addresses {
                RawAddresses::Strided(_, stride) => Steps::Strided(stride),
                RawAddresses::Each(_) => Steps::Each,
            },
            places,
        });
        true
    }

    /// Returns the index of the counted shape of a request, and the address of its first lane.
    fn find(&self, what: &RawAccess<'_>) -> Option<(usize, u64)> {
        let low = what.mask.trailing_zeros() as usize % 32;
        let first = what.addresses.of(low);
        let has_distances = |known: &Requests| match (known.steps, what.addresses) {
            (Steps::Strided(known), RawAddresses::Strided(_, stride)) => known == stride,
            (Steps::Each, RawAddresses::Each(addresses)) => (low..32).all(|lane| {
                what.mask >> lane & 1 == 0
                    || addresses[lane].wrapping_sub(first) == known.shape.distances[lane]
            }),
            _ => false,
        };
        let mut all = self.shapes.iter();
        let index = all.position(|known| known.shape.mask == what.mask && has_distances(known))?;
        Some((index, first))
    }

    /// Returns the shapes with their counts.
    pub(super) fn into_shapes(self) -> impl Iterator<Item = (Shape, Box<Places>)> {
        let all = self.shapes.into_iter();
        all.map(|requests| (requests.shape, requests.places))
    }
}

/// Returns the identity of the instruction that performs an access.
pub(super) fn instruction_of(what: &RawAccess<'_>) -> Instruction {
    Instruction {
        loc: what.loc.to_bits(),
        space: what.space,
        access: what.access.to_bits(),
    }
}

impl Instruction {
    /// Returns the properties and the source position of the access.
    pub(super) fn unpack(&self) -> (ObservedAccess, SourceLoc) {
        (
            ObservedAccess::from_bits(self.access),
            SourceLoc::from_bits(self.loc),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(mask: u32, addresses: &[u64; 32]) -> RawAccess<'_> {
        const NONE: ObservedAccess = ObservedAccess {
            mode: margay_ir::observe::AccessMode::Load,
            space: margay_ops::mods::StateSpace::Global,
            bytes: 4,
            element: 4,
            packed: 1,
            only_copied: false,
            polls: false,
            order: margay_ops::mods::MemOrder::Weak,
            scope: margay_ops::mods::Scope::Gpu,
            op: margay_ops::mods::AtomOp::None,
            unused: 0,
        };
        RawAccess {
            access: &NONE,
            loc: SourceLoc::default(),
            space: Space::Global,
            warp: 0,
            mask,
            addresses: RawAddresses::Each(addresses),
            is_counted: false,
        }
    }

    #[test]
    fn addresses_are_the_lowest_with_their_shape() {
        let mut addresses = [0; 32];
        (addresses[1], addresses[4]) = (1000, 700);
        let (shape, first) = Shape::of(&access(0b1_0010, &addresses));
        assert_eq!((shape.mask, first), (0b1_0010, 1000));
        // 1000 is 104 modulo 128. The other lane is 300 bytes below, so 104 + 2 * 128 = 360 is the lowest address.
        let lowest = shape.addresses(104);
        assert_eq!((lowest[1], lowest[4]), (360, 60));
    }

    #[test]
    fn requests_are_counted_by_shape_and_place() {
        let mut counted = Counted::default();
        let row: [u64; 32] = std::array::from_fn(|lane| 4096 + 4 * (lane as u64 ^ 1));
        let shifted = row.map(|address| address + 32);
        for addresses in [&row, &shifted, &row] {
            assert!(counted.count(&access(u32::MAX, addresses)));
        }
        assert!(counted.count(&access(1, &row)));
        let all: Vec<_> = counted.into_shapes().collect();
        assert_eq!((all.len(), all[0].0.mask, all[1].0.mask), (2, u32::MAX, 1));
        assert_eq!((all[0].1[4], all[0].1[36], all[1].1[4]), (2, 1, 1));
    }

    #[test]
    fn an_instruction_has_a_limited_number_of_shapes() {
        let mut counted = Counted::default();
        let addresses = [0; 32];
        for mask in 1..=SHAPES as u32 {
            assert!(counted.count(&access(mask, &addresses)));
        }
        assert!(!counted.count(&access(SHAPES as u32 + 1, &addresses)));
        assert!(counted.count(&access(1, &addresses)));
    }
}
