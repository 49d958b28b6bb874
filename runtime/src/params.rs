//! The parameter space of a launch: the memory that contains the kernel's arguments. Generated code
//! reads the arguments directly from this memory.
//!
//! Invariant: the address of the bytes is a multiple of 16 for every alignment of the parameters,
//! and does not change unless the [`Params`] value is moved.

use std::sync::Arc;

use crate::native_kernel::NativeKernel;

/// Maximum size in bytes of a parameter space that needs no heap allocation. This size is
/// sufficient for twelve pointers.
const INLINE: usize = 96;
const ALIGN: usize = 16;

/// A kernel's arguments, in the layout of the kernel's parameters.
///
/// ```
/// let mut params = margay::Params::zeroed(8);
/// params.bytes_mut()[..4].copy_from_slice(&7u32.to_le_bytes());
/// assert_eq!(params.bytes(), [7, 0, 0, 0, 0, 0, 0, 0]);
/// ```
#[derive(Debug)]
pub struct Params {
    len: usize,
    inline: Inline,
    /// The bytes of a parameter space that is larger than [`INLINE`], with additional bytes for the
    /// alignment.
    outer: Option<Box<[u8]>>,
    /// The native kernel that the launch runs, if it runs one.
    native: Option<Arc<NativeKernel>>,
}

#[derive(Debug)]
#[repr(C, align(16))]
struct Inline([u8; INLINE]);

impl Params {
    /// Returns a parameter space of `len` zero bytes.
    pub fn zeroed(len: usize) -> Params {
        Params {
            len,
            inline: Inline([0; INLINE]),
            outer: (len > INLINE).then(|| vec![0; len + ALIGN].into_boxed_slice()),
            native: None,
        }
    }

    /// Returns the parameters of a launch of a native kernel.
    pub(crate) fn of_native(kernel: Arc<NativeKernel>) -> Params {
        Params {
            native: Some(kernel),
            ..Params::zeroed(0)
        }
    }

    /// Returns the native kernel that the launch runs.
    pub(crate) fn native(&self) -> Option<&Arc<NativeKernel>> {
        self.native.as_ref()
    }

    /// Removes the native kernel from the parameters and returns it.
    pub(crate) fn take_native(&mut self) -> Option<Arc<NativeKernel>> {
        self.native.take()
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.outer {
            None => &self.inline.0[..self.len],
            Some(outer) => &outer[start(outer)..][..self.len],
        }
    }

    /// Returns the bytes of the parameter space, for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.outer {
            None => &mut self.inline.0[..self.len],
            Some(outer) => {
                let start = start(outer);
                &mut outer[start..][..self.len]
            }
        }
    }

    /// Returns the parameter space as a sequence of 8-byte words. Each pointer in the parameter
    /// space is one of these words. For a native kernel, the words are the addresses of its ranges.
    pub(crate) fn words(&self) -> Vec<u64> {
        let (words, _) = self.bytes().as_chunks::<8>();
        let words = words.iter().map(|&word| u64::from_le_bytes(word));
        let native = self.native.iter().flat_map(|kernel| kernel.ranges());
        words
            .chain(native.map(|access| access.range.address))
            .collect()
    }

    /// Returns the address of the bytes of the parameter space. The address is valid until the
    /// `Params` value is moved. An empty parameter space also has an address.
    pub fn address(&self) -> u64 {
        self.bytes().as_ptr() as u64
    }
}

impl Clone for Params {
    fn clone(&self) -> Params {
        // Another allocation may need another offset for its alignment.
        let mut copy = Params::zeroed(self.len);
        copy.bytes_mut().copy_from_slice(self.bytes());
        copy.native.clone_from(&self.native);
        copy
    }
}

/// Returns the offset of the first aligned byte in the allocation `outer`.
fn start(outer: &[u8]) -> usize {
    (outer.as_ptr() as usize).wrapping_neg() % ALIGN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_spaces_are_aligned_and_zero() {
        for len in [0, 1, INLINE, INLINE + 1, 4 << 10] {
            let mut params = Params::zeroed(len);
            assert_eq!(params.bytes(), vec![0; len]);
            assert_eq!(params.address() % 16, 0, "{len}");
            params.bytes_mut().fill(7);
            let copy = params.clone();
            assert_eq!(
                copy.bytes(),
                vec![7; len],
                "a copy may lie at another offset"
            );
            assert_eq!(copy.address() % 16, 0);
        }
    }
}
