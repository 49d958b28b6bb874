//! Parses instructions.

use super::keyword::Keyword;
use super::operand::OperandPosition;
use super::{Parse, Parser};
use crate::ast::{Guard, Id, Instruction, Modifier, Name, Operand, OperandKind, Statement};
use crate::lexer::Token;

impl Parser<'_> {
    /// Parses `@p` or `@!p` and the instruction after it.
    pub(super) fn guarded_instruction(&mut self) -> Parse<()> {
        let start = self.span.start;
        self.bump();
        let negated = self.eat(Token::Bang);
        let register = self.ident("a predicate register")?;
        if !self.at(Token::Ident) {
            return self.unexpected("an instruction after its guard");
        }
        if self.peek() == Token::Colon {
            self.bump();
            return self.unexpected("an instruction: a label cannot be guarded");
        }
        let guard = self.module.arena.add(Guard { register, negated });
        self.instruction(start, Some(guard))
    }

    /// Parses an instruction without its guard: opcode, modifiers, operands and semicolon. `start`
    /// is the byte offset of the statement's start.
    pub(super) fn instruction(&mut self, start: u32, guard: Option<Id<Guard>>) -> Parse<()> {
        let is_call = self.slice() == "call";
        let opcode = self.take_name();
        let first_modifier = self.module.arena.count::<Modifier>();
        self.modifiers();
        let mark = self.pending.len();
        let operands = match is_call {
            true => self.call_operands(),
            false => self.operands(),
        };
        let operands = match operands {
            Ok(()) => self.close_operands(mark),
            Err(failed) => {
                self.pending.truncate(mark);
                return Err(failed);
            }
        };
        let instruction = Instruction {
            opcode: opcode.name,
            opcode_start: opcode.span.start,
            guard,
            modifiers: self.module.arena.list_since(first_modifier),
            operands,
            location: self.location,
            span: self.since(start),
        };
        let end = self.expect(Token::Semicolon, "`,` or `;`");
        // The instruction is complete even if its semicolon is missing.
        self.module.arena.add(Statement::Instruction(instruction));
        end.map(|_| ())
    }

    /// Parses modifiers such as `.cc.u32`. A reserved keyword or `.unified` ends the modifiers, and
    /// is not parsed.
    fn modifiers(&mut self) {
        while self.at(Token::DotWord) {
            let name = self.dot_name();
            if Keyword::is_reserved(name) || Keyword::from_name(name) == Some(Keyword::Unified) {
                break;
            }
            self.modifier(name);
        }
    }

    fn modifier(&mut self, name: Name) {
        let span = self.span;
        self.module.arena.add(Modifier { name, span });
        self.bump();
    }

    /// Parses an optional `.unified`, the only modifier that follows an address.
    pub(super) fn opt_unified(&mut self) {
        if self.keyword() == Some(Keyword::Unified) {
            let name = self.dot_name();
            self.modifier(name);
        }
    }

    fn operands(&mut self) -> Parse<()> {
        if self.at(Token::Semicolon) {
            return Ok(());
        }
        let mut place = OperandPosition::First;
        loop {
            let operand = self.operand(place)?;
            self.pending.push(operand);
            if !self.eat(Token::Comma) {
                return Ok(());
            }
            place = OperandPosition::Later;
        }
    }

    /// Parses the operands of a `call`: `(returns), target, (arguments), prototype`. All parts
    /// except the target are optional.
    fn call_operands(&mut self) -> Parse<()> {
        if self.at(Token::LeftParen) {
            let returns = self.group()?;
            self.pending.push(returns);
            self.expect(Token::Comma, "`,`")?;
        }
        let target = self.call_name("the function to call")?;
        self.pending.push(target);
        if !self.eat(Token::Comma) {
            return Ok(());
        }
        if self.at(Token::LeftParen) {
            let arguments = self.group()?;
            self.pending.push(arguments);
            if !self.eat(Token::Comma) {
                return Ok(());
            }
        }
        let prototype = self.call_name("a prototype or a list of targets")?;
        self.pending.push(prototype);
        Ok(())
    }

    fn call_name(&mut self, what: &str) -> Parse<Operand> {
        let name = self.ident(what)?;
        Ok(Operand {
            kind: OperandKind::Name(name.name),
            span: name.span,
        })
    }
}
