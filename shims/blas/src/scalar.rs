//! Scalars and pointers of batches: values of the call, or addresses that are read when a task runs.

use std::ffi::c_void;

use crate::storage::read_scalar;
use crate::{Complex, DataType, Element};

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

// SAFETY: the address is read only by the tasks of a plan, whose caller vouches for it.
unsafe impl<T: Send> Send for Scalar<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Scalar<T> {}
// SAFETY: as above.
unsafe impl Send for AnyScalar {}
// SAFETY: as above.
unsafe impl Sync for AnyScalar {}
// SAFETY: tasks of a plan access disjoint elements, and its caller vouches for the memory.
unsafe impl<T> Send for Pointers<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Pointers<T> {}

impl<T: Copy> Scalar<T> {
    /// The value now.
    ///
    /// # Safety
    /// The address is valid.
    #[inline]
    pub(crate) unsafe fn read(self) -> T {
        match self {
            Scalar::Value(value) => value,
            // SAFETY: the caller's condition.
            Scalar::At(address) => unsafe { address.read() },
        }
    }
}

impl<T: Element> Scalar<T> {
    /// The scalar without its type.
    pub(crate) fn erase(self) -> AnyScalar {
        match self {
            Scalar::Value(value) => AnyScalar::Value(value.wide()),
            Scalar::At(address) => AnyScalar::At {
                address: address.cast(),
                kind: T::KIND,
            },
        }
    }
}

impl AnyScalar {
    /// The value now.
    ///
    /// # Safety
    /// The address is valid.
    #[inline]
    pub(crate) unsafe fn read(self) -> Complex<f64> {
        match self {
            AnyScalar::Value(value) => value,
            // SAFETY: the caller's condition.
            AnyScalar::At { address, kind } => unsafe { read_scalar(address, kind) },
        }
    }

    /// The value 1.
    pub(crate) const ONE: AnyScalar = AnyScalar::Value(Complex::new(1.0, 0.0));
}

impl<T> Pointers<T> {
    /// One item.
    pub(crate) fn single(base: *const T) -> Pointers<T> {
        Pointers::Strided {
            base: base.cast_mut(),
            stride: 0,
        }
    }

    /// The same pointers to elements of another type, whose size the strides count.
    pub(crate) fn cast<U>(self) -> Pointers<U> {
        match self {
            Pointers::Strided { base, stride } => Pointers::Strided {
                base: base.cast(),
                stride,
            },
            Pointers::Array(array) => Pointers::Array(array.cast()),
        }
    }

    /// The address of an item now.
    ///
    /// # Safety
    /// An array has this item.
    #[inline]
    pub(crate) unsafe fn item(self, item: usize) -> *mut T {
        match self {
            Pointers::Strided { base, stride } => {
                base.wrapping_offset((item as i64).wrapping_mul(stride) as isize)
            }
            // SAFETY: the caller's condition.
            Pointers::Array(array) => unsafe { array.add(item).read() },
        }
    }
}
