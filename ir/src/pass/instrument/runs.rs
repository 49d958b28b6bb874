//! Creates one `observe.event` for each run of instructions of the PTX text.
//!
//! The front end creates an `observe.event` for each instruction. This pass combines the events of neighbouring
//! instructions without a guard, so that a tool which counts instructions costs one call of the host for each run. An
//! instruction with a guard is a run of its own.

use margay_ops::mods::Mods;
use margay_ops::ops::{Effects, Opcode};

use crate::entity::Inst;
use crate::function::Function;
use crate::observe::ObservedEvent;

/// A run that may become longer: its event, the ID of the function, and the indices of the first instruction and of the
/// instruction after the last one.
struct Open {
    event: Inst,
    function: u32,
    first: u32,
    end: u32,
}

/// Inserts the events of all runs. The events of single instructions stay.
pub(super) fn insert(function: &mut Function) {
    for block in function.blocks().to_vec() {
        let before = std::mem::take(&mut function.layout.insts[block]);
        let mut insts = Vec::with_capacity(before.len());
        let mut open: Option<Open> = None;
        for inst in before {
            let data = function.dfg.insts[inst];
            let event = match data.opcode {
                Opcode::ObserveEvent => ObservedEvent::from_payload(data.payload()),
                opcode => {
                    if ends_run(opcode) {
                        open = None;
                    }
                    None
                }
            };
            if let Some(ObservedEvent::Instruction {
                function: id,
                index,
            }) = event
                && index < ObservedEvent::RUN_END
            {
                let has_guard = !function.dfg.args(inst).is_empty();
                match &mut open {
                    Some(run) if !has_guard && run.continues(id, index) => {
                        run.end += 1;
                        function.dfg.insts[run.event].mods = Mods(run.event().to_payload());
                    }
                    _ => {
                        let event = create(function, inst, id, index);
                        insts.push(event);
                        open = (!has_guard).then_some(Open {
                            event,
                            function: id,
                            first: index,
                            end: index + 1,
                        });
                    }
                }
            }
            insts.push(inst);
        }
        function.layout.insts[block] = insts;
    }
}

impl Open {
    fn continues(&self, function: u32, index: u32) -> bool {
        let is_full = self.end - self.first == ObservedEvent::LONGEST_RUN;
        self.function == function && self.end == index && !is_full
    }

    fn event(&self) -> ObservedEvent {
        ObservedEvent::InstructionRun {
            function: self.function,
            first: self.first,
            count: self.end - self.first,
        }
    }
}

/// Returns whether other lanes can join the lanes at an operation, or lanes can wait there. The instructions behind the
/// operation then belong to another run.
fn ends_run(opcode: Opcode) -> bool {
    opcode.effects().contains(Effects::CONVERGENT) || opcode == Opcode::Yield
}

/// Creates the event of a run that begins with the instruction that the event `inst` describes. A guard of the
/// instruction is an operand of both events.
fn create(function: &mut Function, inst: Inst, id: u32, index: u32) -> Inst {
    let run = ObservedEvent::InstructionRun {
        function: id,
        first: index,
        count: 1,
    };
    let guard = function.dfg.args(inst).to_vec();
    let desc = super::described_event(run);
    let event = function.dfg.make_inst(desc, &guard, &[]);
    function.dfg.locs[event] = function.dfg.locs[inst];
    event
}
