//! The drop-in replacement for `libcuda.so.1`.
//!
//! This crate contains only the C interface of the CUDA driver; the crate `margay` implements the driver. This crate
//! contains the table of entry points ([`api`]), the guard around each call, handle tables (handles are looked up and
//! never dereferenced), argument conversion, `cuGetProcAddress`, and the tables that NVIDIA's runtimes request with
//! `cuGetExportTable`.
//!
//! Invariants: every entry point of the driver comes from the table; [`control`] exports the only function that is not
//! an entry point. No panic propagates out of an entry point. Only the module `errors` maps errors to result codes. Set
//! `MARGAY_TRACE_API=1` to trace the calls.

mod activity;
pub mod api;
mod arguments;
mod callback;
mod checking;
mod client;
mod context_storage;
pub mod control;
mod convert;
mod debugger;
mod dump;
mod error_log;
mod errors;
mod exit;
mod export_tables;
mod guard;
mod handle_table;
mod handles;
mod images;
mod jit_options;
mod leaks;
mod main_thread;
pub mod nvtx;
mod probes;
mod profiling;
mod readable;
mod records;
mod result;
mod serve;
mod tools;
mod traces;
pub mod types;

pub use api::{ApiRow, Status, api_rows};
pub use result::CuResult;
