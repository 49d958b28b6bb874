//! Collectives of the lanes of a warp, in chunks that are whole warps.
//!
//! A collective waits for the lanes of its member mask. It is translated only where all lanes of the chunk that have not
//! exited execute it together, which [`Flow`](crate::flow::Flow) proves, and only with the member mask of all lanes. The
//! lanes that execute the block are then the lanes of the collective.

use margay_ir::analysis::uniformity::Class;
use margay_ir::entity::{Block, Inst, Value};
use margay_ir::function::InstData;
use margay_ops::mods::{AtomOp, CmpOp, Mode, Mods};
use margay_ops::ops::Opcode;
use margay_ops::types::{Kind, OpType, Type};
use margay_vir::data::Data;
use margay_vir::ops::Op;

use smallvec::SmallVec;

use crate::Refusal;
use crate::emitter::{Emitter, desc};
use crate::scan::{WARP, is_collective};

impl Emitter<'_> {
    /// Refuses a collective where lanes of the chunk may be elsewhere.
    pub(crate) fn demand_together(&self, block: Block, name: &'static str) -> Result<(), Refusal> {
        let place = self.flow().place_of(self.loops(), block);
        match self.kernel.width == WARP && self.flow().alone[place as usize] {
            true => Ok(()),
            false => Err(Refusal::Operation(name)),
        }
    }

    /// Emits a collective other than `converge` and `bar.warp.sync`.
    pub(crate) fn collective(&mut self, inst: Inst, data: &InstData) -> Result<(), Refusal> {
        if !is_collective(self.kernel.function, inst) {
            return Err(Refusal::Operation(data.opcode.name()));
        }
        self.demand_together(self.block, data.opcode.name())?;
        match data.opcode {
            Opcode::ActiveMask => {
                let active = self.ballot(self.mask);
                self.set_shared(inst, 0, active);
            }
            Opcode::Vote => self.vote(inst, data.mods.mode()),
            Opcode::Redux => self.redux(inst, data),
            Opcode::Mma => self.matrix_product(inst, data),
            _ => self.shuffle(inst, data.mods.mode()),
        }
        Ok(())
    }

    /// Returns the lanes of a mask as the bits of a 32-bit number.
    fn ballot(&mut self, lanes: Value) -> Value {
        let bits = self.value(Op::Ballot, self.mask_type(), Data::Nothing, &[lanes]);
        self.convert(OpType::U32, OpType::U64, bits)
    }

    /// Sets a result that all lanes have.
    fn set_shared(&mut self, inst: Inst, index: usize, bits: Value) {
        let result = self.source.dfg.results(inst)[index];
        if self.own_class(result) == Class::Varying {
            let ty = self.vector(self.kind(result));
            let lanes = self.value(Op::Splat, ty, Data::Nothing, &[bits]);
            self.set_lanes(result, lanes);
        } else {
            self.set_scalar(result, bits);
        }
    }

    /// Sets a result that differs between the lanes, unless its class says that it does not.
    fn set_each(&mut self, inst: Inst, index: usize, lanes: Value) {
        let Some(&result) = self.source.dfg.results(inst).get(index) else {
            return;
        };
        if self.own_class(result) == Class::Varying {
            return self.set_lanes(result, lanes);
        }
        let kind = self.kind(result);
        let bits = if kind == Kind::Pred {
            let running = self.logic(Opcode::And, &[lanes, self.mask]);
            self.value(Op::Any, self.mask_type(), Data::Nothing, &[running])
        } else {
            let first = self.value(Op::First, self.mask_type(), Data::Nothing, &[self.mask]);
            let ty = self.vector(Kind::B32);
            let first = self.value(Op::Splat, ty, Data::Nothing, &[first]);
            let ty = self.vector(kind);
            let moved = self.value(Op::Permute, ty, Data::Nothing, &[lanes, first]);
            self.value(Op::Extract, ty, Data::Number(0), &[moved])
        };
        self.set_scalar(result, bits);
    }

    fn vote(&mut self, inst: Inst, mode: Mode) {
        let condition = self.lanes(self.source.dfg.args(inst)[0]);
        let voting = self.logic(Opcode::And, &[self.mask, condition]);
        let some = self.ballot(voting);
        let result = match mode {
            Mode::All | Mode::Any | Mode::Uni => {
                let zero = self.constant(Type::B32, 0);
                let none = self.compare((CmpOp::Eq, OpType::U32), some, zero);
                let active = self.ballot(self.mask);
                let all = self.compare((CmpOp::Eq, OpType::U32), some, active);
                match mode {
                    Mode::All => all,
                    Mode::Any => self.logic(Opcode::Not, &[none]),
                    _ => self.logic(Opcode::Or, &[none, all]),
                }
            }
            _ => some,
        };
        self.set_shared(inst, 0, result);
    }

    fn redux(&mut self, inst: Inst, data: &InstData) {
        let on = data.ty;
        let is_signed = on == OpType::S32;
        let (opcode, neutral) = match data.mods.atom_op() {
            AtomOp::Min if is_signed => (Opcode::Min, i32::MAX as u32),
            AtomOp::Min => (Opcode::Min, u32::MAX),
            AtomOp::Max if is_signed => (Opcode::Max, i32::MIN as u32),
            AtomOp::Max => (Opcode::Max, 0),
            AtomOp::And => (Opcode::And, u32::MAX),
            AtomOp::Or => (Opcode::Or, 0),
            AtomOp::Xor => (Opcode::Xor, 0),
            _ => (Opcode::Add, 0),
        };
        let lanes = self.lanes(self.source.dfg.args(inst)[0]);
        let neutral = self.constant(Type::B32, neutral.into());
        let ty = self.vector(Kind::B32);
        let lanes = self.simple(Opcode::Selp, OpType::B32, ty, &[lanes, neutral, self.mask]);
        let combine = Data::Lane(desc(opcode, on, OpType::None, Mods::NONE));
        let all = self.value(Op::Reduce, ty, combine, &[lanes]);
        self.set_shared(inst, 0, all);
    }

    /// Emits a shuffle, whose source lanes [`margay_ops::meaning::warp::shuffle_source`] defines.
    fn shuffle(&mut self, inst: Inst, mode: Mode) {
        let args = self.source.dfg.args(inst);
        let (value, offset, limits) = (args[0], args[1], args[2]);
        let ty = self.vector(Kind::B32);
        let zero = self.constant(Type::B32, 0);
        let lane = self.value(Op::Affine, ty, Data::Number(1), &[zero]);
        let low = self.constant(Type::B32, 31);
        let offset = self.operand(offset);
        let offset = self.on_integers(Opcode::And, offset, low);
        let limits = self.operand(limits);
        let clamp = self.on_integers(Opcode::And, limits, low);
        let eight = self.constant(Type::B32, 8);
        let segment = self.shifted(limits, eight);
        let segment = self.on_integers(Opcode::And, segment, low);
        let outside = self.on_integers(Opcode::Xor, segment, low);
        let first = self.on_integers(Opcode::And, lane, segment);
        let end = self.on_integers(Opcode::And, clamp, outside);
        let last = self.on_integers(Opcode::Or, first, end);
        let (source, cmp) = match mode {
            Mode::Up => (self.on_integers(Opcode::Sub, lane, offset), CmpOp::Ge),
            Mode::Down => (self.on_integers(Opcode::Add, lane, offset), CmpOp::Le),
            Mode::Bfly => (self.on_integers(Opcode::Xor, lane, offset), CmpOp::Le),
            _ => {
                let within = self.on_integers(Opcode::And, offset, outside);
                (self.on_integers(Opcode::Or, first, within), CmpOp::Le)
            }
        };
        let inside = self.compare((cmp, OpType::S32), source, last);
        let source = self.simple(Opcode::Selp, OpType::B32, ty, &[source, lane, inside]);
        let lanes = self.lanes(value);
        let kind = self.kind(value);
        let value_type = self.vector(kind);
        // A source lane that does not run counts as zero.
        let none = self.constant(Type::scalar(kind), 0);
        let running = self.simple(
            Opcode::Selp,
            kind.op_type(),
            value_type,
            &[lanes, none, self.mask],
        );
        let moved = self.value(Op::Permute, value_type, Data::Nothing, &[running, source]);
        self.set_each(inst, 0, moved);
        self.set_each(inst, 1, inside);
    }

    /// Emits a matrix product. The registers of lanes that do not run count as zeros.
    fn matrix_product(&mut self, inst: Inst, data: &InstData) {
        let source = self.source;
        let results = source.dfg.results(inst);
        let Some(kind) = results.first().map(|&result| self.kind(result)) else {
            return;
        };
        let ty = self.vector(kind);
        let none = self.constant(Type::scalar(kind), 0);
        let registers = source.dfg.args(inst).iter().skip(1);
        let registers: SmallVec<[Value; 24]> = registers
            .map(|&register| {
                let lanes = self.lanes(register);
                let operands = [lanes, none, self.mask];
                self.simple(Opcode::Selp, kind.op_type(), ty, &operands)
            })
            .collect();
        let products = self.warp_product(data.desc(), ty, &registers, results.len());
        for (index, lanes) in products.into_iter().enumerate() {
            self.set_each(inst, index, lanes);
        }
    }

    /// Emits the shift of a 32-bit value to the right by a constant.
    fn shifted(&mut self, value: Value, by: Value) -> Value {
        let ty = self.out.ty(value);
        self.simple(Opcode::Shr, OpType::U32, ty, &[value, by])
    }
}
