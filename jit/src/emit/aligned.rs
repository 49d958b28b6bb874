//! Tests that accesses of device code are aligned to their size (PTX ISA 5.2, "Alignment"). As on a GPU, a misaligned
//! access ends the launch.
//!
//! A test is a conditional trap instruction, whose signal the host recognises. A test uses only the low bits of an
//! address. It does not include the base of a memory window, because the alignment of windows
//! exceeds the size of every access. It also does not include offsets that are multiples of the
//! access size. Most tests therefore examine the base of an array, once per basic block. If the
//! addresses of several lanes differ by multiples of the access size, these lanes need only one
//! test.

use cranelift_codegen::ir::{self, InstBuilder, TrapCode, types};
use margay_ir::entity::{Block, Inst, Value};
use margay_ir::function::{InstData, split_symbol_payload};
use margay_ops::mods::{Half, StateSpace};
use margay_ops::ops::Opcode;

use super::lane::Lane;
use super::memory::element_type;

/// Trap code of misaligned accesses.
const MISALIGNED: TrapCode = TrapCode::unwrap_user(1);

/// Returns the alignment in bytes that a load or store requires; 1 if it requires none.
pub(crate) fn demanded(data: &InstData) -> u32 {
    match (data.mods.space(), element_type(data.ty)) {
        (StateSpace::Param | StateSpace::ParamFunc, _) | (_, None) => 1,
        (_, Some(element)) => (element.bytes() * data.mods.vec().max(1)).next_power_of_two(),
    }
}

/// Returns the alignment in bytes that an atomic read-modify-write requires.
pub(crate) fn demanded_by_update(data: &InstData) -> u32 {
    (data.ty.bits().div_ceil(8) * data.mods.vec().max(1)).next_power_of_two()
}

/// Maximum number of operations in a chain through which the analysis traces a value back to its
/// operands.
const DEPTH: u32 = 12;

impl Lane<'_, '_> {
    /// Emits a test that ends the launch if the address of an access is not a multiple of `bytes`.
    pub(crate) fn demand_aligned(&mut self, inst: Inst, bytes: u32) {
        let address = self.function.dfg.args(inst)[0];
        if let Some(root) = self.low_bits_of(inst, address, bytes) {
            let root = self.get(root);
            self.demand_multiple(root, bytes);
        }
    }

    /// Emits a test that ends the launch if a value is not a multiple of `bytes`.
    pub(crate) fn demand_multiple(&mut self, value: ir::Value, bytes: u32) {
        if !(2..=32).contains(&bytes) {
            return;
        }
        let block = self.b.current_block();
        if self.aligned.0 != block {
            self.aligned = (block, Vec::new());
        }
        let known = |&(other, more): &(ir::Value, u32)| other == value && more >= bytes;
        if self.aligned.1.iter().any(known) {
            return;
        }
        self.aligned.1.push((value, bytes));
        let low = match self.b.func.dfg.value_type(value) {
            types::I32 => value,
            _ => self.b.ins().ireduce(types::I32, value),
        };
        let low = self.b.ins().band_imm_u(low, i64::from(bytes) - 1);
        self.b.ins().trapnz(low, MISALIGNED);
    }

    /// Finds a value that is available at the access and differs from the address of the access by a multiple of
    /// `bytes`. `bytes` is a power of two of at most 32. Returns `None` if the address is proved to be a multiple of
    /// `bytes`.
    pub(crate) fn low_bits_of(&mut self, inst: Inst, address: Value, bytes: u32) -> Option<Value> {
        let home = self.home(inst);
        let mut root = address;
        for _ in 0..DEPTH {
            if self.is_multiple(root, bytes, DEPTH) {
                return None;
            }
            if self.operands_only {
                break;
            }
            // Operands of operations in other blocks might no longer be available.
            let here = |&def: &Inst| self.home(def) == home;
            let Some(def) = self.function.dfg.def_inst(root).filter(here) else {
                break;
            };
            let args = self.function.dfg.args(def);
            let multiple = |index: usize| self.is_multiple(args[index], bytes, DEPTH);
            root = match self.low_part(def) {
                LowPart::Same => args[0],
                LowPart::Sum if multiple(1) => args[0],
                LowPart::Sum if multiple(0) => args[1],
                LowPart::Less if multiple(1) => args[0],
                LowPart::Fused if self.is_product(&args[..2], bytes, DEPTH) => args[2],
                _ => break,
            };
        }
        Some(root)
    }

    /// Returns whether a value is proved to be a multiple of `bytes`, which is a power of two of at most 32.
    fn is_multiple(&self, value: Value, bytes: u32, depth: u32) -> bool {
        let dfg = &self.function.dfg;
        if let Some(bits) = dfg.constant(value) {
            return bits % u64::from(bytes) == 0;
        }
        let (Some(def), Some(depth)) = (dfg.def_inst(value), depth.checked_sub(1)) else {
            return false;
        };
        let args = dfg.args(def);
        let multiple = |index: usize| self.is_multiple(args[index], bytes, depth);
        match self.low_part(def) {
            LowPart::Same => multiple(0),
            LowPart::Sum | LowPart::Less => multiple(0) && multiple(1),
            LowPart::Fused => self.is_product(&args[..2], bytes, depth) && multiple(2),
            LowPart::Product => self.is_product(args, bytes, depth),
            LowPart::Shifted => dfg
                .constant(args[1])
                .is_some_and(|by| by >= 5 || 1 << by >= bytes),
            LowPart::Masked => multiple(0) || multiple(1),
            LowPart::Known(zeros) => zeros >= bytes.trailing_zeros(),
            LowPart::Unknown => false,
        }
    }

    fn is_product(&self, factors: &[Value], bytes: u32, depth: u32) -> bool {
        let mut factors = factors.iter();
        factors.any(|&factor| self.is_multiple(factor, bytes, depth))
    }

    /// Returns how the low five bits of an operation's result depend on the low five bits of the operands.
    fn low_part(&self, def: Inst) -> LowPart {
        let desc = self.function.dfg.insts[def].desc();
        let plain = desc.ty.is_integer() && desc.ty.elements() == 1 && !desc.mods.sat();
        if !plain {
            return match desc.opcode {
                // Windows of memory are aligned to more than 32 bytes.
                Opcode::Cvta => LowPart::Same,
                Opcode::SymbolAddr => self.alignment_of_variable(def),
                _ => LowPart::Unknown,
            };
        }
        let low_half = desc.mods.half() != Half::Hi;
        match (desc.opcode, self.function.dfg.args(def).len()) {
            (Opcode::Cvta, 1) => LowPart::Same,
            (Opcode::SymbolAddr, 0) => self.alignment_of_variable(def),
            (Opcode::Cvt, 1) if desc.src.is_integer() => LowPart::Same,
            (Opcode::Add, 2) => LowPart::Sum,
            (Opcode::Sub, 2) => LowPart::Less,
            (Opcode::Mul, 2) if low_half => LowPart::Product,
            (Opcode::Mad, 3) if low_half => LowPart::Fused,
            (Opcode::Shl, 2) => LowPart::Shifted,
            (Opcode::And, 2) => LowPart::Masked,
            _ => LowPart::Unknown,
        }
    }

    /// Returns how many low bits of the result of a `symbol.addr` are known to be zero. The result is the address of a
    /// module variable plus a constant. Windows of memory are aligned to more than 32 bytes, so this number is the same
    /// for offsets in a window and for host addresses.
    fn alignment_of_variable(&self, def: Inst) -> LowPart {
        let (symbol, addend) = split_symbol_payload(self.function.dfg.insts[def].payload());
        match self.symbols.get(&symbol) {
            Some(variable) => {
                LowPart::Known(variable.align.trailing_zeros().min(addend.trailing_zeros()))
            }
            None => LowPart::Unknown,
        }
    }

    /// Returns the block of an instruction.
    fn home(&self, inst: Inst) -> Option<Block> {
        self.homes[inst]
    }
}

/// How the low bits of a result depend on the operands.
enum LowPart {
    /// The low bits of the result equal the low bits of the operand.
    Same,
    /// `Sum`: the result is the sum of two operands. `Less`: the result is their difference.
    Sum,
    Less,
    /// `Product`: the result is the product of two operands. `Fused`: the result is the product of
    /// two operands plus a third operand.
    Product,
    Fused,
    /// The result is the first operand, shifted left by the second operand.
    Shifted,
    /// The result is the bitwise AND of two operands.
    Masked,
    /// At least this number of the result's low bits are zero.
    Known(u32),
    Unknown,
}
