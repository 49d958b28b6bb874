//! Reference meanings: what each operation computes, bit for bit.
//!
//! A meaning works on [`Bits`]: a value in the low bits of a `u128`, whose upper bits are zero. The
//! interpreter, the constant folder and the JIT's slow path call the same function; fast lowerings are tested
//! against it. Invariant: a meaning never panics, whatever its operands are, and leaves the upper bits of its
//! results zero.

//!
//! Modules: [`arith`] dispatches the rows that integers ([`int`], [`carry`]) and floating point ([`float`],
//! [`minmax`], [`approx`]) share. [`bits`], [`compare`], [`cvt`], [`data`] and [`video`] implement rows of
//! their own. [`atomic`] contains read-modify-writes, [`warp`] the collectives, and [`matrix`] the matrix
//! products of a warp. All exact floating-point arithmetic uses [`soft`]. A description that no PTX instruction
//! has (such as a sine of integers) gives zeros; the verifier rejects it.

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

use crate::mods::Mods;
use crate::ops::Opcode;
use crate::types::OpType;

/// The bits of one value, zero-extended to 128 bits.
pub type Bits = u128;

/// An operation without its operands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Desc {
    /// The opcode.
    pub opcode: Opcode,
    /// The type; the type of the result if PTX writes two types.
    pub ty: OpType,
    /// The type of the source if PTX writes two types; else `None`.
    pub src: OpType,
    /// The modifiers, or the payload of a structural op.
    pub mods: Mods,
}

/// Computes the results of one lane from its operands. The slices have as many elements as the op has operands
/// and results.
pub type PureFn = fn(&Desc, &[Bits], &mut [Bits]);
/// Returns the new memory content, given the old content and the operands other than the address.
pub type RmwFn = fn(&Desc, Bits, &[Bits]) -> Bits;
/// Computes a warp collective: see [`WarpLanes`].
pub type WarpFn = fn(&Desc, &mut WarpLanes<'_>);

/// Operands and results of a warp collective.
#[derive(Debug)]
pub struct WarpLanes<'a> {
    /// The lanes that take part.
    pub active: u32,
    /// The operands: `args[operand][lane]`.
    pub args: &'a [[Bits; 32]],
    /// The results: `results[result][lane]`. Only active lanes are read.
    pub results: &'a mut [[Bits; 32]],
}

/// The reference meaning of an op table row.
#[derive(Clone, Copy, Debug)]
pub enum Meaning {
    /// None: engines implement the op by its effects (structure, control flow, memory, synchronisation).
    None,
    /// A pure function of the operands of one lane.
    Pure(PureFn),
    /// A read-modify-write.
    Rmw(RmwFn),
    /// A collective over the lanes of a warp.
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

/// Returns an operand, or zero if it is missing.
#[inline(always)]
pub(crate) fn arg(args: &[Bits], index: usize) -> Bits {
    args.get(index).copied().unwrap_or(0)
}

/// Returns the distance in bits between neighbouring packed elements.
#[inline(always)]
const fn stride(ty: OpType) -> u32 {
    match ty.elements() {
        0 => 0,
        elements => ty.bits() / elements,
    }
}

/// Returns element `index` of a packed value; a scalar value has one element.
#[inline(always)]
pub(crate) fn element(ty: OpType, bits: Bits, index: u32) -> Bits {
    bits.checked_shr(index * stride(ty)).unwrap_or(0) & mask(stride(ty))
}

/// Applies `op` to each element of up to four operands. Missing operands are zero; results are truncated to the
/// element's width.
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
