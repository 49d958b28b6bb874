//! The declarations to which names in a function's body can refer.

use margay_ops::mods::StateSpace as Space;
use margay_ops::types::OpType;

use super::special::Special;
use crate::ast::{Function, Id, Name, Prototype, ScalarType, StateSpace, Targets, Variable};

/// The declaration to which a name refers.
#[derive(Clone, Copy, Debug)]
pub enum Symbol {
    /// A register: a `.reg` variable, or a member of a range.
    Register {
        /// The declaration.
        variable: Id<Variable>,
        /// The register's number in the range, or 0 for a single register.
        index: u64,
    },
    /// A special register.
    Special(&'static Special),
    /// A variable or parameter in memory, or an opaque reference.
    Variable(Id<Variable>),
    /// A kernel or a device function.
    Function(Id<Function>),
    /// A label of an instruction.
    Label,
    /// `.branchtargets` or `.calltargets`.
    Targets(Id<Targets>),
    /// `.callprototype`.
    Prototype(Id<Prototype>),
}

/// A type that finds the symbol to which a name refers at the instruction whose form is being
/// selected.
pub trait Lookup {
    /// Returns the symbol to which a name refers, or `None` if no open scope declares the name.
    fn lookup(&self, name: Name) -> Option<Symbol>;
}

impl<F: Fn(Name) -> Option<Symbol>> Lookup for F {
    fn lookup(&self, name: Name) -> Option<Symbol> {
        self(name)
    }
}

/// Returns the IR type of a register that is declared with this type. Returns `OpType::None` for opaque references.
pub fn register_type(scalar: ScalarType) -> OpType {
    OpType::from_name(scalar.word()).unwrap_or_default()
}

/// Returns the state space in which instructions access a variable that is declared in `space`. For
/// the old state space `.tex`, this is global memory.
pub fn state_space(space: StateSpace) -> Space {
    match space {
        StateSpace::Const => Space::Const,
        StateSpace::Local => Space::Local,
        StateSpace::Param => Space::Param,
        StateSpace::Shared => Space::Shared,
        StateSpace::Global | StateSpace::Tex => Space::Global,
        StateSpace::Reg => Space::None,
    }
}
