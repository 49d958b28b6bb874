//! Shadow memory: what checking runs record about each byte of device memory.
//!
//! - [`init`] records which bytes have been written.
//! - [`race`] records which threads have accessed which bytes, and what orders these accesses.
//!
//! This crate works with numbers only: addresses, indices of CTAs and threads, and indices of places in kernels
//! ([`race::Site`]). It accesses no memory of the program.

#![forbid(unsafe_code)]

pub mod init;
pub mod race;
