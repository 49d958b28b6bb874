//! Skips the bodies of functions in long texts, and parses a body when it is needed.
//!
//! A program that loads an image of several megabytes usually launches a few of its kernels. [`outline`] parses the
//! declarations of a module. For each function body it finds only the end, and the variables in it that exist as long
//! as the module ([`Unread`]). [`read_bodies`] parses the bodies of some functions later.
//! Invariant: a body that this module skips and parses later has the same statements as a body that [`super::parse`]
//! parses.

use std::sync::Arc;

use super::{Parse, Parser};
use crate::Parsed;
use crate::ast::{Function, Id, Linkage, List, Module, StateSpace, Statement, Unread, Variable};
use crate::diagnostic::Diagnostic;
use crate::lexer::Lexer;
use crate::source::{SourceFile, Span};

/// Parses a module without the bodies of its functions.
pub(crate) fn outline(source: Arc<SourceFile>) -> Parsed {
    super::parse_text(source, true)
}

/// Parses the bodies of `functions`, which [`outline`] has skipped. Returns the problems in them.
pub(crate) fn read_bodies(
    parsed: &mut Parsed,
    functions: &[(Id<Function>, Unread)],
) -> Vec<Diagnostic> {
    let source = Arc::clone(&parsed.source);
    let mut parser = Parser::over(source.text(), std::mem::take(&mut parsed.module));
    for &(id, unread) in functions {
        parser.text = &source.text()[..unread.span.end as usize];
        parser.move_to(unread.span.start);
        let body = parser.body();
        parser.module.arena[id].body = Some(body);
    }
    let (module, diagnostics) = parser.finish();
    parsed.module = module;
    diagnostics
}

impl Parser<'_> {
    /// Continues at the token that begins at the byte offset `at` or after it.
    fn move_to(&mut self, at: u32) {
        self.lexer = Lexer::starting_at(self.text, at as usize);
        self.peeked = None;
        self.span = Span::at(at);
        self.bump();
    }

    /// Skips the body of a function, whose `{` is the current token, and returns what has been skipped. Returns `None`
    /// without skipping anything if the body must be parsed now.
    pub(super) fn skip_body(&mut self) -> Option<Unread> {
        if !self.skips_bodies || self.body_parameters.is_some() {
            return None;
        }
        let start = self.span.start;
        let known = self.diagnostics.len();
        match self.skip_statements(start) {
            Some((end, variables)) => {
                self.move_to(end);
                Some(Unread {
                    span: Span::new(start, end),
                    variables: self.module.arena.add_list(variables),
                })
            }
            None => {
                self.diagnostics.truncate(known);
                self.move_to(start);
                None
            }
        }
    }

    fn skip_statements(&mut self, start: u32) -> Option<(u32, Vec<Variable>)> {
        let mut variables = Vec::new();
        let mut scan = Scan {
            text: self.text.as_bytes(),
            at: start as usize,
            last: b';',
            depth: 0,
            is_location: false,
        };
        loop {
            match scan.next()? {
                Found::End(end) => return Some((end, variables)),
                Found::Variable(at) => {
                    self.move_to(at);
                    self.variables_of_module(&mut variables).ok()?;
                    scan.at = self.previous_end as usize;
                    scan.last = b';';
                }
            }
        }
    }

    /// Parses a declaration of variables that exist as long as the module.
    fn variables_of_module(&mut self, to: &mut Vec<Variable>) -> Parse<()> {
        let head = self.declaration_head(Linkage::Internal, self.span.start)?;
        self.declarators(&head, |_, variable| to.push(variable))
    }
}

/// What a [`Scan`] finds in a body.
enum Found {
    /// The offset after the closing brace of the body.
    End(u32),
    /// The offset at which a declaration of variables begins that exist as long as the module.
    Variable(u32),
}

/// Finds the end of a body, without splitting the body into tokens.
struct Scan<'s> {
    text: &'s [u8],
    at: usize,
    /// The last byte outside white space and comments.
    last: u8,
    /// The number of open braces.
    depth: u32,
    /// Whether the last statement began with `.loc`, which no semicolon ends.
    is_location: bool,
}

/// The bytes that have a meaning for [`Scan::next`] inside a statement that is not a `.loc`.
const HAS_MEANING: [bool; 256] = {
    let mut table = [false; 256];
    let mut bytes: &[u8] = b"{}/\";:";
    while let [first, rest @ ..] = bytes {
        table[*first as usize] = true;
        bytes = rest;
    }
    table
};

impl Scan<'_> {
    /// Returns `None` if the body has no end, or contains a statement whose meaning depends on more than its first
    /// word.
    fn next(&mut self) -> Option<Found> {
        loop {
            let byte = *self.text.get(self.at)?;
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c => {
                    self.at += 1;
                    continue;
                }
                b'{' => self.depth += 1,
                b'}' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Some(Found::End(u32::try_from(self.at + 1).ok()?));
                    }
                }
                b'/' if self.skip_comment()? => continue,
                b'"' => {
                    let rest = &self.text[self.at + 1..];
                    let end = rest.iter().position(|&b| matches!(b, b'"' | b'\n'))?;
                    self.at += 1 + end;
                    if self.text[self.at] != b'"' {
                        return None;
                    }
                }
                b'.' if self.is_at_statement() => {
                    self.is_location = false;
                    match self.word() {
                        b"align" | b"attribute" | b"alias" => return None,
                        b"loc" => self.is_location = true,
                        word if is_of_module(word) => {
                            return Some(Found::Variable(u32::try_from(self.at).ok()?));
                        }
                        _ => {}
                    }
                }
                b';' | b':' => self.is_location = false,
                _ if !self.is_location => {
                    // Inside a statement, most bytes have no meaning here. The end of the text is found above.
                    let rest = &self.text[self.at + 1..];
                    let length = rest.iter().position(|&byte| HAS_MEANING[usize::from(byte)]);
                    self.last = byte;
                    self.at += 1 + length.unwrap_or(rest.len());
                    continue;
                }
                _ => {}
            }
            self.last = byte;
            self.at += 1;
        }
    }

    /// Returns whether a directive begins at the current position. The dot of a modifier follows a word directly.
    fn is_at_statement(&self) -> bool {
        let before = self.at.checked_sub(1).map(|at| self.text[at]);
        matches!(self.last, b';' | b'{' | b'}' | b':')
            || self.is_location && before.is_some_and(|byte| byte.is_ascii_whitespace())
    }

    /// Returns the word after the dot at the current position.
    fn word(&self) -> &[u8] {
        let rest = &self.text[self.at + 1..];
        let end = rest.iter().position(|b| !b.is_ascii_alphanumeric());
        &rest[..end.unwrap_or(rest.len())]
    }

    /// If a comment begins at the current position, skips it and returns true. Returns `None` if the comment does not
    /// end.
    fn skip_comment(&mut self) -> Option<bool> {
        let rest = &self.text[self.at..];
        let length = match rest.get(1) {
            Some(b'/') => rest.iter().position(|&b| b == b'\n')?,
            Some(b'*') => 4 + rest[2..].windows(2).position(|pair| pair == b"*/")?,
            _ => return Some(false),
        };
        self.at += length;
        Some(true)
    }
}

/// Whether `word` is a state space whose variables exist as long as the module, also if a function declares them.
fn is_of_module(word: &[u8]) -> bool {
    let space = std::str::from_utf8(word).ok();
    let space = space.and_then(StateSpace::from_word);
    space.is_some_and(|space| !space.is_of_thread())
}

/// Returns the IDs of the variables in a body that exist as long as the module, in their order.
pub(crate) fn variables_of_module(module: &Module, body: List<Statement>) -> Vec<Id<Variable>> {
    let found = module[body]
        .iter()
        .filter_map(|statement| match *statement {
            Statement::Variable(id) if !module[id].space.is_of_thread() => Some(id),
            _ => None,
        });
    found.collect()
}
