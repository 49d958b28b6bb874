//! The CTA form of kernels without sync points: a loop over a range of CTAs, and in it a loop over the threads (scalar
//! code) or over the chunks (vector code). No value is stored in a frame.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, AbiParam, BlockArg, InstBuilder, types};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::{FunctionBuilder, Variable};
use margay_ir::function::{Function, payload_sreg};
use margay_ir::pass::instrument::Request;
use margay_ops::ops::Opcode;
use margay_ops::sreg::SpecialReg;

use super::count::enter_cta;
use super::invariant::{Invariant, Once};
use super::lane::{EmitError, Fixed, Here, Lane, LaneParts, Leave, host};
use super::memory::shared_base;
use super::slice::hoist::Hoisted;
use super::slice::{Ends, Slice, View};
use crate::abi::{NativeContext, PERMITTED, PermittedRange, status};
use crate::counters::Counters;

/// Returns the signature of [`crate::abi::CtaFn`].
pub(crate) fn signature() -> ir::Signature {
    let mut sig = ir::Signature::new(CallConv::SystemV);
    sig.params.extend([types::I64; 3].map(AbiParam::new));
    sig.returns.push(AbiParam::new(types::I32));
    sig
}

/// Emits the load of a 32-bit field of the context.
pub(crate) fn field(b: &mut FunctionBuilder<'_>, ctx: ir::Value, offset: usize) -> ir::Value {
    b.ins().load(types::I32, host(), ctx, offset as i32)
}

/// Emits code that removes the permitted ranges of shared memory from the context. The records of
/// written bytes of these ranges describe the shared memory of the previous CTA, and the next CTA
/// has not written its shared memory yet.
fn forget_shared(b: &mut FunctionBuilder<'_>, ctx: ir::Value) {
    let none = b.ins().iconst(types::I64, 0);
    for range in 2 * PERMITTED..3 * PERMITTED {
        let at = offset_of!(NativeContext, permitted) + range * size_of::<PermittedRange>();
        let at = at + offset_of!(PermittedRange, size);
        b.ins().store(host(), none, ctx, at as i32);
    }
}

/// Emits what checks and tools need at the beginning of each CTA.
pub(crate) fn begin_cta(
    b: &mut FunctionBuilder<'_>,
    ctx: ir::Value,
    (request, counters): (Request, &Counters),
) {
    if request.initialisation {
        forget_shared(b, ctx);
    }
    if counters.counts_warps() {
        enter_cta(b, ctx);
    }
}

/// Emits the whole kernel: as vector code if there is a `view`, else as scalar code.
pub(crate) fn emit(mut parts: LaneParts<'_, '_>, view: Option<View<'_>>) -> Result<(), EmitError> {
    let entry = parts.function.entry();
    let mut hoisted = view.map(|view| Hoisted::new(parts.function, view));
    let mut invariant = match view {
        Some(_) => Invariant::default(),
        None => Invariant::new(parts.function),
    };
    let counts_x = view.is_none() && reads_tid_x(parts.function);
    let b = &mut *parts.b;
    let start = b.create_block();
    b.append_block_params_for_function_params(start);
    b.switch_to_block(start);
    let params: Vec<ir::Value> = b.block_params(start).to_vec();
    let (ctx, first, count) = (params[0], params[1], params[2]);
    let ctaid: [Variable; 3] = std::array::from_fn(|i| {
        let var = b.declare_var(types::I32);
        let value = field(b, ctx, offset_of!(NativeContext, ctaid) + 4 * i);
        b.def_var(var, value);
        var
    });
    let grid: [ir::Value; 2] =
        std::array::from_fn(|i| field(b, ctx, offset_of!(NativeContext, nctaid) + 4 * i));
    let threads = field(b, ctx, offset_of!(NativeContext, threads));
    let end = b.ins().iadd(first, count);
    let (cta, thread_var) = (b.declare_var(types::I64), b.declare_var(types::I32));
    b.def_var(cta, first);

    let [
        cta_head,
        cta_body,
        thread_head,
        body,
        next,
        cta_next,
        done,
        abort,
    ] = std::array::from_fn(|_| b.create_block());
    b.append_block_param(next, types::I32);
    b.append_block_param(abort, types::I32);
    let leave = Leave { next, abort };
    if let Some(hoisted) = &mut hoisted {
        hoisted.launch(parts.again(), Fixed::of(ctx), leave)?;
    }
    invariant.emit(Once::PerLaunch, parts.again(), Fixed::of(ctx), leave)?;
    let b = &mut *parts.b;
    let x_var = b.declare_var(types::I32);
    let row = field(b, ctx, offset_of!(NativeContext, ntid));
    let shared = view.map(|_| shared_base(b, ctx));
    b.ins().jump(cta_head, &[]);

    b.switch_to_block(cta_head);
    let here = b.use_var(cta);
    let more = b.ins().icmp(IntCC::UnsignedLessThan, here, end);
    b.ins().brif(more, cta_body, &[], done, &[]);

    b.switch_to_block(cta_body);
    let index: [ir::Value; 3] = ctaid.map(|var| b.use_var(var));
    for (i, &value) in index.iter().enumerate() {
        b.ins().store(
            host(),
            value,
            ctx,
            (offset_of!(NativeContext, ctaid) + 4 * i) as i32,
        );
    }
    let here = b.use_var(cta);
    b.ins()
        .store(host(), here, ctx, offset_of!(NativeContext, cta) as i32);
    begin_cta(b, ctx, (parts.request, parts.counters));
    let zero = b.ins().iconst(types::I32, 0);
    b.def_var(thread_var, zero);
    let fixed = Fixed {
        ctx,
        ctaid: Some(index),
        shared,
    };
    if let Some(hoisted) = &mut hoisted {
        hoisted.cta(parts.again(), fixed, leave)?;
    }
    invariant.emit(Once::PerCta, parts.again(), fixed, leave)?;
    let b = &mut *parts.b;
    b.def_var(x_var, zero);
    b.ins().jump(thread_head, &[]);

    b.switch_to_block(thread_head);
    let thread = b.use_var(thread_var);
    let more = b.ins().icmp(IntCC::UnsignedLessThan, thread, threads);
    b.ins().brif(more, body, &[], cta_next, &[]);

    b.switch_to_block(body);
    let thread = b.use_var(thread_var);
    b.ins().store(
        host(),
        thread,
        ctx,
        offset_of!(NativeContext, thread) as i32,
    );
    let lane = b.ins().band_imm_u(thread, 31);
    let lane = b.ins().uextend(types::I64, lane);
    let local = b.ins().iconst(types::I32, 0);
    let lane_here = Here {
        thread,
        frame: None,
        lane,
        local,
    };
    let x = counts_x.then(|| b.use_var(x_var));
    let mut emitter = Lane::new(parts, fixed, lane_here, leave);
    emitter.tid_x = x;
    let b = match (view, &hoisted) {
        (Some(view), Some(hoisted)) => slices(emitter, (view, hoisted), (thread, threads), next)?,
        _ => {
            invariant.provide(&mut emitter);
            emitter.emit_from(entry, &[])?;
            emitter.b
        }
    };

    b.switch_to_block(next);
    let thread = b.use_var(thread_var);
    let step = view.map_or(1, |view| view.width);
    let following = b.ins().iadd_imm_s(thread, i64::from(step));
    b.def_var(thread_var, following);
    if counts_x {
        // The threads of a row are numbered one after the other.
        let x = b.use_var(x_var);
        let next_x = b.ins().iadd_imm_s(x, 1);
        let ends = b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, next_x, row);
        let next_x = b.ins().select(ends, zero, next_x);
        b.def_var(x_var, next_x);
    }
    let more = b.ins().icmp(IntCC::UnsignedLessThan, following, threads);
    b.ins().brif(more, body, &[], cta_next, &[]);

    b.switch_to_block(cta_next);
    let here = b.use_var(cta);
    let following = b.ins().iadd_imm_s(here, 1);
    b.def_var(cta, following);
    next_index(b, ctaid, grid);
    b.ins().jump(cta_head, &[]);

    b.switch_to_block(done);
    let ok = b.ins().iconst(types::I32, i64::from(status::OK));
    b.ins().jump(abort, &[BlockArg::Value(ok)]);

    b.switch_to_block(abort);
    let code = b.block_params(abort)[0];
    b.ins().return_(&[code]);
    b.seal_all_blocks();
    Ok(())
}

/// Returns whether a function reads `%tid.x`.
fn reads_tid_x(function: &Function) -> bool {
    let mut insts = function.blocks().iter().flat_map(|&b| function.insts(b));
    insts.any(|&inst| {
        let data = &function.dfg.insts[inst];
        data.opcode == Opcode::SReg && payload_sreg(data.payload()) == Some(SpecialReg::TidX)
    })
}

/// Emits the body of the loop over chunks: the code for the chunk whose first thread is `thread`. The emitted code
/// continues at the block `next`.
fn slices<'a, 'b>(
    lane: Lane<'a, 'b>,
    (view, hoisted): (View<'a>, &'a Hoisted),
    (thread, threads): (ir::Value, ir::Value),
    next: ir::Block,
) -> Result<&'a mut FunctionBuilder<'b>, EmitError> {
    let entry = lane.function.entry();
    let done = lane.b.create_block();
    let ends = Ends {
        done,
        common: None,
        diverged: None,
        sweep: None,
    };
    let mut slice = Slice::new(lane, view, ends, hoisted);
    slice.prepare()?;
    let b = &mut *slice.lane.b;
    let left = b.ins().isub(threads, thread);
    let most = b.ins().iconst(types::I32, i64::from(view.width));
    let count = b.ins().umin(left, most);
    let missing = b.ins().isub(most, count);
    let all = u32::MAX >> (32 - view.width);
    let all = b.ins().iconst(types::I32, i64::from(all as i32));
    let bits = b.ins().ushr(all, missing);
    slice.start(entry, bits);
    slice.translate()?;
    let b = slice.lane.b;
    b.switch_to_block(done);
    let nobody = b.ins().iconst(types::I32, 0);
    b.ins().jump(next, &[BlockArg::Value(nobody)]);
    Ok(b)
}

/// Emits code that advances the CTA coordinates by one CTA. The x coordinate changes first, then y,
/// then z.
pub(crate) fn next_index(b: &mut FunctionBuilder<'_>, ctaid: [Variable; 3], grid: [ir::Value; 2]) {
    let zero = b.ins().iconst(types::I32, 0);
    let [x, y, z] = ctaid.map(|var| b.use_var(var));
    let x1 = b.ins().iadd_imm_s(x, 1);
    let wrap_x = b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, x1, grid[0]);
    let new_x = b.ins().select(wrap_x, zero, x1);
    let carry_x = b.ins().uextend(types::I32, wrap_x);
    let y1 = b.ins().iadd(y, carry_x);
    let wrap_y = b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, y1, grid[1]);
    let new_y = b.ins().select(wrap_y, zero, y1);
    let carry_y = b.ins().uextend(types::I32, wrap_y);
    let new_z = b.ins().iadd(z, carry_y);
    for (var, value) in ctaid.into_iter().zip([new_x, new_y, new_z]) {
        b.def_var(var, value);
    }
}
