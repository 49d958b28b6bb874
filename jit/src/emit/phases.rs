//! The CTA form of kernels with sync points: one native function that runs whole CTAs, phase by phase.
//!
//! A *phase* runs every warp of a CTA from one resume point to a barrier or to the end of the kernel. Within a phase, a
//! warp runs one region after another, and collectives are completed immediately. If the lanes of a warp diverge, the
//! host chooses the lanes that continue, and the same code runs these lanes. When all warps have reached the same
//! barrier, the barrier is complete and the next phase begins. When all warps have exited, the next CTA begins.
//!
//! The function returns [`status::GENERAL`] if the CTA scheduler ([`margay_exec`]) must continue
//! the CTA. The causes are: lanes that yield, barriers whose number is not constant or that do not
//! wait for all threads, lanes or warps that wait at different barriers, collectives that the host cannot complete at
//! once, and lanes that may still reconverge with lanes that have yielded. The CTA scheduler can also use the function to
//! run a single warp from one resume point to a barrier ([`NativeContext::alone`]). In checking runs that examine
//! synchronisation or the order of accesses, the CTA scheduler also continues CTAs with diverged warps. Invariant: when
//! the function returns `GENERAL`, the headers of the frames record where each lane waits and which lanes have exited.
//! The context field `phase` then contains the resume point at which the phase began, and the field `moved` contains
//! the number of warps that have run in this phase.

mod completions;

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, AbiParam, BlockArg, InstBuilder, types};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::{FunctionBuilder, Switch, Variable};
use margay_exec::SyncPoint;
use margay_ir::analysis::Regions;
use margay_ir::analysis::regions::{FRAME_ALIVE, ResumePoint};
use margay_ir::pass::instrument::Request;
use rustc_hash::FxHashMap;

use super::cta_form::{begin_cta, field, next_index};
use super::lane::{EmitError, Fixed, Here, Lane, LaneParts, Leave, fixed, host};
use super::memory::shared_base;
use super::slice::hoist::Hoisted;
use super::slice::{Ends, NOBODY, Slice, View};
use super::sweep::{Rest, Shape, Sweep};
use crate::abi::{Helpers, NativeContext, WHOLE_CTA, sorted, status};
use crate::addresses::Target;
use crate::sync_points::{Completion, SyncPointTable};

/// The Cranelift blocks and variables that all regions of the function share.
struct Driver<'a> {
    regions: &'a Regions,
    sync_points: &'a SyncPointTable,
    ctx: ir::Value,
    frames: ir::Value,
    /// The checks and events that checking runs and tools request.
    request: Request,
    /// Nonzero if lanes have exited before the end of their CTA. Computed only if a checking run examines
    /// synchronisation.
    gone: Variable,
    /// Base of the CTA's window of shared memory, for vector code.
    shared: Option<ir::Value>,
    threads: ir::Value,
    /// Nonzero if the function runs a single warp ([`NativeContext::alone`]).
    alone: ir::Value,
    /// Index of the first warp that runs.
    first_warp: ir::Value,
    /// Index of the last warp that runs, plus 1.
    warps: ir::Value,
    ctaid: [Variable; 3],
    warp: Variable,
    frame: Variable,
    /// Lanes of the current warp that have not exited.
    alive: Variable,
    /// Lanes of the current warp that run now.
    running: Variable,
    /// Resume point at which the current phase began.
    phase: Variable,
    /// Nonzero if the CTA is known to be converged: all its threads have reached the same barriers since the start of
    /// the kernel.
    converged: Variable,
    /// Nonzero if `converged` is nonzero and the warp continues from the phase's resume point.
    warp_converged: Variable,
    /// The barrier that warps have reached in this phase; [`SyncPoint::EXIT`] if no warp has reached a barrier yet.
    agreed: Variable,
    /// Nonzero if two warps have reached different barriers in this phase, or if a single warp runs.
    disagreed: Variable,
    /// For each resume point, the block at which its code begins.
    resume_points: Vec<ir::Block>,
    /// Block that continues at the resume point whose index is the block's parameter. If there are many resume points,
    /// this block is the only predecessor of the blocks in `resume_points`. Because they have one predecessor, the time
    /// in which the builder resolves variables grows only linearly with the number of resume points.
    enter: ir::Block,
    /// For each sync point that all lanes of a warp can reach together, the block that completes it.
    after: Vec<Option<ir::Block>>,
    warp_head: ir::Block,
    /// The block that runs when all lanes of the warp that have not exited wait at the barrier
    /// whose index is the block's parameter, or when all lanes have exited.
    warp_done: ir::Block,
    /// The block that runs when the running lanes have stopped, and the lanes of the warp have
    /// diverged or some of them have not run.
    sort_out: ir::Block,
    /// The block that runs when only the CTA scheduler can continue the warp.
    leave_here: ir::Block,
    abort: ir::Block,
    /// The block that runs when all warps have run in this phase.
    phase_done: ir::Block,
    /// The block that ends the function with [`status::GENERAL`], so that the CTA scheduler continues the CTA.
    general: ir::Block,
    /// Number of warps that had run in the phase when the function ended with [`status::GENERAL`].
    moved: Variable,
    /// Variables of the scalar code of a region: the lanes that have not run, the running lane, the sync point at which
    /// the first lane stopped, and a value that is nonzero if another lane stopped at another sync point.
    of_region: [Variable; 4],
    /// Variables that the regions reuse for IR values, by type. The variables are reused to keep
    /// their number small, because the builder's memory grows with the number of variables times
    /// the number of blocks.
    spare: FxHashMap<ir::Type, Vec<Variable>>,
    /// For vector code, the variables in which the uniform path passes its state to the loop over warps.
    rest: Rest,
    /// The uniform path; `None` in scalar code.
    sweep: Option<Sweep>,
}

/// Emits the kernel: as vector code if there is a `view`, else as scalar code. The function's arguments are those of
/// [`crate::abi::PhasesFn`].
pub(crate) fn emit(
    mut parts: LaneParts<'_, '_>,
    sync_points: &SyncPointTable,
    view: Option<View<'_>>,
) -> Result<(), EmitError> {
    let Some(regions) = parts.regions else {
        return Err(EmitError::Unsupported("phases without regions".into()));
    };
    let mut hoisted = view.map(|view| Hoisted::new(parts.function, view));
    let mut driver = Driver::new(&mut parts, regions, sync_points, view, hoisted.as_mut())?;
    if let (Some(view), Some(hoisted)) = (view, &hoisted) {
        driver.slices(parts.again(), view, hoisted)?;
    } else {
        for (index, resume_point) in regions.resume_points.iter().enumerate() {
            if driver.is_entered(index) {
                driver.region(parts.again(), index, resume_point)?;
            }
        }
    }
    driver.completions(parts.b);
    parts.b.seal_all_blocks();
    Ok(())
}

/// Emits the store of `value` to a 32-bit field of the context.
fn set_field(b: &mut FunctionBuilder<'_>, ctx: ir::Value, offset: usize, value: ir::Value) {
    b.ins().store(host(), value, ctx, offset as i32);
}

impl<'a> Driver<'a> {
    /// Emits the loops over CTAs, phases and warps, and returns their blocks and variables.
    fn new(
        parts: &mut LaneParts<'_, '_>,
        regions: &'a Regions,
        sync_points: &'a SyncPointTable,
        view: Option<View<'_>>,
        hoisted: Option<&mut Hoisted>,
    ) -> Result<Driver<'a>, EmitError> {
        let b = &mut *parts.b;
        let start = b.create_block();
        b.append_block_params_for_function_params(start);
        b.switch_to_block(start);
        let params: Vec<ir::Value> = b.block_params(start).to_vec();
        let (ctx, frames, count) = (params[0], params[1], params[2]);
        let word = |b: &mut FunctionBuilder<'_>| b.declare_var(types::I32);
        let threads = field(b, ctx, offset_of!(NativeContext, threads));
        let all = field(b, ctx, offset_of!(NativeContext, warps));
        let alone = field(b, ctx, offset_of!(NativeContext, alone));
        let first_warp = field(b, ctx, offset_of!(NativeContext, first_warp));
        let following = b.ins().iadd_imm_s(first_warp, 1);
        let warps = b.ins().select(alone, following, all);
        let shared = hoisted.as_ref().map(|_| shared_base(b, ctx));
        let rest = Rest {
            warp: word(b),
            frame: b.declare_var(types::I64),
            alive: word(b),
            running: word(b),
            warp_converged: word(b),
            agreed: word(b),
            rest: word(b),
            common: word(b),
            diverged: word(b),
        };
        let sweep = view.map(|view| {
            let shape = Shape {
                ctx,
                frames,
                threads,
                frame_bytes: regions.frame_bytes,
                width: view.width,
            };
            let barrier = |index| sync_points.completion(index) == Completion::Barrier;
            let barriers = (0..sync_points.len()).map(barrier).collect();
            Sweep::new(b, shape, rest, barriers, view.converged)
        });
        let driver = Driver {
            regions,
            sync_points,
            ctx,
            frames,
            request: parts.request,
            gone: word(b),
            shared,
            threads,
            alone,
            first_warp,
            warps,
            ctaid: std::array::from_fn(|_| word(b)),
            warp: rest.warp,
            frame: rest.frame,
            alive: rest.alive,
            running: rest.running,
            phase: word(b),
            converged: word(b),
            warp_converged: rest.warp_converged,
            agreed: rest.agreed,
            disagreed: word(b),
            resume_points: (0..sync_points.len()).map(|_| b.create_block()).collect(),
            enter: b.create_block(),
            after: vec![None; sync_points.len()],
            warp_head: b.create_block(),
            warp_done: b.create_block(),
            sort_out: b.create_block(),
            leave_here: b.create_block(),
            abort: b.create_block(),
            phase_done: b.create_block(),
            general: b.create_block(),
            moved: word(b),
            of_region: std::array::from_fn(|_| word(b)),
            spare: FxHashMap::default(),
            rest,
            sweep,
        };
        b.append_block_param(driver.warp_done, types::I32);
        b.append_block_param(driver.abort, types::I32);
        b.append_block_param(driver.enter, types::I32);
        let cta_done = b.create_block();
        driver.cta_loop(parts, count, cta_done, hoisted)?;
        let b = &mut *parts.b;
        driver.warp_loop(b);
        driver.end_of_phase(b, cta_done);
        driver.sort(b);
        driver.leave(b);
        driver.give_up(b);
        driver.entering(b);
        Ok(driver)
    }

    /// Emits the loop over CTAs, which begins in the function's first block. Other code jumps to `cta_done` to continue
    /// with the next CTA.
    fn cta_loop(
        &self,
        parts: &mut LaneParts<'_, '_>,
        count: ir::Value,
        cta_done: ir::Block,
        mut hoisted: Option<&mut Hoisted>,
    ) -> Result<(), EmitError> {
        let leave = Leave {
            next: cta_done,
            abort: self.abort,
        };
        if let Some(hoisted) = &mut hoisted {
            hoisted.launch(parts.again(), Fixed::of(self.ctx), leave)?;
        }
        let b = &mut *parts.b;
        for (i, var) in self.ctaid.into_iter().enumerate() {
            let value = field(b, self.ctx, offset_of!(NativeContext, ctaid) + 4 * i);
            b.def_var(var, value);
        }
        let grid: [ir::Value; 2] =
            std::array::from_fn(|i| field(b, self.ctx, offset_of!(NativeContext, nctaid) + 4 * i));
        let at = offset_of!(NativeContext, cta) as i32;
        let first = b.ins().load(types::I64, host(), self.ctx, at);
        let end = b.ins().iadd(first, count);
        let phase = field(b, self.ctx, offset_of!(NativeContext, phase));
        b.def_var(self.phase, phase);
        let started = b.ins().bor(phase, self.alone);
        let fresh = b.ins().icmp_imm_u(IntCC::Equal, started, 0);
        let fresh = b.ins().uextend(types::I32, fresh);
        b.def_var(self.converged, fresh);
        let none = b.ins().iconst(types::I32, 0);
        b.def_var(self.gone, none);
        if let Some(sweep) = &self.sweep {
            sweep.reset(b);
        }
        let cta = b.declare_var(types::I64);
        b.def_var(cta, first);
        let [head, body, done] = std::array::from_fn(|_| b.create_block());
        b.ins().jump(head, &[]);

        b.switch_to_block(head);
        let here = b.use_var(cta);
        let more = b.ins().icmp(IntCC::UnsignedLessThan, here, end);
        b.ins().brif(more, body, &[], done, &[]);

        b.switch_to_block(body);
        for (i, var) in self.ctaid.into_iter().enumerate() {
            let value = b.use_var(var);
            set_field(b, self.ctx, offset_of!(NativeContext, ctaid) + 4 * i, value);
        }
        let here = b.use_var(cta);
        b.ins().store(host(), here, self.ctx, at);
        begin_cta(b, self.ctx, (self.request, parts.counters));
        if let Some(hoisted) = hoisted {
            let fixed = Fixed {
                ctx: self.ctx,
                ctaid: Some(self.ctaid.map(|var| b.use_var(var))),
                shared: None,
            };
            hoisted.cta(parts.again(), fixed, leave)?;
        }
        let b = &mut *parts.b;
        self.begin_phase(b);
        if let Some(sweep) = &self.sweep {
            sweep.written(b, self.warp_head);
        }

        b.switch_to_block(cta_done);
        let here = b.use_var(cta);
        let following = b.ins().iadd_imm_s(here, 1);
        b.def_var(cta, following);
        next_index(b, self.ctaid, grid);
        let zero = b.ins().iconst(types::I32, 0);
        b.def_var(self.phase, zero);
        b.def_var(self.gone, zero);
        let one = b.ins().iconst(types::I32, 1);
        b.def_var(self.converged, one);
        if let Some(sweep) = &self.sweep {
            sweep.reset(b);
        }
        let turns = field(b, self.ctx, offset_of!(NativeContext, turn_budget));
        set_field(b, self.ctx, offset_of!(NativeContext, turns), turns);
        b.ins().jump(head, &[]);

        b.switch_to_block(done);
        let ok = b.ins().iconst(types::I32, i64::from(status::OK));
        b.ins().jump(self.abort, &[BlockArg::Value(ok)]);

        b.switch_to_block(self.abort);
        let code = b.block_params(self.abort)[0];
        b.ins().return_(&[code]);
        Ok(())
    }

    /// Emits the start of a phase, which runs all warps of the CTA from the phase's resume point.
    fn begin_phase(&self, b: &mut FunctionBuilder<'_>) {
        let nobody = b
            .ins()
            .iconst(types::I32, i64::from(SyncPoint::EXIT.0 as i32));
        b.def_var(self.warp, self.first_warp);
        b.def_var(self.agreed, nobody);
        // A single warp does not complete a barrier of the CTA.
        b.def_var(self.disagreed, self.alone);
        let Some(sweep) = &self.sweep else {
            b.ins().jump(self.warp_head, &[]);
            return;
        };
        let (phase, converged) = (b.use_var(self.phase), b.use_var(self.converged));
        sweep.begin(b, phase, converged, self.warp_head);
    }

    fn warp_loop(&self, b: &mut FunctionBuilder<'_>) {
        let [body, run, next, done] = std::array::from_fn(|_| b.create_block());
        b.switch_to_block(self.warp_head);
        let warp = b.use_var(self.warp);
        let more = b.ins().icmp(IntCC::UnsignedLessThan, warp, self.warps);
        b.ins().brif(more, body, &[], self.phase_done, &[]);

        b.switch_to_block(body);
        let wide = b.ins().uextend(types::I64, warp);
        let bytes = i64::from(self.regions.frame_bytes);
        let offset = b.ins().imul_imm_s(wide, bytes);
        let frame = b.ins().iadd(self.frames, offset);
        b.def_var(self.frame, frame);
        let phase = b.use_var(self.phase);
        let all = self.all_lanes(b, warp);
        let left = b.ins().load(types::I32, host(), frame, FRAME_ALIVE as i32);
        let alive = b.ins().select(phase, left, all);
        b.def_var(self.alive, alive);
        b.def_var(self.running, alive);
        self.note_gone(b, alive);
        b.ins().brif(alive, run, &[], next, &[]);

        b.switch_to_block(run);
        let converged = b.use_var(self.converged);
        b.def_var(self.warp_converged, converged);
        let [apart, together] = std::array::from_fn(|_| b.create_block());
        let resumes = b.ins().select(phase, self.alone, phase);
        b.ins().brif(resumes, apart, &[], together, &[]);
        b.switch_to_block(apart);
        b.set_cold_block(apart);
        b.ins().jump(self.enter, &[BlockArg::Value(phase)]);
        b.switch_to_block(together);
        self.enter_phase(b, phase);

        b.switch_to_block(self.warp_done);
        let sync_point = b.block_params(self.warp_done)[0];
        let alive = self.note_alive(b);
        if let Some(sweep) = &self.sweep {
            sweep.note_alive(b, alive);
        }
        self.note_gone(b, alive);
        b.ins().brif(alive, done, &[], next, &[]);
        b.switch_to_block(done);
        let agreed = b.use_var(self.agreed);
        let nobody = i64::from(SyncPoint::EXIT.0 as i32);
        let first = b.ins().icmp_imm_s(IntCC::Equal, agreed, nobody);
        let agreed = b.ins().select(first, sync_point, agreed);
        b.def_var(self.agreed, agreed);
        let differs = b.ins().bxor(agreed, sync_point);
        let disagreed = b.use_var(self.disagreed);
        let disagreed = b.ins().bor(disagreed, differs);
        b.def_var(self.disagreed, disagreed);
        b.ins().jump(next, &[]);

        b.switch_to_block(next);
        let warp = b.use_var(self.warp);
        let following = b.ins().iadd_imm_s(warp, 1);
        b.def_var(self.warp, following);
        b.ins().jump(self.warp_head, &[]);
    }

    /// Emits the computation of a warp's mask of lanes at the start of the kernel: all 32 lanes, or fewer in the last
    /// warp of a block.
    fn all_lanes(&self, b: &mut FunctionBuilder<'_>, warp: ir::Value) -> ir::Value {
        let first = b.ins().ishl_imm_u(warp, 5);
        let left = b.ins().isub(self.threads, first);
        let most = b.ins().iconst(types::I32, 32);
        let count = b.ins().umin(left, most);
        let missing = b.ins().isub(most, count);
        let every = b.ins().iconst(types::I32, -1);
        b.ins().ushr(every, missing)
    }

    /// Emits the store, to the frame's header, of the mask of the warp's lanes that have not
    /// exited, and returns the mask.
    fn note_alive(&self, b: &mut FunctionBuilder<'_>) -> ir::Value {
        let alive = b.use_var(self.alive);
        let frame = b.use_var(self.frame);
        b.ins().store(host(), alive, frame, FRAME_ALIVE as i32);
        alive
    }

    /// If a checking run examines synchronisation, emits code that sets `gone` if lanes of a warp have exited. `alive`
    /// is the mask of the lanes that have not exited.
    fn note_gone(&self, b: &mut FunctionBuilder<'_>, alive: ir::Value) {
        if self.request.synchronisation {
            let warp = b.use_var(self.warp);
            let all = self.all_lanes(b, warp);
            let missing = b.ins().bxor(all, alive);
            let gone = b.use_var(self.gone);
            let gone = b.ins().bor(gone, missing);
            b.def_var(self.gone, gone);
        }
    }

    /// For checking runs, emits the code that runs when all threads that have not exited have reached a barrier. If a
    /// run checks synchronisation and threads have exited earlier, the CTA scheduler completes the
    /// barrier. If a run checks the order of accesses, the code reports the barrier to the checking
    /// tools.
    fn watch_barrier(&self, b: &mut FunctionBuilder<'_>) {
        if self.request.synchronisation {
            let [whole, apart] = std::array::from_fn(|_| b.create_block());
            let mut gone = b.use_var(self.gone);
            if let Some(sweep) = &self.sweep {
                gone = sweep.lost_of_whole_warps(b, gone);
            }
            b.ins().brif(gone, apart, &[], whole, &[]);
            b.switch_to_block(apart);
            b.set_cold_block(apart);
            self.general(b, self.warps);
            b.switch_to_block(whole);
        }
        if self.request.order {
            let all = b.ins().iconst(types::I32, i64::from(WHOLE_CTA as i32));
            self.tell(b, all);
        }
    }

    /// Emits the code for the end of a phase. This code completes the barrier that the warps have reached, or ends the
    /// CTA if all warps have exited.
    fn end_of_phase(&self, b: &mut FunctionBuilder<'_>, cta_done: ir::Block) {
        let [same, disagreed_here, next] = std::array::from_fn(|_| b.create_block());
        b.append_block_param(next, types::I32);
        b.switch_to_block(self.phase_done);
        let disagreed = b.use_var(self.disagreed);
        b.ins().brif(disagreed, disagreed_here, &[], same, &[]);

        b.switch_to_block(disagreed_here);
        b.set_cold_block(disagreed_here);
        self.general(b, self.warps);

        b.switch_to_block(same);
        let agreed = b.use_var(self.agreed);
        let mut cases = Switch::new();
        cases.set_entry(u128::from(SyncPoint::EXIT.0), cta_done);
        let mut reductions = Vec::new();
        for index in 0..self.sync_points.len() {
            if self.sync_points.completion(index) == Completion::Reduction {
                let block = b.create_block();
                cases.set_entry(index as u128, block);
                reductions.push((index, block));
            }
        }
        let onward = b.create_block();
        cases.emit(b, agreed, onward);
        b.switch_to_block(onward);
        self.watch_barrier(b);
        let agreed = b.use_var(self.agreed);
        b.ins().jump(next, &[BlockArg::Value(agreed)]);
        for (index, block) in reductions {
            b.switch_to_block(block);
            self.watch_barrier(b);
            let bytes = i64::from(self.regions.frame_bytes);
            let stride = b.ins().iconst(types::I32, bytes);
            self.host_completes(b, offset_of!(Helpers, reduce), index, self.frames, stride);
            let agreed = b.use_var(self.agreed);
            b.ins().jump(next, &[BlockArg::Value(agreed)]);
        }
        b.switch_to_block(next);
        let phase = b.block_params(next)[0];
        b.def_var(self.phase, phase);
        self.begin_phase(b);
    }

    /// Emits a call of the helper at the offset `helper`, which completes a sync point or, for `sort_out`, chooses the
    /// lanes that continue. Returns the result of the helper, if it has one. Arguments of the helper: context, `frame`
    /// (one frame or all frames), sync point, and `word`.
    fn host_completes(
        &self,
        b: &mut FunctionBuilder<'_>,
        helper: usize,
        index: usize,
        frame: ir::Value,
        word: ir::Value,
    ) -> Option<ir::Value> {
        let table = offset_of!(NativeContext, helpers) as i32;
        let table = b.ins().load(types::I64, fixed(), self.ctx, table);
        let target = b.ins().load(types::I64, fixed(), table, helper as i32);
        let mut sig = ir::Signature::new(CallConv::SystemV);
        let params = [types::I64, types::I64, types::I64, types::I32];
        sig.params.extend(params.map(AbiParam::new));
        if helper != offset_of!(Helpers, reduce) {
            sig.returns.push(AbiParam::new(types::I32));
        }
        let sig = b.import_signature(sig);
        let sync_point = Target::SyncPoint(index as u32).emit(b);
        let args = [self.ctx, frame, sync_point, word];
        let call = b.ins().call_indirect(sig, target, &args);
        b.inst_results(call).first().copied()
    }

    /// Emits a jump to the block `general`, which ends the function so that the CTA scheduler continues the
    /// CTA. `moved` is the number of warps that have run in this phase.
    fn general(&self, b: &mut FunctionBuilder<'_>, moved: ir::Value) {
        b.def_var(self.moved, moved);
        b.ins().jump(self.general, &[]);
    }

    /// Emits the block to which the code of [`Driver::general`] jumps. The block ends the function, and the CTA
    /// scheduler continues the CTA.
    fn give_up(&self, b: &mut FunctionBuilder<'_>) {
        b.switch_to_block(self.general);
        b.set_cold_block(self.general);
        if let Some(sweep) = &self.sweep {
            sweep.pay_all(b, self.phase, self.moved);
        }
        let (phase, moved) = (b.use_var(self.phase), b.use_var(self.moved));
        set_field(b, self.ctx, offset_of!(NativeContext, phase), phase);
        set_field(b, self.ctx, offset_of!(NativeContext, moved), moved);
        let code = b.ins().iconst(types::I32, i64::from(status::GENERAL));
        b.ins().jump(self.abort, &[BlockArg::Value(code)]);
    }

    fn leave(&self, b: &mut FunctionBuilder<'_>) {
        b.switch_to_block(self.leave_here);
        b.set_cold_block(self.leave_here);
        self.note_alive(b);
        let warp = b.use_var(self.warp);
        let moved = b.ins().iadd_imm_s(warp, 1);
        self.general(b, moved);
    }

    /// Emits the block `sort_out`, which calls the host to decide which lanes of the warp continue. In checking runs
    /// that examine synchronisation or the order of accesses, the CTA scheduler decides instead.
    fn sort(&self, b: &mut FunctionBuilder<'_>) {
        b.switch_to_block(self.sort_out);
        if self.request.watches() {
            b.ins().jump(self.leave_here, &[]);
            return;
        }
        let alive = b.use_var(self.alive);
        set_field(b, self.ctx, offset_of!(NativeContext, alive), alive);
        let frame = b.use_var(self.frame);
        let helper = offset_of!(Helpers, sort_out);
        let count = b.ins().iconst(types::I32, self.sync_points.len() as i64);
        let Some(answer) = self.host_completes(b, helper, 0, frame, count) else {
            return;
        };
        let read = |b: &mut FunctionBuilder<'_>, offset: usize| {
            b.ins().load(types::I32, host(), self.ctx, offset as i32)
        };
        let alive = read(b, offset_of!(NativeContext, alive));
        b.def_var(self.alive, alive);
        let sync_point = read(b, offset_of!(NativeContext, sync_point));
        let [group, arrived] = std::array::from_fn(|_| b.create_block());
        let mut answers = Switch::new();
        answers.set_entry(sorted::GROUP as u128, group);
        answers.set_entry(sorted::ARRIVED as u128, arrived);
        answers.emit(b, answer, self.leave_here);

        b.switch_to_block(arrived);
        b.ins().jump(self.warp_done, &[BlockArg::Value(sync_point)]);

        b.switch_to_block(group);
        let running = read(b, offset_of!(NativeContext, group));
        b.def_var(self.running, running);
        self.clear_warp_converged(b);
        b.ins().jump(self.enter, &[BlockArg::Value(sync_point)]);
    }

    /// Returns whether code continues at resume points by direct jumps instead of through the switch of
    /// [`Self::entering`]. After the switch, the optimiser has less information about the variables, which makes a
    /// block reduction 15 % slower.
    ///
    /// If there are many resume points, the code uses the switch. Each direct jump passes every
    /// variable, so with direct jumps the size of the code would grow quadratically.
    fn continues_directly(&self) -> bool {
        self.resume_points.len() <= 32
    }

    /// Emits the jump of a warp to the resume point at which the phase begins.
    fn enter_phase(&self, b: &mut FunctionBuilder<'_>, phase: ir::Value) {
        if !self.continues_directly() {
            b.ins().jump(self.enter, &[BlockArg::Value(phase)]);
            return;
        }
        let mut cases = Switch::new();
        for (index, &block) in self.resume_points.iter().enumerate().skip(1) {
            if self.sync_points.completion(index).is_barrier() {
                cases.set_entry(index as u128, block);
            }
        }
        cases.emit(b, phase, self.resume_points[0]);
    }

    /// Returns the block to which code jumps in order to continue at a resume point, and the arguments for this block.
    fn way_to(&self, b: &mut FunctionBuilder<'_>, index: usize) -> (ir::Block, Vec<BlockArg>) {
        if self.continues_directly() {
            return (self.resume_points[index], Vec::new());
        }
        let index = b.ins().iconst(types::I32, index as i64);
        (self.enter, vec![BlockArg::Value(index)])
    }

    /// Emits the block `enter`. Through this block, lanes that the host has chosen continue at their resume point. If
    /// there are many resume points, all other code also continues through this block.
    fn entering(&self, b: &mut FunctionBuilder<'_>) {
        b.switch_to_block(self.enter);
        let to = b.block_params(self.enter)[0];
        // The lanes of a group have stopped before, so a group never continues at the start of the kernel.
        let least = usize::from(self.continues_directly());
        let mut cases = Switch::new();
        for (index, &block) in self.resume_points.iter().enumerate().skip(least) {
            if self.is_entered(index) {
                cases.set_entry(index as u128, block);
            }
        }
        cases.emit(b, to, self.leave_here);
        if !self.continues_directly() {
            for &block in &self.resume_points {
                b.seal_block(block);
            }
        }
    }

    /// Returns whether this function contains the code after a sync point ([`Completion::is_entered`]).
    fn is_entered(&self, index: usize) -> bool {
        self.sync_points.completion(index).is_entered()
    }

    /// Emits code that records that the warp no longer continues from the resume point at which the
    /// phase began.
    fn clear_warp_converged(&self, b: &mut FunctionBuilder<'_>) {
        let no = b.ins().iconst(types::I32, 0);
        b.def_var(self.warp_converged, no);
    }

    /// Emits scalar code that runs the lanes of a warp, one after the other, from a resume point to their next
    /// sync points.
    fn region(
        &mut self,
        parts: LaneParts<'_, '_>,
        index: usize,
        resume_point: &ResumePoint,
    ) -> Result<(), EmitError> {
        let b = &mut *parts.b;
        b.switch_to_block(self.resume_points[index]);
        let ctaid = self.ctaid.map(|var| b.use_var(var));
        let frame = b.use_var(self.frame);
        let running = b.use_var(self.running);
        let warp = b.use_var(self.warp);
        let first_thread = b.ins().ishl_imm_u(warp, 5);
        let [rest, lane_var, common, diverged] = self.of_region;
        let zero = b.ins().iconst(types::I32, 0);
        for var in [lane_var, common, diverged] {
            b.def_var(var, zero);
        }
        b.def_var(rest, running);
        let own = b.func.dfg.num_blocks();
        let [head, body, next, done] = std::array::from_fn(|_| b.create_block());
        b.append_block_param(next, types::I32);
        b.ins().jump(head, &[]);

        b.switch_to_block(head);
        let left = b.use_var(rest);
        b.ins().brif(left, body, &[], done, &[]);

        b.switch_to_block(body);
        let left = b.use_var(rest);
        let lane = b.ins().ctz(left);
        b.def_var(lane_var, lane);
        let thread = b.ins().iadd(first_thread, lane);
        set_field(b, self.ctx, offset_of!(NativeContext, thread), thread);
        let here = Here {
            thread,
            frame: Some(frame),
            lane: b.ins().uextend(types::I64, lane),
            local: b.ins().iconst(types::I32, 0),
        };
        let whole = Fixed {
            ctx: self.ctx,
            ctaid: Some(ctaid),
            shared: self.shared,
        };
        let leave = Leave {
            next,
            abort: self.abort,
        };
        let mut emitter = Lane::new(parts, whole, here, leave);
        emitter.spare = std::mem::take(&mut self.spare);
        emitter.emit_from(resume_point.block, &resume_point.live_in)?;
        let sync_points = std::mem::take(&mut emitter.sync_points);
        self.spare = emitter.take_variables();
        let b = emitter.b;

        b.switch_to_block(next);
        let sync_point = b.block_params(next)[0];
        let lane = b.use_var(lane_var);
        let wide = b.ins().uextend(types::I64, lane);
        let offset = b.ins().ishl_imm_u(wide, 2);
        let at = b.ins().iadd(frame, offset);
        b.ins().store(host(), sync_point, at, 0);
        let left = b.use_var(rest);
        if sync_points.len() > 1 {
            let first = b.ins().icmp(IntCC::Equal, left, running);
            let known = b.use_var(common);
            let known = b.ins().select(first, sync_point, known);
            b.def_var(common, known);
            let differs = b.ins().bxor(known, sync_point);
            let so_far = b.use_var(diverged);
            let now = b.ins().bor(so_far, differs);
            b.def_var(diverged, now);
        }
        let below = b.ins().iadd_imm_s(left, -1);
        let left = b.ins().band(left, below);
        b.def_var(rest, left);
        b.ins().jump(head, &[]);
        // No other code jumps to the region's own blocks, so they can be sealed now. In an unsealed block, each
        // variable that is read becomes a block parameter, which is expensive for kernels with thousands of regions.
        for number in own..b.func.dfg.num_blocks() {
            b.seal_block(ir::Block::from_u32(number as u32));
        }

        b.switch_to_block(done);
        self.after_region(b, &sync_points, common, diverged);
        Ok(())
    }

    /// Emits vector code, which runs the lanes of a warp chunk by chunk. All regions share this code.
    fn slices(
        &mut self,
        parts: LaneParts<'_, '_>,
        view: View<'_>,
        hoisted: &Hoisted,
    ) -> Result<(), EmitError> {
        let b = &mut *parts.b;
        let Rest {
            rest,
            common,
            diverged,
            ..
        } = self.rest;
        let from = b.declare_var(types::I32);
        let [head, body, done, enter] = std::array::from_fn(|_| b.create_block());
        for ty in [types::I32, types::I64, types::I32, types::I32] {
            b.append_block_param(enter, ty);
        }
        // The uniform path can be taken out of `self`, because the loops over CTAs, phases and warps have been emitted.
        let sweep = self.sweep.take();
        if let Some(sweep) = &sweep {
            sweep.slices(b, (self.phase, from), enter, self.phase_done, head);
        }
        for (index, &resume_point) in self.resume_points.iter().enumerate() {
            b.switch_to_block(resume_point);
            let index = b.ins().iconst(types::I32, index as i64);
            b.def_var(from, index);
            let running = b.use_var(self.running);
            b.def_var(rest, running);
            let nobody = b.ins().iconst(types::I32, i64::from(NOBODY));
            b.def_var(common, nobody);
            let zero = b.ins().iconst(types::I32, 0);
            b.def_var(diverged, zero);
            b.ins().jump(head, &[]);
        }

        b.switch_to_block(head);
        let left = b.use_var(rest);
        b.ins().brif(left, body, &[], done, &[]);

        b.switch_to_block(body);
        let frame = b.use_var(self.frame);
        let warp = b.use_var(self.warp);
        let left = b.use_var(rest);
        let lowest = b.ins().ctz(left);
        let base = b.ins().band_imm_s(lowest, -i64::from(view.width));
        let all = u32::MAX >> (32 - view.width);
        let all = b.ins().iconst(types::I32, i64::from(all as i32));
        let bits = b.ins().ushr(left, base);
        let bits = b.ins().band(bits, all);
        let slice_lanes = b.ins().ishl(all, base);
        let left = b.ins().band_not(left, slice_lanes);
        b.def_var(rest, left);
        let first_thread = b.ins().ishl_imm_u(warp, 5);
        let thread = b.ins().iadd(first_thread, base);
        let args = [thread, frame, base, bits].map(BlockArg::Value);
        b.ins().jump(enter, &args);

        b.switch_to_block(enter);
        let params = b.block_params(enter);
        let (thread, frame, base, bits) = (params[0], params[1], params[2], params[3]);
        set_field(b, self.ctx, offset_of!(NativeContext, thread), thread);
        let ctaid = self.ctaid.map(|var| b.use_var(var));
        let here = Here {
            thread,
            frame: Some(frame),
            lane: if view.width == 32 {
                b.ins().iconst(types::I64, 0)
            } else {
                b.ins().uextend(types::I64, base)
            },
            local: b.ins().iconst(types::I32, 0),
        };
        let whole = Fixed {
            ctx: self.ctx,
            ctaid: Some(ctaid),
            shared: self.shared,
        };
        let leave = Leave {
            next: done,
            abort: self.abort,
        };
        let ends = Ends {
            done: head,
            common: Some(common),
            diverged: Some(diverged),
            sweep: sweep.as_ref(),
        };
        let function = parts.function;
        let mut slice = Slice::new(Lane::new(parts, whole, here, leave), view, ends, hoisted);
        slice.prepare()?;
        let stubs: Vec<ir::Block> = self
            .resume_points
            .iter()
            .map(|_| slice.lane.b.create_block())
            .collect();
        let index = slice.lane.b.use_var(from);
        let mut cases = Switch::new();
        for (index, &stub) in stubs.iter().enumerate().skip(1) {
            cases.set_entry(index as u128, stub);
        }
        cases.emit(slice.lane.b, index, stubs[0]);
        for (index, (resume_point, &stub)) in
            self.regions.resume_points.iter().zip(&stubs).enumerate()
        {
            slice.lane.b.switch_to_block(stub);
            if index == 0 {
                slice.start(function.entry(), bits);
                continue;
            }
            if view.converged[index] && self.sync_points.completion(index).is_barrier() {
                let warp_converged = slice.lane.b.use_var(self.warp_converged);
                slice.behind_barrier(resume_point, bits, warp_converged)?;
            }
            slice.behind_point(resume_point, bits, rest)?;
        }
        slice.translate()?;
        if let Some(sweep) = &sweep {
            sweep.spreading(&mut slice)?;
        }
        let sync_points = std::mem::take(&mut slice.sync_points);
        let b = slice.lane.b;
        b.switch_to_block(done);
        self.after_region(b, &sync_points, common, diverged);
        Ok(())
    }

    /// Emits the branch that a warp takes after all its running lanes have stopped.
    fn after_region(
        &mut self,
        b: &mut FunctionBuilder<'_>,
        sync_points: &[SyncPoint],
        common: Variable,
        diverged: Variable,
    ) {
        let [first, others @ ..] = sync_points else {
            // The code of the region has no sync point and no exit, so this point is unreachable.
            let code = b.ins().iconst(types::I32, i64::from(status::UNREACHABLE));
            b.ins().jump(self.abort, &[BlockArg::Value(code)]);
            return;
        };
        let together = b.create_block();
        let (running, alive) = (b.use_var(self.running), b.use_var(self.alive));
        let others_wait = b.ins().bxor(running, alive);
        let apart = if others.is_empty() {
            others_wait
        } else {
            let diverged = b.use_var(diverged);
            b.ins().bor(diverged, others_wait)
        };
        b.ins().brif(apart, self.sort_out, &[], together, &[]);
        b.switch_to_block(together);
        if others.is_empty() {
            return self.go_to(b, *first);
        }
        let sync_point = b.use_var(common);
        let mut cases = Switch::new();
        let mut edges = Vec::new();
        for &sync_point in others {
            let edge = b.create_block();
            cases.set_entry(u128::from(sync_point.0), edge);
            edges.push((sync_point, edge));
        }
        let edge = b.create_block();
        edges.push((*first, edge));
        cases.emit(b, sync_point, edge);
        for (sync_point, edge) in edges {
            b.switch_to_block(edge);
            self.go_to(b, sync_point);
        }
    }

    /// Emits the jump to the completion of `sync_point`, for a warp in which all lanes that have
    /// not exited wait at this sync point.
    fn go_to(&mut self, b: &mut FunctionBuilder<'_>, sync_point: SyncPoint) {
        if sync_point == SyncPoint::EXIT {
            let nobody = b.ins().iconst(types::I32, 0);
            b.def_var(self.alive, nobody);
            b.ins().jump(self.warp_done, &[BlockArg::Value(nobody)]);
            return;
        }
        let block = *self.after[sync_point.0 as usize].get_or_insert_with(|| b.create_block());
        b.ins().jump(block, &[]);
    }
}
