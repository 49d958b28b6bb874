//! Formats the tables that compare Margay with other contenders.

use std::fmt::Write as _;

use super::{limits, line, milliseconds, speed};
use crate::case::Set;
use crate::comparison::{Entrant, Kind, Row};
use crate::report::{self, Mean, Report};
use crate::roofline::LeastTime;

const LEGEND: &str = "### Kernels\n\n\
    Milliseconds; *speed* is the contender's time divided by Margay's: above 1, Margay is faster. *Of limit* is the \
    least time of the kernel divided by Margay's time, and the resource that limits the kernel. A star marks the \
    eleven kernels that have goals.\n\n";

/// Formats the tables of the kernels: for each number of threads, one for each set.
pub(super) fn comparisons(report: &Report) -> String {
    if report.kernels.is_empty() {
        return String::new();
    }
    let mut text = LEGEND.to_owned();
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
        let title = title(ours.threads);
        let _ = write!(
            text,
            "\n#### {title}\n{}",
            limits::summary(report, ours.threads)
        );
        for set in Set::ALL {
            text += &comparison(report, ours, set);
        }
    }
    text
}

/// Returns the title of tables with a number of threads.
pub(super) fn title(threads: usize) -> String {
    match threads {
        1 => "One worker, one thread".to_owned(),
        n => format!("{n} workers, {n} threads"),
    }
}

/// Formats the table that compares Margay with all contenders of the same number of threads on the kernels of a set.
fn comparison(report: &Report, ours: &Entrant, set: Set) -> String {
    let rows: Vec<&Row> = report.kernels.iter().filter(|row| row.set == set).collect();
    if rows.is_empty() {
        return String::new();
    }
    let rivals: Vec<&Entrant> = Kind::RIVALS
        .iter()
        .filter_map(|kind| {
            let mut entrants = report.entrants.iter();
            entrants.find(|e| e.kind == *kind && e.threads == ours.threads)
        })
        .collect();
    let mut table = format!(
        "\nThe {} set:\n\n| kernel | data | Margay | of limit |",
        set.name()
    );
    rivals.iter().for_each(|rival| {
        let _ = write!(table, " {} | speed |", rival.kind.title());
    });
    table += "\n|---|---|--:|--:|";
    table += &"--:|--:|".repeat(rivals.len());
    table += "\n";
    for row in rows {
        let star = if row.goal { "\\* " } else { "" };
        let cells: String = rivals
            .iter()
            .map(|rival| beside(row, ours, rival))
            .collect();
        let (name, data, time) = (&row.name, &row.data, cell(row, ours));
        let share = share(report, row, ours);
        line(
            &mut table,
            format_args!("| {star}{name} | {data} | {time} | {share} |{cells}"),
        );
    }
    table + &means(report, &rivals, set)
}

/// Formats the rows with the geometric means over the kernels of a set.
fn means(report: &Report, rivals: &[&Entrant], set: Set) -> String {
    let mut table = String::new();
    for goals_only in [true, false] {
        let what = if goals_only { "the eleven" } else { "all" };
        let mean = |rival: &&Entrant| {
            let wanted = |mean: &&Mean| {
                mean.set == set
                    && mean.rival == rival.kind
                    && mean.threads == rival.threads
                    && mean.goals_only == goals_only
            };
            report.means.iter().find(wanted)
        };
        if goals_only && set != Set::First {
            continue;
        }
        let cell = |rival| {
            let mean = mean(rival).map_or("none".to_owned(), |mean| {
                format!("**{}**", speed(mean.ratio))
            });
            format!(" | {mean} |")
        };
        let cells: String = rivals.iter().map(cell).collect();
        line(
            &mut table,
            format_args!("| **geometric mean, {what}** | | | |{cells}"),
        );
    }
    table
}

/// Formats the share of the machine's limit that Margay reaches.
fn share(report: &Report, row: &Row, ours: &Entrant) -> String {
    let least = LeastTime::of(row, &report.limits, ours.threads);
    let share = least.zip(row.median(ours));
    share.map_or(String::new(), |(least, seconds)| least.share(seconds))
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
