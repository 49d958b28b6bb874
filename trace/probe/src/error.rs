//! The error of this crate: a place in a file, the probe that it concerns, and what is wrong.

use std::fmt;

/// An error in a probe file, or a probe that does not fit a kernel.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct Error {
    /// The name of the file: the probe file, or the PTX text for a probe that does not fit an instruction.
    pub file: String,
    /// The line in the file, from 1; 0 if the error concerns the whole file.
    pub line: u32,
    /// The name of the probe or map that the error concerns.
    pub subject: Option<String>,
    /// What is wrong.
    pub message: String,
}

impl Error {
    /// Creates an error that concerns a line of a file.
    pub fn new(file: impl Into<String>, line: u32, message: impl Into<String>) -> Error {
        Error {
            file: file.into(),
            line,
            subject: None,
            message: message.into(),
        }
    }

    /// Adds the name of the probe or map that the error concerns.
    #[must_use]
    pub fn about(mut self, subject: impl Into<String>) -> Error {
        self.subject = Some(subject.into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        match &self.subject {
            Some(subject) => write!(f, ": `{subject}`: {}", self.message),
            None => write!(f, ": {}", self.message),
        }
    }
}

/// Returns the line, from 1, of the byte offset `offset` in `text`.
pub(crate) fn line_of(text: &str, offset: usize) -> u32 {
    let before = &text.as_bytes()[..offset.min(text.len())];
    let lines = before.iter().filter(|&&byte| byte == b'\n').count();
    u32::try_from(lines).unwrap_or(u32::MAX - 1) + 1
}
