//! PTX text and containers in, checked syntax trees and IR out.
#![forbid(unsafe_code)]

pub mod container;
