//! Native code of device functions that are not inlined: recursive functions, functions that are called through
//! handles, and functions that are too large to inline.
//!
//! Each call runs one thread. The caller passes an array of 16-byte cells. At the start of the call, the cells contain
//! the arguments; when the function returns, they contain the results.

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, AbiParam, BlockArg, InstBuilder, types};
use cranelift_codegen::isa::CallConv;
use margay_ir::analysis::slots;

use super::lane::{EmitError, Fixed, Here, Lane, LaneParts, Leave, host};
use crate::abi::{NativeContext, status};

/// Returns the signature of [`crate::abi::DeviceFn`].
pub(crate) fn signature() -> ir::Signature {
    let mut sig = ir::Signature::new(CallConv::SystemV);
    sig.params
        .extend([types::I64, types::I32, types::I32, types::I64].map(AbiParam::new));
    sig.returns.push(AbiParam::new(types::I32));
    sig
}

/// Emits a device function without sync points.
pub(crate) fn emit(parts: LaneParts<'_, '_>) -> Result<(), EmitError> {
    let function = parts.function;
    let b = &mut *parts.b;
    let start = b.create_block();
    b.append_block_params_for_function_params(start);
    b.switch_to_block(start);
    let params: Vec<ir::Value> = b.block_params(start).to_vec();
    let (ctx, thread, local, cells) = (params[0], params[1], params[2], params[3]);
    let [body, next, abort] = std::array::from_fn(|_| b.create_block());
    b.append_block_param(next, types::I32);
    b.append_block_param(abort, types::I32);

    let size = slots::layout(function).1;
    let end = b.ins().iadd_imm_s(local, i64::from(size));
    let limit = b.ins().load(
        types::I32,
        host(),
        ctx,
        offset_of!(NativeContext, stack_limit) as i32,
    );
    let full = b.ins().icmp(IntCC::UnsignedGreaterThan, end, limit);
    let overflow = b.ins().iconst(types::I32, i64::from(status::STACK));
    b.ins()
        .brif(full, abort, &[BlockArg::Value(overflow)], body, &[]);

    b.switch_to_block(body);
    let lane = b.ins().band_imm_u(thread, 31);
    let lane = b.ins().uextend(types::I64, lane);
    let fixed = Fixed::of(ctx);
    let here = Here {
        thread,
        frame: None,
        lane,
        local,
    };
    let mut emitter = Lane::new(parts, fixed, here, Leave { next, abort });
    emitter.results_to = Some(cells);
    let params = function.dfg.blocks[function.entry()].params.clone();
    for (i, param) in params.into_iter().enumerate() {
        let bits = emitter.load_wide(param, cells, 16 * i as i32);
        emitter.set(param, bits);
    }
    emitter.emit_from(function.entry(), &[])?;
    let b = emitter.b;

    b.switch_to_block(next);
    let ok = b.ins().iconst(types::I32, i64::from(status::OK));
    b.ins().jump(abort, &[BlockArg::Value(ok)]);

    b.switch_to_block(abort);
    let code = b.block_params(abort)[0];
    b.ins().return_(&[code]);
    b.seal_all_blocks();
    Ok(())
}
