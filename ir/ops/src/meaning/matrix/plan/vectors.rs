//! The arrangement of a matrix product for code that computes with vectors.
//!
//! The code keeps sums in vectors that consist of consecutive lanes of registers of the result, so that the addend and the
//! result need no rearrangement. These lanes contain the sums of a few adjacent rows, and of [`Layout::columns`] columns.
//! For each `k`, the code multiplies a vector that repeats the elements of `a` in these rows, once for each column, and a
//! vector that repeats the elements of `b` in these columns, once for each row.
//!
//! For this purpose, the code stores the factors in memory as units, by `k`. A unit is what one multiplication of the
//! code multiplies: a floating-point number, a pair of integers, or 32 single bits. For each `k`, the units of `a` are
//! in the order of the rows. The units of `b` are in an order in which the columns of a vector are adjacent.
//! [`Factor`] states how the words in registers become these units.
//!
//! Invariant: [`Vectors::of`] derives the arrangement from [`Product::place`], and checks each element of each matrix.

use super::super::{Coordinates, Part, Product};
use crate::types::OpType;

/// The number of adjacent units that code stores at a time.
pub const GROUP: usize = 8;

/// The maximum number of groups of units that a factor has.
pub const GROUPS: usize = 64;

/// The positions of sums in the registers of lanes. The elements of a lane's registers are numbered consecutively.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// The result of `mma` with 16 rows and 8 columns. Element `j` of lane `l` is in row `l / 4 + 8 * (j / 2)` and column
    /// `2 * (l % 4) + j % 2`.
    Tile16,
    /// The result of `mma` with 8 rows and 8 columns, as in the first 8 rows of [`Layout::Tile16`].
    Tile8,
    /// A result of `wmma` with 16 rows and 16 columns. Element `j` of lane `l` is in row `l / 2` and column
    /// `8 * (l % 2) + j`.
    Fragment16x16,
    /// A result of `wmma` with 32 rows and 8 columns. Element `j` of lane `l` is in row `l` and column `j`.
    Fragment32x8,
    /// A result of `wmma` with 8 rows and 32 columns. Element `j` of lane `l` is in row `l / 4` and column
    /// `8 * (l % 4) + j`.
    Fragment8x32,
}

impl Layout {
    fn of(product: &Product) -> Option<Layout> {
        let layout = match (product.shape.m, product.shape.n) {
            (16, 8) => Layout::Tile16,
            (8, 8) => Layout::Tile8,
            (16, 16) => Layout::Fragment16x16,
            (32, 8) => Layout::Fragment32x8,
            (8, 32) => Layout::Fragment8x32,
            _ => return None,
        };
        let fits = |part| {
            let elements = product.registers(part) * product.packed(part);
            let is_here = |lane, j| product.place(part, lane, j) == layout.place(lane, j);
            (0..elements).all(|j| (0..32).all(|lane| is_here(lane, j)))
        };
        (fits(Part::C) && fits(Part::D)).then_some(layout)
    }

    /// Returns the number of columns of which a register contains elements.
    pub fn columns(self) -> u32 {
        match self {
            Layout::Fragment32x8 => 1,
            Layout::Fragment16x16 => 2,
            Layout::Tile16 | Layout::Tile8 | Layout::Fragment8x32 => 4,
        }
    }

    fn is_tile(self) -> bool {
        matches!(self, Layout::Tile16 | Layout::Tile8)
    }

    fn place(self, lane: u32, j: u32) -> Coordinates {
        let columns = self.columns();
        let (row, column) = (lane / columns, lane % columns);
        match self.is_tile() {
            true => (row + 8 * (j / 2), 2 * column + j % 2),
            false => (row, 8 * column + j),
        }
    }

    /// Returns the position of a column in the order in which the columns of each vector are adjacent.
    fn position(self, column: u32) -> u32 {
        let columns = self.columns();
        match self.is_tile() {
            true => column % 2 * columns + column / 2,
            false => column % 8 * columns + column / 8,
        }
    }
}

/// How the words of a factor become units in memory: the words of each register are permuted, each word is converted to
/// units, and groups of units are stored.
#[derive(Clone, Debug)]
pub struct Factor {
    /// The type of the elements.
    pub ty: OpType,
    /// The number of registers in each lane.
    pub registers: usize,
    /// The lanes whose words are used, in the order in which the words are permuted. Only the first
    /// `count * GROUP` elements have a meaning.
    pub lanes: [u32; 32],
    /// The number of groups of words, from 1 to 4.
    pub count: usize,
    /// For each group of words, the index of the group of units that consists of the first unit of each word.
    pub groups: [u8; 4],
    /// For each register, a number that is added to the elements of `groups`.
    pub offsets: [u8; 8],
    /// The number of groups from the first unit of a word to the second unit of this word, and so on.
    pub step: u8,
}

/// A product's arrangement for code that computes with vectors.
#[derive(Clone, Debug)]
pub struct Vectors {
    /// The positions of the sums.
    pub layout: Layout,
    /// The factors `a` and `b`.
    pub factors: [Factor; 2],
    /// The number of units in a row of `a` and in a column of `b`.
    pub inner: usize,
    /// Whether the elements of `c` have 16 bits, and whether the elements of `d` have 16 bits. Each register then
    /// contains two elements.
    pub packed: [bool; 2],
}

impl Vectors {
    /// Returns the arrangement of a product, or `None` if the product has a layout that has no arrangement. The words of
    /// both factors contain whole elements that are adjacent along `k`.
    pub(super) fn of(product: &Product) -> Option<Vectors> {
        let layout = Layout::of(product)?;
        let packed = product.packed(Part::A);
        let units = match product.ty(Part::A) {
            OpType::B1 => 1,
            OpType::S8 | OpType::U8 | OpType::S4 | OpType::U4 => packed / 2,
            _ => packed,
        };
        let (m, n) = (product.shape.m, product.shape.n);
        let left = |(row, k): Coordinates| k / packed * units * m + row;
        let right = |(k, column)| k / packed * units * n + layout.position(column);
        let inner = product.shape.k / packed * units;
        Some(Vectors {
            layout,
            factors: [
                Factor::of(product, Part::A, (inner * m, m), left)?,
                Factor::of(product, Part::B, (inner * n, n), right)?,
            ],
            inner: inner as usize,
            packed: [Part::C, Part::D].map(|part| product.packed(part) == 2),
        })
    }
}

impl Factor {
    /// Returns how the words of the matrix `part` are stored as `size` units. For the first element of a word, `at` returns
    /// the index of the word's first unit. The distance between the units of a word is `step`.
    fn of(
        product: &Product,
        part: Part,
        (size, step): (u32, u32),
        at: impl Fn(Coordinates) -> u32,
    ) -> Option<Factor> {
        let group = GROUP as u32;
        let registers = product.registers(part);
        let packed = product.packed(part);
        if size > group * GROUPS as u32 || !step.is_multiple_of(group) {
            return None;
        }
        // The words of a register by the indices of their units. If several lanes have a word, the last of them counts.
        let words = |register: u32| {
            let word = |lane| (at(product.place(part, lane, register * packed)), lane);
            (0..32)
                .map(word)
                .collect::<std::collections::BTreeMap<_, _>>()
        };
        let first = words(0);
        let mut lanes = [0; 32];
        for (to, &lane) in lanes.iter_mut().zip(first.values()) {
            *to = lane;
        }
        let count = first.len() / GROUP;
        let mut groups = [0; 4];
        let starts = first.keys().step_by(GROUP);
        for (to, &start) in groups.iter_mut().zip(starts) {
            *to = u8::try_from(start / group).ok()?;
        }
        let mut offsets = [0; 8];
        for (register, offset) in (0..registers).zip(&mut offsets) {
            let words = words(register);
            let start = words.keys().next()?.checked_sub(*first.keys().next()?)?;
            *offset = u8::try_from(start / group).ok()?;
            let expected = first.iter().map(|(&unit, &lane)| (unit + start, lane));
            if !start.is_multiple_of(group) || !words.into_iter().eq(expected) {
                return None;
            }
        }
        let units: Vec<u32> = first.into_keys().collect();
        let (chunks, rest) = units.as_chunks::<GROUP>();
        let is_whole = |units: &[u32; GROUP]| {
            units[0].is_multiple_of(group) && units.iter().zip(units[0]..).all(|(&x, y)| x == y)
        };
        (rest.is_empty() && chunks.iter().all(is_whole)).then_some(Factor {
            ty: product.ty(part),
            registers: registers as usize,
            lanes,
            count,
            groups,
            offsets,
            step: u8::try_from(step / group).ok()?,
        })
    }
}
