//! Computes the matrix products of warps ([`margay_ops::meaning::matrix::plan`]) with the instruction set extensions of
//! the processor. Generated code and the runtime call these functions.
//!
//! Invariant: all variants of a function have the same results.
#![allow(
    unsafe_code,
    reason = "functions that are compiled for extensions of the instruction set may run only on processors with them"
)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;

use std::cell::RefCell;
use std::sync::LazyLock;

use margay_ops::meaning::matrix::plan::vectors::{GROUP, GROUPS};
use margay_ops::meaning::matrix::plan::{Operands, Plan, Registers, Scratch};

use crate::features::Features;

/// Memory for the computation of a product. Its contents before the computation do not matter.
#[derive(Default)]
struct Memory {
    /// The memory of code without a variant for vectors.
    plain: Scratch,
    /// The units of the factors.
    units: [Groups<u32>; 2],
    doubles: [Groups<f64>; 2],
    /// The elements of the addend and of the result, if a register contains two of them.
    singles: [Aligned; 2],
}

/// The units of a factor, in groups.
#[repr(align(64))]
struct Groups<T>([[T; GROUP]; GROUPS]);

#[repr(align(64))]
#[derive(Default)]
struct Aligned(Registers<u32>);

impl<T: Copy + Default> Default for Groups<T> {
    fn default() -> Groups<T> {
        Groups([[T::default(); GROUP]; GROUPS])
    }
}

thread_local! {
    /// The memory that a thread of the operating system uses for each product.
    static MEMORY: RefCell<Box<Memory>> = RefCell::default();
}

static HOST: LazyLock<Features> = LazyLock::new(Features::host);

/// Computes a product whose matrices are in 32-bit registers, writes the result to `out`, and returns true. Elements of `out`
/// after the registers of the result have no meaning. If the matrices are in 64-bit registers, changes nothing and returns
/// false.
pub fn words(plan: &Plan, from: &Operands<'_, u32>, out: &mut Registers<u32>) -> bool {
    MEMORY.with_borrow_mut(|memory| words_on(*HOST, plan, from, (memory, out)))
}

/// Computes a product whose matrices are in 64-bit registers, writes the result to `out`, and returns true. If the
/// matrices are in 32-bit registers, or if an element of the result is NaN, does not change `out` and returns false.
pub fn doubles(plan: &Plan, from: &Operands<'_, u64>, out: &mut Registers<u64>) -> bool {
    MEMORY.with_borrow_mut(|memory| doubles_on(*HOST, plan, from, (memory, out)))
}

/// Does what [`words`] does on a processor with these features, which must be features of this host.
fn words_on(
    features: Features,
    plan: &Plan,
    from: &Operands<'_, u32>,
    (memory, out): (&mut Memory, &mut Registers<u32>),
) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        if features.contains(Features::LEVEL_AVX512) {
            // SAFETY: the processor has the extensions for which the function is compiled.
            let is_done = unsafe { avx512::words(features, plan, from, (&mut *memory, &mut *out)) };
            if is_done {
                return true;
            }
        }
        if features.contains(Features::LEVEL_AVX2) {
            // SAFETY: the processor has the extensions for which the function is compiled.
            let is_done = unsafe { avx2::words(plan, from, (&mut *memory, &mut *out)) };
            if is_done {
                return true;
            }
            // SAFETY: the processor has the extensions for which the function is compiled.
            return unsafe { words_avx2(plan, from, (&mut memory.plain, out)) };
        }
    }
    let _ = features;
    plan.words::<false>(from, &mut memory.plain, out)
}

/// Does what [`doubles`] does on a processor with these features, which must be features of this host.
fn doubles_on(
    features: Features,
    plan: &Plan,
    from: &Operands<'_, u64>,
    (memory, out): (&mut Memory, &mut Registers<u64>),
) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        if features.contains(Features::LEVEL_AVX512) && avx512::doubles::is_supported(plan) {
            // SAFETY: the processor has the extensions for which the function is compiled.
            return unsafe { avx512::doubles::run(plan, from, (&mut memory.doubles, out)) };
        }
        if features.contains(Features::LEVEL_AVX2) {
            // SAFETY: the processor has the extensions for which the function is compiled.
            return unsafe { doubles_avx2(plan, from, (&mut memory.plain, out)) };
        }
    }
    let _ = features;
    plan.doubles(from, &mut memory.plain, out)
}

/// The plan uses fused multiply-adds only where they have the same results as separate multiplications and additions.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,popcnt")]
fn words_avx2(
    plan: &Plan,
    from: &Operands<'_, u32>,
    (scratch, out): (&mut Scratch, &mut Registers<u32>),
) -> bool {
    plan.words::<true>(from, scratch, out)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn doubles_avx2(
    plan: &Plan,
    from: &Operands<'_, u64>,
    (scratch, out): (&mut Scratch, &mut Registers<u64>),
) -> bool {
    plan.doubles(from, scratch, out)
}
