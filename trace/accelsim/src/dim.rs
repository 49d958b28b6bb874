//! Numbers of CTAs and threads in three dimensions.

use std::fmt;

/// A position or an extent in a grid or block. The order is that of the linear index: `x` varies fastest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Dim3 {
    /// The fastest dimension.
    pub x: u32,
    /// The middle dimension.
    pub y: u32,
    /// The slowest dimension.
    pub z: u32,
}

impl Dim3 {
    /// Returns `(x, y, z)`.
    pub const fn new(x: u32, y: u32, z: u32) -> Dim3 {
        Dim3 { x, y, z }
    }

    /// Returns the number of positions in this extent, or none if it exceeds 64 bits.
    pub fn volume(self) -> Option<u64> {
        (u64::from(self.x) * u64::from(self.y)).checked_mul(u64::from(self.z))
    }

    /// Returns whether `position` lies in this extent.
    pub fn contains(self, position: Dim3) -> bool {
        position.x < self.x && position.y < self.y && position.z < self.z
    }

    /// Returns the linear index of `position` in this extent: `z * Y * X + y * X + x`. `self` has a volume, and contains
    /// the position.
    pub fn index(self, position: Dim3) -> u64 {
        let row = u64::from(position.z) * u64::from(self.y) + u64::from(position.y);
        row * u64::from(self.x) + u64::from(position.x)
    }

    /// Returns the position with the linear index `index`, the inverse of [`Dim3::index`]. No dimension of `self` is 0.
    pub fn position(self, index: u64) -> Dim3 {
        let (x, y) = (u64::from(self.x), u64::from(self.y));
        Dim3 {
            x: (index % x) as u32,
            y: (index / x % y) as u32,
            z: (index / x / y) as u32,
        }
    }
}

impl fmt::Display for Dim3 {
    /// Writes `x,y,z`, as in the files.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{}", self.x, self.y, self.z)
    }
}
