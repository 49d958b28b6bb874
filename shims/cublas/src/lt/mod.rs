//! cuBLASLt: descriptors, algorithms, the product with layouts and epilogues, and the transform of layouts.
//!
//! There is one algorithm, which needs no workspace and computes every combination that is supported.

pub(crate) mod algorithm;
mod descriptor;
pub(crate) mod emulation_desc;
mod epilogue;
mod grouped;
pub(crate) mod layout;
pub(crate) mod library;
pub(crate) mod logger;
pub(crate) mod matmul;
pub(crate) mod matmul_desc;
mod operands;
pub(crate) mod preference;
mod scales;
pub(crate) mod transform;
pub(crate) mod transform_desc;
