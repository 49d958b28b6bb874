//! Declarations: variables, functions and what may be said about them.

use super::{Constant, Id, Ident, List, Name, ScalarType, StateSpace, Statement, VectorSize};
use crate::source::Span;

/// Who may see a declaration.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Linkage {
    /// This module alone.
    #[default]
    Internal,
    /// `.extern`: defined elsewhere.
    Extern,
    /// `.visible`: other modules too.
    Visible,
    /// `.weak`: other modules too, gives way to another definition.
    Weak,
    /// `.common`: several modules may define it, the largest wins.
    Common,
}

/// The length of one array dimension; `None` for `[]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dimension {
    /// Number of elements.
    pub length: Option<u64>,
    /// The brackets and what is in them.
    pub span: Span,
}

/// `.ptr`, with the space that a kernel's pointer parameter points into and its alignment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pointer {
    /// `.const`, `.global`, `.local` or `.shared`; generic if not given.
    pub space: Option<StateSpace>,
    /// Alignment of what it points to.
    pub align: Option<u64>,
}

/// One of `.attribute(...)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attribute {
    /// `.managed`
    Managed,
    /// `.unified(uuid1, uuid2)`
    Unified(u64, u64),
}

/// A variable, a register (or a range of them) or a parameter. A declaration of several names makes
/// one of these for each.
#[derive(Clone, PartialEq, Debug)]
pub struct Variable {
    /// Its name; for a range the part before `<`. `_` for an unnamed prototype parameter.
    pub name: Ident,
    /// Who may see it.
    pub linkage: Linkage,
    /// Where it lives.
    pub space: StateSpace,
    /// The bank in `.const[bank]`.
    pub bank: Option<u64>,
    /// Its element type.
    pub scalar: ScalarType,
    /// Its vector size.
    pub vector: VectorSize,
    /// `.align`, in bytes.
    pub align: Option<u64>,
    /// `Some(n)` for `name<n>`: the registers `name0` to `name(n-1)`.
    pub range: Option<u64>,
    /// Array dimensions, outermost first.
    pub dimensions: List<Dimension>,
    /// `.ptr` of a kernel parameter.
    pub pointer: Option<Pointer>,
    /// `.attribute(...)`.
    pub attributes: List<Attribute>,
    /// The value after `=`.
    pub initializer: Option<Id<Initializer>>,
    /// From the declaration's first word to the end of this declarator.
    pub span: Span,
}

/// A value that a variable starts with, or a part of it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Initializer {
    /// The value.
    pub kind: InitializerKind,
    /// Where it stands.
    pub span: Span,
}

/// The forms of initialiser.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum InitializerKind {
    /// A number.
    Constant(Constant),
    /// An address: `name + offset`, `generic(name) + offset` or one byte of it, `mask(name)`.
    Address {
        /// The variable or function.
        name: Name,
        /// Bytes added, wrapping.
        offset: i64,
        /// `generic(...)`: the generic address instead of the one in the variable's own space.
        generic: bool,
        /// Index in bytes of the part taken, from `0xFF(name)` as zero to `0xFF00000000000000(name)`
        /// as seven.
        byte: Option<u8>,
    },
    /// `{ ... }`
    List(List<Initializer>),
    /// `{ key = value, ... }` of an opaque variable.
    Properties(List<Property>),
}

/// `key = value` in the initialiser of a texture, sampler or surface.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Property {
    /// The key, such as `filter_mode`.
    pub key: Ident,
    /// The value.
    pub value: PropertyValue,
}

/// The value of a [`Property`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PropertyValue {
    /// A word, such as `linear`.
    Word(Ident),
    /// A number.
    Constant(Constant),
}

/// Kernel or device function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FunctionKind {
    /// `.entry`
    Entry,
    /// `.func`
    Func,
}

/// A kernel or device function.
#[derive(Clone, PartialEq, Debug)]
pub struct Function {
    /// Kernel or device function.
    pub kind: FunctionKind,
    /// Its name.
    pub name: Ident,
    /// Who may see it.
    pub linkage: Linkage,
    /// Return parameters.
    pub returns: List<Variable>,
    /// Parameters.
    pub parameters: List<Variable>,
    /// `.attribute(...)`.
    pub attributes: List<Attribute>,
    /// Performance and other directives between head and body.
    pub directives: List<Directive>,
    /// The statements, if this is a definition.
    pub body: Option<List<Statement>>,
    /// From linkage or keyword to the end of the head.
    pub span: Span,
}

/// A directive between a function's head and its body, or at the end of a prototype.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Directive {
    /// What it says.
    pub kind: DirectiveKind,
    /// Where it stands.
    pub span: Span,
}

/// What a function directive says. A dimension that is not given is one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum DirectiveKind {
    /// `.maxnreg n`
    MaxRegisters(u64),
    /// `.maxntid x, y, z`
    MaxThreads([u64; 3]),
    /// `.reqntid x, y, z`
    RequiredThreads([u64; 3]),
    /// `.minnctapersm n`
    MinCtasPerSm(u64),
    /// `.maxnctapersm n`
    MaxCtasPerSm(u64),
    /// `.reqnctapercluster x, y, z`
    RequiredCtasPerCluster([u64; 3]),
    /// `.explicitcluster`
    ExplicitCluster,
    /// `.maxclusterrank n`
    MaxClusterRank(u64),
    /// `.blocksareclusters`
    BlocksAreClusters,
    /// `.noreturn`
    NoReturn,
    /// `.abi_preserve n`
    AbiPreserve(u64),
    /// `.abi_preserve_control n`
    AbiPreserveControl(u64),
    /// `.pragma "...", ...;` the strings without their quotes.
    Pragma(List<Ident>),
}

/// `.alias name, target;`
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Alias {
    /// The declared function that gets a body.
    pub name: Ident,
    /// The function whose body it gets.
    pub target: Ident,
    /// The whole directive.
    pub span: Span,
}
