//! Tests that accesses of device code are aligned to their size (PTX ISA 5.2, "Alignment"). As on a GPU, a misaligned
//! access ends the launch.
//!
//! A test is a conditional trap instruction, whose signal the host recognises. A test uses only the low bits of an
//! address. It does not include the base of a memory window, because the alignment of windows
//! exceeds the size of every access. It also does not include offsets that are multiples of the
//! access size. Most tests therefore examine the base of an array, once per basic block. If the
//! addresses of several lanes differ by multiples of the access size, these lanes need only one
//! test. In a trusted specialisation ([`crate::Specialisation::trusted`]), pointer parameters are
//! aligned, and addresses that are computed from them need no test.

use cranelift_codegen::ir::{self, InstBuilder, TrapCode, types};
use margay_ir::analysis::Alignment;
use margay_ir::entity::{Inst, Value};
use margay_ir::function::InstData;
use margay_ops::mods::StateSpace;

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
    pub(crate) fn low_bits_of(&self, inst: Inst, address: Value, bytes: u32) -> Option<Value> {
        let alignment = Alignment {
            function: self.function,
            homes: self.homes,
            variable: &|symbol| self.symbols.get(&symbol).map(|variable| variable.align),
            multiples: self.trusted.then_some(self.multiples),
        };
        match self.operands_only {
            true => (!alignment.is_multiple(address, bytes)).then_some(address),
            false => alignment.root(inst, address, bytes),
        }
    }
}
