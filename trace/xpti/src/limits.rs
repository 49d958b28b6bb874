//! Bounds of what the producer, and the framework on its behalf, keep until the process ends.
//!
//! The framework never forgets a string, a value or the first event of a site. A long-running program would therefore
//! fill the memory if each operation got its own names. If a bound is reached, the producer sends one diagnostic
//! (`margay.diag`) that names it.

/// Maximum number of sites: kernels, distinct copies and fills, CUDA streams, API functions that allocate or wait,
/// distinct edges, barriers. Beyond it, operations of a kind share one site, whose metadata contains no addresses, and
/// new edges are not sent.
pub const SITES: usize = 1 << 16;

/// Maximum total size, in bytes, of the names that the producer keeps (names of kernels, files and CUDA streams).
/// Beyond it, a new name is replaced by [`crate::limits::NAME_BEYOND_LIMIT`].
pub const NAMES: usize = 64 << 20;

/// Maximum size of one name in bytes. Longer names are cut.
pub const NAME: usize = 64 << 10;

/// The name that replaces all new names when [`NAMES`] is reached.
pub const NAME_BEYOND_LIMIT: &str = "<name beyond the limit>";

/// Maximum number of distinct metadata values. Beyond it, new values are left out.
pub const VALUES: usize = 1 << 20;

/// Maximum size of one metadata value in bytes. Longer values are left out.
pub const VALUE: usize = 64 << 10;

/// Maximum number of a kernel's arguments in its metadata. Later arguments are left out.
pub const ARGUMENTS: usize = 64;

/// How many events stay valid in frameworks that create an event for each operation (2026.2). The producer releases
/// older events if their operations have ended, and the framework may then use their IDs for new events.
pub const FINISHED: usize = 1 << 16;
