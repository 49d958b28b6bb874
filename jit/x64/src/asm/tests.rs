//! Tests of the encoder. The decoder of `iced-x86` says what bytes mean.

mod cases;
mod check;
mod coverage;
mod errors;
mod layout;
mod random;
mod rows;
