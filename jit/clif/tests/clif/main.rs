//! Compares compiled functions of the vector IR with the interpreter.
//!
//! All NaNs count as equal, because native code may return the NaNs of the host's instructions.

mod calls;
mod faults;
mod maps;
mod memory;
mod native;
mod ops;
mod random;
mod support;
