//! A unit of the scheduler: the CTAs of a cluster, most often one, which take turns on one worker.

use margay_exec::{CtaInfo, CtaState, FaultKind as IrFaultKind};

use super::faults;
use super::interpreted::InterpretedCta;
use super::launch::{PtxLaunch, Turn};
use super::native_cta::NativeCta;
use crate::engine::{ParkedUnit, RunOutcome, Worker};
use crate::error::Fault;
use crate::memory::CtaWindow;

/// Turns that the CTAs of a cluster take before a unit with lanes that gave way gives its worker away.
const ROUNDS: u32 = 64;

pub(super) enum CtaKind {
    Native(Box<NativeCta>),
    Interpreted(Box<InterpretedCta>),
}

impl CtaKind {
    fn run(&mut self, launch: &PtxLaunch) -> Result<Turn, Fault> {
        match self {
            CtaKind::Native(cta) => cta.run(launch),
            CtaKind::Interpreted(cta) => cta.run(launch),
        }
    }

    fn describe(&self, launch: &PtxLaunch) -> Vec<String> {
        match self {
            CtaKind::Native(cta) => cta.describe(launch),
            CtaKind::Interpreted(cta) => cta.describe(launch),
        }
    }

    fn info(&self) -> &CtaInfo {
        match self {
            CtaKind::Native(cta) => cta.info(),
            CtaKind::Interpreted(cta) => cta.info(),
        }
    }

    fn state_mut(&mut self) -> &mut CtaState {
        match self {
            CtaKind::Native(cta) => cta.state_mut(),
            CtaKind::Interpreted(cta) => cta.state_mut(),
        }
    }
}

/// A unit: its window, and its CTAs that are not done, by rank.
pub(super) struct Resident {
    pub(super) unit: u64,
    pub(super) ctas: Box<[Option<CtaKind>]>,
    pub(super) window: CtaWindow,
}

/// What the CTAs of a unit did in a turn of each.
#[derive(Default)]
struct Round {
    /// Whether any got past a wait.
    moved: bool,
    /// Whether any has lanes that gave way.
    gave_way: bool,
}

impl PtxLaunch {
    /// Runs the CTAs of a unit in turn until all are done or wait for memory to change.
    pub(super) fn drive(&self, worker: &mut dyn Worker, mut resident: Resident) -> RunOutcome {
        let mut progressed = false;
        let mut rounds = 0;
        loop {
            if worker.stop_requested() {
                return RunOutcome::Stopped {
                    place: String::new(),
                };
            }
            let round = match self.round(&mut resident) {
                Ok(round) => round,
                Err(fault) => return self.fail(worker, fault),
            };
            let mut left: Vec<&mut CtaState> = resident
                .ctas
                .iter_mut()
                .flatten()
                .map(CtaKind::state_mut)
                .collect();
            if left.is_empty() {
                worker.return_window(resident.window);
                return RunOutcome::Done;
            }
            let mut moved = round.moved;
            if left.iter().all(|state| state.is_at_cluster_barrier()) {
                for state in &mut left {
                    moved |= state.pass_cluster_barrier();
                }
            }
            progressed |= moved;
            rounds += 1;
            // Where others move, those that gave way look again, but not for ever: they may wait for another unit.
            if round.gave_way && (!moved || rounds >= ROUNDS || left.len() == 1) {
                return RunOutcome::Parked(ParkedUnit {
                    unit: resident.unit,
                    state: Box::new(resident),
                    window: None,
                    progressed,
                });
            }
            if !moved {
                return self.fail(worker, self.deadlock(&resident));
            }
        }
    }

    /// A turn for each CTA of a unit; those that end leave it.
    fn round(&self, resident: &mut Resident) -> Result<Round, Fault> {
        let mut round = Round::default();
        let last = resident.ctas.len().saturating_sub(1);
        for at in 0..resident.ctas.len() {
            let at = if self.shape.reverse { last - at } else { at };
            let Some(cta) = &mut resident.ctas[at] else {
                continue;
            };
            match cta.run(self)? {
                Turn::Done => {
                    resident.ctas[at] = None;
                    round.moved = true;
                }
                Turn::Parked { progressed } => {
                    round.gave_way = true;
                    round.moved |= progressed;
                }
                Turn::AtClusterBarrier { progressed } => round.moved |= progressed,
            }
        }
        Ok(round)
    }

    /// Where the threads of a unit wait, CTA by CTA.
    pub(super) fn places(&self, resident: &Resident) -> Vec<String> {
        let line = |cta: &CtaKind| {
            let [x, y, z] = cta.info().index;
            format!("block ({x},{y},{z}): {}", cta.describe(self).join("; "))
        };
        resident.ctas.iter().flatten().map(line).collect()
    }

    /// The barrier of a cluster cannot complete: where the threads of all its CTAs wait.
    fn deadlock(&self, resident: &Resident) -> Fault {
        let waiting = self.places(resident);
        match resident.ctas.iter().flatten().next() {
            Some(cta) => faults::report(self, cta.info(), IrFaultKind::Deadlock { waiting }.into()),
            None => self.internal("a barrier that nobody waits at"),
        }
    }
}
