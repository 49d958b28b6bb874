//! Products of 8-bit integers with results in `i32`: scaling wraps, and there are no other steps.

use std::ffi::c_void;

use super::access::{Access, Addresses, Position, integer_reader, operand};
use super::{Activation, Factor, Matmul, Scale};
use crate::core::{Finish, Grid, Items, Operands};
use crate::operands::Operand;
use crate::products::integer_operand;
use crate::{DataType, Plan};

/// A product whose sums and results have type `i32`.
pub(super) struct Work {
    arguments: Matmul,
    a: Box<dyn Operand<i32>>,
    b: Box<dyn Operand<i32>>,
}

// SAFETY: the caller of a routine vouches for the memory, and tasks write disjoint elements.
unsafe impl Send for Work {}
// SAFETY: as above.
unsafe impl Sync for Work {}

impl Work {
    /// The product, or `None` if it has scales, factors of rows or an epilogue.
    pub(super) fn new(arguments: &Matmul) -> Option<Work> {
        let Matmul {
            a,
            b,
            c,
            d,
            operation_a,
            operation_b,
            alpha,
            beta,
            epilogue,
            scales,
            amax,
            ..
        } = arguments;
        let plain = epilogue.activation == Activation::Identity
            && epilogue.bias.is_none()
            && epilogue.auxiliary.is_none()
            && amax.is_null();
        let scaled = arguments.output_scales.is_some()
            || scales.iter().any(|scale| !matches!(scale, Scale::None));
        let vectors = [alpha, beta]
            .iter()
            .any(|factor| !matches!(factor, Factor::Scalar(_)));
        if !plain || scaled || vectors || c.kind != DataType::R32I || d.plane != 0 || c.plane != 0 {
            return None;
        }
        Some(Work {
            a: operand(
                a,
                *operation_a,
                Position::Left,
                integer_operand,
                integer_reader(a.kind),
            )?,
            b: operand(
                b,
                *operation_b,
                Position::Right,
                integer_operand,
                integer_reader(b.kind),
            )?,
            arguments: *arguments,
        })
    }

    pub(super) fn plan(self) -> Plan {
        let Matmul { d, k, batch, .. } = self.arguments;
        Plan {
            stages: Grid::new::<i32>(d.rows, d.columns, k, batch).stages(self),
        }
    }
}

impl Items<i32> for Work {
    unsafe fn with(&self, item: usize, body: &mut dyn FnMut(Operands<'_, i32>)) {
        let Matmul {
            alpha,
            beta,
            c,
            d,
            k,
            ..
        } = &self.arguments;
        let (Factor::Scalar(alpha), Factor::Scalar(beta)) = (alpha, beta) else {
            return;
        };
        // SAFETY: the plan may run now.
        unsafe {
            let (alpha, beta) = (alpha.read().re as i32, beta.read().re as i32);
            let c_item = (Addresses::of(c).item(item).cast_const(), Access::of(c));
            let d_item = (Addresses::of(d).item(item), Access::of(d));
            let finish = Scaled {
                alpha,
                beta,
                c: c_item,
                d: d_item,
            };
            let zero = *k == 0 || alpha == 0;
            self.a.with(item, &mut |a| {
                self.b.with(item, &mut |b| {
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

/// `D = alpha sum + beta C`.
struct Scaled {
    alpha: i32,
    beta: i32,
    c: (*const c_void, Access),
    d: (*mut c_void, Access),
}

// SAFETY: tasks write disjoint elements.
unsafe impl Sync for Scaled {}

impl Finish<i32> for Scaled {
    unsafe fn tile(
        &self,
        row: usize,
        column: usize,
        rows: usize,
        columns: usize,
        sums: *const i32,
        stride: usize,
    ) {
        let (c, d) = (self.c.0.cast::<i32>(), self.d.0.cast::<i32>());
        for j in 0..columns {
            for i in 0..rows {
                // SAFETY: the matrices have this element, the tile this sum.
                unsafe {
                    let mut value = self.alpha.wrapping_mul(sums.add(i + j * stride).read());
                    if self.beta != 0 {
                        let old = c.add(self.c.1.index(row + i, column + j)).read();
                        value = value.wrapping_add(self.beta.wrapping_mul(old));
                    }
                    d.add(self.d.1.index(row + i, column + j)).write(value);
                }
            }
        }
    }
}
