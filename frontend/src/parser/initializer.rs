//! Parses initial values of variables.

use super::{Failed, Parse, Parser};
use crate::ast::{
    Initializer, InitializerKind, List, Name, Property, PropertyValue, ScalarType, ValueList,
};
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::lexer::Token;
use crate::source::Span;

impl Parser<'_> {
    /// Parses the value after `=` of a variable of type `scalar`.
    pub(super) fn initializer(&mut self, scalar: ScalarType) -> Parse<Initializer> {
        let start = self.span.start;
        let token = self.token;
        let kind = match token {
            Token::LeftBrace => self.deeper(|parser| parser.initializer_list(scalar))?,
            Token::Ident => self.address_value(None)?,
            Token::Int if self.peek() == Token::LeftParen => self.byte_of_address()?,
            Token::Int
            | Token::Float
            | Token::SingleBits
            | Token::DoubleBits
            | Token::WarpSize
            | Token::LeftParen
            | Token::Bang
            | Token::Minus
            | Token::Plus
            | Token::Tilde => InitializerKind::Constant(self.constant()?),
            _ => return self.unexpected("a value"),
        };
        Ok(Initializer {
            kind,
            span: self.since(start),
        })
    }

    /// Parses an initialiser in braces, `{ ... }`. The braces contain values, or properties if the
    /// variable has an opaque type.
    fn initializer_list(&mut self, scalar: ScalarType) -> Parse<InitializerKind> {
        let start = self.span.start;
        self.bump();
        if scalar.is_opaque() && self.at(Token::Ident) {
            return Ok(InitializerKind::Properties(self.properties()?));
        }
        if self.eat(Token::RightBrace) {
            return Ok(InitializerKind::List(ValueList::default()));
        }
        let Some(mut values) = self.module.arena.begin_values(start) else {
            return Err(Failed);
        };
        loop {
            let value = self.initializer(scalar)?;
            self.module.arena.add_value(&mut values, &value);
            if !self.eat(Token::Comma) {
                break;
            }
        }
        self.expect(Token::RightBrace, "`,` or `}`")?;
        let list = self.module.arena.end_values(values, self.previous_end);
        Ok(InitializerKind::List(list))
    }

    /// Parses the properties `key = value, ...` and the closing brace after them.
    fn properties(&mut self) -> Parse<List<Property>> {
        let mut properties = Vec::new();
        loop {
            let key = self.ident("a property")?;
            self.expect(Token::Equals, "`=`")?;
            let value = match self.token {
                Token::Ident => PropertyValue::Word(self.take_name()),
                _ => PropertyValue::Constant(self.constant()?),
            };
            properties.push(Property { key, value });
            if !self.eat(Token::Comma) {
                break;
            }
        }
        self.expect(Token::RightBrace, "`,` or `}`")?;
        Ok(self.module.arena.add_list(properties))
    }

    /// Parses an address: `name + offset` or `generic(name) + offset`.
    fn address_value(&mut self, byte: Option<u8>) -> Parse<InitializerKind> {
        let (name, generic) = self.initializer_symbol()?;
        let offset = match self.token {
            Token::Plus => self.offset()?,
            _ => 0,
        };
        Ok(InitializerKind::Address {
            name,
            offset,
            generic,
            byte,
        })
    }

    /// Parses `name` or `generic(name)`. Returns the name, and true for `generic(name)`. The name
    /// of a variable can be `generic` too.
    fn initializer_symbol(&mut self) -> Parse<(Name, bool)> {
        let generic = self.slice() == "generic" && self.peek() == Token::LeftParen;
        let symbol = self.ident("a variable or function")?;
        if !generic {
            return Ok((symbol.name, false));
        }
        self.bump();
        let inner = self.ident("a variable or function")?;
        self.expect(Token::RightParen, "`)`")?;
        Ok((inner.name, true))
    }

    /// Parses one byte of an address, such as `0xFF00(address)`.
    fn byte_of_address(&mut self) -> Parse<InitializerKind> {
        let mask_span = self.span;
        let mask = self.plain_integer("a byte mask")?;
        let byte = self.byte_of_mask(mask, mask_span);
        self.bump();
        let value = self.address_value(Some(byte))?;
        self.expect(Token::RightParen, "`)`")?;
        Ok(value)
    }

    /// Returns the index of the byte that a mask selects. If the mask does not select exactly one
    /// byte, adds an error to the diagnostics.
    fn byte_of_mask(&mut self, mask: u64, span: Span) -> u8 {
        let byte = mask.trailing_zeros() / 8;
        if byte >= 8 || mask != 0xFF << (byte * 8) {
            self.report(
                Diagnostic::error(
                    Code::INITIALIZER,
                    span,
                    format!("`{mask:#X}` is not a mask of one byte"),
                )
                .with_label("expected `0xFF`, `0xFF00`, `0xFF0000` and so on"),
            );
            return 0;
        }
        byte as u8
    }
}
