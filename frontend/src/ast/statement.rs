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
    /// `.pragma "...", ...;`, where the field contains the strings without their quotes.
    Pragma(List<Ident>),
}

/// An instruction: its guard, its opcode, its modifiers in the order of the source text, and its
/// operands.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Instruction {
    /// The first word of the instruction, such as `add` in `add.cc.u32` and `cp` in `cp.async.ca`.
    pub opcode: Name,
    /// Byte offset of the opcode in the source text. A guard, if present, is before this offset.
    pub opcode_start: u32,
    /// `@p` or `@!p`.
    pub guard: Option<Id<Guard>>,
    /// The words that follow the opcode after dots, such as `cc` and `u32` in `add.cc.u32`. A
    /// `.unified` that follows an address is stored as the last modifier.
    pub modifiers: List<Modifier>,
    /// The operands.
    pub operands: List<Operand>,
    /// The `.loc` directive that states the source position of this instruction.
    pub location: Option<Id<Location>>,
    /// The source range from the guard or the opcode to the last operand, without the semicolon.
    pub span: Span,
}

/// One modifier of an instruction; `name` is its text without the dot, such as `L2::cache_hint`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Modifier {
    /// The modifier's text without the dot.
    pub name: Name,
    /// The source range of the modifier, including the dot.
    pub span: Span,
}

/// The predicate `@p` or `@!p` before an instruction: the instruction has an effect only in threads
/// in which the predicate is true.
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
    /// The source range of the operand.
    pub span: Span,
}

/// The names of the components of a vector. PTX also accepts `r g b a` as synonyms.
pub const COMPONENTS: [&str; 4] = ["x", "y", "z", "w"];

/// An operator (`!` or `-`) that can precede a register operand.
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
    /// `name.selector`: a component of a vector (`%tid.x`, `v.w`), or the bytes of a register that
    /// a video instruction selects (`%r1.b0`, `%r1.h10`).
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
    /// An element of an array: `name[offset]`, `name[register]` or `name[register + offset]`.
    Element {
        /// The array.
        base: Name,
        /// The register in the brackets.
        register: Option<Name>,
        /// The constant in the brackets, which is a number of elements. It is 0 if the brackets
        /// contain no constant.
        offset: i64,
    },
    /// `[name + offset]`
    Memory {
        /// The register, variable or parameter from which the address is computed.
        base: Name,
        /// Bytes added, wrapping.
        offset: i64,
    },
    /// `[number]`
    MemoryAt(i64),
    /// `[a, b, ...]`: the operand of an instruction for textures, surfaces or tensors. The first
    /// part, always an [`OperandKind::Memory`], is the address. The other parts are names and
    /// vectors.
    MemoryTuple(List<Operand>),
    /// `{a, b, ...}`
    Vector(List<Operand>),
    /// Two operands that are joined by a bar: `a|b`.
    Pair(List<Operand>),
    /// A list of operands in parentheses, as in a `call`: `(a, b, ...)`.
    Group(List<Operand>),
}

/// The parts of a `call` instruction.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Call {
    /// The operands to which the call writes the returned values.
    pub returns: List<Operand>,
    /// The function that is called, or the register that contains the function's address.
    pub target: Operand,
    /// The arguments.
    pub arguments: List<Operand>,
    /// For an indirect call: the operand after the arguments, which names a prototype, a list of
    /// call targets or an array of function addresses.
    pub prototype: Option<Operand>,
}

impl Instruction {
    /// Returns the parts of a `call` instruction. The list in parentheses before the target
    /// contains the operands that receive the returned values, and the list in parentheses after
    /// the target contains the arguments. Returns `None` if the instruction has no target.
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

/// A directive `.branchtargets` or `.calltargets` with its label: a list of the labels or functions
/// to which an indirect branch or call can go.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Targets {
    /// The label that names the list.
    pub label: Ident,
    /// The branch targets or call targets, in order.
    pub targets: List<BranchTarget>,
    /// The whole directive.
    pub span: Span,
}

/// A label or function in a list of targets, or a range `name<n>` of several labels or functions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BranchTarget {
    /// The name of the label or function. For a range, the name is the part before `<`.
    pub name: Ident,
    /// `Some(n)` for a range: the labels or functions `name0` to `name(n-1)`.
    pub range: Option<u64>,
}

/// A directive `.callprototype` with its label: the signature of an indirect call's target.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Prototype {
    /// The label that names the prototype.
    pub label: Ident,
    /// Return parameters.
    pub returns: List<Variable>,
    /// Parameters.
    pub parameters: List<Variable>,
    /// The prototype's directives, such as `.noreturn` and `.abi_preserve`.
    pub directives: List<Directive>,
    /// The whole directive.
    pub span: Span,
}
