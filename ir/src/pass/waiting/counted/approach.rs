//! Exit tests in which a counter approaches a bound that another thread may change.
//!
//! If the loop continues only while a counter is less than a bound, and each iteration adds one to the counter, the loop
//! ends: at the latest when the counter is the greatest number of its type, which is less than no bound. A loop that
//! subtracts one and continues only while the counter is greater than a bound ends for the same reason. An example is a
//! loop over the edges of a node whose last edge the compiler loads again after each store:
//! `for (e = first[n]; e < first[n + 1]; ++e) if (level[to[e]] < 0) level[to[e]] = l;`.

use margay_ops::mods::CmpOp;
use margay_ops::ops::Opcode;

use super::{Step, Test};
use crate::entity::{Inst, Value};
use crate::pass::waiting::Wait;

impl Test<'_> {
    /// Returns whether the comparison `a` with `b` in `test` compares a counter with a bound as the documentation of
    /// this module describes. The loop exits if the comparison has the result `exits_on`. A loop that may wait with
    /// [strong](Wait::Strong) operations must compare its counter with an invariant bound, because such a loop can use
    /// the comparison to wait for some time.
    pub(super) fn approaches(&self, test: Inst, (a, b): (Value, Value), exits_on: bool) -> bool {
        let dfg = &self.function.dfg;
        let data = &dfg.insts[test];
        if self.wait != Some(Wait::Reads) || !data.ty.is_integer() {
            return false;
        }
        // The compared value has all values of its type: it is not widened, and it is no shifted counter.
        let is_whole = |value: Value| {
            let opcode = dfg.def_inst(value).map(|inst| dfg.insts[inst].opcode);
            matches!(opcode, None | Some(Opcode::Add | Opcode::Sub))
                && dfg.ty(value).lane_bits() == data.ty.bits()
        };
        let rises = |value: Value, up: bool| {
            let step = self.common_step(value).filter(|_| is_whole(value));
            step.is_some_and(|step| step.is_one(data.ty.bits(), up))
        };
        // Whether the loop continues only while `a < b` (true) or only while `a > b` (false).
        let less = match (data.mods.cmp(), exits_on) {
            (CmpOp::Lt | CmpOp::Lo, false) | (CmpOp::Ge | CmpOp::Hs, true) => true,
            (CmpOp::Gt | CmpOp::Hi, false) | (CmpOp::Le | CmpOp::Ls, true) => false,
            _ => return false,
        };
        rises(a, less) || rises(b, !less)
    }
}

impl Step {
    /// Returns whether the step adds one to an integer of `bits` bits (if `up`), or subtracts one from it.
    fn is_one(self, bits: u32, up: bool) -> bool {
        let Step::Constant(opcode, by) = self else {
            return false;
        };
        let mask = u64::MAX >> (64 - bits.clamp(1, 64));
        let by = match opcode {
            Opcode::Add => by & mask,
            Opcode::Sub => by.wrapping_neg() & mask,
            _ => return false,
        };
        by == if up { 1 } else { mask }
    }
}
