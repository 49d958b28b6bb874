//! The conformance data in `tests/data/conformance`: PTX programs and instruction forms, with the
//! results of NVIDIA's assembler `ptxas` (the reference assembler).
//!
//! `cargo xtask import-conformance` writes the files. Each line of a file contains the text of one
//! program and facts about it; the loaders return all lines in the order of the file, which does
//! not change.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use flate2::read::GzDecoder;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// An instruction form and a complete PTX module that executes it.
///
/// The name of the kernel is [`FormKernel::id`]. It has the parameters `in`, `out`, `aux`
/// (addresses) and `kparam` (128 bytes). Thread `t` reads its operands from `in + 1024*t`, 16 bytes
/// apart, and stores its results to `out + 1024*t`.
#[derive(Clone, Debug, Deserialize)]
pub struct FormKernel {
    /// Name of the form and of its kernel.
    pub id: String,
    /// Opcode without modifiers.
    pub opcode: String,
    /// The instruction.
    pub text: String,
    /// Lowest version of the PTX ISA that has this form, as written in a `.version` directive.
    pub ptx_version: String,
    /// Lowest target that supports this form, such as `sm_70`.
    pub min_sm: String,
    /// Group of instructions.
    pub category: String,
    /// Number of instructions with this form in a collection of real programs.
    pub uses: u64,
    /// Number of files in this collection that contain the form.
    pub files: u64,
    /// The module's text.
    pub module: String,
}

/// An invalid program.
#[derive(Clone, Debug, Deserialize)]
pub struct Rejected {
    /// Name of the program.
    pub file: String,
    /// Kind of the error in the program.
    pub class: String,
    /// Line of the first error, counted from 1; 0 if the error concerns the whole text.
    pub line: usize,
    /// Number of errors that the reference assembler reports.
    pub errors: usize,
    /// Line numbers of the errors after the first.
    pub other_lines: Vec<usize>,
    /// The part of the text that contains the error.
    pub offending: String,
    /// The program's text.
    pub text: String,
}

/// A valid or invalid PTX program that tests directives and syntax.
#[derive(Clone, Debug, Deserialize)]
pub struct ModuleCase {
    /// Name of the program.
    pub file: String,
    /// The tested feature.
    pub category: String,
    /// Short name of the case.
    pub name: String,
    /// The target, such as `sm_90`, for which the program was assembled.
    pub arch: String,
    /// Whether the program was assembled to an object file that is linked later (`ptxas -c`).
    pub relocatable: bool,
    /// Whether the reference assembler accepts the program.
    pub accepted: bool,
    /// Line numbers of the errors; empty if they are unknown.
    pub error_lines: Vec<usize>,
    /// The program's text.
    pub text: String,
}

/// A small program that tests calls, declarations, headers, pragmas, parameters, directives or DWARF, with the result
/// of ptxas 13.5.
#[derive(Clone, Debug, Deserialize)]
pub struct ModuleForm {
    /// The tested feature.
    pub class: String,
    /// The target, such as `sm_90`, for which the program was assembled.
    pub arch: String,
    /// Whether `ptxas` accepts the program.
    pub accepted: bool,
    /// The first line of ptxas' error message.
    pub message: String,
    /// The program's text.
    pub text: String,
}

/// Returns all programs about calls, declarations and directives. The set omits programs that ptxas rejects because a
/// declared symbol has no definition (which linking detects), programs for which a signal ends ptxas, and 11 programs
/// for which the result of ptxas contradicts its own manual (an unknown target `sm_90b`, numbers above 64 bits, a
/// scalar for a vector).
pub fn module_forms() -> Vec<ModuleForm> {
    load("module-forms")
}

/// Returns all instruction forms of the conformance data.
pub fn forms() -> Vec<FormKernel> {
    load("forms")
}

/// Returns about `count` forms, at equal distances in the list of all forms. `seed` determines the
/// first form, so that CI tests different forms for different commits. Returns all forms if
/// `MARGAY_FULL=1` is set in the environment.
pub fn forms_sample(seed: u64, count: usize) -> Vec<FormKernel> {
    let all = forms();
    if std::env::var_os("MARGAY_FULL").is_some_and(|v| v == "1") {
        return all;
    }
    let step = (all.len() / count.max(1)).max(1);
    let start = (seed % step as u64) as usize;
    all.into_iter().skip(start).step_by(step).collect()
}

/// Returns the seed for [`forms_sample`]: a hash of `MARGAY_SEED` (a commit's hash in CI, or any text), or 0.
pub fn sample_seed() -> u64 {
    let text = std::env::var("MARGAY_SEED").unwrap_or_default();
    text.bytes().fold(0, |seed: u64, byte| {
        seed.wrapping_mul(31).wrapping_add(u64::from(byte))
    })
}

/// Returns all invalid programs of the conformance data.
pub fn rejected() -> Vec<Rejected> {
    load("rejected")
}

/// Returns all programs about directives and syntax.
pub fn modules() -> Vec<ModuleCase> {
    load("modules")
}

/// Reads the file of the set `set`; panics if the file is missing or damaged, because the files are
/// part of the repository.
fn load<T: DeserializeOwned>(set: &str) -> Vec<T> {
    let name = format!("data/conformance/{set}.jsonl.gz");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    let file = File::open(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let lines = BufReader::new(GzDecoder::new(file)).lines();
    let record = |(number, line): (usize, std::io::Result<String>)| {
        let line = line.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        serde_json::from_str(&line)
            .unwrap_or_else(|e| panic!("{}:{}: {e}", path.display(), number + 1))
    };
    lines.enumerate().map(record).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sets_are_whole() {
        let forms = forms();
        assert_eq!(forms.len(), 21_390);
        assert!(
            forms
                .iter()
                .all(|f| f.module.contains(&format!(".entry {}(", f.id))
                    && f.module.contains(&f.text))
        );
        let rejected = rejected();
        assert_eq!(rejected.len(), 219);
        for case in &rejected {
            assert!(
                case.line <= case.text.lines().count(),
                "{}: line {}",
                case.file,
                case.line
            );
        }
        let forms = module_forms();
        assert_eq!(forms.len(), 1412);
        assert_eq!(forms.iter().filter(|form| form.accepted).count(), 493);
        let modules = modules();
        assert_eq!(modules.len(), 154);
        assert_eq!(modules.iter().filter(|m| m.accepted).count(), 130);
        assert!(
            modules
                .iter()
                .all(|m| !m.accepted || m.error_lines.is_empty())
        );
    }

    #[test]
    fn samples_spread_and_differ() {
        let ids = |seed| {
            forms_sample(seed, 100)
                .into_iter()
                .map(|f| f.id)
                .collect::<Vec<_>>()
        };
        assert!((100..=102).contains(&ids(0).len()));
        assert_eq!(ids(5), ids(5));
        assert_ne!(ids(0), ids(1));
    }
}
