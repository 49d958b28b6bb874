//! If a kernel calls functions in which threads may wait, merges all functions that the kernel
//! reaches into the kernel. The kernel gets one copy of each function. Jumps and an explicit stack
//! replace the calls.
//!
//! Native code calls device functions for one thread at a time, so no thread can wait inside a device function. A call
//! remains after inlining if it is recursive, if it goes through a handle, or if the body of the callee is too large.
//! If a kernel still calls a function with sync points, all functions that the kernel reaches are merged into it. The
//! merged kernel is ordinary code, so the analyses and code generators for sync points, regions and chunks need no
//! special case.
//!
//! A merged function has two additional parameters: the index of the continuation to which it returns, and the *stack
//! pointer*. The stack pointer is a generic address in the local memory of the thread, where the frame of the function
//! begins. This frame contains the function's slots and then those values that are live across its calls and that are
//! not cheap to compute again ([`frame`]). A call saves these values ([`saves`]), checks that the callee's frame fits
//! (`stack.check`) and jumps to the callee's entry with the arguments. `ret` jumps to the continuation with the given
//! index; the arguments of this jump are the results and the callee's stack pointer ([`merge`]). After a call, each
//! value that was live across the call is loaded from the frame, or is rematerialised. Where control flow joins, block
//! parameters merge each such loaded or rematerialised value with the original value. The frame of the kernel is its
//! last slot, and the stack begins at the end of that slot.
//!
//! A call through a handle becomes a binary search among the handles of all functions that have a body and the
//! signature of the call. If the handle equals none of these handles, the launch fails with `invalid.pc`. All functions
//! of a signature that is called through handles return through one common block.
//!
//! Invariants: after the pass, either the kernel contains no call or the pass has not changed it. If it has changed the
//! kernel, the layout has the order of the program (`Layout::in_program_order`): a function follows its first call. The
//! sync points are numbered in this order, because the scheduler runs lagging lanes first. The targets of a return are
//! ordered so that reverse postorder keeps this order within each function.
//!
//! All calls of a function lead to one copy of its body. Operations such as `activemask` act on the
//! lanes that execute them together. Lanes that have come from different calls or iterations must
//! therefore not execute such an operation together ([`iterations`]). Limit: the pass does not
//! separate lanes at different depths of a recursion if these lanes have come from the same call.

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
use crate::pass::iterations::{self, Acting};

/// Maximum total number of instructions of a kernel and all functions that it reaches. Compiling this number of
/// instructions takes seconds.
const MAX_INSTS: usize = 20_000;

/// A function that the pass merges into a kernel.
#[derive(Debug)]
struct Body {
    id: FuncId,
    function: Function,
    /// Size in bytes of the function's frame.
    frame: u32,
}

/// Merges all functions that a kernel reaches into the kernel, if one of these functions has sync points and
/// [`declined`] returns no reason against it. Returns whether anything changed.
pub fn run(function: &mut Function, context: &Context<'_>) -> bool {
    let Ok(Some(mut bodies)) = plan::bodies(function, context.module, context.inline) else {
        return false;
    };
    let called = bodies.iter().map(|body| (body.id, &body.function));
    let acting = Acting::among(called.chain([(context.id, &*function)]));
    for function in bodies
        .iter_mut()
        .map(|body| &mut body.function)
        .chain([&mut *function])
    {
        iterations::run(function, &acting);
        iterations::join_before_calls(function, &acting);
    }
    merge::merge(function, context.module, bodies);
    true
}

/// Returns the reason why this pass does not replace a kernel's calls of functions with sync points; `None` if the pass
/// replaces these calls or if the kernel has no such calls. `function` is the kernel after the passes that run before
/// this pass.
pub fn declined(function: &Function, module: &Module, inline: &Inlining) -> Option<String> {
    plan::bodies(function, module, inline).err()
}
