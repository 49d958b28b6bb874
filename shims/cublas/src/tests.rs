//! Tests of the whole crate, with a driver that runs work at once ([`crate::fake`]).

#![allow(
    clippy::double_ended_iterator_last,
    clippy::unnecessary_mut_passed,
    clippy::useless_vec,
    reason = "the functions write through the addresses that tests pass as numbers"
)]

mod abi;
mod calls;
mod lt;
mod lt_scales;
mod raw;
mod statuses;
mod walk;
mod walk_lt;
