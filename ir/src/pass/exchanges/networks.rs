//! Finds sorting networks in global memory whose steps have no barrier between them.
//!
//! In each step of a network, each lane compares and exchanges two elements, and the next step pairs the elements
//! differently. The number of an element combines a number that depends on the lane with the step's distance, bit by bit
//! or by a division, for example `i + (i & -distance)` or `i ^ distance`. A loop halves or doubles the distance. If the
//! loop has no barrier, the program relies on lock-step: a lane reads what other lanes wrote in the step before.
//!
//! Such addresses are not sums of the lane's number ([`super::sum`]), and the code around a network uses the same
//! elements at addresses of other forms. Therefore the pass [`super::super::sync_points`] preserves the order of all
//! accesses to global memory in a kernel with a network.

use crate::analysis::{Cfg, Loops, Uniformity};
use crate::entity::{Block, Inst, Value};
use crate::function::Function;
use margay_ops::mods::StateSpace;
use margay_ops::ops::{Effects, Opcode};

/// Maximum number of operations that the search for a distance in an address examines.
const MOST_VISITS: usize = 32;
/// Maximum number of operations in sequence between a distance and a value that the analysis derives from it.
const MOST_STEPS: usize = 6;

/// What is known about a value that is computed from distances and constants only.
#[derive(Clone, Copy, Default)]
struct Derived {
    uses_distance: bool,
    is_shifted: bool,
}

/// Returns whether an instruction loads or stores global memory, or memory through a generic address.
pub(in crate::pass) fn is_global_access(function: &Function, inst: Inst) -> bool {
    let data = &function.dfg.insts[inst];
    matches!(data.opcode, Opcode::Ld | Opcode::St)
        && matches!(data.mods.space(), StateSpace::Global | StateSpace::None)
}

/// Finds networks. `uniformity` computes the classes of the function's values when they are first needed.
pub(super) struct Networks<'a, F> {
    pub(super) function: &'a Function,
    pub(super) cfg: &'a Cfg,
    pub(super) uniformity: F,
}

impl<'a, F: Fn() -> &'a Uniformity> Networks<'a, F> {
    /// Returns whether the function contains a network without barriers.
    pub(super) fn exist(&self) -> bool {
        let insts = || {
            let blocks = self.cfg.rpo().iter();
            blocks.flat_map(|&block| self.function.insts(block))
        };
        let combines = |&inst: &Inst| self.combined(inst).is_some();
        if !insts().any(combines) || !insts().any(|&inst| is_global_access(self.function, inst)) {
            return false;
        }
        let loops = Loops::new(self.function, self.cfg);
        (0..loops.loops.len()).any(|number| {
            let distances = self.distances(loops.header(number));
            !distances.is_empty() && self.is_network(loops.body(number), &distances)
        })
    }

    /// Returns the two operands of an operation that can combine an element's number with a distance.
    fn combined(&self, inst: Inst) -> Option<[Value; 2]> {
        let dfg = &self.function.dfg;
        let combines = matches!(
            dfg.insts[inst].opcode,
            Opcode::And | Opcode::Or | Opcode::Xor | Opcode::Div | Opcode::Rem
        );
        let is_integer = dfg.insts[inst].ty.bits() >= 32 && dfg.insts[inst].ty.elements() == 1;
        match *dfg.args(inst) {
            [a, b] if combines && is_integer && !self.is_constant(a) && !self.is_constant(b) => {
                Some([a, b])
            }
            _ => None,
        }
    }

    fn is_constant(&self, value: Value) -> bool {
        let dfg = &self.function.dfg;
        let def = dfg.def_inst(value);
        def.is_some_and(|def| dfg.insts[def].opcode == Opcode::Const)
    }

    /// Returns the parameters of a loop's header that each iteration of the loop shifts or divides.
    fn distances(&self, header: Block) -> Vec<Value> {
        let is_distance = |&(index, param): &(usize, Value)| {
            let incoming = self.cfg.incoming(self.function, header);
            let mut back =
                incoming.filter(|&(from, _)| self.cfg.number(from) >= self.cfg.number(header));
            back.all(|(_, call)| {
                let arg = call.args.get(index);
                let derived = arg.and_then(|&arg| self.derived(arg, &[param], MOST_STEPS));
                derived.is_some_and(|derived| derived.uses_distance && derived.is_shifted)
            })
        };
        let params = self.function.dfg.blocks[header].params.iter().copied();
        let found = params.enumerate().filter(is_distance);
        found.map(|(_, param)| param).collect()
    }

    /// Returns what is known about a value if it is computed from distances and constants only.
    fn derived(&self, value: Value, distances: &[Value], steps: usize) -> Option<Derived> {
        if distances.contains(&value) {
            return Some(Derived {
                uses_distance: true,
                is_shifted: false,
            });
        }
        let dfg = &self.function.dfg;
        let def = dfg.def_inst(value)?;
        let steps = steps.checked_sub(1)?;
        let is_shifted = match dfg.insts[def].opcode {
            Opcode::Const => return Some(Derived::default()),
            Opcode::Shl | Opcode::Shr | Opcode::Div => true,
            Opcode::Add | Opcode::Sub | Opcode::Neg | Opcode::Not | Opcode::Cvt | Opcode::Mul => {
                false
            }
            _ => return None,
        };
        let mut all = Derived {
            is_shifted,
            ..Derived::default()
        };
        for &arg in dfg.args(def) {
            let one = self.derived(arg, distances, steps)?;
            all.uses_distance |= one.uses_distance;
            all.is_shifted |= one.is_shifted;
        }
        Some(all)
    }

    /// Returns whether a loop has no barrier, and loads and stores elements that distances pair.
    fn is_network(&self, body: &[Block], distances: &[Value]) -> bool {
        let insts = || body.iter().flat_map(|&block| self.function.insts(block));
        let joins_lanes = |&inst: &Inst| is_barrier(self.function, inst);
        let pairs = |opcode: Opcode| {
            let mut accesses = insts().filter(|&&inst| {
                let is_access = is_global_access(self.function, inst);
                is_access && self.function.dfg.insts[inst].opcode == opcode
            });
            accesses.any(|&inst| self.is_paired(self.function.dfg.args(inst)[0], distances))
        };
        !insts().any(joins_lanes) && pairs(Opcode::St) && pairs(Opcode::Ld)
    }

    /// Returns whether an address contains a value that combines a distance with a number that depends on the lane.
    fn is_paired(&self, address: Value, distances: &[Value]) -> bool {
        let dfg = &self.function.dfg;
        let pairs = |element: Value, distance: Value| {
            let derived = self.derived(distance, distances, MOST_STEPS);
            derived.is_some_and(|derived| derived.uses_distance)
                && !(self.uniformity)().class(element).is_uniform()
        };
        let mut work = vec![address];
        for _ in 0..MOST_VISITS {
            let Some(value) = work.pop() else {
                return false;
            };
            let Some(def) = dfg.def_inst(value) else {
                continue;
            };
            if let Some([a, b]) = self.combined(def)
                && (pairs(a, b) || pairs(b, a))
            {
                return true;
            }
            let is_part = matches!(
                dfg.insts[def].opcode,
                Opcode::Add
                    | Opcode::Sub
                    | Opcode::Mul
                    | Opcode::Mad
                    | Opcode::Shl
                    | Opcode::And
                    | Opcode::Or
                    | Opcode::Xor
                    | Opcode::Cvt
                    | Opcode::Cvta
                    | Opcode::CheckAccess
            );
            if is_part {
                work.extend_from_slice(dfg.args(def));
            }
        }
        false
    }
}

/// Returns whether lanes wait for each other at an instruction, wherever they are. At an `activemask`, they only wait for
/// the lanes that are in the same loop.
pub(in crate::pass) fn is_barrier(function: &Function, inst: Inst) -> bool {
    let syncs = Effects::SYNC_WARP
        .union(Effects::SYNC_CTA)
        .union(Effects::SYNC_CLUSTER);
    function.effects(inst).intersects(syncs)
        && function.dfg.insts[inst].opcode != Opcode::ActiveMask
}
