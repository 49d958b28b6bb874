//! Updates of memory, one lane after the other.
//!
//! If all lanes run, the code of the lanes is a straight line, which extracts offsets and operands from registers.
//! Otherwise, or if the update of a lane is a loop itself ([`lane`]), it is in a loop over the lanes that run, and the
//! offsets and operands are in the scratch area. The results are collected there.

mod lane;

use margay_ops::meaning::Desc;
use margay_ops::mods::{AtomOp, StateSpace};
use margay_ops::types::Type;
use margay_vir::data::Data;
use margay_vir::meaning::update_operands;
use regalloc2::{RegClass, VReg};
use smallvec::{SmallVec, smallvec};

use self::lane::{LaneUpdate, float_load};
use super::{Selector, Val};
use crate::Error;
use crate::asm::{Op, Width};
use crate::mach::{Action, Base, Inst, Mem};

/// The maximum number of lanes of updates without a loop over the lanes.
const MOST_IN_LINE: u32 = 32;

/// The maximum number of lanes of such updates in a function, which limits the size of the code.
const MOST_IN_FUNCTION: u32 = 2_048;

/// Where the offsets are in the scratch area.
const OFFSETS: u32 = 0;

/// A lane: its number, or the register that contains it.
#[derive(Clone, Copy)]
enum Lane {
    Number(u32),
    Register(VReg),
}

/// An operand of a lane.
#[derive(Clone, Copy)]
enum Operand {
    /// A general register or, if the operation adds floating-point numbers, a vector register.
    Reg(VReg),
    /// A number that instructions can encode.
    Number(i32),
}

/// Where an operand of the lanes is.
enum Source {
    /// All lanes have this operand.
    All(Operand),
    /// The operands are in registers, and at an offset in the scratch area if the code needs them there.
    Lanes(Val, u32),
}

/// An update.
struct Update {
    desc: Desc,
    ty: Type,
    /// The base of the addresses, unless it is zero.
    base: Option<VReg>,
    offsets: Val,
    operands: SmallVec<[Source; 2]>,
    /// The lanes that update memory; `None` if all do.
    mask: Option<Val>,
    /// Where the results are in the scratch area, if something uses them.
    results: Option<u32>,
}

impl Update {
    fn bits(&self) -> u32 {
        self.ty.lane_bits()
    }

    fn op(&self) -> AtomOp {
        self.desc.mods.atom_op()
    }

    fn adds_floats(&self) -> bool {
        self.desc.ty.is_float()
    }

    fn is_shared(&self) -> bool {
        let space = self.desc.mods.space();
        matches!(space, StateSpace::Shared | StateSpace::SharedCluster)
    }

    /// Returns the instruction that updates memory without returning the old contents.
    fn in_place(&self) -> Option<Op> {
        match self.op() {
            _ if self.results.is_some() || self.adds_floats() => None,
            AtomOp::Add => Some(Op::Add),
            AtomOp::And => Some(Op::And),
            AtomOp::Or => Some(Op::Or),
            AtomOp::Xor => Some(Op::Xor),
            _ => None,
        }
    }

    /// Returns whether the update of a lane is a loop around `cmpxchg`.
    fn repeats(&self) -> bool {
        let has_instruction = match self.op() {
            AtomOp::Add => !self.adds_floats(),
            AtomOp::Exch | AtomOp::Cas => true,
            _ => self.in_place().is_some(),
        };
        !self.is_shared() && !has_instruction
    }

    /// Returns whether the code may have no loop over the lanes.
    fn may_be_in_line(&self) -> bool {
        self.mask.is_none() && !self.repeats() && self.ty.lanes() <= MOST_IN_LINE
    }
}

impl Selector<'_> {
    pub(crate) fn update(&mut self) -> Result<(), Error> {
        let update = self.parts_of_update().ok_or(Error::Unsupported("update"))?;
        let in_line = self.lanes_in_line + update.ty.lanes();
        match update.may_be_in_line() && in_line <= MOST_IN_FUNCTION {
            true => {
                self.lanes_in_line = in_line;
                self.update_in_line(&update);
            }
            false => self.update_in_loop(&update),
        }
        if let Some(results) = update.results {
            let regs = self.reload_value(update.ty, results);
            self.define(0, regs);
        }
        Ok(())
    }

    fn parts_of_update(&mut self) -> Option<Update> {
        let vir = self.vir;
        let data = vir.insts[self.inst];
        let (Data::Lane(desc), Some(ty)) = (data.data, data.ty) else {
            return None;
        };
        let vals = self.vals();
        let (fixed, rest) = vals.split_at_checked(2 + update_operands(&desc))?;
        let mut results = vir.results(self.inst).iter();
        let is_used = results.any(|&value| self.uses[value].count > 0);
        // The scratch area contains offsets, results, and operands.
        let size = 8 * ty.lanes().max(8);
        self.reserve(4 * size);
        let operands = (2..).zip(&fixed[2..]);
        let operands = operands
            .map(
                |(number, val)| match val.is_scalar() || val.bits.is_some() {
                    true => Source::All(self.operand_of_all(val, desc.ty.is_float())),
                    false => Source::Lanes(val.clone(), number * size),
                },
            )
            .collect();
        Some(Update {
            desc,
            ty,
            base: match fixed[0].bits {
                Some(0) => None,
                _ => Some(self.gpr(&fixed[0])),
            },
            offsets: fixed[1].clone(),
            operands,
            mask: rest.first().filter(|mask| mask.bits != Some(1)).cloned(),
            results: is_used.then_some(size),
        })
    }

    /// Returns an operand that all lanes have.
    fn operand_of_all(&mut self, val: &Val, adds_floats: bool) -> Operand {
        let bits = val.ty.lane_bits();
        if let Some(value) = val.bits.filter(|_| !adds_floats) {
            let shift = 64 - bits;
            let signed = (value << shift) as i64 >> shift;
            return match i32::try_from(signed) {
                Ok(number) => Operand::Number(number),
                Err(_) => Operand::Reg(self.imm(value)),
            };
        }
        let reg = self.regs_of(val)[0];
        Operand::Reg(match (adds_floats, reg.class()) {
            (true, RegClass::Int) => self.vector_of_gpr(reg, bits),
            (false, RegClass::Float) => self.gpr_of_vector(reg, bits),
            _ => reg,
        })
    }

    /// Updates memory in all lanes. Pairs of lanes are extracted together.
    fn update_in_line(&mut self, update: &Update) {
        if update.adds_floats() {
            self.spill_operands(update);
        }
        let lanes = update.ty.lanes();
        let count = lanes.min(2);
        for first in (0..lanes).step_by(count as usize) {
            let offsets = self.words(&update.offsets, first, count);
            let mut operands: [SmallVec<[Operand; 2]>; 2] = Default::default();
            for source in &update.operands {
                let extracted: SmallVec<[VReg; 2]> = match source {
                    &Source::All(operand) => {
                        operands.iter_mut().for_each(|all| all.push(operand));
                        continue;
                    }
                    Source::Lanes(val, _) if !update.adds_floats() => self.words(val, first, count),
                    &Source::Lanes(_, start) => (first..first + count)
                        .map(|n| self.in_scratch(update, start, Lane::Number(n)))
                        .collect(),
                };
                for (all, reg) in operands.iter_mut().zip(extracted) {
                    all.push(Operand::Reg(reg));
                }
            }
            for ((lane, offset), operands) in (first..).zip(offsets).zip(operands) {
                let lane = Lane::Number(lane);
                self.update_lane(&LaneUpdate::new(update, lane, offset, operands));
            }
        }
    }

    /// Updates memory in a loop over the lanes that run.
    fn update_in_loop(&mut self, update: &Update) {
        let lanes = update.ty.lanes();
        if let Some(results) = update.results {
            self.clear(update.ty, results);
        }
        self.spill_value(&update.offsets, OFFSETS);
        self.spill_operands(update);
        let bits = match &update.mask {
            None => self.imm(u64::MAX >> (64 - lanes)),
            Some(mask) if lanes == 1 => self.gpr(mask),
            Some(mask) => {
                let mask = self.mask_reg(mask);
                self.gpr_of_mask(mask)
            }
        };
        let body = self.lane_loop(bits);
        let lane = Lane::Register(body.lane);
        let offset_bits = update.offsets.ty.lane_bits();
        let offset = self.load_general(offset_bits, scratch(OFFSETS, offset_bits / 8, lane));
        let operands = update.operands.iter();
        let operands = operands.map(|source| match *source {
            Source::All(operand) => operand,
            Source::Lanes(_, start) => Operand::Reg(self.in_scratch(update, start, lane)),
        });
        let operands = operands.collect();
        self.update_lane(&LaneUpdate::new(update, lane, offset, operands));
        self.end_loop(body.label, body.rest, body.exit);
    }

    /// Stores the operands that differ between the lanes in the scratch area.
    fn spill_operands(&mut self, update: &Update) {
        for source in &update.operands {
            if let Source::Lanes(val, start) = source {
                self.spill_value(val, *start);
            }
        }
    }

    /// Loads an operand of a lane from the scratch area.
    fn in_scratch(&mut self, update: &Update, start: u32, lane: Lane) -> VReg {
        let bits = update.bits();
        let mem = scratch(start, bits / 8, lane);
        match update.adds_floats() {
            false => self.load_general(bits, mem),
            true => {
                let (op, len) = float_load(bits);
                self.load_vector(op, len, mem)
            }
        }
    }

    /// Returns `count` lanes of a vector, one or two, from lane `first` on in general registers.
    fn words(&mut self, val: &Val, first: u32, count: u32) -> SmallVec<[VReg; 2]> {
        let (bits, regs) = (val.ty.lane_bits(), self.regs_of(val));
        if val.is_scalar() {
            return smallvec![regs[0]];
        }
        let starts = (first * bits..(first + count) * bits).step_by(64);
        let mut words: SmallVec<[VReg; 2]> = starts
            .map(|start| {
                let part = self.part(&regs, 128, start / 128);
                if start % 128 == 0 {
                    return self.gpr_of_vector(part, 64);
                }
                let mut inst = Inst::of(Action::Op(Op::Vpextrq), Width::L128);
                inst.src[0] = part;
                inst.imm = Some(1);
                self.result(RegClass::Int, inst)
            })
            .collect();
        if bits == 32 {
            let both = words[0];
            words = smallvec![
                self.g_of(Op::Mov, Width::W32, both),
                self.g2i(Op::Shr, Width::W64, both, 32),
            ];
        }
        words
    }
}

/// Returns the place of a lane's value with `bytes` bytes in the scratch area.
fn scratch(start: u32, bytes: u32, lane: Lane) -> Mem {
    match lane {
        Lane::Number(number) => Mem::at(Base::Scratch, (start + bytes * number) as i32),
        Lane::Register(index) => Mem {
            index,
            scale: bytes as u8,
            ..Mem::at(Base::Scratch, start as i32)
        },
    }
}
