//! Determines the locations in shared memory that accesses use, from the addresses of the accesses.
//!
//! A location (`place` in the code) is a base plus a constant offset. Invariant: the analysis treats two locations as
//! overlapping unless it proves that they do not overlap. There is one assumption: if a lane accesses a location twice
//! through the same address, no other lane of the warp accesses the location between these two accesses. For example,
//! the statement `s[i] += s[i + n]` of a reduction reads and writes `s[i]`. Other lanes access `s[i]` only before the
//! barrier in front of the statement or after the barrier that follows it, so no sync point is necessary between the
//! read and the write.

mod private;
mod scattered;

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use crate::entity::{SymbolId, Value};
use crate::function::{Function, Linkage, split_symbol_payload};
use crate::module::Module;
use margay_ops::mods::Half;
use margay_ops::ops::Opcode;

/// Maximum number of locations in a set ([`Places`]). A set that would have more locations is replaced by the set of
/// all locations.
const MOST_PLACES: usize = 16;
/// Maximum number of operations through which the analysis traces an address back to its base or to a variable.
const MOST_STEPS: usize = 6;

/// The value or variable to which an offset is relative.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Base {
    Value(Value),
    Symbol(SymbolId),
}

/// A part of shared memory. Different parts do not overlap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Variable {
    Static(SymbolId),
    /// All `.extern` arrays, which begin at the same address.
    Dynamic,
    /// An array in which each thread of a warp uses only its own element.
    Private(SymbolId),
}

/// The location in shared memory that an access of a lane uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SharedAddress {
    base: Base,
    offset: i64,
    variable: Option<Variable>,
    /// Whether the location depends on data that the lane has read ([`scattered`]).
    is_scattered: bool,
    /// Whether the access is an atomic. The order of two atomics of different lanes is not part of lock-step.
    is_atomic: bool,
}

/// Finds the locations that the accesses of a function use.
pub(super) struct Finder<'a> {
    function: &'a Function,
    module: &'a Module,
    private: FxHashSet<SymbolId>,
}

impl<'a> Finder<'a> {
    pub(super) fn new(function: &'a Function, module: &'a Module) -> Finder<'a> {
        let mut finder = Finder {
            function,
            module,
            private: FxHashSet::default(),
        };
        finder.private = private::find(&finder);
        finder
    }

    /// Returns the location in shared memory to which the address of an access refers.
    pub(super) fn place(&self, address: Value, is_atomic: bool) -> SharedAddress {
        let (base, offset) = split_address(self.function, address);
        let symbol = symbol_of(self.function, base, MOST_STEPS);
        SharedAddress {
            base,
            offset,
            variable: symbol.and_then(|symbol| self.variable(symbol)),
            is_scattered: match base {
                Base::Value(value) => scattered::depends_on_data(self.function, value),
                Base::Symbol(_) => false,
            },
            is_atomic,
        }
    }

    fn variable(&self, symbol: SymbolId) -> Option<Variable> {
        let data = self.module.symbols.get(symbol)?;
        Some(if data.linkage == Linkage::Extern || data.size == 0 {
            Variable::Dynamic
        } else if self.private.contains(&symbol) {
            Variable::Private(symbol)
        } else {
            Variable::Static(symbol)
        })
    }
}

impl SharedAddress {
    fn key(&self) -> (Base, i64) {
        (self.base, self.offset)
    }

    /// Returns whether the location depends on data that the lane has read.
    pub(super) fn is_scattered(&self) -> bool {
        self.is_scattered
    }

    fn may_meet(&self, other: &SharedAddress) -> bool {
        match (self.variable, other.variable) {
            (Some(Variable::Private(_)), Some(_)) => false,
            (Some(a), Some(b)) => a == b,
            _ => true,
        }
    }
}

/// A set of locations.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Places {
    /// The known locations, ordered by base and offset.
    known: SmallVec<[SharedAddress; 4]>,
    /// Whether the set contains all locations; if so, `known` is empty.
    more: bool,
}

impl Places {
    /// Returns the set of all locations.
    pub(super) fn unknown() -> Places {
        Places {
            known: SmallVec::new(),
            more: true,
        }
    }

    pub(super) fn add(&mut self, place: SharedAddress) {
        let found = self
            .known
            .binary_search_by_key(&place.key(), SharedAddress::key);
        let at = match found {
            _ if self.more => return,
            Ok(at) => {
                self.known[at].is_atomic &= place.is_atomic;
                return;
            }
            Err(at) => at,
        };
        if self.known.len() == MOST_PLACES {
            *self = Places::unknown();
        } else {
            self.known.insert(at, place);
        }
    }

    pub(super) fn add_all(&mut self, other: &Places) {
        if other.more {
            *self = Places::unknown();
        }
        for &place in &other.known {
            self.add(place);
        }
    }

    /// Returns whether a lane that reads `place` may read bytes that another lane wrote to a location of this set.
    pub(super) fn shows_others(&self, place: &SharedAddress) -> bool {
        let is_other = |known: &SharedAddress| known.key() != place.key() && known.may_meet(place);
        self.more || self.known.iter().any(is_other)
    }

    /// Returns whether a lane that writes `place` may overwrite bytes that another lane has not yet read from a
    /// location of this set. If the lane has read the location through the same address, the analysis assumes that no
    /// other lane reads the location.
    pub(super) fn is_awaited(&self, place: &SharedAddress) -> bool {
        let is_own = self.known.iter().any(|known| known.key() == place.key());
        self.more || !is_own && self.known.iter().any(|known| known.may_meet(place))
    }

    /// Returns whether a lane that writes `place` may overwrite bytes that another lane wrote to a location of this set,
    /// because one of the two locations depends on data. If both do, they count only if `may_repeat`: the locations that
    /// depend on data are not a permutation. For other locations, the
    /// analysis assumes that lanes write each location only once between two sync points, as in arrays that begin at
    /// different offsets.
    pub(super) fn is_overwritten(&self, place: &SharedAddress, may_repeat: bool) -> bool {
        self.known.iter().any(|known| {
            let are_scattered = match (known.is_scattered, place.is_scattered) {
                (true, true) => may_repeat,
                (one, other) => one || other,
            };
            are_scattered
                && !(known.is_atomic && place.is_atomic)
                && known.key() != place.key()
                && known.may_meet(place)
        })
    }

    /// Returns whether `place` may be one of the locations.
    pub(super) fn may_meet(&self, place: &SharedAddress) -> bool {
        self.more || self.known.iter().any(|known| known.may_meet(place))
    }
}

/// Splits an address into a base and a constant offset.
fn split_address(function: &Function, address: Value) -> (Base, i64) {
    let (mut value, mut offset) = (address, 0i64);
    for _ in 0..MOST_STEPS {
        let Some(inst) = function.dfg.def_inst(value) else {
            break;
        };
        let data = &function.dfg.insts[inst];
        match (data.opcode, function.dfg.args(inst)) {
            (Opcode::SymbolAddr, _) => {
                let (symbol, addend) = split_symbol_payload(data.payload());
                return (Base::Symbol(symbol), offset.wrapping_add(i64::from(addend)));
            }
            (Opcode::Cvt | Opcode::Bitcast, &[a]) if is_word(function, value, a) => value = a,
            (Opcode::Add, &[a, b]) if data.ty.is_integer() => {
                let constant = |v| signed_constant(function, v);
                let Some((rest, more)) = constant(b)
                    .map(|n| (a, n))
                    .or_else(|| constant(a).map(|n| (b, n)))
                else {
                    break;
                };
                value = rest;
                offset = offset.wrapping_add(more);
            }
            _ => break,
        }
    }
    (Base::Value(value), offset)
}

/// Returns whether both values are integers of at least 32 bits, so that a conversion between them keeps the 32
/// bits of a shared address.
fn is_word(function: &Function, value: Value, of: Value) -> bool {
    [value, of].into_iter().all(|v| {
        let ty = function.dfg.ty(v);
        !ty.is_float() && ty.lanes() == 1 && ty.lane_bits() >= 32
    })
}

fn signed_constant(function: &Function, value: Value) -> Option<i64> {
    let bits = function.dfg.constant(value)?;
    let unused = 64 - function.dfg.ty(value).lane_bits().min(64);
    Some(((bits << unused) as i64) >> unused)
}

/// Returns the variable from which an address is computed.
fn symbol_of(function: &Function, base: Base, steps: usize) -> Option<SymbolId> {
    let value = match base {
        Base::Symbol(symbol) => return Some(symbol),
        Base::Value(value) => value,
    };
    let inst = function.dfg.def_inst(value)?;
    let data = &function.dfg.insts[inst];
    let follow = |v| symbol_of(function, Base::Value(v), steps.checked_sub(1)?);
    match (data.opcode, function.dfg.args(inst)) {
        (Opcode::SymbolAddr, _) => Some(split_symbol_payload(data.payload()).0),
        (Opcode::Cvt | Opcode::Bitcast, &[a]) if is_word(function, value, a) => follow(a),
        (Opcode::Add, &[a, b]) => follow(a).or_else(|| follow(b)),
        (Opcode::Sub, &[a, _]) => follow(a),
        (Opcode::Mad, &[_, _, c]) if data.mods.half() != Half::Hi => follow(c),
        _ => None,
    }
}
