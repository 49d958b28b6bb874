//! Creates instructions that the caller inserts into a block afterwards.

use crate::entity::{Inst, Value};
use crate::function::{Function, SourceLoc};
use margay_ops::meaning::Desc;
use margay_ops::mods::{CmpOp, Mode, Mods, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::types::{Kind, OpType, Type};

/// A sequence of new instructions with one source position.
#[derive(Debug)]
pub(super) struct Code<'a> {
    pub(super) function: &'a mut Function,
    loc: SourceLoc,
    pub(super) insts: Vec<Inst>,
}

impl<'a> Code<'a> {
    pub(super) fn new(function: &'a mut Function, loc: SourceLoc) -> Code<'a> {
        Code {
            function,
            loc,
            insts: Vec::new(),
        }
    }

    pub(super) fn inst(&mut self, desc: Desc, args: &[Value], results: &[Type]) -> Inst {
        let inst = self.function.dfg.make_inst(desc, args, results);
        self.function.dfg.locs[inst] = self.loc;
        self.insts.push(inst);
        inst
    }

    pub(super) fn op(&mut self, desc: Desc, args: &[Value], result: Type) -> Value {
        let inst = self.inst(desc, args, &[result]);
        self.function.dfg.results(inst)[0]
    }

    pub(super) fn constant(&mut self, ty: Type, bits: u64) -> Value {
        let desc = with(Opcode::Const, ty.kind().op_type(), Mods(bits));
        self.op(desc, &[], ty)
    }

    /// Returns `base + bytes` as a 64-bit value. Appends an addition only if `bytes` is not 0.
    pub(super) fn beyond(&mut self, base: Value, bytes: u32) -> Value {
        if bytes == 0 {
            return base;
        }
        let bytes = self.constant(Type::B64, u64::from(bytes));
        let desc = with(Opcode::Add, OpType::U64, Mods::NONE);
        self.op(desc, &[base, bytes], Type::B64)
    }

    /// Appends the 64-bit subtraction `base - bytes` and returns its result.
    pub(super) fn before(&mut self, base: Value, bytes: u32) -> Value {
        let bytes = self.constant(Type::B64, u64::from(bytes));
        let desc = with(Opcode::Sub, OpType::U64, Mods::NONE);
        self.op(desc, &[base, bytes], Type::B64)
    }

    /// Appends a conversion between address spaces: from local to generic if `mode` is none, and from generic to local
    /// if `mode` is `to`.
    pub(super) fn cvta(&mut self, address: Value, mode: Mode) -> Value {
        self.op(cvta(mode), &[address], Type::B64)
    }

    pub(super) fn equal(&mut self, ty: OpType, a: Value, b: Value) -> Value {
        self.compare(CmpOp::Eq, ty, a, b)
    }

    pub(super) fn compare(&mut self, cmp: CmpOp, ty: OpType, a: Value, b: Value) -> Value {
        let desc = with(Opcode::Setp, ty, Mods::NONE.with_cmp(cmp));
        self.op(desc, &[a, b], Type::PRED)
    }

    /// Appends a store of a value to memory.
    pub(super) fn store(&mut self, address: Value, value: Value) {
        let ty = self.function.dfg.ty(value);
        let (value, memory) = if ty == Type::PRED {
            let (one, zero) = (self.constant(Type::B32, 1), self.constant(Type::B32, 0));
            let desc = with(Opcode::Selp, OpType::B32, Mods::NONE);
            let word = self.op(desc, &[one, zero, value], Type::B32);
            (word, OpType::U8)
        } else {
            (value, ty.kind().op_type())
        };
        self.inst(with(Opcode::St, memory, Mods::NONE), &[address, value], &[]);
    }

    /// Appends a load of a value that [`Code::store`] has stored.
    pub(super) fn load(&mut self, address: Value, ty: Type) -> Value {
        if ty != Type::PRED {
            let desc = with(Opcode::Ld, ty.kind().op_type(), Mods::NONE);
            return self.op(desc, &[address], ty);
        }
        let desc = with(Opcode::Ld, OpType::U8, Mods::NONE);
        let word = self.op(desc, &[address], Type::B32);
        let zero = self.constant(Type::B32, 0);
        self.compare(CmpOp::Ne, OpType::U32, word, zero)
    }
}

/// Returns the number of bytes that [`Code::store`] writes for a value of this type.
pub(super) fn stored_bytes(ty: Type) -> u32 {
    match ty.kind() {
        Kind::Pred => 1,
        _ => ty.lane_bytes(),
    }
}

pub(super) fn with(opcode: Opcode, ty: OpType, mods: Mods) -> Desc {
    Desc {
        opcode,
        ty,
        src: OpType::None,
        mods,
    }
}

pub(super) fn cvta(mode: Mode) -> Desc {
    let mods = Mods::NONE.with_space(StateSpace::Local).with_mode(mode);
    with(Opcode::Cvta, OpType::U64, mods)
}
