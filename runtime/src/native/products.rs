//! Products of matrices for generated code: registers are read from a warp's frame, multiplied by the plan of
//! their point ([`margay_ops::meaning::matrix::plan`]) in code for this processor, and written there.

use std::cell::RefCell;

use margay_exec::lanes;
use margay_jit::sync_points::{LaneStorage, SyncPointPlaces};
use margay_ops::meaning::matrix::plan::{Operands, Plan, Registers, Scratch};

use super::points::Frame;

#[inline(always)]
fn words<const FUSED: bool>(
    plan: &Plan,
    from: &Operands<'_, u32>,
    (scratch, out): (&mut Scratch, &mut Registers<u32>),
) -> bool {
    plan.words::<FUSED>(from, scratch, out)
}

/// The same in code for processors with AVX2 and fused steps, which the plan uses where they are exact.
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

/// Whether this processor has what the code above is made for.
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
        // SAFETY: the processor has it.
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
        // SAFETY: the processor has it.
        return unsafe { doubles_avx2(plan, from, (scratch, out)) };
    }
    plan.doubles(from, scratch, out)
}

/// Room for the products of a thread.
#[derive(Default)]
struct Room {
    scratch: Scratch,
    words: Registers<u32>,
    doubles: Registers<u64>,
}

thread_local! {
    static ROOM: RefCell<Box<Room>> = RefCell::default();
}

/// Computes a product for the lanes `active`; the others' registers count as zeros. False, with nothing done,
/// where its meaning has to.
pub(super) fn perform(frame: Frame, point: &SyncPointPlaces, active: u32) -> bool {
    let Some(plan) = &point.plan else {
        return false;
    };
    // Behind the member mask.
    let [a, b, c, _] = plan.registers();
    let Some(args) = point.args.get(1..=a + b + c) else {
        return false;
    };
    ROOM.with_borrow_mut(|room| match plan.is_wide() {
        true => doubles_of(plan, frame, (args, &point.results), active, room),
        false => words_of(plan, frame, (args, &point.results), active, room),
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
        // All lanes, where they are.
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

/// The rows of the matrices, which lie one behind the other.
fn operands<'a, W>(plan: &Plan, row: impl Fn(usize) -> &'a [W; 32]) -> Operands<'a, W> {
    let [a, b, c, _] = plan.registers();
    // What is behind a matrix's last register is not looked at.
    let part = |first: usize| std::array::from_fn(|i| row((first + i).min(a + b + c - 1)));
    Operands {
        a: part(0),
        b: part(a),
        c: part(a + b),
    }
}
