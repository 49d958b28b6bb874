//! IDs of function signatures. Before a call through a handle, generated code compares the ID of the callee's signature
//! with the ID of the call's signature.
//!
//! A callee reads its parameters from memory on the caller's stack and writes its results to this
//! memory. If the signature of the callee differed from the signature of the call, the callee could
//! access memory outside of this area.

use margay_ir::entity::{Entity, FuncId, SigId};
use margay_ir::function::{Function, Signature, payload_sig};
use margay_ir::module::Module;
use margay_ops::ops::Opcode;
use rustc_hash::FxHashMap;

/// The common ID of all signatures that no function of the module has.
const NO_FUNCTION: u64 = u64::MAX;

/// Assigns an ID to each signature of a module's functions. Functions with equal signatures have the same ID.
#[derive(Debug)]
pub struct SignatureIds<'a> {
    module: &'a Module,
    ids: FxHashMap<&'a Signature, u64>,
}

impl<'a> SignatureIds<'a> {
    /// Assigns an ID to the signature of each function of `module`. The ID of a signature is the
    /// function ID of the first function that has this signature.
    pub fn new(module: &'a Module) -> SignatureIds<'a> {
        let mut ids = FxHashMap::default();
        for (id, function) in module.functions.iter() {
            let first = ids.entry(&function.signature);
            first.or_insert(id.index() as u64);
        }
        SignatureIds { module, ids }
    }

    /// Returns the ID of a function's signature.
    pub fn of(&self, function: FuncId) -> u64 {
        let signature = &self.module.functions[function].signature;
        self.ids.get(signature).copied().unwrap_or(NO_FUNCTION)
    }
}

/// Returns the IDs of the signatures of a function's calls through handles. Each signature has the same ID as in
/// [`SignatureIds`].
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
