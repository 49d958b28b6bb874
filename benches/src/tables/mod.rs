//! Formats a report as Markdown tables.

use std::fmt::Write as _;

use crate::checks::{Checked, sets};
use crate::interpreter::Interpreted;
use crate::machine::Machine;
use crate::measure::{self, Time};
use crate::report::Report;
use crate::stages;

mod baseline;
mod kernels;
mod limits;

impl Report {
    /// Formats this report as Markdown tables.
    pub fn markdown(&self) -> String {
        markdown(self)
    }
}

/// Formats the facts about the machine, and a table for each part that was measured.
fn markdown(report: &Report) -> String {
    let mut text = facts(&report.machine);
    let parts = [
        baseline::pairs(report),
        kernels::comparisons(report),
        limits::limits(report),
        launches(report),
        copies(report),
        fetches(report),
        interpreter(report),
        checks(report),
        starting(report),
        loading(report),
    ];
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        text += "\n\n";
        text += part.trim_end();
    }
    text + "\n"
}

/// Formats the facts about the machine.
fn facts(machine: &Machine) -> String {
    let Machine {
        date,
        commit,
        processor,
        cores,
        load,
        rustc,
    } = machine;
    let warning = if machine.busy() {
        "**Preliminary: the machine had other work.** "
    } else {
        ""
    };
    format!(
        "{warning}{date}, commit {commit}: {processor}, {cores} cores, load {load:.2} when it began; {rustc}."
    )
}

fn line(table: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(table, "{text}").expect("writing to a string");
}

/// Formats the cost of launches.
fn launches(report: &Report) -> String {
    if report.launches.is_empty() {
        return String::new();
    }
    let mut table = "### Launches\n\nMicroseconds per launch of a kernel that does nothing (one block of 32 threads), warm.\n\n\
         | launch | time |\n|---|--:|\n"
        .to_owned();
    for launched in &report.launches {
        let each = launched.time.median / f64::from(launched.launches) * 1e6;
        line(
            &mut table,
            format_args!("| {} | {each:.2} |", launched.what),
        );
    }
    match report.limits.is_empty() {
        true => table + &waking(report),
        // The table of the limits contains the time to wake a thread.
        false => table,
    }
}

/// Formats the time that the system takes to wake a thread; empty if it was not measured.
fn waking(report: &Report) -> String {
    report.waking.as_ref().map_or(String::new(), |time| {
        let time = time.median * 1e6;
        format!(
            "\nWaking a thread that sleeps on a futex takes {time:.2} microseconds after 3 ms without work.\n"
        )
    })
}

/// Formats the rates of copies and fills.
fn copies(report: &Report) -> String {
    if report.copies.is_empty() {
        return String::new();
    }
    let mut table = "### Copies\n\nBillions of bytes that are copied or filled per second, with all workers; *host* is \
         `memcpy` or `memset` by one thread of the host.\n\n| what | size | rate | host | ratio |\n|---|---|--:|--:|--:|\n"
        .to_owned();
    for copied in &report.copies {
        let rate = |time: &Time| copied.bytes as f64 / time.median / 1e9;
        let (ours, host) = (rate(&copied.time), rate(&copied.host));
        let (what, size, ratio) = (copied.what, copied.size, speed(ours / host));
        line(
            &mut table,
            format_args!("| {what} | {size} | {ours:.1} | {host:.1} | {ratio} |"),
        );
    }
    table
}

/// Formats the cost of texture fetches.
fn fetches(report: &Report) -> String {
    if report.fetches.is_empty() {
        return String::new();
    }
    let mut table = "### Fetches\n\nNanoseconds per fetch from a plane of 1024 x 512 texels, one worker; *loads* is the time divided by that of \
         plain loads from memory.\n\n| texels | time | loads |\n|---|--:|--:|\n"
        .to_owned();
    for fetched in &report.fetches {
        let each = fetched.time.median / fetched.fetches as f64 * 1e9;
        line(
            &mut table,
            format_args!("| {} | {each:.2} | {:.1} |", fetched.what, fetched.loads),
        );
    }
    table
}

/// Formats the interpreter's times compared with native code.
fn interpreter(report: &Report) -> String {
    if report.interpreter.is_empty() {
        return String::new();
    }
    let mut table = "### Interpreter\n\nMilliseconds, one worker; *ratio* is the interpreter's time divided by that of native code.\n\n\
         | kernel | data | native | interpreter | ratio |\n|---|---|--:|--:|--:|\n"
        .to_owned();
    for row in &report.interpreter {
        let (name, data, native) = (row.name, row.data, milliseconds(&row.native));
        let (time, ratio) = (row.interpreted * 1e3, row.ratio());
        line(
            &mut table,
            format_args!("| {name} | {data} | {native} | {time:.2} | {ratio:.1} |"),
        );
    }
    let ratios: Vec<f64> = report.interpreter.iter().map(Interpreted::ratio).collect();
    let mean = measure::mean(&ratios);
    line(
        &mut table,
        format_args!("| **geometric mean** | | | | **{mean:.1}** |"),
    );
    table
}

/// Formats the times of checking runs compared with normal runs.
fn checks(report: &Report) -> String {
    if report.checks.is_empty() {
        return String::new();
    }
    let mut table = "### Checking\n\nOne worker: the time of a run with the named tool, or with all tools, divided by that of a normal run.\n\n\
         | kernel | normal (ms) |"
        .to_owned();
    sets().for_each(|set| table += &format!(" {set} |"));
    table += "\n|---|--:|";
    sets().for_each(|_| table += "--:|");
    table.push('\n');
    let ratios = |row: &Checked| {
        let cells = sets().map(|set| format!("{:.1}", row.ratio(set).unwrap_or(f64::NAN)));
        cells.collect::<Vec<_>>().join(" | ")
    };
    for row in &report.checks {
        let (name, normal) = (row.name, milliseconds(&row.normal));
        line(
            &mut table,
            format_args!("| {name} | {normal} | {} |", ratios(row)),
        );
    }
    let means = sets().map(|set| {
        let ratios = report.checks.iter().filter_map(|row| row.ratio(set));
        format!("**{:.2}**", measure::mean(&ratios.collect::<Vec<_>>()))
    });
    let means = means.collect::<Vec<_>>().join(" | ");
    line(
        &mut table,
        format_args!("| **geometric mean** | | {means} |"),
    );
    table
}

/// Formats the costs that a program has once, when it starts.
fn starting(report: &Report) -> String {
    if report.starting.is_empty() {
        return String::new();
    }
    let mut table = "### Starting\n\nEach in a separate process; memory is the largest resident size of the process.\n\n\
         | from the start of the runtime | milliseconds | memory |\n|---|--:|--:|\n"
        .to_owned();
    for started in &report.starting {
        let (time, memory) = (started.cost.seconds * 1e3, started.cost.peak as f64 / 1e6);
        line(
            &mut table,
            format_args!("| {} | {time:.1} | {memory:.0} MB |", started.what),
        );
    }
    table
}

/// Formats the times of the stages from a text to native code.
fn loading(report: &Report) -> String {
    if report.loading.is_empty() {
        return String::new();
    }
    let mut table = "### Loading\n\nMillions of bytes of PTX per second; in parentheses the time of the whole text. \
         *Compiling* is the first launch of every kernel in it.\n\n\
         | text | size | lexing | parsing and resolving | lowering | compiling |\n|---|--:|--:|--:|--:|--:|\n"
        .to_owned();
    for text in &report.loading {
        let times = [&text.lexing, &text.parsing, &text.lowering, &text.compiling];
        let cells = times.map(|time| rate(text.bytes, time)).join(" | ");
        let size = stages::size_of(text.bytes);
        line(
            &mut table,
            format_args!("| {} | {size} | {cells} |", text.text),
        );
    }
    table
}

fn rate(bytes: usize, time: &Time) -> String {
    let rate = bytes as f64 / time.median / 1e6;
    let digits = if rate < 10.0 { 2 } else { 0 };
    format!("{rate:.digits$} ({} ms)", milliseconds(time))
}

/// Formats a time in milliseconds with three significant digits. A leading `~` marks a time whose slowest sample took
/// more than a quarter longer than the fastest.
fn milliseconds(time: &Time) -> String {
    let mark = if time.spread > 1.25 { "~" } else { "" };
    format!("{mark}{}", milliseconds_of(time.median))
}

/// Formats a number of seconds in milliseconds with three significant digits.
fn milliseconds_of(seconds: f64) -> String {
    let value = seconds * 1e3;
    let digits = (2 - value.log10().floor() as i32).clamp(0, 4) as usize;
    format!("{value:.digits$}")
}

/// Formats a ratio with two decimal places, or with three if it is below 0.1.
fn speed(ratio: f64) -> String {
    let digits = if ratio < 0.1 { 3 } else { 2 };
    format!("{ratio:.digits$}")
}
