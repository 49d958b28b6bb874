//! Host functions that generated code calls. Those for the interpreter are in [`super::machine`].

use std::ffi::c_void;
use std::sync::OnceLock;
use std::time::Instant;

use margay_exec::launch::special_register;
use margay_exec::{CtaInfo, FaultKind, LaunchInfo, SyncEvent};
use margay_ir::entity::FuncId;
use margay_ir::function::{SourceLoc, payload_sreg};
use margay_ir::module::Module;
use margay_ir::observe::ObservedAccess;
use margay_ir::syscall::Syscall;
use margay_jit::abi::{
    AccessLog, CheckedLane, CheckedLanes, Helpers, NativeContext, PerformedAccess, Verify,
    WHOLE_CTA, permitted_index, status,
};
use margay_jit::counters::Counters;
use margay_ops::meaning::{Bits, Desc, Meaning};
use margay_ops::mods::{Mode, Scope, StateSpace};
use margay_ops::sreg::SpecialReg;
use margay_ops::texture::Access;
use smallvec::SmallVec;

use super::observe::{Addresses, Chunk, Examiner, Observed, Recorder, perform};
use super::reach::Reach;
use super::{faults, fetch, recording, sync_points, textures};
use crate::engine::{Coordinates, Services};
use crate::fault::{AccessFault, AccessKind, Trap, access};
use crate::memory::outside;
use crate::observe::Tally;
use crate::texture_table::TextureTable;

/// A table of the indices (`%tid`) of all threads of a CTA.
#[derive(Debug, Default)]
pub(super) struct TidTable {
    block: [u32; 3],
    threads: Box<[[u32; 4]]>,
}

impl TidTable {
    pub(super) fn new(info: &LaunchInfo) -> TidTable {
        let threads = 0..info.threads();
        TidTable {
            block: info.block,
            threads: threads
                .map(|t| info.thread_index(t))
                .map(|[x, y, z]| [x, y, z, 0])
                .collect(),
        }
    }

    /// Returns the number of threads of a CTA in each dimension.
    pub(super) fn block(&self) -> [u32; 3] {
        self.block
    }

    pub(super) fn as_ptr(&self) -> *const [u32; 4] {
        self.threads.as_ptr()
    }
}

/// The data that helpers use during a native call, which runs one or more CTAs. The native context
/// contains a pointer to this data ([`erase`]).
pub(super) struct HostData<'a> {
    info: &'a LaunchInfo,
    /// The first CTA of the native call.
    cta: CtaInfo,
    services: &'a dyn Services,
    module: &'a Module,
    textures: &'a TextureTable,
    reach: Option<Reach<'a>>,
    examiner: Option<Examiner<'a>>,
    pub(super) recorder: Option<Recorder<'a>>,
    /// Counters that nobody reads, for generated code that counts events of a launch that no tool observes.
    spare_tally: Option<Tally>,
    /// The fault of the first helper call that failed during the native call.
    pub(super) fault: Option<FaultKind>,
    /// In a checking run: the thread and the source position of the access that ends the launch.
    pub(super) wrong_access: Option<(u32, SourceLoc)>,
}

impl<'a> HostData<'a> {
    pub(super) fn new(
        info: &'a LaunchInfo,
        cta: CtaInfo,
        services: &'a dyn Services,
        module: &'a Module,
        textures: &'a TextureTable,
        reach: Option<Reach<'a>>,
        examiner: Option<Examiner<'a>>,
        recorder: Option<Recorder<'a>>,
    ) -> HostData<'a> {
        HostData {
            info,
            cta,
            services,
            module,
            textures,
            reach,
            examiner,
            recorder,
            spare_tally: None,
            fault: None,
            wrong_access: None,
        }
    }

    /// Returns the address of the log in which generated code records its loads and stores.
    pub(super) fn access_log(&mut self) -> *mut AccessLog {
        match &mut self.examiner {
            Some(examiner) => examiner.access_log(),
            None => std::ptr::from_ref(&NO_LOG.0).cast_mut(),
        }
    }

    /// Returns the address of the counters of generated code; null if the code counts nothing.
    pub(super) fn counters(&mut self, counters: &Counters) -> *mut u64 {
        if counters.words() == 0 {
            return std::ptr::null_mut();
        }
        let counted = self.recorder.as_mut().and_then(Recorder::counters);
        counted.unwrap_or_else(|| {
            let new = || Tally::new(Some(counters));
            self.spare_tally.get_or_insert_with(new).counters()
        })
    }

    /// Returns the number of bytes at the start of a thread's local memory that the thread may
    /// access. For accesses to these bytes, generated code need not call the host.
    pub(super) fn checked_local(&self) -> u64 {
        let examiner = self.examiner.as_ref();
        examiner.map_or(0, Examiner::checked_local)
    }

    /// Records that the next native call starts new CTAs and does not continue CTAs that have
    /// already started. The checking tools therefore observe all accesses of these CTAs.
    pub(super) fn begin_ctas(&mut self) {
        if let Some(examiner) = &mut self.examiner {
            examiner.begin_ctas();
        }
    }

    /// Records that all CTAs of the current native call have ended.
    pub(super) fn end_ctas(&mut self) {
        if let Some(examiner) = &mut self.examiner {
            examiner.end_ctas();
        }
    }

    /// Reports to the checking tools that threads of the CTA with linear index `cta` have synchronised.
    pub(super) fn synchronised(&mut self, cta: u64, event: SyncEvent<'_>) {
        if let Some(examiner) = &mut self.examiner {
            examiner.synchronised(cta, event);
        }
    }

    /// Returns a fault if threads of the CTA must not access the `bytes` bytes at `address`.
    fn may(&self, address: u64, bytes: u64, access: AccessKind) -> Result<(), AccessFault> {
        allowed(self.reach.as_ref(), address, bytes, access)
    }

    fn fail(&mut self, kind: FaultKind) -> i32 {
        self.fault.get_or_insert(kind);
        status::HELPER
    }
}

/// An access log without space for records.
struct NoLog(AccessLog);

// SAFETY: generated code does not write to a log without space.
unsafe impl Sync for NoLog {}

static NO_LOG: NoLog = NoLog(AccessLog {
    next: std::ptr::null_mut(),
    end: std::ptr::null_mut(),
});

/// Returns a fault if threads of a CTA must not access the `bytes` bytes at `address`. If `reach`
/// is `None`, every access is permitted.
pub(super) fn allowed(
    reach: Option<&Reach<'_>>,
    address: u64,
    bytes: u64,
    access: AccessKind,
) -> Result<(), AccessFault> {
    match reach {
        Some(reach) if !reach.generic(address, bytes, None, access == AccessKind::Write) => {
            Err(outside(address, access))
        }
        _ => Ok(()),
    }
}

/// Returns the number of nanoseconds since the process first called this function, plus one.
pub(super) fn nanoseconds() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    // The result is never zero, because programs treat a zero clock as a failure.
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64 + 1
}

/// Returns the value of the clock register that `payload` contains. `%clock` ticks at the reported
/// clock rate of 1 GHz.
fn clock_value(payload: u64) -> u64 {
    let now = nanoseconds();
    match payload_sreg(payload) {
        Some(SpecialReg::ClockHi | SpecialReg::GlobaltimerHi) => now >> 32,
        _ => now,
    }
}

/// Returns the name of the function with the handle `handle`. `base` is the handle of function 0 of
/// the same module.
fn name_of(module: &Module, base: u64, handle: u64) -> Option<String> {
    let offset = handle.checked_sub(base)?;
    let id = FuncId(u32::try_from(offset / 16).ok()?);
    let function = module.functions.get(id)?;
    offset.is_multiple_of(16).then(|| function.name.clone())
}

pub(super) fn run_syscall(
    services: &dyn Services,
    (info, module): (&LaunchInfo, &Module),
    cta: &CtaInfo,
    thread: u32,
    which: Syscall,
    args: &[Bits],
) -> Result<SmallVec<[Bits; 1]>, FaultKind> {
    let at = Coordinates {
        cta: cta.index,
        cta_number: cta.linear,
        thread: info.thread_index(thread),
    };
    let arg = |i: usize| args.get(i).copied().unwrap_or(0) as u64;
    let of_fault = |fault: crate::error::Fault| match fault.kind {
        crate::error::FaultKind::IllegalAddress => FaultKind::IllegalAddress {
            address: fault.address,
            write: fault.write,
        },
        crate::error::FaultKind::Assert => FaultKind::Assert {
            message: fault.detail,
        },
        _ => FaultKind::Unsupported { what: fault.detail },
    };
    Ok(match which {
        Syscall::Vprintf => {
            let count = services.vprintf(&at, arg(0), arg(1)).map_err(of_fault)?;
            SmallVec::from_elem(Bits::from(count as u32), 1)
        }
        Syscall::Malloc => SmallVec::from_elem(Bits::from(services.malloc(arg(0))), 1),
        Syscall::Free => {
            services.free(&at, arg(0)).map_err(of_fault)?;
            SmallVec::new()
        }
        Syscall::GraphSetConditional => {
            let (handle, value) = (arg(0), arg(1) as u32);
            services
                .set_conditional(&at, handle, value)
                .map_err(of_fault)?;
            SmallVec::new()
        }
        Syscall::Assertfail => {
            let fault = services.assert_fail(&at, arg(0), arg(1), arg(2) as u32, arg(3), arg(4));
            return Err(of_fault(fault));
        }
        which => {
            let args: SmallVec<[u64; 8]> = (0..args.len()).map(arg).collect();
            let name = |handle| name_of(module, info.function_base, handle);
            let answer = services.device_runtime_call(&at, which, &args, &name);
            let answer = answer.ok_or(FaultKind::IllegalInstruction)?;
            SmallVec::from_elem(Bits::from(answer.map_err(of_fault)?), 1)
        }
    })
}

pub(super) fn update_at(
    address: u64,
    bytes: u32,
    new: &mut dyn FnMut(Bits) -> Bits,
) -> Result<Bits, FaultKind> {
    if bytes <= 8 {
        // SAFETY: device code chooses the address; an access that is not permitted faults and is reported.
        let old = unsafe { access::update(address, bytes, |old| new(Bits::from(old)) as u64) };
        return old.map(Bits::from).map_err(faults::of_access);
    }
    let mut old = access::load128(address).map_err(faults::of_access)?;
    loop {
        // SAFETY: device code chooses the address; an access that is not permitted faults and is reported.
        let seen = unsafe { access::cas128(address, old, new(old)) }.map_err(faults::of_access)?;
        if seen == old {
            return Ok(old);
        }
        old = seen;
    }
}

/// Returns the host data of the native context `context`.
///
/// # Safety
/// `context` must be the context of a running native call. Its `host` field must point to a `HostData` that no other
/// code uses at the same time.
pub(super) unsafe fn host<'a>(context: *mut NativeContext) -> &'a mut HostData<'a> {
    // SAFETY: the caller upholds the contract of this function.
    unsafe { &mut *(*context).host.cast::<HostData<'a>>() }
}

unsafe extern "C" fn pure_op(desc: *const Desc, args: *const Bits, out: *mut Bits, counts: u32) {
    // SAFETY: generated code passes a description that lives as long as the code.
    let desc = unsafe { &*desc };
    if let Meaning::Pure(meaning) = desc.opcode.meaning() {
        // SAFETY: generated code has written this number of operands.
        let args = unsafe { std::slice::from_raw_parts(args, (counts & 0xffff) as usize) };
        // SAFETY: the stack of generated code has space for this number of results, separate from the operands.
        let out = unsafe { std::slice::from_raw_parts_mut(out, (counts >> 16) as usize) };
        out.fill(0);
        meaning(desc, args, out);
    }
}

unsafe extern "C" fn update(
    context: *mut NativeContext,
    desc: *const Desc,
    address: u64,
    args: *const Bits,
    out: *mut Bits,
) -> i32 {
    // SAFETY: generated code passes a description that lives as long as the code.
    let desc = unsafe { &*desc };
    // SAFETY: generated code passes its own context.
    let host = unsafe { host(context) };
    let Meaning::Rmw(meaning) = desc.opcode.meaning() else {
        return host.fail(FaultKind::IllegalInstruction);
    };
    // SAFETY: the operands are in an area of at least 16 cells; the op reads at most two of them.
    let args = unsafe { std::slice::from_raw_parts(args, 2) };
    match update_at(address, desc.ty.bits().div_ceil(8), &mut |old| {
        meaning(desc, old, args)
    }) {
        Ok(old) => {
            // SAFETY: `out` is a cell on the stack of generated code.
            unsafe { out.write(old) };
            status::OK
        }
        Err(kind) => host.fail(kind),
    }
}

unsafe extern "C" fn clock(_: *mut NativeContext, which: u32) -> u64 {
    clock_value(u64::from(which))
}

unsafe extern "C" fn special(context: *mut NativeContext, which: u32) -> u64 {
    // SAFETY: generated code passes its own context.
    let (host, thread, cta) = unsafe { (host(context), (*context).thread, (*context).cta) };
    let mut info = host.cta;
    if info.linear != cta {
        info.linear = cta;
        info.index = host.info.cta_index(cta);
        info.sm = (cta % u64::from(host.info.sm_count.max(1))) as u32;
    }
    match payload_sreg(u64::from(which)) {
        Some(register) => special_register(host.info, &info, thread, register),
        None => 0,
    }
}

unsafe extern "C" fn syscall(
    context: *mut NativeContext,
    which: u32,
    args: *const Bits,
    out: *mut Bits,
) -> i32 {
    // SAFETY: generated code passes its own context.
    let (host, thread, cta) = unsafe { (host(context), (*context).thread, (*context).cta) };
    let Some(which) = Syscall::from_payload(u64::from(which)) else {
        return host.fail(FaultKind::IllegalInstruction);
    };
    // SAFETY: the area has at least 16 cells; no system function has more parameters.
    let args = unsafe { std::slice::from_raw_parts(args, which.params().len()) };
    let mut at = host.cta;
    if at.linear != cta {
        at.linear = cta;
        at.index = host.info.cta_index(cta);
    }
    match run_syscall(
        host.services,
        (host.info, host.module),
        &at,
        thread,
        which,
        args,
    ) {
        // The preceding check of the argument of `free` has decided that the launch ends.
        Ok(_) if host.wrong_access.is_some() => status::HELPER,
        Ok(results) => {
            for (i, &bits) in results.iter().enumerate() {
                // SAFETY: the area has at least 16 cells.
                unsafe { out.add(i).write(bits) };
            }
            status::OK
        }
        Err(kind) => host.fail(kind),
    }
}

unsafe extern "C" fn texture(
    context: *mut NativeContext,
    access: u64,
    args: *const Bits,
    out: *mut Bits,
    counts: u32,
) -> i32 {
    // SAFETY: generated code passes its own context.
    let host = unsafe { host(context) };
    // SAFETY: generated code has written this number of operands.
    let args = unsafe { std::slice::from_raw_parts(args, (counts & 0xffff) as usize) };
    match fetch::one(host.textures, host.reach.as_ref(), access, args) {
        Ok(None) => {}
        Ok(Some(found)) => {
            for (i, &bits) in found.iter().take((counts >> 16) as usize).enumerate() {
                // SAFETY: the stack of generated code has space for this number of results.
                unsafe { out.add(i).write(Bits::from(bits)) };
            }
            return status::OK;
        }
        Err(kind) => return host.fail(kind),
    }
    let Some(access) = Access::from_payload(access) else {
        return host.fail(FaultKind::IllegalInstruction);
    };
    match textures::perform(host.textures, host.reach.as_ref(), &access, args) {
        Ok(results) => {
            for (i, &bits) in results.iter().take((counts >> 16) as usize).enumerate() {
                // SAFETY: the stack of generated code has space for this number of results.
                unsafe { out.add(i).write(bits) };
            }
            status::OK
        }
        Err(kind) => host.fail(kind),
    }
}

unsafe extern "C" fn texture_lanes(
    context: *mut NativeContext,
    access: u64,
    rows: *mut u32,
    live: u32,
    counts: u32,
    uniform: u32,
) -> i32 {
    // SAFETY: generated code passes its own context.
    let host = unsafe { host(context) };
    let [args, results, width, _] = counts.to_le_bytes().map(usize::from);
    // SAFETY: the stack of generated code has space for this number of rows.
    let words = unsafe { std::slice::from_raw_parts_mut(rows, (args + results) * 2 * width) };
    let mut rows = fetch::Rows {
        words,
        width,
        args,
        uniform,
    };
    match fetch::lanes(host.textures, host.reach.as_ref(), access, &mut rows, live) {
        Ok(()) => status::OK,
        Err((lane, kind)) => {
            // SAFETY: generated code passes its own context.
            unsafe { (*context).thread += lane as u32 };
            host.fail(kind)
        }
    }
}

unsafe extern "C" fn in_space(context: *mut NativeContext, space: u32, address: u64) -> u32 {
    // SAFETY: generated code passes its own context.
    let (host, context) = unsafe { (host(context), &*context) };
    let space = StateSpace::ALL
        .get((space as usize).wrapping_sub(1))
        .copied()
        .unwrap_or_default();
    let stride = u64::from(context.local_stride);
    let mine = context.local_base + stride * u64::from(context.thread);
    let shared = |of_cluster| host.info.is_shared(&host.cta, address, of_cluster);
    let local = host.info.is_local(&host.cta, mine, address);
    let param = address.wrapping_sub(context.params) < 4096 * 8;
    let constant = || host.info.is_constant(address);
    u32::from(match space {
        StateSpace::Shared => shared(false),
        StateSpace::SharedCluster => shared(true),
        StateSpace::Local => local,
        StateSpace::Param | StateSpace::ParamFunc => param,
        StateSpace::Const => constant(),
        _ => !shared(true) && !local && !param && !constant(),
    })
}

unsafe extern "C" fn copy(
    context: *mut NativeContext,
    target: u64,
    source: u64,
    bytes: u64,
    wanted: u64,
) -> i32 {
    let bytes = bytes.min(16) as usize;
    let wanted = (wanted as usize).min(bytes);
    // SAFETY: generated code passes its own context.
    let host = unsafe { host(context) };
    let is_misaligned = |address: u64| !address.is_multiple_of(bytes.max(1) as u64);
    let misaligned = if is_misaligned(target) {
        Some(target)
    } else {
        Some(source).filter(|&source| wanted != 0 && is_misaligned(source))
    };
    if let Some(address) = misaligned {
        return host.fail(FaultKind::Misaligned {
            address: Some(address),
        });
    }
    let mut buffer = [0u8; 16];
    let may_read = match wanted {
        0 => Ok(()),
        _ => host.may(source, wanted as u64, AccessKind::Read),
    };
    let done = may_read
        .and_then(|()| host.may(target, bytes as u64, AccessKind::Write))
        .and_then(|()| access::read(&mut buffer[..wanted], source))
        // SAFETY: device code chooses the target. The check above permits the access; if the memory is inaccessible,
        // the access faults and is reported.
        .and_then(|()| unsafe { access::write(target, &buffer[..bytes]) });
    match done {
        Ok(()) => status::OK,
        Err(fault) => host.fail(faults::of_access(fault)),
    }
}

unsafe extern "C" fn verify(
    context: *mut NativeContext,
    first: u64,
    stride: i64,
    what: Verify,
    thread: u32,
) -> i32 {
    // SAFETY: generated code passes its own context.
    let host = unsafe { host(context) };
    let Some(reach) = host.reach else {
        return status::OK;
    };
    let address = |lane| reach.affine(what, first, stride, lane);
    // SAFETY: generated code passes its own context.
    unsafe { decide(context, reach.refused(what, address, thread), what) }
}

unsafe extern "C" fn verify_lanes(
    context: *mut NativeContext,
    addresses: *const u64,
    what: Verify,
    thread: u32,
) -> i32 {
    // SAFETY: generated code passes its own context.
    let host = unsafe { host(context) };
    let Some(reach) = host.reach else {
        return status::OK;
    };
    // SAFETY: generated code has written an address for each lane.
    let address = |lane: u32| unsafe { *addresses.add(lane as usize) };
    // SAFETY: generated code passes its own context.
    unsafe { decide(context, reach.refused(what, address, thread), what) }
}

/// Returns the status that generated code receives for the result of an access check. `refused` is
/// `None` if the access of each lane is permitted. Otherwise, this function records the fault and
/// the lane.
///
/// # Safety
/// `context` must satisfy the contract of [`host`].
unsafe fn decide(context: *mut NativeContext, refused: Option<(u32, u64)>, what: Verify) -> i32 {
    let Some((lane, address)) = refused else {
        return status::OK;
    };
    // SAFETY: the caller upholds the contract of this function.
    unsafe { (*context).thread += lane };
    let kind = FaultKind::IllegalAddress {
        address: Some(address),
        write: Some(what.writes()),
    };
    // SAFETY: the caller upholds the contract of this function.
    unsafe { host(context) }.fail(kind)
}

/// Examines an access that a checking run observes ([`Helpers::check_access`]).
///
/// # Safety
/// `context` must satisfy the contract of [`host`].
unsafe extern "C" fn check_access(
    context: *mut NativeContext,
    address: u64,
    access: u64,
    loc: u64,
    operands: *const Bits,
    lane: u64,
) -> u64 {
    // SAFETY: the caller upholds the contract of this function. Generated code has called this function, which owns
    // nothing that must be released.
    unsafe {
        let used = examine_access(context, address, access, loc, operands, lane);
        leave_if_ended(context);
        used
    }
}

/// Returns from generated code to the host code that called it, if an examined access ends the
/// launch or if the launch is stopped.
///
/// # Safety
/// `context` must satisfy the contract of [`host`]. The caller must be a helper that generated code
/// has called. The stack frame of this helper must not own resources, because they would not be
/// released.
unsafe fn leave_if_ended(context: *mut NativeContext) {
    // SAFETY: the caller upholds the contract of this function.
    unsafe {
        if host(context).wrong_access.is_some() {
            crate::fault::leave_with(Trap::raised(0));
        }
        crate::fault::leave_if_stopped();
    }
}

/// Does the same as [`check_access`], but does not test whether the launch ends.
///
/// # Safety
/// The caller must satisfy the safety requirements of [`check_access`].
unsafe fn examine_access(
    context: *mut NativeContext,
    address: u64,
    access: u64,
    loc: u64,
    operands: *const Bits,
    lane: u64,
) -> u64 {
    let lane = CheckedLane::from_bits(lane);
    // SAFETY: the caller upholds the contract of this function.
    let cta = unsafe { (*context).cta };
    // SAFETY: the caller upholds the contract of this function.
    let host = unsafe { host(context) };
    let loc = SourceLoc::from_bits(loc);
    let at = Observed {
        access: &ObservedAccess::from_bits(access),
        loc,
        thread: lane.thread,
    };
    // SAFETY: generated code passes this number of operands.
    let operands = unsafe { std::slice::from_raw_parts(operands, lane.operands.into()) };
    let Some(examiner) = &mut host.examiner else {
        return address;
    };
    let used = examiner.access(cta, &at, address, operands);
    // Code for single lanes performs the access before the next lane runs.
    examiner.performed();
    match used {
        Ok(used) => {
            if used == address
                && let Some(range) = examiner.permitted_for_lane(&at, address)
                && let Some(index) = permitted_index(*at.access, lane.range.into())
            {
                // SAFETY: the caller upholds the contract of this function.
                unsafe { (*context).permitted[index] = range };
            }
            used
        }
        Err(kind) => {
            host.fail(kind);
            host.wrong_access.get_or_insert((at.thread, loc));
            NOWHERE
        }
    }
}

/// Examines the accesses of several lanes ([`Helpers::check_lanes`]).
///
/// # Safety
/// `context` must satisfy the contract of [`host`]. The other pointers must satisfy the contract of
/// [`Helpers::check_lanes`].
unsafe extern "C" fn check_lanes(
    context: *mut NativeContext,
    addresses: *mut u64,
    access: u64,
    loc: u64,
    cells: *mut u8,
    shape: u64,
) -> u32 {
    // SAFETY: the caller upholds the contract of this function. Generated code has called this function, which owns
    // nothing that must be released.
    unsafe {
        let performs = examine_lanes(context, addresses, access, loc, cells, shape);
        leave_if_ended(context);
        performs
    }
}

/// Does the same as [`check_lanes`], but does not test whether the launch ends.
///
/// # Safety
/// The caller must satisfy the safety requirements of [`check_lanes`].
unsafe fn examine_lanes(
    context: *mut NativeContext,
    addresses: *mut u64,
    access: u64,
    loc: u64,
    cells: *mut u8,
    shape: u64,
) -> u32 {
    // SAFETY: the caller upholds the contract of this function.
    let cta = unsafe { (*context).cta };
    // SAFETY: the caller upholds the contract of this function.
    let host = unsafe { host(context) };
    let (shape, active, thread) = CheckedLanes::from_bits(shape);
    let width = shape.width as usize;
    let words = CheckedLanes::BYTES as usize / 8;
    // SAFETY: generated code passes memory of this size.
    let memory = unsafe { std::slice::from_raw_parts_mut(addresses, words) };
    let window = memory[CheckedLanes::WINDOW as usize / 8];
    let performed = memory[CheckedLanes::PERFORMED as usize / 8];
    let performed = PerformedAccess::from_bits(performed);
    let mut each = [0; 32];
    let addresses = match shape.strided {
        true => Addresses::Strided {
            first: memory[0],
            stride: memory[1] as i64,
            window,
        },
        false => {
            let word = |lane: usize| (memory[lane / 2] >> (32 * (lane % 2))) as u32;
            for (lane, address) in each[..width].iter_mut().enumerate() {
                *address = match (shape.narrow, window) {
                    (true, _) => window + u64::from(word(lane)),
                    (false, 0) => memory[lane],
                    (false, _) => window + u64::from(memory[lane] as u32),
                };
            }
            Addresses::of_each(&each[..width], active)
        }
    };
    let operand_bytes = shape.operand_bytes as usize;
    let operands = match shape.operands {
        0 => &[],
        // SAFETY: generated code passes this number of operands for each lane.
        count => unsafe {
            std::slice::from_raw_parts(cells.cast_const(), count as usize * width * operand_bytes)
        },
    };
    let at = Observed {
        access: &ObservedAccess::from_bits(access),
        loc: SourceLoc::from_bits(loc),
        thread,
    };
    let chunk = Chunk {
        active,
        addresses,
        operands,
        operand_bytes,
        width,
    };
    let mut used = None;
    if let Some(examiner) = &mut host.examiner {
        used = examiner.chunk(cta, &at, &chunk);
        examiner.performed();
        if used.is_none()
            && let Some(what) = performed
            && let Some(range) = examiner.permitted(&at, &chunk)
            && let Some(index) = permitted_index(*at.access, what.range as usize)
        {
            // SAFETY: the caller upholds the contract of this function.
            unsafe { (*context).permitted[index] = range };
        }
        if let Some((kind, thread)) = examiner.take_wrong_access() {
            host.fail(kind);
            host.wrong_access.get_or_insert((thread, at.loc));
        }
    }
    if let Some(what) = performed
        && (what.always || used.is_some())
    {
        let done = match at.access.mode.writes() {
            true => perform::store(at.access, what, &chunk, used.as_ref()),
            false => {
                let count = at.access.bytes as usize / what.element.max(1) as usize;
                let bytes = count * width * what.cell_bytes() as usize;
                // SAFETY: generated code passes memory for the results of all lanes. Loads have no operands.
                let results = unsafe { std::slice::from_raw_parts_mut(cells, bytes) };
                results.fill(0);
                perform::load(at.access, what, &chunk, used.as_ref(), results)
            }
        };
        if let Err((lane, fault)) = done {
            host.fail(faults::of_access(fault));
            let thread = at.thread + lane;
            host.wrong_access.get_or_insert((thread, at.loc));
        }
        return 0;
    }
    if shape.writes_back {
        for lane in 0..width {
            let used = chunk.used(used.as_ref(), lane as u32);
            let used = used.wrapping_sub(window);
            match shape.narrow {
                // SAFETY: the memory contains more words than lanes.
                true => unsafe {
                    memory
                        .as_mut_ptr()
                        .cast::<u32>()
                        .add(lane)
                        .write(used as u32)
                },
                false => memory[lane] = used,
            }
        }
    }
    u32::from(used.is_none())
}

/// The host returns this address to generated code as the address of an access that ends the
/// launch. No thread can access this address.
pub(super) const NOWHERE: u64 = 0;

/// Reports to the checking tools that a thread completes a group of asynchronous copies or waits
/// for such groups ([`Helpers::check_group`]).
///
/// # Safety
/// `context` must satisfy the contract of [`host`].
unsafe extern "C" fn check_group(context: *mut NativeContext, mode: u32, count: u32, thread: u32) {
    // SAFETY: the caller upholds the contract of this function.
    let cta = unsafe { (*context).cta };
    // SAFETY: the caller upholds the contract of this function.
    let host = unsafe { host(context) };
    let mode = Mode::ALL.get((mode as usize).wrapping_sub(1)).copied();
    if let Some(examiner) = &mut host.examiner {
        examiner.copy_group(cta, thread, mode.unwrap_or_default(), count);
    }
}

/// Reports to the checking tools that threads have synchronised ([`Helpers::synchronised`]).
///
/// # Safety
/// `context` must satisfy the contract of [`host`].
unsafe extern "C" fn synchronised(context: *mut NativeContext, warp: u32) {
    // SAFETY: the caller upholds the contract of this function.
    let (cta, warps) = unsafe { ((*context).cta, (*context).warps) };
    // SAFETY: the caller upholds the contract of this function.
    let host = unsafe { host(context) };
    let all = [u32::MAX; MOST_WARPS];
    let event = match warp {
        WHOLE_CTA => {
            let all = &all[..(warps as usize).min(MOST_WARPS)];
            SyncEvent::Barrier {
                barrier: 0,
                released: all,
                alive: all,
            }
        }
        warp => SyncEvent::Warp {
            warp,
            lanes: u32::MAX,
            alive: u32::MAX,
        },
    };
    host.synchronised(cta, event);
}

/// Reports a fence to the checking tools ([`Helpers::check_fence`]).
///
/// # Safety
/// `context` must satisfy the contract of [`host`].
unsafe extern "C" fn check_fence(context: *mut NativeContext, is_sc: u32, scope: u32, thread: u32) {
    // SAFETY: the caller upholds the contract of this function.
    let cta = unsafe { (*context).cta };
    // SAFETY: the caller upholds the contract of this function.
    let host = unsafe { host(context) };
    let scope = Scope::ALL.get((scope as usize).wrapping_sub(1)).copied();
    if let Some(examiner) = &mut host.examiner {
        examiner.fence(cta, thread, (is_sc != 0, scope.unwrap_or_default()));
    }
}

/// Maximum number of warps of a CTA (1,024 threads).
const MOST_WARPS: usize = 32;

/// The table of host functions that generated code calls.
pub(super) static HELPERS: Helpers = Helpers {
    pure_op,
    update,
    clock,
    special,
    syscall,
    texture,
    texture_lanes,
    in_space,
    copy,
    collective: sync_points::collective,
    reduce: sync_points::reduce,
    sort_out: sync_points::sort_out,
    settle: sync_points::settle,
    verify,
    verify_lanes,
    check_access,
    check_lanes,
    observe_lanes: recording::observe_lanes,
    observe_event: recording::observe_event,
    observe_cta: recording::observe_cta,
    observe_group: recording::observe_group,
    check_group,
    check_fence,
    synchronised,
};

/// Returns an untyped pointer to the host data, for the `host` field of a native context.
pub(super) fn erase(host: &mut HostData<'_>) -> *mut c_void {
    std::ptr::from_mut(host).cast()
}
