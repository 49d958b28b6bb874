//! Assigns rows to values by a scan over the instructions in block order.
//!
//! A value occupies its row from its definition to its last use, or to the end of the outermost loop that
//! contains a use but not the definition. A block parameter also occupies its row from the first to the last
//! branch to the block. That is sufficient because every edge leads forwards or back to the start of a loop
//! ([`Linear`]). So a definition precedes all uses that it dominates, and lanes on different paths write only
//! their own lanes of a row.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::registers::{RegisterId, Width};
use margay_ir::analysis::{Cfg, Linear};
use margay_ir::entity::{Inst, SecondaryMap, Value};
use margay_ir::function::Function;
use margay_ops::meaning::Meaning;
use margay_ops::ops::Opcode;

/// The rows of a function's values.
pub(super) struct Allocation {
    pub(super) places: SecondaryMap<Value, RegisterId>,
    /// Number of rows of each width.
    pub(super) rows: [usize; 3],
    /// For each width, a row that holds no value.
    pub(super) scratch: [usize; 3],
}

/// Assigns rows to the values of a function that have no row in `fixed`.
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
    /// Free rows of each width.
    unused: [Vec<usize>; 3],
    rows: [usize; 3],
    /// Occupied rows, by the position of the last use of their value.
    held: BinaryHeap<Reverse<(u32, RegisterId)>>,
}

impl Scan<'_> {
    fn inst(&mut self, inst: Inst, position: u32) {
        let dfg = &self.function.dfg;
        let opcode = dfg.insts[inst].opcode;
        if opcode == Opcode::Const {
            return;
        }
        // A pure operation reads all operands before it writes a result, so a result may use the row of an
        // operand. At a sync point the first lanes get their results while the operands of other lanes are
        // still needed.
        let is_pure = matches!(opcode.meaning(), Meaning::Pure(_));
        self.release(position + u32::from(is_pure));
        // A value that is used without a definition, which the verifier rejects, has an arbitrary content.
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

    /// Frees the rows of values whose last use is before a position.
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

/// A loop: the positions of its first block and after its last block, the position after its last instruction,
/// and the enclosing loop.
struct Around {
    start: u32,
    end: u32,
    last: u32,
    outer: Option<usize>,
}

/// Returns the position of the last instruction that needs a value's row.
fn last_positions(function: &Function, cfg: &Cfg, order: &Linear) -> SecondaryMap<Value, u32> {
    // The position of each block's first instruction, then the position after all instructions.
    let mut starts = Vec::with_capacity(order.order.len() + 1);
    let mut position = 0;
    for &block in &order.order {
        starts.push(position);
        position += function.insts(block).len() as u32;
    }
    starts.push(position);
    let (loops, innermost) = nest(order, &starts);
    let mut homes: SecondaryMap<Value, u32> = SecondaryMap::default();
    let mut ends: SecondaryMap<Value, u32> = SecondaryMap::default();
    for (number, &block) in (0u32..).zip(&order.order) {
        for &param in &function.dfg.blocks[block].params {
            homes[param] = number;
            let branches = cfg.preds(block).iter().filter_map(|&b| order.position(b));
            let last = branches.map(|b| starts[b as usize + 1]).max();
            ends[param] = last.unwrap_or(0).max(starts[number as usize]);
        }
        for (at, &inst) in (starts[number as usize]..).zip(function.insts(block)) {
            for &result in function.dfg.results(inst) {
                homes[result] = number;
                ends[result] = ends[result].max(at);
            }
        }
    }
    let mut at = 0;
    for (number, &block) in (0u32..).zip(&order.order) {
        let mut need = |value: Value, at: u32| {
            let home = homes[value];
            let mut end = at;
            let mut around = innermost[number as usize];
            while let Some(one) = around.map(|index| &loops[index])
                && !(one.start..one.end).contains(&home)
            {
                end = one.last;
                around = one.outer;
            }
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

/// Returns the loops, and the innermost loop of each block.
fn nest(order: &Linear, starts: &[u32]) -> (Vec<Around>, Vec<Option<usize>>) {
    let mut spans: Vec<_> = order
        .loops
        .iter()
        .map(|span| (span.start, Reverse(span.end)))
        .collect();
    spans.sort_unstable();
    let mut loops: Vec<Around> = Vec::with_capacity(spans.len());
    let mut open: Option<usize> = None;
    let mut innermost = vec![None; order.order.len()];
    let mut next = 0;
    for number in 0..order.order.len() as u32 {
        while let Some(index) = open
            && loops[index].end <= number
        {
            open = loops[index].outer;
        }
        while let Some(&(start, Reverse(end))) = spans.get(next)
            && start == number
        {
            loops.push(Around {
                start,
                end,
                last: starts[end as usize],
                outer: open,
            });
            open = Some(loops.len() - 1);
            next += 1;
        }
        innermost[number as usize] = open;
    }
    (loops, innermost)
}
