//! Elements of a matrix in any order of cuBLASLt: reading and writing runs of rows, and packing as operands.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ops::Range;

use super::{Layout, Order};
use crate::core::Source;
use crate::kernels::Accumulate;
use crate::operands::{Matrices, Operand};
use crate::simd::{self, Task};
use crate::storage::{BF16, F16, Load, Store, with_complex, with_narrow};
use crate::{Complex, DataType, Element, Operation, Pointers};

/// Where elements are, relative to the beginning of a matrix.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    order: Order,
    ld: usize,
    /// Distance in bytes of the imaginary parts; 0: complex numbers are pairs.
    plane: isize,
    /// Whether rows and columns are exchanged.
    transposed: bool,
}

impl Access {
    pub(super) fn of(layout: &Layout) -> Access {
        Access {
            order: layout.order,
            ld: layout.ld,
            plane: layout.plane as isize,
            transposed: false,
        }
    }

    /// A matrix in a simple order.
    pub(super) fn plain(order: Order, ld: usize) -> Access {
        Access {
            order,
            ld,
            plane: 0,
            transposed: false,
        }
    }

    /// A vector of contiguous elements.
    pub(super) const VECTOR: Access = Access {
        order: Order::Column,
        ld: 0,
        plane: 0,
        transposed: false,
    };

    /// The transposed matrix.
    pub(super) fn transposed(self) -> Access {
        Access {
            transposed: !self.transposed,
            ..self
        }
    }

    /// Whether the elements of a column are contiguous.
    #[inline(always)]
    fn is_contiguous(&self) -> bool {
        self.order == Order::Column && !self.transposed
    }

    /// The index of an element.
    #[inline(always)]
    pub(super) fn index(&self, row: usize, column: usize) -> usize {
        let ld = self.ld;
        let (row, column) = if self.transposed {
            (column, row)
        } else {
            (row, column)
        };
        match self.order {
            Order::Column => row + column * ld,
            Order::Row => row * ld + column,
            Order::Column32 => column / 32 * ld + row * 32 + column % 32,
            Order::Column4_4R2_8C => {
                // Tiles of 8 rows and 32 columns. A tile has four parts for even rows, then four for odd rows: 8 columns of 4 rows each.
                let (row_in, column_in) = (row % 8, column % 32);
                let part = row / 8 * 8 + row_in % 2 * 4 + column_in / 8;
                let place = (column_in % 8 / 4 * 4 + row_in / 2) * 4 + column_in % 4;
                column / 32 * ld + part * 32 + place
            }
            Order::Column32_2R4R4 => {
                let row_in = row % 32;
                column / 32 * ld
                    + row / 32 * 1024
                    + ((row_in % 8 / 2 * 4 + row_in / 8) * 2 + row_in % 2) * 32
                    + column % 32
            }
        }
    }

    /// The distance of rows, if it is the same for all.
    fn row_stride(&self) -> Option<usize> {
        match self.order {
            Order::Column => Some(1),
            Order::Row => Some(self.ld),
            _ => None,
        }
    }
}

/// Reads elements `row..row + count` of a column.
pub(super) type Reader<V> = unsafe fn(
    data: *const c_void,
    access: &Access,
    row: usize,
    column: usize,
    count: usize,
    to: *mut V,
);

/// Writes elements `row..row + count` of a column.
pub(super) type Writer<V> = unsafe fn(
    data: *mut c_void,
    access: &Access,
    row: usize,
    column: usize,
    count: usize,
    from: *const V,
);

struct Read<S, V> {
    data: *const S,
    access: Access,
    row: usize,
    column: usize,
    count: usize,
    to: *mut V,
}

impl<S: Load<V>, V> Task for Read<S, V> {
    type Output = ();

    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Read {
            data,
            access,
            row,
            column,
            count,
            to,
        } = self;
        // SAFETY: the matrix has these elements, and there is room for the values.
        unsafe {
            if access.is_contiguous() {
                let data = data.add(access.index(row, column));
                for i in 0..count {
                    to.add(i).write(data.add(i).read().load());
                }
            } else {
                for i in 0..count {
                    to.add(i)
                        .write(data.add(access.index(row + i, column)).read().load());
                }
            }
        }
    }
}

/// # Safety
/// The matrix has elements of type `S`.
unsafe fn read<S: Load<V>, V>(
    data: *const c_void,
    access: &Access,
    row: usize,
    column: usize,
    count: usize,
    to: *mut V,
) {
    simd::run(Read {
        data: data.cast::<S>(),
        access: *access,
        row,
        column,
        count,
        to,
    });
}

/// # Safety
/// The matrix has planes of type `S`.
unsafe fn read_planes<S: Load<R>, R>(
    data: *const c_void,
    access: &Access,
    row: usize,
    column: usize,
    count: usize,
    to: *mut Complex<R>,
) {
    for i in 0..count {
        // SAFETY: the matrix has these elements, and there is room for the values.
        unsafe {
            let place = data.cast::<S>().add(access.index(row + i, column));
            let value = Complex::new(
                place.read().load(),
                place.byte_offset(access.plane).read().load(),
            );
            to.add(i).write(value);
        }
    }
}

struct Write<S, V> {
    data: *mut S,
    access: Access,
    row: usize,
    column: usize,
    count: usize,
    from: *const V,
}

impl<S: Store<V>, V> Task for Write<S, V> {
    type Output = ();

    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Write {
            data,
            access,
            row,
            column,
            count,
            from,
        } = self;
        // SAFETY: the matrix and the values have these elements.
        unsafe {
            if access.is_contiguous() {
                let data = data.add(access.index(row, column));
                for i in 0..count {
                    data.add(i).write(S::store(from.add(i).read()));
                }
            } else {
                for i in 0..count {
                    data.add(access.index(row + i, column))
                        .write(S::store(from.add(i).read()));
                }
            }
        }
    }
}

/// # Safety
/// The matrix has elements of type `S`.
unsafe fn write<S: Store<V>, V>(
    data: *mut c_void,
    access: &Access,
    row: usize,
    column: usize,
    count: usize,
    from: *const V,
) {
    simd::run(Write {
        data: data.cast::<S>(),
        access: *access,
        row,
        column,
        count,
        from,
    });
}

/// # Safety
/// The matrix has planes of type `S`.
unsafe fn write_planes<S: Store<R>, R: Copy>(
    data: *mut c_void,
    access: &Access,
    row: usize,
    column: usize,
    count: usize,
    from: *const Complex<R>,
) {
    for i in 0..count {
        // SAFETY: the matrix and the values have these elements.
        unsafe {
            let place = data.cast::<S>().add(access.index(row + i, column));
            let value = from.add(i).read();
            place.write(S::store(value.re));
            place.byte_offset(access.plane).write(S::store(value.im));
        }
    }
}

/// A type in which the last steps of a product are computed.
pub(super) trait Value: Element {
    /// How to read elements of a type. `planar`: real and imaginary parts are apart.
    fn reader(kind: DataType, planar: bool) -> Option<Reader<Self>>;
    /// How to write elements of a type.
    fn writer(kind: DataType, planar: bool) -> Option<Writer<Self>>;
}

impl Value for f32 {
    fn reader(kind: DataType, planar: bool) -> Option<Reader<f32>> {
        if planar {
            return None;
        }
        with_narrow!(kind, S => Some(read::<S, f32>), else (kind == DataType::R32I).then_some(read::<i32, f32> as Reader<f32>))
    }

    fn writer(kind: DataType, planar: bool) -> Option<Writer<f32>> {
        if planar {
            return None;
        }
        with_narrow!(kind, S => Some(write::<S, f32>), else (kind == DataType::R32I).then_some(write::<i32, f32> as Writer<f32>))
    }
}

impl Value for f64 {
    fn reader(kind: DataType, planar: bool) -> Option<Reader<f64>> {
        match kind {
            _ if planar => None,
            DataType::R64F => Some(read::<f64, f64>),
            DataType::R32I => Some(read::<i32, f64>),
            DataType::R8I => Some(read::<i8, f64>),
            _ => None,
        }
    }

    fn writer(kind: DataType, planar: bool) -> Option<Writer<f64>> {
        match kind {
            _ if planar => None,
            DataType::R64F => Some(write::<f64, f64>),
            DataType::R32I => Some(write::<i32, f64>),
            DataType::R8I => Some(write::<i8, f64>),
            _ => None,
        }
    }
}

impl Value for Complex<f32> {
    fn reader(kind: DataType, planar: bool) -> Option<Reader<Complex<f32>>> {
        match kind {
            DataType::C32F if planar => Some(read_planes::<f32, f32>),
            DataType::C16F if planar => Some(read_planes::<F16, f32>),
            DataType::C16BF if planar => Some(read_planes::<BF16, f32>),
            _ if planar => None,
            kind => with_complex!(kind, S => Some(read::<S, Complex<f32>>), else None),
        }
    }

    fn writer(kind: DataType, planar: bool) -> Option<Writer<Complex<f32>>> {
        match kind {
            DataType::C32F if planar => Some(write_planes::<f32, f32>),
            DataType::C16F if planar => Some(write_planes::<F16, f32>),
            DataType::C16BF if planar => Some(write_planes::<BF16, f32>),
            _ if planar => None,
            kind => with_complex!(kind, S => Some(write::<S, Complex<f32>>), else None),
        }
    }
}

impl Value for Complex<f64> {
    fn reader(kind: DataType, planar: bool) -> Option<Reader<Complex<f64>>> {
        match (kind, planar) {
            (DataType::C64F, false) => Some(read::<Complex<f64>, Complex<f64>>),
            (DataType::C64F, true) => Some(read_planes::<f64, f64>),
            _ => None,
        }
    }

    fn writer(kind: DataType, planar: bool) -> Option<Writer<Complex<f64>>> {
        match (kind, planar) {
            (DataType::C64F, false) => Some(write::<Complex<f64>, Complex<f64>>),
            (DataType::C64F, true) => Some(write_planes::<f64, f64>),
            _ => None,
        }
    }
}

/// The addresses of a batch, whose strides count elements of `kind`, or of its real part if the matrix is planar.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addresses {
    data: Pointers<c_void>,
    size: i64,
}

impl Addresses {
    pub(super) fn of(layout: &Layout) -> Addresses {
        let kind = if layout.plane != 0 {
            layout.kind.real()
        } else {
            layout.kind
        };
        Addresses {
            data: layout.data,
            size: kind.size() as i64,
        }
    }

    /// # Safety
    /// The plan may run now.
    pub(super) unsafe fn item(&self, item: usize) -> *mut c_void {
        match self.data {
            Pointers::Strided { base, stride } => {
                let bytes = stride.wrapping_mul(self.size).wrapping_mul(item as i64);
                base.cast::<u8>().wrapping_offset(bytes as isize).cast()
            }
            // SAFETY: the caller's condition.
            Pointers::Array(_) => unsafe { self.data.item(item) },
        }
    }
}

/// An operand in an order without strides.
struct Gathered<V> {
    addresses: Addresses,
    access: Access,
    /// Whether the outer index is the column in memory.
    outer_is_column: bool,
    conjugate: bool,
    read: Reader<V>,
}

impl<T: Accumulate> Operand<T> for Gathered<T::Item> {
    unsafe fn with(&self, item: usize, body: &mut dyn FnMut(&dyn Source<T>)) {
        // SAFETY: the plan may run now.
        let data = unsafe { self.addresses.item(item) };
        body(&GatheredItem {
            data,
            operand: self,
        });
    }
}

/// One item of a [`Gathered`] operand.
struct GatheredItem<'a, V> {
    data: *const c_void,
    operand: &'a Gathered<V>,
}

// SAFETY: the memory is only read.
unsafe impl<V: Sync> Sync for GatheredItem<'_, V> {}

impl<T: Accumulate> Source<T> for GatheredItem<'_, T::Item> {
    unsafe fn pack(
        &self,
        outer: Range<usize>,
        depth: Range<usize>,
        width: usize,
        panels: *mut T::Part,
    ) {
        let Gathered {
            access,
            outer_is_column,
            conjugate,
            read,
            ..
        } = self.operand;
        let stride = depth.len().next_multiple_of(T::STEP) * T::PARTS * width;
        for (index, first) in outer.clone().step_by(width).enumerate() {
            // SAFETY: the caller's buffer has this panel, which consists of numbers.
            unsafe {
                let panel = panels.add(index * stride);
                panel.write_bytes(0, stride);
                for row in 0..width.min(outer.end - first) {
                    for k in depth.clone() {
                        let (i, j) = if *outer_is_column {
                            (k, first + row)
                        } else {
                            (first + row, k)
                        };
                        let mut item = MaybeUninit::uninit();
                        read(self.data, access, i, j, 1, item.as_mut_ptr());
                        T::place(
                            panel,
                            width,
                            row,
                            k - depth.start,
                            item.assume_init(),
                            *conjugate,
                        );
                    }
                }
            }
        }
    }
}

/// Reads an `i16` from an `i8`.
pub(super) fn integer_reader(kind: DataType) -> Option<Reader<i16>> {
    (kind == DataType::R8I).then_some(read::<i8, i16> as Reader<i16>)
}

/// Which operand of a product a matrix is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    Left,
    Right,
}

/// Makes an operand from a matrix with strides.
type MakeOperand<T> = fn(DataType, Matrices<c_void>) -> Option<Box<dyn Operand<T>>>;

/// A matrix as an operand. `dense` makes one from a matrix with strides.
pub(super) fn operand<T: Accumulate>(
    layout: &Layout,
    operation: Operation,
    position: Position,
    dense: MakeOperand<T>,
    reader: Option<Reader<T::Item>>,
) -> Option<Box<dyn Operand<T>>> {
    let outer_is_column = operation.transposes() == (position == Position::Left);
    let conjugate = operation.conjugates();
    let access = Access::of(layout);
    if let (Some(row_stride), 0) = (access.row_stride(), layout.plane) {
        let column_stride = if row_stride == 1 && access.order == Order::Column {
            access.ld
        } else {
            1
        };
        let (outer_stride, depth_stride) = if outer_is_column {
            (column_stride, row_stride)
        } else {
            (row_stride, column_stride)
        };
        return dense(
            layout.kind,
            Matrices {
                data: layout.data,
                outer_stride,
                depth_stride,
                conjugate,
            },
        );
    }
    Some(Box::new(Gathered {
        addresses: Addresses::of(layout),
        access,
        outer_is_column,
        conjugate,
        read: reader?,
    }))
}
