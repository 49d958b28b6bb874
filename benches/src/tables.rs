//! The tables, in Markdown.

use std::fmt::Write as _;
use std::time::Duration;

use margay::Runtime;
use margay_benches::case::{Case, Scale};
use margay_benches::kernels::CASES;
use margay_benches::launches::{Launches, MANY, VERY_MANY};
use margay_benches::measure::{self, Action, Time};
use margay_benches::stages::{self, Loaded, Text};
use margay_benches::start::{Cost, Once};

/// Long enough for every thread to fall asleep.
const PAUSE: Duration = Duration::from_millis(3);

/// Kernels beside loops in Rust: one thread against one worker, all against all.
pub(crate) fn kernels(scale: Scale, names: &[String]) -> Result<String, String> {
    let one = Runtime::builder().workers(1).build();
    let one = one.map_err(|e| e.to_string())?;
    let all = Runtime::new().map_err(|e| e.to_string())?;
    let workers = all.workers();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build();
    let pool = pool.map_err(|e| e.to_string())?;
    let mut table = format!(
        "### Kernels\n\nMilliseconds; *speed* is the loop's time over the kernel's, so more than 1 is faster than Rust.\n\n\
         | kernel | data | 1 worker | Rust, 1 thread | speed | {workers} workers | rayon, {workers} threads | speed |\n\
         |---|---|--:|--:|--:|--:|--:|--:|\n"
    );
    let wanted =
        |case: &&Case| names.is_empty() || names.iter().any(|n| case.name.contains(n.as_str()));
    let (mut alone, mut together) = (Vec::new(), Vec::new());
    for case in CASES.iter().filter(wanted) {
        eprintln!("{}", case.name);
        let times = pool.install(|| time(case, scale, [&one, &all]))?;
        let [kernel, serial, kernels, parallel] = times.map(|t| t.median);
        alone.push(serial / kernel);
        together.push(parallel / kernels);
        let [kernel, serial, kernels, parallel] = times.map(milliseconds);
        let (last, both) = (alone[alone.len() - 1], together[together.len() - 1]);
        let (name, size) = match scale {
            Scale::Full => (case.name, case.size),
            Scale::Small => (case.name, "a little"),
        };
        let [last, both] = [last, both].map(speed);
        line(
            &mut table,
            format_args!(
                "| {name} | {size} | {kernel} | {serial} | {last} | {kernels} | {parallel} | {both} |"
            ),
        );
    }
    if alone.is_empty() {
        return Err("no kernel has such a name".to_owned());
    }
    let [alone, together] = [alone, together].map(|ratios| speed(measure::mean(&ratios)));
    line(
        &mut table,
        format_args!("| **geometric mean** | | | | **{alone}** | | | **{together}** |"),
    );
    Ok(table)
}

/// Kernel on one worker, loop, kernel on all workers, loop on the current pool.
fn time(case: &Case, scale: Scale, runtimes: [&Runtime; 2]) -> Result<[Time; 4], String> {
    let prepared = case.prepare(scale, &runtimes)?;
    let work = std::cell::RefCell::new(prepared.work);
    let devices = &prepared.devices;
    let mut actions: [Action<'_>; 4] = [
        Box::new(|| devices[0].run()),
        Box::new(|| work.borrow_mut().serial()),
        Box::new(|| devices[1].run()),
        Box::new(|| work.borrow_mut().parallel()),
    ];
    let times = measure::in_turns(&mut actions);
    Ok(std::array::from_fn(|i| times[i]))
}

/// What launching costs.
pub(crate) fn launches() -> Result<String, String> {
    eprintln!("launches");
    let runtime = Runtime::new().map_err(|e| e.to_string())?;
    let launches = Launches::new(&runtime).map_err(|e| e.to_string())?;
    let mut table = "### Launches\n\nMicroseconds a launch of a kernel that does nothing (one block of 32 threads), warm.\n\n\
         | launch | time |\n|---|--:|\n"
        .to_owned();
    let times = [
        ("to its end", 1, measure::alone(|| launches.empty())),
        (
            "with 136 bytes of arguments, to its end",
            1,
            measure::alone(|| launches.with_arguments()),
        ),
        (
            "to its end, after 3 ms without work",
            1,
            measure::after(PAUSE, || launches.empty()),
        ),
        (
            "one of 1,000 in a stream",
            MANY,
            measure::alone(|| launches.many(MANY)),
        ),
        (
            "one of 10,000 in a stream",
            VERY_MANY,
            measure::alone(|| launches.many(VERY_MANY)),
        ),
    ];
    for (what, launches, time) in times {
        let each = time.median / f64::from(launches) * 1e6;
        line(&mut table, format_args!("| {what} | {each:.2} |"));
    }
    Ok(table)
}

/// What a program pays once.
pub(crate) fn start() -> Result<String, String> {
    let mut table = "### Starting\n\nEach in a process of its own; memory is the largest resident size of the process.\n\n\
         | from the start of the runtime | milliseconds | memory |\n|---|--:|--:|\n"
        .to_owned();
    let rows = [
        (
            "to the first result (saxpy, 1,024 elements)",
            Once::FirstResult,
        ),
        (
            "to the result of one kernel of an image of 20 MB",
            Once::LargeImage,
        ),
    ];
    for (what, once) in rows {
        eprintln!("starting: {what}");
        let Cost { seconds, peak } = once.measure()?;
        let (time, memory) = (seconds * 1e3, peak as f64 / 1e6);
        line(
            &mut table,
            format_args!("| {what} | {time:.1} | {memory:.0} MB |"),
        );
    }
    Ok(table)
}

/// From a text to code that runs.
pub(crate) fn stages() -> Result<String, String> {
    let runtime = Runtime::new().map_err(|e| e.to_string())?;
    let mut table = "### Loading\n\nMillions of bytes of PTX a second; in parentheses the time of the whole text. \
         *Compiling* is the first launch of every kernel in it.\n\n\
         | text | size | lexing | parsing and resolving | lowering | compiling |\n|---|--:|--:|--:|--:|--:|\n"
        .to_owned();
    for text in stages::texts() {
        eprintln!("loading: {}", text.name);
        let bytes = text.source.text().len();
        let rates = stage_times(&runtime, &text)?.map(|t| rate(bytes, t));
        let (name, size) = (text.name, stages::size_of(bytes));
        line(
            &mut table,
            format_args!("| {name} | {size} | {} |", rates.join(" | ")),
        );
    }
    Ok(table)
}

fn stage_times(runtime: &Runtime, text: &Text) -> Result<[Time; 4], String> {
    let source = text.source.text();
    Loaded::new(runtime, source).map_err(|e| e.to_string())?;
    let parsed = stages::parse(&text.source);
    let resolution = stages::resolved(&parsed);
    let load = || Loaded::new(runtime, source).expect("it loaded before");
    Ok([
        measure::alone(|| {
            std::hint::black_box(stages::lex(source));
        }),
        measure::alone(|| {
            let parsed = stages::parse(&text.source);
            std::hint::black_box(stages::resolved(&parsed));
        }),
        measure::alone(|| {
            std::hint::black_box(stages::lower(&parsed, &resolution));
        }),
        measure::with_setup(load, |loaded| loaded.launch_all()),
    ])
}

fn rate(bytes: usize, time: Time) -> String {
    let rate = bytes as f64 / time.median / 1e6;
    let digits = if rate < 10.0 { 2 } else { 0 };
    format!("{rate:.digits$} ({} ms)", milliseconds(time))
}

/// Three digits, and a mark where the samples lie apart.
fn milliseconds(time: Time) -> String {
    let value = time.median * 1e3;
    let digits = (2 - value.log10().floor() as i32).clamp(0, 4) as usize;
    let mark = if time.spread > 1.25 { "~" } else { "" };
    format!("{mark}{value:.digits$}")
}

/// Two digits or more.
fn speed(ratio: f64) -> String {
    let digits = if ratio < 0.1 { 3 } else { 2 };
    format!("{ratio:.digits$}")
}

fn line(table: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(table, "{text}").expect("writing to a string");
}
