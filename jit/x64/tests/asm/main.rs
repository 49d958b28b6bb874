//! Tests of the encoder. The decoder of `iced-x86` says what the bytes mean.

mod smoke;
