//! mbarriers, and what signals one: asynchronous stores, reductions and bulk copies.
//!
//! All of it completes when it is issued: the access is made, and its bytes are signalled at once, which is one
//! of the orders that PTX allows. An mbarrier is a word in memory ([`margay_ops::meaning::mbarrier`]): arrivals are
//! read-modify-writes, waits are loads, which makes loops around them waiting loops like any other.

use margay_ir::entity::Value;
use margay_ops::meaning::{Desc, mbarrier};
use margay_ops::mods::{AtomOp, CmpOp, MemOrder, Mods, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::sreg::SpecialReg;
use margay_ops::types::{OpType, Type};
use smallvec::SmallVec;

use super::function::FunctionLowering;
use super::matrix::words_of;
use super::operand::bits_type;
use super::{Lowered, wrong_kind};
use crate::ast::{self, Operand};
use crate::resolve::ResolvedInstruction;

/// An address and the space it lies in.
#[derive(Clone, Copy)]
struct At {
    address: Value,
    space: StateSpace,
}

/// An instruction with its operands by name.
pub(super) struct Parts<'a> {
    pub(super) resolved: &'a ResolvedInstruction,
    operands: &'a [Operand],
    pub(super) words: SmallVec<[&'a str; 12]>,
}

impl<'a> Parts<'a> {
    pub(super) fn operand(&self, name: &str) -> Option<&'a Operand> {
        let roles = self.resolved.roles();
        let mut named = self.operands.iter().zip(roles);
        named.find_map(|(operand, role)| (role.pattern.name == name).then_some(operand))
    }

    fn has(&self, word: &str) -> bool {
        self.words.contains(&word)
    }

    pub(super) fn space(&self) -> StateSpace {
        self.resolved.desc().mods.space()
    }
}

/// Bytes that bulk copies move at once; their sizes are multiples of it.
const CHUNK: u64 = 16;

impl FunctionLowering<'_, '_> {
    /// Whether an instruction is lowered here.
    pub(super) fn is_signal(&self, instruction: &ast::Instruction) -> bool {
        let head = self.ast.text(instruction.opcode);
        matches!(
            head,
            "mbarrier" | "cp" | "st" | "red" | "mapa" | "getctarank"
        )
    }

    /// What is made of several operations, by the instruction's head.
    pub(super) fn signal(
        &mut self,
        instruction: &ast::Instruction,
        resolved: &ResolvedInstruction,
        operands: &[Operand],
    ) -> Lowered<()> {
        let parts = Parts {
            resolved,
            operands,
            words: words_of(self.ast, instruction),
        };
        match (self.ast.text(instruction.opcode), &parts.words[..]) {
            ("mapa", _) => self.mapa(&parts),
            ("getctarank", _) => self.rank_of_address(&parts),
            ("mbarrier", ["init", ..]) => {
                let count = self.long(&parts, "count")?;
                let expected = self.b.constant(Type::B64, mbarrier::OF_COUNT);
                let object = self.b64(Opcode::Mul, count, expected);
                self.store_object(&parts, object)
            }
            ("mbarrier", ["inval", ..]) => self.touch_object(&parts),
            ("mbarrier", ["pending_count", ..]) => {
                let state = self.long(&parts, "state")?;
                let mask = self.b.constant(Type::B64, mbarrier::PENDING);
                let pending = self.b64(Opcode::And, state, mask);
                let pending = self.convert(pending, OpType::U64, OpType::U32);
                self.give(&parts, pending, OpType::U32)
            }
            ("mbarrier", ["test_wait" | "try_wait", ..]) => self.has_passed(&parts),
            ("mbarrier", _) => self.arrive(&parts),
            ("cp", ["async", "mbarrier", ..]) => {
                // Without `.noinc` the arrival is one more that was not expected: nothing changes.
                let count = self.b.constant(Type::B64, u64::from(parts.has("noinc")));
                let at = self.at(&parts, "a", parts.space())?;
                self.signal_object(at, AtomOp::Signal, count, None, None);
                Ok(())
            }
            ("cp", ["reduce", ..]) => self.reduce_bulk(&parts),
            ("cp", _) => self.copy_bulk(&parts),
            ("st", ["bulk", ..]) => self.clear_bulk(&parts),
            ("st", _) => self.store_and_signal(&parts),
            ("red", _) => self.reduce_and_signal(&parts),
            _ => Err(wrong_kind(instruction.span, "this form has no meaning")),
        }
    }

    // Small helpers.

    fn at(&mut self, parts: &Parts<'_>, name: &str, space: StateSpace) -> Lowered<At> {
        let Some(operand) = parts.operand(name) else {
            let address = self.b.constant(Type::B64, 0);
            return Ok(At { address, space });
        };
        let (address, space) = self.address(operand, space)?;
        Ok(At { address, space })
    }

    /// The mbarrier that an asynchronous operation signals.
    fn object_of(&mut self, parts: &Parts<'_>) -> Lowered<At> {
        self.at(parts, "m", StateSpace::Shared)
    }

    /// A 32-bit or 64-bit operand as 64 bits; zero where it is left out.
    fn long(&mut self, parts: &Parts<'_>, name: &str) -> Lowered<Value> {
        let roles = parts.resolved.roles();
        let mut named = parts.operands.iter().zip(roles);
        let found = named.find(|(_, role)| role.pattern.name == name);
        let Some((operand, role)) = found else {
            return Ok(self.b.constant(Type::B64, 0));
        };
        let (value, ty) = match role.ty.bits() {
            64 => (self.read(operand, OpType::U64)?, OpType::U64),
            _ => (self.read(operand, OpType::U32)?, OpType::U32),
        };
        let value = self.cut_to(value, ty);
        Ok(self.convert(value, ty, OpType::U64))
    }

    fn b64(&mut self, opcode: Opcode, a: Value, b: Value) -> Value {
        match opcode {
            Opcode::Mul => {
                let desc = Desc {
                    ty: OpType::U64,
                    ..super::matrix::product_of_lane()
                };
                self.b.op(desc, &[a, b], Type::B64)
            }
            Opcode::Add | Opcode::Sub => self.b.simple(opcode, OpType::U64, &[a, b]),
            _ => self.b.simple(opcode, OpType::B64, &[a, b]),
        }
    }

    pub(super) fn compare(&mut self, cmp: CmpOp, ty: OpType, a: Value, b: Value) -> Value {
        let desc = Desc {
            opcode: Opcode::Setp,
            ty,
            src: OpType::None,
            mods: Mods::NONE.with_cmp(cmp),
        };
        self.b.op(desc, &[a, b], Type::PRED)
    }

    /// Writes the result, if there is a place for it.
    pub(super) fn give(&mut self, parts: &Parts<'_>, value: Value, ty: OpType) -> Lowered<()> {
        if let Some(operand) = parts.operand("d") {
            let place = self.place(operand)?;
            self.write(place, value, ty);
        }
        Ok(())
    }

    fn plain_access(opcode: Opcode, ty: OpType, space: StateSpace) -> Desc {
        Desc {
            opcode,
            ty,
            src: OpType::None,
            mods: Mods::NONE.with_space(space),
        }
    }

    // mbarriers.

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
    fn touch_object(&mut self, parts: &Parts<'_>) -> Lowered<()> {
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
    fn signal_object(
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

    fn arrive(&mut self, parts: &Parts<'_>) -> Lowered<()> {
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
    fn has_passed(&mut self, parts: &Parts<'_>) -> Lowered<()> {
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
    fn complete_bytes(&mut self, object: At, bytes: Value) {
        let zero = self.b.constant(Type::B64, 0);
        let tx = self.b64(Opcode::Sub, zero, bytes);
        self.signal_object(object, AtomOp::Signal, zero, Some(tx), None);
    }

    // Stores and reductions.

    fn store_and_signal(&mut self, parts: &Parts<'_>) -> Lowered<()> {
        let object = self.object_of(parts)?;
        let at = self.at(parts, "a", StateSpace::Shared)?;
        let ty = bits_type(parts.resolved.desc().ty.held());
        let mut offset = 0;
        if let Some(operand) = parts.operand("b") {
            for part in self.parts(operand) {
                let value = self.read(&part, ty)?;
                let value = self.held_as(value, ty);
                let address = self.offset_by(at.address, offset);
                let desc = Self::plain_access(Opcode::St, ty, at.space);
                self.b.inst(desc, &[address, value], &[]);
                offset += i64::from(ty.bits() / 8);
            }
        }
        let bytes = self.b.constant(Type::B64, offset as u64);
        self.complete_bytes(object, bytes);
        Ok(())
    }

    fn reduce_and_signal(&mut self, parts: &Parts<'_>) -> Lowered<()> {
        let object = self.object_of(parts)?;
        let at = self.at(parts, "a", StateSpace::Shared)?;
        let desc = parts.resolved.desc();
        let ty = desc.ty;
        let Some(operand) = parts.operand("b") else {
            return Ok(());
        };
        let value = self.read(operand, ty)?;
        let value = self.held_as(value, ty);
        self.reduce(at, desc, ty, value);
        let bytes = self.b.constant(Type::B64, u64::from(ty.bits() / 8));
        self.complete_bytes(object, bytes);
        Ok(())
    }

    fn reduce(&mut self, at: At, like: Desc, ty: OpType, value: Value) {
        let desc = Desc {
            opcode: Opcode::Red,
            ty,
            src: OpType::None,
            mods: Mods::NONE
                .with_space(at.space)
                .with_atom_op(like.mods.atom_op())
                .with_noftz(like.mods.noftz())
                .with_order(MemOrder::Relaxed),
        };
        self.b.inst(desc, &[at.address, value], &[]);
    }

    // Bulk.

    /// A loop up to `size`, most often bytes, in steps; `body` gets the offset, a `u64`.
    fn count_up(
        &mut self,
        size: Value,
        step: u64,
        body: impl FnOnce(&mut Self, Value) -> Lowered<()>,
    ) -> Lowered<()> {
        let offset = self.b.declare(Type::B64);
        let zero = self.b.constant(Type::B64, 0);
        self.b.write(offset, zero);
        let [head, again, end] = std::array::from_fn(|_| self.b.create_block());
        self.b.jump(head);
        self.b.switch_to(head);
        let at = self.b.read(offset);
        let more = self.compare(CmpOp::Lt, OpType::U64, at, size);
        self.b.brif(more, again, end);
        self.b.switch_to(again);
        let at = self.b.read(offset);
        body(self, at)?;
        let step = self.b.constant(Type::B64, step);
        let next = self.b64(Opcode::Add, at, step);
        self.b.write(offset, next);
        self.b.jump(head);
        self.b.switch_to(end);
        Ok(())
    }

    /// An address so many bytes on.
    fn beyond(&mut self, at: At, offset: Value) -> At {
        let ty = self.address_type(at.address);
        let address = self.plain(at.address);
        let offset = self.convert(offset, OpType::U64, ty);
        At {
            address: self.b.simple(Opcode::Add, ty, &[address, offset]),
            space: at.space,
        }
    }

    /// Runs the code for the target and the mbarrier of a copy; those of a copy to many blocks lie at the same
    /// offsets in each block whose bit is set in its mask.
    fn for_each_target(
        &mut self,
        parts: &Parts<'_>,
        (to, object): (At, Option<At>),
        code: impl FnOnce(&mut Self, At, Option<At>) -> Lowered<()>,
    ) -> Lowered<()> {
        if !parts.has("multicast::cluster") {
            return code(self, to, object);
        }
        let mask = match parts.operand("mask") {
            Some(operand) => {
                let mask = self.read(operand, OpType::U16)?;
                self.cut_to(mask, OpType::U16)
            }
            None => self.b.constant(Type::B16, 1),
        };
        let mask = self.convert(mask, OpType::U16, OpType::U32);
        let blocks = self.b.sreg(SpecialReg::ClusterNctarank);
        let blocks = self.convert(blocks, OpType::U32, OpType::U64);
        self.count_up(blocks, 1, |s, rank| {
            let rank = s.convert(rank, OpType::U64, OpType::U32);
            let one = s.b.constant(Type::B32, 1);
            let bit = s.b.simple(Opcode::Shr, OpType::U32, &[mask, rank]);
            let bit = s.b.simple(Opcode::And, OpType::B32, &[bit, one]);
            let is_meant = s.compare(CmpOp::Eq, OpType::U32, bit, one);
            let (then, next) = (s.b.create_block(), s.b.create_block());
            s.b.brif(is_meant, then, next);
            s.b.switch_to(then);
            let to = s.at_block(to, rank);
            let object = object.map(|object| s.at_block(object, rank));
            code(s, to, object)?;
            s.go_on_in(next);
            Ok(())
        })
    }

    /// The same place in the shared memory of the block with a rank.
    fn at_block(&mut self, at: At, rank: Value) -> At {
        let ty = self.address_type(at.address);
        let address = self.plain(at.address);
        let offset = self.convert(address, ty, OpType::U32);
        At {
            address: self.in_block(offset, rank),
            space: at.space,
        }
    }

    fn spaces_of_copy(parts: &Parts<'_>) -> [StateSpace; 2] {
        // The first space word is the target's: `.global` first means that shared memory is read.
        let spaces = ["global", "shared::cta", "shared::cluster"];
        let mut found = parts.words.iter().filter(|word| spaces.contains(*word));
        let mut next = || match found.next() {
            Some(&"global") => StateSpace::Global,
            _ => StateSpace::Shared,
        };
        [next(), next()]
    }

    fn copy_bulk(&mut self, parts: &Parts<'_>) -> Lowered<()> {
        let [to, from] = Self::spaces_of_copy(parts);
        let (to, from) = (self.at(parts, "d", to)?, self.at(parts, "s", from)?);
        let size = self.long(parts, "size")?;
        if parts.has("cp_mask") {
            return self.copy_masked(parts, to, from, size);
        }
        let object = match parts.operand("m") {
            Some(_) => Some(self.object_of(parts)?),
            None => None,
        };
        self.for_each_target(parts, (to, object), |s, to, object| {
            s.count_up(size, CHUNK, |s, offset| {
                let (to, from) = (s.beyond(to, offset), s.beyond(from, offset));
                for half in [0, 8] {
                    let source = s.offset_by(from.address, half);
                    let desc = Self::plain_access(Opcode::Ld, OpType::B64, from.space);
                    let value = s.b.op(desc, &[source], Type::B64);
                    let target = s.offset_by(to.address, half);
                    let desc = Self::plain_access(Opcode::St, OpType::B64, to.space);
                    s.b.inst(desc, &[target, value], &[]);
                }
                Ok(())
            })?;
            if let Some(object) = object {
                s.complete_bytes(object, size);
            }
            Ok(())
        })
    }

    /// Of each 16 bytes those whose bit is set.
    fn copy_masked(&mut self, parts: &Parts<'_>, to: At, from: At, size: Value) -> Lowered<()> {
        let Some(operand) = parts.operand("mask") else {
            return Ok(());
        };
        let mask = self.read(operand, OpType::U16)?;
        let mask = self.cut_to(mask, OpType::U16);
        let mask = self.convert(mask, OpType::U16, OpType::U32);
        self.count_up(size, 1, |s, offset| {
            let low = s.convert(offset, OpType::U64, OpType::U32);
            let fifteen = s.b.constant(Type::B32, 15);
            let at = s.b.simple(Opcode::And, OpType::B32, &[low, fifteen]);
            let bit = s.b.simple(Opcode::Shr, OpType::U32, &[mask, at]);
            let one = s.b.constant(Type::B32, 1);
            let bit = s.b.simple(Opcode::And, OpType::B32, &[bit, one]);
            let set = s.compare(CmpOp::Eq, OpType::U32, bit, one);
            let (then, next) = (s.b.create_block(), s.b.create_block());
            s.b.brif(set, then, next);
            s.b.switch_to(then);
            let (to, from) = (s.beyond(to, offset), s.beyond(from, offset));
            let desc = Self::plain_access(Opcode::Ld, OpType::B8, from.space);
            let value = s.b.op(desc, &[from.address], Type::B8);
            let desc = Self::plain_access(Opcode::St, OpType::B8, to.space);
            s.b.inst(desc, &[to.address, value], &[]);
            s.go_on_in(next);
            Ok(())
        })
    }

    fn reduce_bulk(&mut self, parts: &Parts<'_>) -> Lowered<()> {
        let [to, from] = Self::spaces_of_copy(parts);
        let (to, from) = (self.at(parts, "d", to)?, self.at(parts, "s", from)?);
        let size = self.long(parts, "size")?;
        let like = parts.resolved.desc();
        let ty = like.ty;
        let object = match parts.operand("m") {
            Some(_) => Some(self.object_of(parts)?),
            None => None,
        };
        self.count_up(size, u64::from(ty.bits() / 8), |s, offset| {
            let (to, from) = (s.beyond(to, offset), s.beyond(from, offset));
            let desc = Self::plain_access(Opcode::Ld, ty, from.space);
            let value = s.b.op(desc, &[from.address], ty.held());
            s.reduce(to, like, ty, value);
            Ok(())
        })?;
        if let Some(object) = object {
            self.complete_bytes(object, size);
        }
        Ok(())
    }

    /// `st.bulk`: zeros.
    fn clear_bulk(&mut self, parts: &Parts<'_>) -> Lowered<()> {
        let to = self.at(parts, "a", StateSpace::Shared)?;
        let size = self.long(parts, "size")?;
        let zero = self.b.constant(Type::B64, 0);
        self.count_up(size, 8, |s, offset| {
            let to = s.beyond(to, offset);
            let desc = Self::plain_access(Opcode::St, OpType::B64, to.space);
            s.b.inst(desc, &[to.address, zero], &[]);
            Ok(())
        })
    }
}
