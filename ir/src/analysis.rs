//! Facts about functions that passes and engines ask for.

pub mod cfg;
pub mod dominators;

pub use cfg::Cfg;
pub use dominators::Dominators;
