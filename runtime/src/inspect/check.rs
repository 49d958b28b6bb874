//! Checks a PTX text like an assembler, without loading it.

use std::sync::Arc;

use margay_frontend::{LazyModule, SourceFile, parse, resolve};

/// An error or a warning about a PTX text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Whether the problem is an error, which prevents loading, and not a warning.
    pub error: bool,
    /// Line of the text, counted from 1.
    pub line: u32,
    /// The message.
    pub message: String,
}

/// The result of checking a PTX text.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// Problems in the order in which they were found.
    pub problems: Vec<Problem>,
    /// Names of the kernels; empty if there are errors.
    pub kernels: Vec<String>,
}

/// Returns the errors and warnings that loading a PTX text would cause, and the names of the
/// kernels. `name` is the name of the file.
pub fn check_ptx(name: &str, text: &str) -> Checked {
    let parsed = parse(SourceFile::new(name, text));
    let source = Arc::clone(&parsed.source);
    let mut found = parsed.diagnostics.clone();
    let mut kernels = Vec::new();
    if !parsed.has_errors() {
        let resolution = resolve::resolve(&parsed);
        found.extend(resolution.diagnostics.iter().cloned());
        if !resolution.has_errors() {
            match LazyModule::new(parsed, resolution) {
                Ok(module) => {
                    let names = module.module().kernels();
                    kernels = names.map(|(_, function)| function.name.clone()).collect();
                }
                Err(problems) => found.extend(problems),
            }
        }
    }
    let problems = found.iter().map(|diagnostic| Problem {
        error: diagnostic.is_error(),
        line: diagnostic.position(&source).line,
        message: diagnostic.message.clone(),
    });
    Checked {
        problems: problems.collect(),
        kernels,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

    #[test]
    fn kernels_and_errors_are_told() {
        let good = check_ptx("a", &format!("{HEAD}.visible .entry k() {{ ret; }}\n"));
        assert_eq!(good.kernels, ["k"]);
        assert!(good.problems.is_empty());
        let bad = check_ptx(
            "a",
            &format!("{HEAD}.visible .entry k() {{\n mov.u99 %r, 1;\n}}\n"),
        );
        let problems = &bad.problems;
        assert!(
            problems.iter().any(|p| p.error && p.line == 5),
            "{problems:?}"
        );
        assert!(bad.kernels.is_empty());
    }
}
