//! Margay's typed SSA intermediate representation (IR) of PTX kernels.
//!
//! [`function`] defines functions and [`module`] defines modules. [`builder`] builds functions, [`mod@print`] writes
//! the text form, [`parse`] reads it, and [`verify`] checks functions and modules. [`body`] is the trait through which
//! analyses ([`analysis`]) and transformations ([`edit`]) also accept functions of the vector IR. The crate `margay-ops` defines the
//! operations that instructions perform. [`analysis`] contains the analyses, [`pass`] the passes, and [`sync_point`]
//! the types for sync points. This crate does not depend on a code generator, does no I/O and contains no `unsafe`
//! code.
#![forbid(unsafe_code)]

pub mod analysis;
pub mod body;
pub mod builder;
pub mod edit;
pub mod entity;
pub mod function;
pub mod module;
pub mod observe;
pub mod parse;
pub mod pass;
pub mod print;
pub mod sync_point;
pub mod syscall;
pub mod verify;
