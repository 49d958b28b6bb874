//! Tests of whole files: they are read by decoders that share no code with the crate.

mod chrome;
mod early;
mod file;
mod nesting;
mod perfetto;
mod proto;
mod reader;
mod threads;
