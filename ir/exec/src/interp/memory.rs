//! Executes steps that access memory, and converts addresses.

use smallvec::SmallVec;

use super::code::Code;
use super::decode::{Body, Step};
use super::registers::{Active, RegisterId, Rows};
use super::warp::Activation;
use super::{Machine, ObservedLaneEvent, ObservedLanes};
use crate::{CtaInfo, FaultKind, LaunchInfo, lanes};
use margay_ir::function::{Function, InstData};
use margay_ir::observe::{ObservedAccess, ObservedEvent};
use margay_ops::meaning::{Bits, Meaning, PureFn, mask, sign_extend};
use margay_ops::mods::{Mode, StateSpace};
use margay_ops::ops::Opcode;

/// The number of a lane that caused a fault, and the kind of the fault.
pub(super) type LaneFault = (u32, FaultKind);

/// The state that a step in one activation can read and write, and the active lanes, which execute
/// the step.
pub(super) struct View<'a, M> {
    pub(super) code: &'a Code,
    pub(super) function: &'a Function,
    pub(super) body: &'a Body,
    pub(super) launch: &'a LaunchInfo,
    pub(super) cta: &'a CtaInfo,
    pub(super) machine: &'a mut M,
    pub(super) activation: &'a mut Activation,
    /// The linear index, in the CTA, of the warp's first thread.
    pub(super) first: u32,
    pub(super) active: Active,
}

/// Returns the number of elements of a vector that the interpreter reads or writes in one memory
/// access. `bytes` is the size of an element. A strong access reads or writes up to 16 bytes at
/// once, a weak access one element. PTX specifies no order among the elements of such an access
/// (ISA 8.2.2), but GPUs read or write up to 16 bytes at once, and programs rely on this.
fn together(data: &InstData, bytes: u32) -> u32 {
    match data.mods.is_weak() {
        true => 1,
        false => (16 / bytes).clamp(1, data.mods.vec()),
    }
}

/// The addresses and the sizes of the memory accesses that a load or store performs in all lanes.
struct Transfer {
    /// The size of an element of the accessed vector or scalar, in bytes.
    bytes: u32,
    /// The number of elements that one memory access reads or writes.
    together: u32,
    addresses: [u64; 32],
    /// The number of bytes of which each address must be a multiple.
    alignment: u64,
    /// The lanes that would access bytes of local memory outside their own thread's local memory.
    outside: u32,
    /// Whether the instruction writes memory.
    writes: bool,
}

impl<M: Machine> View<'_, M> {
    pub(super) fn rows(&mut self) -> Rows<'_> {
        Rows {
            registers: &mut self.activation.registers,
            constants: &self.body.constants,
        }
    }

    /// Returns the instruction of the step with index `pc`.
    pub(super) fn data(&self, pc: usize) -> Option<&InstData> {
        self.body
            .inst(pc)
            .map(|inst| &self.function.dfg.insts[inst])
    }

    /// Returns the value of a step's first operand in the first active lane.
    pub(super) fn first_arg(&self, step: &Step) -> Bits {
        let lane = self.active.mask.trailing_zeros();
        self.arg(step.args[0], lane)
    }

    pub(super) fn arg(&self, place: RegisterId, lane: u32) -> Bits {
        let rows = (&self.activation.registers, &self.body.constants);
        super::registers::get(rows, place, lane as usize)
    }

    /// Returns the values of a step's operands in a lane.
    pub(super) fn args(&self, step: &Step, lane: u32) -> SmallVec<[Bits; 8]> {
        let places = self.body.args(step).iter();
        places.map(|&place| self.arg(place, lane)).collect()
    }

    pub(super) fn set_results(&mut self, step: &Step, lane: u32, values: &[Bits]) {
        let body = self.body;
        for (&place, &bits) in body.results(step).iter().zip(values) {
            self.rows().set(place, lane as usize, bits);
        }
    }

    /// Executes a pure op: calls its reference function `meaning` once for each active lane.
    pub(super) fn pure(&mut self, meaning: PureFn, pc: usize, step: &Step) {
        let Some(desc) = self.data(pc).map(InstData::desc) else {
            return;
        };
        let (body, active) = (self.body, self.active);
        let (places, results) = (body.args(step), body.results(step));
        let mut args: SmallVec<[Bits; 8]> = SmallVec::from_elem(0, places.len());
        let mut out: SmallVec<[Bits; 8]> = SmallVec::from_elem(0, results.len());
        let mut rows = self.rows();
        for lane in active.lanes() {
            for (arg, &place) in args.iter_mut().zip(places) {
                *arg = rows.get(place, lane);
            }
            out.fill(0);
            meaning(&desc, &args, &mut out);
            for (&bits, &place) in out.iter().zip(results) {
                rows.set(place, lane, bits);
            }
        }
    }

    /// Returns the host address of the local memory of the thread in `lane`.
    fn local_base(&self, lane: u32) -> u64 {
        let thread = u64::from(self.first + lane);
        self.cta.local_base + thread * u64::from(self.cta.local_stride)
    }

    /// Returns whether `bytes` bytes at the host address `address` are inside the local memory of
    /// the thread in `lane`.
    fn is_own_local(&self, lane: u32, address: u64, bytes: u64) -> bool {
        let offset = address.wrapping_sub(self.local_base(lane));
        offset.saturating_add(bytes) <= u64::from(self.cta.local_stride)
    }

    /// Returns whether an access by `lane` of `bytes` bytes at the host address `address` reads or
    /// writes local memory of another thread of the CTA.
    fn is_foreign_local(&self, lane: u32, address: u64, bytes: u64) -> bool {
        let start = self.cta.local_base;
        let threads = u64::from(self.launch.threads());
        let end = start + threads * u64::from(self.cta.local_stride);
        address < end
            && address.saturating_add(bytes) > start
            && !self.is_own_local(lane, address, bytes)
    }

    /// Converts the address `address` of a lane, in the state space `space`, to a host address.
    fn host(&self, lane: u32, space: StateSpace, address: Bits) -> u64 {
        match space {
            StateSpace::Shared | StateSpace::SharedCluster => {
                self.cta.shared_base + u64::from(address as u32)
            }
            StateSpace::Local => self.local_base(lane) + u64::from(address as u32),
            _ => address as u64,
        }
    }

    fn transfer(&mut self, data: &InstData, step: &Step) -> Transfer {
        let space = data.mods.space();
        let mut addresses = self.rows().longs(step.args[0]);
        if let StateSpace::Shared | StateSpace::SharedCluster | StateSpace::Local = space {
            for (address, lane) in addresses.iter_mut().zip(0..) {
                *address = self.host(lane, space, Bits::from(*address));
            }
        }
        let bytes = data.ty.bits().div_ceil(8);
        // A thread may access only its own local memory. This rule also applies to generic addresses.
        let whole = u64::from(bytes * data.mods.vec().max(1));
        let is_outside = |&lane: &u32| {
            let address = addresses[lane as usize];
            match space {
                StateSpace::Local => !self.is_own_local(lane, address, whole),
                _ => self.is_foreign_local(lane, address, whole),
            }
        };
        let outside = lanes(self.active.mask).filter(is_outside);
        let outside = outside.fold(0, |all, lane| all | 1 << lane);
        // A vector must be aligned to its whole size (PTX ISA 5.2).
        let alignment = match space {
            StateSpace::Param | StateSpace::ParamFunc => 1,
            _ => u64::from((bytes * data.mods.vec().max(1)).next_power_of_two()),
        };
        Transfer {
            bytes,
            together: together(data, bytes),
            addresses,
            alignment,
            outside,
            writes: data.opcode != Opcode::Ld,
        }
    }

    pub(super) fn load(&mut self, pc: usize, step: &Step) -> Result<(), LaneFault> {
        let Some(&data) = self.data(pc) else {
            return Ok(());
        };
        let transfer = self.transfer(&data, step);
        let bits = data.ty.bits();
        if data.mods.vec() > 1 || step.result == RegisterId::NONE || bits > 64 {
            for lane in lanes(self.active.mask) {
                let out = self.load_elements(&data, &transfer, lane);
                self.set_results(step, lane, &out.map_err(|kind| (lane, kind))?);
            }
            return Ok(());
        }
        let mut out = [0; 32];
        for lane in lanes(self.active.mask) {
            transfer.check(lane)?;
            let address = transfer.addresses[lane as usize];
            match self.machine.load(address, transfer.bytes) {
                Ok(loaded) => out[lane as usize] = loaded as u64,
                Err(kind) => return Err((lane, kind)),
            }
        }
        let unused = 64 - bits;
        for value in &mut out {
            *value = match data.ty.is_signed() {
                true => ((*value << unused).cast_signed() >> unused).cast_unsigned(),
                false => *value << unused >> unused,
            };
        }
        let active = self.active;
        self.rows().set_longs(step.result, &out, active);
        Ok(())
    }

    fn load_elements(
        &mut self,
        data: &InstData,
        transfer: &Transfer,
        lane: u32,
    ) -> Result<SmallVec<[Bits; 8]>, FaultKind> {
        transfer.check(lane).map_err(|(_, kind)| kind)?;
        let base = transfer.addresses[lane as usize];
        let (bytes, together) = (transfer.bytes, transfer.together);
        let mut out = SmallVec::new();
        for first in (0..data.mods.vec()).step_by(together as usize) {
            let address = base.wrapping_add(u64::from(first * bytes));
            let all = self.machine.load(address, together * bytes)?;
            for i in 0..together {
                let bits = all.checked_shr(i * bytes * 8).unwrap_or(0);
                out.push(match data.ty.is_signed() {
                    true => sign_extend(bits & mask(bytes * 8), data.ty.bits()) as Bits,
                    false => bits & mask(data.ty.bits()),
                });
            }
        }
        Ok(out)
    }

    pub(super) fn store(&mut self, pc: usize, step: &Step) -> Result<(), LaneFault> {
        let Some(&data) = self.data(pc) else {
            return Ok(());
        };
        let transfer = self.transfer(&data, step);
        let (bytes, together) = (transfer.bytes, transfer.together);
        let values = self.body.args(step).get(1..).unwrap_or_default();
        if let [value] = values
            && bytes <= 8
        {
            let values = self.rows().longs(*value);
            for lane in lanes(self.active.mask) {
                transfer.check(lane)?;
                let address = transfer.addresses[lane as usize];
                let bits = Bits::from(values[lane as usize]) & mask(bytes * 8);
                if let Err(kind) = self.machine.store(address, bytes, bits) {
                    return Err((lane, kind));
                }
            }
            return Ok(());
        }
        for lane in lanes(self.active.mask) {
            transfer.check(lane)?;
            let base = transfer.addresses[lane as usize];
            for (part, elements) in (0u64..).zip(values.chunks(together as usize)) {
                let address = base.wrapping_add(part * u64::from(together * bytes));
                let all = elements.iter().rev().fold(0, |all: Bits, &place| {
                    all.checked_shl(bytes * 8).unwrap_or(0)
                        | self.arg(place, lane) & mask(bytes * 8)
                });
                let stored = self.machine.store(address, together * bytes, all);
                stored.map_err(|kind| (lane, kind))?;
            }
        }
        Ok(())
    }

    /// Executes a step with the action `Action::Access`: an op on memory or addresses that is
    /// neither a load nor a store.
    pub(super) fn access(&mut self, pc: usize, step: &Step) -> Result<(), LaneFault> {
        let Some(&data) = self.data(pc) else {
            return Ok(());
        };
        match data.opcode {
            Opcode::Fence => {
                self.machine.fence();
                return Ok(());
            }
            Opcode::CheckAccess => return self.check_access(pc, &data, step),
            Opcode::ObserveAccess => {
                self.observe_access(pc, &data, step);
                return Ok(());
            }
            Opcode::CheckGroup => {
                for lane in lanes(self.active.mask) {
                    let count = self.args(step, lane).first().copied().unwrap_or(0) as u32;
                    let thread = self.first + lane;
                    self.machine
                        .check_group(self.cta, thread, data.mods.mode(), count);
                }
                return Ok(());
            }
            Opcode::CheckFence => {
                for lane in lanes(self.active.mask) {
                    let thread = self.first + lane;
                    let fence = (data.mods.order(), data.mods.scope());
                    self.machine.check_fence(self.cta, thread, fence);
                }
                return Ok(());
            }
            Opcode::Atom | Opcode::Red => return self.atomic(&data, step),
            _ => {}
        }
        for lane in lanes(self.active.mask) {
            let args = self.args(step, lane);
            let results = self.access_of_lane(lane, &data, &args);
            self.set_results(step, lane, &results.map_err(|kind| (lane, kind))?);
        }
        Ok(())
    }

    /// Executes a check of an access: calls [`Machine::check_access`] for each active lane, and
    /// writes the address that it returns, converted to the state space of the access, to the
    /// lane's result. Because a check can take long, also calls [`Machine::poll`], and returns its
    /// fault if the launch must stop.
    fn check_access(&mut self, pc: usize, data: &InstData, step: &Step) -> Result<(), LaneFault> {
        let Some(access) = ObservedAccess::of(data) else {
            return Ok(());
        };
        let loc = self.body.inst(pc).map(|inst| self.function.dfg.locs[inst]);
        for lane in lanes(self.active.mask) {
            let start = self.host(lane, access.space, 0);
            let args = self.args(step, lane);
            let address = self.host(lane, access.space, args[0]);
            let what = (&access, loc.unwrap_or_default());
            let thread = self.first + lane;
            let checked = self
                .machine
                .check_access(self.cta, thread, what, address, &args[1..]);
            let result = match access.space {
                StateSpace::Shared | StateSpace::SharedCluster | StateSpace::Local => {
                    Bits::from(checked.wrapping_sub(start) as u32)
                }
                _ => Bits::from(checked),
            };
            self.set_results(step, lane, &[result]);
            self.machine.poll().map_err(|kind| (lane, kind))?;
        }
        Ok(())
    }

    /// Calls [`Machine::observe_access`] for the accesses of the active lanes, so that the tools
    /// that observe the launch receive them.
    fn observe_access(&mut self, pc: usize, data: &InstData, step: &Step) {
        let Some(access) = ObservedAccess::of(data) else {
            return;
        };
        let loc = self.body.inst(pc).map(|inst| self.function.dfg.locs[inst]);
        let places = self.body.args(step);
        let mut columns = places.iter().map(|&place| self.rows().longs(place));
        let Some(addresses) = columns.next() else {
            return;
        };
        let lengths = columns.next();
        let lanes = ObservedLanes {
            access: &access,
            loc: loc.unwrap_or_default(),
            first: self.first,
            mask: self.active.mask,
            addresses: &addresses,
            lengths: lengths.as_ref(),
        };
        self.machine.observe_access(self.cta, &lanes);
    }

    /// Calls [`Machine::observe_event`] for an event in all active lanes, so that the tools that
    /// observe the launch receive it. The event is not an access.
    pub(super) fn observe_event(&mut self, pc: usize, payload: u64, step: &Step) {
        let Some(event) = ObservedEvent::from_payload(payload) else {
            return;
        };
        let loc = self.body.inst(pc).map(|inst| self.function.dfg.locs[inst]);
        let places = self.body.args(step).iter();
        let operands: SmallVec<[[u64; 32]; 2]> =
            places.map(|&place| self.rows().longs(place)).collect();
        let lanes = ObservedLaneEvent {
            event,
            loc: loc.unwrap_or_default(),
            first: self.first,
            mask: self.active.mask,
            operands: &operands,
        };
        self.machine.observe_event(self.cta, &lanes);
    }

    fn access_of_lane(
        &mut self,
        lane: u32,
        data: &InstData,
        args: &[Bits],
    ) -> Result<SmallVec<[Bits; 8]>, FaultKind> {
        let stack = &mut self.activation.stack[lane as usize];
        let result = match data.opcode {
            Opcode::Cvta | Opcode::Isspacep => self.address_op(lane, data, args[0]),
            Opcode::CpAsync => {
                self.copy_async(lane, args)?;
                return Ok(SmallVec::new());
            }
            Opcode::Alloca => self.alloca(lane, args[0])?,
            Opcode::StackSave => Bits::from(*stack),
            Opcode::StackRestore => {
                *stack = args[0] as u32;
                return Ok(SmallVec::new());
            }
            Opcode::StackCheck => {
                return match args[0] as u32 > self.cta.stack_limit {
                    true => Err(FaultKind::StackOverflow),
                    false => Ok(SmallVec::new()),
                };
            }
            Opcode::Brkpt => return Err(FaultKind::Breakpoint),
            other => {
                return Err(FaultKind::Unsupported {
                    what: other.name().to_owned(),
                });
            }
        };
        Ok(SmallVec::from_slice(&[result]))
    }

    fn atomic(&mut self, data: &InstData, step: &Step) -> Result<(), LaneFault> {
        let Meaning::Rmw(meaning) = data.opcode.meaning() else {
            let what = data.opcode.name().to_owned();
            let lane = self.active.mask.trailing_zeros();
            return Err((lane, FaultKind::Unsupported { what }));
        };
        let transfer = self.transfer(data, step);
        let bytes = transfer.bytes;
        let desc = data.desc();
        let body = self.body;
        let places = body.args(step).get(1..).unwrap_or_default();
        let results = body.results(step);
        // The vector form of an atomic performs a separate atomic operation for each element.
        let parts = places.chunks(places.len().div_ceil(data.mods.vec() as usize).max(1));
        for lane in lanes(self.active.mask) {
            transfer.check(lane)?;
            let base = transfer.addresses[lane as usize];
            for (i, part) in (0u64..).zip(parts.clone()) {
                let arg = |index| part.get(index).map_or(0, |&place| self.arg(place, lane));
                let operands = [arg(0), arg(1)];
                let operands = &operands[..part.len().min(2)];
                let address = base.wrapping_add(i * u64::from(bytes));
                let new = &mut |old| meaning(&desc, old, operands);
                let old = self.machine.update(address, bytes, new);
                let old = old.map_err(|kind| (lane, kind))?;
                if let Some(&result) = results.get(i as usize) {
                    self.rows().set(result, lane as usize, old);
                }
            }
        }
        Ok(())
    }

    fn address_op(&self, lane: u32, data: &InstData, address: Bits) -> Bits {
        let space = data.mods.space();
        let host = address as u64;
        if data.opcode == Opcode::Isspacep {
            return Bits::from(self.is_in_space(lane, space, host));
        }
        match space {
            StateSpace::Shared | StateSpace::SharedCluster | StateSpace::Local => {
                let base = self.host(lane, space, 0);
                match data.mods.mode() {
                    Mode::To => Bits::from(host.wrapping_sub(base)),
                    _ => Bits::from(base.wrapping_add(u64::from(address as u32))),
                }
            }
            _ => address,
        }
    }

    fn is_in_space(&self, lane: u32, space: StateSpace, host: u64) -> bool {
        let shared = |of_cluster| self.launch.is_shared(self.cta, host, of_cluster);
        let local = |start| self.launch.is_local(self.cta, start, host);
        let param = host.wrapping_sub(self.launch.params) < 4096 * 8;
        match space {
            StateSpace::Shared => shared(false),
            StateSpace::SharedCluster => shared(true),
            StateSpace::Local => local(self.local_base(lane)),
            StateSpace::Param | StateSpace::ParamFunc => param,
            StateSpace::Const => self.launch.is_constant(host),
            _ => !shared(true) && !local(0) && !param && !self.launch.is_constant(host),
        }
    }

    fn copy_async(&mut self, lane: u32, args: &[Bits]) -> Result<(), FaultKind> {
        let target = self.host(lane, StateSpace::Shared, args[0]);
        let (source, size) = (args[1] as u64, args[2] as u64);
        let wanted = (args[3] as u64).min(size);
        // Both addresses must be multiples of the size (PTX ISA, "cp.async"). If no bytes are read, the source address
        // is not checked.
        let source_read = if wanted == 0 { 0 } else { source };
        for address in [target, source_read] {
            if !address.is_multiple_of(size.max(1)) {
                return Err(FaultKind::Misaligned {
                    address: Some(address),
                });
            }
        }
        if wanted > 0 && self.is_foreign_local(lane, source, wanted) {
            return Err(FaultKind::IllegalAddress {
                address: Some(source),
                write: Some(false),
            });
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

    fn alloca(&mut self, lane: u32, size: Bits) -> Result<Bits, FaultKind> {
        let limit = self.cta.stack_limit;
        let stack = &mut self.activation.stack[lane as usize];
        let start = *stack;
        let size = u32::try_from(size).map_err(|_| FaultKind::StackOverflow)?;
        let end = start
            .checked_add(size)
            .and_then(|end| end.checked_next_multiple_of(16));
        match end {
            Some(end) if end <= limit => *stack = end,
            _ => return Err(FaultKind::StackOverflow),
        }
        Ok(Bits::from(start))
    }
}

impl Transfer {
    /// Returns a fault if the lane's address is misaligned, or if an access to local memory is not
    /// inside the local memory of the lane's thread.
    #[inline]
    fn check(&self, lane: u32) -> Result<(), LaneFault> {
        let base = self.addresses[lane as usize];
        let address = Some(base);
        if base & (self.alignment - 1) != 0 {
            return Err((lane, FaultKind::Misaligned { address }));
        }
        if self.outside >> lane & 1 != 0 {
            let write = Some(self.writes);
            return Err((lane, FaultKind::IllegalAddress { address, write }));
        }
        Ok(())
    }
}
