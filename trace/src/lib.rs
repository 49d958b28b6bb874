//! Writes what programs do to files that other tools read.
//!
//! [`accelsim`] writes instruction traces for the simulator Accel-Sim. [`timeline`] writes
//! timelines for Perfetto and Chrome. [`xpti`] publishes events to subscribers of XPTI. [`probe`] runs Neutrino's probes.

pub mod accelsim;
mod host;
pub mod probe;
pub mod timeline;
pub mod xpti;
