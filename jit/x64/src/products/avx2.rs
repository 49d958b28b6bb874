//! Matrix products with AVX2, FMA and F16C.
//!
//! The functions follow the arrangement of the product, as those for AVX-512 do. The units of floating-point elements are
//! in double precision in memory.

mod factors;
mod floats;
mod integers;
mod memory;

use margay_ops::meaning::matrix::plan::{Operands, Plan, Registers};
use margay_ops::types::OpType;

use super::Memory;

/// Computes a product whose matrices are in 32-bit registers, writes the result to `out`, and returns true. If there is no
/// code for the product, changes nothing and returns false.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn words(
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
            integers::run(plan, vectors, from, (&mut memory.units, out));
            true
        }
        _ => false,
    }
}
