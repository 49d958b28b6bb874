//! Assigns a register row to each value (linear-scan register allocation), in one pass over the instructions in the
//! order of [`Linear`].
//!
//! A value occupies its row from its definition to its last use. If a loop contains a use but not the definition, the
//! value occupies its row to the end of the outermost such loop. A block parameter also occupies its row from the first
//! to the last branch to the block. These ranges are sufficient because every edge leads forwards or back to the start
//! of a loop ([`Linear`]), so a definition precedes all uses that it dominates. Lanes on different paths can use a row
//! for different values, because each lane writes only its own element of the row.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::registers::{RegisterId, Width};
use margay_ir::analysis::{Cfg, Linear};
use margay_ir::entity::{Inst, SecondaryMap, Value};
use margay_ir::function::Function;
use margay_ops::meaning::Meaning;
use margay_ops::ops::Opcode;

/// The assignment of register rows to the values of a function. A register row has an element for
/// each lane of a warp.
pub(super) struct Allocation {
    pub(super) places: SecondaryMap<Value, RegisterId>,
    /// The number of register rows of each width that the function needs.
    pub(super) rows: [usize; 3],
    /// For each width, the index of a register row that no value occupies.
    pub(super) scratch: [usize; 3],
}

/// Assigns a register row to each value of a function that has no row in `fixed`.
pub(super) fn allocate(
    function: &Function,
    cfg: &Cfg,
    order: &Linear,
    fixed: SecondaryMap<Value, RegisterId>,
) -> Allocation {
    let ends = last_positions(function, cfg, order);
    let mut scan = Scan {
        function,
        ends,
        places: fixed,
        unused: Default::default(),
        rows: [0; 3],
        held: BinaryHeap::new(),
    };
    let mut position = 0;
    for &block in &order.order {
        for &param in &function.dfg.blocks[block].params {
            scan.place(param);
        }
        for &inst in function.insts(block) {
            scan.inst(inst, position);
            position += 1;
        }
    }
    let scratch = scan.rows;
    Allocation {
        places: scan.places,
        rows: scratch.map(|count| count + 1),
        scratch,
    }
}

struct Scan<'a> {
    function: &'a Function,
    ends: SecondaryMap<Value, u32>,
    places: SecondaryMap<Value, RegisterId>,
    /// For each width, the register rows that no value occupies at the current position.
    unused: [Vec<usize>; 3],
    rows: [usize; 3],
    /// The occupied register rows, in the order of the last use of their values.
    held: BinaryHeap<Reverse<(u32, RegisterId)>>,
}

impl Scan<'_> {
    fn inst(&mut self, inst: Inst, position: u32) {
        let dfg = &self.function.dfg;
        let opcode = dfg.insts[inst].opcode;
        if opcode == Opcode::Const {
            return;
        }
        // A pure operation reads all operands before it writes a result, so a result may use the row of an operand. At
        // a sync point, the results of some lanes are written while the operands of other lanes are still needed.
        let is_pure = matches!(opcode.meaning(), Meaning::Pure(_));
        self.release(position + u32::from(is_pure));
        // A use of a value without a definition gets a row, too. The verifier rejects such functions; in unverified
        // functions, the value is arbitrary.
        dfg.args(inst).iter().for_each(|&arg| self.place(arg));
        for &result in dfg.results(inst) {
            self.place(result);
        }
        for call in dfg.targets(inst) {
            call.args.iter().for_each(|&arg| self.place(arg));
            for &param in &dfg.blocks[call.block].params {
                self.place(param);
            }
        }
    }

    /// Makes the register rows of those values free whose last use is before `position`.
    fn release(&mut self, position: u32) {
        while let Some(&Reverse((end, place))) = self.held.peek()
            && end < position
        {
            self.held.pop();
            self.unused[place.width() as usize].push(place.index());
        }
    }

    fn place(&mut self, value: Value) {
        if self.places[value] != RegisterId::NONE {
            return;
        }
        let kind = self.function.dfg.ty(value).kind();
        let width = Width::of(kind) as usize;
        let index = self.unused[width].pop().unwrap_or_else(|| {
            self.rows[width] += 1;
            self.rows[width] - 1
        });
        let place = RegisterId::register(kind, index);
        self.places[value] = place;
        self.held.push(Reverse((self.ends[value], place)));
    }
}

/// Returns, for each value, the position of the last instruction at which the value occupies its
/// register row.
fn last_positions(function: &Function, cfg: &Cfg, order: &Linear) -> SecondaryMap<Value, u32> {
    // The position of each block's first instruction, followed by the position after all instructions.
    let mut starts = Vec::with_capacity(order.order.len() + 1);
    let mut position = 0;
    for &block in &order.order {
        starts.push(position);
        position += function.insts(block).len() as u32;
    }
    starts.push(position);
    let nest = Nest::new(order);
    let mut homes: SecondaryMap<Value, u32> = SecondaryMap::default();
    let mut ends: SecondaryMap<Value, u32> = SecondaryMap::default();
    for (number, &block) in (0u32..).zip(&order.order) {
        let branches = cfg.preds(block).iter().filter_map(|&b| order.position(b));
        let last = branches.map(|b| starts[b as usize + 1]).max();
        let last_branch = last.unwrap_or(0).max(starts[number as usize]);
        for &param in &function.dfg.blocks[block].params {
            homes[param] = number;
            ends[param] = last_branch;
        }
        for (at, &inst) in (starts[number as usize]..).zip(function.insts(block)) {
            for &result in function.dfg.results(inst) {
                homes[result] = number;
                ends[result] = ends[result].max(at);
            }
        }
    }
    let mut at = 0;
    for &block in &order.order {
        let mut need = |value: Value, at: u32| {
            let home = homes[value];
            let around = nest.outermost(order.innermost(block), |number| {
                !order.loops[number].contains(home)
            });
            let end = around.map_or(at, |number| starts[order.loops[number].end as usize]);
            ends[value] = ends[value].max(end);
        };
        for &inst in function.insts(block) {
            function.dfg.args(inst).iter().for_each(|&v| need(v, at));
            for call in function.dfg.targets(inst) {
                call.args.iter().for_each(|&v| need(v, at));
            }
            at += 1;
        }
    }
    ends
}

/// The nesting of a function's loops, as a skip list. The number of steps of a search from a loop
/// to the loops around it is logarithmic in the nesting depth (Myers: "An Applicative Random-Access
/// Stack").
struct Nest {
    /// For each loop: its depth, the index of the loop immediately around it, and the index of a loop farther outside.
    /// For an outermost loop, both indices are the index of the loop itself.
    loops: Vec<(u32, usize, usize)>,
}

impl Nest {
    fn new(order: &Linear) -> Nest {
        let mut loops: Vec<(u32, usize, usize)> = Vec::with_capacity(order.loops.len());
        for number in 0..order.loops.len() {
            // The loop around a loop has a lower index, so its entry exists already.
            loops.push(match order.outer(number) {
                None => (0, number, number),
                Some(outer) => {
                    let (depth, _, jump) = loops[outer];
                    let (jump_depth, _, second) = loops[jump];
                    let is_even = depth - jump_depth == jump_depth - loops[second].0;
                    (depth + 1, outer, if is_even { second } else { outer })
                }
            });
        }
        Nest { loops }
    }

    /// Returns the outermost loop that `is_accepted` accepts, among the loop `innermost` and the loops around it. If
    /// `is_accepted` rejects a loop, it must also reject all loops around that loop.
    fn outermost(
        &self,
        innermost: Option<usize>,
        is_accepted: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let mut found = innermost.filter(|&number| is_accepted(number))?;
        loop {
            let (_, outer, jump) = self.loops[found];
            found = match () {
                () if jump != found && is_accepted(jump) => jump,
                () if outer != found && is_accepted(outer) => outer,
                () => return Some(found),
            };
        }
    }
}
