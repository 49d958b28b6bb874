//! Finds arrays in shared memory of which each thread uses only its own element, as in `state[threadIdx.x].stack[n]`.
//!
//! Accesses of different threads to such a private array never overlap, so they need no sync points. Invariant: an
//! array is private only if every access of the function in the state space `.shared` that may refer to the array is
//! inside the element of `stride` bytes at the address `array + start + tid.x * stride`, with the same constants
//! `stride` and `start` for all accesses. Accesses at generic addresses are not examined. An access with a variable
//! offset is assumed to stay in the element if the element has at least [`LEAST_ELEMENT`] times the bytes of the
//! access. If an access to an array does not meet these conditions, the analysis assumes that threads share the array.
//! A function that reads `tid.y` or `tid.z`, or that accesses shared memory at an address whose array is not known, has
//! no private arrays.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Base, Finder, MOST_STEPS, Variable, is_word, signed_constant, split_address};
use crate::entity::{Inst, SymbolId, Value};
use crate::function::{Function, payload_sreg};
use margay_ops::mods::{Half, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::sreg::SpecialReg;

/// Minimum ratio of the size of an element to the size of an access with a variable offset.
const LEAST_ELEMENT: i64 = 4;

/// The array element that a thread uses, as computed from an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Element {
    symbol: SymbolId,
    stride: i64,
    /// Offset in bytes of the array's first element from the symbol.
    start: i64,
    /// Whether the address includes an offset that is not constant.
    moves: bool,
}

/// Returns the private arrays of a function.
pub(super) fn find(finder: &Finder<'_>) -> FxHashSet<SymbolId> {
    let function = finder.function;
    let mut strides: FxHashMap<SymbolId, Option<(i64, i64)>> = FxHashMap::default();
    for &block in function.blocks() {
        for &inst in function.insts(block) {
            if is_other_thread_number(function, inst) {
                return FxHashSet::default();
            }
            let Some((address, bytes)) = shared_access(function, inst) else {
                continue;
            };
            let symbol = match finder.place(address, false).variable {
                Some(Variable::Static(symbol)) => symbol,
                Some(_) => continue,
                // The access may be in any array, so no array is private.
                None => return FxHashSet::default(),
            };
            let found = element_of_access(function, address, bytes);
            let known = strides.entry(symbol).or_insert(found);
            if *known != found {
                *known = None;
            }
        }
    }
    let private = strides.into_iter().filter(|(_, stride)| stride.is_some());
    private.map(|(symbol, _)| symbol).collect()
}

/// Returns whether an instruction reads `tid.y` or `tid.z`. If a kernel reads these registers, threads of one warp may
/// have the same `tid.x`.
fn is_other_thread_number(function: &Function, inst: Inst) -> bool {
    let data = &function.dfg.insts[inst];
    data.opcode == Opcode::SReg
        && matches!(
            payload_sreg(data.payload()),
            Some(SpecialReg::TidY | SpecialReg::TidZ)
        )
}

/// Returns the address and the size in bytes of an access to shared memory.
fn shared_access(function: &Function, inst: Inst) -> Option<(Value, i64)> {
    let data = &function.dfg.insts[inst];
    let is_access = matches!(
        data.opcode,
        Opcode::Ld | Opcode::St | Opcode::Atom | Opcode::Red
    ) && matches!(
        data.mods.space(),
        StateSpace::Shared | StateSpace::SharedCluster
    );
    let &address = function.dfg.args(inst).first()?;
    let values = match data.opcode {
        Opcode::Ld => function.dfg.results(inst).len(),
        _ => function.dfg.args(inst).len() - 1,
    };
    is_access.then(|| {
        (
            address,
            values as i64 * i64::from(data.ty.bits().div_ceil(8)),
        )
    })
}

/// If the access stays in the thread's own element of an array, returns the distance in bytes between the elements of
/// two consecutive threads, and the offset in bytes of the first element from the symbol.
fn element_of_access(function: &Function, address: Value, bytes: i64) -> Option<(i64, i64)> {
    let (base, offset) = split_address(function, address);
    let Base::Value(base) = base else {
        return None;
    };
    let element = element(function, base, MOST_STEPS)?;
    let stays = if element.moves {
        bytes * LEAST_ELEMENT <= element.stride
    } else {
        (0..=element.stride - bytes).contains(&offset)
    };
    stays.then_some((element.stride, element.start))
}

/// Returns the thread's element of an array, if an address is computed from the address of this element.
fn element(function: &Function, value: Value, steps: usize) -> Option<Element> {
    let inst = function.dfg.def_inst(value)?;
    let data = &function.dfg.insts[inst];
    let follow = |v| element(function, v, steps.checked_sub(1)?);
    let moved = |element: Element| Element {
        moves: true,
        ..element
    };
    match (data.opcode, function.dfg.args(inst)) {
        (Opcode::Cvt | Opcode::Bitcast, &[a]) if is_word(function, value, a) => follow(a),
        (Opcode::Mad, &[a, b, c]) if data.mods.half() != Half::Hi => {
            let stride = thread_times(function, a, b)?;
            at_array(function, c, stride)
        }
        (Opcode::Add, &[a, b]) => {
            let direct =
                |array, scaled| at_array(function, array, scaled_thread(function, scaled)?);
            direct(a, b)
                .or_else(|| direct(b, a))
                .or_else(|| follow(a).map(moved))
                .or_else(|| follow(b).map(moved))
        }
        _ => None,
    }
}

/// Returns the thread's element of an array with elements of `stride` bytes, if `value` is the address of an array.
fn at_array(function: &Function, value: Value, stride: i64) -> Option<Element> {
    match split_address(function, value) {
        (Base::Symbol(symbol), start) => Some(Element {
            symbol,
            stride,
            start,
            moves: false,
        }),
        (Base::Value(_), _) => None,
    }
}

/// Returns the value from which `value` is converted without a change, through at most [`MOST_STEPS`] conversions.
fn before_conversions(function: &Function, mut value: Value) -> Value {
    for _ in 0..MOST_STEPS {
        let Some(inst) = function.dfg.def_inst(value) else {
            break;
        };
        match (function.dfg.insts[inst].opcode, function.dfg.args(inst)) {
            (Opcode::Cvt | Opcode::Bitcast, &[a]) if is_word(function, value, a) => value = a,
            _ => break,
        }
    }
    value
}

/// Returns the constant factor of `tid.x`, if `value` is the product of that factor and `tid.x`.
fn scaled_thread(function: &Function, value: Value) -> Option<i64> {
    let inst = function.dfg.def_inst(before_conversions(function, value))?;
    let data = &function.dfg.insts[inst];
    match (data.opcode, function.dfg.args(inst)) {
        (Opcode::Mul, &[a, b]) if data.mods.half() != Half::Hi => thread_times(function, a, b),
        (Opcode::Shl, &[a, b]) if is_thread(function, a) => {
            1i64.checked_shl(signed_constant(function, b)?.try_into().ok()?)
        }
        _ => None,
    }
}

/// Returns the constant factor of a product, if the other factor is `tid.x` and the constant is positive.
fn thread_times(function: &Function, a: Value, b: Value) -> Option<i64> {
    let factor = match (is_thread(function, a), is_thread(function, b)) {
        (true, _) => signed_constant(function, b),
        (_, true) => signed_constant(function, a),
        _ => None,
    };
    factor.filter(|&factor| factor > 0)
}

fn is_thread(function: &Function, value: Value) -> bool {
    let inst = function.dfg.def_inst(before_conversions(function, value));
    inst.is_some_and(|inst| {
        let data = &function.dfg.insts[inst];
        data.opcode == Opcode::SReg && payload_sreg(data.payload()) == Some(SpecialReg::TidX)
    })
}
