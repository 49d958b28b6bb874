//! Storage for the nodes of a syntax tree.
//!
//! An [`Arena`] has one vector for each kind of node. An [`Id`] is the index of one node, and a [`List`] is a range of
//! contiguous nodes. Invariant: only an arena creates the IDs and lists that are used with it, so every index is in
//! bounds.

use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

use super::values::{NoMemory, OpenList, ValueIter, ValueList, Values};
use super::{
    Alias, Attribute, BranchTarget, Dimension, Directive, DwarfLine, DwarfValue, FileEntry,
    Function, Guard, Ident, Initializer, InitializerKind, Location, Modifier, Operand, Property,
    Prototype, Section, Statement, Targets, Variable,
};

/// The index of a node of kind `T` in an [`Arena`].
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
    /// The empty list.
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

    /// Returns the index of the list's first node and the number of the list's nodes.
    pub(super) fn parts(self) -> (u32, u32) {
        (self.start, self.len)
    }

    /// Returns the list that starts at node index `start` and has `len` nodes.
    pub(super) fn from_parts(start: u32, len: u32) -> Self {
        List {
            start,
            len,
            kind: PhantomData,
        }
    }

    /// Returns the number of nodes in the list.
    pub fn len(self) -> usize {
        self.len as usize
    }

    /// Whether the list has no nodes.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Returns the ids of the list's nodes, in order.
    pub fn ids(self) -> impl DoubleEndedIterator<Item = Id<T>> + ExactSizeIterator {
        let start = self.start as usize;
        (0..self.len()).map(move |i| Id::new(start + i))
    }
}

// These traits are implemented by hand, because `derive` would add a bound such as `T: Clone` to each implementation.
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
    /// Returns the vector in which the arena stores the nodes of this type.
    fn nodes(arena: &Arena) -> &Vec<Self>;
    /// Returns the vector in which the arena stores the nodes of this type, so that the caller can
    /// add nodes.
    fn nodes_mut(arena: &mut Arena) -> &mut Vec<Self>;
}

macro_rules! arena {
    ($($field:ident: $node:ty,)*) => {
        /// All nodes of a module, with one vector for each kind of node.
        #[derive(Debug, Default)]
        pub struct Arena {
            $($field: Vec<$node>,)*
            values: Values,
            /// The size in bytes of an allocation for nodes that failed, or `None` if no allocation
            /// has failed since [`Arena::take_failure`] was called.
            failed: Option<usize>,
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
    /// Creates an arena with the capacity that a PTX text of `bytes` bytes usually needs. The initial capacity is
    /// limited, because a long text can consist mostly of initialisers and comments.
    pub(crate) fn for_text(bytes: usize) -> Self {
        const LONG: usize = 16 << 20;
        let bytes = bytes.min(LONG);
        let mut arena = Arena::default();
        // If this reservation fails, the vectors grow as needed.
        let _ = arena.statements.try_reserve_exact(bytes / 32);
        let _ = arena.operands.try_reserve_exact(bytes / 16);
        let _ = arena.modifiers.try_reserve_exact(bytes / 16);
        arena
    }

    /// Adds one node. If memory for the node cannot be allocated and the arena has a node of this kind, the returned ID
    /// refers to another node of the same kind, and [`Arena::take_failure`] returns the size of the failed allocation.
    /// If the arena has no node of this kind, a failed allocation aborts the process.
    pub(crate) fn add<T: Node>(&mut self, node: T) -> Id<T> {
        let nodes = T::nodes_mut(self);
        let last = nodes.len();
        match reserve(nodes, 1) {
            Err(NoMemory(bytes)) if last > 0 => {
                self.failed = Some(bytes);
                Id::new(last - 1)
            }
            _ => {
                nodes.push(node);
                Id::new(last)
            }
        }
    }

    /// Adds `items` as contiguous nodes, and returns the list of them. If memory for the nodes
    /// cannot be allocated, the returned list is empty, and [`Arena::take_failure`] returns the
    /// size of the failed allocation.
    pub(crate) fn add_list<T: Node>(&mut self, items: impl IntoIterator<Item = T>) -> List<T> {
        let items = items.into_iter();
        let nodes = T::nodes_mut(self);
        let start = nodes.len();
        if let Err(NoMemory(bytes)) = reserve(nodes, items.size_hint().0) {
            self.failed = Some(bytes);
            return List::EMPTY;
        }
        nodes.extend(items);
        List::new(start, nodes.len() - start)
    }

    /// Begins a list of values in an initialiser. The list is either the outermost list of a variable or the next value
    /// of the list that was begun last. The text of the list begins at the byte offset `start` of
    /// the source text. Returns `None` if memory cannot be allocated.
    pub(crate) fn begin_values(&mut self, start: u32) -> Option<OpenList> {
        let list = self.values.begin(start);
        list.map_err(|NoMemory(bytes)| self.failed = Some(bytes))
            .ok()
    }

    /// Adds `value` to the initialiser list `list`. If the value is itself a non-empty list, its
    /// values are already stored, and this function only increments the number of values of the
    /// outer list.
    pub(crate) fn add_value(&mut self, list: &mut OpenList, value: &Initializer) {
        list.count();
        if let InitializerKind::List(inner) = value.kind
            && !inner.is_empty()
        {
            return;
        }
        if let Err(NoMemory(bytes)) = self.values.push(value) {
            self.failed = Some(bytes);
        }
    }

    /// Ends an initialiser list whose text ends at the byte offset `end` of the source text.
    pub(crate) fn end_values(&mut self, list: OpenList, end: u32) -> ValueList {
        self.values.end(&list, end)
    }

    /// Returns the values of an initialiser list, in order. Returns no values after
    /// [`Arena::release_values`].
    pub fn values(&self, list: ValueList) -> ValueIter<'_> {
        self.values.of(list)
    }

    /// Frees the memory of the values of all initialiser lists. Call this function when the values are no longer
    /// needed. The lengths of the lists ([`ValueList::len`]) remain available.
    pub(crate) fn release_values(&mut self) {
        self.values = Values::default();
    }

    /// Returns the size in bytes of an allocation that failed since the previous call, or `None` if all allocations
    /// succeeded. After a failed allocation, nodes are missing from the tree.
    pub(crate) fn take_failure(&mut self) -> Option<usize> {
        self.failed.take()
    }

    /// Returns the number of nodes of one kind. [`Arena::list_since`] takes this number as the start of a list.
    pub(crate) fn count<T: Node>(&self) -> usize {
        T::nodes(self).len()
    }

    /// Returns the list of the nodes of kind `T` with the index `start` or a higher index.
    pub(crate) fn list_since<T: Node>(&self, start: usize) -> List<T> {
        List::new(start, self.count::<T>() - start)
    }
}

/// Reserves memory in `nodes` for `more` additional nodes.
fn reserve<T>(nodes: &mut Vec<T>, more: usize) -> Result<(), NoMemory> {
    if nodes.capacity() - nodes.len() >= more {
        return Ok(());
    }
    let len = (2 * nodes.capacity()).max(nodes.len().saturating_add(more));
    let bytes = len.saturating_mul(size_of::<T>());
    nodes.try_reserve(more).map_err(|_| NoMemory(bytes))
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
