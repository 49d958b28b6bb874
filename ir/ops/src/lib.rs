//! The operations of Margay's intermediate representation (IR) and their reference semantics.
//!
//! This crate defines types ([`types`]), modifiers ([`mods`]), special registers ([`sreg`]), the op table ([`ops`]),
//! the reference function of each op ([`meaning`]), texture and surface accesses ([`texture`]), and
//! the faults that an operation can cause ([`fault`]). The crate `margay-ir` builds functions from
//! these operations. This crate does not depend on IR functions, engines or PTX syntax, does no I/O
//! and contains no `unsafe` code.
#![forbid(unsafe_code)]

pub mod fault;
pub mod meaning;
pub mod mods;
pub mod ops;
mod serial;
pub mod sreg;
pub mod texture;
pub mod types;
