//! Parses declarations of variables, registers and parameters.

use super::keyword::Keyword;
use super::{Failed, Parse, Parser};
use crate::ast::{
    Attribute, Dimension, Ident, Linkage, List, Pointer, ScalarType, StateSpace, Variable,
    VectorSize,
};
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::lexer::Token;

/// The part of a declaration before the names: the properties that all variables of the declaration
/// share.
pub(super) struct DeclarationHead {
    start: u32,
    linkage: Linkage,
    space: StateSpace,
    bank: Option<u64>,
    align: Option<u64>,
    attributes: List<Attribute>,
    vector: VectorSize,
    scalar: ScalarType,
}

impl Parser<'_> {
    /// Parses the head of a declaration: state space, alignment and attributes in any order, then vector size and type.
    pub(super) fn declaration_head(
        &mut self,
        linkage: Linkage,
        start: u32,
    ) -> Parse<DeclarationHead> {
        let mut space = None;
        let mut bank = None;
        let mut align = None;
        let mut attributes = Vec::new();
        loop {
            match self.keyword() {
                Some(Keyword::Align) => {
                    self.bump();
                    align = Some(self.plain_integer("an alignment")?);
                }
                Some(Keyword::Attribute) => self.attribute_list(&mut attributes)?,
                Some(keyword) if keyword.is_space() && space.is_none() => {
                    space = StateSpace::from_word(&self.slice()[1..]);
                    self.bump();
                    if keyword == Keyword::Const {
                        bank = self.opt_bank()?;
                    }
                }
                _ => break,
            }
        }
        let Some(space) = space else {
            return self.missing_space();
        };
        let (vector, scalar) = self.declared_type()?;
        Ok(DeclarationHead {
            start,
            linkage,
            space,
            bank,
            align,
            attributes: self.module.arena.add_list(attributes),
            vector,
            scalar,
        })
    }

    fn missing_space<T>(&mut self) -> Parse<T> {
        if self.at(Token::DotWord) && ScalarType::from_word(&self.slice()[1..]).is_some() {
            let message = "a declaration needs a state space before its type";
            self.report(
                Diagnostic::error(Code::STATE_SPACE, self.span, message)
                    .with_label("expected `.global`, `.reg`, `.param` or the like"),
            );
            return Err(Failed);
        }
        self.unexpected("a state space, such as `.global` or `.reg`")
    }

    /// Parses the number of a constant bank, if there is one: `[number]` after `.const`, which PTX
    /// permitted before version 2.2.
    fn opt_bank(&mut self) -> Parse<Option<u64>> {
        if !self.eat(Token::LeftBracket) {
            return Ok(None);
        }
        let bank = self.plain_integer("a bank number")?;
        self.expect(Token::RightBracket, "`]`")?;
        Ok(Some(bank))
    }

    /// Parses the type of a declaration, such as `.v4 .f32`.
    fn declared_type(&mut self) -> Parse<(VectorSize, ScalarType)> {
        let vector = match self.keyword() {
            Some(Keyword::V2) => VectorSize::V2,
            Some(Keyword::V4) => VectorSize::V4,
            _ => VectorSize::Scalar,
        };
        if vector != VectorSize::Scalar {
            self.bump();
        }
        if !self.at(Token::DotWord) {
            return self.unexpected("a type, such as `.b32`");
        }
        let Some(scalar) = ScalarType::from_word(&self.slice()[1..]) else {
            return self.unexpected("a type, such as `.b32`");
        };
        self.bump();
        Ok((vector, scalar))
    }

    /// Parses a list of attributes such as `.attribute(.managed, .unified(1, 2))`, and appends the
    /// attributes to `attributes`.
    pub(super) fn attribute_list(&mut self, attributes: &mut Vec<Attribute>) -> Parse<()> {
        self.bump();
        self.expect(Token::LeftParen, "`(`")?;
        loop {
            match self.keyword() {
                Some(Keyword::Managed) => {
                    self.bump();
                    attributes.push(Attribute::Managed);
                }
                Some(Keyword::Unified) => {
                    self.bump();
                    attributes.push(self.unified()?);
                }
                _ => return self.unexpected("`.managed` or `.unified(...)`"),
            }
            if !self.eat(Token::Comma) {
                break;
            }
        }
        self.expect(Token::RightParen, "`,` or `)`")?;
        Ok(())
    }

    fn unified(&mut self) -> Parse<Attribute> {
        self.expect(Token::LeftParen, "`(`")?;
        let high = self.plain_integer("an integer")?;
        self.expect(Token::Comma, "`,`")?;
        let low = self.plain_integer("an integer")?;
        self.expect(Token::RightParen, "`)`")?;
        Ok(Attribute::Unified(high, low))
    }

    /// Parses the names after the head of a declaration, such as `a, b<4>, c[2] = {1, 2};`. The list of names may be
    /// empty. Calls `take` for each variable.
    pub(super) fn declarators(
        &mut self,
        head: &DeclarationHead,
        mut take: impl FnMut(&mut Self, Variable),
    ) -> Parse<()> {
        if self.eat(Token::Semicolon) {
            return Ok(());
        }
        loop {
            let variable = self.declarator(head)?;
            take(self, variable);
            if !self.eat(Token::Comma) {
                break;
            }
        }
        self.expect(Token::Semicolon, "`,` or `;`")?;
        Ok(())
    }

    fn declarator(&mut self, head: &DeclarationHead) -> Parse<Variable> {
        let name = self.ident("a name")?;
        let range = self.opt_range()?;
        let dimensions = match range {
            None => self.dimensions()?,
            Some(_) => List::EMPTY,
        };
        let mut initializer = None;
        if self.eat(Token::Equals) {
            let value = self.initializer(head.scalar)?;
            initializer = Some(self.module.arena.add(value));
        }
        Ok(Variable {
            initializer,
            range,
            dimensions,
            ..self.variable(head, name)
        })
    }

    /// Creates a variable from the head of its declaration and its name, without range, dimensions or initialiser.
    fn variable(&self, head: &DeclarationHead, name: Ident) -> Variable {
        Variable {
            name,
            linkage: head.linkage,
            space: head.space,
            bank: head.bank,
            scalar: head.scalar,
            vector: head.vector,
            align: head.align,
            range: None,
            dimensions: List::EMPTY,
            pointer: None,
            attributes: head.attributes,
            initializer: None,
            span: self.since(head.start),
        }
    }

    /// Parses an optional `<n>` after a name.
    pub(super) fn opt_range(&mut self) -> Parse<Option<u64>> {
        if !self.eat(Token::Less) {
            return Ok(None);
        }
        let count = self.plain_integer("a number of registers")?;
        self.expect(Token::Greater, "`>`")?;
        Ok(Some(count))
    }

    /// Parses the dimensions of an array, such as `[2][3]`; the first dimension may be `[]`.
    fn dimensions(&mut self) -> Parse<List<Dimension>> {
        let mark = self.module.arena.count::<Dimension>();
        while self.at(Token::LeftBracket) {
            let first = self.module.arena.count::<Dimension>() == mark;
            self.dimension(first)?;
        }
        Ok(self.module.arena.list_since(mark))
    }

    fn dimension(&mut self, may_be_open: bool) -> Parse<()> {
        let start = self.span.start;
        self.bump();
        let length = match self.token {
            Token::RightBracket if may_be_open => None,
            _ => Some(self.plain_integer("a number of elements")?),
        };
        self.expect(Token::RightBracket, "`]`")?;
        let span = self.since(start);
        self.module.arena.add(Dimension { length, span });
        Ok(())
    }

    /// Parses a list of parameters in parentheses, `(parameter, ...)`. Returns an empty list if
    /// there is none.
    pub(super) fn opt_parameters(&mut self) -> Parse<List<Variable>> {
        if !self.eat(Token::LeftParen) {
            return Ok(List::EMPTY);
        }
        let mut parameters = Vec::new();
        if !self.at(Token::RightParen) {
            loop {
                parameters.push(self.parameter()?);
                if !self.eat(Token::Comma) {
                    break;
                }
            }
        }
        self.expect(Token::RightParen, "`,` or `)`")?;
        Ok(self.module.arena.add_list(parameters))
    }

    /// Parses one parameter, such as `.param .u64 .ptr .global .align 8 name[4]`; the name may be
    /// `_`.
    fn parameter(&mut self) -> Parse<Variable> {
        let head = self.declaration_head(Linkage::Internal, self.span.start)?;
        let pointer = self.opt_pointer()?;
        if !matches!(self.token, Token::Ident | Token::Underscore) {
            return self.unexpected("the parameter's name");
        }
        let name = self.take_name();
        let mark = self.module.arena.count::<Dimension>();
        if self.at(Token::LeftBracket) {
            self.dimension(true)?;
        }
        Ok(Variable {
            pointer,
            dimensions: self.module.arena.list_since(mark),
            ..self.variable(&head, name)
        })
    }

    /// Parses an optional `.ptr .global .align 4` after a parameter's type.
    fn opt_pointer(&mut self) -> Parse<Option<Pointer>> {
        if !self.eat_keyword(Keyword::Ptr) {
            return Ok(None);
        }
        let mut pointer = Pointer::default();
        if let Some(keyword) = self.keyword()
            && matches!(
                keyword,
                Keyword::Const | Keyword::Global | Keyword::Local | Keyword::Shared
            )
        {
            pointer.space = StateSpace::from_word(&self.slice()[1..]);
            self.bump();
        }
        if self.eat_keyword(Keyword::Align) {
            pointer.align = Some(self.plain_integer("an alignment")?);
        }
        Ok(Some(pointer))
    }
}
