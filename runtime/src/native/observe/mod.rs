//! Examines the accesses of a CTA in runs that check memory.
//!
//! An access that is not permitted is reported and suppressed: the thread accesses spare memory instead, from which
//! loads and atomics read zeros.

mod order;

pub(super) use order::synchronise_cluster;

use margay_exec::{CtaInfo, LaunchInfo};
use margay_ir::function::SourceLoc;
use margay_ir::observe::{AccessMode, ObservedAccess};
use margay_ops::meaning::Bits;
use margay_ops::mods::StateSpace;
use margay_shadow::init::Written;
use margay_shadow::race::CtaId;

use super::faults;
use super::kernel::KernelCode;
use super::launch::PtxLaunch;
use crate::checks::{Access, Finding, Findings, Kind, Place, ThreadPlace};
use crate::memory::{Visible, within};

/// Number of bytes of spare memory after the shared memory of a CTA and after the local memory of a thread: a part for
/// loads, a part for other accesses, and bytes for the alignment of both.
pub(super) const SPARE: u32 = 2 * PART as u32 + ALIGN as u32;
/// Number of bytes of a part of spare memory: more than any access.
const PART: usize = 64;
/// Alignment of spare memory: the largest alignment of an access.
pub(super) const ALIGN: u64 = 32;

/// An access of one thread, without its address.
pub(super) struct Observed<'a> {
    /// The properties that all lanes share.
    pub(super) access: &'a ObservedAccess,
    /// The position of the access in the source.
    pub(super) loc: SourceLoc,
    /// The linear index of the thread in its CTA.
    pub(super) thread: u32,
}

/// Examines the accesses of the CTAs that use one window.
pub(super) struct Examiner<'a> {
    launch: &'a PtxLaunch,
    info: &'a LaunchInfo,
    findings: &'a Findings,
    visible: &'a Visible,
    cta: CtaInfo,
    /// The allocation of the last access to device memory: most accesses are to few allocations.
    last: (u64, u64),
    /// The linear index of the present CTA, and its index in the race detector.
    known_cta: Option<(u64, CtaId)>,
}

impl<'a> Examiner<'a> {
    pub(super) fn new(
        launch: &'a PtxLaunch,
        findings: &'a Findings,
        visible: &'a Visible,
        cta: CtaInfo,
    ) -> Examiner<'a> {
        Examiner {
            launch,
            info: launch.info_for(&cta),
            findings,
            visible,
            cta,
            last: (0, 0),
            known_cta: None,
        }
    }

    /// Examines an access to `address` by a thread of the CTA with index `cta`. `operands` are the operands of the
    /// access. Returns the address that the thread accesses instead.
    pub(super) fn access(
        &mut self,
        cta: u64,
        at: &Observed<'_>,
        address: u64,
        operands: &[Bits],
    ) -> u64 {
        self.move_to(cta);
        let bytes = match at.access.mode {
            AccessMode::Copy => operands.first().map_or(0, |&bytes| bytes as u32),
            _ => at.access.bytes,
        };
        if bytes == 0 {
            return address;
        }
        if let Some(kind) = self.problem(at.thread, at.access, (address, bytes)) {
            self.report(at, (address, bytes), kind);
            return self.spare(at.thread, at.access);
        }
        self.initialisation(at, address, bytes);
        if self.orders() {
            self.order(at, address, bytes, operands);
        }
        address
    }

    /// Makes the CTA with a linear index the present one.
    fn move_to(&mut self, cta: u64) {
        if self.cta.linear != cta {
            self.cta.linear = cta;
            self.cta.index = self.info.cta_index(cta);
        }
    }

    /// Checks that bytes that a thread reads have been written, and records the bytes that it writes.
    fn initialisation(&self, at: &Observed<'_>, address: u64, bytes: u32) {
        let Some(initialised) = &self.findings.shadow().initialised else {
            return;
        };
        if matches!(
            at.access.space,
            StateSpace::Shared | StateSpace::SharedCluster | StateSpace::Local | StateSpace::Const
        ) {
            return;
        }
        if at.access.mode != AccessMode::Store {
            let (kind, part) = match initialised.written(address, bytes.into()) {
                Written::All => (None, ""),
                Written::Some => (
                    Some(Kind::PartlyUninitialized),
                    " of which some bytes were written",
                ),
                Written::None => (Some(Kind::Uninitialized), ""),
            };
            if let Some(kind) = kind {
                let unit = if bytes == 1 { "byte" } else { "bytes" };
                let text =
                    format!("Uninitialized __global__ memory read of size {bytes} {unit}{part}");
                let mut finding = self.finding(kind, text, at);
                finding.space = Some("__global__");
                finding.address = Some(address);
                finding.allocation = self.visible.describe(address);
                self.findings.add(finding);
            }
        }
        if at.access.mode.writes() {
            initialised.set(address, bytes.into());
        }
    }

    /// Returns what is wrong with an access; `None` if it is permitted.
    fn problem(
        &mut self,
        thread: u32,
        access: &ObservedAccess,
        (address, bytes): (u64, u32),
    ) -> Option<Kind> {
        let bytes = u64::from(bytes);
        let writes = access.mode.writes();
        let inside = match access.space {
            StateSpace::Shared | StateSpace::SharedCluster => self.is_shared(address, bytes),
            StateSpace::Local => self.is_local(thread, address, bytes),
            StateSpace::None => {
                self.is_device(address, bytes, writes)
                    || self.is_own(thread, address, bytes, writes)
            }
            _ => self.is_device(address, bytes, writes),
        };
        if !inside {
            return Some(self.kind_outside(access.space, address));
        }
        // The source of a copy has the alignment of its destination, which is checked.
        let align = match access.mode {
            AccessMode::Copy => 1,
            _ => bytes.next_power_of_two(),
        };
        let aligned = address.is_multiple_of(align);
        (!aligned).then_some(Kind::Misaligned)
    }

    /// Returns the kind of an access to memory that the thread may not access.
    #[cold]
    fn kind_outside(&self, space: StateSpace, address: u64) -> Kind {
        const NULL_PAGES: u64 = 64 << 10;
        match space {
            StateSpace::Shared | StateSpace::SharedCluster | StateSpace::Local => Kind::OutOfBounds,
            _ if address < NULL_PAGES => Kind::NullPointer,
            _ if self.visible.was_freed(address) => Kind::UseAfterFree,
            _ if !self.visible.is_managed(address) => Kind::WrongSpace,
            _ => Kind::OutOfBounds,
        }
    }

    /// Returns whether bytes are in the shared memory of the CTA, or of a CTA of its cluster.
    fn is_shared(&self, address: u64, bytes: u64) -> bool {
        let own = u64::from(self.info.static_shared) + u64::from(self.info.dynamic_shared);
        let offset = address.wrapping_sub(self.cta.shared_base);
        let (rank, offset) = match self.info.cluster_size() {
            1 => (0, offset),
            _ => {
                let shift = self.info.shared_shift();
                (offset >> shift, offset & ((1 << shift) - 1))
            }
        };
        rank < u64::from(self.info.cluster_size()) && offset < own && bytes <= own - offset
    }

    /// Returns whether an address is in the local memory of a thread of the CTA.
    fn is_in_local_window(&self, address: u64) -> bool {
        let bytes = u64::from(self.cta.local_stride) * u64::from(self.info.threads());
        within(
            &(self.cta.local_base..self.cta.local_base + bytes),
            address,
            1,
        )
    }

    /// Returns the offset of the present CTA's shared memory in the shared memory of its cluster.
    fn shared_offset(&self) -> u64 {
        match self.info.cluster_size() {
            1 => 0,
            _ => u64::from(self.info.cluster_rank(&self.cta)) << self.info.shared_shift(),
        }
    }

    fn is_local(&self, thread: u32, address: u64, bytes: u64) -> bool {
        let stride = u64::from(self.cta.local_stride);
        let start = self.cta.local_base + u64::from(thread) * stride;
        within(&(start..start + stride - u64::from(SPARE)), address, bytes)
    }

    /// Returns whether bytes are in memory that all CTAs share.
    fn is_device(&mut self, address: u64, bytes: u64, writes: bool) -> bool {
        let (start, size) = self.last;
        let offset = address.wrapping_sub(start);
        if offset < size && bytes <= size - offset {
            return true;
        }
        match self.visible.allocation(address, bytes, writes) {
            Some(found) => {
                self.last = found;
                true
            }
            None => false,
        }
    }

    /// Returns whether bytes at a generic address are in shared, local or parameter memory of the thread.
    fn is_own(&self, thread: u32, address: u64, bytes: u64, writes: bool) -> bool {
        let part = |start: u64, size: u64| within(&(start..start + size), address, bytes);
        let params = self.launch.shape.params.bytes().len() as u64;
        self.is_shared(address, bytes)
            || self.is_local(thread, address, bytes)
            || !writes && part(self.info.params, params)
            || self.info.workspace != 0 && part(self.info.workspace, super::reach::WORKSPACE)
            || !writes && crate::error_texts::holds(address, bytes)
    }

    /// Returns the address of spare memory for a suppressed access, in the state space of the access.
    fn spare(&self, thread: u32, access: &ObservedAccess) -> u64 {
        let part = match access.mode {
            AccessMode::Load | AccessMode::Copy => 0,
            AccessMode::Store | AccessMode::Update => PART as u64,
        };
        let start = match access.space {
            StateSpace::Local => {
                let stride = u64::from(self.cta.local_stride);
                self.cta.local_base + (u64::from(thread) + 1) * stride - u64::from(SPARE)
            }
            StateSpace::Shared | StateSpace::SharedCluster => {
                let own = u64::from(self.info.static_shared) + u64::from(self.info.dynamic_shared);
                self.cta.shared_base + own
            }
            _ => return self.findings.spare(access.mode),
        };
        let at = start.next_multiple_of(ALIGN) + part;
        // SAFETY: no program uses this memory, which the window of the CTA contains (`PtxLaunch::window`).
        let _ = unsafe { crate::fault::access::write(at, &[0; PART]) };
        at
    }

    #[cold]
    fn report(&self, at: &Observed<'_>, (address, bytes): (u64, u32), kind: Kind) {
        let space = space_name(at.access.space);
        let access = access_of(at.access.mode);
        let what = access.name();
        let unit = if bytes == 1 { "byte" } else { "bytes" };
        let gap = if space.is_empty() { "" } else { " " };
        let text = format!("Invalid {space}{gap}{what} of size {bytes} {unit}");
        let mut finding = self.finding(kind, text, at);
        finding.address = Some(address);
        finding.allocation = Some(self.describe(at, address, kind));
        self.findings.add(finding, self.launch.shape.call.as_ref());
    }

    /// Creates a finding about an access.
    fn finding(&self, kind: Kind, text: String, at: &Observed<'_>) -> Finding {
        let mut finding = Finding::new(kind, text);
        let code = &self.launch.code;
        finding.kernel = Some(code.name.clone());
        finding.place = place_of(code, at.loc);
        finding.access = Some(access_of(at.access.mode));
        finding.space = Some(space_name(at.access.space)).filter(|name| !name.is_empty());
        finding.size = Some(u64::from(at.access.bytes)).filter(|&bytes| bytes != 0);
        finding.thread = Some(ThreadPlace {
            thread: self.info.thread_index(at.thread),
            block: self.info.cta_index(self.cta.linear),
        });
        finding
    }

    /// Describes the memory of a wrong access.
    fn describe(&self, at: &Observed<'_>, address: u64, kind: Kind) -> String {
        let place = match at.access.space {
            StateSpace::Shared | StateSpace::SharedCluster => {
                let size = u64::from(self.info.static_shared) + u64::from(self.info.dynamic_shared);
                let offset = address.wrapping_sub(self.cta.shared_base);
                let size = crate::memory::grouped_bytes(size);
                format!("offset {offset:#x} of {size} of shared memory")
            }
            StateSpace::Local => "outside of the thread's local memory".to_owned(),
            _ => self
                .visible
                .describe(address)
                .unwrap_or_else(|| crate::memory::host_memory(address)),
        };
        match kind {
            Kind::Misaligned => format!("address is misaligned: {place}"),
            _ => format!("address is out of bounds: {place}"),
        }
    }
}

/// Returns a source position as reports name it.
pub(super) fn place_of(code: &KernelCode, loc: SourceLoc) -> Place {
    Place {
        ptx_line: (loc.ptx_line != 0).then_some(loc.ptx_line),
        source: faults::source_of(code, loc),
    }
}

/// Returns the name of a state space in reports, which is empty for a generic address.
fn space_name(space: StateSpace) -> &'static str {
    match space {
        StateSpace::Shared | StateSpace::SharedCluster => "__shared__",
        StateSpace::Local => "__local__",
        StateSpace::Global => "__global__",
        StateSpace::Const => "__constant__",
        StateSpace::Param | StateSpace::ParamFunc | StateSpace::None => "",
    }
}

fn access_of(mode: AccessMode) -> Access {
    match mode {
        AccessMode::Load | AccessMode::Copy => Access::Read,
        AccessMode::Store => Access::Write,
        AccessMode::Update => Access::Atomic,
    }
}
