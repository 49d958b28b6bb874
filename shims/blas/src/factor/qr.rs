//! QR factorisation of one matrix by Householder reflections, in blocks of columns.

use super::lu::Matrix;
use crate::core::{Axpby, Dense, Region, product, with_scratch};
use crate::simd::{self, Task};
use crate::{Element, Real};

/// Columns of a block.
const BLOCK: usize = 16;

/// Factors a matrix: R and the reflectors replace it. `tau` receives the factors of the reflectors.
///
/// # Safety
/// The matrix and `min(rows, columns)` elements of `tau` can be accessed.
pub(super) unsafe fn factor<T: Element>(a: Matrix<T>, tau: *mut T) {
    let count = a.rows.min(a.columns);
    for first in (0..count).step_by(BLOCK) {
        let width = BLOCK.min(count - first);
        let rows = a.rows - first;
        // SAFETY: the parts lie in the matrix.
        unsafe {
            let panel = a.part(first, first, rows, width);
            narrow(panel, tau.add(first));
            let rest = a.columns - first - width;
            if rest > 0 {
                apply(
                    panel,
                    tau.add(first),
                    a.part(first, first + width, rows, rest),
                );
            }
        }
    }
}

/// Multiplies a matrix by the adjoint of Q.
///
/// # Safety
/// `factors` and `tau` are results of [`factor`]; `c` has as many rows and can be accessed.
pub(super) unsafe fn apply_adjoint<T: Element>(factors: Matrix<T>, tau: *const T, c: Matrix<T>) {
    let count = factors.rows.min(factors.columns);
    for first in (0..count).step_by(BLOCK) {
        let width = BLOCK.min(count - first);
        let rows = factors.rows - first;
        // SAFETY: the parts lie in the matrices.
        unsafe {
            apply(
                factors.part(first, first, rows, width),
                tau.add(first),
                c.part(first, 0, rows, c.columns),
            )
        };
    }
}

/// Factors a block column by column.
///
/// # Safety
/// As for [`factor`].
unsafe fn narrow<T: Element>(a: Matrix<T>, tau: *mut T) {
    for j in 0..a.rows.min(a.columns) {
        // SAFETY: the column lies in the matrix.
        unsafe {
            let below = a.rows - j - 1;
            let factor = reflector(a.at(j, j), a.at(j, j).wrapping_add(1), below);
            tau.add(j).write(factor);
            for column in j + 1..a.columns {
                simd::run(Reflect {
                    v: a.at(j, j).wrapping_add(1),
                    below,
                    factor: factor.conj(),
                    target: a.at(j, column),
                });
            }
        }
    }
}

/// `x - factor v (v^H x)` for a column, where the first element of `v` is 1.
struct Reflect<T> {
    v: *const T,
    below: usize,
    factor: T,
    target: *mut T,
}

impl<T: Element> Task for Reflect<T> {
    type Output = ();

    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Reflect {
            v,
            below,
            factor,
            target,
        } = self;
        // SAFETY: both columns have `below + 1` elements.
        unsafe {
            let rest = target.wrapping_add(1);
            let sum =
                target.read() + crate::lanes::dot_contiguous::<T, FUSED>(below, v, rest, true);
            let scaled = -(factor * sum);
            target.write(target.read() + scaled);
            for i in 0..below {
                rest.add(i).write(
                    rest.add(i)
                        .read()
                        .add_product::<FUSED>(scaled, v.add(i).read()),
                );
            }
        }
    }
}

/// The Euclidean norm of some numbers, without overflow in between.
///
/// # Safety
/// The elements can be read.
unsafe fn norm<T: Element>(x: *const T, count: usize) -> T::Real {
    // SAFETY: the caller's condition.
    let parts = || (0..count).flat_map(|i| unsafe { [x.add(i).read().re(), x.add(i).read().im()] });
    let largest = parts().fold(T::Real::ZERO, |largest, part| {
        if part.abs() > largest || part.to_f64().is_nan() {
            part.abs()
        } else {
            largest
        }
    });
    if largest == T::Real::ZERO || !largest.to_f64().is_finite() {
        return largest;
    }
    let squares = parts()
        .map(|part| part.over(largest))
        .fold(0.0, |sum, part| sum + part.to_f64() * part.to_f64());
    T::Real::from_f64(squares.sqrt()) * largest
}

/// Constructs a reflector that maps `(alpha, x)` to `(beta, 0)` with a real beta, and replaces both by beta and the reflector. Returns its factor.
///
/// # Safety
/// The elements can be accessed.
unsafe fn reflector<T: Element>(alpha: *mut T, x: *mut T, count: usize) -> T {
    // SAFETY: the caller's condition.
    unsafe {
        let mut length = norm(x, count);
        let mut head = alpha.read();
        if length == T::Real::ZERO && head.im() == T::Real::ZERO {
            return T::ZERO;
        }
        let beta_of = |head: T, length: T::Real| {
            -(head.re().hypot(head.im()).hypot(length).copysign(head.re()))
        };
        let mut beta = beta_of(head, length);
        // Numbers whose reciprocals overflow are scaled up first.
        let (least, mut steps) = (T::Real::TINY.over(T::Real::EPSILON), 0);
        let up = T::Real::ONE.over(least);
        while beta.abs() < least && steps < 20 {
            for i in 0..count {
                x.add(i).write(x.add(i).read().scale(up));
            }
            head = head.scale(up);
            steps += 1;
            length = norm(x, count);
            beta = beta_of(head, length);
        }
        let factor = T::from_parts((beta - head.re()).over(beta), (-head.im()).over(beta));
        let inverse = T::ONE.divide(head - T::from_real(beta));
        for i in 0..count {
            x.add(i).write(x.add(i).read() * inverse);
        }
        for _ in 0..steps {
            beta = beta * least;
        }
        alpha.write(T::from_real(beta));
        factor
    }
}

/// Multiplies a matrix by the adjoint of the product of a block's reflectors: `C - V T^H (V^H C)`.
///
/// # Safety
/// The matrices and a factor for each column of `v` can be accessed.
unsafe fn apply<T: Element>(v: Matrix<T>, tau: *const T, c: Matrix<T>) {
    let (m, k, n) = (v.rows, v.columns.min(v.rows), c.columns);
    with_scratch(m * k, |clean: *mut T| {
        with_scratch(k * n, |w: *mut T| {
            // SAFETY: the buffers have m * k and k * n elements.
            unsafe {
                for j in 0..k {
                    for i in 0..m {
                        let value = match i.cmp(&j) {
                            std::cmp::Ordering::Less => T::ZERO,
                            std::cmp::Ordering::Equal => T::ONE,
                            std::cmp::Ordering::Greater => v.at(i, j).read(),
                        };
                        clean.add(i + j * m).write(value);
                    }
                }
                let reflectors = Dense {
                    data: clean.cast_const(),
                    outer_stride: 1,
                    depth_stride: m as isize,
                    conjugate: false,
                };
                let adjoint = Dense {
                    conjugate: true,
                    ..reflectors.transposed()
                };
                let right = Dense {
                    data: c.data.cast_const(),
                    outer_stride: c.ld as isize,
                    depth_stride: 1,
                    conjugate: false,
                };
                let to_w = Axpby {
                    data: w,
                    row_stride: 1,
                    column_stride: k as isize,
                    alpha: T::ONE,
                    beta: T::ZERO,
                };
                product::<T>(&Region::whole(k, n, m), &adjoint, &right, &to_w);
                let triangle = triangle(clean, m, k, tau);
                for column in 0..n {
                    let w = w.add(column * k);
                    // T^H is lower triangular: from the last row up.
                    for row in (0..k).rev() {
                        let sum = (0..=row).fold(T::ZERO, |sum, index| {
                            sum + triangle[index][row].conj() * w.add(index).read()
                        });
                        w.add(row).write(sum);
                    }
                }
                let w = Dense {
                    data: w.cast_const(),
                    outer_stride: k as isize,
                    depth_stride: 1,
                    conjugate: false,
                };
                let to_c = Axpby {
                    data: c.data,
                    row_stride: 1,
                    column_stride: c.ld as isize,
                    alpha: -T::ONE,
                    beta: T::ONE,
                };
                product::<T>(&Region::whole(m, n, k), &reflectors, &w, &to_c);
            }
        });
    });
}

/// The upper triangular factor T of a block of reflectors: `I - V T V^H` is their product.
///
/// # Safety
/// `v` has m by k elements, `tau` k.
unsafe fn triangle<T: Element>(
    v: *const T,
    m: usize,
    k: usize,
    tau: *const T,
) -> [[T; BLOCK]; BLOCK] {
    let mut t = [[T::ZERO; BLOCK]; BLOCK];
    for j in 0..k {
        // SAFETY: the caller's conditions.
        let factor = unsafe { tau.add(j).read() };
        let mut products = [T::ZERO; BLOCK];
        for (index, product) in products.iter_mut().enumerate().take(j) {
            // SAFETY: as above.
            *product = (j..m).fold(T::ZERO, |sum, i| unsafe {
                sum + v.add(i + index * m).read().conj() * v.add(i + j * m).read()
            });
        }
        for (row, values) in t.iter_mut().enumerate().take(j) {
            let sum = (row..j).fold(T::ZERO, |sum, index| sum + values[index] * products[index]);
            values[j] = -(factor * sum);
        }
        t[j][j] = factor;
    }
    t
}
