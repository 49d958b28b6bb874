//! Passes. Each pass is a file with a function `run` that changes a function; passes do not call each other, but rows of
//! [`PASSES`] may run several of them.
//!
//! [`PASSES`] lists the passes in the order in which [`optimise`] runs them. A pass keeps the results of the program, the
//! contents of memory and the faults: place, lane and cause. It therefore never removes, adds or reorders accesses that
//! may fault, except that it removes an access that is known to succeed because an equal access precedes it.
//!
//! Invariant: the function that a pass produces is valid according to [`crate::verify`]; debug builds check this. The
//! time of a pass is linear in the size of the function.

pub mod address;
mod aliases;
pub mod dead;
pub mod delay;
mod emitter;
pub mod forward;
pub mod hoist;
pub mod late;
mod loops;
pub mod number;
mod repair;
mod scalars;
pub mod simplify;
pub mod sink;
pub mod thread;
pub mod unroll;

use std::time::{Duration, Instant};

use crate::function::Function;
use crate::verify;

/// What the passes may assume about the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// How many bytes of vector registers the values may occupy that [`hoist`] moves out of loops.
    pub hoisted_bytes: u32,
    /// How many masks [`hoist`] may move out of loops.
    pub hoisted_masks: u32,
    /// How many scalars [`hoist`] may move out of loops, and how many addresses [`address`] may keep in registers for each
    /// loop.
    pub hoisted_scalars: u32,
    /// Whether permutations of lanes take less time than loads of what was just stored ([`forward`]).
    pub permutes: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            hoisted_bytes: 16 * 64,
            hoisted_masks: 4,
            hoisted_scalars: 8,
            permutes: true,
        }
    }
}

/// A pass: a row of [`PASSES`].
#[derive(Debug)]
pub struct Pass {
    /// The name of the pass.
    pub name: &'static str,
    /// A short description of what the pass does.
    pub about: &'static str,
    /// Runs the pass.
    pub run: fn(&mut Function, &Options),
}

macro_rules! passes {
    ($($name:literal $about:literal $run:expr;)*) => {
        /// The passes, in the order in which they run.
        pub static PASSES: &[Pass] = &[$(Pass { name: $name, about: $about, run: $run },)*];
    };
}

passes! {
    "simplify" "folds constants, branches and masks" |f, _| simplify::run(f);
    "unused" "removes unused block parameters before loops are examined" |f, _| dead::run(f);
    "thread" "lets branches skip decisions that constants determine" |f, _| if thread::run(f) { simplify::run(f) };
    "unroll" "copies the iterations of short loops whose number is known" |f, _| if unroll::run(f) { simplify::run(f) };
    "number" "reuses results of earlier operations and loads" |f, _| number::run(f);
    "address" "folds constants into accesses and makes addresses advance with loops" address::run;
    "number-addresses" "reuses equal parts of addresses" |f, _| number::run(f);
    "forward" "replaces loads of stored vectors by permutations" forward::run;
    "dead" "removes unused operations and block parameters" |f, _| dead::run(f);
    "hoist" "moves invariant operations and loads out of loops" hoist::run;
    "delay" "moves operations to the paths that use them" |f, _| delay::run(f);
    "sink" "places constants and cheap vectors near their uses" |f, _| sink::run(f);
    "late" "moves loads of numbers to their first uses" |f, _| late::run(f);
}

/// Runs all passes.
pub fn optimise(function: &mut Function, options: &Options) {
    optimise_watched(function, options, |_, _, _| {});
}

/// Runs all passes. After each pass, calls `watch` with the pass, the time that it took, and the function.
pub fn optimise_watched(
    function: &mut Function,
    options: &Options,
    mut watch: impl FnMut(&'static Pass, Duration, &Function),
) {
    for pass in PASSES {
        let start = Instant::now();
        (pass.run)(function, options);
        watch(pass, start.elapsed(), function);
        if cfg!(debug_assertions) {
            let problems = verify::function(function);
            assert!(problems.is_empty(), "after {}: {problems:?}", pass.name);
        }
    }
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
