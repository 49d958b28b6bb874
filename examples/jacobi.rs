//! Solves two boundary value problems at the same time, each in a separate stream, with events between the iterations.
//!
//! A step of Jacobi's method replaces the value at each point by half the sum of the two neighbouring values and
//! `h^2 f`, where `h` is the distance of the points and `f` the right-hand side. Every 500 steps a second kernel
//! computes the largest change of the last step. The program records an event after this kernel; when the event is
//! complete, the host can read the change. Meanwhile the kernels of the other problem run. The CUDA source is
//! `kernels/jacobi.cu`; this program includes its PTX, `kernels/jacobi.ptx`.
//!
//! ```sh
//! cargo run --release -p margay --example jacobi
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::f64::consts::PI;

use margay::{DeviceBuffer, Event, EventFlags, Kernel, LaunchConfig, Runtime, Stream, StreamKind};

const PTX: &str = include_str!("kernels/jacobi.ptx");

/// Number of points between the two ends, and the distance between neighbouring points.
const POINTS: usize = 31;
const DISTANCE: f64 = 1.0 / (POINTS + 1) as f64;
/// Number of steps between two computations of the change.
const BATCH: usize = 500;
/// A problem is solved when the largest change is less than this.
const SMALL: f64 = 1e-14;

struct Kernels {
    step: Kernel,
    change: Kernel,
}

/// A problem `u'' = -f` between 0 and 1, where `u` is 0 at both ends and `f` is `(wave pi)^2 sin(wave pi x)`.
struct Problem {
    wave: f64,
    stream: Stream,
    /// Events: the first is recorded before the first step, the second after each batch of steps.
    events: [Event; 2],
    u: DeviceBuffer<f64>,
    next: DeviceBuffer<f64>,
    f: DeviceBuffer<f64>,
    /// The bits of the largest change in the last step of a batch.
    change: DeviceBuffer<u64>,
    steps: usize,
}

impl Problem {
    fn new(runtime: &Runtime, wave: f64) -> margay::Result<Problem> {
        let context = runtime.context()?;
        let f = |i: usize| (wave * PI).powi(2) * (wave * PI * i as f64 * DISTANCE).sin();
        let f: Vec<f64> = (0..POINTS + 2).map(f).collect();
        let zeros = vec![0.0; POINTS + 2];
        let event = || context.create_event(EventFlags::default());
        let problem = Problem {
            wave,
            // Non-blocking streams do not wait for the default stream, in which buffers are read and written.
            stream: context.create_stream(StreamKind::NonBlocking, 0)?,
            events: [event()?, event()?],
            u: runtime.upload(&zeros)?,
            next: runtime.upload(&zeros)?,
            f: runtime.upload(&f)?,
            change: runtime.upload(&[0])?,
            steps: 0,
        };
        problem.events[0].record(&problem.stream)?;
        Ok(problem)
    }

    /// Submits [`BATCH`] steps and the kernel that computes the change of the last step. Does not wait for these
    /// kernels.
    fn submit(&mut self, kernels: &Kernels) -> margay::Result<()> {
        let (config, n) = (LaunchConfig::linear(POINTS as u32, 64), POINTS as i32);
        for _ in 0..BATCH {
            let arguments = (&self.u, &self.next, &self.f, DISTANCE, n);
            self.stream.launch(&kernels.step, config, arguments)?;
            std::mem::swap(&mut self.u, &mut self.next);
        }
        self.steps += BATCH;
        let change = &self.change;
        self.stream
            .fill(change.ptr(), 0, 1, change.bytes() as u64, 1, 0)?;
        let arguments = (&self.u, &self.next, change, n);
        self.stream.launch(&kernels.change, config, arguments)?;
        self.events[1].record(&self.stream)
    }

    /// Waits for the submitted work. Returns whether the largest change of the last step is less than [`SMALL`].
    fn is_solved(&self) -> margay::Result<bool> {
        self.events[1].synchronize()?;
        Ok(f64::from_bits(self.change.to_vec()?[0]) < SMALL)
    }

    /// Returns the largest difference from the exact solution of the discrete equations.
    fn error(&self) -> margay::Result<f64> {
        let angle = self.wave * PI * DISTANCE;
        let size = angle * angle / (2.0 - 2.0 * angle.cos());
        let exact = |i: usize| size * (self.wave * PI * i as f64 * DISTANCE).sin();
        let u = self.u.to_vec()?;
        let errors = u.iter().enumerate().map(|(i, u)| (u - exact(i)).abs());
        Ok(errors.fold(0.0, f64::max))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::new()?;
    let module = runtime.load_ptx(PTX)?;
    let kernels = Kernels {
        step: module.kernel("step")?,
        change: module.kernel("change")?,
    };
    let mut open = vec![Problem::new(&runtime, 1.0)?, Problem::new(&runtime, 3.0)?];
    let mut solved = Vec::new();
    while !open.is_empty() {
        for problem in &mut open {
            problem.submit(&kernels)?;
        }
        for problem in std::mem::take(&mut open) {
            let done = problem.is_solved()?;
            if done { &mut solved } else { &mut open }.push(problem);
        }
    }
    for problem in &solved {
        let (milliseconds, error) = (
            problem.events[1].elapsed_ms_since(&problem.events[0])?,
            problem.error()?,
        );
        let (wave, steps) = (problem.wave, problem.steps);
        println!("wave {wave}: {steps} steps, {milliseconds:.1} ms, error {error:.1e}");
        if error > 1e-10 {
            return Err(format!("wave {wave} is off by {error}").into());
        }
    }
    Ok(())
}

#[test]
fn both_problems_are_solved() {
    main().expect("the example ends without an error");
}
