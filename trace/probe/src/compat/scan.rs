//! Finds the lines of a kernel that contain a tracepoint.
//!
//! The positions at which the original engine inserts follow from the order of its insertions, so this module inserts
//! in the same order. A line that contains two tracepoints gets the text of the second one behind that of the first,
//! also the text that belongs in front of the line.

use crate::model::{Point, ProbeFile};

/// A probe's text at a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Visit {
    /// The line that contains the tracepoint.
    pub(super) line: String,
    /// The index of the probe.
    pub(super) probe: usize,
    /// Whether the text is the one in front of the line.
    pub(super) is_before: bool,
}

/// A line of a kernel with probes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Line {
    /// A line of the kernel, or text that was added.
    Text(String),
    /// A probe's text.
    Probe(Visit),
}

/// A kernel's lines, and the lines at which the probes' declarations go.
pub(super) struct Scanned {
    pub(super) lines: Vec<Line>,
    /// The last line of the parameter list.
    pub(super) last_parameter: usize,
    /// The line with the brace that opens the body.
    pub(super) body: usize,
}

/// The tracepoint to which the original turns the end of a kernel.
const END: &str = "ret;";

/// Returns the tracepoints and their probes, each point once, in the order of first use.
fn positions(file: &ProbeFile) -> Vec<(&str, Vec<usize>)> {
    let mut found: Vec<(&str, Vec<usize>)> = Vec::new();
    for (index, probe) in file.probes.iter().enumerate() {
        for point in probe.position.split(':') {
            let point = match point {
                "kernel" if probe.after.is_none() => continue,
                "kernel" => END,
                point => point,
            };
            match found.iter_mut().find(|(known, _)| *known == point) {
                Some((_, probes)) => probes.push(index),
                None => found.push((point, vec![index])),
            }
        }
    }
    found
}

/// Whether the probe has text for the start of the kernel, once for each time that it names the kernel.
pub(super) fn starts(file: &ProbeFile) -> Vec<usize> {
    let mut found = Vec::new();
    for (index, probe) in file.probes.iter().enumerate() {
        let kernels = probe.position.split(':').filter(|point| *point == "kernel");
        let is_kernel = probe.points.contains(&Point::Kernel);
        if probe.before.is_some() && is_kernel {
            found.extend(std::iter::repeat_n(index, kernels.count()));
        }
    }
    found
}

pub(super) fn scan(entry: &str, file: &ProbeFile) -> Scanned {
    let positions = positions(file);
    let mut lines: Vec<Line> = entry
        .split('\n')
        .map(|line| Line::Text(line.to_owned()))
        .collect();
    // Line 0 stands for "not found", also where something is in line 0.
    let (mut list_end, mut body, mut last_parameter) = (0, 0, 0);
    let mut at = 0;
    while at < lines.len() {
        let Line::Text(line) = lines[at].clone() else {
            at += 1;
            continue;
        };
        if list_end == 0 && line.contains(')') {
            list_end = at;
        }
        if body == 0 && line.contains('{') {
            body = at;
        }
        if list_end == 0 && line.contains(".param") {
            last_parameter = at;
        } else {
            for (point, probes) in &positions {
                if line.contains(point) {
                    at = visit(&mut lines, at, &line, (point, probes), file);
                }
            }
        }
        at += 1;
    }
    Scanned {
        lines,
        last_parameter,
        body,
    }
}

/// Inserts the probes of one tracepoint, and returns the new position of the scan.
fn visit(
    lines: &mut Vec<Line>,
    mut at: usize,
    line: &str,
    (point, probes): (&str, &[usize]),
    file: &ProbeFile,
) -> usize {
    let mut place = at;
    for &probe in probes {
        let one = &file.probes[probe];
        let entry = |is_before| {
            Line::Probe(Visit {
                line: line.to_owned(),
                probe,
                is_before,
            })
        };
        if point == END && one.after.is_some() {
            lines.insert(place, entry(false));
            (place, at) = (place + 1, at + 1);
            continue;
        }
        if one.before.is_some() {
            lines.insert(place, entry(true));
            (place, at) = (place + 1, at + 1);
        }
        if one.after.is_some() {
            lines.insert((place + 1).min(lines.len()), entry(false));
            at += 1;
        }
    }
    at
}
