//! The built-in engine: compiles PTX to native code, and runs kernels that the compiler does not support in the
//! interpreter.
//!
//! [`PtxLoader`] reads images, lowers them and provides one [`Engine`](crate::engine::Engine) for
//! each kernel. A kernel without sync points runs in the CTA form. Any other kernel runs in phases
//! while the threads of each warp stay converged. After the threads have diverged,
//! [`margay_exec::CtaState`] schedules the native regions of the kernel ([`native_cta`]). If the
//! compiler does not support a kernel, [`margay_exec::CtaState`] schedules the threads that the
//! interpreter runs ([`interpreted`]).
//!
//! Invariant: generated code is registered with [`crate::fault::register_code`] before it is entered, and is entered
//! only through [`crate::fault::enter`].

mod bodies;
mod cache;
mod compile;
mod disk;
mod fallback;
mod faults;
mod fetch;
mod function_table;
mod hang;
mod helpers;
mod image;
mod interpreted;
mod kernel;
mod launch;
mod link;
#[cfg(test)]
mod many_kernels_tests;
mod native_cta;
mod observe;
#[cfg(test)]
mod observe_tests;
mod products;
mod reach;
mod recording;
mod shared;
mod sync_points;
mod textures;
mod tier;
mod turns;
mod unit;

pub(crate) use compile::guarded;
pub(crate) use disk::Caching;
pub(crate) use image::{PtxLoader, compiler, linked};
pub(crate) use margay_ir::pass::instrument::Request;
