//! Matrices of cuBLASLt: the checks of their layouts and the memory that they occupy.

use std::ffi::c_void;

use margay_blas::matmul::{Layout as Matrix, Order};
use margay_blas::{DataType, Operation, Pointers};

use crate::call::dimension;
use crate::level1ex::kind;
use crate::lt::layout::{self, Layout};
use crate::memory::{Access, Memory, Shape};
use crate::status::{Failure, Status, need};

/// `cublasLtBatchMode_t`.
const STRIDED: u32 = 0;
const POINTER_ARRAY: u32 = 1;

/// Returns the order of a `cublasLtOrder_t`.
fn order(number: i32) -> Result<Order, Failure> {
    Ok(match number {
        0 => Order::Column,
        1 => Order::Row,
        2 => Order::Column32,
        3 => Order::Column4_4R2_8C,
        4 => Order::Column32_2R4R4,
        _ => return Err(Status::INVALID_VALUE.into()),
    })
}

/// The number of rows that a group of 32 columns occupies in an order of tiles.
fn tile_rows(order: Order, rows: usize) -> usize {
    match order {
        Order::Column4_4R2_8C => rows.next_multiple_of(8),
        Order::Column32_2R4R4 => rows.next_multiple_of(32),
        _ => rows,
    }
}

/// The number of columns in a tile.
const TILE: usize = 32;

/// A matrix, or the matrices of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    pub(crate) matrix: Matrix,
    pub(crate) batch: usize,
}

impl Operand {
    /// Checks a layout. `data` is the address of the matrix, or of an array of addresses.
    ///
    /// # Errors
    /// `INVALID_VALUE` for numbers that describe no matrix, `NOT_SUPPORTED` for unknown types and grouped matrices.
    pub(crate) fn new(data: *const c_void, layout: &Layout) -> Result<Operand, Failure> {
        let kind = kind(layout.kind, Status::NOT_SUPPORTED)?;
        let order = order(layout.order)?;
        let size = |value: u64| dimension(i64::try_from(value).unwrap_or(i64::MAX), 0);
        let (rows, columns) = (size(layout.rows)?, size(layout.columns)?);
        let ld = dimension(layout.ld, 0)?;
        let least = match order {
            Order::Column => rows,
            Order::Row => columns,
            _ if columns > TILE => TILE * tile_rows(order, rows),
            _ => 0,
        };
        need(ld >= least, 0)?;
        let data = match layout.batch_mode {
            STRIDED => Pointers::Strided {
                base: data.cast_mut(),
                stride: layout.batch_stride,
            },
            POINTER_ARRAY => Pointers::Array(data.cast()),
            _ => return Err(Status::NOT_SUPPORTED.into()),
        };
        need(layout.plane == 0 || kind.is_complex(), 0)?;
        if kind == DataType::E2M1 {
            // Two elements of a column share a byte.
            let is_even = |size: usize| size.is_multiple_of(2);
            let fits = order == Order::Column && is_even(rows) && is_even(ld);
            let fits = fits && layout.batch_stride % 2 == 0;
            fits.then_some(()).ok_or(Status::NOT_SUPPORTED)?;
        }
        Ok(Operand {
            matrix: Matrix {
                data,
                kind,
                order,
                rows,
                columns,
                ld,
                plane: layout.plane,
            },
            batch: layout::count(layout.batch_count)?,
        })
    }

    /// The shape of one matrix in elements of its type.
    fn shape(&self) -> Shape {
        let Matrix {
            order,
            rows,
            columns,
            ld,
            ..
        } = self.matrix;
        match order {
            Order::Column => Shape::matrix(rows, columns, ld),
            Order::Row => Shape::matrix(columns, rows, ld),
            _ => {
                let tile = TILE * tile_rows(order, rows);
                Shape::matrix(tile, columns.div_ceil(TILE), ld)
            }
        }
    }

    /// Adds the memory of the matrices. Of addresses in memory only the array is known.
    pub(crate) fn add(&self, memory: &mut Memory, access: Access) {
        let (base, stride) = match self.matrix.data {
            Pointers::Strided { base, stride } => (base, stride),
            Pointers::Array(array) => {
                memory.add(
                    Access::Read,
                    array,
                    size_of::<usize>(),
                    Shape::packed(self.batch),
                );
                return;
            }
        };
        let mut shape = self.shape().batch(self.batch, stride);
        if self.matrix.kind == DataType::E2M1 {
            (shape.rows, shape.ld, shape.stride) = (shape.rows / 2, shape.ld / 2, shape.stride / 2);
        }
        let size = self.matrix.kind.size();
        if self.matrix.plane == 0 {
            memory.add(access, base, size, shape);
            return;
        }
        // Each plane contains one part of each element.
        memory.add(access, base, size / 2, shape);
        let imaginary = base.wrapping_byte_offset(self.matrix.plane as isize);
        memory.add(access, imaginary, size / 2, shape);
    }

    /// The same matrix with elements of another type.
    pub(crate) fn of_kind(mut self, kind: DataType) -> Operand {
        self.matrix.kind = kind;
        self
    }

    /// Whether there is no address.
    pub(crate) fn is_null(&self) -> bool {
        match self.matrix.data {
            Pointers::Strided { base, .. } => base.is_null(),
            Pointers::Array(array) => array.is_null(),
        }
    }

    /// Rows and columns after an operation.
    pub(crate) fn size_after(&self, operation: Operation) -> (usize, usize) {
        let (rows, columns) = (self.matrix.rows, self.matrix.columns);
        match operation {
            Operation::None | Operation::Conjugate => (rows, columns),
            Operation::Transpose | Operation::Adjoint => (columns, rows),
        }
    }
}

/// Whether cuBLASLt multiplies matrices of these types: equal ones, except that one of the 8-bit floating-point types is
/// always the one with more precision.
pub(crate) fn may_be_multiplied(a: DataType, b: DataType) -> bool {
    match (a, b) {
        (DataType::E5M2, DataType::E5M2) => false,
        (DataType::E4M3 | DataType::E5M2, DataType::E4M3 | DataType::E5M2) => true,
        (a, b) => a == b,
    }
}

/// Returns the operation of a `cublasOperation_t` of a descriptor.
pub(crate) fn operation(number: i32) -> Result<Operation, Failure> {
    const CONJUGATE: i32 = 3;
    match number {
        CONJUGATE => Ok(Operation::Conjugate),
        number => crate::options::operation(number, 0),
    }
}

/// Returns the type for a number of `cudaDataType`.
pub(crate) fn data_type(number: i32) -> Result<DataType, Failure> {
    kind(number, Status::NOT_SUPPORTED)
}
