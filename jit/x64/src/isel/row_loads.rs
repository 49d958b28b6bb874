//! Loads rows, and permutes them to fields.

use margay_ir::entity::Value;
use margay_vir::data::Data;
use regalloc2::{RegClass, VReg};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::rows::Group;
use super::transpose::{Load, Picks, Step, unpack};
use super::{Regs, Selector};
use crate::asm::{Op, Width};
use crate::code::{Cause, GroupAccess, OTHER_BASES};
use crate::mach::{Action, Base, Inst, Mem, NONE};

/// The number of bytes that a prefetch loads.
const LINE: i64 = 64;
/// The maximum number of prefetches for an access.
const MOST_LINES: i64 = 96;

/// The group that is being selected.
struct Target {
    /// Its number in the machine function.
    number: u32,
    base: VReg,
    others: [VReg; OTHER_BASES],
    /// The number of bits of an element.
    bits: u32,
}

impl Selector<'_> {
    /// Executes the loads of a group.
    pub(super) fn load_rows(&mut self, group: &Group) {
        let bits = group.ty.lane_bits();
        let bases: SmallVec<[VReg; 4]> = group
            .bases
            .iter()
            .map(|&base| {
                let base = self.val(base);
                self.gpr(&base)
            })
            .collect();
        let mut others = [NONE; OTHER_BASES];
        others[..bases.len() - 1].copy_from_slice(&bases[1..]);
        let accesses = group.accesses.iter();
        let accesses = accesses.filter_map(|&(inst, base)| self.group_access(inst, base));
        let accesses = accesses.collect();
        self.mach.groups.push(accesses);
        let target = Target {
            number: self.mach.groups.len() as u32 - 1,
            base: bases[0],
            others,
            bits,
        };
        let lanes = group.ty.lanes().min(self.width / bits);
        let mut values: SmallVec<[Regs; 8]> = group.members.iter().map(|_| Regs::new()).collect();
        let mut indices = FxHashMap::default();
        for piece in 0..group.ty.lanes() / lanes {
            let start = i64::from(group.lowest) + i64::from(piece * lanes) * group.stride;
            let mut regs: Vec<VReg> = Vec::new();
            for load in &group.plan.loads {
                let reg = self.row_load(&target, load, start, &regs);
                regs.push(reg);
            }
            for step in &group.plan.steps {
                let reg = self.permuted_pair(bits, step, &regs, &mut indices);
                regs.push(reg);
            }
            for (value, &output) in values.iter_mut().zip(&group.plan.outputs) {
                value.push(regs[output]);
            }
        }
        self.prefetch_rows(group.bases[0], bases[0], group.stride);
        let current = self.inst;
        for (&member, regs) in group.members.iter().zip(values) {
            self.inst = member;
            self.define(0, regs);
        }
        self.inst = current;
    }

    /// Prefetches as many rows as the block accesses, from the first row behind them on, if it has not done so before. The
    /// next chunks of lanes access these rows soon, but the code of a chunk is so long that the processor does not
    /// foresee it. The register contains the base.
    pub(super) fn prefetch_rows(&mut self, base: Value, register: VReg, stride: i64) {
        let Some(extent) = self.groups.extents.remove(&(base, stride)) else {
            return;
        };
        let bytes = extent.end - extent.start;
        let rows = (bytes + stride.abs() - 1) / stride.abs();
        let lines = (bytes + LINE - 1) / LINE;
        if lines > MOST_LINES {
            return;
        }
        for line in 0..lines {
            let distance = extent.start + rows * stride + line * LINE;
            let mut inst = Inst::of(Action::Op(Op::Prefetcht0), Width::W64);
            inst.mem = Mem::at(Base::Reg(register), distance as i32);
            self.effect(inst);
        }
    }

    fn group_access(&self, inst: margay_ir::entity::Inst, base: u8) -> Option<GroupAccess> {
        let data = self.vir.insts[inst];
        let (Data::Access(access), Some(ty)) = (data.data, data.ty) else {
            return None;
        };
        Some(GroupAccess {
            place: self.vir.places[inst],
            base,
            displacement: access.displacement,
            stride: access.stride,
            lanes: ty.lanes(),
            bytes: access.memory.bits() / 8,
        })
    }

    /// Loads elements, `start` bytes from the base on, into a new register or among those of an earlier one.
    fn row_load(&mut self, target: &Target, load: &Load, start: i64, regs: &[VReg]) -> VReg {
        let bits = target.bits;
        let op = match bits {
            32 => Op::Vmovdqu32,
            _ => Op::Vmovdqu64,
        };
        let count = 32 - load.mask.leading_zeros();
        let len = match (load.into, count * bits) {
            (Some(_), _) => self.widest(),
            (None, ..=128) => Width::L128,
            (None, ..=256) => Width::L256,
            (None, _) => Width::L512,
        };
        let elements = count.next_power_of_two().max(128 / bits);
        let is_whole = load.into.is_none() && load.mask == u32::MAX >> (32 - elements);
        let mut inst = Inst::of(Action::Op(op), len);
        if !is_whole {
            inst.mask = self.mask_constant(load.mask.into());
            inst.zeroing = load.into.is_none();
        }
        if let Some(into) = load.into {
            inst.tied = regs[into];
        }
        let distance = start + load.at * i64::from(bits / 8);
        inst.mem = Mem::at(Base::Reg(target.base), distance as i32);
        inst.bases = target.others;
        inst.place = self.place(Cause::Rows {
            group: target.number,
            operand: Default::default(),
            others: [0; OTHER_BASES],
        });
        inst.has_effect = true;
        self.result(RegClass::Float, inst)
    }

    /// Returns elements of two registers.
    fn permuted_pair(
        &mut self,
        bits: u32,
        step: &Step,
        regs: &[VReg],
        indices: &mut FxHashMap<Picks, VReg>,
    ) -> VReg {
        let len = self.widest();
        let width = self.width / bits;
        let [a, b] = step.sources.map(|source| regs[source]);
        for (half, ops) in [
            [Op::Vpunpckldq, Op::Vpunpcklqdq],
            [Op::Vpunpckhdq, Op::Vpunpckhqdq],
        ]
        .into_iter()
        .enumerate()
        {
            let all = unpack(width as usize, 128 / bits as usize, half);
            let is_unpacked = step
                .picks
                .iter()
                .zip(all)
                .all(|(&pick, all)| pick.is_none() || pick == all);
            if is_unpacked {
                return self.v2(ops[usize::from(bits == 64)], len, a, b);
            }
        }
        let index = match indices.get(&step.picks) {
            Some(&index) => index,
            None => {
                let elements = step.picks.iter().take(width as usize);
                let elements = elements.map(|pick| u64::from(pick.unwrap_or(0)));
                let index = self.vector_constant(bits, elements);
                indices.insert(step.picks, index);
                index
            }
        };
        if step.sources[0] == step.sources[1] {
            let op = if bits == 32 { Op::Vpermd } else { Op::Vpermq };
            return self.v2(op, len, index, a);
        }
        let op = if bits == 32 {
            Op::Vpermt2d
        } else {
            Op::Vpermt2q
        };
        self.v3(op, len, a, index, b, None)
    }
}
