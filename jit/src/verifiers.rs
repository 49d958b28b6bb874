//! Functions through which generated code calls [`Helpers::verify`] and [`Helpers::verify_lanes`]. These functions
//! preserve all registers, including the result registers. A call on a rarely executed path therefore does not make the
//! surrounding code spill its values. Because no register can return the helper's result, the function stores it in the
//! context.

use std::mem::offset_of;

use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{self, AbiParam, InstBuilder, UserFuncName, types};
use cranelift_codegen::isa::{CallConv, TargetIsa};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

use crate::abi::{Helpers, NativeContext};
use crate::code_memory::CodeMemory;
use crate::emit::lane::{fixed, host};
use crate::error::CompileError;

/// The two functions of a compiler through which generated code calls [`Helpers::verify`] and
/// [`Helpers::verify_lanes`].
#[derive(Debug)]
pub(crate) struct Verifiers([CodeMemory; 2]);

impl Verifiers {
    pub(crate) fn new(isa: &dyn TargetIsa) -> Result<Verifiers, CompileError> {
        // Parameters of `verify`: context, address, stride, properties of the accesses, thread. Parameters of
        // `verify_lanes`: context, addresses, properties, thread.
        let strided = [types::I64, types::I64, types::I64, types::I64, types::I32];
        let each = [types::I64, types::I64, types::I64, types::I32];
        Ok(Verifiers([
            compiled(isa, &strided, offset_of!(Helpers, verify))?,
            compiled(isa, &each, offset_of!(Helpers, verify_lanes))?,
        ]))
    }

    /// Returns the addresses of the two functions.
    pub(crate) fn entries(&self) -> [*const u8; 2] {
        self.0.each_ref().map(CodeMemory::start)
    }
}

/// Compiles a function that passes its arguments to a helper and stores the result in the context.
fn compiled(
    isa: &dyn TargetIsa,
    params: &[ir::Type],
    helper: usize,
) -> Result<CodeMemory, CompileError> {
    let signature = |convention| {
        let mut signature = ir::Signature::new(convention);
        let params = params.iter().copied().map(AbiParam::new);
        signature.params.extend(params);
        signature
    };
    let name = UserFuncName::user(0, 0);
    let mut function = ir::Function::with_name_signature(name, signature(CallConv::PreserveAll));
    let mut scratch = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut function, &mut scratch);
    let block = b.create_block();
    b.append_block_params_for_function_params(block);
    b.switch_to_block(block);
    let args = b.block_params(block).to_vec();
    let table = offset_of!(NativeContext, helpers) as i32;
    let table = b.ins().load(types::I64, fixed(), args[0], table);
    let target = b.ins().load(types::I64, fixed(), table, helper as i32);
    let mut plain = signature(CallConv::SystemV);
    plain.returns.push(AbiParam::new(types::I32));
    let sig = b.import_signature(plain);
    let call = b.ins().call_indirect(sig, target, &args);
    let answer = b.inst_results(call)[0];
    let at = offset_of!(NativeContext, refused) as i32;
    b.ins().store(host(), answer, args[0], at);
    b.ins().return_(&[]);
    b.seal_all_blocks();
    b.finalize(isa.frontend_config());
    let mut context = Context::for_function(function);
    let compiled = context
        .compile(isa, &mut ControlPlane::default())
        .map_err(|error| CompileError::Backend(format!("{:?}", error.inner)))?;
    CodeMemory::new(compiled.code_buffer()).map_err(|error| CompileError::Memory(error.to_string()))
}
