//! `f16` and `bf16` on whole vectors: conversions to and from f32; sums, products and fused products, both scalar and
//! packed; splitting 32-bit words into halves and combining them.
//!
//! As in the lowering of the same operations in [`crate::emit::fast`], operands are widened exactly, and results have
//! the same bits as if they were rounded once. Lanes of 16 bits are stored in 32 bits.

use cranelift_codegen::ir::{self, InstBuilder, types};
use margay_ir::entity::Inst;
use margay_ir::function::InstData;
use margay_ops::meaning::approx::{Arithmetic, halves};
use margay_ops::mods::Rounding;
use margay_ops::ops::Opcode;
use margay_ops::types::{Kind, OpType};

use super::float::Vector;
use super::ops::{Tried, bail};
use super::{Lanes, Slice};
use crate::emit::fast::halves::{Format, is_plain};

/// Returns whether this module supports an operation on 16-bit floats.
pub(super) fn is_known(data: &InstData) -> bool {
    let plain = is_plain(data);
    match data.opcode {
        Opcode::Cvt => {
            plain
                && match (Format::of(data.ty), Format::of(data.src)) {
                    (None, Some(_)) => data.ty == OpType::F32 && data.src.elements() == 1,
                    (Some(_), None) => {
                        data.src == OpType::F32 && data.mods.rounding() == Rounding::Rn
                    }
                    _ => false,
                }
        }
        Opcode::Add | Opcode::Sub | Opcode::Mul => {
            plain && data.src == OpType::None && Format::of(data.ty).is_some()
        }
        // The product of two `bf16` values may be too small for f32.
        Opcode::Fma => {
            plain && data.src == OpType::None && Format::of(data.ty) == Some(Format::Half)
        }
        _ => false,
    }
}

impl Slice<'_, '_> {
    /// Emits an operation for which [`is_known`] is true.
    pub(super) fn half_operation(&mut self, inst: Inst, data: &InstData) -> Tried {
        if data.opcode == Opcode::Cvt {
            return self.half_conversion(inst, data);
        }
        let format = bail!(Format::of(data.ty));
        let pairs = data.ty.elements() == 2;
        let count = self.lane.function.dfg.args(inst).len();
        let mut operands = Vec::with_capacity(count);
        for index in 0..count {
            operands.push(bail!(self.words_of(inst, index, pairs)?));
        }
        let lanes: Lanes = (0..operands[0].len())
            .map(|i| {
                let words: Vec<ir::Value> = operands.iter().map(|lanes| lanes[i]).collect();
                let low = self.half_element(data.opcode, format, &words, pairs.then_some(false));
                if !pairs {
                    return low;
                }
                let high = self.half_element(data.opcode, format, &words, Some(true));
                let high = Vector(self).shift_left(high, 16);
                self.lane.b.ins().bor(high, low)
            })
            .collect();
        self.define_words(inst, &lanes)
    }

    /// Emits the computation of the result for one 16-bit element of each 32-bit lane: for packed
    /// pairs, the upper or the lower half; otherwise the only element.
    fn half_element(
        &mut self,
        opcode: Opcode,
        format: Format,
        words: &[ir::Value],
        upper: Option<bool>,
    ) -> ir::Value {
        let values: Vec<ir::Value> = words
            .iter()
            .map(|&word| {
                let bits = match upper {
                    None => word,
                    Some(upper) => self.half_of_word(word, upper),
                };
                format.widen(&mut Vector(self), bits)
            })
            .collect();
        let value = match opcode {
            Opcode::Add => self.lane.b.ins().fadd(values[0], values[1]),
            Opcode::Sub => self.lane.b.ins().fsub(values[0], values[1]),
            Opcode::Mul => self.lane.b.ins().fmul(values[0], values[1]),
            _ => halves::fused_to_odd(&mut Vector(self), values[0], values[1], values[2]),
        };
        format.narrow(&mut Vector(self), value)
    }

    fn half_of_word(&mut self, word: ir::Value, upper: bool) -> ir::Value {
        if upper {
            let count = self.lane.int(types::I32, 16);
            return self.lane.b.ins().ushr(word, count);
        }
        let low = self.constant(types::I32X4, 0xffff);
        self.lane.b.ins().band(word, low)
    }

    /// Returns the lanes of an operand, each in a 32-bit vector element. Returns `None` if the operand does not have 32
    /// bits (if `pairs` is true) or 16 bits (if `pairs` is false).
    fn words_of(
        &mut self,
        inst: Inst,
        index: usize,
        pairs: bool,
    ) -> Result<Option<Lanes>, crate::emit::lane::EmitError> {
        let value = bail!(self.lane.function.dfg.args(inst).get(index).copied());
        let kind = self.lane.function.dfg.ty(value).kind();
        let wanted = if pairs { Kind::B32 } else { Kind::B16 };
        if kind != wanted {
            return Ok(None);
        }
        Ok(Some(self.get(value)?))
    }

    /// Sets the result of `inst`, which has 16 or 32 bits, to `lanes`.
    fn define_words(&mut self, inst: Inst, lanes: &Lanes) -> Tried {
        let value = bail!(self.lane.function.dfg.results(inst).first().copied());
        if !matches!(
            self.lane.function.dfg.ty(value).kind(),
            Kind::B16 | Kind::B32
        ) {
            return Ok(None);
        }
        self.set(value, lanes)?;
        Ok(Some(()))
    }

    fn half_conversion(&mut self, inst: Inst, data: &InstData) -> Tried {
        if let Some(format) = Format::of(data.src) {
            let words = bail!(self.words_of(inst, 0, false)?);
            let lanes: Lanes = words
                .iter()
                .map(|&four| format.widen(&mut Vector(self), four))
                .collect();
            return self.define(inst, &lanes);
        }
        let format = bail!(Format::of(data.ty));
        let first = bail!(self.lanes_as(inst, 0, types::F32X4)?);
        let first: Lanes = first
            .iter()
            .map(|&x| format.narrow(&mut Vector(self), x))
            .collect();
        if data.ty.elements() == 1 {
            return self.define_words(inst, &first);
        }
        // The first operand becomes the upper half of the packed result.
        let second = bail!(self.lanes_as(inst, 1, types::F32X4)?);
        let lanes: Lanes = first
            .iter()
            .zip(&second)
            .map(|(&high, &low)| {
                let low = format.narrow(&mut Vector(self), low);
                let high = Vector(self).shift_left(high, 16);
                self.lane.b.ins().bor(high, low)
            })
            .collect();
        self.define_words(inst, &lanes)
    }

    /// Emits the operation that packs two 16-bit operands into a 32-bit word.
    pub(super) fn pack_halves(&mut self, inst: Inst) -> Tried {
        let low = bail!(self.words_of(inst, 0, false)?);
        let high = bail!(self.words_of(inst, 1, false)?);
        let lanes: Lanes = low
            .iter()
            .zip(&high)
            .map(|(&low, &high)| {
                let high = Vector(self).shift_left(high, 16);
                self.lane.b.ins().bor(high, low)
            })
            .collect();
        self.define_words(inst, &lanes)
    }

    /// Emits the operation that splits a 32-bit word into two 16-bit results.
    pub(super) fn unpack_halves(&mut self, inst: Inst) -> Tried {
        let whole = bail!(self.words_of(inst, 0, true)?);
        let results = self.lane.function.dfg.results(inst).to_vec();
        let halves = |&value| self.lane.function.dfg.ty(value).kind() == Kind::B16;
        if results.len() != 2 || !results.iter().all(halves) {
            return Ok(None);
        }
        for (value, upper) in results.into_iter().zip([false, true]) {
            let lanes: Lanes = whole
                .iter()
                .map(|&word| self.half_of_word(word, upper))
                .collect();
            self.set(value, &lanes)?;
        }
        Ok(Some(()))
    }
}
