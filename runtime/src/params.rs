//! The parameter space of one launch: packed once, where generated code reads it.
//!
//! Invariant: the bytes begin at a multiple of 16, whatever a parameter's alignment asks for, and stay
//! where they are as long as the value is not moved.

/// Bytes that need no allocation: a dozen pointers.
const INLINE: usize = 96;
const ALIGN: usize = 16;

/// A kernel's packed arguments.
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
    /// A longer space, with room for its alignment.
    outer: Option<Box<[u8]>>,
}

#[derive(Debug)]
#[repr(C, align(16))]
struct Inline([u8; INLINE]);

impl Params {
    /// A space of `len` bytes, all zero.
    pub fn zeroed(len: usize) -> Params {
        Params {
            len,
            inline: Inline([0; INLINE]),
            outer: (len > INLINE).then(|| vec![0; len + ALIGN].into_boxed_slice()),
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.outer {
            None => &self.inline.0[..self.len],
            Some(outer) => &outer[start(outer)..][..self.len],
        }
    }

    /// The bytes, to be filled in.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.outer {
            None => &mut self.inline.0[..self.len],
            Some(outer) => {
                let start = start(outer);
                &mut outer[start..][..self.len]
            }
        }
    }

    /// Where the bytes are, while the value is not moved. There is always a place, even for no bytes.
    pub fn address(&self) -> u64 {
        self.bytes().as_ptr() as u64
    }
}

impl Clone for Params {
    fn clone(&self) -> Params {
        // Another allocation may need another offset.
        let mut copy = Params::zeroed(self.len);
        copy.bytes_mut().copy_from_slice(self.bytes());
        copy
    }
}

/// Where the aligned part of an allocation begins.
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
