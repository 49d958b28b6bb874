//! The scopes of a function during lowering. A scope maps names to registers, variables and labels.

use margay_ir::builder::Variable;
use margay_ir::entity::{Block, Slot, SymbolId};
use margay_ops::types::OpType;
use rustc_hash::FxHashMap;

use crate::ast::{Id, Name, Prototype, Targets};

/// The register, variable, prototype or list of targets to which a name in a function body refers.
#[derive(Clone, Debug)]
pub(super) enum Binding {
    /// A register.
    Register(Variable),
    /// A vector register.
    Vector(Vec<Variable>),
    /// A `.param` variable whose value is in an SSA variable. This is possible because every access
    /// reads or writes the whole `.param` variable.
    Value(Variable, OpType),
    /// A variable in local memory.
    Local(Slot),
    /// A parameter that is an array. The SSA variable in the field contains the generic address of
    /// the array.
    Pointer(Variable),
    /// A parameter of the kernel. The field is the byte offset of the parameter in the buffer that
    /// contains all parameters of a launch.
    KernelParam(u32),
    /// A variable that exists as long as the module. It is declared at module scope or in a function body.
    Symbol(SymbolId),
    /// A prototype of indirect calls.
    Prototype(Id<Prototype>),
    /// A list of branch targets or call targets.
    Targets(Id<Targets>),
}

impl Binding {
    /// Creates the binding of a register with this number of elements: a scalar register (1
    /// element) or a vector register. `declare` creates the SSA variable of an element.
    pub(super) fn register(
        ty: OpType,
        elements: u32,
        mut declare: impl FnMut(OpType) -> Variable,
    ) -> Binding {
        match elements {
            1 => Binding::Register(declare(ty)),
            _ => Binding::Vector((0..elements).map(|_| declare(ty)).collect()),
        }
    }
}

/// Registers declared as a range: `%r<100>`.
#[derive(Clone, Debug)]
struct Range {
    base: Name,
    count: u64,
    ty: OpType,
    /// The number of elements of each register in the range: 1 for scalar registers, more for
    /// vector registers.
    elements: u32,
    made: FxHashMap<u64, Binding>,
}

#[derive(Clone, Debug, Default)]
struct Scope {
    parent: Option<usize>,
    names: FxHashMap<Name, Binding>,
    /// For each variable that the scope declares, the size in bytes of the variable's elements.
    elements: FxHashMap<Name, u32>,
    labels: FxHashMap<Name, Block>,
    ranges: Vec<Range>,
}

/// The scopes of a function's body. They are numbered in the order of their opening braces; the
/// outermost scope has the number 0.
#[derive(Clone, Debug)]
pub(super) struct Scopes {
    scopes: Vec<Scope>,
    current: usize,
}

impl Scopes {
    /// Creates the scopes of a function, of which only the outermost scope exists at first.
    pub(super) fn new() -> Scopes {
        Scopes {
            scopes: vec![Scope::default()],
            current: 0,
        }
    }

    /// Makes the scope with this number the current scope. Creates the scope if it does not exist,
    /// which is so only in the first pass over the function.
    pub(super) fn open(&mut self, number: usize) {
        if number == self.scopes.len() {
            self.scopes.push(Scope {
                parent: Some(self.current),
                ..Scope::default()
            });
        }
        self.current = number;
    }

    /// Makes the scope that encloses the current scope the current scope.
    pub(super) fn close(&mut self) {
        self.current = self.scopes[self.current].parent.unwrap_or(0);
    }

    /// Makes the outermost scope the current scope, before another pass over the function.
    pub(super) fn restart(&mut self) {
        self.current = 0;
    }

    pub(super) fn bind(&mut self, name: Name, binding: Binding) {
        self.scopes[self.current].names.insert(name, binding);
    }

    /// Records the element size in bytes of a variable in the current scope.
    pub(super) fn note_element(&mut self, name: Name, bytes: u32) {
        self.scopes[self.current].elements.insert(name, bytes);
    }

    /// Returns the size in bytes of the elements of the variable to which `name` refers in the
    /// current scope.
    pub(super) fn element_bytes(&self, name: Name) -> Option<u32> {
        let scope = self.up().find(|scope| scope.names.contains_key(&name))?;
        scope.elements.get(&name).copied()
    }

    pub(super) fn bind_range(&mut self, base: Name, count: u64, ty: OpType, elements: u32) {
        let range = Range {
            base,
            count,
            ty,
            elements,
            made: FxHashMap::default(),
        };
        self.scopes[self.current].ranges.push(range);
    }

    pub(super) fn bind_label(&mut self, name: Name, block: Block) {
        self.scopes[self.current].labels.insert(name, block);
    }

    /// Returns the basic block of the label with this name in the current scope or an enclosing
    /// scope.
    pub(super) fn label(&self, name: Name) -> Option<Block> {
        self.up().find_map(|scope| scope.labels.get(&name).copied())
    }

    /// Returns the binding of a name in the innermost scope that declares the name. `split` returns the base and
    /// trailing number of the name, because the name can be a member of a register range. On the first use of such a
    /// register, `declare` creates an SSA variable for each of its elements.
    pub(super) fn find(
        &mut self,
        name: Name,
        split: impl Fn() -> Option<(Name, u64)>,
        declare: impl FnMut(OpType) -> Variable,
    ) -> Option<Binding> {
        let mut at = Some(self.current);
        let mut parts = None;
        while let Some(index) = at {
            if let Some(binding) = self.scopes[index].names.get(&name) {
                return Some(binding.clone());
            }
            if !self.scopes[index].ranges.is_empty()
                && let Some((base, number)) = *parts.get_or_insert_with(&split)
            {
                let ranges = &mut self.scopes[index].ranges;
                let range = ranges
                    .iter_mut()
                    .find(|r| r.base == base && number < r.count);
                if let Some(range) = range {
                    let (ty, elements) = (range.ty, range.elements);
                    let made = range.made.entry(number);
                    let binding = made.or_insert_with(|| Binding::register(ty, elements, declare));
                    let binding = binding.clone();
                    self.scopes[index].names.insert(name, binding.clone());
                    return Some(binding);
                }
            }
            at = self.scopes[index].parent;
        }
        None
    }

    fn up(&self) -> impl Iterator<Item = &Scope> {
        let mut at = Some(self.current);
        std::iter::from_fn(move || {
            let scope = &self.scopes[at?];
            at = scope.parent;
            Some(scope)
        })
    }
}
