//! Where the nodes of a syntax tree live.
//!
//! One vector per kind of node. [`Id`] names one node, [`List`] a run of nodes that are next to each
//! other. Invariant: both are made only by the arena that they index, so indexing cannot fail.

use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

use super::{
    Alias, Attribute, BranchTarget, Dimension, Directive, DwarfLine, DwarfValue, FileEntry,
    Function, Guard, Ident, Initializer, Location, Modifier, Operand, Property, Prototype, Section,
    Statement, Targets, Variable,
};

/// A node of kind `T` in an [`Arena`].
pub struct Id<T> {
    // Index plus one, so that `Option<Id<T>>` takes four bytes.
    number: NonZeroU32,
    kind: PhantomData<fn() -> T>,
}

impl<T> Id<T> {
    fn new(index: usize) -> Self {
        let number = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
        Id {
            number: number.expect("a source text under 4 GiB has fewer nodes than u32 counts"),
            kind: PhantomData,
        }
    }

    /// The node's index among those of its kind, from zero.
    pub fn index(self) -> usize {
        self.number.get() as usize - 1
    }
}

/// A run of nodes of kind `T` in an [`Arena`].
pub struct List<T> {
    start: u32,
    len: u32,
    kind: PhantomData<fn() -> T>,
}

impl<T> List<T> {
    /// The list without nodes.
    pub const EMPTY: List<T> = List {
        start: 0,
        len: 0,
        kind: PhantomData,
    };

    fn new(start: usize, len: usize) -> Self {
        let fits = "a source text under 4 GiB has fewer nodes than u32 counts";
        List {
            start: u32::try_from(start).expect(fits),
            len: u32::try_from(len).expect(fits),
            kind: PhantomData,
        }
    }

    /// How many nodes it has.
    pub fn len(self) -> usize {
        self.len as usize
    }

    /// True without nodes.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The ids of its nodes in order.
    pub fn ids(self) -> impl DoubleEndedIterator<Item = Id<T>> + ExactSizeIterator {
        let start = self.start as usize;
        (0..self.len()).map(move |i| Id::new(start + i))
    }
}

// Written out because derives would ask the same of `T`.
macro_rules! handle_traits {
    ($($handle:ident { $($field:ident),* })*) => {$(
        impl<T> Clone for $handle<T> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<T> Copy for $handle<T> {}
        impl<T> PartialEq for $handle<T> {
            fn eq(&self, other: &Self) -> bool {
                $(self.$field == other.$field)&&*
            }
        }
        impl<T> Eq for $handle<T> {}
        impl<T> std::hash::Hash for $handle<T> {
            fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
                $(self.$field.hash(state);)*
            }
        }
    )*};
}

handle_traits! {
    Id { number }
    List { start, len }
}

impl<T> fmt::Debug for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.index())
    }
}

impl<T> fmt::Debug for List<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}..{}", self.start, self.start + self.len)
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        List::EMPTY
    }
}

/// A type whose values an [`Arena`] stores.
pub trait Node: Sized {
    /// The vector of this kind of node.
    fn nodes(arena: &Arena) -> &Vec<Self>;
    /// The vector of this kind of node, to add to.
    fn nodes_mut(arena: &mut Arena) -> &mut Vec<Self>;
}

macro_rules! arena {
    ($($field:ident: $node:ty,)*) => {
        /// All nodes of a module, a vector per kind.
        #[derive(Debug, Default)]
        pub struct Arena {
            $($field: Vec<$node>,)*
        }

        $(impl Node for $node {
            fn nodes(arena: &Arena) -> &Vec<Self> {
                &arena.$field
            }
            fn nodes_mut(arena: &mut Arena) -> &mut Vec<Self> {
                &mut arena.$field
            }
        })*
    };
}

arena! {
    statements: Statement,
    operands: Operand,
    modifiers: Modifier,
    guards: Guard,
    locations: Location,
    functions: Function,
    variables: Variable,
    initializers: Initializer,
    dimensions: Dimension,
    attributes: Attribute,
    directives: Directive,
    properties: Property,
    idents: Ident,
    aliases: Alias,
    targets: Targets,
    branch_targets: BranchTarget,
    prototypes: Prototype,
    files: FileEntry,
    sections: Section,
    dwarf_lines: DwarfLine,
    dwarf_values: DwarfValue,
}

impl Arena {
    /// An arena with room for what a text of this length usually has.
    pub(crate) fn for_text(bytes: usize) -> Self {
        Arena {
            statements: Vec::with_capacity(bytes / 32),
            operands: Vec::with_capacity(bytes / 16),
            modifiers: Vec::with_capacity(bytes / 16),
            ..Arena::default()
        }
    }

    /// Adds one node.
    pub(crate) fn add<T: Node>(&mut self, node: T) -> Id<T> {
        let nodes = T::nodes_mut(self);
        nodes.push(node);
        Id::new(nodes.len() - 1)
    }

    /// Adds nodes next to each other.
    pub(crate) fn add_list<T: Node>(&mut self, items: impl IntoIterator<Item = T>) -> List<T> {
        let nodes = T::nodes_mut(self);
        let start = nodes.len();
        nodes.extend(items);
        List::new(start, nodes.len() - start)
    }

    /// How many nodes of one kind there are: the start of a list to be closed by
    /// [`Arena::list_since`].
    pub(crate) fn count<T: Node>(&self) -> usize {
        T::nodes(self).len()
    }

    /// The nodes added since `start`.
    pub(crate) fn list_since<T: Node>(&self, start: usize) -> List<T> {
        List::new(start, self.count::<T>() - start)
    }
}

impl<T: Node> Index<Id<T>> for Arena {
    type Output = T;

    fn index(&self, id: Id<T>) -> &T {
        &T::nodes(self)[id.index()]
    }
}

impl<T: Node> IndexMut<Id<T>> for Arena {
    fn index_mut(&mut self, id: Id<T>) -> &mut T {
        &mut T::nodes_mut(self)[id.index()]
    }
}

impl<T: Node> Index<List<T>> for Arena {
    type Output = [T];

    fn index(&self, list: List<T>) -> &[T] {
        let start = list.start as usize;
        &T::nodes(self)[start..start + list.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_stay_small() {
        assert_eq!(size_of::<Option<Id<Guard>>>(), 4);
        assert_eq!(size_of::<Operand>(), 32);
        assert_eq!(size_of::<Modifier>(), 12);
        assert_eq!(size_of::<Statement>(), 44);
    }
}
