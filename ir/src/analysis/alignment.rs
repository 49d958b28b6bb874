//! What is known about the low bits of addresses, for tests of the alignment of accesses.
//!
//! An access of `bytes` bytes must be at a multiple of `bytes` (PTX ISA 5.2, "Alignment"). The address is often the sum
//! of a root and a multiple of `bytes`. A test of the root's low bits is then sufficient, and several accesses to one
//! array share this test.

use super::Multiples;
use crate::entity::{Block, Inst, SecondaryMap, SymbolId, Value};
use crate::function::{Function, split_symbol_payload};
use margay_ops::mods::Half;
use margay_ops::ops::Opcode;

/// Maximum number of operations in a chain through which the analysis traces a value back to its
/// operands.
const DEPTH: u32 = 12;

/// The analysis of a function.
#[derive(Clone, Copy)]
pub struct Alignment<'a> {
    /// The function.
    pub function: &'a Function,
    /// The block of each instruction.
    pub homes: &'a SecondaryMap<Inst, Option<Block>>,
    /// Returns the alignment in bytes of the address of a module variable; `None` if it is not known.
    pub variable: &'a dyn Fn(SymbolId) -> Option<u32>,
    /// The values that are multiples in launches whose pointer parameters are aligned; `None` in code for all launches.
    pub multiples: Option<&'a Multiples>,
}

impl Alignment<'_> {
    /// Finds a value that is available at the access and differs from the address of the access by a multiple of
    /// `bytes`. `bytes` is a power of two of at most 32. Returns `None` if the address is proved to be a multiple of
    /// `bytes`.
    pub fn root(&self, inst: Inst, address: Value, bytes: u32) -> Option<Value> {
        let home = self.homes[inst];
        let mut root = address;
        for _ in 0..DEPTH {
            if self.multiple(root, bytes, DEPTH) {
                return None;
            }
            // Operands of operations in other blocks might no longer be available.
            let here = |&def: &Inst| self.homes[def] == home;
            let Some(def) = self.function.dfg.def_inst(root).filter(here) else {
                break;
            };
            let args = self.function.dfg.args(def);
            let multiple = |index: usize| self.multiple(args[index], bytes, DEPTH);
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
    pub fn is_multiple(&self, value: Value, bytes: u32) -> bool {
        self.multiple(value, bytes, DEPTH)
    }

    fn multiple(&self, value: Value, bytes: u32, depth: u32) -> bool {
        let dfg = &self.function.dfg;
        if let Some(bits) = dfg.constant(value) {
            return bits % u64::from(bytes) == 0;
        }
        if self
            .multiples
            .is_some_and(|known| known.is_multiple(value, bytes))
        {
            return true;
        }
        let (Some(def), Some(depth)) = (dfg.def_inst(value), depth.checked_sub(1)) else {
            return false;
        };
        let args = dfg.args(def);
        let multiple = |index: usize| self.multiple(args[index], bytes, depth);
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
        factors.any(|&factor| self.multiple(factor, bytes, depth))
    }

    fn low_part(&self, def: Inst) -> LowPart {
        low_part(self.function, def, self.variable)
    }
}

/// Returns how the low five bits of an operation's result depend on the low five bits of the operands. `variable` returns
/// the alignment in bytes of the address of a module variable.
pub(super) fn low_part(
    function: &Function,
    def: Inst,
    variable: &dyn Fn(SymbolId) -> Option<u32>,
) -> LowPart {
    let desc = function.dfg.insts[def].desc();
    let plain = desc.ty.is_integer() && desc.ty.elements() == 1 && !desc.mods.sat();
    if !plain {
        return match desc.opcode {
            // Windows of memory are aligned to more than 32 bytes.
            Opcode::Cvta => LowPart::Same,
            Opcode::SymbolAddr => alignment_of_variable(function, def, variable),
            _ => LowPart::Unknown,
        };
    }
    let low_half = desc.mods.half() != Half::Hi;
    match (desc.opcode, function.dfg.args(def).len()) {
        (Opcode::Cvta, 1) => LowPart::Same,
        (Opcode::SymbolAddr, 0) => alignment_of_variable(function, def, variable),
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

/// Returns how many low bits of the result of a `symbol.addr` are known to be zero. The result is the address of a module
/// variable plus a constant. Windows of memory are aligned to more than 32 bytes, so this number is the same for offsets
/// in a window and for host addresses.
fn alignment_of_variable(
    function: &Function,
    def: Inst,
    variable: &dyn Fn(SymbolId) -> Option<u32>,
) -> LowPart {
    let (symbol, addend) = split_symbol_payload(function.dfg.insts[def].payload());
    match variable(symbol) {
        Some(align) => LowPart::Known(align.trailing_zeros().min(addend.trailing_zeros())),
        None => LowPart::Unknown,
    }
}

/// How the low bits of a result depend on the operands.
pub(super) enum LowPart {
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
