//! The syntax of configuration files: `-option value`, comments from `#` to the end of the line, values in double quotes
//! that may continue on further lines.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::ConfigError;

/// The maximum size of a file in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// An option with its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FileOption {
    /// The line of the name.
    pub(crate) line: u64,
    /// The name with its minus sign.
    pub(crate) name: String,
    /// The value without quotes.
    pub(crate) value: String,
}

/// Reads a file.
pub(crate) fn read(path: &Path) -> Result<String, ConfigError> {
    let error = |message: String| ConfigError {
        path: path.to_owned(),
        line: 0,
        message,
    };
    let file = File::open(path).map_err(|fault| error(fault.to_string()))?;
    let mut text = String::new();
    let size = file.take(MAX_BYTES + 1).read_to_string(&mut text);
    match size.map_err(|fault| error(fault.to_string()))? as u64 {
        0..=MAX_BYTES => Ok(text),
        _ => Err(error(format!("the file is larger than {MAX_BYTES} bytes"))),
    }
}

struct Token {
    line: u64,
    text: String,
    quoted: bool,
}

impl Token {
    /// A minus sign and a letter. `-1` is a value.
    fn is_option(&self) -> bool {
        let mut letters = self.text.chars();
        let begins = letters.next() == Some('-');
        begins
            && !self.quoted
            && letters
                .next()
                .is_some_and(|letter| letter.is_ascii_alphabetic())
    }
}

/// Returns all options in order.
pub(crate) fn options(path: &Path, text: &str) -> Result<Vec<FileOption>, ConfigError> {
    let error = |line, message: String| ConfigError {
        path: path.to_owned(),
        line,
        message,
    };
    let mut tokens = tokens(text)
        .map_err(|line| error(line, "a quoted value does not end".to_owned()))?
        .into_iter();
    let mut options = Vec::new();
    while let Some(name) = tokens.next() {
        if !name.is_option() {
            return Err(error(
                name.line,
                format!("expected an option, found {:?}", name.text),
            ));
        }
        match tokens.next().filter(|value| !value.is_option()) {
            Some(value) => options.push(FileOption {
                line: name.line,
                name: name.text,
                value: value.text,
            }),
            None => {
                return Err(error(
                    name.line,
                    format!("option {} has no value", name.text),
                ));
            }
        }
    }
    Ok(options)
}

/// Returns all tokens, or the line of a quote that does not end.
fn tokens(text: &str) -> Result<Vec<Token>, u64> {
    let mut tokens = Vec::new();
    let mut open: Option<Token> = None;
    for (number, line) in text.lines().enumerate() {
        let line_number = number as u64 + 1;
        let line = line.split('#').next().unwrap_or_default();
        // Every second part lies in quotes. The quote of a previous line goes on.
        for (index, part) in line.split('"').enumerate() {
            if index > 0 {
                open = match open.take() {
                    Some(token) => {
                        tokens.push(token);
                        None
                    }
                    None => Some(Token {
                        line: line_number,
                        text: String::new(),
                        quoted: true,
                    }),
                };
            }
            match &mut open {
                // The parts of a quoted value have no white space between them.
                Some(token) => token.text.extend(part.split_whitespace()),
                None => tokens.extend(part.split_whitespace().map(|text| Token {
                    line: line_number,
                    text: text.to_owned(),
                    quoted: false,
                })),
            }
        }
    }
    match open {
        Some(token) => Err(token.line),
        None => Ok(tokens),
    }
}
