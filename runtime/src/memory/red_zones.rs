//! Red zones: bytes with known content before and after each allocation of [`AddressSpace::alloc`]. If the content has
//! changed, the program has written outside of the allocation.
//!
//! Invariant: an allocation with red zones starts at a multiple of [`ALIGNMENT`], like every other
//! allocation. More memory than the red zone can therefore be reserved before the first byte of the
//! allocation.

use super::space::Record;
use super::{ALIGNMENT, AddressSpace, Allocation, MemoryError, round_up};
use crate::call_stack::CallStack;
use crate::fault::access;

/// The size and the content of the red zones of an address space's allocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedZones {
    /// Number of bytes on each side of an allocation; not 0.
    pub bytes: u64,
    /// The value of each byte of a red zone.
    pub byte: u8,
}

/// A red zone of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneSide {
    /// The red zone before the first byte of the allocation.
    Header,
    /// The red zone after the last byte of the allocation.
    Footer,
}

/// An allocation whose red zones have changed.
#[derive(Clone, Debug)]
pub struct Overwritten {
    /// The allocation.
    pub allocation: Allocation,
    /// The changed zones.
    pub sides: Vec<ZoneSide>,
    /// The stack of the call that allocated the memory, if the stacks of calls are stored.
    pub allocated: Option<CallStack>,
}

impl RedZones {
    /// Returns the number of bytes that are reserved before the first byte of an allocation; `None` on overflow.
    pub(super) fn front(self) -> Option<u64> {
        round_up(self.bytes, ALIGNMENT)
    }

    /// Returns the number of bytes that an allocation of `size` bytes reserves; `None` on overflow.
    pub(super) fn reserved(self, size: u64) -> Option<u64> {
        self.front()?.checked_add(size)?.checked_add(self.bytes)
    }

    /// Returns the first address of each zone of an allocation.
    fn places(self, allocation: &Allocation) -> [(ZoneSide, u64); 2] {
        [
            (ZoneSide::Header, allocation.base - self.bytes),
            (ZoneSide::Footer, allocation.end()),
        ]
    }
}

impl AddressSpace {
    /// Zeroes a new allocation that has red zones, and fills its zones.
    pub(super) fn fill_zones(&self, record: &Record) -> Result<(), MemoryError> {
        let Some(zones) = self.zones.filter(|_| record.front != 0) else {
            return Ok(());
        };
        for (_, start) in zones.places(&record.allocation) {
            self.fill8(start, zones.byte, zones.bytes)?;
        }
        self.zero(record.allocation.base, record.allocation.size)
    }

    /// Returns the allocation that contains `address`, if a red zone of this allocation has changed. Restores the
    /// changed zones, so that the next call reports only later changes.
    pub fn overwritten(&self, address: u64) -> Option<Overwritten> {
        self.zones?;
        let record = self.record_of(address)?;
        self.examine(&record)
    }

    /// Does the same as [`AddressSpace::overwritten`] for all allocations or, if `owner` is not
    /// `None`, for the allocations of this owner.
    pub fn all_overwritten(&self, owner: Option<u64>) -> Vec<Overwritten> {
        if self.zones.is_none() {
            return Vec::new();
        }
        let of_owner =
            |record: &&Record| owner.is_none_or(|owner| record.allocation.owner == owner);
        let records: Vec<Record> = {
            let index = self.index.read();
            index.values().filter(of_owner).cloned().collect()
        };
        records
            .iter()
            .filter_map(|record| self.examine(record))
            .collect()
    }

    fn examine(&self, record: &Record) -> Option<Overwritten> {
        let zones = self.zones.filter(|_| record.front != 0)?;
        let mut sides = Vec::new();
        for (side, start) in zones.places(&record.allocation) {
            let mut content = vec![0; usize::try_from(zones.bytes).ok()?];
            // Another thread may be freeing the memory, so the zone may be inaccessible.
            access::read(&mut content, start).ok()?;
            if content.iter().any(|&byte| byte != zones.byte) {
                sides.push(side);
                self.fill8(start, zones.byte, zones.bytes).ok()?;
            }
        }
        (!sides.is_empty()).then(|| Overwritten {
            allocation: record.allocation,
            sides,
            allocated: record.calls.allocated.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::space::tests::device;
    use crate::memory::{MemoryConfig, MemoryKind};

    fn space(bytes: u64) -> AddressSpace {
        let config = MemoryConfig {
            reserve: 1 << 30,
            device_limit: Some(256 << 20),
            zones: Some(RedZones { bytes, byte: 0xde }),
            ..MemoryConfig::default()
        };
        AddressSpace::new(&config).expect("addresses")
    }

    #[test]
    fn a_write_on_either_side_is_seen_once() {
        for size in [1, 100, 4096, 70_000, 3 << 20] {
            let space = space(32);
            let one = space.alloc(&device(size)).expect("memory");
            assert!(one.base.is_multiple_of(ALIGNMENT));
            assert!(space.overwritten(one.base).is_none());
            space.write(one.end(), &[1]).expect("accessible");
            let found = space.overwritten(one.end() - 1).expect("a change");
            assert_eq!(found.sides, [ZoneSide::Footer]);
            assert!(space.overwritten(one.base).is_none(), "reported again");
            space.write(one.base - 32, &[1]).expect("accessible");
            space.write(one.end() + 31, &[1]).expect("accessible");
            let found = space.all_overwritten(Some(1));
            assert_eq!(found[0].sides, [ZoneSide::Header, ZoneSide::Footer]);
            assert_eq!(found[0].allocation, one);
            space.write(one.base, &[7]).expect("accessible");
            assert!(space.all_overwritten(None).is_empty());
            assert!(space.all_overwritten(Some(2)).is_empty());
            space.free(one.base, &[MemoryKind::Device]).expect("freed");
        }
    }

    #[test]
    fn memory_is_zero_when_it_is_used_again() {
        let space = space(5);
        for _ in 0..3000 {
            let one = space.alloc(&device(600)).expect("memory");
            let mut content = [1; 600];
            access::read(&mut content, one.base).expect("accessible");
            assert!(content.iter().all(|&byte| byte == 0));
            space.fill8(one.base, 9, 600).expect("accessible");
            assert!(space.overwritten(one.base).is_none());
            space.free(one.base, &[MemoryKind::Device]).expect("freed");
        }
        assert_eq!(space.info().device, 0);
    }

    #[test]
    fn the_zones_have_the_size_that_was_asked_for() {
        let space = space(1000);
        let one = space.alloc(&device(8)).expect("memory");
        let other = space.alloc(&device(8)).expect("memory");
        for address in [one.base - 1000, one.end() + 999] {
            space.write(address, &[1]).expect("accessible");
            assert_eq!(
                space.overwritten(one.base).expect("a change").sides.len(),
                1
            );
        }
        assert!(space.overwritten(other.base).is_none());
    }
}
