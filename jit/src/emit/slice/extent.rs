//! Extents: what a whole CTA decides of the conditions and checks of its slices.
//!
//! A 32-bit value that is a sum of what is the same for the CTA and of multiples of the thread's coordinates is least and
//! greatest in corners of the block. So in front of the loop over slices it is found out once whether a comparison
//! gives the same for all threads of the CTA, and whether an index stays inside of its type; most CTAs decide all guards
//! of a kernel, and its slices then only look at the answer.
//!
//! Code for slices all of whose lanes run does not even do that where an access lies side by side unless an index wraps: it
//! is entered only where none does in the CTA ([`Extents::assured`]). Straight code took 6.7 ms where branches at each access
//! took 7.8 (a stencil of 4096 x 2048, one worker). A CTA in which one wraps runs under masks, which is right and slower.

mod asked;
mod corners;
mod sum;

use cranelift_codegen::ir::{self, InstBuilder, types};
use cranelift_frontend::Variable;
use margay_ir::analysis::guarded::Check;
use margay_ir::analysis::uniformity::Class;
use margay_ir::entity::{Inst, Value};
use margay_ir::function::Function;
use margay_ops::ops::Opcode;
use rustc_hash::{FxHashMap, FxHashSet};

use super::View;
use super::memory::run_stride;
use crate::emit::lane::Lane;
use crate::emit::memory::element_type;
use asked::{Asked, MAX_DEPTH};
use corners::Corners;

/// Comparisons and checks that a kernel's CTAs make beforehand, at most.
const MAX_QUESTIONS: usize = 16;

/// What is known of a condition before the slices run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer<T> {
    /// Whether it holds for all threads of the CTA.
    pub(crate) all: Option<T>,
    /// Whether it holds for none.
    pub(crate) none: Option<T>,
}

/// The questions that a kernel's CTAs answer beforehand.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    conditions: Vec<Value>,
    guards: Vec<(Inst, Value, bool)>,
    answers: FxHashMap<Value, Answer<Variable>>,
    stays: FxHashMap<Inst, Variable>,
    /// Guards that code for slices all of whose lanes run relies on.
    assuring: FxHashSet<Inst>,
    /// Whether all of those hold.
    assured: Option<Variable>,
}

impl Extents {
    /// Finds what can be asked; `known` are the values that are computed in front.
    pub(crate) fn new(function: &Function, view: View<'_>, known: &FxHashSet<Value>) -> Extents {
        let asked = Asked { function, known };
        let mut extents = Extents::default();
        let mut left = MAX_QUESTIONS;
        for &block in &view.linear.order {
            for &inst in function.insts(block) {
                if function.dfg.insts[inst].opcode == Opcode::Brif {
                    let condition = function.dfg.args(inst)[0];
                    let varies =
                        view.uniformity.class_in(function, condition, block) == Class::Varying;
                    let questions = varies
                        .then(|| asked.questions(condition, MAX_DEPTH))
                        .flatten();
                    if let Some(questions) = questions
                        && questions <= left
                    {
                        left -= questions;
                        extents.conditions.push(condition);
                    }
                } else if let Some(Check::NoWrap { value, signed, .. }) = view.guarded.check(inst)
                    && left > 0
                    && asked.sum(value, MAX_DEPTH).is_some()
                {
                    left -= 1;
                    extents.guards.push((inst, value, signed));
                    if !asked.wraps_for_sure(value, signed) {
                        extents.assuring.insert(inst);
                    }
                }
            }
        }
        extents.keep_assuring(function, view);
        extents
    }

    /// Of the guards, only those of accesses that lie side by side are relied on: other indices may well wrap.
    fn keep_assuring(&mut self, function: &Function, view: View<'_>) {
        let mut wanted: FxHashSet<Inst> = FxHashSet::default();
        let mut seen: FxHashSet<Value> = FxHashSet::default();
        let accesses = view
            .linear
            .order
            .iter()
            .flat_map(|&block| function.insts(block));
        let mut work: Vec<Value> = accesses
            .filter(|&&inst| is_run(function, view, inst))
            .map(|&inst| function.dfg.args(inst)[0])
            .collect();
        while let Some(value) = work.pop() {
            if view.guarded.stride(value).is_some()
                && seen.insert(value)
                && let Some(inst) = function.dfg.def_inst(value)
            {
                wanted.insert(inst);
                work.extend(function.dfg.args(inst));
            }
        }
        self.assuring.retain(|inst| wanted.contains(inst));
    }

    /// Whether all guards hold that code for whole slices relies on; `None` if it does on none.
    pub(crate) fn assured(&self) -> Option<Variable> {
        self.assured
    }

    /// Whether code for whole slices runs only where the check at an instruction holds.
    pub(crate) fn assures(&self, inst: Inst) -> bool {
        self.assuring.contains(&inst)
    }

    /// What is known of a condition.
    pub(crate) fn answer(&self, condition: Value) -> Option<Answer<Variable>> {
        self.answers.get(&condition).copied()
    }

    /// Whether the check at an instruction holds for all threads of the CTA, as far as that was asked.
    pub(crate) fn stays(&self, inst: Inst) -> Option<Variable> {
        self.stays.get(&inst).copied()
    }

    /// Asks, for the CTA whose values the lane in front of the slices has.
    pub(crate) fn ask(&mut self, lane: &mut Lane<'_, '_>, known: &FxHashSet<Value>) {
        let asked = Asked {
            function: lane.function,
            known,
        };
        let mut corners = Corners {
            reach: None,
            found: FxHashMap::default(),
        };
        for &condition in &self.conditions {
            let answer = corners.answer(lane, asked, condition);
            let mut kept = |value: Option<ir::Value>| {
                value.map(|value| {
                    let var = lane.b.declare_var(types::I8);
                    lane.b.def_var(var, value);
                    var
                })
            };
            let answer = Answer {
                all: kept(answer.all),
                none: kept(answer.none),
            };
            self.answers.insert(condition, answer);
        }
        let mut all: Option<ir::Value> = None;
        for &(inst, value, signed) in &self.guards {
            let Some(sum) = asked.sum(value, MAX_DEPTH) else {
                continue;
            };
            let range = corners.range(lane, &sum, Some(value), signed);
            let var = lane.b.declare_var(types::I8);
            lane.b.def_var(var, range.fits);
            self.stays.insert(inst, var);
            if self.assuring.contains(&inst) {
                all = Some(match all {
                    None => range.fits,
                    Some(all) => lane.b.ins().band(all, range.fits),
                });
            }
        }
        self.assured = all.map(|all| {
            let var = lane.b.declare_var(types::I8);
            lane.b.def_var(var, all);
            var
        });
    }
}

/// Whether an instruction accesses memory side by side as far as checks hold.
fn is_run(function: &Function, view: View<'_>, inst: Inst) -> bool {
    let data = &function.dfg.insts[inst];
    matches!(data.opcode, Opcode::Ld | Opcode::St)
        && element_type(data.ty).is_some_and(|element| {
            let address = function.dfg.args(inst)[0];
            run_stride(view, address, data, element).is_some()
        })
}
