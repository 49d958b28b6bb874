//! The rules of docs/semantics.md that need more than a file test: threads that truly run at once, large grids,
//! memory that ends, the host's own settings.
//!
//! Each test runs in both engines, with several numbers of workers, in both orders.

mod edges;
mod host;
mod large;
mod litmus;
mod residency;
mod table;

use std::time::Duration;

use margay::runtime::built_in_loader;
use margay::{EngineChoice, Runtime};

/// A machine, and words that tell it from others.
struct Machine {
    label: String,
    engine: EngineChoice,
    runtime: Runtime,
}

/// Machines of both engines with these numbers of workers, in both orders.
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
