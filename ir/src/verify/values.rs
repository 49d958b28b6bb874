//! Checks definitions, dominance and block arguments.

use super::{ProblemSite, Report, Rule};
use crate::analysis::{Cfg, Dominators};
use crate::body::Body;
use crate::entity::{Block, Inst, SecondaryMap, Value};
use crate::function::ValueDef;

/// The block that defines a value, and the position of the definition in the block. The position of a parameter is 0;
/// the position of the first instruction is 1.
type Home = Option<(Block, usize)>;

struct Checker<'a, B> {
    function: &'a B,
    cfg: Cfg,
    dominators: Dominators,
    homes: SecondaryMap<Value, Home>,
}

pub(super) fn check(function: &impl Body, report: &mut Report) {
    let homes = definitions(function, report);
    let cfg = Cfg::new(function);
    let dominators = Dominators::new(&cfg);
    let checker = Checker {
        function,
        cfg,
        dominators,
        homes,
    };
    for &block in function.blocks() {
        for (index, &inst) in function.insts(block).iter().enumerate() {
            let position = (block, index + 1);
            for &value in function.args(inst) {
                checker.used(inst, position, value, report);
            }
            for call in function.targets(inst) {
                for &value in &call.args {
                    checker.used(inst, position, value, report);
                }
            }
            checker.arguments(inst, report);
        }
    }
}

/// Returns the position at which each value is defined. Reports each value whose
/// [`ValueData`](crate::function::ValueData) records a different definition.
fn definitions(function: &impl Body, report: &mut Report) -> SecondaryMap<Value, Home> {
    let values = function.values();
    let mut homes: SecondaryMap<Value, Home> = SecondaryMap::default();
    let mut define = |value: Value, def: ValueDef, home: (Block, usize), report: &mut Report| {
        if values[value].def != def {
            let message = format!("is {def:?} but is recorded as {:?}", values[value].def);
            report.add(ProblemSite::Value(value), Rule::Value, message);
        }
        if homes[value].is_some() {
            report.add(ProblemSite::Value(value), Rule::Value, "is defined twice");
        }
        homes[value] = Some(home);
    };
    for &block in function.blocks() {
        for (number, &param) in (0..).zip(function.params(block)) {
            define(param, ValueDef::Param(block, number), (block, 0), report);
        }
        for (index, &inst) in function.insts(block).iter().enumerate() {
            for (number, &result) in (0..).zip(function.results(inst)) {
                let def = ValueDef::Result(inst, number);
                define(result, def, (block, index + 1), report);
            }
        }
    }
    homes
}

impl<B: Body> Checker<'_, B> {
    fn used(&self, user: Inst, at: (Block, usize), value: Value, report: &mut Report) {
        match (self.function.values()[value].def, self.homes[value]) {
            (ValueDef::Alias(of), _) => {
                report.inst(user, Rule::Value, format!("uses {value}, an alias of {of}"))
            }
            (ValueDef::Pending, _) | (_, None) => report.inst(
                user,
                Rule::Value,
                format!("uses {value}, which is not defined"),
            ),
            (_, Some(home)) => {
                if self.cfg.is_reachable(at.0) && !self.comes_before(home, at) {
                    let message = format!("uses {value}, whose definition does not dominate it");
                    report.inst(user, Rule::Dominance, message);
                }
            }
        }
    }

    fn comes_before(&self, home: (Block, usize), at: (Block, usize)) -> bool {
        if home.0 == at.0 {
            home.1 < at.1
        } else {
            self.dominators.dominates(&self.cfg, home.0, at.0)
        }
    }

    /// Checks that the arguments of each branch match the parameters of its target.
    fn arguments(&self, inst: Inst, report: &mut Report) {
        let values = self.function.values();
        for call in self.function.targets(inst) {
            let params = self.function.params(call.block);
            if params.len() != call.args.len() {
                let message = format!(
                    "passes {} arguments to {}, which takes {}",
                    call.args.len(),
                    call.block,
                    params.len()
                );
                report.inst(inst, Rule::Argument, message);
                continue;
            }
            for (&arg, &param) in call.args.iter().zip(params) {
                let (from, to) = (values[arg].ty, values[param].ty);
                if from != to {
                    let message =
                        format!("passes {arg}: {from} to {} for {param}: {to}", call.block);
                    report.inst(inst, Rule::Argument, message);
                }
            }
        }
    }
}
