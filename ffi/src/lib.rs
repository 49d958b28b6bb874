//! The drop-in `libcuda.so.1`.
//!
//! The C interface of the CUDA driver over crate `margay`, and nothing else: one table of entry
//! points ([`api`]), the guard that each passes through, handles that are looked up and never
//! dereferenced, conversions, `cuGetProcAddress` and the tables that NVIDIA's runtimes ask for
//! through `cuGetExportTable`.
//!
//! Invariants: every export comes from the table; no panic leaves an entry point; every error is
//! mapped to its result code in one place. Set `MARGAY_TRACE_API=1` to see the calls.

pub mod api;
mod client;
mod context_storage;
mod convert;
mod dump;
mod error_log;
mod errors;
mod export_tables;
mod guard;
mod handle_table;
mod handles;
mod images;
mod jit_options;
mod readable;
mod result;
mod serve;
pub mod types;

pub use api::{ApiRow, Status, api_rows};
pub use result::CuResult;
