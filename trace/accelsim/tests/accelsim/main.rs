//! Tests of the crate through files, with expected values from the format's description and the original tools.

mod addresses;
mod faults;
mod files;
mod random;
mod support;
mod tools;
mod version6;
