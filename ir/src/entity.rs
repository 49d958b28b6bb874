//! Entity references: newtypes of `u32` that are indices of maps.
//!
//! Invariant: an entity is valid only for the map that created it, and for other maps of the same function or module.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

use serde::{Deserialize, Serialize};

/// A reference to a part of a function or module, such as a value, a block or a variable: an index
/// of a map.
pub trait Entity: Copy + Eq + std::hash::Hash + std::fmt::Debug {
    /// Creates the entity with this index.
    fn new(index: usize) -> Self;
    /// Returns the index of the entity.
    fn index(self) -> usize;
}

macro_rules! entities {
    ($($(#[$doc:meta])* $name:ident $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub struct $name(pub u32);

        impl Entity for $name {
            #[inline]
            fn new(index: usize) -> Self { $name(index as u32) }
            #[inline]
            fn index(self) -> usize { self.0 as usize }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }
    )*};
}

entities! {
    /// An SSA value of a function.
    Value "v";
    /// An instruction of a function.
    Inst "inst";
    /// A basic block of a function.
    Block "block";
    /// A local-memory slot of a function.
    Slot "slot";
    /// A variable of a module.
    SymbolId "sym";
    /// A function of a module.
    FuncId "fn";
    /// A call signature of a module.
    SigId "sig";
}

/// A vector with typed keys. [`PrimaryMap::push`] creates the keys.
#[derive(Clone, Hash, Debug, Serialize, Deserialize)]
pub struct PrimaryMap<K, V> {
    items: Vec<V>,
    key: PhantomData<K>,
}

impl<K, V> Default for PrimaryMap<K, V> {
    fn default() -> Self {
        PrimaryMap {
            items: Vec::new(),
            key: PhantomData,
        }
    }
}

impl<K: Entity, V> PrimaryMap<K, V> {
    /// Appends a value and returns its key.
    pub fn push(&mut self, value: V) -> K {
        let key = K::new(self.items.len());
        self.items.push(value);
        key
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the value of a key, or `None` if the key is out of range.
    pub fn get(&self, key: K) -> Option<&V> {
        self.items.get(key.index())
    }

    /// Returns the keys in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = K> + use<K, V> {
        (0..self.items.len()).map(K::new)
    }

    /// Returns the values in key order.
    pub fn values(&self) -> std::slice::Iter<'_, V> {
        self.items.iter()
    }

    /// Returns mutable references to the values, in key order.
    pub fn values_mut(&mut self) -> std::slice::IterMut<'_, V> {
        self.items.iter_mut()
    }

    /// Returns pairs of a key and its value, in key order.
    pub fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.items.iter().enumerate().map(|(i, v)| (K::new(i), v))
    }
}

impl<K: Entity, V> Index<K> for PrimaryMap<K, V> {
    type Output = V;
    fn index(&self, key: K) -> &V {
        &self.items[key.index()]
    }
}

impl<K: Entity, V> IndexMut<K> for PrimaryMap<K, V> {
    fn index_mut(&mut self, key: K) -> &mut V {
        &mut self.items[key.index()]
    }
}

/// A map that uses the keys of a [`PrimaryMap`]. A key that was never written has the default value.
#[derive(Clone, Hash, Debug, Serialize, Deserialize)]
pub struct SecondaryMap<K, V> {
    items: Vec<V>,
    default: V,
    key: PhantomData<K>,
}

impl<K: Entity, V: Clone + Default> Default for SecondaryMap<K, V> {
    fn default() -> Self {
        SecondaryMap {
            items: Vec::new(),
            default: V::default(),
            key: PhantomData,
        }
    }
}

impl<K: Entity, V: Clone> SecondaryMap<K, V> {
    /// Creates a map in which every key has the value `default`.
    pub fn with_default(default: V) -> Self {
        SecondaryMap {
            items: Vec::new(),
            default,
            key: PhantomData,
        }
    }
}

impl<K: Entity, V: Clone> Index<K> for SecondaryMap<K, V> {
    type Output = V;
    fn index(&self, key: K) -> &V {
        self.items.get(key.index()).unwrap_or(&self.default)
    }
}

impl<K: Entity, V: Clone> IndexMut<K> for SecondaryMap<K, V> {
    fn index_mut(&mut self, key: K) -> &mut V {
        let index = key.index();
        if index >= self.items.len() {
            self.items.resize(index + 1, self.default.clone());
        }
        &mut self.items[index]
    }
}

/// A reference to a list of values in a [`ListPool`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct List(u32);

/// Storage of [`List`]s. The pool stores a list as its length, followed by its elements. List 0 is empty.
#[derive(Clone, Hash, Debug, Serialize, Deserialize)]
pub struct ListPool {
    words: Vec<Value>,
}

impl Default for ListPool {
    fn default() -> Self {
        ListPool {
            words: vec![Value(0)],
        }
    }
}

impl ListPool {
    /// Stores a list and returns a reference to it.
    pub fn push(&mut self, values: &[Value]) -> List {
        if values.is_empty() {
            return List(0);
        }
        let start = self.words.len() as u32;
        self.words.push(Value(values.len() as u32));
        self.words.extend_from_slice(values);
        List(start)
    }

    /// Returns the elements of a list.
    #[inline]
    pub fn get(&self, list: List) -> &[Value] {
        let start = list.0 as usize;
        let len = self.words[start].0 as usize;
        &self.words[start + 1..start + 1 + len]
    }

    /// Returns the elements of a list, or `None` if the reference is out of range.
    pub fn try_get(&self, list: List) -> Option<&[Value]> {
        let start = list.0 as usize;
        let len = self.words.get(start)?.0 as usize;
        self.words.get(start + 1..)?.get(..len)
    }

    /// Returns the elements of a list as a mutable slice, so that a caller can replace them in place.
    #[inline]
    pub fn get_mut(&mut self, list: List) -> &mut [Value] {
        let start = list.0 as usize;
        let len = self.words[start].0 as usize;
        &mut self.words[start + 1..start + 1 + len]
    }
}
