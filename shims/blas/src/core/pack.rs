//! Packing of operands into panels.

use std::marker::PhantomData;
use std::ops::Range;

use crate::kernels::Accumulate;
use crate::simd::{self, Task};
use crate::storage::Load;
use crate::{Element, Symmetry, Triangle};

/// An operand of a product. Its *outer* index is the row of a left operand and the column of a right operand.
pub(crate) trait Source<T: Accumulate>: Sync {
    /// Packs elements into panels of `width` outer indices. The last panel and the last step are filled with zeros.
    ///
    /// # Safety
    /// The operand has these elements; `panels` has room for all panels.
    unsafe fn pack(
        &self,
        outer: Range<usize>,
        depth: Range<usize>,
        width: usize,
        panels: *mut T::Part,
    );
}

/// Elements of type `S` at `outer * outer_stride + k * depth_stride`.
#[derive(Debug)]
pub(crate) struct Dense<S> {
    /// The element at outer index 0 and k = 0.
    pub(crate) data: *const S,
    /// Distance of outer indices in elements.
    pub(crate) outer_stride: isize,
    /// Distance of values of k in elements.
    pub(crate) depth_stride: isize,
    /// Whether elements are conjugated.
    pub(crate) conjugate: bool,
}

impl<S> Clone for Dense<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Dense<S> {}

// SAFETY: a source only reads, and the caller of a routine vouches for the memory.
unsafe impl<S> Send for Dense<S> {}
// SAFETY: as above.
unsafe impl<S> Sync for Dense<S> {}

impl<S> Dense<S> {
    /// The address of an element.
    #[inline(always)]
    pub(crate) fn at(&self, outer: usize, k: usize) -> *const S {
        self.data
            .wrapping_offset(outer as isize * self.outer_stride)
            .wrapping_offset(k as isize * self.depth_stride)
    }

    /// The operand with outer index and k exchanged.
    pub(crate) fn transposed(self) -> Dense<S> {
        Dense {
            outer_stride: self.depth_stride,
            depth_stride: self.outer_stride,
            ..self
        }
    }

    /// The part that starts at an element.
    pub(crate) fn from(self, outer: usize, k: usize) -> Dense<S> {
        Dense {
            data: self.at(outer, k),
            ..self
        }
    }
}

impl<T: Accumulate, S: Load<T::Item>> Source<T> for Dense<S> {
    unsafe fn pack(
        &self,
        outer: Range<usize>,
        depth: Range<usize>,
        width: usize,
        panels: *mut T::Part,
    ) {
        let stride = depth.len().next_multiple_of(T::STEP) * T::PARTS * width;
        for (index, first) in outer.clone().step_by(width).enumerate() {
            // SAFETY: the caller's buffer has this panel.
            let panel = unsafe { panels.add(index * stride) };
            let part = self.from(first, depth.start);
            simd::run(Pack::<T, S> {
                source: part,
                count: width.min(outer.end - first),
                depth: depth.len(),
                width,
                panel,
                sums: PhantomData,
            });
        }
    }
}

/// Packs one panel.
struct Pack<T: Accumulate, S> {
    source: Dense<S>,
    count: usize,
    depth: usize,
    width: usize,
    panel: *mut T::Part,
    sums: PhantomData<T>,
}

impl<T: Accumulate, S: Load<T::Item>> Pack<T, S> {
    /// # Safety
    /// The source has the element, the panel the place.
    #[inline(always)]
    unsafe fn element(&self, row: usize, k: usize) {
        // SAFETY: the caller's conditions.
        unsafe {
            T::place(
                self.panel,
                self.width,
                row,
                k,
                self.source.at(row, k).read().load(),
                self.source.conjugate,
            )
        };
    }
}

/// Values of k that are packed together if they are contiguous: a few cache lines.
const STRIP: usize = 32;

impl<T: Accumulate, S: Load<T::Item>> Task for Pack<T, S> {
    type Output = ();

    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        if self.count < self.width || !self.depth.is_multiple_of(T::STEP) {
            // SAFETY: the panel consists of numbers, for which zero bytes are zeros; all of it lies in the buffer.
            unsafe {
                self.panel.write_bytes(
                    0,
                    self.depth.next_multiple_of(T::STEP) * T::PARTS * self.width,
                )
            };
        }
        // SAFETY: rows and values of k are within the source and the panel.
        unsafe {
            if self.source.outer_stride == 1 {
                for k in 0..self.depth {
                    for row in 0..self.count {
                        self.element(row, k);
                    }
                }
            } else {
                for start in (0..self.depth).step_by(STRIP) {
                    let end = self.depth.min(start + STRIP);
                    for row in 0..self.count {
                        for k in start..end {
                            self.element(row, k);
                        }
                    }
                }
            }
        }
    }
}

/// A symmetric or Hermitian matrix of which one triangle is stored. Outer index and k are row and column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mirrored<T> {
    /// The matrix: row by column of the stored triangle.
    pub(crate) stored: Dense<T>,
    /// The stored triangle.
    pub(crate) triangle: Triangle,
    /// How the other triangle follows from it.
    pub(crate) symmetry: Symmetry,
}

impl<T: Element> Source<T> for Mirrored<T> {
    unsafe fn pack(
        &self,
        outer: Range<usize>,
        depth: Range<usize>,
        width: usize,
        panels: *mut T::Part,
    ) {
        let hermitian = self.symmetry == Symmetry::Hermitian;
        let direct = self.stored;
        let mirror = Dense {
            conjugate: direct.conjugate != hermitian,
            ..direct.transposed()
        };
        let (below, above) = match self.triangle {
            Triangle::Lower => (direct, mirror),
            Triangle::Upper => (mirror, direct),
        };
        let stride = depth.len() * T::PARTS * width;
        for (index, first) in outer.clone().step_by(width).enumerate() {
            let end = outer.end.min(first + width);
            // The values of k of the panel: left of the diagonal, on the panel's diagonal block, right of it.
            let left = depth.start..first.clamp(depth.start, depth.end);
            let middle = left.end..end.clamp(left.end, depth.end);
            let right = middle.end..depth.end;
            // SAFETY: the caller's buffer has this panel; the parts of the panel follow one another.
            unsafe {
                let panel = panels.add(index * stride);
                let place = |k: usize| panel.add((k - depth.start) * T::PARTS * width);
                if !left.is_empty() {
                    <Dense<T> as Source<T>>::pack(
                        &below,
                        first..end,
                        left.clone(),
                        width,
                        place(left.start),
                    );
                }
                if !right.is_empty() {
                    <Dense<T> as Source<T>>::pack(
                        &above,
                        first..end,
                        right.clone(),
                        width,
                        place(right.start),
                    );
                }
                for k in middle {
                    for row in 0..width {
                        let outer = first + row;
                        let item = if outer >= end {
                            T::ZERO
                        } else if outer == k && hermitian {
                            T::from_real(direct.at(k, k).read().re())
                        } else {
                            let from = if outer >= k { below } else { above };
                            from.at(outer, k).read().conj_if(from.conjugate)
                        };
                        T::place(panel, width, row, k - depth.start, item, false);
                    }
                }
            }
        }
    }
}
