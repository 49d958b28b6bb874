//! Determines whether a thread of a CTA may access a range of memory.

use std::ops::Range;

use margay_exec::FaultKind;
use margay_ir::observe::{AccessMode, ObservedAccess};
use margay_jit::abi::PermittedRange;
use margay_ops::mods::StateSpace;

use super::super::shared::SharedVariable;
use super::deferred::chunk_of;
use super::{ALIGN, Chunk, Examiner, Observed, PART, SPARE};
use crate::checks::Kind;
use crate::engine::Coordinates;
use crate::memory::within;
use crate::native::reach::is_in_workspace;

impl Examiner<'_> {
    /// Checks an access of a thread to contiguous bytes. Returns the kind of finding for this
    /// access, or `None` if the thread may access the bytes. `whole` is the address of the whole
    /// access, whose alignment is checked.
    pub(super) fn problem(
        &mut self,
        at: &Observed<'_>,
        whole: u64,
        (address, bytes): (u64, u32),
    ) -> Option<Kind> {
        let (access, thread) = (at.access, at.thread);
        let align = u64::from(access.bytes).next_power_of_two();
        let bytes = u64::from(bytes);
        let writes = access.mode.writes();
        if !whole.is_multiple_of(align) && self.holds(access.space, thread, (address, 1), writes) {
            return Some(Kind::Misaligned);
        }
        match self.holds(access.space, thread, (address, bytes), writes) {
            true => None,
            false => Some(self.kind_outside(access.space, address, writes)),
        }
    }

    /// Returns whether a thread may access all bytes of a range. `address` is an address in the
    /// state space `space`.
    fn holds(
        &mut self,
        space: StateSpace,
        thread: u32,
        (address, bytes): (u64, u64),
        writes: bool,
    ) -> bool {
        match space {
            StateSpace::Shared | StateSpace::SharedCluster => self.is_shared(address, bytes),
            StateSpace::Local => self.is_local(thread, address, bytes),
            StateSpace::None => {
                self.is_device(address, bytes, writes)
                    || self.is_own(thread, address, bytes, writes)
            }
            _ => self.is_device(address, bytes, writes),
        }
    }

    /// Returns the kind of finding for an access to memory that the thread must not access.
    #[cold]
    fn kind_outside(&self, space: StateSpace, address: u64, writes: bool) -> Kind {
        const NULL_PAGES: u64 = 64 << 10;
        match self.space_of(space, address) {
            StateSpace::Shared | StateSpace::SharedCluster | StateSpace::Local => Kind::OutOfBounds,
            _ if address < NULL_PAGES => Kind::NullPointer,
            _ if self.visible.was_freed(address) || self.was_freed_in_heap(address) => {
                Kind::UseAfterFree
            }
            StateSpace::Const if space != StateSpace::Const && writes => Kind::WrongSpace,
            StateSpace::Const => Kind::OutOfBounds,
            _ if !self.visible.is_managed(address) => Kind::WrongSpace,
            _ => Kind::OutOfBounds,
        }
    }

    /// Returns whether an access that is not permitted must end the launch. The result is true if
    /// the checking tool that reports such accesses (memcheck) does not run, and the access would
    /// also end a launch outside a checking run.
    #[cold]
    pub(super) fn ends_unchecked(
        &self,
        kind: Kind,
        at: &Observed<'_>,
        (address, bytes): (u64, u32),
    ) -> bool {
        if self.findings.tools().contains(kind.tool()) {
            return false;
        }
        match self.space_of(at.access.space, address) {
            _ if kind == Kind::Misaligned => true,
            StateSpace::Shared | StateSpace::SharedCluster => {
                self.shared_offset_of(address, bytes.into()).is_none()
            }
            StateSpace::Local => {
                let own = u64::from(self.launch.local_bytes).next_multiple_of(ALIGN);
                !within(&self.local(at.thread, own), address, bytes.into())
            }
            _ => {
                let last = address.saturating_add(u64::from(bytes).saturating_sub(1));
                let is_there = |address| {
                    let mut byte = [0];
                    crate::fault::access::read(&mut byte, address).is_ok()
                };
                !(self.visible.is_managed(address) && is_there(address) && is_there(last))
            }
        }
    }

    /// Returns whether a single shared variable, or the dynamic shared memory, contains all bytes
    /// of a range. The memory can belong to the CTA or to another CTA of its cluster.
    pub(super) fn is_shared(&self, address: u64, bytes: u64) -> bool {
        let Some(offset) = self.shared_offset_of(address, bytes) else {
            return false;
        };
        if offset >= u64::from(self.info.static_shared) {
            return true;
        }
        self.shared_variable(offset)
            .is_some_and(|variable| offset + bytes <= variable.end)
    }

    /// Returns the offset of a range in the shared memory of the CTA that owns the range: this CTA
    /// or another CTA of its cluster. Returns `None` if no shared memory contains all bytes of the
    /// range.
    fn shared_offset_of(&self, address: u64, bytes: u64) -> Option<u64> {
        let (rank, offset) = self.shared_place(address);
        let all = u64::from(self.info.static_shared) + u64::from(self.info.dynamic_shared);
        let inside = offset < all && bytes <= all - offset;
        (rank < u64::from(self.info.cluster_size()) && inside).then_some(offset)
    }

    /// Returns the shared variable with the highest start that is at or before `offset`.
    fn shared_variable(&self, offset: u64) -> Option<&SharedVariable> {
        let variables = &self.launch.code.shared.variables;
        let next = variables.partition_point(|variable| variable.start <= offset);
        next.checked_sub(1).map(|index| &variables[index])
    }

    /// Does the same as [`Examiner::permitted`] for a permitted access of one lane. Returns `None`
    /// if the access is not a load, a store or an atomic update, or if accesses are passed to the
    /// race detector, because generated code then does not use ranges.
    pub(in crate::native) fn permitted_for_lane(
        &mut self,
        at: &Observed<'_>,
        address: u64,
    ) -> Option<PermittedRange> {
        let known = matches!(
            at.access.mode,
            AccessMode::Load | AccessMode::Store | AccessMode::Update
        );
        if !known || self.orders() {
            return None;
        }
        self.permitted(at, &chunk_of(address, 0, 1))
    }

    /// Returns the number of bytes at the start of a thread's local memory that the thread may
    /// access, or 0 if the host must observe each access.
    pub(in crate::native) fn checked_local(&self) -> u64 {
        match self.launch.waits.is_observed() {
            true => 0,
            false => u64::from(self.launch.local_bytes),
        }
    }

    /// For a chunk whose accesses are permitted, returns a range of memory that contains these accesses and that all
    /// threads may access in the same way. Returns `None` if no such range is known.
    pub(in crate::native) fn permitted(
        &mut self,
        at: &Observed<'_>,
        chunk: &Chunk<'_>,
    ) -> Option<PermittedRange> {
        if self.launch.waits.is_observed() {
            // Hang detection must observe each access, so generated code must not skip the check.
            return None;
        }
        let (low, bytes) = chunk.span(at.access.bytes)?;
        let (start, size) = match at.access.space {
            StateSpace::Shared if self.info.cluster_size() == 1 => {
                let base = self.cta.shared_base;
                let fixed = u64::from(self.info.static_shared);
                let (start, end) = match low.wrapping_sub(base) {
                    offset if offset < fixed => {
                        let variable = self.shared_variable(offset)?;
                        (variable.start, variable.end)
                    }
                    _ => (fixed, fixed + u64::from(self.info.dynamic_shared)),
                };
                (base + start, end - start)
            }
            StateSpace::None | StateSpace::Global => {
                self.recent[usize::from(at.access.mode.writes())][0]
            }
            _ => return None,
        };
        if !within(&(start..start + size), low, bytes) {
            return None;
        }
        let written = self.record_of((start, size))?;
        Some(PermittedRange {
            start,
            size,
            written,
        })
    }

    /// Returns the rank of the CTA whose shared memory contains `address`, and the offset of
    /// `address` in this shared memory.
    pub(super) fn shared_place(&self, address: u64) -> (u64, u64) {
        let offset = address.wrapping_sub(self.cta.shared_base);
        self.info.shared_place(offset)
    }

    /// Returns whether an address is in the shared-memory window of the CTA.
    pub(super) fn is_in_shared_window(&self, address: u64) -> bool {
        self.info.is_shared(&self.cta, address, true)
    }

    /// Returns whether an address is in the local memory of a thread of the CTA.
    pub(super) fn is_in_local_window(&self, address: u64) -> bool {
        let bytes = u64::from(self.cta.local_stride) * u64::from(self.info.threads());
        let start = self.cta.local_base;
        within(&(start..start + bytes), address, 1)
    }

    /// Returns the offset of the current CTA's shared memory from the start of its cluster's shared
    /// memory.
    pub(super) fn shared_offset(&self) -> u64 {
        match self.info.cluster_size() {
            1 => 0,
            _ => u64::from(self.info.cluster_rank(&self.cta)) << self.info.shared_shift(),
        }
    }

    /// Returns the first `bytes` bytes of a thread's local memory.
    fn local(&self, thread: u32, bytes: u64) -> Range<u64> {
        let start = self.cta.local_base + u64::from(thread) * u64::from(self.cta.local_stride);
        start..start + bytes
    }

    fn is_local(&self, thread: u32, address: u64, bytes: u64) -> bool {
        let own = self.local(thread, self.launch.local_bytes.into());
        within(&own, address, bytes)
    }

    /// Returns whether every thread of the CTA may access all bytes of a range. `address` is an
    /// address in the state space `space`. Returns false for local memory, because each thread may
    /// access only its own local memory.
    pub(super) fn holds_for_all(
        &mut self,
        space: StateSpace,
        (address, bytes): (u64, u64),
        writes: bool,
    ) -> bool {
        match space {
            StateSpace::Shared | StateSpace::SharedCluster => self.is_shared(address, bytes),
            StateSpace::Local => false,
            StateSpace::None => {
                self.is_device(address, bytes, writes) || self.is_shared(address, bytes)
            }
            _ => self.is_device(address, bytes, writes),
        }
    }

    /// Returns whether all CTAs of the launch may access all bytes of a range. `writes` states
    /// whether the access writes.
    fn is_device(&mut self, address: u64, bytes: u64, writes: bool) -> bool {
        let recent = &mut self.recent[usize::from(writes)];
        let found = recent.iter().position(|&(start, size)| {
            let offset = address.wrapping_sub(start);
            offset < size && bytes <= size - offset
        });
        if let Some(at) = found {
            recent.swap(0, at);
            return true;
        }
        let services = &self.launch.shape.services;
        if services.heap_region().contains(&address) {
            // Threads allocate and free heap blocks while the launch runs, so heap blocks are not stored in `recent`.
            let block = services.heap_block(address);
            return block.is_some_and(|block| within(&block, address, bytes));
        }
        let mut found = self.visible.allocation(address, bytes, writes);
        if found.is_none() && writes {
            found = self.constant_of_other_module(address, bytes);
        }
        let Some(found) = found else {
            return false;
        };
        let recent = &mut self.recent[usize::from(writes)];
        recent.rotate_right(1);
        recent[0] = found;
        true
    }

    /// Returns the start and size of the constant variable that contains all `bytes` bytes at `address`, if a module
    /// other than the kernel's own module defines the variable. The kernel may write such a variable, because the
    /// memory is ordinary global memory for it: the host has queried the address (`cuModuleGetGlobal`) and passed it to
    /// the kernel. The kernels of the defining module must not write the variable.
    fn constant_of_other_module(&self, address: u64, bytes: u64) -> Option<(u64, u64)> {
        let found = self.visible.constant(address, bytes)?;
        (!self.info.is_constant(found.0)).then_some(found)
    }

    /// Returns whether all bytes at a generic address are in memory other than device memory that the thread may
    /// access: shared, local or parameter memory, the workspace of grid barriers, or the texts of error codes.
    fn is_own(&self, thread: u32, address: u64, bytes: u64, writes: bool) -> bool {
        let part = |start: u64, size: u64| within(&(start..start + size), address, bytes);
        let params = self.launch.shape.params.bytes().len() as u64;
        self.is_shared(address, bytes)
            || self.is_local(thread, address, bytes)
            || !writes && part(self.info.params, params)
            || is_in_workspace(self.info, address, bytes)
            || !writes && crate::error_texts::holds(address, bytes)
    }

    fn was_freed_in_heap(&self, address: u64) -> bool {
        let services = &self.launch.shape.services;
        services.heap_region().contains(&address) && services.was_freed_in_heap(address)
    }

    /// Examines the argument of a `free` in device code, and frees the block if the argument is
    /// valid. Returns 0, which replaces the argument of the program's call of `free`.
    ///
    /// # Errors
    /// Returns the fault of the call if the argument is invalid and an invalid argument ends the
    /// launch.
    pub(super) fn release(&mut self, at: &Observed<'_>, address: u64) -> Result<u64, FaultKind> {
        let services = &self.launch.shape.services;
        let block = services.heap_block(address);
        if block.is_some_and(|block| block.start == address) {
            // The block is freed here and not by the later call, so that a double free by two lanes of a warp is
            // detected.
            let _ = services.free(&Coordinates::default(), address);
            return Ok(0);
        }
        if address == 0 {
            return Ok(0);
        }
        let kind = match services.was_freed_in_heap(address) {
            true => Kind::DoubleFree,
            false => Kind::InvalidFree,
        };
        self.report_free(at, address, kind);
        let fault = FaultKind::Unsupported {
            what: format!("free({address:#x}): {}", kind.name()),
        };
        if self.ends(kind) || !self.findings.tools().contains(kind.tool()) {
            return Err(fault);
        }
        self.suppress(kind, at, fault);
        Ok(0)
    }

    /// Returns the address of spare memory for a suppressed access, in the state space of the access. First sets spare
    /// memory to zero if it is shared or local memory, or if the access is atomic.
    pub(super) fn spare(&self, thread: u32, access: &ObservedAccess) -> u64 {
        let reads = matches!(access.mode, AccessMode::Load | AccessMode::Copy);
        let part = if reads { 0 } else { PART as u64 };
        let start = match access.space {
            StateSpace::Local => {
                self.local(thread, self.cta.local_stride.into()).end - u64::from(SPARE)
            }
            StateSpace::Shared | StateSpace::SharedCluster => {
                let own = u64::from(self.info.static_shared) + u64::from(self.info.dynamic_shared);
                self.cta.shared_base + own
            }
            _ => {
                let at = self.findings.spare(access.mode);
                if access.mode == AccessMode::Update {
                    // SAFETY: no program uses this memory, which the machine has allocated.
                    let _ = unsafe { crate::fault::access::write(at, &[0; PART]) };
                }
                return at;
            }
        };
        let at = start.next_multiple_of(ALIGN) + part;
        // SAFETY: no program uses this memory, which the window of the CTA contains (`PtxLaunch::window`).
        let _ = unsafe { crate::fault::access::write(at, &[0; PART]) };
        at
    }
}
