//! The loops over the CTAs of a range, and over the chunks of a CTA.

use margay_ir::analysis::coordinates::Shape;
use margay_ir::analysis::{Cfg, Coordinates, slots};
use margay_ir::entity::{Block, Inst, SecondaryMap, Value};
use margay_ir::function::{Function, Signature};
use margay_ops::mods::{CmpOp, Half, Mods, StateSpace};
use margay_ops::ops::{Effects, Opcode};
use margay_ops::types::{Kind, OpType, Type};
use margay_vir::data::Data;
use margay_vir::function::Function as VirFunction;
use margay_vir::ops::Op;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::certain::Certain;
use crate::control::leaving_values;
use crate::emitter::{ChunkState, Emitter, context_access, desc, scalar_access};
use crate::flow::is_back_edge;
use crate::layout::LocalLayout;
use crate::phases::Phases;
use crate::reach::helpers;
use crate::scan::{WARP, is_collective};
use crate::speculation::lazy_values;
use crate::variables::{Counter, Key, Variables};
use crate::{Group, Kernel, Refusal};

/// The maximum number of instructions of a kernel whose code has two versions ([`crate::together`]).
const MAX_DIVIDED: usize = 3_000;

fn size_of(function: &Function) -> usize {
    let blocks = function.blocks().iter();
    blocks.map(|&block| function.insts(block).len()).sum()
}

/// Emits the program of a kernel.
pub(crate) fn emit(kernel: &Kernel<'_>) -> Result<VirFunction, Refusal> {
    let phases = Phases::new(
        kernel.function,
        kernel.regions,
        (kernel.uniformity, kernel.width, kernel.group.chunks()),
    )?;
    let may_yield = kernel.function.has_effects(Effects::YIELDS);
    let first_phase = phases.all[0]
        .as_ref()
        .expect("the kernel begins with a phase");
    let function = kernel.function;
    let cfg = Cfg::new(function);
    let is_needed = kernel.has_phases() || kernel.group.chunks() > 1;
    let coordinates = is_needed.then(|| Coordinates::new(function, &cfg, Shape::of(function)));
    let mut out = VirFunction {
        name: kernel.function.name.clone(),
        signature: Signature {
            params: vec![Type::B64; 3],
            returns: vec![Type::B32],
        },
        // Only generated code accesses the context.
        private: vec![0],
        helpers: helpers(),
        ..VirFunction::default()
    };
    let start = out.append_block();
    let params: [Value; 3] = std::array::from_fn(|_| out.append_param(start, Type::B64));
    let [ctx, first, count] = params;
    let mut emitter = Emitter {
        kernel,
        cfg: &cfg,
        coordinates: coordinates.as_ref(),
        source: &phases.function,
        phase: first_phase,
        behind: &phases.behind,
        restored: FxHashSet::default(),
        based: FxHashMap::default(),
        changed: Vec::new(),
        derived: FxHashMap::default(),
        steps_at_start: FxHashMap::default(),
        sure: FxHashSet::default(),
        chained: FxHashMap::default(),
        keeps_alive: phases.has_early_exits,
        may_yield,
        out,
        variables: Variables::default(),
        at: start,
        place: 0,
        block: kernel.function.entry(),
        mask: ctx,
        start,
        ctx,
        ctaid: [ctx; 3],
        chunk_count: kernel.group.chunks(),
        chunk: 0,
        first_chunk: 0,
        takes_turns: kernel.group.turns().is_some(),
        first_thread: ctx,
        masks_of_chunks: SmallVec::new(),
        others: Vec::new(),
        thread: ctx,
        frame: ctx,
        frame_lane: ctx,
        fields: FxHashMap::default(),
        symbols: FxHashMap::default(),
        fixed: FxHashMap::default(),
        made: FxHashMap::default(),
        aligned: FxHashSet::default(),
        always_aligned: FxHashSet::default(),
        noted: None,
        reached: FxHashSet::default(),
        tested_local: FxHashSet::default(),
        local: LocalLayout::of(kernel.function, may_yield),
        slots: slots::layout(kernel.function).0,
        together: None,
        is_rare: false,
        may_divide: size_of(kernel.function) <= MAX_DIVIDED,
        assumed: FxHashSet::default(),
        near: FxHashSet::default(),
        certain: FxHashSet::default(),
        runs: None,
        row: None,
        lazy: FxHashSet::default(),
        leaving: leaving_values(kernel),
        first_edges: FxHashMap::default(),
        back_edges: SecondaryMap::default(),
        hot: vec![start],
        cold: Vec::new(),
    };
    let states = kernel.group.turns().unwrap_or(kernel.group.chunks());
    if states > 1 {
        let state = ChunkState {
            thread: ctx,
            mask: ctx,
            frame: ctx,
            frame_lane: ctx,
        };
        emitter.others = vec![state; states as usize];
    }
    emitter.variables.seal(&mut emitter.out, start);
    emitter.parameters();
    // The CTA form of a kernel with sync points has the address of the frames instead of the first CTA's index.
    if kernel.has_phases() {
        let access = context_access(Type::B64, kernel.layout.cta);
        let begin = emitter.load(Op::Load, Type::B64, access, &[ctx]);
        emitter.ctas(&phases, (first, begin, count))?;
    } else {
        emitter.ctas(&phases, (ctx, first, count))?;
    }
    let Emitter {
        mut out, hot, cold, ..
    } = emitter;
    out.order = hot;
    out.order.extend(cold);
    Ok(out)
}

impl<'a> Emitter<'a> {
    /// Loads the kernel's parameters at the start.
    fn parameters(&mut self) {
        let function = self.source;
        for &block in &self.kernel.uniformity.loops().order {
            for &inst in function.insts(block) {
                let data = &function.dfg.insts[inst];
                let &[result] = function.dfg.results(inst) else {
                    continue;
                };
                let offset = match data.opcode {
                    Opcode::ParamAddr => {
                        let base = self.field(self.kernel.layout.params, Type::B64);
                        let address =
                            self.at_start(|e| e.add_constant(base, data.payload() as i64));
                        self.fixed.insert(result, address);
                        continue;
                    }
                    Opcode::Ld if data.mods.space() == StateSpace::Param => {
                        self.fixed.get(&function.dfg.args(inst)[0])
                    }
                    _ => None,
                };
                let ty = function.dfg.ty(result);
                let (Some(&address), Some(memory)) = (offset, self.memory_type(data.ty, ty.kind()))
                else {
                    continue;
                };
                let value =
                    self.at_start(|e| e.load(Op::Load, ty, scalar_access(memory), &[address]));
                self.fixed.insert(result, value);
            }
        }
    }

    /// Emits the loop over CTAs.
    fn ctas(
        &mut self,
        phases: &'a Phases,
        (frames, first, count): (Value, Value, Value),
    ) -> Result<(), Refusal> {
        let [head, body, done] = std::array::from_fn(|_| self.new_block());
        let layout = self.kernel.layout;
        let end = self.at_start(|e| e.add(first, count));
        for (axis, counter) in Counter::CTAID.into_iter().enumerate() {
            let access = context_access(Type::B32, layout.ctaid + 4 * axis as u32);
            let index = self.at_start(|e| e.load(Op::Load, Type::B32, access, &[e.ctx]));
            self.write(Key::Counter(counter), index);
        }
        self.write(Key::Counter(Counter::Cta), first);

        self.enter_open(head);
        let cta = self.read(Key::Counter(Counter::Cta), Type::B64);
        let more = self.compare((CmpOp::Lo, OpType::U64), cta, end);
        self.brif(more, body, done);

        self.enter(body);
        // What a CTA has not set is not what an earlier one has set.
        self.variables.clear(body);
        self.ctaid = Counter::CTAID.map(|counter| self.read(Key::Counter(counter), Type::B32));
        for (axis, index) in self.ctaid.into_iter().enumerate() {
            self.set_field(layout.ctaid + 4 * axis as u32, index);
        }
        self.set_field(layout.cta, cta);
        let certain = Certain::new(self.kernel);
        let runs = self.find_runs(&certain);
        let is_line = matches!(self.kernel.group, Group::Line(_));
        if is_line && !self.kernel.has_whole_groups() && !runs.as_ref().is_some_and(|r| r.several) {
            return Err(Refusal::Operation("a group of chunks of several CTAs"));
        }
        let count = match runs {
            Some(runs) => self.run((phases, frames), (cta, end), (&runs, certain))?,
            None => {
                self.versions(phases, frames, certain)?;
                self.constant(Type::B32, 1)
            }
        };
        self.next_cta(cta, count);
        self.jump(head);

        self.enter(done);
        let ok = self.constant(Type::B32, self.kernel.status.ok.into());
        self.ret(&[ok]);

        // All instructions at the start have been emitted.
        self.at = self.start;
        self.begin(head);
        self.variables.seal(&mut self.out, head);
        Ok(())
    }

    /// Emits the end of the function's start. A call that continues a CTA at a later phase, or runs a single warp, leaves
    /// at once.
    fn begin(&mut self, head: Block) {
        if !self.kernel.has_phases() {
            return self.jump(head);
        }
        let layout = self.kernel.layout;
        let [phase, alone] = [layout.phase, layout.alone].map(|offset| {
            let access = context_access(Type::B32, offset);
            self.load(Op::Load, Type::B32, access, &[self.ctx])
        });
        let any = self.simple(Opcode::Or, OpType::B32, Type::B32, &[phase, alone]);
        let zero = self.constant(Type::B32, 0);
        let continues = self.compare((CmpOp::Ne, OpType::U32), any, zero);
        let leave = self.new_block();
        self.brif(continues, leave, head);
        self.enter_cold(leave);
        self.set_field(layout.moved, zero);
        let general = self.constant(Type::B32, self.kernel.status.general.into());
        self.ret(&[general]);
    }

    /// Emits the code of a CTA: the version for CTAs whose checks hold, and if there are checks, the version for others.
    fn versions(
        &mut self,
        phases: &'a Phases,
        frames: Value,
        Certain { values, checks }: Certain,
    ) -> Result<(), Refusal> {
        self.lazy = lazy_values(self.kernel, &values);
        self.certain = values;
        if checks.is_empty() {
            self.find_derived();
            return self.phases(phases, frames);
        }
        let [hold, fail, done] = std::array::from_fn(|_| self.new_block());
        let checks = self.check_cta(&checks, fail)?;
        match checks.is_empty() {
            true => self.jump(hold),
            false => self.check_chunks(&checks, (hold, fail))?,
        }
        self.enter(hold);
        self.find_derived();
        self.phases(phases, frames)?;
        self.jump(done);
        let before = self.hot.len();
        self.enter(fail);
        self.rare_version(phases, frames)?;
        self.jump(done);
        let rare = self.hot.split_off(before);
        self.cold.extend(rare);
        self.enter(done);
        Ok(())
    }

    /// Emits the version of the code of a CTA that assumes nothing. It is short rather than fast, but runs whole warps
    /// together if their lanes meet.
    pub(crate) fn rare_version(
        &mut self,
        phases: &'a Phases,
        frames: Value,
    ) -> Result<(), Refusal> {
        self.certain.clear();
        self.lazy.clear();
        self.derived.clear();
        self.sure.clear();
        let turns = std::mem::replace(&mut self.takes_turns, false);
        self.may_divide = false;
        let chunks = self.chunk_count;
        if !self.warps_meet() {
            self.chunk_count = 1;
        }
        self.phases(phases, frames)?;
        self.chunk_count = chunks;
        self.takes_turns = turns;
        Ok(())
    }

    /// Returns whether lanes of a warp meet that are in different chunks.
    fn warps_meet(&self) -> bool {
        let function = self.kernel.function;
        let mut insts = function.blocks().iter().flat_map(|&b| function.insts(b));
        self.kernel.width < WARP && insts.any(|&inst| is_collective(function, inst))
    }

    /// Evaluates the checks that one test shows for all threads of the CTA. If one fails, the code continues at `fail`. Returns
    /// the other checks.
    fn check_cta(&mut self, checks: &[Inst], fail: Block) -> Result<Vec<Inst>, Refusal> {
        let (mut rest, mut all): (Vec<Inst>, Option<Value>) = (Vec::new(), None);
        self.block = self.kernel.function.entry();
        let zero = self.constant(Type::B32, 0);
        (self.thread, self.first_thread) = (zero, zero);
        let mut done = FxHashSet::default();
        for &inst in checks {
            let Some((value, signed)) = self.check_of_cta(inst) else {
                rest.push(inst);
                continue;
            };
            if !self.sure.insert((value, signed)) {
                continue;
            }
            self.compute_early(value, &mut done)?;
            let one = self.does_not_wrap_in_cta(value, signed);
            all = Some(match all {
                Some(all) => self.logic(Opcode::And, &[all, one]),
                None => one,
            });
        }
        if let Some(all) = all {
            let next = self.new_block();
            self.brif(all, next, fail);
            self.enter(next);
        }
        Ok(rest)
    }

    /// Emits a loop over the chunks of the CTA that evaluates checks. The code continues at `hold` if all checks hold, and
    /// at `fail` otherwise.
    fn check_chunks(
        &mut self,
        checks: &[Inst],
        (hold, fail): (Block, Block),
    ) -> Result<(), Refusal> {
        let [body, next] = std::array::from_fn(|_| self.new_block());
        // The checks of one chunk after the other.
        let chunks = std::mem::replace(&mut self.chunk_count, 1);
        let turns = std::mem::replace(&mut self.takes_turns, false);
        let threads = self.first_chunk(body);
        self.block = self.kernel.function.entry();
        self.mask = self.chunk_mask(threads);
        let mut done = FxHashSet::default();
        let mut all: Option<Value> = None;
        for &inst in checks {
            for &arg in self.source.dfg.args(inst) {
                self.compute_early(arg, &mut done)?;
            }
            let check = self
                .kernel
                .speculative
                .check(inst)
                .expect("the instruction has a check");
            let one = self.checked(check);
            all = Some(match all {
                Some(all) => self.logic(Opcode::And, &[all, one]),
                None => one,
            });
        }
        let all = all.expect("there are checks");
        self.brif(all, next, fail);
        self.enter(next);
        self.next_chunk(threads, (body, hold));
        self.chunk_count = chunks;
        self.takes_turns = turns;
        Ok(())
    }

    /// Computes a value that depends on nothing but constants, parameters and special registers.
    pub(crate) fn compute_early(
        &mut self,
        value: Value,
        done: &mut FxHashSet<Value>,
    ) -> Result<(), Refusal> {
        let source = self.source;
        let Some(inst) = source.dfg.def_inst(value).filter(|_| done.insert(value)) else {
            return Ok(());
        };
        for &arg in source.dfg.args(inst) {
            self.compute_early(arg, done)?;
        }
        self.operation(inst)
    }

    /// Emits the phases of a CTA. The code continues when all threads have exited.
    pub(crate) fn phases(&mut self, phases: &'a Phases, frames: Value) -> Result<(), Refusal> {
        self.find_based();
        let starts: Vec<Block> = phases.all.iter().map(|_| self.new_block()).collect();
        let done = self.new_block();
        if self.may_yield {
            self.begin_yielding();
        }
        self.jump(starts[0]);
        for (index, phase) in phases.all.iter().enumerate() {
            let Some(phase) = phase else { continue };
            self.enter_open(starts[index]);
            self.phase = phase;
            self.back_edges = self.count_back_edges();
            self.changed = self.changed_values(phase);
            for value in self.changed.clone() {
                let bits = self.read(Key::Cta(value), self.source.dfg.ty(value));
                self.write(Key::Out(value), bits);
            }
            let none = self.constant(Type::B32, 0);
            self.write(Key::Counter(Counter::Arrived), none);
            match self.runs.take() {
                Some((runs, count)) => self.chunks_of_rows(index, (&runs, count))?,
                None => self.chunks(index, frames)?,
            }
            for value in std::mem::take(&mut self.changed) {
                let bits = self.read(Key::Out(value), self.source.dfg.ty(value));
                self.write(Key::Cta(value), bits);
            }
            match phase.ends.as_slice() {
                [] => self.jump(done),
                &[end] if !phase.may_exit && !self.keeps_alive && !self.may_yield => {
                    self.jump(starts[end])
                }
                ends => {
                    self.settle_if_stopped((ends, frames), done)?;
                    let arrived = self.read(Key::Counter(Counter::Arrived), Type::B32);
                    self.dispatch(arrived, ends, (&starts, done));
                }
            }
        }
        for start in starts {
            self.variables.seal(&mut self.out, start);
        }
        self.enter(done);
        self.leave_yielded();
        Ok(())
    }

    /// Emits a branch to the phase behind the barrier that threads have reached, or to `done`.
    fn dispatch(&mut self, arrived: Value, ends: &[usize], (starts, done): (&[Block], Block)) {
        for &end in ends {
            let next = self.new_block();
            let number = self.constant(Type::B32, end as u64);
            let is_here = self.compare((CmpOp::Eq, OpType::U32), arrived, number);
            self.brif(is_here, starts[end], next);
            self.enter(next);
        }
        self.jump(done);
    }

    /// Emits the loop over the chunks of a CTA, which has at least one thread, in a phase.
    fn chunks(&mut self, index: usize, frames: Value) -> Result<(), Refusal> {
        if let Some(chunks) = self.kernel.group.turns().filter(|_| self.takes_turns) {
            return self.chunks_in_turn(index, chunks);
        }
        let [body, next, done] = std::array::from_fn(|_| self.new_block());
        let threads = self.first_chunk(body);
        let thread = self.thread;
        self.set_field(self.kernel.layout.thread, thread);
        self.of_chunks(|e| {
            e.thread = e.add_constant(thread, i64::from(e.chunk * e.kernel.width));
            if e.kernel.has_phases() && !e.is_whole() {
                e.find_frame(frames);
            }
            e.mask = e.chunk_mask(threads);
        });
        if self.keeps_alive {
            self.enter_alive(index, next);
        }
        self.begin_waiting();
        self.clear_lanes();
        self.each_chunk(|e| e.restore(index, e.phase))?;
        self.chunk(next)?;

        self.enter(next);
        self.next_chunk(threads, (body, done));
        self.enter(done);
        Ok(())
    }

    /// Emits the code of all chunks of a CTA, one after the other.
    fn chunks_in_turn(&mut self, index: usize, chunks: u32) -> Result<(), Refusal> {
        let zero = self.constant(Type::B32, 0);
        let threads = self.constant(Type::B32, (chunks * self.kernel.width).into());
        self.set_field(self.kernel.layout.thread, zero);
        self.first_thread = zero;
        for chunk in 0..chunks {
            let next = self.new_block();
            self.first_chunk = chunk;
            self.select(chunk);
            self.thread = self.constant(Type::B32, (chunk * self.kernel.width).into());
            self.mask = self.chunk_mask(threads);
            if self.keeps_alive {
                self.enter_alive(index, next);
            }
            self.clear_lanes();
            self.restore(index, self.phase)?;
            self.chunk(next)?;
            self.enter(next);
        }
        self.first_chunk = 0;
        self.select(0);
        Ok(())
    }

    /// Emits the start of a loop over the chunks of a CTA with the body `body`, and returns the number of threads.
    pub(crate) fn first_chunk(&mut self, body: Block) -> Value {
        let zero = self.constant(Type::B32, 0);
        let threads = match self.kernel.shape {
            Some(shape) => {
                let threads: u32 = shape.iter().product();
                self.constant(Type::B32, threads.into())
            }
            None => self.field(self.kernel.layout.threads, Type::B32),
        };
        if self.is_whole() {
            self.jump(body);
            self.enter(body);
            (self.thread, self.first_thread) = (zero, zero);
            return threads;
        }
        self.write(Key::Counter(Counter::Thread), zero);
        self.jump(body);
        self.enter_open(body);
        self.thread = self.read(Key::Counter(Counter::Thread), Type::B32);
        self.first_thread = self.thread;
        threads
    }

    /// Emits the end of a loop over the chunks of a CTA, which continues at `body` with the next chunk, or at `done`.
    pub(crate) fn next_chunk(&mut self, threads: Value, (body, done): (Block, Block)) {
        self.place = 0;
        if self.is_whole() {
            return self.jump(done);
        }
        let step = self.chunk_count * self.kernel.width;
        let following = self.add_constant(self.first_thread, i64::from(step));
        self.write(Key::Counter(Counter::Thread), following);
        let more = self.compare((CmpOp::Lo, OpType::U32), following, threads);
        self.brif(more, body, done);
        self.variables.seal(&mut self.out, body);
    }

    /// Emits the mask of the lanes of the chunk that are threads of the CTA.
    fn chunk_mask(&mut self, threads: Value) -> Value {
        if self.kernel.whole_chunks {
            return self.constant(self.mask_type(), 1);
        }
        let ty = self.vector(Kind::B32);
        let lanes = self.value(Op::Affine, ty, Data::Number(1), &[self.thread]);
        self.compare((CmpOp::Lo, OpType::U32), lanes, threads)
    }

    /// Emits the test whether any lane of the chunks has not exited before a phase, and makes these lanes the lanes that
    /// run. If there are none, the code continues at `next`.
    fn enter_alive(&mut self, index: usize, next: Block) {
        let alive = self.of_chunks(|e| {
            if index != 0 {
                e.mask = e.alive();
            }
            // The lanes that arrive at the barrier replace this mask.
            let none = e.constant(e.mask_type(), 0);
            e.set_alive(none);
            e.mask
        });
        if index == 0 {
            return;
        }
        let any = self.combined(Opcode::Or, &alive);
        let any = self.value(Op::Any, self.mask_type(), Data::Nothing, &[any]);
        let some = self.new_block();
        self.brif(any, some, next);
        self.enter(some);
    }

    /// Emits the address of the frame of the chunk's warp.
    pub(crate) fn find_frame(&mut self, frames: Value) {
        let frame_bytes = self.kernel.regions.frame_bytes;
        let step = self.chunk_count * self.kernel.width;
        let from_first = self.chunk * self.kernel.width;
        // The chunks that run together start with the first lane of a warp.
        let starts_warp = step.is_multiple_of(WARP);
        let thread = if starts_warp {
            self.first_thread
        } else {
            self.thread
        };
        let five = self.constant(Type::B32, WARP.trailing_zeros().into());
        let warp = self.simple(Opcode::Shr, OpType::U32, Type::B32, &[thread, five]);
        let bytes = self.constant(Type::B32, frame_bytes.into());
        let wide = Mods::NONE.with_half(Half::Wide);
        let desc = desc(Opcode::Mul, OpType::U32, OpType::None, wide);
        let offset = self.map(desc, Type::B64, &[warp, bytes]);
        self.frame = self.sum(frames, offset);
        if starts_warp {
            let frame = i64::from(from_first / WARP) * i64::from(frame_bytes);
            self.frame = self.add_constant(self.frame, frame);
            self.frame_lane = self.constant(Type::B64, (from_first % WARP).into());
        } else {
            let last = self.constant(Type::B32, (WARP - 1).into());
            let lane = self.simple(Opcode::And, OpType::B32, Type::B32, &[thread, last]);
            self.frame_lane = self.convert(OpType::U64, OpType::U32, lane);
        }
    }

    /// Advances the coordinates of the CTA by `count` CTAs of a row of the grid: x changes first, then y, then z.
    fn next_cta(&mut self, cta: Value, count: Value) {
        let by = self.convert(OpType::U64, OpType::U32, count);
        let following = self.add(cta, by);
        self.write(Key::Counter(Counter::Cta), following);
        let zero = self.constant(Type::B32, 0);
        let mut carry = self.constant(Type::PRED, 1);
        for (axis, counter) in Counter::CTAID.into_iter().enumerate() {
            let index = self.ctaid[axis];
            let mut moved = match axis {
                0 => self.add(index, count),
                _ => self.add_constant(index, 1),
            };
            let moves = carry;
            // The coordinate z wraps only behind the last CTA.
            if axis < 2 {
                let size = self.field(self.kernel.layout.nctaid + 4 * axis as u32, Type::B32);
                let wraps = self.compare((CmpOp::Hs, OpType::U32), moved, size);
                moved = self.simple(Opcode::Selp, OpType::B32, Type::B32, &[zero, moved, wraps]);
                carry = self.logic(Opcode::And, &[carry, wraps]);
            }
            let next = self.simple(Opcode::Selp, OpType::B32, Type::B32, &[moved, index, moves]);
            self.write(Key::Counter(counter), next);
        }
    }

    /// Finds, for each block at which several edges may meet, the block whose edge is the first that the code executes.
    /// This edge need not keep lanes of other edges. There is no such block if lanes may arrive in several iterations
    /// of a loop.
    pub(crate) fn find_first_edges(&self) -> FxHashMap<Block, Option<Block>> {
        let loops = self.loops();
        let mut first: FxHashMap<Block, Option<Block>> = FxHashMap::default();
        for &from in &loops.order {
            for call in self.source.successors(from) {
                if loops.position(call.block) <= loops.position(from) {
                    continue;
                }
                let mut left = loops.around_only(from, call.block);
                let several = left.any(|number| self.flow().deferred[number]);
                first
                    .entry(call.block)
                    .or_insert((!several).then_some(from));
            }
        }
        first
    }

    /// Returns the number of edges back to each loop header.
    fn count_back_edges(&self) -> SecondaryMap<Block, u32> {
        let loops = self.loops();
        let mut count: SecondaryMap<Block, u32> = SecondaryMap::default();
        for &from in &loops.order {
            for call in self.source.successors(from) {
                count[call.block] += u32::from(is_back_edge(loops, from, call.block).is_some());
            }
        }
        count
    }
}
