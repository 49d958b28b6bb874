//! Statements of a function body: instructions, operands, labels, scopes.

use super::{Constant, Directive, Id, Ident, List, Location, Module, Name, Variable};
use crate::source::Span;

/// One statement of a function body. A body is a flat list in which each brace is a separate statement.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Statement {
    /// An instruction.
    Instruction(Instruction),
    /// `name:`
    Label(Ident),
    /// One declared variable, register or register range.
    Variable(Id<Variable>),
    /// `{`
    ScopeBegin(Span),
    /// `}`
    ScopeEnd(Span),
    /// `name: .branchtargets ...;`
    BranchTargets(Id<Targets>),
    /// `name: .calltargets ...;`
    CallTargets(Id<Targets>),
    /// `name: .callprototype ...;`
    CallPrototype(Id<Prototype>),
    /// `.pragma "...", ...;`, with the strings without their quotes.
    Pragma(List<Ident>),
}

/// An instruction: guard, opcode head, modifiers in the order written, operands.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Instruction {
    /// The first word: `add` of `add.cc.u32`, `cp` of `cp.async.ca`.
    pub opcode: Name,
    /// Byte offset of the opcode in the source text. A guard, if present, is before this offset.
    pub opcode_start: u32,
    /// `@p` or `@!p`.
    pub guard: Option<Id<Guard>>,
    /// The words after dots, such as `cc` and `u32`. A `.unified` that follows an address is stored as the last
    /// modifier.
    pub modifiers: List<Modifier>,
    /// The operands.
    pub operands: List<Operand>,
    /// The `.loc` that applies to this instruction.
    pub location: Option<Id<Location>>,
    /// The source range from the guard or the opcode to the last operand, without the semicolon.
    pub span: Span,
}

/// One modifier of an instruction; `name` is its text without the dot, such as `L2::cache_hint`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Modifier {
    /// The text without the dot.
    pub name: Name,
    /// The position, including the dot.
    pub span: Span,
}

/// `@p` or `@!p` before an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Guard {
    /// The predicate register.
    pub register: Ident,
    /// True for `@!p`.
    pub negated: bool,
}

/// An operand of an instruction.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Operand {
    /// The kind of operand.
    pub kind: OperandKind,
    /// The position in the source text.
    pub span: Span,
}

/// The names of the components of a vector. PTX also accepts `r g b a` as synonyms.
pub const COMPONENTS: [&str; 4] = ["x", "y", "z", "w"];

/// An operator that can precede a register operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Prefix {
    /// `!`
    Not,
    /// `-`
    Minus,
}

/// The kinds of operand.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum OperandKind {
    /// A register, special register, variable, parameter, label or function.
    Name(Name),
    /// `name.selector`: a component (`%tid.x`, `v.w`) or a video selector (`%r1.b0`, `%r1.h10`).
    Component {
        /// The part before the dot.
        base: Name,
        /// The part after the dot.
        selector: Name,
    },
    /// `!name`, `-name`, `-name.selector`.
    Prefixed {
        /// The operator.
        prefix: Prefix,
        /// The register.
        base: Name,
        /// The part after the dot.
        selector: Option<Name>,
    },
    /// `_`
    Sink,
    /// A number.
    Constant(Constant),
    /// `name + offset` without brackets: the address of a variable plus an offset.
    Offset {
        /// The variable.
        base: Name,
        /// Bytes added, wrapping.
        offset: i64,
    },
    /// `name[offset]`, `name[register]` or `name[register + offset]`.
    Element {
        /// The array.
        base: Name,
        /// The register in the brackets.
        register: Option<Name>,
        /// The constant in the brackets, in elements.
        offset: i64,
    },
    /// `[name + offset]`
    Memory {
        /// A register, variable or parameter.
        base: Name,
        /// Bytes added, wrapping.
        offset: i64,
    },
    /// `[number]`
    MemoryAt(i64),
    /// `[a, b, ...]` of textures, surfaces and tensors. The first member is the address, always an
    /// [`OperandKind::Memory`]. The other members are names and vectors.
    MemoryTuple(List<Operand>),
    /// `{a, b, ...}`
    Vector(List<Operand>),
    /// `a|b`: always two operands.
    Pair(List<Operand>),
    /// `(a, b, ...)` in a call.
    Group(List<Operand>),
}

/// The parts of a `call`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Call {
    /// The operands to which the call writes the returned values.
    pub returns: List<Operand>,
    /// The function that is called, or the register that holds the function's address.
    pub target: Operand,
    /// The arguments.
    pub arguments: List<Operand>,
    /// The prototype, the list of targets or the array of function addresses of an indirect call.
    pub prototype: Option<Operand>,
}

impl Instruction {
    /// Returns the parts of a `call`. The list in parentheses before the target contains the operands that receive the
    /// returned values, and the list in parentheses after the target contains the arguments. Returns `None` if the
    /// instruction has no target.
    pub fn call(&self, module: &Module) -> Option<Call> {
        let mut rest = &module[self.operands];
        let returns = take_group(&mut rest);
        let (&target, tail) = rest.split_first()?;
        rest = tail;
        let arguments = take_group(&mut rest);
        Some(Call {
            returns,
            target,
            arguments,
            prototype: rest.first().copied(),
        })
    }
}

/// If the first operand is a parenthesised list, removes this list from `rest` and returns its operands. Otherwise,
/// returns the empty list.
fn take_group(rest: &mut &[Operand]) -> List<Operand> {
    if let Some((first, tail)) = rest.split_first()
        && let OperandKind::Group(list) = first.kind
    {
        *rest = tail;
        return list;
    }
    List::EMPTY
}

/// `.branchtargets` or `.calltargets` with its label.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Targets {
    /// The label that names the list.
    pub label: Ident,
    /// The targets in order.
    pub targets: List<BranchTarget>,
    /// The whole directive.
    pub span: Span,
}

/// A label or function in a list of targets, or a range `name<n>` of them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BranchTarget {
    /// The name, or the part before `<`.
    pub name: Ident,
    /// `Some(n)` means the range `name0` to `name(n-1)`.
    pub range: Option<u64>,
}

/// `.callprototype` with its label.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Prototype {
    /// The label that names the prototype.
    pub label: Ident,
    /// Return parameters.
    pub returns: List<Variable>,
    /// Parameters.
    pub parameters: List<Variable>,
    /// Directives such as `.noreturn` and `.abi_preserve`.
    pub directives: List<Directive>,
    /// The whole directive.
    pub span: Span,
}
