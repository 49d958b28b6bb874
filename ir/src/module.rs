//! Modules: variables, functions, signatures, source files.

use rustc_hash::FxHashMap;

use crate::entity::{FuncId, PrimaryMap, SigId, SymbolId};
use crate::function::{Function, Linkage, Signature, SourceLoc};
use margay_ops::mods::StateSpace;
use margay_ops::texture::Reference;

/// The function or variable whose address an initialiser contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RelocTarget {
    /// Address of a variable: the generic address if `generic` is set, otherwise the address in the variable's
    /// space.
    Symbol {
        /// The variable.
        symbol: SymbolId,
        /// Whether the initialiser contains the generic address.
        generic: bool,
    },
    /// Handle of a function; a `call.indirect` takes such a handle as an operand.
    Func(FuncId),
}

/// An address that is part of a variable's initial bytes, and is known only when the module is loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reloc {
    /// Offset in bytes of the address in the variable.
    pub offset: u64,
    /// Number of bytes of the variable that the address occupies.
    pub size: u8,
    /// Number of bits by which the address is shifted right before it is truncated to `size` bytes. The shift
    /// implements the mask operators of PTX initialisers, such as `0xff00(variable)`.
    pub shift: u8,
    /// The function or variable whose address is written.
    pub target: RelocTarget,
    /// Number of bytes that are added to the address of the target.
    pub addend: i64,
}

/// A variable at module scope, or a `.shared` variable that a function declares.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Symbol {
    /// Name of the variable in the PTX text.
    pub name: String,
    /// State space of the variable: `Global`, `Const` or `Shared`.
    pub space: StateSpace,
    /// Size of the variable in bytes; 0 for an extern array without a size.
    pub size: u64,
    /// Alignment of the variable in bytes, a power of two.
    pub align: u32,
    /// Initial bytes of the variable. If there are fewer than `size` bytes, the remaining bytes are
    /// zero.
    pub init: Vec<u8>,
    /// The addresses to write into the initial bytes when the module is loaded.
    pub relocs: Vec<Reloc>,
    /// Linkage.
    pub linkage: Linkage,
    /// Whether the variable has `.attribute(.managed)`.
    pub managed: bool,
    /// The function that declares the variable; `None` for a variable at module scope.
    pub owner: Option<FuncId>,
    /// Kind and declared properties of a texture, sampler or surface reference; `None` for other variables. The address
    /// of such a variable is a handle of the texture, sampler or surface.
    pub reference: Option<Reference>,
}

impl Symbol {
    /// Returns whether another module must define the variable. This is false for an external variable in shared
    /// memory, which is the dynamic shared memory of a launch.
    pub fn is_undefined(&self) -> bool {
        self.linkage == Linkage::Extern && self.space != StateSpace::Shared
    }
}

/// A source position that a `.loc` directive of the PTX text states.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loc {
    /// Index of the source file in [`Module::files`].
    pub file: u32,
    /// Line in the source file.
    pub line: u32,
    /// Column.
    pub column: u32,
    /// For a position in inlined code: the position of the inlined call, as an index into
    /// [`Module::locs`]. `None` for other positions.
    pub inlined_at: Option<u32>,
}

/// A target architecture.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Target {
    /// Number of the target architecture `sm_XX`: 80 for `sm_80`.
    pub sm: u32,
    /// Suffix of the target architecture: 0 for none, `b'a'` or `b'f'`.
    pub suffix: u8,
    /// Whether the `.target` directive contains `debug`.
    pub debug: bool,
}

/// An instruction of the PTX text.
#[derive(Clone, Debug)]
pub struct TextInstruction {
    /// The opcode with its modifiers, such as `fma.rn.f32`.
    pub opcode: Box<str>,
    /// The position in the source.
    pub loc: SourceLoc,
    /// The operands, in the order of the text.
    pub operands: Box<[TextOperand]>,
}

/// An operand of an instruction of the PTX text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextOperand {
    /// The kind of the operand.
    pub kind: TextOperandKind,
    /// Whether the instruction writes the operand.
    pub is_written: bool,
    /// The registers that the operand names, in the order of the text. Each is a number that identifies the register
    /// in its function, and the register's number of bits. A predicate has 1 bit.
    pub registers: Box<[(u32, u32)]>,
}

/// The kind of an operand of an instruction of the PTX text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TextOperandKind {
    /// A register, or two registers that are joined by a bar.
    Register,
    /// A list of registers and constants in braces.
    Vector,
    /// An address in brackets. The registers are those from which the address is computed.
    Address,
    /// A special register, such as `%tid.x`.
    Special(Box<str>),
    /// A number, as 64 bits.
    Constant(u64),
    /// Anything else: the name of a variable, a label or a function, a list in parentheses, or `_`.
    Other,
}

/// A module: the variables and functions of one PTX text.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// Major and minor number of the PTX version (`.version`).
    pub version: (u32, u32),
    /// The target architecture (`.target`).
    pub target: Target,
    /// Variables.
    pub symbols: PrimaryMap<SymbolId, Symbol>,
    /// Functions and kernels.
    pub functions: PrimaryMap<FuncId, Function>,
    /// The signatures of the indirect calls of the module's functions.
    pub signatures: PrimaryMap<SigId, Signature>,
    /// Source file names.
    pub files: Vec<String>,
    /// Source positions.
    pub locs: Vec<Loc>,
    /// The PTX instructions of a function, in the order of the text. Only functions that were lowered for tools that
    /// observe instructions have an entry.
    pub instructions: FxHashMap<FuncId, Vec<TextInstruction>>,
    /// The functions by name.
    pub by_name: FxHashMap<String, FuncId>,
    /// The variables at module scope by name.
    pub symbols_by_name: FxHashMap<String, SymbolId>,
}

impl Module {
    /// Adds a function and records its name.
    pub fn add_function(&mut self, function: Function) -> FuncId {
        let name = function.name.clone();
        let id = self.functions.push(function);
        self.by_name.insert(name, id);
        id
    }

    /// Adds a variable and records its name.
    pub fn add_symbol(&mut self, symbol: Symbol) -> SymbolId {
        let name = symbol.name.clone();
        let id = self.symbols.push(symbol);
        self.symbols_by_name.insert(name, id);
        id
    }

    /// Moves the initial contents of the variables out of the module, and returns all variables with their contents.
    /// The module does not need to keep the contents, because they are used only once, when memory is allocated for the
    /// variables.
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

    /// Returns the kernel with this name.
    pub fn kernel(&self, name: &str) -> Option<FuncId> {
        let id = *self.by_name.get(name)?;
        self.functions[id].kernel.is_some().then_some(id)
    }

    /// Returns the kernels in order of definition.
    pub fn kernels(&self) -> impl Iterator<Item = (FuncId, &Function)> {
        self.functions
            .iter()
            .filter(|(_, function)| function.kernel.is_some())
    }
}
