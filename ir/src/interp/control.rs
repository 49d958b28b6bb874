//! Control flow, calls and structural operations.

use smallvec::SmallVec;

use super::{Flow, Interpreter, Machine};
use crate::entity::{Entity, FuncId, Inst};
use crate::exec::launch::special_register;
use crate::exec::{FaultKind, Stop};
use crate::function::{
    payload_func, payload_sig, payload_slot, payload_sreg, split_symbol_payload,
};
use crate::meaning::Bits;
use crate::ops::Opcode;
use crate::sreg::SpecialReg;
use crate::syscall::Syscall;
use crate::texture::Access;

impl<M: Machine> Interpreter<'_, M> {
    pub(super) fn terminate(&mut self, thread: u32, inst: Inst) -> Result<Flow, FaultKind> {
        let func = self.frame(thread).func;
        let opcode = self.module.functions[func].dfg.insts[inst].opcode;
        let args = self.arg_values(thread, inst);
        match opcode {
            Opcode::Jump => self.branch(thread, inst, 0),
            Opcode::Brif => self.branch(thread, inst, usize::from(args[0] & 1 == 0)),
            Opcode::BrTable => {
                let entries = self.module.functions[func].dfg.targets(inst).len() - 1;
                let index = usize::try_from(args[0]).unwrap_or(usize::MAX);
                self.branch(thread, inst, if index < entries { index + 1 } else { 0 })
            }
            Opcode::Ret => Ok(self.ret(thread, &args)),
            Opcode::Exit => Ok(Flow::Stop(Stop::EXIT)),
            Opcode::Trap => Err(FaultKind::Trap),
            Opcode::InvalidPc => Err(FaultKind::InvalidPc {
                handle: args[0] as u64,
            }),
            _ => Err(FaultKind::IllegalInstruction),
        }
    }

    fn branch(&mut self, thread: u32, inst: Inst, which: usize) -> Result<Flow, FaultKind> {
        self.machine.poll()?;
        let func = self.frame(thread).func;
        let function = &self.module.functions[func];
        let call = function
            .dfg
            .targets(inst)
            .get(which)
            .ok_or(FaultKind::IllegalInstruction)?;
        let values: SmallVec<[Bits; 8]> =
            call.args.iter().map(|&v| self.value(thread, v)).collect();
        for (&param, &bits) in function.dfg.blocks[call.block].params.iter().zip(&values) {
            self.set(thread, param, bits);
        }
        let frame = self.frame_mut(thread);
        frame.block = call.block;
        frame.position = 0;
        Ok(Flow::Moved)
    }

    fn ret(&mut self, thread: u32, values: &[Bits]) -> Flow {
        let frames = &mut self.threads[thread as usize].frames;
        if frames.len() == 1 {
            return Flow::Stop(Stop::EXIT);
        }
        frames.pop();
        let frame = self.frame(thread);
        let call = self.module.functions[frame.func].insts(frame.block)[frame.position];
        self.set_results(thread, call, values);
        Flow::Next
    }

    /// Operations whose payload is not a set of modifiers.
    pub(super) fn structural(&mut self, thread: u32, inst: Inst) -> Result<Flow, FaultKind> {
        let frame = self.frame(thread);
        let data = self.module.functions[frame.func].dfg.insts[inst];
        let payload = data.payload();
        let bits: Bits = match data.opcode {
            Opcode::Const => Bits::from(payload),
            Opcode::LocalAddr => {
                let offset = self.code.slot_offset(frame.func, payload_slot(payload));
                Bits::from(frame.local.wrapping_add(offset))
            }
            Opcode::SymbolAddr => {
                let (symbol, addend) = split_symbol_payload(payload);
                let base = self.launch.symbols.get(symbol.index()).copied();
                let base = base.ok_or(FaultKind::IllegalInstruction)?;
                Bits::from(base.wrapping_add(i64::from(addend) as u64))
            }
            Opcode::ParamAddr => Bits::from(self.launch.params.wrapping_add(payload)),
            Opcode::FuncAddr => Bits::from(
                self.launch
                    .function_base
                    .wrapping_add(16 * (payload & 0xffff_ffff)),
            ),
            Opcode::SReg => {
                let register = payload_sreg(payload).ok_or(FaultKind::IllegalInstruction)?;
                Bits::from(special_register(self.launch, &self.cta, thread, register))
            }
            Opcode::Clock => Bits::from(self.read_clock(payload)),
            Opcode::Call => return self.call(thread, payload_func(payload), inst, 0),
            Opcode::CallIndirect => return self.call_indirect(thread, payload, inst),
            Opcode::Syscall => return self.syscall(thread, payload, inst),
            Opcode::Tex | Opcode::Txq | Opcode::Suld | Opcode::Sust | Opcode::Sured => {
                return self.texture(thread, payload, inst);
            }
            _ => return Err(FaultKind::IllegalInstruction),
        };
        self.set_results(thread, inst, &[bits]);
        Ok(Flow::Next)
    }

    fn read_clock(&mut self, payload: u64) -> u64 {
        let now = self.machine.clock();
        match payload_sreg(payload) {
            Some(SpecialReg::ClockHi | SpecialReg::GlobaltimerHi) => now >> 32,
            _ => now,
        }
    }

    fn call(
        &mut self,
        thread: u32,
        callee: FuncId,
        inst: Inst,
        skip: usize,
    ) -> Result<Flow, FaultKind> {
        let known = self
            .module
            .functions
            .get(callee)
            .filter(|function| function.has_body());
        let Some(function) = known else {
            let what = self
                .module
                .functions
                .get(callee)
                .map_or("?", |f| f.name.as_str());
            return Err(FaultKind::Unsupported {
                what: format!("call of undefined function {what}"),
            });
        };
        if let Some((line, what)) = function.unsupported.first() {
            return Err(FaultKind::Unsupported {
                what: format!("{what} (PTX line {line})"),
            });
        }
        let args = self.arg_values(thread, inst);
        let local = self.frame(thread).stack;
        if local.saturating_add(self.code.local_bytes(callee)) > self.cta.local_stride.max(1 << 9)
            || self.threads[thread as usize].frames.len() > 4096
        {
            return Err(FaultKind::StackOverflow);
        }
        let frame = self.enter(callee, &args[skip..], local);
        self.threads[thread as usize].frames.push(frame);
        Ok(Flow::Moved)
    }

    fn call_indirect(&mut self, thread: u32, payload: u64, inst: Inst) -> Result<Flow, FaultKind> {
        let handle = self.arg_values(thread, inst)[0] as u64;
        let offset = handle.wrapping_sub(self.launch.function_base);
        let callee = FuncId((offset / 16) as u32);
        let function = self.module.functions.get(callee);
        let valid = offset.is_multiple_of(16) && offset / 16 <= u64::from(u32::MAX);
        let signature = self.module.signatures.get(payload_sig(payload));
        match (function, signature) {
            (Some(function), Some(signature))
                if valid && function.kernel.is_none() && function.signature == *signature =>
            {
                self.call(thread, callee, inst, 1)
            }
            _ => Err(FaultKind::InvalidPc { handle }),
        }
    }

    fn syscall(&mut self, thread: u32, payload: u64, inst: Inst) -> Result<Flow, FaultKind> {
        let which = Syscall::from_payload(payload).ok_or(FaultKind::IllegalInstruction)?;
        let args = self.arg_values(thread, inst);
        let results = self.machine.syscall(&self.cta, thread, which, &args)?;
        self.set_results(thread, inst, &results);
        Ok(Flow::Next)
    }

    fn texture(&mut self, thread: u32, payload: u64, inst: Inst) -> Result<Flow, FaultKind> {
        let access = Access::from_payload(payload).ok_or(FaultKind::IllegalInstruction)?;
        let args = self.arg_values(thread, inst);
        let results = self.machine.texture(&access, &args)?;
        self.set_results(thread, inst, &results);
        Ok(Flow::Next)
    }
}
