//! Creates the instructions that a pass adds.

use margay_ir::entity::{Inst, Value};
use margay_ops::meaning::Desc;
use margay_ops::mods::Mods;
use margay_ops::ops::Opcode;
use margay_ops::types::{OpType, Type};

use crate::data::Data;
use crate::function::Function;
use crate::ops::Op;
use crate::verify::letters;

/// Appends new instructions to a list that becomes the body of a block, or a part of it.
pub(super) struct Emitter<'a> {
    pub(super) function: &'a mut Function,
    pub(super) list: &'a mut Vec<Inst>,
    /// The place of the new instructions.
    pub(super) place: u64,
}

impl Emitter<'_> {
    /// Appends an instruction with one result, whose type the op table states.
    pub(super) fn value(&mut self, op: Op, ty: Type, data: Data, args: &[Value]) -> Value {
        let inst = made(self.function, op, ty, data, args, self.place);
        self.list.push(inst);
        self.function.results(inst)[0]
    }

    /// Appends a constant.
    pub(super) fn constant(&mut self, ty: Type, bits: u64) -> Value {
        self.value(Op::Const, ty, Data::Number(bits), &[])
    }

    /// Appends an operation of 64-bit integers in one lane.
    pub(super) fn lane64(&mut self, opcode: Opcode, args: &[Value]) -> Value {
        let ty = match opcode {
            Opcode::Shl => OpType::B64,
            _ => OpType::U64,
        };
        self.value(Op::Map, Type::B64, Data::Lane(plain(opcode, ty)), args)
    }
}

/// Returns an operation without modifiers.
pub(super) fn plain(opcode: Opcode, ty: OpType) -> Desc {
    Desc {
        opcode,
        ty,
        src: OpType::None,
        mods: Mods::NONE,
    }
}

/// Creates an instruction with one result, which is in no block yet.
pub(super) fn made(
    function: &mut Function,
    op: Op,
    ty: Type,
    data: Data,
    args: &[Value],
    place: u64,
) -> Inst {
    let result = match op {
        Op::Map => ty,
        _ => letters::type_of(op.row().results, ty).expect("the op has a result of a known type"),
    };
    let inst = function.make_inst((op, Some(ty), data), args, &[result]);
    if place != 0 {
        function.places[inst] = place;
    }
    inst
}
