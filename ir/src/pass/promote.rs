//! Local promotion: pieces of `.local` memory whose addresses stay known become values.
//!
//! A slot is taken apart when its address is only moved by constants, converted between local and
//! generic, and used by weak loads and stores inside the slot ([`accesses`]). Of such a slot, every
//! piece that is always accessed with the same offset and size becomes a variable, which block
//! parameters at iterated dominance frontiers turn into values ([`values`]); pieces of other sizes
//! that overlap stay in memory, and so do volatile and misaligned accesses with their whole slot.
//!
//! A piece that is read before it is written is zero: PTX leaves it undefined, and execution-model
//! section 8 wants the same bits on every run. Invariant: no access that stays in memory sees bytes
//! that a promoted one wrote or should have.

mod accesses;
mod values;

use crate::entity::{Block, Inst};
use crate::function::Function;
use margay_ops::types::Type;

/// So many pieces of a function are promoted; the rest stays in memory.
const MAX_PIECES: usize = 4096;

/// A piece of a slot that becomes a variable.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Type of the variable.
    ty: Type,
}

/// A load or store whose elements are all pieces.
#[derive(Clone, Debug)]
struct Access {
    block: Block,
    inst: Inst,
    /// The piece of each element.
    pieces: Vec<usize>,
}

/// What is promoted in a function.
#[derive(Debug, Default)]
struct Plan {
    pieces: Vec<Piece>,
    /// In layout order inside each block.
    accesses: Vec<Access>,
}

/// Turns pieces of local memory into values.
pub fn run(function: &mut Function) {
    if function.slots.is_empty() {
        return;
    }
    let plan = accesses::plan(function);
    if plan.accesses.is_empty() {
        return;
    }
    values::replace(function, &plan);
    function.resolve_aliases();
    accesses::drop_unused(function);
}
