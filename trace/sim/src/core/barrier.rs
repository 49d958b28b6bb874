//! Barriers of CTAs.

use crate::core::Core;
use crate::cycle::{Cycle, NEVER};
use crate::error::Deadlock;
use crate::kernel::Kernel;

impl Core {
    /// Lets the warp in a slot wait at the barrier of its CTA.
    pub(super) fn arrive(&mut self, slot: usize, now: Cycle) {
        self.warps[slot].is_at_barrier = true;
        self.warps[slot].resume = std::mem::replace(&mut self.ready[slot], NEVER);
        if let Some(cta) = &mut self.ctas[self.warps[slot].cta] {
            cta.waiting += 1;
        }
        self.open_barrier(self.warps[slot].cta, now);
    }

    /// Lets the warps of a CTA go on if all of them are at the barrier.
    pub(super) fn open_barrier(&mut self, place: usize, now: Cycle) {
        let Some(cta) = &mut self.ctas[place] else {
            return;
        };
        if cta.waiting == 0 || cta.waiting != cta.live {
            return;
        }
        cta.waiting = 0;
        let slots = std::mem::take(&mut cta.slots);
        for &slot in &slots {
            let warp = &mut self.warps[slot];
            if std::mem::take(&mut warp.is_at_barrier) {
                let time = warp.resume.max(now + 1);
                self.ready[slot] = time;
                self.wake(slot, time);
            }
        }
        if let Some(cta) = &mut self.ctas[place] {
            cta.slots = slots;
        }
    }

    /// Returns a warp that waits at a barrier, if the core has one.
    pub(crate) fn stuck(&self, kernels: &[Option<Kernel>]) -> Option<Deadlock> {
        let mut warps = self.warps.iter().zip(&self.is_taken);
        let (warp, _) = warps.find(|(warp, taken)| **taken && warp.is_at_barrier)?;
        let cta = self.ctas[warp.cta].as_ref()?;
        let kernel = kernels[cta.kernel].as_ref()?;
        let record = cta.program.records.get(warp.cursor.checked_sub(1)?)?;
        let template = &kernel.templates[record.template()];
        Some(Deadlock {
            kernel: kernel.header.kernel_id,
            name: kernel.header.kernel_name.clone(),
            cta: cta.program.cta,
            warp: warp.number,
            index: (warp.cursor - 1 - warp.begin) as u64,
            opcode: template.opcode.text().to_owned(),
            pc: template.pc,
            missing: cta.live - cta.waiting,
        })
    }
}
