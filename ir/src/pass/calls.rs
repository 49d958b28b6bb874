//! Merges functions in which threads may wait into the kernel, each once: calls become jumps with an explicit
//! stack.
//!
//! Native code calls device functions for one thread at a time, so no thread can wait inside a device function. If
//! a kernel, after inlining, still calls a function with sync points (because of recursion, handles or large
//! bodies), all functions that the kernel reaches are merged into it. The result is ordinary code, so sync points,
//! regions and chunks need no special case.
//!
//! A merged function has two additional parameters: the number of the continuation to which it returns, and the
//! *stack pointer*. The stack pointer is a generic address in the thread's local memory, where the function's frame
//! begins. The frame contains the function's slots and then the values that are live across its calls ([`frame`]).
//! A call saves these values ([`saves`]), checks that the callee's frame fits (`stack.check`) and jumps to the
//! callee's entry with the arguments. `ret` jumps to the continuation with the given number; its arguments are the
//! results and the callee's stack pointer ([`merge`]). After a call, each value that was live across it is loaded
//! from the frame, or rematerialised if that is cheap. Block parameters merge the new values with the old ones. The
//! frame of the kernel is its last slot, and the stack begins at the end of that slot.
//!
//! A call through a handle compares the handle with those of all functions of its signature; any other handle ends
//! the launch with `invalid.pc`. All functions of a signature that is called through handles return through one
//! common block.
//!
//! Invariants: after the pass, no call is left or nothing has changed. The targets of a return are ordered so that
//! reverse postorder keeps the program's order, because lagging lanes run first by that order.

mod code;
mod frame;
mod merge;
mod plan;
mod saves;

use crate::entity::FuncId;
use crate::function::Function;
use crate::module::Module;
use crate::pass::Context;
use crate::pass::inline::Inlining;

/// Most instructions of a kernel and all functions that it reaches. Native code of that size takes seconds to
/// compile.
const MAX_INSTS: usize = 20_000;

/// A function to be merged into a kernel.
#[derive(Debug)]
struct Body {
    id: FuncId,
    function: Function,
    /// Size in bytes of its frame.
    frame: u32,
}

/// Merges all functions that a kernel reaches into it, if one of them has sync points. Returns whether anything
/// changed.
pub fn run(function: &mut Function, context: &Context<'_>) -> bool {
    let Ok(Some(bodies)) = plan::bodies(function, context.module, context.inline) else {
        return false;
    };
    merge::merge(function, context.module, bodies);
    true
}

/// Returns the reason why a kernel keeps its calls of functions with sync points. `function` is the kernel after
/// the passes before this one.
pub fn declined(function: &Function, module: &Module, inline: &Inlining) -> Option<String> {
    plan::bodies(function, module, inline).err()
}
