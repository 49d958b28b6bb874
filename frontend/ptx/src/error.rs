//! Why an instruction matches no form.

use crate::target::{Target, Version};
use smallvec::SmallVec;

/// Why an instruction is not PTX, or not PTX of this version and target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FormError {
    /// What is wrong, for a program.
    pub kind: FormErrorKind,
    /// What is wrong, for a person. Lower case, no full stop.
    pub message: String,
}

/// The kinds of mismatch. Indices count modifiers and operands from 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FormErrorKind {
    /// No instruction has that first word.
    UnknownOpcode,
    /// No instruction has this modifier.
    UnknownModifier(usize),
    /// The instruction does not take this modifier, here or in this company.
    IllegalModifier(usize),
    /// A type is missing.
    MissingType,
    /// A modifier other than a type is missing.
    MissingModifier,
    /// Too few or too many operands.
    OperandCount {
        /// The fewest accepted.
        least: usize,
        /// The most accepted.
        most: usize,
    },
    /// This operand has the wrong form or type.
    Operand(usize),
    /// This operand's variable lies in another state space.
    StateSpace(usize),
    /// This constant is out of range.
    Range(usize),
    /// The module's `.version` is too low.
    Version(Version),
    /// The module's `.target` lacks the instruction; one of these has it.
    Target(SmallVec<[Target; 2]>),
    /// The instruction was withdrawn for this version and target.
    Withdrawn,
}

impl FormError {
    pub(super) fn new(kind: FormErrorKind, message: String) -> FormError {
        FormError { kind, message }
    }
}

impl std::fmt::Display for FormError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for FormError {}
