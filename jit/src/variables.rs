//! The module variables whose addresses a function uses.

use margay_ir::entity::SymbolId;
use margay_ir::function::{Function, Linkage, split_symbol_payload};
use margay_ir::module::Module;
use margay_ops::mods::StateSpace;
use margay_ops::ops::Opcode;
use rustc_hash::FxHashMap;

/// The properties of a module variable that compiled code relies on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct NamedVariable {
    pub(crate) space: StateSpace,
    /// Size in bytes.
    pub(crate) size: u64,
    /// Alignment of the address in bytes. The alignment is 1 if the linker may choose another module's definition of
    /// the variable, or if the address is a handle.
    pub(crate) align: u32,
}

/// Collects the module variables whose addresses a function uses.
pub(crate) fn named_variables(
    module: &Module,
    function: &Function,
) -> FxHashMap<SymbolId, NamedVariable> {
    let mut found = FxHashMap::default();
    for &inst in function
        .blocks()
        .iter()
        .flat_map(|&block| function.insts(block))
    {
        let data = &function.dfg.insts[inst];
        if data.opcode != Opcode::SymbolAddr {
            continue;
        }
        let (id, _) = split_symbol_payload(data.payload());
        let Some(symbol) = module.symbols.get(id) else {
            continue;
        };
        let defined = matches!(symbol.linkage, Linkage::Internal | Linkage::Visible);
        let variable = NamedVariable {
            space: symbol.space,
            size: symbol.size,
            align: match defined && symbol.reference.is_none() {
                true => symbol.align.max(1),
                false => 1,
            },
        };
        found.insert(id, variable);
    }
    found
}
