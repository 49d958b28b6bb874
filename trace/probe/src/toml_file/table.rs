//! Tables of a TOML document with the positions of their entries.

use toml::de::{DeTable, DeValue};

use crate::error::{Error, line_of};
use crate::model::{Level, Point};
use crate::snippet::{Snippet, split};

use super::split_points;

/// A table, with what messages need.
#[derive(Clone, Copy)]
pub(super) struct Table<'t> {
    pub(super) file: &'t str,
    pub(super) text: &'t str,
    /// The name of the table, or an empty text for the root.
    pub(super) name: &'t str,
    /// The line of the table's name.
    pub(super) line: u32,
    entries: &'t DeTable<'t>,
}

/// A value of a table.
#[derive(Clone, Copy)]
pub(super) struct Entry<'t> {
    pub(super) key: &'t str,
    /// The line of the key.
    pub(super) line: u32,
    /// The byte offset of the value.
    start: usize,
    pub(super) value: &'t DeValue<'t>,
}

impl<'t> Table<'t> {
    pub(super) fn root(file: &'t str, text: &'t str, entries: &'t DeTable<'t>) -> Self {
        Table {
            file,
            text,
            name: "",
            line: 0,
            entries,
        }
    }

    pub(super) fn error(&self, line: u32, message: impl Into<String>) -> Error {
        let error = Error::new(self.file, line, message);
        match self.name {
            "" => error,
            name => error.about(name),
        }
    }

    /// Returns the entries in the order of the file.
    pub(super) fn entries(&self) -> Vec<Entry<'t>> {
        let mut found: Vec<(usize, Entry<'t>)> = self
            .entries
            .iter()
            .map(|(key, value)| {
                let start = key.span().start;
                let entry = Entry {
                    key: key.get_ref(),
                    line: line_of(self.text, start),
                    start: value.span().start,
                    value: value.get_ref(),
                };
                (start, entry)
            })
            .collect();
        found.sort_by_key(|(start, _)| *start);
        found.into_iter().map(|(_, entry)| entry).collect()
    }

    pub(super) fn get(&self, key: &str) -> Option<Entry<'t>> {
        self.entries().into_iter().find(|entry| entry.key == key)
    }

    /// Returns the entry of the first of these keys that the table has.
    pub(super) fn any(&self, keys: &[&str]) -> Option<Entry<'t>> {
        keys.iter().find_map(|key| self.get(key))
    }

    pub(super) fn table(&self, entry: Entry<'t>) -> Result<Table<'t>, Error> {
        match entry.value {
            DeValue::Table(entries) => Ok(Table {
                name: entry.key,
                line: entry.line,
                entries,
                ..*self
            }),
            _ => Err(self.error(entry.line, format!("`{}` must be a table", entry.key))),
        }
    }

    pub(super) fn string(&self, entry: Entry<'t>) -> Result<&'t str, Error> {
        match entry.value {
            DeValue::String(text) => Ok(text),
            _ => Err(self.error(entry.line, format!("`{}` must be a string", entry.key))),
        }
    }

    pub(super) fn flag(&self, key: &str) -> Result<bool, Error> {
        match self.get(key) {
            None => Ok(false),
            Some(entry) => match entry.value {
                DeValue::Boolean(flag) => Ok(*flag),
                _ => Err(self.error(entry.line, format!("`{key}` must be true or false"))),
            },
        }
    }

    /// Returns a number, which may be in quotes.
    pub(super) fn number(&self, entry: Entry<'t>) -> Result<u32, Error> {
        let digits = match entry.value {
            DeValue::Integer(integer) => {
                let radix = integer.radix();
                u32::from_str_radix(&integer.as_str().replace('_', ""), radix).ok()
            }
            DeValue::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        digits.ok_or_else(|| {
            let message = format!("`{}` must be a number from 0 to {}", entry.key, u32::MAX);
            self.error(entry.line, message)
        })
    }

    pub(super) fn required(&self, keys: &[&str]) -> Result<Entry<'t>, Error> {
        let missing = || self.error(self.line, format!("`{}` is missing", keys[0]));
        self.any(keys).ok_or_else(missing)
    }

    pub(super) fn level(&self) -> Result<Level, Error> {
        let entry = self.required(&["level"])?;
        let word = self.string(entry)?;
        Level::from_word(word).ok_or_else(|| {
            let message = format!("the level is `{word}`, but must be `thread` or `warp`");
            self.error(entry.line, message)
        })
    }

    pub(super) fn position(&self) -> Result<&'t str, Error> {
        self.string(self.required(&["pos", "position"])?)
    }

    pub(super) fn points(&self) -> Result<Vec<Point>, Error> {
        let entry = self.required(&["pos", "position"])?;
        let texts = split_points(self.string(entry)?);
        let point = |text: &str| match text.trim_end_matches(';').trim_end() {
            "" => Err(self.error(entry.line, "a tracepoint is empty")),
            "kernel" => Ok(Point::Kernel),
            text => Ok(Point::Instruction(text.to_owned())),
        };
        texts.into_iter().map(point).collect()
    }

    pub(super) fn snippet(&self, key: &str) -> Result<Option<Snippet>, Error> {
        let Some(entry) = self.get(key) else {
            return Ok(None);
        };
        let text = self.string(entry)?;
        let rest = &self.text[entry.start.min(self.text.len())..];
        // A line break directly behind the quotes is not part of the text.
        let opening = rest
            .strip_prefix("\"\"\"")
            .or_else(|| rest.strip_prefix("'''"));
        let is_skipped = opening.is_some_and(|rest| rest.starts_with(['\n', '\r']));
        let line = line_of(self.text, entry.start) + u32::from(is_skipped);
        match split(text, line) {
            Ok(snippet) => Ok(Some(snippet)),
            Err((line, message)) => Err(self.error(line, message)),
        }
    }

    /// Returns the snippets `before` and `after`.
    pub(super) fn snippets(&self) -> Result<(Option<Snippet>, Option<Snippet>), Error> {
        let (before, after) = (self.snippet("before")?, self.snippet("after")?);
        if before.is_none() && after.is_none() {
            return Err(self.error(self.line, "neither `before` nor `after` is present"));
        }
        Ok((before, after))
    }
}
