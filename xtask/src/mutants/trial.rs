//! Builds the crates with a mutation, and runs the tests.
//!
//! The tests run in a workspace in `target/mutants`, which is a copy of the files that the tests
//! need; the repository itself is never changed. Invariant: before and after each mutation is
//! tried, the copy contains the original sources.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::find::Mutation;
use crate::{Outcome, exec};

/// The result of building the crates with a mutation and running the tests.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Verdict {
    /// A test of the literal tables of `margay-ops` fails.
    Tables,
    /// A file test fails in the interpreter.
    Files,
    /// Another test of `margay-ops` fails: an exhaustive test, a test of an error bound, a unit test, or a test for
    /// panics.
    Others,
    /// The mutated source does not compile.
    DoesNotBuild,
    /// No test fails.
    Survived,
}

impl Verdict {
    pub(super) fn text(self) -> &'static str {
        match self {
            Verdict::Tables => "caught by a table",
            Verdict::Files => "caught by a file test",
            Verdict::Others => "caught by another test",
            Verdict::DoesNotBuild => "does not build",
            Verdict::Survived => "SURVIVED",
        }
    }
}

/// The arguments that run the tests of `margay-ops` with literal tables.
const TABLES: &[&str] = &["-p", "margay-ops", "--test", "meanings"];
const FILES: &[&str] = &["-p", "margay-frontend", "--test", "file_tests"];
/// The slower tests of `margay-ops`. They run only if no test that ran before them fails; for most
/// mutations, they run after all other tests.
const OTHERS: &[&str] = &[
    "-p",
    "margay-ops",
    "--lib",
    "--test",
    "halves",
    "--test",
    "approximations",
    "--test",
    "small_formats",
    "--test",
    "hostile",
];
const LONGEST: Duration = Duration::from_secs(120);
const LONGEST_OF_OTHERS: Duration = Duration::from_secs(600);

/// The files and folders of the repository that are copied.
const PARTS: &[&str] = &[
    "ir/src",
    "ir/exec/src",
    "ir/ops/src",
    "ir/ops/tests/meanings.rs",
    "ir/ops/tests/meanings",
    "ir/ops/tests/support",
    "ir/ops/tests/halves.rs",
    "ir/ops/tests/hostile.rs",
    "ir/ops/tests/approximations.rs",
    "ir/ops/tests/small_formats.rs",
    "frontend/src",
    "frontend/ptx/src",
    "frontend/ptx/tables",
    "frontend/tests/file_tests.rs",
    "cli/src/filetest",
    "tests/ptx",
];

/// The crates of the copied workspace.
const MEMBERS: &[&str] = &["frontend", "frontend/ptx", "ir", "ir/exec", "ir/ops"];

const PROFILE: &str = "
[profile.dev]
debug = false
incremental = true
";

/// The copied workspace.
pub(super) struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// Copies the sources into the workspace, builds the tests, and returns an error if they fail
    /// without a mutation.
    pub(super) fn new() -> Result<Workspace, String> {
        let target = exec::release_dir();
        let root = target.parent().unwrap_or(&target).join("mutants");
        let workspace = Workspace { root };
        for part in PARTS {
            copy(&exec::root().join(part), &workspace.root.join(part))?;
        }
        workspace.manifests()?;
        println!("building the tests");
        for tests in [TABLES, FILES, OTHERS] {
            if !matches!(workspace.test(tests)?, Run::Passed) {
                return Err(format!(
                    "the tests fail or do not compile without a change: run `cargo test {}` in {}",
                    tests.join(" "),
                    workspace.root.display()
                ));
            }
        }
        Ok(workspace)
    }

    /// Writes the manifests of the copied workspace. The manifest of the front end omits
    /// dependencies that only tests need, because these tests are not copied.
    fn manifests(&self) -> Outcome {
        let read = |name: &str| {
            let path = exec::root().join(name);
            fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
        };
        let whole = read("Cargo.toml")?;
        let dependencies = section(&whole, "[workspace.dependencies]");
        let dependencies: Vec<&str> = dependencies
            .lines()
            .filter(|line| {
                !line.contains("path = ")
                    || MEMBERS
                        .iter()
                        .any(|name| line.contains(&format!("\"{name}\"")))
            })
            .collect();
        let manifest = format!(
            "[workspace]\nresolver = \"3\"\nmembers = {MEMBERS:?}\n\n{}\n{}\n\n[workspace.lints.rust]\n{PROFILE}",
            section(&whole, "[workspace.package]"),
            dependencies.join("\n"),
        );
        write(&self.root.join("Cargo.toml"), &manifest)?;
        for member in MEMBERS {
            let name = format!("{member}/Cargo.toml");
            let mut own = read(&name)?;
            if *member == "frontend" {
                own.truncate(own.find("[dev-dependencies]").unwrap_or(own.len()));
                own.push_str("[dev-dependencies]\nmargay-exec.workspace = true\n");
            }
            write(&self.root.join(name), &own)?;
        }
        write(&self.root.join("Cargo.lock"), &read("Cargo.lock")?)
    }

    /// Applies the mutation to the copy, runs the tests, and restores the original source text.
    pub(super) fn try_out(&self, mutation: &Mutation) -> Result<Verdict, String> {
        let path = self.root.join(&mutation.file);
        let original = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        fs::write(&path, mutation.apply(&original)).map_err(|e| e.to_string())?;
        let verdict = self.judge(mutation);
        fs::write(&path, original).map_err(|e| e.to_string())?;
        verdict
    }

    fn judge(&self, mutation: &Mutation) -> Result<Verdict, String> {
        // For mutations of approximations the slower tests are the most likely to fail, so they run first.
        let later = if mutation.file.contains("approx") {
            [(OTHERS, Verdict::Others), (FILES, Verdict::Files)]
        } else {
            [(FILES, Verdict::Files), (OTHERS, Verdict::Others)]
        };
        for (tests, verdict) in [(TABLES, Verdict::Tables)].into_iter().chain(later) {
            match self.test(tests)? {
                Run::DoesNotBuild => return Ok(Verdict::DoesNotBuild),
                Run::Failed => return Ok(verdict),
                Run::Passed => {}
            }
        }
        Ok(Verdict::Survived)
    }

    /// Builds the tests that the arguments `which` select, and runs them. If they exceed their time limit, they count
    /// as failed.
    fn test(&self, which: &[&str]) -> Result<Run, String> {
        let cargo = || {
            let mut command = exec::cargo();
            command
                .current_dir(&self.root)
                .arg("test")
                .args(which)
                .env("CARGO_TARGET_DIR", self.root.join("target"))
                // Only one line changes between builds, so incremental compilation is always enabled.
                .env("CARGO_INCREMENTAL", "1")
                .env("RUSTFLAGS", "-Awarnings")
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            command
        };
        let built = cargo()
            .arg("--no-run")
            .status()
            .map_err(|e| e.to_string())?;
        if !built.success() {
            return Ok(Run::DoesNotBuild);
        }
        let longest = if which == OTHERS {
            LONGEST_OF_OTHERS
        } else {
            LONGEST
        };
        Ok(if passes(&mut cargo(), longest)? {
            Run::Passed
        } else {
            Run::Failed
        })
    }
}

enum Run {
    DoesNotBuild,
    Passed,
    Failed,
}

/// Runs a command until it ends, or kills it and its children after the time `longest`. Returns
/// whether the command has succeeded.
fn passes(command: &mut Command, longest: Duration) -> Result<bool, String> {
    use std::os::unix::process::CommandExt;
    let mut child = command
        .process_group(0)
        .spawn()
        .map_err(|e| e.to_string())?;
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(|e| e.to_string())? {
            return Ok(status.success());
        }
        if started.elapsed() > longest {
            // The test is a child of cargo, so the whole process group is killed.
            let group = format!("-{}", child.id());
            let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
            let _ = child.wait();
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the section of the manifest `text` that begins with `heading`, including the heading.
fn section<'t>(text: &'t str, heading: &str) -> &'t str {
    let Some(start) = text.find(heading) else {
        return "";
    };
    let body = &text[start + heading.len()..];
    let end = body
        .find("\n[")
        .map_or(text.len(), |at| start + heading.len() + at);
    &text[start..end]
}

/// Copies a file or a folder. A file that is equal to its copy is not written again, so that its
/// modification time stays the same and it is not compiled again.
fn copy(from: &Path, to: &Path) -> Outcome {
    let error = |e: std::io::Error| format!("{}: {e}", from.display());
    if from.is_dir() {
        for entry in fs::read_dir(from).map_err(error)? {
            let entry = entry.map_err(error)?;
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
        return Ok(());
    }
    write_bytes(to, &fs::read(from).map_err(error)?)
}

fn write(path: &Path, text: &str) -> Outcome {
    write_bytes(path, text.as_bytes())
}

fn write_bytes(path: &Path, bytes: &[u8]) -> Outcome {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    let error = |e: std::io::Error| format!("{}: {e}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(error)?;
    }
    fs::write(path, bytes).map_err(error)
}
