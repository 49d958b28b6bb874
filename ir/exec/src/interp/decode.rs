//! Decodes functions of the IR to the form that the interpreter executes: a list of steps, each
//! with the register rows of its operands and results.
//!
//! The interpreter decodes a function once, when a thread first enters it. Steps are in the order of [`Linear`]: every
//! edge leads forwards, or back to the first block of a loop. Constants need no steps: their rows are filled when the
//! function is decoded.
//!
//! Invariant: the time and memory for decoding are about proportional to the size of the function, including its
//! branches. A launch cannot be stopped while its worker decodes a function, so this invariant also
//! limits the time by which a launch can exceed its time limit.

use rustc_hash::FxHashMap;

use super::allocate;
use super::batch::{self, Batch};
use super::registers::{RegisterId, Registers};
use crate::SyncPoint;
use margay_ir::analysis::{Cfg, Linear};
use margay_ir::entity::{Block, Entity, Inst, SecondaryMap, Value};
use margay_ir::function::{BlockCall, Function};
use margay_ops::meaning::{Bits, Meaning, PureFn};
use margay_ops::ops::{Effects, Opcode};
use margay_ops::types::Kind;

/// The kind of a step, which determines how the interpreter executes it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    /// A pure op that one call of the [`Batch`] computes for all lanes.
    Batch(Batch),
    /// A pure op for which the reference function in the field is called once for each lane.
    Pure(PureFn),
    Load,
    Store,
    /// An op on memory or addresses that is neither a load nor a store.
    Access,
    /// An op that has a payload instead of modifiers and is not a call.
    Structural,
    Call,
    CallIndirect,
    /// Jumps along the edge with this index in `Body::edges`.
    Jump(u32),
    /// A conditional branch: takes the edge with this index in `Body::edges` if the condition is
    /// true, and the edge after it otherwise.
    Branch(u32),
    /// A branch table: takes the edge that the operand selects. The fields are the index in
    /// `Body::edges` of the first edge, which is the default, and the number of edges.
    Table(u32, u32),
    Return,
    Exit,
    /// A terminator that ends the launch with a fault, or a replacement for the missing terminator
    /// of a block, which also does this.
    Fault,
    SyncPoint(SyncPoint),
    /// A `yield`, with its sync point and its modifier `flag`. The flag states two properties of
    /// the loop. Weak loads, surface loads and system calls are the only operations with which the
    /// loop may wait. No exit of the loop depends on memory at an address that does not change in
    /// the loop.
    Yield(SyncPoint, bool),
}

/// One decoded instruction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) action: Action,
    /// The register row of the instruction's first result.
    pub(super) result: RegisterId,
    /// The register rows of the instruction's first three operands.
    pub(super) args: [RegisterId; 3],
    /// The index in `Body::places` from which on it contains the register rows of all operands, and
    /// then those of all results.
    places: u32,
    arg_count: u32,
    result_count: u32,
}

/// An edge from a branch to a block, with the moves that copy the arguments of the branch to the parameters of the
/// block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub(super) target: u32,
    /// For an edge that leads back to the header of a loop, the first step after the loop;
    /// otherwise 0.
    pub(super) loop_end: u32,
    moves: u32,
    move_count: u32,
}

/// A decoded function.
#[derive(Clone, Debug)]
pub(super) struct Body {
    pub(super) steps: Vec<Step>,
    /// For each step, its instruction in the IR; `None` for a step that replaces a missing
    /// terminator.
    insts: Vec<Option<Inst>>,
    places: Vec<RegisterId>,
    edges: Vec<Edge>,
    /// The register moves of all branch edges, as pairs (target, source). The moves of an edge are
    /// in an order in which each source is read before it is overwritten.
    moves: Vec<(RegisterId, RegisterId)>,
    pub(super) constants: Registers,
    /// The number of register rows of each width that an activation of the function needs.
    pub(super) rows: [usize; 3],
    /// The register rows of the function's parameters.
    pub(super) params: Vec<RegisterId>,
}

impl Body {
    /// Decodes a function, which must have a body. `sync_point_of` returns the sync point of an
    /// instruction, or `None` if the instruction is not a sync point.
    pub(super) fn new(
        function: &Function,
        sync_point_of: impl Fn(Inst) -> Option<SyncPoint>,
    ) -> Body {
        let cfg = Cfg::new(function);
        let order = Linear::new(function, &cfg, false);
        let mut constants = Registers::default();
        let fixed = places_of_constants(function, &order.order, &mut constants);
        let allocation = allocate::allocate(function, &cfg, &order, fixed);
        let mut body = Body {
            steps: Vec::new(),
            insts: Vec::new(),
            places: Vec::new(),
            edges: Vec::new(),
            moves: Vec::new(),
            constants,
            rows: allocation.rows,
            params: Vec::new(),
        };
        let params = &function.dfg.blocks[function.entry()].params;
        body.params = params.iter().map(|&v| allocation.places[v]).collect();
        let mut decoder = Decoder {
            function,
            places: &allocation.places,
            scratch: allocation.scratch,
            starts: SecondaryMap::with_default(NOWHERE),
            body,
        };
        for &block in &order.order {
            decoder.block(block, &sync_point_of);
        }
        decoder.finish(&order)
    }

    /// Returns the IR instruction of the step with index `pc`.
    pub(super) fn inst(&self, pc: usize) -> Option<Inst> {
        self.insts.get(pc).copied().flatten()
    }

    /// Returns the register rows of a step's operands.
    pub(super) fn args(&self, step: &Step) -> &[RegisterId] {
        &self.places[step.places as usize..][..step.arg_count as usize]
    }

    /// Returns the register rows of a step's results.
    pub(super) fn results(&self, step: &Step) -> &[RegisterId] {
        &self.places[(step.places + step.arg_count) as usize..][..step.result_count as usize]
    }

    pub(super) fn edge(&self, number: u32) -> &Edge {
        &self.edges[number as usize]
    }

    /// Returns the register moves of a branch edge, as pairs (target, source).
    pub(super) fn moves(&self, edge: &Edge) -> &[(RegisterId, RegisterId)] {
        &self.moves[edge.moves as usize..][..edge.move_count as usize]
    }
}

/// Assigns a register row to every constant, and writes the constant to all lanes of the row. Equal
/// constants have the same row.
fn places_of_constants(
    function: &Function,
    order: &[Block],
    rows: &mut Registers,
) -> SecondaryMap<Value, RegisterId> {
    let mut places = SecondaryMap::with_default(RegisterId::NONE);
    let mut known: FxHashMap<(Kind, u64), RegisterId> = FxHashMap::default();
    for &inst in order.iter().flat_map(|&block| function.insts(block)) {
        let data = &function.dfg.insts[inst];
        if data.opcode != Opcode::Const {
            continue;
        }
        for &value in function.dfg.results(inst) {
            let kind = function.dfg.ty(value).kind();
            let place = known.entry((kind, data.payload()));
            places[value] =
                *place.or_insert_with(|| rows.push_constant(kind, Bits::from(data.payload())));
        }
    }
    places
}

struct Decoder<'a> {
    function: &'a Function,
    places: &'a SecondaryMap<Value, RegisterId>,
    /// For each width, the index of a register row that breaks cycles of moves: it contains a value
    /// temporarily.
    scratch: [usize; 3],
    /// For each block, the index of its first step; [`NOWHERE`] for blocks that are not decoded
    /// yet.
    starts: SecondaryMap<Block, u32>,
    body: Body,
}

const NOWHERE: u32 = u32::MAX;

impl Decoder<'_> {
    fn block(&mut self, block: Block, sync_point_of: &impl Fn(Inst) -> Option<SyncPoint>) {
        self.starts[block] = self.body.steps.len() as u32;
        let function = self.function;
        for &inst in function.insts(block) {
            if function.dfg.insts[inst].opcode != Opcode::Const {
                self.inst(inst, sync_point_of(inst));
            }
        }
        let end = function.layout.terminator(block);
        let terminator = Effects::TERMINATOR;
        if !end.is_some_and(|inst| function.effects(inst).contains(terminator)) {
            self.push(None, Action::Fault);
        }
    }

    fn push(&mut self, inst: Option<Inst>, action: Action) {
        let dfg = &self.function.dfg;
        let (args, results) = inst.map_or((&[][..], &[][..]), |i| (dfg.args(i), dfg.results(i)));
        let start = self.body.places.len();
        let places = args.iter().chain(results).map(|&v| self.places[v]);
        self.body.places.extend(places);
        let here = &self.body.places[start..];
        let place = |index: usize| here.get(index).copied().unwrap_or(RegisterId::NONE);
        let arg = |index: usize| match index < args.len() {
            true => place(index),
            false => RegisterId::NONE,
        };
        let step = Step {
            action,
            result: place(args.len()),
            args: [arg(0), arg(1), arg(2)],
            places: start as u32,
            arg_count: args.len() as u32,
            result_count: results.len() as u32,
        };
        self.body.steps.push(step);
        self.body.insts.push(inst);
    }

    fn inst(&mut self, inst: Inst, sync_point: Option<SyncPoint>) {
        let action = self.action(inst, sync_point);
        self.push(Some(inst), action);
    }

    fn action(&mut self, inst: Inst, sync_point: Option<SyncPoint>) -> Action {
        let dfg = &self.function.dfg;
        let data = &dfg.insts[inst];
        let effects = data.opcode.effects();
        if let Meaning::Pure(meaning) = data.opcode.meaning() {
            let kind = |&value: &Value| self.places[value].kind();
            let args = dfg.args(inst).iter().map(kind);
            let results = dfg.results(inst).iter().map(kind);
            let found = batch::find(&data.desc(), args, results);
            return found.map_or(Action::Pure(meaning), Action::Batch);
        }
        let targets = dfg.targets(inst);
        match data.opcode {
            _ if effects.is_sync_point() => match (sync_point, data.opcode) {
                (Some(sync_point), Opcode::Yield) => Action::Yield(sync_point, data.mods.flag()),
                (Some(sync_point), _) => Action::SyncPoint(sync_point),
                (None, _) => Action::Fault,
            },
            Opcode::Jump if !targets.is_empty() => Action::Jump(self.edges(targets)),
            Opcode::Brif if targets.len() > 1 => Action::Branch(self.edges(targets)),
            Opcode::BrTable if !targets.is_empty() => {
                Action::Table(self.edges(targets), targets.len() as u32)
            }
            Opcode::Ret => Action::Return,
            Opcode::Exit => Action::Exit,
            _ if effects.contains(Effects::TERMINATOR) => Action::Fault,
            Opcode::Call => Action::Call,
            Opcode::CallIndirect => Action::CallIndirect,
            _ if effects.contains(Effects::PAYLOAD) => Action::Structural,
            Opcode::Ld => Action::Load,
            Opcode::St => Action::Store,
            _ => Action::Access,
        }
    }

    /// Adds the edges of a terminator, and returns the index of the first edge. The edges are not
    /// complete: their targets are blocks, which `Decoder::finish` replaces by steps. For an edge
    /// that leads back to a loop header, `loop_end` is [`NOWHERE`].
    fn edges(&mut self, calls: &[BlockCall]) -> u32 {
        let first = self.body.edges.len() as u32;
        for call in calls {
            let params = &self.function.dfg.blocks[call.block].params;
            let pairs = params.iter().zip(&call.args);
            let moves = pairs.map(|(&to, &from)| (self.places[to], self.places[from]));
            let start = self.body.moves.len();
            in_sequence(moves.collect(), self.scratch, &mut self.body.moves);
            self.body.edges.push(Edge {
                target: call.block.index() as u32,
                loop_end: match self.starts[call.block] {
                    NOWHERE => 0,
                    _ => NOWHERE,
                },
                moves: start as u32,
                move_count: (self.body.moves.len() - start) as u32,
            });
        }
        first
    }

    fn finish(mut self, order: &Linear) -> Body {
        let steps = self.body.steps.len() as u32;
        let first_step = |position: u32| match order.order.get(position as usize) {
            Some(&block) => self.starts[block],
            None => steps,
        };
        for edge in &mut self.body.edges {
            let target = Block::new(edge.target as usize);
            edge.target = self.starts[target];
            if edge.loop_end == NOWHERE {
                let number = order.headed_by(target);
                edge.loop_end = number.map_or(0, |number| first_step(order.loops[number].end));
            }
        }
        self.body
    }
}

/// Appends to `out` a sequence of register moves, as pairs (target, source), that has the same
/// effect as the simultaneous execution of `moves`. No two elements of `moves` may have the same
/// target.
fn in_sequence(
    mut moves: Vec<(RegisterId, RegisterId)>,
    scratch: [usize; 3],
    out: &mut Vec<(RegisterId, RegisterId)>,
) {
    moves.retain(|(to, from)| to != from);
    if moves.len() < 2 {
        out.extend(moves);
        return;
    }
    let mut readers: FxHashMap<RegisterId, u32> = FxHashMap::default();
    let mut writers: FxHashMap<RegisterId, usize> = FxHashMap::default();
    for (number, &(to, from)) in moves.iter().enumerate() {
        *readers.entry(from).or_default() += 1;
        writers.insert(to, number);
    }
    let mut done = vec![false; moves.len()];
    let free = |to: RegisterId, readers: &FxHashMap<RegisterId, u32>| {
        readers.get(&to).is_none_or(|&n| n == 0)
    };
    let mut ready: Vec<usize> = (0..moves.len())
        .filter(|&i| free(moves[i].0, &readers))
        .collect();
    for first in 0..moves.len() {
        loop {
            while let Some(number) = ready.pop() {
                let (to, from) = moves[number];
                done[number] = true;
                out.push((to, from));
                release(from, &mut readers, &writers, &done, &mut ready);
            }
            if done[first] {
                break;
            }
            // The remaining moves form cycles. To break a cycle, the source of one move is first copied to the scratch
            // row.
            let from = moves[first].1;
            let place = RegisterId::register(from.kind(), scratch[from.width() as usize]);
            out.push((place, from));
            moves[first].1 = place;
            release(from, &mut readers, &writers, &done, &mut ready);
        }
    }
}

/// Records that a move has read the row `from`. If no remaining move reads this row, adds the move
/// that writes it to `ready`.
fn release(
    from: RegisterId,
    readers: &mut FxHashMap<RegisterId, u32>,
    writers: &FxHashMap<RegisterId, usize>,
    done: &[bool],
    ready: &mut Vec<usize>,
) {
    let Some(count) = readers.get_mut(&from) else {
        return;
    };
    *count -= 1;
    if *count == 0
        && let Some(&number) = writers.get(&from)
        && !done[number]
    {
        ready.push(number);
    }
}

#[cfg(test)]
impl Step {
    /// Returns a step for tests that belongs to no IR instruction.
    pub(super) fn for_test(result: RegisterId, args: &[RegisterId]) -> Step {
        let arg = |index: usize| args.get(index).copied().unwrap_or(RegisterId::NONE);
        Step {
            action: Action::Fault,
            result,
            args: [arg(0), arg(1), arg(2)],
            places: 0,
            arg_count: 0,
            result_count: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the sequence of moves has the same effect as the simultaneous execution of the
    /// moves. The moves are pairs (target, source) of registers 0 to 7 of the same width.
    #[test]
    fn moves_in_sequence_do_what_they_do_at_once() {
        let lists: [&[(usize, usize)]; 6] = [
            &[(0, 1), (1, 2), (2, 3)],
            &[(3, 2), (2, 1), (1, 0)],
            &[(0, 1), (1, 0)],
            &[(0, 1), (1, 2), (2, 0), (3, 0), (4, 4)],
            &[(0, 1), (1, 0), (2, 3), (3, 2), (5, 0), (6, 6)],
            &[
                (7, 6),
                (6, 5),
                (5, 4),
                (4, 3),
                (3, 2),
                (2, 1),
                (1, 0),
                (0, 7),
            ],
        ];
        let place = |index| RegisterId::register(Kind::B32, index);
        for list in lists {
            let moves = list.iter().map(|&(to, from)| (place(to), place(from)));
            let mut sequence = Vec::new();
            in_sequence(moves.collect(), [8; 3], &mut sequence);
            let mut registers: Vec<usize> = (0..9).collect();
            for (to, from) in sequence {
                registers[to.index()] = registers[from.index()];
            }
            for (to, from) in (0..8).map(|to| (to, list.iter().find(|m| m.0 == to))) {
                let from = from.map_or(to, |&(_, from)| from);
                assert_eq!(registers[to], from, "register {to} after {list:?}");
            }
        }
    }
}
