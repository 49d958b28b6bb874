//! Values that share no cache line with other values.

use std::ops::{Deref, DerefMut};

/// A value that has its own cache lines. A type with such a field keeps its other fields, and the reference counts of an
/// [`Arc`](std::sync::Arc), in other lines too. Threads that read these then do not wait for the threads that write the
/// padded value. The alignment is two lines, because processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);

impl<T> Deref for Padded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Padded<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
