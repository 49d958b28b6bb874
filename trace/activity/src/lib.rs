//! Activity records: what a process does on its devices, with the numbers and layouts of CUPTI.
//!
//! A [`Record`] describes a kernel, a copy, a call of the driver API or another activity. Records that belong together
//! have the same correlation number. `margay_trace::activity::Recorder` produces records from the events of a runtime.
//! [`layout`] writes a record as the structure of CUPTI's headers, and [`interface`] defines the table of functions
//! through which `libcupti.so.12` and `libcupti.so.13` (`shims/cupti`) receive such structures from the driver library.
//!
//! The sizes, offsets and numbers are those of `cupti_activity.h`, `cupti_callbacks.h` and `cupti_driver_cbid.h` of CUDA
//! 12.9 and 13.5. The test `layouts` lists them.

pub mod callbacks;
pub mod interface;
mod kind;
pub mod layout;
mod names;
mod queue;
mod record;

pub use kind::{Kind, Kinds};
pub use names::Name;
pub use queue::Queue;
pub use record::{
    Call, Context, Copy, CopyKind, CudaEvent, Device, ExternalCorrelation, Fill, Function, Kernel,
    Marker, MarkerData, MarkerKind, Memory, MemoryKind, Module, Overhead, OverheadKind, Payload,
    Place, Record, Stream, StreamFlag, Synchronisation, SynchronisationKind,
};
