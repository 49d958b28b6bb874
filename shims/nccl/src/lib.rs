//! `libnccl.so.2`: NCCL's functions for the ranks of one process and of several processes on one host.
//!
//! NVIDIA's library has its kernels as PTX for one architecture only, and its kernels wait for each other in loops. This
//! library does the same work with native kernels ([`driver`]): an operation is a few kernels of each rank's stream, between
//! which the streams wait for words in memory that the ranks share ([`control`]). So operations run in the order of their
//! streams, can be captured in graphs, and no worker waits for another.
//!
//! - [`api`] exports the functions; [`setup`] and [`calls`] check their arguments; [`group`] implements groups.
//! - [`comm`] contains communicators, [`collective`] the operations of all ranks, [`exchange`], [`matching`] and [`proxy`] messages.
//! - [`reduce`] computes sums and other reductions in the order of the ranks, so results are the same in all runs.
//!
//! Ranks on several hosts are an error. A program can use NVIDIA's library with `MARGAY_NCCL=nvidia`.

pub mod api;
mod calls;
mod collective;
mod comm;
mod control;
mod driver;
mod exchange;
#[cfg(test)]
mod fake;
mod group;
mod launch;
mod matching;
mod pending;
mod place;
mod proxy;
mod reduce;
mod setup;
mod status;
#[cfg(test)]
mod tests;
