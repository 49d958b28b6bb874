//! Parses operands.
//!
//! The operands in a list (`{...}`, `[...]` or `(...)`) are first pushed to the parser's stack
//! `pending`. At the end of the list, they are moved to the arena. So the operands of each list are
//! contiguous in the arena, although lists can be nested.

use super::keyword::Keyword;
use super::{Parse, Parser};
use crate::ast::{List, Name, Operand, OperandKind, Prefix};
use crate::lexer::Token;

/// The position of an operand in an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OperandPosition {
    /// The first operand. Only this operand can be a sink (`_`) or a pair (`a|b`).
    First,
    /// Any other operand.
    Later,
}

impl Parser<'_> {
    /// Parses one operand.
    pub(super) fn operand(&mut self, place: OperandPosition) -> Parse<Operand> {
        let start = self.span.start;
        let token = self.token;
        let kind = match token {
            Token::Ident => self.name_operand(place)?,
            Token::LeftBracket => return self.memory_operand(),
            Token::LeftBrace => self.vector()?,
            Token::Underscore if place == OperandPosition::First => {
                self.bump();
                OperandKind::Sink
            }
            Token::Bang | Token::Minus if self.peek() == Token::Ident => self.prefixed()?,
            Token::Int
            | Token::Float
            | Token::SingleBits
            | Token::DoubleBits
            | Token::WarpSize
            | Token::LeftParen
            | Token::Bang
            | Token::Minus
            | Token::Plus
            | Token::Tilde => OperandKind::Constant(self.constant()?),
            _ if place == OperandPosition::First => return self.unexpected("an operand or `;`"),
            _ => return self.unexpected("an operand"),
        };
        let operand = self.operand_since(kind, start);
        if place == OperandPosition::First && self.at(Token::Pipe) {
            return self.pair(operand);
        }
        Ok(operand)
    }

    fn operand_since(&self, kind: OperandKind, start: u32) -> Operand {
        Operand {
            kind,
            span: self.since(start),
        }
    }

    /// Moves the operands of `pending` from the index `start` on to the arena, and returns the list
    /// of them.
    pub(super) fn close_operands(&mut self, start: usize) -> List<Operand> {
        self.module.arena.add_list(self.pending.drain(start..))
    }

    /// Parses an operand that begins with a name: `name`, `name.selector`, `name + offset` or
    /// `name[index]`.
    fn name_operand(&mut self, place: OperandPosition) -> Parse<OperandKind> {
        let base = self.take_name().name;
        Ok(match self.token {
            Token::DotWord => match self.opt_selector() {
                Some(selector) => OperandKind::Component { base, selector },
                None => OperandKind::Name(base),
            },
            Token::Plus => {
                let offset = self.offset()?;
                OperandKind::Offset { base, offset }
            }
            Token::LeftBracket => self.element(base)?,
            // After the name of a first operand, the caller parses `|`. After any other name, `|` is an error.
            Token::Pipe if place == OperandPosition::Later => return self.unexpected("`,` or `;`"),
            _ => OperandKind::Name(base),
        })
    }

    /// Parses an optional `.selector` after a register. A reserved keyword after a register is not
    /// a selector: it begins a new statement, and the semicolon before it is missing.
    fn opt_selector(&mut self) -> Option<Name> {
        if !self.at(Token::DotWord) {
            return None;
        }
        let selector = self.dot_name();
        let taken = !Keyword::is_reserved(selector);
        taken.then(|| {
            self.bump();
            selector
        })
    }

    /// Parses `+ constant`.
    pub(super) fn offset(&mut self) -> Parse<i64> {
        self.bump();
        Ok(self.integer_constant()? as i64)
    }

    /// Parses the index after the name `base` of an array: `[constant]`, `[register]` or
    /// `[register+constant]`.
    fn element(&mut self, base: Name) -> Parse<OperandKind> {
        self.bump();
        let (register, offset) = if self.at(Token::Ident) {
            let register = self.take_name().name;
            let offset = match self.token {
                Token::Plus => self.offset()?,
                _ => 0,
            };
            (Some(register), offset)
        } else {
            (None, self.integer_constant()? as i64)
        };
        self.expect(Token::RightBracket, "`]`")?;
        Ok(OperandKind::Element {
            base,
            register,
            offset,
        })
    }

    /// Parses an operand that begins with an operator: `!name`, `-name` or `-name.selector`.
    fn prefixed(&mut self) -> Parse<OperandKind> {
        let prefix = match self.token {
            Token::Bang => Prefix::Not,
            _ => Prefix::Minus,
        };
        self.bump();
        let base = self.take_name().name;
        let selector = match prefix {
            Prefix::Minus => self.opt_selector(),
            Prefix::Not => None,
        };
        Ok(OperandKind::Prefixed {
            prefix,
            base,
            selector,
        })
    }

    /// Parses the rest of the pair `first | second`. The second operand must be a register or `_`.
    fn pair(&mut self, first: Operand) -> Parse<Operand> {
        if !matches!(
            first.kind,
            OperandKind::Name(_) | OperandKind::Sink | OperandKind::Vector(_)
        ) {
            return self.unexpected("`,` or `;`");
        }
        self.bump();
        let start = self.span.start;
        let kind = match self.token {
            Token::Underscore => {
                self.bump();
                OperandKind::Sink
            }
            Token::Ident => OperandKind::Name(self.take_name().name),
            _ => return self.unexpected("a register or `_`"),
        };
        let second = self.operand_since(kind, start);
        let both = self.module.arena.add_list([first, second]);
        Ok(self.operand_since(OperandKind::Pair(both), first.span.start))
    }

    /// Parses a vector `{a, b, ...}`, whose elements are names, components, sinks and constants.
    fn vector(&mut self) -> Parse<OperandKind> {
        let mark = self.pending.len();
        self.bump();
        loop {
            let start = self.span.start;
            let kind = match self.token {
                Token::Ident => self.vector_name()?,
                Token::Underscore => {
                    self.bump();
                    OperandKind::Sink
                }
                Token::RightBrace | Token::LeftBrace | Token::LeftBracket => {
                    return self.unexpected("a vector element");
                }
                _ => OperandKind::Constant(self.constant()?),
            };
            let element = self.operand_since(kind, start);
            self.pending.push(element);
            if !self.eat(Token::Comma) {
                break;
            }
        }
        self.expect(Token::RightBrace, "`,` or `}`")?;
        Ok(OperandKind::Vector(self.close_operands(mark)))
    }

    fn vector_name(&mut self) -> Parse<OperandKind> {
        let base = self.take_name().name;
        Ok(match self.opt_selector() {
            Some(selector) => OperandKind::Component { base, selector },
            None => OperandKind::Name(base),
        })
    }

    /// Parses an address and an optional `.unified` after it.
    fn memory_operand(&mut self) -> Parse<Operand> {
        let start = self.span.start;
        let kind = self.memory()?;
        let operand = self.operand_since(kind, start);
        self.opt_unified();
        Ok(operand)
    }

    /// Parses an operand in brackets: `[name + offset]`, `[constant]` or `[a, b, ...]`.
    fn memory(&mut self) -> Parse<OperandKind> {
        self.bump();
        if !self.at(Token::Ident) {
            let address = self.address_constant()?;
            self.expect(Token::RightBracket, "`]`")?;
            return Ok(OperandKind::MemoryAt(address));
        }
        let start = self.span.start;
        let base = self.take_name().name;
        match self.token {
            Token::RightBracket => {
                self.bump();
                Ok(OperandKind::Memory { base, offset: 0 })
            }
            Token::Plus => {
                let offset = self.offset()?;
                self.expect(Token::RightBracket, "`]`")?;
                Ok(OperandKind::Memory { base, offset })
            }
            Token::Comma => {
                let kind = OperandKind::Memory { base, offset: 0 };
                let first = self.operand_since(kind, start);
                self.memory_tuple(first)
            }
            _ => self.unexpected("`+`, `,` or `]`"),
        }
    }

    fn address_constant(&mut self) -> Parse<i64> {
        match self.token {
            Token::RightBracket | Token::LeftBrace | Token::LeftBracket | Token::Underscore => {
                self.unexpected("an address")
            }
            _ => Ok(self.integer_constant()? as i64),
        }
    }

    /// Parses the rest of an operand such as `[first, b, {c, d}]`, from the first comma on.
    fn memory_tuple(&mut self, first: Operand) -> Parse<OperandKind> {
        let mark = self.pending.len();
        self.pending.push(first);
        while self.eat(Token::Comma) {
            let start = self.span.start;
            let kind = match self.token {
                Token::Ident => OperandKind::Name(self.take_name().name),
                Token::LeftBrace => self.vector()?,
                _ => return self.unexpected("a name or a vector of coordinates"),
            };
            let member = self.operand_since(kind, start);
            self.pending.push(member);
        }
        self.expect(Token::RightBracket, "`,` or `]`")?;
        Ok(OperandKind::MemoryTuple(self.close_operands(mark)))
    }

    /// Parses a list `(a, b, ...)` in a `call`. The elements are names, constants and sinks, and
    /// the list may be empty.
    pub(super) fn group(&mut self) -> Parse<Operand> {
        let outer = self.span.start;
        let mark = self.pending.len();
        self.bump();
        while !self.at(Token::RightParen) {
            let start = self.span.start;
            let kind = match self.token {
                Token::Ident => OperandKind::Name(self.take_name().name),
                Token::Underscore => {
                    self.bump();
                    OperandKind::Sink
                }
                Token::LeftBrace | Token::LeftBracket => {
                    return self.unexpected("a register, a parameter or a constant");
                }
                _ => OperandKind::Constant(self.constant()?),
            };
            let member = self.operand_since(kind, start);
            self.pending.push(member);
            if !self.eat(Token::Comma) {
                break;
            }
            if self.at(Token::RightParen) {
                return self.unexpected("another argument");
            }
        }
        self.expect(Token::RightParen, "`,` or `)`")?;
        let list = self.close_operands(mark);
        Ok(self.operand_since(OperandKind::Group(list), outer))
    }
}
