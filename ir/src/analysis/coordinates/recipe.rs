//! Finds the values that code can compute again for every thread of a CTA from CTA-uniform numbers.
//!
//! If such a value is live across a sync point, code does not need to store it for each thread. The value is equal for
//! the CTA, or affine, or a few cheap instructions compute it from such values.

use smallvec::SmallVec;

use super::form::Form;
use super::sum::{Factor, Sum};
use super::{Coordinates, CtaClass, integer_bits};
use crate::entity::{Block, Inst, Value};
use crate::function::Function;
use margay_ops::ops::Opcode;
use margay_ops::types::Type;

/// Maximum number of instructions that compute a value again for each thread.
const MAX_STEPS: usize = 4;

/// How code computes a value again for every thread of a CTA.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recipe<'a> {
    /// The class of the value.
    pub class: CtaClass<'a>,
    /// The instructions that compute the value for each thread, in order. Their operands are results of earlier steps,
    /// or affine, or equal for all threads of the CTA, or rematerialised
    /// ([`Regions::is_rematerialised`](crate::analysis::Regions::is_rematerialised)). The list is empty if the value
    /// itself is of one of these kinds.
    pub steps: SmallVec<[Inst; MAX_STEPS]>,
    /// The CTA-uniform numbers that the code needs, sorted: those that forms and their conditions read, and values that
    /// are equal for all threads of the CTA. Numbers that code can compute anywhere, such as constants, kernel
    /// parameters and special registers, are not in the list.
    pub needs: SmallVec<[Factor; 4]>,
}

impl Coordinates {
    /// Returns how code computes `value` again at the start of `block`, for all threads of the CTA that have reached
    /// the block the same number of times; `None` if the value cannot be computed again, or not cheaply. The definition
    /// of the value must dominate the block. For a value that is live across a sync point, `block` is the block where
    /// lanes resume ([`ResumePoint::block`](crate::analysis::regions::ResumePoint)).
    ///
    /// The needed numbers are equal for all these threads, so one slot for each CTA is enough to keep them.
    pub fn recomputable(
        &self,
        function: &Function,
        value: Value,
        block: Block,
    ) -> Option<Recipe<'_>> {
        let search = Search {
            coordinates: self,
            function,
            block,
        };
        let mut recipe = Recipe {
            class: self.class_in(function, value, block),
            steps: SmallVec::new(),
            needs: SmallVec::new(),
        };
        search.value(value, &mut recipe)?;
        recipe.needs.sort_unstable();
        recipe.needs.dedup();
        // In a loop, a number may change from iteration to iteration. It is the same for the threads only if they are in
        // the same iteration.
        let is_constant = |need: &Factor| match need {
            Factor::Value(value) | Factor::Base(value) => {
                let home = self.control.home(*value);
                home.is_some_and(|home| self.control.loops().innermost(home).is_none())
            }
            Factor::Register(_) | Factor::Extended(_) => true,
        };
        let available = self.is_converged(block) || recipe.needs.iter().all(is_constant);
        available.then_some(recipe)
    }
}

/// The search for the instructions and numbers from which code computes a value at the start of a block.
struct Search<'a> {
    coordinates: &'a Coordinates,
    function: &'a Function,
    block: Block,
}

impl Search<'_> {
    /// Adds what computes `value` to a recipe; `None` if the value cannot be computed again.
    fn value(&self, value: Value, recipe: &mut Recipe<'_>) -> Option<()> {
        let this = self.coordinates;
        if this.leaves_apart(self.function, value, self.block) {
            return None;
        }
        let limited = match this.class(value) {
            CtaClass::Launch | CtaClass::Cta => {
                self.need(Factor::Value(value), recipe);
                return Some(());
            }
            CtaClass::Affine(form) if !form.is_limited() => {
                self.needs_of(form, recipe);
                return Some(());
            }
            CtaClass::Affine(form) => Some(form),
            CtaClass::Varying => None,
        };
        if this.rematerialised[value] {
            return Some(());
        }
        // The conditions of a minimum or maximum hold only in some CTAs, but its computation is always correct.
        let mut computed = recipe.clone();
        match (self.step(value, &mut computed), limited) {
            (Some(()), _) => *recipe = computed,
            (None, Some(form)) => self.needs_of(form, recipe),
            (None, None) => return None,
        }
        Some(())
    }

    fn step(&self, value: Value, recipe: &mut Recipe<'_>) -> Option<()> {
        let inst = self.function.dfg.def_inst(value)?;
        if recipe.steps.contains(&inst) {
            return Some(());
        }
        is_cheap(self.function, inst).then_some(())?;
        for &arg in self.function.dfg.args(inst) {
            self.value(arg, recipe)?;
        }
        recipe.steps.push(inst);
        (recipe.steps.len() <= MAX_STEPS).then_some(())
    }

    fn need(&self, factor: Factor, recipe: &mut Recipe<'_>) {
        let anywhere = match &factor {
            Factor::Value(value) => self.coordinates.rematerialised[*value],
            Factor::Base(_) => false,
            Factor::Register(_) | Factor::Extended(_) => true,
        };
        if !anywhere {
            recipe.needs.push(factor);
        }
    }

    fn needs_of(&self, form: &Form, recipe: &mut Recipe<'_>) {
        let mut sum = |sum: &Sum| sum.each_leaf(&mut |leaf| self.need(leaf.clone(), recipe));
        form.each_sum(&mut sum);
        for condition in &form.conditions {
            for value in [Some(condition.value), condition.bound()]
                .into_iter()
                .flatten()
            {
                if let Some(form) = self.coordinates.form(self.function, value) {
                    form.each_sum(&mut sum);
                }
            }
        }
    }
}

/// Returns whether an instruction is an integer operation that takes few native instructions for a vector of lanes.
fn is_cheap(function: &Function, inst: Inst) -> bool {
    use Opcode as O;
    let dfg = &function.dfg;
    let data = &dfg.insts[inst];
    let cheap = matches!(
        data.opcode,
        O::Add
            | O::Sub
            | O::Mul
            | O::Mad
            | O::Abs
            | O::Neg
            | O::Min
            | O::Max
            | O::Setp
            | O::Selp
            | O::And
            | O::Or
            | O::Xor
            | O::Not
            | O::Lop3
            | O::Shl
            | O::Shr
            | O::Cvt
            | O::Bitcast
    );
    let is_integer = |&value: &Value| {
        let ty = dfg.ty(value);
        integer_bits(function, value).is_some() || ty == Type::PRED
    };
    let values = dfg.args(inst).iter().chain(dfg.results(inst));
    cheap && !data.ty.is_float() && !data.src.is_float() && values.into_iter().all(is_integer)
}
