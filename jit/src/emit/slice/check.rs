//! Checks of the accesses of a chunk: the host examines all lanes in one call.
//!
//! If the host permits the accesses of all lanes to adjacent addresses, or to one address, the code that follows the
//! check accesses whole vectors. The host performs all other loads and stores, which needs less generated code: those
//! of masked chunks, those with distant addresses, and those that contain an access which is not permitted.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, StackSlotData, StackSlotKind, types};
use margay_ir::analysis::uniformity::Class;
use margay_ir::entity::{Inst, Value};
use margay_ir::function::InstData;
use margay_ir::observe::{AccessMode, ObservedAccess};
use margay_ops::mods::{MemOrder, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::types::Kind;

use super::memory::Places;
use super::{Lanes, Slice, vector_type};
use crate::abi::{CheckedLanes, Helpers, NativeContext, PERMITTED, PerformedAccess};
use crate::emit::lane::{Lane, Unsupported, host};
use crate::emit::memory::element_type;

/// A check whose access follows in the same block. Its code is emitted with that of the access.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    result: Value,
    check: Inst,
}

/// An access and its check.
#[derive(Clone, Copy)]
struct Examined<'a> {
    access: ObservedAccess,
    /// The check.
    check: Inst,
    /// The address that is checked.
    address: Value,
    /// The values that are passed to the host.
    operands: &'a [Value],
    shape: CheckedLanes,
    /// What the host does with the memory; `None` if the code after the check accesses it.
    performs: Option<PerformedAccess>,
}

/// Maximum number of bytes of the operands or results of all lanes of a chunk.
const OPERANDS: u32 = 8 * 32 * 8;

impl Slice<'_, '_> {
    /// Emits the check of an access of all active lanes.
    pub(super) fn check_lanes(&mut self, inst: Inst, data: &InstData) -> Result<(), Unsupported> {
        let Some(access) = ObservedAccess::of(data) else {
            return self.lane.refuse(data);
        };
        let function = self.lane.function;
        let args = function.dfg.args(inst);
        let (address, operands) = (args[0], &args[1..]);
        let each = matches!(access.mode, AccessMode::Copy | AccessMode::Release);
        // Each thread has its local memory at a different address.
        if each || access.space == StateSpace::Local || !self.fits(operands) {
            return self.each_lane(inst);
        }
        let result = function.dfg.results(inst)[0];
        if self.follows(inst, result) {
            self.pending_check = Some(Pending {
                result,
                check: inst,
            });
            return Ok(());
        }
        let shape = CheckedLanes {
            width: self.view.width,
            narrow: function.dfg.ty(result).kind() == Kind::B32,
            writes_back: true,
            ..CheckedLanes::default()
        };
        let what = Examined {
            access,
            check: inst,
            address,
            operands,
            shape,
            performs: None,
        };
        match self.class(address) {
            Class::Varying => self.ask_about_each(what)?,
            _ => {
                let places = self.places(address, access.space, None)?;
                self.ask_host(what, &places)?
            }
        };
        let lanes = self.checked_lanes(result)?;
        self.set(result, &lanes)
    }

    /// Returns whether the lanes of operands have vectors of one type that fit into the memory for operands.
    pub(super) fn fits(&self, operands: &[Value]) -> bool {
        let function = self.lane.function;
        let Some(&first) = operands.first() else {
            return true;
        };
        let ty = function.dfg.ty(first);
        let Ok(vector) = vector_type(ty) else {
            return false;
        };
        let total = operands.len() as u32 * self.view.width * vector.lane_type().bytes();
        let alike = |&value: &Value| function.dfg.ty(value) == ty;
        operands.iter().all(alike) && total <= OPERANDS
    }

    /// Returns whether the load or store that uses the result of a check follows in the same block, with only pure
    /// operations between them, and can be emitted together with the check.
    fn follows(&self, inst: Inst, result: Value) -> bool {
        let function = self.lane.function;
        let insts = function.insts(self.block);
        let Some(at) = insts.iter().position(|&other| other == inst) else {
            return false;
        };
        for &next in &insts[at + 1..] {
            let data = function.dfg.insts[next];
            let accesses = matches!(data.opcode, Opcode::Ld | Opcode::St);
            let args = function.dfg.args(next);
            if accesses && function.dfg.resolve(args[0]) == result && args[0] == result {
                let chunk = element_type(data.ty).is_some_and(|element| {
                    element != types::I128 && !Lane::is_whole(element, &data)
                });
                return chunk && self.fits(&args[1..]) && self.fits(function.dfg.results(next));
            }
            if args.contains(&result) || !function.effects(next).is_pure() {
                return false;
            }
        }
        false
    }

    /// Returns the address of the memory for operands or results of the lanes.
    pub(super) fn check_operands(&mut self) -> ir::Value {
        let slot = match self.check_operands {
            Some(slot) => slot,
            None => {
                let data = StackSlotData::new(StackSlotKind::ExplicitSlot, OPERANDS, 4);
                *self
                    .check_operands
                    .insert(self.lane.b.create_sized_stack_slot(data))
            }
        };
        self.lane.b.ins().stack_addr(types::I64, slot, 0)
    }

    /// Stores the lanes of the operands of an access for the host. Returns their address, and the number and size of
    /// the operands of a lane.
    pub(super) fn put_operands(
        &mut self,
        operands: &[Value],
    ) -> Result<(ir::Value, u32, u32), Unsupported> {
        let at = self.check_operands();
        let Some(&first) = operands.first() else {
            return Ok((at, 0, 4));
        };
        let ty = vector_type(self.lane.function.dfg.ty(first))?;
        let mut offset = 0;
        for &value in operands {
            for vector in self.get(value)? {
                self.lane.b.ins().store(host(), vector, at, offset);
                offset += 16;
            }
        }
        Ok((at, operands.len() as u32, ty.lane_type().bytes()))
    }

    /// Returns the address of the memory for the addresses of the lanes.
    pub(super) fn check_addresses(&mut self) -> ir::Value {
        let slot = match self.check_addresses {
            Some(slot) => slot,
            None => {
                let bytes = CheckedLanes::BYTES;
                let data = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 4);
                *self
                    .check_addresses
                    .insert(self.lane.b.create_sized_stack_slot(data))
            }
        };
        self.lane.b.ins().stack_addr(types::I64, slot, 0)
    }

    /// Emits the check of strided lanes. If only bounds are checked, the code compares the addresses with memory that
    /// the host has permitted at an earlier check, and calls the host only if an address is outside this memory.
    /// Returns a nonzero value if the code that follows performs the access, and 0 if the host has performed it.
    fn examined(&mut self, what: Examined<'_>, places: &Places) -> Result<ir::Value, Unsupported> {
        let access = what.access;
        let align = i64::from(access.bytes.next_power_of_two());
        let index = match access.space {
            StateSpace::Shared => 2,
            StateSpace::None | StateSpace::Global => usize::from(access.mode.writes()),
            _ => return self.ask_host(what, places),
        };
        let plain = access.order == MemOrder::Weak && access.unused == 0;
        let &Places::Strided {
            address, stride, ..
        } = places
        else {
            return self.ask_host(what, places);
        };
        if !self.lane.request.bounds_only || !plain || stride % align != 0 {
            return self.ask_host(what, places);
        }
        let apart = stride.wrapping_mul(i64::from(self.view.width) - 1);
        let range = what.performs.map_or(0, |performs| performs.range as usize);
        let range = 16 * (PERMITTED * index + range);
        let at = (offset_of!(NativeContext, permitted) + range) as i32;
        let ctx = self.lane.fixed.ctx;
        let b = &mut *self.lane.b;
        // The host changes these fields while the code runs.
        let start = b.ins().load(types::I64, host(), ctx, at);
        let size = b.ins().load(types::I64, host(), ctx, at + 8);
        let low = b.ins().iadd_imm_s(address, apart.min(0));
        let offset = b.ins().isub(low, start);
        let end = b
            .ins()
            .iadd_imm_s(offset, apart.abs() + i64::from(access.bytes));
        let begins = b.ins().icmp(IntCC::UnsignedLessThan, offset, size);
        let ends = b.ins().icmp(IntCC::UnsignedLessThanOrEqual, end, size);
        let inside = b.ins().band(begins, ends);
        let low = b.ins().band_imm_u(low, align - 1);
        let aligned = b.ins().icmp_imm_u(IntCC::Equal, low, 0);
        let known = b.ins().band(inside, aligned);
        let [ask, join] = std::array::from_fn(|_| b.create_block());
        let permitted = b.append_block_param(join, types::I32);
        let yes = b.ins().iconst(types::I32, 1);
        b.ins().brif(known, join, &[yes.into()], ask, &[]);
        b.switch_to_block(ask);
        b.set_cold_block(ask);
        let answer = self.ask_host(what, places)?;
        self.lane.b.ins().jump(join, &[answer.into()]);
        self.lane.b.switch_to_block(join);
        Ok(permitted)
    }

    /// Emits the call of the host for the lanes at `places`. Returns its answer.
    fn ask_host(&mut self, what: Examined<'_>, places: &Places) -> Result<ir::Value, Unsupported> {
        let &Places::Strided {
            address, stride, ..
        } = places
        else {
            return self.ask_about_each(what);
        };
        let at = self.check_addresses();
        let b = &mut *self.lane.b;
        let stride = b.ins().iconst(types::I64, stride);
        b.ins().store(host(), address, at, 0);
        b.ins().store(host(), stride, at, 8);
        self.call_host(what, true)
    }

    /// Emits the call of the host for the addresses of all lanes. Returns its answer.
    fn ask_about_each(&mut self, what: Examined<'_>) -> Result<ir::Value, Unsupported> {
        let at = self.check_addresses();
        for (i, vector) in self.get(what.address)?.into_iter().enumerate() {
            let offset = 16 * i as i32;
            self.lane.b.ins().store(host(), vector, at, offset);
        }
        self.call_host(what, false)
    }

    fn call_host(&mut self, what: Examined<'_>, strided: bool) -> Result<ir::Value, Unsupported> {
        let Examined { access, check, .. } = what;
        let (data, operands, operand_bytes) = self.put_operands(what.operands)?;
        let at = self.check_addresses();
        let window = match self.lane.window(access.space) {
            Some(base) => base,
            None => self.lane.int(types::I64, 0),
        };
        let performs = what.performs.map_or(0, PerformedAccess::to_bits);
        let performs = self.lane.int(types::I64, performs);
        let b = &mut *self.lane.b;
        b.ins()
            .store(host(), window, at, CheckedLanes::WINDOW as i32);
        b.ins()
            .store(host(), performs, at, CheckedLanes::PERFORMED as i32);
        let shape = CheckedLanes {
            strided,
            operands,
            operand_bytes,
            ..what.shape
        };
        let fixed = self.lane.int(types::I64, shape.to_bits());
        let active = self.active_bits();
        let b = &mut *self.lane.b;
        let active = b.ins().uextend(types::I64, active);
        let thread = b.ins().uextend(types::I64, self.lane.here.thread);
        let thread = b.ins().ishl_imm_u(thread, CheckedLanes::THREAD);
        let shape = b.ins().bor(fixed, active);
        let shape = b.ins().bor(shape, thread);
        let properties = self.lane.int(types::I64, access.to_bits());
        let loc = self.lane.function.dfg.locs[check];
        let loc = u64::from(loc.ptx_line) | u64::from(loc.loc) << 32;
        let loc = self.lane.int(types::I64, loc);
        let args = [self.lane.fixed.ctx, at, properties, loc, data, shape];
        let offset = offset_of!(Helpers, check_lanes);
        let answer = self
            .lane
            .helper("check_lanes", offset, &args, Some(types::I32));
        Ok(answer.unwrap_or_else(|| self.lane.b.ins().iconst(types::I32, 0)))
    }

    /// Loads the addresses that the host has written.
    fn checked_lanes(&mut self, result: Value) -> Result<Lanes, Unsupported> {
        let ty = vector_type(self.lane.function.dfg.ty(result))?;
        let at = self.check_addresses();
        Ok((0..self.count(ty) as i32)
            .map(|i| self.lane.b.ins().load(ty, host(), at, 16 * i))
            .collect())
    }

    /// Returns the check of the access that uses its result.
    pub(super) fn take_pending_check(&mut self, address: Value) -> Option<Pending> {
        self.pending_check
            .take_if(|pending| pending.result == address)
    }

    /// Emits a load or store and its check. `run` emits an access to strided places that needs no further tests. If
    /// lanes are masked off or have distant addresses, or if the check fails, the host performs the access.
    pub(super) fn checked_access(
        &mut self,
        pending: Pending,
        (inst, data, element): (Inst, &InstData, ir::Type),
        run: impl FnOnce(&mut Self, &Places, Value) -> Result<(), Unsupported>,
    ) -> Result<(), Unsupported> {
        let function = self.lane.function;
        let check = pending.check;
        let address = function.dfg.args(check)[0];
        let access = ObservedAccess::of(&function.dfg.insts[check]);
        let access = access.ok_or_else(|| Unsupported("a check of no access".into()))?;
        let results = function.dfg.results(inst);
        let values = &function.dfg.args(inst)[1..];
        let moved = match values.first().or(results.first()) {
            Some(&value) => function.dfg.ty(value).kind(),
            None => Kind::B32,
        };
        let performs = PerformedAccess {
            always: true,
            signed: data.ty.is_signed(),
            kind_bytes: moved.bytes(),
            element: element.bytes(),
            range: self.checks % PERMITTED as u32,
        };
        self.checks += 1;
        let what = Examined {
            access,
            check,
            address,
            operands: values,
            shape: CheckedLanes {
                width: self.view.width,
                narrow: function.dfg.ty(address).kind() == Kind::B32,
                ..CheckedLanes::default()
            },
            performs: Some(performs),
        };
        // The lanes must be computed before the branches.
        for &value in values {
            self.get(value)?;
        }
        let masked = self.mask.is_some();
        let varies = self.class(address) == Class::Varying;
        let guarded = varies && !masked && self.is_guarded(address);
        let stride = match guarded {
            true => self.view.speculative.stride(address),
            false => None,
        };
        if varies && stride.is_none() {
            self.ask_about_each(what)?;
            return self.set_results(inst);
        }
        let distant = match guarded.then(|| self.holds(address)).flatten() {
            None => None,
            Some(holds) => {
                let [near, distant] = std::array::from_fn(|_| self.lane.b.create_block());
                self.lane.b.ins().brif(holds, near, &[], distant, &[]);
                self.lane.b.switch_to_block(near);
                Some(distant)
            }
        };
        let made = self.made.clone();
        let end = self.lane.b.create_block();
        let places = self.places(address, access.space, stride)?;
        let here = self.mask.is_none() && self.is_short(&places, element, access);
        if here {
            let optional = PerformedAccess {
                always: false,
                ..performs
            };
            let permitted = self.examined(
                Examined {
                    performs: Some(optional),
                    ..what
                },
                &places,
            )?;
            let [whole, performed] = std::array::from_fn(|_| self.lane.b.create_block());
            self.lane
                .b
                .ins()
                .brif(permitted, whole, &[], performed, &[]);
            self.lane.b.switch_to_block(whole);
            let isolated = std::mem::replace(&mut self.lane.isolated, false);
            self.examined = true;
            run(self, &places, address)?;
            self.examined = false;
            self.lane.isolated = isolated;
            self.lane.b.ins().jump(end, &[]);
            self.made.clone_from(&made);
            self.lane.b.switch_to_block(performed);
            self.lane.b.set_cold_block(performed);
        } else {
            self.ask_host(what, &places)?;
        }
        self.set_results(inst)?;
        self.lane.b.ins().jump(end, &[]);
        if let Some(distant) = distant {
            self.made.clone_from(&made);
            self.lane.b.switch_to_block(distant);
            self.ask_about_each(what)?;
            self.set_results(inst)?;
            self.lane.b.ins().jump(end, &[]);
        }
        self.made = made;
        self.lane.b.switch_to_block(end);
        for result in results {
            self.made.remove(result);
        }
        Ok(())
    }

    /// Returns whether generated code performs the access of a whole chunk if it is permitted: if the code is short, or
    /// if only bounds are checked, because the host is then rarely called. Otherwise each access calls the host, which
    /// also performs it.
    fn is_short(&self, places: &Places, element: ir::Type, access: ObservedAccess) -> bool {
        let Places::Strided { stride, .. } = places else {
            return false;
        };
        let one = access.bytes == element.bytes() && access.order == MemOrder::Weak;
        *stride == 0
            || one && *stride == i64::from(element.bytes())
            || self.lane.request.bounds_only
    }

    /// Sets the results of a load that the host has performed.
    fn set_results(&mut self, inst: Inst) -> Result<(), Unsupported> {
        let function = self.lane.function;
        let at = self.check_operands();
        let mut offset = 0;
        for &result in function.dfg.results(inst) {
            let ty = vector_type(function.dfg.ty(result))?;
            let mut lanes = Lanes::new();
            for _ in 0..self.count(ty) {
                lanes.push(self.lane.b.ins().load(ty, host(), at, offset));
                offset += 16;
            }
            self.set(result, &lanes)?;
        }
        Ok(())
    }
}
