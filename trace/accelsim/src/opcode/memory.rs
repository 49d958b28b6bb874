//! What instructions with addresses do.

/// The memory that an instruction with addresses accesses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Space {
    /// Global memory.
    Global,
    /// The memory of a CTA.
    Shared,
    /// The memory of a thread.
    Local,
    /// The address of the first active lane decides ([`Header::resolve`](crate::Header::resolve)).
    Generic,
}

impl Space {
    /// Returns the name for reports.
    pub fn name(self) -> &'static str {
        match self {
            Space::Global => "global",
            Space::Shared => "shared",
            Space::Local => "local",
            Space::Generic => "generic",
        }
    }
}

/// What an instruction with addresses does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum MemoryKind {
    /// Reads.
    Load,
    /// Writes.
    Store,
    /// Reads, modifies and writes, and returns the old value.
    Atomic,
    /// Reads, modifies and writes.
    Reduction,
    /// Copies from global to shared memory. The addresses of grouped traces are those in global memory.
    Copy,
}

impl MemoryKind {
    /// Returns the name for reports.
    pub fn name(self) -> &'static str {
        match self {
            MemoryKind::Load => "load",
            MemoryKind::Store => "store",
            MemoryKind::Atomic => "atomic",
            MemoryKind::Reduction => "reduction",
            MemoryKind::Copy => "copy",
        }
    }
}

/// Returns what an instruction with addresses does, by its name. The simulator requires addresses of exactly these.
pub(super) fn memory(name: &str) -> Option<(Space, MemoryKind)> {
    Some(match name {
        "LD" => (Space::Generic, MemoryKind::Load),
        "LDG" => (Space::Global, MemoryKind::Load),
        "LDGSTS" => (Space::Global, MemoryKind::Copy),
        "LDL" => (Space::Local, MemoryKind::Load),
        "LDS" | "LDSM" => (Space::Shared, MemoryKind::Load),
        "ST" => (Space::Generic, MemoryKind::Store),
        "STG" => (Space::Global, MemoryKind::Store),
        "STL" => (Space::Local, MemoryKind::Store),
        "STS" => (Space::Shared, MemoryKind::Store),
        // The simulator executes generic atomic operations in global memory, whatever the address.
        "ATOM" | "ATOMG" => (Space::Global, MemoryKind::Atomic),
        "ATOMS" => (Space::Shared, MemoryKind::Atomic),
        "RED" => (Space::Global, MemoryKind::Reduction),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names are those that the simulator requires addresses of.
    #[test]
    fn the_name_decides_the_memory() {
        use MemoryKind::{Atomic, Copy, Load, Reduction, Store};
        use Space::{Generic, Global, Local, Shared};
        let rows = [
            ("LDG", Global, Load),
            ("LDGSTS", Global, Copy),
            ("LDL", Local, Load),
            ("STG", Global, Store),
            ("STL", Local, Store),
            ("LDS", Shared, Load),
            ("STS", Shared, Store),
            ("ATOM", Global, Atomic),
            ("ATOMG", Global, Atomic),
            ("ATOMS", Shared, Atomic),
            ("RED", Global, Reduction),
            ("LDSM", Shared, Load),
            ("LD", Generic, Load),
            ("ST", Generic, Store),
        ];
        for (name, space, kind) in rows {
            assert_eq!(memory(name), Some((space, kind)), "{name}");
        }
        for name in ["LDC", "TEX", "SULD", "MEMBAR", "LDGDEPBAR"] {
            assert_eq!(memory(name), None, "{name}");
        }
    }
}
