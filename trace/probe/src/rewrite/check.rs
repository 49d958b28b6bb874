//! Checks a module before and after probes are inserted.

use std::ops::Range;
use std::sync::Arc;

use margay_frontend::ast::Version;
use margay_frontend::resolve::{Resolution, resolve};
use margay_frontend::{Diagnostic, Parsed, SourceFile, parse};
use rustc_hash::FxHashMap;

use super::edits::Origin;
use crate::error::Error;
use crate::model::ProbeFile;

/// The lowest version and target with `%clock64` and 64-bit generic addresses.
const LOWEST: (Version, u32) = (Version { major: 2, minor: 0 }, 20);

/// Refuses modules into which probes cannot be inserted.
pub(super) fn module(parsed: &Parsed, resolution: &Resolution) -> Result<(), Error> {
    let source = &parsed.source;
    let fail = |offset: u32, message: String| {
        Err(Error::new(
            source.name(),
            source.line_column(offset).line,
            message,
        ))
    };
    let problems = parsed.diagnostics.iter().chain(&resolution.diagnostics);
    if let Some(problem) = first_error(problems) {
        return fail(problem.span.start, problem.message.clone());
    }
    let module = &parsed.module;
    match module.address_size {
        Some((32, span)) => {
            return fail(span.start, "probes need `.address_size 64`".to_owned());
        }
        None if resolution.is_narrow() => {
            return fail(0, "probes need 64-bit addresses".to_owned());
        }
        _ => {}
    }
    if let Some((version, span)) = module.version
        && version < LOWEST.0
    {
        let message = format!(
            "probes need `.version 2.0` or later, but the module has {}.{}",
            version.major, version.minor
        );
        return fail(span.start, message);
    }
    if let Some(target) = &module.target {
        let words = module[target.words]
            .iter()
            .map(|word| module.text(word.name));
        let number = |word: &str| {
            let digits = word
                .strip_prefix("sm_")?
                .trim_end_matches(|c: char| c.is_ascii_lowercase());
            digits.parse::<u32>().ok()
        };
        if words.filter_map(number).any(|number| number < LOWEST.1) {
            return fail(
                target.span.start,
                "probes need the target `sm_20` or later".to_owned(),
            );
        }
    }
    Ok(())
}

fn first_error<'d>(
    mut diagnostics: impl Iterator<Item = &'d Diagnostic>,
) -> Option<&'d Diagnostic> {
    diagnostics.find(|diagnostic| diagnostic.is_error())
}

/// Checks the text with probes. Returns for each kernel with an error the number of its function and the error.
///
/// # Errors
///
/// Fails if an error is in no inserted text.
pub(super) fn result(
    parsed: &Parsed,
    file: &ProbeFile,
    text: &str,
    ranges: &[(Range<usize>, Origin)],
) -> Result<FxHashMap<usize, Error>, Error> {
    let new = parse(Arc::new(SourceFile::new(parsed.source.name(), text)));
    let resolution = resolve(&new);
    let mut failed: FxHashMap<usize, Error> = FxHashMap::default();
    for problem in new.diagnostics.iter().chain(&resolution.diagnostics) {
        if !problem.is_error() {
            continue;
        }
        let start = problem.span.start as usize;
        // An error can be found directly behind the text that causes it.
        let at = ranges.partition_point(|(range, _)| range.start <= start);
        let Some((_, origin)) = at.checked_sub(1).and_then(|index| ranges.get(index)) else {
            return Err(Error::new(parsed.source.name(), 0, &problem.message));
        };
        let line = parsed.source.line_column(origin.place).line;
        let shown = new.source.slice(problem.span);
        let message = format!(
            "the text of the probe does not fit here: {} (`{shown}`)",
            problem.message
        );
        let mut error = Error::new(parsed.source.name(), line, message);
        if let Some(probe) = origin.probe {
            error = error.about(&file.probes[probe].name);
        }
        failed.entry(origin.function).or_insert(error);
    }
    Ok(failed)
}
