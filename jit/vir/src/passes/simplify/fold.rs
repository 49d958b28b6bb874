//! Constant folding through the reference functions.

use margay_ir::entity::{Inst, Value};
use margay_ops::types::Type;
use smallvec::SmallVec;

use super::{Change, Rewriter};
use crate::constants::{Form, folded};
use crate::data::Data;
use crate::ops::Op;

pub(super) fn rule(rewriter: &mut Rewriter<'_>, inst: Inst) -> Option<Change> {
    let function = &*rewriter.function;
    let data = function.insts[inst];
    let results: &[Value] = function.results(inst);
    let types: SmallVec<[Type; 2]> = results.iter().map(|&value| function.ty(value)).collect();
    let args = function.args(inst);
    let forms = folded(function, (data.op, data.ty, &data.data), args, &types)?;
    let values = types.into_iter().zip(forms);
    let values = values.map(|(ty, form)| create(rewriter, ty, form));
    Some(Change::Values(values.collect()))
}

fn create(rewriter: &mut Rewriter<'_>, ty: Type, form: Form) -> Value {
    match form {
        Form::Uniform(bits) => rewriter.constant(ty, bits),
        Form::Bits(bits) => {
            let bits = rewriter.constant(Type::B64, bits);
            rewriter.emit(Op::Mask, ty, Data::Nothing, &[bits])
        }
        Form::Affine { base, stride } => {
            let base = rewriter.constant(Type::scalar(ty.kind()), base);
            rewriter.emit(Op::Affine, ty, Data::Number(stride), &[base])
        }
    }
}
