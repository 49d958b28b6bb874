//! The plan of a product of cuBLASLt.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use super::access::{Access, Addresses, Position, Reader, Value, Writer, operand};
use super::finish::{
    Aux, LastSteps, Now, Readable, SumOf, Vector, Writable, bits_of, factor, readable, tensor_scale,
};
use super::quantize::Quantized;
use super::scales::BlockScales;
use super::{Activation, BiasGradient, Factor, Layout, Matmul, Order, Scale};
use crate::core::{
    Buffer, Finish, Grid, Items, Operands, Region, Source, product, stage, stage_of,
};
use crate::kernels::Accumulate;
use crate::operands::{Matrices, Operand};
use crate::vector::single_with;
use crate::{DataType, Operation, Plan, Real, Stage};

mod regions;

/// A product whose sums have type `T` and whose results are computed in `V`.
pub(super) struct Work<T: Accumulate, V: Value> {
    arguments: Matmul,
    a: Box<dyn Operand<T>>,
    b: Box<dyn Operand<T>>,
    c: Matrix<Reader<V>>,
    d: Matrix<Writer<V>>,
    bias: Option<Reader<V>>,
    aux: Option<(Reader<V>, Writer<V>)>,
    /// Sums of the rows of the result in groups of columns, for the gradient of the bias.
    gradient: Option<Buffer<V>>,
    /// The result, if its blocks have factors.
    quantized: Option<Quantized>,
    sums: PhantomData<T>,
}

struct Matrix<F> {
    addresses: Addresses,
    access: Access,
    function: F,
}

impl<F> Matrix<F> {
    fn new(layout: &Layout, function: F) -> Matrix<F> {
        Matrix {
            addresses: Addresses::of(layout),
            access: Access::of(layout),
            function,
        }
    }
}

// SAFETY: the caller of a routine vouches for the memory, and tasks write disjoint elements.
unsafe impl<T: Accumulate, V: Value> Send for Work<T, V> {}
// SAFETY: as above.
unsafe impl<T: Accumulate, V: Value> Sync for Work<T, V> {}

/// Makes an operand with strides.
pub(super) type MakeDense<T> = fn(DataType, Matrices<c_void>) -> Option<Box<dyn Operand<T>>>;

/// Makes an operand with factors of blocks.
pub(super) type MakeScaled<T> =
    fn(&Layout, Operation, Position, BlockScales) -> Option<Box<dyn Operand<T>>>;

impl<T: Accumulate + SumOf<V>, V: Value> Work<T, V> {
    /// The product, or `None` if a type or an order is not supported. `readers`: of elements of `A` and `B`.
    pub(super) fn new(
        mut arguments: Matmul,
        (dense, scaled): (MakeDense<T>, MakeScaled<T>),
        readers: [Option<Reader<T::Item>>; 2],
    ) -> Option<Work<T, V>> {
        let quantized = match arguments.output_scales {
            Some(_) if arguments.batch != 1 => return None,
            Some(scales) => Some(Quantized::new(&arguments.d, scales)?),
            None => None,
        };
        if quantized.is_some() {
            // The results are computed as `f32`.
            (arguments.d.kind, arguments.d.order) = (DataType::R32F, Order::Column);
        }
        let Matmul {
            a,
            b,
            c,
            d,
            epilogue,
            operation_a,
            operation_b,
            ..
        } = &arguments;
        let real = V::KIND == DataType::R32F;
        if !real
            && (epilogue.activation != Activation::Identity
                || epilogue.auxiliary.is_some()
                || !arguments.amax.is_null())
        {
            return None;
        }
        for factor in [&arguments.alpha, &arguments.beta] {
            if let Factor::Rows { kind, .. } = factor {
                V::reader(*kind, false)?;
            }
        }
        let [scale_a, scale_b, scale_c, scale_d] = arguments.scales;
        if !real
            && ![scale_a, scale_b, scale_c, scale_d]
                .iter()
                .all(|scale| matches!(scale, Scale::None))
        {
            return None;
        }
        let is_vector = |scale| matches!(scale, Scale::Outer(_) | Scale::Blocks(_));
        if is_vector(scale_c) || is_vector(scale_d) {
            return None;
        }
        let has_blocks = matches!(scale_a, Scale::Blocks(_)) || matches!(scale_b, Scale::Blocks(_));
        let is_special = quantized.is_some() || has_blocks;
        if is_special && (!real || epilogue.gradient != BiasGradient::None) {
            return None;
        }
        let operand = |layout, operation, position, reader, scale| match scale {
            // The factors of the items of a batch have no documented places.
            Scale::Blocks(_) if arguments.batch != 1 => None,
            Scale::Blocks(scales) => scaled(layout, operation, position, scales),
            _ => operand(layout, operation, position, dense, reader),
        };
        let bits = matches!(
            epilogue.activation,
            Activation::Relu | Activation::ReluGradient
        );
        let aux = match &epilogue.auxiliary {
            Some(aux) if !bits => Some((V::reader(aux.kind, false)?, V::writer(aux.kind, false)?)),
            _ => None,
        };
        let gradient_wanted = matches!(
            epilogue.activation,
            Activation::ReluGradient | Activation::GeluGradient
        );
        if gradient_wanted && epilogue.auxiliary.is_none()
            || (epilogue.gradient != BiasGradient::None && epilogue.bias.is_none())
        {
            return None;
        }
        let bias = match &epilogue.bias {
            Some(bias) => {
                V::writer(bias.kind, false)?;
                Some(V::reader(bias.kind, false)?)
            }
            None => None,
        };
        Some(Work {
            a: operand(a, *operation_a, Position::Left, readers[0], scale_a)?,
            b: operand(b, *operation_b, Position::Right, readers[1], scale_b)?,
            c: Matrix::new(c, V::reader(c.kind, c.plane != 0)?),
            d: Matrix::new(d, V::writer(d.kind, d.plane != 0)?),
            bias,
            aux,
            gradient: None,
            quantized,
            sums: PhantomData,
            arguments,
        })
    }

    /// The plan of the product.
    pub(super) fn plan(mut self) -> Plan {
        let Matmul {
            d,
            k,
            batch,
            epilogue,
            ..
        } = self.arguments;
        let (m, n) = (d.rows, d.columns);
        let mut stages = self.clear_maxima();
        if epilogue.gradient == BiasGradient::Result {
            let groups = n.div_ceil(T::kernel().columns);
            self.gradient = Some(Buffer::new(m * groups * batch, V::ZERO));
        }
        let work = Arc::new(self);
        stages.extend(Grid::new::<T>(m, n, k, batch).stages(Shared(work.clone())));
        if m == 0 || n == 0 || batch == 0 {
            return Plan { stages };
        }
        match epilogue.gradient {
            BiasGradient::None => {}
            BiasGradient::Result => stages.push(work.result_gradient()),
            BiasGradient::A | BiasGradient::B => stages.push(work.operand_gradient()),
        }
        Plan { stages }
    }

    /// The stage that sets the largest values to 0, if there are addresses for them.
    fn clear_maxima(&self) -> Vec<Stage> {
        let of_auxiliary = self.arguments.epilogue.auxiliary.map(|aux| aux.amax);
        let maxima = [
            self.arguments.amax,
            of_auxiliary.unwrap_or(std::ptr::null_mut()),
        ];
        if maxima.iter().all(|address| address.is_null()) {
            return Vec::new();
        }
        let clear = |maxima: [*mut f32; 2]| {
            for address in maxima {
                if !address.is_null() {
                    // SAFETY: the caller of the routine passes addresses of numbers.
                    unsafe { address.write(0.0) };
                }
            }
        };
        vec![single_with(maxima, clear)]
    }

    /// The stage that adds the sums of groups of columns.
    fn result_gradient(self: Arc<Self>) -> Stage {
        let (m, n, batch) = (
            self.arguments.d.rows,
            self.arguments.d.columns,
            self.arguments.batch,
        );
        let groups = n.div_ceil(T::kernel().columns);
        stage(batch, move |item| {
            let Some(buffer) = &self.gradient else { return };
            for row in 0..m {
                // SAFETY: the buffer has these sums, which the stage before has written.
                unsafe {
                    let first = buffer.pointer().add(item * m * groups + row);
                    let sum = (1..groups)
                        .fold(first.read(), |sum, group| sum + first.add(group * m).read());
                    self.write_bias(item, row, sum);
                }
            }
        })
    }

    /// The stage that adds the elements of an operand over k: a product with ones.
    fn operand_gradient(self: Arc<Self>) -> Stage {
        let Matmul {
            d,
            k,
            batch,
            epilogue,
            ..
        } = self.arguments;
        let of_a = epilogue.gradient == BiasGradient::A;
        let count = if of_a { d.rows } else { d.columns };
        const PART: usize = 256;
        let parts = count.div_ceil(PART);
        stage_of(batch * parts, (PART * k) as f64, move |task| {
            let (item, first) = (task / parts, task % parts * PART);
            let rows = first..count.min(first + PART);
            let ones = Ones;
            let finish = Gradient { work: &*self, item };
            let region = Region {
                rows,
                columns: 0..1,
                depth: 0..k,
            };
            let operand = if of_a { &self.a } else { &self.b };
            // SAFETY: the caller of the routine runs the plan only while its operands are valid; tasks have disjoint elements.
            unsafe { operand.with(item, &mut |source| product(&region, source, &ones, &finish)) };
        })
    }

    /// # Safety
    /// The plan may run now; the vector has this element.
    unsafe fn write_bias(&self, item: usize, index: usize, value: V) {
        let Some(bias) = &self.arguments.epilogue.bias else {
            return;
        };
        let Some(write) = V::writer(bias.kind, false) else {
            return;
        };
        // SAFETY: the caller's condition.
        unsafe {
            write(
                vector_of(bias.data, bias.batch_stride, bias.kind, item),
                &Access::VECTOR,
                index,
                0,
                1,
                &value,
            )
        };
    }

    /// The last steps of an item.
    ///
    /// # Safety
    /// The plan may run now.
    unsafe fn last_steps(&self, item: usize) -> LastSteps<V> {
        let Matmul {
            alpha,
            beta,
            scales,
            epilogue,
            d,
            k,
            ..
        } = &self.arguments;
        // SAFETY: the caller's condition.
        unsafe {
            let [scale_a, scale_b, scale_c, scale_d] = scales.map(|scale| tensor_scale(scale));
            let real = |value: f32| V::Real::from_f64(f64::from(value));
            let mut alpha = factor::<V>(alpha, item, real(scale_a * scale_b));
            if *k == 0 {
                alpha = Now::One(V::ZERO);
            }
            let beta = factor::<V>(beta, item, real(scale_c));
            let hidden = matches!(&beta, Now::One(value) if *value == V::ZERO);
            let outer = [scales[0], scales[1]].map(|scale| {
                if let Scale::Outer(data) = scale {
                    data
                } else {
                    std::ptr::null()
                }
            });
            let bias = match (&epilogue.bias, self.bias) {
                (Some(bias), Some(read)) if epilogue.gradient == BiasGradient::None => {
                    Some(Vector {
                        data: vector_of(bias.data, bias.batch_stride, bias.kind, item),
                        read,
                    })
                }
                _ => None,
            };
            let group = T::kernel().columns;
            let gradient = match &self.gradient {
                Some(buffer) => buffer
                    .pointer()
                    .add(item * d.rows * d.columns.div_ceil(group)),
                None => std::ptr::null_mut(),
            };
            LastSteps {
                alpha,
                outer,
                c: (!hidden).then(|| {
                    (
                        readable(&self.c.addresses, self.c.access, self.c.function, item),
                        beta,
                    )
                }),
                bias,
                activation: epilogue.activation,
                aux: self.aux_of(item),
                amax: self.arguments.amax,
                d: Writable {
                    data: self.d.addresses.item(item),
                    access: self.d.access,
                    write: self.d.function,
                },
                d_scale: V::from_real(real(scale_d)),
                gradient,
                rows: d.rows,
                group,
            }
        }
    }

    /// The auxiliary matrix of an item.
    ///
    /// # Safety
    /// The plan may run now.
    unsafe fn aux_of(&self, item: usize) -> Aux<V> {
        let Some(aux) = &self.arguments.epilogue.auxiliary else {
            return Aux::None;
        };
        // SAFETY: the caller's condition.
        unsafe {
            let bits = bits_of(aux.data, aux.batch_stride, item);
            let Some((read, write)) = self.aux else {
                return match self.arguments.epilogue.activation {
                    Activation::ReluGradient => Aux::ReadBits(bits, aux.ld / 8),
                    Activation::Relu => Aux::WriteBits(bits, aux.ld / 8),
                    _ => Aux::None,
                };
            };
            let data = vector_of(aux.data, aux.batch_stride, aux.kind, item);
            let order = if self.arguments.d.order == Order::Row {
                Order::Row
            } else {
                Order::Column
            };
            let access = Access::plain(order, aux.ld);
            let scale = V::from_real(V::Real::from_f64(f64::from(tensor_scale(aux.scale))));
            match self.arguments.epilogue.activation {
                Activation::GeluGradient => Aux::Read(Readable { data, access, read }, scale),
                Activation::Gelu => Aux::Write(
                    Writable {
                        data,
                        access,
                        write,
                    },
                    scale,
                    aux.amax,
                ),
                _ => Aux::None,
            }
        }
    }
}

/// The address of an item of a batch of vectors.
fn vector_of(data: *mut c_void, batch_stride: i64, kind: DataType, item: usize) -> *mut c_void {
    let bytes = batch_stride
        .wrapping_mul(item as i64)
        .wrapping_mul(kind.size() as i64);
    data.cast::<u8>().wrapping_offset(bytes as isize).cast()
}

/// The work that the tasks of the product share.
struct Shared<T: Accumulate, V: Value>(Arc<Work<T, V>>);

impl<T: Accumulate + SumOf<V>, V: Value> Items<T> for Shared<T, V> {
    unsafe fn with(&self, item: usize, body: &mut dyn FnMut(Operands<'_, T>)) {
        let work = &*self.0;
        // SAFETY: the plan may run now.
        unsafe {
            let finish = work.last_steps(item);
            let zero = work.arguments.k == 0
                || matches!(&finish.alpha, Now::One(alpha) if *alpha == V::ZERO);
            work.a.with(item, &mut |a| {
                work.b.with(item, &mut |b| {
                    body(Operands {
                        a,
                        b,
                        finish: &finish,
                        zero,
                    })
                })
            });
        }
    }
}

/// An operand of ones.
struct Ones;

impl<T: Accumulate> Source<T> for Ones {
    unsafe fn pack(
        &self,
        outer: Range<usize>,
        depth: Range<usize>,
        width: usize,
        panels: *mut T::Part,
    ) {
        let stride = depth.len().next_multiple_of(T::STEP) * T::PARTS * width;
        for index in 0..outer.len().div_ceil(width) {
            // SAFETY: the caller's buffer has this panel, which consists of numbers.
            unsafe {
                let panel = panels.add(index * stride);
                panel.write_bytes(0, stride);
                for k in 0..depth.len() {
                    for row in 0..width {
                        T::place(panel, width, row, k, T::UNIT, false);
                    }
                }
            }
        }
    }
}

/// Stores the sums over k as gradient of the bias.
struct Gradient<'a, T: Accumulate, V: Value> {
    work: &'a Work<T, V>,
    item: usize,
}

impl<T: Accumulate + SumOf<V>, V: Value> Finish<T> for Gradient<'_, T, V> {
    unsafe fn tile(
        &self,
        row: usize,
        _column: usize,
        rows: usize,
        _columns: usize,
        sums: *const T,
        _stride: usize,
    ) {
        for i in 0..rows {
            // SAFETY: the vector and the tile have this element.
            unsafe {
                self.work
                    .write_bias(self.item, row + i, sums.add(i).read().value())
            };
        }
    }
}
