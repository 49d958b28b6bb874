//! Results with factors of blocks: a block of rows of a column is divided by its factor, which is stored too.
//!
//! The factors and the rounding are those of cuBLAS ("1D Block Quantization" in the documentation of cuBLAS 13). The largest
//! magnitude of a block, divided by the largest number of the result's type, is the factor. As UE8M0 it is rounded up, as UE4M3
//! to the nearest number.

use std::ops::Range;

use super::Layout;
use super::access::Access;
use super::scales::{BlockFormat, Places};
use crate::DataType;
use crate::storage::{E4M3, E5M2, Store, e2m1_code, ue4m3_value, ue8m0_value};

/// Where the factors of a result are stored.
#[derive(Clone, Copy, Debug)]
pub struct OutputScales {
    /// The factors.
    pub data: *mut std::ffi::c_void,
    /// How they are stored: `Vector32` for 8-bit results, `Vector16` for 4-bit results.
    pub format: BlockFormat,
}

/// The number of rows and of columns of the regions that are computed together: a multiple of the length of blocks.
pub(super) const REGION: usize = 128;

/// A result with factors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quantized {
    data: *mut u8,
    kind: DataType,
    access: Access,
    rows: usize,
    scales: OutputScales,
    places: Places,
}

impl Quantized {
    /// The result, or `None` if its type or order has no such factors.
    pub(super) fn new(layout: &Layout, scales: OutputScales) -> Option<Quantized> {
        let base = match layout.data {
            crate::Pointers::Strided { base, .. } => base,
            crate::Pointers::Array(_) => return None,
        };
        let fits = match (layout.kind, scales.format) {
            (DataType::E4M3 | DataType::E5M2, BlockFormat::Vector32) => true,
            // Two rows share a byte.
            (DataType::E2M1, BlockFormat::Vector16) => {
                layout.order == super::Order::Column
                    && layout.rows.is_multiple_of(2)
                    && layout.ld.is_multiple_of(2)
            }
            _ => false,
        };
        fits.then(|| Quantized {
            data: base.cast(),
            kind: layout.kind,
            access: Access::of(layout),
            rows: layout.rows,
            scales,
            places: Places::new(scales.format, layout.columns, layout.rows),
        })
    }

    /// Stores a region, whose first row is a multiple of [`REGION`]. Element (i, j) of the region is
    /// `values[i + j * REGION]`.
    ///
    /// # Safety
    /// The plan may run now; no other task has these elements.
    pub(super) unsafe fn store(&self, rows: Range<usize>, columns: Range<usize>, values: &[f32]) {
        let length = self.scales.format.length();
        for (j, column) in columns.enumerate() {
            for row in rows.clone().step_by(length) {
                let count = length.min(self.rows.min(rows.end) - row);
                let first = row - rows.start + j * REGION;
                let block = &values[first..first + count];
                let (code, reciprocal) = self.factor(block);
                // SAFETY: the caller's condition; there is a factor for the block.
                unsafe {
                    let place = self.places.index(column, row / length);
                    self.scales.data.cast::<u8>().add(place).write(code);
                    self.store_block(row, column, block, reciprocal);
                }
            }
        }
    }

    /// Returns the code of a block's factor, and what its elements are multiplied by.
    fn factor(&self, block: &[f32]) -> (u8, f32) {
        // NaN stays NaN as an element and does not change the factor.
        let largest = block
            .iter()
            .fold(0.0_f32, |most, value| most.max(value.abs()));
        match self.kind {
            DataType::E2M1 => {
                let code = E4M3::store(largest / 6.0).0;
                match ue4m3_value(code) {
                    // All elements are read as 0, whatever they are.
                    0.0 => (code, 0.0),
                    factor => (code, 1.0 / factor),
                }
            }
            kind => {
                let most = if kind == DataType::E4M3 {
                    448.0
                } else {
                    57344.0
                };
                let code = round_up(largest / most);
                (code, 1.0 / ue8m0_value(code))
            }
        }
    }

    /// Stores a block of rows of a column.
    ///
    /// # Safety
    /// As for [`Quantized::store`].
    unsafe fn store_block(&self, row: usize, column: usize, block: &[f32], reciprocal: f32) {
        // SAFETY: the caller's condition.
        unsafe {
            if self.kind == DataType::E2M1 {
                let first = self.data.add(self.access.index(row, column) / 2);
                for (i, pair) in block.chunks(2).enumerate() {
                    let codes = [0, 1].map(|half| {
                        e2m1_code(pair.get(half).copied().unwrap_or_default() * reciprocal)
                    });
                    first.add(i).write(codes[0] | codes[1] << 4);
                }
                return;
            }
            for (i, value) in block.iter().enumerate() {
                let value = value * reciprocal;
                let code = match self.kind {
                    DataType::E4M3 => E4M3::store(value).0,
                    _ => E5M2::store(value).0,
                };
                self.data
                    .add(self.access.index(row + i, column))
                    .write(code);
            }
        }
    }
}

/// The code of the least UE8M0 number that is not less than a number, as cuBLAS rounds: numbers beyond the largest one become that one,
/// and subnormal numbers up to half of the least normal number become the least number.
fn round_up(value: f32) -> u8 {
    let bits = value.to_bits();
    let (exponent, fraction) = ((bits >> 23 & 0xff) as u8, bits & 0x7f_ffff);
    match exponent {
        0 if fraction > 0x40_0000 => 1,
        1..254 if fraction > 0 => exponent + 1,
        _ => exponent,
    }
}

#[cfg(test)]
mod tests {
    use super::round_up;

    #[test]
    fn factors_are_rounded_up() {
        // The codes are exponents of two plus 127.
        for (value, code) in [
            (1.0, 127),
            (1.0000001, 128),
            (0.75, 127),
            (2.0, 128),
            (0.0, 0),
            (f32::from_bits(0x40_0000), 0),
            (f32::from_bits(0x40_0001), 1),
            (f32::MIN_POSITIVE, 1),
            (1.5 * f32::MIN_POSITIVE, 2),
            (1.7e38, 254),
            (f32::MAX, 254),
            (f32::INFINITY, 255),
        ] {
            assert_eq!(round_up(value), code, "{value}");
        }
    }
}
