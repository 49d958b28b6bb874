//! Executes ops that have a payload instead of modifiers: addresses of variables, special
//! registers, system calls, texture and surface accesses.

use super::Machine;
use super::decode::Step;
use super::memory::{LaneFault, View};
use crate::launch::special_register;
use crate::{FaultKind, lanes};
use margay_ir::function::{payload_slot, payload_sreg, split_symbol_payload};
use margay_ir::syscall::Syscall;
use margay_ops::ops::Opcode;
use margay_ops::sreg::SpecialReg;
use margay_ops::texture::Access;

impl<M: Machine> View<'_, M> {
    pub(super) fn structural(&mut self, pc: usize, step: &Step) -> Result<(), LaneFault> {
        let first = self.active.mask.trailing_zeros();
        let illegal = (first, FaultKind::IllegalInstruction);
        let Some(&data) = self.data(pc) else {
            return Err(illegal);
        };
        let payload = data.payload();
        let all = |bits: u64| Ok([bits; 32]);
        let values: Result<[u64; 32], LaneFault> = match data.opcode {
            Opcode::LocalAddr => {
                let func = self.activation.func;
                let offset = self.code.slot_offset(func, payload_slot(payload));
                let local = self.activation.local;
                Ok(local.map(|local| u64::from(local.wrapping_add(offset))))
            }
            Opcode::SymbolAddr => {
                let (symbol, addend) = split_symbol_payload(payload);
                match self.launch.symbols.get(symbol) {
                    Some(base) => all(base.wrapping_add(i64::from(addend) as u64)),
                    None => Err(illegal),
                }
            }
            Opcode::ParamAddr => all(self.launch.params.wrapping_add(payload)),
            Opcode::FuncAddr => all(self
                .launch
                .function_base
                .wrapping_add(16 * (payload & 0xffff_ffff))),
            Opcode::SReg => match payload_sreg(payload) {
                Some(register) => {
                    let mut values = [0; 32];
                    for lane in lanes(self.active.mask) {
                        let thread = self.first + lane;
                        values[lane as usize] =
                            special_register(self.launch, self.cta, thread, register);
                    }
                    Ok(values)
                }
                None => Err(illegal),
            },
            Opcode::Clock => all(self.read_clock(payload)),
            Opcode::Syscall => return self.syscall(payload, step),
            Opcode::ObserveEvent => {
                self.observe_event(pc, payload, step);
                return Ok(());
            }
            Opcode::Tex | Opcode::Txq | Opcode::Suld | Opcode::Sust | Opcode::Sured => {
                return self.texture(payload, step);
            }
            _ => Err(illegal),
        };
        let (values, active) = (values?, self.active);
        if !self.body.results(step).is_empty() {
            self.rows().set_longs(step.result, &values, active);
        }
        Ok(())
    }

    fn read_clock(&mut self, payload: u64) -> u64 {
        let now = self.machine.clock();
        match payload_sreg(payload) {
            Some(SpecialReg::ClockHi | SpecialReg::GlobaltimerHi) => now >> 32,
            _ => now,
        }
    }

    fn syscall(&mut self, payload: u64, step: &Step) -> Result<(), LaneFault> {
        let which = Syscall::from_payload(payload);
        for lane in lanes(self.active.mask) {
            let which = which.ok_or((lane, FaultKind::IllegalInstruction))?;
            let (args, thread) = (self.args(step, lane), self.first + lane);
            let results = self.machine.syscall(self.cta, thread, which, &args);
            self.set_results(step, lane, &results.map_err(|kind| (lane, kind))?);
        }
        Ok(())
    }

    fn texture(&mut self, payload: u64, step: &Step) -> Result<(), LaneFault> {
        let access = Access::from_payload(payload);
        for lane in lanes(self.active.mask) {
            let illegal = (lane, FaultKind::IllegalInstruction);
            let access = access.as_ref().ok_or(illegal)?;
            let args = self.args(step, lane);
            let results = self.machine.texture(access, &args);
            self.set_results(step, lane, &results.map_err(|kind| (lane, kind))?);
        }
        Ok(())
    }
}
