//! Examines the accesses of CTAs in checking runs, and records events for tools ([`Recorder`]).
//!
//! An access that is not permitted causes a finding, and it ends the launch or is suppressed. If it is
//! suppressed, the thread accesses spare memory instead, from which loads and atomics read zeros.

mod bounds;
mod chunk;
mod deferred;
mod initial;
mod log;
mod order;
pub(super) mod perform;
mod record;
mod report;
mod runs;

use margay_exec::{CtaInfo, FaultKind, LaunchInfo};
use margay_ir::function::SourceLoc;
use margay_ir::observe::{AccessMode, ObservedAccess};
use margay_ops::meaning::Bits;
use margay_ops::mods::StateSpace;
use margay_shadow::init::View;
use margay_shadow::race::{CtaId, Site};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::launch::PtxLaunch;
use crate::checks::{Findings, Kind};
use crate::memory::Visible;
pub(super) use chunk::{Addresses, Chunk};
use deferred::{Epoch, chunk_of};
use log::Log;
pub(super) use order::synchronise_cluster;
pub(super) use record::Recorder;
use runs::GridRuns;

/// Size of the spare memory, in bytes. Spare memory lies after the shared memory of each CTA and after the local memory
/// of each thread. It consists of a part for loads, a part for other accesses, and padding for the alignment of the
/// parts.
pub(super) const SPARE: u32 = 2 * PART as u32 + ALIGN as u32;
/// Size in bytes of each part of spare memory. No access is larger than a part.
const PART: usize = 64;
/// Alignment of spare memory: the largest alignment of an access.
const ALIGN: u64 = 32;

/// Number of entries in an examiner's cache of access sites.
const KNOWN_SITES: usize = 32;

/// An access of one thread, without its address.
pub(super) struct Observed<'a> {
    /// The properties of the access that are equal for all lanes.
    pub(super) access: &'a ObservedAccess,
    /// The position of the access in the source.
    pub(super) loc: SourceLoc,
    /// The linear index of the thread in its CTA.
    pub(super) thread: u32,
}

/// Returns the fault that an access with the error `kind` causes on a GPU.
fn fault_of(kind: Kind, address: u64, mode: AccessMode) -> FaultKind {
    match kind {
        Kind::Misaligned => FaultKind::Misaligned {
            address: Some(address),
        },
        _ => FaultKind::IllegalAddress {
            address: Some(address),
            write: Some(mode != AccessMode::Load && mode != AccessMode::Copy),
        },
    }
}

/// The kind, position and properties of a reported access. Reports with equal keys differ only in
/// the thread.
type ReportKey = (Kind, u32, u32, u64);

/// Examines the accesses of those CTAs that run one after the other in the same window.
pub(super) struct Examiner<'a> {
    launch: &'a PtxLaunch,
    info: &'a LaunchInfo,
    findings: &'a Findings,
    visible: &'a Visible,
    cta: CtaInfo,
    /// The start and size of the allocations that were most recently read, and of the allocations
    /// that were most recently written. Most accesses are to few allocations, so this cache usually
    /// avoids a lookup.
    recent: [[(u64, u64); 4]; 2],
    /// A cache for the record of written bytes, with the most recently used ranges of this record.
    written: View,
    /// The linear index of the current CTA, and its index in the race detector.
    known_cta: Option<(u64, CtaId)>,
    /// A cache of access sites (the instructions that access memory, as the race detector knows
    /// them). The index is the PTX line modulo [`KNOWN_SITES`].
    known_sites: [Option<(SourceLoc, u64, Site)>; KNOWN_SITES],
    /// The ID of each finding that this examiner has reported ([`Findings::add`]).
    reported: FxHashMap<ReportKey, u64>,
    /// If accesses of a chunk end the launch, the fault and the thread of the first such access.
    wrong_access: Option<(FaultKind, u32)>,
    /// The accesses that generated code has recorded.
    log: Log,
    epoch: Epoch,
    /// Whether this examiner has received all accesses of the current CTA since its start, and the
    /// CTA's threads have not yet synchronised.
    unsynchronised: bool,
    grid_runs: GridRuns,
    /// For source positions of loads: whether the loads are passed to the race detector separately
    /// for each CTA. The index is the position modulo [`KNOWN_SITES`].
    known_separate: [Option<(u64, bool)>; KNOWN_SITES],
    /// Addresses and values of compare-and-swap operations that have been examined but not yet
    /// performed: the values that lanes are about to write. The field is needed because native code
    /// for chunks and the interpreter examine all lanes before they perform the first operation.
    swapped: SmallVec<[(u64, Bits); 4]>,
}

impl<'a> Examiner<'a> {
    pub(super) fn new(
        launch: &'a PtxLaunch,
        findings: &'a Findings,
        visible: &'a Visible,
        cta: CtaInfo,
    ) -> Examiner<'a> {
        let examiner = Examiner {
            launch,
            info: launch.info_for(&cta),
            findings,
            visible,
            cta,
            recent: [[(0, 0); 4]; 2],
            written: View::default(),
            known_cta: None,
            known_sites: [None; KNOWN_SITES],
            reported: FxHashMap::default(),
            wrong_access: None,
            log: Log::new(),
            epoch: Epoch::default(),
            unsynchronised: false,
            grid_runs: GridRuns::default(),
            known_separate: [None; KNOWN_SITES],
            swapped: SmallVec::new(),
        };
        examiner.begin_shared();
        examiner
    }

    /// Examines an access to `address` by a thread of the CTA with index `cta`. `operands` are the operands of the
    /// access. Returns the address that the thread must access: `address` or, if the access is suppressed, an address
    /// in spare memory.
    ///
    /// # Errors
    /// Returns the fault of the access if the access is not permitted and such accesses end the
    /// launch.
    pub(super) fn access(
        &mut self,
        cta: u64,
        at: &Observed<'_>,
        address: u64,
        operands: &[Bits],
    ) -> Result<u64, FaultKind> {
        self.move_to(cta);
        let bytes = match at.access.mode {
            AccessMode::Copy => operands.first().map_or(0, |&bytes| bytes as u32),
            AccessMode::Release => return self.release(at, address),
            _ => at.access.bytes,
        };
        if bytes == 0 {
            return Ok(address);
        }
        let wrong = match at.access.unused {
            0 => self.part(at, address, (address, bytes), operands),
            ObservedAccess::UNNEEDED => {
                let wrong = self.problem(at, address, (address, bytes));
                wrong.inspect(|&kind| self.report_access(at, (address, bytes), kind))
            }
            _ => at.access.parts().fold(None, |wrong, (offset, bytes)| {
                let part = (address.wrapping_add(offset.into()), bytes);
                self.part(at, address, part, operands).or(wrong)
            }),
        };
        match wrong {
            Some(kind) if self.ends(kind) || self.ends_unchecked(kind, at, (address, bytes)) => {
                Err(fault_of(kind, address, at.access.mode))
            }
            Some(kind) => {
                self.suppress(kind, at, fault_of(kind, address, at.access.mode));
                Ok(self.spare(at.thread, at.access))
            }
            None => Ok(address),
        }
    }

    /// Examines `part`, a part of an access that consists of contiguous bytes. `address` is the
    /// address of the whole access. Returns the kind of finding, or `None` if the access is
    /// permitted.
    fn part(
        &mut self,
        at: &Observed<'_>,
        address: u64,
        part: (u64, u32),
        operands: &[Bits],
    ) -> Option<Kind> {
        if let Some(kind) = self.problem(at, address, part) {
            self.report_access(at, part, kind);
            return Some(kind);
        }
        if self.launch.waits.is_observed() {
            let waits = &self.launch.waits;
            waits.note(self.cta.linear, at, part, operands);
        }
        self.initialisation(at, part.0, part.1);
        if self.orders() {
            self.note_immediate(at, &chunk_of(part.0, 0, 1));
            self.order(at, part.0, part.1, operands);
        }
        None
    }

    /// If accesses of the last examined chunk end the launch, removes and returns the fault and the
    /// thread of the first such access.
    pub(super) fn take_wrong_access(&mut self) -> Option<(FaultKind, u32)> {
        self.wrong_access.take()
    }

    /// Returns whether an access with the error `kind` must end the launch.
    fn ends(&self, kind: Kind) -> bool {
        let selected = self.findings.tools().contains(kind.tool());
        selected && self.findings.ends(self.info.grid_id)
    }

    /// Records that an operation is suppressed, and the fault that this operation causes on a GPU.
    fn suppress(&self, kind: Kind, at: &Observed<'_>, fault: FaultKind) {
        if !self.findings.tools().contains(kind.tool()) {
            return;
        }
        self.findings.suppressed(self.info.grid_id, || {
            let fault = margay_exec::Fault {
                kind: fault,
                thread: Some(at.thread),
                loc: at.loc,
            };
            crate::native::faults::report(self.launch, &self.cta, fault)
        });
    }

    /// Makes the CTA with linear index `cta` the current CTA.
    fn move_to(&mut self, cta: u64) {
        if self.cta.linear != cta {
            self.pass_deferred(true);
            if self.cta.linear != cta {
                self.unsynchronised = true;
                self.switch_to(cta);
            }
        }
    }

    fn switch_to(&mut self, cta: u64) {
        self.cta.linear = cta;
        self.cta.index = self.info.cta_index(cta);
        self.begin_shared();
    }

    /// Returns the state space of an address. For a generic address, this is the state space to
    /// which the address refers.
    fn space_of(&self, space: StateSpace, address: u64) -> StateSpace {
        match space {
            StateSpace::None if self.is_in_shared_window(address) => StateSpace::Shared,
            StateSpace::None if self.is_in_local_window(address) => StateSpace::Local,
            StateSpace::None if self.visible.is_constant(address) => StateSpace::Const,
            StateSpace::None => StateSpace::Global,
            space => space,
        }
    }
}
