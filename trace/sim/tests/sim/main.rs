//! Tests of the timing simulator.

mod calibration;
mod configs;
mod kernels;
mod memory;
mod programs;
mod support;
