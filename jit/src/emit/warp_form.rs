//! The warp form: runs the lanes of a mask from one resume point to their next sync points.
//!
//! Lanes run one after the other, beginning with the lowest. For each lane, the code stores in the frame's header the
//! number of the sync point at which the lane stops.

use std::mem::offset_of;

use cranelift_codegen::ir::{self, AbiParam, BlockArg, InstBuilder, types};
use cranelift_codegen::isa::CallConv;
use margay_ir::analysis::regions::ResumePoint;

use super::lane::{EmitError, Fixed, Here, Lane, LaneParts, Leave, host};
use crate::abi::{NativeContext, status};

/// Returns the signature of [`crate::abi::RegionFn`].
pub(crate) fn signature() -> ir::Signature {
    let mut sig = ir::Signature::new(CallConv::SystemV);
    sig.params.extend([types::I64; 3].map(AbiParam::new));
    sig.returns.push(AbiParam::new(types::I32));
    sig
}

/// Emits the region that begins at `resume_point`.
pub(crate) fn emit(parts: LaneParts<'_, '_>, resume_point: &ResumePoint) -> Result<(), EmitError> {
    for_lanes(parts, |lane| {
        lane.emit_from(resume_point.block, &resume_point.live_in)
    })
}

/// Emits the joint form ([`super::joint`]).
pub(crate) fn emit_joint(parts: LaneParts<'_, '_>) -> Result<(), EmitError> {
    for_lanes(parts, Lane::emit_all)
}

/// Emits the loop over the lanes of a mask. `body_of` emits the code of one lane.
fn for_lanes<'a, 'b>(
    parts: LaneParts<'a, 'b>,
    body_of: impl FnOnce(&mut Lane<'a, 'b>) -> Result<(), EmitError>,
) -> Result<(), EmitError> {
    let b = &mut *parts.b;
    let start = b.create_block();
    b.append_block_params_for_function_params(start);
    b.switch_to_block(start);
    let params: Vec<ir::Value> = b.block_params(start).to_vec();
    let (ctx, frame, lanes) = (params[0], params[1], params[2]);
    let mask = b.ins().ireduce(types::I32, lanes);
    let warp = b.ins().ushr_imm_u(lanes, 32);
    let warp = b.ins().ireduce(types::I32, warp);
    let first_thread = b.ins().ishl_imm_u(warp, 5);

    let (head, body, next, done, abort) = (
        b.create_block(),
        b.create_block(),
        b.create_block(),
        b.create_block(),
        b.create_block(),
    );
    let rest = b.declare_var(types::I32);
    let lane_var = b.declare_var(types::I64);
    b.def_var(rest, mask);
    b.ins().jump(head, &[]);

    b.switch_to_block(head);
    let left = b.use_var(rest);
    b.ins().brif(left, body, &[], done, &[]);

    b.switch_to_block(body);
    let left = b.use_var(rest);
    let lane = b.ins().ctz(left);
    let below = b.ins().iadd_imm_s(left, -1);
    let remaining = b.ins().band(left, below);
    b.def_var(rest, remaining);
    let thread = b.ins().iadd(first_thread, lane);
    let lane = b.ins().uextend(types::I64, lane);
    b.def_var(lane_var, lane);
    b.ins().store(
        host(),
        thread,
        ctx,
        offset_of!(NativeContext, thread) as i32,
    );

    b.append_block_param(next, types::I32);
    b.append_block_param(abort, types::I32);
    let local = b.ins().iconst(types::I32, 0);
    let fixed = Fixed::of(ctx);
    let here = Here {
        thread,
        frame: Some(frame),
        lane,
        local,
    };
    let mut emitter = Lane::new(parts, fixed, here, Leave { next, abort });
    body_of(&mut emitter)?;
    let b = emitter.b;

    b.switch_to_block(next);
    let sync_point = b.block_params(next)[0];
    let lane = b.use_var(lane_var);
    let offset = b.ins().ishl_imm_u(lane, 2);
    let at = b.ins().iadd(frame, offset);
    b.ins().store(host(), sync_point, at, 0);
    b.ins().jump(head, &[]);

    b.switch_to_block(done);
    let ok = b.ins().iconst(types::I32, i64::from(status::OK));
    b.ins().jump(abort, &[BlockArg::Value(ok)]);

    b.switch_to_block(abort);
    let code = b.block_params(abort)[0];
    b.ins().return_(&[code]);
    b.seal_all_blocks();
    Ok(())
}
