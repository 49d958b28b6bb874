//! The matrix transform of cuBLASLt: sums of matrices in different orders and types.

use super::access::{Access, Addresses, Reader, Value};
use super::{Layout, Transform};
use crate::core::stage_of;
use crate::{AnyScalar, Operation, Plan};

/// Rows of a task.
const ROWS: usize = 256;

/// Rows that are handled together.
const RUN: usize = 64;

/// An operand with its factor.
struct Term<V> {
    addresses: Addresses,
    access: Access,
    read: Reader<V>,
    factor: AnyScalar,
    conjugate: bool,
}

impl<V: Value> Term<V> {
    fn new(layout: &Layout, operation: Operation, factor: AnyScalar) -> Option<Term<V>> {
        let access = Access::of(layout);
        Some(Term {
            addresses: Addresses::of(layout),
            access: if operation.transposes() {
                access.transposed()
            } else {
                access
            },
            read: V::reader(layout.kind, layout.plane != 0)?,
            factor,
            conjugate: operation.conjugates(),
        })
    }
}

/// The plan, or `None` if a type does not fit.
pub(super) fn plan<V: Value>(arguments: Transform) -> Option<Plan> {
    let Transform {
        operation_a,
        operation_b,
        alpha,
        a,
        beta,
        b,
        c,
        batch,
        ..
    } = arguments;
    let mut terms = Vec::new();
    for (layout, operation, factor) in [(a, operation_a, alpha), (b, operation_b, beta)] {
        if let Some(layout) = layout {
            terms.push(Term::<V>::new(&layout, operation, factor)?);
        }
    }
    let (result, access) = (Addresses::of(&c), Access::of(&c));
    let write = V::writer(c.kind, c.plane != 0)?;
    let (rows, columns) = (c.rows, c.columns);
    if rows == 0 || columns == 0 || batch == 0 {
        return Some(Plan::empty());
    }
    let parts = rows.div_ceil(ROWS);
    let shared = (terms, result);
    let run = move |task: usize| {
        let (terms, result) = &shared;
        let (part, rest) = (task % parts, task / parts);
        let (column, item) = (rest % columns, rest / columns);
        let end = rows.min((part + 1) * ROWS);
        for row in (part * ROWS..end).step_by(RUN) {
            let count = RUN.min(end - row);
            let mut sum = [V::ZERO; RUN];
            let mut values = [V::ZERO; RUN];
            // SAFETY: the caller of the routine runs the plan only while its operands are valid; tasks have disjoint elements.
            unsafe {
                for term in terms {
                    let factor = V::from_wide(term.factor.read());
                    if factor == V::ZERO {
                        continue;
                    }
                    (term.read)(
                        term.addresses.item(item),
                        &term.access,
                        row,
                        column,
                        count,
                        values.as_mut_ptr(),
                    );
                    for i in 0..count {
                        sum[i] = sum[i] + factor * values[i].conj_if(term.conjugate);
                    }
                }
                write(result.item(item), &access, row, column, count, sum.as_ptr());
            }
        }
    };
    Some(Plan {
        stages: vec![stage_of(
            parts * columns * batch,
            rows.min(ROWS) as f64 * 2.0,
            run,
        )],
    })
}
