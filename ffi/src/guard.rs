//! The code that surrounds every entry point: it checks the initialisation state and stream
//! captures, catches panics, prevents the cancellation of the thread and traces the call.
//!
//! Invariants: no panic propagates from an entry point to its caller, and no call is a cancellation
//! point of its thread. In a process that was forked after the initialisation of the library, calls
//! neither take a lock nor use the runtime.

use std::ffi::c_void;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Instant;

use margay::cancellation::Disabled;
use margay::fault::FloatMode;
use margay::files::tell;

pub(crate) use crate::arguments::{Arguments, Traced};
use crate::checking;
use crate::error_log as log;
use crate::result::{CuResult, Served};
use crate::tools;

/// The stream that handle 0 denotes in an entry point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DefaultStream {
    /// The context's legacy null stream.
    Legacy,
    /// The calling thread's stream (exports that end in `_ptds` and `_ptsz`).
    PerThread,
}

/// The properties of one entry point.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) name: &'static str,
    pub(crate) default_stream: DefaultStream,
    /// Whether the call may wait for work that is not captured. A stream capture can forbid such calls.
    unsafe_in_capture: bool,
    warned: AtomicBool,
}

impl Call {
    pub(crate) const fn new(name: &'static str, default_stream: DefaultStream) -> Call {
        Call {
            name,
            default_stream,
            unsafe_in_capture: is_in(name, UNSAFE_IN_CAPTURE),
            warned: AtomicBool::new(false),
        }
    }
}

/// The symbols of functions that may synchronise with work that is not captured. A symbol is the name of an export
/// without version and stream suffix, and stands for all versions of the export. Functions of events are not in this
/// list, because `serve::event` must first check whether the event was recorded in a capture.
const UNSAFE_IN_CAPTURE: &[&str] = &[
    "cuArray3DCreate",
    "cuArrayCreate",
    "cuArrayDestroy",
    "cuMemAlloc",
    "cuMemAllocHost",
    "cuMemAllocManaged",
    "cuMemAllocPitch",
    "cuMemFree",
    "cuMemFreeHost",
    "cuMemHostAlloc",
    "cuMemHostRegister",
    "cuMemHostUnregister",
    "cuMemcpy",
    "cuMemcpy2D",
    "cuMemcpy2DUnaligned",
    "cuMemcpy3D",
    "cuMemcpy3DPeer",
    "cuMemcpyAtoA",
    "cuMemcpyAtoD",
    "cuMemcpyAtoH",
    "cuMemcpyDtoA",
    "cuMemcpyDtoD",
    "cuMemcpyDtoH",
    "cuMemcpyHtoA",
    "cuMemcpyHtoD",
    "cuMemcpyPeer",
    "cuMipmappedArrayCreate",
    "cuMipmappedArrayDestroy",
    "cuStreamQuery",
    "cuStreamSynchronize",
];

/// Returns whether an export is a version of one of `symbols`. The initialiser of each static [`Call`] evaluates this
/// function at compile time.
const fn is_in(export: &str, symbols: &[&str]) -> bool {
    let mut at = 0;
    while at < symbols.len() {
        if is_version_of(export.as_bytes(), symbols[at].as_bytes()) {
            return true;
        }
        at += 1;
    }
    false
}

/// Returns whether `export` is `symbol`, or `symbol` with a suffix such as `_v2` or `_ptds`.
const fn is_version_of(export: &[u8], symbol: &[u8]) -> bool {
    if export.len() < symbol.len() {
        return false;
    }
    let mut at = 0;
    while at < symbol.len() {
        if export[at] != symbol[at] {
            return false;
        }
        at += 1;
    }
    export.len() == symbol.len() || export[symbol.len()] == b'_'
}

/// Symbols for which CUDA documents `INVALID_VALUE`, not `INVALID_HANDLE`, as the result for an invalid handle.
const HANDLES_ARE_VALUES: &[&str] = &[
    "cuArrayGetMemoryRequirements",
    "cuArrayGetSparseProperties",
    "cuFuncGetModule",
    "cuFuncGetName",
    "cuFuncGetParamCount",
    "cuFuncGetParamInfo",
    "cuFuncSetCacheConfig",
    "cuFuncSetSharedMemConfig",
    "cuKernelGetName",
    "cuKernelGetParamCount",
    "cuKernelGetParamInfo",
    "cuLaunch",
    "cuLaunchGrid",
    "cuLibraryUnload",
    "cuMemAllocAsync",
    "cuMemAllocFromPoolAsync",
    "cuMemFreeAsync",
    "cuMemPrefetchAsync",
    "cuMemcpyAtoA",
    "cuMemcpyAtoD",
    "cuMemcpyAtoH",
    "cuMemcpyDtoA",
    "cuMemcpyHtoA",
    "cuMemsetD16Async",
    "cuMemsetD2D16Async",
    "cuMemsetD2D32Async",
    "cuMemsetD2D8Async",
    "cuMemsetD32Async",
    "cuMemsetD8Async",
    "cuMipmappedArrayGetMemoryRequirements",
    "cuMipmappedArrayGetSparseProperties",
    "cuModuleGetFunction",
    "cuModuleGetGlobal",
    "cuModuleGetSurfRef",
    "cuModuleGetTexRef",
    "cuModuleUnload",
    "cuOccupancyAvailableDynamicSMemPerBlock",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
    "cuOccupancyMaxActiveClusters",
    "cuOccupancyMaxPotentialBlockSize",
    "cuOccupancyMaxPotentialBlockSizeWithFlags",
    "cuOccupancyMaxPotentialClusterSize",
    "cuParamSetSize",
    "cuParamSetTexRef",
    "cuParamSetf",
    "cuParamSeti",
    "cuParamSetv",
    "cuStreamBatchMemOp",
    "cuStreamBeginCapture",
    "cuStreamBeginCaptureToGraph",
    "cuStreamCopyAttributes",
    "cuStreamEndCapture",
    "cuStreamGetCaptureInfo",
    "cuStreamIsCapturing",
    "cuStreamUpdateCaptureDependencies",
    "cuStreamWaitValue32",
    "cuStreamWaitValue64",
    "cuStreamWriteValue32",
    "cuStreamWriteValue64",
    "cuSurfRefGetArray",
    "cuSurfRefSetArray",
    "cuTexRefCreate",
    "cuTexRefDestroy",
    "cuTexRefGetAddress",
    "cuTexRefGetAddressMode",
    "cuTexRefGetArray",
    "cuTexRefGetBorderColor",
    "cuTexRefGetFilterMode",
    "cuTexRefGetFlags",
    "cuTexRefGetFormat",
    "cuTexRefGetMaxAnisotropy",
    "cuTexRefGetMipmapFilterMode",
    "cuTexRefGetMipmapLevelBias",
    "cuTexRefGetMipmapLevelClamp",
    "cuTexRefGetMipmappedArray",
    "cuTexRefSetAddress",
    "cuTexRefSetAddress2D",
    "cuTexRefSetAddressMode",
    "cuTexRefSetArray",
    "cuTexRefSetBorderColor",
    "cuTexRefSetFilterMode",
    "cuTexRefSetFlags",
    "cuTexRefSetFormat",
    "cuTexRefSetMaxAnisotropy",
    "cuTexRefSetMipmapFilterMode",
    "cuTexRefSetMipmapLevelBias",
    "cuTexRefSetMipmapLevelClamp",
    "cuTexRefSetMipmappedArray",
];

impl Call {
    /// Returns the result of this call for an invalid handle.
    #[cold]
    pub(crate) fn bad_handle(&self) -> CuResult {
        let symbol = symbol_of(self.name);
        // Names that begin with `cuGraphics` belong to graphics, not to graphs.
        let of_graphs = is_of_graphs(symbol);
        match of_graphs || HANDLES_ARE_VALUES.binary_search(&symbol).is_ok() {
            true => CuResult::INVALID_VALUE,
            false => CuResult::INVALID_HANDLE,
        }
    }
}

/// Returns whether a symbol belongs to graph management. For these symbols, CUDA documents `INVALID_VALUE` as the
/// result for every invalid handle.
fn is_of_graphs(symbol: &str) -> bool {
    let rest = symbol.strip_prefix("cuGraph");
    rest.is_some_and(|rest| !rest.starts_with("ics"))
}

/// Functions that only read constants. They also work in a forked child process.
const CONSTANT: &[&str] = &[
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGetProcAddress",
    "cuGetProcAddress_v2",
];

/// The entry points that are permitted before `cuInit`.
const BEFORE_INIT: &[&str] = &[
    "cuInit",
    "cuLogsCurrent",
    "cuLogsDumpToFile",
    "cuLogsDumpToMemory",
    "cuLogsRegisterCallback",
    "cuLogsUnregisterCallback",
    "cuCoredumpGetAttributeGlobal",
    "cuCoredumpSetAttributeGlobal",
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuGetExportTable",
    "cuGetProcAddress",
    "cuGetProcAddress_v2",
    "cuModuleGetLoadingMode",
    "cuProfilerInitialize",
    ERROR_LOG_SWITCH,
];

/// The name of the export table slot whose function NVIDIA's runtimes call before `cuInit`.
pub(crate) const ERROR_LOG_SWITCH: &str = "error log switch";

const UNINITIALIZED: u8 = 0;
const READY: u8 = 1;
const FORKED: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(UNINITIALIZED);

/// Marks the library as initialised, and registers a fork handler that marks the library as unusable in a child
/// process.
///
/// # Errors
/// Returns `NOT_INITIALIZED` in the child of a process that initialised the library.
pub(crate) fn set_ready() -> Served {
    static AT_FORK: OnceLock<()> = OnceLock::new();
    match STATE.load(Ordering::Acquire) {
        FORKED => return Err(CuResult::NOT_INITIALIZED),
        READY => return Ok(()),
        _ => {}
    }
    AT_FORK.get_or_init(|| {
        // SAFETY: the handler only stores to an atomic, which is allowed after a fork; the
        // library is never unloaded, so the handler stays valid.
        unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    });
    STATE.store(READY, Ordering::Release);
    checking::announce_exit();
    Ok(())
}

/// Returns whether the library is initialised and this process is not a forked child process.
pub(crate) fn is_ready() -> bool {
    STATE.load(Ordering::Acquire) == READY
}

/// Returns whether this process is the child of a process that initialised the library.
fn is_forked() -> bool {
    STATE.load(Ordering::Acquire) == FORKED
}

extern "C" fn forked() {
    STATE.store(FORKED, Ordering::Release);
}

fn check_state(name: &str) -> Served {
    match STATE.load(Ordering::Acquire) {
        READY => Ok(()),
        UNINITIALIZED if BEFORE_INIT.contains(&name) => Ok(()),
        _ => Err(CuResult::NOT_INITIALIZED),
    }
}

/// Checks whether the library is initialised and whether a stream capture forbids the call, runs
/// the body of the entry point, and returns the result. If the body panics, returns `UNKNOWN`. If
/// the body returns an error other than `NOT_READY`, writes the call to the driver's log. If
/// environment variables request this, also traces the call, or writes it to the log of a checking
/// run.
#[inline]
pub(crate) fn enter(
    call: &'static Call,
    arguments: Arguments<'_>,
    body: impl FnOnce() -> Served,
) -> CuResult {
    let _uncancelled = Disabled::begin();
    match tools::observe_calls() && !is_forked() {
        false => examined(call, arguments, body),
        true => tools::around(call.name, arguments, || examined(call, arguments, body)),
    }
}

#[inline]
fn examined(
    call: &'static Call,
    arguments: Arguments<'_>,
    body: impl FnOnce() -> Served,
) -> CuResult {
    if !checking::any() || is_forked() {
        return checked(call, arguments, body);
    }
    checking::begin(call.name);
    let start = Instant::now();
    let code = checked(call, arguments, body);
    list(call.name, arguments, code, start);
    code
}

/// Writes a completed call to the log of a checking run.
fn list(name: &'static str, arguments: Arguments<'_>, code: CuResult, start: Instant) {
    if is_ready() {
        checking::list_call(name, &Shown(arguments), code, start);
    }
}

#[inline]
fn checked(
    call: &'static Call,
    arguments: Arguments<'_>,
    body: impl FnOnce() -> Served,
) -> CuResult {
    if let Err(code) = check_state(call.name) {
        if is_forked() {
            return in_child(call, body);
        }
        checking::failed(call.name, code);
        return code;
    }
    if trace_wanted() {
        return traced(call, arguments, || {
            check_capture(call).and_then(|()| body())
        });
    }
    if call.unsafe_in_capture
        && let Err(code) = check_capture(call)
    {
        checking::failed(call.name, code);
        return code;
    }
    run(call, body)
}

/// Returns an error if an active stream capture forbids the call.
fn check_capture(call: &Call) -> Served {
    match call.unsafe_in_capture {
        true => Ok(margay::capture::check_unsafe_call()?),
        false => Ok(()),
    }
}

/// Runs a call in a forked child process. Only functions in [`CONSTANT`] run; other calls return `NOT_INITIALIZED`.
/// Threads of the parent process, which the child does not have, may have held locks of the library during the fork. A
/// failed call is therefore neither logged nor checked.
#[cold]
fn in_child(call: &Call, body: impl FnOnce() -> Served) -> CuResult {
    if !CONSTANT.contains(&call.name) {
        return CuResult::NOT_INITIALIZED;
    }
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => CuResult::SUCCESS,
        Ok(Err(code)) => code,
        Err(panic) => {
            std::mem::forget(panic);
            CuResult::UNKNOWN
        }
    }
}

fn run(call: &'static Call, body: impl FnOnce() -> Served) -> CuResult {
    margay::host_threads::note();
    let _mode = FloatMode::replacing_other();
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => CuResult::SUCCESS,
        Ok(Err(code)) => failed(call, code),
        Err(panic) => {
            // Dropping the payload could panic again, so the payload is not dropped.
            let text = panic_text(&*panic);
            warn(format_args!("{} panicked: {text}", call.name));
            std::mem::forget(panic);
            CuResult::UNKNOWN
        }
    }
}

/// Writes a failed call to the driver's log and passes the call to the checks of a checking run.
/// `NOT_READY` is not a failure, so it is not logged.
#[cold]
fn failed(call: &'static Call, code: CuResult) -> CuResult {
    if code != CuResult::NOT_READY {
        let text = code.text().and_then(|text| text.to_str().ok());
        let text = text.unwrap_or("no known result");
        log::add(
            log::Level::Error,
            &format!("{}: {code:?}, {text}", call.name),
        );
    }
    checking::failed(call.name, code);
    code
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    if let Some(text) = panic.downcast_ref::<&str>() {
        return text;
    }
    panic
        .downcast_ref::<String>()
        .map_or("(no message)", String::as_str)
}

#[cold]
fn traced(
    call: &'static Call,
    arguments: Arguments<'_>,
    body: impl FnOnce() -> Served,
) -> CuResult {
    let start = Instant::now();
    let code = run(call, body);
    print_trace(call.name, arguments, code, start);
    code
}

/// Returns an export's name without version and stream suffix.
pub(crate) fn symbol_of(export: &str) -> &str {
    let name = export
        .strip_suffix("_ptds")
        .or_else(|| export.strip_suffix("_ptsz"))
        .unwrap_or(export);
    match name.rsplit_once("_v") {
        Some((base, version)) if version.len() == 1 => base,
        _ => name,
    }
}

fn print_trace(name: &str, arguments: Arguments<'_>, code: CuResult, start: Instant) {
    let micros = start.elapsed().as_secs_f64() * 1e6;
    tell(format_args!(
        "margay: {name}({}) = {code:?} [{micros:.1} us]",
        Shown(arguments)
    ));
}

/// Returns `NOT_SUPPORTED` for an entry point without implementation, or `NOT_INITIALIZED` in a forked child process.
/// If calls are not traced, the first call of each entry point also writes a warning. In checking
/// runs, the first call causes a finding about a function that is not implemented, and every later
/// call is examined as a failed call.
#[cold]
pub(crate) fn unsupported(call: &'static Call, arguments: Arguments<'_>) -> CuResult {
    let _uncancelled = Disabled::begin();
    let code = CuResult::NOT_SUPPORTED;
    if is_forked() {
        return CuResult::NOT_INITIALIZED;
    }
    checking::begin(call.name);
    let is_first = !call.warned.swap(true, Ordering::Relaxed);
    if trace_wanted() {
        print_trace(call.name, arguments, code, Instant::now());
    } else if is_first {
        warn(format_args!("{} is not supported", call.name));
    }
    match is_first {
        true => checking::unimplemented(call.name),
        false => checking::failed(call.name, code),
    }
    if checking::any() {
        list(call.name, arguments, code, Instant::now());
    }
    code
}

/// Returns `code` for an entry point that is not implemented. `code` is the result that CUDA documents for devices
/// without the feature.
#[cold]
pub(crate) fn refuse(call: &'static Call, arguments: Arguments<'_>, code: CuResult) -> CuResult {
    enter(call, arguments, || Err(code))
}

/// Writes a warning to the `tracing` subscriber, to the driver's log and to standard error. `MARGAY_LOG=off` disables
/// only the output to standard error.
pub(crate) fn warn(text: fmt::Arguments<'_>) {
    static SILENT: OnceLock<bool> = OnceLock::new();
    tracing::warn!("{text}");
    log::add(log::Level::Warning, &text.to_string());
    if !*SILENT.get_or_init(|| std::env::var_os("MARGAY_LOG").is_some_and(|v| v == "off")) {
        tell(format_args!("margay: {text}"));
    }
}

fn trace_wanted() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    *WANTED.get_or_init(|| std::env::var_os("MARGAY_TRACE_API").is_some_and(|value| value == "1"))
}

struct Shown<'a>(Arguments<'a>);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{name}=")?;
            value.trace(f)?;
        }
        Ok(())
    }
}

impl<T> Traced for *const T {
    fn trace(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:p}", self.cast::<c_void>())
    }
}

impl<T> Traced for *mut T {
    fn trace(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:p}", self.cast::<c_void>())
    }
}

macro_rules! traced_as {
    ($format:literal: $($t:ty)*) => {$(
        impl Traced for $t {
            fn trace(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $format, self)
            }
        }
    )*};
}

traced_as!("{}": u8 i8 u16 i32 u32 usize f32);
traced_as!("{:#x}": u64);
traced_as!("{:?}": crate::types::CUmemLocation crate::types::CUeglFrame CuResult);
traced_as!("{:?}": crate::types::CUhostFn crate::types::CUstreamCallback
    crate::types::CUlogsCallback crate::types::CUoccupancyB2DSize crate::types::CUipcEventHandle crate::types::CUipcMemHandle);

macro_rules! traced_handles {
    ($($t:ident)*) => {$(
        impl Traced for crate::types::$t {
            fn trace(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }
    )*};
}

traced_handles!(
    CUarray CUasyncCallbackHandle CUcheckpointOperationHandle CUcontext CUcoredumpCallbackHandle
    CUdevResourceDesc CUeglStreamConnection CUevent CUexternalMemory CUexternalSemaphore
    CUfunction CUgraph CUgraphExec CUgraphNode CUgraphicsResource CUgreenCtx CUkernel CUlibrary
    CUlinkState CUlogsCallbackHandle CUmemoryPool CUmipmappedArray CUmodule CUstream CUsurfref
    CUtexref CUuserObject
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_unknown() {
        static CALL: Call = Call::new("cuTest", DefaultStream::Legacy);
        assert_eq!(run(&CALL, || panic!("on purpose")), CuResult::UNKNOWN);
        assert_eq!(run(&CALL, || Err(CuResult::NOT_FOUND)), CuResult::NOT_FOUND);
    }

    #[test]
    fn bad_handles_earn_what_the_documentation_names() {
        assert!(HANDLES_ARE_VALUES.is_sorted());
        let code = |name| Call::new(name, DefaultStream::Legacy).bad_handle();
        assert_eq!(code("cuStreamQuery_ptsz"), CuResult::INVALID_HANDLE);
        assert_eq!(code("cuMemsetD8Async_ptsz"), CuResult::INVALID_VALUE);
        assert_eq!(code("cuModuleGetGlobal_v2"), CuResult::INVALID_VALUE);
        assert_eq!(code("cuGraphLaunch_ptsz"), CuResult::INVALID_VALUE);
        assert_eq!(code("cuGraphicsMapResources"), CuResult::INVALID_HANDLE);
    }

    #[test]
    fn what_may_synchronise_is_known_by_name() {
        let unsafe_in_capture = |name| is_in(name, UNSAFE_IN_CAPTURE);
        assert!(unsafe_in_capture("cuMemAlloc_v2"));
        assert!(unsafe_in_capture("cuMemcpyHtoD_v2_ptds"));
        assert!(unsafe_in_capture("cuStreamQuery"));
        assert!(!unsafe_in_capture("cuMemAllocAsync"));
        assert!(!unsafe_in_capture("cuMemcpyAsync_ptsz"));
        assert!(!unsafe_in_capture("cuMem"));
    }

    #[test]
    fn the_trace_names_the_arguments() {
        let shown = Shown(&[("bytes", &16usize), ("dptr", &0x10u64)]).to_string();
        assert_eq!(shown, "bytes=16, dptr=0x10");
    }
}
