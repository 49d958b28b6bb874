//! Values that live across barriers and are affine in the coordinates of the threads
//! ([`coordinates`](margay_ir::analysis::coordinates)).
//!
//! Such a value is `base + x * %tid.x + y * %tid.y + z * %tid.z`. The program keeps the base in a variable, because it is
//! equal for all threads of the CTA, and computes the value in each chunk that needs it. It stores nothing in the frames.

use margay_ir::analysis::coordinates::{CtaClass, Factor, Form, Sum};
use margay_ir::entity::{Block, Value};
use margay_ops::ops::Opcode;
use margay_ops::sreg::SpecialReg;
use margay_ops::types::{Kind, OpType, Type};
use margay_vir::data::Data;
use margay_vir::ops::Op;
use rustc_hash::FxHashSet;

use crate::emitter::{Emitter, ones, unsigned};
use crate::variables::Key;
use crate::{Group, Refusal};

impl<'a> Emitter<'a> {
    /// Returns how a value that is a scalar in each chunk depends on the coordinates of the threads, at the start of a phase
    /// whose first block is `start`; `None` if the program does not keep the base of the value.
    pub(crate) fn form_at(&self, value: Value, start: Block) -> Option<&'a Form> {
        let (coordinates, function) = (self.coordinates?, self.kernel.function);
        let CtaClass::Affine(form) = coordinates.class_in(function, value, start) else {
            return None;
        };
        let is_integer = matches!(self.kind(value), Kind::B32 | Kind::B64);
        // In a loop, the base may be another number in each iteration.
        let uniformity = self.kernel.uniformity;
        let is_current = || coordinates.is_converged(start) || uniformity.loop_of(value).is_none();
        let mut known = form.coefficients.iter();
        (is_integer
            && form.is_unconditional()
            && known.all(|sum| self.can_compute(sum))
            && is_current())
        .then_some(form)
    }

    /// Returns whether code can compute a sum in every phase.
    fn can_compute(&self, sum: &Sum) -> bool {
        let mut factors = sum.terms().iter().flat_map(|term| &term.factors);
        factors.all(|factor| match factor {
            Factor::Register(register) => is_size(*register),
            Factor::Value(value) => {
                self.kernel.regions.is_rematerialised(*value)
                    && matches!(self.kind(*value), Kind::B32 | Kind::B64)
            }
            Factor::Base(_) | Factor::Extended(_) => false,
        })
    }

    /// Computes a value in the chunk from its base, for a phase whose first block is `start`.
    pub(crate) fn restore_from_base(
        &mut self,
        (value, form): (Value, &Form),
        start: Block,
    ) -> Result<(), Refusal> {
        let ty = self.source.dfg.ty(value);
        let bits = if self.chunk == self.first_chunk {
            let base = self.read(Key::Cta(value), ty);
            match self.moved_by_coordinates(form, ty, start)? {
                Some(moved) => self.add(base, moved),
                None => base,
            }
        } else {
            let first = self.scalar_of_first(value);
            self.moved_from_first_chunk(first, form, start)?
        };
        self.set_scalar(value, bits);
        Ok(())
    }

    /// Emits the arrival of a chunk at a barrier behind which the base of a value is needed.
    pub(crate) fn arrive_with_base(
        &mut self,
        (value, form): (Value, &Form),
    ) -> Result<(), Refusal> {
        let ty = self.source.dfg.ty(value);
        let here = self.block;
        let together = self.together.as_ref().map(|together| together.all);
        let bits = self.scalar(value);
        let base = match self.moved_by_coordinates(form, ty, here)? {
            Some(moved) => {
                let on = unsigned(ty);
                self.simple(Opcode::Sub, on, ty, &[bits, moved])
            }
            None => bits,
        };
        let base = if self.chunk == self.first_chunk || together == Some(self.mask) {
            base
        } else {
            // If no lane of the chunk runs, the chunk has no value.
            let runs = self.value(Op::Any, self.mask_type(), Data::Nothing, &[self.mask]);
            let other = self.read(Key::Out(value), ty);
            self.simple(Opcode::Selp, ty.kind().op_type(), ty, &[base, other, runs])
        };
        self.write(Key::Out(value), base);
        Ok(())
    }

    /// Returns the value in the chunk, given the value in the first of the chunks that run together.
    fn moved_from_first_chunk(
        &mut self,
        first: Value,
        form: &Form,
        start: Block,
    ) -> Result<Value, Refusal> {
        let group = self.kernel.group;
        let distances = group.offset_of(self.chunk, self.kernel.width);
        let mut value = first;
        for (distance, sum) in distances.into_iter().zip(&form.coefficients) {
            if let Some(sum) = sum.as_constant() {
                value = self.add_constant(value, sum.wrapping_mul(distance));
            } else if distance != 0 {
                let ty = self.out.ty(first);
                let sum = self.sum_of(sum, ty, start)?;
                let distance = self.constant(ty, distance as u64);
                let moved = self.product(sum, distance);
                value = self.add(value, moved);
            }
        }
        Ok(value)
    }

    /// Returns the terms of a form that depend on the coordinates of the chunk's first thread; `None` if there are none.
    fn moved_by_coordinates(
        &mut self,
        form: &Form,
        ty: Type,
        start: Block,
    ) -> Result<Option<Value>, Refusal> {
        let mut total = None;
        let is_row = matches!(self.kernel.group, Group::Rows(_));
        for (axis, sum) in form.coefficients.iter().enumerate() {
            if sum.is_zero() || is_row && axis != 1 {
                continue;
            }
            let at = self.coordinate(axis);
            let at = self.resized(at, ty);
            let moved = match sum.as_constant() {
                Some(1) => at,
                _ => {
                    let step = self.sum_of(sum, ty, start)?;
                    self.product(at, step)
                }
            };
            total = Some(match total {
                Some(total) => self.add(total, moved),
                None => moved,
            });
        }
        Ok(total)
    }

    /// Emits a sum of numbers that are equal for the CTA, as an integer of type `ty`.
    fn sum_of(&mut self, sum: &Sum, ty: Type, start: Block) -> Result<Value, Refusal> {
        let mut total: Option<Value> = None;
        for term in sum.terms() {
            let mut product = self.constant(ty, term.times as u64 & ones(ty));
            for factor in &term.factors {
                let factor = match factor {
                    Factor::Register(register) => {
                        let name = Refusal::Operation(register.name());
                        self.size(*register).ok_or(name)?
                    }
                    Factor::Value(value) => {
                        let (block, place) = (self.block, self.place);
                        self.rematerialise(*value, start, &mut FxHashSet::default())?;
                        (self.block, self.place) = (block, place);
                        self.scalar(*value)
                    }
                    Factor::Base(_) | Factor::Extended(_) => {
                        unreachable!("the sum can be computed in every phase")
                    }
                };
                let factor = self.resized(factor, ty);
                product = match self.out.constant(product) {
                    Some(1) => factor,
                    _ => self.product(product, factor),
                };
            }
            total = Some(match total {
                Some(total) => self.add(total, product),
                None => product,
            });
        }
        Ok(match total {
            Some(total) => total,
            None => self.constant(ty, 0),
        })
    }

    /// Returns an integer with the width of `ty`, zero-extended or truncated.
    pub(crate) fn resized(&mut self, bits: Value, ty: Type) -> Value {
        match (self.out.ty(bits).lane_bits(), ty.lane_bits()) {
            (32, 64) => self.convert(OpType::U64, OpType::U32, bits),
            (64, 32) => self.convert(OpType::U32, OpType::U64, bits),
            _ => bits,
        }
    }
}

/// Returns whether a special register contains a size of the grid or of its blocks, or the coordinates of the CTA.
fn is_size(register: SpecialReg) -> bool {
    use SpecialReg as R;
    matches!(
        register,
        R::NtidX | R::NtidY | R::NtidZ | R::NctaidX | R::NctaidY | R::NctaidZ
    ) || matches!(register, R::CtaidX | R::CtaidY | R::CtaidZ)
}
