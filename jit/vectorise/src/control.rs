//! The blocks of the kernel, in the order and with the guards that [`Flow`](crate::flow::Flow) plans.
//!
//! Each place has a variable with the mask of the lanes that will execute it. An edge adds its lanes to the mask of its
//! target, and the code of the place takes them. Parameters of a loop header get the values for the next iteration at
//! the end of the loop, because blocks that follow in the same iteration still use the old values.

use std::ops::RangeInclusive;

use margay_ir::analysis::uniformity::Class;
use margay_ir::entity::{Block, Inst, Value};
use margay_ir::function::BlockCall;
use margay_ops::mods::CmpOp;
use margay_ops::ops::Opcode;
use margay_ops::types::{OpType, Type};
use margay_vir::data::Data;
use margay_vir::ops::Op;
use smallvec::SmallVec;

use crate::Refusal;
use crate::emitter::{Emitter, Together};
use crate::flow::{Exit, Next, Place, PlaceIndex, is_back_edge};
use crate::variables::Key;

/// The VIR blocks of the places.
pub(crate) struct Blocks {
    /// For each place, the block with its guard, or its code if it has no guard.
    guards: Vec<Block>,
    /// For each place, the block with its code.
    bodies: Vec<Block>,
    /// The block behind the chunk.
    done: Block,
}

/// Returns the variable of a value.
type KeyOf = fn(Value) -> Key;

/// An edge from the block being translated.
pub(crate) struct Edge<'c> {
    pub(crate) call: &'c BlockCall,
    /// The lanes that take the edge.
    pub(crate) mask: Value,
}

impl Emitter<'_> {
    /// Emits the code for the chunks, whose lanes run. The code continues at `done`.
    pub(crate) fn chunk(&mut self, done: Block) -> Result<(), Refusal> {
        let [together, apart] = std::array::from_fn(|_| self.new_blocks(done));
        let all = self.constant(self.mask_type(), 1);
        let places = self.flow().places.len() as PlaceIndex;
        self.clear_masks(0..=places - 1);
        if !self.runs_divided() {
            self.of_chunks(|e| e.write(Key::Mask(0), e.mask));
            self.jump(apart.bodies[0]);
            return self.version((&apart, &apart));
        }
        let starts = std::array::from_fn(|_| self.new_block());
        self.test_all(starts.into());
        if self.variables.is_reached(starts[0]) {
            self.enter(starts[0]);
            self.of_chunks(|e| e.write(Key::Mask(0), all));
            self.jump(together.bodies[0]);
        }
        if self.variables.is_reached(starts[1]) {
            self.enter(starts[1]);
            self.of_chunks(|e| e.write(Key::Mask(0), e.mask));
            self.jump(apart.bodies[0]);
        }
        self.together = Some(Together::new(all));
        self.version((&together, &apart))?;
        self.together = None;
        let hot = self.hot.len();
        self.version((&apart, &apart))?;
        let rare = self.hot.split_off(hot);
        self.cold.extend(rare);
        Ok(())
    }

    /// Creates the blocks of the places.
    fn new_blocks(&mut self, done: Block) -> Blocks {
        let mut blocks = Blocks {
            guards: Vec::new(),
            bodies: Vec::new(),
            done,
        };
        for &guarded in &self.flow().guarded {
            let body = self.new_block();
            blocks.bodies.push(body);
            let guard = if guarded { self.new_block() } else { body };
            blocks.guards.push(guard);
        }
        blocks
    }

    /// Emits the places that the code reaches, in order.
    fn version(&mut self, (blocks, apart): (&Blocks, &Blocks)) -> Result<(), Refusal> {
        let flow = self.flow();
        self.first_edges = self.find_first_edges();
        // The first block of a loop is also reached from the end of the loop.
        let mut open: Vec<Block> = Vec::new();
        for (index, &place) in flow.places.iter().enumerate() {
            if flow.guarded[index] && self.variables.is_reached(blocks.guards[index]) {
                self.enter(blocks.guards[index]);
                let lanes = self.of_chunks(|e| e.waiting(index as PlaceIndex));
                let lanes = self.combined(Opcode::Or, &lanes);
                let any = self.value(Op::Any, self.mask_type(), Data::Nothing, &[lanes]);
                let skip = self.threaded(flow.skip[index], false);
                self.brif(any, blocks.bodies[index], blocks.of(skip));
            }
            if !self.variables.is_reached(blocks.bodies[index]) {
                continue;
            }
            match place {
                Place::Block(block) => {
                    if let Some(number) = self.loops().headed_by(block) {
                        self.enter_open(blocks.bodies[index]);
                        open.push(blocks.bodies[index]);
                        // No lane waits inside a loop when an iteration starts.
                        let inside = index as PlaceIndex + 1..=flow.end_of(number);
                        self.clear_masks(inside);
                    } else {
                        self.enter(blocks.bodies[index]);
                    }
                    self.take(index as PlaceIndex);
                    match index {
                        0 => self.start(blocks),
                        _ => self.kernel_block(block, index, (blocks, apart))?,
                    }
                }
                Place::End(number) => {
                    self.enter(blocks.bodies[index]);
                    self.next_iteration(number, index as PlaceIndex, blocks);
                }
            }
        }
        for block in open {
            self.variables.seal(&mut self.out, block);
        }
        Ok(())
    }

    /// Sets the masks of places to the empty mask.
    fn clear_masks(&mut self, places: RangeInclusive<PlaceIndex>) {
        let none = self.constant(self.mask_type(), 0);
        for index in places {
            self.of_chunks(|e| e.write(Key::Mask(index), none));
        }
    }

    /// Sets the variables with lanes that code may read before each lane has set its own to zero, so that they do not keep
    /// those of earlier phases and CTAs alive.
    pub(crate) fn clear_lanes(&mut self) {
        let source = self.source;
        let params = self.phase.blocks.iter();
        let params = params.flat_map(|&block| &source.dfg.blocks[block].params);
        let params = params.filter(|&&param| self.own_class(param) == Class::Varying);
        let params = params.map(|&param| (Key::Lanes(param), param));
        let left = self.leaving.iter();
        let left = left.map(|&(value, _)| (Key::Left(value), value));
        let keys: Vec<(Key, Value)> = params.chain(left).collect();
        for (key, value) in keys {
            let ty = self.vector(self.kind(value));
            let zero = self.constant(ty, 0);
            self.of_chunks(|e| e.write(key, zero));
        }
    }

    /// Returns the mask of the lanes that wait at a place.
    pub(crate) fn waiting(&mut self, place: PlaceIndex) -> Value {
        self.read(Key::Mask(place), self.mask_type())
    }

    /// Makes the lanes that wait at a place the lanes that run.
    fn take(&mut self, place: PlaceIndex) {
        let none = self.constant(self.mask_type(), 0);
        let all = self.mask_of_all(place);
        self.of_chunks(|e| {
            e.mask = match all {
                Some(all) => all,
                None => e.waiting(place),
            };
            e.write(Key::Mask(place), none);
        });
    }

    /// Emits the entry block, which leads to the first block of the phase.
    fn start(&mut self, blocks: &Blocks) {
        self.block = self.source.entry();
        self.edge(&BlockCall::to(self.phase.start));
        let Some(Exit::Uniform(nexts)) = &self.flow().exits[0] else {
            unreachable!("the entry block has one successor");
        };
        self.jump(blocks.of(nexts[0]));
    }

    fn kernel_block(
        &mut self,
        block: Block,
        index: usize,
        blocks: (&Blocks, &Blocks),
    ) -> Result<(), Refusal> {
        self.block = block;
        self.aligned.clear();
        self.reached.clear();
        self.tested_local.clear();
        let source = self.source;
        let (&last, body) = source
            .insts(block)
            .split_last()
            .expect("a block has a terminator");
        match body.split_last() {
            Some((&inst, body)) if self.may_stop_at(inst) => {
                self.body(body)?;
                self.stop_if_needed(inst, blocks.0)?;
            }
            _ => self.body(body)?,
        }
        self.set_place(last);
        let exit = self.flow().exits[index]
            .as_ref()
            .expect("the place is a block");
        if let &Exit::Diverged(next) = exit
            && self.runs_together()
            && self.divides_at(index as PlaceIndex)
        {
            return self.divide(last, next, blocks);
        }
        self.leave(last, exit, blocks.0)
    }

    /// Emits the end of a block.
    fn leave(&mut self, inst: Inst, exit: &Exit, blocks: &Blocks) -> Result<(), Refusal> {
        let source = self.source;
        let opcode = source.dfg.insts[inst].opcode;
        let calls = source.dfg.targets(inst);
        match opcode {
            Opcode::Jump | Opcode::Brif | Opcode::BrTable | Opcode::Exit | Opcode::Ret => {}
            Opcode::Bar => {
                self.each_chunk(|e| e.arrive(inst))?;
            }
            Opcode::Trap => return self.abort(self.kernel.status.trap, inst),
            Opcode::Unreachable => return self.abort(self.kernel.status.unreachable, inst),
            _ => return Err(Refusal::Operation(opcode.name())),
        }
        match exit {
            Exit::Diverged(next) => {
                let masks = self.each_chunk(|e| e.edge_masks(inst, opcode))?;
                for (index, call) in calls.iter().enumerate() {
                    let meets = self.meets(call);
                    self.of_chunks(|e| {
                        let mask = masks[e.position()][index];
                        e.edge_that_meets(&Edge { call, mask }, meets);
                    });
                }
                self.go(*next, blocks);
            }
            Exit::Uniform(nexts) if nexts.len() == 1 => {
                if let Some(call) = calls.first() {
                    self.edge(call);
                }
                self.go(nexts[0], blocks);
            }
            Exit::Uniform(nexts) => {
                let ways: Vec<Block> = nexts.iter().map(|_| self.new_block()).collect();
                let condition = self.scalar(source.dfg.args(inst)[0]);
                match opcode {
                    Opcode::Brif => self.brif(condition, ways[0], ways[1]),
                    _ => self.table(condition, &ways),
                }
                for ((call, next), way) in calls.iter().zip(nexts).zip(ways) {
                    if !self.variables.is_reached(way) {
                        continue;
                    }
                    self.enter(way);
                    self.edge(call);
                    self.go(*next, blocks);
                }
            }
        }
        Ok(())
    }

    /// Emits a jump to where the code continues.
    fn go(&mut self, next: Next, blocks: &Blocks) {
        let next = self.threaded(next, true);
        self.jump(blocks.of(next));
    }

    /// Returns where the code continues from the current position, without guards whose result is known here. If `runs` is
    /// set, at least one lane executes the block being translated.
    pub(crate) fn threaded(&mut self, mut next: Next, runs: bool) -> Next {
        while let Next::Guard(place) = next {
            let waiting = self.of_chunks(|e| (e.waiting(place), e.mask));
            let is_empty = |&(lanes, _): &(Value, Value)| self.out.constant(lanes) == Some(0);
            if runs && waiting.iter().all(|(lanes, mask)| lanes == mask) {
                next = Next::Direct(place);
            } else if waiting.iter().all(is_empty) {
                next = self.flow().skip[place as usize];
            } else {
                break;
            }
        }
        next
    }

    /// Emits a branch table whose index may have any integer type.
    fn table(&mut self, index: Value, ways: &[Block]) {
        let bits = self.out.ty(index).lane_bits();
        if bits == 32 {
            return self.br_table(index, ways);
        }
        let (from, ty) = (op_type(bits), self.out.ty(index));
        let index = if bits == 64 {
            // An index above all targets selects the default target, also after the conversion to 32 bits.
            let last = self.constant(ty, ways.len() as u64);
            let index = self.simple(Opcode::Min, OpType::U64, ty, &[index, last]);
            self.convert(OpType::U32, from, index)
        } else {
            self.convert(OpType::U32, from, index)
        };
        self.br_table(index, ways);
    }

    /// Returns the lanes that take each edge of a branch at which lanes may diverge.
    pub(crate) fn edge_masks(
        &mut self,
        inst: Inst,
        opcode: Opcode,
    ) -> Result<SmallVec<[Value; 2]>, Refusal> {
        let source = self.source;
        let condition = self.lanes(source.dfg.args(inst)[0]);
        let mask = self.mask;
        if opcode == Opcode::Brif {
            let taken = self.logic(Opcode::And, &[mask, condition]);
            let not = self.logic(Opcode::Not, &[condition]);
            let other = self.logic(Opcode::And, &[mask, not]);
            return Ok(SmallVec::from_slice(&[taken, other]));
        }
        let kind = self.out.ty(condition).kind();
        let on = op_type(kind.bits());
        let count = source.dfg.targets(inst).len() - 1;
        let mut rest = mask;
        let mut taken: SmallVec<[Value; 2]> = SmallVec::new();
        for number in 0..count as u64 {
            let number = self.constant(Type::scalar(kind), number);
            let equal = self.compare((CmpOp::Eq, on), condition, number);
            let lanes = self.logic(Opcode::And, &[mask, equal]);
            let not = self.logic(Opcode::Not, &[equal]);
            rest = self.logic(Opcode::And, &[rest, not]);
            taken.push(lanes);
        }
        taken.insert(0, rest);
        Ok(taken)
    }

    /// Emits an edge that all lanes of the block take: passes the arguments, and adds the lanes to the mask of the target.
    fn edge(&mut self, call: &BlockCall) {
        let meets = self.meets(call);
        self.of_chunks(|e| {
            let mask = e.mask;
            e.edge_that_meets(&Edge { call, mask }, meets);
        });
    }

    /// Returns whether lanes of other edges may wait at the target of an edge from the block being translated.
    fn meets(&mut self, call: &BlockCall) -> bool {
        let (from, to) = (self.block, call.block);
        if is_back_edge(self.loops(), from, to).is_some() {
            return self.back_edges[to] > 1;
        }
        let is_first = self.first_edges.get(&to) == Some(&Some(from));
        // A second edge from the same block to the same target keeps the lanes of the first.
        self.first_edges.insert(to, None);
        self.may_meet(from, to) && !is_first
    }

    /// Emits an edge. If `meets` is set, lanes of other edges may wait at the target.
    pub(crate) fn edge_that_meets(&mut self, edge: &Edge<'_>, meets: bool) {
        let (from, to) = (self.block, edge.call.block);
        self.keep_leaving(from, to, edge.mask);
        if self.only_exits(to) {
            return;
        }
        let (place, keys): (_, (KeyOf, KeyOf)) = match is_back_edge(self.loops(), from, to) {
            Some(number) => (
                self.flow().end_of(number),
                (Key::NextScalar, Key::NextLanes),
            ),
            None => (
                self.flow().place_of(self.loops(), to),
                (Key::Scalar, Key::Lanes),
            ),
        };
        self.pass(edge, meets, keys);
        self.add_lanes(place, edge.mask, meets);
        self.note_edge(place, edge.mask);
    }

    pub(crate) fn only_exits(&self, block: Block) -> bool {
        let insts = self.source.insts(block);
        matches!(insts, &[inst] if matches!(
            self.source.dfg.insts[inst].opcode, Opcode::Exit | Opcode::Ret))
    }

    /// Returns whether lanes may already wait at the target of an edge.
    fn may_meet(&self, from: Block, to: Block) -> bool {
        let mut left = self.loops().around_only(from, to);
        self.kernel.uniformity.joins_apart(to) || left.any(|number| self.flow().deferred[number])
    }

    /// Makes the lanes of `mask` wait at a place; if `meets` is set, besides the lanes that wait there already.
    fn add_lanes(&mut self, place: PlaceIndex, mask: Value, meets: bool) {
        let mut all = mask;
        if meets {
            let waiting = self.waiting(place);
            if self.out.constant(waiting) != Some(0) {
                all = self.logic(Opcode::Or, &[waiting, mask]);
            }
        }
        self.write(Key::Mask(place), all);
    }

    /// Saves, for lanes that leave a loop, the values that the loop defines and code outside the loop uses.
    pub(crate) fn keep_leaving(&mut self, from: Block, to: Block, mask: Value) {
        let loops = self.kernel.uniformity.loops();
        if from == self.source.entry() {
            return;
        }
        let left = |&(value, number): &(Value, usize)| {
            let leaves = loops.contains(number, from) && !loops.contains(number, to);
            leaves.then_some(value)
        };
        let leaving: Vec<Value> = self.leaving.iter().filter_map(left).collect();
        for value in leaving {
            let kind = self.kind(value);
            let ty = self.vector(kind);
            let new = self.lanes(value);
            let old = self.read(Key::Left(value), ty);
            let kept = self.blend(mask, new, old, kind);
            self.write(Key::Left(value), kept);
        }
    }

    /// Sets the variables `scalar` and `vector` of the parameters of the target of an edge; if `meets` is set, only for
    /// the lanes of the edge.
    pub(crate) fn pass(&mut self, edge: &Edge<'_>, meets: bool, (scalar, vector): (KeyOf, KeyOf)) {
        let params = &self.source.dfg.blocks[edge.call.block].params;
        // All arguments are read before any parameter is set, because parameters may be arguments.
        let mut sets: SmallVec<[(Key, Value); 8]> = SmallVec::new();
        for (&param, &arg) in params.iter().zip(&edge.call.args) {
            if self.is_derived(param) {
                continue;
            }
            if self.own_class(param) != Class::Varying {
                sets.push((scalar(param), self.scalar(arg)));
                continue;
            }
            let kind = self.kind(param);
            let mut lanes = self.lanes(arg);
            if meets {
                let old = self.read(vector(param), self.vector(kind));
                lanes = self.blend(edge.mask, lanes, old, kind);
            }
            sets.push((vector(param), lanes));
        }
        for (key, value) in sets {
            self.write(key, value);
        }
    }

    /// Emits the end of a loop: the lanes that wait there start the next iteration.
    pub(crate) fn next_iteration(&mut self, number: usize, place: PlaceIndex, blocks: &Blocks) {
        let header = self.loops().header(number);
        let start = self.flow().place_of(self.loops(), header);
        let none = self.constant(self.mask_type(), 0);
        self.count_turn(header);
        self.of_chunks(|e| {
            let lanes = e.waiting(place);
            e.write(Key::Mask(place), none);
            for &param in &e.source.dfg.blocks[header].params {
                let ty = e.source.dfg.ty(param);
                if e.is_derived(param) {
                    continue;
                }
                if e.own_class(param) == Class::Varying {
                    let next = e.read(Key::NextLanes(param), e.vector(ty.kind()));
                    e.set_lanes(param, next);
                } else {
                    let next = e.read(Key::NextScalar(param), ty);
                    e.set_scalar(param, next);
                }
            }
            e.write(Key::Mask(start), lanes);
        });
        self.jump(blocks.bodies[start as usize]);
    }

    /// Emits code that ends the program with a status, for the first lane that runs.
    fn abort(&mut self, status: u32, inst: Inst) -> Result<(), Refusal> {
        let layout = self.kernel.layout;
        let loc = self.source.dfg.locs[inst];
        let masks = self.of_chunks(|e| e.mask);
        let lane = self.first_lane_of(&masks);
        let thread = self.add(self.first_thread, lane);
        self.set_field(layout.thread, thread);
        for (offset, word) in [
            (layout.ended_line, loc.ptx_line),
            (layout.ended_loc, loc.loc),
        ] {
            let word = self.constant(Type::B32, word.into());
            self.set_field(offset, word);
        }
        let status = self.constant(Type::B32, status.into());
        self.ret(&[status]);
        Ok(())
    }
}

impl Blocks {
    pub(crate) fn of(&self, next: Next) -> Block {
        match next {
            Next::Direct(place) => self.bodies[place as usize],
            Next::Guard(place) => self.guards[place as usize],
            Next::Done => self.done,
        }
    }
}

/// Returns the unsigned type of an index.
fn op_type(bits: u32) -> OpType {
    match bits {
        8 => OpType::U8,
        16 => OpType::U16,
        64 => OpType::U64,
        _ => OpType::U32,
    }
}

/// Returns the values that lanes may carry out of a loop in different iterations, each with the loop that defines it.
pub(crate) fn leaving_values(kernel: &crate::Kernel<'_>) -> Vec<(Value, usize)> {
    let (function, uniformity) = (kernel.function, kernel.uniformity);
    let mut leaving: Vec<(Value, usize)> = Vec::new();
    let mut note = |value: Value, block: Block| {
        if uniformity.leaves_apart(function, value, block)
            && let Some(number) = uniformity.loop_of(value)
        {
            leaving.push((value, number));
        }
    };
    for resume_point in &kernel.regions.resume_points {
        let live = resume_point.live_in.iter();
        live.for_each(|&value| note(value, resume_point.block));
    }
    for &block in &uniformity.loops().order {
        for &inst in function.insts(block) {
            function
                .dfg
                .args(inst)
                .iter()
                .for_each(|&arg| note(arg, block));
            for call in function.dfg.targets(inst) {
                call.args.iter().for_each(|&arg| note(arg, block));
            }
        }
    }
    leaving.sort_unstable();
    leaving.dedup();
    leaving
}
