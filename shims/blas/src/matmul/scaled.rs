//! Operands whose elements have factors of blocks: each element is multiplied by its factor when it is packed.
//!
//! The product of an element and its factor is rounded to `f32`. With UE8M0 and UE4M3 factors it is exact, unless it is beyond
//! the range of `f32`.

use std::ffi::c_void;
use std::ops::Range;

use super::Layout;
use super::access::{Access, Addresses, Position, Reader, Value};
use super::scales::{BlockScales, Places};
use crate::core::Source;
use crate::kernels::Accumulate;
use crate::operands::Operand;
use crate::storage::e2m1_value;
use crate::{DataType, Operation};

/// Elements that are read together.
const RUN: usize = 128;

/// A matrix with factors of blocks.
struct Scaled {
    addresses: Addresses,
    access: Access,
    /// Whether the outer index is the column in memory.
    outer_is_column: bool,
    read: Reader<f32>,
    scales: *const c_void,
    places: Places,
    /// Elements that share a factor.
    length: usize,
}

// SAFETY: the caller of a routine vouches for the memory, which is only read.
unsafe impl Send for Scaled {}
// SAFETY: as above.
unsafe impl Sync for Scaled {}

/// Reads 4-bit elements, whose index counts half bytes.
///
/// # Safety
/// As for a [`Reader`].
unsafe fn read_halves(
    data: *const c_void,
    access: &Access,
    row: usize,
    column: usize,
    count: usize,
    to: *mut f32,
) {
    for i in 0..count {
        let index = access.index(row + i, column);
        // SAFETY: the matrix has these elements, and there is room for the values.
        unsafe {
            let byte = data.cast::<u8>().add(index / 2).read();
            to.add(i).write(e2m1_value(byte >> (index % 2 * 4)));
        }
    }
}

/// A matrix as an operand, or `None` if its type has no such factors.
pub(super) fn scaled_operand(
    layout: &Layout,
    operation: Operation,
    position: Position,
    scales: BlockScales,
) -> Option<Box<dyn Operand<f32>>> {
    let read = match layout.kind {
        DataType::E2M1 => read_halves as Reader<f32>,
        DataType::E4M3 | DataType::E5M2 => f32::reader(layout.kind, false)?,
        _ => return None,
    };
    let outer_is_column = operation.transposes() == (position == Position::Left);
    let (outer, inner) = match outer_is_column {
        true => (layout.columns, layout.rows),
        false => (layout.rows, layout.columns),
    };
    Some(Box::new(Scaled {
        addresses: Addresses::of(layout),
        access: Access::of(layout),
        outer_is_column,
        read,
        scales: scales.data,
        places: Places::new(scales.format, outer, inner),
        length: scales.format.length(),
    }))
}

impl Operand<f32> for Scaled {
    unsafe fn with(&self, item: usize, body: &mut dyn FnMut(&dyn Source<f32>)) {
        // SAFETY: the plan may run now.
        let data = unsafe { self.addresses.item(item) };
        body(&ScaledItem {
            data,
            operand: self,
        });
    }
}

/// One item of a [`Scaled`] operand.
struct ScaledItem<'a> {
    data: *const c_void,
    operand: &'a Scaled,
}

// SAFETY: the memory is only read.
unsafe impl Sync for ScaledItem<'_> {}

impl Source<f32> for ScaledItem<'_> {
    unsafe fn pack(
        &self,
        outer: Range<usize>,
        depth: Range<usize>,
        width: usize,
        panels: *mut f32,
    ) {
        let stride = depth.len() * width;
        for (index, first) in outer.clone().step_by(width).enumerate() {
            let rows = first..outer.end.min(first + width);
            // SAFETY: the caller's buffer has this panel, which consists of numbers.
            unsafe {
                let panel = panels.add(index * stride);
                panel.write_bytes(0, stride);
                match self.operand.outer_is_column {
                    true => self.pack_columns(rows, depth.clone(), width, panel),
                    false => self.pack_rows(rows, depth.clone(), width, panel),
                }
            }
        }
    }
}

impl ScaledItem<'_> {
    /// The factor of an element.
    ///
    /// # Safety
    /// The plan may run now; the matrix has the element.
    #[inline(always)]
    unsafe fn factor(&self, outer: usize, k: usize) -> f32 {
        let operand = self.operand;
        // SAFETY: the caller's condition.
        unsafe {
            operand
                .places
                .read(operand.scales, outer, k / operand.length)
        }
    }

    /// Packs a panel of elements that are contiguous along k.
    ///
    /// # Safety
    /// As for [`Source::pack`].
    unsafe fn pack_columns(
        &self,
        outer: Range<usize>,
        depth: Range<usize>,
        width: usize,
        panel: *mut f32,
    ) {
        let operand = self.operand;
        let mut values = [0.0; RUN];
        for row in outer.clone() {
            let mut k = depth.start;
            while k < depth.end {
                let block = k / operand.length * operand.length;
                let end = depth.end.min(block + operand.length);
                let count = end - k;
                // SAFETY: the caller's condition; a block is not longer than the array.
                unsafe {
                    let read = operand.read;
                    read(
                        self.data,
                        &operand.access,
                        k,
                        row,
                        count,
                        values.as_mut_ptr(),
                    );
                    let factor = self.factor(row, k);
                    for (i, value) in values.iter().enumerate().take(count) {
                        let place = k - depth.start + i;
                        f32::place(
                            panel,
                            width,
                            row - outer.start,
                            place,
                            value * factor,
                            false,
                        );
                    }
                }
                k = end;
            }
        }
    }

    /// Packs a panel of elements that are contiguous along the outer index.
    ///
    /// # Safety
    /// As for [`Source::pack`].
    unsafe fn pack_rows(
        &self,
        outer: Range<usize>,
        depth: Range<usize>,
        width: usize,
        panel: *mut f32,
    ) {
        let operand = self.operand;
        let mut values = [0.0; RUN];
        for k in depth.clone() {
            for start in outer.clone().step_by(RUN) {
                let count = RUN.min(outer.end - start);
                // SAFETY: the caller's condition.
                unsafe {
                    let read = operand.read;
                    read(
                        self.data,
                        &operand.access,
                        start,
                        k,
                        count,
                        values.as_mut_ptr(),
                    );
                    for (i, value) in values.iter().enumerate().take(count) {
                        let scaled = value * self.factor(start + i, k);
                        let row = start + i - outer.start;
                        f32::place(panel, width, row, k - depth.start, scaled, false);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_fit_into_a_run() {
        use super::super::BlockFormat;
        assert!(BlockFormat::Square128.length() <= RUN && BlockFormat::Vector128.length() <= RUN);
        // Panels of this type have no gaps.
        assert_eq!((f32::STEP, f32::PARTS), (1, 1));
    }
}
