//! The uniform path: runs phases of whole CTAs as a plain loop over chunks.
//!
//! A phase runs on the uniform path only if all threads of the CTA continue from one barrier or start the kernel, no
//! thread has exited, and every warp has 32 threads. If all lanes of every chunk then reach the same next barrier, or
//! all reach the end of the kernel, the code neither writes frame headers nor tracks which lanes have run. It stores
//! uniform and affine values as lazy spills ([`Slice::save_briefly`]). A chunk ends the uniform path if it stops at
//! another sync point than the chunks before it, or if its lanes stop at different sync points. The host then writes
//! the frame headers that the loops over warps would have written ([`Helpers::settle`]), and these loops continue with
//! this chunk. Pending spills are flushed before any other code reads the frames. Only the uniform path, and whole
//! chunks of converged warps that continue from a barrier, can read lazy spills.
//!
//! Invariant: while `on` is nonzero (the uniform path is active), every chunk before the thread
//! `at` has stopped at the sync point `agreed` in this phase, and no chunk after the chunk at `at`
//! has run. While `debt` is nonzero (there may be pending spills), threads whose index is below
//! `owing` may have pending spills at the sync point `owed`, and threads that have not run in the
//! phase may have pending spills at the phase's resume point.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, AbiParam, BlockArg, InstBuilder, types};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::{FunctionBuilder, Switch, Variable};
use margay_exec::SyncPoint;

use super::lane::{EmitError, Here, fixed};
use super::slice::{NOBODY, Slice};
use crate::abi::{Helpers, NativeContext};

/// Variables of the loops over warps. When the uniform path ends, it stores its state in these variables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest {
    pub(crate) warp: Variable,
    pub(crate) frame: Variable,
    pub(crate) alive: Variable,
    pub(crate) running: Variable,
    pub(crate) warp_converged: Variable,
    pub(crate) agreed: Variable,
    /// Lanes of the warp that have not run from the current resume point.
    pub(crate) rest: Variable,
    pub(crate) common: Variable,
    pub(crate) diverged: Variable,
}

/// Variables and blocks of the uniform path, the loop over a CTA's chunks.
#[derive(Debug)]
pub(crate) struct Sweep {
    /// Nonzero while the uniform path is active.
    on: Variable,
    /// First thread of the chunk that runs on the uniform path.
    at: Variable,
    /// Nonzero if a lane of the CTA has exited before the other lanes, or if lanes of the last warp are missing.
    lost: Variable,
    /// Nonzero while there may be pending spills.
    debt: Variable,
    /// Threads whose index is below this number may have pending spills at the sync point `owed`.
    owing: Variable,
    owed: Variable,
    /// State of a flush: the sync point, the next thread `spread_at`, the end `spread_to`, and the code that runs after
    /// the flush ([`Then`]).
    spread_stop: Variable,
    spread_at: Variable,
    spread_to: Variable,
    then: Variable,
    spread: ir::Block,
    after: [ir::Block; 4],
    left: Rest,
    ctx: ir::Value,
    frames: ir::Value,
    threads: ir::Value,
    frame_bytes: u32,
    width: u32,
    /// For each sync point, whether it is a barrier without results, which can end a phase on the uniform path.
    barriers: Vec<bool>,
    /// Mask of the resume points at which a phase may begin on the uniform path. Only the first 64 resume points can be
    /// in the mask.
    entries: u64,
    head: ir::Block,
    /// Block that a whole chunk reaches on the uniform path when it has stopped. The block's parameter is the sync
    /// point.
    arrived: ir::Block,
}

/// The code that runs after a flush of pending spills.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// Records the sync point of the chunk that ended the uniform path, and continues with the loop over the chunks of
    /// its warp.
    Slice,
    /// Begins a phase outside the uniform path, in the loop over warps.
    Phase,
    /// Flushes the pending spills of the threads that have not yet run in the current phase. These spills belong to the
    /// resume point of the phase.
    Others,
    /// Ends the native function, so that the CTA scheduler continues the CTA.
    General,
}

/// The values and sizes that the code of the uniform path uses: the context argument of the kernel
/// ABI, the CTA's frames, the number of its threads, and the chunk width of the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) ctx: ir::Value,
    pub(crate) frames: ir::Value,
    pub(crate) threads: ir::Value,
    pub(crate) frame_bytes: u32,
    /// Number of lanes of a chunk.
    pub(crate) width: u32,
}

impl Sweep {
    /// Creates the variables and blocks of the uniform path. `barriers` contains for each sync point whether it is a
    /// barrier without results. `converged` contains a flag for each resume point: whether lanes
    /// that have reached the resume point the same number of times are always in the same
    /// iterations of all loops.
    pub(crate) fn new(
        b: &mut FunctionBuilder<'_>,
        shape: Shape,
        left: Rest,
        barriers: Vec<bool>,
        converged: &[bool],
    ) -> Sweep {
        let beginnings = barriers.iter().zip(converged).take(64).enumerate();
        let entries = beginnings
            .filter(|&(index, (&barrier, &converged))| index == 0 || barrier && converged)
            .fold(0, |bits, (index, _)| bits | 1 << index);
        let sweep = Sweep {
            on: b.declare_var(types::I32),
            at: b.declare_var(types::I32),
            lost: b.declare_var(types::I32),
            debt: b.declare_var(types::I32),
            owing: b.declare_var(types::I32),
            owed: b.declare_var(types::I32),
            spread_stop: b.declare_var(types::I32),
            spread_at: b.declare_var(types::I32),
            spread_to: b.declare_var(types::I32),
            then: b.declare_var(types::I32),
            spread: b.create_block(),
            after: std::array::from_fn(|_| b.create_block()),
            left,
            ctx: shape.ctx,
            frames: shape.frames,
            threads: shape.threads,
            frame_bytes: shape.frame_bytes,
            width: shape.width,
            barriers,
            entries,
            head: b.create_block(),
            arrived: b.create_block(),
        };
        b.append_block_param(sweep.arrived, types::I32);
        sweep
    }

    /// Emits code that resets the state of the uniform path at the start of a CTA.
    pub(crate) fn reset(&self, b: &mut FunctionBuilder<'_>) {
        let no = b.ins().iconst(types::I32, 0);
        for var in [
            self.on, self.at, self.lost, self.debt, self.owing, self.owed,
        ] {
            b.def_var(var, no);
        }
    }

    /// Emits the start of a phase at the resume point `phase`: on the uniform path if possible, otherwise at the block
    /// `warps`. `converged` is nonzero if all threads have reached the same barriers so far.
    pub(crate) fn begin(
        &self,
        b: &mut FunctionBuilder<'_>,
        phase: ir::Value,
        converged: ir::Value,
        warps: ir::Block,
    ) {
        let [start, not, owes, settle, pay] = std::array::from_fn(|_| b.create_block());
        let entries = b.ins().iconst(types::I64, self.entries as i64);
        let known = b.ins().ushr(entries, phase);
        let known = b.ins().ireduce(types::I32, known);
        let converged = b.ins().band(converged, known);
        let converged = b.ins().band_imm_u(converged, 1);
        let converged = b.ins().icmp_imm_u(IntCC::NotEqual, converged, 0);
        let odd = b.ins().band_imm_u(self.threads, 31);
        let lost = b.use_var(self.lost);
        let missing = b.ins().bor(odd, lost);
        let few = b.ins().icmp_imm_u(IntCC::UnsignedLessThan, phase, 64);
        let whole = b.ins().icmp_imm_u(IntCC::Equal, missing, 0);
        let whole = b.ins().band(whole, few);
        let sweeps = b.ins().band(converged, whole);
        b.ins().brif(sweeps, start, &[], not, &[]);

        b.switch_to_block(not);
        let on = b.use_var(self.on);
        let debt = b.use_var(self.debt);
        let either = b.ins().bor(on, debt);
        b.ins().brif(either, owes, &[], warps, &[]);
        b.switch_to_block(owes);
        b.set_cold_block(owes);
        b.ins().brif(on, settle, &[], pay, &[]);
        b.switch_to_block(settle);
        b.set_cold_block(settle);
        let zero = b.ins().iconst(types::I32, 0);
        self.settle(b, phase, (zero, self.threads));
        b.def_var(self.on, zero);
        b.def_var(self.owed, phase);
        b.def_var(self.owing, self.threads);
        b.ins().jump(pay, &[]);
        b.switch_to_block(pay);
        b.set_cold_block(pay);
        self.pay(b, Then::Phase);

        b.switch_to_block(start);
        let one = b.ins().iconst(types::I32, 1);
        let zero = b.ins().iconst(types::I32, 0);
        b.def_var(self.on, one);
        b.def_var(self.left.warp_converged, one);
        b.def_var(self.at, zero);
        b.def_var(self.debt, zero);
        b.ins().jump(self.head, &[]);
    }

    /// Emits the code of [`Then::Phase`]. This code records that no spills are pending, and continues at `warps`, the
    /// loop over warps.
    pub(crate) fn written(&self, b: &mut FunctionBuilder<'_>, warps: ir::Block) {
        b.switch_to_block(self.after[Then::Phase as usize]);
        let zero = b.ins().iconst(types::I32, 0);
        b.def_var(self.debt, zero);
        b.ins().jump(warps, &[]);
    }

    /// Emits the loop over chunks. For each chunk, the loop jumps to `enter`, which begins the code of a chunk. The
    /// parameters of `enter` are the chunk's first thread, the frame of its warp, the index of its first lane in the
    /// warp, and the mask of running lanes. The loop sets `from` to the resume point in `phase`. When all chunks have
    /// stopped at the same sync point, the loop jumps to `phase_done`. When a chunk has stopped at another sync point
    /// than the chunks before it, the uniform path ends, and the code jumps to `slice_done`.
    pub(crate) fn slices(
        &self,
        b: &mut FunctionBuilder<'_>,
        (phase, from): (Variable, Variable),
        enter: ir::Block,
        phase_done: ir::Block,
        slice_done: ir::Block,
    ) {
        b.switch_to_block(self.head);
        let entry = b.use_var(phase);
        b.def_var(from, entry);
        let thread = b.use_var(self.at);
        let (frame, base) = self.place(b, thread);
        let all = u32::MAX >> (32 - self.width);
        let all = b.ins().iconst(types::I32, i64::from(all as i32));
        let args = [thread, frame, base, all].map(BlockArg::Value);
        b.ins().jump(enter, &args);

        let [same, other] = std::array::from_fn(|_| b.create_block());
        b.switch_to_block(self.arrived);
        let stop = b.block_params(self.arrived)[0];
        let thread = b.use_var(self.at);
        let before = b.use_var(self.left.agreed);
        let before = b.ins().select(thread, before, stop);
        let agrees = b.ins().icmp(IntCC::Equal, before, stop);
        b.ins().brif(agrees, same, &[], other, &[]);

        b.switch_to_block(same);
        b.def_var(self.left.agreed, stop);
        let next = b.ins().iadd_imm_s(thread, i64::from(self.width));
        b.def_var(self.at, next);
        let more = b.ins().icmp(IntCC::UnsignedLessThan, next, self.threads);
        b.ins().brif(more, self.head, &[], phase_done, &[]);

        b.switch_to_block(other);
        b.set_cold_block(other);
        self.end(b);
        let next = b.ins().iadd_imm_s(thread, i64::from(self.width));
        self.settle(b, stop, (thread, next));
        self.spread(b, stop, (thread, next), Then::Slice);
        b.switch_to_block(self.after[Then::Slice as usize]);
        let stop = b.use_var(self.spread_stop);
        let common = b.use_var(self.left.common);
        let nobody = b.ins().icmp_imm_s(IntCC::Equal, common, i64::from(NOBODY));
        let common = b.ins().select(nobody, stop, common);
        b.def_var(self.left.common, common);
        let differs = b.ins().bxor(common, stop);
        b.def_var(self.left.diverged, differs);
        b.ins().jump(slice_done, &[]);
    }

    /// Emits code that flushes all pending spills before the CTA scheduler continues the CTA. `moved` contains the
    /// number of warps that have run in the phase, and `phase` the resume point at which the phase began.
    pub(crate) fn pay_all(&self, b: &mut FunctionBuilder<'_>, phase: Variable, moved: Variable) {
        let [owes, paid] = std::array::from_fn(|_| b.create_block());
        let debt = b.use_var(self.debt);
        b.ins().brif(debt, owes, &[], paid, &[]);
        b.switch_to_block(owes);
        b.set_cold_block(owes);
        self.pay(b, Then::Others);
        b.switch_to_block(self.after[Then::Others as usize]);
        let (phase, moved) = (b.use_var(phase), b.use_var(moved));
        let first = b.ins().ishl_imm_u(moved, 5);
        self.spread(b, phase, (first, self.threads), Then::General);
        b.switch_to_block(self.after[Then::General as usize]);
        b.ins().jump(paid, &[]);
        b.switch_to_block(paid);
    }

    fn pay(&self, b: &mut FunctionBuilder<'_>, then: Then) {
        let zero = b.ins().iconst(types::I32, 0);
        let (stop, end) = (b.use_var(self.owed), b.use_var(self.owing));
        self.spread(b, stop, (zero, end), then);
    }

    /// Emits a jump to the code that materialises the lazy spills of the threads `first..end` at the sync point `stop`.
    /// After that, the emitted code continues at the block of `then`.
    fn spread(
        &self,
        b: &mut FunctionBuilder<'_>,
        stop: ir::Value,
        (first, end): (ir::Value, ir::Value),
        then: Then,
    ) {
        b.def_var(self.spread_stop, stop);
        b.def_var(self.spread_at, first);
        b.def_var(self.spread_to, end);
        let then = b.ins().iconst(types::I32, then as i64);
        b.def_var(self.then, then);
        b.ins().jump(self.spread, &[]);
    }

    /// Emits the code that materialises lazy spills. Must be called after the translation of the chunk's code, which
    /// determines the lazy spills at each barrier.
    pub(crate) fn spreading(&self, slice: &mut Slice<'_, '_>) -> Result<(), EmitError> {
        let b = &mut *slice.lane.b;
        let [body, next, done] = std::array::from_fn(|_| b.create_block());
        for block in [self.spread, body, next, done] {
            b.set_cold_block(block);
        }
        b.switch_to_block(self.spread);
        let thread = b.use_var(self.spread_at);
        let end = b.use_var(self.spread_to);
        let more = b.ins().icmp(IntCC::UnsignedLessThan, thread, end);
        b.ins().brif(more, body, &[], done, &[]);

        b.switch_to_block(body);
        let (frame, base) = self.place(b, thread);
        let here = Here {
            thread,
            frame: Some(frame),
            lane: b.ins().uextend(types::I64, base),
            local: b.ins().iconst(types::I32, 0),
        };
        let stop = b.use_var(self.spread_stop);
        let mut cases = Switch::new();
        let stops = self.barriers.iter().enumerate();
        let stops: Vec<(u32, ir::Block)> = stops
            .filter(|&(_, &barrier)| barrier)
            .map(|(index, _)| (index as u32, b.create_block()))
            .collect();
        for &(index, block) in &stops {
            cases.set_entry(u128::from(index), block);
        }
        cases.emit(b, stop, next);
        for (index, block) in stops {
            slice.lane.b.set_cold_block(block);
            slice.lane.b.switch_to_block(block);
            slice.spread(SyncPoint(index), here)?;
            slice.lane.b.ins().jump(next, &[]);
        }

        let b = &mut *slice.lane.b;
        b.switch_to_block(next);
        let thread = b.use_var(self.spread_at);
        let following = b.ins().iadd_imm_s(thread, i64::from(self.width));
        b.def_var(self.spread_at, following);
        b.ins().jump(self.spread, &[]);

        b.switch_to_block(done);
        let then = b.use_var(self.then);
        let mut cases = Switch::new();
        for (index, &block) in self.after.iter().enumerate().skip(1) {
            cases.set_entry(index as u128, block);
        }
        cases.emit(b, then, self.after[0]);
        Ok(())
    }

    /// Emits the code for a chunk that stops at a sync point. `whole` is true if all lanes of the chunk are active.
    /// After the call, the builder is in a block that runs only if the uniform path is not active.
    pub(crate) fn stop(&self, b: &mut FunctionBuilder<'_>, stop: SyncPoint, whole: bool) {
        let [sweeps, on] = std::array::from_fn(|_| b.create_block());
        let under_way = b.use_var(self.on);
        b.ins().brif(under_way, sweeps, &[], on, &[]);
        b.switch_to_block(sweeps);
        if whole && stop == SyncPoint::EXIT {
            self.arrive(b, stop);
        } else {
            b.set_cold_block(sweeps);
            self.end(b);
            b.ins().jump(on, &[]);
        }
        b.switch_to_block(on);
    }

    /// Emits code that records whether lanes of a warp have exited. This code runs when the loop over warps has run the
    /// warp. `alive` is the mask of the lanes that have not exited.
    pub(crate) fn note_alive(&self, b: &mut FunctionBuilder<'_>, alive: ir::Value) {
        let gone = b.ins().bnot(alive);
        let lost = b.use_var(self.lost);
        let lost = b.ins().bor(lost, gone);
        b.def_var(self.lost, lost);
    }

    /// Returns a value that is nonzero if `gone` is nonzero, or if warps that the uniform path has run have exited
    /// before other warps.
    pub(crate) fn lost_of_whole_warps(
        &self,
        b: &mut FunctionBuilder<'_>,
        gone: ir::Value,
    ) -> ir::Value {
        // If the last warp of the CTA is incomplete, `lost` is also nonzero because of the missing lanes.
        let odd = b.ins().band_imm_u(self.threads, 31);
        let lost = b.use_var(self.lost);
        let zero = b.ins().iconst(types::I32, 0);
        let lost = b.ins().select(odd, zero, lost);
        b.ins().bor(gone, lost)
    }

    /// Emits a test whether the uniform path is active, for a whole chunk that reaches a sync point. After the call,
    /// the builder is in the block for the active case; returns the block for the other case. If the sync point cannot
    /// end a phase on the uniform path, emits nothing and returns `None`.
    pub(crate) fn at_barrier(
        &self,
        b: &mut FunctionBuilder<'_>,
        stop: SyncPoint,
    ) -> Option<ir::Block> {
        if !*self.barriers.get(stop.0 as usize)? {
            return None;
        }
        let [sweeps, on] = std::array::from_fn(|_| b.create_block());
        let under_way = b.use_var(self.on);
        b.ins().brif(under_way, sweeps, &[], on, &[]);
        b.switch_to_block(sweeps);
        Some(on)
    }

    /// Emits the jump that a whole chunk takes after it has stopped at a sync point on the uniform
    /// path.
    pub(crate) fn arrive(&self, b: &mut FunctionBuilder<'_>, stop: SyncPoint) {
        let stop = b.ins().iconst(types::I32, i64::from(stop.0 as i32));
        b.ins().jump(self.arrived, &[BlockArg::Value(stop)]);
    }

    /// Returns the frame of a thread's warp, and the index of the thread's lane.
    fn place(&self, b: &mut FunctionBuilder<'_>, thread: ir::Value) -> (ir::Value, ir::Value) {
        let warp = b.ins().ushr_imm_u(thread, 5);
        let wide = b.ins().uextend(types::I64, warp);
        let offset = b.ins().imul_imm_s(wide, i64::from(self.frame_bytes));
        let frame = b.ins().iadd(self.frames, offset);
        (frame, b.ins().band_imm_u(thread, 31))
    }

    /// Emits code that ends the uniform path. The loops over warps then run the rest of the current chunk, and the
    /// chunks after it.
    fn end(&self, b: &mut FunctionBuilder<'_>) {
        let thread = b.use_var(self.at);
        let agreed = b.use_var(self.left.agreed);
        let [zero, one, every] = [0, 1, -1].map(|value| b.ins().iconst(types::I32, value));
        self.settle(b, agreed, (zero, thread));
        b.def_var(self.debt, one);
        b.def_var(self.owed, agreed);
        b.def_var(self.owing, thread);
        let warp = b.ins().ushr_imm_u(thread, 5);
        let (frame, base) = self.place(b, thread);
        b.def_var(self.left.warp, warp);
        b.def_var(self.left.frame, frame);
        b.def_var(self.left.alive, every);
        b.def_var(self.left.running, every);
        b.def_var(self.left.warp_converged, one);
        b.def_var(self.left.diverged, zero);
        b.def_var(self.on, zero);
        let behind = b.ins().iadd_imm_s(base, i64::from(self.width));
        let wide = b.ins().uextend(types::I64, every);
        let wide = b.ins().ishl(wide, behind);
        let rest = b.ins().ireduce(types::I32, wide);
        b.def_var(self.left.rest, rest);
        let nobody = b.ins().iconst(types::I32, i64::from(NOBODY));
        let common = b.ins().select(base, agreed, nobody);
        b.def_var(self.left.common, common);
        let exit = b
            .ins()
            .iconst(types::I32, i64::from(SyncPoint::EXIT.0 as i32));
        let gone = b.ins().icmp(IntCC::Equal, agreed, exit);
        let gone = b.ins().uextend(types::I32, gone);
        let gone = b.ins().select(warp, gone, zero);
        let lost = b.use_var(self.lost);
        let lost = b.ins().bor(lost, gone);
        b.def_var(self.lost, lost);
        let agreed = b.ins().select(warp, agreed, exit);
        b.def_var(self.left.agreed, agreed);
    }

    /// Emits a call of the host to write the frame headers. The headers state that the threads `first..end` wait at
    /// `stop`, and that the threads after them have not run.
    fn settle(
        &self,
        b: &mut FunctionBuilder<'_>,
        stop: ir::Value,
        (first, end): (ir::Value, ir::Value),
    ) {
        let table = offset_of!(NativeContext, helpers) as i32;
        let table = b.ins().load(types::I64, fixed(), self.ctx, table);
        let at = offset_of!(Helpers, settle) as i32;
        let target = b.ins().load(types::I64, fixed(), table, at);
        let mut sig = ir::Signature::new(CallConv::SystemV);
        sig.params.extend([types::I64; 2].map(AbiParam::new));
        sig.params.extend([types::I32; 4].map(AbiParam::new));
        let sig = b.import_signature(sig);
        let bytes = b.ins().iconst(types::I32, i64::from(self.frame_bytes));
        let args = [self.ctx, self.frames, stop, first, end, bytes];
        b.ins().call_indirect(sig, target, &args);
    }
}
