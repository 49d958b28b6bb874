//! Slabs, which contain small allocations. A slab is an address range, followed by a guard, that is
//! divided into slots of equal size.
//!
//! If each small allocation had its own pages, the process would reach the system's usual limit on mappings at about
//! 32,000 allocations. A slab needs two mappings for up to 2,048 slots.
//!
//! Invariant: the bit of a slot in `free` is set if and only if the slot is free. `live` is the
//! number of slots in use.

/// The slot size of each size class in bytes. All slot sizes are multiples of [`super::ALIGNMENT`].
pub(super) const CLASSES: [u64; 16] = [
    512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 10240, 12288, 16384, 20480, 24576, 32768, 49152,
    65536,
];

/// Returns the index of the smallest class whose slots have at least `bytes` bytes; `None` if there is no such class.
pub(super) fn class_of(bytes: u64) -> Option<usize> {
    let class = CLASSES.partition_point(|&size| size < bytes);
    (class < CLASSES.len()).then_some(class)
}

/// An address range that is divided into slots of one size class ([`CLASSES`]).
#[derive(Debug)]
pub(super) struct Slab {
    pub(super) base: u64,
    pub(super) class: usize,
    free: Vec<u64>,
    slots: u64,
    live: u64,
}

impl Slab {
    /// Creates a slab of `len` bytes at `base` whose slots are all free.
    pub(super) fn new(base: u64, len: u64, class: usize) -> Slab {
        let slots = len / CLASSES[class];
        let words = slots.div_ceil(64);
        let mut free = vec![u64::MAX; words as usize];
        if let Some(last) = free.last_mut()
            && !slots.is_multiple_of(64)
        {
            *last = (1 << (slots % 64)) - 1;
        }
        Slab {
            base,
            class,
            free,
            slots,
            live: 0,
        }
    }

    /// Marks the free slot with the lowest address as used and returns its address; `None` if no
    /// slot is free.
    pub(super) fn take(&mut self) -> Option<u64> {
        let word = self.free.iter().position(|&w| w != 0)?;
        let bit = u64::from(self.free[word].trailing_zeros());
        self.free[word] &= self.free[word] - 1;
        self.live += 1;
        Some(self.base + (word as u64 * 64 + bit) * CLASSES[self.class])
    }

    /// Frees the slot at `address`; returns false if no slot in use starts at this address.
    pub(super) fn give(&mut self, address: u64) -> bool {
        let offset = address.wrapping_sub(self.base);
        let slot = offset / CLASSES[self.class];
        if !offset.is_multiple_of(CLASSES[self.class]) || slot >= self.slots {
            return false;
        }
        let (word, bit) = ((slot / 64) as usize, 1u64 << (slot % 64));
        if self.free[word] & bit != 0 {
            return false;
        }
        self.free[word] |= bit;
        self.live -= 1;
        true
    }

    pub(super) fn is_full(&self) -> bool {
        self.live == self.slots
    }

    pub(super) fn is_empty(&self) -> bool {
        self.live == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_what_they_say() {
        assert_eq!(class_of(1).map(|c| CLASSES[c]), Some(512));
        assert_eq!(class_of(512).map(|c| CLASSES[c]), Some(512));
        assert_eq!(class_of(513).map(|c| CLASSES[c]), Some(1024));
        assert_eq!(class_of(65536).map(|c| CLASSES[c]), Some(65536));
        assert_eq!(class_of(65537), None);
        assert!(
            CLASSES
                .iter()
                .all(|c| c.is_multiple_of(super::super::ALIGNMENT))
        );
    }

    #[test]
    fn slots_are_distinct_and_come_back() {
        for (class, &size) in CLASSES.iter().enumerate() {
            let mut slab = Slab::new(0x10_0000, 1 << 20, class);
            let mut taken = Vec::new();
            while let Some(address) = slab.take() {
                taken.push(address);
            }
            assert!(slab.is_full());
            assert_eq!(taken.len() as u64, (1 << 20) / size);
            assert!(taken.windows(2).all(|w| w[1] - w[0] == size));
            assert!(taken.last().expect("slots") + size <= 0x20_0000);
            assert!(!slab.give(taken[0] + 1));
            assert!(!slab.give(0x10_0000 - size));
            assert!(!slab.give(0x20_0000));
            for address in &taken {
                assert!(slab.give(*address));
                assert!(!slab.give(*address), "double free");
            }
            assert!(slab.is_empty());
            assert_eq!(slab.take(), Some(0x10_0000));
        }
    }
}
