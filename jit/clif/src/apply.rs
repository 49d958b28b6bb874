//! Operations of the IR that have no native code: generated code calls a function that applies the reference function to
//! each lane.

use margay_ops::meaning::{Bits, Desc, Meaning, mask};
use margay_ops::types::{Kind, Type};
use smallvec::{SmallVec, smallvec};

use crate::group::lane_bytes;

/// The type of the function that generated code calls: a description, the operands and the results. Operands and results
/// are in memory as [`LaneCall`] describes. The function is a wrapper of [`LaneCall::apply`], which the program that runs
/// the code provides.
pub type Apply = unsafe extern "C" fn(call: *const LaneCall, operands: *const u8, results: *mut u8);

/// An operation that is applied to each lane. In memory, each operand and each result begins behind the previous one, and
/// has four bytes for each lane, or as many as a lane has if it has more. A scalar operand has one lane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LaneCall {
    /// The operation.
    pub desc: Desc,
    /// The number of lanes.
    pub lanes: u32,
    /// The types of the operands.
    pub operands: Vec<Type>,
    /// The kinds of the results.
    pub results: Vec<Kind>,
}

impl LaneCall {
    /// Returns the number of bytes of a value with the type `ty`, which is a multiple of 16.
    pub fn bytes(ty: Type) -> usize {
        (ty.lanes() * lane_bytes(ty.kind())).next_multiple_of(16) as usize
    }

    /// Returns the type of a result of the kind `kind`. Panics if the number of lanes is impossible.
    fn result(&self, kind: Kind) -> Type {
        Type::vector(kind, self.lanes).expect("the number of lanes is that of a type")
    }

    /// Returns the number of bytes of all operands.
    pub fn operand_bytes(&self) -> usize {
        self.operands.iter().map(|&ty| LaneCall::bytes(ty)).sum()
    }

    /// Returns the number of bytes of all results.
    pub fn result_bytes(&self) -> usize {
        let results = self.results.iter();
        results
            .map(|&kind| LaneCall::bytes(self.result(kind)))
            .sum()
    }

    /// Applies the operation to each lane. Operands and results have the lengths that [`LaneCall::operand_bytes`] and
    /// [`LaneCall::result_bytes`] return.
    pub fn apply(&self, operands: &[u8], results: &mut [u8]) {
        let Meaning::Pure(meaning) = self.desc.opcode.meaning() else {
            return;
        };
        for lane in 0..self.lanes as usize {
            let args: SmallVec<[Bits; 8]> = parts(self.operands.iter().copied())
                .map(|(ty, start)| {
                    let lane = if ty.lanes() == 1 { 0 } else { lane };
                    read(&operands[place(ty, start, lane)]) & mask(ty.lane_bits())
                })
                .collect();
            let mut out: SmallVec<[Bits; 4]> = smallvec![0; self.results.len()];
            meaning(&self.desc, &args, &mut out);
            let types = self.results.iter().map(|&kind| self.result(kind));
            for ((ty, start), bits) in parts(types).zip(out) {
                // A lane of a mask is all ones or all zeros.
                let bits = match ty.kind() {
                    Kind::Pred => bits.wrapping_neg(),
                    _ => bits,
                };
                let cell = &mut results[place(ty, start, lane)];
                let count = cell.len();
                cell.copy_from_slice(&bits.to_le_bytes()[..count]);
            }
        }
    }
}

/// Returns each type with the offset of its value.
fn parts(types: impl Iterator<Item = Type>) -> impl Iterator<Item = (Type, usize)> {
    types.scan(0, |next, ty| {
        let start = *next;
        *next += LaneCall::bytes(ty);
        Some((ty, start))
    })
}

/// Returns the bytes of a lane of a value that begins at `start`.
fn place(ty: Type, start: usize, lane: usize) -> std::ops::Range<usize> {
    let bytes = lane_bytes(ty.kind()) as usize;
    start + lane * bytes..start + (lane + 1) * bytes
}

fn read(bytes: &[u8]) -> Bits {
    bytes
        .iter()
        .rev()
        .fold(0, |bits, &byte| bits << 8 | Bits::from(byte))
}
