//! Packing of operands into panels.

use std::marker::PhantomData;
use std::ops::Range;

use super::finish::prefetch;
use crate::kernels::{Accumulate, SQUARE};
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
        simd::run(Pack::<T, S> {
            source: self.from(outer.start, depth.start),
            count: outer.len(),
            depth: depth.len(),
            width,
            panels,
            sums: PhantomData,
        });
    }
}

/// Packs some panels.
struct Pack<T: Accumulate, S> {
    source: Dense<S>,
    count: usize,
    depth: usize,
    width: usize,
    panels: *mut T::Part,
    sums: PhantomData<T>,
}

/// Values of k by which prefetches are ahead.
const AHEAD: isize = 8;

impl<T: Accumulate, S: Load<T::Item>> Pack<T, S> {
    /// Distance of two panels.
    #[inline(always)]
    fn stride(&self) -> usize {
        self.depth.next_multiple_of(T::STEP) * T::PARTS * self.width
    }

    /// Writes `N` neighbouring rows of a panel for one value of k.
    ///
    /// # Safety
    /// The panel has these rows.
    #[inline(always)]
    unsafe fn place<const N: usize>(
        &self,
        panel: *mut T::Part,
        row: usize,
        k: usize,
        items: [S; N],
    ) {
        for (index, item) in items.into_iter().enumerate() {
            // SAFETY: the caller's condition.
            unsafe {
                T::place(
                    panel,
                    self.width,
                    row + index,
                    k,
                    item.load(),
                    self.source.conjugate,
                )
            };
        }
    }

    /// Packs a panel whose rows are contiguous.
    ///
    /// # Safety
    /// The source has the elements, the buffer the panel.
    #[inline(always)]
    unsafe fn contiguous_rows(&self, first: usize, panel: *mut T::Part) {
        let count = self.width.min(self.count - first);
        // SAFETY: the rows are below `count`.
        unsafe {
            // The widths of kernels.
            match count {
                32 => self.whole_rows::<32>(first, panel),
                16 => self.whole_rows::<16>(first, panel),
                12 => self.whole_rows::<12>(first, panel),
                8 => self.whole_rows::<8>(first, panel),
                6 => self.whole_rows::<6>(first, panel),
                4 => self.whole_rows::<4>(first, panel),
                count => {
                    for k in 0..self.depth {
                        for row in 0..count {
                            self.place(panel, row, k, [self.source.at(first + row, k).read()]);
                        }
                    }
                }
            }
        }
    }

    /// Packs `N` contiguous rows.
    ///
    /// # Safety
    /// As for [`Pack::contiguous_rows`].
    #[inline(always)]
    unsafe fn whole_rows<const N: usize>(&self, first: usize, panel: *mut T::Part) {
        for k in 0..self.depth {
            let from = self.source.at(first, k);
            // Rows of the next values of k are in other pages, which the CPU does not expect.
            prefetch(
                from.wrapping_offset(AHEAD * self.source.depth_stride),
                N * size_of::<S>(),
            );
            // SAFETY: the source has these rows. Pieces are at most as large as a vector: larger ones become calls of `memmove`.
            unsafe {
                for piece in 0..N / 8 {
                    self.place(
                        panel,
                        piece * 8,
                        k,
                        from.add(piece * 8).cast::<[S; 8]>().read(),
                    );
                }
                if N % 8 >= 4 {
                    let row = N / 8 * 8;
                    self.place(panel, row, k, from.add(row).cast::<[S; 4]>().read());
                }
                if N % 4 >= 2 {
                    let row = N / 4 * 4;
                    self.place(panel, row, k, from.add(row).cast::<[S; 2]>().read());
                }
            }
        }
    }

    /// Packs a panel whose rows are not contiguous, in squares.
    ///
    /// # Safety
    /// As for [`Pack::contiguous_rows`].
    #[inline(always)]
    unsafe fn squares(&self, first: usize, panel: *mut T::Part) {
        let count = self.width.min(self.count - first);
        let (whole_rows, whole_depth) = (count / SQUARE * SQUARE, self.depth / SQUARE * SQUARE);
        // SAFETY: rows and values of k are within the source and the panel.
        unsafe {
            for row in (0..whole_rows).step_by(SQUARE) {
                let mut from = [self.source.data; SQUARE];
                for (r, from) in from.iter_mut().enumerate() {
                    *from = self.source.at(first + row + r, 0);
                }
                if self.source.depth_stride == 1 {
                    for k in (0..whole_depth).step_by(SQUARE) {
                        // Loops, because a call of `map` is not always inlined.
                        let mut square = [[T::UNIT; SQUARE]; SQUARE];
                        for (r, items) in square.iter_mut().enumerate() {
                            let values = from[r].add(k).cast::<[S; SQUARE]>().read();
                            for c in 0..SQUARE {
                                items[c] = values[c].load();
                            }
                        }
                        T::place_square(panel, self.width, row, k, square, self.source.conjugate);
                    }
                } else {
                    for k in 0..whole_depth {
                        let offset = k as isize * self.source.depth_stride;
                        let mut values = [from[0].read(); SQUARE];
                        for (value, from) in values.iter_mut().zip(from) {
                            *value = from.wrapping_offset(offset).read();
                        }
                        self.place(panel, row, k, values);
                    }
                }
                for k in whole_depth..self.depth {
                    for r in 0..SQUARE {
                        self.place(
                            panel,
                            row + r,
                            k,
                            [self.source.at(first + row + r, k).read()],
                        );
                    }
                }
            }
            for row in whole_rows..count {
                for k in 0..self.depth {
                    self.place(panel, row, k, [self.source.at(first + row, k).read()]);
                }
            }
        }
    }
}

impl<T: Accumulate, S: Load<T::Item>> Task for Pack<T, S> {
    type Output = ();

    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        // Panels with unused rows or a step that is not complete are filled with zeros first.
        let panels = self.count.div_ceil(self.width);
        let complete = if self.depth.is_multiple_of(T::STEP) {
            self.count / self.width
        } else {
            0
        };
        // SAFETY: the panels lie in the buffer and consist of numbers, for which zero bytes are zeros. The source has the elements.
        unsafe {
            for index in complete..panels {
                self.panels
                    .add(index * self.stride())
                    .write_bytes(0, self.stride());
            }
            for index in 0..panels {
                let panel = self.panels.add(index * self.stride());
                if self.source.outer_stride == 1 {
                    self.contiguous_rows(index * self.width, panel);
                } else {
                    self.squares(index * self.width, panel);
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
