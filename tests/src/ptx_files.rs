//! Determines the coverage of the file tests: the lines of the syntax table that the instructions
//! of the tests match, and the rows of the op table to which the instructions are lowered. The file
//! tests are the files of `tests/ptx` and the files that [`crate::literal`] writes from literal
//! cases.
//!
//! To determine the coverage, this module lowers the files; the names of the files do not matter.
//! Invariant: an engine counts as running an instruction only if the file expects values or a fault
//! from a launch of the instruction's function or, if the file does not launch this function, from
//! a launch of another function.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use margay_cli::filetest::directive::{self, FileTest, Launch, Outcome};
use margay_cli::filetest::files;
use margay_frontend::ast::Statement;
use margay_frontend::resolve::{Resolution, resolve};
use margay_frontend::{Parsed, SourceFile, lower, parse};
use margay_ir::pass;
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;
use margay_ptx::Form;

use crate::literal::literal_tests;

/// Returns the folder of the file tests.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("ptx")
}

/// The engines that can run the instructions of a file test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Runs {
    /// No engine: the launch fails with an error that names an unsupported instruction.
    Nobody,
    /// The interpreter only: the compiler cannot generate native code for the kernel.
    Interpreter,
    /// Both engines.
    Both,
}

/// How a form or an op is covered: the engines that run it in the best case, and the first file in
/// which they run it.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The engines that run the form or the op.
    pub runs: Runs,
    /// The file, relative to `tests/ptx` and without its extension, or `meanings/` and a table of literal cases.
    pub file: String,
    /// If no engine runs the form or the op, the unsupported feature.
    pub why: String,
}

/// Key of a form: its head (the instruction's name) and source line in the syntax table, and one of
/// its lists of types.
pub type FormKey = (&'static str, &'static str, Vec<OpType>);

/// Returns the key of `form` with the list of types `types`.
pub fn key(form: &Form, types: &[OpType]) -> FormKey {
    (form.head, form.source, types.to_vec())
}

/// The coverage that all file tests provide together.
#[derive(Debug, Default)]
pub struct Coverage {
    /// The coverage of the lines of the syntax table.
    pub forms: BTreeMap<(&'static str, &'static str), BTreeMap<String, Shown>>,
    /// The coverage of the rows of the op table.
    pub rows: BTreeMap<Opcode, Shown>,
}

impl Coverage {
    /// Reads and lowers all file tests and returns their coverage.
    ///
    /// # Panics
    ///
    /// Panics if a file test cannot be read or lowered, because the files are part of the repository.
    pub fn of_all_files() -> Coverage {
        let mut coverage = Coverage::default();
        for path in files(&root()).expect("there are file tests") {
            let text = std::fs::read_to_string(&path).expect("a file test can be read");
            let name = path.strip_prefix(root()).unwrap_or(&path);
            let name = name.with_extension("").display().to_string();
            coverage.test(&name, &text);
        }
        for test in literal_tests() {
            coverage.test(&test.name, &test.text);
        }
        coverage
    }

    /// Returns the coverage of `form` with the list of types `types`; `None` if no file covers it.
    pub fn of_form(&self, form: &Form, types: &[OpType]) -> Option<&Shown> {
        let types = type_text(types);
        self.forms.get(&(form.head, form.source))?.get(&types)
    }

    fn test(&mut self, name: &str, text: &str) {
        match directive::read(text) {
            Ok(FileTest::Launches(launches)) => self.launches(name, text, &launches),
            Ok(FileTest::Rejected(_)) => {}
            Err((line, what)) => panic!("{name}:{line}: {what}"),
        }
    }

    fn launches(&mut self, name: &str, text: &str, launches: &[Launch]) {
        let parsed = parse(SourceFile::new(name, text));
        let resolution = resolve(&parsed);
        self.instructions(name, &parsed, &resolution, launches);
        let module =
            lower(&parsed, &resolution).unwrap_or_else(|errors| panic!("{name}: {errors:?}"));
        for (id, function) in module.functions.iter() {
            if !function.has_body() {
                continue;
            }
            let shown = shown(name, &function.name, launches);
            let prepared = pass::prepare(&module, id, None);
            for function in [function, &prepared] {
                for &block in function.blocks() {
                    for &inst in function.insts(block) {
                        improve(&mut self.rows, function.dfg.insts[inst].opcode, &shown);
                    }
                }
            }
        }
    }

    fn instructions(
        &mut self,
        name: &str,
        parsed: &Parsed,
        resolution: &Resolution,
        launches: &[Launch],
    ) {
        let module = &parsed.module;
        for (_, function) in module.functions() {
            let Some(body) = function.body else {
                continue;
            };
            let shown = shown(name, module.text(function.name.name), launches);
            for statement in body.ids() {
                if !matches!(module[statement], Statement::Instruction(_)) {
                    continue;
                }
                let Some(instruction) = resolution.instruction(statement) else {
                    continue;
                };
                let spelling = instruction.spelling();
                let types = type_text(&spelling.types);
                let of_form = self
                    .forms
                    .entry((spelling.form.head, spelling.form.source))
                    .or_default();
                improve(of_form, types, &shown);
            }
        }
    }
}

fn type_text(types: &[OpType]) -> String {
    let names: Vec<&str> = types.iter().map(|ty| ty.name()).collect();
    names.join(" ")
}

/// Returns the coverage that the launches of the function `function` provide for its instructions.
/// For a function that is not a launched kernel, returns the best coverage of all launches in the
/// file.
fn shown(file: &str, function: &str, launches: &[Launch]) -> Shown {
    let own: Vec<&Launch> = launches
        .iter()
        .filter(|launch| launch.kernel == function)
        .collect();
    let relevant = if own.is_empty() {
        launches.iter().collect()
    } else {
        own
    };
    let each = relevant.iter().map(|launch| match &launch.outcome {
        Outcome::Unsupported(why) => (Runs::Nobody, why.clone()),
        _ if launch.native => (Runs::Both, String::new()),
        _ => (Runs::Interpreter, String::new()),
    });
    let (runs, why) = each.max().unwrap_or((Runs::Nobody, String::new()));
    Shown {
        runs,
        file: file.to_owned(),
        why,
    }
}

fn improve<K: Ord>(known: &mut BTreeMap<K, Shown>, key: K, shown: &Shown) {
    let entry = known.entry(key).or_insert_with(|| shown.clone());
    if shown.runs > entry.runs {
        *entry = shown.clone();
    }
}

/// Returns the names of all file tests in `tests/ptx`.
pub fn names() -> BTreeSet<String> {
    let all = files(&root()).expect("there are file tests");
    let name = |path: PathBuf| {
        let name = path
            .strip_prefix(root())
            .unwrap_or(&path)
            .with_extension("");
        name.display().to_string()
    };
    all.into_iter().map(name).collect()
}
