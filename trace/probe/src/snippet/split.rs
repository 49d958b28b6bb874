//! Splits the text of a snippet into statements.

use margay_frontend::lexer::{Lexer, Token};

use super::{Declared, Guard, Helper, Piece, Save, Snippet, Statement, StatementKind};
use crate::error::line_of;
use crate::width::Width;

/// What is wrong in a snippet, and the line in the snippet's text, from 0.
pub(crate) type Fault = (u32, String);

/// The maximum length of a snippet in bytes.
const MAX_TEXT: usize = 1 << 20;
/// The maximum number of registers in a range.
const MAX_RANGE: u32 = 256;

/// Splits `text`, whose first line is line `line` of the probe file.
///
/// # Errors
///
/// Returns the line in the probe file and a description if the text is not a list of statements.
pub(crate) fn split(text: &str, line: u32) -> Result<Snippet, Fault> {
    if text.len() > MAX_TEXT {
        return Err((line, format!("the text has more than {MAX_TEXT} bytes")));
    }
    let mut splitter = Splitter::new(text, line);
    let mut statements = Vec::new();
    let mut declared = Vec::new();
    let mut depth = 0_u32;
    while splitter.token() != Token::End {
        if splitter.token() == Token::Semicolon {
            splitter.next();
            continue;
        }
        let line = splitter.line();
        let Some(statement) = splitter.statement(&mut depth, &mut declared)? else {
            continue;
        };
        let (guard, kind) = statement;
        statements.push(Statement { guard, kind, line });
    }
    if depth > 0 {
        return Err((splitter.line(), "a `{` has no `}`".to_owned()));
    }
    Ok(Snippet {
        text: text.to_owned(),
        statements,
        declared,
    })
}

type Parsed = (Option<Guard>, StatementKind);

struct Splitter<'t> {
    text: &'t str,
    first_line: u32,
    tokens: Vec<(Token, usize, usize)>,
    at: usize,
}

impl<'t> Splitter<'t> {
    fn new(text: &'t str, first_line: u32) -> Self {
        let mut lexer = Lexer::new(text);
        let mut tokens = Vec::new();
        loop {
            let (token, span) = lexer.next_token();
            tokens.push((token, span.start as usize, span.end as usize));
            if token == Token::End {
                break;
            }
        }
        Splitter {
            text,
            first_line,
            tokens,
            at: 0,
        }
    }

    fn peek(&self, ahead: usize) -> (Token, usize, usize) {
        let last = self.tokens.len() - 1;
        self.tokens[(self.at + ahead).min(last)]
    }

    fn token(&self) -> Token {
        self.peek(0).0
    }

    fn word(&self) -> &'t str {
        let (_, start, end) = self.peek(0);
        &self.text[start..end]
    }

    fn next(&mut self) {
        self.at += 1;
    }

    fn line(&self) -> u32 {
        self.first_line + line_of(self.text, self.peek(0).1) - 1
    }

    fn fail<T>(&self, wanted: &str) -> Result<T, Fault> {
        let found = match self.token() {
            Token::End => "the end of the text".to_owned(),
            _ => format!("`{}`", self.word()),
        };
        Err((self.line(), format!("{wanted} is missing before {found}")))
    }

    fn expect(&mut self, token: Token, wanted: &str) -> Result<(), Fault> {
        if self.token() != token {
            return self.fail(wanted);
        }
        self.next();
        Ok(())
    }

    fn statement(
        &mut self,
        depth: &mut u32,
        declared: &mut Vec<Declared>,
    ) -> Result<Option<Parsed>, Fault> {
        match self.token() {
            Token::LeftBrace => {
                *depth += 1;
                self.next();
                Ok(Some((None, StatementKind::Open)))
            }
            Token::RightBrace => {
                let outer = depth.checked_sub(1);
                *depth = outer.ok_or((self.line(), "a `}` has no `{`".to_owned()))?;
                self.next();
                Ok(Some((None, StatementKind::Close)))
            }
            Token::DotWord => {
                let registers = self.declaration(*depth == 0)?;
                declared.extend(registers.iter().cloned());
                Ok((*depth > 0).then_some((None, StatementKind::Declare(registers))))
            }
            Token::Ident if self.peek(1).0 == Token::Colon => {
                let label = self.word().to_owned();
                self.next();
                self.next();
                Ok(Some((None, StatementKind::Label(label))))
            }
            _ => self.guarded().map(Some),
        }
    }

    fn declaration(&mut self, is_shared: bool) -> Result<Vec<Declared>, Fault> {
        if self.word() != ".reg" {
            let message = format!("a probe declares only registers, not `{}`", self.word());
            return Err((self.line(), message));
        }
        self.next();
        if self.token() != Token::DotWord {
            return self.fail("the type of the registers");
        }
        let scalar = self.word().trim_start_matches('.').to_owned();
        let mut all = Vec::new();
        loop {
            self.next();
            all.push(self.declared(&scalar, is_shared)?);
            if self.token() != Token::Comma {
                break;
            }
        }
        self.expect(Token::Semicolon, "`;`")?;
        Ok(all)
    }

    fn declared(&mut self, scalar: &str, is_shared: bool) -> Result<Declared, Fault> {
        if self.token() != Token::Ident {
            return self.fail("the name of a register");
        }
        let name = self.word().to_owned();
        self.next();
        let mut count = None;
        if self.token() == Token::Less {
            self.next();
            let number: u32 = self.word().parse().unwrap_or(0);
            if number == 0 || number > MAX_RANGE {
                return self.fail(&format!("a number of registers from 1 to {MAX_RANGE}"));
            }
            count = Some(number);
            self.next();
            self.expect(Token::Greater, "`>`")?;
        }
        Ok(Declared {
            name,
            scalar: scalar.to_owned(),
            count,
            is_shared,
        })
    }

    fn guarded(&mut self) -> Result<Parsed, Fault> {
        let guard = match self.token() {
            Token::At => Some(self.guard()?),
            _ => None,
        };
        if self.token() != Token::Ident {
            return self.fail("an instruction");
        }
        let kind = match self.word() {
            "SAVE" => StatementKind::Save(self.save()?),
            _ => self.instruction()?,
        };
        Ok((guard, kind))
    }

    fn guard(&mut self) -> Result<Guard, Fault> {
        self.next();
        let negated = self.token() == Token::Bang;
        if negated {
            self.next();
        }
        if self.token() != Token::Ident {
            return self.fail("a predicate register");
        }
        let register = self.piece();
        self.next();
        Ok(Guard { negated, register })
    }

    /// Returns the piece for the current token.
    fn piece(&self) -> Piece {
        let word = self.word();
        if self.token() != Token::Ident {
            return Piece::Text(word.to_owned());
        }
        let scratch = word
            .strip_prefix("%NR")
            .and_then(|number| number.parse().ok());
        match (scratch, Helper::from_word(word)) {
            (Some(number), _) => Piece::Scratch(number),
            (None, Some(helper)) => Piece::Helper(helper),
            (None, None) => Piece::Name(word.to_owned()),
        }
    }

    fn instruction(&mut self) -> Result<StatementKind, Fault> {
        let mut opcode = self.word().to_owned();
        let mut pieces = vec![Piece::Text(opcode.clone())];
        let mut end = self.peek(0).2;
        self.next();
        let mut in_opcode = true;
        while self.token() != Token::Semicolon {
            let (token, start, stop) = self.peek(0);
            let in_vector = pieces
                .iter()
                .any(|piece| *piece == Piece::Text("{".to_owned()));
            match token {
                Token::End => return self.fail("`;`"),
                Token::RightBrace if !in_vector => return self.fail("`;`"),
                Token::Stray | Token::UnterminatedComment | Token::UnterminatedString => {
                    return self.fail("an operand");
                }
                _ => {}
            }
            in_opcode &= token == Token::DotWord;
            if in_opcode {
                opcode.push_str(self.word());
            }
            if start > end {
                pieces.push(Piece::Text(" ".to_owned()));
            }
            pieces.push(self.piece());
            end = stop;
            self.next();
        }
        self.next();
        self.refuse_written_helper(&opcode, &pieces)?;
        Ok(StatementKind::Instruction(opcode, pieces))
    }

    /// Refuses an instruction whose destination is a helper: helpers are copies of the program's values.
    fn refuse_written_helper(&self, opcode: &str, pieces: &[Piece]) -> Result<(), Fault> {
        let head = opcode.split('.').next().unwrap_or_default();
        let mut operands = pieces.iter().skip(1).filter(|piece| match piece {
            Piece::Text(text) => text != " " && !text.starts_with('.'),
            _ => true,
        });
        match operands.next() {
            Some(Piece::Helper(helper)) if !matches!(head, "bra" | "bar" | "barrier") => {
                let message = format!("`{opcode}` writes to the helper {}", helper.word());
                Err((self.line(), message))
            }
            _ => Ok(()),
        }
    }

    fn save(&mut self) -> Result<Save, Fault> {
        self.next();
        let width = match (self.token(), self.word()) {
            (Token::DotWord, ".u64") => Some(Width::U64),
            (Token::DotWord, ".u32") => Some(Width::U32),
            (Token::DotWord, _) => return self.fail("`.u32` or `.u64`"),
            _ => None,
        };
        let map = match width {
            Some(_) => {
                self.next();
                None
            }
            None => Some(self.map_name()?),
        };
        let operands = self.save_operands()?;
        Ok(Save {
            map,
            width,
            first_field: 0,
            operands,
        })
    }

    fn map_name(&mut self) -> Result<String, Fault> {
        self.expect(Token::LeftBracket, "`[` and the name of a map")?;
        if self.token() != Token::Ident {
            return self.fail("the name of a map");
        }
        let name = self.word().to_owned();
        self.next();
        self.expect(Token::RightBracket, "`]`")?;
        Ok(name)
    }

    fn save_operands(&mut self) -> Result<Vec<Vec<Piece>>, Fault> {
        self.expect(Token::LeftBrace, "`{` and the values to save")?;
        let mut operands = vec![Vec::new()];
        loop {
            match self.token() {
                Token::RightBrace => break,
                Token::Comma => operands.push(Vec::new()),
                Token::Ident | Token::Int | Token::Minus | Token::DotWord => {
                    let piece = self.piece();
                    if let Some(operand) = operands.last_mut() {
                        operand.push(piece);
                    }
                }
                _ => return self.fail("`}`"),
            }
            self.next();
        }
        self.next();
        if operands.iter().any(Vec::is_empty) {
            return self.fail("a value to save");
        }
        Ok(operands)
    }
}
