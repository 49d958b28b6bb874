//! The chunk widths of a kernel, the back end that compiles its vector code, and the compile budget.

use std::time::Duration;

use super::{CompiledKernel, Compiler, wide};
use crate::fallback::Fallback;
use crate::slices::{self, Widths};
use crate::specialisation::Specialisation;

impl CompiledKernel {
    /// Returns the chunk widths of the kernel.
    pub fn widths(&self, compiler: &Compiler) -> Widths {
        self.chosen_widths(compiler).0
    }

    /// Returns the chunk widths of the kernel if they are known without much work: the vectoriser must translate a kernel to
    /// find the widths for the wide back end.
    pub fn known_widths(&self, compiler: &Compiler) -> Option<Widths> {
        match self.widths.get() {
            Some(&(widths, _)) => Some(widths),
            None if self.may_be_wide(compiler) => self.known_wide_widths(compiler),
            None => Some(self.widths(compiler)),
        }
    }

    /// Returns the chunk widths, and whether the wide back end has chosen them.
    pub(super) fn chosen_widths(&self, compiler: &Compiler) -> (Widths, bool) {
        *self.widths.get_or_init(|| {
            if self.may_be_wide(compiler)
                && let Some(widths) = self.wide_widths(compiler)
            {
                return (widths, true);
            }
            if compiler.wide.is_some() && compiler.width.is_none() && !self.is_observed() {
                let why = match wide::is_large(&self.function) {
                    true => Fallback::WideBudget,
                    false => Fallback::WideRefused,
                };
                self.fallbacks.refuse(why, &wide::refusal(self));
            }
            let widths = slices::widths(
                &self.function,
                &self.regions,
                match self.request.selection.whole_warps {
                    true => Some(32),
                    false => compiler.width,
                },
                &self.fallbacks,
            );
            (widths, false)
        })
    }

    /// Returns the number of lanes per chunk of a specialisation, which is 1 for scalar code.
    pub(super) fn width(&self, compiler: &Compiler, specialisation: Specialisation) -> u32 {
        let widths = self.widths(compiler);
        match specialisation {
            specialisation if specialisation.is_single() => 1,
            specialisation if specialisation.has(Specialisation::WIDE) => widths.wide,
            specialisation if specialisation.has(Specialisation::TILED) => 16,
            _ => widths.narrow,
        }
    }

    /// Returns the compile budget: how long the kernel should run as scalar code before vector code is compiled. Until
    /// [`CompiledKernel::widths`] has been called, this is an estimate: the vectoriser may still refuse the kernel.
    pub fn compile_budget(&self, compiler: &Compiler) -> Duration {
        if compiler.width.is_some() || self.request.selection.whole_warps {
            return Duration::ZERO;
        }
        // Whether there is code for one shape of blocks is known only with the widths.
        let is_estimated = self.widths.get().is_none() && !compiler.prefers_exact;
        if is_estimated && self.may_be_wide(compiler) {
            return wide::compile_budget(&self.function);
        }
        match self.chosen_widths(compiler) {
            (widths, true) if widths.whole > 0 && compiler.prefers_exact => Duration::ZERO,
            (_, true) => wide::compile_budget(&self.function),
            (widths, false) => slices::compile_budget(&self.function, &self.regions, widths.wide),
        }
    }

    /// Returns the specialisation that `margay dis` displays: the specialisation for the block
    /// shape that the kernel requires, or for a block of one row if the kernel requires no shape.
    pub(super) fn shown(&self, compiler: &Compiler) -> Specialisation {
        let shape = self.function.kernel.as_ref().and_then(|k| k.reqntid);
        let widths = self.widths(compiler);
        Specialisation::of(shape.unwrap_or([widths.wide, 1, 1]), widths).trusted(compiler.isolated)
    }
}
