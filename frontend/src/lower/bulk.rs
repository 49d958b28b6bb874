//! Lowers bulk copies, bulk reductions and `st.bulk`. Like the operations in
//! [`super::asynchronous`], each of these operations is complete as soon as its instruction has
//! executed.

use margay_ir::entity::Value;
use margay_ir::observe::Asynchronous;
use margay_ops::meaning::Desc;
use margay_ops::mods::{CmpOp, Mode, Mods, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::sreg::SpecialReg;
use margay_ops::types::{OpType, Type};

use super::Lowered;
use super::function::FunctionLowering;
use super::parts::{At, Parts};
/// The number of bytes that each iteration of a bulk copy's loop copies. PTX requires that the size
/// of a bulk copy is a multiple of this number.
const CHUNK: u64 = 16;

/// Returns how the program waits for the completion of a bulk operation: at the mbarrier `object`,
/// or, if there is no mbarrier, with an instruction that waits for bulk groups.
fn completion_of(object: Option<At>) -> Asynchronous {
    match object {
        Some(_) => Asynchronous::Object,
        None => Asynchronous::Group,
    }
}

impl FunctionLowering<'_, '_> {
    /// Emits a loop whose counter, a `u64`, starts at 0 and increases by `step` while it is below `size`. `body` emits
    /// the loop body and receives the counter.
    pub(super) fn count_up(
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

    /// Emits the addition of an offset in bytes to an address, and returns the sum.
    pub(super) fn beyond(&mut self, at: At, offset: Value) -> At {
        let ty = self.address_type(at.address);
        let address = self.plain(at.address);
        let offset = self.convert(offset, OpType::U64, ty);
        At {
            address: self.b.simple(Opcode::Add, ty, &[address, offset]),
            space: at.space,
        }
    }

    /// Calls `code` with the target address `to` and the mbarrier `object`; `code` emits the copy
    /// and the signal to the mbarrier. For a multicast copy, the emitted code is in a loop over the
    /// blocks of the cluster, and runs for each block whose bit is set in the copy's mask. Then
    /// `code` receives the addresses in the shared memory of this block that have the same offsets
    /// as `to` and `object`.
    pub(super) fn for_each_target(
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

    /// Returns the description of a load or store of two 64-bit values, whose address must be a
    /// multiple of 16.
    fn pair_access(opcode: Opcode, space: StateSpace) -> Desc {
        let mut desc = Self::plain_access(opcode, OpType::B64, space);
        desc.mods = desc.mods.with_vec_log2(1);
        desc
    }

    /// Applies [`FunctionLowering::row_address`] to `at.address`, and returns the result with the
    /// same state space.
    fn at_row(&mut self, at: At) -> At {
        let address = self.plain(at.address);
        At {
            address: self.row_address(address),
            space: at.space,
        }
    }

    /// Returns the address in the shared memory of the block of rank `rank` that has the same offset as `at`.
    pub(super) fn at_block(&mut self, at: At, rank: Value) -> At {
        let ty = self.address_type(at.address);
        let address = self.plain(at.address);
        let offset = self.convert(address, ty, OpType::U32);
        At {
            address: self.in_block(offset, rank),
            space: at.space,
        }
    }

    pub(super) fn spaces_of_copy(parts: &Parts<'_>) -> [StateSpace; 2] {
        // The first state space in the instruction is that of the target, and the second is that of the source.
        let spaces = ["global", "shared::cta", "shared::cluster"];
        let mut found = parts.words.iter().filter(|word| spaces.contains(*word));
        let mut next = || match found.next() {
            Some(&"global") => StateSpace::Global,
            _ => StateSpace::Shared,
        };
        [next(), next()]
    }

    pub(super) fn copy_bulk(&mut self, parts: &Parts<'_>) -> Lowered<()> {
        let [to, from] = Self::spaces_of_copy(parts);
        let (to, from) = (self.at(parts, "d", to)?, self.at(parts, "s", from)?);
        let size = self.bulk_size(parts)?;
        let accessed = self.accessed(size);
        if parts.has("cp_mask") {
            self.begin_asynchronous(Asynchronous::Group);
            self.copy_masked(parts, to, from, accessed)?;
            self.end_asynchronous();
            return Ok(());
        }
        let object = match parts.operand("m") {
            Some(_) => Some(self.object_of(parts)?),
            None => None,
        };
        self.begin_asynchronous(completion_of(object));
        self.for_each_target(parts, (to, object), |s, to, object| {
            s.count_up(accessed, CHUNK, |s, offset| {
                let (to, from) = (s.beyond(to, offset), s.beyond(from, offset));
                let desc = Self::pair_access(Opcode::Ld, from.space);
                let load = s.b.inst(desc, &[from.address], &[Type::B64; 2]);
                let [low, high] = [0, 1].map(|index| s.b.function.dfg.results(load)[index]);
                let desc = Self::pair_access(Opcode::St, to.space);
                s.b.inst(desc, &[to.address, low, high], &[]);
                Ok(())
            })?;
            if let Some(object) = object {
                s.complete_bytes(object, size);
            }
            Ok(())
        })?;
        self.end_asynchronous();
        Ok(())
    }

    /// Emits a copy from `from` to `to` of only the bytes that a 16-bit mask selects. The copy
    /// consists of groups of 16 bytes, and bit `i` of the mask selects byte `i` of every group.
    pub(super) fn copy_masked(
        &mut self,
        parts: &Parts<'_>,
        to: At,
        from: At,
        size: Value,
    ) -> Lowered<()> {
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

    pub(super) fn reduce_bulk(&mut self, parts: &Parts<'_>) -> Lowered<()> {
        let [to, from] = Self::spaces_of_copy(parts);
        let (to, from) = (self.at(parts, "d", to)?, self.at(parts, "s", from)?);
        let size = self.bulk_size(parts)?;
        let accessed = self.accessed(size);
        let like = parts.resolved.desc();
        let ty = like.ty;
        let object = match parts.operand("m") {
            Some(_) => Some(self.object_of(parts)?),
            None => None,
        };
        let (to, from) = (self.at_row(to), self.at_row(from));
        self.begin_asynchronous(completion_of(object));
        self.count_up(accessed, u64::from(ty.bits() / 8), |s, offset| {
            let (to, from) = (s.beyond(to, offset), s.beyond(from, offset));
            let desc = Self::plain_access(Opcode::Ld, ty, from.space);
            let value = s.b.op(desc, &[from.address], ty.held());
            s.reduce(to, like, ty, value);
            Ok(())
        })?;
        if let Some(object) = object {
            self.complete_bytes(object, size);
        }
        self.end_asynchronous();
        Ok(())
    }

    /// Returns the value of the size operand of a bulk operation. A size above 16 MiB is reduced to
    /// 16 MiB. No valid operation is larger: PTX limits `st.bulk` to 16 MiB, and every bulk copy
    /// reads or writes shared memory, which is smaller.
    fn bulk_size(&mut self, parts: &Parts<'_>) -> Lowered<Value> {
        let size = self.long(parts, "size")?;
        let most = self.b.constant(Type::B64, 16 << 20);
        Ok(self.b.simple(Opcode::Min, OpType::U64, &[size, most]))
    }

    /// Returns the number of bytes that the code for a bulk operation of this size accesses. For a
    /// valid operation, this is `size`. For an operation that is larger than shared memory, it is
    /// at most the value of [`SpecialReg::BulkLimit`]. Without this limit, a loop over an invalid
    /// size would run very long in checking runs, which suppress invalid accesses instead of ending
    /// the launch.
    fn accessed(&mut self, size: Value) -> Value {
        let most = self.b.sreg(SpecialReg::BulkLimit);
        let most = self.convert(most, OpType::U32, OpType::U64);
        self.b.simple(Opcode::Min, OpType::U64, &[size, most])
    }

    /// Converts a generic address to an address in shared memory. Returns `at` unchanged if it is
    /// not a generic address.
    fn in_shared(&mut self, at: At) -> At {
        if at.space != StateSpace::None {
            return at;
        }
        let ty = self.address_type(at.address);
        let address = self.plain(at.address);
        let address = self.convert(address, ty, OpType::U64);
        let mods = Mods::NONE.with_space(StateSpace::Shared);
        let desc = Desc {
            opcode: Opcode::Cvta,
            ty: OpType::U64,
            src: OpType::None,
            mods: mods.with_mode(Mode::To),
        };
        At {
            address: self.b.op(desc, &[address], Type::B64),
            space: StateSpace::Shared,
        }
    }

    /// Lowers `st.bulk`, which stores zeros. If the instruction names no state space, the address
    /// is generic, and must point to the shared memory of the CTA.
    pub(super) fn clear_bulk(&mut self, parts: &Parts<'_>) -> Lowered<()> {
        let to = if parts.has("shared::cta") {
            self.at(parts, "a", StateSpace::Shared)?
        } else {
            let to = self.at(parts, "a", StateSpace::None)?;
            self.in_shared(to)
        };
        let size = self.bulk_size(parts)?;
        let size = self.accessed(size);
        let zero = self.b.constant(Type::B64, 0);
        self.count_up(size, 8, |s, offset| {
            let to = s.beyond(to, offset);
            let desc = Self::plain_access(Opcode::St, OpType::B64, to.space);
            s.b.inst(desc, &[to.address, zero], &[]);
            Ok(())
        })
    }
}
