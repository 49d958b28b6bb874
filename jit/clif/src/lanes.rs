//! Ops that create vectors and move whole lanes whose numbers are constants.

use cranelift_codegen::ir::{self, InstBuilder, types};
use margay_ir::entity::Inst;
use margay_ops::types::{Kind, Type};
use smallvec::SmallVec;

use crate::group::{Group, LANES, Registers, groups, registers, vector_type};
use crate::lower::Lower;

impl Lower<'_, '_> {
    pub(crate) fn const_op(&mut self, inst: Inst) {
        let result = self.result(inst);
        let registers = self.constant(self.ty(result), self.number(inst));
        self.define(result, registers);
    }

    pub(crate) fn splat_op(&mut self, inst: Inst) {
        let (value, result) = (self.function.args(inst)[0], self.result(inst));
        let (ty, scalar) = (self.ty(result), self.scalar(value));
        if ty.lanes() == 1 {
            return self.define(result, [scalar].as_slice());
        }
        let registers = self.splat_all(scalar, ty);
        self.define(result, registers);
    }

    /// Returns a vector whose lanes are all a scalar.
    pub(crate) fn splat_all(&mut self, scalar: ir::Value, ty: Type) -> Registers {
        let group = self.splat(scalar, ty.kind());
        (0..groups(ty.lanes()))
            .flat_map(|_| group.to_vec())
            .collect()
    }

    pub(crate) fn affine(&mut self, inst: Inst) {
        let (base, result) = (self.function.args(inst)[0], self.result(inst));
        let (ty, stride) = (self.ty(result), self.number(inst));
        let base = self.scalar(base);
        if ty.lanes() == 1 {
            return self.define(result, [base].as_slice());
        }
        let kind = ty.kind();
        let splat = self.splat(base, kind);
        let lane = vector_type(kind).lane_type();
        let per = LANES / registers(kind) as u32;
        let count = groups(ty.lanes()) * registers(kind);
        let registers: Registers = (0..count as u32)
            .map(|index| {
                let step = |n: u32| stride.wrapping_mul(u64::from(index * per + n));
                let steps = self.code.vector_constant(lane, step);
                let sum = self.code.b.ins().iadd(splat[0], steps);
                self.cleared(sum, kind)
            })
            .collect();
        self.define(result, registers);
    }

    /// Clears the bits of lanes of 32 bits beyond the width of a narrower integer.
    pub(crate) fn cleared(&mut self, register: ir::Value, kind: Kind) -> ir::Value {
        let bits = match kind {
            Kind::B8 => 0xff,
            Kind::B16 => 0xffff,
            _ => return register,
        };
        let mask = self.code.vector_constant(types::I32, |_| bits);
        self.code.b.ins().band(register, mask)
    }

    pub(crate) fn extract_op(&mut self, inst: Inst) {
        let (value, result) = (self.function.args(inst)[0], self.result(inst));
        let registers = self.get(value);
        let scalar = match self.ty(value).lanes() {
            1 => registers[0],
            _ => self.extract(&registers, self.kind(value), self.number(inst) as u32),
        };
        self.define(result, [scalar].as_slice());
    }

    pub(crate) fn insert_op(&mut self, inst: Inst) {
        let args = self.function.args(inst);
        let (vector, scalar, result) = (args[0], self.scalar(args[1]), self.result(inst));
        if self.ty(vector).lanes() == 1 {
            return self.define(result, [scalar].as_slice());
        }
        let kind = self.kind(vector);
        let mut registers = self.get(vector);
        let lane = self.widened(scalar, kind);
        self.replace(&mut registers, kind, self.number(inst) as u32, lane);
        self.define(result, registers);
    }

    pub(crate) fn half(&mut self, inst: Inst) {
        let (value, result) = (self.function.args(inst)[0], self.result(inst));
        let (from, kind) = (self.get(value), self.kind(value));
        let is_upper = self.number(inst) != 0;
        let registers = self.half_of(&from, kind, self.ty(value).lanes(), is_upper);
        self.define(result, registers);
    }

    /// Returns the lower or the upper half of the lanes of a vector.
    pub(crate) fn half_of(
        &mut self,
        values: &[ir::Value],
        kind: Kind,
        lanes: u32,
        is_upper: bool,
    ) -> Registers {
        match lanes {
            2 => {
                let scalar = self.extract(values, kind, u32::from(is_upper));
                [scalar].as_slice().into()
            }
            LANES => self.half_of_group(Self::group(values, kind, 0), kind, is_upper),
            _ => {
                let count = values.len() / 2;
                let start = if is_upper { count } else { 0 };
                values[start..][..count].into()
            }
        }
    }

    /// Returns the lower or the upper two lanes of a group as a vector of two lanes.
    fn half_of_group(&mut self, group: Group, kind: Kind, is_upper: bool) -> Registers {
        if !is_upper {
            return group.iter().copied().collect();
        }
        match *group {
            [one] => {
                let words = self.code.words(one, one, [8, 12, 8, 12]);
                let words = self.code.cast(words, vector_type(kind));
                [words].as_slice().into()
            }
            [_, high] => [high, high].as_slice().into(),
            [.., third, fourth] => [third, fourth, third, fourth].as_slice().into(),
            [] => Registers::new(),
        }
    }

    pub(crate) fn join(&mut self, inst: Inst) {
        let (args, result) = (self.function.args(inst), self.result(inst));
        let kind = self.kind(result);
        let (low, high) = (self.get(args[0]), self.get(args[1]));
        let registers = match self.ty(args[0]).lanes() {
            1 => {
                let lanes = [low[0], high[0]].map(|scalar| self.widened(scalar, kind));
                self.gathered(&lanes, kind)
            }
            2 => self.joined_groups(&low, &high, kind),
            _ => low.iter().chain(&high).copied().collect(),
        };
        self.define(result, registers);
    }

    /// Returns the group of the lanes of two vectors of two lanes.
    fn joined_groups(&mut self, low: &[ir::Value], high: &[ir::Value], kind: Kind) -> Registers {
        if low.len() > 1 {
            let half = low.len() / 2;
            return low[..half].iter().chain(&high[..half]).copied().collect();
        }
        let words = self.code.words(low[0], high[0], [0, 4, 16, 20]);
        SmallVec::from_elem(self.code.cast(words, vector_type(kind)), 1)
    }
}
