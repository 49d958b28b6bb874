//! The shape of a launch: grid, block, dynamic shared memory, cluster.
//!
//! Public names follow CUDA: a *block* is a CTA. Invariant: a [`LaunchConfig`] is not checked when
//! it is created. Each launch checks its [`LaunchConfig`] against the limits of the kernel and the
//! device.

/// Three extents, or the coordinates of a position. The x coordinate varies fastest.
///
/// ```
/// use margay::Dim3;
///
/// let block = Dim3::from((8, 4));
/// assert_eq!((block.count(), block.position(9)), (32, [1, 1, 0]));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dim3 {
    /// Extent in x.
    pub x: u32,
    /// Extent in y.
    pub y: u32,
    /// Extent in z.
    pub z: u32,
}

impl Dim3 {
    /// Returns a `Dim3` with these extents.
    pub const fn new(x: u32, y: u32, z: u32) -> Dim3 {
        Dim3 { x, y, z }
    }

    /// Returns the number of positions: the product of the three extents.
    ///
    /// If the product overflows, the result is the largest number of this type. Valid launches
    /// never have so many positions.
    pub fn count(self) -> u64 {
        u64::from(self.x)
            .saturating_mul(u64::from(self.y))
            .saturating_mul(u64::from(self.z))
    }

    /// Returns the coordinates of the position with the linear index `index`. The x coordinate varies fastest. No
    /// extent of `self` may be 0.
    pub fn position(self, index: u64) -> [u32; 3] {
        let (x, y) = (u64::from(self.x.max(1)), u64::from(self.y.max(1)));
        [
            (index % x) as u32,
            (index / x % y) as u32,
            (index / x / y) as u32,
        ]
    }

    /// Returns the extents as an array.
    pub fn to_array(self) -> [u32; 3] {
        [self.x, self.y, self.z]
    }
}

impl Default for Dim3 {
    fn default() -> Dim3 {
        Dim3::new(1, 1, 1)
    }
}

impl From<u32> for Dim3 {
    fn from(x: u32) -> Dim3 {
        Dim3::new(x, 1, 1)
    }
}

impl From<(u32, u32)> for Dim3 {
    fn from((x, y): (u32, u32)) -> Dim3 {
        Dim3::new(x, y, 1)
    }
}

impl From<(u32, u32, u32)> for Dim3 {
    fn from((x, y, z): (u32, u32, u32)) -> Dim3 {
        Dim3::new(x, y, z)
    }
}

/// The shape and the options of a launch.
///
/// ```
/// use margay::LaunchConfig;
///
/// let config = LaunchConfig::linear(1000, 256).with_shared(1024);
/// assert_eq!((config.grid.x, config.block.x, config.shared), (4, 256, 1024));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LaunchConfig {
    /// Blocks in the grid.
    pub grid: Dim3,
    /// Threads in a block.
    pub block: Dim3,
    /// Dynamic shared memory per block, in bytes.
    pub shared: u32,
    /// Blocks in a cluster. `None` selects the cluster shape that the kernel's attributes or its declaration specify,
    /// or no clusters if neither specifies a shape.
    pub cluster: Option<Dim3>,
    /// Whether all blocks must be resident at the same time and are allowed to wait for each other.
    pub cooperative: bool,
    /// Replaces the stream's priority (`CU_LAUNCH_ATTRIBUTE_PRIORITY`): 0, or a negative number for a higher priority.
    pub priority: Option<i32>,
}

impl LaunchConfig {
    /// Returns a configuration with `grid` blocks of `block` threads.
    pub fn new(grid: impl Into<Dim3>, block: impl Into<Dim3>) -> LaunchConfig {
        LaunchConfig {
            grid: grid.into(),
            block: block.into(),
            ..LaunchConfig::default()
        }
    }

    /// Returns a one-dimensional configuration with at least `threads` threads, in blocks of `block` threads. There is
    /// at least one block.
    pub fn linear(threads: u32, block: u32) -> LaunchConfig {
        LaunchConfig::new(threads.div_ceil(block.max(1)).max(1), block.max(1))
    }

    /// Sets the bytes of dynamic shared memory of a block.
    pub fn with_shared(mut self, bytes: u32) -> LaunchConfig {
        self.shared = bytes;
        self
    }

    /// Makes the launch cooperative.
    pub fn with_cooperative(mut self) -> LaunchConfig {
        self.cooperative = true;
        self
    }

    /// Sets the number of blocks in a cluster.
    pub fn with_cluster(mut self, cluster: impl Into<Dim3>) -> LaunchConfig {
        self.cluster = Some(cluster.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_rounds_up_and_is_never_empty() {
        assert_eq!(LaunchConfig::linear(1000, 256).grid, Dim3::new(4, 1, 1));
        assert_eq!(LaunchConfig::linear(1024, 256).grid, Dim3::new(4, 1, 1));
        assert_eq!(LaunchConfig::linear(0, 0).grid, Dim3::new(1, 1, 1));
    }

    #[test]
    fn positions_run_x_first() {
        let grid = Dim3::new(3, 2, 2);
        assert_eq!(grid.count(), 12);
        assert_eq!(grid.position(0), [0, 0, 0]);
        assert_eq!(grid.position(4), [1, 1, 0]);
        assert_eq!(grid.position(11), [2, 1, 1]);
    }
}
