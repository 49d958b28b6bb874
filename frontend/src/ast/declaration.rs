//! Declarations: variables, functions and their attributes and directives.

use super::{
    Constant, Id, Ident, List, Name, ScalarType, StateSpace, Statement, ValueList, VectorSize,
};
use crate::source::Span;

/// Which modules can access a declared variable or function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Linkage {
    /// Only this module.
    #[default]
    Internal,
    /// `.extern`: another module defines the variable or function.
    Extern,
    /// `.visible`: other modules can access the variable or function too.
    Visible,
    /// `.weak`: other modules can access the variable or function too, and another definition can replace this
    /// definition.
    Weak,
    /// `.common`: several modules may define the variable; the largest definition is used.
    Common,
}

/// One array dimension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dimension {
    /// Number of elements; `None` for `[]`.
    pub length: Option<u64>,
    /// The position of the brackets and their contents.
    pub span: Span,
}

/// `.ptr`: the state space that a kernel's pointer parameter points to, and the alignment of the memory there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pointer {
    /// `.const`, `.global`, `.local` or `.shared`; `None` means that the pointer is generic.
    pub space: Option<StateSpace>,
    /// Alignment in bytes of the memory that the parameter points to.
    pub align: Option<u64>,
}

/// One entry of `.attribute(...)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attribute {
    /// `.managed`
    Managed,
    /// `.unified(uuid1, uuid2)`
    Unified(u64, u64),
}

/// A variable, a register (or a range of them) or a parameter. A declaration of several names creates one
/// `Variable` for each name.
#[derive(Clone, PartialEq, Debug)]
pub struct Variable {
    /// The name. For a range, this is the part before `<`. For an unnamed parameter of a prototype, this is `_`.
    pub name: Ident,
    /// Which modules can access the variable.
    pub linkage: Linkage,
    /// The variable's state space.
    pub space: StateSpace,
    /// The bank in `.const[bank]`.
    pub bank: Option<u64>,
    /// The variable's element type.
    pub scalar: ScalarType,
    /// The variable's vector size.
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
    /// The source range from the declaration's first word to the end of this declarator.
    pub span: Span,
}

/// The initial value of a variable, or one value in its list.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Initializer {
    /// The value.
    pub kind: InitializerKind,
    /// The position in the source text.
    pub span: Span,
}

/// The forms of initialiser.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum InitializerKind {
    /// A number.
    Constant(Constant),
    /// An address, `name + offset` or `generic(name) + offset`, or one byte of such an address, `mask(address)`.
    Address {
        /// The variable or function whose address this is.
        name: Name,
        /// Bytes added, wrapping.
        offset: i64,
        /// Whether this is the generic address (`generic(...)`) instead of the address in the variable's own space.
        generic: bool,
        /// Index of the byte to take from the address: 0 for `0xFF(name)`, up to 7 for
        /// `0xFF00000000000000(name)`.
        byte: Option<u8>,
    },
    /// `{ ... }`
    List(ValueList),
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

/// The kind of a function: kernel or device function.
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
    /// The function's name.
    pub name: Ident,
    /// Which modules can access the function.
    pub linkage: Linkage,
    /// Return parameters.
    pub returns: List<Variable>,
    /// Parameters.
    pub parameters: List<Variable>,
    /// `.attribute(...)`.
    pub attributes: List<Attribute>,
    /// The directives between head and body, such as performance directives.
    pub directives: List<Directive>,
    /// The statements, if this is a definition.
    pub body: Option<List<Statement>>,
    /// The source range from the linkage or the keyword to the end of the head.
    pub span: Span,
    /// The source range from the linkage or the keyword to the end of the body; the same as `span` if there is no body.
    pub whole: Span,
}

/// A directive between a function's head and its body, or at the end of a prototype.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Directive {
    /// The kind of directive, with its values.
    pub kind: DirectiveKind,
    /// The position in the source text.
    pub span: Span,
}

/// The kinds of function directive. A missing `y` or `z` dimension is stored as 1.
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
    /// `.pragma "...", ...;`, with the strings without their quotes.
    Pragma(List<Ident>),
}

/// `.alias name, target;`
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Alias {
    /// The name of the alias: a declared function without a body, which gets the body of the target.
    pub name: Ident,
    /// The name of the function whose body the alias gets.
    pub target: Ident,
    /// The whole directive.
    pub span: Span,
}
