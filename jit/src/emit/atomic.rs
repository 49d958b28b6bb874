//! Atomic read-modify-writes.
//!
//! Only the worker that runs a CTA accesses the CTA's shared memory, so a plain load and a plain store are sufficient
//! for shared memory. For other memory, generated code uses the atomic instructions of the host CPU, or a
//! compare-and-swap loop. For updates that this module does not support, generated code calls the host, which uses the
//! op's reference function.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use margay_ir::entity::Inst;
use margay_ir::function::InstData;
use margay_ops::meaning::Meaning;
use margay_ops::mods::{AtomOp, StateSpace};
use margay_ops::types::OpType;

use super::aligned::demanded_by_update;
use super::clif_type;
use super::lane::{EmitError, Lane, device};
use super::memory::{element_type, host_cast, is_private};
use crate::abi::Helpers;
use crate::emit::fast::flush;

/// Returns whether an atomic update is emitted without atomic instructions: as a load, a short computation and a store.
pub(crate) fn is_plain_update(data: &InstData) -> bool {
    is_private(data.mods.space()) && is_fast(data)
}

/// Returns whether an update has a single element of 32 or 64 bits, and native code supports its operation.
fn is_fast(data: &InstData) -> bool {
    let one = data.mods.vec() == 1 && data.ty.elements() == 1;
    let element = element_type(data.ty);
    one && matches!(element, Some(types::I32 | types::I64)) && has_update(data)
}

impl Lane<'_, '_> {
    pub(crate) fn atomic(&mut self, inst: Inst, data: &InstData) -> Result<(), EmitError> {
        let address = self.arg(inst, 0);
        self.demand_aligned(inst, demanded_by_update(data));
        let address = self.host_address(address, data.mods.space());
        self.demand_reach(inst, data, address);
        if self.fast_atomic(inst, data, address).is_some() {
            return Ok(());
        }
        if !matches!(data.opcode.meaning(), Meaning::Rmw(_)) {
            return self.refuse(data);
        }
        let operands: Vec<ir::Value> = self.function.dfg.args(inst)[1..]
            .iter()
            .map(|&v| self.get(v))
            .collect();
        let desc = self.desc(data.desc());
        let out = self.area(1, data.mods.vec() as usize);
        let groups: Vec<&[ir::Value]> = match data.mods.vec() {
            1 => vec![&operands],
            _ => operands.chunks(1).collect(),
        };
        for (i, group) in groups.into_iter().enumerate() {
            let args = self.put_args(group);
            let step = i as i64 * i64::from(data.ty.bits() / 8);
            let at = self.b.ins().iadd_imm_s(address, step);
            let to = self.b.ins().iadd_imm_s(out, 16 * i as i64);
            let code = self.helper(
                "update",
                offset_of!(Helpers, update),
                &[self.fixed.ctx, desc, at, args, to],
                Some(types::I32),
            );
            if let Some(code) = code {
                self.check(code);
            }
        }
        self.take_results(inst, out);
        Ok(())
    }

    /// Emits the update of one 32-bit or 64-bit element. Returns `None` if native code does not support the update.
    fn fast_atomic(&mut self, inst: Inst, data: &InstData, address: ir::Value) -> Option<()> {
        let element = element_type(data.ty).filter(|_| is_fast(data))?;
        let b = self.arg(inst, 1);
        let b = self.narrowed(b, element);
        let old = if is_private(data.mods.space()) {
            let old = self.b.ins().load(element, device(), address, 0);
            let new = self.update(inst, data, element, old, b)?;
            self.b.ins().store(device(), new, address, 0);
            old
        } else if data.mods.atom_op() == AtomOp::Cas {
            let new = self.arg(inst, 2);
            let new = self.narrowed(new, element);
            self.b.ins().atomic_cas(device(), address, b, new)
        } else if let Some(op) = host_atomic(data) {
            self.b.ins().atomic_rmw(element, device(), op, address, b)
        } else {
            self.swap_until_done(inst, data, element, address, b)?
        };
        if let Some(&value) = self.function.dfg.results(inst).first() {
            let to = clif_type(self.function.dfg.ty(value));
            let bits = if to.is_float() {
                self.b.ins().bitcast(to, host_cast(), old)
            } else {
                old
            };
            self.set(value, bits);
        }
        Some(())
    }

    /// Emits a compare-and-swap loop, which repeats the update until no other thread has changed the memory between the
    /// load and the swap. Returns the old content.
    fn swap_until_done(
        &mut self,
        inst: Inst,
        data: &InstData,
        element: ir::Type,
        address: ir::Value,
        b: ir::Value,
    ) -> Option<ir::Value> {
        let [again, done] = std::array::from_fn(|_| self.b.create_block());
        let read = self.b.append_block_param(again, element);
        let first = self.b.ins().load(element, device(), address, 0);
        self.b.ins().jump(again, &[first.into()]);
        self.b.switch_to_block(again);
        let new = self.update(inst, data, element, read, b)?;
        let seen = self.b.ins().atomic_cas(device(), address, read, new);
        let same = self.b.ins().icmp(IntCC::Equal, seen, read);
        self.b.ins().brif(same, done, &[], again, &[seen.into()]);
        self.b.switch_to_block(done);
        Some(seen)
    }

    /// Emits the computation of the new content from the old content and the operands, as integers of the element's
    /// width.
    fn update(
        &mut self,
        inst: Inst,
        data: &InstData,
        element: ir::Type,
        old: ir::Value,
        b: ir::Value,
    ) -> Option<ir::Value> {
        if is_float_add(data) {
            Some(self.float_sum(data, element, old, b))
        } else {
            self.integer_update(inst, data, element, old, b)
        }
    }

    /// Emits a floating-point addition, rounded to nearest even. Subnormal `f32` operands and results are flushed to
    /// zero, except in shared memory and with `.noftz`.
    fn float_sum(
        &mut self,
        data: &InstData,
        element: ir::Type,
        old: ir::Value,
        b: ir::Value,
    ) -> ir::Value {
        let shared = matches!(
            data.mods.space(),
            StateSpace::Shared | StateSpace::SharedCluster
        );
        let ty = if element == types::I32 {
            types::F32
        } else {
            types::F64
        };
        let flushes = ty == types::F32 && !shared && !data.mods.noftz();
        let [old, b] = [old, b].map(|bits| {
            let value = self.b.ins().bitcast(ty, host_cast(), bits);
            if flushes { flush(self, value) } else { value }
        });
        let sum = self.b.ins().fadd(old, b);
        let sum = if flushes { flush(self, sum) } else { sum };
        self.b.ins().bitcast(element, host_cast(), sum)
    }

    fn integer_update(
        &mut self,
        inst: Inst,
        data: &InstData,
        element: ir::Type,
        old: ir::Value,
        b: ir::Value,
    ) -> Option<ir::Value> {
        let signed = data.ty.is_signed();
        Some(match data.mods.atom_op() {
            AtomOp::Add => self.b.ins().iadd(old, b),
            AtomOp::And => self.b.ins().band(old, b),
            AtomOp::Or => self.b.ins().bor(old, b),
            AtomOp::Xor => self.b.ins().bxor(old, b),
            AtomOp::Exch => b,
            AtomOp::Min if signed => self.b.ins().smin(old, b),
            AtomOp::Min => self.b.ins().umin(old, b),
            AtomOp::Max if signed => self.b.ins().smax(old, b),
            AtomOp::Max => self.b.ins().umax(old, b),
            AtomOp::Cas => {
                let new = self.arg(inst, 2);
                let new = self.narrowed(new, element);
                let same = self.b.ins().icmp(IntCC::Equal, old, b);
                self.b.ins().select(same, new, old)
            }
            AtomOp::Inc => {
                let next = self.b.ins().iadd_imm_s(old, 1);
                let wrap = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, old, b);
                let zero = self.b.ins().iconst(element, 0);
                self.b.ins().select(wrap, zero, next)
            }
            AtomOp::Dec => {
                let next = self.b.ins().iadd_imm_s(old, -1);
                let zero = self.b.ins().icmp_imm_s(IntCC::Equal, old, 0);
                let above = self.b.ins().icmp(IntCC::UnsignedGreaterThan, old, b);
                let wrap = self.b.ins().bor(zero, above);
                self.b.ins().select(wrap, b, next)
            }
            _ => return None,
        })
    }
}

fn is_float_add(data: &InstData) -> bool {
    data.mods.atom_op() == AtomOp::Add && matches!(data.ty, OpType::F32 | OpType::F64)
}

/// Returns whether native code supports the operation of an update.
fn has_update(data: &InstData) -> bool {
    let op = data.mods.atom_op();
    is_float_add(data)
        || data.ty.is_integer()
            && !matches!(
                op,
                AtomOp::Signal | AtomOp::SignalDrop | AtomOp::Popc | AtomOp::None
            )
}

fn host_atomic(data: &InstData) -> Option<ir::AtomicRmwOp> {
    use ir::AtomicRmwOp as Op;
    let signed = data.ty.is_signed();
    Some(match data.mods.atom_op() {
        AtomOp::Add if data.ty.is_integer() => Op::Add,
        AtomOp::And => Op::And,
        AtomOp::Or => Op::Or,
        AtomOp::Xor => Op::Xor,
        AtomOp::Exch => Op::Xchg,
        AtomOp::Min if signed => Op::Smin,
        AtomOp::Min => Op::Umin,
        AtomOp::Max if signed => Op::Smax,
        AtomOp::Max => Op::Umax,
        _ => return None,
    })
}
