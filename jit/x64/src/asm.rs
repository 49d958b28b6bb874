//! The encoder of x86-64 instructions.
