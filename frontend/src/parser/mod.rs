//! Parses the tokens of a PTX text and creates a syntax tree.
//!
//! The parser is a recursive-descent parser with one function for each production. If the text does
//! not match a production, its function adds an error to the diagnostics and returns `Err(Failed)`.
//! Then the function that parses the enclosing list of statements or items skips tokens until it
//! can continue. Therefore, one run can find many errors, and always returns a tree.
//!
//! Invariants: all recursion whose depth depends on the input goes through [`Parser::deeper`], which limits the depth.
//! Every loop whose body can return without consuming the current token ends at [`Token::End`] and
//! calls [`Parser::progress`].

mod debug;
mod declaration;
mod expression;
mod function;
mod initializer;
mod instruction;
mod keyword;
mod module;
mod operand;
mod outline;
mod statement;

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::Parsed;
use crate::ast::{
    Arena, Id, Ident, List, Location, Module, Name, Operand, SourcePosition, Variable,
};
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::lexer::{Lexer, Token};
use crate::source::{SourceFile, Span};
use keyword::Keyword;

pub(crate) use outline::{outline, read_bodies, variables_of_module};

/// Parses a PTX module.
///
/// ```
/// use margay_frontend::{SourceFile, parse};
///
/// let parsed = parse(SourceFile::new("k.ptx", ".version 8.0\n.target sm_80\n.entry k() { ret }"));
/// assert_eq!(parsed.diagnostics[0].summary(&parsed.source),
///     "k.ptx:3:18: error[E0001]: expected an operand or `;`, found `}`");
/// ```
pub fn parse(source: impl Into<Arc<SourceFile>>) -> Parsed {
    parse_text(source.into(), false)
}

/// Parses a PTX module. If `skips_bodies` is set, skips the bodies of functions (`outline`).
fn parse_text(source: Arc<SourceFile>, skips_bodies: bool) -> Parsed {
    let text = source.text();
    let end = floor_boundary(text, SourceFile::MAX_LEN);
    let mut parser = Parser::new(&text[..end]);
    parser.skips_bodies = skips_bodies;
    if end < text.len() {
        parser.report(Diagnostic::error(
            Code::TOO_LONG,
            Span::at(0),
            "a PTX text must be shorter than 4 GiB",
        ));
    }
    parser.module();
    let (module, diagnostics) = parser.finish();
    Parsed {
        source,
        module,
        diagnostics,
    }
}

fn floor_boundary(text: &str, limit: usize) -> usize {
    let mut end = limit.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    end
}

/// The error that a parser function returns if the text does not match its grammar production. The
/// function has already added an error to the diagnostics.
#[derive(Debug, Clone, Copy)]
struct Failed;

type Parse<T> = Result<T, Failed>;

/// The state of the parser.
struct Parser<'s> {
    text: &'s str,
    lexer: Lexer<'s>,
    token: Token,
    span: Span,
    /// The token after the current token, if the lexer has already read it.
    peeked: Option<(Token, Span)>,
    /// The byte offset of the end of the token before the current token.
    previous_end: u32,
    module: Module,
    diagnostics: Vec<Diagnostic>,
    /// The number of nested expressions and initialisers in which the current token is.
    depth: u32,
    /// The `.loc` directive that states the source position of the next instruction.
    location: Option<Id<Location>>,
    /// For each source position, the last `.loc` with this position so far in the current function.
    positions: FxHashMap<SourcePosition, Id<Location>>,
    /// A stack of the operands of the lists that are being parsed. The operands of the innermost list are on top.
    pending: Vec<Operand>,
    /// Whether a `@@DWARF .section` has been parsed.
    in_dwarf_section: bool,
    /// Whether the parser skips the bodies of functions.
    skips_bodies: bool,
    /// While the parser is in the body of a kernel that declares its parameters there: the
    /// parameters that it has found so far; see [`Parser::has_body_parameters`].
    body_parameters: Option<Vec<Variable>>,
}

impl<'s> Parser<'s> {
    /// Maximum nesting depth of expressions and initialisers.
    const MAX_DEPTH: u32 = 100;
    /// The maximum number of diagnostics. If there is another problem, the parser skips the rest of
    /// the text.
    const MAX_DIAGNOSTICS: usize = 100;

    fn new(text: &'s str) -> Self {
        let module = Module {
            names: Keyword::names(),
            arena: Arena::for_text(text.len()),
            ..Module::default()
        };
        let mut parser = Parser::over(text, module);
        parser.bump();
        parser.previous_end = 0;
        parser
    }

    /// Creates a parser before the first token of `text`, which adds to `module`.
    fn over(text: &'s str, module: Module) -> Self {
        Parser {
            text,
            lexer: Lexer::new(text),
            token: Token::End,
            span: Span::at(0),
            peeked: None,
            previous_end: 0,
            module,
            diagnostics: Vec::new(),
            depth: 0,
            location: None,
            positions: FxHashMap::default(),
            pending: Vec::new(),
            in_dwarf_section: false,
            skips_bodies: false,
            body_parameters: None,
        }
    }

    fn finish(mut self) -> (Module, Vec<Diagnostic>) {
        // Sort the problems, because a few of them depend on later text and are therefore reported out of order.
        self.diagnostics.sort_by_key(|d| d.span.start);
        (self.module, self.diagnostics)
    }

    // Tokens.

    /// Moves to the next token. If an allocation for the tree or for a name has failed since the
    /// last call, skips the rest of the text.
    fn bump(&mut self) {
        let failed = self.module.arena.take_failure();
        if let Some(bytes) = failed.or_else(|| self.module.names.take_failure()) {
            self.out_of_memory(bytes);
        }
        self.previous_end = self.span.end;
        (self.token, self.span) = match self.peeked.take() {
            Some(next) => next,
            None => self.lexer.next_token(),
        };
    }

    /// Returns the kind of the token after the current token.
    fn peek(&mut self) -> Token {
        let lexer = &mut self.lexer;
        self.peeked.get_or_insert_with(|| lexer.next_token()).0
    }

    fn at(&self, token: Token) -> bool {
        self.token == token
    }

    /// Consumes the current token if it is `token`. Returns whether the token was consumed.
    fn eat(&mut self, token: Token) -> bool {
        let found = self.at(token);
        if found {
            self.bump();
        }
        found
    }

    /// Consumes the current token if it is `token`, and returns its span. Otherwise, adds an error
    /// to the diagnostics; `what` describes the expected token, such as "`;`".
    fn expect(&mut self, token: Token, what: &str) -> Parse<Span> {
        if !self.at(token) {
            return self.unexpected(what);
        }
        let span = self.span;
        self.bump();
        Ok(span)
    }

    /// Returns the text of the current token.
    fn slice(&self) -> &'s str {
        &self.text[self.span.range()]
    }

    /// Returns the span from `start` to the end of the token that was consumed last.
    fn since(&self, start: u32) -> Span {
        Span::new(start, self.previous_end.max(start))
    }

    // Names.

    /// Interns the text of the current token, whatever its kind is, and consumes the token.
    fn take_name(&mut self) -> Ident {
        let ident = Ident {
            name: self.module.names.intern(self.slice()),
            span: self.span,
        };
        self.bump();
        ident
    }

    /// Consumes the current token if it is a name, and returns the name. Otherwise, adds an error
    /// to the diagnostics; `what` describes the thing that the name refers to.
    fn ident(&mut self, what: &str) -> Parse<Ident> {
        if self.at(Token::Ident) {
            Ok(self.take_name())
        } else {
            self.unexpected(what)
        }
    }

    /// Interns the word of the current [`Token::DotWord`], without its dot.
    fn dot_name(&mut self) -> Name {
        let text = &self.text[self.span.start as usize + 1..self.span.end as usize];
        self.module.names.intern(text)
    }

    /// Returns the keyword that the current token is, or `None` if the token is not a keyword.
    fn keyword(&mut self) -> Option<Keyword> {
        match self.token {
            Token::DotWord => Keyword::from_name(self.dot_name()),
            _ => None,
        }
    }

    /// Consumes the current token if it is this keyword. Returns whether the token was consumed.
    fn eat_keyword(&mut self, keyword: Keyword) -> bool {
        let found = self.keyword() == Some(keyword);
        if found {
            self.bump();
        }
        found
    }

    /// Consumes the current token if it is a string, and returns the string's text without its
    /// quotes. Otherwise, adds an error to the diagnostics.
    fn string(&mut self, what: &str) -> Parse<Ident> {
        if !self.at(Token::String) {
            return self.unexpected(what);
        }
        let span = Span::new(self.span.start + 1, self.span.end - 1);
        let name = self.module.names.intern(&self.text[span.range()]);
        self.bump();
        Ok(Ident { name, span })
    }

    /// Parses the strings and the semicolon of a pragma: `"...", "...";`.
    fn pragma_strings(&mut self) -> Parse<List<Ident>> {
        let mut strings = vec![self.string("a string")?];
        while self.eat(Token::Comma) {
            strings.push(self.string("a string")?);
        }
        self.expect(Token::Semicolon, "`,` or `;`")?;
        Ok(self.module.arena.add_list(strings))
    }

    // Problems.

    fn report(&mut self, diagnostic: Diagnostic) {
        if self.diagnostics.len() < Self::MAX_DIAGNOSTICS {
            self.diagnostics.push(diagnostic);
        } else if !self.at(Token::End) || self.peeked.is_some() {
            self.stop();
        }
    }

    /// Adds an error to the diagnostics, which states that there are too many errors, and skips the
    /// rest of the text.
    fn stop(&mut self) {
        self.diagnostics.push(Diagnostic::error(
            Code::TOO_MANY_ERRORS,
            self.span,
            "too many errors; the rest of the text was not read",
        ));
        self.skip_to_end();
    }

    /// Adds an error to the diagnostics, which states that an allocation of `bytes` bytes failed,
    /// and skips the rest of the text.
    fn out_of_memory(&mut self, bytes: usize) {
        let known = self.diagnostics.iter().any(|d| d.needed_bytes().is_some());
        if !known {
            let span = self.opening();
            self.diagnostics
                .push(Diagnostic::out_of_memory(span, bytes as u64));
        }
        self.skip_to_end();
    }

    fn skip_to_end(&mut self) {
        self.peeked = None;
        self.lexer.skip_to_end();
        (self.token, self.span) = (Token::End, Span::at(self.span.end));
    }

    /// Adds an error to the diagnostics, which states that the grammar requires `expected` in the
    /// place of the current token. Returns `Err(Failed)`.
    fn unexpected<T>(&mut self, expected: &str) -> Parse<T> {
        let diagnostic = match self.token {
            Token::Stray => self.stray(),
            Token::UnterminatedComment => Diagnostic::error(
                Code::UNTERMINATED_COMMENT,
                self.opening(),
                "this comment has no `*/`",
            ),
            Token::UnterminatedString => Diagnostic::error(
                Code::UNTERMINATED_STRING,
                self.span,
                "this string has no closing quote on its line",
            )
            .with_note("strings in PTX have no escapes and end on the line they start on"),
            Token::End => Diagnostic::error(
                Code::UNEXPECTED_END,
                self.span,
                format!("expected {expected}, found the end of the text"),
            ),
            _ => {
                let found = self.found();
                Diagnostic::error(
                    Code::SYNTAX,
                    self.span,
                    format!("expected {expected}, found {found}"),
                )
            }
        };
        let diagnostic = diagnostic.with_label(format!("expected {expected}"));
        self.report(diagnostic);
        Err(Failed)
    }

    /// Returns the span of the first two bytes of the current token.
    fn opening(&self) -> Span {
        Span::new(self.span.start, self.span.end.min(self.span.start + 2))
    }

    fn stray(&self) -> Diagnostic {
        let text = self.slice();
        let message = match text.chars().next() {
            Some('\0') => "a NUL byte is not allowed in PTX".to_owned(),
            Some('#') => "`#` does not start a directive here".to_owned(),
            Some(c) if c.is_control() => format!("the character {c:?} is not allowed in PTX"),
            Some(c) if !c.is_ascii() => {
                format!("`{c}` is not allowed here: outside of comments PTX is ASCII")
            }
            _ => format!("`{text}` is not a PTX token"),
        };
        let diagnostic = Diagnostic::error(Code::STRAY_CHARACTER, self.span, message);
        if text.starts_with('#') {
            return diagnostic.with_note(
                "PTX has no preprocessor; only lines such as `# 1 \"file\"` are accepted",
            );
        }
        diagnostic
    }

    /// Returns a description of the current token for an error message: its text in backquotes,
    /// shortened if the text is long.
    fn found(&self) -> String {
        if let Some(description) = self.token.describe() {
            return description.to_owned();
        }
        let text = self.slice();
        match text.char_indices().nth(40) {
            Some((cut, _)) => format!("`{}...`", &text[..cut]),
            None => format!("`{text}`"),
        }
    }

    // Limits of nesting and of loops without progress.

    /// Calls `production` with the nesting depth increased by one. At the maximum depth, adds an
    /// error to the diagnostics instead, and returns `Err(Failed)`.
    fn deeper<T>(&mut self, production: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        if self.depth >= Self::MAX_DEPTH {
            self.report(Diagnostic::error(
                Code::TOO_DEEP,
                self.span,
                format!("nested more than {} levels deep", Self::MAX_DEPTH),
            ));
            return Err(Failed);
        }
        self.depth += 1;
        let result = production(self);
        self.depth -= 1;
        result
    }

    /// Consumes the current token if it is still the token at position `start`, so that every
    /// iteration of the calling loop consumes at least one token.
    fn progress(&mut self, start: Span) {
        if self.span == start && !self.at(Token::End) {
            self.bump();
        }
    }
}
