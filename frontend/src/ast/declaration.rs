//! Declarations: variables, functions and their attributes and directives.

use super::{
    Constant, Id, Ident, List, Name, ScalarType, StateSpace, Statement, ValueList, VectorSize,
};
use crate::source::Span;

/// The linking directive of a variable or function, which determines the modules that can access
/// it.
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
    /// The number of elements in this dimension; `None` for `[]`.
    pub length: Option<u64>,
    /// The source range of the brackets and their contents.
    pub span: Span,
}

/// The attribute `.ptr` of a kernel parameter that is a pointer: the state space of the memory that
/// the parameter points to, and the alignment of this memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pointer {
    /// `.const`, `.global`, `.local` or `.shared`; `None` means that the parameter is a generic
    /// address.
    pub space: Option<StateSpace>,
    /// The alignment in bytes of the memory that the parameter points to.
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
    /// The variable's name. For a range of registers, the name is the part before `<`. For an
    /// unnamed parameter of a prototype, the name is `_`.
    pub name: Ident,
    /// The linking directive, which determines the modules that can access the variable.
    pub linkage: Linkage,
    /// The variable's state space.
    pub space: StateSpace,
    /// The number of the constant bank, as in `.const[bank]`.
    pub bank: Option<u64>,
    /// The variable's element type.
    pub scalar: ScalarType,
    /// The number of elements in the variable's vector type (`.v2` or `.v4`); 1 for a scalar.
    pub vector: VectorSize,
    /// `.align`, in bytes.
    pub align: Option<u64>,
    /// `Some(n)` for `name<n>`: the registers `name0` to `name(n-1)`.
    pub range: Option<u64>,
    /// The dimensions of an array, outermost first.
    pub dimensions: List<Dimension>,
    /// The attribute `.ptr`, if the variable is a kernel parameter that has this attribute.
    pub pointer: Option<Pointer>,
    /// `.attribute(...)`.
    pub attributes: List<Attribute>,
    /// The initial value, which follows `=`.
    pub initializer: Option<Id<Initializer>>,
    /// The source range from the declaration's first word to the end of this variable's part of the
    /// declaration.
    pub span: Span,
}

/// The initial value of a variable, or one value in a list of initial values.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Initializer {
    /// The value.
    pub kind: InitializerKind,
    /// The source range of this node.
    pub span: Span,
}

/// The kinds of initial values.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum InitializerKind {
    /// A number.
    Constant(Constant),
    /// An address, `name + offset` or `generic(name) + offset`, or one byte of such an address, `mask(address)`.
    Address {
        /// The variable or function whose address is the initial value.
        name: Name,
        /// Bytes added, wrapping.
        offset: i64,
        /// Whether the value is the generic address (`generic(...)`) of the variable. False means
        /// the address in the variable's state space.
        generic: bool,
        /// The index of the address's byte that is the initial value: 0 for `0xFF(name)`, up to 7
        /// for `0xFF00000000000000(name)`.
        byte: Option<u8>,
    },
    /// `{ ... }`
    List(ValueList),
    /// `{ key = value, ... }`: the properties of an opaque reference (texture, sampler or surface).
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
    /// Whether the function is a kernel or a device function.
    pub kind: FunctionKind,
    /// The function's name.
    pub name: Ident,
    /// The linking directive, which determines the modules that can access the function.
    pub linkage: Linkage,
    /// Return parameters.
    pub returns: List<Variable>,
    /// Parameters.
    pub parameters: List<Variable>,
    /// `.attribute(...)`.
    pub attributes: List<Attribute>,
    /// The directives between head and body, such as performance directives.
    pub directives: List<Directive>,
    /// The statements of the body, or `None` for a declaration without a body. The list is empty if the body has not
    /// been parsed yet.
    pub body: Option<List<Statement>>,
    /// The body, if it has not been parsed yet.
    pub unread: Option<Unread>,
    /// The source range of the function's head. It begins at the linking directive, or at `.entry`
    /// or `.func` if there is none.
    pub span: Span,
    /// The source range of the head and the body. It is equal to `span` if there is no body.
    pub whole: Span,
}

/// A function body that has not been parsed yet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Unread {
    /// The source range of the body, with its braces.
    pub span: Span,
    /// The variables in the body that exist as long as the module, in their order.
    pub variables: List<Variable>,
}

/// A directive between a function's head and its body, or at the end of a prototype.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Directive {
    /// The kind of the directive, with the numbers or words that follow it.
    pub kind: DirectiveKind,
    /// The source range of this node.
    pub span: Span,
}

/// The kinds of directives that a function can have. A missing `y` or `z` dimension is stored as 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum DirectiveKind {
    /// `.maxnreg n`
    MaxRegisters(u64),
    /// `.maxntid x, y, z`: the maximum number of threads of a CTA in each dimension.
    MaxThreads([u64; 3]),
    /// `.reqntid x, y, z`: the required number of threads of a CTA in each dimension.
    RequiredThreads([u64; 3]),
    /// `.minnctapersm n`
    MinCtasPerSm(u64),
    /// `.maxnctapersm n`
    MaxCtasPerSm(u64),
    /// `.reqnctapercluster x, y, z`: the required number of CTAs of a cluster in each dimension.
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
    /// `.pragma "...", ...;`, where the field contains the strings without their quotes.
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
