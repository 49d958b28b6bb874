//! Local promotion: replaces pieces of `.local` memory by SSA values if the addresses of all accesses to these pieces
//! are known.
//!
//! The pass splits a slot into pieces if the function uses the address of the slot in three ways only: it adds or
//! subtracts constants, converts the address between local and generic, and makes weak loads and stores inside the slot
//! ([`accesses`]). Each piece whose accesses all have the same offset and size becomes a variable. Block parameters at
//! iterated dominance frontiers turn the variables into values ([`values`]). Pieces of different sizes that overlap
//! stay in memory. If a slot has a volatile or misaligned access, the whole slot stays in memory.
//!
//! A piece that is read before it is written has the value zero. PTX leaves this value undefined; Margay defines it, so
//! that every run computes the same bits. Invariant: an access that stays in memory never reads bytes that a promoted
//! access writes.

mod accesses;
mod values;

use crate::entity::{Block, Inst};
use crate::function::Function;
use margay_ops::types::Type;

/// Maximum number of pieces of a function that the pass promotes. All other pieces stay in memory.
const MAX_PIECES: usize = 4096;

/// A piece of a slot that becomes a variable.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Type of the variable that replaces the piece.
    ty: Type,
}

/// A load or store whose elements are all promoted pieces.
#[derive(Clone, Debug)]
struct Access {
    block: Block,
    inst: Inst,
    /// The piece that each element of the access reads or writes.
    pieces: Vec<usize>,
}

/// The pieces of a function that are promoted, and their accesses.
#[derive(Debug, Default)]
struct Plan {
    pieces: Vec<Piece>,
    /// The accesses to the promoted pieces. The accesses of each block are in layout order.
    accesses: Vec<Access>,
}

/// Turns pieces of local memory into SSA values.
pub fn run(function: &mut Function) {
    if function.slots.is_empty() {
        return;
    }
    let plan = accesses::plan(function);
    if plan.accesses.is_empty() {
        return;
    }
    values::replace(function, &plan);
    crate::edit::resolve_aliases(function);
    accesses::drop_unused(function);
}
