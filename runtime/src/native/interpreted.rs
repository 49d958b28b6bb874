//! Runs CTAs with the interpreter.

use margay_exec::interp::{Interpreter, Threads};
use margay_exec::{CtaInfo, CtaState};

use super::faults;
use super::launch::{PtxLaunch, Turn};
use super::machine::HostMachine;
use crate::error::Fault;

/// A CTA that the interpreter runs: the values of its threads, and its state for the CTA scheduler.
pub(super) struct InterpretedCta {
    state: CtaState,
    threads: Threads,
    info: CtaInfo,
}

impl InterpretedCta {
    pub(super) fn new(launch: &PtxLaunch, info: CtaInfo) -> InterpretedCta {
        let state = launch.new_state();
        let threads = Threads::new(launch.info.threads());
        InterpretedCta {
            state,
            threads,
            info,
        }
    }

    pub(super) fn info(&self) -> &CtaInfo {
        &self.info
    }

    pub(super) fn state_mut(&mut self) -> &mut CtaState {
        &mut self.state
    }

    /// Runs the CTA until each of its threads is done or waits. In a checking run, this function
    /// then adds each undefined use of barriers in the CTA to the findings.
    pub(super) fn run(&mut self, launch: &PtxLaunch) -> Result<Turn, Fault> {
        let mut machine = HostMachine {
            info: launch.info_for(&self.info),
            services: &*launch.shape.services,
            module: &launch.code.module,
            textures: &launch.shape.textures,
            reach: launch.reach(&self.info),
            examiner: launch.examiner(self.info),
            recorder: launch.recorder(self.info),
            wrong_access: None,
        };
        let code = &launch.code;
        let mut interpreter = Interpreter::resume(
            (&code.module, &code.code),
            code.id,
            launch.info_for(&self.info),
            self.info,
            &mut machine,
            std::mem::take(&mut self.threads),
        );
        let outcome = loop {
            match self.state.run(&mut interpreter).map(Turn::of) {
                Ok(Ok(turn)) => break Ok(turn),
                Ok(Err(_)) => {}
                Err(fault) => break Err(fault),
            }
        };
        self.threads = interpreter.into_threads();
        let ended = launch.hand_on_findings(&self.info, &mut self.state);
        // If the examiner has decided that an access ends the launch, the launch ends even if the access itself did
        // not fault.
        let outcome = match machine.take_wrong_access() {
            Some(fault) => Err(fault),
            None => outcome,
        };
        let turn = outcome.map_err(|fault| faults::report(launch, &self.info, fault))?;
        ended.map_or(Ok(turn), Err)
    }

    /// Returns texts that state which threads of the CTA wait, and at which sync points.
    pub(super) fn describe(&self, launch: &PtxLaunch) -> Vec<String> {
        let mut machine = HostMachine {
            info: launch.info_for(&self.info),
            services: &*launch.shape.services,
            module: &launch.code.module,
            textures: &launch.shape.textures,
            reach: launch.reach(&self.info),
            examiner: launch.examiner(self.info),
            recorder: None,
            wrong_access: None,
        };
        let code = &launch.code;
        let interpreter = Interpreter::resume(
            (&code.module, &code.code),
            code.id,
            launch.info_for(&self.info),
            self.info,
            &mut machine,
            self.threads.clone(),
        );
        self.state.waiting(&interpreter)
    }
}
