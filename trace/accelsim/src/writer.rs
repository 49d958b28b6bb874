//! Writing of kernel files.

mod grouped;
mod packed;
mod raw;

pub use grouped::GroupedWriter;
pub use packed::PackedWriter;
pub use raw::RawWriter;
