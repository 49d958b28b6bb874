//! Formats a report as Markdown tables.

use std::fmt::Write as _;

use crate::checks::{Checked, sets};
use crate::comparison::{Entrant, Kind, Row};
use crate::interpreter::Interpreted;
use crate::machine::Machine;
use crate::measure::{self, Time};
use crate::report::{self, Mean, Report};
use crate::stages;

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
        kernels(report),
        limits(report),
        launches(report),
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

/// Formats the tables of the kernels, one for each number of threads.
fn kernels(report: &Report) -> String {
    if report.kernels.is_empty() {
        return String::new();
    }
    let mut text = "### Kernels\n\nMilliseconds; *speed* is the contender's time divided by Margay's: above 1, Margay is faster. \
         A star marks the eleven kernels that have goals.\n\n"
        .to_owned();
    let mut told: Vec<&str> = Vec::new();
    for rival in report.entrants.iter().filter(|e| e.kind != Kind::Margay) {
        if !told.contains(&rival.about.as_str()) {
            told.push(&rival.about);
            let (title, about) = (rival.kind.title(), &rival.about);
            line(&mut text, format_args!("- {title}: {about}."));
        }
    }
    for missing in &report.missing {
        line(&mut text, format_args!("- {missing}"));
    }
    for failure in report.failures() {
        line(&mut text, format_args!("- Not timed: {failure}"));
    }
    for ours in report.entrants.iter().filter(|e| e.kind == Kind::Margay) {
        let title = match ours.threads {
            1 => "One worker, one thread".to_owned(),
            n => format!("{n} workers, {n} threads"),
        };
        let _ = write!(text, "\n#### {title}\n\n{}", comparison(report, ours));
    }
    text
}

/// Formats the table that compares Margay with all contenders of the same number of threads.
fn comparison(report: &Report, ours: &Entrant) -> String {
    let rivals: Vec<&Entrant> = Kind::RIVALS
        .iter()
        .filter_map(|kind| {
            let mut entrants = report.entrants.iter();
            entrants.find(|e| e.kind == *kind && e.threads == ours.threads)
        })
        .collect();
    let mut table = "| kernel | data | Margay |".to_owned();
    rivals.iter().for_each(|rival| {
        let _ = write!(table, " {} | speed |", rival.kind.title());
    });
    table += "\n|---|---|--:|";
    table += &"--:|--:|".repeat(rivals.len());
    table += "\n";
    for row in &report.kernels {
        let star = if row.goal { "\\* " } else { "" };
        let cells: String = rivals
            .iter()
            .map(|rival| beside(row, ours, rival))
            .collect();
        let (name, data, time) = (&row.name, &row.data, cell(row, ours));
        line(
            &mut table,
            format_args!("| {star}{name} | {data} | {time} |{cells}"),
        );
    }
    for goals_only in [true, false] {
        let what = if goals_only { "the eleven" } else { "all" };
        let means = |rival: &&Entrant| {
            let wanted = |mean: &&Mean| {
                mean.rival == rival.kind
                    && mean.threads == rival.threads
                    && mean.goals_only == goals_only
            };
            let mean = report.means.iter().find(wanted);
            let mean = mean.map_or("none".to_owned(), |mean| {
                format!("**{}**", speed(mean.ratio))
            });
            format!(" | {mean} |")
        };
        let cells: String = rivals.iter().map(means).collect();
        line(
            &mut table,
            format_args!("| **geometric mean, {what}** | | |{cells}"),
        );
    }
    table
}

/// Formats the time of the contender `rival`, and Margay's speedup over `rival`.
fn beside(row: &Row, ours: &Entrant, rival: &Entrant) -> String {
    let ratio = report::ratio(row, ours, rival).map_or(String::new(), speed);
    format!(" {} | {ratio} |", cell(row, rival))
}

fn cell(row: &Row, entrant: &Entrant) -> String {
    match row.times.get(&entrant.id) {
        Some(time) => milliseconds(time),
        None => "failed".to_owned(),
    }
}

/// Formats the limits of the machine, and the shares of these limits that kernels reach.
fn limits(report: &Report) -> String {
    if report.limits.is_empty() {
        return String::new();
    }
    let mut table =
        "### Limits of one thread\n\nBillions per second.\n\n| what | of | rate |\n|---|---|--:|\n"
            .to_owned();
    for limit in &report.limits {
        let rate = limit.rate() / 1e9;
        line(
            &mut table,
            format_args!("| {} | {} | {rate:.1} |", limit.what, limit.unit),
        );
    }
    let shares = shares(report);
    if !shares.is_empty() {
        table += "\nShares of the rate of multiply-adds on one thread:\n\n";
        table += "| kernel | implementation | billions per second | of 128 bits | of 256 bits | of 512 bits |\n|---|---|--:|--:|--:|--:|\n";
        table += &shares;
    }
    table
}

/// Formats a row for each kernel whose floating-point operations are counted: the share of the rate
/// of multiply-adds that the kernel reaches.
fn shares(report: &Report) -> String {
    let mut lines = String::new();
    for row in &report.kernels {
        for entrant in report.entrants.iter().filter(|e| e.threads == 1) {
            let (Some(operations), Some(median)) = (row.operations, row.median(entrant)) else {
                continue;
            };
            let rate = operations / median;
            let share = |bits| {
                let mut limits = report.limits.iter();
                let limit = limits.find(|limit| limit.bits == Some(bits));
                limit.map_or(String::new(), |l| {
                    format!("{:.0} %", 100.0 * rate / l.rate())
                })
            };
            let (name, who, rate) = (&row.name, entrant.kind.title(), rate / 1e9);
            let cells = [128, 256, 512].map(share).join(" | ");
            line(
                &mut lines,
                format_args!("| {name} | {who} | {rate:.1} | {cells} |"),
            );
        }
    }
    lines
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
    let value = time.median * 1e3;
    let digits = (2 - value.log10().floor() as i32).clamp(0, 4) as usize;
    let mark = if time.spread > 1.25 { "~" } else { "" };
    format!("{mark}{value:.digits$}")
}

/// Formats a ratio with two decimal places, or with three if it is below 0.1.
fn speed(ratio: f64) -> String {
    let digits = if ratio < 0.1 { 3 } else { 2 };
    format!("{ratio:.digits$}")
}
