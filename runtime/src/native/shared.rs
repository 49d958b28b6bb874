//! The layout of a kernel's `.shared` variables in the window of a CTA, and the addresses of all
//! variables that the kernel uses.

use std::sync::Arc;

use margay_exec::SymbolTable;
use margay_ir::entity::{Entity, FuncId, SymbolId};
use margay_ir::function::{Linkage, payload_func, payload_sreg, split_symbol_payload};
use margay_ir::module::Module;
use margay_ops::mods::StateSpace;
use margay_ops::ops::Opcode;
use margay_ops::sreg::SpecialReg;
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};

/// Offsets of the shared variables that a kernel uses.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedLayout {
    /// For each shared variable, the index of its symbol and its offset.
    pub(super) offsets: Vec<(usize, u32)>,
    /// Number of bytes of reserved memory, which begins at offset 0: 0 or [`RESERVED`].
    pub(super) reserved: u32,
    /// Number of bytes of reserved memory and of the static variables, after which dynamic shared memory begins.
    pub(super) bytes: u32,
    /// Alignment of the first byte of shared memory: the largest alignment of all variables, at
    /// least 16.
    pub(super) align: u32,
    /// Reserved memory and the static variables, in the order of their addresses.
    pub(super) variables: Vec<SharedVariable>,
}

/// Size in bytes of reserved shared memory, as on GPUs of compute capability 8.0 and newer. On such
/// GPUs, every kernel has this memory, and the variables of the kernel begin after it. In Margay,
/// only kernels that read one of the registers `%reserved_smem_offset_*` have this memory.
/// Cooperative groups of CUDA C++ read these registers for tiles of several warps.
const RESERVED: u32 = 1024;

/// A static variable in shared memory, or the reserved memory.
#[derive(Clone, Debug)]
pub(super) struct SharedVariable {
    pub(super) name: String,
    /// Offset of the variable's first byte in shared memory.
    pub(super) start: u64,
    /// Offset of the first byte after the variable's last byte.
    pub(super) end: u64,
}

/// Returns the functions that a kernel can run, sorted by ID: the kernel itself, functions that these functions call,
/// and functions whose address they take. If one of them contains an indirect call, the result also contains all
/// functions with bodies that are not kernels.
pub(super) fn reachable(module: &Module, kernel: FuncId) -> Vec<FuncId> {
    let mut seen = FxHashSet::from_iter([kernel]);
    let mut work = vec![kernel];
    let mut found = Vec::new();
    let mut through_handles = false;
    while let Some(id) = work.pop() {
        found.push(id);
        let function = &module.functions[id];
        let mut add = |id: FuncId| {
            if seen.insert(id) {
                work.push(id);
            }
        };
        for &block in function.blocks() {
            for &inst in function.insts(block) {
                let data = &function.dfg.insts[inst];
                match data.opcode {
                    Opcode::Call => add(payload_func(data.payload())),
                    Opcode::FuncAddr => {
                        let id = payload_func(data.payload());
                        // A program uses the address of a kernel only to launch the kernel.
                        if module.functions[id].kernel.is_none() {
                            add(id);
                        }
                    }
                    // An indirect call can reach any function that is not a kernel, and so can all further ones.
                    Opcode::CallIndirect if !through_handles => {
                        through_handles = true;
                        for (id, callee) in module.functions.iter() {
                            if callee.kernel.is_none() && callee.has_body() {
                                add(id);
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
    }
    found.sort_unstable();
    found
}

/// Returns the indices of the symbols that `functions` use, in ascending order.
pub(super) fn named(module: &Module, functions: &[FuncId]) -> Vec<usize> {
    let mut found = FxHashSet::default();
    for &id in functions {
        let function = &module.functions[id];
        let insts = function.blocks().iter().flat_map(|&b| function.insts(b));
        for data in insts.map(|&inst| &function.dfg.insts[inst]) {
            if data.opcode == Opcode::SymbolAddr {
                let (symbol, _) = split_symbol_payload(data.payload());
                found.insert(symbol.index());
            }
        }
    }
    let mut found: Vec<usize> = found.into_iter().collect();
    found.sort_unstable();
    found
}

/// Returns whether any of `functions` reads a register that describes reserved shared memory
/// ([`RESERVED`]).
fn reads_reserved(module: &Module, functions: &[FuncId]) -> bool {
    use SpecialReg as R;
    functions.iter().any(|&id| {
        let function = &module.functions[id];
        let insts = function.blocks().iter().flat_map(|&b| function.insts(b));
        insts.map(|&inst| &function.dfg.insts[inst]).any(|data| {
            let register = (data.opcode == Opcode::SReg).then(|| payload_sreg(data.payload()));
            matches!(
                register.flatten(),
                Some(
                    R::ReservedSmemBegin
                        | R::ReservedSmemEnd
                        | R::ReservedSmemCap
                        | R::ReservedSmem0
                        | R::ReservedSmem1
                )
            )
        })
    })
}

/// The addresses of a module's symbols in a context.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    /// The table that several kernels of the module share. A kernel that uses other offsets for shared
    /// variables than the table contains has a table of its own.
    common: SymbolTable,
    /// For each shared variable in `common`, the index of its symbol and its offset.
    placed: Mutex<FxHashMap<usize, u32>>,
    /// Address and size of each constant variable.
    pub(super) constants: Arc<[(u64, u64)]>,
    /// The handle of the function with ID 0.
    pub(super) function_base: u64,
}

impl Symbols {
    pub(super) fn new(
        addresses: Vec<u64>,
        constants: Arc<[(u64, u64)]>,
        function_base: u64,
    ) -> Symbols {
        Symbols {
            common: SymbolTable::whole(addresses),
            placed: Mutex::default(),
            constants,
            function_base,
        }
    }

    /// Returns the addresses of the symbols that the functions of a kernel use. `shared` is the
    /// layout of the kernel's shared variables. Kernels with the same offsets of their shared
    /// variables receive the same table.
    pub(super) fn of(
        &self,
        module: &Module,
        functions: &[FuncId],
        shared: &SharedLayout,
    ) -> SymbolTable {
        let mut placed = self.placed.lock();
        let mut offsets = shared.offsets.iter();
        if offsets.all(|(index, offset)| placed.get(index).is_none_or(|known| known == offset)) {
            for &(index, offset) in &shared.offsets {
                if placed.insert(index, offset).is_none() {
                    // No earlier kernel with this table uses the variable, so the table does not yet contain its
                    // offset.
                    self.common.set(index, u64::from(offset));
                }
            }
            return self.common.clone();
        }
        let named = named(module, functions).into_iter();
        let named = named.filter_map(|index| Some((index, self.common.get(SymbolId::new(index))?)));
        let shared = shared.offsets.iter();
        let shared = shared.map(|&(index, offset)| (index, u64::from(offset)));
        // The entries of shared variables are the last, so they replace the addresses of these symbols.
        SymbolTable::some(&named.chain(shared).collect::<Vec<_>>())
    }
}

/// Assigns offsets to the shared variables of `functions`, the functions that a kernel can run. If
/// one of the functions uses reserved memory, the variables begin after this memory. All `.extern`
/// variables and all variables of size 0 have the same offset, which follows the other variables.
/// After each of the other variables are at least `gap` unused bytes.
pub(super) fn layout(module: &Module, functions: &[FuncId], gap: u64) -> SharedLayout {
    let symbol = |index: usize| module.symbols.get(SymbolId::new(index));
    let is_shared = |index| symbol(index).is_some_and(|s| s.space == StateSpace::Shared);
    let mut used = named(module, functions);
    used.retain(|&index| is_shared(index));
    let mut layout = SharedLayout::default();
    let mut dynamic = Vec::new();
    if reads_reserved(module, functions) {
        layout.reserved = RESERVED;
        layout.variables.push(SharedVariable {
            name: "reserved shared memory".to_owned(),
            start: 0,
            end: RESERVED.into(),
        });
    }
    let mut end = u64::from(layout.reserved);
    layout.align = 16;
    let mut dynamic_align = 16u64;
    for index in used {
        let symbol = &module.symbols[SymbolId::new(index)];
        let align = u64::from(symbol.align.max(1));
        layout.align = layout.align.max(symbol.align);
        if symbol.linkage == Linkage::Extern || symbol.size == 0 {
            dynamic.push(index);
            dynamic_align = dynamic_align.max(align);
            continue;
        }
        let start = end.next_multiple_of(align);
        layout
            .offsets
            .push((index, u32::try_from(start).unwrap_or(u32::MAX)));
        layout.variables.push(SharedVariable {
            name: symbol.name.clone(),
            start,
            end: start.saturating_add(symbol.size),
        });
        end = start.saturating_add(symbol.size).saturating_add(gap);
    }
    if !dynamic.is_empty() {
        end = end.next_multiple_of(dynamic_align);
    }
    layout.bytes = u32::try_from(end).unwrap_or(u32::MAX);
    layout
        .offsets
        .extend(dynamic.into_iter().map(|index| (index, layout.bytes)));
    layout
}
