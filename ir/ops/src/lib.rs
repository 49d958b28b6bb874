//! The operations of Margay's intermediate representation and what they compute.
//!
//! It holds types ([`types`]), modifiers ([`mods`]), special registers ([`sreg`]), the op table ([`ops`]) with
//! its reference meanings ([`meaning`]), texture and surface accesses ([`texture`]), and the faults that an
//! operation can raise ([`fault`]). The crate `margay-ir` builds functions from these operations. This crate
//! depends on no IR function, no engine and no PTX syntax. It does no I/O and contains no `unsafe`.
#![forbid(unsafe_code)]

pub mod fault;
pub mod meaning;
pub mod mods;
pub mod ops;
pub mod sreg;
pub mod texture;
pub mod types;
