//! Functions for lowering an instruction to several ops. They find operands by their name in the
//! syntax table, test modifiers, and return addresses.

use margay_ir::entity::Value;
use margay_ops::meaning::Desc;
use margay_ops::mods::{CmpOp, Mods, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::types::{OpType, Type};
use smallvec::SmallVec;

use super::Lowered;
use super::function::FunctionLowering;
use crate::ast::Operand;
use crate::resolve::ResolvedInstruction;
/// An address and its state space.
#[derive(Clone, Copy)]
pub(super) struct At {
    pub(super) address: Value,
    pub(super) space: StateSpace,
}

/// An instruction that is being lowered: its form, its operands and its modifiers. The methods find
/// an operand by its name in the syntax table.
pub(super) struct Parts<'a> {
    pub(super) resolved: &'a ResolvedInstruction,
    pub(super) operands: &'a [Operand],
    pub(super) words: SmallVec<[&'a str; 12]>,
}

impl<'a> Parts<'a> {
    pub(super) fn operand(&self, name: &str) -> Option<&'a Operand> {
        let roles = self.resolved.roles();
        let mut named = self.operands.iter().zip(roles);
        named.find_map(|(operand, role)| (role.pattern.name == name).then_some(operand))
    }

    pub(super) fn has(&self, word: &str) -> bool {
        self.words.contains(&word)
    }

    pub(super) fn space(&self) -> StateSpace {
        self.resolved.desc().mods.space()
    }
}

impl FunctionLowering<'_, '_> {
    pub(super) fn at(&mut self, parts: &Parts<'_>, name: &str, space: StateSpace) -> Lowered<At> {
        let Some(operand) = parts.operand(name) else {
            let address = self.b.constant(Type::B64, 0);
            return Ok(At { address, space });
        };
        let (address, space) = self.address(operand, space)?;
        Ok(At { address, space })
    }

    /// Returns the address of the mbarrier that an asynchronous operation signals.
    pub(super) fn object_of(&mut self, parts: &Parts<'_>) -> Lowered<At> {
        self.at(parts, "m", StateSpace::Shared)
    }

    /// Returns the value of the 32-bit or 64-bit operand `name`, zero-extended to 64 bits, or 0 if
    /// the instruction does not have this operand.
    pub(super) fn long(&mut self, parts: &Parts<'_>, name: &str) -> Lowered<Value> {
        let roles = parts.resolved.roles();
        let mut named = parts.operands.iter().zip(roles);
        let found = named.find(|(_, role)| role.pattern.name == name);
        let Some((operand, role)) = found else {
            return Ok(self.b.constant(Type::B64, 0));
        };
        let (value, ty) = match role.ty {
            // The instruction accepts registers of several widths.
            OpType::None => {
                let value = self.read(operand, OpType::U64)?;
                (self.plain(value), self.address_type(value))
            }
            ty if ty.bits() == 64 => (self.read(operand, OpType::U64)?, OpType::U64),
            _ => (self.read(operand, OpType::U32)?, OpType::U32),
        };
        let value = self.cut_to(value, ty);
        Ok(self.convert(value, ty, OpType::U64))
    }

    pub(super) fn b64(&mut self, opcode: Opcode, a: Value, b: Value) -> Value {
        match opcode {
            Opcode::Mul => {
                let desc = Desc {
                    ty: OpType::U64,
                    ..super::matrix::product_of_lane()
                };
                self.b.op(desc, &[a, b], Type::B64)
            }
            Opcode::Add | Opcode::Sub => self.b.simple(opcode, OpType::U64, &[a, b]),
            _ => self.b.simple(opcode, OpType::B64, &[a, b]),
        }
    }

    pub(super) fn compare(&mut self, cmp: CmpOp, ty: OpType, a: Value, b: Value) -> Value {
        let desc = Desc {
            opcode: Opcode::Setp,
            ty,
            src: OpType::None,
            mods: Mods::NONE.with_cmp(cmp),
        };
        self.b.op(desc, &[a, b], Type::PRED)
    }

    /// Emits a check of the address of 16 bytes that an instruction accesses as several smaller
    /// elements. PTX requires that this address is a multiple of 16 (PTX ISA, "ldmatrix",
    /// "cp.reduce.async.bulk"). The result is the address if it is a multiple of 16. Otherwise, the
    /// result is an odd address, so that the access to the first element is misaligned and faults.
    pub(super) fn row_address(&mut self, address: Value) -> Value {
        let ty = self.address_type(address);
        let [fifteen, one] = [15, 1].map(|number| self.b.constant(ty.held(), number));
        let bits = super::operand::bits_type(ty.held());
        let rest = self.b.simple(Opcode::And, bits, &[address, fifteen]);
        let odd = self.b.simple(Opcode::Min, ty, &[rest, one]);
        self.b.simple(Opcode::Or, bits, &[address, odd])
    }

    /// Writes `value` to the destination operand `d`, if the instruction has this operand.
    pub(super) fn give(&mut self, parts: &Parts<'_>, value: Value, ty: OpType) -> Lowered<()> {
        if let Some(operand) = parts.operand("d") {
            let place = self.place(operand)?;
            self.write(place, value, ty);
        }
        Ok(())
    }

    pub(super) fn plain_access(opcode: Opcode, ty: OpType, space: StateSpace) -> Desc {
        Desc {
            opcode,
            ty,
            src: OpType::None,
            mods: Mods::NONE.with_space(space),
        }
    }
}
