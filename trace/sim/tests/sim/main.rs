//! Tests of the timing simulator.

mod calibration;
mod configs;
mod kernels;
mod support;
