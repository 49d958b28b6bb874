//! Constant folding through the reference functions.

use margay_ir::entity::{Inst, Value};
use margay_ops::types::Type;
use smallvec::SmallVec;

use super::{Change, Rewriter};
use crate::data::{Data, lanes_of};
use crate::meaning::{self, Lanes};
use crate::ops::Op;
use crate::passes::constants::{Form, form, is_constant, lanes};

pub(super) fn rule(rewriter: &mut Rewriter<'_>, inst: Inst) -> Option<Change> {
    let function = &*rewriter.function;
    let data = function.insts[inst];
    let args = function.args(inst);
    let is_foldable = data.op == Op::Map || data.op.row().meaning.is_some();
    if !is_foldable || args.is_empty() || !args.iter().all(|&arg| is_constant(function, arg)) {
        return None;
    }
    let args: SmallVec<[Lanes; 4]> = args
        .iter()
        .filter_map(|&arg| lanes(function, arg))
        .collect();
    let results: SmallVec<[Value; 2]> = function.results(inst).into();
    let computed: SmallVec<[Lanes; 2]> = match (data.data, data.op.row().meaning) {
        (Data::Lane(desc), None) => meaning::map(&desc, lanes_of(data.ty), &args, results.len()),
        (_, Some(reference)) => SmallVec::from_iter([reference(data.ty, &data.data, &args)]),
        _ => return None,
    };
    let forms: SmallVec<[(Type, Form); 2]> = results
        .iter()
        .zip(&computed)
        .map(|(&value, lanes)| {
            let ty = function.ty(value);
            Some((ty, form(ty, lanes)?))
        })
        .collect::<Option<_>>()?;
    let is_form = matches!(data.op, Op::Affine | Op::Mask);
    if is_form && !matches!(forms[..], [(_, Form::Uniform(_))]) {
        return None;
    }
    let values = forms
        .into_iter()
        .map(|(ty, form)| create(rewriter, ty, form));
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
