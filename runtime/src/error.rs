//! Errors, and the CUDA result codes that correspond to them.
//!
//! Every fallible operation of this crate returns an [`Error`]. Each variant corresponds to one
//! result code of the CUDA driver interface. The exceptions are [`Error::Capture`] and
//! [`Error::Fault`], whose result code depends on the [`CaptureError`] or the [`FaultKind`]. A
//! failure of device code or of other submitted work is a [`Fault`]. A fault is *sticky*: every
//! later call that needs the context returns the same fault until the context is reset or
//! destroyed.

use margay_ir::function::SourceLoc;
use margay_ir::module::Module;
use std::fmt;
use std::sync::Arc;

/// The result of most operations of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failed operation. The corresponding `CUresult` is given in brackets after each variant.
///
/// ```
/// use margay::Error;
///
/// let rt = margay::Runtime::new()?;
/// let Err(error) = rt.load_ptx(".version 7.0\n.target sm_80\n.entry k() { nonsense; }") else {
///     panic!("there is no such instruction");
/// };
/// assert!(matches!(error, Error::InvalidPtx { .. }));
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operation does not permit the value of an argument [1 INVALID_VALUE].
    #[error("invalid value: {0}")]
    InvalidValue(String),
    /// Device (or pinned host) memory is exhausted [2 OUT_OF_MEMORY].
    #[error("out of memory: {requested} bytes requested, {free} free")]
    OutOfMemory {
        /// Bytes requested.
        requested: u64,
        /// Bytes that were free.
        free: u64,
    },
    /// The runtime is not initialised, or this process is the child of a fork [3 NOT_INITIALIZED].
    #[error("the runtime is not initialised in this process")]
    NotInitialized,
    /// The process is exiting [4 DEINITIALIZED].
    #[error("the runtime is shutting down")]
    Deinitialized,
    /// No device is visible [100 NO_DEVICE].
    #[error("no device is visible (CUDA_VISIBLE_DEVICES)")]
    NoDevice,
    /// No device has this ordinal [101 INVALID_DEVICE].
    #[error("no device {0}")]
    InvalidDevice(i32),
    /// The format of the image is not recognised [200 INVALID_IMAGE].
    #[error("invalid image: {0}")]
    InvalidImage(String),
    /// There is no current context, or the context cannot be used here [201 INVALID_CONTEXT].
    #[error("invalid context: {0}")]
    InvalidContext(String),
    /// The image contains no PTX, only machine code of a GPU [209 NO_BINARY_FOR_GPU].
    #[error("no PTX in the image: {0}")]
    NoBinary(String),
    /// The device does not have this limit [215 UNSUPPORTED_LIMIT].
    #[error("unsupported limit {0}")]
    UnsupportedLimit(i32),
    /// Peer access between these devices is impossible [217 PEER_ACCESS_UNSUPPORTED].
    #[error("peer access is not supported between these devices")]
    PeerAccessUnsupported,
    /// The PTX does not compile; `log` holds the rendered diagnostics [218 INVALID_PTX].
    #[error("invalid PTX:\n{log}")]
    InvalidPtx {
        /// Rendered diagnostics, one after the other.
        log: String,
    },
    /// The version of the PTX is later than the latest version that Margay supports
    /// [222 UNSUPPORTED_PTX_VERSION].
    #[error("unsupported PTX version: {0}")]
    UnsupportedPtxVersion(String),
    /// The source file cannot be used [300 INVALID_SOURCE].
    #[error("invalid source: {0}")]
    InvalidSource(String),
    /// The file does not exist [301 FILE_NOT_FOUND].
    #[error("file not found: {0}")]
    FileNotFound(String),
    /// None of the inputs defines the `.extern` symbol [302 SHARED_OBJECT_SYMBOL_NOT_FOUND].
    #[error("unresolved symbol: {0}")]
    UnresolvedSymbol(String),
    /// The operating system returned an error [304 OPERATING_SYSTEM].
    #[error("operating system: {0}")]
    OperatingSystem(String),
    /// The handle is not valid, or no longer valid [400 INVALID_HANDLE].
    #[error("invalid handle: {0}")]
    InvalidHandle(String),
    /// The state of the object does not permit the operation [401 ILLEGAL_STATE].
    #[error("illegal state: {0}")]
    IllegalState(String),
    /// The named symbol, kernel, attribute or other object does not exist [500 NOT_FOUND].
    #[error("not found: {0}")]
    NotFound(String),
    /// Work is not complete yet; a status, not a failure [600 NOT_READY].
    #[error("not ready")]
    NotReady,
    /// The launch needs more than the device or the kernel permits [701 LAUNCH_OUT_OF_RESOURCES].
    #[error("launch out of resources: {0}")]
    LaunchOutOfResources(String),
    /// Peer access is enabled already [704 PEER_ACCESS_ALREADY_ENABLED].
    #[error("peer access is already enabled")]
    PeerAccessAlreadyEnabled,
    /// Peer access is not enabled [705 PEER_ACCESS_NOT_ENABLED].
    #[error("peer access is not enabled")]
    PeerAccessNotEnabled,
    /// The primary context is active, and the operation requires an inactive context [708 PRIMARY_CONTEXT_ACTIVE].
    #[error("the primary context is active")]
    PrimaryContextActive,
    /// The object's context was destroyed [709 CONTEXT_IS_DESTROYED].
    #[error("the context is destroyed")]
    ContextDestroyed,
    /// The host memory is registered already [712 HOST_MEMORY_ALREADY_REGISTERED].
    #[error("the host memory is already registered")]
    HostMemoryAlreadyRegistered,
    /// The host memory is not registered [713 HOST_MEMORY_NOT_REGISTERED].
    #[error("the host memory is not registered")]
    HostMemoryNotRegistered,
    /// A cooperative launch has more CTAs than can be resident at the same time [720 COOPERATIVE_LAUNCH_TOO_LARGE].
    #[error("cooperative launch too large: {ctas} CTAs, {resident} can be resident")]
    CooperativeLaunchTooLarge {
        /// Number of CTAs requested.
        ctas: u64,
        /// Number of CTAs that can be resident at the same time.
        resident: u64,
    },
    /// A cluster has more CTAs than the kernel and the device permit [912 INVALID_CLUSTER_SIZE].
    #[error("invalid cluster size: {0}")]
    InvalidClusterSize(String),
    /// A query would lose information [402 LOSSY_QUERY].
    #[error("the query would lose information: {0}")]
    LossyQuery(String),
    /// A call broke a rule of stream capture; [`CaptureError`] determines which of the codes 900 to 908 applies.
    #[error("stream capture: {0}")]
    Capture(CaptureError),
    /// An executable graph cannot be updated with these changes [910 GRAPH_EXEC_UPDATE_FAILURE].
    #[error("graph update: {0}")]
    GraphUpdate(String),
    /// The operation is not permitted now, for example a call that waits for work in a host function [800
    /// NOT_PERMITTED].
    #[error("not permitted: {0}")]
    NotPermitted(String),
    /// Margay does not support the feature that `what` names [801 NOT_SUPPORTED].
    #[error("not supported: {what}")]
    Unsupported {
        /// The unsupported instruction, entry point or feature.
        what: String,
    },
    /// Device code or other submitted work failed; the error is sticky. [`FaultKind`] determines which of the codes 700
    /// to 702, 710 and 714 to 719 applies.
    #[error("{0}")]
    Fault(Arc<Fault>),
    /// A defect of Margay [999 UNKNOWN].
    #[error("internal error: {0}")]
    Internal(String),
}

impl Error {
    /// Returns an [`Error::InvalidValue`] with its reason.
    pub fn invalid(reason: impl Into<String>) -> Error {
        Error::InvalidValue(reason.into())
    }

    /// Returns an [`Error::Unsupported`] that names the missing feature.
    pub fn unsupported(what: impl Into<String>) -> Error {
        Error::Unsupported { what: what.into() }
    }

    /// Returns whether the error is a [`Fault`], which is sticky.
    pub fn is_sticky(&self) -> bool {
        matches!(self, Error::Fault(_))
    }
}

/// The rules of stream capture that a call can break. The `CUresult` is given in brackets after each variant.
///
/// ```
/// use margay::{CaptureError, Error};
///
/// let error = Error::from(CaptureError::Merge);
/// assert!(matches!(error, Error::Capture(CaptureError::Merge)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum CaptureError {
    /// The operation is not permitted while a stream is capturing [900 STREAM_CAPTURE_UNSUPPORTED].
    #[error("the operation is not permitted while a stream is capturing")]
    Unsupported,
    /// An earlier error has invalidated the capture [901 STREAM_CAPTURE_INVALIDATED].
    #[error("an earlier error invalidated the capture")]
    Invalidated,
    /// Two captures would be merged [902 STREAM_CAPTURE_MERGE].
    #[error("two captures would be merged")]
    Merge,
    /// The capture began in another stream [903 STREAM_CAPTURE_UNMATCHED].
    #[error("the capture did not begin in this stream")]
    Unmatched,
    /// A branch has not joined the stream where the capture began [904 STREAM_CAPTURE_UNJOINED].
    #[error("a branch of the capture has not joined the stream where it began")]
    Unjoined,
    /// The work depends on work outside of the capture [905 STREAM_CAPTURE_ISOLATION].
    #[error("a dependency would cross the capture's border")]
    Isolation,
    /// The call uses the legacy stream, which would have to wait for work that is being captured
    /// [906 STREAM_CAPTURE_IMPLICIT].
    #[error("the operation implies a dependency on the legacy stream")]
    Implicit,
    /// The event was last recorded in a capture [907 CAPTURED_EVENT].
    #[error("the event was last recorded in a capturing stream")]
    CapturedEvent,
    /// The capture began in another thread [908 STREAM_CAPTURE_WRONG_THREAD].
    #[error("the capture began in another thread")]
    WrongThread,
}

impl From<CaptureError> for Error {
    fn from(error: CaptureError) -> Error {
        Error::Capture(error)
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        Error::Fault(Arc::new(fault))
    }
}

/// The kinds of failures of device code and of other submitted work. The `CUresult` is given in brackets after each
/// variant.
///
/// ```
/// use margay::{Error, FaultKind};
///
/// let rt = margay::Runtime::new()?;
/// let module = rt.load_ptx(
///     ".version 7.0 .target sm_80 .address_size 64 .visible .entry stop() { trap; }",
/// )?;
/// rt.launch(&module.kernel("stop")?, margay::LaunchConfig::new(1, 1), ())?;
/// let Err(Error::Fault(fault)) = rt.synchronize() else { panic!("the kernel traps") };
/// assert_eq!(fault.kind, FaultKind::LaunchFailed);
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// An access to memory that is not mapped or does not permit the access [700 ILLEGAL_ADDRESS].
    IllegalAddress,
    /// The launch exceeded its time limit [702 LAUNCH_TIMEOUT].
    Timeout,
    /// A barrier or collective waits for threads that can never arrive [702 LAUNCH_TIMEOUT].
    Deadlock,
    /// Threads wait for memory that nothing will change [702 LAUNCH_TIMEOUT].
    Hang,
    /// An assertion in device code failed [710 ASSERT].
    Assert,
    /// The stack of a device thread is exhausted [714 HARDWARE_STACK_ERROR].
    Stack,
    /// An instruction that cannot be executed [715 ILLEGAL_INSTRUCTION].
    IllegalInstruction,
    /// An access at an address that is not aligned to the size of the access [716 MISALIGNED_ADDRESS].
    MisalignedAddress,
    /// An operation on one state space with a generic address outside this space [717 INVALID_ADDRESS_SPACE].
    InvalidAddressSpace,
    /// A jump or call to an address that is not code [718 INVALID_PC].
    InvalidPc,
    /// The system has no memory for the shared or local memory of a block [701 LAUNCH_OUT_OF_RESOURCES].
    OutOfResources,
    /// Any other failure that ends a kernel, for example `trap` [719 LAUNCH_FAILED].
    LaunchFailed,
    /// A running kernel reached an op that Margay cannot execute [719 LAUNCH_FAILED].
    Unsupported,
}

impl FaultKind {
    /// Describes the failure in a few words.
    pub(crate) fn text(self) -> &'static str {
        match self {
            FaultKind::IllegalAddress => "illegal memory access",
            FaultKind::Timeout => "time limit exceeded",
            FaultKind::Deadlock => "wait that can never end",
            FaultKind::Hang => "wait for memory that nothing changes",
            FaultKind::Assert => "assertion failed",
            FaultKind::Stack => "device stack exhausted",
            FaultKind::IllegalInstruction => "illegal instruction",
            FaultKind::MisalignedAddress => "misaligned address",
            FaultKind::InvalidAddressSpace => "invalid address space",
            FaultKind::InvalidPc => "invalid program counter",
            FaultKind::OutOfResources => "out of resources",
            FaultKind::LaunchFailed => "launch failed",
            FaultKind::Unsupported => "unsupported operation",
        }
    }
}

/// A line of the source that PTX was compiled from, displayed as `kernel.cu:12 (inlined: helper.h:5, detail.h:9)`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceLine {
    /// The file.
    pub file: String,
    /// The line, counted from 1; for inlined code, the line of the outermost call.
    pub line: u32,
    /// File and line in each inlined function, from the outermost to the innermost.
    pub inlined: Vec<(String, u32)>,
}

impl SourceLine {
    /// Returns the source file and line of a position, or `None` if they are unknown. For inlined
    /// code, the result is the file and line of the outermost call, because this call is in user
    /// code, whereas inlined functions are often in library headers. For inlined code, `inlined`
    /// lists the positions in the inlined functions, from the outermost to the innermost.
    pub(crate) fn of(module: &Module, loc: SourceLoc) -> Option<SourceLine> {
        let (locs, files) = (&module.locs, &module.files);
        let mut lines = Vec::new();
        let mut next = (loc.loc as usize).checked_sub(1);
        while let Some(place) = next.and_then(|index| locs.get(index)) {
            if let Some(file) = files.get(place.file as usize) {
                lines.push((file.clone(), place.line));
            }
            next = place.inlined_at.map(|at| at as usize);
        }
        let (file, line) = lines.pop()?;
        lines.reverse();
        Some(SourceLine {
            file,
            line,
            inlined: lines,
        })
    }
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)?;
        for (index, (file, line)) in self.inlined.iter().enumerate() {
            let start = if index == 0 { " (inlined: " } else { ", " };
            write!(f, "{start}{file}:{line}")?;
        }
        match self.inlined.is_empty() {
            true => Ok(()),
            false => f.write_str(")"),
        }
    }
}

/// Detail text of the fault of a launch that was stopped at the request of the host.
pub(crate) const STOPPED: &str = "stopped";

/// A failure of device code or of other submitted work, with all available information about where it occurred.
///
/// ```
/// use margay::{Fault, FaultKind};
///
/// let fault = Fault::new(FaultKind::Assert, "check").at_cta([2, 0, 0]).with_detail("n > 0");
/// assert_eq!(fault.to_string(), "assertion failed in kernel check, block (2,0,0): n > 0");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The kind of failure.
    pub kind: FaultKind,
    /// The kernel's (mangled) name; empty if the work that failed is not a kernel.
    pub kernel: String,
    /// A description of the failed work, for example `a copy or fill`, if this work is not a
    /// kernel; otherwise empty.
    pub operation: String,
    /// `%ctaid` of the thread that caused the fault.
    pub cta: Option<[u32; 3]>,
    /// `%tid` of the thread that caused the fault.
    pub thread: Option<[u32; 3]>,
    /// The address accessed.
    pub address: Option<u64>,
    /// Whether the access that caused the fault was a write; `None` if this is unknown, or if no
    /// access caused the fault.
    pub write: Option<bool>,
    /// Line of the failed instruction in the PTX text.
    pub ptx_line: Option<u32>,
    /// Source line of the failed instruction, from the PTX directive `.loc`.
    pub source: Option<SourceLine>,
    /// Further details, for example the list of waiting threads or the text of an assertion.
    pub detail: String,
}

impl Fault {
    /// Returns a fault with the kind and the kernel. All other fields are empty.
    pub fn new(kind: FaultKind, kernel: impl Into<String>) -> Fault {
        Fault {
            kind,
            kernel: kernel.into(),
            operation: String::new(),
            cta: None,
            thread: None,
            address: None,
            write: None,
            ptx_line: None,
            source: None,
            detail: String::new(),
        }
    }

    /// Returns the fault of work that is not a kernel.
    pub(crate) fn of_operation(kind: FaultKind, operation: &str) -> Fault {
        Fault {
            operation: operation.to_owned(),
            ..Fault::new(kind, "")
        }
    }

    /// Returns the fault of a launch that was stopped at the request of the host.
    pub(crate) fn stopped(kernel: &str) -> Fault {
        Fault::new(FaultKind::LaunchFailed, kernel).with_detail(STOPPED)
    }

    /// Returns whether this is the fault of a launch that was stopped at the request of the host.
    pub(crate) fn is_stop(&self) -> bool {
        self.kind == FaultKind::LaunchFailed && self.detail == STOPPED
    }

    /// Sets the CTA's index in the grid.
    pub fn at_cta(mut self, cta: [u32; 3]) -> Fault {
        self.cta = Some(cta);
        self
    }

    /// Sets [`Fault::detail`].
    pub fn with_detail(mut self, detail: impl Into<String>) -> Fault {
        self.detail = detail.into();
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.operation.is_empty() {
            true => write!(f, "{} in kernel {}", self.kind.text(), self.kernel)?,
            false => write!(f, "{} in {}", self.kind.text(), self.operation)?,
        }
        if let Some([x, y, z]) = self.cta {
            write!(f, ", block ({x},{y},{z})")?;
        }
        if let Some([x, y, z]) = self.thread {
            write!(f, ", thread ({x},{y},{z})")?;
        }
        if let Some(address) = self.address {
            let what = match self.write {
                Some(true) => "write to",
                Some(false) => "read of",
                None => "access to",
            };
            write!(f, ", {what} {address:#x}")?;
        }
        if let Some(source) = &self.source {
            write!(f, ", {source}")?;
        }
        if let Some(line) = self.ptx_line {
            write!(f, ", PTX line {line}")?;
        }
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        Ok(())
    }
}

impl std::error::Error for Fault {}

/// Writes `what` as a line to standard error, unless `MARGAY_QUIET` is set.
pub(crate) fn tell(what: &impl fmt::Display) {
    if std::env::var_os("MARGAY_QUIET").is_none() {
        margay_jit::files::tell(format_args!("margay: {what}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_name_the_kernel_or_the_operation() {
        let kernel = Fault::new(FaultKind::IllegalAddress, "add");
        assert_eq!(kernel.to_string(), "illegal memory access in kernel add");
        let copy = Fault::of_operation(FaultKind::IllegalAddress, "a copy or fill");
        let copy = copy.with_detail("freed");
        assert_eq!(
            copy.to_string(),
            "illegal memory access in a copy or fill: freed"
        );
    }
}
