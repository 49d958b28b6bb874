//! The alignment of accesses at addresses that differ from parameters of the kernel by multiples of their size. Such a
//! parameter is tested once a run of CTAs ([`crate::rows`]).

use margay_ir::entity::{Block, Inst, Value};
use margay_ir::function::InstData;
use margay_ops::mods::{CmpOp, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::types::{Kind, OpType, Type};

use crate::emitter::Emitter;

impl Emitter<'_> {
    /// Returns the value from which the address of a load or store differs by a multiple of its size, if this value must
    /// be tested, and the size in bytes.
    pub(crate) fn alignment_of(&self, inst: Inst) -> Option<(Value, u32)> {
        let data = &self.source.dfg.insts[inst];
        let bytes = match data.opcode {
            Opcode::Ld | Opcode::St => size_of(data),
            _ => return None,
        };
        let is_tested = (2..=32).contains(&bytes);
        let root = is_tested.then(|| self.kernel.facts.alignment_root(inst, bytes))??;
        Some((root, bytes))
    }

    /// Emits the tests of the alignment of addresses that differ from parameters by multiples of the size of an access. If
    /// one fails, the code continues at `fail`.
    pub(crate) fn test_alignment(&mut self, fail: Block) {
        let function = self.source;
        let mut low: Option<Value> = None;
        for &block in &self.loops().order {
            for &inst in function.insts(block) {
                let Some((root, bytes)) = self.alignment_of(inst) else {
                    continue;
                };
                let Some(&fixed) = self.fixed.get(&root) else {
                    continue;
                };
                if self.kind(root) != Kind::B64 || !self.always_aligned.insert((root, bytes)) {
                    continue;
                }
                let bits = self.constant(Type::B64, u64::from(bytes) - 1);
                let bits = self.simple(Opcode::And, OpType::B64, Type::B64, &[fixed, bits]);
                low = Some(match low {
                    Some(low) => self.simple(Opcode::Or, OpType::B64, Type::B64, &[low, bits]),
                    None => bits,
                });
            }
        }
        let Some(low) = low else { return };
        let zero = self.constant(Type::B64, 0);
        let is_aligned = self.compare((CmpOp::Eq, OpType::B64), low, zero);
        let next = self.new_block();
        self.brif(is_aligned, next, fail);
        self.enter(next);
    }
}

/// Returns the number of bytes of which the address of a load or store must be a multiple.
pub(crate) fn size_of(data: &InstData) -> u32 {
    match data.mods.space() {
        StateSpace::Param | StateSpace::ParamFunc => 1,
        _ => (data.ty.bits() / 8 * data.mods.vec().max(1)).next_power_of_two(),
    }
}
