//! The arguments of a call of the driver API, as C passes them.

use std::fmt;

/// An argument of an entry point that the trace of calls can print.
pub(crate) trait Traced {
    /// Writes the argument.
    fn trace(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

/// The names and values of a call's arguments.
pub(crate) type Arguments<'a> = &'a [(&'static str, &'a dyn Traced)];
