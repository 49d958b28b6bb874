//! The syntax tree of a PTX module.
//!
//! The tree is compact: identifiers are interned ([`Name`]), nodes live in the vectors of one
//! [`Arena`] per module, and a parent node contains the [`Id`] of each child, or a [`List`] (start
//! and length) of contiguous children. `module[id]` and `module[list]` return the nodes. The
//! statements of a function body are one flat list in which [`Statement::ScopeBegin`] and
//! [`Statement::ScopeEnd`] represent braces, so code that reads the tree needs no recursion. The
//! values in the lists of initialisers are not nodes: each is encoded in a few bytes, and
//! [`Module::values`] decodes them.
//!
//! Constant expressions are folded while parsing: an operand or an initialiser contains a
//! [`Constant`], never an expression.
//!
//! Invariants: the `Id`s, `List`s and `Name`s in a module were all created while this module was parsed. Each
//! [`Statement::ScopeBegin`] in a body has a matching [`Statement::ScopeEnd`], even after syntax errors.

mod arena;
mod constant;
mod debug;
mod declaration;
mod names;
mod print;
mod statement;
mod types;
mod values;

pub use arena::{Arena, Id, List, Node};
pub use constant::Constant;
pub use debug::{
    DwarfLine, DwarfValue, FileEntry, Location, LocationFunction, Section, SourcePosition,
};
pub use declaration::{
    Alias, Attribute, Dimension, Directive, DirectiveKind, Function, FunctionKind, Initializer,
    InitializerKind, Linkage, Pointer, Property, PropertyValue, Unread, Variable,
};
pub use names::{Ident, Name, Names};
pub use print::tree;
pub use statement::{
    BranchTarget, COMPONENTS, Call, Guard, Instruction, Modifier, Operand, OperandKind, Prefix,
    Prototype, Statement, Targets,
};
pub use types::{ScalarType, StateSpace, VectorSize};
pub use values::{ValueIter, ValueList};

use crate::source::Span;
use std::ops::Index;

/// The version of the PTX language in which a module is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Default)]
pub struct Version {
    /// The number before the dot.
    pub major: u32,
    /// The number after the dot.
    pub minor: u32,
}

/// The `.target` directive: an architecture and options, such as `sm_80, texmode_independent`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// The words of the directive, in order.
    pub words: List<Ident>,
    /// The source range of the directive and its words.
    pub span: Span,
}

/// One declaration or directive at module scope.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Item {
    /// A kernel or a device function, declared or defined.
    Function(Id<Function>),
    /// A variable.
    Variable(Id<Variable>),
    /// `.alias name, target;`
    Alias(Id<Alias>),
    /// `.pragma "...", ...;`, where the field contains the strings without their quotes.
    Pragma(List<Ident>),
    /// `.file index "name"`.
    File(Id<FileEntry>),
    /// A DWARF section: `.section name { ... }`.
    Section(Id<Section>),
    /// One `@@DWARF` line.
    Dwarf(Id<DwarfLine>),
}

/// A parsed module.
#[derive(Debug, Default)]
pub struct Module {
    /// The version in the `.version` directive, and the source range of the directive.
    pub version: Option<(Version, Span)>,
    /// `.target`.
    pub target: Option<Target>,
    /// The number of bits in the `.address_size` directive, and the source range of the directive.
    pub address_size: Option<(u32, Span)>,
    /// All declarations and directives after the header, in order.
    pub items: Vec<Item>,
    /// The interned identifiers.
    pub names: Names,
    /// The nodes.
    pub arena: Arena,
}

impl Module {
    /// Returns the text that the name `name` represents.
    pub fn text(&self, name: Name) -> &str {
        self.names.text(name)
    }

    /// Returns the values of a list in an initialiser, in order.
    pub fn values(&self, list: ValueList) -> ValueIter<'_> {
        self.arena.values(list)
    }

    /// Returns the module's functions in the order of the source text, including declarations
    /// without a body.
    pub fn functions(&self) -> impl Iterator<Item = (Id<Function>, &Function)> {
        self.items.iter().filter_map(|item| match *item {
            Item::Function(id) => Some((id, &self[id])),
            _ => None,
        })
    }

    /// Returns the module-scope variables in the order of the source text.
    pub fn variables(&self) -> impl Iterator<Item = (Id<Variable>, &Variable)> {
        self.items.iter().filter_map(|item| match *item {
            Item::Variable(id) => Some((id, &self[id])),
            _ => None,
        })
    }

    /// Returns the source range of the first word of an instruction's opcode, without the guard and
    /// the modifiers.
    pub fn opcode_span(&self, instruction: &Instruction) -> Span {
        let start = instruction.opcode_start;
        Span::new(start, start + self.text(instruction.opcode).len() as u32)
    }

    /// Returns an instruction's opcode and modifiers as written, such as `add.cc.u32`.
    pub fn spelling(&self, instruction: &Instruction) -> String {
        let mut spelling = self.text(instruction.opcode).to_owned();
        for modifier in &self[instruction.modifiers] {
            spelling.push('.');
            spelling.push_str(self.text(modifier.name));
        }
        spelling
    }
}

impl<T: Node> Index<Id<T>> for Module {
    type Output = T;

    fn index(&self, id: Id<T>) -> &T {
        &self.arena[id]
    }
}

impl<T: Node> Index<List<T>> for Module {
    type Output = [T];

    fn index(&self, list: List<T>) -> &[T] {
        &self.arena[list]
    }
}
