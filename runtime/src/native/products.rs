//! Computes matrix products for generated code. The functions read matrices from a warp's frame, multiply them
//! according to the plan of the sync point ([`margay_ops::meaning::matrix::plan`]), and write the results to the frame.
//! On x86-64, the multiplication uses AVX2 and FMA if the processor supports them.

use std::cell::RefCell;

use margay_exec::lanes;
use margay_jit::sync_points::{LaneStorage, SyncPointPlaces};
use margay_ops::meaning::matrix::plan::{Operands, Plan, Registers, Scratch};

use super::sync_points::Frame;

#[inline(always)]
fn words<const FUSED: bool>(
    plan: &Plan,
    from: &Operands<'_, u32>,
    (scratch, out): (&mut Scratch, &mut Registers<u32>),
) -> bool {
    plan.words::<FUSED>(from, scratch, out)
}

/// Does the same as [`words`], but is compiled for processors with AVX2, FMA and POPCNT. The plan
/// uses fused multiply-adds only where they have the same results as separate multiplications and
/// additions.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,popcnt")]
fn words_avx2(
    plan: &Plan,
    from: &Operands<'_, u32>,
    to: (&mut Scratch, &mut Registers<u32>),
) -> bool {
    words::<true>(plan, from, to)
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

/// Returns whether this processor has the features that [`words_avx2`] and [`doubles_avx2`] need.
#[cfg(target_arch = "x86_64")]
fn is_modern() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has!("avx2") && has!("fma") && has!("popcnt")
}

fn words_here(
    plan: &Plan,
    from: &Operands<'_, u32>,
    to: (&mut Scratch, &mut Registers<u32>),
) -> bool {
    #[cfg(target_arch = "x86_64")]
    if is_modern() {
        // SAFETY: the processor has the features that the function needs.
        return unsafe { words_avx2(plan, from, to) };
    }
    words::<false>(plan, from, to)
}

fn doubles_here(
    plan: &Plan,
    from: &Operands<'_, u64>,
    (scratch, out): (&mut Scratch, &mut Registers<u64>),
) -> bool {
    #[cfg(target_arch = "x86_64")]
    if is_modern() {
        // SAFETY: the processor has the features that the function needs.
        return unsafe { doubles_avx2(plan, from, (scratch, out)) };
    }
    plan.doubles(from, scratch, out)
}

/// Buffers that a thread of the operating system uses again for each matrix product that it
/// computes.
#[derive(Default)]
struct Room {
    scratch: Scratch,
    words: Registers<u32>,
    doubles: Registers<u64>,
}

thread_local! {
    static ROOM: RefCell<Box<Room>> = RefCell::default();
}

/// Computes a matrix product for the lanes in `active`. The registers of inactive lanes count as
/// zero. If the sync point has no plan or the plan does not support the product, returns false and
/// changes nothing; the op's reference function must then compute the product.
pub(super) fn perform(frame: Frame, sync_point: &SyncPointPlaces, active: u32) -> bool {
    let Some(plan) = &sync_point.plan else {
        return false;
    };
    // The registers of the matrices are the operands after the member mask.
    let [a, b, c, _] = plan.registers();
    let Some(args) = sync_point.args.get(1..=a + b + c) else {
        return false;
    };
    ROOM.with_borrow_mut(|room| match plan.is_wide() {
        true => doubles_of(plan, frame, (args, &sync_point.results), active, room),
        false => words_of(plan, frame, (args, &sync_point.results), active, room),
    })
}

fn doubles_of(
    plan: &Plan,
    frame: Frame,
    (args, results): (&[LaneStorage], &[LaneStorage]),
    active: u32,
    room: &mut Room,
) -> bool {
    let mut rows = [[0; 32]; 24];
    for (row, &place) in rows.iter_mut().zip(args) {
        for lane in lanes(active) {
            row[lane as usize] = frame.wide(place, lane as usize) as u64;
        }
    }
    let from = operands(plan, |i| &rows[i]);
    if !doubles_here(plan, &from, (&mut room.scratch, &mut room.doubles)) {
        return false;
    }
    for (&place, row) in results.iter().zip(&room.doubles) {
        for lane in lanes(active) {
            frame.put_wide(place, lane as usize, row[lane as usize].into());
        }
    }
    true
}

fn words_of(
    plan: &Plan,
    frame: Frame,
    (args, results): (&[LaneStorage], &[LaneStorage]),
    active: u32,
    room: &mut Room,
) -> bool {
    let is_array = |place: &LaneStorage| matches!(place, LaneStorage::Stored { bytes: 4, .. });
    let out = (&mut room.scratch, &mut room.words);
    let done = if active == u32::MAX && args.iter().all(is_array) {
        // All lanes are active, so the registers are read in place.
        words_here(plan, &operands(plan, |i| frame.row(args[i])), out)
    } else {
        let mut rows = [[0; 32]; 24];
        for (row, &place) in rows.iter_mut().zip(args) {
            *row = frame.words(place);
            for (lane, word) in row.iter_mut().enumerate() {
                *word &= (active >> lane & 1).wrapping_neg();
            }
        }
        words_here(plan, &operands(plan, |i| &rows[i]), out)
    };
    if done {
        for (&place, row) in results.iter().zip(&room.words) {
            frame.put_active(place, active, row);
        }
    }
    done
}

/// Returns the registers that contain the three operand matrices. `row(i)` returns the values of
/// register `i` in all lanes; the registers of the three matrices are numbered consecutively.
fn operands<'a, W>(plan: &Plan, row: impl Fn(usize) -> &'a [W; 32]) -> Operands<'a, W> {
    let [a, b, c, _] = plan.registers();
    // Elements after a matrix's last register are not used.
    let part = |first: usize| std::array::from_fn(|i| row((first + i).min(a + b + c - 1)));
    Operands {
        a: part(0),
        b: part(a),
        c: part(a + b),
    }
}
