//! Passes. Each pass is a file with a function `run` that changes a function.
//!
//! [`PASSES`] lists the passes that prepare a kernel for an engine that runs regions, in the order in which [`prepare`]
//! runs them. The list does not contain [`instrument`], which runs before these passes, and only for checking runs and
//! tools. [`prepare_watched`] also calls a callback after each pass, with the function and the time that the pass took.
//! Invariant: the function that a pass produces is valid according to [`crate::verify`]; debug builds check this.
//!
//! There is no pass that moves loop-invariant instructions out of loops, because few instructions would move. The 1,067
//! innermost loops of the public programs (`docs/public-programs.md`), as compiled by nvcc, have 36,076 instructions.
//! Of these, 755 (2 %) are invariant, and most of the invariant instructions add constants to addresses. In 63 loops of
//! CUTLASS's kernels, 6,521 of 44,592 instructions (15 %) are invariant. They compute parts of addresses, which nvcc
//! recomputes to save registers. If a pass moved these instructions out of the loops, their results would be stored in
//! frames across barriers, and loading a result from a frame costs as much as computing it. The code generator does
//! move values that are equal for a CTA out of the loops over the threads of the CTA.

pub mod calls;
mod copy;
mod exchanges;
pub mod inline;
pub mod instrument;
pub mod iterations;
pub mod known_bits;
pub mod merge;
pub mod number;
mod places;
pub mod promote;
pub mod simplify;
pub mod sync_points;
mod variables;
pub mod waiting;

use std::time::{Duration, Instant};

use self::inline::Inlining;
use self::iterations::Acting;
use crate::entity::FuncId;
use crate::function::Function;
use crate::module::Module;
use crate::verify::{self, Stage};

/// The input of a pass besides the function that it changes.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The module.
    pub module: &'a Module,
    /// The function's ID in the module.
    pub id: FuncId,
    /// The decisions about which calls are inlined.
    pub inline: &'a Inlining,
}

/// A pass: a row of [`PASSES`].
#[derive(Debug)]
pub struct Pass {
    /// Name of the pass, used in listings and for the parameter `after` of [`prepare`].
    pub name: &'static str,
    /// Short description of what the pass does.
    pub about: &'static str,
    /// The verifier stage of a function after this pass.
    pub stage: Stage,
    run: fn(&mut Function, &Context<'_>),
}

macro_rules! passes {
    ($($name:literal $stage:ident $about:literal $run:expr;)*) => {
        /// The passes that prepare a kernel, in the order in which they run.
        pub static PASSES: &[Pass] = &[$(Pass {
            name: $name,
            about: $about,
            stage: Stage::$stage,
            run: $run,
        },)*];
    };
}

passes! {
    "inline" Lowered "inlines calls" |f, c| inline::run(f, c.module, c.id, c.inline);
    "simplify" Lowered "folds constants and removes dead code" |f, _| simplify::run(f);
    "promote" Lowered "promotes local memory to values" |f, _| promote::run(f);
    "simplify-promoted" Lowered "simplifies what promotion left" |f, _| {
        if !f.slots.is_empty() {
            simplify::run(f);
        }
    };
    "known-bits" Lowered "removes integer operations that change nothing, because bits are known to be zero" |f, _| {
        if known_bits::run(f) {
            simplify::run(f);
        }
    };
    "number" Lowered "reuses results of earlier operations and loads" |f, c| {
        if number::run(f, c.module) {
            simplify::run(f);
        }
    };
    "merge" Lowered "joins long chains of blocks" |f, _| merge::run(f);
    "waiting" Lowered "inserts yields into loops that wait" |f, c| waiting::run(f, c.module);
    "calls" Lowered "turns calls of functions that may wait into jumps" |f, c| {
        if calls::run(f, c) {
            simplify::run(f);
        }
    };
    "sync-points" Cut "splits blocks at sync points" |f, c| sync_points::run(f, c.module, &Acting::default());
}

/// Returns a kernel or function after all passes: calls are inlined within the limits of [`inline`], and only a jump
/// follows each sync point in its block. If `after` is given, stops after the pass with this name.
pub fn prepare(module: &Module, id: FuncId, after: Option<&str>) -> Function {
    prepare_watched(module, id, after, |_, _, _| {})
}

/// Prepares a function like [`prepare`], but with the given inlining decisions. The decisions must
/// be the result of [`Inlining::of`] for the function itself, or for a kernel that calls the
/// function.
pub fn prepare_within(
    module: &Module,
    id: FuncId,
    inline: &Inlining,
    after: Option<&str>,
) -> Function {
    let context = Context { module, id, inline };
    run_passes(&context, after, |_, _, _| {})
}

/// Prepares a function like [`prepare`]. After each pass, calls `watch` with the pass, the time
/// that the pass took, and the function.
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
            assert!(problems.is_empty(), "after {}: {problems:?}", pass.name);
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
