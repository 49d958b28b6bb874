//! Checks of the accesses of a chunk: the host examines all lanes in one call.
//!
//! If the addresses are inside a range that the host has permitted ([`crate::emit::permitted`]), the code after the
//! check accesses the memory. Otherwise, the code of the check calls the host. The host also performs the load or store
//! if it does not permit the access of at least one lane, or if generated code leaves the access to the host
//! ([`PerformedAccess::always`]). If the order of accesses is checked, the code appends permitted accesses to a log,
//! which the host examines later.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, StackSlotData, StackSlotKind, types};
use margay_ir::analysis::uniformity::Class;
use margay_ir::entity::{Inst, Value};
use margay_ir::function::InstData;
use margay_ir::observe::{AccessMode, ObservedAccess};
use margay_ops::mods::{MemOrder, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::types::Kind;

use super::memory::Places;
use super::{Lanes, Slice, vector_type};
use crate::abi::{
    AccessLog, AccessRecord, CheckedLanes, Helpers, NativeContext, PerformedAccess, PermittedRange,
};
use crate::emit::lane::{EmitError, Lane, host};
use crate::emit::memory::element_type;
use crate::emit::permitted::{alignment, range_of};

/// A check whose access follows in the same block. The code of the check and the code of the access
/// are emitted together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    result: Value,
    check: Inst,
}

/// The check of an access: its operands, and the data that the host needs.
#[derive(Clone, Copy)]
struct Examined<'a> {
    access: ObservedAccess,
    /// The `check.access` instruction.
    check: Inst,
    /// The address operand of the `check.access`.
    address: Value,
    /// The operands of the access that are passed to the host.
    operands: &'a [Value],
    shape: CheckedLanes,
    /// The load or store that the host performs; `None` if only the code after the check accesses the memory.
    performs: Option<PerformedAccess>,
}

impl Examined<'_> {
    /// Returns the offset in the context of the permitted range with which the code compares the addresses.
    fn range(&self) -> Option<usize> {
        let number = self.performs.map_or(0, |performs| performs.range);
        range_of(self.access, number as usize)
    }
}

/// Maximum number of bytes of the operands or results of all lanes of a chunk.
const OPERANDS: u32 = 8 * 32 * 8;

impl Slice<'_, '_> {
    /// Emits the check of an access of all active lanes. If the access follows in the same block,
    /// this function only records the check; the check is later emitted together with the access.
    pub(super) fn check_lanes(&mut self, inst: Inst, data: &InstData) -> Result<(), EmitError> {
        let Some(access) = ObservedAccess::of(data) else {
            return self.lane.refuse(data);
        };
        let function = self.lane.function;
        let args = function.dfg.args(inst);
        let (address, operands) = (args[0], &args[1..]);
        let each = matches!(access.mode, AccessMode::Copy | AccessMode::Release);
        // The local memory of each thread has a different base address, so the lanes are not contiguous.
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

    /// Returns whether the operands have one type for which vectors exist, and the lanes of all operands fit into the
    /// memory for operands.
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

    /// Stores the lanes of the operands of an access to memory for the host. Returns the address of this memory, the
    /// number of operands, and the size of an operand's element in bytes.
    pub(super) fn put_operands(
        &mut self,
        operands: &[Value],
    ) -> Result<(ir::Value, u32, u32), EmitError> {
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

    /// Emits the check of strided lanes. The code compares the addresses with the range that the host has permitted at
    /// an earlier check, tests or sets the record of written bytes, and appends the accesses to the log. It calls the
    /// host only if one of these steps is not possible. Returns a value that is nonzero if the code after the check
    /// must perform the access, and 0 if the host has performed the access.
    fn examined(&mut self, what: Examined<'_>, places: &Places) -> Result<ir::Value, EmitError> {
        let access = what.access;
        let &Places::Strided {
            address, stride, ..
        } = places
        else {
            return self.ask_host(what, places);
        };
        let Some(at) = what.range().filter(|_| self.is_brief(access, stride)) else {
            return self.ask_host(what, places);
        };
        let request = self.lane.request;
        let [ask, join] = std::array::from_fn(|_| self.lane.b.create_block());
        let yes = self.lane.b.ins().iconst(types::I32, 1);
        let (offset, mut known) = self.is_permitted((address, stride), access, at);
        let next = self.next_record(what, Some(stride), &mut known);
        let tests = request.initialisation && self.tests_record(access, stride);
        if request.initialisation && !tests {
            let whole = self.is_all_written(at);
            known = self.lane.b.ins().band(known, whole);
        }
        let inside = self.lane.b.create_block();
        self.lane.b.ins().brif(known, inside, &[], ask, &[]);
        self.lane.b.switch_to_block(inside);
        if tests {
            self.test_written((offset, stride), access, at, ask);
        }
        if let Some(next) = next {
            self.record_access(next, address, what.operands)?;
        }
        let permitted = self.lane.b.append_block_param(join, types::I32);
        self.lane.b.ins().jump(join, &[yes.into()]);
        self.lane.b.switch_to_block(ask);
        self.lane.b.set_cold_block(ask);
        let answer = self.ask_host(what, places)?;
        self.lane.b.ins().jump(join, &[answer.into()]);
        self.lane.b.switch_to_block(join);
        Ok(permitted)
    }

    /// Returns whether generated code can examine an access of strided lanes without the host.
    fn is_brief(&self, access: ObservedAccess, stride: i64) -> bool {
        let request = self.lane.request;
        let plain = access.order == MemOrder::Weak && access.unused == 0;
        let known = matches!(access.mode, AccessMode::Load | AccessMode::Store);
        // Stores of different lanes to the same bytes are not logged, because they may race.
        let apart = access.mode == AccessMode::Load || stride.unsigned_abs() >= access.bytes.into();
        let logged = apart && AccessRecord::shape(stride, self.view.width).is_some();
        known && plain && stride & alignment(access) == 0 && (!request.order || logged)
    }

    /// Returns whether generated code can test or change the record of written bytes for an access of strided lanes.
    /// For other accesses, the code only tests whether all bytes of the range have been written.
    fn tests_record(&self, access: ObservedAccess, stride: i64) -> bool {
        let adjacent = stride == i64::from(access.bytes);
        // Each byte of the record describes eight bytes of memory.
        let bytes = i64::from(self.view.width) * stride;
        let whole = adjacent && bytes % 8 == 0;
        match access.mode {
            AccessMode::Load => whole || stride == 0,
            _ => whole && self.mask.is_none(),
        }
    }

    /// Emits the test whether all bytes of the permitted range at the offset `at` of the context have been written.
    fn is_all_written(&mut self, at: usize) -> ir::Value {
        let record = self
            .lane
            .range_field(at, offset_of!(PermittedRange, written));
        self.lane.b.ins().icmp_imm_u(IntCC::Equal, record, 0)
    }

    /// Emits the test whether the accesses of all lanes are aligned and inside the permitted range at the offset `at`
    /// of the context. Returns the distance of the lowest accessed address from the start of the range, and the result
    /// of the test.
    fn is_permitted(
        &mut self,
        (address, stride): (ir::Value, i64),
        access: ObservedAccess,
        at: usize,
    ) -> (ir::Value, ir::Value) {
        let apart = stride.wrapping_mul(i64::from(self.view.width) - 1);
        let low = self.lane.b.ins().iadd_imm_s(address, apart.min(0));
        let span = apart.abs() + i64::from(access.bytes);
        self.lane.is_in_range(at, low, (span, alignment(access)))
    }

    /// Emits the test whether all bytes of a load have been written, or records that all bytes of a store are written.
    /// The accesses begin at `offset` in the permitted range whose description is at the offset `at` of the context.
    /// The code continues at the block `ask` if only the host can test or record this.
    fn test_written(
        &mut self,
        (offset, stride): (ir::Value, i64),
        access: ObservedAccess,
        at: usize,
        ask: ir::Block,
    ) {
        let ctx = self.lane.fixed.ctx;
        let at = (at + offset_of!(PermittedRange, written)) as i32;
        let bytes = match stride {
            0 => access.bytes,
            _ => self.view.width * access.bytes,
        };
        let b = &mut *self.lane.b;
        let record = b.ins().load(types::I64, host(), ctx, at);
        let [recorded, done] = std::array::from_fn(|_| b.create_block());
        b.ins().brif(record, recorded, &[], done, &[]);
        b.switch_to_block(recorded);
        let first = b.ins().ushr_imm_u(offset, 3);
        let first = b.ins().iadd(record, first);
        if access.mode == AccessMode::Store {
            // The record has a byte for every eight bytes of memory. If the offset is not a multiple of eight, a byte
            // of the record also describes memory that another thread may write, so the host must set its bits.
            let rest = b.ins().band_imm_u(offset, 7);
            let set = b.create_block();
            b.ins().brif(rest, ask, &[], set, &[]);
            b.switch_to_block(set);
            let mut at = 0;
            for ty in pieces(bytes / 8) {
                let ones = b.ins().iconst(ty, -1);
                b.ins().store(host(), ones, first, at);
                at += ty.bytes() as i32;
            }
            b.ins().jump(done, &[]);
            b.switch_to_block(done);
            return;
        }
        // Computes the bitwise and of all bytes of the record that describe accessed memory. A bit of an unaccessed
        // byte can only make the test fail, and the host then decides.
        let last = b.ins().iadd_imm_s(offset, i64::from(bytes) - 1);
        let last = b.ins().ushr_imm_u(last, 3);
        let last = b.ins().iadd(record, last);
        let last = b.ins().load(types::I8, host(), last, 0);
        let mut all = b.ins().sextend(types::I64, last);
        let mut at = 0;
        for ty in pieces((bytes / 8).max(1)) {
            let mut bits = b.ins().load(ty, host(), first, at);
            if ty != types::I64 {
                bits = b.ins().sextend(types::I64, bits);
            }
            all = b.ins().band(all, bits);
            at += ty.bytes() as i32;
        }
        let all = b.ins().icmp_imm_s(IntCC::Equal, all, -1);
        b.ins().brif(all, done, &[], ask, &[]);
        b.switch_to_block(done);
    }

    /// If the order of accesses is checked, emits the load of the address at which the log contains
    /// the next record. `stride` is as for [`Slice::record_of`]. In this case, also emits code that
    /// sets `permitted` to 0 if the log has no space for the record of the access and for the
    /// addresses and operands that follow the record.
    fn next_record(
        &mut self,
        what: Examined<'_>,
        stride: Option<i64>,
        permitted: &mut ir::Value,
    ) -> Option<(ir::Value, AccessRecord)> {
        if !self.lane.request.order {
            return None;
        }
        let record = self.record_of(what, stride);
        let ctx = self.lane.fixed.ctx;
        let b = &mut *self.lane.b;
        let at = offset_of!(NativeContext, access_log) as i32;
        let log = b.ins().load(types::I64, host(), ctx, at);
        let next = offset_of!(AccessLog, next) as i32;
        let next = b.ins().load(types::I64, host(), log, next);
        let end = b
            .ins()
            .load(types::I64, host(), log, offset_of!(AccessLog, end) as i32);
        let after = b.ins().iadd_imm_s(next, record_bytes(&record));
        let has_space = b.ins().icmp(IntCC::UnsignedLessThanOrEqual, after, end);
        *permitted = b.ins().band(*permitted, has_space);
        Some((next, record))
    }

    /// Returns the record of an access, without the address, the CTA, the thread and the active lanes. `stride` is the
    /// distance of the lanes; `None` if the addresses of the lanes follow the record.
    fn record_of(&self, what: Examined<'_>, stride: Option<i64>) -> AccessRecord {
        let function = self.lane.function;
        let operands = what.operands.len() as u32;
        let first = what.operands.first().map(|&value| function.dfg.ty(value));
        let vector = first.and_then(|ty| vector_type(ty).ok());
        let bytes = vector.map_or(0, |vector| vector.lane_type().bytes());
        let width = self.view.width;
        let shape = AccessRecord::shape(stride.unwrap_or(0), width).unwrap_or_default();
        let address_bytes = match (stride, what.shape.narrow) {
            (Some(_), _) => 0,
            (None, true) => 4,
            (None, false) => 8,
        };
        AccessRecord {
            address: 0,
            cta: 0,
            loc: function.dfg.locs[what.check].to_bits(),
            access: what.access.to_bits(),
            lanes: AccessRecord::fixed(shape, operands, bytes),
            active: address_bytes << 32,
        }
        .with_following()
    }

    /// Emits the code that appends an access to the log. `next` is the result of
    /// [`Slice::next_record`], `address` is the address in the record, and `values` contains the
    /// addresses and operands that follow the record.
    fn record_access<'v>(
        &mut self,
        (next, record): (ir::Value, AccessRecord),
        address: ir::Value,
        values: impl IntoIterator<Item = &'v Value>,
    ) -> Result<(), EmitError> {
        let active = self.active_bits();
        let ctx = self.lane.fixed.ctx;
        let thread = self.lane.here.thread;
        let b = &mut *self.lane.b;
        let at = offset_of!(NativeContext, cta) as i32;
        let cta = b.ins().load(types::I64, host(), ctx, at);
        let loc = b.ins().iconst(types::I64, record.loc as i64);
        let access = b.ins().iconst(types::I64, record.access as i64);
        let thread = b.ins().uextend(types::I64, thread);
        let fixed = b.ins().iconst(types::I64, record.lanes as i64);
        let lanes = b.ins().bor(thread, fixed);
        let fixed = b.ins().iconst(types::I64, record.active as i64);
        let active = b.ins().uextend(types::I64, active);
        let active = b.ins().bor(active, fixed);
        for (value, offset) in [
            (address, offset_of!(AccessRecord, address)),
            (cta, offset_of!(AccessRecord, cta)),
            (loc, offset_of!(AccessRecord, loc)),
            (access, offset_of!(AccessRecord, access)),
            (lanes, offset_of!(AccessRecord, lanes)),
            (active, offset_of!(AccessRecord, active)),
        ] {
            b.ins().store(host(), value, next, offset as i32);
        }
        let unaligned = MemFlagsData::new().with_notrap();
        let mut offset = size_of::<AccessRecord>() as i32;
        for &value in values {
            for vector in self.get(value)? {
                self.lane.b.ins().store(unaligned, vector, next, offset);
                offset += 16;
            }
        }
        let b = &mut *self.lane.b;
        let after = b.ins().iadd_imm_s(next, record_bytes(&record));
        let at = offset_of!(NativeContext, access_log) as i32;
        let log = b.ins().load(types::I64, host(), ctx, at);
        let next = offset_of!(AccessLog, next) as i32;
        b.ins().store(host(), after, log, next);
        Ok(())
    }

    /// Returns the start of the window of a state space; 0 if the state space has no window.
    fn window_or_zero(&mut self, space: StateSpace) -> ir::Value {
        match self.lane.window(space) {
            Some(base) => base,
            None => self.lane.int(types::I64, 0),
        }
    }

    /// Emits the call of [`Helpers::check_lanes`] for lanes that access `places`. Returns the result of the helper.
    fn ask_host(&mut self, what: Examined<'_>, places: &Places) -> Result<ir::Value, EmitError> {
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

    /// Emits the call of [`Helpers::check_lanes`] with a separate address for each lane. Returns the result of the
    /// helper.
    fn ask_about_each(&mut self, what: Examined<'_>) -> Result<ir::Value, EmitError> {
        let at = self.check_addresses();
        for (i, vector) in self.get(what.address)?.into_iter().enumerate() {
            let offset = 16 * i as i32;
            self.lane.b.ins().store(host(), vector, at, offset);
        }
        self.call_host(what, false)
    }

    fn call_host(&mut self, what: Examined<'_>, strided: bool) -> Result<ir::Value, EmitError> {
        let Examined { access, check, .. } = what;
        let (data, operands, operand_bytes) = self.put_operands(what.operands)?;
        let at = self.check_addresses();
        let window = self.window_or_zero(access.space);
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
        let loc = self.lane.function.dfg.locs[check].to_bits();
        let loc = self.lane.int(types::I64, loc);
        let args = [self.lane.fixed.ctx, at, properties, loc, data, shape];
        let offset = offset_of!(Helpers, check_lanes);
        let answer = self
            .lane
            .helper("check_lanes", offset, &args, Some(types::I32));
        Ok(answer.unwrap_or_else(|| self.lane.b.ins().iconst(types::I32, 0)))
    }

    /// Emits loads of the addresses that the lanes must use, which the host has written.
    fn checked_lanes(&mut self, result: Value) -> Result<Lanes, EmitError> {
        let ty = vector_type(self.lane.function.dfg.ty(result))?;
        let at = self.check_addresses();
        Ok((0..self.count(ty) as i32)
            .map(|i| self.lane.b.ins().load(ty, host(), at, 16 * i))
            .collect())
    }

    /// Removes and returns the pending check whose result is `address`, if there is one.
    pub(super) fn take_pending_check(&mut self, address: Value) -> Option<Pending> {
        self.pending_check
            .take_if(|pending| pending.result == address)
    }

    /// Emits a load or store together with its check. `run` emits the access without any tests. The host performs the
    /// access if the check fails, if speculatively affine addresses are not affine at run time, or if the code of the
    /// access would be long ([`Slice::is_short`]). [`Slice::check_of_each`] handles varying addresses.
    pub(super) fn checked_access(
        &mut self,
        pending: Pending,
        (inst, data, element): (Inst, &InstData, ir::Type),
        run: impl FnOnce(&mut Self, &Places, Value) -> Result<(), EmitError>,
    ) -> Result<(), EmitError> {
        let function = self.lane.function;
        let check = pending.check;
        let address = function.dfg.args(check)[0];
        let access = ObservedAccess::of(&function.dfg.insts[check]);
        let access = access.ok_or_else(|| EmitError::Unsupported("a check of no access".into()))?;
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
            range: self.lane.range_number(address) as u32,
        };
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
        // The operands must be computed before the branches, because all branches use them.
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
            return self.check_of_each(inst, what, run);
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
        let here = match self.mask {
            None => self.is_short(&places, element, access),
            Some(_) => self.is_short_if_masked(&places, access),
        };
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
            self.untested(|slice| run(slice, &places, address))?;
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

    /// Emits an access that a check has examined, without any tests.
    fn untested(
        &mut self,
        access: impl FnOnce(&mut Self) -> Result<(), EmitError>,
    ) -> Result<(), EmitError> {
        let isolated = std::mem::replace(&mut self.lane.isolated, false);
        self.examined = true;
        access(self)?;
        self.examined = false;
        self.lane.isolated = isolated;
        Ok(())
    }

    /// Emits an access whose lanes have no common stride, together with its check. If all active lanes access one range
    /// that the host has permitted, the code accesses memory lane by lane; otherwise the host performs the access.
    /// The host also performs every access if the kernel does not use all elements of a vector load, if the addresses
    /// are 32-bit addresses outside shared memory, or if the access is strong and the order of accesses is checked.
    fn check_of_each(
        &mut self,
        inst: Inst,
        what: Examined<'_>,
        run: impl FnOnce(&mut Self, &Places, Value) -> Result<(), EmitError>,
    ) -> Result<(), EmitError> {
        let access = what.access;
        let known = matches!(access.mode, AccessMode::Load | AccessMode::Store);
        let logged = access.order == MemOrder::Weak || !self.lane.request.order;
        let quick = known && access.unused == 0 && logged;
        // `are_permitted` compares 32-bit addresses only as offsets in a window.
        let quick = quick && (!what.shape.narrow || access.space == StateSpace::Shared);
        let Some(at) = what.range().filter(|_| quick) else {
            self.ask_about_each(what)?;
            return self.set_results(inst);
        };
        let lanes = self.get(what.address)?;
        let mut permitted = self.are_permitted(&lanes, access, at);
        let next = self.next_record(what, None, &mut permitted);
        let [whole, ask, end] = std::array::from_fn(|_| self.lane.b.create_block());
        self.lane.b.ins().brif(permitted, whole, &[], ask, &[]);
        let made = self.made.clone();
        self.lane.b.switch_to_block(whole);
        if let Some(next) = next {
            let window = self.window_or_zero(access.space);
            let values = std::iter::once(&what.address).chain(what.operands);
            self.record_access(next, window, values)?;
        }
        let places = self.places(what.address, access.space, None)?;
        self.untested(|slice| run(slice, &places, what.address))?;
        self.lane.b.ins().jump(end, &[]);
        self.made.clone_from(&made);
        self.lane.b.switch_to_block(ask);
        self.lane.b.set_cold_block(ask);
        self.ask_about_each(what)?;
        self.set_results(inst)?;
        self.lane.b.ins().jump(end, &[]);
        self.made = made;
        self.lane.b.switch_to_block(end);
        for result in self.lane.function.dfg.results(inst) {
            self.made.remove(result);
        }
        Ok(())
    }

    /// Emits the test whether the accesses of all active lanes are aligned and inside the permitted range at the offset
    /// `at` of the context, and whether all bytes of the range have been written if this is checked. `lanes` contains
    /// addresses of 64 bits, or offsets of 32 bits in shared memory.
    fn are_permitted(&mut self, lanes: &Lanes, access: ObservedAccess, at: usize) -> ir::Value {
        let mut start = self.lane.range_field(at, offset_of!(PermittedRange, start));
        let size = self.lane.range_field(at, offset_of!(PermittedRange, size));
        let window = self.lane.window(access.space);
        let ty = self.lane.b.func.dfg.value_type(lanes[0]);
        let b = &mut *self.lane.b;
        if let Some(window) = window {
            start = b.ins().isub(start, window);
        }
        // The offset of the last permitted access. It is negative if the range is empty.
        let mut last = b.ins().iadd_imm_s(size, -i64::from(access.bytes));
        if ty == types::I32X4 {
            [start, last] = [start, last].map(|value| b.ins().ireduce(types::I32, value));
        }
        let [start, last] = [start, last].map(|value| b.ins().splat(ty, value));
        // If all offsets are permitted, the sign bits of the offsets and of their distances to `last` are zero.
        let mut signs = None;
        let mut together = None;
        for (index, &vector) in lanes.iter().enumerate() {
            let mask = match ty {
                types::I64X2 => self.mask_of_pair(index),
                _ => self.mask.as_ref().map(|mask| mask[index]),
            };
            let b = &mut *self.lane.b;
            let mut offset = b.ins().isub(vector, start);
            let mut address = vector;
            if let Some(mask) = mask {
                [offset, address] = [offset, address].map(|value| b.ins().band(value, mask));
            }
            let left = b.ins().isub(last, offset);
            let sign = b.ins().bor(offset, left);
            let both = |b: &mut cranelift_frontend::FunctionBuilder<'_>, all, one| match all {
                Some(all) => b.ins().bor(all, one),
                None => one,
            };
            signs = Some(both(b, signs, sign));
            together = Some(both(b, together, address));
        }
        let (Some(signs), Some(together)) = (signs, together) else {
            return self.lane.b.ins().iconst(types::I8, 0);
        };
        let b = &mut *self.lane.b;
        let mut bad = b.ins().vhigh_bits(types::I32, signs);
        if alignment(access) != 0 {
            let lane = ty.lane_type();
            let bits = b.ins().iconst(lane, alignment(access));
            let bits = b.ins().splat(ty, bits);
            let low = b.ins().band(together, bits);
            let any = b.ins().vany_true(low);
            let any = b.ins().uextend(types::I32, any);
            bad = b.ins().bor(bad, any);
        }
        let good = b.ins().icmp_imm_u(IntCC::Equal, bad, 0);
        if !self.lane.request.initialisation {
            return good;
        }
        let whole = self.is_all_written(at);
        self.lane.b.ins().band(good, whole)
    }

    /// Returns whether generated code, and not the host, performs an access of a masked chunk that
    /// the check permits. If the result is false, the host performs the access when it examines it.
    fn is_short_if_masked(&self, places: &Places, access: ObservedAccess) -> bool {
        let Places::Strided { stride, .. } = places else {
            return false;
        };
        self.is_brief(access, *stride)
    }

    /// Returns whether generated code, and not the host, performs an access of a whole chunk that
    /// the check permits. This is the case if the code of the access is short, or if its check
    /// rarely calls the host. Otherwise each check calls the host, which also performs the access.
    fn is_short(&self, places: &Places, element: ir::Type, access: ObservedAccess) -> bool {
        let Places::Strided { stride, .. } = places else {
            return false;
        };
        let one = access.bytes == element.bytes() && access.order == MemOrder::Weak;
        *stride == 0
            || one && *stride == i64::from(element.bytes())
            || self.is_brief(access, *stride)
    }

    /// Emits loads of the elements that the host has loaded for `inst`, and sets the results of
    /// `inst`.
    fn set_results(&mut self, inst: Inst) -> Result<(), EmitError> {
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

/// Returns the number of bytes that a record and the addresses and operands that follow it occupy
/// in the log.
fn record_bytes(record: &AccessRecord) -> i64 {
    ((1 + record.following()) * size_of::<AccessRecord>()) as i64
}

/// Returns the types of values that together have `bytes` bytes.
fn pieces(bytes: u32) -> impl Iterator<Item = ir::Type> {
    let of = |ty: ir::Type, count: u32| std::iter::repeat_n(ty, count as usize);
    of(types::I64, bytes / 8)
        .chain(of(types::I32, bytes / 4 % 2))
        .chain(of(types::I16, bytes / 2 % 2))
        .chain(of(types::I8, bytes % 2))
}
