//! Reads the source files that reports quote.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

use margay_cli::input;

/// The maximum size in bytes of a source file. Larger files are not read.
const LARGEST: u64 = 16 << 20;
/// The maximum number of characters of a source line that reports quote.
const LONGEST: usize = 200;
/// Number of columns between tab stops.
const TAB: usize = 4;

/// The lines of source files; each file is read once.
#[derive(Default)]
pub(crate) struct Sources(RefCell<HashMap<String, Option<Rc<[String]>>>>);

impl Sources {
    fn lines(&self, file: &str) -> Option<Rc<[String]>> {
        let mut files = self.0.borrow_mut();
        let lines = files.entry(file.to_owned()).or_insert_with(|| read(file));
        lines.clone()
    }

    /// Returns the text of line number `line` of `file`, without white space at both ends; `None`
    /// if the line is blank or cannot be read.
    pub(crate) fn line(&self, file: &str, line: u64) -> Option<String> {
        let index = usize::try_from(line.checked_sub(1)?).ok()?;
        let text = self.lines(file)?.get(index)?.trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// Returns the numbers and texts of up to `radius` lines before line number `line` of `file`,
    /// of this line, and of up to `radius` lines after it.
    pub(crate) fn around(&self, file: &str, line: u64, radius: u64) -> Vec<(u64, String)> {
        let Some(lines) = self.lines(file) else {
            return Vec::new();
        };
        let last = lines.len() as u64;
        if line == 0 || line > last {
            return Vec::new();
        }
        let numbers = line.saturating_sub(radius).max(1)..=line.saturating_add(radius).min(last);
        let text = |number: u64| (number, lines[number as usize - 1].clone());
        numbers.map(text).collect()
    }
}

/// Returns the lines of `file`; `None` if it is not a regular file, is too large or cannot be read.
fn read(file: &str) -> Option<Rc<[String]>> {
    let bytes = input::read_regular(Path::new(file), LARGEST).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    Some(text.lines().map(printable).collect())
}

/// Replaces tabs by blanks and other control characters by a replacement character, and shortens a long line.
fn printable(line: &str) -> String {
    let mut text = String::new();
    for (index, c) in line.chars().enumerate() {
        match c {
            _ if index == LONGEST => {
                text.push_str("...");
                break;
            }
            '\t' => text.push_str(&" ".repeat(TAB - text.chars().count() % TAB)),
            c => text.push(super::words::visible(c)),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_quoted_without_control_characters() {
        let path = std::env::temp_dir().join(format!("margay-source-{}", std::process::id()));
        std::fs::write(&path, "a\n\tb\x1b[31m\r\n\nx\ty\n").expect("written");
        let file = path.to_str().expect("text");
        let sources = Sources::default();
        assert_eq!(sources.line(file, 2).as_deref(), Some("b\u{fffd}[31m"));
        assert_eq!(sources.line(file, 3), None);
        assert_eq!(sources.line(file, 9), None);
        assert_eq!(sources.line(file, 0), None);
        let around = sources.around(file, 4, 1);
        assert_eq!(around, [(3, String::new()), (4, "x   y".to_owned())]);
        assert_eq!(sources.around(file, 1, 3).len(), 4);
        assert!(sources.around(file, 5, 3).is_empty());
        std::fs::remove_file(&path).expect("removed");
        assert!(sources.line("/no/such/file", 1).is_none());
        assert!(sources.line("/dev/zero", 1).is_none());
        assert!(sources.line("/proc/self/status", 1).is_none());
        assert_eq!(printable(&"x".repeat(300)).len(), LONGEST + 3);
    }
}
