//! Memory operations and addresses.

use smallvec::SmallVec;

use super::{Interpreter, Machine};
use crate::entity::Inst;
use crate::exec::FaultKind;
use crate::function::InstData;
use crate::meaning::{Bits, Meaning, mask, sign_extend};
use crate::mods::{Mode, StateSpace};
use crate::ops::Opcode;

/// How many elements of a vector are moved at once: those of strong ones up to 16 bytes. PTX promises no order among
/// them (ISA 8.2.2), but GPUs do so, and programs rely on it.
fn together(data: &InstData, bytes: u32) -> u32 {
    match data.mods.is_weak() {
        true => 1,
        false => (16 / bytes).clamp(1, data.mods.vec()),
    }
}

impl<M: Machine> Interpreter<'_, M> {
    /// Bytes of local memory of a thread begin here.
    fn local_base(&self, thread: u32) -> u64 {
        self.cta.local_base + u64::from(thread) * u64::from(self.cta.local_stride)
    }

    /// Host address of an address in a state space.
    fn host(&self, thread: u32, space: StateSpace, address: Bits) -> u64 {
        match space {
            StateSpace::Shared | StateSpace::SharedCluster => {
                self.cta.shared_base + u64::from(address as u32)
            }
            StateSpace::Local => self.local_base(thread) + u64::from(address as u32),
            _ => address as u64,
        }
    }

    /// Host address of a load, store or atomic, which has to be a multiple of all the bytes that it accesses (PTX ISA 5.2).
    fn aligned(&self, thread: u32, data: &InstData, address: Bits) -> Result<u64, FaultKind> {
        let space = data.mods.space();
        let base = self.host(thread, space, address);
        let bytes = data.ty.bits().div_ceil(8) * data.mods.vec().max(1);
        let free = matches!(space, StateSpace::Param | StateSpace::ParamFunc);
        match free || base.is_multiple_of(u64::from(bytes.next_power_of_two())) {
            true => Ok(base),
            false => Err(FaultKind::Misaligned {
                address: Some(base),
            }),
        }
    }

    /// Executes an operation that is neither pure, nor a point, nor structural.
    pub(super) fn access(&mut self, thread: u32, inst: Inst) -> Result<(), FaultKind> {
        let func = self.frame(thread).func;
        let data = self.module.functions[func].dfg.insts[inst];
        let args = self.arg_values(thread, inst);
        match data.opcode {
            Opcode::Ld => self.load(thread, inst, &data, &args),
            Opcode::St => self.store(thread, &data, &args),
            Opcode::Atom | Opcode::Red => self.atomic(thread, inst, &data, &args),
            Opcode::Fence => {
                self.machine.fence();
                Ok(())
            }
            Opcode::Cvta | Opcode::Isspacep => {
                let bits = self.address_op(thread, &data, args[0]);
                self.set_results(thread, inst, &[bits]);
                Ok(())
            }
            Opcode::CpAsync => self.copy_async(thread, &args),
            Opcode::Alloca => self.alloca(thread, inst, args[0]),
            Opcode::StackSave => {
                let stack = Bits::from(self.frame(thread).stack);
                self.set_results(thread, inst, &[stack]);
                Ok(())
            }
            Opcode::StackRestore => {
                self.frame_mut(thread).stack = args[0] as u32;
                Ok(())
            }
            Opcode::StackCheck => match args[0] as u32 > self.cta.local_stride {
                true => Err(FaultKind::StackOverflow),
                false => Ok(()),
            },
            Opcode::Brkpt => Err(FaultKind::Breakpoint),
            other => Err(FaultKind::Unsupported {
                what: other.name().to_owned(),
            }),
        }
    }

    fn load(
        &mut self,
        thread: u32,
        inst: Inst,
        data: &InstData,
        args: &[Bits],
    ) -> Result<(), FaultKind> {
        let bytes = data.ty.bits().div_ceil(8);
        let base = self.aligned(thread, data, args[0])?;
        let mut out: SmallVec<[Bits; 8]> = SmallVec::new();
        let (count, together) = (data.mods.vec(), together(data, bytes));
        for first in (0..count).step_by(together as usize) {
            let address = base.wrapping_add(u64::from(first * bytes));
            let all = self.machine.load(address, together * bytes)?;
            for i in 0..together {
                let bits = all.checked_shr(i * bytes * 8).unwrap_or(0);
                out.push(if data.ty.is_signed() {
                    sign_extend(bits & mask(bytes * 8), data.ty.bits()) as Bits
                } else {
                    bits & mask(data.ty.bits())
                });
            }
        }
        self.set_results(thread, inst, &out);
        Ok(())
    }

    fn store(&mut self, thread: u32, data: &InstData, args: &[Bits]) -> Result<(), FaultKind> {
        let bytes = data.ty.bits().div_ceil(8);
        let base = self.aligned(thread, data, args[0])?;
        let together = together(data, bytes);
        for (part, elements) in args[1..].chunks(together as usize).enumerate() {
            let address = base.wrapping_add(part as u64 * u64::from(together * bytes));
            let all = elements.iter().rev().fold(0, |all: Bits, bits| {
                all.checked_shl(bytes * 8).unwrap_or(0) | bits & mask(bytes * 8)
            });
            self.machine.store(address, together * bytes, all)?;
        }
        Ok(())
    }

    fn atomic(
        &mut self,
        thread: u32,
        inst: Inst,
        data: &InstData,
        args: &[Bits],
    ) -> Result<(), FaultKind> {
        let Meaning::Rmw(meaning) = data.opcode.meaning() else {
            return Err(FaultKind::Unsupported {
                what: data.opcode.name().to_owned(),
            });
        };
        let bytes = data.ty.bits().div_ceil(8);
        let base = self.aligned(thread, data, args[0])?;
        let desc = data.desc();
        let count = data.mods.vec() as usize;
        // Vector forms are one atomic operation an element.
        let mut old: SmallVec<[Bits; 8]> = SmallVec::new();
        for i in 0..count {
            let operands: SmallVec<[Bits; 2]> = if count == 1 {
                SmallVec::from_slice(&args[1..])
            } else {
                SmallVec::from_elem(args[1 + i], 1)
            };
            let address = base.wrapping_add(i as u64 * u64::from(bytes));
            old.push(
                self.machine
                    .update(address, bytes, &mut |old| meaning(&desc, old, &operands))?,
            );
        }
        self.set_results(thread, inst, &old);
        Ok(())
    }

    fn address_op(&self, thread: u32, data: &InstData, address: Bits) -> Bits {
        let space = data.mods.space();
        let host = address as u64;
        if data.opcode == Opcode::Isspacep {
            return Bits::from(self.is_in_space(thread, space, host));
        }
        match space {
            StateSpace::Shared | StateSpace::SharedCluster | StateSpace::Local => {
                let base = self.host(thread, space, 0);
                match data.mods.mode() {
                    Mode::To => Bits::from(host.wrapping_sub(base)),
                    _ => Bits::from(base.wrapping_add(u64::from(address as u32))),
                }
            }
            _ => address,
        }
    }

    fn is_in_space(&self, thread: u32, space: StateSpace, host: u64) -> bool {
        const WINDOW: u64 = 1 << 32;
        let inside = |base: u64| host.wrapping_sub(base) < WINDOW;
        let shared = |of_cluster| self.launch.is_shared(&self.cta, host, of_cluster);
        let local = inside(self.cta.local_base);
        let param = host.wrapping_sub(self.launch.params) < 4096 * 8;
        match space {
            StateSpace::Shared => shared(false),
            StateSpace::SharedCluster => shared(true),
            StateSpace::Local => local && host >= self.local_base(thread),
            StateSpace::Param | StateSpace::ParamFunc => param,
            StateSpace::Const => self.is_constant(host),
            _ => !shared(true) && !local && !param && !self.is_constant(host),
        }
    }

    fn is_constant(&self, host: u64) -> bool {
        self.module
            .symbols
            .values()
            .zip(self.launch.symbols.iter())
            .any(|(symbol, &base)| {
                symbol.space == StateSpace::Const && host.wrapping_sub(base) < symbol.size
            })
    }

    fn copy_async(&mut self, thread: u32, args: &[Bits]) -> Result<(), FaultKind> {
        let target = self.host(thread, StateSpace::Shared, args[0]);
        let (source, size) = (args[1] as u64, args[2] as u64);
        let wanted = (args[3] as u64).min(size);
        // Both are multiples of the size (PTX ISA, "cp.async"); nothing is read where nothing is wanted.
        let source_read = if wanted == 0 { 0 } else { source };
        for address in [target, source_read] {
            if !address.is_multiple_of(size.max(1)) {
                return Err(FaultKind::Misaligned {
                    address: Some(address),
                });
            }
        }
        for i in 0..size.min(16) {
            let byte = if i < wanted {
                self.machine.load(source.wrapping_add(i), 1)?
            } else {
                0
            };
            self.machine.store(target.wrapping_add(i), 1, byte)?;
        }
        Ok(())
    }

    fn alloca(&mut self, thread: u32, inst: Inst, size: Bits) -> Result<(), FaultKind> {
        let limit = self.cta.local_stride;
        let frame = self.frame_mut(thread);
        let start = frame.stack;
        let size = u32::try_from(size).map_err(|_| FaultKind::StackOverflow)?;
        let end = start
            .checked_add(size)
            .and_then(|end| end.checked_next_multiple_of(16));
        match end {
            Some(end) if end <= limit => frame.stack = end,
            _ => return Err(FaultKind::StackOverflow),
        }
        self.set_results(thread, inst, &[Bits::from(start)]);
        Ok(())
    }
}
