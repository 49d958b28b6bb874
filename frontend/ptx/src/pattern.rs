//! The compiled representation of a line of the syntax table: a [`Form`] with its modifier slots and operand patterns.
//!
//! Invariant: forms are never freed. Every `&'static str` in a form is a part of the table's text, a literal or a
//! leaked string. Ranges such as `<8..24/8>` expand to leaked strings.

use crate::lowering::Lowering;
use crate::target::{Requirement, Target, Version};
use margay_ops::mods::Mods;
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;

/// A form: one accepted combination of an instruction's modifiers, types and operands. A form is compiled from a line
/// of the syntax table.
#[derive(Debug)]
pub struct Form {
    /// The line of the table that declares the form.
    pub source: &'static str,
    /// The first word of the instruction.
    pub head: &'static str,
    /// Modifiers that must directly follow the head, in this order.
    pub(super) prefix: Vec<Slot>,
    /// Modifiers that an instruction can write in any order.
    pub(super) slots: Vec<Slot>,
    /// Types, which must be in this order. Other modifiers may stand between the types, but the
    /// prefix precedes all of them.
    pub(super) types: Vec<Slot>,
    /// Modifiers that are not types, and that must keep their order relative to each other.
    pub(super) ordered: Vec<Slot>,
    /// Operands in order.
    pub operands: Vec<OperandPattern>,
    /// The modifiers of the op that are the same for every instruction of this form.
    pub(super) base: Mods,
    /// The way in which instructions of this form are lowered.
    pub action: Action,
    /// The lowest PTX version and target that support the form.
    pub requirement: Requirement,
    /// If present, PTX no longer has the form for modules whose version is at least this version
    /// and whose target is at least this target.
    pub(super) until: Option<(Version, Target)>,
    /// Whether an instruction must have both a memory order and a scope, or neither.
    pub(super) scope_with_order: bool,
}

/// The way in which an accepted instruction is lowered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// The instruction becomes this op.
    Becomes(Opcode),
    /// The instruction becomes control flow, a call, several ops, or one op with other operands. The field selects the
    /// lowering function.
    Lowers(Lowering),
    /// No op is generated for the instruction, because the instruction does not affect the results
    /// of a program. Operands that the instruction writes, such as a cache policy, become 0.
    Nothing,
    /// The instruction is accepted but unsupported: the launch of a kernel that can reach the
    /// instruction fails. The field names the family of unsupported instructions.
    LeftOut(&'static str),
}

/// A position that accepts one modifier.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    pub(super) choices: Vec<Choice>,
    pub(super) required: bool,
}

/// One of the alternative modifiers of a slot.
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
    /// The properties of an operand pattern, most of which allow an additional kind of operand.
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
    /// A vector `{a, b, ...}` with this number of elements.
    Vector(Count),
    /// An address in brackets (`[address]`), which refers to this state space.
    Memory(Space),
    /// `[a, b, ...]`.
    Tuple(Vec<OperandPattern>),
    /// A label.
    Label,
    /// The name of a list of branch or call targets, or of a function prototype.
    List,
    /// A function, or a register that holds the address of a function.
    Callee,
    /// `(a, b, ...)`.
    Group,
}

/// The state space to which an address operand must refer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Space {
    /// The state space that the instruction's modifier specifies, or the generic space if there is no such modifier.
    OfModifier,
    /// Any state space.
    Any,
    /// This state space.
    Fixed(margay_ops::mods::StateSpace),
}

/// The number of elements of a vector operand: `scale * variables[0] * variables[1] / divisor`, but at least 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Count {
    pub(super) scale: u32,
    pub(super) variables: [Variable; 2],
    pub(super) divisor: u32,
    /// Whether a single element may be written without braces.
    pub(super) bare: bool,
    /// Whether vectors with fewer elements are accepted too.
    pub(super) or_fewer: bool,
}

/// A factor in a [`Count`], whose value is a number in a modifier of the instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Variable {
    /// The constant 1.
    One,
    /// The number in a vector modifier, such as 4 for `.v4`. The value is 1 if there is no such modifier.
    Vec,
    /// The number in a count modifier, such as 8 for `.x8`. The value is 1 if there is no such modifier.
    Num,
    /// The `m` of a shape modifier, such as 64 in `.m64n128k16`. In this example, `N` is 128 and
    /// `K` is 16.
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
    /// The value must be a multiple of this number.
    pub step: i64,
}

/// How the required type of an operand follows from the instruction's types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TypeRule {
    /// The instruction's type with this index, from 0.
    Same(u8),
    /// The instruction's type with this index, in a register of the same or a larger size.
    Wider(u8),
    /// The type that has twice the size of the instruction's type with this index.
    Doubled(u8),
    /// A fixed type.
    Fixed(OpType),
    /// An integer constant, or a register of an integer type with 32 or 64 bits, as for addresses and sizes.
    Integer,
    /// Any type.
    Any,
}

/// One operand of a form.
#[derive(Clone, PartialEq, Debug)]
pub struct OperandPattern {
    /// The operand's name in the syntax table.
    pub name: &'static str,
    /// How the operand is written.
    pub shape: Shape,
    /// How the operand's required type follows from the instruction's types.
    pub ty: TypeRule,
    /// The kinds of operand that are accepted, and other properties.
    pub allow: Allow,
    /// The accepted values, if the operand is a constant.
    pub range: Option<Range>,
    /// If set, the operand is present if and only if the instruction has this modifier.
    pub only_with: Option<&'static str>,
}

impl OperandPattern {
    /// Whether the instruction writes the operand.
    pub fn is_dest(&self) -> bool {
        self.allow.contains(Allow::DEST)
    }
}
