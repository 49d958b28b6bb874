//! Finds the functions that a function may call.

use rustc_hash::FxHashSet;

use crate::entity::{FuncId, SigId};
use crate::function::{Function, Signature, payload_func, payload_sig};
use crate::module::Module;
use margay_ops::ops::Opcode;

/// Returns, in ascending order of their IDs and without duplicates, the functions that `function` calls directly and
/// the functions that its indirect calls may reach.
pub fn callees(module: &Module, function: &Function) -> Vec<FuncId> {
    let mut found = Vec::new();
    // All indirect calls with one signature may reach the same functions.
    let mut signatures: FxHashSet<SigId> = FxHashSet::default();
    for &inst in function.blocks().iter().flat_map(|&b| function.insts(b)) {
        let data = &function.dfg.insts[inst];
        match data.opcode {
            Opcode::Call => found.push(payload_func(data.payload())),
            Opcode::CallIndirect => {
                let id = payload_sig(data.payload());
                let signature = module.signatures.get(id).filter(|_| signatures.insert(id));
                found.extend(signature.into_iter().flat_map(|s| with_handles(module, s)));
            }
            _ => {}
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Returns, in ascending order of their IDs, all functions that have a body and this signature and are not kernels. An
/// indirect call with this signature may reach every one of these functions, because Margay does not compute which
/// functions' handles an indirect call can receive.
pub fn with_handles<'a>(
    module: &'a Module,
    signature: &'a Signature,
) -> impl Iterator<Item = FuncId> + 'a {
    let fits = |f: &Function| f.kernel.is_none() && f.has_body() && f.signature == *signature;
    let all = module.functions.iter();
    all.filter(move |(_, f)| fits(f)).map(|(id, _)| id)
}
