//! Updates of a matrix by vectors: the plans behind `ger`, `syr`, `her`, `syr2`.

use crate::Element;
use crate::columns::{Column, Columns};
use crate::core::{stage_of, with_scratch};
use crate::simd::{self, Task};
use crate::vector::Strided;
use crate::{AnyScalar, Plan};

/// Elements of a matrix that a task changes, about.
const AREA: usize = 1 << 15;

/// How a vector pair changes a matrix: `A += alpha x op(y)`, and `conj?(alpha) y op(x)` too if `twice`.
pub(crate) struct Update<T> {
    pub(crate) matrix: Columns<T>,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) alpha: AnyScalar,
    pub(crate) x: Strided<T>,
    pub(crate) y: Strided<T>,
    /// Whether the second factor of a product is conjugated.
    pub(crate) conjugate: bool,
    /// Whether the products of `y` and `x` are added too.
    pub(crate) twice: bool,
    /// Whether imaginary parts of the diagonal become 0.
    pub(crate) real_diagonal: bool,
}

impl<T: Element> Update<T> {
    pub(crate) fn plan(self) -> Plan {
        let Update { rows, columns, .. } = self;
        if rows == 0 || columns == 0 {
            return Plan::empty();
        }
        let width = (AREA / rows).clamp(1, columns);
        let run = move |task: usize| {
            let js = task * width..columns.min((task + 1) * width);
            // SAFETY: the caller of the routine runs the plan only while its operands are valid; tasks have disjoint columns.
            unsafe {
                let alpha = T::from_wide(self.alpha.read());
                if alpha == T::ZERO {
                    return;
                }
                with_scratch(2 * rows, |buffer: *mut T| {
                    let x = self.x.fetch(0, rows, buffer);
                    let y = if self.twice {
                        self.y.fetch(0, rows, buffer.add(rows))
                    } else {
                        x
                    };
                    for j in js.clone() {
                        self.column(j, alpha, x, y);
                    }
                });
            }
        };
        Plan {
            stages: vec![stage_of(
                columns.div_ceil(width),
                (width * rows) as f64 * 0.3,
                run,
            )],
        }
    }

    /// # Safety
    /// The plan may run now; `x` and, if `twice`, `y` have an element for each row.
    unsafe fn column(&self, j: usize, alpha: T, x: *const T, y: *const T) {
        // SAFETY: the caller's conditions.
        unsafe {
            let Column { data, rows } = self.matrix.column(j);
            let first = alpha * self.y.at(j).read().conj_if(self.conjugate);
            // Of a product that is not square, `x` may have fewer elements than there are columns.
            let second = self.twice.then(|| {
                alpha.conj_if(self.conjugate) * self.x.at(j).read().conj_if(self.conjugate)
            });
            let diagonal = self.real_diagonal.then(|| self.matrix.strict(j).1);
            if let Some(place) = diagonal {
                place.write(T::from_real(place.read().re()));
            }
            let (x, y, count) = (x.add(rows.start), y.add(rows.start), rows.len());
            simd::run(AddColumn {
                data,
                count,
                x,
                first,
                y: second.map(|second| (y, second)),
            });
            if let Some(place) = diagonal {
                place.write(T::from_real(place.read().re()));
            }
        }
    }
}

struct AddColumn<T> {
    data: *mut T,
    count: usize,
    x: *const T,
    first: T,
    y: Option<(*const T, T)>,
}

impl<T: Element> Task for AddColumn<T> {
    type Output = ();

    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let AddColumn {
            data,
            count,
            x,
            first,
            y,
        } = self;
        // SAFETY: the column and the vectors have `count` elements.
        unsafe {
            match y {
                None => {
                    for i in 0..count {
                        data.add(i).write(
                            data.add(i)
                                .read()
                                .add_product::<FUSED>(first, x.add(i).read()),
                        );
                    }
                }
                Some((y, second)) => {
                    for i in 0..count {
                        let value = data
                            .add(i)
                            .read()
                            .add_product::<FUSED>(first, x.add(i).read());
                        data.add(i)
                            .write(value.add_product::<FUSED>(second, y.add(i).read()));
                    }
                }
            }
        }
    }
}
