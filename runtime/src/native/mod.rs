//! The built-in engine: compiles PTX to native code, and uses the interpreter for kernels that native code does not
//! support.
//!
//! [`PtxLoader`] reads images, lowers them and provides one [`Engine`](crate::engine::Engine) per kernel. A kernel
//! without sync points runs in the CTA form. Any other kernel runs in phases while the threads of each warp stay
//! converged. Otherwise [`margay_exec::CtaState`] schedules native regions ([`native_cta`]), or the interpreter
//! ([`interpreted`]) if native code does not support the kernel.
//!
//! Invariant: generated code is entered only through [`crate::fault::enter`], and is registered before that.

mod bodies;
mod cache;
mod compile;
mod disk;
mod fallback;
mod faults;
mod fetch;
mod helpers;
mod image;
mod interpreted;
mod kernel;
mod launch;
mod link;
mod native_cta;
mod products;
mod reach;
mod shared;
mod sync_points;
mod textures;
mod tier;
mod unit;

pub(crate) use disk::Caching;
pub(crate) use image::{PtxLoader, compiler, linked};
