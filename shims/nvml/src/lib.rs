//! `libnvidia-ml.so.1`: Margay's replacement of NVIDIA's management library (NVML), for a machine
//! whose only devices are Margay's.
//!
//! The library implements the queries that programs make before they choose a device: number of devices, name, UUID,
//! memory, compute capability, versions, utilisation and compute processes. Functions for features that a CPU does not
//! have ([`refused`]) return `NVML_ERROR_NOT_SUPPORTED`. No function starts the runtime, so a program can call this
//! library and fork before it uses CUDA.
//!
//! The memory of the device is memory of the host. The free memory of the host, up to the device's memory size, is
//! reported as free. The rest of the device's memory is reported as used.
//!
//! Invariants: no panic propagates out of a function. No function writes beyond the end of the
//! caller's buffer, whose length the caller passes.

mod answer;
mod device;
pub mod facts;
mod pci;
pub mod processes;
pub mod refused;
mod state;
mod system;

pub use device::*;
pub use pci::*;
pub use state::Code;
pub use system::*;
