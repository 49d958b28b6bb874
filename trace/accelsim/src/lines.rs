//! Lines of text with limits.

use std::fmt;
use std::io::{BufRead, BufReader, Read};

use crate::error::Fault;
use crate::options::MAX_LINE;

/// The lines of a source. The last one may lack its newline.
pub(crate) struct Lines<R> {
    source: BufReader<R>,
    line: Vec<u8>,
    number: u64,
    bytes: u64,
    max_bytes: u64,
}

impl<R> fmt::Debug for Lines<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines")
            .field("number", &self.number)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

/// Large enough that virtual calls and decompression in pieces cost little.
const BUFFER: usize = 64 * 1024;

impl<R: Read> Lines<R> {
    /// Returns the lines of `source`, whose text may have `max_bytes`.
    pub(crate) fn new(source: R, max_bytes: u64) -> Lines<R> {
        Lines {
            source: BufReader::with_capacity(BUFFER, source),
            line: Vec::new(),
            number: 0,
            bytes: 0,
            max_bytes,
        }
    }

    /// Reads the next line, which [`Lines::current`] returns without its newline. Returns whether there is one.
    pub(crate) fn advance(&mut self) -> Result<bool, Fault> {
        self.line.clear();
        let mut limited = self.source.by_ref().take(MAX_LINE as u64 + 1);
        let length = limited.read_until(b'\n', &mut self.line);
        let length = length.map_err(|error| Fault::io(&error))?;
        if length == 0 {
            return Ok(false);
        }
        self.number += 1;
        self.bytes += length as u64;
        if self.bytes > self.max_bytes {
            return Err(Fault::TextTooLarge(self.max_bytes));
        }
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        }
        self.check().map(|()| true)
    }

    fn check(&self) -> Result<(), Fault> {
        if self.line.len() > MAX_LINE {
            return Err(Fault::LineTooLong(MAX_LINE));
        }
        if self.line.contains(&0) {
            return Err(Fault::Nul);
        }
        std::str::from_utf8(&self.line)
            .map(|_| ())
            .map_err(|_| Fault::Utf8)
    }

    /// Returns the line that was read last.
    pub(crate) fn current(&self) -> &[u8] {
        &self.line
    }

    /// Returns the number of the line that was read last, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the source, to which more may be added after its end.
    pub(crate) fn source_mut(&mut self) -> &mut R {
        self.source.get_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &[u8], max_bytes: u64) -> Result<Vec<Vec<u8>>, Fault> {
        let mut lines = Lines::new(text, max_bytes);
        let mut found = Vec::new();
        while lines.advance()? {
            found.push(lines.current().to_vec());
            assert_eq!(lines.number(), found.len() as u64);
        }
        Ok(found)
    }

    #[test]
    fn the_last_line_may_lack_its_newline() {
        assert_eq!(
            all(b"a\n\nb", 9).unwrap(),
            [b"a".to_vec(), vec![], b"b".to_vec()]
        );
        assert_eq!(all(b"a\n", 9).unwrap(), [b"a".to_vec()]);
    }

    #[test]
    fn lines_are_limited() {
        let longest = vec![b'x'; MAX_LINE];
        assert!(all(&longest, u64::MAX).is_ok());
        let line = [longest.as_slice(), b"\n"].concat();
        assert!(all(&line, u64::MAX).is_ok());
        let line = [longest.as_slice(), b"x\n"].concat();
        assert_eq!(all(&line, u64::MAX), Err(Fault::LineTooLong(MAX_LINE)));
        assert_eq!(all(b"a\0b", 9), Err(Fault::Nul));
        assert_eq!(all(b"\xff", 9), Err(Fault::Utf8));
        assert_eq!(all(b"\n\n\n", 2), Err(Fault::TextTooLarge(2)));
    }
}
