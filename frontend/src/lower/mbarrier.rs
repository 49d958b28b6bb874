//! mbarriers.
//!
//! An mbarrier is a word in memory ([`margay_ops::meaning::mbarrier`]): arrivals are read-modify-writes, waits are loads,
//! which makes loops around them waiting loops like any other.

use margay_ir::entity::Value;
use margay_ops::meaning::{Desc, mbarrier};
use margay_ops::mods::{AtomOp, CmpOp, MemOrder, Mods};
use margay_ops::ops::Opcode;
use margay_ops::types::{OpType, Type};

use super::Lowered;
use super::function::FunctionLowering;
use super::parts::{At, Parts};

impl FunctionLowering<'_, '_> {
    /// `mbarrier.init`.
    pub(super) fn init_object(&mut self, parts: &Parts<'_>) -> Lowered<()> {
        let count = self.long(parts, "count")?;
        let expected = self.b.constant(Type::B64, mbarrier::OF_COUNT);
        let object = self.b64(Opcode::Mul, count, expected);
        self.store_object(parts, object)
    }

    /// `mbarrier.pending_count`.
    pub(super) fn pending_count(&mut self, parts: &Parts<'_>) -> Lowered<()> {
        let state = self.long(parts, "state")?;
        let mask = self.b.constant(Type::B64, mbarrier::PENDING);
        let pending = self.b64(Opcode::And, state, mask);
        let pending = self.convert(pending, OpType::U64, OpType::U32);
        self.give(parts, pending, OpType::U32)
    }

    /// `cp.async.mbarrier.arrive`. Without `.noinc` the arrival is one more that was not expected: nothing changes.
    pub(super) fn arrive_after_copies(&mut self, parts: &Parts<'_>) -> Lowered<()> {
        let count = self.b.constant(Type::B64, u64::from(parts.has("noinc")));
        let at = self.at(parts, "a", parts.space())?;
        self.signal_object(at, AtomOp::Signal, count, None, None);
        Ok(())
    }

    fn store_object(&mut self, parts: &Parts<'_>, object: Value) -> Lowered<()> {
        let at = self.at(parts, "a", parts.space())?;
        let mut desc = Self::plain_access(Opcode::St, OpType::B64, at.space);
        desc.mods = desc.mods.with_order(MemOrder::Relaxed);
        self.b.inst(desc, &[at.address, object], &[]);
        Ok(())
    }

    /// Leaves an mbarrier as it is, and faults where it cannot lie. Threads that still wait for a phase that is complete
    /// find it complete, as they do on a GPU, where `mbarrier.inval` gives up the object but clears no memory: programs
    /// that invalidate their barriers a little early end there.
    pub(super) fn touch_object(&mut self, parts: &Parts<'_>) -> Lowered<()> {
        let at = self.at(parts, "a", parts.space())?;
        let desc = Desc {
            opcode: Opcode::Atom,
            ty: OpType::B64,
            src: OpType::None,
            mods: Mods::NONE
                .with_space(at.space)
                .with_atom_op(AtomOp::Or)
                .with_order(MemOrder::Relaxed),
        };
        let nothing = self.b.constant(Type::B64, 0);
        self.b.op(desc, &[at.address, nothing], Type::B64);
        Ok(())
    }

    /// Arrivals and bytes for an mbarrier; what it was before.
    pub(super) fn signal_object(
        &mut self,
        at: At,
        op: AtomOp,
        count: Value,
        tx: Option<Value>,
        like: Option<Mods>,
    ) -> Value {
        let tx = tx.unwrap_or_else(|| self.b.constant(Type::B64, 0));
        let like = like.unwrap_or(Mods::NONE);
        let order = match like.order() {
            MemOrder::None => MemOrder::Release,
            order => order,
        };
        let desc = Desc {
            opcode: Opcode::Atom,
            ty: OpType::B64,
            src: OpType::None,
            mods: Mods::NONE
                .with_space(at.space)
                .with_atom_op(op)
                .with_order(order)
                .with_scope(like.scope()),
        };
        self.b.op(desc, &[at.address, count, tx], Type::B64)
    }

    pub(super) fn arrive(&mut self, parts: &Parts<'_>) -> Lowered<()> {
        let at = self.at(parts, "a", parts.space())?;
        let alone = parts.words.first().copied();
        let bytes = matches!(alone, Some("expect_tx" | "complete_tx"));
        let expects = parts.has("expect_tx");
        let given = self.long(parts, "count")?;
        let one = self.b.constant(Type::B64, u64::from(!bytes));
        let zero = self.b.constant(Type::B64, 0);
        let (count, tx) = match alone {
            Some("complete_tx") => (one, self.b64(Opcode::Sub, zero, given)),
            _ if expects => (one, given),
            _ if parts.operand("count").is_some() => (given, zero),
            _ => (one, zero),
        };
        let op = match alone {
            Some("arrive_drop") => AtomOp::SignalDrop,
            _ => AtomOp::Signal,
        };
        let mods = parts.resolved.desc().mods;
        let state = self.signal_object(at, op, count, Some(tx), Some(mods));
        self.give(parts, state, OpType::B64)
    }

    /// Whether the phase of a state, or that of a parity, is complete.
    pub(super) fn has_passed(&mut self, parts: &Parts<'_>) -> Lowered<()> {
        let at = self.at(parts, "a", parts.space())?;
        let mods = parts.resolved.desc().mods;
        let mut desc = Self::plain_access(Opcode::Ld, OpType::B64, at.space);
        let order = match mods.order() {
            MemOrder::None => MemOrder::Acquire,
            order => order,
        };
        desc.mods = desc.mods.with_order(order).with_scope(mods.scope());
        let now = self.b.op(desc, &[at.address], Type::B64);
        let shift = self.b.constant(Type::B32, mbarrier::PARITY.into());
        let then = match parts.operand("phase") {
            Some(_) => {
                let phase = self.long(parts, "phase")?;
                self.b.simple(Opcode::Shl, OpType::B64, &[phase, shift])
            }
            None => self.long(parts, "state")?,
        };
        let other = self.b64(Opcode::Xor, now, then);
        let other = self.b.simple(Opcode::Shr, OpType::U64, &[other, shift]);
        let zero = self.b.constant(Type::B64, 0);
        let passed = self.compare(CmpOp::Ne, OpType::U64, other, zero);
        self.give(parts, passed, OpType::Pred)
    }

    /// Bytes have come.
    pub(super) fn complete_bytes(&mut self, object: At, bytes: Value) {
        let zero = self.b.constant(Type::B64, 0);
        let tx = self.b64(Opcode::Sub, zero, bytes);
        self.signal_object(object, AtomOp::Signal, zero, Some(tx), None);
    }
}
