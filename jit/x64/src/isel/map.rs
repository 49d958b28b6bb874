//! Selects `map` and `reduce`: finds the lowering of an operation and applies it to all pieces.

use margay_ops::meaning::Desc;
use margay_ops::ops::Opcode;
use margay_ops::types::{Kind, OpType, Type};
use margay_vir::data::Data;
use regalloc2::VReg;
use smallvec::{SmallVec, smallvec};

use super::pieces::Piece;
use super::table::{Lowering, lowering};
use super::{Regs, Selector, Val};
use crate::asm::{Op, Width};

/// The registers that contain one piece of each result.
pub(crate) type Out = SmallVec<[VReg; 2]>;

/// What a lowering computes: an operation in some lanes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task<'a> {
    pub(crate) desc: &'a Desc,
    /// The number of lanes of each piece.
    pub(crate) lanes: u32,
    /// The types of each result.
    pub(crate) results: &'a [Type],
    /// Whether the third operand has other uses, so that no instruction should overwrite it.
    pub(crate) keeps_third: bool,
}

/// Returns the number of bits of the widest elements in which the lowering of an operation computes.
fn inner_width(desc: &Desc) -> u32 {
    let is_half = |ty: OpType| matches!(ty, OpType::F16 | OpType::BF16);
    match desc.opcode {
        Opcode::Div | Opcode::Rem if desc.ty.is_integer() => 2 * desc.ty.bits().min(32),
        _ if is_half(desc.ty) || is_half(desc.src) => 32,
        _ => 1,
    }
}

impl Selector<'_> {
    pub(crate) fn map(&mut self) {
        let vir = self.vir;
        let Data::Lane(desc) = vir.insts[self.inst].data else {
            return;
        };
        if self.split_or_join(&desc) {
            return;
        }
        let (args, results) = (self.vals(), self.result_types());
        let lanes = results.first().map_or(1, |ty| ty.lanes());
        let outs = self.mapped(&desc, lanes, &args, &results);
        for (number, regs) in outs.into_iter().enumerate() {
            self.define(number, regs);
        }
    }

    /// Applies an operation to each lane and returns the registers of each result.
    pub(crate) fn mapped(
        &mut self,
        desc: &Desc,
        lanes: u32,
        args: &[Val],
        results: &[Type],
    ) -> SmallVec<[Regs; 2]> {
        let narrowed: SmallVec<[Val; 4]>;
        let mut args = args;
        if desc.opcode == Opcode::Cvt {
            let sources = args.iter().enumerate();
            narrowed = sources
                .map(|(index, arg)| self.source_of_conversion(desc, index, arg))
                .collect();
            args = &narrowed;
        }
        let scalar = if lanes == 1 {
            self.scalar_map(desc, args, results)
        } else {
            None
        };
        if let Some(outs) = scalar {
            return outs;
        }
        if let Some(outs) = self.in_pieces(desc, lanes, args, results) {
            return outs;
        }
        self.called(desc, lanes, args, results)
    }

    /// Returns an operand of a conversion without the bits above the source type. Integers, and numbers of 16 bits and
    /// less, may be in wider registers.
    fn source_of_conversion(&mut self, desc: &Desc, index: usize, arg: &Val) -> Val {
        let (held, bits) = (desc.src.held(), desc.src.held().lane_bits());
        let is_source = desc.src.elements() == 1 && index < desc.ty.elements().max(1) as usize;
        let is_wider = !held.is_float() && bits < arg.ty.lane_bits() && arg.ty.lane_bits() <= 64;
        if !is_source || !is_wider || bits < 8 {
            return arg.clone();
        }
        let ty = Type::vector(held.kind(), arg.ty.lanes()).expect("the lanes of a type");
        if let Some(constant) = arg.bits {
            return Val {
                bits: Some(constant & (u64::MAX >> (64 - bits))),
                ..Val::new(ty, Regs::new())
            };
        }
        if ty.lanes() == 1 {
            let reg = self.gpr(arg);
            let reg = match bits {
                32 => self.g_of(Op::Mov, Width::W32, reg),
                _ => self.zero_extended(reg, bits),
            };
            return Val::new(ty, super::one(reg));
        }
        let lanes = ty.lanes().min(self.width / arg.ty.lane_bits());
        let pieces: Regs = (0..ty.lanes() / lanes)
            .map(|number| {
                let piece = self.piece(arg, lanes, number);
                let reg = self.reg(&piece);
                self.resized(reg, piece.bits, bits, false, lanes)
            })
            .collect();
        let regs = self.joined(ty, lanes, &pieces);
        Val::new(ty, regs)
    }

    fn in_pieces(
        &mut self,
        desc: &Desc,
        lanes: u32,
        args: &[Val],
        results: &[Type],
    ) -> Option<SmallVec<[Regs; 2]>> {
        let lower = lowering(desc.opcode)?;
        let types = args.iter().map(|arg| arg.ty).chain(results.iter().copied());
        let widest = types.map(Type::lane_bits).max().unwrap_or(1);
        let widest = widest.max(inner_width(desc));
        if widest > 64 {
            return None;
        }
        let chunk = if widest == 1 {
            lanes
        } else {
            lanes.min(self.width / widest)
        };
        let task = Task {
            desc,
            lanes: chunk,
            results,
            keeps_third: self.keeps_third(args),
        };
        if !self.has_masks() && widest > 1 {
            self.mask_bits = widest;
        }
        let outs = self.pieces_of_results(lower, &task, lanes, args);
        self.mask_bits = 0;
        let outs = outs?;
        let joined = outs
            .iter()
            .zip(results)
            .map(|(pieces, &ty)| self.joined(ty, chunk, pieces));
        Some(joined.collect())
    }

    /// Returns the pieces of each result.
    fn pieces_of_results(
        &mut self,
        lower: Lowering,
        task: &Task<'_>,
        lanes: u32,
        args: &[Val],
    ) -> Option<SmallVec<[Regs; 2]>> {
        let mut outs: SmallVec<[Regs; 2]> = smallvec![Regs::new(); task.results.len()];
        for number in 0..lanes / task.lanes {
            let pieces: SmallVec<[Piece; 4]> = args
                .iter()
                .map(|arg| self.piece(arg, task.lanes, number))
                .collect();
            let out = lower(self, task, &pieces)?;
            if out.len() != task.results.len() {
                return None;
            }
            for (regs, reg) in outs.iter_mut().zip(out) {
                regs.push(reg);
            }
        }
        Some(outs)
    }

    fn keeps_third(&self, args: &[Val]) -> bool {
        let third = self.vir.args(self.inst).get(2);
        args.len() < 3 || third.is_none_or(|&value| self.uses[value].count != 1)
    }

    /// Combines halves until one lane is left.
    pub(crate) fn reduce(&mut self) {
        let vir = self.vir;
        let Data::Lane(desc) = vir.insts[self.inst].data else {
            return;
        };
        let mut val = self.vals()[0].clone();
        let kind = val.ty.kind();
        let mut lanes = val.ty.lanes();
        while lanes > 1 {
            lanes /= 2;
            let ty = Type::vector(kind, lanes).expect("a power of two");
            let halves = [0, 1].map(|number| self.half_of(&val, ty, number));
            let mut outs = self.mapped(&desc, lanes, &halves, &[ty]);
            val = Val::new(ty, outs.swap_remove(0));
        }
        // A vector with one lane has the registers of a scalar, and so has a constant.
        let regs = self.regs_of(&val);
        self.define(0, regs);
    }

    /// Returns the registers of a value, a constant included.
    pub(crate) fn regs_of(&mut self, val: &Val) -> Regs {
        let Some(bits) = val.bits else {
            return val.regs.clone();
        };
        let ty = val.ty;
        if ty.lanes() == 1 && !ty.is_float() {
            return super::one(self.imm(bits));
        }
        if ty.kind() == Kind::Pred {
            let ones = u64::MAX >> (64 - ty.lanes());
            return super::one(self.mask_constant(if bits & 1 != 0 { ones } else { 0 }));
        }
        let reg = self.splat_constant(bits, ty.lane_bits());
        let count = (ty.lane_bits() * ty.lanes()).div_ceil(self.width);
        (0..count).map(|_| reg).collect()
    }
}
