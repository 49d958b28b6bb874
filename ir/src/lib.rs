//! Margay's typed SSA intermediate representation of PTX kernels.
//!
//! Functions ([`function`]) in modules ([`module`]), built by [`builder`], printed by [`mod@print`], read by
//! [`parse`] and checked by [`verify`]. Their instructions are operations of `margay-ops`. Analyses are in
//! [`analysis`], passes in [`pass`], the words for synchronisation points in [`point`]. This crate knows no
//! code generator, does no I/O and holds no `unsafe`.
#![forbid(unsafe_code)]

pub mod analysis;
pub mod builder;
pub mod entity;
pub mod function;
pub mod module;
pub mod parse;
pub mod pass;
pub mod point;
pub mod print;
pub mod syscall;
pub mod verify;
