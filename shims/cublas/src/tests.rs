//! Tests of the whole crate, with a driver that runs work at once ([`crate::fake`]).

mod abi;
mod calls;
mod lt;
mod raw;
mod statuses;
mod walk;
