//! The ranges of memory that a call accesses, computed from dimensions and strides.
//!
//! The driver checks the ranges before a kernel runs. In checking runs it also reports ranges that are read although none of
//! their bytes has been written, so a range may have gaps, such as those between the columns of a matrix.

use std::ffi::c_void;

use smallvec::SmallVec;

use crate::driver::Range;
use crate::status::{Failure, Status};

/// What a kernel does with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// It reads bytes.
    Read,
    /// It writes bytes.
    Write,
}

/// The largest range in bytes: the size of a process's address space.
const LARGEST: i64 = 1 << 47;

/// The ranges of a call.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    ranges: SmallVec<[Range; 6]>,
    /// Whether a size does not fit into the address space.
    too_large: bool,
    /// Whether the elements of an operand are not aligned.
    misaligned: bool,
}

/// The shape of the elements that an operand occupies: the number of elements in a column, the number of columns, their
/// distance, the number of matrices and their distance. Distances count elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) ld: usize,
    pub(crate) items: usize,
    pub(crate) stride: i64,
}

impl Shape {
    /// One matrix.
    pub(crate) fn matrix(rows: usize, columns: usize, ld: usize) -> Shape {
        Shape {
            rows,
            columns,
            ld,
            items: 1,
            stride: 0,
        }
    }

    /// A vector with an increment.
    pub(crate) fn vector(n: usize, increment: i64) -> Shape {
        let step = usize::try_from(increment.unsigned_abs()).unwrap_or(usize::MAX);
        Shape::matrix(1, n, step)
    }

    /// Elements side by side.
    pub(crate) fn packed(n: usize) -> Shape {
        Shape::matrix(n, 1, n)
    }

    /// A triangle of n rows, packed.
    pub(crate) fn packed_triangle(n: usize) -> Shape {
        // A count that is too large becomes a range that is too large.
        let count = n
            .checked_mul(n.saturating_add(1))
            .map_or(usize::MAX, |twice| twice / 2);
        Shape::packed(count)
    }

    /// The same for each item of a batch.
    pub(crate) fn batch(self, items: usize, stride: i64) -> Shape {
        Shape {
            items,
            stride,
            ..self
        }
    }

    /// Returns the offset of the first element in memory (negative for a negative stride), and the number of elements
    /// from there to the end; `None` if a number does not fit.
    fn extent(self) -> Option<(i64, i64)> {
        if self.rows == 0 || self.columns == 0 || self.items == 0 {
            return Some((0, 0));
        }
        let signed = |n: usize| i64::try_from(n).ok();
        let one = signed(self.columns - 1)?
            .checked_mul(signed(self.ld)?)?
            .checked_add(signed(self.rows)?)?;
        let far = signed(self.items - 1)?.checked_mul(self.stride)?;
        Some((far.min(0), one.checked_add(far.checked_abs()?)?))
    }
}

impl Memory {
    /// Adds an operand whose elements have `size` bytes.
    pub(crate) fn add<T>(&mut self, access: Access, start: *const T, size: usize, shape: Shape) {
        let bytes = |count: i64| count.checked_mul(i64::try_from(size).ok()?);
        let extent = shape.extent();
        let extent = extent.and_then(|(first, count)| Some((bytes(first)?, bytes(count)?)));
        let Some((first, count)) = extent else {
            self.too_large = true;
            return;
        };
        if count == 0 {
            return;
        }
        if count > LARGEST {
            self.too_large = true;
            return;
        }
        // Operands without a type have elements of at most two numbers.
        let least = if size_of::<T>() > 1 { 1 } else { size.min(4) };
        self.misaligned |= !start.addr().is_multiple_of(align_of::<T>().max(least));
        let Some(address) = start.addr().checked_add_signed(first as isize) else {
            self.too_large = true;
            return;
        };
        self.ranges.push(Range {
            address: address as *const c_void,
            bytes: count as usize,
            writes: access as u32,
            pad: 0,
        });
    }

    /// Adds an operand that is read and written.
    pub(crate) fn update<T>(&mut self, start: *const T, size: usize, shape: Shape) {
        self.add(Access::Read, start, size, shape);
        self.add(Access::Write, start, size, shape);
    }

    /// Adds the result of an operation: it is read unless the factor of the old result is known to be 0.
    pub(crate) fn output<T>(&mut self, start: *const T, size: usize, shape: Shape, beta: bool) {
        if beta {
            self.add(Access::Read, start, size, shape);
        }
        self.add(Access::Write, start, size, shape);
    }

    /// Forgets the ranges, for memory of the host.
    pub(crate) fn forget(&mut self) {
        self.ranges.clear();
    }

    /// Returns the ranges.
    ///
    /// # Errors
    /// `INVALID_VALUE` if a size does not fit into the address space, `EXECUTION_FAILED` for elements that are not aligned,
    /// of which a GPU's kernel faults.
    pub(crate) fn ranges(&self) -> Result<&[Range], Failure> {
        if self.too_large {
            return Err(Status::INVALID_VALUE.into());
        }
        match self.misaligned {
            true => Err(Status::EXECUTION_FAILED.into()),
            false => Ok(&self.ranges),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(access: Access, start: usize, size: usize, shape: Shape) -> Vec<(usize, usize, u32)> {
        let mut memory = Memory::default();
        memory.add(access, start as *const u8, size, shape);
        let ranges = memory.ranges().expect("a size");
        ranges
            .iter()
            .map(|r| (r.address.addr(), r.bytes, r.writes))
            .collect()
    }

    #[test]
    fn extents_are_those_of_the_elements() {
        let matrix = Shape::matrix(3, 4, 10);
        assert_eq!(ranges(Access::Read, 1000, 8, matrix), [(1000, 8 * 33, 0)]);
        let dense = Shape::matrix(3, 4, 3);
        assert_eq!(ranges(Access::Read, 1000, 4, dense), [(1000, 48, 0)]);
        assert_eq!(
            ranges(Access::Read, 1000, 4, dense.batch(5, 12)),
            [(1000, 240, 0)]
        );
        assert_eq!(
            ranges(Access::Write, 1000, 4, dense.batch(3, -20)),
            [(840, 208, 1)]
        );
        assert_eq!(
            ranges(Access::Read, 1000, 4, Shape::vector(5, -2)),
            [(1000, 36, 0)]
        );
        assert_eq!(
            ranges(Access::Read, 1000, 4, Shape::vector(5, 0)),
            [(1000, 4, 0)]
        );
        assert_eq!(
            ranges(Access::Read, 1000, 4, Shape::packed_triangle(4)),
            [(1000, 40, 0)]
        );
        assert_eq!(ranges(Access::Read, 1000, 4, Shape::matrix(0, 4, 1)), []);
    }

    #[test]
    fn elements_must_be_aligned() {
        let fails = |memory: &Memory| memory.ranges().err().map(|failure| failure.status);
        let one = Shape::packed(1);
        let mut memory = Memory::default();
        memory.add(Access::Read, 1004 as *const f32, 4, one);
        memory.add(
            Access::Read,
            1004 as *const margay_blas::Complex<f32>,
            8,
            one,
        );
        memory.add(Access::Read, 1001 as *const std::ffi::c_void, 1, one);
        assert_eq!(fails(&memory), None);
        memory.add(Access::Read, 1004 as *const f64, 8, one);
        assert_eq!(fails(&memory), Some(Status::EXECUTION_FAILED));
        let mut memory = Memory::default();
        memory.add(Access::Read, 1002 as *const std::ffi::c_void, 4, one);
        assert_eq!(fails(&memory), Some(Status::EXECUTION_FAILED));
    }

    #[test]
    fn sizes_that_do_not_fit_are_errors() {
        for shape in [
            Shape::matrix(1 << 40, 1 << 40, 1 << 40),
            Shape::packed(1 << 62),
            Shape::packed_triangle(1 << 40),
            Shape::matrix(1, 1, 1).batch(3, i64::MIN),
        ] {
            let mut memory = Memory::default();
            memory.add(Access::Read, std::ptr::dangling::<f64>(), 8, shape);
            assert!(memory.ranges().is_err(), "{shape:?}");
        }
    }
}
