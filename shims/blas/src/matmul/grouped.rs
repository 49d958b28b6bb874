//! Groups of products whose dimensions and addresses are in memory, where the tasks read them.
//!
//! Each group is an ordinary product of one item. A number of tasks that does not depend on the dimensions computes it, because
//! the dimensions are unknown when the plan is made.

use std::ffi::c_void;
use std::ops::Range;

use super::work::Work;
use super::{
    Activation, Bias, BiasGradient, BlockFormat, BlockScales, Epilogue, Factor, Layout, Matmul,
    Order, Scale, real_work,
};
use crate::core::{Shared, parallelism, stage};
use crate::kernels::Accumulate;
use crate::products::{Compute, Sum, Types};
use crate::{AnyScalar, DataType, Operation, Plan, Pointers};

/// An array of integers.
#[derive(Clone, Copy, Debug)]
pub enum Integers {
    /// 32 bits each.
    Narrow(*const i32),
    /// 64 bits each.
    Wide(*const i64),
}

impl Integers {
    /// Reads a dimension.
    ///
    /// # Panics
    /// If it is negative or larger than any memory.
    ///
    /// # Safety
    /// The array has the element.
    unsafe fn dimension(self, index: usize) -> usize {
        const LARGEST: i64 = 1 << 40;
        // SAFETY: the caller's condition.
        let value = unsafe {
            match self {
                Integers::Narrow(data) => i64::from(data.add(index).read()),
                Integers::Wide(data) => data.add(index).read(),
            }
        };
        assert!((0..=LARGEST).contains(&value), "the dimension {value}");
        value as usize
    }
}

/// The matrices of all groups, which are column-major.
#[derive(Clone, Copy, Debug)]
pub struct GroupMatrices {
    /// The addresses. May be null for `C`, if its factor is 0.
    pub data: *const *mut c_void,
    /// The type of the elements.
    pub kind: DataType,
    /// Rows in memory.
    pub rows: Integers,
    /// Columns in memory.
    pub columns: Integers,
    /// Leading dimensions.
    pub ld: Integers,
}

/// `alpha` or `beta` of all groups.
#[derive(Clone, Copy, Debug)]
pub enum GroupFactor {
    /// One value.
    Shared(AnyScalar),
    /// The address of one value for each group.
    Each(*const *const c_void),
}

/// The factors of the matrices of all groups.
#[derive(Clone, Copy, Debug)]
pub enum GroupScale {
    /// 1.
    None,
    /// One value.
    Shared(*const f32),
    /// The address of one value for each group (`PER_BATCH_SCALAR_32F`).
    Each(*const *const f32),
    /// The address of factors of blocks for each group.
    Blocks(*const *const c_void, BlockFormat),
}

/// The bias vectors.
#[derive(Clone, Copy, Debug)]
pub struct GroupBias {
    /// One vector for all groups, or the address of one for each group.
    pub data: Pointers<c_void>,
    /// Its type.
    pub kind: DataType,
}

/// Products of groups of matrices.
#[derive(Clone, Copy, Debug)]
pub struct Groups {
    /// The number of groups.
    pub count: usize,
    /// The operation on the left matrices.
    pub operation_a: Operation,
    /// The operation on the right matrices.
    pub operation_b: Operation,
    /// Factor of the products.
    pub alpha: GroupFactor,
    /// Factor of `C`.
    pub beta: GroupFactor,
    /// `A`, `B`, `C` and `D`.
    pub matrices: [GroupMatrices; 4],
    /// The type in which products are computed.
    pub compute: Compute,
    /// The type of `alpha` and `beta`.
    pub scale: DataType,
    /// Factors of `A`, `B`, `C` and `D`.
    pub scales: [GroupScale; 4],
    /// The bias that is added.
    pub bias: Option<GroupBias>,
}

/// An item of an array of addresses.
///
/// # Safety
/// The array has the element.
unsafe fn address<T>(array: *const *const T, group: usize) -> *const T {
    // SAFETY: the caller's condition.
    unsafe { array.add(group).read() }
}

impl Groups {
    /// A product of the same types with empty matrices.
    fn empty(&self) -> Matmul {
        let layout = |matrices: &GroupMatrices| Layout {
            data: Pointers::Strided {
                base: std::ptr::null_mut(),
                stride: 0,
            },
            kind: matrices.kind,
            order: Order::Column,
            rows: 0,
            columns: 0,
            ld: 0,
            plane: 0,
        };
        let scale = |scale: GroupScale| match scale {
            GroupScale::None => Scale::None,
            GroupScale::Shared(data) => Scale::Tensor(data),
            GroupScale::Each(_) => Scale::Tensor(std::ptr::null()),
            GroupScale::Blocks(_, format) => Scale::Blocks(BlockScales {
                data: std::ptr::null(),
                format,
            }),
        };
        let factor = |factor: GroupFactor| match factor {
            GroupFactor::Shared(value) => Factor::Scalar(value),
            GroupFactor::Each(_) => Factor::Scalar(AnyScalar::At {
                address: std::ptr::null(),
                kind: self.scale,
            }),
        };
        let [a, b, c, d] = &self.matrices;
        Matmul {
            operation_a: self.operation_a,
            operation_b: self.operation_b,
            k: 0,
            alpha: factor(self.alpha),
            a: layout(a),
            b: layout(b),
            beta: factor(self.beta),
            c: layout(c),
            d: layout(d),
            batch: 1,
            compute: self.compute,
            scale: self.scale,
            scales: self.scales.map(scale),
            output_scales: None,
            amax: std::ptr::null_mut(),
            epilogue: Epilogue {
                activation: Activation::Identity,
                bias: self.bias.map(|bias| Bias {
                    data: std::ptr::null_mut(),
                    kind: bias.kind,
                    batch_stride: 0,
                }),
                gradient: BiasGradient::None,
                auxiliary: None,
            },
        }
    }

    /// The product of a group; `None` if its result has no elements.
    ///
    /// # Panics
    /// If the dimensions do not fit together.
    ///
    /// # Safety
    /// The plan may run now.
    unsafe fn product(&self, group: usize) -> Option<Matmul> {
        let mut product = self.empty();
        // SAFETY: the caller's condition; all arrays have an element for the group.
        unsafe {
            let d = self.layout(3, group);
            if d.rows == 0 || d.columns == 0 {
                return None;
            }
            product.d = d;
            for (factor, of_group) in [
                (&mut product.alpha, self.alpha),
                (&mut product.beta, self.beta),
            ] {
                let value = match of_group {
                    GroupFactor::Shared(value) => value,
                    GroupFactor::Each(array) => AnyScalar::At {
                        address: address(array, group),
                        kind: self.scale,
                    },
                };
                *factor = Factor::Scalar(AnyScalar::Value(value.read()));
            }
            product.a = self.layout(0, group);
            product.b = self.layout(1, group);
            let (m, k) = after(&product.a, self.operation_a);
            let (k_of_b, n) = after(&product.b, self.operation_b);
            assert!(
                (m, k, n) == (d.rows, k_of_b, d.columns),
                "the dimensions of group {group}"
            );
            product.k = k;
            let hidden =
                matches!(&product.beta, Factor::Scalar(AnyScalar::Value(beta)) if beta.re == 0.0);
            product.c = if hidden { d } else { self.layout(2, group) };
            assert!(
                (product.c.rows, product.c.columns) == (m, n),
                "the dimensions of C of group {group}"
            );
            for (index, scale) in self.scales.into_iter().enumerate() {
                let counts = [(m, k), (n, k), (m, n), (m, n)][index];
                product.scales[index] = scale_of(scale, group, counts);
            }
            if let (Some(bias), Some(vectors)) = (&mut product.epilogue.bias, self.bias) {
                bias.data = vectors.data.item(group);
            }
        }
        Some(product)
    }

    /// The layout of a matrix of a group.
    ///
    /// # Safety
    /// The plan may run now.
    unsafe fn layout(&self, index: usize, group: usize) -> Layout {
        let GroupMatrices {
            data,
            kind,
            rows,
            columns,
            ld,
        } = self.matrices[index];
        // SAFETY: the caller's condition.
        let (base, rows, columns, ld) = unsafe {
            (
                data.add(group).read(),
                rows.dimension(group),
                columns.dimension(group),
                ld.dimension(group),
            )
        };
        assert!(ld >= rows, "the leading dimension {ld} of group {group}");
        assert!(
            kind != DataType::E2M1 || (rows.is_multiple_of(2) && ld.is_multiple_of(2)),
            "an odd number of rows of 4-bit elements in group {group}"
        );
        let is_empty = rows == 0 || columns == 0;
        assert!(
            is_empty || base.addr().is_multiple_of(kind.size()),
            "the address of group {group}"
        );
        Layout {
            data: Pointers::Strided { base, stride: 0 },
            kind,
            order: Order::Column,
            rows,
            columns,
            ld,
            plane: 0,
        }
    }

    /// Computes a part of a group.
    ///
    /// # Safety
    /// The plan may run now; no other task has the part.
    unsafe fn run(&self, group: usize, part: usize, parts: usize) {
        // SAFETY: the caller's condition.
        let Some(product) = (unsafe { self.product(group) }) else {
            return;
        };
        let (m, n) = (product.d.rows, product.d.columns);
        let Some(work) = real_work(product) else {
            return;
        };
        let kernel = f32::kernel();
        let share = |size: usize, width: usize| -> Range<usize> {
            let length = size.div_ceil(parts).next_multiple_of(width);
            (part * length).min(size)..((part + 1) * length).min(size)
        };
        let (rows, columns) = match m > n {
            true => (share(m, kernel.rows), 0..n),
            false => (0..m, share(n, kernel.columns)),
        };
        if !rows.is_empty() && !columns.is_empty() {
            let work: Work<f32, f32> = work;
            // SAFETY: the caller's condition; parts have different rows or columns.
            unsafe { work.region(0, rows, columns, None) };
        }
    }
}

/// The factors of a matrix of a group, whose outer and inner indices have these numbers.
///
/// # Safety
/// The plan may run now.
unsafe fn scale_of(scale: GroupScale, group: usize, (outer, inner): (usize, usize)) -> Scale {
    // SAFETY: the caller's condition.
    unsafe {
        match scale {
            GroupScale::None => Scale::None,
            GroupScale::Shared(data) => Scale::Tensor(data),
            GroupScale::Each(array) => Scale::Tensor(address(array, group)),
            GroupScale::Blocks(array, format) => {
                assert!(
                    format.bytes(outer, inner).is_some(),
                    "the factors of group {group}"
                );
                Scale::Blocks(BlockScales {
                    data: address(array, group),
                    format,
                })
            }
        }
    }
}

/// Rows and columns after an operation.
fn after(layout: &Layout, operation: Operation) -> (usize, usize) {
    match operation.transposes() {
        true => (layout.columns, layout.rows),
        false => (layout.rows, layout.columns),
    }
}

/// Whether [`grouped`] computes this combination of types and scales.
pub fn supports_groups(groups: &Groups) -> bool {
    let [a, b, _, d] = groups.matrices;
    let types = Types {
        a: a.kind,
        b: b.kind,
        c: d.kind,
        compute: groups.compute,
        scale: groups.scale,
    };
    let factors = groups
        .scales
        .map(|scale| matches!(scale, GroupScale::Blocks(..)));
    !factors[2]
        && !factors[3]
        && Sum::of(types) == Some(Sum::F32)
        && real_work(groups.empty()).is_some()
}

/// One plan for products whose dimensions are read when it runs. `None` if the combination is not among those of
/// [`supports_groups`]. A task panics if the dimensions of its group are wrong.
///
/// # Safety
/// The pointers are valid whenever the plan runs, and so are the addresses to which they point then.
pub unsafe fn grouped(groups: Groups) -> Option<Plan> {
    if !supports_groups(&groups) {
        return None;
    }
    let parts = (4 * parallelism()).div_ceil(groups.count.max(1));
    let shared = Shared(groups);
    let run = move |task: usize| {
        let groups = shared.get();
        // SAFETY: the caller of the routine runs the plan only while its operands are valid; tasks have different parts.
        unsafe { groups.run(task / parts, task % parts, parts) };
    };
    Some(Plan {
        stages: vec![stage(groups.count * parts, run)],
    })
}
