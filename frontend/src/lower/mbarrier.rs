//! Lowers mbarrier instructions.
//!
//! An mbarrier is a 64-bit value in memory ([`margay_ops::meaning::mbarrier`]). An arrival becomes an atomic
//! read-modify-write, and a test for a completed phase becomes a load. So a loop that waits for a phase is an ordinary
//! spin loop.

use margay_ir::entity::Value;
use margay_ops::meaning::{Desc, mbarrier};
use margay_ops::mods::{AtomOp, CmpOp, MemOrder, Mode, Mods};
use margay_ops::ops::Opcode;
use margay_ops::types::{OpType, Type};

use super::Lowered;
use super::function::FunctionLowering;
use super::parts::{At, Parts};

impl FunctionLowering<'_, '_> {
    /// Lowers `mbarrier.init`.
    pub(super) fn init_object(&mut self, parts: &Parts<'_>) -> Lowered<()> {
        let count = self.long(parts, "count")?;
        let expected = self.b.constant(Type::B64, mbarrier::OF_COUNT);
        let object = self.b64(Opcode::Mul, count, expected);
        self.store_object(parts, object)
    }

    /// Lowers `mbarrier.pending_count`.
    pub(super) fn pending_count(&mut self, parts: &Parts<'_>) -> Lowered<()> {
        let state = self.long(parts, "state")?;
        let mask = self.b.constant(Type::B64, mbarrier::PENDING);
        let pending = self.b64(Opcode::And, state, mask);
        let pending = self.convert(pending, OpType::U64, OpType::U32);
        self.give(parts, pending, OpType::U32)
    }

    /// Lowers `cp.async.mbarrier.arrive`. Without `.noinc`, the instruction increments the count of
    /// pending arrivals, and its arrival decrements the count again. So the mbarrier does not
    /// change.
    pub(super) fn arrive_after_copies(&mut self, parts: &Parts<'_>) -> Lowered<()> {
        // The arrival happens after the thread's earlier copies, so report a wait for these copies to tools.
        self.copy_group(parts, Mode::All)?;
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

    /// Lowers `mbarrier.inval` to an access that does not change the mbarrier but faults if the
    /// address is invalid. On a GPU, `mbarrier.inval` does not clear the memory either. Therefore,
    /// a thread that still tests a completed phase finds that the phase is complete. Programs that
    /// invalidate their mbarriers slightly too early rely on this.
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

    /// Emits a signal to an mbarrier: `count` arrivals, and an addition of `tx` to the mbarrier's count of pending
    /// bytes. Returns the state of the mbarrier before the signal.
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

    /// Lowers `mbarrier.test_wait` and `mbarrier.try_wait`: emits a test whether a phase of the
    /// mbarrier is complete. The instruction specifies the phase by the state that an arrival
    /// returned or by the phase's parity.
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

    /// Emits a signal to the mbarrier `object`, which subtracts `bytes` from the mbarrier's count
    /// of pending bytes.
    pub(super) fn complete_bytes(&mut self, object: At, bytes: Value) {
        let zero = self.b.constant(Type::B64, 0);
        let tx = self.b64(Opcode::Sub, zero, bytes);
        self.signal_object(object, AtomOp::Signal, zero, Some(tx), None);
    }
}
