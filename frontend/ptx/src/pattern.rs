//! A compiled line of the syntax table: [`Form`], its modifier slots and its operands.
//!
//! Invariant: forms live as long as the process. Every `&'static str` in a form is a piece of the table's text, or one
//! of the strings to which a range such as `<8..24/8>` expands.

use crate::lowering::Lowering;
use crate::target::{Requirement, Target, Version};
use margay_ops::mods::Mods;
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;

/// One accepted shape of an instruction: a line of the syntax table.
#[derive(Debug)]
pub struct Form {
    /// The line of the table that declares the form.
    pub source: &'static str,
    /// The first word of the instruction.
    pub head: &'static str,
    /// Modifiers directly after the head, in this order.
    pub(super) prefix: Vec<Slot>,
    /// Modifiers in any order.
    pub(super) slots: Vec<Slot>,
    /// Types in their order, anywhere after the prefix.
    pub(super) types: Vec<Slot>,
    /// Other modifiers that keep their order relative to each other.
    pub(super) ordered: Vec<Slot>,
    /// Operands in order.
    pub operands: Vec<OperandPattern>,
    /// Modifiers that the line itself sets.
    pub(super) base: Mods,
    /// What the instruction becomes.
    pub action: Action,
    /// The version and target that the form needs.
    pub requirement: Requirement,
    /// The version and target from which on the form is no longer accepted.
    pub(super) until: Option<(Version, Target)>,
    /// Whether memory order and scope must be given together or not at all.
    pub(super) scope_with_order: bool,
}

/// What an accepted instruction becomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// A row of the op table.
    Becomes(Opcode),
    /// Control flow, a call, or several operations.
    Lowers(Lowering),
    /// No operation: the instruction is a hint and does not affect results.
    Nothing,
    /// Accepted but unsupported: the launch of a kernel that can reach the instruction is an error. The field names the
    /// family of instructions.
    LeftOut(&'static str),
}

/// A position that accepts one modifier.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    pub(super) choices: Vec<Choice>,
    pub(super) required: bool,
}

/// One modifier of a slot.
#[derive(Debug, Clone)]
pub(super) struct Choice {
    pub(super) text: &'static str,
    pub(super) sets: Mods,
    pub(super) requirement: Option<Requirement>,
}

impl Slot {
    pub(super) fn find(&self, text: &str) -> Option<&Choice> {
        self.choices.iter().find(|choice| choice.text == text)
    }
}

bitflags::bitflags! {
    /// The operands that a pattern accepts, beyond its shape and type.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Allow: u16 {
        /// The instruction writes the operand.
        const DEST = 1;
        /// The sink `_` is accepted.
        const SINK = 1 << 1;
        /// A register is accepted.
        const REGISTER = 1 << 2;
        /// A constant is accepted.
        const IMMEDIATE = 1 << 3;
        /// `!p` is accepted.
        const NOT = 1 << 4;
        /// `-a` is accepted.
        const MINUS = 1 << 5;
        /// Video selectors such as `a.b0` and `a.h10` are accepted.
        const SELECTOR = 1 << 6;
        /// A special register is accepted.
        const SPECIAL = 1 << 7;
        /// The address of a variable or function is accepted.
        const SYMBOL = 1 << 8;
        /// The operand is optional.
        const OPTIONAL = 1 << 9;
        /// A second destination `|p` may follow.
        const MAY_PAIR = 1 << 10;
        /// A second destination `|p` must follow.
        const MUST_PAIR = 1 << 11;
        /// The address of a variable in the instruction's state space is accepted.
        const SYMBOL_IN_SPACE = 1 << 12;
    }
}

/// How an operand is written.
#[derive(Clone, PartialEq, Debug)]
pub enum Shape {
    /// A register, constant or name.
    Scalar,
    /// `{a, b, ...}` with this number of elements.
    Vector(Count),
    /// `[address]` in this state space.
    Memory(Space),
    /// `[a, b, ...]`.
    Tuple(Vec<OperandPattern>),
    /// A label.
    Label,
    /// A list of targets or a prototype.
    List,
    /// A function or a register that holds its address.
    Callee,
    /// `(a, b, ...)`.
    Group,
}

/// The state space that an address operand must be in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Space {
    /// The space of the instruction's modifier; generic without a modifier.
    OfModifier,
    /// Any space; not checked.
    Any,
    /// This space.
    Fixed(margay_ops::mods::StateSpace),
}

/// A number of vector elements: `scale * variables / divisor`, but at least 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Count {
    pub(super) scale: u32,
    pub(super) variables: [Variable; 2],
    pub(super) divisor: u32,
    /// Whether a single element may be written without braces.
    pub(super) bare: bool,
    /// Whether fewer elements are accepted.
    pub(super) or_fewer: bool,
}

/// A number that appears in a modifier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Variable {
    /// The constant 1.
    One,
    /// 4 for `.v4`; 1 without a vector modifier.
    Vec,
    /// 8 for `.x8`; 1 without such a modifier.
    Num,
    /// 64 for `.m64n128k16`; `N` is 128 and `K` is 16.
    M,
    N,
    K,
}

/// The values that a constant operand may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// The smallest value.
    pub low: i64,
    /// The largest value.
    pub high: i64,
    /// Every value must be a multiple of this number.
    pub step: i64,
}

/// How the type of an operand follows from the instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TypeRule {
    /// The instruction's type at this position.
    Same(u8),
    /// The instruction's type at this position, in a register of the same or a larger size.
    Wider(u8),
    /// The type of twice the size of the instruction's type at this position.
    Doubled(u8),
    /// A fixed type.
    Fixed(OpType),
    /// Any integer register or constant (addresses, sizes).
    Integer,
    /// Any type; not checked.
    Any,
}

/// One operand of a form.
#[derive(Clone, PartialEq, Debug)]
pub struct OperandPattern {
    /// The operand's name in the table.
    pub name: &'static str,
    /// How the operand is written.
    pub shape: Shape,
    /// How its type follows from the instruction.
    pub ty: TypeRule,
    /// The kinds of operand that are accepted.
    pub allow: Allow,
    /// The accepted values of a constant.
    pub range: Option<Range>,
    /// The operand is present exactly if the instruction has this modifier.
    pub only_with: Option<&'static str>,
}

impl OperandPattern {
    /// Whether the instruction writes the operand.
    pub fn is_dest(&self) -> bool {
        self.allow.contains(Allow::DEST)
    }
}
