//! The operations of Margay's intermediate representation and what they compute.
//!
//! Types ([`types`]), modifiers ([`mods`]), special registers ([`sreg`]), the op table ([`ops`]) and its
//! reference meanings ([`meaning`]), texture and surface accesses ([`texture`]), and the faults in which an
//! operation can end ([`fault`]). Functions made of operations are in `margay-ir`. This crate knows no
//! function, no engine and no spelling of PTX, does no I/O and holds no `unsafe`.
#![forbid(unsafe_code)]

pub mod fault;
pub mod meaning;
pub mod mods;
pub mod ops;
pub mod sreg;
pub mod texture;
pub mod types;
