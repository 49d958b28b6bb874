//! Checking runs: they report operations that CUDA and PTX leave undefined, while kernels otherwise run as usual.
//!
//! `MARGAY_CHECK=sync` (or [`crate::RuntimeBuilder::check`]) checks how threads wait for each other: member masks,
//! source lanes of shuffles, barriers in divergent code, and the IDs and thread counts of barriers ([`Undefined`]).
//! Kernels compute the same results as in a normal run. They run lane by lane, so that the checker sees every warp
//! operation.
//!
//! A finding is reported once for each combination of kernel, PTX line and kind of undefined behaviour. It is written
//! to standard error and to the file that `MARGAY_CHECK_LOG` names, and [`crate::Runtime::take_findings`] returns it.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
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
    /// Undefined synchronisation between threads.
    Sync,
}

impl Check {
    /// Returns the check with this name in `MARGAY_CHECK`.
    pub fn named(name: &str) -> Option<Check> {
        (name == "sync").then_some(Check::Sync)
    }

    /// Returns the check that `MARGAY_CHECK` selects.
    pub(crate) fn from_env() -> Option<Check> {
        Check::named(&crate::environment::env("MARGAY_CHECK")?)
    }
}

/// A finding of a checking run.
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
    /// The kind of undefined behaviour.
    pub what: Undefined,
    /// The name of the operation in PTX.
    pub operation: &'static str,
    /// The kernel's (mangled) name.
    pub kernel: String,
    /// The block in which the finding first occurred.
    pub cta: [u32; 3],
    /// The index of the warp in that block, and the mask of the lanes concerned.
    pub warp: (u32, u32),
    /// The line of the PTX text, counted from 1.
    pub ptx_line: Option<u32>,
    /// The line of the source that the PTX was compiled from.
    pub source: Option<SourceLine>,
    /// The number of blocks in which the finding occurred.
    pub count: u64,
}

/// Prefix of a remark's text, after the name of the check.
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

/// Maximum number of findings that are kept. Further findings are only counted.
const MOST: usize = 1 << 14;

/// Identifies a finding: kernel, PTX line and kind of undefined behaviour.
type FindingKey = (String, Option<u32>, Undefined);

/// The findings of all launches of a machine.
#[derive(Debug, Default)]
pub struct Findings {
    found: Mutex<IndexMap<FindingKey, Finding>>,
    /// Number of findings that were dropped because the table was full.
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

    /// Records a finding in a CTA of `kernel`. `source` is the source line of the operation.
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
            // The line is written in a single call, so that lines of several processes do not mix.
            let line = format!("{finding}\n");
            // Without the flag, opening a pipe would wait for its reader.
            let file = OpenOptions::new()
                .create(true)
                .append(true)
                .custom_flags(libc::O_NONBLOCK)
                .open(path);
            if let Err(error) =
                without_size_signal(|| file.and_then(|mut file| file.write_all(line.as_bytes())))
            {
                tracing::error!(%error, path = %path.display(), "cannot write what was found");
            }
        }
    }

    /// Removes and returns all findings in the order in which they were found, and the number of dropped findings.
    pub(crate) fn take(&self) -> (Vec<Finding>, u64) {
        let found = std::mem::take(&mut *self.found.lock());
        let lost = self.lost.swap(0, Ordering::Relaxed);
        (found.into_values().collect(), lost)
    }
}
