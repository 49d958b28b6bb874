//! Checks of the API in checking runs ([`margay::checks`]): failed calls, wrong pointers, destroyed objects.
//!
//! Each check is one function, which returns at once if the process is not a checking run. If a
//! check has recorded a more specific finding than [`Kind::FailedCall`] about a call, no
//! [`Kind::FailedCall`] is recorded for this call.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::sync::OnceLock;
use std::time::Instant;

use margay::checks::{
    ApiErrors, CallStack, Finding, Kind, ListedCalls, Options, Tool, Tools, grouped_bytes,
};
use margay::memory::Allocation;
use margay::{Direction, PointerKind, Runtime, Transfer};

use crate::result::{CuResult, Served};
use crate::{debugger, readable};

fn tools() -> Tools {
    static TOOLS: OnceLock<Tools> = OnceLock::new();
    *TOOLS.get_or_init(Tools::from_env)
}

/// Returns whether this process belongs to a checking run.
pub(crate) fn any() -> bool {
    !tools().is_empty()
}

/// Returns whether this is a checking run that uses `tool`.
pub(crate) fn selected(tool: Tool) -> bool {
    tools().contains(tool)
}

/// Returns the options of the checking run, or `None` if this is no checking run.
fn options() -> Option<&'static Options> {
    Runtime::global().ok()?.check_options()
}

/// Returns an error if the options of the run forbid the execution of calls with wrong arguments.
fn refuse_invalid() -> Served {
    match options() {
        Some(options) if options.skips_invalid => Err(CuResult::INVALID_VALUE),
        _ => Ok(()),
    }
}

/// Returns the current call stack if this run records which calls create and destroy objects.
pub(crate) fn creation() -> Option<CallStack> {
    (selected(Tool::Leak) || selected(Tool::Api)).then(CallStack::capture)
}

/// In a checking run, writes to the log that this process examines memory and objects when it exits.
pub(crate) fn announce_exit() {
    if any()
        && let Ok(runtime) = Runtime::global()
    {
        runtime.announce_exit();
    }
}

/// Records a finding.
pub(crate) fn report(finding: Finding, call: Option<&CallStack>) {
    if let Ok(runtime) = Runtime::global() {
        runtime.report(finding, call);
    }
}

/// The use of a destroyed object in the current call.
struct Stale {
    what: &'static str,
    handle: usize,
    destroyed: Option<CallStack>,
}

thread_local! {
    /// The name of the current call of this thread.
    static NAME: Cell<&'static str> = const { Cell::new("") };
    /// Whether a finding about the current call of this thread has been recorded.
    static IS_EXPLAINED: Cell<bool> = const { Cell::new(false) };
    static STALE: RefCell<Option<Stale>> = const { RefCell::new(None) };
    /// The address of the memory that the current call has allocated; 0 if there is none.
    static ALLOCATED: Cell<u64> = const { Cell::new(0) };
}

/// Stores that a call of the function `name` begins on this thread, and forgets what the checks
/// know about the thread's previous call.
pub(crate) fn begin(name: &'static str) {
    if any() {
        let _ = ALLOCATED.try_with(|address| address.set(0));
    }
    if selected(Tool::Api) {
        debugger::stop_once();
        let _ = NAME.try_with(|current| current.set(name));
        let _ = IS_EXPLAINED.try_with(|explained| explained.set(false));
        let _ = STALE.try_with(|stale| stale.take());
    }
}

fn name() -> &'static str {
    NAME.try_with(Cell::get).unwrap_or_default()
}

/// Adds a finding about the current call to the findings of the checking run.
fn found(kind: Kind, text: String, address: Option<u64>) {
    let mut finding = Finding::new(kind, text);
    finding.address = address;
    record(finding);
}

/// Records a finding about the current call, and completes it with a description of the memory at
/// its address.
fn record(mut finding: Finding) {
    let _ = IS_EXPLAINED.try_with(|explained| explained.set(true));
    if let (Some(address), Ok(runtime)) = (finding.address, Runtime::global()) {
        finding.allocation = runtime.memory().describe(address);
    }
    report(finding, Some(&CallStack::capture()));
}

/// Remembers that the current call uses a handle whose object is destroyed, so that a finding about
/// the call can state this.
pub(crate) fn note_stale(what: &'static str, handle: usize, destroyed: Option<CallStack>) {
    if selected(Tool::Api) {
        let stale = Stale {
            what,
            handle,
            destroyed,
        };
        let _ = STALE.try_with(|slot| slot.replace(Some(stale)));
    }
}

/// Results that are not failures: `NOT_READY` is a regular result of a query, and the other two results mean that peer
/// access already had the requested state.
const NO_FAILURES: [CuResult; 3] = [
    CuResult::NOT_READY,
    CuResult::PEER_ACCESS_ALREADY_ENABLED,
    CuResult::PEER_ACCESS_NOT_ENABLED,
];

/// Functions that programs call to test whether something exists, so a failed call is not necessarily an error. For
/// example, NVIDIA's runtimes request functions, tables and attributes that a driver need not have.
const QUESTIONS: [&str; 11] = [
    // NVIDIA's runtime requests the current device before it has made a context current.
    "cuCtxGetDevice",
    "cuCtxGetDevice_v2",
    "cuGetProcAddress",
    "cuGetProcAddress_v2",
    "cuGetExportTable",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuFuncGetAttribute",
    "cuKernelGetAttribute",
    // Libraries use these two functions to find out whether a pointer belongs to CUDA.
    "cuPointerGetAttribute",
    "cuPointerGetAttributes",
];

/// Prefixes of the names of functions that launch kernels. `cuLaunch` (before CUDA 4) is not among them.
const LAUNCHES: [&str; 4] = [
    "cuLaunchKernel",
    "cuLaunchCooperativeKernel",
    "cuLaunchGrid",
    "cuGraphLaunch",
];

/// The result of launches by NVIDIA's runtime with invalid dimensions. It is an error code of the runtime API, not of
/// the driver API.
const INVALID_CONFIGURATION: CuResult = CuResult(9);

/// Returns whether the options of the run require a finding for the current call, which is a failed
/// call of the function `name`.
fn is_selected(name: &str) -> bool {
    let level = options().map_or_else(ApiErrors::default, |options| options.api_errors);
    match level {
        ApiErrors::All => true,
        ApiErrors::Extended => !QUESTIONS.contains(&name),
        ApiErrors::Explicit => !QUESTIONS.contains(&name) && !CallStack::capture().is_of_library(),
    }
}

/// Returns whether contexts return `code` because of an earlier wrong access or fault in a kernel.
/// There is already a separate finding for each such access or fault.
fn is_reported(code: CuResult) -> bool {
    Runtime::global()
        .is_ok_and(|runtime| runtime.is_reported(|kind| CuResult::of_fault(kind) == code))
}

/// Records a finding for a failed call: [`Kind::DestroyedHandle`] if the call used a destroyed
/// object, otherwise [`Kind::FailedCall`]. Records nothing if apicheck is not selected, the call
/// already has a finding, the options exclude the call, `code` is in [`NO_FAILURES`], or an earlier
/// fault in a kernel explains the error. Also records nothing if NVIDIA's runtime called a function
/// without a current context: the runtime then makes a context current and repeats the call.
///
/// If the call is a launch, and an earlier fault has ended a context, notes that the kernel did not
/// run.
#[cold]
pub(crate) fn failed(name: &'static str, code: CuResult) {
    if any()
        && LAUNCHES.iter().any(|launch| name.starts_with(launch))
        && let Ok(runtime) = Runtime::global()
    {
        runtime.note_skipped_kernel();
    }
    if !selected(Tool::Api)
        || NO_FAILURES.contains(&code)
        || !name.starts_with("cu")
        || IS_EXPLAINED.try_with(Cell::get).unwrap_or(true)
        || !is_selected(name)
        || is_reported(code)
        || code == CuResult::INVALID_CONTEXT && CallStack::capture().is_of_runtime()
    {
        return;
    }
    let stale = STALE.try_with(|stale| stale.take()).ok().flatten();
    if let Some(Stale {
        what,
        handle,
        destroyed,
    }) = stale
    {
        let site = destroyed.and_then(|call| call.site());
        let site = site.map_or(String::new(), |site| format!(" {site}"));
        let text = format!("{name} uses the {what} {handle:#x}, which was destroyed{site}");
        found(Kind::DestroyedHandle, text, None);
        return;
    }
    let text = |text: Option<&'static std::ffi::CStr>| {
        let text = text.and_then(|text| text.to_str().ok());
        text.unwrap_or("unknown error")
    };
    let number = code.0;
    let (error, reason) = match code {
        INVALID_CONFIGURATION => (
            "cudaErrorInvalidConfiguration",
            "invalid configuration argument",
        ),
        _ => (text(code.name()), text(code.text())),
    };
    let text = format!(
        "Program hit {error} (error {number}) due to \"{reason}\" on CUDA API call to {name}."
    );
    found(Kind::FailedCall, text, None);
}

/// The kind of memory at an address that a copy uses.
enum Memory {
    /// Device memory. The program may pass its addresses only as device pointers.
    Device(Allocation),
    /// Managed, pinned or registered memory, for which host pointers and device pointers are equal.
    Shared(Allocation),
    /// An address in the range for device memory at which nothing is allocated.
    Unallocated,
    /// Other host memory.
    Host,
}

fn memory_at(runtime: &Runtime, address: u64) -> Memory {
    let space = runtime.memory();
    match (space.find(address), runtime.pointer_info(address)) {
        (Some(found), Some(info)) if info.kind == PointerKind::Device => Memory::Device(found),
        (Some(found), _) => Memory::Shared(found),
        (None, _) if space.contains(address) => Memory::Unallocated,
        _ => Memory::Host,
    }
}

/// Examines the pointers of a copy before the copy is submitted, and records a finding if a pointer
/// is wrong.
///
/// # Errors
/// Returns `INVALID_VALUE` if a pointer is wrong and the options of the run forbid the execution of
/// such copies.
pub(crate) fn copy(transfer: &Transfer) -> Served {
    match selected(Tool::Api) && is_wrong_copy(transfer) {
        true => refuse_invalid(),
        false => Ok(()),
    }
}

fn is_wrong_copy(transfer: &Transfer) -> bool {
    let Ok(runtime) = Runtime::global() else {
        return false;
    };
    let (src, dst) = (transfer.src, transfer.dst);
    let (from, to) = (memory_at(runtime, src), memory_at(runtime, dst));
    let name = name();
    if let Some((text, address)) = wrong_direction(transfer, name, &from, &to) {
        found(Kind::WrongDirection, text, address);
        return true;
    }
    let last = |pitch: u64, slice: u64| {
        let rows = pitch.checked_mul(transfer.height.saturating_sub(1))?;
        let slices = slice.checked_mul(transfer.depth.saturating_sub(1))?;
        rows.checked_add(slices)?.checked_add(transfer.width)
    };
    let sides = [
        (
            "source",
            src,
            from,
            last(transfer.src_pitch, transfer.src_slice),
        ),
        (
            "destination",
            dst,
            to,
            last(transfer.dst_pitch, transfer.dst_slice),
        ),
    ];
    for (side, address, memory, span) in sides {
        let Some(span) = span else {
            continue;
        };
        let what = format!("The {side} of {name}");
        let is_wrong = match memory {
            Memory::Host => inaccessible(side, name, address, span),
            _ => outside(&what, address, span, &memory) || interior(&what, address, &memory),
        };
        if is_wrong {
            return true;
        }
    }
    false
}

/// Records a finding if `address` is not the start of its allocation and the options of the run
/// permit only pointers to the start. Returns whether it has recorded a finding.
fn interior(what: &str, address: u64, memory: &Memory) -> bool {
    let (Memory::Device(block) | Memory::Shared(block)) = memory else {
        return false;
    };
    if block.base == address || !options().is_some_and(|options| options.block_starts) {
        return false;
    }
    let (offset, size) = (address - block.base, grouped_bytes(block.size));
    let text = format!(
        "{what} is {address:#x}, inside an allocation and not at its start: offset {offset} of {size}"
    );
    found(Kind::InvalidPointer, text, Some(address));
    true
}

/// If the addresses of a copy contradict its direction, returns a message and the wrong address. The address is `None`
/// if source and destination are swapped. If the addresses do not contradict the direction, returns `None`.
fn wrong_direction(
    transfer: &Transfer,
    name: &str,
    from: &Memory,
    to: &Memory,
) -> Option<(String, Option<u64>)> {
    let (src_on_host, dst_on_host) = match transfer.direction {
        Direction::HostToDevice => (true, false),
        Direction::DeviceToHost => (false, true),
        Direction::DeviceToDevice => (false, false),
        Direction::HostToHost => (true, true),
        // Such a copy states no direction that the pointers could contradict.
        Direction::Unified => return None,
    };
    let (src, dst) = (transfer.src, transfer.dst);
    let wrong = |on_host: bool, memory: &Memory| match memory {
        Memory::Device(_) => on_host,
        Memory::Host => !on_host,
        Memory::Shared(_) | Memory::Unallocated => false,
    };
    let (side, address, on_host) = match (wrong(src_on_host, from), wrong(dst_on_host, to)) {
        (true, true) if src_on_host != dst_on_host => {
            let text = format!(
                "Source and destination pointers in {name}({dst:#x}, {src:#x}) are reversed in directionality"
            );
            return Some((text, None));
        }
        (false, false) => return None,
        (true, _) => ("source", src, src_on_host),
        (false, true) => ("destination", dst, dst_on_host),
    };
    let (is, wanted) = match on_host {
        true => ("device", "host"),
        false => ("host", "device"),
    };
    let text = format!(
        "The {side} {address:#x} of {name} is {is} memory; the call expects {wanted} memory"
    );
    Some((text, Some(address)))
}

/// Records a finding if the process cannot access all bytes of the range of host memory at
/// `address`. Returns whether it has recorded a finding.
fn inaccessible(side: &str, name: &str, address: u64, span: u64) -> bool {
    let (Ok(start), Ok(len)) = (usize::try_from(address), usize::try_from(span)) else {
        return false;
    };
    let have = readable::readable(start, len);
    if have == len {
        return false;
    }
    let bytes = grouped_bytes(span);
    let text = match have {
        0 => format!("The {side} {address:#x} of {name} is not accessible memory"),
        _ => {
            let have = grouped_bytes(have as u64);
            format!("The {side} {address:#x} of {name} is {bytes}, of which {have} are accessible")
        }
    };
    let mut finding = Finding::new(Kind::InvalidPointer, text);
    finding.address = Some(address);
    finding.explanation = (have == 0).then(|| format!("The call accesses {bytes} there"));
    record(finding);
    true
}

/// Records a finding if the range of bytes at `address` is not inside a single allocation. Returns
/// whether it has recorded a finding.
fn outside(what: &str, address: u64, span: u64, memory: &Memory) -> bool {
    let (text, kind) = match memory {
        Memory::Unallocated => (
            format!("{what} is {address:#x}, where no memory is allocated"),
            Kind::InvalidPointer,
        ),
        // A range may cover several contiguous mappings or registrations, so these kinds of memory are not checked.
        Memory::Device(block) | Memory::Shared(block)
            if !block.holds(address, span)
                && block.kind != margay::memory::MemoryKind::Mapped
                && block.kind != margay::memory::MemoryKind::Registered =>
        {
            let (bytes, size) = (grouped_bytes(span), grouped_bytes(block.size));
            let offset = address - block.base;
            let text = format!(
                "{what} is {bytes} at {address:#x}, offset {offset} of an allocation of {size}"
            );
            (text, Kind::OutsideAllocation)
        }
        _ => return false,
    };
    found(kind, text, Some(address));
    true
}

/// Examines the range of a fill before the fill is submitted, and records a finding if the range is
/// wrong.
///
/// # Errors
/// Returns `INVALID_VALUE` if the range is wrong and the options of the run forbid the execution of
/// such fills.
pub(crate) fn fill(address: u64, span: Option<u64>) -> Served {
    match selected(Tool::Api) && is_wrong_fill(address, span) {
        true => refuse_invalid(),
        false => Ok(()),
    }
}

fn is_wrong_fill(address: u64, span: Option<u64>) -> bool {
    let (Ok(runtime), Some(span)) = (Runtime::global(), span.filter(|&span| span != 0)) else {
        return false;
    };
    let name = name();
    match memory_at(runtime, address) {
        Memory::Host => {
            let text = format!(
                "The destination {address:#x} of {name} is host memory; the call expects device memory"
            );
            found(Kind::WrongDirection, text, Some(address));
            true
        }
        memory => {
            let what = format!("The destination of {name}");
            outside(&what, address, span, &memory) || interior(&what, address, &memory)
        }
    }
}

/// Records a finding for a call that frees a null pointer, if the options of the run request such
/// findings.
pub(crate) fn null_free() {
    if selected(Tool::Api) && options().is_some_and(|options| options.null_frees) {
        let text = format!(
            "Pointer to {}(0x0) is invalid: it is a null pointer",
            name()
        );
        found(Kind::InvalidPointer, text, Some(0));
    }
}

/// Records a finding for a call of a function that is not implemented. [`crate::guard`] calls this
/// only for the first call of each function.
#[cold]
pub(crate) fn unimplemented(name: &'static str) {
    if selected(Tool::Api) && Runtime::global().is_ok() {
        found(
            Kind::UnimplementedFunction,
            format!("Unimplemented function {name}"),
            None,
        );
    }
}

/// Remembers the address of the memory that the current call has allocated, so that the list of
/// calls in the log can contain it.
pub(crate) fn allocated(address: u64) {
    if any() {
        let _ = ALLOCATED.try_with(|last| last.set(address));
    }
}

/// Prefixes of the names of functions that change the state of the program's objects.
const CHANGES: [&str; 14] = [
    "cuArray",
    "cuCtxCreate",
    "cuCtxDestroy",
    "cuCtxSynchronize",
    "cuDevicePrimaryCtxReset",
    "cuEvent",
    "cuFuncSet",
    "cuGraph",
    "cuLaunch",
    "cuMem",
    "cuMipmapped",
    "cuModule",
    "cuParam",
    "cuStream",
];

/// Returns whether the log lists calls of the function `name` for [`ListedCalls::Changes`]: the name begins with one of
/// [`CHANGES`] and is not the name of a query.
fn changes(name: &str) -> bool {
    let asks = ["Get", "Query", "IsCapturing"];
    CHANGES.iter().any(|start| name.starts_with(start))
        && !asks.iter().any(|part| name.contains(part))
}

/// Writes a completed call to the log, if the options of the run request this.
#[cold]
pub(crate) fn list_call(
    name: &'static str,
    arguments: &dyn Display,
    code: CuResult,
    start: Instant,
) {
    let (Ok(runtime), Some(options)) = (Runtime::global(), options()) else {
        return;
    };
    let is_listed = match options.calls {
        ListedCalls::None => false,
        ListedCalls::Changes => changes(name),
        ListedCalls::All | ListedCalls::Timed => true,
    };
    if !is_listed {
        return;
    }
    let mut result = format!("{code:?}");
    let address = ALLOCATED.try_with(Cell::get).unwrap_or_default();
    if address != 0 {
        result += &format!(", memory at {address:#x}");
    }
    if options.calls == ListedCalls::Timed {
        result += &format!(", {:.1} us", start.elapsed().as_secs_f64() * 1e6);
    }
    runtime.log_call(name, &arguments.to_string(), &result, &CallStack::capture());
}

/// Records a finding that explains why a call that frees memory at `address` has failed.
#[cold]
pub(crate) fn bad_free(address: u64) {
    if !selected(Tool::Api) {
        return;
    }
    let Ok(runtime) = Runtime::global() else {
        return;
    };
    let (name, space) = (name(), runtime.memory());
    let what = match space.find(address) {
        Some(found) if found.base == address => "the memory cannot be freed by this call",
        Some(_) => "the pointer is inside an allocation, not at its start",
        None if space.contains(address) && space.was_freed(address) => {
            "the memory is freed already"
        }
        None => "no memory is allocated there",
    };
    let text = format!("Pointer to {name}({address:#x}) is invalid: {what}");
    found(Kind::InvalidPointer, text, Some(address));
}

/// Records a finding that explains why a call that ends the registration of host memory at
/// `address` has failed.
#[cold]
pub(crate) fn bad_unregister(address: u64) {
    if !selected(Tool::Api) {
        return;
    }
    let Ok(runtime) = Runtime::global() else {
        return;
    };
    let (name, space) = (name(), runtime.memory());
    let what = match space.find(address) {
        Some(found) if found.kind == margay::memory::MemoryKind::Registered => {
            "the pointer is inside registered memory, not at its start"
        }
        Some(_) => "the memory is not registered host memory",
        None if space.was_freed(address) => "the memory is not registered any more",
        None => "the memory is not registered",
    };
    let text = format!("Pointer to {name}({address:#x}) is invalid: {what}");
    found(Kind::InvalidPointer, text, Some(address));
}
