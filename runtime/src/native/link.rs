//! Links several modules: replaces each `.extern` declaration by a definition in another module.

mod calls;

use margay_ir::entity::{Entity, FuncId, PrimaryMap, SigId, SymbolId};
use margay_ir::function::{Function, Linkage, SourceLoc, split_symbol_payload, symbol_payload};
use margay_ir::module::{Module, RelocTarget, Symbol};
use margay_ir::observe::ObservedEvent;
use margay_ir::syscall::Syscall;
use margay_ops::mods::{Mods, StateSpace};
use margay_ops::ops::Opcode;

use crate::error::{Error, Result};

/// Returns the names of the functions and variables that are declared in the module but not defined, except system
/// functions.
pub(super) fn unresolved(module: &Module) -> Vec<String> {
    let functions = module
        .functions
        .values()
        .filter(|f| !f.has_body() && f.kernel.is_none() && Syscall::from_name(&f.name).is_none())
        .map(|f| f.name.clone());
    let variables = module
        .symbols
        .values()
        .filter(|symbol| symbol.is_undefined())
        .map(|s| s.name.clone());
    functions.chain(variables).collect()
}

/// The linked module and, for each of its functions and symbols, the index of the input module that contains the
/// definition.
#[derive(Default)]
struct Whole {
    module: Module,
    functions: PrimaryMap<FuncId, usize>,
    symbols: PrimaryMap<SymbolId, usize>,
}

/// For an input module: a map from the IDs of its functions, symbols and other entities to their
/// IDs in the linked module.
struct Placed {
    /// Index of the module among the input modules.
    number: usize,
    functions: PrimaryMap<FuncId, FuncId>,
    symbols: PrimaryMap<SymbolId, SymbolId>,
    first_sig: usize,
    first_loc: u32,
    first_file: u32,
}

/// Combines `modules` to one module. If `modules` contains only one module, returns this module
/// unchanged.
pub(super) fn link(mut modules: Vec<Module>) -> Result<Module> {
    if modules.len() == 1 {
        return modules
            .pop()
            .ok_or_else(|| Error::Internal("no module".into()));
    }
    let mut whole = Whole::default();
    let mut placed = Vec::new();
    for (number, module) in modules.iter_mut().enumerate() {
        let joined = &mut whole.module;
        joined.version = joined.version.max(module.version);
        if module.target.sm > joined.target.sm {
            joined.target = module.target;
        }
        placed.push(place(&mut whole, module, number)?);
    }
    for (module, placed) in modules.into_iter().zip(&placed) {
        fill(&mut whole, module, placed);
    }
    let mut whole = whole.module;
    calls::adapt(&mut whole)?;
    constant_memory(&whole)?;
    Ok(whole)
}

/// Maximum size of the constant variables of a module in bytes.
const MAX_CONSTANT_BYTES: u64 = 64 << 10;

/// Returns an error if the constant variables of the linked module are larger in total than
/// [`MAX_CONSTANT_BYTES`]. The linked module has the same limit as a single module. Each input
/// module was checked against this limit before.
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
                "{end} bytes of constant memory in the linked modules; the limit is {MAX_CONSTANT_BYTES}"
            ),
        }),
    }
}

fn is_global(linkage: Linkage) -> bool {
    linkage != Linkage::Internal
}

/// Assigns every entity of a module its ID in the linked module, and moves the contents of the module's variables to
/// the linked module.
fn place(whole: &mut Whole, module: &mut Module, number: usize) -> Result<Placed> {
    let Whole {
        module: whole,
        functions: function_origins,
        symbols: symbol_origins,
    } = whole;
    let mut placed = Placed {
        number,
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
                if replaces_function(&whole.functions[id], function)? {
                    whole.functions[id] = function.clone();
                    function_origins[id] = number;
                }
                id
            }
            None => {
                function_origins.push(number);
                match is_global(function.linkage) {
                    true => whole.add_function(function.clone()),
                    false => whole.functions.push(function.clone()),
                }
            }
        };
        placed.functions.push(id);
    }
    for symbol in module.symbols.values_mut() {
        let known = is_global(symbol.linkage)
            .then(|| whole.symbols_by_name.get(&symbol.name))
            .flatten();
        let id = match known {
            Some(&id) => {
                if replaces_symbol(&whole.symbols[id], symbol)? {
                    whole.symbols[id] = taken(symbol);
                    symbol_origins[id] = number;
                }
                id
            }
            None => {
                symbol_origins.push(number);
                match is_global(symbol.linkage) {
                    true => whole.add_symbol(taken(symbol)),
                    false => whole.symbols.push(taken(symbol)),
                }
            }
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

/// Returns a copy of a symbol. The initial bytes are moved to the copy, because a symbol can have
/// very many initial bytes.
fn taken(symbol: &mut Symbol) -> Symbol {
    let init = std::mem::take(&mut symbol.init);
    Symbol {
        init,
        ..symbol.clone()
    }
}

/// Strength of a definition. A stronger definition replaces a weaker definition of the same name (PTX ISA 11.6).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    /// A declaration without a definition, with the size of the variable in bytes: 0 for functions and arrays without
    /// a size.
    Declared(u64),
    /// A `.common` definition, with the size of the variable in bytes. Of several such definitions,
    /// the largest is used.
    Common(u64),
    /// A `.weak` definition. Of several such definitions, the first is used.
    Weak,
    /// Any other definition. Only one definition of a name may be strong.
    Strong,
}

fn replaces(name: &str, known: Strength, new: Strength) -> Result<bool> {
    if known == Strength::Strong && new == Strength::Strong {
        return Err(Error::InvalidPtx {
            log: format!("`{name}` is defined in two modules"),
        });
    }
    Ok(new > known)
}

fn replaces_function(known: &Function, new: &Function) -> Result<bool> {
    let strength = |f: &Function| match f.has_body() {
        false => Strength::Declared(0),
        true if f.linkage == Linkage::Weak => Strength::Weak,
        true => Strength::Strong,
    };
    replaces(&new.name, strength(known), strength(new))
}

fn replaces_symbol(known: &Symbol, new: &Symbol) -> Result<bool> {
    same_variable(known, new)?;
    let strength = |s: &Symbol| match s.linkage {
        Linkage::Extern => Strength::Declared(s.size),
        Linkage::Common => Strength::Common(s.size),
        Linkage::Weak => Strength::Weak,
        Linkage::Internal | Linkage::Visible => Strength::Strong,
    };
    replaces(&new.name, strength(known), strength(new))
}

/// Returns an error if two declarations or definitions of a name cannot mean the same variable because their state
/// spaces or sizes differ. The size of an `.extern` array without a size, and the sizes of two `.common` variables, may
/// differ. NVIDIA's linker has the same rules.
fn same_variable(known: &Symbol, new: &Symbol) -> Result<()> {
    let name = &new.name;
    let space = |symbol: &Symbol| symbol.space.name();
    if known.space != new.space {
        let log = format!(
            "`{name}` is in `.{}` in one module and in `.{}` in another",
            space(known),
            space(new)
        );
        return Err(Error::InvalidPtx { log });
    }
    let common = [known, new].map(|symbol| symbol.linkage == Linkage::Common);
    if known.size != new.size && known.size != 0 && new.size != 0 && common != [true; 2] {
        let log = format!(
            "`{name}` has {} bytes in one module and {} in another",
            known.size, new.size
        );
        return Err(Error::InvalidPtx { log });
    }
    Ok(())
}

/// Replaces the IDs of `module` by the IDs of the linked module, in all function bodies and initial
/// contents that the linked module has taken from `module`.
fn fill(whole: &mut Whole, module: Module, placed: &Placed) {
    let Whole {
        module: whole,
        functions: function_origins,
        symbols: symbol_origins,
    } = whole;
    for (old, _) in module.functions.iter() {
        let id = placed.functions[old];
        if function_origins[id] == placed.number {
            renumber(&mut whole.functions[id], placed);
        }
    }
    for (old, mut instructions) in module.instructions {
        let id = placed.functions[old];
        if function_origins[id] == placed.number {
            for instruction in &mut instructions {
                move_loc(&mut instruction.loc, placed);
            }
            whole.instructions.insert(id, instructions);
        }
    }
    for (old, _) in module.symbols.iter() {
        let id = placed.symbols[old];
        if symbol_origins[id] != placed.number {
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

fn renumber(function: &mut Function, placed: &Placed) {
    for block in function.blocks().to_vec() {
        for inst in function.insts(block).to_vec() {
            move_loc(&mut function.dfg.locs[inst], placed);
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
                Opcode::ObserveEvent => match ObservedEvent::from_payload(payload) {
                    Some(ObservedEvent::Instruction {
                        function: old,
                        index,
                    }) => {
                        let function = placed.functions[FuncId(old)].0;
                        Mods(ObservedEvent::Instruction { function, index }.to_payload())
                    }
                    _ => data.mods,
                },
                _ => data.mods,
            };
        }
    }
}

/// Replaces the index of a source position in its own module by the index in the linked module.
fn move_loc(loc: &mut SourceLoc, placed: &Placed) {
    if loc.loc != 0 {
        loc.loc += placed.first_loc;
    }
}
