//! Which functions a function may call.

use crate::entity::FuncId;
use crate::function::{Function, Signature, payload_func, payload_sig};
use crate::module::Module;
use margay_ops::ops::Opcode;

/// Functions that `function` calls directly or, by their signatures, may call through handles; in order.
pub fn callees(module: &Module, function: &Function) -> Vec<FuncId> {
    let mut found = Vec::new();
    for &inst in function.blocks().iter().flat_map(|&b| function.insts(b)) {
        let data = &function.dfg.insts[inst];
        match data.opcode {
            Opcode::Call => found.push(payload_func(data.payload())),
            Opcode::CallIndirect => {
                let signature = module.signatures.get(payload_sig(data.payload()));
                found.extend(signature.into_iter().flat_map(|s| with_handles(module, s)));
            }
            _ => {}
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Functions that a call of this signature through a handle may reach, in order: where handles come from is not known.
pub fn with_handles<'a>(
    module: &'a Module,
    signature: &'a Signature,
) -> impl Iterator<Item = FuncId> + 'a {
    let fits = |f: &Function| f.kernel.is_none() && f.has_body() && f.signature == *signature;
    let all = module.functions.iter();
    all.filter(move |(_, f)| fits(f)).map(|(id, _)| id)
}
