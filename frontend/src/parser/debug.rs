//! Debugging directives: `.file`, `.loc`, `.section`, `@@DWARF`.

use super::keyword::Keyword;
use super::{Parse, Parser};
use crate::ast::{
    DwarfLine, DwarfValue, FileEntry, Ident, Item, List, Location, LocationFunction, Name, Section,
    SourcePosition,
};
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::lexer::Token;

impl Parser<'_> {
    /// `.file 1 "name", timestamp, size` without a semicolon.
    pub(super) fn file(&mut self) -> Parse<()> {
        let start = self.span.start;
        self.bump();
        let index = self.plain_integer("the file's number")?;
        let name = self.string("the file's name")?;
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

    fn opt_number_after_comma(&mut self) -> Parse<Option<u64>> {
        if !self.eat(Token::Comma) {
            return Ok(None);
        }
        self.plain_integer("a number").map(Some)
    }

    /// `.loc 1 20 3, function_name label + 4, inlined_at 1 10 5` without a semicolon.
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
            span: self.since(start),
        };
        self.location = Some(self.module.arena.add(location));
        Ok(())
    }

    fn word_of_loc(&mut self, word: &str) -> Parse<()> {
        if self.at(Token::Ident) && self.slice() == word {
            self.bump();
            return Ok(());
        }
        self.unexpected(&format!("`{word}`"))
    }

    /// `file line column`
    fn source_position(&mut self) -> Parse<SourcePosition> {
        Ok(SourcePosition {
            file: self.small_integer("a file's number")?,
            line: self.small_integer("a line")?,
            column: self.small_integer("a column")?,
        })
    }

    /// An integer that only describes; what is too large becomes the largest.
    fn small_integer(&mut self, what: &str) -> Parse<u32> {
        let value = self.plain_integer(what)?;
        Ok(u32::try_from(value).unwrap_or(u32::MAX))
    }

    /// `.section .name { ... }`
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

    /// `label:` or `.b8 1, 2, 3`
    fn section_line(&mut self) -> Parse<DwarfLine> {
        if self.at(Token::Ident) {
            let label = self.take_name();
            self.expect(Token::Colon, "`:`")?;
            return Ok(DwarfLine::Label(label));
        }
        let bytes = match self.keyword() {
            Some(Keyword::B8) => 1,
            Some(Keyword::B16) => 2,
            Some(Keyword::B32) => 4,
            Some(Keyword::B64) => 8,
            _ => return self.unexpected("a label, `.b8`, `.b16`, `.b32`, `.b64` or `}`"),
        };
        self.bump();
        let values = self.dwarf_values(bytes)?;
        Ok(DwarfLine::Data { bytes, values })
    }

    /// One address, or integers separated by commas.
    fn dwarf_values(&mut self, bytes: u8) -> Parse<List<DwarfValue>> {
        let mark = self.module.arena.count::<DwarfValue>();
        if matches!(self.token, Token::Ident | Token::DotWord) {
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

    /// Reports a value that one or two bytes cannot hold, signed or unsigned; like ptxas, more bytes
    /// hold what fits them.
    fn check_width(&mut self, value: u64, bytes: u8, start: u32) {
        let bits = u32::from(bytes) * 8;
        if bits <= 16 {
            let value = value as i64;
            let range = -(1_i64 << (bits - 1))..1_i64 << bits;
            if !range.contains(&value) {
                let span = self.since(start);
                let message = format!("this value does not fit {bits} bits");
                self.report(Diagnostic::error(Code::LITERAL_RANGE, span, message));
            }
        }
    }

    /// `label`, `.section`, either `+ number`, or `label - label`.
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

    /// `@@DWARF` and the rest of its line, as PTX had it before `.section`.
    pub(super) fn dwarf_line(&mut self) -> Parse<()> {
        let line_end = self.line_end();
        self.bump();
        let mut words: Vec<Ident> = Vec::new();
        while self.span.start < line_end && !self.at(Token::End) {
            if matches!(
                self.token,
                Token::Stray | Token::UnterminatedComment | Token::UnterminatedString
            ) {
                return self.unexpected("DWARF data");
            }
            words.push(self.take_name());
        }
        let words = self.module.arena.add_list(words);
        let line = self.module.arena.add(DwarfLine::Words(words));
        self.module.items.push(Item::Dwarf(line));
        Ok(())
    }

    /// Where the current token's line ends.
    fn line_end(&self) -> u32 {
        let rest = &self.text.as_bytes()[self.span.start as usize..];
        let length = rest.iter().position(|&byte| byte == b'\n');
        self.span.start + length.unwrap_or(rest.len()) as u32
    }
}
