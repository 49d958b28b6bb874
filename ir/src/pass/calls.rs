//! Bodies of functions that may wait, brought into the kernel once each: calls become jumps with a stack.
//!
//! Native code calls device functions one thread at a time, so no thread may wait in one. A kernel that, behind
//! inlining, still calls a function with points (recursion, handles, bodies too large to be inlined) gets all the
//! functions that it reaches instead. What follows is ordinary code: points, regions and slices know nothing of it.
//!
//! A function has two more parameters: the number of the continuation to return to, and the *stack pointer*, a generic
//! address in the thread's local memory where its frame begins: its slots, then what lives across its calls
//! ([`frame`]). A call saves that ([`saves`]), tests that the callee's frame fits (`stack.check`) and jumps to the
//! callee's entry with the arguments; `ret` jumps to the continuation with that number, with the results and the
//! callee's stack pointer as arguments ([`merge`]). Behind a call every value that lived across it is another one,
//! loaded, or computed again where that is cheap; block parameters bring them together with the old ones. The
//! kernel's frame is a slot, the last, at whose end the stack begins.
//!
//! A call through a handle compares it with those of all functions of its signature; another ends the launch with
//! `invalid.pc`. Return points of functions that share such a call are one block.
//!
//! Invariant: no call is left, or nothing has changed. Invariant: the order of a return's targets keeps the
//! program's in reverse postorder, by which lanes that are behind run first.

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

/// Most instructions of a kernel with all that it reaches. Native code of so many takes seconds to compile.
const MAX_INSTS: usize = 20_000;

/// A function on its way into a kernel.
#[derive(Debug)]
struct Body {
    id: FuncId,
    function: Function,
    /// Bytes of its frame.
    frame: u32,
}

/// Brings the functions that a kernel reaches into it, if one of them has points. Whether anything changed.
pub fn run(function: &mut Function, context: &Context<'_>) -> bool {
    let Ok(Some(bodies)) = plan::bodies(function, context.module, context.inline) else {
        return false;
    };
    merge::merge(function, context.module, bodies);
    true
}

/// Why a kernel keeps its calls of functions with points: `function` is behind the passes before this one.
pub fn declined(function: &Function, module: &Module, inline: &Inlining) -> Option<String> {
    plan::bodies(function, module, inline).err()
}
