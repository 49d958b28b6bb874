//! Parses the header and the items of a module.

use super::keyword::Keyword;
use super::{Failed, Parse, Parser};
use crate::ast::{Alias, Ident, Item, Linkage, Target, Version};
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::lexer::Token;
use crate::source::Span;

impl Parser<'_> {
    /// Parses the whole text of a module.
    pub(super) fn module(&mut self) {
        self.header();
        while !self.at(Token::End) {
            let start = self.span;
            if self.item().is_err() {
                self.recover_at_module(start);
            }
            self.progress(start);
        }
    }

    /// Parses `.version`, `.target` and `.address_size`, in this order.
    fn header(&mut self) {
        if !self.header_line(Keyword::Version, Self::version)
            && !self.header_line(Keyword::Target, Self::target)
        {
            self.missing_version();
            return;
        }
        if self.module.target.is_some() {
            // `.target` comes before `.version`, or `.version` is missing.
            self.missing_version();
            self.header_line(Keyword::Version, Self::version);
        } else if !self.header_line(Keyword::Target, Self::target) && self.diagnostics.is_empty() {
            self.missing_target();
        }
        self.header_line(Keyword::AddressSize, Self::address_size);
    }

    /// If the current token is `keyword`, parses the header directive that begins with it, and
    /// returns true. Otherwise, returns false.
    fn header_line(&mut self, keyword: Keyword, directive: fn(&mut Self) -> Parse<()>) -> bool {
        let start = self.span;
        let found = self.keyword() == Some(keyword);
        if found && directive(self).is_err() {
            self.recover_at_module(start);
        }
        found
    }

    fn missing_version(&mut self) {
        if self.at(Token::Stray) {
            let diagnostic = self.stray();
            self.report(diagnostic);
            return;
        }
        let diagnostic = Diagnostic::error(
            Code::MISSING_VERSION,
            self.span,
            "a PTX text starts with `.version`, then `.target`",
        );
        self.report(diagnostic);
    }

    fn missing_target(&mut self) {
        let diagnostic = Diagnostic::error(
            Code::MISSING_TARGET,
            self.span,
            "`.version` is followed by `.target`",
        )
        .with_label("expected `.target` before this");
        self.report(diagnostic);
    }

    /// Parses a `.version` directive, such as `.version 8.3`. The lexer returns the number as a
    /// floating-point number.
    fn version(&mut self) -> Parse<()> {
        let start = self.span.start;
        self.bump();
        let Some((version, rest)) = parse_version(self.slice()).filter(|_| self.at(Token::Float))
        else {
            return self.unexpected("a version, such as `8.3`");
        };
        if !rest.is_empty() {
            return self.unexpected("a version, such as `8.3`");
        }
        self.bump();
        self.module.version = Some((version, self.since(start)));
        Ok(())
    }

    /// Parses a `.target` directive, such as `.target sm_80, debug`.
    fn target(&mut self) -> Parse<()> {
        let start = self.span.start;
        self.bump();
        let mut words: Vec<Ident> = Vec::new();
        loop {
            words.push(self.ident("a target, such as `sm_80`")?);
            if !self.eat(Token::Comma) {
                break;
            }
        }
        self.module.target = Some(Target {
            words: self.module.arena.add_list(words),
            span: self.since(start),
        });
        Ok(())
    }

    fn address_size(&mut self) -> Parse<()> {
        let start = self.span.start;
        self.bump();
        let size = self.plain_integer("`32` or `64`")?;
        let span = self.since(start);
        let bits = match size {
            32 | 64 => size as u32,
            _ => {
                self.report(Diagnostic::error(
                    Code::DIRECTIVE_VALUE,
                    span,
                    "an address has 32 or 64 bits",
                ));
                64
            }
        };
        self.module.address_size = Some((bits, span));
        Ok(())
    }

    /// Parses one item at module scope: a declaration or directive, with a linking directive such
    /// as `.visible` before it if there is one.
    fn item(&mut self) -> Parse<()> {
        let start = self.span.start;
        match self.token {
            Token::DotWord => {}
            Token::Dwarf => return self.dwarf_line(),
            Token::Ident | Token::At | Token::LeftBrace | Token::RightBrace => {
                return self.outside_of_function();
            }
            _ => return self.unexpected("a declaration or directive"),
        }
        let Some(keyword) = self.keyword() else {
            return self.unknown_directive();
        };
        let linkage = match keyword {
            Keyword::Extern => Linkage::Extern,
            Keyword::Visible => Linkage::Visible,
            Keyword::Weak => Linkage::Weak,
            Keyword::Common => Linkage::Common,
            _ => return self.plain_item(keyword),
        };
        self.bump();
        self.linked_item(linkage, start)
    }

    /// Parses the declaration that follows a linking directive such as `.visible`.
    fn linked_item(&mut self, linkage: Linkage, start: u32) -> Parse<()> {
        match self.keyword() {
            Some(Keyword::Entry | Keyword::Func) if linkage == Linkage::Common => {
                self.unexpected("a variable: functions cannot be `.common`")
            }
            Some(Keyword::Entry) => self.entry(linkage, start),
            Some(Keyword::Func) => self.func(linkage, start),
            _ if !self.at(Token::DotWord) => self.unexpected("`.entry`, `.func` or a variable"),
            Some(Keyword::Extern | Keyword::Visible | Keyword::Weak | Keyword::Common) => {
                self.unexpected("`.entry`, `.func` or a variable: only one linkage is allowed")
            }
            _ => self.module_variables(linkage, start),
        }
    }

    /// Parses an item that has no linking directive such as `.visible`.
    fn plain_item(&mut self, keyword: Keyword) -> Parse<()> {
        let start = self.span.start;
        match keyword {
            Keyword::Entry => self.entry(Linkage::Internal, start),
            Keyword::Func => self.func(Linkage::Internal, start),
            Keyword::Alias => {
                let alias = self.alias()?;
                self.module.items.push(alias);
                Ok(())
            }
            Keyword::Pragma => {
                self.bump();
                let strings = self.pragma_strings()?;
                self.module.items.push(Item::Pragma(strings));
                Ok(())
            }
            Keyword::File => self.file(),
            Keyword::Section => self.section(),
            Keyword::Align | Keyword::Attribute => self.module_variables(Linkage::Internal, start),
            _ if keyword.is_space() => self.module_variables(Linkage::Internal, start),
            Keyword::Version | Keyword::Target | Keyword::AddressSize => self.late_header(),
            _ => {
                let message = format!("`{}` is not allowed at module scope", self.slice());
                self.misplaced(message)
            }
        }
    }

    /// Adds an error to the diagnostics for a header directive that is repeated or that is not in
    /// the header.
    fn late_header(&mut self) -> Parse<()> {
        let word = self.slice();
        let message = format!("`{word}` is allowed only once, at the start of the text");
        let earlier = match word {
            ".version" => self.module.version.map(|(_, span)| span),
            ".target" => self.module.target.as_ref().map(|target| target.span),
            _ => self.module.address_size.map(|(_, span)| span),
        };
        let code = match earlier {
            Some(_) => Code::DUPLICATE_DIRECTIVE,
            None => Code::DIRECTIVE_PLACE,
        };
        let mut diagnostic = Diagnostic::error(code, self.span, message);
        if let Some(span) = earlier {
            diagnostic = diagnostic.with_related(span, "first given here");
        }
        self.report(diagnostic);
        Err(Failed)
    }

    fn module_variables(&mut self, linkage: Linkage, start: u32) -> Parse<()> {
        let head = self.declaration_head(linkage, start)?;
        self.declarators(&head, |parser, variable| {
            let id = parser.module.arena.add(variable);
            parser.module.items.push(Item::Variable(id));
        })
    }

    /// Parses `.alias name, target;`.
    pub(super) fn alias(&mut self) -> Parse<Item> {
        let start = self.span.start;
        self.bump();
        let name = self.ident("the alias")?;
        self.expect(Token::Comma, "`,`")?;
        let target = self.ident("the function that it stands for")?;
        self.expect(Token::Semicolon, "`;`")?;
        let span = self.since(start);
        let alias = self.module.arena.add(Alias { name, target, span });
        Ok(Item::Alias(alias))
    }

    fn outside_of_function(&mut self) -> Parse<()> {
        let message = format!("{} is outside of any function", self.found());
        self.report(
            Diagnostic::error(Code::TEXT_AFTER_BODY, self.span, message)
                .with_label("expected a declaration or directive"),
        );
        Err(Failed)
    }

    /// Skips to the next item after a problem in the item at `start`. The start of an item is a
    /// keyword at the start of a line, after a semicolon or after a closing brace. A keyword in
    /// another place can be a modifier.
    fn recover_at_module(&mut self, start: Span) {
        let mut may_start = self.span != start && self.is_first_of_line();
        while !self.at(Token::End) {
            if may_start && self.keyword().is_some_and(Keyword::starts_item) {
                return;
            }
            let ends = matches!(self.token, Token::Semicolon | Token::RightBrace);
            self.bump();
            may_start = ends || self.is_first_of_line();
        }
    }

    /// Whether there is a line break between the last consumed token and the current token.
    pub(super) fn is_first_of_line(&self) -> bool {
        let gap = self.previous_end as usize..self.span.start as usize;
        self.text.as_bytes()[gap].contains(&b'\n')
    }
}

/// Parses the version at the start of `text`. Returns the version and the rest of the text.
fn parse_version(text: &str) -> Option<(Version, &str)> {
    let (major, rest) = text.split_once('.')?;
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    // `8.10` means 8.1, and `8.00` means 8.0. `8.` is invalid.
    let minor = match rest[..end].trim_end_matches('0') {
        "" if end > 0 => 0,
        digits => digits.parse().ok()?,
    };
    let version = Version {
        major: major.parse().ok()?,
        minor,
    };
    Some((version, &rest[end..]))
}
