//! Tests those rules of docs/semantics.md that file tests cannot test. These are rules about
//! threads that run at the same time, large grids, accesses at the end of an allocation, and the
//! host's floating-point settings.
//!
//! The tests run with native code and with the interpreter, with several numbers of workers, in
//! grid order and in reverse order.

mod edges;
mod host;
mod large;
mod litmus;
mod residency;
mod table;

use std::time::Duration;

use margay::runtime::built_in_loader;
use margay::{EngineChoice, Runtime};

/// A runtime with certain settings, and a text that describes these settings.
struct Machine {
    label: String,
    engine: EngineChoice,
    runtime: Runtime,
}

/// Returns a machine for each combination of an engine, a number in `workers`, and an order of CTAs
/// (grid order or reverse order).
fn machines(workers: &[usize]) -> Vec<Machine> {
    let mut machines = Vec::new();
    for engine in [EngineChoice::Auto, EngineChoice::Interpreter] {
        let loader = built_in_loader(engine);
        for &workers in workers {
            for reverse in [false, true] {
                let builder = Runtime::builder()
                    .loader(loader.clone())
                    .workers(workers)
                    .time_limit(Duration::from_secs(300));
                let builder = if reverse { builder.reverse() } else { builder };
                machines.push(Machine {
                    label: format!("{engine:?}, {workers} workers, reverse {reverse}"),
                    engine,
                    runtime: builder.build().expect("built"),
                });
            }
        }
    }
    machines
}
