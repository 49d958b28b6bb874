//! Source text and positions in it.
//!
//! The front end refers to positions in a [`SourceFile`] by [`Span`], a pair of byte offsets. The parser reads at most
//! the first [`SourceFile::MAX_LEN`] bytes of a text, so an offset always fits in a `u32`. Invariant: the text is valid
//! UTF-8; invalid bytes are replaced when the file is created.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

/// A half-open range of byte offsets in one source file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
pub struct Span {
    /// The offset of the first byte in the range.
    pub start: u32,
    /// The offset of the first byte after the range.
    pub end: u32,
}

impl Span {
    /// Creates the span of the bytes from `start` to `end`, excluding the byte at `end`.
    pub const fn new(start: u32, end: u32) -> Self {
        Span { start, end }
    }

    /// Creates the empty span at `offset`.
    pub const fn at(offset: u32) -> Self {
        Span::new(offset, offset)
    }

    /// Returns the smallest span that contains all bytes of `self` and `other`.
    #[must_use]
    pub fn to(self, other: Span) -> Span {
        Span::new(self.start.min(other.start), self.end.max(other.end))
    }

    /// Returns the number of bytes in the span.
    pub const fn len(self) -> u32 {
        self.end.saturating_sub(self.start)
    }

    /// Whether the span contains no bytes. For example, the span that represents the end of the file is empty.
    pub const fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// Returns the span as a range that indexes the file's text.
    pub const fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// A position in a source text, in the format that messages use. Lines and columns are numbered
/// from one. Columns count characters, not bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct LineColumn {
    /// Line, from one.
    pub line: u32,
    /// Column, from one.
    pub column: u32,
}

/// A PTX text with a name, such as the path of its file.
#[derive(Debug, Default)]
pub struct SourceFile {
    name: String,
    text: String,
    line_starts: OnceLock<Vec<u32>>,
}

impl SourceFile {
    /// The maximum length of a text that the parser can read, in bytes. If a text is longer, the
    /// parser does not read the rest and adds an error to the diagnostics.
    pub const MAX_LEN: usize = u32::MAX as usize - 1;

    /// Creates a source file from a name and a text. Only messages contain the name.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        SourceFile {
            name: name.into(),
            text: text.into(),
            line_starts: OnceLock::new(),
        }
    }

    /// Creates a source file from bytes of unknown encoding. Bytes that are not UTF-8 are replaced
    /// by U+FFFD, which PTX permits only in comments and strings.
    pub fn from_bytes(name: impl Into<String>, bytes: &[u8]) -> Self {
        let text = match String::from_utf8_lossy(bytes) {
            Cow::Borrowed(text) => text.to_owned(),
            Cow::Owned(text) => text,
        };
        SourceFile::new(name, text)
    }

    /// Returns the name of the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the whole text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text of `span`. Returns an empty text if the span is not inside this file or not on character
    /// boundaries.
    pub fn slice(&self, span: Span) -> &str {
        self.text.get(span.range()).unwrap_or("")
    }

    /// Returns the line and the column of the byte at `offset`. For an offset beyond the end of the
    /// text, returns the position of the end.
    pub fn line_column(&self, offset: u32) -> LineColumn {
        let starts = self.line_starts();
        let offset = (offset as usize).min(self.text.len());
        let line = starts.partition_point(|&start| start as usize <= offset);
        let start = starts.get(line.wrapping_sub(1)).map_or(0, |&s| s as usize);
        let column = self.text.as_bytes()[start..offset]
            .iter()
            .filter(|&&byte| byte & 0xC0 != 0x80)
            .count();
        LineColumn {
            line: line as u32,
            column: column as u32 + 1,
        }
    }

    /// Returns the byte offset at which each line starts. The offsets are computed on first use, because only messages
    /// and line tables need them.
    fn line_starts(&self) -> &[u32] {
        self.line_starts.get_or_init(|| {
            // No message refers to the bytes that the parser does not read.
            let read = self.text.bytes().take(SourceFile::MAX_LEN);
            let newlines = read.enumerate().filter(|&(_, b)| b == b'\n');
            std::iter::once(0)
                .chain(newlines.map(|(i, _)| i as u32 + 1))
                .collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_characters_from_one() {
        let file = SourceFile::new("t", "ab\nü x\n");
        let at = |offset| {
            let position = file.line_column(offset);
            (position.line, position.column)
        };
        assert_eq!(at(0), (1, 1));
        assert_eq!(at(2), (1, 3));
        assert_eq!(at(3), (2, 1));
        assert_eq!(at(6), (2, 3), "the two bytes of ü are one column");
        assert_eq!(at(8), (3, 1));
        assert_eq!(at(900), (3, 1));
    }

    #[test]
    fn bytes_that_are_not_utf8_are_replaced() {
        let file = SourceFile::from_bytes("t", b"// \xE9\nret;");
        assert_eq!(file.text(), "// \u{FFFD}\nret;");
    }
}
