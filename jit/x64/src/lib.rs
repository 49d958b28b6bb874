//! The x86-64 back end of the vector IR.
//!
//! It turns functions of the vector IR ([`margay_vir`]) into machine code for AVX-512 and AVX2. [`asm`] encodes
//! instructions.
#![forbid(unsafe_code)]

pub mod asm;
