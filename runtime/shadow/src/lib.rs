//! Shadow memory: the data that checking runs record about each byte of device memory.
//!
//! - [`init`] records which bytes have been written.
//! - [`race`] records which threads have accessed which bytes, and which operations order these accesses.
//! - [`trie`] contains the maps of which vector clocks consist.
//! - [`values`] records the bytes that threads have stored.
//!
//! This crate does not depend on the runtime. Its inputs are only addresses, indices of launches, CTAs and threads,
//! indices of instructions in kernels ([`race::Site`]), properties of accesses, and copies of the bytes that threads
//! store. It accesses no memory of the program.

#![forbid(unsafe_code)]

pub mod init;
pub mod race;
pub mod trie;
pub mod values;
