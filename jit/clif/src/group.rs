//! How values of the vector IR are held in values of Cranelift IR.
//!
//! A scalar is one Cranelift scalar; a `pred` is an `i8` that contains 0 or 1. A vector consists of *groups* of four
//! lanes, lowest lanes first. A group has one register of 128 bits for kinds of up to 32 bits, two for kinds of 64 bits
//! and four for `b128`. Integers of 8 and 16 bits are zero-extended to 32 bits, so that all kinds have lanes of 32, 64 or
//! 128 bits. A lane of a mask has 32 bits, which are all ones or all zeros.
//!
//! A vector of two lanes is one group whose upper two lanes have no meaning; code that combines lanes does not use them.

use std::ops::Deref;

use cranelift_codegen::ir::{self, types};
use margay_ops::types::{Kind, Type};
use smallvec::SmallVec;

/// The number of lanes of a group.
pub(crate) const LANES: u32 = 4;

/// The registers of a value.
pub(crate) type Registers = SmallVec<[ir::Value; 4]>;

/// The registers of a group of lanes, or the register of a scalar.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    registers: [ir::Value; 4],
    count: u8,
}

impl Group {
    /// Creates a group of at most four registers.
    pub(crate) fn new(registers: &[ir::Value]) -> Group {
        let mut all = [ir::Value::from_u32(0); 4];
        all[..registers.len()].copy_from_slice(registers);
        Group {
            registers: all,
            count: registers.len() as u8,
        }
    }

    /// Applies a function to each register.
    pub(crate) fn map(self, mut op: impl FnMut(ir::Value) -> ir::Value) -> Group {
        let mut result = self;
        for register in &mut result.registers[..usize::from(self.count)] {
            *register = op(*register);
        }
        result
    }
}

impl From<ir::Value> for Group {
    fn from(register: ir::Value) -> Group {
        Group::new(&[register])
    }
}

impl Deref for Group {
    type Target = [ir::Value];

    fn deref(&self) -> &[ir::Value] {
        &self.registers[..usize::from(self.count)]
    }
}

/// Returns the Cranelift type of a scalar.
pub(crate) fn scalar_type(kind: Kind) -> ir::Type {
    match kind {
        Kind::Pred | Kind::B8 => types::I8,
        Kind::B16 => types::I16,
        Kind::B32 => types::I32,
        Kind::B64 => types::I64,
        Kind::B128 => types::I128,
        Kind::F32 => types::F32,
        Kind::F64 => types::F64,
    }
}

/// Returns the Cranelift type of the registers of a vector.
pub(crate) fn vector_type(kind: Kind) -> ir::Type {
    match kind {
        Kind::Pred | Kind::B8 | Kind::B16 | Kind::B32 => types::I32X4,
        Kind::B64 | Kind::B128 => types::I64X2,
        Kind::F32 => types::F32X4,
        Kind::F64 => types::F64X2,
    }
}

/// Returns the number of bytes of a lane in the registers of a vector.
pub(crate) const fn lane_bytes(kind: Kind) -> u32 {
    match kind {
        Kind::B128 => 16,
        Kind::B64 | Kind::F64 => 8,
        _ => 4,
    }
}

/// Returns the number of registers of a group.
pub(crate) const fn registers(kind: Kind) -> usize {
    lane_bytes(kind) as usize / 4
}

/// Returns the number of groups of a type; 1 for scalars.
pub(crate) fn groups(lanes: u32) -> usize {
    lanes.div_ceil(LANES) as usize
}

/// Returns the Cranelift types of all registers of a value.
pub(crate) fn register_types(ty: Type) -> impl Iterator<Item = ir::Type> {
    let (of, count) = match ty.lanes() {
        1 => (scalar_type(ty.kind()), 1),
        lanes => (vector_type(ty.kind()), groups(lanes) * registers(ty.kind())),
    };
    std::iter::repeat_n(of, count)
}
