//! Where accesses to shared memory lie, as far as their addresses tell.
//!
//! Invariant: places that may overlap are never told apart. A place that a lane accesses twice, by the
//! same address, is taken for the lane's own; so a reduction's `s[i] += s[i + n]`, whose reads and
//! writes meet only across a barrier, needs no point.

mod private;

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use crate::entity::{SymbolId, Value};
use crate::function::{Function, Linkage, split_symbol_payload};
use crate::module::Module;
use margay_ops::mods::Half;
use margay_ops::ops::Opcode;

/// Places that are told apart; with more, any may be meant.
const MOST_PLACES: usize = 16;
/// Operations of address arithmetic that are followed.
const MOST_STEPS: usize = 6;

/// What an offset counts from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Base {
    Value(Value),
    Symbol(SymbolId),
}

/// Memory that cannot overlap with other such memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Variable {
    Static(SymbolId),
    /// All `.extern` arrays: they begin at the same address.
    Dynamic,
    /// An array of which each thread of a warp has an element of its own.
    Private(SymbolId),
}

/// Where a lane's access to shared memory lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SharedAddress {
    base: Base,
    offset: i64,
    variable: Option<Variable>,
}

/// Finds the places of a function's accesses.
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

    /// The place that an address in shared memory means.
    pub(super) fn place(&self, address: Value) -> SharedAddress {
        let (base, offset) = split_address(self.function, address);
        let symbol = symbol_of(self.function, base, MOST_STEPS);
        SharedAddress {
            base,
            offset,
            variable: symbol.and_then(|symbol| self.variable(symbol)),
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

    fn may_meet(&self, other: &SharedAddress) -> bool {
        match (self.variable, other.variable) {
            (Some(Variable::Private(_)), Some(_)) => false,
            (Some(a), Some(b)) => a == b,
            _ => true,
        }
    }
}

/// A set of places.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Places {
    /// In order of their keys.
    known: SmallVec<[SharedAddress; 4]>,
    /// Whether there are others, anywhere.
    more: bool,
}

impl Places {
    /// Any places.
    pub(super) fn unknown() -> Places {
        Places {
            known: SmallVec::new(),
            more: true,
        }
    }

    pub(super) fn add(&mut self, place: SharedAddress) {
        let Err(at) = self
            .known
            .binary_search_by_key(&place.key(), SharedAddress::key)
        else {
            return;
        };
        if self.more {
            return;
        }
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

    /// Whether a lane that reads `place` may find what another lane wrote to these places.
    pub(super) fn shows_others(&self, place: &SharedAddress) -> bool {
        let is_other = |known: &SharedAddress| known.key() != place.key() && known.may_meet(place);
        self.more || self.known.iter().any(is_other)
    }

    /// Whether a lane that writes `place` may change what another lane has yet to read from these
    /// places. What the lane has read itself at that address is taken for its own.
    pub(super) fn is_awaited(&self, place: &SharedAddress) -> bool {
        let is_own = self.known.iter().any(|known| known.key() == place.key());
        self.more || !is_own && self.known.iter().any(|known| known.may_meet(place))
    }
}

/// What an address adds a constant to, and the constant.
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

/// Whether the low 32 bits, which a shared address has, are those of the other value.
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

/// The variable that address arithmetic starts from.
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
