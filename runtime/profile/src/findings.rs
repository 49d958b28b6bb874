//! Rules that name what is worth changing in a kernel.
//!
//! A rule reports a finding only if the kernel loses a noticeable part of its work by it. The text states the place,
//! the measurement, what would be enough, and what to try.

mod memory;
mod shape;
#[cfg(test)]
mod tests;
mod work;

use crate::document::{KernelProfile, Profile, SourceRow};
use crate::summary::Summary;

/// Something that is worth changing.
#[derive(Clone, PartialEq, Debug)]
pub struct Finding {
    /// The name of the rule, such as `uncoalesced`.
    pub rule: &'static str,
    /// The index of the kernel in [`Profile::kernels`]; `None` for a finding about the whole program.
    pub kernel: Option<usize>,
    /// The place; `None` for a finding about a whole kernel.
    pub source: Option<SourceRow>,
    /// How much of the kernel's work or traffic the finding concerns: from 0 to 1.
    pub weight: f64,
    /// The measurement, and what would be enough.
    pub text: String,
    /// What to try.
    pub advice: &'static str,
}

/// Returns the findings of all rules: those about the program first, then those of each kernel, the weightiest first.
///
/// ```
/// use margay_profile::{Options, Profiler, findings};
///
/// assert_eq!(findings::of(&Profiler::new(Options::default()).profile()), []);
/// ```
pub fn of(profile: &Profile) -> Vec<Finding> {
    let mut all = Vec::new();
    work::program(profile, &mut all);
    for (index, kernel) in profile.kernels.iter().enumerate() {
        let mut of_kernel = Found {
            kernel,
            summary: Summary::of(kernel),
            findings: Vec::new(),
        };
        memory::rules(&mut of_kernel);
        work::rules(&mut of_kernel);
        shape::rules(&mut of_kernel);
        let mut findings = of_kernel.findings;
        findings.retain(|finding| finding.weight >= LEAST);
        findings.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        all.extend(findings.into_iter().map(|finding| Finding {
            kernel: Some(index),
            weight: finding.weight.min(1.0),
            ..finding
        }));
    }
    all
}

/// A kernel, and what the rules have found in it.
struct Found<'a> {
    kernel: &'a KernelProfile,
    summary: Summary,
    findings: Vec<Finding>,
}

/// The smallest weight with which a finding is reported.
const LEAST: f64 = 0.05;

impl Found<'_> {
    /// Adds a finding. If there is the same finding for another instruction of the line, adds only its weight.
    fn add(
        &mut self,
        rule: &'static str,
        source: Option<&SourceRow>,
        weight: f64,
        text: String,
        advice: &'static str,
    ) {
        let place = source.map(line_of);
        let is_same = |known: &&mut Finding| {
            let known_place = known.source.as_ref().map(line_of);
            known.rule == rule && known_place == place && known.text == text
        };
        if let Some(known) = self.findings.iter_mut().find(is_same) {
            known.weight += weight;
            return;
        }
        self.findings.push(Finding {
            rule,
            kernel: None,
            source: source.cloned(),
            weight,
            text,
            advice,
        });
    }
}

/// Returns the source line of a position, or the line of the PTX text if there is no line information.
fn line_of(source: &SourceRow) -> (Option<&str>, u32) {
    match &source.file {
        Some(file) => (Some(file), source.line),
        None => (None, source.ptx_line),
    }
}

/// Returns `part / whole`; 0 if `whole` is 0.
fn share(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 0.0,
        _ => part as f64 / whole as f64,
    }
}

/// Returns a number with at most one digit after the decimal point.
fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}
