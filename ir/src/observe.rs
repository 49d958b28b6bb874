//! Memory accesses that checking runs and tools observe.

use margay_ops::mods::{AtomOp, MemOrder, Mode, Scope, StateSpace};
use margay_ops::ops::Opcode;

use crate::function::InstData;

mod event;
mod selection;

pub use event::ObservedEvent;
pub use selection::Selection;

/// What an access does with memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AccessMode {
    /// Reads.
    Load,
    /// Writes.
    Store,
    /// The access reads and writes memory atomically.
    Update,
    /// The access reads a number of bytes that an operand states.
    Copy,
    /// The access frees memory of the device's heap.
    Release,
}

impl AccessMode {
    /// All modes.
    pub const ALL: [AccessMode; 5] = [
        AccessMode::Load,
        AccessMode::Store,
        AccessMode::Update,
        AccessMode::Copy,
        AccessMode::Release,
    ];

    /// Returns whether the access writes memory.
    #[inline]
    pub fn writes(self) -> bool {
        matches!(self, AccessMode::Store | AccessMode::Update)
    }
}

/// A kind of asynchronous operation. The operand of a `check.group` with the mode `begin` is the number of the kind.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Asynchronous {
    /// A bulk operation that completes with its bulk group. It accesses memory through the asynchronous proxy.
    Group,
    /// A bulk operation that signals an mbarrier. It accesses memory through the asynchronous proxy.
    Object,
    /// A store or reduction that signals an mbarrier.
    Store,
}

impl Asynchronous {
    /// All kinds of asynchronous operations, in the order of their numbers.
    pub const ALL: [Asynchronous; 3] = [
        Asynchronous::Group,
        Asynchronous::Object,
        Asynchronous::Store,
    ];
}

/// Bit of the operand of a `check.group` with the mode `proxy_fence`: the fence between the generic and the
/// asynchronous proxy applies to shared memory.
pub const PROXY_SHARED: u32 = 1;
/// Bit of the same operand as [`PROXY_SHARED`]: the fence between the two proxies applies to global memory.
pub const PROXY_GLOBAL: u32 = 2;

/// The properties of an access that are the same for all lanes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ObservedAccess {
    /// What the access does.
    pub mode: AccessMode,
    /// The state space of the instruction; [`StateSpace::None`] for a generic address.
    pub space: StateSpace,
    /// Number of bytes that a lane accesses. For [`AccessMode::Copy`], the alignment of the
    /// address, because an operand states the number of bytes.
    pub bytes: u32,
    /// Number of bytes of one element of a vector access. A store has one operand for each element.
    pub element: u32,
    /// Number of values that an element packs (`.f16x2` packs two). An atomic operation is atomic for each of these
    /// values separately.
    pub packed: u32,
    /// For a load, whether the kernel only stores the loaded value and does not compute with it. For a store or a
    /// copy, whether the access belongs to an asynchronous copy.
    pub only_copied: bool,
    /// Whether the innermost loop around a strong access waits for the value that the access reads.
    pub polls: bool,
    /// The memory order of the access; [`MemOrder::Weak`] for an access without order.
    pub order: MemOrder,
    /// The scope of the memory order.
    pub scope: Scope,
    /// The operation of an atomic update ([`AccessMode::Update`]).
    pub op: AtomOp,
    /// The elements of a vector load that the kernel does not use, one bit for each element. Compilers load whole
    /// vectors even if the program reads only some of the elements. For an atomic exchange, 1 if the kernel does not use
    /// the old value. [`ObservedAccess::UNNEEDED`] if the thread does not need any of the values.
    pub unused: u8,
}

impl ObservedAccess {
    /// The value of `unused` for a load of which only the address is checked, because no operation
    /// of the thread depends on the loaded values.
    pub const UNNEEDED: u8 = 0xff;

    /// Returns the access of an `ld`, `st`, `atom`, `red`, `check.access` or `observe.access`; `None` for another
    /// instruction.
    pub fn of(data: &InstData) -> Option<ObservedAccess> {
        let mode = match (data.opcode, data.mods.mode()) {
            (Opcode::Ld, _) => AccessMode::Load,
            (Opcode::St, _) => AccessMode::Store,
            (Opcode::Atom | Opcode::Red, _) => AccessMode::Update,
            (Opcode::CheckAccess | Opcode::ObserveAccess, Mode::Load) => AccessMode::Load,
            (Opcode::CheckAccess | Opcode::ObserveAccess, Mode::Store) => AccessMode::Store,
            (Opcode::CheckAccess | Opcode::ObserveAccess, Mode::Update) => AccessMode::Update,
            (Opcode::CheckAccess | Opcode::ObserveAccess, Mode::Copy) => AccessMode::Copy,
            (Opcode::CheckAccess, Mode::Release) => AccessMode::Release,
            _ => return None,
        };
        let is_update = mode == AccessMode::Update;
        let order = match data.mods.order() {
            // An update without order is relaxed (PTX ISA 9.7.13, `atom`).
            MemOrder::None | MemOrder::Weak if is_update => MemOrder::Relaxed,
            MemOrder::None => MemOrder::Weak,
            order => order,
        };
        let scope = match (data.mods.scope(), order) {
            (_, MemOrder::Volatile | MemOrder::Mmio) => Scope::Sys,
            (Scope::None, _) => Scope::Gpu,
            (scope, _) => scope,
        };
        let element = data.ty.bits().div_ceil(8);
        Some(ObservedAccess {
            mode,
            space: data.mods.space(),
            bytes: element * data.mods.vec().max(1),
            element,
            packed: data.ty.elements(),
            only_copied: matches!(data.opcode, Opcode::CheckAccess | Opcode::ObserveAccess)
                && data.mods.nc(),
            polls: data.opcode == Opcode::CheckAccess && data.mods.noftz(),
            order,
            scope,
            op: data.mods.atom_op(),
            unused: match data.opcode {
                Opcode::CheckAccess => data.mods.unused_elements(),
                _ => 0,
            },
        })
    }

    /// Returns the maximal ranges of contiguous elements that the kernel uses. Each range is an
    /// offset and a size, in bytes.
    pub fn parts(&self) -> impl Iterator<Item = (u32, u32)> + use<> {
        let (element, unused) = (self.element.max(1), u32::from(self.unused));
        let count = self.bytes / element;
        let unused = match self.mode {
            AccessMode::Load => unused,
            _ => 0,
        };
        let is_used = move |index: u32| index < count && unused >> index & 1 == 0;
        let starts = move |index: &u32| is_used(*index) && (*index == 0 || !is_used(index - 1));
        (0..count.min(8)).filter(starts).map(move |start| {
            let end = (start..).find(|&index| !is_used(index)).unwrap_or(count);
            (start * element, (end - start) * element)
        })
    }

    /// Returns whether the kernel uses the bytes that memory contains before the access.
    pub fn uses_memory(&self) -> bool {
        match self.mode {
            AccessMode::Store => false,
            AccessMode::Update => self.op != AtomOp::Exch || self.unused == 0,
            AccessMode::Load | AccessMode::Copy | AccessMode::Release => true,
        }
    }

    /// Packs the properties of the access into 64 bits.
    #[inline]
    pub fn to_bits(self) -> u64 {
        let fields = [
            (self.mode as u64, 4),
            (self.space as u64, 4),
            (u64::from(self.bytes), 12),
            (u64::from(self.element), 8),
            (u64::from(self.packed), 4),
            (u64::from(self.only_copied), 4),
            (u64::from(self.polls), 4),
            (self.order as u64, 4),
            (self.scope as u64, 4),
            (self.op as u64, 8),
            (u64::from(self.unused), 8),
        ];
        fields
            .iter()
            .rev()
            .fold(0, |all, &(field, width)| all << width | field)
    }

    /// Returns the properties that [`ObservedAccess::to_bits`] has packed.
    #[inline]
    pub fn from_bits(bits: u64) -> ObservedAccess {
        let mut rest = bits;
        let mut take = |width: u32| {
            let field = rest & ((1 << width) - 1);
            rest >>= width;
            field as usize
        };
        let mode = AccessMode::ALL.get(take(4)).copied();
        let space = StateSpace::ALL.get(take(4).wrapping_sub(1)).copied();
        let (bytes, element) = (take(12) as u32, take(8) as u32);
        let packed = take(4) as u32;
        let only_copied = take(4) != 0;
        let polls = take(4) != 0;
        let order = MemOrder::ALL.get(take(4).wrapping_sub(1)).copied();
        let scope = Scope::ALL.get(take(4).wrapping_sub(1)).copied();
        let op = AtomOp::ALL.get(take(8).wrapping_sub(1)).copied();
        let unused = take(8) as u8;
        ObservedAccess {
            mode: mode.unwrap_or(AccessMode::Load),
            space: space.unwrap_or_default(),
            bytes,
            element,
            packed,
            only_copied,
            polls,
            order: order.unwrap_or_default(),
            scope: scope.unwrap_or_default(),
            op: op.unwrap_or_default(),
            unused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_survive_packing() {
        for mode in AccessMode::ALL {
            for &space in StateSpace::ALL {
                let access = ObservedAccess {
                    packed: 1,
                    mode,
                    space,
                    bytes: 64,
                    element: 16,
                    only_copied: true,
                    polls: true,
                    order: MemOrder::Mmio,
                    scope: Scope::Sys,
                    op: AtomOp::SignalDrop,
                    unused: 0b1000_0101,
                };
                assert_eq!(ObservedAccess::from_bits(access.to_bits()), access);
                let none = ObservedAccess {
                    space: StateSpace::None,
                    op: AtomOp::None,
                    ..access
                };
                assert_eq!(ObservedAccess::from_bits(none.to_bits()), none);
            }
        }
    }

    #[test]
    fn unused_elements_are_no_part_of_an_access() {
        let parts = |elements: u32, unused: u8| {
            let access = ObservedAccess {
                bytes: 4 * elements,
                element: 4,
                unused,
                ..ObservedAccess::from_bits(0)
            };
            access.parts().collect::<Vec<_>>()
        };
        assert_eq!(parts(1, 0), [(0, 4)]);
        assert_eq!(parts(4, 0), [(0, 16)]);
        assert_eq!(parts(4, 0b1000), [(0, 12)]);
        assert_eq!(parts(4, 0b0100), [(0, 8), (12, 4)]);
        assert_eq!(parts(4, 0b0001), [(4, 12)]);
        assert_eq!(parts(8, 0b1100_0011), [(8, 16)]);
    }
}
