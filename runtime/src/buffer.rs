//! Device pointers and owned, typed device memory.
//!
//! Invariant: a [`DeviceBuffer`] frees its memory exactly once, in the context it came from.

use std::marker::PhantomData;

use crate::context::Context;
use crate::error::{Error, Result};

/// An address in device memory (a host address in Margay's own range). Only data: it is looked
/// up before it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(transparent)]
pub struct DevicePtr(u64);

impl DevicePtr {
    /// The pointer with this address.
    pub const fn new(address: u64) -> DevicePtr {
        DevicePtr(address)
    }

    /// The address.
    pub const fn address(self) -> u64 {
        self.0
    }

    /// Whether it is null.
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }

    /// The pointer `bytes` further (wraps; checked when used).
    pub const fn offset(self, bytes: u64) -> DevicePtr {
        DevicePtr(self.0.wrapping_add(bytes))
    }
}

/// Types that are plain bytes: any bit pattern is a value, without padding or pointers.
pub trait Plain: Copy + Send + 'static + sealed::Sealed {}

mod sealed {
    pub trait Sealed {}
}

macro_rules! plain {
    ($($t:ty)*) => {$(
        impl sealed::Sealed for $t {}
        impl Plain for $t {}
    )*};
}
plain!(u8 i8 u16 i16 u32 i32 u64 i64 u128 i128 usize isize f32 f64);

impl<const N: usize, T: Plain> sealed::Sealed for [T; N] {}
impl<const N: usize, T: Plain> Plain for [T; N] {}

/// `len` values of `T` in device memory.
#[derive(Debug)]
pub struct DeviceBuffer<T> {
    context: Context,
    ptr: DevicePtr,
    len: usize,
    element: PhantomData<T>,
}

impl<T> DeviceBuffer<T> {
    /// Where it starts.
    pub fn ptr(&self) -> DevicePtr {
        self.ptr
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no element.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// The context that owns the memory.
    pub fn context(&self) -> &Context {
        &self.context
    }
}

impl<T: Plain> DeviceBuffer<T> {
    pub(crate) fn new(context: &Context, len: usize) -> Result<DeviceBuffer<T>> {
        let bytes = len
            .checked_mul(size_of::<T>())
            .ok_or_else(|| Error::invalid("the buffer's size overflows"))?;
        let ptr = context.alloc(bytes.max(1) as u64)?;
        Ok(DeviceBuffer {
            context: context.clone(),
            ptr,
            len,
            element: PhantomData,
        })
    }
}

impl<T> Drop for DeviceBuffer<T> {
    fn drop(&mut self) {
        // The context may have been reset or destroyed, which freed the memory before us.
        let _ = self.context.free(self.ptr);
    }
}
