//! Lowers matrix instructions of a warp: matrix multiplications, loads and stores of fragments (the
//! parts of a matrix in the registers of one lane), and transposition.
//!
//! A matrix multiplication becomes one op ([`margay_ops::meaning::matrix`]). The other instructions
//! become shuffles, loads and stores. [`Product`] defines the layout of `wmma` fragments. All
//! elements in the registers of a lane are in one line (row or column) of the matrix, so a load or
//! store needs only one base address for each lane.

use margay_ir::entity::Value;
use margay_ops::meaning::Desc;
use margay_ops::meaning::matrix::{Part, Product};
use margay_ops::mods::{Mode, Mods, StateSpace};
use margay_ops::ops::Opcode;
use margay_ops::sreg::SpecialReg;
use margay_ops::types::{OpType, Type};
use margay_ptx::Lowering;
use smallvec::SmallVec;

use super::function::FunctionLowering;
use super::operand::bits_type;
use super::{Lowered, wrong_kind};
use crate::ast::{self, Operand};
use crate::resolve::ResolvedInstruction;

/// The places in memory of the elements of a `wmma` matrix that a lane loads or stores. The value
/// of `start` differs between lanes.
struct Tile {
    product: Product,
    part: Part,
    /// Whether the elements in one register of a lane are contiguous in memory.
    contiguous: bool,
    /// The address of the lane's first element.
    start: Value,
    /// If the elements of a register are not contiguous: the distance in bytes between consecutive
    /// elements of the lane.
    step: Value,
    space: StateSpace,
}

/// The address operand and the modifier `.trans` of `ldmatrix` or `stmatrix`, whose matrices have 8
/// rows of 16 bytes each. In each lane, `address` is the address of a different row.
struct Rows {
    address: Value,
    trans: bool,
}

impl FunctionLowering<'_, '_> {
    fn number(&mut self, value: u64) -> Value {
        self.b.constant(Type::B32, value)
    }

    fn binary(&mut self, opcode: Opcode, left: Value, right: Value) -> Value {
        let ty = match opcode {
            Opcode::And | Opcode::Or | Opcode::Xor | Opcode::Shl => OpType::B32,
            _ => OpType::U32,
        };
        self.b.simple(opcode, ty, &[left, right])
    }

    fn lane(&mut self) -> Value {
        self.b.sreg(SpecialReg::Laneid)
    }

    /// Lowers `mma` and `wmma.mma`.
    pub(super) fn product(
        &mut self,
        instruction: &ast::Instruction,
        resolved: &ResolvedInstruction,
        operands: &[Operand],
    ) -> Lowered<()> {
        let desc = self.product_desc(instruction, resolved);
        let Some(product) = Product::of(&desc) else {
            let what = self.ast.spelling(instruction);
            return Err(wrong_kind(
                instruction.span,
                format!("`{what}` has no meaning"),
            ));
        };
        let mut args: SmallVec<[Value; 25]> = SmallVec::new();
        args.push(self.number(u32::MAX.into()));
        let parts = [Part::A, Part::B, Part::C];
        for (operand, part) in operands.iter().skip(1).zip(parts) {
            let ty = unsigned_register(&product, part);
            for register in self.parts(operand) {
                let value = self.read(&register, ty)?;
                args.push(self.held_as(value, ty));
            }
        }
        let ty = unsigned_register(&product, Part::D);
        let places = match operands.first() {
            Some(operand) => self.parts(operand),
            None => SmallVec::new(),
        };
        let types: SmallVec<[Type; 8]> = places.iter().map(|_| ty.held()).collect();
        let inst = self.b.inst(desc, &args, &types);
        let results: SmallVec<[Value; 8]> = SmallVec::from_slice(self.b.function.dfg.results(inst));
        for (operand, value) in places.iter().zip(results) {
            let place = self.place(operand)?;
            self.write(place, value, ty);
        }
        Ok(())
    }

    fn product_desc(&self, instruction: &ast::Instruction, resolved: &ResolvedInstruction) -> Desc {
        let types = &resolved.spelling().types;
        let given = |index: usize| types.get(index).copied().unwrap_or_default();
        let mut desc = resolved.desc();
        desc.opcode = Opcode::Mma;
        // If A and B are f16, the spelling of `wmma.mma` contains only the types of D and C.
        let (b, c) = match types.len() {
            2 => (OpType::F16, given(1)),
            _ => (given(2), given(3)),
        };
        if types.len() == 2 {
            desc.src = OpType::F16;
        }
        let c_code = match c {
            _ if c == desc.ty => 0,
            OpType::F16 => 1,
            _ => 2,
        };
        let b_code = match b {
            OpType::E5M2 => 1,
            OpType::E4M3 => 2,
            _ => 0,
        };
        let words = words_of(self.ast, instruction);
        let mut layouts = words.iter().filter(|word| matches!(**word, "row" | "col"));
        let is = |layout: Option<&&str>, text: &str| u8::from(layout.copied() == Some(text));
        let columns = is(layouts.next(), "col") | is(layouts.next(), "row") << 1;
        let fragments = self.ast.text(instruction.opcode) == "wmma";
        let volta = desc.mods.mode() == Mode::M8n8k4 && desc.src == OpType::F16;
        desc.mods = desc
            .mods
            .with_noftz(fragments)
            .with_bsigned(b.is_signed())
            .with_bsel(b_code)
            .with_dsel(c_code)
            .with_asel(if volta { columns } else { 0 });
        desc
    }

    /// Lowers the matrix instructions that become several ops.
    pub(super) fn matrix(
        &mut self,
        lowering: Lowering,
        instruction: &ast::Instruction,
        resolved: &ResolvedInstruction,
        operands: &[Operand],
    ) -> Lowered<()> {
        match (lowering, operands) {
            (Lowering::TileLoad, [to, address, rest @ ..]) => {
                let tile = self.tile(instruction, resolved, address, rest.first())?;
                self.load_tile(&tile, to)
            }
            (Lowering::TileStore, [address, from, rest @ ..]) => {
                let tile = self.tile(instruction, resolved, address, rest.first())?;
                self.store_tile(&tile, from)
            }
            (Lowering::MatrixLoad, [to, address]) => {
                let rows = self.rows(resolved, address)?;
                self.load_rows(&rows, to)
            }
            (Lowering::MatrixStore, [address, from]) => {
                let rows = self.rows(resolved, address)?;
                self.store_rows(&rows, from)
            }
            (Lowering::MatrixTranspose, [to, from]) => self.transpose(to, from),
            _ => Err(wrong_kind(instruction.span, "an operand is missing")),
        }
    }

    fn tile(
        &mut self,
        instruction: &ast::Instruction,
        resolved: &ResolvedInstruction,
        address: &Operand,
        stride: Option<&Operand>,
    ) -> Lowered<Tile> {
        let words = words_of(self.ast, instruction);
        let part = match words.get(1) {
            Some(&"a") => Part::A,
            Some(&"b") => Part::B,
            _ => Part::C,
        };
        let by_columns = words.contains(&"col");
        let Some(product) = fragment_of(resolved.desc(), part) else {
            return Err(wrong_kind(instruction.span, "this fragment has no meaning"));
        };
        let (base, space) = self.address(address, resolved.desc().mods.space())?;
        let base = self.plain(base);
        let shape = product.shape;
        let (line, lines) = match part {
            Part::A => (shape.k, shape.m),
            Part::B => (shape.k, shape.n),
            _ => (shape.n, shape.m),
        };
        let contiguous = by_columns == (part == Part::B);
        let stride = match stride {
            Some(operand) => {
                let stride = self.read(operand, OpType::U32)?;
                self.cut_to(stride, OpType::U32)
            }
            None => self.number(u64::from(if contiguous { line } else { lines })),
        };
        // All sizes are powers of two, and all elements of a lane are in one line of the matrix, so shifts and masks
        // give their position.
        let count = product.registers(part) * product.packed(part);
        let lane = self.lane();
        let (count, size) = (
            self.number(count.into()),
            self.number((line * lines - 1).into()),
        );
        let desc = product_of_lane();
        let at = self.b.op(desc, &[lane, count], Type::B32);
        let at = self.binary(Opcode::And, at, size);
        let (shift, low) = (line.trailing_zeros(), self.number((line - 1).into()));
        let shift = self.number(shift.into());
        let major = self.b.simple(Opcode::Shr, OpType::U32, &[at, shift]);
        let minor = self.binary(Opcode::And, at, low);
        let (strided, plain) = if contiguous {
            (major, minor)
        } else {
            (minor, major)
        };
        let bits = product.ty(part).element_bits();
        let strided = self.scaled(strided, stride, bits, base);
        let one = self.number(1);
        let plain = self.scaled(plain, one, bits, base);
        let width = self.address_type(base);
        let start = self.b.simple(Opcode::Add, width, &[base, strided]);
        let start = self.b.simple(Opcode::Add, width, &[start, plain]);
        let step = self.scaled(one, stride, bits, base);
        Ok(Tile {
            product,
            part,
            contiguous,
            start,
            step,
            space,
        })
    }

    /// Returns the address as a value of an untyped integer type with the same width.
    pub(super) fn plain(&mut self, address: Value) -> Value {
        let bits = self.b.function.dfg.ty(address).lane_bits();
        self.b
            .bitcast(address, Type::bits_of(bits).unwrap_or(Type::B64))
    }

    pub(super) fn address_type(&self, address: Value) -> OpType {
        super::operand::unsigned(self.b.function.dfg.ty(address).lane_bits())
    }

    /// Emits the computation of the size in bytes of `index * stride` elements, where an element
    /// has `bits` bits. The offset has the width of the address `like`.
    fn scaled(&mut self, index: Value, stride: Value, bits: u32, like: Value) -> Value {
        let ty = self.address_type(like);
        let (index, stride) = (
            self.convert(index, OpType::U32, ty),
            self.convert(stride, OpType::U32, ty),
        );
        let desc = Desc {
            ty,
            ..product_of_lane()
        };
        let elements = self.b.op(desc, &[index, stride], ty.held());
        let (opcode, amount) = if bits < 8 {
            (Opcode::Shr, (8 / bits).trailing_zeros())
        } else {
            (Opcode::Shl, (bits / 8).trailing_zeros())
        };
        let amount = self.number(amount.into());
        self.b.simple(opcode, ty, &[elements, amount])
    }

    fn moved(&mut self, address: Value, by: Value, times: u32) -> Value {
        let ty = self.address_type(address);
        let times = self.b.constant(ty.held(), times.into());
        let desc = Desc {
            ty,
            ..product_of_lane()
        };
        let bytes = self.b.op(desc, &[by, times], ty.held());
        self.b.simple(Opcode::Add, ty, &[address, bytes])
    }

    fn load_from(&mut self, ty: OpType, space: StateSpace, address: Value) -> Value {
        self.b
            .op(memory(Opcode::Ld, ty, space), &[address], ty.held())
    }

    fn load_tile(&mut self, tile: &Tile, to: &Operand) -> Lowered<()> {
        let (product, part) = (&tile.product, tile.part);
        let whole = unsigned_register(product, part);
        let packed = product.packed(part);
        for (register, operand) in self.parts(to).iter().enumerate() {
            let register = register as u32;
            let value = if tile.contiguous {
                let bytes = i64::from(register * whole.bits() / 8);
                let address = self.offset_by(tile.start, bytes);
                self.load_from(whole, tile.space, address)
            } else {
                let bits = product.ty(part).element_bits();
                let element = bits_type(Type::bits_of(bits).unwrap_or(Type::B32));
                let mut values: SmallVec<[Value; 4]> = SmallVec::new();
                for within in 0..packed {
                    let address = self.moved(tile.start, tile.step, register * packed + within);
                    values.push(self.load_from(element, tile.space, address));
                }
                self.packed_value(whole, element, &values)
            };
            let place = self.place(operand)?;
            self.write(place, value, whole);
        }
        Ok(())
    }

    fn packed_value(&mut self, whole: OpType, part: OpType, values: &[Value]) -> Value {
        if let [value] = *values {
            return value;
        }
        let desc = Desc {
            opcode: Opcode::Pack,
            ty: whole,
            src: part,
            mods: Mods::NONE,
        };
        self.b.op(desc, values, whole.held())
    }

    fn store_tile(&mut self, tile: &Tile, from: &Operand) -> Lowered<()> {
        let (product, part) = (&tile.product, tile.part);
        let whole = unsigned_register(product, part);
        let packed = product.packed(part);
        for (register, operand) in self.parts(from).iter().enumerate() {
            let register = register as u32;
            let value = self.read(operand, whole)?;
            let value = self.held_as(value, whole);
            if tile.contiguous {
                let bytes = i64::from(register * whole.bits() / 8);
                let address = self.offset_by(tile.start, bytes);
                self.b.inst(
                    memory(Opcode::St, whole, tile.space),
                    &[address, value],
                    &[],
                );
                continue;
            }
            let bits = product.ty(part).element_bits();
            let element = bits_type(Type::bits_of(bits).unwrap_or(Type::B32));
            for (within, value) in self.unpacked(whole, element, value).into_iter().enumerate() {
                let index = register * packed + within as u32;
                let address = self.moved(tile.start, tile.step, index);
                self.b.inst(
                    memory(Opcode::St, element, tile.space),
                    &[address, value],
                    &[],
                );
            }
        }
        Ok(())
    }

    fn unpacked(&mut self, whole: OpType, part: OpType, value: Value) -> SmallVec<[Value; 4]> {
        let count = whole.bits() / part.bits();
        if count == 1 {
            return SmallVec::from_slice(&[value]);
        }
        let desc = Desc {
            opcode: Opcode::Unpack,
            ty: part,
            src: whole,
            mods: Mods::NONE,
        };
        let types: SmallVec<[Type; 4]> = (0..count).map(|_| part.held()).collect();
        let inst = self.b.inst(desc, &[value], &types);
        SmallVec::from_slice(self.b.function.dfg.results(inst))
    }

    /// Converts the address operand of `ldmatrix` or `stmatrix` to a 32-bit address in shared memory.
    fn rows(&mut self, resolved: &ResolvedInstruction, address: &Operand) -> Lowered<Rows> {
        let (value, space) = self.address(address, resolved.desc().mods.space())?;
        let mut value = self.plain(value);
        let ty = self.address_type(value);
        if space == StateSpace::None && ty == OpType::U64 {
            let mods = Mods::NONE
                .with_space(StateSpace::Shared)
                .with_mode(Mode::To);
            let desc = Desc {
                opcode: Opcode::Cvta,
                ty,
                src: OpType::None,
                mods,
            };
            value = self.b.op(desc, &[value], ty.held());
        }
        if ty != OpType::U32 {
            value = self.convert(value, ty, OpType::U32);
        }
        Ok(Rows {
            address: self.row_address(value),
            trans: resolved.spelling().has("trans"),
        })
    }

    /// Emits a shuffle of the whole warp that returns `value` of the lane with the number `lane`.
    fn shuffled(&mut self, value: Value, lane: Value) -> Value {
        let (all, mask) = (self.number(31), self.number(u32::MAX.into()));
        let desc = Desc {
            opcode: Opcode::Shfl,
            ty: OpType::B32,
            src: OpType::None,
            mods: Mods::NONE.with_mode(Mode::Idx),
        };
        let types = [Type::B32, Type::PRED];
        let inst = self.b.inst(desc, &[value, lane, all, mask], &types);
        self.b.function.dfg.results(inst)[0]
    }

    /// Returns the addresses at which a lane accesses its part of the matrix with the index
    /// `matrix`. Without `.trans`, there is one address, at which the lane accesses 32 bits. With
    /// `.trans`, there are two addresses at which the lane accesses 16 bits each, because the two
    /// halves of its register are in different rows.
    fn row_places(&mut self, rows: &Rows, matrix: u32) -> SmallVec<[Value; 2]> {
        let lane = self.lane();
        let (three, two, one) = (self.number(3), self.number(2), self.number(1));
        let group = self.binary(Opcode::Shr, lane, two);
        let thread = self.binary(Opcode::And, lane, three);
        let first = self.number(u64::from(8 * matrix));
        let mut places = SmallVec::new();
        if !rows.trans {
            let row = self.binary(Opcode::Add, first, group);
            let address = self.shuffled(rows.address, row);
            let offset = self.binary(Opcode::Shl, thread, two);
            places.push(self.binary(Opcode::Add, address, offset));
            return places;
        }
        let even = self.binary(Opcode::Shl, thread, one);
        let column = self.binary(Opcode::Shl, group, one);
        for half in 0..2 {
            let half = self.number(half);
            let row = self.binary(Opcode::Add, even, half);
            let row = self.binary(Opcode::Add, first, row);
            let address = self.shuffled(rows.address, row);
            places.push(self.binary(Opcode::Add, address, column));
        }
        places
    }

    fn load_rows(&mut self, rows: &Rows, to: &Operand) -> Lowered<()> {
        let mut values: SmallVec<[Value; 4]> = SmallVec::new();
        let registers = self.parts(to);
        for matrix in 0..registers.len() as u32 {
            let places = self.row_places(rows, matrix);
            let part = if rows.trans { OpType::B16 } else { OpType::B32 };
            let loaded: SmallVec<[Value; 2]> = places
                .into_iter()
                .map(|place| self.load_from(part, StateSpace::Shared, place))
                .collect();
            values.push(self.packed_value(OpType::B32, part, &loaded));
        }
        for (operand, value) in registers.iter().zip(values) {
            let place = self.place(operand)?;
            self.write(place, value, OpType::B32);
        }
        Ok(())
    }

    fn store_rows(&mut self, rows: &Rows, from: &Operand) -> Lowered<()> {
        let part = if rows.trans { OpType::B16 } else { OpType::B32 };
        for (matrix, operand) in self.parts(from).iter().enumerate() {
            let value = self.read(operand, OpType::B32)?;
            let value = self.held_as(value, OpType::B32);
            let values = self.unpacked(OpType::B32, part, value);
            let places = self.row_places(rows, matrix as u32);
            for (place, value) in places.into_iter().zip(values) {
                self.b.inst(
                    memory(Opcode::St, part, StateSpace::Shared),
                    &[place, value],
                    &[],
                );
            }
        }
        Ok(())
    }

    /// Lowers `movmatrix.trans`. The register of a lane contains columns `2t` and `2t + 1` of row
    /// `lane / 4`, where `t` is `lane % 4`.
    fn transpose(&mut self, to: &Operand, from: &Operand) -> Lowered<()> {
        let value = self.read(from, OpType::B32)?;
        let value = self.held_as(value, OpType::B32);
        let lane = self.lane();
        let (one, two, three) = (self.number(1), self.number(2), self.number(3));
        let four = self.number(4);
        let group = self.binary(Opcode::Shr, lane, two);
        let thread = self.binary(Opcode::And, lane, three);
        // `first` is the lane that holds element [2t][group], and `second` is the lane that holds element [2t +
        // 1][group]. Four lanes hold a row.
        let row = self.b.simple(Opcode::Shl, OpType::B32, &[thread, three]);
        let within = self.binary(Opcode::Shr, group, one);
        let first = self.binary(Opcode::Add, row, within);
        let second = self.binary(Opcode::Add, first, four);
        let odd = self.binary(Opcode::And, group, one);
        let shift = self.b.simple(Opcode::Shl, OpType::B32, &[odd, four]);
        let mut halves: SmallVec<[Value; 4]> = SmallVec::new();
        for source in [first, second] {
            let word = self.shuffled(value, source);
            let word = self.binary(Opcode::Shr, word, shift);
            halves.push(self.convert(word, OpType::U32, OpType::U16));
        }
        let value = self.packed_value(OpType::B32, OpType::B16, &halves);
        let place = self.place(to)?;
        self.write(place, value, OpType::B32);
        Ok(())
    }
}

pub(super) fn words_of<'m>(
    module: &'m ast::Module,
    instruction: &ast::Instruction,
) -> SmallVec<[&'m str; 12]> {
    let modifiers = &module[instruction.modifiers];
    modifiers.iter().map(|m| module.text(m.name)).collect()
}

fn unsigned_register(product: &Product, part: Part) -> OpType {
    match product.register_bits(part) {
        64 => OpType::B64,
        _ => OpType::B32,
    }
}

fn memory(opcode: Opcode, ty: OpType, space: StateSpace) -> Desc {
    Desc {
        opcode,
        ty,
        src: OpType::None,
        mods: Mods::NONE.with_space(space),
    }
}

pub(super) fn product_of_lane() -> Desc {
    Desc {
        opcode: Opcode::Mul,
        ty: OpType::U32,
        src: OpType::None,
        mods: Mods::NONE.with_half(margay_ops::mods::Half::Lo),
    }
}

/// Returns the [`Product`] of a matrix multiplication that has a fragment of this type and shape,
/// because a [`Product`] defines the layout of its fragments.
fn fragment_of(desc: Desc, part: Part) -> Option<Product> {
    let ty = desc.ty;
    let (ty, src) = match part {
        Part::A | Part::B => match ty {
            OpType::F64 => (ty, ty),
            _ if ty.is_float() => (OpType::F32, ty),
            _ => (OpType::S32, ty),
        },
        _ => match (ty, desc.mods.mode()) {
            (OpType::F64, _) => (ty, ty),
            (OpType::S32, Mode::M8n8k32) => (ty, OpType::S4),
            (OpType::S32, Mode::M8n8k128) => (ty, OpType::B1),
            (OpType::S32, _) => (ty, OpType::S8),
            (_, Mode::M16n16k8) => (ty, OpType::TF32),
            _ => (ty, OpType::F16),
        },
    };
    Product::of(&Desc {
        opcode: Opcode::Mma,
        ty,
        src,
        mods: Mods::NONE.with_mode(desc.mods.mode()).with_noftz(true),
    })
}
