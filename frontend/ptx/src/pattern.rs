//! What a line of the syntax table says, compiled: [`Form`], its modifier slots and its operands.
//!
//! Invariant: forms live as long as the process; every `&'static str` in them is a piece of the
//! table's text.

use crate::lowering::Lowering;
use crate::target::{Requirement, Target, Version};
use margay_ops::mods::Mods;
use margay_ops::ops::Opcode;
use margay_ops::types::OpType;

/// One accepted shape of an instruction: a line of the syntax table.
#[derive(Debug)]
pub struct Form {
    /// The line that declares it.
    pub source: &'static str,
    /// First word of the instruction.
    pub head: &'static str,
    /// Modifiers that stand right behind the head, in this order.
    pub(super) prefix: Vec<Slot>,
    /// Modifiers in any order.
    pub(super) slots: Vec<Slot>,
    /// Types in their order, anywhere behind the prefix.
    pub(super) types: Vec<Slot>,
    /// Other modifiers that keep their order among themselves.
    pub(super) ordered: Vec<Slot>,
    /// Operands in order.
    pub operands: Vec<OperandPattern>,
    /// Modifiers that the line itself sets.
    pub(super) base: Mods,
    /// What it becomes.
    pub action: Action,
    /// What it needs of the module.
    pub requirement: Requirement,
    /// From this version and target on it is no longer accepted.
    pub(super) until: Option<(Version, Target)>,
    /// Memory order and scope come together or not at all.
    pub(super) scope_with_order: bool,
}

/// What an accepted instruction becomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// A row of the op table.
    Becomes(Opcode),
    /// Control flow, a call, or several operations.
    Lowers(Lowering),
    /// Nothing to do: a hint without an effect on results.
    Nothing,
    /// Accepted, but running it is an error that names the instruction and this family.
    LeftOut(&'static str),
}

/// A place for one modifier.
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
    /// What an operand may or must be, beyond its shape and type.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Allow: u16 {
        /// Written by the instruction.
        const DEST = 1;
        /// `_` may stand in its place.
        const SINK = 1 << 1;
        /// A register.
        const REGISTER = 1 << 2;
        /// A constant.
        const IMMEDIATE = 1 << 3;
        /// `!p`.
        const NOT = 1 << 4;
        /// `-a`.
        const MINUS = 1 << 5;
        /// `a.b0`, `a.h10`: video selectors.
        const SELECTOR = 1 << 6;
        /// A special register.
        const SPECIAL = 1 << 7;
        /// The address of a variable or function.
        const SYMBOL = 1 << 8;
        /// May be missing.
        const OPTIONAL = 1 << 9;
        /// A second destination `|p` may follow.
        const MAY_PAIR = 1 << 10;
        /// A second destination `|p` must follow.
        const MUST_PAIR = 1 << 11;
        /// The address of a variable in the instruction's state space.
        const SYMBOL_IN_SPACE = 1 << 12;
    }
}

/// How an operand is written.
#[derive(Clone, PartialEq, Debug)]
pub enum Shape {
    /// A register, constant or name.
    Scalar,
    /// `{a, b, ...}` with so many elements.
    Vector(Count),
    /// `[address]`; the space is `None` when the instruction's space modifier gives it.
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

/// The state space that an address operand must lie in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Space {
    /// That of the instruction's modifier (generic without one).
    OfModifier,
    /// Any, unchecked.
    Any,
    /// A certain one.
    Fixed(margay_ops::mods::StateSpace),
}

/// A number of vector elements: `scale * variables / divisor`, at least 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Count {
    pub(super) scale: u32,
    pub(super) variables: [Variable; 2],
    pub(super) divisor: u32,
    /// A single element may be written without braces.
    pub(super) bare: bool,
    /// Fewer elements than that are accepted.
    pub(super) or_fewer: bool,
}

/// A number that a modifier gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Variable {
    /// The constant 1.
    One,
    /// `.v4` is 4; 1 without a vector modifier.
    Vec,
    /// `.x8` is 8.
    Num,
    /// 64, 128, 16 of `.m64n128k16`.
    M,
    N,
    K,
}

/// The values that a constant operand may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// The least.
    pub low: i64,
    /// The greatest.
    pub high: i64,
    /// Every value is a multiple of this.
    pub step: i64,
}

/// How an operand's type follows from the instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TypeRule {
    /// The instruction's type at this position.
    Same(u8),
    /// That type, in a register of the same or a larger size.
    Wider(u8),
    /// Twice the size of that type.
    Doubled(u8),
    /// A fixed type.
    Fixed(OpType),
    /// Any integer register or constant (addresses, sizes).
    Integer,
    /// Unchecked.
    Any,
}

/// One operand of a form.
#[derive(Clone, PartialEq, Debug)]
pub struct OperandPattern {
    /// The name it has in the table.
    pub name: &'static str,
    /// How it is written.
    pub shape: Shape,
    /// Its type.
    pub ty: TypeRule,
    /// What is accepted.
    pub allow: Allow,
    /// What a constant may be.
    pub range: Option<Range>,
    /// Present exactly when the instruction has this modifier.
    pub only_with: Option<&'static str>,
}

impl OperandPattern {
    /// Whether the instruction writes it.
    pub fn is_dest(&self) -> bool {
        self.allow.contains(Allow::DEST)
    }
}
