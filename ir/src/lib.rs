//! Margay's typed SSA intermediate representation of PTX kernels.
//!
//! Types ([`types`]), modifiers ([`mods`]), the op table ([`ops`]) with its reference meanings
//! ([`meaning`]), the syntax table of PTX ([`forms`]), functions ([`function`]) in modules ([`module`]), built by [`builder`], printed by
//! [`mod@print`], read by [`parse`] and checked by [`verify`]. Analyses are in [`analysis`], passes in
//! [`pass`]. This crate knows no code generator, does no I/O and holds
//! no `unsafe`.
#![forbid(unsafe_code)]

pub mod analysis;
pub mod builder;
pub mod entity;
pub mod exec;
pub mod forms;
pub mod function;
pub mod interp;
pub mod meaning;
pub mod mods;
pub mod module;
pub mod ops;
pub mod parse;
pub mod pass;
pub mod print;
pub mod sreg;
pub mod syscall;
pub mod texture;
pub mod types;
pub mod verify;
