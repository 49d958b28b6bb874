//! Data about a module that the interpreter computes once: the sync point numbers and the local memory layout of each
//! function, and the decoded bodies of the functions that threads have entered.

use std::sync::OnceLock;

use rustc_hash::{FxHashMap, FxHashSet};

use super::decode::Body;
use crate::{SyncPoint, SyncPointData};
use margay_ir::analysis::shuffle_width::can_be_width;
use margay_ir::analysis::skipping::skipped_barriers;
use margay_ir::analysis::{Cfg, slots};
use margay_ir::entity::{FuncId, Inst, PrimaryMap, SecondaryMap, Slot};
use margay_ir::module::Module;
use margay_ops::meaning::{Bits, mask};

/// Data about a module's functions that is computed once for all launches.
#[derive(Clone, Debug, Default)]
pub struct Code {
    /// The instructions of all functions that are sync points. The first element has the sync point
    /// number 1.
    insts: Vec<(FuncId, Inst)>,
    numbers: FxHashMap<(FuncId, Inst), SyncPoint>,
    slots: PrimaryMap<FuncId, (SecondaryMap<Slot, u32>, u32)>,
    bodies: PrimaryMap<FuncId, OnceLock<Body>>,
    /// The result of [`skipped_barriers`] for each function, computed at its first use.
    skipped: PrimaryMap<FuncId, OnceLock<FxHashSet<Inst>>>,
}

impl Code {
    /// Assigns a number to each sync point of every function, in the order of the program, and
    /// computes the layout of each function's local memory slots.
    pub fn new(module: &Module) -> Code {
        let mut code = Code::default();
        for (id, function) in module.functions.iter() {
            code.slots.push(slots::layout(function));
            code.bodies.push(OnceLock::new());
            code.skipped.push(OnceLock::new());
            if !function.has_body() {
                continue;
            }
            for block in Cfg::new(function).program_order(function) {
                for &inst in function.insts(block) {
                    if function.effects(inst).is_sync_point() {
                        code.insts.push((id, inst));
                        code.numbers
                            .insert((id, inst), SyncPoint(code.insts.len() as u32));
                    }
                }
            }
        }
        code
    }

    /// Returns the decoded form of a function, or `None` if the function has no body. `module` must
    /// be the module that was passed to [`Code::new`].
    pub(super) fn body(&self, module: &Module, func: FuncId) -> Option<&Body> {
        let function = module.functions.get(func)?;
        let sync_point_of = |inst| self.numbers.get(&(func, inst)).copied();
        let cell = self.bodies.get(func).filter(|_| function.has_body())?;
        Some(cell.get_or_init(|| Body::new(function, sync_point_of)))
    }

    /// Returns the instruction of a sync point, with its function; `None` for the start of the kernel
    /// and for its end.
    fn inst_of(&self, sync_point: SyncPoint) -> Option<(FuncId, Inst)> {
        let index = (sync_point.0 as usize).checked_sub(1)?;
        self.insts.get(index).copied()
    }

    pub(super) fn sync_point_data(&self, module: &Module, sync_point: SyncPoint) -> SyncPointData {
        match self.inst_of(sync_point) {
            Some((func, inst)) => {
                let dfg = &module.functions[func].dfg;
                SyncPointData {
                    desc: dfg.insts[inst].desc(),
                    loc: dfg.locs[inst],
                }
            }
            None => SyncPointData::exit(),
        }
    }

    /// Returns whether threads of a CTA can bypass the barrier at a sync point, and then execute
    /// code that follows the barrier.
    pub(super) fn is_skipped(&self, module: &Module, sync_point: SyncPoint) -> bool {
        let Some((func, inst)) = self.inst_of(sync_point) else {
            return false;
        };
        let skipped = self.skipped.get(func).map(|cell| {
            let function = &module.functions[func];
            cell.get_or_init(|| skipped_barriers(function))
        });
        skipped.is_some_and(|skipped| skipped.contains(&inst))
    }

    /// Returns the value of the operand with the given index of a sync point's instruction, or
    /// `None` if the operand is not a constant.
    pub(super) fn constant_operand(
        &self,
        module: &Module,
        sync_point: SyncPoint,
        index: usize,
    ) -> Option<Bits> {
        let (func, inst) = self.inst_of(sync_point)?;
        let dfg = &module.functions[func].dfg;
        let &value = dfg.args(inst).get(index)?;
        let bits = Bits::from(dfg.constant(value)?);
        Some(bits & mask(dfg.ty(value).lane_bits()))
    }

    /// Returns whether the operand `c` of a shuffle can be computed from a width.
    pub(super) fn has_width(&self, module: &Module, sync_point: SyncPoint) -> bool {
        self.inst_of(sync_point).is_some_and(|(func, inst)| {
            let function = &module.functions[func];
            let c = function.dfg.args(inst).get(2);
            c.is_some_and(|&c| can_be_width(function, c))
        })
    }

    /// Returns the number of bytes of local memory that an activation of a function needs.
    pub fn local_bytes(&self, func: FuncId) -> u32 {
        self.slots.get(func).map_or(0, |(_, bytes)| *bytes)
    }

    pub(super) fn slot_offset(&self, func: FuncId, slot: Slot) -> u32 {
        self.slots.get(func).map_or(0, |(offsets, _)| offsets[slot])
    }
}
