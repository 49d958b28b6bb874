//! Checks the data outside of the code: slots, source positions, kernel parameters, variables and names.

use super::{ProblemSite, Report, Rule};
use crate::entity::SymbolId;
use crate::function::{Function, KernelData};
use crate::module::{Module, RelocTarget, Symbol};
use margay_ops::mods::StateSpace;

pub(super) fn function_data(module: &Module, function: &Function, report: &mut Report) {
    for (slot, data) in function.slots.iter() {
        if !data.align.is_power_of_two() {
            let message = format!("is aligned to {}", data.align);
            report.add(ProblemSite::Slot(slot), Rule::Slot, message);
        }
    }
    for inst in function.dfg.insts.keys() {
        let loc = function.dfg.locs[inst].loc as usize;
        if loc > module.locs.len() {
            let message = format!("is at source position {loc} of {}", module.locs.len());
            report.inst(inst, Rule::Source, message);
        }
    }
    if let Some(kernel) = &function.kernel {
        kernel_data(kernel, report);
        let signature = &function.signature;
        if !signature.params.is_empty() || !signature.returns.is_empty() {
            report.add(
                ProblemSite::Function,
                Rule::Module,
                "is a kernel with a signature",
            );
        }
    }
}

fn kernel_data(kernel: &KernelData, report: &mut Report) {
    let mut end = 0u64;
    for param in &kernel.params {
        let start = u64::from(param.offset);
        if start < end {
            let message = format!("parameter {} overlaps the one before", param.name);
            report.add(ProblemSite::Function, Rule::Module, message);
        }
        end = start + u64::from(param.size);
        if end > u64::from(kernel.param_bytes) {
            let message = format!(
                "parameter {} is outside of the parameter buffer",
                param.name
            );
            report.add(ProblemSite::Function, Rule::Module, message);
        }
        if !param.align.is_power_of_two() {
            let message = format!("parameter {} is aligned to {}", param.name, param.align);
            report.add(ProblemSite::Function, Rule::Module, message);
        }
    }
}

pub(super) fn check(module: &Module, report: &mut Report) {
    for (id, symbol) in module.symbols.iter() {
        for wrong in symbol_problems(module, symbol) {
            report.add(ProblemSite::Symbol(id), Rule::Module, wrong);
        }
    }
    source_positions(module, report);
    names(module, report);
}

fn source_positions(module: &Module, report: &mut Report) {
    for (index, loc) in module.locs.iter().enumerate() {
        if loc.file as usize >= module.files.len() {
            let message = format!("source position {index} is in file {}", loc.file);
            report.add(ProblemSite::Module, Rule::Source, message);
        }
        // A position may refer only to an earlier position, so that a chain of inlined positions has no cycle.
        if loc.inlined_at.is_some_and(|at| at as usize >= index) {
            let message = format!("source position {index} is inlined at a later one");
            report.add(ProblemSite::Module, Rule::Source, message);
        }
    }
}

fn names(module: &Module, report: &mut Report) {
    for (name, &id) in &module.by_name {
        if module.functions.get(id).is_none_or(|f| f.name != *name) {
            let message = format!("`{name}` refers to {id}, which does not have this name");
            report.add(ProblemSite::Module, Rule::Module, message);
        }
    }
    for (name, &id) in &module.symbols_by_name {
        if module.symbols.get(id).is_none_or(|s| s.name != *name) {
            let message = format!("`{name}` refers to {id}, which does not have this name");
            report.add(ProblemSite::Module, Rule::Module, message);
        }
    }
}

fn symbol_problems(module: &Module, symbol: &Symbol) -> Vec<String> {
    let mut wrong = Vec::new();
    if !matches!(
        symbol.space,
        StateSpace::Global | StateSpace::Const | StateSpace::Shared
    ) {
        wrong.push(format!("is in `{}`", symbol.space.name()));
    }
    if !symbol.align.is_power_of_two() {
        wrong.push(format!("is aligned to {}", symbol.align));
    }
    if symbol.init.len() as u64 > symbol.size {
        wrong.push("has more initial bytes than its size".into());
    }
    let unknown_owner = |id| module.functions.get(id).is_none();
    if symbol.owner.is_some_and(unknown_owner) {
        wrong.push("belongs to a function that does not exist".into());
    }
    for reloc in &symbol.relocs {
        let end = reloc.offset.checked_add(u64::from(reloc.size));
        if reloc.size > 8 || end.is_none_or(|end| end > symbol.size) {
            wrong.push(format!("has an address at {} outside of it", reloc.offset));
        }
        let known = match reloc.target {
            RelocTarget::Symbol { symbol, .. } => known_symbol(module, symbol),
            RelocTarget::Func(func) => module.functions.get(func).is_some(),
        };
        if !known {
            wrong.push(format!(
                "has the address of a missing symbol or function at {}",
                reloc.offset
            ));
        }
    }
    wrong
}

fn known_symbol(module: &Module, symbol: SymbolId) -> bool {
    module.symbols.get(symbol).is_some()
}
