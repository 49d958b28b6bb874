//! A position in the text, and methods that read words, punctuation marks and numbers at that position. The methods
//! skip spaces and comments before each word, mark and number. They skip a line end only where the grammar requires
//! one.

use std::str::FromStr;

use super::{MAX_GAPS, ParseError, Parsed};
use crate::print::words::in_word;

/// The text and the current position in it.
#[derive(Debug)]
pub struct Cursor<'a> {
    text: &'a str,
    at: usize,
    /// How many more values and blocks the parser may create. If the text uses `v9`, the parser creates the
    /// values `v0` to `v9`, even if the text does not use all of them. This limit prevents a short text with a large
    /// number from using much memory.
    gaps: usize,
}

impl<'a> Cursor<'a> {
    /// Creates a cursor at the start of the text.
    pub fn new(text: &'a str) -> Cursor<'a> {
        Cursor {
            text,
            at: 0,
            gaps: MAX_GAPS.saturating_add(text.len()),
        }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Skips spaces and returns the current position as a byte offset. The caller needs the position if it finds an
    /// error after it has read more text.
    pub fn position(&mut self) -> usize {
        self.skip_spaces();
        self.at
    }

    /// Creates an error at the byte offset `at`.
    pub fn error_at(&self, at: usize, message: impl Into<String>) -> ParseError {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = 1 + before.bytes().filter(|&b| b == b'\n').count();
        let column = 1 + before[line_start..].chars().count();
        ParseError {
            line: u32::try_from(line).unwrap_or(u32::MAX),
            column: u32::try_from(column).unwrap_or(u32::MAX),
            message: message.into(),
        }
    }

    /// Creates an error at the current position that states what the parser expects and what it found.
    pub fn expected(&mut self, what: &str) -> ParseError {
        let at = self.position();
        let rest = self.rest();
        let word: String = rest.chars().take_while(|&c| in_word(c)).take(40).collect();
        let found = match (word.as_str(), rest.chars().next()) {
            ("", None) => "the end of the text".to_owned(),
            ("", Some('\n' | '\r')) => "the end of the line".to_owned(),
            ("", Some(c)) => format!("`{}`", c.escape_debug()),
            (word, _) => format!("`{word}`"),
        };
        self.error_at(at, format!("{what} is expected, {found} is found"))
    }

    fn skip_spaces(&mut self) {
        let rest = self.rest();
        let trimmed = rest.trim_start_matches([' ', '\t', '\r']);
        self.at += rest.len() - trimmed.len();
        if trimmed.starts_with("//") {
            self.at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }

    /// Skips empty lines.
    pub fn skip_lines(&mut self) {
        self.skip_spaces();
        while self.rest().starts_with('\n') {
            self.at += 1;
            self.skip_spaces();
        }
    }

    /// Returns the next character without reading it.
    pub fn peek(&mut self) -> Option<char> {
        self.skip_spaces();
        self.rest().chars().next()
    }

    /// Returns whether the line ends at the current position.
    pub fn at_line_end(&mut self) -> bool {
        matches!(self.peek(), None | Some('\n'))
    }

    /// Reads the end of the line and the empty lines behind it.
    pub fn line_end(&mut self) -> Parsed<()> {
        if !self.at_line_end() {
            return Err(self.expected("the end of the line"));
        }
        self.skip_lines();
        Ok(())
    }

    /// Returns an error unless the text ends at the current position.
    pub fn end_of_text(&mut self) -> Parsed<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.expected("the end of the text")),
        }
    }

    /// If the text continues with `mark`, reads `mark` and returns true; otherwise returns false.
    pub fn accept(&mut self, mark: &str) -> bool {
        self.skip_spaces();
        let there = self.rest().starts_with(mark);
        if there {
            self.at += mark.len();
        }
        there
    }

    /// Reads the punctuation mark `mark`.
    pub fn mark(&mut self, mark: &str) -> Parsed<()> {
        if self.accept(mark) {
            return Ok(());
        }
        Err(self.expected(&format!("`{mark}`")))
    }

    /// Returns the next word without reading it; returns an empty string if no word comes next.
    pub fn peek_word(&mut self) -> &'a str {
        self.skip_spaces();
        let rest = self.rest();
        let end = rest.find(|c| !in_word(c)).unwrap_or(rest.len());
        &rest[..end]
    }

    /// Reads the next word; returns an empty string if no word comes next.
    pub fn word(&mut self) -> &'a str {
        let word = self.peek_word();
        self.at += word.len();
        word
    }

    /// If the next word is `word`, reads it and returns true; otherwise returns false.
    pub fn accept_word(&mut self, word: &str) -> bool {
        let there = self.peek_word() == word;
        if there {
            self.at += word.len();
        }
        there
    }

    /// Reads the mark behind an item of a list that ends with the mark `end`. Returns whether another item follows: true
    /// if the mark is a comma, and false if it is `end`.
    pub fn more_before(&mut self, end: &str) -> Parsed<bool> {
        if self.accept(end) {
            return Ok(false);
        }
        if self.accept(",") {
            return Ok(true);
        }
        Err(self.expected(&format!("`,` or `{end}`")))
    }

    /// Reads the word `word`.
    pub fn keyword(&mut self, word: &str) -> Parsed<()> {
        if self.accept_word(word) {
            return Ok(());
        }
        Err(self.expected(&format!("`{word}`")))
    }

    /// Reads the next word and returns the result of `read` for this word. Returns an error if the
    /// result is `None`; `what` describes the expected word.
    pub fn word_as<T>(&mut self, what: &str, read: impl FnOnce(&str) -> Option<T>) -> Parsed<T> {
        match read(self.peek_word()) {
            Some(value) => {
                self.word();
                Ok(value)
            }
            None => Err(self.expected(what)),
        }
    }

    /// Reads a decimal number. If the next word is not such a number, returns an error; `what`
    /// describes the expected number.
    pub fn number<T: FromStr>(&mut self, what: &str) -> Parsed<T> {
        self.word_as(what, |word| digits(word)?.parse().ok())
    }

    /// Reads the keyword `word` and the decimal number after it.
    pub fn number_of<T: FromStr>(&mut self, word: &str) -> Parsed<T> {
        self.keyword(word)?;
        self.number("a number")
    }

    /// Reads a decimal number with an optional sign.
    pub fn signed<T: FromStr>(&mut self) -> Parsed<T> {
        let at = self.position();
        let sign = if self.accept("-") {
            "-"
        } else {
            self.accept("+");
            ""
        };
        let text = format!("{sign}{}", digits(self.peek_word()).unwrap_or("?"));
        match text.parse() {
            Ok(value) => {
                self.word();
                Ok(value)
            }
            Err(_) => {
                self.at = at;
                Err(self.expected("a number in range"))
            }
        }
    }

    /// Reads a hexadecimal number with its prefix `0x`.
    pub fn hex(&mut self) -> Parsed<u64> {
        self.word_as("a hexadecimal number of up to 64 bits", |word| {
            let digits = word.strip_prefix("0x")?;
            let plain = digits.bytes().all(|b| b.is_ascii_hexdigit());
            plain.then(|| u64::from_str_radix(digits, 16).ok())?
        })
    }

    /// Reads an entity such as `v12`, whose name begins with `prefix`, and returns its number.
    pub fn entity(&mut self, prefix: &str, what: &str) -> Parsed<u32> {
        self.word_as(what, |word| entity_number(word, prefix))
    }

    /// Reads the text up to the next `mark`, which must be on the same line, and the mark itself. Returns the text
    /// before the mark.
    pub fn until(&mut self, mark: char) -> Parsed<&'a str> {
        let rest = self.rest();
        let line = rest.split('\n').next().unwrap_or_default();
        match line.find(mark) {
            Some(end) => {
                self.at += end + mark.len_utf8();
                Ok(&line[..end])
            }
            None => Err(self.expected(&format!("a `{mark}` on this line"))),
        }
    }

    /// Reads `@name` or `@"any text"`.
    pub fn name(&mut self) -> Parsed<String> {
        if !self.accept("@") {
            return Err(self.expected("a name with `@`"));
        }
        if self.rest().starts_with('"') {
            return self.quoted();
        }
        match self.word() {
            "" => Err(self.expected("a name")),
            word => Ok(word.to_owned()),
        }
    }

    /// Reads text in quotes.
    pub fn quoted(&mut self) -> Parsed<String> {
        let start = self.position();
        self.mark("\"")?;
        let mut text = String::new();
        loop {
            let mut chars = self.rest().chars();
            match chars.next() {
                None | Some('\n') => return Err(self.error_at(start, "the quote is not closed")),
                Some('"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some('\\') => {
                    self.at += 1;
                    text.push(self.escaped()?);
                }
                Some(c) => {
                    self.at += c.len_utf8();
                    text.push(c);
                }
            }
        }
    }

    /// Reads the characters of an escape sequence after its backslash, and returns the character that the sequence
    /// represents.
    fn escaped(&mut self) -> Parsed<char> {
        let at = self.at;
        let rest = self.rest();
        if rest.starts_with(['"', '\\']) {
            self.at += 1;
            return Ok(if rest.starts_with('"') { '"' } else { '\\' });
        }
        if rest.starts_with("u{") {
            self.at += 2;
            let code = u32::from_str_radix(self.until('}')?, 16).ok();
            if let Some(c) = code.and_then(char::from_u32) {
                return Ok(c);
            }
        }
        Err(self.error_at(
            at,
            "unknown escape; the escapes are \\\", \\\\ and \\u{...}",
        ))
    }

    /// Subtracts `count` from the number of values and blocks that the parser may still create.
    ///
    /// # Errors
    ///
    /// Returns an error at the byte offset `at` if the parser may not create `count` more values and blocks.
    pub fn spend(&mut self, at: usize, count: usize) -> Parsed<()> {
        match self.gaps.checked_sub(count) {
            Some(left) => {
                self.gaps = left;
                Ok(())
            }
            None => Err(self.error_at(at, "the numbers of values and blocks have too many gaps")),
        }
    }
}

/// Returns `word` if it consists of digits only; `None` otherwise.
fn digits(word: &str) -> Option<&str> {
    let plain = !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    plain.then_some(word)
}

/// Returns the number in a word such as `v12` or `block3`.
pub fn entity_number(word: &str, prefix: &str) -> Option<u32> {
    digits(word.strip_prefix(prefix)?)?.parse().ok()
}
