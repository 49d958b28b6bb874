//! What the host does with device memory: allocations, copies and fills change which bytes count as written.
//!
//! Copies do not know their runtime, so this module keeps a list of all checking runs of the process. The address tells
//! to which run memory belongs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use margay_shadow::init::Initialised;
use parking_lot::RwLock;

use super::{Access, Finding, Findings, Kind};
use crate::memory::AddressSpace;

/// The memory and the findings of each checking run.
static RUNS: RwLock<Vec<(Weak<AddressSpace>, Weak<Findings>)>> = RwLock::new(Vec::new());
/// Whether there has been a checking run that records initialisation or races.
static ANY: AtomicBool = AtomicBool::new(false);

/// Number of contiguous unwritten bytes from which a copy to the host is an error. Fewer bytes can be the padding of a
/// structure.
const NOT_PADDING: u64 = 16;

/// Adds a checking run.
pub(crate) fn begin(findings: &Arc<Findings>, memory: &Arc<AddressSpace>) {
    let shadow = findings.shadow();
    if shadow.initialised.is_some() || shadow.races.is_some() {
        let mut runs = RUNS.write();
        runs.retain(|(memory, _)| memory.strong_count() > 0);
        runs.push((Arc::downgrade(memory), Arc::downgrade(findings)));
        ANY.store(true, Ordering::Relaxed);
    }
}

/// Calls `action` for the checking run whose memory contains an address, if it records initialisation.
fn with(address: u64, action: impl Fn(&Findings, &Initialised)) {
    with_run(address, |findings| {
        if let Some(initialised) = &findings.shadow().initialised {
            action(findings, initialised);
        }
    });
}

/// Calls `action` with the findings of the checking run whose memory contains an address.
fn with_run(address: u64, action: impl Fn(&Findings)) {
    if !ANY.load(Ordering::Relaxed) {
        return;
    }
    for (memory, findings) in RUNS.read().iter() {
        let (Some(memory), Some(findings)) = (memory.upgrade(), findings.upgrade()) else {
            continue;
        };
        if memory.contains(address) {
            action(&findings);
        }
    }
}

/// Records an allocation in which nothing has been written.
pub(crate) fn allocated(address: u64, bytes: u64) {
    with(address, |_, initialised| initialised.track(address, bytes));
    with_run(address, |findings| {
        if let Some(races) = &findings.shadow().races {
            races.lock().forget(address, bytes);
        }
    });
}

/// Records that the allocation at an address was freed.
pub(crate) fn freed(address: u64) {
    with(address, |_, initialised| initialised.forget(address));
}

/// Records that bytes were written.
pub(crate) fn written(address: u64, bytes: u64) {
    with(address, |_, initialised| initialised.set(address, bytes));
}

/// Records a copy. If `to_host`, reports the bytes of the source that have not been written.
pub(crate) fn copied(dst: u64, src: u64, bytes: u64, to_host: bool) {
    with(dst, |_, initialised| initialised.copy(dst, src, bytes));
    with(src, |findings, initialised| {
        if to_host && let Some((offset, missing, longest)) = initialised.missing(src, bytes) {
            let whole = missing == bytes;
            let kind = match whole || longest >= NOT_PADDING {
                true => Kind::UninitializedCopy,
                false => Kind::PartlyUninitialized,
            };
            let unit = if missing == 1 { "byte" } else { "bytes" };
            let text = format!(
                "Host API uninitialized memory access: a copy of {bytes} bytes to the host reads {missing} {unit} that \
                 nobody has written, the first at offset {offset}"
            );
            let mut finding = Finding::new(kind, text);
            finding.access = Some(Access::Read);
            finding.space = Some("__global__");
            finding.address = Some(src + offset);
            finding.size = Some(missing);
            findings.add(finding, None);
        }
    });
}
