//! Specialisations of a kernel's code: variants that make different assumptions about the launch.

use std::sync::OnceLock;

use margay_ir::analysis::uniformity::Assumptions;

use margay_vectorise::Group;

use crate::slices::Widths;

/// A specialisation of a kernel's code: the assumptions of the code about the CTA shape and the pointers of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Specialisation {
    bits: u8,
    /// The lengths of the block's dimensions x and y, if the code is for one shape only.
    exactly: Option<[u16; 2]>,
}

impl Specialisation {
    /// Number of specialisations without those for one shape.
    const COUNT: usize = 18;

    /// Scalar code, which runs one lane after the other, for blocks of any shape. Scalar code compiles in a tenth of
    /// the time of vector code.
    pub const SINGLE: Specialisation = Specialisation::general(8);

    /// Every chunk is located in one row of the block.
    const ROWS: u8 = 1;
    /// `%ntid.x` is a multiple of the chunk width.
    pub(crate) const ALIGNED: u8 = 2;
    /// Whole rows of chunks of the larger width.
    const WHOLE: u8 = Specialisation::ROWS | Specialisation::ALIGNED | Specialisation::WIDE;
    /// Chunks have the larger of the kernel's two widths ([`Widths::wide`]).
    pub(crate) const WIDE: u8 = 4;
    /// The code may omit tests of addresses, because the pointer parameters of the kernel
    /// ([`crate::CompiledKernel::roots`]) contain aligned addresses of device memory, and the accessible pages of a CTA's
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
            return Specialisation::general(bits);
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
        Specialisation::general(rows | aligned | wide | lines)
    }

    const fn general(bits: u8) -> Specialisation {
        Specialisation {
            bits,
            exactly: None,
        }
    }

    /// Returns the specialisation for blocks of exactly this shape, of which [`Specialisation::of`] has returned `self`;
    /// `None` if the wide back end does not run all threads of such a block together ([`Widths::whole`]).
    pub fn exactly(self, [x, y, z]: [u32; 3], widths: Widths) -> Option<Specialisation> {
        const ALIGNED_ROWS: u8 = Specialisation::ROWS | Specialisation::ALIGNED;
        let width = match self.has(Specialisation::TILED) {
            true => 16,
            false if self.has(Specialisation::WIDE) => widths.wide,
            false => widths.narrow,
        };
        let chunks = u64::from(x) * u64::from(y) / u64::from(width);
        let fits = self.bits & ALIGNED_ROWS == ALIGNED_ROWS
            && z == 1
            && (2..=u64::from(widths.whole)).contains(&chunks);
        let exactly = [u16::try_from(x).ok()?, u16::try_from(y).ok()?];
        fits.then_some(Specialisation {
            exactly: Some(exactly),
            ..self
        })
    }

    /// Returns the shape of the blocks, if the code is for one shape only.
    pub(crate) fn shape(self) -> Option<[u32; 3]> {
        let [x, y] = self.exactly?;
        Some([x.into(), y.into(), 1])
    }

    /// Returns the index of a specialisation that is not for one shape, less than [`Specialisation::COUNT`].
    fn index(self) -> usize {
        let own = match self.bits & !Specialisation::TRUSTED {
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
        let without = self.bits & !Specialisation::TRUSTED;
        let bits = without | if trusted { Specialisation::TRUSTED } else { 0 };
        Specialisation { bits, ..self }
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
        self.bits & what != 0
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

/// A cell for each specialisation.
#[derive(Debug)]
pub struct PerSpecialisation<T> {
    general: [OnceLock<T>; Specialisation::COUNT],
    exact: OnceLock<Box<ExactCell<T>>>,
}

/// The cell of a specialisation for one shape, in a list.
#[derive(Debug)]
struct ExactCell<T> {
    specialisation: Specialisation,
    cell: OnceLock<T>,
    next: OnceLock<Box<ExactCell<T>>>,
}

impl<T> Default for PerSpecialisation<T> {
    fn default() -> PerSpecialisation<T> {
        PerSpecialisation {
            general: Default::default(),
            exact: OnceLock::new(),
        }
    }
}

impl<T> PerSpecialisation<T> {
    /// Returns the contents of all cells.
    pub(crate) fn all(&self) -> impl Iterator<Item = &T> {
        let exact = std::iter::successors(self.exact.get(), |cell| cell.next.get());
        let exact = exact.map(|cell| &cell.cell);
        self.general.iter().chain(exact).filter_map(OnceLock::get)
    }

    /// Returns the cell of a specialisation.
    pub fn cell(&self, specialisation: Specialisation) -> &OnceLock<T> {
        if specialisation.exactly.is_none() {
            return &self.general[specialisation.index()];
        }
        let mut link = &self.exact;
        loop {
            let here = link.get_or_init(|| {
                Box::new(ExactCell {
                    specialisation,
                    cell: OnceLock::new(),
                    next: OnceLock::new(),
                })
            });
            if here.specialisation == specialisation {
                return &here.cell;
            }
            link = &here.next;
        }
    }
}
