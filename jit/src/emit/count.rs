//! Adds to the counters of the native call ([`crate::counters`]).

use std::mem::offset_of;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, AbiParam, InstBuilder, types};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::FunctionBuilder;
use margay_ir::entity::Inst;

use super::lane::{Lane, fixed, host};
use crate::abi::{Helpers, NativeContext};
use crate::counters::run;

impl Lane<'_, '_> {
    /// Emits the load of the address of the counters.
    pub(crate) fn counters_of_call(&mut self) -> ir::Value {
        self.field(types::I64, offset_of!(NativeContext, counters))
    }

    /// Emits code that adds `step` to the word with the index `word`.
    pub(crate) fn count_constant(&mut self, area: ir::Value, word: usize, step: i64) {
        let at = 8 * word as i32;
        let count = self.b.ins().load(types::I64, host(), area, at);
        let count = self.b.ins().iadd_imm_s(count, step);
        self.b.ins().store(host(), count, area, at);
    }

    /// Emits code that adds a value to the word with the index `word`.
    pub(crate) fn count(&mut self, area: ir::Value, word: usize, step: ir::Value) {
        let at = 8 * word as i32;
        let step = self.wide(step);
        let count = self.b.ins().load(types::I64, host(), area, at);
        let count = self.b.ins().iadd(count, step);
        self.b.ins().store(host(), count, area, at);
    }

    /// Emits code that counts a run of instructions, whose first word has the index `at`, in one lane.
    pub(crate) fn count_run(&mut self, inst: Inst, at: usize) {
        let area = self.counters_of_call();
        self.count_constant(area, at + run::PARTS, 1);
        self.count_constant(area, at + run::ACTIVE, 1);
        if let &[operand] = self.function.dfg.args(inst) {
            let operand = self.get(operand);
            let executes = self.b.ins().icmp_imm_s(IntCC::NotEqual, operand, 0);
            self.count(area, at + run::EXECUTED, executes);
        }
    }
}

/// Emits the call of the host at the beginning of each CTA of which the instructions of warps are counted.
pub(super) fn enter_cta(b: &mut FunctionBuilder<'_>, ctx: ir::Value) {
    let at = offset_of!(NativeContext, helpers) as i32;
    let table = b.ins().load(types::I64, fixed(), ctx, at);
    let at = offset_of!(Helpers, observe_cta) as i32;
    let target = b.ins().load(types::I64, fixed(), table, at);
    let mut signature = ir::Signature::new(CallConv::SystemV);
    signature.params.push(AbiParam::new(types::I64));
    let signature = b.import_signature(signature);
    b.ins().call_indirect(signature, target, &[ctx]);
}
