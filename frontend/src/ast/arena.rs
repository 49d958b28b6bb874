//! Storage for the nodes of a syntax tree.
//!
//! There is one vector for each kind of node. An [`Id`] names one node, and a [`List`] names contiguous
//! nodes. Invariant: only an arena creates the ids and lists that index it, so indexing cannot fail.

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

    /// Returns the node's index among the nodes of its kind, from zero.
    pub fn index(self) -> usize {
        self.number.get() as usize - 1
    }
}

/// A list of contiguous nodes of kind `T` in an [`Arena`].
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

    /// Returns the number of nodes.
    pub fn len(self) -> usize {
        self.len as usize
    }

    /// Whether the list has no nodes.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Returns the ids of the nodes, in order.
    pub fn ids(self) -> impl DoubleEndedIterator<Item = Id<T>> + ExactSizeIterator {
        let start = self.start as usize;
        (0..self.len()).map(move |i| Id::new(start + i))
    }
}

// Implemented by hand, because `derive` would require the same traits of `T`.
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
    /// Returns the vector of this kind of node.
    fn nodes(arena: &Arena) -> &Vec<Self>;
    /// Returns the vector of this kind of node, for adding nodes.
    fn nodes_mut(arena: &mut Arena) -> &mut Vec<Self>;
}

macro_rules! arena {
    ($($field:ident: $node:ty,)*) => {
        /// All nodes of a module, with one vector for each kind of node.
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
    /// Creates an arena with the capacity that a text of this length usually needs.
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

    /// Adds contiguous nodes.
    pub(crate) fn add_list<T: Node>(&mut self, items: impl IntoIterator<Item = T>) -> List<T> {
        let nodes = T::nodes_mut(self);
        let start = nodes.len();
        nodes.extend(items);
        List::new(start, nodes.len() - start)
    }

    /// Returns the number of nodes of one kind. This is the start of a list that [`Arena::list_since`] ends.
    pub(crate) fn count<T: Node>(&self) -> usize {
        T::nodes(self).len()
    }

    /// Returns the list of the nodes added since `start`.
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
