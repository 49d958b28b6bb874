//! Tests of VIR: its ops, its text form, its verifier, its passes, and random functions.

mod ops;
mod passes;
mod random;
mod support;
mod text;
mod updates;
mod verify;
