//! The interface between generated code and the program that runs it: arguments and results, helpers, traps, and the
//! origin of machine instructions.

use cranelift_codegen::ir::{self, AbiParam, SourceLoc, TrapCode, types};
use cranelift_codegen::isa::CallConv;
use margay_ir::entity::{Entity, Inst};
use margay_ir::function::Signature;
use margay_ops::types::{Kind, Type};

use crate::group::scalar_type;

/// The trap of a `trap` or `trap.if`. The data of the instruction is the cause.
pub const TRAP: TrapCode = TrapCode::unwrap_user(3);

/// The trap after the call of a helper that ended the program.
pub const HELPER_TRAP: TrapCode = TrapCode::unwrap_user(4);

/// The type of a compiled function: arguments, then results. Both are in memory as [`Layout`] describes, at multiples of
/// [`ALIGNMENT`].
pub type Entry = unsafe extern "C" fn(arguments: *const u8, results: *mut u8);

/// The number of low bits of a source location that contain the number of the instruction. The lane is above them.
const LANE_SHIFT: u32 = 26;

/// The number of instructions of the largest function.
pub const MAX_INSTS: usize = 1 << LANE_SHIFT;

/// The origin of a machine instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin {
    /// The instruction of the vector IR.
    pub inst: Inst,
    /// The lane for which the machine instruction runs. Of an instruction that accesses memory for several lanes, it is
    /// the lowest of them.
    pub lane: u32,
}

impl Origin {
    /// Returns the origin as a source location of Cranelift.
    pub fn location(self) -> SourceLoc {
        SourceLoc::new(self.inst.index() as u32 | self.lane << LANE_SHIFT)
    }

    /// Returns the origin that a source location of Cranelift specifies; `None` if it specifies none.
    pub fn of(location: SourceLoc) -> Option<Origin> {
        let bits = location.bits();
        (!location.is_default()).then(|| Origin {
            inst: Inst::new((bits & (MAX_INSTS as u32 - 1)) as usize),
            lane: bits >> LANE_SHIFT,
        })
    }
}

/// The alignment of the memory that contains arguments or results.
pub const ALIGNMENT: u32 = 64;

/// Where values are in memory. Each value begins at a multiple of its size, or of [`ALIGNMENT`] if it is larger. A vector
/// consists of its lanes, lane 0 first; a scalar `pred` is a byte that contains 0 or 1; a mask is a `b64` whose bit `n` is
/// lane `n`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Layout {
    /// The offset of each value in bytes.
    pub offsets: Vec<u32>,
    /// The number of bytes of all values.
    pub size: u32,
}

impl Layout {
    /// Returns the layout of values with the types `types`.
    pub fn of(types: &[Type]) -> Layout {
        let mut layout = Layout::default();
        for &ty in types {
            let bytes = Layout::bytes(ty);
            let start = layout.size.next_multiple_of(bytes.min(ALIGNMENT));
            layout.offsets.push(start);
            layout.size = start + bytes;
        }
        layout
    }

    /// Returns the number of bytes of a value.
    pub fn bytes(ty: Type) -> u32 {
        match (ty.kind(), ty.lanes()) {
            (Kind::Pred, 2..) => 8,
            _ => ty.lanes() * ty.lane_bytes(),
        }
    }
}

/// Returns the Cranelift signature of compiled functions ([`Entry`]).
pub fn entry_signature(convention: CallConv) -> ir::Signature {
    let mut signature = ir::Signature::new(convention);
    signature.params = vec![AbiParam::new(types::I64); 2];
    signature
}

/// Returns the Cranelift signature of a helper.
///
/// A helper has the C calling convention. Its parameters are those of the VIR signature (a `pred` is a byte that
/// contains 0 or 1, a `b128` is two parameters of 64 bits, the lower one first), followed by the address of the results,
/// each of which has 16 bytes. It returns a number of 32 bits, which is not zero if the program must end.
pub fn helper_signature(helper: &Signature, convention: CallConv) -> ir::Signature {
    let mut signature = ir::Signature::new(convention);
    for ty in &helper.params {
        match ty.kind() {
            Kind::B128 => signature.params.extend([AbiParam::new(types::I64); 2]),
            kind => signature.params.push(parameter(scalar_type(kind))),
        }
    }
    signature.params.push(AbiParam::new(types::I64));
    signature.returns = vec![AbiParam::new(types::I32)];
    signature
}

/// Returns a parameter of a C function. Integers below 32 bits are extended.
fn parameter(ty: ir::Type) -> AbiParam {
    match ty.is_int() && ty.bits() < 32 {
        true => AbiParam::new(ty).uext(),
        false => AbiParam::new(ty),
    }
}

/// Returns the Cranelift signature of [`crate::apply::Apply`].
pub(crate) fn apply_signature(convention: CallConv) -> ir::Signature {
    let mut signature = ir::Signature::new(convention);
    signature.params = vec![AbiParam::new(types::I64); 3];
    signature
}
