//! The memory to which results are written.

/// An array of results: an address in device memory or the host's memory, and the number of results.
///
/// Invariant: whoever creates an output guarantees that the memory is writable and aligned while tasks run. Different tasks
/// write different parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    address: usize,
    count: usize,
}

impl Output {
    /// Names the memory of `count` results.
    ///
    /// # Safety
    /// The memory is writable and aligned for the results' type whenever [`Output::part`] is used.
    pub(crate) unsafe fn new(address: usize, count: usize) -> Output {
        Output { address, count }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns results from an index on. The caller is the only task that uses these results, and uses the type of the
    /// job's kind.
    ///
    /// # Panics
    /// If the results are not inside the array.
    #[allow(clippy::mut_from_ref, reason = "tasks use different parts")]
    pub(crate) fn part<T: Copy>(&self, first: usize, count: usize) -> &mut [T] {
        assert!(first <= self.count && count <= self.count - first);
        let start = (self.address as *mut T).wrapping_add(first);
        // SAFETY: `new` guarantees the memory, and the part is inside it. (Device memory that a program writes at the same
        // time has a race on a GPU, too.)
        unsafe { std::slice::from_raw_parts_mut(start, count) }
    }
}

/// Replaces each result by a function of it.
pub(crate) fn write_mapped<T: Copy>(out: &mut [T], mut map: impl FnMut(T) -> T) {
    out.iter_mut().for_each(|value| *value = map(*value));
}
