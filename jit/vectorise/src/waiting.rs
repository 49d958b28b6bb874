//! Loops in which a lane may wait for another thread.
//!
//! Such a loop has a `yield` at the start of each iteration. The program counts the iterations of a chunk, except the first
//! of each loop. If no turns of the launch's budget are left, the lanes that run *stop*: they store their live values in the
//! frame of their warp, where the code behind the sync point expects them, and run no further in this program. The other
//! lanes and chunks of the CTA run until they exit or stop. Then the program returns, and the CTA scheduler continues the
//! CTA in other code.
//!
//! Lanes that reach a collective stop there if other lanes of their warp have stopped, because these lanes may take part in
//! the collective.
//!
//! Chunks are whole warps. Therefore each lane of the CTA has exited or stopped when the program returns. In a kernel with
//! barriers, the program then returns at the end of the phase in which lanes have stopped. The frames must contain all
//! values of the lanes that have arrived at the barrier: lanes that arrive in a chunk with stopped lanes store them at once,
//! and those of the other chunks are completed at the end of the phase.
//!
//! In contrast to other vector code, each chunk has its own turns, because the other chunks run whether or not the lanes
//! of a chunk stop.

use margay_ir::analysis::regions::FRAME_ALIVE;
use margay_ir::analysis::uniformity::Class;
use margay_ir::entity::{Block, Inst, Value};
use margay_ir::sync_point::SyncPoint;
use margay_ops::mods::CmpOp;
use margay_ops::ops::Opcode;
use margay_ops::types::{Kind, OpType, Type};
use margay_vir::data::{Access, Data};
use margay_vir::ops::Op;

use crate::Refusal;
use crate::control::Blocks;
use crate::emitter::{Emitter, scalar_access};
use crate::flow::Next;
use crate::phases::Phase;
use crate::scan::WARP;
use crate::variables::{Counter, Key};

/// The number of turns of an iteration of a loop that polls, or contains atomics, fences or volatile accesses. Such a loop
/// probably waits for another thread. An iteration of a loop that only reads memory uses one turn.
pub const WAITING_TURN: i32 = 64;

impl Emitter<'_> {
    /// Prepares a chunk of a kernel with waiting loops: no lane has yielded.
    pub(crate) fn begin_waiting(&mut self) {
        if !self.may_yield {
            return;
        }
        let turns = self.field(self.kernel.layout.turn_budget, Type::B32);
        self.write(Key::Counter(Counter::Turns), turns);
        let (frame, ty) = (self.frame, self.vector(Kind::B32));
        let exited = self.constant(ty, SyncPoint::EXIT.0.into());
        self.store(Op::Store, ty, Access::new(OpType::B32, 4), &[frame, exited]);
        let none = self.constant(Type::B32, 0);
        self.store(Op::Store, Type::B32, alive_access(), &[frame, none]);
    }

    /// Returns whether lanes may stop at an instruction: it is a sync point of a kernel whose lanes may yield.
    pub(crate) fn may_stop_at(&self, inst: Inst) -> bool {
        self.may_yield && self.source.effects(inst).is_sync_point()
    }

    /// Emits a sync point at which lanes may stop.
    pub(crate) fn stop_if_needed(&mut self, inst: Inst, blocks: &Blocks) -> Result<(), Refusal> {
        if self.source.dfg.insts[inst].opcode == Opcode::Yield {
            return self.yield_if_due(inst, blocks);
        }
        // Lanes that are not together with the others wait nowhere. This is possible only at a `converge`.
        let place = self.flow().place_of(self.loops(), self.block);
        if self.flow().alone[place as usize] {
            self.set_place(inst);
            let any = self.has_stopped();
            self.stop_if(any, inst, blocks.of(Next::Done))?;
        }
        self.body(&[inst])
    }

    /// Emits a `yield` at the start of a loop: the lanes stop if no turns are left.
    fn yield_if_due(&mut self, inst: Inst, blocks: &Blocks) -> Result<(), Refusal> {
        let refused = Refusal::Operation(Opcode::Yield.name());
        let number = self.loops().headed_by(self.block).ok_or(refused.clone())?;
        let next = self.source.successors(self.block)[0].block;
        let passes = !self.source.dfg.blocks[next].params.is_empty();
        if passes || self.kernel.width != WARP || self.chunk_count != 1 {
            return Err(refused);
        }
        self.set_place(inst);
        let turns = self.read(Key::Counter(Counter::Turns), Type::B32);
        let zero = self.constant(Type::B32, 0);
        let is_due = self.compare((CmpOp::Le, OpType::S32), turns, zero);
        // The lanes that have left the loop, if there are any, run on.
        let behind = self.flow().skip[self.flow().end_of(number) as usize];
        let behind = self.threaded(behind, false);
        self.stop_if(is_due, inst, blocks.of(behind))?;
        Ok(())
    }

    /// Emits code that counts an iteration of the loop with the header `header`, but not the first one.
    pub(crate) fn count_turn(&mut self, header: Block) {
        let mut insts = self.source.insts(header).iter();
        let found = insts.find(|&&inst| self.source.dfg.insts[inst].opcode == Opcode::Yield);
        let Some(&inst) = found.filter(|_| self.may_yield) else {
            return;
        };
        let only_reads = self.source.dfg.insts[inst].mods.flag();
        let cost = if only_reads { 1 } else { WAITING_TURN };
        let turns = self.read(Key::Counter(Counter::Turns), Type::B32);
        let left = self.add_constant(turns, -i64::from(cost));
        self.write(Key::Counter(Counter::Turns), left);
    }

    /// Emits code that stops the lanes that run at a sync point if `condition` holds. The code then continues at `next`.
    fn stop_if(&mut self, condition: Value, inst: Inst, next: Block) -> Result<(), Refusal> {
        let [stop, on] = std::array::from_fn(|_| self.new_block());
        self.brif(condition, stop, on);
        let made = self.made.clone();
        self.enter_cold(stop);
        self.stop(inst)?;
        self.jump(next);
        self.enter(on);
        self.made = made;
        Ok(())
    }

    /// Stores the state of the lanes that run, which wait at a sync point.
    fn stop(&mut self, inst: Inst) -> Result<(), Refusal> {
        let point = self.kernel.regions.sync_point(inst);
        let point = point.ok_or(Refusal::Operation("a sync point without a number"))?;
        let dfg = &self.source.dfg;
        let live = &self.kernel.regions.resume_points[point.0 as usize].live_in;
        for &value in live {
            if !dfg.results(inst).contains(&value) && !self.is_in_frame(point, value) {
                self.save_running(value)?;
            }
        }
        for &value in dfg.args(inst) {
            if !live.contains(&value) && dfg.constant(value).is_none() {
                self.save_running(value)?;
            }
        }
        let (frame, mask, ty) = (self.frame, self.mask, self.vector(Kind::B32));
        let points = self.constant(ty, point.0.into());
        let access = Access::new(OpType::B32, 4);
        self.store(Op::Store, ty, access, &[frame, points, mask]);
        let stopped = self.load(Op::Load, Type::B32, alive_access(), &[frame]);
        let lanes = self.value(Op::Ballot, self.mask_type(), Data::Nothing, &[mask]);
        let lanes = self.low_word(lanes);
        let stopped = self.on_integers(Opcode::Or, stopped, lanes);
        self.store(Op::Store, Type::B32, alive_access(), &[frame, stopped]);
        let some = self.constant(Type::B32, 1);
        self.write(Key::Counter(Counter::Yielded), some);
        let turns = self.field(self.kernel.layout.turn_budget, Type::B32);
        self.write(Key::Counter(Counter::Turns), turns);
        Ok(())
    }

    /// Returns whether the frame contains the elements of a live value when lanes stop at a sync point, because a barrier has
    /// stored them.
    fn is_in_frame(&self, point: SyncPoint, value: Value) -> bool {
        self.own_class(value) == Class::Varying && self.kernel.regions.is_stored(point, value)
    }

    /// Returns the values that a phase needs because lanes may stop in it.
    pub(crate) fn needed_to_stop(&self, phase: &Phase) -> Vec<Value> {
        let blocks = phase.blocks.iter();
        let insts = blocks.flat_map(|&block| self.source.insts(block));
        let points = insts.filter(|&&inst| self.may_stop_at(inst));
        let points = points.filter_map(|&inst| self.kernel.regions.sync_point(inst));
        let needed = points.flat_map(|point| {
            let live = &self.kernel.regions.resume_points[point.0 as usize].live_in;
            let live = live.iter().copied();
            live.filter(move |&value| !self.is_in_frame(point, value))
        });
        needed.collect()
    }

    /// Emits the arrival of the lanes that run at a barrier. They stop if lanes of the chunk have stopped.
    pub(crate) fn arrive_beside_stopped(&mut self, inst: Inst) -> Result<(), Refusal> {
        let join = self.new_block();
        let any = self.has_stopped();
        self.stop_if(any, inst, join)?;
        self.arrive_together(inst)?;
        self.jump(join);
        self.enter(join);
        Ok(())
    }

    /// Returns whether lanes of the chunk have stopped in this phase.
    fn has_stopped(&mut self) -> Value {
        let stopped = self.load(Op::Load, Type::B32, alive_access(), &[self.frame]);
        let zero = self.constant(Type::B32, 0);
        self.compare((CmpOp::Ne, OpType::U32), stopped, zero)
    }

    /// Emits the end of a phase that ends at the barriers before the resume points `ends`: if lanes have stopped, completes
    /// the frames of the chunks whose lanes have arrived, and continues at `done`.
    pub(crate) fn settle_if_stopped(
        &mut self,
        (ends, frames): (&[usize], Value),
        done: Block,
    ) -> Result<(), Refusal> {
        if !self.may_yield {
            return Ok(());
        }
        let [settle, on] = std::array::from_fn(|_| self.new_block());
        let any = self.any_yielded();
        self.brif(any, settle, on);
        let before = self.hot.len();
        self.enter(settle);
        let arrived = self.read(Key::Counter(Counter::Arrived), Type::B32);
        for &end in ends {
            let [here, next] = std::array::from_fn(|_| self.new_block());
            let number = self.constant(Type::B32, end as u64);
            let is_here = self.compare((CmpOp::Eq, OpType::U32), arrived, number);
            self.brif(is_here, here, next);
            self.enter(here);
            self.settle(end, frames, done)?;
            self.enter(next);
        }
        self.jump(done);
        let rare = self.hot.split_off(before);
        self.cold.extend(rare);
        self.enter(on);
        Ok(())
    }

    /// Emits a loop over the chunks that completes the frames of those without stopped lanes: all their lanes that have not
    /// exited wait at the barrier before the resume point `end`. The code continues at `done`.
    fn settle(&mut self, end: usize, frames: Value, done: Block) -> Result<(), Refusal> {
        let [body, some, next] = std::array::from_fn(|_| self.new_block());
        let threads = self.first_chunk(body);
        self.find_frame(frames);
        let (frame, ty) = (self.frame, self.vector(Kind::B32));
        let words = self.load(Op::Load, ty, Access::new(OpType::B32, 4), &[frame]);
        let exited = self.constant(Type::B32, SyncPoint::EXIT.0.into());
        let stopped = self.compare((CmpOp::Ne, OpType::U32), words, exited);
        let any = self.value(Op::Any, self.mask_type(), Data::Nothing, &[stopped]);
        self.brif(any, next, some);
        self.enter(some);
        self.mask = self.alive();
        let points = self.constant(ty, end as u64);
        let args = [frame, points, self.mask];
        self.store(Op::Store, ty, Access::new(OpType::B32, 4), &args);
        self.complete_elements(end)?;
        self.jump(next);
        self.enter(next);
        self.next_chunk(threads, (body, done));
        Ok(())
    }

    /// Returns whether lanes of the CTA have stopped.
    fn any_yielded(&mut self) -> Value {
        let yielded = self.read(Key::Counter(Counter::Yielded), Type::B32);
        let zero = self.constant(Type::B32, 0);
        self.compare((CmpOp::Ne, OpType::U32), yielded, zero)
    }

    /// Emits the start of a CTA, of which no lane has yielded.
    pub(crate) fn begin_yielding(&mut self) {
        let none = self.constant(Type::B32, 0);
        self.write(Key::Counter(Counter::Yielded), none);
    }

    /// Emits the end of a CTA: the program returns if lanes have yielded.
    pub(crate) fn leave_yielded(&mut self) {
        if !self.may_yield {
            return;
        }
        let any = self.any_yielded();
        let [leave, on]: [Block; 2] = std::array::from_fn(|_| self.new_block());
        self.brif(any, leave, on);
        self.enter_cold(leave);
        let threads = self.field(self.kernel.layout.threads, Type::B32);
        let rounded = self.add_constant(threads, i64::from(WARP) - 1);
        let five = self.constant(Type::B32, 5);
        let warps = self.simple(Opcode::Shr, OpType::U32, Type::B32, &[rounded, five]);
        self.set_field(self.kernel.layout.moved, warps);
        let general = self.constant(Type::B32, self.kernel.status.general.into());
        self.ret(&[general]);
        self.enter(on);
    }
}

/// Returns the access of the mask of the lanes that have stopped, in the frame of a warp.
fn alive_access() -> Access {
    Access {
        displacement: FRAME_ALIVE as i32,
        ..scalar_access(OpType::B32)
    }
}
