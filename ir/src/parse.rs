//! Parses the IR's text form (see [`mod@crate::print`]).
//!
//! The parser is for tests and for people who write or change IR by hand. It stops at the first error and reports the
//! line, the column and what was expected. It checks only what it needs to build a module: that the names of ops, types
//! and modifiers exist, and that each value and each block to which the text refers is defined exactly once.
//! [`crate::verify`] checks everything else.
//!
//! Invariant: the parser does not panic on any text, and its memory is bounded by the length of the text. The numbers
//! of values and blocks may have gaps, but the parser limits the total number of values and blocks ([`MAX_GAPS`]).

pub mod cursor;
mod function;
mod instruction;
mod module;

use std::fmt;

use crate::function::Function;
use crate::module::Module;
use cursor::Cursor;

/// A text of `n` bytes may have at most `n + MAX_GAPS` values and blocks in total. In each function, every number from
/// 0 to the largest number counts, whether or not the text uses it.
pub const MAX_GAPS: usize = 1 << 20;

/// An error in a text: its position and a description.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseError {
    /// Line of the error's position, counted from 1.
    pub line: u32,
    /// Column of the error's position in characters, counted from 1.
    pub column: u32,
    /// Description of the error.
    pub message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for ParseError {}

/// The result of parsing a part of a text.
pub type Parsed<T> = Result<T, ParseError>;

pub use instruction::desc;

/// Parses a module.
///
/// # Errors
///
/// Returns the first error in the text.
pub fn module(text: &str) -> Result<Module, ParseError> {
    module::module(&mut Cursor::new(text))
}

/// Parses a single function.
///
/// # Errors
///
/// Returns the first error in the text.
pub fn function(text: &str) -> Result<Function, ParseError> {
    let mut cursor = Cursor::new(text);
    cursor.skip_lines();
    let function = function::function(&mut cursor)?;
    cursor.skip_lines();
    cursor.end_of_text()?;
    Ok(function)
}
