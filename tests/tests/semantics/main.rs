//! Tests those rules of docs/semantics.md that file tests cannot test. These are rules about
//! threads that run at the same time, large grids, the end of memory, and the host's floating-point
//! settings.
//!
//! Tests run in both engines, with several numbers of workers, in grid order and in reverse order.

mod edges;
mod host;
mod large;
mod litmus;
mod residency;
mod table;

use std::time::Duration;

use margay::runtime::built_in_loader;
use margay::{EngineChoice, Runtime};

/// A machine with a label that describes it.
struct Machine {
    label: String,
    engine: EngineChoice,
    runtime: Runtime,
}

/// Returns machines of both engines with these numbers of workers, in grid order and in reverse order.
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
