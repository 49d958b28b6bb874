//! Tests of VIR: its ops, its text form, its verifier, and random functions.

mod ops;
mod random;
mod support;
mod text;
mod verify;
