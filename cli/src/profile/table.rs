//! The profile as tables for a terminal.

use margay_profile::{
    Class, Finding, KernelProfile, LineSummary, Profile, Summary, Traffic, findings,
};

use super::Output;
use super::units::{bytes, count, percent, ratio, seconds};
use crate::check::source::Sources;

/// Returns the text of all tables.
pub(super) fn text(profile: &Profile, output: &Output, colours: bool) -> String {
    let mut out = String::new();
    head(&mut out, profile);
    let is_shown = |kernel: &KernelProfile| {
        output.kernel.is_empty()
            || output
                .kernel
                .iter()
                .any(|text| kernel.title().contains(text))
    };
    let all: Vec<(usize, &KernelProfile)> = profile
        .kernels
        .iter()
        .enumerate()
        .filter(|(_, kernel)| is_shown(kernel))
        .collect();
    let shown = &all[..all.len().min(output.kernels)];
    overview(&mut out, shown);
    if all.len() > shown.len() {
        let more = all.len() - shown.len();
        out.push_str(&format!(
            "... and {more} more kernels (--kernels {})\n",
            all.len()
        ));
    }
    let findings = findings::of(profile);
    let style = Style {
        colours,
        sources: Sources::default(),
    };
    for finding in findings.iter().filter(|finding| finding.kernel.is_none()) {
        style.finding(&mut out, finding, "");
    }
    for &(index, kernel) in shown {
        let of_kernel = findings
            .iter()
            .filter(|finding| finding.kernel == Some(index));
        details(&mut out, kernel, output, &style);
        for finding in of_kernel {
            style.finding(&mut out, finding, "  ");
        }
    }
    out
}

struct Style {
    colours: bool,
    sources: Sources,
}

impl Style {
    fn finding(&self, out: &mut String, finding: &Finding, indent: &str) {
        let place = finding.source.as_ref().map(place_of);
        let place = place.map_or(String::new(), |place| format!("{place}: "));
        let (bold, plain) = match self.colours {
            true => ("\x1b[1;33m", "\x1b[0m"),
            false => ("", ""),
        };
        let (rule, text, advice) = (finding.rule, &finding.text, finding.advice);
        out.push_str(&format!("{indent}{bold}* {rule}{plain}: {place}{text}.\n"));
        out.push_str(&format!("{indent}    {advice}\n"));
    }
}

/// Returns the source position of a finding.
fn place_of(source: &margay_profile::SourceRow) -> String {
    match &source.file {
        Some(file) => format!("{}:{}", short(file), source.line),
        None => format!("PTX line {}", source.ptx_line),
    }
}

/// Returns the last two parts of a path.
fn short(path: &str) -> &str {
    let mut slashes = path.rmatch_indices('/');
    match (slashes.next(), slashes.next()) {
        (Some(_), Some((at, _))) => &path[at + 1..],
        _ => path,
    }
}

fn head(out: &mut String, profile: &Profile) {
    let processes = match profile.processes {
        1 => String::new(),
        n => format!(", {n} processes"),
    };
    let time = seconds(profile.seconds);
    out.push_str(&format!(
        "Profile of {} ({time}{processes})\n",
        profile.program
    ));
    let copies: Vec<String> = profile
        .copies
        .iter()
        .map(|row| {
            format!(
                "{}: {} ({})",
                row.direction,
                count(row.count),
                bytes(row.bytes)
            )
        })
        .collect();
    if !copies.is_empty() {
        out.push_str(&format!("Copies: {}\n", copies.join(", ")));
    }
    let (all, peak) = (bytes(profile.allocated_bytes), bytes(profile.peak_bytes));
    out.push_str(&format!(
        "Memory: {all} allocated, at most {peak} at the same time\n"
    ));
}

/// Appends a table with one row for each kernel.
fn overview(out: &mut String, kernels: &[(usize, &KernelProfile)]) {
    let mut table = Table::new(&[
        "kernel",
        "launches",
        "threads",
        "time",
        "warp instr.",
        "lanes",
        "flops",
        "global",
        "sectors/req.",
        "best",
        "bank conflicts",
        "divergent",
    ]);
    for (_, kernel) in kernels {
        let summary = Summary::of(kernel);
        let global = &summary.global;
        table.row(vec![
            clipped(kernel.title(), 40),
            count(kernel.launches),
            count(kernel.threads),
            seconds(kernel.seconds),
            count(summary.warps),
            lanes(&summary),
            count(summary.flops.all()),
            bytes(global.bytes()),
            ratio(global.sectors, global.requests),
            ratio(global.ideal_sectors, global.requests),
            percent(
                summary
                    .shared
                    .cycles
                    .saturating_sub(summary.shared.ideal_cycles),
                summary.shared.cycles,
            ),
            percent(summary.divergent, summary.branches),
        ]);
    }
    table.write(out, "");
}

/// Returns the average number of lanes that execute an instruction; `-` without instructions.
pub(super) fn lanes(summary: &Summary) -> String {
    let lanes = summary.lanes_per_warp();
    lanes.map_or("-".to_owned(), |lanes| format!("{lanes:.1}"))
}

fn clipped(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => text.chars().take(most - 3).chain("...".chars()).collect(),
        false => text.to_owned(),
    }
}

/// Appends the totals, the shapes and the source lines of a kernel.
fn details(out: &mut String, kernel: &KernelProfile, output: &Output, style: &Style) {
    let summary = Summary::of(kernel);
    out.push_str(&format!("\n{}\n", kernel.title()));
    for row in facts(kernel, &summary) {
        out.push_str(&format!("  {:<14} {}\n", row.0, row.1));
    }
    lines(out, kernel, &summary, output.lines, style);
}

/// Returns the totals of a kernel, each with a name.
pub(super) fn facts(kernel: &KernelProfile, summary: &Summary) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    let failed = match kernel.failed_launches {
        0 => String::new(),
        failed => format!(", {} failed", count(failed)),
    };
    facts.push((
        "launches",
        format!(
            "{}{failed}; {} blocks, {} threads; {}",
            count(kernel.launches),
            count(kernel.blocks),
            count(kernel.threads),
            seconds(kernel.seconds)
        ),
    ));
    for (shape, launches) in kernel.shapes.iter().take(4) {
        let dimensions = |of: [u32; 3]| format!("({}, {}, {})", of[0], of[1], of[2]);
        let shared = u64::from(shape.static_shared) + u64::from(shape.dynamic_shared);
        facts.push((
            "shape",
            format!(
                "grid {}, block {}, {} of shared memory: {} launches",
                dimensions(shape.grid),
                dimensions(shape.block),
                bytes(shared),
                count(*launches)
            ),
        ));
    }
    if summary.warps != 0 {
        facts.push((
            "instructions",
            format!(
                "{} of warps, {} of threads; {} of 32 lanes execute one on average",
                count(summary.warps),
                count(summary.executed),
                lanes(summary)
            ),
        ));
        facts.push(("classes", classes(summary)));
    }
    if summary.flops.all() != 0 {
        let by: Vec<String> = summary
            .flops
            .0
            .iter()
            .map(|(precision, &flops)| format!("{} {}", count(flops), precision.name()))
            .collect();
        let intensity = summary.intensity().map_or(String::new(), |value| {
            format!("; {value:.2} for each byte of global memory")
        });
        facts.push(("flops", by.join(", ") + &intensity));
    }
    for (name, traffic) in [
        ("global memory", &summary.global),
        ("constant", &summary.constant),
        ("local memory", &summary.local),
    ] {
        if traffic.requests != 0 {
            facts.push((name, sectors(traffic)));
        }
    }
    if summary.shared.requests != 0 {
        let shared = &summary.shared;
        facts.push((
            "shared memory",
            format!(
                "{} requests, {} loaded, {} stored; {} cycles a request, {} without bank conflicts",
                count(shared.requests),
                bytes(shared.loaded),
                bytes(shared.stored),
                ratio(shared.cycles, shared.requests),
                ratio(shared.ideal_cycles, shared.requests)
            ),
        ));
    }
    if summary.atomics != 0 {
        facts.push((
            "atomics",
            format!(
                "{} of threads; {} have the address of another thread of the warp",
                count(summary.atomics),
                percent(summary.collisions, summary.atomics)
            ),
        ));
    }
    if summary.branches != 0 {
        facts.push((
            "branches",
            format!(
                "{} conditional; {} split a warp",
                count(summary.branches),
                percent(summary.divergent, summary.branches)
            ),
        ));
    }
    let barriers = kernel.barriers.iter().fold((0, 0, 0), |all, row| {
        (
            all.0 + row.counts.warps,
            all.1 + row.counts.waited,
            all.2 + row.counts.executed,
        )
    });
    if barriers.0 != 0 {
        facts.push((
            "barriers",
            format!(
                "{} arrivals of warps; {} of the instruction slots before them are waited for",
                count(barriers.0),
                percent(barriers.1, barriers.1 + barriers.2)
            ),
        ));
    }
    if let Some(balance) = kernel.balance {
        facts.push((
            "blocks",
            format!(
                "{} to {} instructions of warps, {} on average",
                count(balance.least),
                count(balance.most),
                count(balance.sum / balance.blocks.max(1))
            ),
        ));
    }
    if let Some(reuse) = &kernel.reuse {
        facts.push(("reuse", reuse_text(reuse)));
    }
    let occupancy: Vec<String> = kernel
        .occupancy
        .iter()
        .filter(|row| ["7.5", "8.0", "8.6", "9.0"].contains(&row.capability.as_str()))
        .map(|row| {
            format!(
                "{}: {}/{} ({})",
                row.capability, row.warps, row.max_warps, row.limiter
            )
        })
        .collect();
    if !occupancy.is_empty() {
        facts.push((
            "occupancy",
            format!("warps by capability: {}", occupancy.join(", ")),
        ));
    }
    facts
}

fn classes(summary: &Summary) -> String {
    let mut classes: Vec<(&Class, &u64)> = summary.classes.iter().collect();
    classes.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let classes = classes
        .into_iter()
        .filter(|(_, count)| **count != 0)
        .map(|(class, &of)| format!("{} {}", class.name(), percent(of, summary.warps)));
    classes.collect::<Vec<_>>().join(", ")
}

fn sectors(traffic: &Traffic) -> String {
    format!(
        "{} requests, {} loaded, {} stored; {} sectors a request, {} at best",
        count(traffic.requests),
        bytes(traffic.loaded),
        bytes(traffic.stored),
        ratio(traffic.sectors, traffic.requests),
        ratio(traffic.ideal_sectors, traffic.requests)
    )
}

/// Describes the hit rates of fully associative caches of some sizes.
fn reuse_text(reuse: &margay_profile::ReuseRow) -> String {
    let reused: u64 = reuse.histogram.iter().sum();
    let all = reused + reuse.lines;
    // Entry n of the histogram contains distances below 2^n lines of 128 bytes.
    let hits = |lines_log2: usize| {
        let hits: u64 = reuse.histogram.iter().take(lines_log2 + 1).sum();
        percent(hits, all)
    };
    format!(
        "{} of different lines; hit rate of a cache of 32 KiB {}, 128 KiB {}, 4 MiB {}, 32 MiB {}",
        bytes(128 * reuse.lines),
        hits(8),
        hits(10),
        hits(15),
        hits(18)
    )
}

/// Appends the source lines with the most instructions, in the order of the source.
fn lines(out: &mut String, kernel: &KernelProfile, all: &Summary, most: usize, style: &Style) {
    let mut lines = LineSummary::of(kernel);
    if lines.is_empty() || most == 0 {
        return;
    }
    let total = lines.len();
    let cost = |line: &LineSummary| {
        let summary = &line.summary;
        summary.warps + summary.global.sectors + summary.local.sectors + summary.shared.cycles
    };
    lines.sort_by_key(|line| std::cmp::Reverse(cost(line)));
    lines.truncate(most);
    lines.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    let mut table = Table::new(&[
        "line",
        "instr.",
        "lanes",
        "flops",
        "sectors/req.",
        "best",
        "cycles/req.",
        "divergent",
        "source",
    ]);
    for line in &lines {
        let summary = &line.summary;
        let place = match &line.file {
            Some(file) => format!("{}:{}", short(file), line.line),
            None => format!("PTX {}", line.line),
        };
        let source = line
            .file
            .as_deref()
            .and_then(|file| style.sources.line(file, line.line.into()));
        table.row(vec![
            place,
            percent(summary.warps, all.warps),
            lanes(summary),
            count(summary.flops.all()),
            ratio(summary.global.sectors, summary.global.requests),
            ratio(summary.global.ideal_sectors, summary.global.requests),
            ratio(summary.shared.cycles, summary.shared.requests),
            percent(summary.divergent, summary.branches),
            clipped(&source.unwrap_or_default(), 60),
        ]);
    }
    table.write(out, "  ");
    if total > lines.len() {
        out.push_str(&format!("  ... {} lines in all (--lines {total})\n", total));
    }
}

/// A table whose first and last columns are left-aligned if they are text.
struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    fn new(titles: &[&str]) -> Table {
        Table {
            rows: vec![titles.iter().map(|title| (*title).to_owned()).collect()],
        }
    }

    fn row(&mut self, fields: Vec<String>) {
        self.rows.push(fields);
    }

    fn write(&self, out: &mut String, indent: &str) {
        let columns = self.rows[0].len();
        let width = |column: usize| {
            let widths = self.rows.iter().map(|row| row[column].chars().count());
            widths.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::from(indent);
            for (column, field) in row.iter().enumerate() {
                let is_text = column == 0 || self.rows[0][column] == "source";
                let width = widths[column];
                match is_text {
                    true => line.push_str(&format!("{field:<width$}")),
                    false => line.push_str(&format!("{field:>width$}")),
                }
                line.push_str("  ");
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["kernel", "n", "source"]);
        table.row(vec!["a".into(), "12".into(), "x = 1".into()]);
        table.row(vec!["long name".into(), "3".into(), String::new()]);
        let mut out = String::new();
        table.write(&mut out, " ");
        let expected = " kernel      n  source\n a          12  x = 1\n long name   3\n";
        assert_eq!(out, expected);
    }

    #[test]
    fn paths_are_shortened_to_two_parts() {
        assert_eq!(short("/a/b/c.cu"), "b/c.cu");
        assert_eq!(short("b/c.cu"), "b/c.cu");
        assert_eq!(short("c.cu"), "c.cu");
        assert_eq!(clipped("abcdefgh", 6), "abc...");
    }
}
