//! Functions: data-flow graph, layout, local slots.
//!
//! SSA with block parameters. Instruction data is 16 bytes (a test pins it) with operands in a
//! pool; the order of blocks and of instructions in them ([`Layout`]) is apart from the data.
//! Invariants: every block ends with exactly one terminator and holds
//! no other; a value is defined once and its definition dominates its uses; the entry block is first
//! and nobody's target; a block call passes as many arguments, of the same types, as the target has
//! parameters.

use std::hash::{Hash, Hasher};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::entity::{
    Block, FuncId, Inst, List, ListPool, PrimaryMap, SecondaryMap, SigId, Slot, SymbolId, Value,
};
use margay_ops::meaning::Desc;
use margay_ops::mods::Mods;
use margay_ops::ops::{Effects, Opcode};
use margay_ops::sreg::SpecialReg;
use margay_ops::types::{OpType, Type};

/// One instruction without its results: 16 bytes.
#[derive(Clone, Copy, Hash, Debug)]
pub struct InstData {
    /// The op.
    pub opcode: Opcode,
    /// (First) type.
    pub ty: OpType,
    /// Second type.
    pub src: OpType,
    /// Operands.
    pub args: List,
    /// Modifiers or payload.
    pub mods: Mods,
}

impl InstData {
    /// The instruction without its operands.
    pub fn desc(&self) -> Desc {
        Desc {
            opcode: self.opcode,
            ty: self.ty,
            src: self.src,
            mods: self.mods,
        }
    }

    /// The payload of a structural op.
    pub fn payload(&self) -> u64 {
        self.mods.0
    }
}

/// Where a value comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ValueDef {
    /// Result number of an instruction.
    Result(Inst, u16),
    /// Parameter number of a block.
    Param(Block, u16),
    /// Replaced by another value (resolved by [`Dfg::resolve`]).
    Alias(Value),
    /// Not defined (yet): only while a function is built.
    Pending,
}

/// Type and origin of a value.
#[derive(Clone, Copy, Hash, Debug)]
pub struct ValueData {
    /// Type.
    pub ty: Type,
    /// Origin.
    pub def: ValueDef,
}

/// A branch target with the arguments for its parameters.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct BlockCall {
    /// Target.
    pub block: Block,
    /// One argument for each parameter.
    pub args: SmallVec<[Value; 4]>,
}

impl BlockCall {
    /// A call without arguments.
    pub fn to(block: Block) -> BlockCall {
        BlockCall {
            block,
            args: SmallVec::new(),
        }
    }
}

/// Source position of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct SourceLoc {
    /// Line in the PTX text, from 1; 0 when unknown.
    pub ptx_line: u32,
    /// Index into [`crate::module::Module::locs`] plus 1; 0 when there is no `.loc`.
    pub loc: u32,
}

/// Parameters of a block.
#[derive(Clone, Hash, Debug, Default)]
pub struct BlockData {
    /// Parameters.
    pub params: Vec<Value>,
}

/// The data-flow graph: instructions, values, blocks, without their order.
#[derive(Clone, Debug, Default)]
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
    /// Branch targets of terminators.
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
        // The map's own order is not the same in every process.
        let mut targets: Vec<_> = targets.iter().collect();
        targets.sort_unstable_by_key(|&(inst, _)| *inst);
        targets.hash(state);
    }
}

impl Dfg {
    /// Makes an instruction (not yet in the layout) with fresh results of the given types.
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

    /// Adds a parameter to a block.
    pub fn append_param(&mut self, block: Block, ty: Type) -> Value {
        let number = self.blocks[block].params.len() as u16;
        let value = self.values.push(ValueData {
            ty,
            def: ValueDef::Param(block, number),
        });
        self.blocks[block].params.push(value);
        value
    }

    /// Operands of an instruction.
    pub fn args(&self, inst: Inst) -> &[Value] {
        self.pool.get(self.insts[inst].args)
    }

    /// Results of an instruction.
    pub fn results(&self, inst: Inst) -> &[Value] {
        self.pool.get(self.results[inst])
    }

    /// Branch targets of a terminator; empty for other instructions.
    pub fn targets(&self, inst: Inst) -> &[BlockCall] {
        self.targets
            .get(&inst)
            .map_or(&[], |calls| calls.as_slice())
    }

    /// Type of a value.
    pub fn ty(&self, value: Value) -> Type {
        self.values[value].ty
    }

    /// Follows aliases.
    pub fn resolve(&self, mut value: Value) -> Value {
        while let ValueDef::Alias(of) = self.values[value].def {
            value = of;
        }
        value
    }

    /// As [`Dfg::resolve`]; chains of aliases on the way become short, so that resolving all values
    /// of a function takes linear time.
    pub fn resolve_and_shorten(&mut self, value: Value) -> Value {
        let end = self.resolve(value);
        let mut at = value;
        while let ValueDef::Alias(of) = self.values[at].def {
            self.values[at].def = ValueDef::Alias(end);
            at = of;
        }
        end
    }

    /// Lets an instruction name the values that stand for its operands by now.
    pub fn resolve_args(&mut self, inst: Inst) {
        let list = self.insts[inst].args;
        for i in 0..self.pool.get(list).len() {
            let value = self.resolve_and_shorten(self.pool.get(list)[i]);
            self.pool.get_mut(list)[i] = value;
        }
    }

    /// The instruction that defines a value, if one does.
    pub fn def_inst(&self, value: Value) -> Option<Inst> {
        match self.values[value].def {
            ValueDef::Result(inst, _) => Some(inst),
            _ => None,
        }
    }

    /// The payload of the `const` that defines a value, if one does.
    pub fn constant(&self, value: Value) -> Option<u64> {
        let inst = self.def_inst(value)?;
        let data = &self.insts[inst];
        (data.opcode == Opcode::Const).then(|| data.payload())
    }
}

/// Order of blocks and of instructions in them.
#[derive(Clone, Hash, Debug, Default)]
pub struct Layout {
    /// Blocks; the first is the entry.
    pub order: Vec<Block>,
    /// Instructions of each block.
    pub insts: SecondaryMap<Block, Vec<Inst>>,
}

impl Layout {
    /// The last instruction of a block.
    pub fn terminator(&self, block: Block) -> Option<Inst> {
        self.insts[block].last().copied()
    }
}

/// A piece of a thread's local memory.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SlotData {
    /// Name in the source, or empty.
    pub name: String,
    /// Bytes.
    pub size: u32,
    /// Alignment in bytes, a power of two.
    pub align: u32,
}

/// Types of parameters and results of a function.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Signature {
    /// Parameters. A byte array is passed as the generic address of the caller's copy.
    pub params: Vec<Type>,
    /// Results. A returned byte array is an extra leading parameter: the address it is written to.
    pub returns: Vec<Type>,
}

/// One parameter of a kernel.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct KernelParam {
    /// Name in the source.
    pub name: String,
    /// Offset in the parameter buffer.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
    /// Alignment.
    pub align: u32,
}

/// What only kernels have.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct KernelData {
    /// Parameters in order.
    pub params: Vec<KernelParam>,
    /// Bytes of the parameter buffer.
    pub param_bytes: u32,
    /// `.maxntid`, if given.
    pub maxntid: Option<[u32; 3]>,
    /// `.reqntid`, if given.
    pub reqntid: Option<[u32; 3]>,
    /// `.minnctapersm`.
    pub minnctapersm: Option<u32>,
    /// `.maxnreg`.
    pub maxnreg: Option<u32>,
    /// `.reqnctapercluster`.
    pub cluster: Option<[u32; 3]>,
    /// `.maxclusterrank`.
    pub maxclusterrank: Option<u32>,
    /// `.blocksareclusters`.
    pub blocksareclusters: bool,
}

/// How a name is seen from other modules.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Linkage {
    /// This module only.
    #[default]
    Internal,
    /// Defined here, seen elsewhere.
    Visible,
    /// Defined elsewhere.
    Extern,
    /// Defined here unless a stronger definition exists.
    Weak,
    /// `.common`.
    Common,
}

/// A function or kernel.
#[derive(Clone, Hash, Debug, Default)]
pub struct Function {
    /// Name in the source.
    pub name: String,
    /// Linkage.
    pub linkage: Linkage,
    /// Kernel data; `None` for a `.func`.
    pub kernel: Option<KernelData>,
    /// Parameters and results; a kernel has none.
    pub signature: Signature,
    /// Data-flow graph.
    pub dfg: Dfg,
    /// Order.
    pub layout: Layout,
    /// Local-memory slots.
    pub slots: PrimaryMap<Slot, SlotData>,
    /// Why the body cannot run: names of instructions that are left out, with their lines. Empty
    /// when the whole body was lowered.
    pub unsupported: Vec<(u32, String)>,
    /// Declared registers, for attribute queries.
    pub declared_registers: u32,
}

impl Function {
    /// Whether there is a body.
    pub fn has_body(&self) -> bool {
        !self.layout.order.is_empty()
    }

    /// The entry block. Only for functions with a body.
    pub fn entry(&self) -> Block {
        self.layout.order[0]
    }

    /// Blocks in layout order.
    pub fn blocks(&self) -> &[Block] {
        &self.layout.order
    }

    /// Instructions of a block.
    pub fn insts(&self, block: Block) -> &[Inst] {
        &self.layout.insts[block]
    }

    /// Successor calls of a block.
    pub fn successors(&self, block: Block) -> &[BlockCall] {
        self.layout
            .terminator(block)
            .map_or(&[], |inst| self.dfg.targets(inst))
    }

    /// Effects of an instruction.
    pub fn effects(&self, inst: Inst) -> Effects {
        self.dfg.insts[inst].opcode.effects()
    }

    /// Makes a new block at the end of the layout.
    pub fn append_block(&mut self) -> Block {
        let block = self.dfg.blocks.push(BlockData::default());
        self.layout.order.push(block);
        block
    }

    /// Appends an instruction to a block.
    pub fn append_inst(&mut self, block: Block, inst: Inst) {
        self.layout.insts[block].push(inst);
    }

    /// Replaces every use of a value (in operands and block arguments) through the aliases set in
    /// the data-flow graph, so that no alias is used any more.
    pub fn resolve_aliases(&mut self) {
        let order = self.layout.order.clone();
        for block in order {
            for &inst in &self.layout.insts[block] {
                self.dfg.resolve_args(inst);
                if let Some(mut calls) = self.dfg.targets.remove(&inst) {
                    for arg in calls.iter_mut().flat_map(|call| &mut call.args) {
                        *arg = self.dfg.resolve_and_shorten(*arg);
                    }
                    self.dfg.targets.insert(inst, calls);
                }
            }
        }
    }
}

/// Payload of `symbol.addr`: the symbol and an addend in bytes.
pub fn symbol_payload(symbol: SymbolId, addend: i32) -> u64 {
    u64::from(symbol.0) | u64::from(addend as u32) << 32
}

/// The parts of a `symbol.addr` payload.
pub fn split_symbol_payload(payload: u64) -> (SymbolId, i32) {
    (SymbolId(payload as u32), (payload >> 32) as i32)
}

/// The function named by the payload of `call` or `func.addr`.
pub fn payload_func(payload: u64) -> FuncId {
    FuncId(payload as u32)
}

/// The signature named by the payload of `call.indirect`.
pub fn payload_sig(payload: u64) -> SigId {
    SigId(payload as u32)
}

/// The slot named by the payload of `local.addr`.
pub fn payload_slot(payload: u64) -> Slot {
    Slot(payload as u32)
}

/// The register named by the payload of `sreg` or `clock`.
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
