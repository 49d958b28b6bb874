//! Products of matrices for generated code: registers are read from a warp's frame, multiplied by the plan of
//! their point ([`margay_ir::meaning::matrix::plan`]) in code for this processor, and written there.

use margay_ir::exec::lanes;
use margay_ir::meaning::matrix::plan::{Operands, Plan, Registers};
use margay_jit::points::{Place, PointPlaces};

use super::points::Frame;

#[inline(always)]
fn words<const FUSED: bool>(plan: &Plan, from: &Operands<u32>, out: &mut Registers<u32>) -> bool {
    plan.words::<FUSED>(from, out)
}

/// The same in code for processors with AVX2 and fused steps, which the plan uses where they are exact.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,popcnt")]
fn words_avx2(plan: &Plan, from: &Operands<u32>, out: &mut Registers<u32>) -> bool {
    words::<true>(plan, from, out)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn doubles_avx2(plan: &Plan, from: &Operands<u64>, out: &mut Registers<u64>) -> bool {
    plan.doubles(from, out)
}

/// Whether this processor has what the code above is made for.
#[cfg(target_arch = "x86_64")]
fn is_modern() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has!("avx2") && has!("fma") && has!("popcnt")
}

fn words_here(plan: &Plan, from: &Operands<u32>, out: &mut Registers<u32>) -> bool {
    #[cfg(target_arch = "x86_64")]
    if is_modern() {
        // SAFETY: the processor has it.
        return unsafe { words_avx2(plan, from, out) };
    }
    words::<false>(plan, from, out)
}

fn doubles_here(plan: &Plan, from: &Operands<u64>, out: &mut Registers<u64>) -> bool {
    #[cfg(target_arch = "x86_64")]
    if is_modern() {
        // SAFETY: the processor has it.
        return unsafe { doubles_avx2(plan, from, out) };
    }
    plan.doubles(from, out)
}

/// Computes a product for the lanes `active`; the others' registers count as zeros. False, with nothing done,
/// where its meaning has to.
pub(super) fn perform(frame: Frame, point: &PointPlaces, active: u32) -> bool {
    let Some(plan) = &point.plan else {
        return false;
    };
    // Behind the member mask.
    let args = point.args.get(1..).unwrap_or_default();
    let registers = plan.registers();
    if plan.is_wide() {
        let from = read(args, registers, |place| wide_row(frame, place, active));
        let mut out = [[0; 32]; 8];
        if !doubles_here(plan, &from, &mut out) {
            return false;
        }
        for (&place, row) in point.results.iter().zip(&out) {
            for lane in lanes(active) {
                frame.put_wide(place, lane as usize, row[lane as usize].into());
            }
        }
        return true;
    }
    let from = read(args, registers, |place| {
        let mut row = frame.words(place);
        if active != u32::MAX {
            for (lane, word) in row.iter_mut().enumerate() {
                *word &= (active >> lane & 1).wrapping_neg();
            }
        }
        row
    });
    let mut out = [[0; 32]; 8];
    if !words_here(plan, &from, &mut out) {
        return false;
    }
    for (&place, row) in point.results.iter().zip(&out) {
        frame.put_active(place, active, row);
    }
    true
}

fn wide_row(frame: Frame, place: Place, active: u32) -> [u64; 32] {
    let mut row = [0; 32];
    for lane in lanes(active) {
        row[lane as usize] = frame.wide(place, lane as usize) as u64;
    }
    row
}

/// The rows of the matrices, which lie one behind the other.
fn read<W: Copy + Default>(
    args: &[Place],
    registers: [usize; 4],
    row: impl Fn(Place) -> [W; 32],
) -> Operands<W> {
    let mut args = args.iter();
    let mut part = |count: usize| -> Registers<W> {
        let mut rows = [[W::default(); 32]; 8];
        for (to, &place) in rows.iter_mut().zip(args.by_ref().take(count)) {
            *to = row(place);
        }
        rows
    };
    let [a, b, c, _] = registers;
    Operands {
        a: part(a),
        b: part(b),
        c: part(c),
    }
}
