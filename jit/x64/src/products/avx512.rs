//! Matrix products with AVX-512 (the subsets F, BW, DQ and VL).
//!
//! The functions follow the arrangement of the product ([`margay_ops::meaning::matrix::plan::vectors`]): they write the
//! units of both factors to memory ([`factors`]), multiply them while blocks of sums are in registers, and convert the
//! sums.

pub(super) mod doubles;
mod factors;
mod floats;
mod memory;
mod wholes;

use margay_ops::meaning::matrix::plan::{Operands, Plan, Registers};
use margay_ops::types::OpType;

use super::Memory;
use crate::features::Features;

/// Computes a product whose matrices are in 32-bit registers, writes the result to `out`, and returns true. If there is no
/// code for the product, changes nothing and returns false.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn words(
    features: Features,
    plan: &Plan,
    from: &Operands<'_, u32>,
    (memory, out): (&mut Memory, &mut Registers<u32>),
) -> bool {
    let Some(vectors) = plan.vectors() else {
        return false;
    };
    match vectors.factors[0].ty {
        OpType::F16 | OpType::BF16 | OpType::TF32 | OpType::E4M3 | OpType::E5M2 => {
            floats::run(vectors, from, (memory, out));
            true
        }
        OpType::S8 | OpType::U8 | OpType::S4 | OpType::U4 => {
            wholes::integers(plan, vectors, from, (&mut memory.units, out));
            true
        }
        OpType::B1 if features.contains(Features::VPOPCNTDQ) => {
            // SAFETY: the processor has the extensions for which the function is compiled.
            unsafe { wholes::bits(plan, vectors, from, (&mut memory.units, out)) };
            true
        }
        _ => false,
    }
}
