//! Margay's typed SSA intermediate representation of PTX kernels.
#![forbid(unsafe_code)]
