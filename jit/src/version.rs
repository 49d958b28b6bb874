//! Versions of a kernel's code: what is assumed of the launch.

use margay_ir::analysis::uniformity::Assumptions;

use crate::slices::Widths;

/// What is known of the blocks of a launch; code is made for each case.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Version(u8);

impl Version {
    /// Number of versions.
    pub const COUNT: usize = 18;

    /// Lanes one by one, for blocks of any shape: compiled in a tenth of the time.
    pub const SINGLE: Version = Version(8);

    /// Slices lie in rows.
    const ROWS: u8 = 1;
    /// The rows are a multiple of the slices.
    const ALIGNED: u8 = 2;
    /// Slices are as wide as the kernel's get.
    pub(crate) const WIDE: u8 = 4;
    /// The pointers among the parameters name device memory ([`crate::CompiledKernel::roots`]), and shared memory ends where
    /// its open pages end.
    const TRUSTED: u8 = 16;

    /// The version for blocks of a shape: wide slices where they lie in rows, else narrow ones.
    pub fn of([x, y, z]: [u32; 3], widths: Widths) -> Version {
        let row = y == 1 && z == 1;
        let aligned = |width: u32| x > 0 && x % width == 0;
        let (width, wide) = if row || aligned(widths.wide) {
            (widths.wide, Version::WIDE)
        } else {
            (widths.narrow, 0)
        };
        let rows = if row || aligned(width) {
            Version::ROWS
        } else {
            0
        };
        let aligned = if aligned(width) { Version::ALIGNED } else { 0 };
        Version(rows | aligned | wide)
    }

    /// Its number.
    pub fn index(self) -> usize {
        let own = usize::from(self.0 & !Version::TRUSTED);
        own + if self.is_trusted() {
            Version::COUNT / 2
        } else {
            0
        }
    }

    /// The same for launches whose pointers are known to name device memory, and whose shared memory ends where its open
    /// pages end.
    pub fn trusted(self, trusted: bool) -> Version {
        let without = self.0 & !Version::TRUSTED;
        Version(without | if trusted { Version::TRUSTED } else { 0 })
    }

    /// Whether it is for such launches alone.
    pub fn is_trusted(self) -> bool {
        self.has(Version::TRUSTED)
    }

    /// Whether lanes run one by one.
    pub fn is_single(self) -> bool {
        self.trusted(false) == Version::SINGLE
    }

    pub(crate) fn has(self, what: u8) -> bool {
        self.0 & what != 0
    }

    pub(crate) fn assumptions(self, width: u32) -> Assumptions {
        Assumptions {
            width,
            whole_rows: self.has(Version::ROWS),
            ntid_x_zeros: if self.has(Version::ALIGNED) {
                width.trailing_zeros()
            } else {
                0
            },
        }
    }
}
