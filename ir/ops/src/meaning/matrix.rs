//! The reference function of matrix products of a warp: `mma` and `wmma` (PTX ISA, section 9.7.15).
//!
//! A product is `d = a * b + c`. The elements of these four matrices are in registers of the lanes
//! of a warp. [`Product`] describes the product; [`Product::place`] returns the row and column of
//! an element in a lane's registers. For `mma`, the figures of the ISA define the layout. For
//! `wmma`, the ISA does not define the layout of fragments. In Margay's layout, the registers of
//! lane `l` contain `count` consecutive elements that start with element `l * count`, where `count`
//! is the number of elements in a lane's registers. Elements are numbered by rows in `a` and in the
//! accumulators, and by columns in `b`. If the registers of 32 lanes have room for more elements
//! than the matrix has, the numbering starts again from the first element, so that several lanes
//! have the same element.
//!
//! The operands are a member mask, followed by the registers of `a`, `b` and `c`. For elements of
//! `f16`, `bf16`, `tf32` and 8-bit formats, products are exact. The sum starts with the element of
//! `c`. The products are added to it in double precision, in the order of `k`, and the sum is
//! rounded once to the type of the result. For `f64`, each sum is a chain of fused multiply-adds in
//! the order of `k`. Sums of integers wrap unless the op has the modifier `.satfinite`.
//!
//! For this op, the fields of [`Mods`] have these meanings:
//!
//! - `mode`: the shape of the product, such as `m16n8k8`.
//! - `noftz`: if set, the registers have the layout of `wmma` fragments; otherwise, they have the
//!   layout of `mma`.
//! - `asel` (for `m8n8k4` of `f16` only): bit 0 means that `a` is stored by columns, and bit 1 means that `b` is stored
//!   by rows.
//! - `bsel` (for `e4m3` and `e5m2`): 1 means that `b` is `e5m2`, otherwise `b` is `e4m3`.
//! - `bsigned`: whether the elements of `b` are signed integers.
//! - `dsel`: 1 means that `c` is `f16`, and 2 means that `c` is `f32`; otherwise `c` has the type of the result.
//! - `atom_op`: for elements of a single bit, the operation (`xor` or `and`) that replaces the
//!   multiplication.
//!
//! Invariant: if a description is not a valid product ([`Product::of`] returns `None`), the results are zeros.

pub mod plan;

use super::approx::{Host, halves};
use super::soft::{self, Format, Round};
use super::{Bits, Desc, WarpLanes, mask};
use crate::mods::{AtomOp, Mode, Mods, Rounding};
use crate::types::OpType;

/// One of the four matrices of a product `d = a * b + c`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The left factor `a`, with `m` rows and `k` columns.
    A,
    /// The right factor `b`, with `k` rows and `n` columns.
    B,
    /// The addend `c`, with `m` rows and `n` columns.
    C,
    /// The result.
    D,
}

/// The sizes of the matrices of a product `d = a * b + c`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// The number of rows of `a`, `c` and `d`.
    pub m: u32,
    /// The number of columns of `b`, `c` and `d`.
    pub n: u32,
    /// The number of columns of `a`, which is the number of rows of `b`.
    pub k: u32,
}

impl Shape {
    /// Returns the shape that a mode such as `m16n8k8` names, or `None` if the mode does not name a
    /// shape.
    pub fn of(mode: Mode) -> Option<Shape> {
        let (m, rest) = mode.name().strip_prefix('m')?.split_once('n')?;
        let (n, k) = rest.split_once('k')?;
        let number = |text: &str| text.parse().ok();
        Some(Shape {
            m: number(m)?,
            n: number(n)?,
            k: number(k)?,
        })
    }
}

/// The shape, the element types and the register layout of the matrix product that an `mma` op
/// computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Product {
    /// The sizes of the matrices.
    pub shape: Shape,
    /// Whether the registers have the layout of `wmma` fragments; otherwise, they have the layout
    /// of `mma`.
    pub fragments: bool,
    types: [OpType; 4],
    mods: Mods,
}

/// The row and the column of an element of a matrix.
pub type Coordinates = (u32, u32);

impl Product {
    /// Returns the product that an op with the description `desc` computes, or `None` if the
    /// description is not that of a valid product.
    pub fn of(desc: &Desc) -> Option<Product> {
        let mods = desc.mods;
        let shape = Shape::of(mods.mode())?;
        let b = match (desc.src, mods.bsel()) {
            (OpType::E4M3 | OpType::E5M2, 1) => OpType::E5M2,
            (OpType::E4M3 | OpType::E5M2, _) => OpType::E4M3,
            (OpType::S8 | OpType::U8, _) if mods.bsigned() => OpType::S8,
            (OpType::S8 | OpType::U8, _) => OpType::U8,
            (OpType::S4 | OpType::U4, _) if mods.bsigned() => OpType::S4,
            (OpType::S4 | OpType::U4, _) => OpType::U4,
            (other, _) => other,
        };
        let c = match mods.dsel() {
            1 => OpType::F16,
            2 => OpType::F32,
            _ => desc.ty,
        };
        let known = |ty: OpType| ty.elements() == 1 && ty != OpType::Pred;
        let product = Product {
            shape,
            fragments: mods.noftz(),
            types: [desc.src, b, c, desc.ty],
            mods,
        };
        (known(desc.ty) && known(desc.src) && product.registers_fit()).then_some(product)
    }

    /// Returns whether this module has a register layout for the shape, and each matrix has from
    /// one to eight whole registers in each lane.
    fn registers_fit(&self) -> bool {
        // Both factors have elements of the same size.
        let whole = self.shape.k.is_multiple_of(4 * self.packed(Part::A));
        let drawn = self.shape.n == 8 && self.shape.m < 32 && (self.is_volta() || whole);
        let drawn = self.fragments || drawn;
        drawn
            && [Part::A, Part::B, Part::C, Part::D]
                .into_iter()
                .all(|part| matches!(self.registers(part), 1..=8))
    }

    /// Returns the type of the elements of the matrix `part`.
    pub fn ty(&self, part: Part) -> OpType {
        self.types[part as usize]
    }

    /// Returns the number of bits of each register of the matrix `part`.
    pub fn register_bits(&self, part: Part) -> u32 {
        self.ty(part).element_bits().max(32)
    }

    /// Returns the number of elements in one register of the matrix `part`.
    pub fn packed(&self, part: Part) -> u32 {
        self.register_bits(part) / self.ty(part).element_bits()
    }

    /// Returns the number of rows and the number of columns of the matrix `part`.
    fn size(&self, part: Part) -> (u32, u32) {
        let Shape { m, n, k } = self.shape;
        match part {
            Part::A => (m, k),
            Part::B => (k, n),
            Part::C | Part::D => (m, n),
        }
    }

    fn is_volta(&self) -> bool {
        !self.fragments
            && self.shape == Shape { m: 8, n: 8, k: 4 }
            && self.ty(Part::A) == OpType::F16
    }

    /// Returns the number of registers that the matrix `part` has in each lane.
    pub fn registers(&self, part: Part) -> u32 {
        let (rows, columns) = self.size(part);
        // `m8n8k4` of f16 computes four products at once, with eight lanes for each product.
        let elements = rows * columns * self.problems() as u32;
        match self.ty(part) {
            // In the layout of `wmma`, an `f16` factor has eight registers in every shape.
            OpType::F16 if self.fragments && matches!(part, Part::A | Part::B) => 8,
            _ => elements / 32 / self.packed(part),
        }
    }

    /// Returns the row and column of an element of the matrix `part`. `index` is the index of the
    /// element among all elements of the matrix in registers of the lane.
    pub fn place(&self, part: Part, lane: u32, index: u32) -> Coordinates {
        if self.fragments {
            return self.fragment_place(part, lane, index);
        }
        if self.is_volta() {
            return self.volta_place(part, lane, index);
        }
        let (group, thread) = (lane >> 2, lane & 3);
        let packed = self.packed(part);
        let (register, within) = (index / packed, index % packed);
        let tall = u32::from(self.shape.m == 16);
        match part {
            Part::A => {
                let row = group + 8 * (register & tall);
                let column = thread * packed + within + (register >> tall) * 4 * packed;
                (row, column)
            }
            Part::B => (thread * packed + within + register * 4 * packed, group),
            Part::C | Part::D => (group + 8 * (index >> 1), thread * 2 + (index & 1)),
        }
    }

    fn fragment_place(&self, part: Part, lane: u32, index: u32) -> Coordinates {
        let (rows, columns) = self.size(part);
        let count = self.registers(part) * self.packed(part);
        let at = (lane * count + index) % (rows * columns);
        match part {
            Part::B => (at % rows, at / rows),
            _ => (at / columns, at % columns),
        }
    }

    /// Returns the row and column of an element, as [`Product::place`] does, for the shape `m8n8k4`
    /// of `f16`. An instruction of this shape computes four products; two groups of four lanes, 16
    /// lanes apart, compute each product.
    fn volta_place(&self, part: Part, lane: u32, index: u32) -> Coordinates {
        let high = if lane < 16 { 0 } else { 4 };
        let (own, other) = (lane % 4, index);
        match part {
            Part::A if self.mods.asel() & 1 == 0 => (own + high, other),
            Part::A => (other + high, own),
            Part::B if self.mods.asel() & 2 == 0 => (other, own + high),
            Part::B => (own, other + high),
            Part::C | Part::D if self.ty(part) == OpType::F16 => (own + high, other),
            Part::C | Part::D => (
                (lane & 1) + (index & 2) + high,
                (index & 4) + (lane & 2) + (index & 1),
            ),
        }
    }

    /// Returns the index of the product that a lane computes. The index is 0 unless the instruction computes several
    /// products.
    fn problem(&self, lane: u32) -> usize {
        if self.is_volta() {
            (lane as usize & 15) >> 2
        } else {
            0
        }
    }

    fn problems(&self) -> usize {
        if self.is_volta() { 4 } else { 1 }
    }

    /// Returns the index of the op's first operand that is a register of the matrix `part`. The
    /// member mask has index 0.
    fn first_operand(&self, part: Part) -> usize {
        let before: &[Part] = match part {
            Part::A | Part::D => &[],
            Part::B => &[Part::A],
            Part::C => &[Part::A, Part::B],
        };
        let registers = before.iter().map(|&part| self.registers(part) as usize);
        1 + registers.sum::<usize>()
    }

    /// Returns the number of operands and the number of results of the op.
    pub fn arity(&self) -> (usize, usize) {
        let operands = self.first_operand(Part::C) + self.registers(Part::C) as usize;
        (operands, self.registers(Part::D) as usize)
    }

    /// Returns the elements of the matrix `part`, by rows, from the registers of the lanes. For an
    /// instruction that computes several products, returns the matrices of all products one after
    /// another.
    fn gather(&self, part: Part, args: &[[Bits; 32]]) -> Vec<Bits> {
        let (rows, columns) = self.size(part);
        let size = (rows * columns) as usize;
        let mut matrix = vec![Bits::default(); size * self.problems()];
        let (packed, bits) = (self.packed(part), self.ty(part).element_bits());
        let first = self.first_operand(part);
        for index in 0..self.registers(part) * packed {
            let Some(registers) = args.get(first + (index / packed) as usize) else {
                continue;
            };
            for lane in 0..32 {
                let element = registers[lane as usize] >> (index % packed * bits) & mask(bits);
                let (row, column) = self.place(part, lane, index);
                matrix[self.problem(lane) * size + (row * columns + column) as usize] = element;
            }
        }
        matrix
    }

    /// Writes `matrix`, the elements of the result `d` by rows, to the registers of the lanes.
    fn scatter(&self, matrix: &[Bits], results: &mut [[Bits; 32]]) {
        let (rows, columns) = self.size(Part::D);
        let size = (rows * columns) as usize;
        let (packed, bits) = (self.packed(Part::D), self.ty(Part::D).element_bits());
        let registers = self.registers(Part::D) as usize;
        for (register, lanes) in results.iter_mut().take(registers).enumerate() {
            for lane in 0..32u32 {
                lanes[lane as usize] = (0..packed).fold(0, |whole, within| {
                    let index = register as u32 * packed + within;
                    let (row, column) = self.place(Part::D, lane, index);
                    let at = self.problem(lane) * size + (row * columns + column) as usize;
                    whole | (matrix[at] & mask(bits)) << (within * bits)
                });
            }
        }
    }

    /// Returns the elements of `a * b + c`. The elements of all matrices are stored by rows.
    fn multiply(&self, a: &[Bits], b: &[Bits], c: &[Bits]) -> Vec<Bits> {
        match self.ty(Part::D) {
            OpType::S32 => self.integers(a, b, c),
            OpType::F64 => self.doubles(a, b, c),
            _ => self.floats(a, b, c),
        }
    }

    /// Returns the elements of the result `d`, each of which `element` computes. The first argument
    /// of `element` is the index of the element in the result. The second argument iterates over
    /// the pairs of elements of `a` and `b` that are multiplied for this element: an index in `a`
    /// and an index in `b`.
    fn each(
        &self,
        element: impl Fn(usize, &mut dyn Iterator<Item = (usize, usize)>) -> Bits,
    ) -> Vec<Bits> {
        let Shape { m, n, k } = self.shape;
        let (m, n, k) = (m as usize, n as usize, k as usize);
        (0..m * n)
            .map(|at| {
                let (row, column) = (at / n, at % n);
                let mut pairs = (0..k).map(|i| (row * k + i, i * n + column));
                element(at, &mut pairs)
            })
            .collect()
    }

    fn integers(&self, a: &[Bits], b: &[Bits], c: &[Bits]) -> Vec<Bits> {
        let value = |part: Part, bits: Bits| {
            let ty = self.ty(part);
            match ty.is_signed() {
                true => super::sign_extend(bits, ty.element_bits()) as i64,
                false => bits as i64,
            }
        };
        let values = |part, matrix: &[Bits]| -> Vec<i64> {
            matrix.iter().map(|&bits| value(part, bits)).collect()
        };
        let (left, right) = (values(Part::A, a), values(Part::B, b));
        let op = self.mods.atom_op();
        let times = |(i, j): (usize, usize)| match op {
            AtomOp::Xor => left[i] ^ right[j],
            AtomOp::And => left[i] & right[j],
            _ => left[i].wrapping_mul(right[j]),
        };
        self.each(|at, pairs| {
            let sum = pairs
                .map(times)
                .fold(value(Part::C, c[at]), i64::wrapping_add);
            let kept = match self.mods.satfinite() {
                true => sum.clamp(i32::MIN.into(), i32::MAX.into()) as i32,
                false => sum as i32,
            };
            (kept as u32).into()
        })
    }

    fn doubles(&self, a: &[Bits], b: &[Bits], c: &[Bits]) -> Vec<Bits> {
        let round = Round::of(self.mods.rounding());
        let nearest = matches!(self.mods.rounding(), Rounding::None | Rounding::Rn);
        self.each(|at, pairs| {
            pairs.fold(c[at], |sum, (i, j)| {
                if nearest {
                    let value = |bits: Bits| f64::from_bits(bits as u64);
                    return value(a[i])
                        .mul_add(value(b[j]), value(sum))
                        .to_bits()
                        .into();
                }
                let number = |bits| Format::F64.decode(bits);
                let product = soft::multiply(number(a[i]), number(b[j]));
                let sum = soft::add(product, number(sum), round);
                Format::F64.encode(sum, round, false)
            })
        })
    }

    fn floats(&self, a: &[Bits], b: &[Bits], c: &[Bits]) -> Vec<Bits> {
        let values = |part, matrix: &[Bits]| -> Vec<f64> {
            matrix
                .iter()
                .map(|&bits| double(self.ty(part), bits))
                .collect()
        };
        let (a, b, mut sums) = (values(Part::A, a), values(Part::B, b), values(Part::C, c));
        let (n, k) = (self.shape.n as usize, self.shape.k as usize);
        // The loop computes one row of results at a time. Each sum adds its products in the order of `k`.
        for (left, sums) in a.chunks_exact(k).zip(sums.chunks_exact_mut(n)) {
            for (left, right) in left.iter().zip(b.chunks_exact(n)) {
                for (sum, right) in sums.iter_mut().zip(right) {
                    *sum += left * right;
                }
            }
        }
        sums.into_iter().map(|sum| self.round(sum)).collect()
    }

    /// Rounds `sum` to the type of the elements of the result `d`.
    fn round(&self, sum: f64) -> Bits {
        let Some(format) = Format::of(self.ty(Part::D)) else {
            return 0;
        };
        if sum.is_nan() {
            return if self.mods.satfinite() { 0 } else { format.nan };
        }
        if self.ty(Part::D) == OpType::F32 && !self.mods.satfinite() {
            return (sum as f32).to_bits().into();
        }
        let number = Format::F64.decode(sum.to_bits().into());
        format.encode(number, Round::NearestEven, self.mods.satfinite())
    }
}

/// Converts an element of the type `ty` to `f64`. A `tf32` element is in the upper 19 bits of its register.
fn double(ty: OpType, bits: Bits) -> f64 {
    let (format, bits) = match ty {
        OpType::F32 => return f32::from_bits(bits as u32).into(),
        OpType::TF32 => return f32::from_bits(bits as u32 & !0x1fff).into(),
        OpType::BF16 => return f32::from_bits((bits as u32) << 16).into(),
        OpType::F16 => return halves::single_of_half(&mut Host, bits as i32).into(),
        _ => (Format::of(ty), bits),
    };
    format.map_or(0.0, |format| {
        let wide = Format::F64.encode(format.decode(bits), Round::NearestEven, false);
        f64::from_bits(wide as u64)
    })
}

/// Computes the matrix product of a warp from the operands in `warp`, and writes the results there.
pub fn mma(desc: &Desc, warp: &mut WarpLanes<'_>) {
    let Some(product) = Product::of(desc) else {
        warp.results.fill([0; 32]);
        return;
    };
    let gather = |part| product.gather(part, warp.args);
    let (a, b, c) = (gather(Part::A), gather(Part::B), gather(Part::C));
    let count = product.problems();
    let part = |matrix: &[Bits], problem: usize| -> Vec<Bits> {
        let size = matrix.len() / count;
        matrix[problem * size..(problem + 1) * size].to_vec()
    };
    let result: Vec<Bits> = (0..count)
        .flat_map(|i| product.multiply(&part(&a, i), &part(&b, i), &part(&c, i)))
        .collect();
    product.scatter(&result, warp.results);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Opcode;

    fn product(mode: Mode, ty: OpType, src: OpType, mods: Mods) -> Product {
        let desc = Desc {
            opcode: Opcode::Mma,
            ty,
            src,
            mods: mods.with_mode(mode),
        };
        Product::of(&desc).expect("a product")
    }

    /// Checks the positions of the elements in the corners of the PTX ISA's layout figures. Each
    /// case consists of a matrix, a lane, the index of an element, and the element's row and
    /// column.
    #[test]
    fn elements_lie_where_the_isa_draws_them() {
        let check = |product: Product, cases: &[(Part, u32, u32, Coordinates)]| {
            for &(part, lane, index, place) in cases {
                assert_eq!(
                    product.place(part, lane, index),
                    place,
                    "{part:?} {lane} {index}"
                );
            }
        };
        let half = product(Mode::M16n8k16, OpType::F32, OpType::F16, Mods::NONE);
        check(
            half,
            &[
                (Part::A, 0, 0, (0, 0)),
                (Part::A, 0, 2, (8, 0)),
                (Part::A, 5, 5, (1, 11)),
                (Part::A, 31, 7, (15, 15)),
                (Part::B, 6, 1, (5, 1)),
                (Part::B, 31, 3, (15, 7)),
                (Part::C, 7, 1, (1, 7)),
                (Part::D, 30, 2, (15, 4)),
            ],
        );
        let bytes = product(Mode::M16n8k32, OpType::S32, OpType::S8, Mods::NONE);
        check(
            bytes,
            &[
                (Part::A, 1, 3, (0, 7)),
                (Part::A, 1, 4, (8, 4)),
                (Part::A, 2, 8, (0, 24)),
                (Part::A, 31, 15, (15, 31)),
                (Part::B, 9, 6, (22, 2)),
            ],
        );
        let tf32 = product(Mode::M16n8k8, OpType::F32, OpType::TF32, Mods::NONE);
        check(
            tf32,
            &[
                (Part::A, 6, 1, (9, 2)),
                (Part::A, 6, 2, (1, 6)),
                (Part::B, 6, 1, (6, 1)),
            ],
        );
        let double = product(Mode::M8n8k4, OpType::F64, OpType::F64, Mods::NONE);
        check(
            double,
            &[
                (Part::A, 13, 0, (3, 1)),
                (Part::B, 13, 0, (1, 3)),
                (Part::C, 13, 1, (3, 3)),
            ],
        );
        let volta = product(Mode::M8n8k4, OpType::F32, OpType::F16, Mods::NONE);
        check(
            volta,
            &[
                (Part::A, 18, 3, (6, 3)),
                (Part::B, 18, 3, (3, 6)),
                (Part::C, 19, 6, (7, 6)),
                (Part::D, 1, 5, (1, 5)),
            ],
        );
    }

    #[test]
    fn registers_are_as_many_as_the_isa_says() {
        let count = |mode, ty, src, mods| {
            let product = product(mode, ty, src, mods);
            [Part::A, Part::B, Part::C, Part::D].map(|part| product.registers(part))
        };
        use OpType::{B1, BF16, E4M3, F16, F32, F64, S4, S8, S32, TF32};
        let wmma = Mods::NONE.with_noftz(true);
        assert_eq!(count(Mode::M16n8k16, F16, F16, Mods::NONE), [4, 2, 2, 2]);
        assert_eq!(count(Mode::M16n8k8, F32, BF16, Mods::NONE), [2, 1, 4, 4]);
        assert_eq!(count(Mode::M16n8k4, F32, TF32, Mods::NONE), [2, 1, 4, 4]);
        assert_eq!(count(Mode::M16n8k16, F64, F64, Mods::NONE), [8, 4, 4, 4]);
        assert_eq!(count(Mode::M8n8k32, S32, S4, Mods::NONE), [1, 1, 2, 2]);
        assert_eq!(count(Mode::M16n8k256, S32, B1, Mods::NONE), [4, 2, 4, 4]);
        assert_eq!(count(Mode::M16n8k32, F32, E4M3, Mods::NONE), [4, 2, 4, 4]);
        assert_eq!(count(Mode::M8n8k4, F16, F16, Mods::NONE), [2, 2, 4, 4]);
        assert_eq!(count(Mode::M8n8k4, F32, F16, Mods::NONE), [2, 2, 8, 8]);
        assert_eq!(count(Mode::M32n8k16, F32, F16, wmma), [8, 8, 8, 8]);
        assert_eq!(count(Mode::M8n32k16, S32, S8, wmma), [1, 4, 8, 8]);
        assert_eq!(count(Mode::M16n16k8, F32, TF32, wmma), [4, 4, 8, 8]);
        assert_eq!(count(Mode::M16n16k16, F16, F16, wmma), [8, 8, 4, 4]);
        assert_eq!(count(Mode::M8n8k4, F64, F64, wmma), [1, 1, 2, 2]);
    }

    /// Checks that each element of each matrix is in a register of at least one lane.
    #[test]
    fn lanes_hold_every_element() {
        for flag in [false, true] {
            for (mode, ty, src) in [
                (Mode::M16n8k16, OpType::F32, OpType::F16),
                (Mode::M16n8k8, OpType::F32, OpType::TF32),
                (Mode::M16n8k32, OpType::S32, OpType::U8),
                (Mode::M8n8k128, OpType::S32, OpType::B1),
                (Mode::M8n8k4, OpType::F64, OpType::F64),
            ] {
                let product = product(mode, ty, src, Mods::NONE.with_noftz(flag));
                for part in [Part::A, Part::B, Part::C, Part::D] {
                    let (rows, columns) = product.size(part);
                    let mut seen = vec![false; (rows * columns) as usize];
                    for lane in 0..32 {
                        for index in 0..product.registers(part) * product.packed(part) {
                            let (row, column) = product.place(part, lane, index);
                            seen[(row * columns + column) as usize] = true;
                        }
                    }
                    assert!(seen.iter().all(|&seen| seen), "{mode:?} {part:?}");
                }
            }
        }
    }
}
