//! Computes matrix products for generated code. The functions read matrices from a warp's frame, multiply them
//! according to the plan of the sync point ([`margay_ops::meaning::matrix::plan`]), and write the results to the frame.

use std::cell::RefCell;

use margay_exec::lanes;
use margay_jit::products;
use margay_jit::sync_points::{LaneStorage, SyncPointPlaces};
use margay_ops::meaning::matrix::plan::{Plan, Registers};

use super::sync_points::Frame;

/// The results of a product. A thread of the operating system uses the same memory for each product, because clearing it
/// takes time.
#[derive(Default)]
struct Room {
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
    let from = plan.operands(|i| &rows[i]);
    if !products::doubles(plan, &from, &mut room.doubles) {
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
    let out = &mut room.words;
    let done = if active == u32::MAX && args.iter().all(is_array) {
        // All lanes are active, so the registers are read in place.
        products::words(plan, &plan.operands(|i| frame.row(args[i])), out)
    } else {
        let mut rows = [[0; 32]; 24];
        for (row, &place) in rows.iter_mut().zip(args) {
            *row = frame.words(place);
            for (lane, word) in row.iter_mut().enumerate() {
                *word &= (active >> lane & 1).wrapping_neg();
            }
        }
        products::words(plan, &plan.operands(|i| &rows[i]), out)
    };
    if done {
        for (&place, row) in results.iter().zip(&room.words) {
            frame.put_active(place, active, row);
        }
    }
    done
}
