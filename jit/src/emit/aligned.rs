//! Accesses of device code are aligned to what they move (PTX ISA 5.2, "Alignment"), or end the launch: GPUs report a
//! misaligned address, and a program that runs here and faults there would have been told a lie.
//!
//! A check is an instruction that traps; the host knows traps of generated code by their signal. Only the low bits of
//! an address count, so windows of memory, which are aligned to more than any access, are left out of it, and so are
//! offsets that are multiples of the access: what is tested is most often the base of an array, and once in a block.

use cranelift_codegen::ir::{self, InstBuilder, TrapCode, types};
use margay_ir::function::InstData;
use margay_ir::mods::StateSpace;

use super::lane::Lane;
use super::memory::element_type;

/// How a trap is marked that stands for a misaligned access. Generated code has no other.
const MISALIGNED: TrapCode = TrapCode::unwrap_user(1);

/// Bytes that the address of a load or store must be a multiple of; 1 where nothing is demanded.
pub(crate) fn demanded(data: &InstData) -> u32 {
    match (data.mods.space(), element_type(data.ty)) {
        (StateSpace::Param | StateSpace::ParamFunc, _) | (_, None) => 1,
        (_, Some(element)) => (element.bytes() * data.mods.vec().max(1)).next_power_of_two(),
    }
}

impl Lane<'_, '_> {
    /// Ends the launch unless an address is a multiple of `bytes`.
    pub(crate) fn demand_aligned(&mut self, address: ir::Value, bytes: u32) {
        if !(2..=32).contains(&bytes) {
            return;
        }
        let root = self.without_multiples(address, i64::from(bytes));
        let block = self.b.current_block();
        if self.aligned.0 != block {
            self.aligned = (block, Vec::new());
        }
        let known = |&(value, more): &(ir::Value, u32)| value == root && more >= bytes;
        if self.aligned.1.iter().any(known) || self.is_multiple(root, i64::from(bytes)) {
            return;
        }
        self.aligned.1.push((root, bytes));
        let ty = self.b.func.dfg.value_type(root);
        let low = match ty {
            types::I32 => root,
            _ => self.b.ins().ireduce(types::I32, root),
        };
        let low = self.b.ins().band_imm_u(low, i64::from(bytes) - 1);
        self.b.ins().trapnz(low, MISALIGNED);
    }

    /// A value that differs from `value` by a multiple of `bytes`, a power of two.
    fn without_multiples(&self, value: ir::Value, bytes: i64) -> ir::Value {
        let mut root = value;
        for _ in 0..8 {
            let Some((ir::Opcode::Iadd, [a, b])) = self.binary(root) else {
                break;
            };
            root = match (self.is_multiple(a, bytes), self.is_multiple(b, bytes)) {
                (_, true) => a,
                (true, false) => b,
                (false, false) => break,
            };
        }
        root
    }

    /// Whether a value is for sure a multiple of `bytes`, a power of two.
    fn is_multiple(&self, value: ir::Value, bytes: i64) -> bool {
        if let Some(constant) = self.constant_of(value) {
            return constant & (bytes - 1) == 0;
        }
        let Some((opcode, [a, b])) = self.binary(value) else {
            return false;
        };
        match (opcode, self.constant_of(b)) {
            (ir::Opcode::Ishl, Some(by)) => (0..63).contains(&by) && (1 << by) % bytes == 0,
            (ir::Opcode::Imul, Some(by)) => by & (bytes - 1) == 0,
            (ir::Opcode::Band, Some(mask)) => mask & (bytes - 1) == 0,
            (ir::Opcode::Iadd, Some(more)) => {
                more & (bytes - 1) == 0 && self.binary(a).is_some() && self.is_multiple(a, bytes)
            }
            _ => false,
        }
    }

    /// What computed a value, if that is an operation of two operands in the code emitted so far.
    fn binary(&self, value: ir::Value) -> Option<(ir::Opcode, [ir::Value; 2])> {
        let dfg = &self.b.func.dfg;
        let inst = dfg.value_def(dfg.resolve_aliases(value)).inst()?;
        match dfg.insts[inst] {
            ir::InstructionData::Binary { opcode, args } => Some((opcode, args)),
            _ => None,
        }
    }

    fn constant_of(&self, value: ir::Value) -> Option<i64> {
        let dfg = &self.b.func.dfg;
        let inst = dfg.value_def(dfg.resolve_aliases(value)).inst()?;
        match dfg.insts[inst] {
            ir::InstructionData::UnaryImm { imm, .. } => Some(imm.bits()),
            _ => None,
        }
    }
}
