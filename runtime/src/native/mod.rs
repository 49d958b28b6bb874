//! The engine that is built in: PTX to native code, and the interpreter for what native code cannot
//! do.
//!
//! [`PtxLoader`] reads images, lowers them and gives one [`Engine`](crate::engine::Engine) a kernel.
//! A launch of a kernel in which no thread waits for another runs in the CTA form; any other in phases,
//! as long as the threads of each warp stay together, and else driven by
//! [`margay_exec::CtaState`] over native regions ([`native_cta`]), or over the interpreter
//! ([`interpreted`]) when the kernel holds something native code refuses.
//!
//! Invariant: generated code is entered through [`crate::fault::enter`] alone and registered before
//! it is.

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
mod pace;
mod points;
mod products;
mod reach;
mod shared;
mod textures;
mod unit;

pub(crate) use disk::Caching;
pub(crate) use image::{PtxLoader, compiler, linked};
