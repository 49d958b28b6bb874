//! Facts about functions that passes and engines ask for.

pub mod cfg;
pub mod dominators;
pub mod liveness;
pub mod regions;
pub mod slots;

pub use cfg::Cfg;
pub use dominators::Dominators;
pub use regions::Regions;
