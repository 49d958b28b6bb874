//! Errors for instructions that match no form.

use crate::target::{Target, Version};
use smallvec::SmallVec;

/// The reason why an instruction is not valid PTX, or not valid for the module's version and target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FormError {
    /// The kind of the error.
    pub kind: FormErrorKind,
    /// The text of the message for the user, which begins with a lower-case letter and has no full stop.
    pub message: String,
}

/// The reasons why an instruction matches no form. The number in a variant such as `Operand(1)` is the index of the
/// modifier or operand, from 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FormErrorKind {
    /// No instruction of PTX has this head (the first word of the instruction).
    UnknownOpcode,
    /// No instruction has this modifier.
    UnknownModifier(usize),
    /// The instruction cannot have this modifier at this position, or cannot have it together with
    /// its other modifiers.
    IllegalModifier(usize),
    /// The instruction has fewer types than the form requires.
    MissingType,
    /// The instruction lacks a required modifier that is not a type.
    MissingModifier,
    /// The instruction has too few or too many operands.
    OperandCount {
        /// The smallest accepted number of operands.
        least: usize,
        /// The largest accepted number of operands.
        most: usize,
    },
    /// The operand with this index has the wrong shape or type.
    Operand(usize),
    /// The operand with this index is a variable that is not in the state space of the instruction.
    StateSpace(usize),
    /// The operand with this index is a constant outside the range that the instruction accepts, or not a multiple of
    /// the required number.
    Range(usize),
    /// The module's `.version` is too low. The field contains the lowest version that supports the first form of the
    /// table that matches the instruction.
    Version(Version),
    /// The instruction does not exist on the module's `.target`. The field contains the lowest targets that the first
    /// matching form or one of its modifiers requires.
    Target(SmallVec<[Target; 2]>),
    /// PTX has removed the instruction for the module's version and target.
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
