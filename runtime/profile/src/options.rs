//! What the profiler counts.

/// What a profile contains.
///
/// ```
/// use margay_profile::Options;
///
/// let options = Options { reuse: true, ..Options::default() };
/// assert!(options.instructions && options.accesses);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Whether to count instructions.
    pub instructions: bool,
    /// Whether to count accesses and barriers.
    pub accesses: bool,
    /// Whether to compute reuse distances and the footprint.
    pub reuse: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            instructions: true,
            accesses: true,
            reuse: false,
        }
    }
}
