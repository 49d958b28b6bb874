//! Checks of the accesses of a chunk: the host examines all lanes in one call.
//!
//! If the host permits all accesses, the load or store that follows the check uses the address that was checked, so it
//! can access whole vectors. Otherwise the host has written the address that each lane uses, and the access runs lane
//! by lane.

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
use crate::abi::{CheckedLanes, Helpers, NativeContext};
use crate::emit::lane::{Lane, Unsupported, host};
use crate::emit::memory::element_type;

/// The result of a check whose access follows in the same block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checked {
    /// Nonzero if all lanes may use the address that was checked.
    permitted: ir::Value,
    /// The address that was checked.
    address: Value,
    /// The distance between the lanes' addresses if `permitted` is nonzero and the address is speculatively affine.
    stride: Option<i64>,
}

/// Maximum number of bytes of the operands of all lanes of a chunk.
const OPERANDS: u32 = 8 * 32 * 8;

impl Slice<'_, '_> {
    /// Emits the check of an access of all active lanes.
    pub(super) fn check_lanes(&mut self, inst: Inst, data: &InstData) -> Result<(), Unsupported> {
        let Some(access) = ObservedAccess::of(data) else {
            return self.lane.refuse(data);
        };
        let args = self.lane.function.dfg.args(inst);
        let (address, operands) = (args[0], &args[1..]);
        let each = matches!(access.mode, AccessMode::Copy | AccessMode::Release);
        // Each thread has its local memory at a different address.
        if each || access.space == StateSpace::Local {
            return self.each_lane(inst);
        }
        let Some((operands, shape)) = self.put_operands(operands)? else {
            return self.each_lane(inst);
        };
        let result = self.lane.function.dfg.results(inst)[0];
        let follows = self.follows(inst, result);
        let narrow = self.lane.function.dfg.ty(result).kind() == Kind::B32;
        let shape = CheckedLanes {
            width: self.view.width,
            narrow,
            writes_back: !follows,
            ..shape
        };
        let space = access.space;
        let what = (access, inst, operands);
        let guarded = self.class(address) == Class::Varying && self.is_guarded(address);
        let stride = match guarded {
            true => self.view.speculative.stride(address),
            false => None,
        };
        let holds = match guarded {
            true => self.holds(address),
            false => None,
        };
        let permitted = match holds {
            None => {
                let places = self.places(address, space, stride)?;
                self.examined(what, &places, shape)
            }
            Some(holds) => {
                let [run, each, join] = std::array::from_fn(|_| self.lane.b.create_block());
                let permitted = self.lane.b.append_block_param(join, types::I32);
                self.lane.b.ins().brif(holds, run, &[], each, &[]);
                let made = self.made.clone();
                self.lane.b.switch_to_block(run);
                let places = self.places(address, space, stride)?;
                let answer = self.examined(what, &places, shape);
                self.lane.b.ins().jump(join, &[answer.into()]);
                self.made.clone_from(&made);
                self.lane.b.switch_to_block(each);
                let places = self.places(address, space, None)?;
                let write = CheckedLanes {
                    writes_back: true,
                    ..shape
                };
                self.examined_by_host(what, &places, write);
                let never = self.lane.b.ins().iconst(types::I32, 0);
                self.lane.b.ins().jump(join, &[never.into()]);
                self.made = made;
                self.lane.b.switch_to_block(join);
                permitted
            }
        };
        if follows {
            let checked = Checked {
                permitted,
                address,
                stride,
            };
            self.checked = Some((result, checked));
            return Ok(());
        }
        let lanes = self.checked_lanes(result)?;
        self.set(result, &lanes)
    }

    /// Returns whether a load or store that has a form for chunks follows a check in the block, before any other check.
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
                return element_type(data.ty).is_some_and(|element| {
                    element != types::I128 && !Lane::is_whole(element, &data)
                });
            }
            if args.contains(&result) || !function.effects(next).is_pure() {
                return false;
            }
        }
        false
    }

    /// Stores the lanes of the operands of an access for the host. Returns their address and their shape; `None` if the
    /// operands have no vectors or are too large.
    fn put_operands(
        &mut self,
        operands: &[Value],
    ) -> Result<Option<(ir::Value, CheckedLanes)>, Unsupported> {
        let none = CheckedLanes::default();
        let Some(&first) = operands.first() else {
            return Ok(Some((self.lane.int(types::I64, 0), none)));
        };
        let Ok(ty) = vector_type(self.lane.function.dfg.ty(first)) else {
            return Ok(None);
        };
        let bytes = ty.lane_type().bytes();
        let total = operands.len() as u32 * self.view.width * bytes;
        let alike = operands
            .iter()
            .all(|&value| self.lane.function.dfg.ty(value) == self.lane.function.dfg.ty(first));
        if !alike || total > OPERANDS {
            return Ok(None);
        }
        let slot = match self.check_operands {
            Some(slot) => slot,
            None => {
                let data = StackSlotData::new(StackSlotKind::ExplicitSlot, OPERANDS, 4);
                *self
                    .check_operands
                    .insert(self.lane.b.create_sized_stack_slot(data))
            }
        };
        let at = self.lane.b.ins().stack_addr(types::I64, slot, 0);
        let mut offset = 0;
        for &value in operands {
            for vector in self.get(value)? {
                self.lane.b.ins().store(host(), vector, at, offset);
                offset += 16;
            }
        }
        let shape = CheckedLanes {
            operands: operands.len() as u32,
            operand_bytes: bytes,
            ..none
        };
        Ok(Some((at, shape)))
    }

    /// Memory for the addresses of the lanes.
    fn check_addresses(&mut self) -> ir::Value {
        let slot = match self.check_addresses {
            Some(slot) => slot,
            None => {
                let bytes = CheckedLanes::WINDOW + 8;
                let data = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 4);
                *self
                    .check_addresses
                    .insert(self.lane.b.create_sized_stack_slot(data))
            }
        };
        self.lane.b.ins().stack_addr(types::I64, slot, 0)
    }

    /// Emits the check of an access. If only bounds are checked, compares strided addresses with the memory that the host has
    /// permitted at an earlier check, and asks the host if they are outside of it.
    fn examined(
        &mut self,
        what: (ObservedAccess, Inst, ir::Value),
        places: &Places,
        shape: CheckedLanes,
    ) -> ir::Value {
        let access = what.0;
        let align = i64::from(access.bytes.next_power_of_two());
        let index = match access.space {
            StateSpace::Shared => 2,
            StateSpace::None | StateSpace::Global => usize::from(access.mode.writes()),
            _ => return self.examined_by_host(what, places, shape),
        };
        let plain = access.order == MemOrder::Weak && access.unused == 0 && !shape.writes_back;
        let &Places::Strided {
            address, stride, ..
        } = places
        else {
            return self.examined_by_host(what, places, shape);
        };
        let bounds_only = self.lane.request.bounds_only && self.mask.is_none();
        if !bounds_only || !plain || stride % align != 0 {
            return self.examined_by_host(what, places, shape);
        }
        let apart = stride.wrapping_mul(i64::from(self.view.width) - 1);
        let at = (offset_of!(NativeContext, permitted) + 16 * index) as i32;
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
        let answer = self.examined_by_host(what, places, shape);
        self.lane.b.ins().jump(join, &[answer.into()]);
        self.lane.b.switch_to_block(join);
        permitted
    }

    /// Emits the call of the host. Returns its answer.
    fn examined_by_host(
        &mut self,
        (access, inst, operands): (ObservedAccess, Inst, ir::Value),
        places: &Places,
        shape: CheckedLanes,
    ) -> ir::Value {
        let at = self.check_addresses();
        let window = match self.lane.window(access.space) {
            Some(base) => base,
            None => self.lane.int(types::I64, 0),
        };
        let b = &mut *self.lane.b;
        b.ins()
            .store(host(), window, at, CheckedLanes::WINDOW as i32);
        let strided = match places {
            &Places::Strided {
                address, stride, ..
            } => {
                let stride = b.ins().iconst(types::I64, stride);
                b.ins().store(host(), address, at, 0);
                b.ins().store(host(), stride, at, 8);
                true
            }
            Places::Each(each) => {
                for (lane, &address) in each.iter().enumerate() {
                    b.ins().store(host(), address, at, 8 * lane as i32);
                }
                false
            }
        };
        let fixed = CheckedLanes { strided, ..shape }.to_bits();
        let fixed = self.lane.int(types::I64, fixed);
        let active = self.active_bits();
        let b = &mut *self.lane.b;
        let active = b.ins().uextend(types::I64, active);
        let thread = b.ins().uextend(types::I64, self.lane.here.thread);
        let thread = b.ins().ishl_imm_u(thread, CheckedLanes::THREAD);
        let shape = b.ins().bor(fixed, active);
        let shape = b.ins().bor(shape, thread);
        let what = self.lane.int(types::I64, access.to_bits());
        let loc = self.lane.function.dfg.locs[inst];
        let loc = u64::from(loc.ptx_line) | u64::from(loc.loc) << 32;
        let loc = self.lane.int(types::I64, loc);
        let args = [self.lane.fixed.ctx, at, what, loc, operands, shape];
        let offset = offset_of!(Helpers, check_lanes);
        let answer = self
            .lane
            .helper("check_lanes", offset, &args, Some(types::I32));
        answer.unwrap_or_else(|| self.lane.b.ins().iconst(types::I32, 0))
    }

    /// Loads the addresses that the host has written.
    fn checked_lanes(&mut self, result: Value) -> Result<Lanes, Unsupported> {
        let ty = vector_type(self.lane.function.dfg.ty(result))?;
        let at = self.check_addresses();
        Ok((0..self.count(ty) as i32)
            .map(|i| self.lane.b.ins().load(ty, host(), at, 16 * i))
            .collect())
    }

    /// Returns the check of an access that uses its result.
    pub(super) fn take_checked(&mut self, address: Value) -> Option<Checked> {
        let (_, checked) = self.checked.take_if(|(result, _)| *result == address)?;
        Some(checked)
    }

    /// Emits an access after its check: `run` emits the access to the places that were checked. The accesses need no
    /// further tests.
    pub(super) fn after_check(
        &mut self,
        inst: Inst,
        data: &InstData,
        checked: Checked,
        run: impl FnOnce(&mut Self, &Places, Value) -> Result<(), Unsupported>,
    ) -> Result<(), Unsupported> {
        let address = self.lane.function.dfg.args(inst)[0];
        let isolated = std::mem::replace(&mut self.lane.isolated, false);
        let [whole, each, join] = std::array::from_fn(|_| self.lane.b.create_block());
        self.lane
            .b
            .ins()
            .brif(checked.permitted, whole, &[], each, &[]);
        let made = self.made.clone();
        self.lane.b.switch_to_block(whole);
        self.examined = true;
        let places = self.places(checked.address, data.mods.space(), checked.stride)?;
        run(self, &places, checked.address)?;
        self.examined = false;
        self.lane.b.ins().jump(join, &[]);
        self.made.clone_from(&made);
        self.lane.b.switch_to_block(each);
        self.lane.b.set_cold_block(each);
        let lanes = self.checked_lanes(address)?;
        self.set(address, &lanes)?;
        self.each_lane(inst)?;
        self.lane.b.ins().jump(join, &[]);
        self.made = made;
        self.lane.b.switch_to_block(join);
        self.lane.isolated = isolated;
        for result in self.lane.function.dfg.results(inst) {
            self.made.remove(result);
        }
        Ok(())
    }
}
