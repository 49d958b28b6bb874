//! Special registers and addresses of variables.

use margay_ir::analysis::uniformity::Class;
use margay_ir::entity::{Inst, SymbolId, Value};
use margay_ir::function::{InstData, split_symbol_payload};
use margay_ops::mods::{Mode, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::sreg::SpecialReg;
use margay_ops::types::{Kind, OpType, Type};
use margay_vir::data::{Access, Data};
use margay_vir::ops::Op;

use crate::emitter::{Emitter, scalar_access};
use crate::{Group, Refusal};

/// Number of bytes of an element of the table of thread coordinates.
const TID_BYTES: i64 = 16;

impl Emitter<'_> {
    /// Emits the read of a special register.
    pub(crate) fn special_register(
        &mut self,
        inst: Inst,
        register: SpecialReg,
    ) -> Result<(), Refusal> {
        use SpecialReg as R;
        let result = self.source.dfg.results(inst)[0];
        let layout = &self.kernel.layout;
        let bits = match register {
            _ if let Some(bits) = self.size(register) => bits,
            R::TidX | R::TidY | R::TidZ => return self.tid(result, axis(register, R::TidX)),
            R::Nwarpid => self.field(layout.sm_warps, Type::B32),
            R::Warpid if self.kernel.width <= 32 => {
                let five = self.constant(Type::B32, 5);
                self.simple(Opcode::Shr, OpType::U32, Type::B32, &[self.thread, five])
            }
            // Chunks are whole warps, unless they are parts of rows.
            R::Laneid if self.kernel.width == 32 && self.row.is_none() && self.runs.is_none() => {
                self.constant(Type::B32, 0)
            }
            R::Laneid if self.kernel.width <= 32 => {
                let lanes = self.constant(Type::B32, 31);
                self.simple(Opcode::And, OpType::B32, Type::B32, &[self.thread, lanes])
            }
            R::LanemaskEq | R::LanemaskLt | R::LanemaskLe | R::LanemaskGe | R::LanemaskGt
                if self.kernel.width <= 32 =>
            {
                let lanes = self.lane_mask(register);
                self.set_lanes(result, lanes);
                return Ok(());
            }
            _ => return Err(Refusal::Operation(register.name())),
        };
        let kind = self.kind(result);
        let bits = match kind {
            Kind::B64 => self.convert(OpType::U64, OpType::U32, bits),
            Kind::B16 => self.convert(OpType::U16, OpType::U32, bits),
            Kind::B32 => bits,
            _ => return Err(Refusal::Operation(register.name())),
        };
        // The class of the lane number is affine, and so is the vector.
        self.set_scalar(result, bits);
        if self.class(result) == Class::Varying {
            return Err(Refusal::Operation(register.name()));
        }
        Ok(())
    }

    /// Emits the read of a special register that contains a size of the grid or of its blocks, or a coordinate of the CTA;
    /// `None` for other registers.
    pub(crate) fn size(&mut self, register: SpecialReg) -> Option<Value> {
        use SpecialReg as R;
        if let Some(shape) = self.kernel.shape
            && matches!(register, R::NtidX | R::NtidY | R::NtidZ)
        {
            let size = shape[axis(register, R::NtidX)];
            return Some(self.constant(Type::B32, size.into()));
        }
        let layout = &self.kernel.layout;
        let (first, offset) = match register {
            R::NtidX | R::NtidY | R::NtidZ => (R::NtidX, layout.ntid),
            R::NctaidX | R::NctaidY | R::NctaidZ => (R::NctaidX, layout.nctaid),
            R::CtaidX | R::CtaidY | R::CtaidZ => {
                return Some(self.ctaid[axis(register, R::CtaidX)]);
            }
            _ => return None,
        };
        let offset = offset + 4 * axis(register, first) as u32;
        Some(self.field(offset, Type::B32))
    }

    /// Emits the read of the thread's coordinate in a dimension.
    fn tid(&mut self, result: Value, axis: usize) -> Result<(), Refusal> {
        let kind = self.kind(result);
        if kind != Kind::B32 {
            return Err(Refusal::Operation("%tid of another type than .u32"));
        }
        if self.class(result) != Class::Varying {
            let bits = self.coordinate(axis);
            self.set_scalar(result, bits);
            return Ok(());
        }
        let (here, access) = self.tid_place(self.thread, axis);
        let access = Access {
            stride: TID_BYTES,
            ..access
        };
        let ty = self.vector(Kind::B32);
        let lanes = self.load(Op::Load, ty, access, &[here, self.mask]);
        self.set_lanes(result, lanes);
        Ok(())
    }

    /// Returns where the coordinate of a thread in a dimension is.
    fn tid_place(&mut self, thread: Value, axis: usize) -> (Value, Access) {
        let table = self.field(self.kernel.layout.tid, Type::B64);
        let four = self.constant(Type::B32, 4);
        let offset = self.simple(Opcode::Shl, OpType::B32, Type::B32, &[thread, four]);
        let offset = self.convert(OpType::U64, OpType::U32, offset);
        let here = self.add(table, offset);
        let access = Access {
            displacement: 4 * axis as i32,
            ..scalar_access(OpType::B32)
        };
        (here, access)
    }

    /// Returns the coordinate of the chunk's first thread in a dimension.
    pub(crate) fn coordinate(&mut self, axis: usize) -> Value {
        if let Some(row) = &self.row {
            let (position, tid) = (row.position, row.tid);
            return match axis {
                0 => self.add_constant(position, i64::from(self.chunk * self.kernel.width)),
                _ => tid[axis - 1],
            };
        }
        if self.is_whole() {
            let [x, y] = self.kernel.group.offset_of(self.chunk, self.kernel.width);
            return self.constant(Type::B32, [x, y, 0][axis] as u64);
        }
        let Group::Rows(_) = self.kernel.group else {
            let (here, access) = self.tid_place(self.first_thread, axis);
            let first = self.load(Op::Load, Type::B32, access, &[here]);
            return match axis {
                0 => self.add_constant(first, i64::from(self.chunk * self.kernel.width)),
                _ => first,
            };
        };
        if axis != 1 {
            return self.constant(Type::B32, 0);
        }
        let (first, shift) = (self.first_thread, self.kernel.width.trailing_zeros());
        let shift = self.constant(Type::B32, shift.into());
        let row = self.simple(Opcode::Shr, OpType::U32, Type::B32, &[first, shift]);
        self.add_constant(row, i64::from(self.chunk))
    }

    /// Emits the lanes of one of the `%lanemask` registers.
    fn lane_mask(&mut self, register: SpecialReg) -> Value {
        let ty = self.vector(Kind::B32);
        let low = self.constant(Type::B32, 31);
        let first = self.simple(Opcode::And, OpType::B32, Type::B32, &[self.thread, low]);
        let lane = self.value(Op::Affine, ty, Data::Number(1), &[first]);
        let one = self.constant(Type::B32, 1);
        let bit = self.simple(Opcode::Shl, OpType::B32, ty, &[one, lane]);
        let below = self.simple(Opcode::Sub, OpType::U32, ty, &[bit, one]);
        match register {
            SpecialReg::LanemaskEq => bit,
            SpecialReg::LanemaskLt => below,
            SpecialReg::LanemaskLe => self.simple(Opcode::Or, OpType::B32, ty, &[below, bit]),
            SpecialReg::LanemaskGe => self.simple(Opcode::Not, OpType::B32, ty, &[below]),
            _ => {
                let upto = self.simple(Opcode::Or, OpType::B32, ty, &[below, bit]);
                self.simple(Opcode::Not, OpType::B32, ty, &[upto])
            }
        }
    }

    /// Returns the address of a module variable, which is loaded at the start.
    fn address_of_symbol(&mut self, symbol: SymbolId) -> Value {
        if let Some(&address) = self.symbols.get(&symbol) {
            return address;
        }
        let table = self.field(self.kernel.layout.symbols, Type::B64);
        let address = self.at_start(|e| {
            let entry = e.add_constant(table, 8 * i64::from(symbol.0));
            e.load(Op::Load, Type::B64, scalar_access(OpType::B64), &[entry])
        });
        self.symbols.insert(symbol, address);
        address
    }

    /// Emits the address of a module variable or of the parameters.
    pub(crate) fn address_of(&mut self, inst: Inst, data: &InstData) -> Result<(), Refusal> {
        let result = self.source.dfg.results(inst)[0];
        let bits = if data.opcode == Opcode::ParamAddr {
            let base = self.field(self.kernel.layout.params, Type::B64);
            self.add_constant(base, data.payload() as i64)
        } else {
            let (symbol, addend) = split_symbol_payload(data.payload());
            let base = self.address_of_symbol(symbol);
            self.add_constant(base, i64::from(addend))
        };
        let bits = match self.kind(result) {
            Kind::B32 => self.convert(OpType::U32, OpType::U64, bits),
            _ => bits,
        };
        self.set_scalar(result, bits);
        Ok(())
    }

    /// Returns the base address of the window of a state space, for local memory that of each lane; `None` if addresses in
    /// the state space are host addresses.
    pub(crate) fn window(&mut self, space: StateSpace) -> Result<Option<Value>, Refusal> {
        match space {
            StateSpace::Shared | StateSpace::SharedCluster => {
                Ok(Some(self.field(self.kernel.layout.shared_base, Type::B64)))
            }
            StateSpace::Local => Ok(Some(self.local_memories())),
            _ => Ok(None),
        }
    }

    /// Emits a conversion between a generic address and an address in a state space.
    pub(crate) fn cvta(&mut self, inst: Inst, data: &InstData) -> Result<(), Refusal> {
        let source = self.source;
        let (result, arg) = (source.dfg.results(inst)[0], source.dfg.args(inst)[0]);
        let window = self.window(data.mods.space())?;
        let is_varying = self.own_class(result) == Class::Varying;
        let address = match is_varying {
            true => self.operand(arg),
            false => self.scalar(arg),
        };
        let to = data.mods.mode() == Mode::To;
        let bits = match window {
            Some(base) if to => {
                let wide = self.widened(address);
                self.difference(wide, base)
            }
            Some(base) => {
                let offset = self.low_word(address);
                let offset = self.convert(OpType::U64, OpType::U32, offset);
                self.sum(base, offset)
            }
            None => self.widened(address),
        };
        let bits = match self.kind(result) {
            Kind::B32 => self.low_word(bits),
            _ => bits,
        };
        if is_varying {
            let bits = match self.out.ty(bits).lanes() {
                1 if self.kernel.width > 1 => {
                    let ty = self.vector(self.kind(result));
                    self.value(Op::Splat, ty, Data::Nothing, &[bits])
                }
                _ => bits,
            };
            self.set_lanes(result, bits);
        } else {
            self.set_scalar(result, bits);
        }
        Ok(())
    }

    /// Returns an address with 64 bits.
    pub(crate) fn widened(&mut self, address: Value) -> Value {
        match self.out.ty(address).lane_bits() {
            64 => address,
            _ => self.convert(OpType::U64, OpType::U32, address),
        }
    }

    /// Returns the low 32 bits of an address.
    pub(crate) fn low_word(&mut self, address: Value) -> Value {
        match self.out.ty(address).lane_bits() {
            32 => address,
            _ => self.convert(OpType::U32, OpType::U64, address),
        }
    }

    /// Emits a sum of 64-bit values, of which either may be a scalar.
    pub(crate) fn sum(&mut self, a: Value, b: Value) -> Value {
        self.on_integers(Opcode::Add, a, b)
    }

    fn difference(&mut self, a: Value, b: Value) -> Value {
        self.on_integers(Opcode::Sub, a, b)
    }
}

/// Returns the dimension of a register, given the register of dimension x.
fn axis(register: SpecialReg, first: SpecialReg) -> usize {
    register as usize - first as usize
}
