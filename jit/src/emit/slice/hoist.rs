//! Hoisting: values that are equal for a launch or a CTA are computed once, before the loops over chunks.
//!
//! Hoisted code runs even if the kernel never reaches the operation. Therefore only pure operations
//! that never trap, and loads of parameters, are hoisted. All operands of a hoisted operation must
//! also be hoisted, so its result does not change in loops.

use cranelift_frontend::Variable;
use margay_ir::analysis::regions::is_param_load;
use margay_ir::analysis::uniformity::Class;
use margay_ir::entity::{Inst, Value};
use margay_ir::function::Function;
use margay_ops::ops::Opcode;
use rustc_hash::{FxHashMap, FxHashSet};

use super::View;
use super::extent::Extents;
use crate::emit::lane::{EmitError, Fixed, Here, Lane, LaneParts, Leave};

/// The hoisted operations, and the variables of their results.
#[derive(Default)]
pub(crate) struct Hoisted {
    launch: Vec<Inst>,
    cta: Vec<Inst>,
    values: FxHashSet<Value>,
    insts: FxHashSet<Inst>,
    vars: FxHashMap<Value, Variable>,
    extents: Extents,
}

impl Hoisted {
    /// Finds the operations to hoist, in an order in which operands come first.
    pub(crate) fn new(function: &Function, view: View<'_>) -> Hoisted {
        let mut hoisted = Hoisted::default();
        for &block in &view.linear.order {
            for &inst in function.insts(block) {
                let Some(class) = hoisted.class(function, view, inst) else {
                    continue;
                };
                match class {
                    Class::Launch => hoisted.launch.push(inst),
                    _ => hoisted.cta.push(inst),
                }
                hoisted.insts.insert(inst);
                hoisted.values.extend(function.dfg.results(inst));
            }
        }
        hoisted.extents = Extents::new(function, view, &hoisted.values);
        hoisted
    }

    /// Returns the conditions and checks that CTA range analysis evaluates, and the variables with their results.
    pub(crate) fn extents(&self) -> &Extents {
        &self.extents
    }

    /// Returns the class (equal for the launch or for the CTA) of an operation that can be hoisted; `None` for other
    /// operations.
    fn class(&self, function: &Function, view: View<'_>, inst: Inst) -> Option<Class> {
        let results = function.dfg.results(inst);
        let classes = results.iter().map(|&value| view.uniformity.class(value));
        let class = classes.max()?;
        let data = &function.dfg.insts[inst];
        let free = match data.opcode {
            Opcode::Const | Opcode::SymbolAddr | Opcode::ParamAddr | Opcode::SReg => true,
            Opcode::Ld => is_param_load(function, inst),
            opcode => opcode.effects().is_pure() && crate::emit::fast::lowering(opcode).is_some(),
        };
        let args = function.dfg.args(inst);
        let known = args.iter().all(|arg| self.values.contains(arg));
        (class <= Class::Cta && free && known).then_some(class)
    }

    /// Returns whether a value is hoisted.
    pub(crate) fn has(&self, value: Value) -> bool {
        self.values.contains(&value)
    }

    /// Returns whether an operation is hoisted.
    pub(crate) fn has_inst(&self, inst: Inst) -> bool {
        self.insts.contains(&inst)
    }

    /// Returns the hoisted values and their variables.
    pub(crate) fn vars(&self) -> impl Iterator<Item = (Value, Variable)> {
        self.vars.iter().map(|(&value, &var)| (value, var))
    }

    /// Emits the computation of the hoisted values that are equal for the launch.
    pub(crate) fn launch(
        &mut self,
        parts: LaneParts<'_, '_>,
        fixed: Fixed,
        leave: Leave,
    ) -> Result<(), EmitError> {
        let insts = std::mem::take(&mut self.launch);
        self.emit(parts, fixed, leave, (&insts, false))
    }

    /// Emits the computation of the hoisted values that are equal for the CTA, and the evaluations of CTA range
    /// analysis.
    pub(crate) fn cta(
        &mut self,
        parts: LaneParts<'_, '_>,
        fixed: Fixed,
        leave: Leave,
    ) -> Result<(), EmitError> {
        let insts = std::mem::take(&mut self.cta);
        self.emit(parts, fixed, leave, (&insts, true))
    }

    fn emit(
        &mut self,
        parts: LaneParts<'_, '_>,
        fixed: Fixed,
        leave: Leave,
        (insts, asks): (&[Inst], bool),
    ) -> Result<(), EmitError> {
        // No hoisted operation reads the thread's index.
        let here = Here::none(parts.b);
        let mut emitter = Lane::new(parts, fixed, here, leave);
        emitter.vars = std::mem::take(&mut self.vars);
        for &inst in insts {
            emitter.at = emitter.function.dfg.locs[inst];
            emitter.operation(inst)?;
        }
        if asks {
            self.extents.ask(&mut emitter, &self.values);
        }
        self.vars = emitter.vars;
        Ok(())
    }
}
