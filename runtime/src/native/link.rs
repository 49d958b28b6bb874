//! Links several modules: resolves `.extern` declarations by definitions in other modules.

mod calls;

use margay_ir::entity::{Entity, FuncId, PrimaryMap, SigId, SymbolId};
use margay_ir::function::{Function, Linkage, split_symbol_payload, symbol_payload};
use margay_ir::module::{Module, RelocTarget, Symbol};
use margay_ir::syscall::Syscall;
use margay_ops::mods::{Mods, StateSpace};
use margay_ops::ops::Opcode;

use crate::error::{Error, Result};

/// Returns the names of functions that are called, and variables that are used, but defined nowhere.
pub(super) fn unresolved(module: &Module) -> Vec<String> {
    let functions = module
        .functions
        .values()
        .filter(|f| !f.has_body() && f.kernel.is_none() && Syscall::from_name(&f.name).is_none())
        .map(|f| f.name.clone());
    let variables = module
        .symbols
        .values()
        .filter(|s| s.linkage == Linkage::Extern && s.space != StateSpace::Shared)
        .map(|s| s.name.clone());
    functions.chain(variables).collect()
}

/// The numbers of a module's entities in the linked module.
struct Placed {
    functions: PrimaryMap<FuncId, FuncId>,
    symbols: PrimaryMap<SymbolId, SymbolId>,
    first_sig: usize,
    first_loc: u32,
    first_file: u32,
}

/// Links modules. A single module is returned unchanged.
pub(super) fn link(mut modules: Vec<Module>) -> Result<Module> {
    if modules.len() == 1 {
        return modules
            .pop()
            .ok_or_else(|| Error::Internal("no module".into()));
    }
    let mut whole = Module::default();
    let mut placed = Vec::new();
    for module in &mut modules {
        whole.version = whole.version.max(module.version);
        if module.target.sm > whole.target.sm {
            whole.target = module.target;
        }
        placed.push(place(&mut whole, module)?);
    }
    for (module, placed) in modules.into_iter().zip(&placed) {
        fill(&mut whole, module, placed);
    }
    calls::adapt(&mut whole)?;
    constant_memory(&whole)?;
    Ok(whole)
}

/// Maximum size of the constant variables of a module in bytes.
const MAX_CONSTANT_BYTES: u64 = 64 << 10;

/// Checks the constant memory of all modules together, which has the limit of one module; each module was checked
/// before.
fn constant_memory(whole: &Module) -> Result<()> {
    let mut end = 0_u64;
    for symbol in whole.symbols.values() {
        if symbol.space == StateSpace::Const && symbol.linkage != Linkage::Extern {
            let align = u64::from(symbol.align.max(1));
            let start = end.checked_next_multiple_of(align).unwrap_or(u64::MAX);
            end = start.saturating_add(symbol.size);
        }
    }
    match end <= MAX_CONSTANT_BYTES {
        true => Ok(()),
        false => Err(Error::InvalidPtx {
            log: format!(
                "{end} bytes of constant memory in the linked modules; there are {MAX_CONSTANT_BYTES}"
            ),
        }),
    }
}

fn is_global(linkage: Linkage) -> bool {
    linkage != Linkage::Internal
}

/// Assigns every entity of a module its number in the linked module, and moves the contents of its variables there.
fn place(whole: &mut Module, module: &mut Module) -> Result<Placed> {
    let mut placed = Placed {
        functions: PrimaryMap::default(),
        symbols: PrimaryMap::default(),
        first_sig: whole.signatures.len(),
        first_loc: whole.locs.len() as u32,
        first_file: whole.files.len() as u32,
    };
    for function in module.functions.values() {
        let known = is_global(function.linkage)
            .then(|| whole.by_name.get(&function.name))
            .flatten();
        let id = match known {
            Some(&id) => {
                check_functions(&whole.functions[id], function)?;
                if function.has_body() && !whole.functions[id].has_body() {
                    whole.functions[id] = function.clone();
                }
                id
            }
            None if is_global(function.linkage) => whole.add_function(function.clone()),
            None => whole.functions.push(function.clone()),
        };
        placed.functions.push(id);
    }
    for symbol in module.symbols.values_mut() {
        let known = is_global(symbol.linkage)
            .then(|| whole.symbols_by_name.get(&symbol.name))
            .flatten();
        let id = match known {
            Some(&id) => {
                check_symbols(&whole.symbols[id], symbol)?;
                if whole.symbols[id].linkage == Linkage::Extern && symbol.linkage != Linkage::Extern
                {
                    whole.symbols[id] = taken(symbol);
                }
                id
            }
            None if is_global(symbol.linkage) => whole.add_symbol(taken(symbol)),
            None => whole.symbols.push(taken(symbol)),
        };
        placed.symbols.push(id);
    }
    for signature in module.signatures.values() {
        whole.signatures.push(signature.clone());
    }
    whole.files.extend(module.files.iter().cloned());
    whole
        .locs
        .extend(module.locs.iter().cloned().map(|mut loc| {
            loc.file = loc.file.wrapping_add(placed.first_file);
            loc.inlined_at = loc.inlined_at.map(|at| at + placed.first_loc);
            loc
        }));
    Ok(placed)
}

/// Returns a copy of a symbol with its initial bytes, which can be many and are not copied. Its relocations remain,
/// because [`fill`] compares them.
fn taken(symbol: &mut Symbol) -> Symbol {
    let init = std::mem::take(&mut symbol.init);
    Symbol {
        init,
        ..symbol.clone()
    }
}

fn check_functions(a: &Function, b: &Function) -> Result<()> {
    let strong = |f: &Function| f.has_body() && f.linkage != Linkage::Weak;
    if strong(a) && strong(b) {
        return Err(Error::InvalidPtx {
            log: format!("`{}` is defined in two modules", a.name),
        });
    }
    Ok(())
}

fn check_symbols(a: &Symbol, b: &Symbol) -> Result<()> {
    let strong = |s: &Symbol| matches!(s.linkage, Linkage::Visible);
    if strong(a) && strong(b) {
        return Err(Error::InvalidPtx {
            log: format!("`{}` is defined in two modules", a.name),
        });
    }
    Ok(())
}

/// Renumbers the bodies and initial contents that the linked module took from a module.
fn fill(whole: &mut Module, module: Module, placed: &Placed) {
    for (old, function) in module.functions.iter() {
        let id = placed.functions[old];
        // Only bodies of this module are renumbered: an earlier definition of the same name stays.
        if function.has_body() && same_body(&whole.functions[id], function) {
            renumber(&mut whole.functions[id], placed);
        }
    }
    for (old, symbol) in module.symbols.iter() {
        let id = placed.symbols[old];
        if symbol.linkage == Linkage::Extern || whole.symbols[id].relocs != symbol.relocs {
            continue;
        }
        for reloc in &mut whole.symbols[id].relocs {
            reloc.target = match reloc.target {
                RelocTarget::Symbol { symbol, generic } => RelocTarget::Symbol {
                    symbol: placed.symbols[symbol],
                    generic,
                },
                RelocTarget::Func(func) => RelocTarget::Func(placed.functions[func]),
            };
        }
        if let Some(owner) = &mut whole.symbols[id].owner {
            *owner = placed.functions[*owner];
        }
    }
}

fn same_body(a: &Function, b: &Function) -> bool {
    a.layout.order.len() == b.layout.order.len() && a.dfg.insts.len() == b.dfg.insts.len()
}

fn renumber(function: &mut Function, placed: &Placed) {
    for block in function.blocks().to_vec() {
        for inst in function.insts(block).to_vec() {
            let loc = &mut function.dfg.locs[inst];
            if loc.loc != 0 {
                loc.loc += placed.first_loc;
            }
            let data = &mut function.dfg.insts[inst];
            let payload = data.mods.0;
            data.mods = match data.opcode {
                Opcode::Call | Opcode::FuncAddr => {
                    Mods(u64::from(placed.functions[FuncId(payload as u32)].0))
                }
                Opcode::SymbolAddr => {
                    let (symbol, addend) = split_symbol_payload(payload);
                    Mods(symbol_payload(placed.symbols[symbol], addend))
                }
                Opcode::CallIndirect => {
                    Mods(SigId::new(placed.first_sig + payload as usize).0.into())
                }
                _ => data.mods,
            };
        }
    }
}
