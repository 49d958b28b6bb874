//! The last steps of a product of cuBLASLt: scaling, the added matrix, bias, activation, auxiliary matrices, and the store.

use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use super::access::{Access, Addresses, Reader, Value, Writer};
use super::activation::{gelu, gelu_derivative, relu};
use super::{Activation, Factor, Scale};
use crate::AnyScalar;
use crate::core::Finish;
use crate::kernels::Accumulate;
use crate::simd::{self, Task};

/// A type of sums that can be converted to values.
pub(super) trait SumOf<V> {
    /// The sum as a value.
    fn value(self) -> V;
}

impl<V: Value> SumOf<V> for V {
    #[inline(always)]
    fn value(self) -> V {
        self
    }
}

impl SumOf<f32> for i32 {
    #[inline(always)]
    fn value(self) -> f32 {
        self as f32
    }
}

/// A vector of values in memory.
#[derive(Clone, Copy)]
pub(super) struct Vector<V> {
    pub(super) data: *const c_void,
    pub(super) read: Reader<V>,
}

impl<V: Value> Vector<V> {
    /// # Safety
    /// The vector has these elements.
    #[inline(always)]
    unsafe fn read(&self, first: usize, count: usize, to: &mut [V; RUN]) {
        // SAFETY: the caller's condition; the array has room.
        unsafe { (self.read)(self.data, &Access::VECTOR, first, 0, count, to.as_mut_ptr()) };
    }
}

/// `alpha` or `beta` of an item.
#[derive(Clone, Copy)]
pub(super) enum Now<V> {
    /// One value.
    One(V),
    /// One value for each row, times a value.
    Rows(Vector<V>, V),
}

/// Reads a factor of an item, times the tensor scales.
///
/// # Safety
/// The plan may run now.
pub(super) unsafe fn factor<V: Value>(factor: &Factor, item: usize, scale: V::Real) -> Now<V> {
    let offset = |data: *const c_void, kind: crate::DataType, stride: i64| {
        let bytes = stride
            .wrapping_mul(item as i64)
            .wrapping_mul(kind.size() as i64);
        data.cast::<u8>()
            .wrapping_offset(bytes as isize)
            .cast::<c_void>()
    };
    // SAFETY: the caller's condition.
    unsafe {
        match *factor {
            Factor::Scalar(value) => Now::One(V::from_wide(value.read()).scale(scale)),
            Factor::Items {
                data,
                kind,
                batch_stride,
            } => {
                let value = AnyScalar::At {
                    address: offset(data, kind, batch_stride),
                    kind,
                };
                Now::One(V::from_wide(value.read()).scale(scale))
            }
            Factor::Rows {
                data,
                kind,
                batch_stride,
            } => match V::reader(kind, false) {
                Some(read) => Now::Rows(
                    Vector {
                        data: offset(data, kind, batch_stride),
                        read,
                    },
                    V::from_real(scale),
                ),
                None => Now::One(V::ZERO),
            },
        }
    }
}

/// The factor of a whole matrix.
///
/// # Safety
/// The plan may run now.
pub(super) unsafe fn tensor_scale(scale: Scale) -> f32 {
    // SAFETY: the caller's condition.
    unsafe {
        match scale {
            Scale::Tensor(data) => data.read(),
            Scale::None | Scale::Outer(_) | Scale::Blocks(_) => 1.0,
        }
    }
}

/// A matrix of an item that is read.
#[derive(Clone, Copy)]
pub(super) struct Readable<V> {
    pub(super) data: *const c_void,
    pub(super) access: Access,
    pub(super) read: Reader<V>,
}

/// A matrix of an item that is written.
#[derive(Clone, Copy)]
pub(super) struct Writable<V> {
    pub(super) data: *mut c_void,
    pub(super) access: Access,
    pub(super) write: Writer<V>,
}

/// The auxiliary matrix of an item.
#[derive(Clone, Copy)]
pub(super) enum Aux<V> {
    /// None.
    None,
    /// Bits that are written: whether the input of ReLU is not negative. Bytes, and the distance of columns in bytes.
    WriteBits(*mut u8, usize),
    /// Bits that are read.
    ReadBits(*const u8, usize),
    /// The input of GELU is written, times a factor; the largest magnitude goes to an address, if that is not null.
    Write(Writable<V>, V, *mut f32),
    /// The input of GELU is read, times a factor.
    Read(Readable<V>, V),
}

/// The last steps of an item.
pub(super) struct LastSteps<V: Value> {
    pub(super) alpha: Now<V>,
    pub(super) outer: [*const f32; 2],
    /// The added matrix with its factor.
    pub(super) c: Option<(Readable<V>, Now<V>)>,
    pub(super) bias: Option<Vector<V>>,
    pub(super) activation: Activation,
    pub(super) aux: Aux<V>,
    pub(super) amax: *mut f32,
    pub(super) d: Writable<V>,
    pub(super) d_scale: V,
    /// Sums of rows within groups of columns: `gradient[row + group * rows]`. Null: not wanted.
    pub(super) gradient: *mut V,
    pub(super) rows: usize,
    /// Columns of a group.
    pub(super) group: usize,
}

// SAFETY: tasks write disjoint elements, and maxima are atomic.
unsafe impl<V: Value> Sync for LastSteps<V> {}

/// Rows that are handled together. A multiple of 8, so that a run's bits fill bytes.
pub(super) const RUN: usize = 32;

impl<V: Value, T: Accumulate + SumOf<V>> Finish<T> for LastSteps<V> {
    unsafe fn tile(
        &self,
        row: usize,
        column: usize,
        rows: usize,
        columns: usize,
        sums: *const T,
        stride: usize,
    ) {
        for start in (0..rows).step_by(RUN) {
            let count = RUN.min(rows - start);
            // SAFETY: the sums of these rows are in the tile.
            let sums = unsafe { sums.add(start) };
            simd::run(Run {
                steps: self,
                row: row + start,
                count,
                columns: column..column + columns,
                sums,
                stride,
            });
        }
    }
}

/// Some rows of a tile.
struct Run<'a, V: Value, T> {
    steps: &'a LastSteps<V>,
    row: usize,
    count: usize,
    columns: Range<usize>,
    sums: *const T,
    stride: usize,
}

/// The largest magnitude of values.
#[inline(always)]
fn largest<V: Value>(values: &[V]) -> f32 {
    use crate::Real;
    let mut result = 0.0f32;
    for value in values {
        let magnitude = value.re().to_f64().abs() as f32;
        result = if magnitude > result || magnitude.is_nan() {
            magnitude
        } else {
            result
        };
    }
    result
}

/// Raises the number at an address to at least `value`. NaN counts as larger than all numbers.
///
/// # Safety
/// The address is that of a number that is not negative, or null.
unsafe fn raise(address: *mut f32, value: f32) {
    if !address.is_null() {
        // SAFETY: the caller's condition. The bits of numbers that are not negative are ordered as the numbers.
        unsafe { AtomicU32::from_ptr(address.cast()) }
            .fetch_max(value.to_bits() & 0x7fff_ffff, Ordering::Relaxed);
    }
}

impl<V: Value, T: SumOf<V>> Task for Run<'_, V, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Run {
            steps,
            row,
            count,
            sums,
            stride,
            ..
        } = self;
        let mut bias = [V::ZERO; RUN];
        let (mut d_largest, mut aux_largest) = (0.0f32, 0.0f32);
        // SAFETY: the matrices, vectors and sums have these elements.
        unsafe {
            if let Some(vector) = &steps.bias {
                vector.read(row, count, &mut bias);
            }
            for (index, column) in self.columns.clone().enumerate() {
                let mut values = [V::ZERO; RUN];
                for (i, value) in values.iter_mut().enumerate().take(count) {
                    *value = sums.add(i + index * stride).read().value();
                }
                self.scale::<FUSED>(column, &mut values);
                if steps.bias.is_some() {
                    for i in 0..RUN {
                        values[i] = values[i] + bias[i];
                    }
                }
                aux_largest = aux_largest.max_nan(self.activate::<FUSED>(column, &mut values));
                if !steps.amax.is_null() {
                    d_largest = d_largest.max_nan(largest(&values[..count]));
                }
                if !steps.gradient.is_null() {
                    self.add_gradient(column, &values);
                }
                if steps.d_scale != V::ONE {
                    for value in &mut values {
                        *value = *value * steps.d_scale;
                    }
                }
                (steps.d.write)(
                    steps.d.data,
                    &steps.d.access,
                    row,
                    column,
                    count,
                    values.as_ptr(),
                );
            }
            raise(steps.amax, d_largest);
            if let Aux::Write(_, _, amax) = steps.aux {
                raise(amax, aux_largest);
            }
        }
    }
}

/// The maximum, or NaN if one is NaN.
trait MaxNan {
    fn max_nan(self, other: Self) -> Self;
}

impl MaxNan for f32 {
    #[inline(always)]
    fn max_nan(self, other: f32) -> f32 {
        if self > other || self.is_nan() {
            self
        } else {
            other
        }
    }
}

impl<V: Value, T> Run<'_, V, T> {
    /// Applies the factors, and adds the other matrix.
    ///
    /// # Safety
    /// The matrices and vectors have these elements.
    #[inline(always)]
    unsafe fn scale<const FUSED: bool>(&self, column: usize, values: &mut [V; RUN]) {
        let Run {
            steps, row, count, ..
        } = *self;
        let mut other = [V::ZERO; RUN];
        // SAFETY: the caller's condition.
        unsafe {
            match &steps.alpha {
                Now::One(alpha) => values.iter_mut().for_each(|value| *value = *alpha * *value),
                Now::Rows(vector, factor) => {
                    vector.read(row, count, &mut other);
                    for i in 0..RUN {
                        values[i] = *factor * other[i] * values[i];
                    }
                }
            }
            self.scale_outer(column, values);
            if let Some((c, beta)) = &steps.c {
                (c.read)(c.data, &c.access, row, column, count, other.as_mut_ptr());
                match beta {
                    Now::One(beta) => {
                        for i in 0..RUN {
                            values[i] = values[i].add_product::<FUSED>(*beta, other[i]);
                        }
                    }
                    Now::Rows(vector, factor) => {
                        let mut beta = [V::ZERO; RUN];
                        vector.read(row, count, &mut beta);
                        for i in 0..RUN {
                            values[i] = values[i].add_product::<FUSED>(*factor * beta[i], other[i]);
                        }
                    }
                }
            }
        }
    }

    /// Applies the factors of rows and columns.
    ///
    /// # Safety
    /// The vectors have these elements.
    #[inline(always)]
    unsafe fn scale_outer(&self, column: usize, values: &mut [V; RUN]) {
        use crate::Real;
        let [of_rows, of_columns] = self.steps.outer;
        // SAFETY: the caller's condition.
        unsafe {
            if !of_rows.is_null() {
                for (i, value) in values.iter_mut().enumerate().take(self.count) {
                    *value = value.scale(V::Real::from_f64(f64::from(
                        of_rows.add(self.row + i).read(),
                    )));
                }
            }
            if !of_columns.is_null() {
                let factor = V::Real::from_f64(f64::from(of_columns.add(column).read()));
                values
                    .iter_mut()
                    .for_each(|value| *value = value.scale(factor));
            }
        }
    }

    /// Applies the function, and handles the auxiliary matrix. Returns the largest magnitude that was written to that.
    ///
    /// # Safety
    /// The matrices have these elements.
    #[inline(always)]
    unsafe fn activate<const FUSED: bool>(&self, column: usize, values: &mut [V; RUN]) -> f32 {
        let Run {
            steps, row, count, ..
        } = *self;
        let mut input = *values;
        let mut magnitude = 0.0;
        // SAFETY: the caller's condition. Only values of type f32 have activations.
        unsafe {
            match steps.aux {
                Aux::Write(matrix, factor, amax) => {
                    if !amax.is_null() {
                        magnitude = largest(&values[..count]);
                    }
                    input.iter_mut().for_each(|value| *value = *value * factor);
                    (matrix.write)(
                        matrix.data,
                        &matrix.access,
                        row,
                        column,
                        count,
                        input.as_ptr(),
                    );
                }
                Aux::Read(matrix, factor) => {
                    (matrix.read)(
                        matrix.data,
                        &matrix.access,
                        row,
                        column,
                        count,
                        input.as_mut_ptr(),
                    );
                    input.iter_mut().for_each(|value| *value = *value * factor);
                }
                _ => {}
            }
            if steps.activation == Activation::Identity {
                return magnitude;
            }
            let values = &mut *(&raw mut *values).cast::<[f32; RUN]>();
            let input = &*(&raw const input).cast::<[f32; RUN]>();
            match steps.activation {
                Activation::Identity => {}
                Activation::Relu => {
                    if let Aux::WriteBits(bits, stride) = steps.aux {
                        write_bits(bits.add(column * stride + row / 8), values, count);
                    }
                    values.iter_mut().for_each(|value| *value = relu(*value));
                }
                Activation::Gelu => values
                    .iter_mut()
                    .for_each(|value| *value = gelu::<FUSED>(*value)),
                Activation::ReluGradient => {
                    if let Aux::ReadBits(bits, stride) = steps.aux {
                        let bits = bits.add(column * stride + row / 8);
                        for (i, value) in values.iter_mut().enumerate().take(count) {
                            if bits.add(i / 8).read() >> (i % 8) & 1 == 0 {
                                *value = 0.0;
                            }
                        }
                    }
                }
                Activation::GeluGradient => {
                    for i in 0..RUN {
                        values[i] *= gelu_derivative::<FUSED>(input[i]);
                    }
                }
            }
        }
        magnitude
    }

    /// Adds values to the sums of their rows.
    ///
    /// # Safety
    /// There are sums for the rows and for the group of the column.
    #[inline(always)]
    unsafe fn add_gradient(&self, column: usize, values: &[V; RUN]) {
        let Run {
            steps, row, count, ..
        } = *self;
        // SAFETY: the caller's condition; no other task has these rows and this group.
        unsafe {
            let sums = steps.gradient.add(row + column / steps.group * steps.rows);
            for (i, value) in values.iter().enumerate().take(count) {
                let place = sums.add(i);
                place.write(if column.is_multiple_of(steps.group) {
                    *value
                } else {
                    place.read() + *value
                });
            }
        }
    }
}

/// Writes a bit for each value: whether it is not negative. Bits behind the last value are 0.
///
/// # Safety
/// There is a byte for each 8 values.
#[inline(always)]
unsafe fn write_bits(bytes: *mut u8, values: &[f32; RUN], count: usize) {
    for byte in 0..count.div_ceil(8) {
        let mut bits = 0;
        for bit in 0..8.min(count - byte * 8) {
            bits |= u8::from(values[byte * 8 + bit] >= 0.0) << bit;
        }
        // SAFETY: the caller's condition.
        unsafe { bytes.add(byte).write(bits) };
    }
}

/// The address of a matrix of an item as bits.
///
/// # Safety
/// The plan may run now.
pub(super) unsafe fn bits_of(data: *mut c_void, batch_stride: i64, item: usize) -> *mut u8 {
    data.cast::<u8>()
        .wrapping_offset((batch_stride / 8).wrapping_mul(item as i64) as isize)
}

/// A matrix of an item.
///
/// # Safety
/// The plan may run now.
pub(super) unsafe fn readable<V>(
    addresses: &Addresses,
    access: Access,
    read: Reader<V>,
    item: usize,
) -> Readable<V> {
    // SAFETY: the caller's condition.
    Readable {
        // SAFETY: the condition of the surrounding function.
        data: unsafe { addresses.item(item) },
        access,
        read,
    }
}
