//! Emits code that checks accesses without a call of the host.
//!
//! When the host permits an access, it stores in the context a range of memory in which all threads may make accesses
//! of this kind ([`NativeContext::permitted`]). Later accesses in this range need no call. If a
//! checking run checks initialisation, each range has a record of written bytes. Accesses to local
//! memory are compared with the size of the thread's local memory
//! ([`NativeContext::checked_local`]).

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, InstBuilder, types};
use margay_ir::analysis::Reach;
use margay_ir::entity::Value;
use margay_ir::observe::{AccessMode, ObservedAccess};
use margay_ops::mods::StateSpace;

use super::lane::{Lane, host};
use crate::abi::{NativeContext, PERMITTED, PermittedRange, permitted_index};

/// Returns the offset in the context of the range that [`permitted_index`] selects.
pub(crate) fn range_of(access: ObservedAccess, number: usize) -> Option<usize> {
    let index = permitted_index(access, number)?;
    Some(offset_of!(NativeContext, permitted) + size_of::<PermittedRange>() * index)
}

/// Returns a mask of the low bits that must be zero in the address of an access.
pub(crate) fn alignment(access: ObservedAccess) -> i64 {
    i64::from(access.bytes.next_power_of_two()) - 1
}

impl Lane<'_, '_> {
    /// Returns the number of the permitted range for accesses at an address. Accesses whose
    /// addresses are computed from the same root value use the same range, because they usually
    /// access one allocation.
    pub(crate) fn range_number(&mut self, address: Value) -> usize {
        let root = Reach::new(self.function).of(address, &|_| true);
        let next = self.ranges.len() % PERMITTED;
        *self.ranges.entry(root.value).or_insert(next)
    }

    /// Emits the load of a field of the permitted range at the offset `range` of the context. The
    /// host can change the range during every call from generated code.
    pub(crate) fn range_field(&mut self, range: usize, field: usize) -> ir::Value {
        let at = (range + field) as i32;
        let ctx = self.fixed.ctx;
        self.b.ins().load(types::I64, host(), ctx, at)
    }

    /// Emits a test whose result is nonzero only if the access of one lane needs no call of the host. `at` is the host
    /// address, and `number` selects the permitted range. Returns `None` if all accesses of this kind need a call.
    pub(crate) fn needs_no_call(
        &mut self,
        access: ObservedAccess,
        (at, window): (ir::Value, Option<ir::Value>),
        number: usize,
    ) -> Option<ir::Value> {
        let known = matches!(
            access.mode,
            AccessMode::Load | AccessMode::Store | AccessMode::Update
        );
        if !known || access.unused != 0 {
            return None;
        }
        if let (StateSpace::Local, Some(window)) = (access.space, window) {
            let offset = self.b.ins().isub(at, window);
            let size = self.field(types::I64, offset_of!(NativeContext, checked_local));
            let shape = (access.bytes.into(), alignment(access));
            return Some(self.is_inside((at, offset), size, shape));
        }
        if self.request.order {
            return None;
        }
        let range = range_of(access, number)?;
        let shape = (access.bytes.into(), alignment(access));
        let (offset, inside) = self.is_in_range(range, at, shape);
        if !self.request.initialisation {
            return Some(inside);
        }
        let written = self.range_field(range, offset_of!(PermittedRange, written));
        let whole = self.b.ins().icmp_imm_u(IntCC::Equal, written, 0);
        if access.mode == AccessMode::Update || access.bytes > 8 {
            return Some(self.b.ins().band(inside, whole));
        }
        Some(self.is_written(access, (inside, whole), (written, offset)))
    }

    /// Emits a test whether an access at the host address `at` is inside the permitted range at the
    /// offset `range` of the context, and whether the address is aligned. `shape` contains the
    /// number of bytes of the access and the result of [`alignment`]. Returns the distance of the
    /// address from the start of the range, and the result of the test.
    pub(crate) fn is_in_range(
        &mut self,
        range: usize,
        at: ir::Value,
        shape: (i64, i64),
    ) -> (ir::Value, ir::Value) {
        let start = self.range_field(range, offset_of!(PermittedRange, start));
        let size = self.range_field(range, offset_of!(PermittedRange, size));
        let offset = self.b.ins().isub(at, start);
        (offset, self.is_inside((at, offset), size, shape))
    }

    /// Emits a test whether an access of `span` bytes is inside a memory range of `size` bytes, and
    /// whether its address is aligned. `at` is the host address of the access, and `offset` the
    /// offset of this address in the range. `align` is the result of [`alignment`].
    fn is_inside(
        &mut self,
        (at, offset): (ir::Value, ir::Value),
        size: ir::Value,
        (span, align): (i64, i64),
    ) -> ir::Value {
        let b = &mut *self.b;
        let end = b.ins().iadd_imm_s(offset, span);
        let begins = b.ins().icmp(IntCC::UnsignedLessThan, offset, size);
        let ends = b.ins().icmp(IntCC::UnsignedLessThanOrEqual, end, size);
        let inside = b.ins().band(begins, ends);
        match align {
            0 => inside,
            _ => {
                let low = b.ins().band_imm_u(at, align);
                let aligned = b.ins().icmp_imm_u(IntCC::Equal, low, 0);
                b.ins().band(inside, aligned)
            }
        }
    }

    /// Emits a test whether an access that is `inside` its range accesses only bytes that have been
    /// written. `whole` states that all bytes of the range have been written; otherwise `record` is
    /// the address of the record of written bytes. A store to such bytes need not be recorded.
    fn is_written(
        &mut self,
        access: ObservedAccess,
        (inside, whole): (ir::Value, ir::Value),
        (record, offset): (ir::Value, ir::Value),
    ) -> ir::Value {
        let [test, examine, done] = std::array::from_fn(|_| self.b.create_block());
        let result = self.b.append_block_param(done, types::I8);
        let no = self.b.ins().iconst(types::I8, 0);
        self.b.ins().brif(inside, test, &[], done, &[no.into()]);
        self.b.switch_to_block(test);
        let yes = self.b.ins().iconst(types::I8, 1);
        self.b.ins().brif(whole, done, &[yes.into()], examine, &[]);
        self.b.switch_to_block(examine);
        // At most 8 bytes are accessed, so their bits are in at most two bytes of the record.
        let b = &mut *self.b;
        let end = b.ins().iadd_imm_s(offset, i64::from(access.bytes) - 1);
        let [first, last] = [offset, end].map(|at| {
            let byte = b.ins().ushr_imm_u(at, 3);
            let byte = b.ins().iadd(record, byte);
            let bits = b.ins().load(types::I8, host(), byte, 0);
            b.ins().uextend(types::I32, bits)
        });
        let last = b.ins().ishl_imm_u(last, 8);
        let bits = b.ins().bor(first, last);
        let skipped = b.ins().band_imm_u(offset, 7);
        let bits = b.ins().ushr(bits, skipped);
        let all = (1i64 << access.bytes) - 1;
        let bits = b.ins().band_imm_u(bits, all);
        let written = b.ins().icmp_imm_u(IntCC::Equal, bits, all);
        b.ins().jump(done, &[written.into()]);
        b.switch_to_block(done);
        result
    }
}
