//! Margay's typed SSA intermediate representation of PTX kernels.
//!
//! Types ([`types`]), modifiers ([`mods`]), the op table ([`ops`]) with its reference meanings
//! ([`meaning`]).
#![forbid(unsafe_code)]

pub mod meaning;
pub mod mods;
pub mod ops;
pub mod types;
