//! Values that are affine in every chunk of a CTA if checks at the start of the CTA hold.
//!
//! A speculatively affine value needs a check for each chunk. If the operands of all its checks depend on nothing but
//! constants, parameters and special registers, the program evaluates the checks of all chunks before the CTA starts.
//! Where they hold, the value is affine, and so are the parameters of loops that start with it, such as pointers that
//! advance by a constant. For other CTAs, the program contains a second version of the code without speculation.
//!
//! The check of a minimum or maximum may fail in many CTAs. If its operand does not depend on the coordinates of the CTA,
//! the check fails in all CTAs or in none. The result of such an instruction is therefore not certain.

use margay_ir::analysis::Cfg;
use margay_ir::analysis::speculative::Check;
use margay_ir::analysis::uniformity::Class;
use margay_ir::entity::{Block, Inst, Value};
use margay_ir::function::{Function, ValueDef, payload_sreg};
use margay_ops::ops::Opcode;
use margay_ops::sreg::SpecialReg;
use rustc_hash::FxHashSet;

use crate::Kernel;

/// The values that are affine if the checks hold.
#[derive(Debug, Default)]
pub(crate) struct Certain {
    /// The values.
    pub(crate) values: FxHashSet<Value>,
    /// The instructions whose checks must hold, in an order in which operands precede their uses.
    pub(crate) checks: Vec<Inst>,
}

impl Certain {
    /// Finds the values of a kernel.
    pub(crate) fn new(kernel: &Kernel<'_>) -> Certain {
        let function = kernel.function;
        let order = &kernel.uniformity.loops().order;
        let early = early_values(function, order);
        let placed = placed_values(function, order);
        let mut values: FxHashSet<Value> = FxHashSet::default();
        let all = order.iter().flat_map(|&block| defined_by(function, block));
        values.extend(all.filter(|&value| {
            kernel.uniformity.class(value) == Class::Varying
                && kernel.speculative.stride(value).is_some()
                && may_be_certain(kernel, value, &early, &placed)
        }));
        // A value is not certain if one of its operands is neither certain nor affine.
        let cfg = Cfg::new(function);
        loop {
            let before = values.len();
            let kept: FxHashSet<Value> = values
                .iter()
                .copied()
                .filter(|&value| has_certain_operands(kernel, &cfg, value, &values))
                .collect();
            values = kept;
            if values.len() == before {
                break;
            }
        }
        let insts = order.iter().flat_map(|&block| function.insts(block));
        let checks = insts.copied().filter(|&inst| {
            let results = function.dfg.results(inst).iter();
            kernel.speculative.check(inst).is_some()
                && results.clone().any(|result| values.contains(result))
        });
        Certain {
            checks: checks.collect(),
            values,
        }
    }
}

fn defined_by(function: &Function, block: Block) -> impl Iterator<Item = Value> + '_ {
    let params = function.dfg.blocks[block].params.iter();
    let insts = function.insts(block).iter();
    let results = insts.flat_map(|&inst| function.dfg.results(inst));
    params.chain(results).copied()
}

/// Returns the values that depend on nothing but constants, parameters and special registers.
fn early_values(function: &Function, order: &[Block]) -> FxHashSet<Value> {
    let mut early: FxHashSet<Value> = FxHashSet::default();
    for &inst in order.iter().flat_map(|&block| function.insts(block)) {
        let data = &function.dfg.insts[inst];
        let is_early = match data.opcode {
            Opcode::Const | Opcode::SReg | Opcode::ParamAddr | Opcode::SymbolAddr => true,
            Opcode::Ld => margay_ir::analysis::regions::is_param_load(function, inst),
            opcode => opcode.effects().is_pure(),
        };
        if is_early
            && function
                .dfg
                .args(inst)
                .iter()
                .all(|arg| early.contains(arg))
        {
            early.extend(function.dfg.results(inst));
        }
    }
    early
}

/// Returns the values that are computed from the coordinates of the CTA.
fn placed_values(function: &Function, order: &[Block]) -> FxHashSet<Value> {
    use SpecialReg as R;
    let mut placed: FxHashSet<Value> = FxHashSet::default();
    for &inst in order.iter().flat_map(|&block| function.insts(block)) {
        let data = &function.dfg.insts[inst];
        let is_placed = match data.opcode {
            Opcode::SReg => matches!(
                payload_sreg(data.payload()),
                Some(R::CtaidX | R::CtaidY | R::CtaidZ)
            ),
            _ => {
                let mut args = function.dfg.args(inst).iter();
                args.any(|arg| placed.contains(arg))
            }
        };
        if is_placed {
            placed.extend(function.dfg.results(inst));
        }
    }
    placed
}

/// Returns whether the check of a value's own instruction can be evaluated before the CTA starts.
fn may_be_certain(
    kernel: &Kernel<'_>,
    value: Value,
    early: &FxHashSet<Value>,
    placed: &FxHashSet<Value>,
) -> bool {
    let is_useful = |check: Check| match check {
        Check::NoWrap { .. } => true,
        Check::Chosen { value, .. } => placed.contains(&value),
    };
    match kernel.function.dfg.values[value].def {
        ValueDef::Result(inst, _) => {
            let opcode = kernel.function.dfg.insts[inst].opcode;
            opcode.effects().is_pure()
                && opcode != Opcode::Cvta
                && kernel
                    .speculative
                    .check(inst)
                    .is_none_or(|check| early.contains(&value) && is_useful(check))
        }
        ValueDef::Param(block, _) => block != kernel.function.entry(),
        _ => false,
    }
}

fn has_certain_operands(
    kernel: &Kernel<'_>,
    cfg: &Cfg,
    value: Value,
    values: &FxHashSet<Value>,
) -> bool {
    let (function, uniformity) = (kernel.function, kernel.uniformity);
    let is_known = |arg: Value, block: Block| {
        uniformity.class_in(function, arg, block) != Class::Varying
            || values.contains(&arg) && !uniformity.leaves_apart(function, arg, block)
    };
    match function.dfg.values[value].def {
        ValueDef::Result(inst, _) => {
            let Some(block) = uniformity.home(value) else {
                return false;
            };
            let mut args = function.dfg.args(inst).iter();
            args.all(|&arg| is_known(arg, block))
        }
        ValueDef::Param(block, index) => {
            !uniformity.joins_apart(block)
                && cfg.incoming(function, block).all(|(from, call)| {
                    let arg = call.args[usize::from(index)];
                    is_known(arg, from) && !uniformity.leaves_apart(function, arg, block)
                })
        }
        _ => false,
    }
}
