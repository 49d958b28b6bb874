//! Device memory that has an owner and an element type.
//!
//! A [`DeviceBuffer`] frees its memory when it is dropped.

use std::marker::PhantomData;

use crate::args::KernelArg;
use crate::context::Context;
use crate::copy::Transfer;
use crate::error::{Error, Result};
use crate::pointer::DevicePtr;

/// Types whose values are plain bytes: every bit pattern is a valid value, and the type has no
/// padding and no pointers.
///
/// ```
/// fn bytes<T: margay::Plain>(count: usize) -> usize {
///     count * size_of::<T>()
/// }
/// assert_eq!(bytes::<f64>(3), 24);
/// ```
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
///
/// ```
/// let rt = margay::Runtime::new()?;
/// let mut buffer = rt.upload(&[1.0f32, 2.0])?;
/// assert_eq!(buffer.to_vec()?, [1.0, 2.0]);
/// buffer.write(&[3.0, 4.0])?;
/// assert_eq!((buffer.to_vec()?, buffer.bytes()), (vec![3.0, 4.0], 8));
/// # Ok::<(), margay::Error>(())
/// ```
#[derive(Debug)]
pub struct DeviceBuffer<T> {
    context: Context,
    ptr: DevicePtr,
    /// ID of the allocation. It differs from the ID of a later allocation at the same address.
    id: u64,
    len: usize,
    element: PhantomData<T>,
}

impl<T> DeviceBuffer<T> {
    /// Returns the address of the first element.
    pub fn ptr(&self) -> DevicePtr {
        self.ptr
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the buffer has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the size of the buffer in bytes.
    pub fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// Returns the context that owns the memory.
    pub fn context(&self) -> &Context {
        &self.context
    }
}

impl<T: Plain> DeviceBuffer<T> {
    pub(crate) fn new(context: &Context, len: usize) -> Result<DeviceBuffer<T>> {
        let bytes = len
            .checked_mul(size_of::<T>())
            .ok_or_else(|| Error::invalid("the buffer's size overflows"))?;
        let (ptr, id) = context.alloc_with_id(bytes.max(1) as u64)?;
        Ok(DeviceBuffer {
            context: context.clone(),
            ptr,
            id,
            len,
            element: PhantomData,
        })
    }

    /// Sets all bytes to zero after all earlier work of the legacy null stream. The call may return before the bytes
    /// are set.
    ///
    /// # Errors
    /// Returns the context's sticky error if earlier work of the context has failed.
    pub fn zero(&self) -> Result<()> {
        let stream = self.context.legacy_stream();
        stream.fill(self.ptr, 0, 1, self.bytes() as u64, 1, 0)
    }

    /// Copies `values` to the buffer after all earlier work of the legacy null stream, and waits for the copy.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] if the lengths differ; the context's sticky error if earlier work of
    /// the context has failed.
    pub fn write(&mut self, values: &[T]) -> Result<()> {
        self.check_len(values.len())?;
        let source = values.as_ptr().cast();
        let transfer = Transfer::to_device(self.ptr, source, self.bytes() as u64);
        // SAFETY: the source is borrowed until the copy is complete.
        unsafe { self.context.legacy_stream().copy(transfer) }
    }

    /// Copies the buffer to `values` after all earlier work of the legacy null stream, and waits for the copy.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] if the lengths differ; the context's sticky error if earlier work of
    /// the context has failed.
    pub fn read(&self, values: &mut [T]) -> Result<()> {
        self.check_len(values.len())?;
        let target = values.as_mut_ptr().cast();
        let transfer = Transfer::to_host(target, self.ptr, self.bytes() as u64);
        // SAFETY: the target is borrowed until the copy is complete, and every bit pattern is a valid `T`.
        unsafe { self.context.legacy_stream().copy(transfer) }
    }

    /// Waits for all earlier work of the legacy null stream and returns a copy of the contents.
    ///
    /// # Errors
    /// Returns the context's sticky error if earlier work of the context has failed.
    pub fn to_vec(&self) -> Result<Vec<T>>
    where
        T: Default,
    {
        let mut values = vec![T::default(); self.len];
        self.read(&mut values)?;
        Ok(values)
    }

    fn check_len(&self, len: usize) -> Result<()> {
        if len == self.len {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "{len} values for a buffer of {}",
            self.len
        )))
    }
}

impl<T> KernelArg for &DeviceBuffer<T> {
    fn size(&self) -> usize {
        8
    }
    fn write(&self, out: &mut [u8]) {
        self.ptr().write(out);
    }
}

impl<T> KernelArg for &mut DeviceBuffer<T> {
    fn size(&self) -> usize {
        8
    }
    fn write(&self, out: &mut [u8]) {
        self.ptr().write(out);
    }
}

impl<T> Drop for DeviceBuffer<T> {
    fn drop(&mut self) {
        // If the context was reset or destroyed, or the program freed the address, the memory is already freed. A later
        // allocation can have the same address.
        let _ = self.context.free_by_id(self.ptr, self.id);
    }
}

#[cfg(test)]
mod tests {
    use crate::Runtime;

    #[test]
    fn a_buffer_does_not_free_a_later_allocation_at_its_address() {
        let runtime = Runtime::new().expect("a runtime");
        // Large allocations reuse the addresses that were freed last.
        let alloc = || runtime.alloc::<u32>(1 << 20).expect("room");
        let old = alloc();
        let context = runtime.context().expect("a context");
        context.free(old.ptr()).expect("allocated");
        let new = alloc();
        assert_eq!(new.ptr(), old.ptr());
        drop(old);
        assert!(context.address_range(new.ptr()).is_ok());
    }
}
