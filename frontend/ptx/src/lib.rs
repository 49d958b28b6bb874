//! The syntax table: every instruction of PTX up to version 9.5, with its modifiers, types,
//! operands, and the version and target that introduced it.
//!
//! The table is text ([`compile`](self) describes the notation), split by family in `tables/`, and
//! compiled at first use, head by head. ptxas takes modifiers behind the head in nearly any order; only types keep
//! theirs. So an instruction is a head, a multiset of modifiers and a list of types: [`spell`] finds
//! the forms so spelled, [`match_operands`] the one whose operands fit, and [`Forms`] remembers
//! spellings, because a module of a million instructions has a few hundred.
//!
//! A form names the row of the op table that the instruction becomes ([`Action::Becomes`]) or says
//! why it becomes none; instructions of the latter kind still load.
//!
//! Invariant: matching never panics and is linear in the number of operands, whatever they are.

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
    /// The form and the modifiers chosen.
    pub spelling: Arc<[Spelling]>,
    /// Which of the spellings.
    pub index: usize,
    /// The operands' parts, in order.
    pub roles: Roles,
}

impl Matched {
    /// The spelling that the operands fit.
    pub fn get(&self) -> &Spelling {
        &self.spelling[self.index]
    }
}

/// A matcher for one module: its version, its target, and the spellings seen so far.
#[derive(Debug)]
pub struct Forms {
    version: Version,
    target: Target,
    seen: FxHashMap<Box<str>, Result<Arc<[Spelling]>, FormError>>,
}

impl Forms {
    /// A matcher for modules of this version and target.
    pub fn new(version: Version, target: Target) -> Forms {
        Forms {
            version,
            target,
            seen: FxHashMap::default(),
        }
    }

    /// The forms spelled `spelled`, such as `add.rn.f32`.
    ///
    /// # Errors
    ///
    /// Those of [`spell`].
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
    /// Those of [`spell`], or why the operands do not fit the nearest form.
    pub fn instruction(
        &mut self,
        spelled: &str,
        operands: &OperandShapes,
    ) -> Result<Matched, FormError> {
        let spelling = self.spelled(spelled)?;
        fit(spelling, operands)
    }
}

/// The first of the spellings that the operands fit.
///
/// # Errors
///
/// Why they do not fit the nearest one.
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

/// How many operands were right.
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
