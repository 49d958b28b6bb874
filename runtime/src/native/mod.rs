//! The built-in engine: compiles PTX to native code, and runs kernels that the compiler does not support in the
//! interpreter.
//!
//! [`PtxLoader`] reads images, lowers them and provides one [`Engine`](crate::engine::Engine) for
//! each kernel. In launches without clusters, a kernel without sync points runs in the CTA form, and
//! any other kernel runs in phases. [`margay_exec::CtaState`] schedules the native regions of the
//! kernel ([`native_cta`]) if a CTA cannot continue in phases, for example because its threads have
//! diverged or wait for memory, if the kernel has no code for phases, if the runtime reverses the
//! order of threads, and at the beginning of the CTAs of clusters. If the compiler does not support a
//! kernel, [`margay_exec::CtaState`] schedules the threads that the interpreter runs
//! ([`interpreted`]).
//!
//! Invariant: generated code is registered with [`crate::fault::register_code`] before it is entered, and is entered
//! only through [`crate::fault::enter`].

mod bodies;
mod cache;
mod compile;
mod disk;
mod exact;
mod fallback;
mod faults;
mod fetch;
mod function_table;
#[cfg(test)]
mod grid_barrier_tests;
mod hang;
mod helpers;
mod image;
mod interpreted;
#[cfg(test)]
mod joint_tests;
mod kernel;
mod kernel_store;
mod launch;
mod link;
mod machine;
#[cfg(test)]
mod many_kernels_tests;
mod native_cta;
mod observe;
#[cfg(test)]
mod observe_tests;
mod preparation;
mod products;
mod reach;
mod recording;
mod shared;
mod sync_points;
mod textures;
mod tier;
#[cfg(test)]
mod tier_tests;
mod turns;
mod unit;

pub(crate) use compile::guarded;
pub(crate) use disk::Caching;
pub(crate) use image::{PtxLoader, compiler, linked};
pub(crate) use margay_ir::pass::instrument::Request;
