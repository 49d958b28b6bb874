//! Computes the matrix products of warps ([`margay_ops::meaning::matrix::plan`]) with the instruction set extensions of
//! the processor. Generated code and the runtime call these functions.
//!
//! Invariant: all variants of a function have the same results.
#![allow(
    unsafe_code,
    reason = "functions that are compiled for extensions of the instruction set may run only on processors with them"
)]

use std::cell::RefCell;

use margay_ops::meaning::matrix::plan::{Operands, Plan, Registers, Scratch};

thread_local! {
    /// The memory that a thread of the operating system uses for each product.
    static SCRATCH: RefCell<Box<Scratch>> = RefCell::default();
}

/// Computes a product whose matrices are in 32-bit registers, writes the result to `out`, and returns true. If the
/// matrices are in 64-bit registers, changes nothing and returns false.
pub fn words(plan: &Plan, from: &Operands<'_, u32>, out: &mut Registers<u32>) -> bool {
    SCRATCH.with_borrow_mut(|scratch| {
        #[cfg(target_arch = "x86_64")]
        if has_avx2() {
            // SAFETY: the processor has the extensions for which the function is compiled.
            return unsafe { words_avx2(plan, from, (scratch, out)) };
        }
        plan.words::<false>(from, scratch, out)
    })
}

/// Computes a product whose matrices are in 64-bit registers, writes the result to `out`, and returns true. If the
/// matrices are in 32-bit registers, or if an element of the result is NaN, does not change `out` and returns false.
pub fn doubles(plan: &Plan, from: &Operands<'_, u64>, out: &mut Registers<u64>) -> bool {
    SCRATCH.with_borrow_mut(|scratch| {
        #[cfg(target_arch = "x86_64")]
        if has_avx2() {
            // SAFETY: the processor has the extensions for which the function is compiled.
            return unsafe { doubles_avx2(plan, from, (scratch, out)) };
        }
        plan.doubles(from, scratch, out)
    })
}

/// Returns whether this processor has the extensions for which [`words_avx2`] and [`doubles_avx2`] are compiled.
#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has!("avx2") && has!("fma") && has!("popcnt")
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
