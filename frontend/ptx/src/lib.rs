//! The syntax table: every instruction of PTX up to version 9.5, with its modifiers, types and operands, and the
//! version and target that introduced it.
//!
//! The table is text, split by instruction family into the files of `tables/`. The module
//! [`compile`](self) describes the notation. The lines of a head (the first word of an instruction)
//! are compiled when the head is first used.
//!
//! ptxas accepts most modifiers after the head in any order, but types must be in the right order. Therefore, the
//! matcher treats an instruction as a head, a list of types and a set of modifiers, of which only a few have a fixed
//! order. [`spell`] finds the forms that fit these three parts, and [`match_operands`] checks the operands against one
//! of the forms. [`Forms`] caches the results of [`spell`], because a module of a million instructions has only a few
//! hundred different spellings.
//!
//! The [`Action`] of a form states how the instruction is lowered: to one op with the same operands, by a [`Lowering`]
//! to other ops or control flow, to nothing because the instruction has no effect on results, or not at all because the
//! instruction is unsupported. A module with unsupported instructions still loads.
//!
//! Invariant: matching never panics and takes time linear in the number of operands.

mod compile;
mod describe;
mod error;
mod lowering;
mod operands;
mod pattern;
mod setter;
mod spelling;
mod table;
mod target;

pub use describe::TypeList;
pub use error::{FormError, FormErrorKind};
pub use lowering::Lowering;
pub use operands::{
    Nested, OperandShape, OperandShapes, Role, Roles, match_operands, register_fits,
};
pub use pattern::{Action, Allow, Count, Form, OperandPattern, Range, Shape, Space, TypeRule};
pub use setter::state_space;
pub use spelling::{Spelling, spell};
pub use table::{forms_of, heads, knows_modifier};
pub use target::{Requirement, Target, Variant, Version};

use rustc_hash::FxHashMap;
use std::sync::Arc;

/// An instruction that matches a form.
#[derive(Clone, Debug)]
pub struct Matched {
    /// All forms that the opcode and the modifiers of the instruction match, each with the
    /// modifiers that the instruction specifies.
    pub spelling: Arc<[Spelling]>,
    /// The index in `spelling` of the form that the operands match too.
    pub index: usize,
    /// The roles of the operands, in order.
    pub roles: Roles,
}

impl Matched {
    /// Returns the form that the operands match.
    pub fn get(&self) -> &Spelling {
        &self.spelling[self.index]
    }
}

/// A matcher for one module: the module's version and target, and a cache of the spellings seen so far.
#[derive(Debug)]
pub struct Forms {
    version: Version,
    target: Target,
    seen: FxHashMap<Box<str>, Result<Arc<[Spelling]>, FormError>>,
}

impl Forms {
    /// Creates a matcher for modules of this version and target.
    pub fn new(version: Version, target: Target) -> Forms {
        Forms {
            version,
            target,
            seen: FxHashMap::default(),
        }
    }

    /// Returns the forms that match the opcode and modifiers in `spelled`, such as `add.rn.f32`.
    ///
    /// # Errors
    ///
    /// If no form matches, returns the same error as [`spell`].
    pub fn spelled(&mut self, spelled: &str) -> Result<Arc<[Spelling]>, FormError> {
        if let Some(known) = self.seen.get(spelled) {
            return known.clone();
        }
        let mut words = spelled.split('.');
        let head = words.next().unwrap_or_default();
        let modifiers: Vec<&str> = words.collect();
        let result = spell(head, &modifiers, self.version, self.target).map(Arc::from);
        self.seen.insert(spelled.into(), result.clone());
        result
    }

    /// Matches an instruction.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`spell`], or the reason why the operands do not fit the closest form.
    pub fn instruction(
        &mut self,
        spelled: &str,
        operands: &OperandShapes,
    ) -> Result<Matched, FormError> {
        let spelling = self.spelled(spelled)?;
        fit(spelling, operands)
    }
}

/// Returns the first of the forms in `spelling` that the operands match.
///
/// # Errors
///
/// If the operands match none of the forms, returns the error of the closest form. This is the form with the most
/// matching operands before the first wrong operand.
pub fn fit(spelling: Arc<[Spelling]>, operands: &OperandShapes) -> Result<Matched, FormError> {
    let mut nearest: Option<FormError> = None;
    for (index, candidate) in spelling.iter().enumerate() {
        match match_operands(candidate, operands) {
            Ok(roles) => {
                return Ok(Matched {
                    spelling,
                    index,
                    roles,
                });
            }
            Err(error) => {
                if nearest.as_ref().is_none_or(|n| depth(&error) > depth(n)) {
                    nearest = Some(error);
                }
            }
        }
    }
    Err(nearest.unwrap_or_else(|| {
        FormError::new(FormErrorKind::UnknownOpcode, "no such instruction".into())
    }))
}

/// Returns the rank of an error, which is higher the more operands match before the wrong operand. Returns 0 for an
/// error that is not about one operand.
fn depth(error: &FormError) -> usize {
    match error.kind {
        FormErrorKind::Operand(at) | FormErrorKind::StateSpace(at) | FormErrorKind::Range(at) => {
            at + 1
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
