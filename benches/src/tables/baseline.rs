//! Formats the tables that compare two builds of Margay.

use super::kernels::title;
use super::{limits, line, milliseconds_of};
use crate::baseline::{Outcome, Pairs, Ratios};
use crate::case::Set;
use crate::measure;
use crate::report::Report;

const LEGEND: &str = "### This build and the baseline\n\n\
    Milliseconds. *Speed* is the median of the ratios of the baseline's time to this build's time: above 1, this build \
    is faster. *From, to* is an interval that contains the true median with a probability of 94 %. A bold speed \
    has an interval that does not contain 1.\n\n";

/// Formats the tables of the pairs: for each number of threads, one for each set.
pub(super) fn pairs(report: &Report) -> String {
    let Some(baseline) = &report.baseline else {
        return String::new();
    };
    let mut text = format!("{LEGEND}- Baseline: {baseline}.\n");
    let mut counts: Vec<usize> = report.pairs.iter().map(|pairs| pairs.threads).collect();
    counts.dedup();
    for threads in counts {
        text += &format!(
            "\n#### {}\n{}",
            title(threads),
            limits::summary(report, threads)
        );
        for set in Set::ALL {
            let rows = report.pairs.iter();
            let rows = rows.filter(|row| row.threads == threads && row.set == set);
            text += &table(set, &rows.collect::<Vec<_>>());
        }
    }
    text
}

fn table(set: Set, rows: &[&Pairs]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut table = format!(
        "\nThe {} set:\n\n| kernel | data | this build | baseline | speed | from, to |\n|---|---|--:|--:|--:|--:|\n",
        set.name()
    );
    let mut medians = Vec::new();
    for Pairs {
        name,
        data,
        outcome,
        ..
    } in rows
    {
        match outcome {
            Outcome::Compared(ratios) => {
                medians.push(ratios.median);
                line(
                    &mut table,
                    format_args!("| {name} | {data} |{}", cells(ratios)),
                );
            }
            Outcome::Failed(why) => {
                line(
                    &mut table,
                    format_args!("| {name} | {data} | failed: {why} | | | |"),
                );
            }
        }
    }
    if !medians.is_empty() {
        let mean = measure::mean(&medians);
        line(
            &mut table,
            format_args!("| **geometric mean** | | | | **{mean:.3}** | |"),
        );
    }
    table
}

fn cells(ratios: &Ratios) -> String {
    let [ours, baseline] = [ratios.ours, ratios.baseline].map(milliseconds_of);
    let mark = if ratios.may_be_equal() { "" } else { "**" };
    let ([low, high], median) = (ratios.interval, ratios.median);
    format!(" {ours} | {baseline} | {mark}{median:.3}{mark} | {low:.3}, {high:.3} |")
}
