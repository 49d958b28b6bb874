//! `libnvidia-ml.so.1`: the management library for a machine whose only device is Margay's.
//!
//! Served is what programs ask before they choose a device: its number, name, UUID, memory, capability, versions,
//! use, and which processes compute. What a CPU has no answer for ([`refused`]) is answered by
//! `NVML_ERROR_NOT_SUPPORTED`. Nothing here starts the runtime, so a program may ask and fork before it uses CUDA.
//!
//! Memory of the device is memory of the host: what is free there, up to the device's limit, is free here, and all else
//! is used.
//!
//! Invariants: no panic leaves a function; buffers are written within the length that the caller gives, or not
//! at all.

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
