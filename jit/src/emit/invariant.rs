//! Scalar code computes values that are equal for a launch or a CTA once, before the loops over CTAs and threads.
//!
//! Such code runs even if no thread reaches the operation. Therefore only pure operations, loads of parameters, and reads
//! of special registers move. Constants stay where they are used, because instructions contain them.

use cranelift_codegen::ir;
use margay_ir::analysis::Cfg;
use margay_ir::analysis::regions::is_param_load;
use margay_ir::entity::{Inst, Value};
use margay_ir::function::{Function, payload_sreg};
use margay_ops::ops::Opcode;
use margay_ops::sreg::SpecialReg;
use rustc_hash::{FxHashMap, FxHashSet};

use super::lane::{EmitError, Fixed, Here, Lane, LaneParts, Leave};
use super::reach::moved;

/// The maximum number of operations that move. Each of them occupies a register or a stack slot in the whole function.
const MOST: usize = 48;

/// The operations that move, and their results.
#[derive(Default)]
pub(crate) struct Invariant {
    /// The operations whose results are equal for a launch and those whose results are equal for a CTA, in an order in
    /// which operands come first.
    insts: [Vec<Inst>; 2],
    /// The Cranelift values of the results.
    known: FxHashMap<Value, ir::Value>,
}

/// How often an operation runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Once {
    PerLaunch,
    PerCta,
}

impl Invariant {
    /// Finds the operations that move.
    pub(crate) fn new(function: &Function) -> Invariant {
        let mut found = Invariant::default();
        let mut classes: FxHashMap<Value, Once> = FxHashMap::default();
        for &inst in Cfg::new(function)
            .rpo()
            .iter()
            .flat_map(|&b| function.insts(b))
        {
            let &[result] = function.dfg.results(inst) else {
                continue;
            };
            let args = function.dfg.args(inst).iter();
            let of_args = args
                .map(|arg| classes.get(arg).copied())
                .try_fold(Once::PerLaunch, |all, one| Some(all.max(one?)));
            let (Some(own), Some(of_args)) = (own_class(function, inst), of_args) else {
                continue;
            };
            let class = own.max(of_args);
            if function.dfg.constant(result).is_none() {
                if found.insts.iter().map(Vec::len).sum::<usize>() == MOST {
                    break;
                }
                found.insts[class as usize].push(inst);
            }
            classes.insert(result, class);
        }
        found
    }

    /// Emits the operations of a class at the current position of the builder.
    pub(crate) fn emit(
        &mut self,
        class: Once,
        parts: LaneParts<'_, '_>,
        fixed: Fixed,
        leave: Leave,
    ) -> Result<(), EmitError> {
        // No operation that moves reads the thread's index.
        let here = Here::none(parts.b);
        let function = parts.function;
        let mut emitter = Lane::new(parts, fixed, here, leave);
        emitter.begin_with(std::mem::take(&mut self.known), FxHashSet::default());
        for &inst in &self.insts[class as usize] {
            for &arg in function.dfg.args(inst) {
                if let Some(def) = function.dfg.def_inst(arg)
                    && function.dfg.constant(arg).is_some()
                {
                    emitter.operation(def)?;
                }
            }
            emitter.at = function.dfg.locs[inst];
            emitter.operation(inst)?;
        }
        self.known = emitter.take_known();
        let dfg = &function.dfg;
        self.known.retain(|&value, _| dfg.constant(value).is_none());
        Ok(())
    }

    /// Makes `lane` use the results instead of the operations.
    pub(crate) fn provide(self, lane: &mut Lane<'_, '_>) {
        let moved = self.insts.into_iter().flatten().collect();
        lane.begin_with(self.known, moved);
    }
}

/// Returns how often an operation must run whose operands never change; `None` for an operation that does not move.
fn own_class(function: &Function, inst: Inst) -> Option<Once> {
    use SpecialReg as R;
    let data = &function.dfg.insts[inst];
    match data.opcode {
        Opcode::Const | Opcode::ParamAddr => Some(Once::PerLaunch),
        Opcode::SReg => match payload_sreg(data.payload())? {
            R::NtidX | R::NtidY | R::NtidZ | R::NctaidX | R::NctaidY | R::NctaidZ => {
                Some(Once::PerLaunch)
            }
            R::CtaidX | R::CtaidY | R::CtaidZ => Some(Once::PerCta),
            _ => None,
        },
        Opcode::Ld => is_valid_param_load(function, inst).then_some(Once::PerLaunch),
        opcode => {
            let is_cheap = super::fast::lowering(opcode).is_some();
            (opcode.effects().is_pure() && is_cheap).then_some(Once::PerLaunch)
        }
    }
}

/// Returns whether an operation loads a parameter of the kernel from an offset at which the kernel has parameters.
fn is_valid_param_load(function: &Function, inst: Inst) -> bool {
    let dfg = &function.dfg;
    let data = &dfg.insts[inst];
    let address = dfg.args(inst).first().and_then(|&v| dfg.def_inst(v));
    let (Some(kernel), Some(address)) = (&function.kernel, address) else {
        return false;
    };
    let address = &dfg.insts[address];
    is_param_load(function, inst)
        && address.opcode == Opcode::ParamAddr
        && address.payload() + u64::from(moved(data)) <= u64::from(kernel.param_bytes)
}
