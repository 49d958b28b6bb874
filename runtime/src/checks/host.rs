//! Records the host's operations on device memory: allocations, copies and fills change the record
//! of which bytes are initialised. Also reports changed red zones, unused memory, and copies of
//! unwritten bytes to the host.
//!
//! The functions that copy memory have no reference to a runtime. This module therefore keeps a
//! list of all checking runs of the process, and finds the checking run to which an access belongs
//! by the accessed address.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use margay_shadow::init::Initialised;
use parking_lot::RwLock;

use super::{Access, CallStack, Finding, Findings, Kind};
use crate::memory::{AddressSpace, Overwritten, ZoneSide, grouped_bytes};

/// The memory and the findings of each checking run.
static RUNS: RwLock<Vec<(Weak<AddressSpace>, Weak<Findings>)>> = RwLock::new(Vec::new());
/// Whether the process has ever started a checking run that records initialised memory, records accesses for the race
/// detector, or uses red zones.
static ANY: AtomicBool = AtomicBool::new(false);

/// Minimum number of contiguous unwritten bytes for which a copy to the host is reported as an
/// error. Fewer bytes can be the padding of a structure.
const NOT_PADDING: u64 = 16;

/// Adds a checking run to the list of all checking runs of the process.
pub(crate) fn begin(findings: &Arc<Findings>, memory: &Arc<AddressSpace>) {
    let shadow = findings.shadow();
    let zones = findings.options().zones.is_some();
    if zones || shadow.initialised.is_some() || shadow.races.is_some() {
        let mut runs = RUNS.write();
        runs.retain(|(memory, _)| memory.strong_count() > 0);
        runs.push((Arc::downgrade(memory), Arc::downgrade(findings)));
        ANY.store(true, Ordering::Relaxed);
    }
}

/// Calls `action` for the checking run whose memory contains an address, if this run records which
/// memory is initialised.
fn with(address: u64, action: impl Fn(&Findings, &Initialised)) {
    with_memory(address, |_, findings, initialised| {
        action(findings, initialised);
    });
}

/// Does the same as [`with`], but also passes the memory of the checking run to `action`.
fn with_memory(address: u64, action: impl Fn(&AddressSpace, &Findings, &Initialised)) {
    with_run(address, |memory, findings| {
        if let Some(initialised) = &findings.shadow().initialised {
            action(memory, findings, initialised);
        }
    });
}

/// Calls `action` with the memory and the findings of the checking run whose memory contains an address.
fn with_run(address: u64, action: impl Fn(&AddressSpace, &Findings)) {
    if !ANY.load(Ordering::Relaxed) {
        return;
    }
    for (memory, findings) in RUNS.read().iter() {
        let (Some(memory), Some(findings)) = (memory.upgrade(), findings.upgrade()) else {
            continue;
        };
        if memory.contains(address) {
            action(&memory, &findings);
        }
    }
}

thread_local! {
    /// The stack of the call that submitted the copy that this thread performs.
    static SUBMITTED: RefCell<Option<CallStack>> = const { RefCell::new(None) };
}

/// Captures and returns the stack of the calling thread. Returns `None` if the process has never started a checking run
/// that can report findings about copies.
pub(crate) fn submission() -> Option<CallStack> {
    ANY.load(Ordering::Relaxed).then(CallStack::capture)
}

/// Performs a copy. `call` is the stack of the call that submitted the copy; findings about the copy contain this
/// stack.
pub(crate) fn perform<R>(call: Option<CallStack>, copy: impl FnOnce() -> R) -> R {
    if call.is_none() {
        return copy();
    }
    SUBMITTED.set(call);
    let result = copy();
    SUBMITTED.set(None);
    result
}

/// Reports a finding if the red zones of the allocation that contains an address have changed.
pub(crate) fn examine_zones(address: u64) {
    with_run(address, |memory, findings| {
        if let Some(found) = memory.overwritten(address) {
            let call = SUBMITTED.with_borrow(Clone::clone);
            report_zones(
                findings,
                &found,
                Some(&call.unwrap_or_else(CallStack::capture)),
            );
        }
    });
}

/// Examines the red zones of all allocations of an owner. When the process exits, `owner` is
/// `None`: the function then examines all allocations, and the findings contain no stack of a call.
pub(crate) fn examine_all_zones(memory: &AddressSpace, owner: Option<u64>) {
    let (start, call) = (memory.range().start, owner.map(|_| CallStack::capture()));
    with_run(start, |memory, findings| {
        for found in memory.all_overwritten(owner) {
            report_zones(findings, &found, call.as_ref());
        }
    });
}

fn report_zones(findings: &Findings, found: &Overwritten, call: Option<&CallStack>) {
    for side in &found.sides {
        let side = match side {
            ZoneSide::Header => "header",
            ZoneSide::Footer => "footer",
        };
        let text = format!("Overwrite of CUDA memory block {side}");
        let mut finding = Finding::new(Kind::ChangedRedZone, text);
        finding.address = Some(found.allocation.base);
        finding.size = Some(found.allocation.size);
        if let Some(allocated) = &found.allocated {
            finding.origin = allocated.frames().to_vec();
        }
        findings.add(finding, call);
    }
}

/// Examines the red zones of the allocations that a copy or fill accesses: once when this value is created, and again
/// when it is dropped.
pub(crate) struct Zones<const N: usize>([u64; N]);

impl<const N: usize> Zones<N> {
    /// Examines the red zones of the allocations at these addresses, which a copy or fill is about to access.
    pub(crate) fn of(addresses: [u64; N]) -> Zones<N> {
        let zones = Zones(addresses);
        zones.examine();
        zones
    }

    fn examine(&self) {
        for address in self.0 {
            examine_zones(address);
        }
    }
}

impl<const N: usize> Drop for Zones<N> {
    fn drop(&mut self) {
        self.examine();
    }
}

/// Records an allocation. All bytes of the allocation are recorded as uninitialised, and the race
/// detector forgets earlier accesses to these bytes.
pub(crate) fn allocated(address: u64, bytes: u64) {
    with(address, |_, initialised| initialised.track(address, bytes));
    with_run(address, |_, findings| {
        if let Some(races) = &findings.shadow().races {
            races.lock().forget(address, bytes);
        }
    });
}

/// Records that the allocation at an address was freed.
pub(crate) fn freed(address: u64) {
    with(address, |_, initialised| initialised.forget(address));
}

/// Returns whether at least one checking run of the process reports unused memory.
pub(crate) fn reports_unused() -> bool {
    let reports = |findings: Arc<Findings>| findings.options().unused_memory.is_some();
    ANY.load(Ordering::Relaxed)
        && RUNS
            .read()
            .iter()
            .any(|(_, findings)| findings.upgrade().is_some_and(reports))
}

/// Reports how many bytes of the allocation at `address` are unwritten, and the offset of the first
/// unwritten byte. Reports nothing if the option `unused_memory` is not set, or if the share of
/// unwritten bytes is below the threshold. Must be called before the memory is freed. `call` is the
/// stack of the call that allocated the memory.
pub(crate) fn unused(address: u64, call: Option<&CallStack>) {
    with(address, |findings, initialised| {
        let Some(threshold) = findings.options().unused_memory else {
            return;
        };
        let Some(size) = initialised.tracked(address) else {
            return;
        };
        let Some((offset, missing, _)) = initialised.missing(address, size) else {
            return;
        };
        let percent = |bytes: u64| u128::from(bytes) * 100;
        if percent(missing) < u128::from(size) * u128::from(threshold) {
            return;
        }
        let text = format!(
            "Unused memory in allocation {address:#x} of size {}",
            grouped_bytes(size)
        );
        let mut finding = Finding::new(Kind::UnusedMemory, text);
        let share = percent(missing) / u128::from(size);
        finding.explanation = Some(format!(
            "Not written {}, the first at offset {offset}; {share}% of the allocation",
            grouped_bytes(missing)
        ));
        finding.space = Some("__global__");
        finding.address = Some(address);
        finding.size = Some(missing);
        findings.add(finding, call);
    });
}

/// Records that the `bytes` bytes at `address` are initialised.
pub(crate) fn written(address: u64, bytes: u64) {
    with(address, |_, initialised| initialised.set(address, bytes));
}

/// Records a copy. If the destination is host memory, reports the bytes of the source that have not
/// been written. The function regards the destination as host memory if no checking run owns the
/// memory at `dst`, or if `to_host` is true. The caller sets `to_host` if the program has stated
/// this direction of the copy.
pub(crate) fn copied(dst: u64, src: u64, bytes: u64, to_host: bool) {
    let inside = Cell::new(false);
    with_run(dst, |_, _| inside.set(true));
    let to_host = to_host || !inside.get();
    with(dst, |_, initialised| initialised.copy(dst, src, bytes));
    with_memory(src, |memory, findings, initialised| {
        if to_host
            && findings.options().init_global
            && let Some((offset, missing, longest)) = initialised.missing(src, bytes)
        {
            let whole = missing == bytes;
            let kind = match whole || longest >= NOT_PADDING {
                true => Kind::UninitializedCopy,
                false => Kind::PartlyUninitialized,
            };
            let text = format!(
                "Host API uninitialized memory access: a copy of {} to the host reads {} of uninitialized memory, the first \
                 at offset {offset}",
                grouped_bytes(bytes),
                grouped_bytes(missing)
            );
            let mut finding = Finding::new(kind, text);
            finding.access = Some(Access::Read);
            finding.space = Some("__global__");
            finding.address = Some(src + offset);
            finding.size = Some(missing);
            finding.allocation = memory.describe(src + offset);
            let call = SUBMITTED.with_borrow(Clone::clone);
            findings.add(finding, call.as_ref());
        }
    });
}
