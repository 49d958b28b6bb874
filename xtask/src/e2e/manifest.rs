//! Reads `tests/cuda/manifest.toml`, whose first comment describes the fields.

use std::fs;
use std::path::PathBuf;

use regex_lite::Regex;
use serde::Deserialize;

use crate::{Outcome, exec};

/// Returns the folder of the CUDA programs, `tests/cuda`.
pub(super) fn folder() -> PathBuf {
    exec::root().join("tests/cuda")
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    program: Vec<Program>,
}

fn usual_arch() -> String {
    "compute_80".to_owned()
}

/// A program of the manifest.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Program {
    pub(super) name: String,
    /// Architecture for which the program's checked-in PTX is compiled; `None` if no PTX is checked in.
    pub(super) ptx: Option<String>,
    #[serde(default = "usual_arch")]
    pub(super) arch: String,
    #[serde(default)]
    pub(super) flags: Vec<String>,
    #[serde(default = "default_cost")]
    pub(super) cost: u32,
    #[serde(default)]
    pub(super) order: bool,
    #[serde(default, rename = "run")]
    pub(super) runs: Vec<Run>,
}

fn default_cost() -> u32 {
    20
}

/// Arguments and expected output of one run of a program.
#[derive(Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Run {
    pub(super) args: Vec<String>,
    pub(super) margay: Vec<String>,
    pub(super) signal: Option<String>,
    pub(super) exit: i32,
    pub(super) stdout: Vec<String>,
    pub(super) stderr: Vec<String>,
}

/// Returns the programs of the manifest, each with at least one run.
pub(super) fn load() -> Result<Vec<Program>, String> {
    let path = folder().join("manifest.toml");
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut manifest: Manifest =
        toml::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    for program in &mut manifest.program {
        if program.runs.is_empty() {
            program.runs.push(Run::default());
        }
        for run in &mut program.runs {
            if run.stdout.is_empty() && run.exit == 0 {
                run.stdout.push("^PASS ".to_owned());
            }
        }
    }
    Ok(manifest.program)
}

/// Returns an error if one of `patterns` matches no line of `text`. `what` names the text in the
/// error.
pub(super) fn expect_lines(what: &str, patterns: &[String], text: &str) -> Outcome {
    for pattern in patterns {
        let regex = Regex::new(pattern).map_err(|e| format!("bad pattern {pattern}: {e}"))?;
        if !text.lines().any(|line| regex.is_match(line)) {
            return Err(format!("no line of {what} matches {pattern}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_reads_and_names_files() {
        let programs = load().expect("reads");
        assert!(!programs.is_empty());
        for program in programs {
            assert!(
                folder().join(format!("{}.cu", program.name)).exists(),
                "{}",
                program.name
            );
        }
    }

    #[test]
    fn patterns_match_single_lines() {
        let patterns = |p: &str| vec![p.to_owned()];
        assert!(expect_lines("x", &patterns("^b\\d+$"), "a\nb12\n").is_ok());
        assert!(expect_lines("x", &patterns("a.b"), "a\nb").is_err());
    }
}
