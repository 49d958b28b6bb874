//! The host functions that the interpreter calls: the equivalents of [`super::helpers`].

use margay_exec::interp::{Machine, ObservedLaneEvent, ObservedLanes};
use margay_exec::{CtaInfo, FaultKind, LaunchInfo, SyncEvent};
use margay_ir::function::SourceLoc;
use margay_ir::module::Module;
use margay_ir::observe::ObservedAccess;
use margay_ir::syscall::Syscall;
use margay_ops::meaning::Bits;
use margay_ops::mods::{MemOrder, Mode, Scope};
use margay_ops::texture::{Access, Results};
use smallvec::SmallVec;

use super::helpers::{NOWHERE, allowed, nanoseconds, run_syscall, update_at};
use super::observe::{Examiner, Observed, Recorder};
use super::reach::Reach;
use super::{faults, textures};
use crate::engine::Services;
use crate::fault::{AccessKind, access};
use crate::texture_table::TextureTable;

/// The host functions that the interpreter calls.
pub(super) struct HostMachine<'a> {
    pub(super) info: &'a LaunchInfo,
    pub(super) services: &'a dyn Services,
    pub(super) module: &'a Module,
    pub(super) textures: &'a TextureTable,
    pub(super) reach: Option<Reach<'a>>,
    pub(super) examiner: Option<Examiner<'a>>,
    pub(super) recorder: Option<Recorder<'a>>,
    /// In a checking run: the fault, the thread and the source position of the access that ends the
    /// launch.
    pub(super) wrong_access: Option<(FaultKind, u32, SourceLoc)>,
}

impl HostMachine<'_> {
    fn may(&self, address: u64, bytes: u32, access: AccessKind) -> Result<(), FaultKind> {
        allowed(self.reach.as_ref(), address, u64::from(bytes), access).map_err(faults::of_access)
    }

    /// Returns the fault of the access that ended the launch in a checking run, and clears
    /// `wrong_access`.
    pub(super) fn take_wrong_access(&mut self) -> Option<margay_exec::Fault> {
        let (kind, thread, loc) = self.wrong_access.take()?;
        Some(margay_exec::Fault {
            kind,
            thread: Some(thread),
            loc,
        })
    }
}

impl Machine for HostMachine<'_> {
    #[inline]
    fn load(&mut self, address: u64, bytes: u32) -> Result<Bits, FaultKind> {
        self.may(address, bytes, AccessKind::Read)?;
        let loaded = match bytes {
            1 => access::load8(address).map(Bits::from),
            2 => access::load16(address).map(Bits::from),
            4 => access::load32(address).map(Bits::from),
            8 => access::load64(address).map(Bits::from),
            _ => access::load128(address),
        };
        loaded.map_err(faults::of_access)
    }

    #[inline]
    fn store(&mut self, address: u64, bytes: u32, value: Bits) -> Result<(), FaultKind> {
        let bytes = (bytes as usize).min(16);
        self.may(address, bytes as u32, AccessKind::Write)?;
        // SAFETY: device code chooses the address; an access that is not permitted faults and is reported.
        let stored = unsafe {
            match bytes {
                1 => access::store8(address, value as u8),
                2 => access::store16(address, value as u16),
                4 => access::store32(address, value as u32),
                8 => access::store64(address, value as u64),
                _ => access::store128(address, value),
            }
        };
        stored.map_err(faults::of_access)
    }

    fn update(
        &mut self,
        address: u64,
        bytes: u32,
        new: &mut dyn FnMut(Bits) -> Bits,
    ) -> Result<Bits, FaultKind> {
        self.may(address, bytes, AccessKind::Write)?;
        if let Some(examiner) = &mut self.examiner {
            examiner.performed();
        }
        update_at(address, bytes, new)
    }

    fn poll(&mut self) -> Result<(), FaultKind> {
        if crate::fault::pending() {
            Err(FaultKind::Stopped)
        } else {
            Ok(())
        }
    }

    fn fence(&mut self) {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    }

    fn clock(&mut self) -> u64 {
        nanoseconds()
    }

    fn syscall(
        &mut self,
        cta: &CtaInfo,
        thread: u32,
        which: Syscall,
        args: &[Bits],
    ) -> Result<SmallVec<[Bits; 1]>, FaultKind> {
        run_syscall(
            self.services,
            (self.info, self.module),
            cta,
            thread,
            which,
            args,
        )
    }

    fn check_access(
        &mut self,
        cta: &CtaInfo,
        thread: u32,
        (access, loc): (&ObservedAccess, SourceLoc),
        address: u64,
        operands: &[Bits],
    ) -> u64 {
        let at = Observed {
            access,
            loc,
            thread,
        };
        let Some(examiner) = &mut self.examiner else {
            return address;
        };
        match examiner.access(cta.linear, &at, address, operands) {
            Ok(address) => address,
            Err(kind) => {
                self.wrong_access.get_or_insert((kind, thread, loc));
                NOWHERE
            }
        }
    }

    fn observe_access(&mut self, cta: &CtaInfo, lanes: &ObservedLanes<'_>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.access(cta.linear, lanes);
        }
    }

    fn observe_event(&mut self, cta: &CtaInfo, lanes: &ObservedLaneEvent<'_>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.event(cta.linear, lanes);
        }
    }

    fn synchronised(&mut self, cta: &CtaInfo, event: SyncEvent<'_>) {
        if let Some(examiner) = &mut self.examiner {
            examiner.synchronised(cta.linear, event);
        }
    }

    fn check_group(&mut self, cta: &CtaInfo, thread: u32, mode: Mode, count: u32) {
        if let Some(examiner) = &mut self.examiner {
            examiner.copy_group(cta.linear, thread, mode, count);
        }
    }

    fn check_fence(&mut self, cta: &CtaInfo, thread: u32, (order, scope): (MemOrder, Scope)) {
        if let Some(examiner) = &mut self.examiner {
            examiner.fence(cta.linear, thread, (order == MemOrder::Sc, scope));
        }
    }

    fn texture(&mut self, access: &Access, args: &[Bits]) -> Result<Results, FaultKind> {
        textures::perform(self.textures, self.reach.as_ref(), access, args)
    }
}
