//! Accesses that tools observe.

use margay_ops::mods::{Mode, StateSpace};
use margay_ops::ops::Opcode;

use crate::function::InstData;

/// What an access does with memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AccessMode {
    /// Reads.
    Load,
    /// Writes.
    Store,
    /// Reads and writes atomically.
    Update,
}

impl AccessMode {
    /// Every mode.
    pub const ALL: [AccessMode; 3] = [AccessMode::Load, AccessMode::Store, AccessMode::Update];

    /// Returns whether the access writes memory.
    pub fn writes(self) -> bool {
        self != AccessMode::Load
    }
}

/// The properties of an access that all lanes share.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ObservedAccess {
    /// What the access does.
    pub mode: AccessMode,
    /// The state space of the instruction; [`StateSpace::None`] for a generic address.
    pub space: StateSpace,
    /// Number of bytes that a lane accesses.
    pub bytes: u32,
}

impl ObservedAccess {
    /// Returns the access of an `ld`, `st`, `atom`, `red` or `check.access`; `None` for another instruction.
    pub fn of(data: &InstData) -> Option<ObservedAccess> {
        let mode = match (data.opcode, data.mods.mode()) {
            (Opcode::Ld, _) | (Opcode::CheckAccess, Mode::Load) => AccessMode::Load,
            (Opcode::St, _) | (Opcode::CheckAccess, Mode::Store) => AccessMode::Store,
            (Opcode::Atom | Opcode::Red, _) | (Opcode::CheckAccess, Mode::Update) => {
                AccessMode::Update
            }
            _ => return None,
        };
        Some(ObservedAccess {
            mode,
            space: data.mods.space(),
            bytes: data.ty.bits().div_ceil(8) * data.mods.vec().max(1),
        })
    }
}
