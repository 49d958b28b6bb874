//! Scale factors of blocks of elements: their types, and their places in memory.
//!
//! A matrix with such factors has *outer* indices (rows of `op(A)`, columns of `op(B)` and of `D`) and *inner* ones (values
//! of k, rows of `D`). Neighbouring inner elements share a factor.

use std::ffi::c_void;

use crate::storage::{ue4m3_value, ue8m0_value};

/// How the factors of blocks are stored (`cublasLtMatmulMatrixScale_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockFormat {
    /// UE4M3 factors of 16 elements, in tiles (`VEC16_UE4M3`).
    Vector16,
    /// UE8M0 factors of 32 elements, in tiles (`VEC32_UE8M0`).
    Vector32,
    /// `f32` factors of 128 elements; those of neighbouring outer indices are contiguous (`VEC128_32F`).
    Vector128,
    /// `f32` factors of squares of 128 by 128 elements; those of neighbouring blocks of inner indices are contiguous
    /// (`BLK128x128_32F`).
    Square128,
}

/// Outer indices of a tile or square.
const OUTER: usize = 128;
/// Blocks of a tile; columns of factors of squares are padded to a multiple of this number.
const INNER: usize = 4;

impl BlockFormat {
    /// Inner elements that share a factor.
    pub fn length(self) -> usize {
        match self {
            BlockFormat::Vector16 => 16,
            BlockFormat::Vector32 => 32,
            BlockFormat::Vector128 | BlockFormat::Square128 => 128,
        }
    }

    /// Bytes of a factor.
    fn size(self) -> usize {
        match self {
            BlockFormat::Vector16 | BlockFormat::Vector32 => 1,
            BlockFormat::Vector128 | BlockFormat::Square128 => size_of::<f32>(),
        }
    }

    /// Bytes of the factors of a matrix; `None` if the number is too large.
    pub fn bytes(self, outer: usize, inner: usize) -> Option<usize> {
        let blocks = inner.div_ceil(self.length());
        let (outer, blocks) = match self {
            BlockFormat::Vector16 | BlockFormat::Vector32 => (
                outer.checked_next_multiple_of(OUTER)?,
                blocks.next_multiple_of(INNER),
            ),
            BlockFormat::Vector128 => (outer, blocks),
            BlockFormat::Square128 => (outer.div_ceil(OUTER), blocks.next_multiple_of(INNER)),
        };
        outer.checked_mul(blocks)?.checked_mul(self.size())
    }
}

/// The factors of one matrix.
#[derive(Clone, Copy, Debug)]
pub struct BlockScales {
    /// The factors.
    pub data: *const c_void,
    /// How they are stored.
    pub format: BlockFormat,
}

/// Where the factors of a matrix are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    format: BlockFormat,
    outer: usize,
    blocks: usize,
}

impl Places {
    /// The places of the factors of a matrix with these numbers of indices.
    pub(super) fn new(format: BlockFormat, outer: usize, inner: usize) -> Places {
        Places {
            format,
            outer,
            blocks: inner.div_ceil(format.length()),
        }
    }

    /// The index of the factor of a block.
    #[inline(always)]
    pub(super) fn index(&self, outer: usize, block: usize) -> usize {
        match self.format {
            BlockFormat::Vector16 | BlockFormat::Vector32 => {
                let tile = outer / OUTER * self.blocks.div_ceil(INNER) + block / INNER;
                tile * OUTER * INNER + outer % 32 * 16 + outer % OUTER / 32 * INNER + block % INNER
            }
            BlockFormat::Vector128 => block * self.outer + outer,
            BlockFormat::Square128 => outer / OUTER * self.blocks.next_multiple_of(INNER) + block,
        }
    }

    /// Reads the factor of a block.
    ///
    /// # Safety
    /// `data` points to the factors, which contain one for the block.
    #[inline(always)]
    pub(super) unsafe fn read(&self, data: *const c_void, outer: usize, block: usize) -> f32 {
        let index = self.index(outer, block);
        // SAFETY: the caller's condition.
        unsafe {
            match self.format {
                BlockFormat::Vector16 => ue4m3_value(data.cast::<u8>().add(index).read()),
                BlockFormat::Vector32 => ue8m0_value(data.cast::<u8>().add(index).read()),
                BlockFormat::Vector128 | BlockFormat::Square128 => {
                    data.cast::<f32>().add(index).read()
                }
            }
        }
    }
}
