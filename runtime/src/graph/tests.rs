//! Tests of graphs with kernels written in Rust.
