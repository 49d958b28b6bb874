//! Copies whole CUDA arrays to and from host memory.

use crate::copy::Transfer;
use crate::error::Result;
use crate::texture::Array;

impl Array {
    /// Writes all texels, in memory order, and waits for the copy.
    ///
    /// # Errors
    /// [`Error::InvalidValue`](crate::Error::InvalidValue) unless `bytes` has the size of the array.
    pub fn write(&self, bytes: &[u8]) -> Result<()> {
        let (target, count) = self.whole(bytes.len())?;
        let transfer = Transfer::to_device(target, bytes.as_ptr(), count);
        // SAFETY: the bytes are borrowed until the copy is complete.
        unsafe { self.context().legacy_stream().copy(transfer) }
    }

    /// Reads all texels, in memory order, and waits for the copy.
    ///
    /// # Errors
    /// Returns the same errors as [`Array::write`].
    pub fn read(&self, bytes: &mut [u8]) -> Result<()> {
        let (source, count) = self.whole(bytes.len())?;
        let transfer = Transfer::to_host(bytes.as_mut_ptr(), source, count);
        // SAFETY: the bytes are borrowed until the copy is complete.
        unsafe { self.context().legacy_stream().copy(transfer) }
    }
}
