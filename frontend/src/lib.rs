//! Reads PTX text and the files that contain PTX text, and creates checked syntax trees and IR.
//!
//! [`parse`] turns a [`SourceFile`] into a [`Parsed`]: a syntax tree ([`ast::Module`]), which exists for every input,
//! and [`Diagnostic`]s for the errors in the text. [`resolve`] checks the tree and [`lower()`] translates it to IR.
//! Invariant: no input makes this crate panic or loop forever.
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
pub use lower::{LazyModule, lower, lower_observed};
pub use parser::parse;
pub use source::{LineColumn, SourceFile, Span};

use std::sync::Arc;

/// The result of parsing a text: its syntax tree, which always exists, and the problems that the parser found.
#[derive(Debug)]
pub struct Parsed {
    /// The source text, in which all spans are ranges.
    pub source: Arc<SourceFile>,
    /// The syntax tree. Statements and declarations with syntax errors can be missing in the tree.
    pub module: ast::Module,
    /// The errors and warnings, in the order of their positions.
    pub diagnostics: Vec<Diagnostic>,
}

impl Parsed {
    /// True if there is at least one error (warnings do not count).
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
}
