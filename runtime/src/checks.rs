//! Checking runs: what CUDA and PTX leave undefined, found while kernels run as usual.
//!
//! `MARGAY_CHECK=sync` (or [`crate::RuntimeBuilder::check`]) looks at how threads wait for each other: member masks,
//! sources of shuffles, barriers in divergent code, their numbers and counts ([`Undefined`]). Results are those of a
//! normal run. Kernels run lane by lane, so that every warp operation is seen.
//!
//! A finding is told once for each kernel, place and kind: on standard error, as a line of the file that
//! `MARGAY_CHECK_LOG` names, and by [`crate::Runtime::take_findings`].

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::SourceLine;
use indexmap::IndexMap;
pub use margay_exec::Undefined;
use margay_exec::{CtaInfo, SyncFinding};
use margay_jit::files::without_size_signal;
use parking_lot::Mutex;

/// What a checking run looks for.
///
/// ```
/// use margay::checks::Check;
///
/// assert_eq!(Check::named("sync"), Some(Check::Sync));
/// let rt = margay::Runtime::builder().check(Check::Sync).build()?;
/// assert!(rt.take_findings().0.is_empty());
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Check {
    /// How threads wait for each other.
    Sync,
}

impl Check {
    /// By its name in `MARGAY_CHECK`.
    pub fn named(name: &str) -> Option<Check> {
        (name == "sync").then_some(Check::Sync)
    }

    /// What `MARGAY_CHECK` asks for.
    pub(crate) fn from_env() -> Option<Check> {
        Check::named(&crate::environment::env("MARGAY_CHECK")?)
    }
}

/// Something that a checking run found.
///
/// ```
/// use margay::checks::{Check, Finding};
///
/// fn print(findings: &[Finding]) {
///     for finding in findings {
///         println!("{finding}");
///     }
/// }
/// let rt = margay::Runtime::builder().check(Check::Sync).build()?;
/// print(&rt.take_findings().0);
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What is undefined.
    pub what: Undefined,
    /// The operation, as in PTX.
    pub operation: &'static str,
    /// The kernel.
    pub kernel: String,
    /// The block that it was first seen in.
    pub cta: [u32; 3],
    /// The warp of that block, and its lanes.
    pub warp: (u32, u32),
    /// Line of the PTX text, from 1.
    pub ptx_line: Option<u32>,
    /// Source line.
    pub source: Option<SourceLine>,
    /// Blocks that did it.
    pub count: u64,
}

/// How a remark begins, behind the name of the check.
pub const REMARK: &str = "remark: ";

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([x, y, z], (warp, lanes)) = (self.cta, self.warp);
        let remark = if self.what.is_remark() { REMARK } else { "" };
        write!(
            f,
            "synccheck: {remark}{} in kernel {}, block ({x},{y},{z}), warp {warp}, lanes {lanes:#010x}",
            self.operation, self.kernel
        )?;
        if let Some(source) = &self.source {
            write!(f, ", {source}")?;
        }
        if let Some(line) = self.ptx_line {
            write!(f, ", PTX line {line}")?;
        }
        write!(f, ": {}", self.what.text())
    }
}

/// Kinds and places that are kept, at most; what comes after is counted.
const MOST: usize = 1 << 14;

/// Kernel, line and kind.
type FindingKey = (String, Option<u32>, Undefined);

/// What a machine's launches have found.
#[derive(Debug, Default)]
pub struct Findings {
    found: Mutex<IndexMap<FindingKey, Finding>>,
    /// Those that there was no room for.
    lost: AtomicU64,
    log: Option<PathBuf>,
}

impl Findings {
    pub(crate) fn from_env() -> Findings {
        Findings {
            log: std::env::var_os("MARGAY_CHECK_LOG").map(PathBuf::from),
            ..Findings::default()
        }
    }

    /// Notes what a CTA of a kernel did; `source_of` tells where that is.
    pub(crate) fn note(
        &self,
        kernel: &str,
        cta: &CtaInfo,
        finding: &SyncFinding,
        source: Option<SourceLine>,
    ) {
        let line = finding.loc.ptx_line;
        let ptx_line = (line != 0).then_some(line);
        let key = (kernel.to_owned(), ptx_line, finding.what);
        let mut found = self.found.lock();
        if let Some(known) = found.get_mut(&key) {
            known.count += 1;
            return;
        }
        if found.len() == MOST {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let finding = Finding {
            what: finding.what,
            operation: finding.opcode.name(),
            kernel: kernel.to_owned(),
            cta: cta.index,
            warp: (finding.warp, finding.lanes),
            ptx_line,
            source,
            count: 1,
        };
        self.tell(&finding);
        found.insert(key, finding);
    }

    fn tell(&self, finding: &Finding) {
        crate::error::tell(finding);
        if let Some(path) = &self.log {
            // One write, so that lines of several processes stay whole.
            let line = format!("{finding}\n");
            let file = OpenOptions::new().create(true).append(true).open(path);
            if let Err(error) =
                without_size_signal(|| file.and_then(|mut file| file.write_all(line.as_bytes())))
            {
                tracing::error!(%error, path = %path.display(), "cannot write what was found");
            }
        }
    }

    /// All that was found, in order, and how much more there was no room for. Nothing of it stays.
    pub(crate) fn take(&self) -> (Vec<Finding>, u64) {
        let found = std::mem::take(&mut *self.found.lock());
        let lost = self.lost.swap(0, Ordering::Relaxed);
        (found.into_values().collect(), lost)
    }
}
