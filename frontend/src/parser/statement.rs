//! Parses the statements of a function body.

use super::keyword::Keyword;
use super::{Failed, Parse, Parser};
use crate::ast::{BranchTarget, Ident, Linkage, List, Prototype, StateSpace, Statement, Targets};
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::lexer::Token;
use crate::source::Span;

impl Parser<'_> {
    /// The maximum number of scopes inside each other, including the body itself.
    const MAX_SCOPES: usize = 256;

    /// Parses the body `{ ... }` of a function. The loop over the statements adds a statement to
    /// the tree for each inner brace, so nested scopes need no recursion.
    pub(super) fn body(&mut self) -> List<Statement> {
        let mark = self.module.arena.count::<Statement>();
        self.location = None;
        self.positions.clear();
        let mut open = vec![self.span];
        // Number of open scopes beyond the maximum depth. Only the first of them is reported, and none of them is added
        // to the tree.
        let mut beyond = 0_u64;
        self.bump();
        while let Some(&outer) = open.last() {
            let start = self.span;
            match self.token {
                Token::LeftBrace if open.len() == Self::MAX_SCOPES => {
                    if beyond == 0 {
                        self.scopes_too_deep();
                    }
                    beyond += 1;
                    self.bump();
                }
                Token::LeftBrace => {
                    open.push(start);
                    self.bump();
                    self.module.arena.add(Statement::ScopeBegin(start));
                }
                Token::RightBrace if beyond > 0 => {
                    beyond -= 1;
                    self.bump();
                }
                Token::RightBrace => {
                    open.pop();
                    self.bump();
                    if !open.is_empty() {
                        self.module.arena.add(Statement::ScopeEnd(start));
                    }
                }
                Token::End => {
                    self.unclosed(outer);
                    self.close_scopes(open.len());
                    break;
                }
                _ => {
                    if self.statement().is_err() && !self.recover_in_body(start) {
                        self.close_scopes(open.len());
                        break;
                    }
                    self.progress(start);
                }
            }
        }
        self.module.arena.list_since(mark)
    }

    fn scopes_too_deep(&mut self) {
        let message = format!("more than {} scopes inside of each other", Self::MAX_SCOPES);
        self.report(Diagnostic::error(Code::TOO_DEEP, self.span, message));
    }

    /// Adds an end statement to the tree for each of the `open` scopes that the text does not
    /// close, except for the body itself, which has no end statement.
    fn close_scopes(&mut self, open: usize) {
        for _ in 1..open {
            self.module.arena.add(Statement::ScopeEnd(self.span));
        }
    }

    fn unclosed(&mut self, brace: Span) {
        let diagnostic = Diagnostic::error(
            Code::UNEXPECTED_END,
            self.span,
            "expected `}`, found the end of the text",
        );
        self.report(diagnostic.with_related(brace, "this `{` is not closed"));
    }

    /// Skips to the next statement or to the end of the body, after an error in the statement at
    /// `start`. Returns false if the closing brace of the body is missing: the current token is
    /// then a keyword that begins an item of the module.
    fn recover_in_body(&mut self, start: Span) -> bool {
        let mut at_start = self.span == start;
        if self.at(Token::LeftBrace) && !at_start {
            return true;
        }
        loop {
            let token = self.token;
            match token {
                Token::End => return true,
                Token::Semicolon => {
                    self.bump();
                    return true;
                }
                Token::RightBrace if !self.is_vector_end() => return true,
                Token::LeftBrace if !self.is_vector_start() => return true,
                Token::DotWord => match self.keyword() {
                    Some(keyword) if keyword.starts_function() => return false,
                    Some(keyword)
                        if Self::starts_statement(keyword)
                            && self.is_first_of_line()
                            && !at_start =>
                    {
                        return true;
                    }
                    _ => self.bump(),
                },
                _ => self.bump(),
            }
            at_start = false;
        }
    }

    /// Whether the current token, a `}`, ends a vector operand; otherwise it ends a scope. The next
    /// token shows which of them is the case.
    fn is_vector_end(&mut self) -> bool {
        matches!(
            self.peek(),
            Token::Comma | Token::Semicolon | Token::Pipe | Token::RightBracket
        )
    }

    /// Whether the current token, a `{`, starts a vector operand; otherwise it starts a scope. The
    /// next token shows which of them is the case.
    fn is_vector_start(&mut self) -> bool {
        matches!(
            self.peek(),
            Token::Ident | Token::Underscore | Token::Int | Token::Float | Token::SingleBits
        )
    }

    fn starts_statement(keyword: Keyword) -> bool {
        matches!(keyword, Keyword::Reg | Keyword::Loc | Keyword::Pragma)
    }

    /// Parses one statement other than a brace.
    fn statement(&mut self) -> Parse<()> {
        let token = self.token;
        match token {
            Token::Ident if self.peek() == Token::Colon => self.label(),
            Token::Ident => self.instruction(self.span.start, None),
            Token::At => self.guarded_instruction(),
            Token::DotWord => self.directive_statement(),
            Token::Semicolon => self
                .unexpected("a statement")
                .inspect_err(|_| self.empty_statement()),
            _ => self.unexpected("a statement"),
        }
    }

    fn empty_statement(&mut self) {
        if let Some(last) = self.diagnostics.last_mut() {
            last.notes
                .push("PTX has no empty statements: remove this `;`".to_owned());
        }
    }

    /// Parses the label `name:`. If `.branchtargets`, `.calltargets` or `.callprototype` follows,
    /// also parses this directive, which the label names.
    fn label(&mut self) -> Parse<()> {
        let label = self.take_name();
        self.bump();
        match self.keyword() {
            Some(Keyword::BranchTargets) => {
                let targets = self.targets(label)?;
                let targets = self.module.arena.add(targets);
                self.module.arena.add(Statement::BranchTargets(targets));
            }
            Some(Keyword::CallTargets) => {
                let targets = self.targets(label)?;
                let targets = self.module.arena.add(targets);
                self.module.arena.add(Statement::CallTargets(targets));
            }
            Some(Keyword::CallPrototype) => {
                let prototype = self.prototype(label)?;
                let prototype = self.module.arena.add(prototype);
                self.module.arena.add(Statement::CallPrototype(prototype));
            }
            _ => {
                self.module.arena.add(Statement::Label(label));
            }
        }
        Ok(())
    }

    /// Parses `.branchtargets a, b<3>;` or `.calltargets a, b<3>;`. The current token must be the
    /// keyword.
    fn targets(&mut self, label: Ident) -> Parse<Targets> {
        self.bump();
        let mut targets = Vec::new();
        loop {
            let name = self.ident("a target")?;
            let range = self.opt_range()?;
            targets.push(BranchTarget { name, range });
            if !self.eat(Token::Comma) {
                break;
            }
        }
        self.expect(Token::Semicolon, "`,` or `;`")?;
        Ok(Targets {
            label,
            targets: self.module.arena.add_list(targets),
            span: self.since(label.span.start),
        })
    }

    /// Parses `.callprototype (returns) _ (parameters) directives;`. The current token must be the
    /// keyword.
    fn prototype(&mut self, label: Ident) -> Parse<Prototype> {
        self.bump();
        let returns = self.opt_parameters()?;
        self.expect(Token::Underscore, "`_` in place of the function's name")?;
        let parameters = self.opt_parameters()?;
        let directives = self.func_directives()?;
        self.expect(Token::Semicolon, "`;`")?;
        Ok(Prototype {
            label,
            returns,
            parameters,
            directives,
            span: self.since(label.span.start),
        })
    }

    /// Parses a statement whose first token is a dot and a word: a declaration or a directive.
    fn directive_statement(&mut self) -> Parse<()> {
        let Some(keyword) = self.keyword() else {
            return self.unknown_directive();
        };
        match keyword {
            Keyword::Loc => self.loc(),
            Keyword::Pragma => {
                self.bump();
                let strings = self.pragma_strings()?;
                self.module.arena.add(Statement::Pragma(strings));
                Ok(())
            }
            Keyword::Alias => {
                let alias = self.alias()?;
                self.module.items.push(alias);
                Ok(())
            }
            Keyword::Align | Keyword::Attribute => self.local_declaration(),
            _ if keyword.is_space() => self.local_declaration(),
            Keyword::BranchTargets | Keyword::CallTargets | Keyword::CallPrototype => {
                let message = format!("`{}` needs a label before it", self.slice());
                self.misplaced(message)
            }
            _ if keyword.starts_function() => {
                let message = format!(
                    "`{}` is not allowed inside of a function; is a `}}` missing before it?",
                    self.slice()
                );
                self.misplaced(message)
            }
            _ => {
                let message = format!("`{}` does not start a statement", self.slice());
                self.misplaced(message)
            }
        }
    }

    fn local_declaration(&mut self) -> Parse<()> {
        let head = self.declaration_head(Linkage::Internal, self.span.start)?;
        self.declarators(&head, |parser, variable| {
            if let Some(parameters) = &mut parser.body_parameters
                && variable.space == StateSpace::Param
            {
                parameters.push(variable);
                return;
            }
            let id = parser.module.arena.add(variable);
            parser.module.arena.add(Statement::Variable(id));
        })
    }

    /// Adds the error `message` to the diagnostics, because the directive at the current token is
    /// not permitted in this place. Returns `Err(Failed)`.
    pub(super) fn misplaced<T>(&mut self, message: String) -> Parse<T> {
        self.report(Diagnostic::error(Code::DIRECTIVE_PLACE, self.span, message));
        Err(Failed)
    }

    /// Adds an error to the diagnostics, because the current token is an unknown directive. Returns
    /// `Err(Failed)`.
    pub(super) fn unknown_directive<T>(&mut self) -> Parse<T> {
        let message = format!("`{}` is not a PTX directive", self.slice());
        self.report(Diagnostic::error(
            Code::UNKNOWN_DIRECTIVE,
            self.span,
            message,
        ));
        Err(Failed)
    }
}
