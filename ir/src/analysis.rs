//! Analyses of functions. Passes, engines and code generators use the results of these analyses.

pub mod alignment;
pub mod callees;
pub mod cfg;
pub mod coordinates;
pub mod dominators;
pub mod joins;
pub mod linear;
pub mod liveness;
pub mod loops;
pub mod multiples;
pub mod pointers;
pub mod reach;
pub mod regions;
pub mod shuffle_width;
pub mod skipping;
pub mod slots;
pub mod speculative;
pub mod stack;
pub mod together;
pub mod uniformity;

pub use alignment::Alignment;
pub use cfg::Cfg;
pub use coordinates::Coordinates;
pub use dominators::Dominators;
pub use joins::Joins;
pub use linear::Linear;
pub use loops::Loops;
pub use multiples::Multiples;
pub use pointers::Pointers;
pub use reach::Reach;
pub use regions::Regions;
pub use speculative::SpeculativeAffine;
pub use stack::{StackNeed, stack_need};
pub use uniformity::Uniformity;
