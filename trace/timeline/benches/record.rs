//! Measures the time of recording a slice with three arguments: `cargo bench -p margay-timeline`.
//!
//! Prints the median of seven runs for each format, on one thread and on two threads at once. The time is that of the
//! processor (`/proc/thread-self/schedstat`), so that other programs hardly matter, and the time that passes.

use std::fs::File;
use std::io;
use std::time::Instant;

use margay_timeline::{Arg, Event, Format, Options, Timeline, Track, category};

const SLICES: u64 = 400_000;
const RUNS: usize = 7;

fn main() -> io::Result<()> {
    for format in [Format::Perfetto, Format::Chrome] {
        for threads in [1, 2] {
            let runs = (0..RUNS)
                .map(|_| run(format, threads))
                .collect::<io::Result<Vec<_>>>()?;
            let median = |of: fn(&Times) -> f64| {
                let mut times: Vec<f64> = runs.iter().map(of).collect();
                times.sort_by(f64::total_cmp);
                times[RUNS / 2]
            };
            let (processor, passed) = (median(|run| run.processor), median(|run| run.passed));
            eprintln!(
                "{format:?}, {threads} threads: {processor:.0} ns a slice ({passed:.0} ns pass)"
            );
        }
    }
    Ok(())
}

/// The nanoseconds that a slice takes.
#[derive(Clone, Copy, Default)]
struct Times {
    processor: f64,
    passed: f64,
}

/// Records on each of `threads` threads. Returns the means of their times.
fn run(format: Format, threads: u32) -> io::Result<Times> {
    let file = File::create("/dev/null")?;
    let timeline = Timeline::new(Box::new(file), &Options::new(format, 1, "bench"));
    let mut mean = Times::default();
    std::thread::scope(|scope| {
        let start = |number: u32| {
            let track = timeline.host_thread((number + 2).into(), "thread");
            scope.spawn(move || record(&track))
        };
        let workers: Vec<_> = (0..threads).map(start).collect();
        for times in workers.into_iter().filter_map(|worker| worker.join().ok()) {
            mean.processor += times.processor / f64::from(threads);
            mean.passed += times.passed / f64::from(threads);
        }
    });
    timeline.finish()?;
    Ok(mean)
}

fn record(track: &Track) -> Times {
    let names = [
        "saxpy(int, float, float*)",
        "reduce<float, 256>(float const*, float*)",
    ];
    let (start, processor) = (Instant::now(), processor_time());
    for index in 0..SLICES {
        let args = [
            Arg::new("stream", 7_u32),
            Arg::new("bytes", index),
            Arg::new("file", "kernels.cu"),
        ];
        let at = 1_000_000_000 + 1000 * index;
        let event = Event::new(category::KERNEL, names[index as usize % 2]).args(&args);
        track.slice(at, at + 900, &event);
    }
    Times {
        processor: (processor_time() - processor) / SLICES as f64,
        passed: start.elapsed().as_nanos() as f64 / SLICES as f64,
    }
}

/// Returns the nanoseconds that this thread has run, or NaN if the system does not state them.
fn processor_time() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text
        .split(' ')
        .next()
        .and_then(|number| number.parse().ok());
    first.unwrap_or(f64::NAN)
}
