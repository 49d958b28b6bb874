//! The corpus of the checking tools: small CUDA kernels in `tests/checks/*.cu` with directives that state which
//! findings a checking run must report.
//!
//! Each file has its PTX beside it, so the tests need no compiler. A comment that begins with `//@` is a directive. The
//! directives above a kernel describe launches of this kernel:
//!
//! ```text
//! //@ class: NAME                            the class of the cases below, in the table
//! //@ case NAME: grid X,Y,Z block X,Y,Z      a launch of the kernel below; also `shared BYTES`, `cluster X,Y,Z`,
//!                                            `cooperative`
//! //@ arg buffer BYTES [WORDS]               an argument: device memory; WORDS are `zero` (default), `iota` (the
//!                                            32-bit numbers 0, 1, 2, ...), `ones`, `uninitialised`, and `freed` (the
//!                                            host frees it before the launch)
//! //@ arg host BYTES                         an argument: host memory that devices cannot access
//! //@ arg pinned BYTES                       an argument: pinned host memory, which devices can access
//! //@ arg managed BYTES                      an argument: managed memory that neither host nor device has written
//! //@ arg null                               an argument: the null pointer
//! //@ arg i32|u32|i64|u64|f32 VALUE          an argument passed by value
//! //@ set BUFFER OFFSET BYTES                before the launch, the host fills a part of the buffer (0 is the first)
//! //@ write BUFFER OFFSET BYTES              before the launch, the host copies data to a part of the buffer
//! //@ copy BUFFER OFFSET BUFFER OFFSET BYTES before the launch, a copy from the first to the second buffer
//! //@ run KERNEL: grid X block X             before the launch, a launch of another kernel with the same arguments;
//!                                            `stream`: in a stream of its own, which does not wait for other streams
//! //@ join                                   before the launch, the host waits for all work
//! //@ read BUFFER OFFSET BYTES               after the launch, a copy from the buffer to the host
//! //@ fault KIND                             the launch fails with this fault (a `margay::FaultKind`); `any`: it may
//!                                            fail
//! //@ expect clean                           no findings except remarks (severity info)
//! //@ expect TOOL KIND [MARK [MARK]] [info|warning|error]
//!                                            a finding; for races, the marks of both accesses (one mark if both are in
//!                                            one line, or if the other access is a copy); `KIND|KIND` permits several
//!                                            kinds
//! //@ may TOOL KIND [MARK [MARK]]            a finding that is correct but that a checker need not report
//! //@ either TOOL KIND [MARK [MARK]]         several of these: at least one of the findings must be reported
//! ```
//!
//! Kernels begin with `KERNEL NAME(`, a macro of each file. A case without a name has the name of its kernel.
//!
//! A MARK is a word in a comment, such as `// BUG1`. It stands for the line of the access that has
//! this comment. A directive can refer to the marks between the directives of its case and the next
//! directives. The directives of several cases may precede one kernel.
//!
//! A case passes if each of its runs ends with the stated fault (or without a fault if none is
//! stated) and reports the right findings. A run must report every finding of an `expect` and, if
//! there are `either` directives, at least one of their findings. It must report only findings that
//! the directives of the case state. If a case states no finding of severity info, a run may report
//! any findings of this severity. A directive without a severity states a warning or an error.
//!
//! `tests/checks/pending.txt` lists the cases that fail so far. A test fails if such a case passes, or if another case
//! fails. `BLESS=1` rewrites the list.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

mod parse;
mod run;

pub use parse::read;
pub use run::{Order, SETTINGS, Setting, all_settings, reports, run};

/// A test case: a launch of a kernel, and the findings that a checking run must or may report.
#[derive(Clone, Debug, Default)]
pub struct Case {
    /// The name of the case, which no other case of the file has.
    pub name: String,
    /// The class of the case in the table of results.
    pub class: String,
    /// The number of the line that contains the `case` directive.
    pub line: u32,
    /// The launch.
    pub launch: Launch,
    /// The arguments of all launches of the case.
    pub arguments: Vec<Argument>,
    /// The steps that the host performs before the launch.
    pub before: Vec<Step>,
    /// The steps that the host performs after the launch.
    pub after: Vec<Step>,
    /// The fault that must end the launch; `None` if the launch must end without a fault.
    pub fault: Option<String>,
    /// The findings that every run must report.
    pub expected: BTreeSet<Expected>,
    /// Findings of which every run must report at least one.
    pub either: BTreeSet<Expected>,
    /// The findings that a run may report, but need not report.
    pub allowed: BTreeSet<Expected>,
}

impl Case {
    /// Returns whether the kernel of the case has a defect: the directives state a finding or a
    /// fault.
    pub fn is_buggy(&self) -> bool {
        self.stated().next().is_some() || self.fault.is_some()
    }

    /// Returns all findings that the directives of the case state.
    pub fn stated(&self) -> impl Iterator<Item = &Expected> {
        let all = self.expected.iter().chain(&self.either);
        all.chain(&self.allowed)
    }
}

/// A launch of a kernel: the kernel and its extents.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// The kernel.
    pub kernel: String,
    /// Number of blocks.
    pub grid: [u32; 3],
    /// Number of threads of a block in each dimension.
    pub block: [u32; 3],
    /// Number of blocks of a cluster in each dimension; `None` for a launch without clusters.
    pub cluster: Option<[u32; 3]>,
    /// Number of bytes of dynamic shared memory.
    pub shared: u32,
    /// Whether this is a cooperative launch.
    pub cooperative: bool,
    /// Whether the launch is in a separate stream instead of the default stream.
    pub own_stream: bool,
}

/// The contents of a buffer before the launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contents {
    /// The buffer is not written before the launch.
    Uninitialised,
    /// Zeros.
    Zero,
    /// The buffer contains the 32-bit numbers 0, 1, 2, ...
    Iota,
    /// Each 32-bit element of the buffer is 1.
    Ones,
}

/// An argument.
#[derive(Clone, Debug)]
pub enum Argument {
    /// Device memory.
    Buffer {
        /// The size.
        bytes: usize,
        /// The contents.
        contents: Contents,
        /// Whether the host frees the buffer before the launch.
        freed: bool,
    },
    /// Ordinary host memory with this number of bytes.
    Host(usize),
    /// Pinned host memory with this number of bytes.
    Pinned(u64),
    /// Managed memory with this number of bytes.
    Managed(u64),
    /// A value.
    Value(Vec<u8>),
}

/// A part of a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The index of the buffer among the buffers of the case.
    pub buffer: usize,
    /// The offset of the part in the buffer, in bytes.
    pub offset: u64,
}

/// A step that the host performs before or after the launch.
#[derive(Clone, Debug)]
pub enum Step {
    /// Fills bytes.
    Set(Part, u64),
    /// The host copies this number of bytes from its memory to the part.
    Write(Part, u64),
    /// The host copies this number of bytes from the first part to the second part.
    Copy(Part, Part, u64),
    /// The host copies this number of bytes from the part to its memory.
    Read(Part, u64),
    /// Launches another kernel.
    Run(Launch),
    /// The host waits until all submitted work is complete.
    Join,
}

/// The properties of a finding that the tests compare.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Expected {
    /// The tool.
    pub tool: &'static str,
    /// The kind of the finding. If there are several kinds, each of them is correct.
    pub kinds: Vec<&'static str>,
    /// The numbers of the lines that contain the accesses of the finding, sorted. A finding about
    /// one access has one line, and a finding about the host has no line.
    pub lines: Vec<u32>,
    /// The severity of the finding; `None` stands for a warning or an error.
    pub severity: Option<&'static str>,
}

impl Expected {
    /// Returns whether the finding `found` has the expected properties.
    pub fn agrees(&self, found: &Expected) -> bool {
        let severity = match self.severity {
            None => found.severity != Some("info"),
            some => found.severity == some,
        };
        let kind = found.kinds.iter().all(|kind| self.kinds.contains(kind));
        kind && severity && (self.tool, &self.lines) == (found.tool, &found.lines)
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.tool, self.kinds.join("|"))?;
        for line in &self.lines {
            write!(f, " line {line}")?;
        }
        match self.severity {
            Some(severity) => write!(f, " ({severity})"),
            None => Ok(()),
        }
    }
}

/// The differences between the findings that the runs of a case reported and the findings that its
/// directives state.
#[derive(Clone, Debug, Default)]
pub struct Difference {
    /// The findings that every run must report, but at least one run did not report.
    pub missed: BTreeSet<String>,
    /// The findings that a run reported, but the case does not state.
    pub wrong: BTreeSet<String>,
    /// Other problems.
    pub problems: BTreeSet<String>,
}

impl Difference {
    /// Returns whether there is no difference.
    pub fn is_empty(&self) -> bool {
        self.missed.is_empty() && self.wrong.is_empty() && self.problems.is_empty()
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (label, texts) in [
            ("missed", &self.missed),
            ("false", &self.wrong),
            ("problem", &self.problems),
        ] {
            for text in texts {
                writeln!(f, "    {label}: {text}")?;
            }
        }
        Ok(())
    }
}

/// The results of all cases of one class.
#[derive(Clone, Copy, Default, Debug)]
struct Row {
    clean: usize,
    buggy: usize,
    /// Number of cases in which a run did not report a finding that it must report.
    missed: usize,
    /// Number of cases in which a run reported a finding that the case does not state.
    wrong: usize,
    /// Cases that fail.
    failed: usize,
}

/// The results of all cases of a file, grouped by the class of the case.
#[derive(Clone, Default, Debug)]
pub struct Table(BTreeMap<String, Row>);

impl Table {
    /// Adds the result of a case to the table.
    pub fn add(&mut self, case: &Case, difference: &Difference) {
        let row = self.0.entry(case.class.clone()).or_default();
        match case.is_buggy() {
            true => row.buggy += 1,
            false => row.clean += 1,
        }
        row.missed += usize::from(!difference.missed.is_empty());
        row.wrong += usize::from(!difference.wrong.is_empty());
        row.failed += usize::from(!difference.is_empty());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |f: &mut fmt::Formatter<'_>, name: &str, row: &Row| {
            let Row {
                clean,
                buggy,
                missed,
                wrong,
                failed,
            } = row;
            writeln!(
                f,
                "{name:<28} {clean:>6} {buggy:>6} {missed:>8} {wrong:>8} {failed:>8}"
            )
        };
        writeln!(
            f,
            "{:<28} {:>6} {:>6} {:>8} {:>8} {:>8}",
            "class", "clean", "buggy", "missed", "false", "failed"
        )?;
        let mut sum = Row::default();
        for (name, row) in &self.0 {
            line(f, name, row)?;
            sum.clean += row.clean;
            sum.buggy += row.buggy;
            sum.missed += row.missed;
            sum.wrong += row.wrong;
            sum.failed += row.failed;
        }
        line(f, "all", &sum)
    }
}

/// Returns the folder of the corpus, `tests/checks`.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("checks")
}

/// Returns the paths of the `.cu` files of the corpus.
///
/// # Errors
///
/// Returns an error if the folder cannot be read.
pub fn files() -> std::io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder())?.map(|entry| entry.map(|entry| entry.path()));
    let mut files = entries.collect::<Result<Vec<_>, _>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "cu"));
    files.sort();
    Ok(files)
}

/// Returns the names of cases (`FILE/CASE`) in a text that contains one name in each line. `#`
/// begins a comment.
pub fn pending(text: &str) -> BTreeSet<String> {
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or(""));
    let names = lines.map(str::trim).filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}
