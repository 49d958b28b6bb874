//! The source of a kernel, with counts beside each line.

use std::collections::BTreeMap;

use margay_profile::{KernelProfile, LineSummary, Summary};

use super::quotient;
use crate::check::source::Sources;
use crate::check::xml::escape;
use crate::profile::table::lanes;
use crate::profile::units::{count, percent, ratio};

/// Number of lines that are shown before and after a line with counts.
const RADIUS: u64 = 2;

/// Returns a table for each file. Lines of the PTX text, and lines of files that cannot be read, have no text.
pub(super) fn annotated(kernel: &KernelProfile, all: &Summary, sources: &Sources) -> String {
    let mut files: BTreeMap<Option<String>, Vec<LineSummary>> = BTreeMap::new();
    for line in LineSummary::of(kernel) {
        files.entry(line.file.clone()).or_default().push(line);
    }
    let mut out = String::new();
    for (file, lines) in files {
        let name = file.as_deref().map_or("PTX text".to_owned(), escape);
        out.push_str(&format!(
            "<h3><code>{name}</code></h3>\n<div class=\"scroll\"><table class=\"source\"><thead><tr>"
        ));
        for title in [
            "Line",
            "Instr.",
            "Lanes",
            "Flops",
            "Sectors/req.",
            "Best",
            "Cycles/req.",
            "Divergent",
            "",
        ] {
            out.push_str(&format!("<th>{title}</th>"));
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        rows(&mut out, file.as_deref(), &lines, all, sources);
        out.push_str("</tbody></table></div>\n");
    }
    out
}

fn rows(
    out: &mut String,
    file: Option<&str>,
    lines: &[LineSummary],
    all: &Summary,
    sources: &Sources,
) {
    // The texts of all lines near a line with counts.
    let mut texts: BTreeMap<u64, String> = BTreeMap::new();
    for line in lines {
        let number = u64::from(line.line);
        texts.entry(number).or_default();
        if let Some(file) = file {
            texts.extend(sources.around(file, number, RADIUS));
        }
    }
    let counts: BTreeMap<u64, &Summary> = lines
        .iter()
        .map(|line| (u64::from(line.line), &line.summary))
        .collect();
    let mut last = None;
    for (number, text) in texts {
        if last.is_some_and(|last| number > last + 1) {
            out.push_str("<tr class=\"gap\"><td colspan=\"9\"></td></tr>\n");
        }
        last = Some(number);
        let text = escape(&text);
        match counts.get(&number) {
            None => {
                out.push_str(&format!(
                    "<tr><td>{number}</td><td colspan=\"7\"></td><td><code>{text}</code></td></tr>\n"
                ));
            }
            Some(summary) => row(out, number, summary, all, &text),
        }
    }
}

fn row(out: &mut String, number: u64, summary: &Summary, all: &Summary, text: &str) {
    let heat = quotient(summary.warps, all.warps);
    // The square root makes small shares visible.
    let strength = (100.0 * heat.sqrt()).round();
    let lanes = lanes(summary);
    let flops = match summary.flops.all() {
        0 => "-".to_owned(),
        flops => count(flops),
    };
    let (global, shared) = (&summary.global, &summary.shared);
    let is_bad = |part: u64, best: u64| match part as f64 >= 1.5 * best as f64 && best != 0 {
        true => " class=\"bad\"",
        false => "",
    };
    out.push_str(&format!(
        "<tr class=\"counted\" style=\"--heat:{strength}%\"><td>{number}</td><td>{}</td><td>{lanes}</td><td>{flops}</td>\
         <td{}>{}</td><td>{}</td><td{}>{}</td><td>{}</td><td><code>{text}</code></td></tr>\n",
        percent(summary.warps, all.warps),
        is_bad(global.sectors, global.ideal_sectors),
        ratio(global.sectors, global.requests),
        ratio(global.ideal_sectors, global.requests),
        is_bad(shared.cycles, shared.ideal_cycles),
        ratio(shared.cycles, shared.requests),
        percent(summary.divergent, summary.branches),
    ));
}
