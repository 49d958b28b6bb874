//! Passes: each a file with one `run` that changes a function.
//!
//! [`PASSES`] names each once, in the order in which [`prepare`] makes a kernel ready for an engine
//! that runs regions; [`prepare_watched`] shows the function behind each pass and how long it took.
//! Invariant: what a pass leaves behind is as [`crate::verify`] wants it; debug builds check.
//!
//! No pass moves out of loops what they do not change, and that is a choice: of 36,076 instructions in the 1,067 innermost
//! loops of the public programs, as nvcc leaves them, 755 (2 %) are such, and most of them constants added to addresses. In
//! 63 loops of CUTLASS's kernels it is 6,521 of 44,592 (15 %): pieces of addresses that nvcc makes anew to save registers, and
//! that would have to live in frames across barriers, where to load one costs as much as to make it. What is the same for a
//! CTA does leave the loops over its threads, in the code generator.

pub mod calls;
mod copy;
pub mod inline;
pub mod merge;
pub mod number;
mod places;
pub mod points;
pub mod promote;
pub mod simplify;
mod variables;
pub mod waiting;

use std::time::{Duration, Instant};

use self::inline::Inlining;
use crate::entity::FuncId;
use crate::function::Function;
use crate::module::Module;
use crate::verify::{self, Stage};

/// What a pass may know besides the function.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The module.
    pub module: &'a Module,
    /// The function's number in it.
    pub id: FuncId,
    /// Which functions are inlined.
    pub inline: &'a Inlining,
}

/// A pass: a row of [`PASSES`].
#[derive(Debug)]
pub struct Pass {
    /// Name, for people.
    pub name: &'static str,
    /// What it does, in a few words.
    pub about: &'static str,
    /// What functions have been through behind it.
    pub stage: Stage,
    run: fn(&mut Function, &Context<'_>),
}

macro_rules! passes {
    ($($name:literal $stage:ident $about:literal $run:expr;)*) => {
        /// All passes, in order.
        pub static PASSES: &[Pass] = &[$(Pass {
            name: $name,
            about: $about,
            stage: Stage::$stage,
            run: $run,
        },)*];
    };
}

passes! {
    "inline" Lowered "bodies in the place of calls" |f, c| inline::run(f, c.module, c.id, c.inline);
    "simplify" Lowered "constants folded, dead code removed" |f, _| simplify::run(f);
    "promote" Lowered "local memory to values" |f, _| promote::run(f);
    "tidy" Lowered "what promotion left folded and removed" |f, _| {
        if !f.slots.is_empty() {
            simplify::run(f);
        }
    };
    "number" Lowered "what was computed or loaded before shared" |f, c| {
        if number::run(f, c.module) {
            simplify::run(f);
        }
    };
    "merge" Lowered "chains of very many blocks to one" |f, _| merge::run(f);
    "waiting" Lowered "yields in loops that wait" |f, c| waiting::run(f, c.module);
    "calls" Lowered "calls of functions that may wait to jumps" |f, c| {
        if calls::run(f, c) {
            simplify::run(f);
        }
    };
    "points" Cut "blocks cut at synchronisation points" |f, c| points::run(f, c.module);
}

/// A kernel (or function) with calls inlined where possible and every point at the end of its block.
/// With `after`, stops behind the pass of that name.
pub fn prepare(module: &Module, id: FuncId, after: Option<&str>) -> Function {
    prepare_watched(module, id, after, |_, _, _| {})
}

/// [`prepare`] for a kernel or a function that it calls, with what is decided for that kernel.
pub fn prepare_within(
    module: &Module,
    id: FuncId,
    inline: &Inlining,
    after: Option<&str>,
) -> Function {
    let context = Context { module, id, inline };
    run_passes(&context, after, |_, _, _| {})
}

/// [`prepare`], calling `watch` behind each pass with the time it took.
pub fn prepare_watched(
    module: &Module,
    id: FuncId,
    after: Option<&str>,
    watch: impl FnMut(&'static Pass, Duration, &Function),
) -> Function {
    let inline = &Inlining::of(module, id);
    run_passes(&Context { module, id, inline }, after, watch)
}

fn run_passes(
    context: &Context<'_>,
    after: Option<&str>,
    mut watch: impl FnMut(&'static Pass, Duration, &Function),
) -> Function {
    let mut function = context.module.functions[context.id].clone();
    for pass in PASSES {
        let start = Instant::now();
        if function.has_body() {
            (pass.run)(&mut function, context);
        }
        watch(pass, start.elapsed(), &function);
        if cfg!(debug_assertions) {
            let problems = verify::function(context.module, &function, pass.stage);
            assert!(problems.is_empty(), "behind {}: {problems:?}", pass.name);
        }
        if after == Some(pass.name) {
            break;
        }
    }
    function
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for (index, pass) in PASSES.iter().enumerate() {
            assert!(PASSES[..index].iter().all(|other| other.name != pass.name));
        }
    }
}
