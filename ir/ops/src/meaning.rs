//! The reference functions of the ops, which define the exact bits of each op's results. In the
//! code, a reference function is called a *meaning*.
//!
//! The operands and results of a reference function have the type [`Bits`]: a `u128` that contains the value in its low
//! bits and zeros in its upper bits. The interpreter, the constant folder, and generated code for
//! ops without a fast lowering (translation into native code) call the same reference function.
//! Tests compare fast lowerings with the reference functions. Invariant: a reference function does
//! not panic for any operands, and the upper bits of its results are zero.
//!
//! The modules have these contents. [`arith`] implements the ops that accept both integer and floating-point types. It
//! calls the functions for integers ([`int`], [`carry`]) or for floating point ([`float`], [`minmax`], [`approx`]).
//! [`bits`], [`compare`], [`cvt`], [`data`] and [`video`] implement the other ops that compute each lane separately.
//! [`atomic`] and [`mbarrier`] implement read-modify-writes, [`warp`] implements collectives, and [`matrix`] implements
//! the matrix products of a warp. [`soft`] implements exact floating-point arithmetic. For a [`Desc`] that no PTX
//! instruction has (such as a sine of integers), a reference function returns zeros; the verifier rejects such a
//! `Desc`.

pub mod approx;
pub mod arith;
pub mod atomic;
pub mod bits;
pub mod carry;
pub mod compare;
pub mod cvt;
pub mod data;
pub mod float;
pub mod int;
pub mod matrix;
pub mod mbarrier;
pub mod minmax;
pub mod soft;
mod table;
pub mod video;
pub mod warp;

use serde::{Deserialize, Serialize};

use crate::mods::Mods;
use crate::ops::Opcode;
use crate::types::OpType;

/// The bits of a value in one lane, zero-extended to 128 bits.
pub type Bits = u128;

/// The description of an operation: its op, types and modifiers, without its operands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Desc {
    /// The opcode.
    pub opcode: Opcode,
    /// The type of the operation. If the PTX instruction has two types, this is the type of the result.
    pub ty: OpType,
    /// The type of the source operand if the PTX instruction has two types; `OpType::None`
    /// otherwise.
    pub src: OpType,
    /// The modifiers of the operation, or its payload if the op has a payload instead of modifiers.
    pub mods: Mods,
}

/// A reference function that computes the results of one lane from the operands of this lane. The
/// first slice contains the operands, the second receives the results.
pub type PureFn = fn(&Desc, &[Bits], &mut [Bits]);
/// A reference function of an atomic operation. It returns the new memory content, given the old
/// content and all operands except the address.
pub type RmwFn = fn(&Desc, Bits, &[Bits]) -> Bits;
/// A reference function of a collective, which computes the results of all lanes (see
/// [`WarpLanes`]).
pub type WarpFn = fn(&Desc, &mut WarpLanes<'_>);

/// The operands and the results of a collective, for all lanes of a warp.
#[derive(Debug)]
pub struct WarpLanes<'a> {
    /// A mask of the lanes that execute the collective together.
    pub active: u32,
    /// The operands: `args[operand][lane]`.
    pub args: &'a [[Bits; 32]],
    /// The results: `results[result][lane]`. The caller reads only the results of active lanes.
    pub results: &'a mut [[Bits; 32]],
}

/// The reference function of a row of the op table.
#[derive(Clone, Copy, Debug)]
pub enum Meaning {
    /// The op has no reference function. Each engine implements the op itself, according to the
    /// op's effects (structure, control flow, memory, synchronisation).
    None,
    /// The results of a lane depend only on the operands of this lane, and the op has no side
    /// effects.
    Pure(PureFn),
    /// A read-modify-write.
    Rmw(RmwFn),
    /// The results of a lane depend on the operands of several lanes of the warp.
    Warp(WarpFn),
}

/// Returns a value with ones in the low `bits` bits.
#[inline(always)]
pub const fn mask(bits: u32) -> Bits {
    if bits >= 128 {
        Bits::MAX
    } else {
        (1 << bits) - 1
    }
}

/// Sign-extends the low `bits` bits to 128 bits.
#[inline(always)]
pub const fn sign_extend(value: Bits, bits: u32) -> i128 {
    if bits == 0 || bits >= 128 {
        value as i128
    } else {
        ((value << (128 - bits)) as i128) >> (128 - bits)
    }
}

/// Returns the operand with the given index, or zero if `args` has no such element.
#[inline(always)]
pub(crate) fn arg(args: &[Bits], index: usize) -> Bits {
    args.get(index).copied().unwrap_or(0)
}

/// Returns the distance in bits between adjacent elements of a packed value.
#[inline(always)]
const fn stride(ty: OpType) -> u32 {
    match ty.elements() {
        0 => 0,
        elements => ty.bits() / elements,
    }
}

/// Returns the element with index `index` of a packed value. A scalar value counts as a packed value with one element.
#[inline(always)]
pub(crate) fn element(ty: OpType, bits: Bits, index: u32) -> Bits {
    bits.checked_shr(index * stride(ty)).unwrap_or(0) & mask(stride(ty))
}

/// Applies `op` to each element of up to four operands. An operand that `args` does not contain
/// counts as zero. Each result of `op` is truncated to the width of an element.
#[inline(always)]
pub(crate) fn map_elements(ty: OpType, args: &[Bits], op: impl Fn(&[Bits; 4]) -> Bits) -> Bits {
    let mut operands = [0; 4];
    if ty.elements() == 1 {
        for (operand, &bits) in operands.iter_mut().zip(args) {
            *operand = bits & mask(ty.bits());
        }
        return op(&operands) & mask(ty.bits());
    }
    let mut whole = 0;
    for index in 0..ty.elements() {
        for (operand, &bits) in operands.iter_mut().zip(args) {
            *operand = element(ty, bits, index);
        }
        let bits = op(&operands) & mask(stride(ty));
        whole |= bits << (index * stride(ty));
    }
    whole
}
