//! A fast implementation of matrix products, which generated code calls: the layout of the elements
//! in registers is computed in advance, and the Rust compiler vectorises the loops over the
//! registers.
//!
//! Invariant: the results have the same bits as the results of [`super::mma`]. Products of elements with at most 24
//! significant bits are exact in double precision, so a fused multiply-add gives the same result as a multiplication
//! and an addition. Each sum adds its products in the order of `k`. Matrix products without these
//! properties have no plan. If an `f64` result is NaN, [`Plan::doubles`] returns false and computes
//! nothing, because the bits of the NaN depend on the processor.

pub mod vectors;

use self::vectors::Vectors;
use super::super::soft::Format;
use super::{Coordinates, Part, Product, double};
use crate::meaning::{Bits, Desc};
use crate::mods::{AtomOp, Rounding};
use crate::types::OpType;

/// The maximum number of registers that a matrix has in each lane.
const REGISTERS: usize = 8;
/// The maximum number of registers that a matrix has in all 32 lanes together.
const WORDS: usize = 32 * REGISTERS;
/// The maximum number of elements of a factor with integer elements.
const INTEGERS: usize = 1024;
/// The maximum number of elements of a factor with floating-point elements.
const FLOATS: usize = 512;

/// The registers that contain a matrix. Each register has an element for each of the 32 lanes.
pub type Registers<W> = [[W; 32]; REGISTERS];

/// The registers that contain the factors and the addend of a product. Each register has an element
/// for each of the 32 lanes. References for registers that the product does not use may refer to
/// any array.
#[derive(Clone, Copy, Debug)]
pub struct Operands<'a, W> {
    /// The left factor.
    pub a: [&'a [W; 32]; REGISTERS],
    /// The right factor.
    pub b: [&'a [W; 32]; REGISTERS],
    /// The addend.
    pub c: [&'a [W; 32]; REGISTERS],
}

/// Buffers for the computation of a product. Callers should reuse the buffers, because clearing them takes longer than
/// computing a small product.
#[derive(Clone, Debug)]
pub struct Scratch {
    /// The words of `a`, `b` and `c`, in the order of the tables in `Plan::gather`.
    words: [[u32; WORDS]; 3],
    /// The words of the result `d`, stored by rows.
    result: [u32; WORDS],
    /// The elements of the factors, and the sums, stored by rows.
    left: [f64; FLOATS],
    right: [f64; FLOATS],
    sums: [f64; WORDS],
    whole_left: [i32; INTEGERS],
    whole_right: [i32; INTEGERS],
    whole_sums: [i32; WORDS],
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch {
            words: [[0; WORDS]; 3],
            result: [0; WORDS],
            left: [0.0; FLOATS],
            right: [0.0; FLOATS],
            sums: [0.0; WORDS],
            whole_left: [0; INTEGERS],
            whole_right: [0; INTEGERS],
            whole_sums: [0; WORDS],
        }
    }
}

/// The conversion of the elements of a factor to numbers.
#[derive(Clone, Debug)]
enum Elements {
    Half,
    /// Elements of a format whose encodings are the upper bits of an `f32` (`bf16`, `tf32`). The
    /// field is a mask of these bits.
    Single(u32),
    /// Elements of 8-bit floating-point formats. The two tables contain the values of all
    /// encodings: the first table for elements of `a`, the second for elements of `b`.
    Small(Box<[[f64; 256]; 2]>),
    Double,
    /// Elements that are integers of eight or four bits. The field states whether the integers of
    /// `a` are signed, and whether the integers of `b` are signed.
    Integer([bool; 2]),
    /// Elements that are single bits, 32 of which are multiplied at a time. The field states which
    /// operation replaces the multiplication of bits: true means "exclusive or", false means "and".
    Bits(bool),
}

/// A matrix product whose register layout was computed in advance.
#[derive(Clone, Debug)]
pub struct Plan {
    elements: Elements,
    rows: usize,
    columns: usize,
    /// The number of words in a row of `a`.
    inner: usize,
    /// The numbers of elements in a word of `a`, of `c` and of `d`.
    packed: [u32; 3],
    saturates: bool,
    /// For each word of `a`, `b` and `c`, the register and the lane that contain the word, encoded
    /// as 32 times the register's index plus the lane. The words of `a` and `b` are ordered by `k`,
    /// and the words of `c` by rows.
    gather: [Box<[u8]>; 3],
    /// For each register and lane of the result `d`, the index of the word that is written there.
    /// The words are ordered by rows.
    scatter: Box<[u8]>,
    /// The numbers of registers that `a`, `b`, `c` and `d` have in each lane.
    registers: [usize; 4],
    vectors: Option<Vectors>,
}

impl Plan {
    /// Returns a plan for the product that an op with the description `desc` computes, or `None` if
    /// there is no plan for this product.
    pub fn of(desc: &Desc) -> Option<Plan> {
        let product = Product::of(desc)?;
        let (a, b) = (product.ty(Part::A), product.ty(Part::B));
        let (c, d) = (product.ty(Part::C), product.ty(Part::D));
        let saturates = product.mods.satfinite();
        let float = |ty| matches!(ty, OpType::F16 | OpType::F32);
        let nearest = matches!(product.mods.rounding(), Rounding::None | Rounding::Rn);
        let elements = match (a, d) {
            (OpType::F64, OpType::F64) if nearest && c == d && a == b => Elements::Double,
            (OpType::B1, OpType::S32) if c == d => {
                Elements::Bits(product.mods.atom_op() == AtomOp::Xor)
            }
            (OpType::S8 | OpType::U8 | OpType::S4 | OpType::U4, OpType::S32) if c == d => {
                let known = [AtomOp::Xor, AtomOp::And].contains(&product.mods.atom_op());
                if known {
                    return None;
                }
                Elements::Integer([a.is_signed(), b.is_signed()])
            }
            _ if !float(c) || !float(d) || saturates => return None,
            (OpType::F16, _) if a == b => Elements::Half,
            (OpType::BF16, _) if a == b => Elements::Single(u32::MAX << 16),
            (OpType::TF32, _) if a == b => Elements::Single(u32::MAX << 13),
            _ if a.element_bits() == 8 && b.element_bits() == 8 => {
                Elements::Small(Box::new([small(a)?, small(b)?]))
            }
            _ => return None,
        };
        let packed = [Part::A, Part::C, Part::D].map(|part| product.packed(part));
        let (m, n, k) = (product.shape.m, product.shape.n, product.shape.k);
        let width = m.max(n) as usize;
        let room = match elements {
            Elements::Bits(_) => WORDS * packed[0] as usize,
            Elements::Integer(_) => INTEGERS,
            _ => FLOATS,
        };
        let fits = product.problems() == 1
            && (n == 8 || matches!(n, 16 | 32) && a != OpType::F64)
            && m.is_multiple_of(8)
            && k.is_multiple_of(packed[0])
            && k as usize * width <= room;
        if !fits {
            return None;
        }
        let by_k = |(row, column): Coordinates| (column / packed[0] * m + row) as usize;
        let left = gathered(&product, Part::A, |place| (place.1, by_k(place)))?;
        let of_b = |place: Coordinates| (place.0, (place.0 / packed[0] * n + place.1) as usize);
        let right = gathered(&product, Part::B, of_b)?;
        let of_c = |place: Coordinates| (place.1, ((place.0 * n + place.1) / packed[1]) as usize);
        let addend = gathered(&product, Part::C, of_c)?;
        let mut scatter = Vec::new();
        for register in 0..product.registers(Part::D) {
            for lane in 0..32 {
                let (row, column) = product.place(Part::D, lane, register * packed[2]);
                scatter.push(u8::try_from((row * n + column) / packed[2]).ok()?);
            }
        }
        adjacent(&product, Part::D, |place| place.1)?;
        let registers = [Part::A, Part::B, Part::C, Part::D];
        Some(Plan {
            elements,
            rows: m as usize,
            columns: n as usize,
            inner: (k / packed[0]) as usize,
            packed,
            saturates,
            gather: [left, right, addend],
            scatter: scatter.into(),
            registers: registers.map(|part| product.registers(part) as usize),
            vectors: Vectors::of(&product),
        })
    }

    /// Returns the product's arrangement for code that computes with vectors, if there is one.
    pub fn vectors(&self) -> Option<&Vectors> {
        self.vectors.as_ref()
    }

    /// Returns whether sums of integers saturate; otherwise, they wrap.
    pub fn saturates(&self) -> bool {
        self.saturates
    }

    /// Returns whether the operation "exclusive or" replaces the multiplication of single bits; otherwise, the operation
    /// is "and".
    pub fn is_exclusive(&self) -> bool {
        matches!(self.elements, Elements::Bits(true))
    }

    /// Returns the registers of the three operand matrices. `row(i)` returns the values of register `i` in all lanes; the
    /// registers of the three matrices are numbered consecutively.
    pub fn operands<'a, W>(&self, row: impl Fn(usize) -> &'a [W; 32]) -> Operands<'a, W> {
        let [a, b, c, _] = self.registers;
        // Elements after a matrix's last register are not used.
        let part = |first: usize| std::array::from_fn(|i| row((first + i).min(a + b + c - 1)));
        Operands {
            a: part(0),
            b: part(a),
            c: part(a + b),
        }
    }

    /// Returns the numbers of registers that `a`, `b`, `c` and `d` have in each lane.
    pub fn registers(&self) -> [usize; 4] {
        self.registers
    }

    /// Returns whether the registers of the product have 64 bits; otherwise, they have 32 bits.
    pub fn is_wide(&self) -> bool {
        matches!(self.elements, Elements::Double)
    }

    /// Computes the product if its matrices are in 32-bit registers, writes the result to `out`,
    /// and returns true. `FUSED` states whether the processor has fused multiply-adds. If the
    /// matrices are in 64-bit registers, computes nothing and returns false.
    #[inline(always)]
    pub fn words<const FUSED: bool>(
        &self,
        from: &Operands<'_, u32>,
        scratch: &mut Scratch,
        out: &mut Registers<u32>,
    ) -> bool {
        for ((words, table), rows) in scratch
            .words
            .iter_mut()
            .zip(&self.gather)
            .zip([&from.a, &from.b, &from.c])
        {
            gather(table, rows, words);
        }
        let done = match self.columns {
            8 => self.words_of::<FUSED, 8, 4>(scratch),
            16 => self.words_of::<FUSED, 16, 2>(scratch),
            _ => self.words_of::<FUSED, 32, 1>(scratch),
        };
        if done {
            for (cell, &at) in out.as_flattened_mut().iter_mut().zip(&self.scatter) {
                *cell = scratch.result[usize::from(at)];
            }
        }
        done
    }

    /// Computes the product if its matrices are in 64-bit registers, writes the result to `out`,
    /// and returns true. If the matrices are in 32-bit registers, or if an element of the result is
    /// NaN, does not change `out` and returns false.
    #[inline(always)]
    pub fn doubles(
        &self,
        from: &Operands<'_, u64>,
        scratch: &mut Scratch,
        out: &mut Registers<u64>,
    ) -> bool {
        if !self.is_wide() {
            return false;
        }
        let Scratch {
            left, right, sums, ..
        } = scratch;
        let parts = [
            (&from.a, &mut left[..]),
            (&from.b, &mut right[..]),
            (&from.c, &mut sums[..]),
        ];
        for ((rows, values), table) in parts.into_iter().zip(&self.gather) {
            for (value, &at) in values.iter_mut().zip(table) {
                *value = f64::from_bits(cell(rows, at));
            }
        }
        let sums = &mut sums[..self.rows * self.columns];
        let step = |a: f64, b: f64, sum: f64| a.mul_add(b, sum);
        let right = &right[..self.inner * self.columns];
        multiply::<f64, 8, 4>(self.rows, left, right, sums, step);
        if sums.iter().any(|sum| sum.is_nan()) {
            return false;
        }
        for (cell, &at) in out.as_flattened_mut().iter_mut().zip(&self.scatter) {
            *cell = sums[usize::from(at)].to_bits();
        }
        true
    }

    #[inline(always)]
    fn words_of<const FUSED: bool, const N: usize, const R: usize>(
        &self,
        scratch: &mut Scratch,
    ) -> bool {
        match &self.elements {
            Elements::Double => return false,
            Elements::Bits(exclusive) => self.bits::<N, R>(*exclusive, scratch),
            Elements::Integer(signed) if self.packed[0] == 4 => {
                self.integers::<8, N, R>(*signed, scratch);
            }
            Elements::Integer(signed) => self.integers::<4, N, R>(*signed, scratch),
            Elements::Half => {
                let value = |word: u32, i: u32, _| half(word >> (16 * i));
                self.floats::<FUSED, 2, N, R>(value, scratch);
            }
            &Elements::Single(mask) if self.packed[0] == 1 => {
                let value = |word: u32, _, _| f32::from_bits(word & mask).into();
                self.floats::<FUSED, 1, N, R>(value, scratch);
            }
            Elements::Single(_) => {
                let value = |word: u32, i: u32, _| f32::from_bits(word >> (16 * i) << 16).into();
                self.floats::<FUSED, 2, N, R>(value, scratch);
            }
            Elements::Small(tables) => {
                let value = |word: u32, i: u32, part: usize| {
                    tables[part][usize::from((word >> (8 * i)) as u8)]
                };
                self.floats::<FUSED, 4, N, R>(value, scratch);
            }
        }
        true
    }

    /// Computes the product of factors with floating-point elements, and adds the addend, in double
    /// precision. `P` is the number of elements in each word of a factor.
    #[inline(always)]
    fn floats<const FUSED: bool, const P: usize, const N: usize, const R: usize>(
        &self,
        value: impl Fn(u32, u32, usize) -> f64 + Copy,
        scratch: &mut Scratch,
    ) {
        let Scratch {
            words: [a, b, c],
            result,
            left,
            right,
            sums,
            ..
        } = scratch;
        unpack::<P, _>(a, self.rows, self.inner, left, |word, i| value(word, i, 0));
        unpack::<P, _>(b, N, self.inner, right, |word, i| value(word, i, 1));
        let sums = &mut sums[..self.rows * N];
        if self.packed[1] == 1 {
            for (sum, &word) in sums.iter_mut().zip(&*c) {
                *sum = f32::from_bits(word).into();
            }
        } else {
            for (pair, &word) in sums.as_chunks_mut::<2>().0.iter_mut().zip(&*c) {
                *pair = [half(word), half(word >> 16)];
            }
        }
        let right = &right[..self.inner * P * N];
        multiply::<f64, N, R>(self.rows, left, right, sums, |a, b, sum| {
            if FUSED {
                a.mul_add(b, sum)
            } else {
                a * b + sum
            }
        });
        if self.packed[2] == 1 {
            for (word, &sum) in result.iter_mut().zip(&*sums) {
                let single = (sum as f32).to_bits();
                *word = if sum.is_nan() { SINGLE_NAN } else { single };
            }
        } else {
            for (word, pair) in result.iter_mut().zip(sums.as_chunks::<2>().0) {
                *word = half_of(pair[0]) | half_of(pair[1]) << 16;
            }
        }
    }

    #[inline(always)]
    fn integers<const B: u32, const N: usize, const R: usize>(
        &self,
        signed: [bool; 2],
        scratch: &mut Scratch,
    ) {
        let Scratch {
            words: [a, b, _],
            whole_left: left,
            whole_right: right,
            ..
        } = &mut *scratch;
        // For signed elements, the mask has all bits set, which keeps the copies of the sign bit from the arithmetic
        // shift.
        let value = |word: u32, i: u32, part: usize| {
            let mask = if signed[part] { !0 } else { (1 << B) - 1 };
            (((word << (32 - B * (i + 1))) as i32) >> (32 - B)) & mask
        };
        if B == 8 {
            unpack::<4, _>(a, self.rows, self.inner, left, |w, i| value(w, i, 0));
            unpack::<4, _>(b, N, self.inner, right, |w, i| value(w, i, 1));
        } else {
            unpack::<8, _>(a, self.rows, self.inner, left, |w, i| value(w, i, 0));
            unpack::<8, _>(b, N, self.inner, right, |w, i| value(w, i, 1));
        }
        let step = |a: i32, b: i32, sum: i32| sum.wrapping_add(a.wrapping_mul(b));
        self.summed::<N, R>(self.inner * (32 / B) as usize, scratch, step);
    }

    #[inline(always)]
    fn bits<const N: usize, const R: usize>(&self, exclusive: bool, scratch: &mut Scratch) {
        let Scratch {
            words: [a, b, _],
            whole_left: left,
            whole_right: right,
            ..
        } = &mut *scratch;
        unpack::<1, _>(a, self.rows, self.inner, left, |word, _| word as i32);
        unpack::<1, _>(b, N, self.inner, right, |word, _| word as i32);
        let both = |a: i32, b: i32, sum: i32| sum.wrapping_add((a & b).count_ones() as i32);
        let one = |a: i32, b: i32, sum: i32| sum.wrapping_add((a ^ b).count_ones() as i32);
        if exclusive {
            self.summed::<N, R>(self.inner, scratch, one);
        } else {
            self.summed::<N, R>(self.inner, scratch, both);
        }
    }

    /// Computes the product of factors with integer elements, of which `a` has `inner` in each row,
    /// and adds the addend. The sum of the products for an element, without the addend, cannot
    /// overflow.
    #[inline(always)]
    fn summed<const N: usize, const R: usize>(
        &self,
        inner: usize,
        scratch: &mut Scratch,
        step: impl Fn(i32, i32, i32) -> i32 + Copy,
    ) {
        let sums = &mut scratch.whole_sums[..self.rows * N];
        sums.fill(0);
        let right = &scratch.whole_right[..inner * N];
        multiply::<i32, N, R>(self.rows, &scratch.whole_left, right, sums, step);
        let addends = &scratch.words[2];
        for ((word, &addend), &sum) in scratch.result.iter_mut().zip(addends).zip(&*sums) {
            let addend = addend as i32;
            let (wrapped, kept) = (addend.wrapping_add(sum), addend.saturating_add(sum));
            *word = if self.saturates { kept } else { wrapped } as u32;
        }
    }
}

/// Returns the word in a register of a lane. `at` is 32 times the register's index plus the number
/// of the lane.
#[inline(always)]
fn cell<W: Copy>(rows: &[&[W; 32]; REGISTERS], at: u8) -> W {
    rows[usize::from(at) / 32][usize::from(at) % 32]
}

/// Copies the words of a matrix from the registers `rows` to `words`, in the order of `table`, the
/// matrix's table in `Plan::gather`.
#[inline(always)]
fn gather(table: &[u8], rows: &[&[u32; 32]; REGISTERS], words: &mut [u32; WORDS]) {
    for (word, &at) in words.iter_mut().zip(table) {
        *word = cell(rows, at);
    }
}

/// Returns, for each word of the matrix `part`, the register and the lane that contain it. For the
/// row and column of an element, `at` returns the coordinate along which elements are packed into
/// words, and the index of the element's word. If several lanes have a word, the table contains the
/// last of these lanes, as [`Product::gather`] does.
fn gathered(
    product: &Product,
    part: Part,
    at: impl Fn(Coordinates) -> (u32, usize),
) -> Option<Box<[u8]>> {
    let registers = product.registers(part);
    let packed = product.packed(part);
    adjacent(product, part, |place| at(place).0)?;
    let (rows, columns) = product.size(part);
    let mut table = vec![None; (rows * columns / packed) as usize];
    for register in 0..registers {
        for lane in 0..32 {
            let place = product.place(part, lane, register * packed);
            *table.get_mut(at(place).1)? = u8::try_from(register * 32 + lane).ok();
        }
    }
    table.into_iter().collect()
}

/// Returns `Some` if, for the matrix `part`, the elements in each register are adjacent along the
/// coordinate that `along` returns, and the coordinate of the first of these elements is a multiple
/// of the number of elements in a register. Otherwise, returns `None`.
fn adjacent(product: &Product, part: Part, along: impl Fn(Coordinates) -> u32) -> Option<()> {
    let packed = product.packed(part);
    for register in 0..product.registers(part) {
        for lane in 0..32 {
            let place = |i| product.place(part, lane, register * packed + i);
            let first = place(0);
            let across = |place: Coordinates| place.0 + place.1 - along(place);
            let side_by_side = (0..packed)
                .all(|i| along(place(i)) == along(first) + i && across(place(i)) == across(first));
            if !side_by_side || !along(first).is_multiple_of(packed) {
                return None;
            }
        }
    }
    Some(())
}

/// Returns the values of all 256 encodings of an 8-bit floating-point type, or `None` if `ty` is
/// not a floating-point type.
fn small(ty: OpType) -> Option<[f64; 256]> {
    Format::of(ty)?;
    Some(std::array::from_fn(|bits| double(ty, bits as Bits)))
}

/// Converts the elements in `words` with `value`, and writes them to `out`. Each word contains `P`
/// elements, and each row has `width` words. For each row of words, writes `P` rows of elements: a
/// row with the first element of each word, then a row with the second element of each word, and so
/// on.
#[inline(always)]
fn unpack<const P: usize, T>(
    words: &[u32; WORDS],
    width: usize,
    inner: usize,
    out: &mut [T],
    value: impl Fn(u32, u32) -> T,
) {
    let words = words.chunks_exact(width).take(inner);
    for (words, rows) in words.zip(out.chunks_exact_mut(width * P)) {
        for (i, row) in rows.chunks_exact_mut(width).enumerate() {
            for (element, &word) in row.iter_mut().zip(words) {
                *element = value(word, i as u32);
            }
        }
    }
}

/// Adds the products of `left` (`rows` elements for each `k`) and `right` (`N` elements for each `k`) to the sums,
/// which are stored by rows. Computes `R` rows of sums at a time, so that these sums stay in
/// registers of the processor.
#[inline(always)]
fn multiply<T: Copy + Default, const N: usize, const R: usize>(
    rows: usize,
    left: &[T],
    right: &[T],
    sums: &mut [T],
    step: impl Fn(T, T, T) -> T + Copy,
) {
    let (right, _) = right.as_chunks::<N>();
    let (sums, _) = sums.as_chunks_mut::<N>();
    let (sums, _) = sums.as_chunks_mut::<R>();
    for (block, sums) in sums.iter_mut().enumerate() {
        let mut held: [[T; N]; R] = *sums;
        for (left, right) in left.chunks_exact(rows).zip(right) {
            let Some(&left) = left[block * R..].first_chunk::<R>() else {
                return;
            };
            for (held, left) in held.iter_mut().zip(left) {
                for (sum, &right) in held.iter_mut().zip(right) {
                    *sum = step(left, right, *sum);
                }
            }
        }
        *sums = held;
    }
}

const SINGLE_NAN: u32 = 0x7fff_ffff;
const HALF_NAN: u64 = 0x7fff;

/// Returns the value of the half-precision number in the low 16 bits of a word.
#[inline(always)]
fn half(word: u32) -> f64 {
    let magnitude = word & 0x7fff;
    let wide = magnitude << 13;
    let bits = match magnitude {
        ..0x400 => (magnitude as i32 as f32 * (1.0 / 16_777_216.0)).to_bits(),
        0x7c00.. => wide | 0x7f80_0000,
        _ => wide + (112 << 23),
    };
    f32::from_bits(bits | (word & 0x8000) << 16).into()
}

/// Returns the bits of `value`, rounded to half precision with ties to even.
#[inline(always)]
fn half_of(value: f64) -> u32 {
    let bits = value.to_bits();
    let sign = bits >> 48 & 0x8000;
    let magnitude = bits & (u64::MAX >> 1);
    // A unit in the last place of a half has the weight of bit 42 of a double; the carry of rounding increments
    // the exponent.
    let up = (1 << 41) - 1 + (magnitude >> 42 & 1);
    let normal = ((magnitude + up) >> 42).wrapping_sub((1023 - 15) << 10);
    // For subnormal halves, the unit in the last place is 2^-24. Doubles from 2^28 on have the same unit.
    let tiny = (f64::from_bits(magnitude) + 268_435_456.0).to_bits() & 0x7ff;
    let number = if magnitude < (1023 - 14) << 52 {
        tiny
    } else {
        normal.min(0x7c00)
    };
    // The canonical NaN has no sign.
    let is_nan = magnitude > 0x7ff << 52;
    (if is_nan { HALF_NAN } else { number | sign }) as u32
}
