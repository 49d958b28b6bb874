//! Moves loads of single floating-point numbers to their first uses in the block, so that fewer of them are in registers at
//! the same time.
//!
//! An unrolled loop of a matrix product first loads the factors of all rows, and then adds a product to the sum of each
//! row. The factors and the sums together need more registers than there are.
//!
//! Only blocks with many such loads at the same time change, because other blocks have enough registers.
//!
//! A load moves over operations without effects only, so the order of all effects stays. A load that no operation of the
//! block uses stays where it is.

use margay_ir::entity::{Inst, Value};
use rustc_hash::FxHashMap;

use crate::function::Function;
use crate::ops::Op;

/// The minimum number of loads at the same time with which the loads of a block move.
const FEWEST: usize = 8;

/// Moves the loads of all blocks.
pub fn run(function: &mut Function) {
    for block in function.order.clone() {
        let insts = std::mem::take(&mut function.body[block]);
        function.body[block] = reordered(function, insts);
    }
}

/// Returns the instructions of a block in their new order.
fn reordered(function: &Function, insts: Vec<Inst>) -> Vec<Inst> {
    if !insts.iter().any(|&inst| is_movable(function, inst)) {
        return insts;
    }
    let mut first_uses: FxHashMap<Value, usize> = FxHashMap::default();
    // The position of the next effect, and the position before which each instruction is.
    let mut next_effect = insts.len();
    let mut places = vec![0; insts.len()];
    for (position, &inst) in insts.iter().enumerate().rev() {
        places[position] = position;
        if is_movable(function, inst) {
            let result = function.results(inst)[0];
            if let Some(&first) = first_uses.get(&result) {
                places[position] = first.min(next_effect);
            }
        }
        if !function.insts[inst].op.row().effects.is_empty() {
            next_effect = places[position];
        }
        for &arg in function.args(inst) {
            first_uses.insert(arg, position);
        }
    }
    if most_at_once(function, &insts, &first_uses) < FEWEST {
        return insts;
    }
    // The sort is stable, and an instruction comes after the loads that move to its position.
    let mut order: Vec<usize> = (0..insts.len()).collect();
    order.sort_by_key(|&position| (places[position], places[position] == position));
    order.iter().map(|&position| insts[position]).collect()
}

/// Returns the maximum number of loads that can move between which and their first uses a position is.
fn most_at_once(
    function: &Function,
    insts: &[Inst],
    first_uses: &FxHashMap<Value, usize>,
) -> usize {
    let mut ends = vec![0; insts.len()];
    let (mut now, mut most) = (0, 0);
    for (position, &inst) in insts.iter().enumerate() {
        now -= ends[position];
        if is_movable(function, inst)
            && let Some(&first) = first_uses.get(&function.results(inst)[0])
        {
            ends[first] += 1;
            now += 1;
            most = most.max(now);
        }
    }
    most
}

/// Returns whether an instruction loads a single floating-point number.
fn is_movable(function: &Function, inst: Inst) -> bool {
    let data = &function.insts[inst];
    data.op == Op::Load && data.ty.is_some_and(|ty| ty.lanes() == 1 && ty.is_float())
}
