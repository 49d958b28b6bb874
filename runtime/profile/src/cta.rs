//! What one CTA has done so far: the instructions of its warps, and the arrivals at barriers that are not complete.

use margay::observe::{Position, SyncOperation, Synchronisation};
use smallvec::SmallVec;

use crate::counts::Counts;
use crate::document::{BarrierCounts, CtaBalance};

/// The state of a CTA.
#[derive(Default, Debug)]
pub(crate) struct CtaState {
    /// Number of instructions that all warps have executed.
    instructions: u64,
    /// For each warp, the number of instructions since its last barrier.
    since: Vec<u64>,
    phases: SmallVec<[Phase; 1]>,
}

/// The arrivals at a barrier since it completed the last time.
#[derive(Debug)]
struct Phase {
    number: u32,
    position: Position,
    /// Number of threads that must arrive.
    threads: u32,
    arrived: u32,
    /// For each warp that has arrived: its lanes, and its number of instructions since its previous barrier.
    warps: Vec<(u32, u32, u64)>,
}

impl CtaState {
    /// Adds instructions of a warp.
    pub(crate) fn run(&mut self, warp: u32, instructions: u64) {
        self.instructions += instructions;
        let warp = warp as usize;
        if self.since.len() <= warp {
            self.since.resize(warp + 1, 0);
        }
        self.since[warp] += instructions;
    }

    /// Adds the arrival of lanes of a warp at a barrier. `block` is the number of threads of the CTA.
    pub(crate) fn arrive(&mut self, event: &Synchronisation, block: u32, counts: &mut Counts) {
        let SyncOperation::Barrier {
            number, threads, ..
        } = event.operation
        else {
            return;
        };
        let since = self.since.get_mut(event.warp as usize);
        let instructions = since.map_or(0, std::mem::take);
        let known = self.phases.iter().position(|phase| phase.number == number);
        let index = match known {
            // The barrier has completed without threads that have exited.
            Some(index) if self.phases[index].has(event.warp, event.mask) => {
                self.phases.swap_remove(index).complete(counts);
                None
            }
            known => known,
        };
        let index = index.unwrap_or_else(|| {
            self.phases.push(Phase {
                number,
                position: event.position,
                threads: threads.unwrap_or(block),
                arrived: 0,
                warps: Vec::new(),
            });
            self.phases.len() - 1
        });
        let phase = &mut self.phases[index];
        phase.arrive(event.warp, event.mask, instructions);
        if phase.arrived >= phase.threads {
            self.phases.swap_remove(index).complete(counts);
        }
    }

    /// Adds what the CTA has done to `counts`, and to the balance of its launch. The CTA has ended.
    pub(crate) fn end(self, counts: &mut Counts, of_launch: &mut CtaBalance) {
        for phase in self.phases {
            phase.complete(counts);
        }
        let block = CtaBalance::of_block(self.instructions);
        counts.ctas.add(block);
        of_launch.add(block);
    }
}

impl Phase {
    /// Returns whether one of these lanes has already arrived.
    fn has(&self, warp: u32, mask: u32) -> bool {
        let mut same = self.warps.iter().filter(|(known, ..)| *known == warp);
        same.any(|(_, lanes, _)| lanes & mask != 0)
    }

    fn arrive(&mut self, warp: u32, mask: u32, instructions: u64) {
        self.arrived += mask.count_ones();
        match self.warps.iter_mut().find(|(known, ..)| *known == warp) {
            Some((_, lanes, known)) => {
                *lanes |= mask;
                *known += instructions;
            }
            None => self.warps.push((warp, mask, instructions)),
        }
    }

    fn complete(self, counts: &mut Counts) {
        let all = self.warps.iter().map(|&(.., instructions)| instructions);
        let most = all.clone().max().unwrap_or(0);
        let warps = self.warps.len() as u64;
        let executed: u64 = all.sum();
        let count = counts.barriers.entry(self.position).or_default();
        count.add(BarrierCounts {
            phases: 1,
            warps,
            executed,
            waited: most * warps - executed,
        });
    }
}
