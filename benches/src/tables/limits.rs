//! Formats the limits of the machine, and the shares of these limits that kernels reach.

use super::{line, waking};
use crate::limits::{Limit, Resource, best};
use crate::report::Report;
use crate::roofline::LeastTime;

/// Formats the limits with a number of threads as one line; empty if they were not measured.
pub(super) fn summary(report: &Report, threads: usize) -> String {
    let of_resource = |resource: Resource| {
        let limits = report.limits.iter();
        limits.filter(move |limit| limit.resource == resource && limit.threads == threads)
    };
    let bandwidth = |resource, name: &str| {
        let rate = best(&report.limits, resource, threads)?;
        Some(format!("{:.1} GB/s {name}", rate / 1e9))
    };
    let by_bits = |resource, scale: f64| -> String {
        let rate = |limit: &Limit| {
            let bits = limit.bits.unwrap_or(0);
            format!("{:.1} in {bits} bits", limit.rate() / scale)
        };
        of_resource(resource)
            .map(rate)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let mut parts: Vec<String> = [
        bandwidth(Resource::Memory, "of memory"),
        bandwidth(Resource::Cache, "of L2"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let multiply_adds = by_bits(Resource::MultiplyAdds, 1e9);
    if !multiply_adds.is_empty() {
        parts.push(format!("Gflop/s of multiply-adds: {multiply_adds}"));
    }
    let mut tables: Vec<&str> = of_resource(Resource::Gathers).map(|l| l.what).collect();
    tables.dedup();
    for what in tables {
        let rates = of_resource(Resource::Gathers).filter(|limit| limit.what == what);
        let rate = rates.map(Limit::rate).fold(0.0, f64::max);
        parts.push(format!("{what}: {:.2} G/s", rate / 1e9));
    }
    match parts.is_empty() {
        true => String::new(),
        false => format!("\nLimits: {}.\n", parts.join("; ")),
    }
}

/// Formats the table of the limits.
pub(super) fn limits(report: &Report) -> String {
    if report.limits.is_empty() {
        return String::new();
    }
    let mut counts: Vec<usize> = report.limits.iter().map(|limit| limit.threads).collect();
    counts.dedup();
    let mut table = "### Limits\n\nBillions per second.\n\n| what | of |".to_owned();
    for threads in &counts {
        let threads = match threads {
            1 => "one thread".to_owned(),
            n => format!("{n} threads"),
        };
        table += &format!(" {threads} |");
    }
    table += "\n|---|---|";
    table += &"--:|".repeat(counts.len());
    table += "\n";
    for first in report.limits.iter().filter(|l| l.threads == counts[0]) {
        let same = |l: &&Limit| (l.what, l.bits) == (first.what, first.bits);
        let rates = report.limits.iter().filter(same);
        let cells: String = rates
            .map(|limit| format!(" {:.2} |", limit.rate() / 1e9))
            .collect();
        let bits = match (first.resource, first.bits) {
            (Resource::Gathers, Some(bits)) => format!(" in {bits} bits"),
            _ => String::new(),
        };
        let (what, unit) = (first.what, first.unit);
        line(&mut table, format_args!("| {what}{bits} | {unit} |{cells}"));
    }
    table + &waking(report) + &shares(report)
}

/// Formats a row for each contender and kernel that floating-point operations limit: the share of the rate of
/// multiply-adds that the kernel reaches on one thread. Empty if there is no such kernel.
fn shares(report: &Report) -> String {
    let mut lines = String::new();
    let limited = report.kernels.iter().filter(|row| {
        let least = LeastTime::of(row, &report.limits, 1);
        least.is_some_and(|least| least.by == Resource::MultiplyAdds)
    });
    for row in limited {
        for entrant in report.entrants.iter().filter(|e| e.threads == 1) {
            let (Some(operations), Some(median)) = (row.operations, row.median(entrant)) else {
                continue;
            };
            let rate = operations / median;
            let share = |bits| {
                let wanted = |limit: &&Limit| {
                    limit.resource == Resource::MultiplyAdds
                        && limit.threads == 1
                        && limit.bits == Some(bits)
                };
                let limit = report.limits.iter().find(wanted);
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
    if lines.is_empty() {
        return lines;
    }
    format!(
        "\nShares of the rate of multiply-adds on one thread, for the kernels that this rate limits:\n\n\
         | kernel | implementation | billions per second | of 128 bits | of 256 bits | of 512 bits |\n\
         |---|---|--:|--:|--:|--:|\n{lines}"
    )
}
