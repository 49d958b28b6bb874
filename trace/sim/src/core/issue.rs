//! The choice of a warp, and what its instruction does.

use crate::config::Policy;
use crate::core::Core;
use crate::cycle::{Cycle, NEVER};
use crate::kernel::Kernel;
use crate::load_store::Done;
use crate::memory::MemorySystem;
use crate::program::{AccessKind, Action, Template, UnitKind};
use crate::warp::Warp;

/// Stages of the pipeline around a unit, which every result passes.
const PIPELINE: Cycle = 5;
/// Cycles that an instruction without a destination is in the pipeline beyond its latency.
const DRAIN: Cycle = 4;

impl Core {
    /// Issues an instruction of a scheduler's warps, if one can issue.
    pub(super) fn schedule(
        &mut self,
        index: usize,
        now: Cycle,
        memory: &mut MemorySystem,
        kernels: &mut [Option<Kernel>],
    ) {
        // An issue can make warps ready sooner: barriers.
        self.schedulers[index].next = NEVER;
        match self.choose(index, now) {
            Ok(slot) => {
                self.schedulers[index].last = slot;
                self.issue(slot, index, now, memory, kernels);
                let next = &mut self.schedulers[index].next;
                *next = (*next).min(now + 1);
            }
            Err(next) => self.schedulers[index].next = next,
        }
    }

    /// Returns the slot of the warp that issues, or else when one can.
    fn choose(&self, index: usize, now: Cycle) -> Result<usize, Cycle> {
        let count = self.schedulers.len();
        let slots = self.slots.saturating_sub(index).div_ceil(count);
        let last = self.schedulers[index].last;
        let mut next = NEVER;
        let mut oldest: Option<usize> = None;
        let mut position = last / count;
        for _ in 0..slots {
            position += 1;
            if position >= slots {
                position = 0;
            }
            let slot = index + position * count;
            let ready = self.ready[slot];
            if ready > now {
                next = next.min(ready);
                continue;
            }
            let room = self.room(index, self.next_units[slot]);
            if room > now {
                next = next.min(room);
            } else if self.policy == Policy::LooseRoundRobin || slot == last {
                return Ok(slot);
            } else if oldest.is_none_or(|oldest| self.ages[slot] < self.ages[oldest]) {
                oldest = Some(slot);
            }
        }
        oldest.ok_or(next)
    }

    /// Returns when a unit accepts an instruction of a scheduler.
    fn room(&self, scheduler: usize, unit: UnitKind) -> Cycle {
        match unit {
            UnitKind::Memory => self.memory_unit.room(),
            _ => self.units.room(scheduler, unit),
        }
    }

    /// Issues the next instruction of the warp in a slot.
    fn issue(
        &mut self,
        slot: usize,
        scheduler: usize,
        now: Cycle,
        memory: &mut MemorySystem,
        kernels: &mut [Option<Kernel>],
    ) {
        let warp = &mut self.warps[slot];
        let place = warp.cta;
        let Some(cta) = &mut self.ctas[place] else {
            return;
        };
        let Some(kernel) = &mut kernels[cta.kernel] else {
            return;
        };
        let record = cta.program.records[warp.cursor];
        let template = &kernel.templates[record.template()];
        let counters = &mut kernel.counters;
        counters.instructions += u64::from(record.lanes());
        counters.warp_instructions += 1;
        counters.unit_instructions[template.unit as usize] += 1;
        warp.cursor += 1;
        let mut resume = now + 1;
        match template.action {
            Action::Compute | Action::Exit | Action::Barrier => {
                let start = self.units.start(scheduler, template, now);
                let end = start + u64::from(template.latency);
                warp.write(template, end + PIPELINE);
                if !template.has_destination {
                    warp.done = warp.done.max(end + DRAIN);
                }
            }
            Action::CommitCopies => {
                self.units.start(scheduler, template, now);
                warp.commit_copies();
            }
            Action::WaitForCopies => {
                self.units.start(scheduler, template, now);
                resume = resume.max(warp.copies_done(record.argument));
            }
            Action::MemoryBarrier => {
                self.memory_unit.pass(now);
                resume = resume.max(warp.registers_written());
                self.memory_unit.invalidate(resume);
            }
            Action::Shared {
                is_store,
                is_atomic,
            } => {
                counters.shared_accesses += u64::from(record.argument > 0);
                counters.bank_conflicts += u64::from(record.argument.saturating_sub(1));
                let done = self.memory_unit.shared(now, record.argument, is_store);
                finish_access(warp, template, done, is_store);
                if is_atomic {
                    resume = resume.max(done.value);
                }
            }
            Action::Global(access) => {
                let lines = cta.program.access(record.argument);
                let local = self.local.lines(slot);
                let done = self
                    .memory_unit
                    .global(now, access, lines, local, memory, counters);
                finish_access(warp, template, done, access.kind == AccessKind::Store);
                match access.kind {
                    AccessKind::Atomic => resume = resume.max(done.all),
                    AccessKind::Copy => warp.copy(done.all),
                    AccessKind::Load | AccessKind::Store => {}
                }
            }
        }
        let is_barrier = template.action == Action::Barrier;
        counters.barriers += u64::from(is_barrier);
        if warp.is_finished() {
            self.ready[slot] = NEVER;
            self.end_warp(slot, now);
        } else {
            let next = &kernel.templates[cta.program.records[warp.cursor].template()];
            self.next_units[slot] = next.unit;
            self.ready[slot] = warp.registers_ready(next, resume);
            if is_barrier {
                self.arrive(slot, now);
            }
        }
    }
}

/// Notes when an access of a warp is done.
fn finish_access(warp: &mut Warp, template: &Template, done: Done, is_store: bool) {
    if !is_store {
        warp.write(template, done.value);
    }
    warp.accesses = warp.accesses.max(done.all);
}
