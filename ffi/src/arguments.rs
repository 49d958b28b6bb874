//! The arguments of a call of the driver API, as C passes them.

use std::ffi::c_void;
use std::fmt;

use smallvec::SmallVec;

/// An argument of an entry point that the trace of calls can print.
pub(crate) trait Traced {
    /// Writes the argument.
    fn trace(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

/// The names and values of a call's arguments.
pub(crate) type Arguments<'a> = &'a [(&'static str, &'a dyn Traced)];

/// The arguments of a call, as a structure with one field for each argument. The structure has the layout that C gives
/// it, so it is built from the sizes and alignments of the arguments.
#[derive(Clone)]
pub(crate) struct Parameters {
    words: SmallVec<[u64; 16]>,
    /// The place of each argument: its offset and its size.
    places: SmallVec<[(usize, usize); 12]>,
}

impl Parameters {
    /// Copies the arguments.
    pub(crate) fn of(arguments: Arguments<'_>) -> Parameters {
        let mut places = SmallVec::new();
        let mut end = 0usize;
        for (_, argument) in arguments {
            let start = end.next_multiple_of(align_of_val(*argument));
            places.push((start, size_of_val(*argument)));
            end = start + size_of_val(*argument);
        }
        let mut words: SmallVec<[u64; 16]> = smallvec::smallvec![0; end.div_ceil(8)];
        let to = words.as_mut_ptr().cast::<u8>();
        for ((_, argument), &(start, size)) in arguments.iter().zip(&places) {
            let from = std::ptr::from_ref(*argument).cast::<u8>();
            // SAFETY: the argument has `size` bytes, and the structure has as many at `start`. The arguments of the driver
            // API are numbers, pointers and structures without padding, so all bytes are initialised.
            unsafe { std::ptr::copy_nonoverlapping(from, to.add(start), size) };
        }
        Parameters { words, places }
    }

    /// Returns the structure in words of 8 bytes.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Returns the address of the structure.
    pub(crate) fn start(&self) -> *const c_void {
        self.words.as_ptr().cast()
    }

    /// Returns an argument that is a pointer or a handle.
    pub(crate) fn word(&self, index: usize) -> Option<usize> {
        let &(start, size) = self.places.get(index)?;
        match size {
            8 => Some(*self.words.get(start / 8)? as usize),
            _ => None,
        }
    }

    /// Returns the handle that a successful call has stored in the variable to which an argument points.
    pub(crate) fn stored(&self, index: usize) -> Option<usize> {
        let place = self.word(index)? as *const usize;
        // SAFETY: the call has succeeded, so it has stored a handle at this address.
        (!place.is_null()).then(|| unsafe { place.read() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::CUstream;

    #[test]
    fn arguments_become_the_fields_of_a_structure() {
        // struct { unsigned a; void *b; unsigned char c; unsigned d; CUstream e; }
        let (a, b, c, d, e) = (1u32, 0x22usize as *const c_void, 3u8, 4u32, CUstream(0x55));
        let parameters = Parameters::of(&[("a", &a), ("b", &b), ("c", &c), ("d", &d), ("e", &e)]);
        assert_eq!(
            &parameters.places[..],
            [(0, 4), (8, 8), (16, 1), (20, 4), (24, 8)]
        );
        assert_eq!(parameters.words(), [1, 0x22, 3 | 4 << 32, 0x55]);
        assert_eq!((parameters.word(1), parameters.word(0)), (Some(0x22), None));
    }
}
