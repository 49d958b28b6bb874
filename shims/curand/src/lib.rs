//! `libcurand.so.10`: the host interface of cuRAND, computed on Margay's workers.
//!
//! The libraries of CUDA 12 and CUDA 13 have the same name, functions and symbol versions, so one library replaces both.
//! A call of a generator for device memory becomes a native kernel of the driver ([`driver`]): it runs in stream order on
//! the driver's workers, can be captured in graphs, and is seen by tools. A host generator makes its results in the call.
//!
//! Invariants:
//! - No panic propagates out of a function ([`api`]).
//! - Results do not depend on the number of workers: a task makes the results of a fixed set of lanes ([`pool`]) or points
//!   ([`quasi`]).
//! - The bits of integer and uniform results are those of NVIDIA's library for CUDA 12.

#![allow(non_snake_case, reason = "the names of functions are NVIDIA's")]

pub mod api;
mod clmul;
mod convert;
mod distribution;
mod driver;
mod engine;
mod field;
mod generator;
mod mrg;
mod mt19937;
mod mtgp;
mod original;
mod output;
mod philox;
mod poisson;
mod pool;
mod quasi;
mod sobol;
mod status;
#[cfg(test)]
mod tests;
mod xorwow;
