//! Reads the IR's text form (see [`mod@crate::print`]).
//!
//! The parser is for people who write or change IR by hand and for tests: the first mistake ends it,
//! with line, column and what was expected. It checks what it must to build a module (names of ops,
//! types and modifiers, each value defined once); whether the module makes sense is for
//! [`crate::verify`] to say.
//!
//! Invariant: no text makes it panic, and memory is bounded by the text's length (numbers of values
//! and blocks may leave gaps, but only [`MAX_GAPS`] together).

mod cursor;
mod function;
mod instruction;
mod module;

use std::fmt;

use crate::function::Function;
use crate::module::Module;
use cursor::Cursor;

/// So many numbers of values and blocks may be left out in a text, besides one for each of its bytes.
pub const MAX_GAPS: usize = 1 << 20;

/// Where a text is wrong and what was expected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseError {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for ParseError {}

type Parsed<T> = Result<T, ParseError>;

/// Reads a module.
///
/// # Errors
///
/// The first place where the text is not a module's.
pub fn module(text: &str) -> Result<Module, ParseError> {
    module::module(&mut Cursor::new(text))
}

/// Reads one function.
///
/// # Errors
///
/// The first place where the text is not a function's.
pub fn function(text: &str) -> Result<Function, ParseError> {
    let mut cursor = Cursor::new(text);
    cursor.skip_lines();
    let function = function::function(&mut cursor)?;
    cursor.skip_lines();
    cursor.end_of_text()?;
    Ok(function)
}
