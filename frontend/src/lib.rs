//! PTX text and containers in, checked syntax trees and IR out.
//!
//! [`parse`] turns a [`SourceFile`] into a [`Parsed`]: a syntax tree ([`ast::Module`]) that is always
//! there, and [`Diagnostic`]s for what is wrong with the text. Resolution and lowering work on the
//! tree. Invariant: no input, however broken, makes this crate panic or run without end.
#![forbid(unsafe_code)]

pub mod ast;
mod code;
pub mod container;
pub mod diagnostic;
pub mod lexer;
mod lower;
mod parser;
pub mod resolve;
pub mod source;

pub use code::Code;
pub use diagnostic::{Diagnostic, Severity};
pub use lower::{LazyModule, lower};
pub use parser::parse;
pub use source::{LineColumn, SourceFile, Span};

use std::sync::Arc;

/// What parsing gives: always a tree, and what was wrong.
#[derive(Debug)]
pub struct Parsed {
    /// The text that all spans point into.
    pub source: Arc<SourceFile>,
    /// The tree; without the parts that could not be understood.
    pub module: ast::Module,
    /// Problems in the order of their places.
    pub diagnostics: Vec<Diagnostic>,
}

impl Parsed {
    /// True if there is at least one error (warnings do not count).
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
}
