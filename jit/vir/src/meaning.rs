//! The reference functions of the ops that move and combine lanes.
//!
//! A reference function has the operands as lists of lanes and returns the lanes of the result. Invariant: it does not
//! panic for any data and any contents of lanes, if the operands have the types that the op table requires.

use margay_ops::meaning::{Bits, Desc, Meaning, WarpLanes};
use margay_ops::mods::AtomOp;
use margay_ops::types::{OpType, Type};
use smallvec::{SmallVec, smallvec};

use crate::data::{Data, lane_mask, lanes_of};

/// The bits of each lane of a value, zero-extended.
pub type Lanes = SmallVec<[Bits; 16]>;

/// Returns lane `index` of an operand; all lanes of a scalar operand are equal.
pub(crate) fn lane(operand: &[Bits], index: usize) -> Bits {
    match operand {
        [scalar] => *scalar,
        lanes => lanes.get(index).copied().unwrap_or(0),
    }
}

/// Applies an operation of the IR to the operands of one lane.
pub(crate) fn apply(desc: &Desc, args: &[Bits], results: &mut [Bits]) {
    if let Meaning::Pure(function) = desc.opcode.meaning() {
        function(desc, args, results);
    }
}

/// Returns whether an `update` may apply an operation of the IR: it updates one integer of 32 or 64 bits, or adds to one
/// `f32` or `f64`.
pub fn is_update(desc: &Desc) -> bool {
    let on_integers = !matches!(
        desc.mods.atom_op(),
        AtomOp::None | AtomOp::Popc | AtomOp::Signal | AtomOp::SignalDrop
    );
    matches!(desc.opcode.meaning(), Meaning::Rmw(_))
        && desc.mods.vec() == 1
        && match desc.ty {
            OpType::F32 | OpType::F64 => desc.mods.atom_op() == AtomOp::Add,
            ty => {
                ty.is_integer() && ty.elements() == 1 && matches!(ty.bits(), 32 | 64) && on_integers
            }
        }
}

/// Returns the number of operands of an update besides its address: two for a compare-and-swap, otherwise one.
pub fn update_operands(desc: &Desc) -> usize {
    match desc.mods.atom_op() {
        AtomOp::Cas => 2,
        _ => 1,
    }
}

/// Returns the contents of memory after an update of one lane.
pub(crate) fn updated(desc: &Desc, old: Bits, args: &[Bits]) -> Bits {
    match desc.opcode.meaning() {
        Meaning::Rmw(function) => function(desc, old, args),
        _ => old,
    }
}

/// Applies an operation of the IR to `lanes` lanes of the operands, and returns the lanes of each of its `count` results.
pub(crate) fn map(desc: &Desc, lanes: usize, args: &[Lanes], count: usize) -> SmallVec<[Lanes; 2]> {
    let mut results: SmallVec<[Lanes; 2]> = smallvec![Lanes::new(); count];
    for n in 0..lanes {
        let operands: SmallVec<[Bits; 4]> = args.iter().map(|arg| lane(arg, n)).collect();
        let mut out: SmallVec<[Bits; 4]> = smallvec![0; count];
        apply(desc, &operands, &mut out);
        for (lanes, bits) in results.iter_mut().zip(out) {
            lanes.push(bits);
        }
    }
    results
}

/// Computes the matrix product of a warp from the lanes of its registers, and returns the lanes of each of its `count`
/// results.
pub(crate) fn product(desc: &Desc, args: &[Lanes], count: usize) -> SmallVec<[Lanes; 2]> {
    // The reference function has the member mask as its first operand, and does not read it.
    let mut rows = vec![[0; 32]];
    rows.extend(args.iter().map(|arg| std::array::from_fn(|n| lane(arg, n))));
    let mut results = vec![[0; 32]; count];
    if let Meaning::Warp(function) = desc.opcode.meaning() {
        let mut warp = WarpLanes {
            active: u32::MAX,
            args: &rows,
            results: &mut results,
        };
        function(desc, &mut warp);
    }
    results.iter().map(|row| Lanes::from_slice(row)).collect()
}

pub(crate) fn constant(ty: Option<Type>, data: &Data, _: &[Lanes]) -> Lanes {
    smallvec![Bits::from(data.number()) & lane_mask(ty); lanes_of(ty)]
}

pub(crate) fn affine(ty: Option<Type>, data: &Data, args: &[Lanes]) -> Lanes {
    let stride = Bits::from(data.number());
    let value = |n: usize| args[0][0].wrapping_add(stride.wrapping_mul(n as Bits)) & lane_mask(ty);
    (0..lanes_of(ty)).map(value).collect()
}

pub(crate) fn splat(ty: Option<Type>, _: &Data, args: &[Lanes]) -> Lanes {
    smallvec![args[0][0]; lanes_of(ty)]
}

pub(crate) fn extract(_: Option<Type>, data: &Data, args: &[Lanes]) -> Lanes {
    smallvec![lane(&args[0], data.number() as usize)]
}

pub(crate) fn insert(_: Option<Type>, data: &Data, args: &[Lanes]) -> Lanes {
    let mut lanes = args[0].clone();
    if let Some(lane) = lanes.get_mut(data.number() as usize) {
        *lane = args[1][0];
    }
    lanes
}

pub(crate) fn half(ty: Option<Type>, data: &Data, args: &[Lanes]) -> Lanes {
    let (low, high) = args[0].split_at(lanes_of(ty));
    match data.number() {
        0 => low.into(),
        _ => high.into(),
    }
}

pub(crate) fn join(_: Option<Type>, _: &Data, args: &[Lanes]) -> Lanes {
    args[0].iter().chain(&args[1]).copied().collect()
}

pub(crate) fn permute(ty: Option<Type>, _: &Data, args: &[Lanes]) -> Lanes {
    let from = |&index: &Bits| lane(&args[0], index as usize % lanes_of(ty));
    args[1].iter().map(from).collect()
}

pub(crate) fn permute2(ty: Option<Type>, data: &Data, args: &[Lanes]) -> Lanes {
    let both = join(ty, data, args);
    let from = |&index: &Bits| lane(&both, index as usize % both.len());
    args[2].iter().map(from).collect()
}

pub(crate) fn compress(ty: Option<Type>, _: &Data, args: &[Lanes]) -> Lanes {
    let pairs = args[0].iter().zip(&args[1]);
    let mut lanes: Lanes = pairs
        .filter(|&(_, &on)| on != 0)
        .map(|(&lane, _)| lane)
        .collect();
    lanes.resize(lanes_of(ty), 0);
    lanes
}

pub(crate) fn expand(_: Option<Type>, _: &Data, args: &[Lanes]) -> Lanes {
    let mut from = args[0].iter().copied();
    let mut next = |&on: &Bits| match on {
        0 => 0,
        _ => from.next().unwrap_or(0),
    };
    args[1].iter().map(&mut next).collect()
}

/// Combines all lanes. Each round combines lane `n` of the lower half with lane `n` of the upper half, until one lane is
/// left. This order is part of the definition, because sums of floating-point numbers depend on it.
pub fn reduce(_: Option<Type>, data: &Data, args: &[Lanes]) -> Lanes {
    let mut lanes = args[0].clone();
    let Data::Lane(desc) = *data else {
        return lanes;
    };
    while lanes.len() > 1 {
        let upper: Lanes = lanes.drain(lanes.len() / 2..).collect();
        for (low, high) in lanes.iter_mut().zip(upper) {
            let mut result = [0];
            apply(&desc, &[*low, high], &mut result);
            *low = result[0];
        }
    }
    lanes
}

pub(crate) fn ballot(_: Option<Type>, _: &Data, args: &[Lanes]) -> Lanes {
    let bits = (0..).zip(&args[0]).map(|(n, &on)| (on & 1) << n);
    smallvec![bits.sum()]
}

pub(crate) fn mask(ty: Option<Type>, _: &Data, args: &[Lanes]) -> Lanes {
    (0..lanes_of(ty)).map(|n| args[0][0] >> n & 1).collect()
}

pub(crate) fn any(_: Option<Type>, _: &Data, args: &[Lanes]) -> Lanes {
    smallvec![Bits::from(args[0].iter().any(|&on| on != 0))]
}

pub(crate) fn all(_: Option<Type>, _: &Data, args: &[Lanes]) -> Lanes {
    smallvec![Bits::from(args[0].iter().all(|&on| on != 0))]
}

pub(crate) fn count(_: Option<Type>, _: &Data, args: &[Lanes]) -> Lanes {
    smallvec![args[0].iter().sum()]
}

pub(crate) fn first(_: Option<Type>, _: &Data, args: &[Lanes]) -> Lanes {
    let found = args[0].iter().position(|&on| on != 0);
    smallvec![found.unwrap_or(args[0].len()) as Bits]
}
