//! Functions: data-flow graph, layout and local-memory slots.
//!
//! Functions are in SSA form with block parameters. The data of an instruction is 16 bytes long (a test checks this);
//! the operands are stored in a pool. [`Layout`] holds the order of the blocks and of the instructions in each block,
//! separately from the instruction data.
//!
//! Invariants:
//!
//! - Every block ends with exactly one terminator and contains no other terminator.
//! - A value is defined once, and its definition dominates its uses.
//! - The entry block is the first block, and no branch leads to it.
//! - A branch passes one argument, of the same type, for each parameter of its target.

use std::hash::{Hash, Hasher};

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::entity::{
    Block, FuncId, Inst, List, ListPool, PrimaryMap, SecondaryMap, SigId, Slot, SymbolId, Value,
};
use margay_ops::meaning::Desc;
use margay_ops::mods::Mods;
use margay_ops::ops::{Effects, Opcode};
use margay_ops::sreg::SpecialReg;
use margay_ops::types::{OpType, Type};

/// An instruction without its results: 16 bytes.
#[derive(Clone, Copy, Hash, Debug, Serialize, Deserialize)]
pub struct InstData {
    /// The op.
    pub opcode: Opcode,
    /// The type of the op. For an op with two types, the first type, such as the result type of a conversion.
    pub ty: OpType,
    /// The second type of an op with two types, such as the source type of a conversion.
    pub src: OpType,
    /// The operands of the instruction.
    pub args: List,
    /// The modifiers of the op; for an op whose effects contain `PAYLOAD`, the payload.
    pub mods: Mods,
}

impl InstData {
    /// Returns the op, the types and the modifiers of the instruction.
    pub fn desc(&self) -> Desc {
        Desc {
            opcode: self.opcode,
            ty: self.ty,
            src: self.src,
            mods: self.mods,
        }
    }

    /// Returns the payload, which is valid only for an op whose effects contain `PAYLOAD`.
    pub fn payload(&self) -> u64 {
        self.mods.0
    }
}

/// How a value is defined.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum ValueDef {
    /// A result of an instruction; the second field is its index among the results of the
    /// instruction.
    Result(Inst, u16),
    /// A parameter of a block; the second field is its index among the parameters of the block.
    Param(Block, u16),
    /// An alias of another value. [`Dfg::resolve`] follows aliases to a value that is not an alias.
    Alias(Value),
    /// The value is not defined yet. This variant occurs only while a function is built.
    Pending,
}

/// Type and definition of a value.
#[derive(Clone, Copy, Hash, Debug, Serialize, Deserialize)]
pub struct ValueData {
    /// The type of the value.
    pub ty: Type,
    /// How the value is defined.
    pub def: ValueDef,
}

/// A branch target with the arguments for its parameters.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct BlockCall {
    /// The target block.
    pub block: Block,
    /// One argument for each parameter of the target block.
    pub args: SmallVec<[Value; 4]>,
}

impl BlockCall {
    /// Creates a branch target without arguments.
    pub fn to(block: Block) -> BlockCall {
        BlockCall {
            block,
            args: SmallVec::new(),
        }
    }
}

/// Source position of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct SourceLoc {
    /// Line of the instruction in the PTX text, counted from 1; 0 if the line is unknown.
    pub ptx_line: u32,
    /// Index of the instruction's source position in [`crate::module::Module::locs`] plus 1; 0 if
    /// no `.loc` states a source position.
    pub loc: u32,
}

impl SourceLoc {
    /// Packs the position: the PTX line in the low half, the index of the `.loc` in the high half.
    #[inline]
    pub fn to_bits(self) -> u64 {
        u64::from(self.ptx_line) | u64::from(self.loc) << 32
    }

    /// Returns the position that [`SourceLoc::to_bits`] has packed.
    #[inline]
    pub fn from_bits(bits: u64) -> SourceLoc {
        SourceLoc {
            ptx_line: bits as u32,
            loc: (bits >> 32) as u32,
        }
    }
}

/// Parameters of a block.
#[derive(Clone, Hash, Debug, Default, Serialize, Deserialize)]
pub struct BlockData {
    /// The parameters of the block, in order.
    pub params: Vec<Value>,
}

/// The data-flow graph: instructions, values and blocks. [`Layout`] holds their order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Dfg {
    /// Instructions.
    pub insts: PrimaryMap<Inst, InstData>,
    /// Values.
    pub values: PrimaryMap<Value, ValueData>,
    /// Blocks.
    pub blocks: PrimaryMap<Block, BlockData>,
    /// Operand lists.
    pub pool: ListPool,
    /// Result lists.
    pub results: SecondaryMap<Inst, List>,
    /// The branch targets of each terminator that has targets.
    pub targets: FxHashMap<Inst, SmallVec<[BlockCall; 2]>>,
    /// Source positions.
    pub locs: SecondaryMap<Inst, SourceLoc>,
}

impl Hash for Dfg {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Dfg {
            insts,
            values,
            blocks,
            pool,
            results,
            targets,
            locs,
        } = self;
        (insts, values, blocks, pool, results, locs).hash(state);
        // Sorted, because the iteration order of the map differs between processes.
        let mut targets: Vec<_> = targets.iter().collect();
        targets.sort_unstable_by_key(|&(inst, _)| *inst);
        targets.hash(state);
    }
}

impl Dfg {
    /// Creates an instruction with new results of the given types. The instruction is not in the layout yet.
    pub fn make_inst(&mut self, desc: Desc, args: &[Value], results: &[Type]) -> Inst {
        let args = self.pool.push(args);
        let inst = self.insts.push(InstData {
            opcode: desc.opcode,
            ty: desc.ty,
            src: desc.src,
            args,
            mods: desc.mods,
        });
        let values: SmallVec<[Value; 4]> = results
            .iter()
            .enumerate()
            .map(|(i, &ty)| {
                self.values.push(ValueData {
                    ty,
                    def: ValueDef::Result(inst, i as u16),
                })
            })
            .collect();
        self.results[inst] = self.pool.push(&values);
        inst
    }

    /// Adds a parameter to a block and returns its value.
    pub fn append_param(&mut self, block: Block, ty: Type) -> Value {
        let number = self.blocks[block].params.len() as u16;
        let value = self.values.push(ValueData {
            ty,
            def: ValueDef::Param(block, number),
        });
        self.blocks[block].params.push(value);
        value
    }

    /// Returns the operands of an instruction.
    pub fn args(&self, inst: Inst) -> &[Value] {
        self.pool.get(self.insts[inst].args)
    }

    /// Returns the results of an instruction.
    pub fn results(&self, inst: Inst) -> &[Value] {
        self.pool.get(self.results[inst])
    }

    /// Returns the branch targets of a terminator; empty for other instructions.
    pub fn targets(&self, inst: Inst) -> &[BlockCall] {
        self.targets
            .get(&inst)
            .map_or(&[], |calls| calls.as_slice())
    }

    /// Returns the type of a value.
    pub fn ty(&self, value: Value) -> Type {
        self.values[value].ty
    }

    /// Follows the aliases of a value and returns the value at the end of the chain.
    pub fn resolve(&self, value: Value) -> Value {
        resolve(&self.values, value)
    }

    /// Returns the same value as [`Dfg::resolve`], and makes every alias on the chain refer directly to that value, so
    /// that resolving all values of a function takes linear time.
    pub fn resolve_and_shorten(&mut self, value: Value) -> Value {
        resolve_and_shorten(&mut self.values, value)
    }

    /// Replaces each aliased operand of an instruction by the value to which the alias resolves.
    pub fn resolve_args(&mut self, inst: Inst) {
        let list = self.insts[inst].args;
        for i in 0..self.pool.get(list).len() {
            let value = self.resolve_and_shorten(self.pool.get(list)[i]);
            self.pool.get_mut(list)[i] = value;
        }
    }

    /// Returns the instruction that defines a value; `None` if the value is not a result of an instruction.
    pub fn def_inst(&self, value: Value) -> Option<Inst> {
        match self.values[value].def {
            ValueDef::Result(inst, _) => Some(inst),
            _ => None,
        }
    }

    /// Returns the payload of the `const` that defines a value; `None` if no `const` defines it.
    pub fn constant(&self, value: Value) -> Option<u64> {
        let inst = self.def_inst(value)?;
        let data = &self.insts[inst];
        (data.opcode == Opcode::Const).then(|| data.payload())
    }
}

/// The order of the blocks, and of the instructions in each block.
#[derive(Clone, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Layout {
    /// The blocks in order; the first is the entry block.
    pub order: Vec<Block>,
    /// The instructions of each block, in order.
    pub insts: SecondaryMap<Block, Vec<Inst>>,
    /// Whether sync points are numbered in the order of the blocks in the layout. If not, sync
    /// points are numbered in reverse postorder. The flag is set after functions were merged into a
    /// kernel, because reverse postorder could place a merged function after all its calls.
    pub in_program_order: bool,
}

impl Layout {
    /// Returns the last instruction of a block.
    pub fn terminator(&self, block: Block) -> Option<Inst> {
        self.insts[block].last().copied()
    }
}

/// A slot: a part of a thread's local memory.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct SlotData {
    /// Name of the slot in the PTX text; may be empty.
    pub name: String,
    /// Size in bytes.
    pub size: u32,
    /// Alignment of the slot in bytes, a power of two.
    pub align: u32,
}

/// The types of the parameters and results of a function.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Signature {
    /// Types of the parameters. If PTX declares a parameter as a byte array, the caller copies the
    /// argument and passes the generic address of the copy.
    pub params: Vec<Type>,
    /// Types of the results. If PTX declares a result as a byte array, the function has an
    /// additional first parameter instead of the result: the address to which the function writes
    /// the array.
    pub returns: Vec<Type>,
}

/// One parameter of a kernel.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct KernelParam {
    /// Name of the parameter in the PTX text.
    pub name: String,
    /// Offset in bytes of the parameter in the kernel's parameter buffer.
    pub offset: u32,
    /// Size in bytes.
    pub size: u32,
    /// Alignment in bytes.
    pub align: u32,
}

/// The data of a kernel that other functions do not have.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct KernelData {
    /// Parameters in order.
    pub params: Vec<KernelParam>,
    /// Size in bytes of the kernel's parameter buffer.
    pub param_bytes: u32,
    /// `.maxntid`, if given.
    pub maxntid: Option<[u32; 3]>,
    /// `.reqntid`, if given.
    pub reqntid: Option<[u32; 3]>,
    /// `.minnctapersm`, if given.
    pub minnctapersm: Option<u32>,
    /// `.maxnreg`, if given.
    pub maxnreg: Option<u32>,
    /// `.reqnctapercluster`, if given.
    pub cluster: Option<[u32; 3]>,
    /// `.maxclusterrank`, if given.
    pub maxclusterrank: Option<u32>,
    /// Whether the kernel has `.blocksareclusters`.
    pub blocksareclusters: bool,
}

/// The visibility of a function or variable in other modules.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub enum Linkage {
    /// The function or variable is visible in this module only.
    #[default]
    Internal,
    /// The function or variable is defined in this module and visible in other modules.
    Visible,
    /// The function or variable is defined in another module.
    Extern,
    /// The function or variable is defined in this module, unless another module has a stronger
    /// definition.
    Weak,
    /// Declared with `.common`.
    Common,
}

/// A function or kernel.
#[derive(Clone, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Function {
    /// Name of the function in the PTX text.
    pub name: String,
    /// Linkage.
    pub linkage: Linkage,
    /// The data of a kernel; `None` for a `.func`.
    pub kernel: Option<KernelData>,
    /// Types of the function's parameters and results; empty for a kernel.
    pub signature: Signature,
    /// Data-flow graph.
    pub dfg: Dfg,
    /// The order of the blocks, and of the instructions in each block.
    pub layout: Layout,
    /// Local-memory slots.
    pub slots: PrimaryMap<Slot, SlotData>,
    /// The reasons why the body cannot run: unsupported instructions and exceeded limits. Each has
    /// a PTX line and the name of the instruction or limit. Empty if the whole body was lowered.
    pub unsupported: Vec<(u32, String)>,
    /// Number of registers that the PTX text declares, for queries of function attributes.
    pub declared_registers: u32,
}

impl Function {
    /// Returns whether the function has a body.
    pub fn has_body(&self) -> bool {
        !self.layout.order.is_empty()
    }

    /// Returns the entry block. Panics if the function has no body.
    pub fn entry(&self) -> Block {
        self.layout.order[0]
    }

    /// Returns the blocks in layout order.
    pub fn blocks(&self) -> &[Block] {
        &self.layout.order
    }

    /// Returns the instructions of a block.
    pub fn insts(&self, block: Block) -> &[Inst] {
        &self.layout.insts[block]
    }

    /// Returns the branch targets of a block's terminator.
    pub fn successors(&self, block: Block) -> &[BlockCall] {
        self.layout
            .terminator(block)
            .map_or(&[], |inst| self.dfg.targets(inst))
    }

    /// Returns the effects of an instruction.
    pub fn effects(&self, inst: Inst) -> Effects {
        self.dfg.insts[inst].opcode.effects()
    }

    /// Returns whether the function contains an instruction with one of these effects.
    pub fn has_effects(&self, effects: Effects) -> bool {
        let mut insts = self.blocks().iter().flat_map(|&block| self.insts(block));
        insts.any(|&inst| self.effects(inst).intersects(effects))
    }

    /// Creates a block at the end of the layout.
    pub fn append_block(&mut self) -> Block {
        let block = self.dfg.blocks.push(BlockData::default());
        self.layout.order.push(block);
        block
    }

    /// Appends an instruction to a block.
    pub fn append_inst(&mut self, block: Block, inst: Inst) {
        self.layout.insts[block].push(inst);
    }

    /// Returns the values that instructions have as operands or pass to blocks.
    pub fn used_values(&self) -> SecondaryMap<Value, bool> {
        let mut used = SecondaryMap::default();
        for &inst in self.blocks().iter().flat_map(|&b| self.insts(b)) {
            let passed = self.dfg.targets(inst).iter().flat_map(|call| &call.args);
            for &value in self.dfg.args(inst).iter().chain(passed) {
                used[self.dfg.resolve(value)] = true;
            }
        }
        used
    }
}

/// Follows the aliases of a value and returns the value at the end of the chain.
pub fn resolve(values: &PrimaryMap<Value, ValueData>, mut value: Value) -> Value {
    while let ValueDef::Alias(of) = values[value].def {
        value = of;
    }
    value
}

/// Returns the same value as [`resolve`], and makes every alias on the chain refer directly to that value, so that
/// resolving all values of a function takes linear time.
pub fn resolve_and_shorten(values: &mut PrimaryMap<Value, ValueData>, value: Value) -> Value {
    let end = resolve(values, value);
    let mut at = value;
    while let ValueDef::Alias(of) = values[at].def {
        values[at].def = ValueDef::Alias(end);
        at = of;
    }
    end
}

/// Returns the payload of a `symbol.addr` with this symbol and this addend in bytes.
pub fn symbol_payload(symbol: SymbolId, addend: i32) -> u64 {
    u64::from(symbol.0) | u64::from(addend as u32) << 32
}

/// Returns the symbol and the addend of a `symbol.addr` payload.
pub fn split_symbol_payload(payload: u64) -> (SymbolId, i32) {
    (SymbolId(payload as u32), (payload >> 32) as i32)
}

/// Returns the function to which the payload of a `call` or `func.addr` refers.
pub fn payload_func(payload: u64) -> FuncId {
    FuncId(payload as u32)
}

/// Returns the signature to which the payload of a `call.indirect` refers.
pub fn payload_sig(payload: u64) -> SigId {
    SigId(payload as u32)
}

/// Returns the slot to which the payload of a `local.addr` refers.
pub fn payload_slot(payload: u64) -> Slot {
    Slot(payload as u32)
}

/// Returns the special register to which the payload of a `sreg` or `clock` refers.
pub fn payload_sreg(payload: u64) -> Option<SpecialReg> {
    SpecialReg::from_index(payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instruction_data_is_sixteen_bytes() {
        assert_eq!(std::mem::size_of::<InstData>(), 16);
    }

    #[test]
    fn symbol_payload_keeps_negative_addends() {
        assert_eq!(
            split_symbol_payload(symbol_payload(SymbolId(7), -12)),
            (SymbolId(7), -12)
        );
    }
}
