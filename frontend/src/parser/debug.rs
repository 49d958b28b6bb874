//! Parses debugging directives: `.file`, `.loc`, `.section` and `@@DWARF`.

use super::keyword::Keyword;
use super::{Parse, Parser};
use crate::ast::{
    DwarfLine, DwarfValue, FileEntry, Ident, Item, List, Location, LocationFunction, Name, Section,
    SourcePosition, Version,
};
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::lexer::Token;
use crate::source::Span;

impl Parser<'_> {
    /// Parses `.file 1 "name", timestamp, size`, which has no semicolon.
    pub(super) fn file(&mut self) -> Parse<()> {
        let start = self.span.start;
        self.bump();
        let index = self.plain_integer("the file's number")?;
        if index > u64::from(u32::MAX) {
            let message = "a file's number is below 2^32";
            let span = self.since(start);
            self.report(Diagnostic::error(Code::LITERAL_RANGE, span, message));
        }
        let name = self.file_name()?;
        let timestamp = self.opt_number_after_comma()?;
        let size = match timestamp {
            Some(_) => self.opt_number_after_comma()?,
            None => None,
        };
        let file = self.module.arena.add(FileEntry {
            index,
            name,
            timestamp,
            size,
            span: self.since(start),
        });
        self.module.items.push(Item::File(file));
        Ok(())
    }

    /// Parses the name of a file in a `.file` directive. A tool that wraps long lines can insert a
    /// line break into the name, so the closing quote may be on the next line.
    fn file_name(&mut self) -> Parse<Ident> {
        let start = self.span.start + 1;
        let broken = self.at(Token::UnterminatedString);
        // An unterminated string begins with a quote of one byte, so `start` is at a character boundary.
        let text = if broken {
            &self.text[start as usize..]
        } else {
            ""
        };
        let second = text.split('\n').nth(1);
        let closed = second.and_then(|line| line.split_once('"'));
        let Some((rest, "" | "\r")) = closed else {
            return self.string("the file's name");
        };
        let end = self.span.end + 1 + rest.len() as u32;
        let span = Span::new(start, end);
        let name = self.module.names.intern(&self.text[span.range()]);
        // Skip the tokens of the rest of the name, up to and including the closing quote on the next line.
        while self.span.start <= end && !self.at(Token::End) {
            self.bump();
        }
        Ok(Ident { name, span })
    }

    fn opt_number_after_comma(&mut self) -> Parse<Option<u64>> {
        if !self.eat(Token::Comma) {
            return Ok(None);
        }
        self.plain_integer("a number").map(Some)
    }

    /// Parses `.loc 1 20 3, function_name label + 4, inlined_at 1 10 5`, which has no semicolon.
    pub(super) fn loc(&mut self) -> Parse<()> {
        let start = self.span.start;
        self.bump();
        let position = self.source_position()?;
        let mut function = None;
        let mut inlined_at = None;
        if self.eat(Token::Comma) {
            self.word_of_loc("function_name")?;
            let label = self.ident("a label in `.debug_str`")?.name;
            let offset = match self.token {
                Token::Plus => self.offset()?,
                _ => 0,
            };
            function = Some(LocationFunction { label, offset });
            self.expect(Token::Comma, "`,`")?;
            self.word_of_loc("inlined_at")?;
            inlined_at = Some(self.source_position()?);
        }
        let location = Location {
            position,
            function,
            inlined_at,
            caller: inlined_at.and_then(|at| self.positions.get(&at).copied()),
            span: self.since(start),
        };
        let location = self.module.arena.add(location);
        self.location = Some(location);
        self.positions.insert(position, location);
        Ok(())
    }

    fn word_of_loc(&mut self, word: &str) -> Parse<()> {
        if self.at(Token::Ident) && self.slice() == word {
            self.bump();
            return Ok(());
        }
        self.unexpected(&format!("`{word}`"))
    }

    /// Parses a source position, which consists of three numbers: `file line column`.
    fn source_position(&mut self) -> Parse<SourcePosition> {
        Ok(SourcePosition {
            file: self.small_integer("a file's number")?,
            line: self.small_integer("a line")?,
            column: self.small_integer("a column")?,
        })
    }

    /// Parses an integer of a debugging directive, such as a line number. `what` describes the
    /// integer in error messages. A value that does not fit in a `u32` becomes the largest `u32`.
    fn small_integer(&mut self, what: &str) -> Parse<u32> {
        let value = self.plain_integer(what)?;
        Ok(u32::try_from(value).unwrap_or(u32::MAX))
    }

    /// Parses `.section .name { ... }`.
    pub(super) fn section(&mut self) -> Parse<()> {
        let start = self.span.start;
        self.bump();
        if !self.at(Token::DotWord) {
            return self.unexpected("the section's name, such as `.debug_str`");
        }
        let name = self.take_name();
        self.expect(Token::LeftBrace, "`{`")?;
        let mut lines = Vec::new();
        while !self.at(Token::RightBrace) {
            lines.push(self.section_line()?);
        }
        self.bump();
        let section = Section {
            name,
            lines: self.module.arena.add_list(lines),
            span: self.since(start),
        };
        let section = self.module.arena.add(section);
        self.module.items.push(Item::Section(section));
        Ok(())
    }

    /// Parses one line of a section: a label (`label:`) or data (`.b8 1, 2, 3`).
    fn section_line(&mut self) -> Parse<DwarfLine> {
        if self.at(Token::Ident) {
            let label = self.take_name();
            self.expect(Token::Colon, "`:`")?;
            return Ok(DwarfLine::Label(label));
        }
        let Some(bytes) = self.dwarf_size() else {
            return self.unexpected("a label, `.b8`, `.b16`, `.b32`, `.b64` or `}`");
        };
        self.bump();
        let values = self.dwarf_values(bytes)?;
        Ok(DwarfLine::Data { bytes, values })
    }

    /// If the current token is a data directive such as `.b8`, returns the size in bytes of the values after it.
    fn dwarf_size(&self) -> Option<u8> {
        if !self.at(Token::DotWord) {
            return None;
        }
        match self.slice() {
            ".b8" | ".byte" => Some(1),
            ".b16" => Some(2),
            ".b32" | ".4byte" => Some(4),
            ".b64" | ".quad" => Some(8),
            _ => None,
        }
    }

    /// Parses the values of a data directive: one address, or integers separated by commas.
    fn dwarf_values(&mut self, bytes: u8) -> Parse<List<DwarfValue>> {
        let mark = self.module.arena.count::<DwarfValue>();
        if matches!(self.token, Token::Ident | Token::DotWord) {
            self.check_address(bytes);
            let value = self.dwarf_address()?;
            self.module.arena.add(value);
            return Ok(self.module.arena.list_since(mark));
        }
        loop {
            let start = self.span.start;
            let value = self.signed_integer()?;
            self.check_width(value, bytes, start);
            self.module.arena.add(DwarfValue::Int(value));
            if !self.eat(Token::Comma) {
                return Ok(self.module.arena.list_since(mark));
            }
        }
    }

    /// Adds an error to the diagnostics if the values of a data directive that contains an address
    /// have fewer than four bytes.
    fn check_address(&mut self, bytes: u8) {
        if bytes < 4 {
            let message = format!("an address does not fit {} bits", u32::from(bytes) * 8);
            self.report(Diagnostic::error(Code::LITERAL_RANGE, self.span, message));
        }
    }

    /// Adds an error to the diagnostics if `value` does not fit in `bytes` bytes. In one or two
    /// bytes, both signed and unsigned values are accepted. As in ptxas, a positive value that does
    /// not fit in four bytes is truncated without an error, but a negative value that does not fit
    /// is an error.
    fn check_width(&mut self, value: u64, bytes: u8, start: u32) {
        let bits = u32::from(bytes) * 8;
        let negative = self.text.as_bytes().get(start as usize) == Some(&b'-');
        let value = value as i64;
        let fits = match (bits, negative) {
            (64, true) => value < 0 && value != i64::MIN || value == 0,
            (64, false) | (32, false) => true,
            (_, true) => value >= -(1_i64 << (bits - 1)) && value <= 0,
            (_, false) => (0..1_i64 << bits).contains(&value),
        };
        if !fits {
            let span = self.since(start);
            let message = format!("this value does not fit {bits} bits");
            self.report(Diagnostic::error(Code::LITERAL_RANGE, span, message));
        }
    }

    /// Parses `label` or `.section`, optionally with `+ number`, or parses `label - label`.
    fn dwarf_address(&mut self) -> Parse<DwarfValue> {
        let is_label = self.at(Token::Ident);
        let base: Name = self.take_name().name;
        match self.token {
            Token::Plus => {
                self.bump();
                let offset = self.signed_integer()? as i64;
                Ok(DwarfValue::Address(base, offset))
            }
            Token::Minus if is_label => {
                self.bump();
                let start = self.ident("a label")?.name;
                Ok(DwarfValue::Difference(base, start))
            }
            _ => Ok(DwarfValue::Address(base, 0)),
        }
    }

    fn signed_integer(&mut self) -> Parse<u64> {
        let negative = self.eat(Token::Minus);
        let value = self.plain_integer("an integer")?;
        Ok(if negative {
            value.wrapping_neg()
        } else {
            value
        })
    }

    /// Parses a `@@DWARF` line, which PTX used before `.section` was introduced. A line is either the start of a
    /// section, `@@DWARF .section .name, "flags", @progbits`, or data for the section whose start
    /// line came last, such as `@@DWARF .byte 1, 2`.
    pub(super) fn dwarf_line(&mut self) -> Parse<()> {
        let start = self.span.start;
        self.bump();
        let line = match self.keyword() {
            Some(Keyword::Section) => self.dwarf_section()?,
            _ => self.dwarf_data(start)?,
        };
        let last = Version { major: 1, minor: 5 };
        let version = self.module.version;
        if let Some((version, _)) = version
            && version > last
        {
            let message = "`@@DWARF` was removed in PTX 2.0; use `.section`";
            let span = self.since(start);
            self.report(Diagnostic::error(Code::REMOVED_FEATURE, span, message));
        }
        let line = self.module.arena.add(line);
        self.module.items.push(Item::Dwarf(line));
        Ok(())
    }

    fn dwarf_section(&mut self) -> Parse<DwarfLine> {
        self.bump();
        if !self.at(Token::DotWord) {
            return self.unexpected("the section's name, such as `.debug_info`");
        }
        let mut words: Vec<Ident> = vec![self.take_name()];
        self.expect(Token::Comma, "`,`")?;
        words.push(self.string("the section's flags")?);
        self.expect(Token::Comma, "`,`")?;
        self.expect(Token::At, "`@progbits`")?;
        if !self.at(Token::Ident) || self.slice() != "progbits" {
            return self.unexpected("`progbits`");
        }
        words.push(self.take_name());
        self.in_dwarf_section = true;
        Ok(DwarfLine::Words(self.module.arena.add_list(words)))
    }

    /// Parses the data of a `@@DWARF` line: unsigned integers, or the name of one label or section.
    fn dwarf_data(&mut self, start: u32) -> Parse<DwarfLine> {
        let Some(bytes) = self.dwarf_size() else {
            return self.unexpected("`.section`, `.byte`, `.4byte` or `.quad`");
        };
        self.bump();
        if !self.in_dwarf_section {
            let message = "DWARF data before any `@@DWARF .section`";
            let span = self.since(start);
            self.report(Diagnostic::error(Code::DIRECTIVE_PLACE, span, message));
        }
        let mark = self.module.arena.count::<DwarfValue>();
        if matches!(self.token, Token::Ident | Token::DotWord) {
            self.check_address(bytes);
            let name = self.take_name().name;
            self.module.arena.add(DwarfValue::Address(name, 0));
        } else {
            loop {
                let start = self.span.start;
                let value = self.plain_integer("an integer or a label")?;
                self.check_width(value, bytes, start);
                self.module.arena.add(DwarfValue::Int(value));
                if !self.eat(Token::Comma) {
                    break;
                }
            }
        }
        let values = self.module.arena.list_since(mark);
        Ok(DwarfLine::Data { bytes, values })
    }
}
