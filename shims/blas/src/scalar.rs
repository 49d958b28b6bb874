//! Scalars and pointers of batches: values of the call, or addresses that are read when a task runs.

use std::ffi::c_void;

use crate::{Complex, DataType};

/// A scalar argument.
#[derive(Clone, Copy, Debug)]
pub enum Scalar<T> {
    /// A value.
    Value(T),
    /// An address that each task reads when it runs (device pointer mode).
    At(*const T),
}

/// A scalar argument of a mixed routine.
#[derive(Clone, Copy, Debug)]
pub enum AnyScalar {
    /// A value. `f64` holds each value of the real types that scalars have.
    Value(Complex<f64>),
    /// An address that each task reads when it runs.
    At {
        /// The address.
        address: *const c_void,
        /// The type of the scalar in memory.
        kind: DataType,
    },
}

/// The matrices or vectors of a batch.
#[derive(Debug)]
pub enum Pointers<T> {
    /// Item i begins `i * stride` elements after `base`. A single item has any stride.
    Strided {
        /// The first item.
        base: *mut T,
        /// Distance of items in elements.
        stride: i64,
    },
    /// An array of addresses, which the tasks read when they run.
    Array(*const *mut T),
}

impl<T> Clone for Pointers<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Pointers<T> {}
