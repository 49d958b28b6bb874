//! Writes what programs do to files that other tools read.
//!
//! [`accelsim`] writes instruction traces for the simulator Accel-Sim. [`timeline`] writes
//! timelines for Perfetto and Chrome. [`activity`] produces activity records. [`xpti`] publishes events to subscribers
//! of XPTI. [`probe`] runs Neutrino's probes.

pub mod accelsim;
pub mod activity;
mod host;
pub mod probe;
pub mod timeline;
pub mod xpti;
