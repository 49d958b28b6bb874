//! What Margay's replacements of NVIDIA's libraries share.
//!
//! - [`table`] finds the driver library and its table of native kernels.
//! - [`launch`] submits functions to streams as native kernels.
//! - [`host`] copies bytes between addresses that may be wrong and buffers of this process.
//! - [`versions`] is for build scripts: it gives a library its name and its symbol version.
//!
//! Native kernels are functions that the driver runs on its workers in the order of a stream
//! (`runtime/src/native_kernel.rs`).

pub mod host;
pub mod launch;
pub mod table;
pub mod versions;
