//! The functions that implement the entry points.
//!
//! Each function receives the properties of the entry point that was called ([`crate::guard::Call`]), and the converted
//! arguments ([`crate::convert`]). The table of
//! [`crate::api`] contains the function's name. The functions check arguments and look up handles; the runtime (crate
//! `margay`) does the work.

mod array;
mod array_copy;
mod batch;
mod capture;
mod context;
pub(crate) mod copy;
mod coredump;
mod device;
mod event;
mod fill;
mod function;
mod general;
pub(crate) mod graph;
pub(crate) mod green;
pub(crate) mod ipc;
mod ipc_event;
pub(crate) mod launch;
mod legacy_launch;
mod legacy_memory;
mod library;
pub(crate) mod link;
pub(crate) mod log;
mod managed;
pub(crate) mod memop;
mod memory;
mod module;
mod occupancy;
mod pointer;
pub(crate) mod pool;
mod primary;
mod stream;
mod texture;
mod texture_reference;
mod virtual_memory;

pub(crate) use array::*;
pub(crate) use array_copy::*;
pub(crate) use batch::*;
pub(crate) use capture::*;
pub(crate) use context::*;
pub(crate) use copy::*;
pub(crate) use coredump::*;
pub(crate) use device::*;
pub(crate) use event::*;
pub(crate) use fill::*;
pub(crate) use function::*;
pub(crate) use general::*;
pub(crate) use graph::*;
pub(crate) use green::*;
pub(crate) use ipc::*;
pub(crate) use ipc_event::*;
pub(crate) use launch::*;
pub(crate) use legacy_launch::*;
pub(crate) use legacy_memory::*;
pub(crate) use library::*;
pub(crate) use link::*;
pub(crate) use log::*;
pub(crate) use managed::*;
pub(crate) use memop::*;
pub(crate) use memory::*;
pub(crate) use module::*;
pub(crate) use occupancy::*;
pub(crate) use pointer::*;
pub(crate) use pool::*;
pub(crate) use primary::*;
pub(crate) use stream::*;
pub(crate) use texture::*;
pub(crate) use texture_reference::*;
pub(crate) use virtual_memory::*;
