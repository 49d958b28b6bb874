//! Specialisations of a kernel's code: variants that make different assumptions about the launch.

use margay_ir::analysis::uniformity::Assumptions;

use margay_vectorise::Group;

use crate::slices::Widths;

/// A specialisation of a kernel's code: the assumptions of the code about the CTA shape and the pointers of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Specialisation(u8);

impl Specialisation {
    /// Number of specialisations.
    pub const COUNT: usize = 18;

    /// Scalar code, which runs one lane after the other, for blocks of any shape. Scalar code compiles in a tenth of
    /// the time of vector code.
    pub const SINGLE: Specialisation = Specialisation(8);

    /// Every chunk is located in one row of the block.
    const ROWS: u8 = 1;
    /// `%ntid.x` is a multiple of the chunk width.
    pub(crate) const ALIGNED: u8 = 2;
    /// Whole rows of chunks of the larger width.
    const WHOLE: u8 = Specialisation::ROWS | Specialisation::ALIGNED | Specialisation::WIDE;
    /// Chunks have the larger of the kernel's two widths ([`Widths::wide`]).
    pub(crate) const WIDE: u8 = 4;
    /// The code may omit tests of addresses, because the pointer parameters of the kernel
    /// ([`crate::CompiledKernel::roots`]) contain addresses of device memory, and the accessible pages of a CTA's
    /// shared memory end exactly where the shared memory ends, so that accesses beyond its end fault.
    const TRUSTED: u8 = 16;
    /// The rows of the block have as many threads as a chunk has lanes, which is 16; the number of rows is a multiple of
    /// [`Specialisation::TILE`], and the block has no z dimension. This bit occurs only with `ROWS` and `ALIGNED`.
    pub(crate) const TILED: u8 = 32;
    /// The length of the rows of the block is a multiple of [`Specialisation::TILE`] chunks. This bit occurs only with
    /// `ROWS`, `ALIGNED` and `WIDE`.
    const LINES: u8 = 64;
    /// The number of chunks that the wide back end may run together.
    pub(crate) const TILE: u32 = 4;

    /// Returns the specialisation of vector code for a block shape. Its chunks have the width [`Widths::wide`] if each
    /// chunk of this width is in one row of the block, otherwise [`Widths::narrow`], or 16 ([`Widths::tiles`]).
    pub fn of([x, y, z]: [u32; 3], widths: Widths) -> Specialisation {
        let row = y == 1 && z == 1;
        if widths.tiles && x == 16 && !row && z == 1 && y % Specialisation::TILE == 0 {
            let bits = Specialisation::ROWS | Specialisation::ALIGNED | Specialisation::TILED;
            return Specialisation(bits);
        }
        let aligned = |width: u32| x > 0 && x % width == 0;
        let (width, wide) = if row || aligned(widths.wide) {
            (widths.wide, Specialisation::WIDE)
        } else {
            (widths.narrow, 0)
        };
        let rows = if row || aligned(width) {
            Specialisation::ROWS
        } else {
            0
        };
        let aligned = if aligned(width) {
            Specialisation::ALIGNED
        } else {
            0
        };
        let is_whole = rows | aligned | wide == Specialisation::WHOLE;
        let lines = match is_whole && x % (width * Specialisation::TILE) == 0 {
            true => Specialisation::LINES,
            false => 0,
        };
        Specialisation(rows | aligned | wide | lines)
    }

    /// Returns the index of this specialisation, less than [`Specialisation::COUNT`].
    pub fn index(self) -> usize {
        let own = match self.0 & !Specialisation::TRUSTED {
            // The bit `ROWS` does not occur alone, and `WIDE` not without it.
            own if own & Specialisation::LINES != 0 => usize::from(Specialisation::WIDE),
            own if own & Specialisation::TILED != 0 => usize::from(Specialisation::ROWS),
            own => usize::from(own),
        };
        own + if self.is_trusted() {
            Specialisation::COUNT / 2
        } else {
            0
        }
    }

    /// Returns this specialisation with or without trust in addresses: trusted code omits most tests of addresses. A
    /// launch may run trusted code only if the launch meets the conditions of [`crate::CompiledKernel::roots`] and the
    /// shared memory of each CTA ends exactly at the end of its accessible pages.
    pub fn trusted(self, trusted: bool) -> Specialisation {
        let without = self.0 & !Specialisation::TRUSTED;
        Specialisation(without | if trusted { Specialisation::TRUSTED } else { 0 })
    }

    /// Returns whether the code may run only in launches whose addresses are trusted ([`Specialisation::trusted`]).
    pub fn is_trusted(self) -> bool {
        self.has(Specialisation::TRUSTED)
    }

    /// Returns whether this is the scalar specialisation, which runs the lanes one after the other.
    pub fn is_single(self) -> bool {
        self.trusted(false) == Specialisation::SINGLE
    }

    /// Returns the chunks that the wide back end may run together.
    pub(crate) fn group(self) -> Group {
        if self.has(Specialisation::TILED) {
            Group::Rows(Specialisation::TILE)
        } else if self.has(Specialisation::LINES) {
            Group::Line(Specialisation::TILE)
        } else {
            Group::Line(1)
        }
    }

    /// Returns a number of which the length of the rows of the block is a multiple, for chunks of `width` lanes.
    pub(crate) fn row_multiple(self, width: u32) -> u32 {
        if self.has(Specialisation::LINES) {
            Specialisation::TILE * width
        } else if self.has(Specialisation::ALIGNED) {
            width
        } else {
            1
        }
    }

    pub(crate) fn has(self, what: u8) -> bool {
        self.0 & what != 0
    }

    pub(crate) fn assumptions(self, width: u32) -> Assumptions {
        Assumptions {
            width,
            whole_rows: self.has(Specialisation::ROWS),
            ntid_x_zeros: if self.has(Specialisation::ALIGNED) {
                width.trailing_zeros()
            } else {
                0
            },
            loads_agree: false,
            chunks_together: false,
        }
    }
}
