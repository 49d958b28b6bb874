//! Changes calls to functions whose declaration in the calling module has another prototype than
//! their definition.
//!
//! Linkers match names, not prototypes. For example, an `.extern` declaration with a result can
//! match a definition without a result, and `.b32` can match `.f32`. This module changes such calls
//! to the types of the definition. Values of the same size keep their bits. If the definition has
//! no result, the call's result is 0. If the call has no result, the result of the definition is
//! discarded. If the number or the sizes of the parameters differ, or the call and the definition have
//! results of different sizes, linking fails.

use margay_ir::entity::{Block, FuncId, Inst, PrimaryMap, Value};
use margay_ir::function::{Function, Signature, ValueDef, payload_func};
use margay_ir::module::Module;
use margay_ops::meaning::Desc;
use margay_ops::mods::Mods;
use margay_ops::ops::Opcode;
use margay_ops::types::{OpType, Type};

use crate::error::{Error, Result};

/// Changes all direct calls in `module` so that they match the signatures of their callees.
pub(super) fn adapt(module: &mut Module) -> Result<()> {
    let mut signatures: PrimaryMap<FuncId, (String, Signature)> = PrimaryMap::default();
    for callee in module.functions.values() {
        signatures.push((callee.name.clone(), callee.signature.clone()));
    }
    for function in module.functions.values_mut() {
        let mut changed = false;
        for block in function.blocks().to_vec() {
            changed |= adapt_block(function, block, &signatures)?;
        }
        if changed {
            margay_ir::edit::resolve_aliases(function);
        }
    }
    Ok(())
}

fn adapt_block(
    function: &mut Function,
    block: Block,
    signatures: &PrimaryMap<FuncId, (String, Signature)>,
) -> Result<bool> {
    let calls: Vec<Inst> = function
        .insts(block)
        .iter()
        .copied()
        .filter(|&inst| function.dfg.insts[inst].opcode == Opcode::Call)
        .collect();
    let mut changed = false;
    for call in calls {
        let callee = payload_func(function.dfg.insts[call].payload());
        let Some((name, signature)) = signatures.get(callee) else {
            continue;
        };
        if !agrees(function, call, signature) {
            adapt_call(function, block, call, name, signature)?;
            changed = true;
        }
    }
    Ok(changed)
}

fn types(function: &Function, values: &[Value]) -> Vec<Type> {
    values.iter().map(|&v| function.dfg.ty(v)).collect()
}

fn agrees(function: &Function, call: Inst, signature: &Signature) -> bool {
    types(function, function.dfg.args(call)) == signature.params
        && types(function, function.dfg.results(call)) == signature.returns
}

/// Replaces `call` by a call with the signature of the definition.
fn adapt_call(
    function: &mut Function,
    block: Block,
    call: Inst,
    name: &str,
    signature: &Signature,
) -> Result<()> {
    let differs = || Error::InvalidPtx {
        log: format!("`{name}` is called and defined with different parameters"),
    };
    let (args, results) = (
        function.dfg.args(call).to_vec(),
        function.dfg.results(call).to_vec(),
    );
    if args.len() != signature.params.len() {
        return Err(differs());
    }
    let mut insts = Vec::new();
    let mut given = Vec::new();
    for (arg, &to) in args.into_iter().zip(&signature.params) {
        given.push(bits(function, &mut insts, arg, to).ok_or_else(differs)?);
    }
    let desc = function.dfg.insts[call].desc();
    let new = function.dfg.make_inst(desc, &given, &signature.returns);
    function.dfg.locs[new] = function.dfg.locs[call];
    insts.push(new);
    let returned = function.dfg.results(new).to_vec();
    for (index, old) in results.into_iter().enumerate() {
        let to = function.dfg.ty(old);
        let value = match returned.get(index) {
            Some(&value) => bits(function, &mut insts, value, to).ok_or_else(differs)?,
            None => zero(function, &mut insts, to),
        };
        function.dfg.values[old].def = ValueDef::Alias(value);
    }
    let order = &mut function.layout.insts[block];
    if let Some(at) = order.iter().position(|&inst| inst == call) {
        order.splice(at..=at, insts);
    }
    Ok(())
}

/// Returns a value of type `to` with the bits of `value`; `None` if the sizes differ.
fn bits(f: &mut Function, insts: &mut Vec<Inst>, value: Value, to: Type) -> Option<Value> {
    let from = f.dfg.ty(value);
    if from == to {
        return Some(value);
    }
    if from.kind().bits() != to.kind().bits() {
        return None;
    }
    let desc = Desc {
        opcode: Opcode::Bitcast,
        ty: to.kind().op_type(),
        src: from.kind().op_type(),
        mods: Mods::NONE,
    };
    let inst = f.dfg.make_inst(desc, &[value], &[to]);
    insts.push(inst);
    Some(f.dfg.results(inst)[0])
}

fn zero(f: &mut Function, insts: &mut Vec<Inst>, ty: Type) -> Value {
    let desc = Desc {
        opcode: Opcode::Const,
        ty: ty.kind().op_type(),
        src: OpType::None,
        mods: Mods(0),
    };
    let inst = f.dfg.make_inst(desc, &[], &[ty]);
    insts.push(inst);
    f.dfg.results(inst)[0]
}
