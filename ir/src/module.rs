//! Modules: variables, functions, signatures, source files.

use rustc_hash::FxHashMap;

use crate::entity::{FuncId, PrimaryMap, SigId, SymbolId};
use crate::function::{Function, Linkage, Signature};
use margay_ops::mods::StateSpace;
use margay_ops::texture::Reference;

/// What an address in an initialiser refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RelocTarget {
    /// Address of a variable (generic address when `generic`, else in its own space).
    Symbol {
        /// The variable.
        symbol: SymbolId,
        /// Whether the generic address was asked for.
        generic: bool,
    },
    /// Handle of a function, as `call.indirect` takes it.
    Func(FuncId),
}

/// An address inside a variable's initial bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reloc {
    /// Byte offset in the variable.
    pub offset: u64,
    /// Bytes written.
    pub size: u8,
    /// Right shift applied to the address before it is truncated (byte masks).
    pub shift: u8,
    /// What is addressed.
    pub target: RelocTarget,
    /// Added to the address.
    pub addend: i64,
}

/// A module-scope variable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Symbol {
    /// Name in the source.
    pub name: String,
    /// `Global`, `Const` or `Shared`.
    pub space: StateSpace,
    /// Bytes; 0 for an unsized extern array.
    pub size: u64,
    /// Alignment, a power of two.
    pub align: u32,
    /// Initial bytes; shorter than `size` means zeros follow.
    pub init: Vec<u8>,
    /// Addresses to fill in.
    pub relocs: Vec<Reloc>,
    /// Linkage.
    pub linkage: Linkage,
    /// `.attribute(.managed)`.
    pub managed: bool,
    /// For `.shared`: the function it was declared in, if any.
    pub owner: Option<FuncId>,
    /// What it refers to, if its type is opaque: its address is then a handle.
    pub reference: Option<Reference>,
}

/// A source position named by `.loc`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loc {
    /// Index into [`Module::files`].
    pub file: u32,
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
    /// Position of the call this was inlined at: index into [`Module::locs`].
    pub inlined_at: Option<u32>,
}

/// A target architecture.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Target {
    /// `sm_XX` number: 80 for `sm_80`.
    pub sm: u32,
    /// Suffix: 0, `b'a'` or `b'f'`.
    pub suffix: u8,
    /// `.target ... debug`.
    pub debug: bool,
}

/// A module: what one PTX text defines.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// `.version`.
    pub version: (u32, u32),
    /// `.target`.
    pub target: Target,
    /// Variables.
    pub symbols: PrimaryMap<SymbolId, Symbol>,
    /// Functions and kernels.
    pub functions: PrimaryMap<FuncId, Function>,
    /// Signatures of indirect calls.
    pub signatures: PrimaryMap<SigId, Signature>,
    /// Source file names.
    pub files: Vec<String>,
    /// Source positions.
    pub locs: Vec<Loc>,
    /// Functions by name.
    pub by_name: FxHashMap<String, FuncId>,
    /// Variables by name (module scope only).
    pub symbols_by_name: FxHashMap<String, SymbolId>,
}

impl Module {
    /// Adds a function and enters its name.
    pub fn add_function(&mut self, function: Function) -> FuncId {
        let name = function.name.clone();
        let id = self.functions.push(function);
        self.by_name.insert(name, id);
        id
    }

    /// Adds a variable and enters its name.
    pub fn add_symbol(&mut self, symbol: Symbol) -> SymbolId {
        let name = symbol.name.clone();
        let id = self.symbols.push(symbol);
        self.symbols_by_name.insert(name, id);
        id
    }

    /// The variables with their initial contents, which the module loses: they are needed once, where variables
    /// are given their places.
    pub fn take_contents(&mut self) -> PrimaryMap<SymbolId, Symbol> {
        let mut taken = PrimaryMap::default();
        for symbol in self.symbols.values_mut() {
            let (init, relocs) = (
                std::mem::take(&mut symbol.init),
                std::mem::take(&mut symbol.relocs),
            );
            taken.push(Symbol {
                init,
                relocs,
                ..symbol.clone()
            });
        }
        taken
    }

    /// The kernel of that name.
    pub fn kernel(&self, name: &str) -> Option<FuncId> {
        let id = *self.by_name.get(name)?;
        self.functions[id].kernel.is_some().then_some(id)
    }

    /// Kernels in order of definition.
    pub fn kernels(&self) -> impl Iterator<Item = (FuncId, &Function)> {
        self.functions
            .iter()
            .filter(|(_, function)| function.kernel.is_some())
    }
}
