//! IDs of signatures. Generated code compares these IDs before it makes a call through a handle.
//!
//! A function that is called through a handle reads its parameters from the caller's stack and writes its results
//! there. Therefore the caller first tests that the function has the signature of the call.

use margay_ir::entity::{Entity, SigId};
use margay_ir::function::{Function, Signature, payload_sig};
use margay_ir::module::Module;
use margay_ops::ops::Opcode;
use rustc_hash::FxHashMap;

use crate::abi::FunctionEntry;

/// ID of a signature that no function of the module has.
const NO_FUNCTION: u64 = u64::MAX;

/// Returns an entry without code for each function of a module. Functions with equal signatures have the same signature
/// ID.
pub fn function_entries(module: &Module) -> Vec<FunctionEntry> {
    let mut numbers: FxHashMap<&Signature, u64> = FxHashMap::default();
    let number = |(id, function): (margay_ir::entity::FuncId, _)| {
        let function: &Function = function;
        let number = numbers.entry(&function.signature);
        FunctionEntry {
            code: std::ptr::null(),
            signature: *number.or_insert(id.index() as u64),
        }
    };
    module.functions.iter().map(number).collect()
}

/// Returns the IDs of the signatures with which a function calls other functions through handles. [`function_entries`]
/// uses the same IDs.
pub(crate) fn called_signatures(module: &Module, function: &Function) -> FxHashMap<SigId, u64> {
    let mut found = FxHashMap::default();
    for &block in function.blocks() {
        for &inst in function.insts(block) {
            let data = &function.dfg.insts[inst];
            if data.opcode == Opcode::CallIndirect {
                let id = payload_sig(data.payload());
                found.entry(id).or_insert_with(|| number_of(module, id));
            }
        }
    }
    found
}

fn number_of(module: &Module, id: SigId) -> u64 {
    let Some(signature) = module.signatures.get(id) else {
        return NO_FUNCTION;
    };
    let mut functions = module.functions.iter();
    let first = functions.find(|(_, function)| function.signature == *signature);
    first.map_or(NO_FUNCTION, |(id, _)| id.index() as u64)
}
