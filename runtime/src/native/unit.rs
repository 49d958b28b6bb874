//! Runs the CTAs of a unit. A unit consists of the CTAs of a cluster, or of a single CTA if the
//! launch has no clusters. The CTAs of a unit run alternately on one worker; in this module, a turn
//! is one execution of a CTA until the CTA stops.

use margay_exec::{CtaInfo, CtaState, FaultKind as IrFaultKind};

use super::faults;
use super::interpreted::InterpretedCta;
use super::launch::{PtxLaunch, Turn};
use super::native_cta::NativeCta;
use crate::engine::{ParkedUnit, RunOutcome, Worker};
use crate::error::Fault;
use crate::memory::CtaWindow;

/// Number of rounds, each with one turn of every CTA, after which a unit with yielded lanes releases its worker.
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

/// A resident unit, with its window and its CTAs. The index of a CTA is its rank; the entry of a CTA that is done is
/// `None`.
pub(super) struct Resident {
    pub(super) unit: u64,
    pub(super) ctas: Box<[Option<CtaKind>]>,
    pub(super) window: CtaWindow,
}

/// The result of a round: one turn of every CTA of a unit.
#[derive(Default)]
struct Round {
    /// Whether any CTA of the unit made progress.
    moved: bool,
    /// Whether any CTA of the unit has lanes that yielded.
    yielded: bool,
}

impl PtxLaunch {
    /// Runs the CTAs of a unit one after the other, in several rounds, until all CTAs are done. Parks the unit if it
    /// has lanes that yielded, and it makes no progress, has only one CTA left or has used all [`ROUNDS`]. Returns a
    /// deadlock fault if no CTA can continue and no thread waits for memory.
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
            let mut passed = Vec::new();
            if left.iter().all(|state| state.is_at_cluster_barrier()) {
                passed.extend(left.iter().map(|state| state.cluster_lanes()));
                for state in &mut left {
                    moved |= state.pass_cluster_barrier();
                }
            }
            let left = left.len();
            if !passed.is_empty() {
                let ctas = resident.ctas.iter().flatten();
                let ctas = ctas.map(|cta| *cta.info()).zip(passed);
                self.order_cluster(ctas.collect());
            }
            progressed |= moved;
            rounds += 1;
            // While other CTAs of the unit make progress, yielded lanes poll again. The number of rounds is limited
            // because the lanes can wait for another unit.
            if round.yielded && (!moved || rounds >= ROUNDS || left == 1) {
                return RunOutcome::Parked(ParkedUnit {
                    unit: resident.unit,
                    state: Box::new(resident),
                    progressed,
                });
            }
            if !moved {
                return self.fail(worker, self.deadlock(&resident));
            }
        }
    }

    /// Runs one turn of each CTA of a unit, and removes the CTAs that are done.
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
                    self.ended(cta.info().linear, 1);
                    resident.ctas[at] = None;
                    round.moved = true;
                }
                Turn::Parked { progressed } => {
                    round.yielded = true;
                    round.moved |= progressed;
                }
                Turn::AtClusterBarrier { progressed } => round.moved |= progressed,
            }
        }
        Ok(round)
    }

    /// Returns texts that state, for each CTA of the unit, where its threads wait.
    pub(super) fn places(&self, resident: &Resident) -> Vec<String> {
        let line = |cta: &CtaKind| {
            let [x, y, z] = cta.info().index;
            format!("block ({x},{y},{z}): {}", cta.describe(self).join("; "))
        };
        resident.ctas.iter().flatten().map(line).collect()
    }

    /// Returns the fault for a barrier of the cluster that can never complete. The fault describes
    /// where the threads of the unit's CTAs wait.
    fn deadlock(&self, resident: &Resident) -> Fault {
        let waiting = self.places(resident);
        match resident.ctas.iter().flatten().next() {
            Some(cta) => faults::report(self, cta.info(), IrFaultKind::Deadlock { waiting }.into()),
            None => self.internal("a cluster barrier without waiting threads"),
        }
    }
}
