//! The data of NVTX: tables of function slots, attributes of events, and a registry of what a program names.
//!
//! A program that uses NVTX contains a client, which asks an injected library to fill tables with functions. This module
//! states which function belongs to which slot ([`Module`]), decodes the attributes that these functions receive
//! ([`Attributes`]), and keeps domains, strings, categories and open ranges ([`Registry`]). It reads no memory of the
//! program: the caller copies the bytes of attributes and strings.

mod attributes;
mod registry;
mod slots;

pub use attributes::{Args, AttributeError, Attributes, Colour, Message, Payload};
pub use registry::{OpenRange, Registry};
pub use slots::Module;
