//! Reference meanings: what each operation computes, bit for bit.
//!
//! A meaning works on [`Bits`]: the low bits of a `u128`, upper bits zero. The interpreter, the
//! constant folder and the JIT's slow path call the same function; fast lowerings are checked
//! against it. Invariant: a meaning never panics, whatever the bits, and leaves the upper bits of
//! its results zero.

//!
//! Who computes what: [`arith`] dispatches rows that integers ([`int`], [`carry`]) and floating
//! point ([`float`], [`minmax`], [`approx`]) share; [`bits`], [`compare`], [`cvt`], [`data`] and
//! [`video`] serve their own rows; [`atomic`] and [`warp`] are read-modify-writes and collectives,
//! [`matrix`] the products of a warp's matrices. All exact
//! floating point stands on [`soft`]. A description that no PTX instruction has (a sine of
//! integers, say) gives zeros; the verifier keeps such out.

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

/// The bits of one value, zero-extended.
pub type Bits = u128;

/// An operation without its operands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Desc {
    /// The opcode.
    pub opcode: Opcode,
    /// The (first) type: of the result, where PTX writes two.
    pub ty: OpType,
    /// The second type: of the source, where PTX writes two; else `None`.
    pub src: OpType,
    /// Modifiers, or the payload of a structural op.
    pub mods: Mods,
}

/// A lane-by-lane computation: operands in, results out. Slices have the op's exact lengths.
pub type PureFn = fn(&Desc, &[Bits], &mut [Bits]);
/// New memory content from the old one and the operands (without the address).
pub type RmwFn = fn(&Desc, Bits, &[Bits]) -> Bits;
/// A warp collective: see [`WarpLanes`].
pub type WarpFn = fn(&Desc, &mut WarpLanes<'_>);

/// Operands and results of a warp collective.
#[derive(Debug)]
pub struct WarpLanes<'a> {
    /// Lanes that take part.
    pub active: u32,
    /// Operands, `args[operand][lane]`.
    pub args: &'a [[Bits; 32]],
    /// Results, `results[result][lane]`; only active lanes are read back.
    pub results: &'a mut [[Bits; 32]],
}

/// The reference meaning of an op table row.
#[derive(Clone, Copy, Debug)]
pub enum Meaning {
    /// Handled by its effects: structure, control flow, memory, synchronisation.
    None,
    /// Lane by lane.
    Pure(PureFn),
    /// Read-modify-write.
    Rmw(RmwFn),
    /// Over the lanes of a warp.
    Warp(WarpFn),
}

/// All ones in the low `bits` bits.
#[inline(always)]
pub const fn mask(bits: u32) -> Bits {
    if bits >= 128 {
        Bits::MAX
    } else {
        (1 << bits) - 1
    }
}

/// Sign-extends the low `bits` bits to 128.
#[inline(always)]
pub const fn sign_extend(value: Bits, bits: u32) -> i128 {
    if bits == 0 || bits >= 128 {
        value as i128
    } else {
        ((value << (128 - bits)) as i128) >> (128 - bits)
    }
}

/// An operand, or zero where there is none.
#[inline(always)]
pub(crate) fn arg(args: &[Bits], index: usize) -> Bits {
    args.get(index).copied().unwrap_or(0)
}

/// Bits from the start of one packed element to the next.
#[inline(always)]
const fn stride(ty: OpType) -> u32 {
    match ty.elements() {
        0 => 0,
        elements => ty.bits() / elements,
    }
}

/// Element `index` of a packed (or the only one of a scalar) value.
#[inline(always)]
pub(crate) fn element(ty: OpType, bits: Bits, index: u32) -> Bits {
    bits.checked_shr(index * stride(ty)).unwrap_or(0) & mask(stride(ty))
}

/// Applies `op` to each element of up to four operands, those that are not there being zero;
/// results are cut to the element's width.
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
