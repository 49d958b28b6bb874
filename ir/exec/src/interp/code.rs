//! What the interpreter precomputes of a module: stops and local-memory layout of each function, and the decoded
//! bodies of those that were entered.

use std::sync::OnceLock;

use rustc_hash::FxHashMap;

use super::decode::Body;
use crate::{Point, Stop};
use margay_ir::analysis::{Cfg, slots};
use margay_ir::entity::{FuncId, Inst, PrimaryMap, SecondaryMap, Slot};
use margay_ir::module::Module;
use margay_ops::meaning::{Bits, mask};

/// Precomputed facts of a module's functions.
#[derive(Clone, Debug, Default)]
pub struct Code {
    points: Vec<(FuncId, Inst)>,
    stops: FxHashMap<(FuncId, Inst), Stop>,
    slots: PrimaryMap<FuncId, (SecondaryMap<Slot, u32>, u32)>,
    bodies: PrimaryMap<FuncId, OnceLock<Body>>,
}

impl Code {
    /// Numbers the points of every function in reverse postorder and lays out its slots.
    pub fn new(module: &Module) -> Code {
        let mut code = Code::default();
        for (id, function) in module.functions.iter() {
            code.slots.push(slots::layout(function));
            code.bodies.push(OnceLock::new());
            if !function.has_body() {
                continue;
            }
            for &block in Cfg::new(function).rpo() {
                for &inst in function.insts(block) {
                    if function.effects(inst).is_point() {
                        code.points.push((id, inst));
                        code.stops
                            .insert((id, inst), Stop(code.points.len() as u32));
                    }
                }
            }
        }
        code
    }

    /// The decoded form of a function that has a body. `module` is the one that this was made from.
    pub(super) fn body(&self, module: &Module, func: FuncId) -> Option<&Body> {
        let function = module.functions.get(func)?;
        let stop_of = |inst| self.stops.get(&(func, inst)).copied();
        let cell = self.bodies.get(func).filter(|_| function.has_body())?;
        Some(cell.get_or_init(|| Body::new(function, stop_of)))
    }

    pub(super) fn point(&self, module: &Module, stop: Stop) -> Point {
        let index = (stop.0 as usize).wrapping_sub(1);
        match self.points.get(index) {
            Some(&(func, inst)) => {
                let dfg = &module.functions[func].dfg;
                Point {
                    desc: dfg.insts[inst].desc(),
                    loc: dfg.locs[inst],
                }
            }
            None => Point::exit(),
        }
    }

    /// An operand of the point behind a stop, where it is a constant.
    pub(super) fn constant_operand(
        &self,
        module: &Module,
        stop: Stop,
        index: usize,
    ) -> Option<Bits> {
        let &(func, inst) = self.points.get((stop.0 as usize).wrapping_sub(1))?;
        let dfg = &module.functions[func].dfg;
        let &value = dfg.args(inst).get(index)?;
        let bits = Bits::from(dfg.constant(value)?);
        Some(bits & mask(dfg.ty(value).lane_bits()))
    }

    /// Bytes of local memory that an activation takes.
    pub fn local_bytes(&self, func: FuncId) -> u32 {
        self.slots.get(func).map_or(0, |(_, bytes)| *bytes)
    }

    pub(super) fn slot_offset(&self, func: FuncId, slot: Slot) -> u32 {
        self.slots.get(func).map_or(0, |(offsets, _)| offsets[slot])
    }
}
