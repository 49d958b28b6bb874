//! Finds the functions whose address a module uses.

use margay_frontend::ast::{
    Function, Initializer, InitializerKind, List, Module, Name, Operand, OperandKind, Statement,
};
use rustc_hash::FxHashMap;

/// Returns the names in operands and initialisers, with the byte offset of one use.
pub(super) fn addresses(module: &Module) -> FxHashMap<Name, u32> {
    let kernels: FxHashMap<Name, ()> = module
        .functions()
        .filter(|(_, function)| is_kernel(function))
        .map(|(_, function)| (function.name.name, ()))
        .collect();
    let mut found = FxHashMap::default();
    for (_, function) in module.functions() {
        let statements = function.body.map(|body| &module[body]).unwrap_or_default();
        for statement in statements {
            match statement {
                Statement::Instruction(instruction) => {
                    operands(module, instruction.operands, &mut found)
                }
                Statement::Variable(id) => {
                    initializer(
                        module,
                        module[*id].initializer.map(|id| module[id]),
                        &mut found,
                    );
                }
                _ => {}
            }
        }
    }
    for (_, variable) in module.variables() {
        initializer(
            module,
            variable.initializer.map(|id| module[id]),
            &mut found,
        );
    }
    found.retain(|name, _| kernels.contains_key(name));
    found
}

fn is_kernel(function: &Function) -> bool {
    function.kind == margay_frontend::ast::FunctionKind::Entry
}

fn operands(module: &Module, list: List<Operand>, found: &mut FxHashMap<Name, u32>) {
    for operand in &module[list] {
        match operand.kind {
            OperandKind::Name(name) | OperandKind::Offset { base: name, .. } => {
                found.insert(name, operand.span.start);
            }
            OperandKind::Vector(list) | OperandKind::Group(list) => operands(module, list, found),
            _ => {}
        }
    }
}

fn initializer(module: &Module, value: Option<Initializer>, found: &mut FxHashMap<Name, u32>) {
    let mut rest: Vec<Initializer> = value.into_iter().collect();
    while let Some(value) = rest.pop() {
        match value.kind {
            InitializerKind::Address { name, .. } => {
                found.insert(name, value.span.start);
            }
            InitializerKind::List(list) => rest.extend(module.values(list)),
            _ => {}
        }
    }
}
