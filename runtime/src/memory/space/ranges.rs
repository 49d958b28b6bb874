//! What a range of addresses contains.

use super::{AddressSpace, Allocation, MemoryKind, READ_ONLY, refused};

impl AddressSpace {
    /// Returns whether all `bytes` bytes at `address` are in host memory that the program registered. If `writes` is
    /// true, returns false if one of the registrations has the flag [`READ_ONLY`].
    pub fn is_registered(&self, address: u64, bytes: u64, writes: bool) -> bool {
        self.all_are(address, bytes, |found| {
            found.kind == MemoryKind::Registered && !(writes && found.flags & READ_ONLY != 0)
        })
    }

    /// Returns whether all `bytes` bytes at `address` are in allocations or registrations that kernels may read or, if
    /// `writes` is true, write. The bytes may be in several adjacent mappings or in several adjacent registrations.
    pub fn permits(&self, address: u64, bytes: u64, writes: bool) -> bool {
        self.kind_of(address, bytes, refused(writes)).is_some()
    }

    /// Returns the kind of the memory that contains all `bytes` bytes at `address`: one allocation, or several adjacent
    /// mappings or registrations. Returns `None` if there is no such memory, or if it has one of the flags `refused`.
    pub(crate) fn kind_of(&self, address: u64, bytes: u64, refused: u32) -> Option<MemoryKind> {
        let mut kind = None;
        let is_uniform = self.all_are(address, bytes, |found| {
            let joins = matches!(found.kind, MemoryKind::Mapped | MemoryKind::Registered);
            let before = kind.replace(found.kind);
            found.flags & refused == 0 && before.is_none_or(|kind| kind == found.kind && joins)
        });
        kind.filter(|_| is_uniform)
    }

    /// Returns whether each of the `bytes` bytes at `address` is in an allocation or registration that `accepts` accepts.
    fn all_are(
        &self,
        address: u64,
        bytes: u64,
        mut accepts: impl FnMut(&Allocation) -> bool,
    ) -> bool {
        let Some(end) = address.checked_add(bytes) else {
            return false;
        };
        let index = self.index.read();
        let mut at = address;
        while at < end {
            let found = index.range(..=at).next_back();
            let found = found.map(|(_, record)| record.allocation);
            match found.filter(|found| found.holds(at, 1) && accepts(found)) {
                Some(found) => at = found.end(),
                None => return false,
            }
        }
        true
    }

    /// Returns whether at least one of the `bytes` bytes at `address` is in an allocation, in a registration or in the
    /// range that is reserved for device memory.
    pub(crate) fn touches(&self, address: u64, bytes: u64) -> bool {
        let last = address.saturating_add(bytes.saturating_sub(1));
        let index = self.index.read();
        let found = index.range(..=last).next_back();
        let in_record = found.is_some_and(|(_, record)| record.allocation.end() > address);
        in_record || address < self.base + self.len && last >= self.base
    }
}
