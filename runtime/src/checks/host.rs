//! What the host does with device memory: allocations, copies and fills change which bytes count as written.
//!
//! Copies do not know their runtime, so this module keeps a list of all checking runs of the process. The address tells
//! to which run memory belongs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use margay_shadow::init::Initialised;
use parking_lot::RwLock;

use super::{Access, CallStack, Finding, Findings, Kind};
use crate::memory::{AddressSpace, grouped_bytes};

/// The memory and the findings of each checking run.
static RUNS: RwLock<Vec<(Weak<AddressSpace>, Weak<Findings>)>> = RwLock::new(Vec::new());
/// Whether there has been a checking run that records initialisation.
static ANY: AtomicBool = AtomicBool::new(false);

/// Number of contiguous unwritten bytes from which a copy to the host is an error. Fewer bytes can be the padding of a
/// structure.
const NOT_PADDING: u64 = 16;

/// Adds a checking run.
pub(crate) fn begin(findings: &Arc<Findings>, memory: &Arc<AddressSpace>) {
    if findings.shadow().initialised.is_some() {
        let mut runs = RUNS.write();
        runs.retain(|(memory, _)| memory.strong_count() > 0);
        runs.push((Arc::downgrade(memory), Arc::downgrade(findings)));
        ANY.store(true, Ordering::Relaxed);
    }
}

/// Calls `action` for the checking run whose memory contains an address.
fn with(address: u64, action: impl Fn(&AddressSpace, &Findings, &Initialised)) {
    if !ANY.load(Ordering::Relaxed) {
        return;
    }
    for (memory, findings) in RUNS.read().iter() {
        let (Some(memory), Some(findings)) = (memory.upgrade(), findings.upgrade()) else {
            continue;
        };
        if memory.contains(address)
            && let Some(initialised) = &findings.shadow().initialised
        {
            action(&memory, &findings, initialised);
        }
    }
}

/// Records an allocation in which nothing has been written.
pub(crate) fn allocated(address: u64, bytes: u64) {
    with(address, |_, _, initialised| {
        initialised.track(address, bytes)
    });
}

/// Records that the allocation at an address was freed.
pub(crate) fn freed(address: u64) {
    with(address, |_, _, initialised| initialised.forget(address));
}

/// Records that bytes were written.
pub(crate) fn written(address: u64, bytes: u64) {
    with(address, |_, _, initialised| initialised.set(address, bytes));
}

/// Returns the stack of the current call if there is a checking run that examines copies to the host.
pub(crate) fn call() -> Option<CallStack> {
    ANY.load(Ordering::Relaxed).then(CallStack::capture)
}

/// Records a copy. For a copy to the host, `to_host` is the stack of the call; such a copy is reported if it reads bytes
/// that have not been written.
pub(crate) fn copied(dst: u64, src: u64, bytes: u64, to_host: Option<&CallStack>) {
    with(dst, |_, _, initialised| initialised.copy(dst, src, bytes));
    with(src, |memory, findings, initialised| {
        if to_host.is_some()
            && let Some((offset, missing, longest)) = initialised.missing(src, bytes)
        {
            let whole = missing == bytes;
            let kind = match whole || longest >= NOT_PADDING {
                true => Kind::UninitializedCopy,
                false => Kind::PartlyUninitialized,
            };
            let text = format!(
                "Host API uninitialized memory access: a copy of {} to the host reads {} that nobody has \
                 written, the first at offset {offset}",
                grouped_bytes(bytes),
                grouped_bytes(missing)
            );
            let mut finding = Finding::new(kind, text);
            finding.access = Some(Access::Read);
            finding.space = Some("__global__");
            finding.address = Some(src + offset);
            finding.size = Some(missing);
            finding.allocation = memory.describe(src + offset);
            findings.add(finding, to_host);
        }
    });
}
