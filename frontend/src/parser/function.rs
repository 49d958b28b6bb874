//! Parses kernels and device functions.

use super::keyword::Keyword;
use super::{Failed, Parse, Parser};
use crate::ast::{
    Directive, DirectiveKind, Function, FunctionKind, Id, Item, Linkage, List, Version,
};
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::lexer::Token;

impl Parser<'_> {
    /// Parses `.entry name (parameters) directives`, then `{ ... }` or `;`. The current token must
    /// be the keyword.
    pub(super) fn entry(&mut self, linkage: Linkage, start: u32) -> Parse<()> {
        self.bump();
        let name = self.ident("the kernel's name")?;
        let parameters = self.opt_parameters()?;
        let directives = self.entry_directives()?;
        let function = Function {
            kind: FunctionKind::Entry,
            name,
            linkage,
            returns: List::EMPTY,
            parameters,
            attributes: List::EMPTY,
            directives,
            body: None,
            unread: None,
            span: self.since(start),
            whole: self.since(start),
        };
        if self.at(Token::Semicolon) && !directives.is_empty() {
            return self.unexpected("`{`: directives belong to a definition");
        }
        self.function_end(function)
    }

    /// Parses `.func attributes (returns) name (parameters) directives`, then `{ ... }` or `;`. The
    /// current token must be the keyword.
    pub(super) fn func(&mut self, linkage: Linkage, start: u32) -> Parse<()> {
        self.bump();
        let mut attributes = Vec::new();
        while self.keyword() == Some(Keyword::Attribute) {
            self.attribute_list(&mut attributes)?;
        }
        let returns = self.opt_parameters()?;
        let name = self.ident("the function's name")?;
        let parameters = self.opt_parameters()?;
        let directives = self.func_directives()?;
        let function = Function {
            kind: FunctionKind::Func,
            name,
            linkage,
            returns,
            parameters,
            attributes: self.module.arena.add_list(attributes),
            directives,
            body: None,
            unread: None,
            span: self.since(start),
            whole: self.since(start),
        };
        self.function_end(function)
    }

    /// Parses the body or the semicolon after a function's head. Like ptxas, accepts a declaration of a
    /// device function without a semicolon if another item follows or the text ends.
    fn function_end(&mut self, function: Function) -> Parse<()> {
        let is_func = function.kind == FunctionKind::Func;
        let start = function.span.start;
        let id = self.module.arena.add(function);
        self.module.items.push(Item::Function(id));
        let token = self.token;
        match token {
            Token::LeftBrace => {
                if !is_func && self.has_body_parameters(id) {
                    self.body_parameters = Some(Vec::new());
                }
                let unread = self.skip_body();
                let body = match unread {
                    Some(_) => List::EMPTY,
                    None => self.body(),
                };
                let whole = self.since(start);
                let function = &mut self.module.arena[id];
                (function.body, function.unread, function.whole) = (Some(body), unread, whole);
                if let Some(parameters) = self.body_parameters.take() {
                    let parameters = self.module.arena.add_list(parameters);
                    self.module.arena[id].parameters = parameters;
                }
                Ok(())
            }
            Token::Semicolon => {
                self.bump();
                Ok(())
            }
            Token::End if is_func => Ok(()),
            Token::DotWord if is_func && self.at_item() => Ok(()),
            _ => self.unexpected("`{` or `;`"),
        }
    }

    /// Whether the `.param` variables in the body of this kernel are the kernel's parameters. They
    /// are the parameters if the PTX version is below 1.4 and the kernel has no parameter list.
    fn has_body_parameters(&self, kernel: Id<Function>) -> bool {
        let version = self.module.version.map(|(version, _)| version);
        let is_old = version.is_some_and(|version| version < Version { major: 1, minor: 4 });
        is_old && self.module[kernel].parameters.is_empty()
    }

    fn at_item(&mut self) -> bool {
        self.keyword().is_some_and(Keyword::starts_item)
    }

    /// Parses the directives between a kernel's parameters and its body.
    fn entry_directives(&mut self) -> Parse<List<Directive>> {
        let mut directives = Vec::new();
        while self.at(Token::DotWord) {
            let start = self.span.start;
            let kind = self.entry_directive()?;
            let span = self.since(start);
            directives.push(Directive { kind, span });
        }
        Ok(self.module.arena.add_list(directives))
    }

    fn entry_directive(&mut self) -> Parse<DirectiveKind> {
        let Some(keyword) = self.keyword() else {
            return self.unknown_directive();
        };
        use DirectiveKind as Kind;
        let kind = match keyword {
            Keyword::MaxNReg => Kind::MaxRegisters(self.count()?),
            Keyword::MaxNTid => Kind::MaxThreads(self.extent()?),
            Keyword::ReqNTid => Kind::RequiredThreads(self.extent()?),
            Keyword::MinNCtaPerSm => Kind::MinCtasPerSm(self.count()?),
            Keyword::MaxNCtaPerSm => Kind::MaxCtasPerSm(self.count()?),
            Keyword::ReqNCtaPerCluster => Kind::RequiredCtasPerCluster(self.extent()?),
            Keyword::MaxClusterRank => Kind::MaxClusterRank(self.count()?),
            Keyword::ExplicitCluster => self.word(Kind::ExplicitCluster),
            Keyword::BlocksAreClusters => self.word(Kind::BlocksAreClusters),
            Keyword::Pragma => {
                self.bump();
                Kind::Pragma(self.pragma_strings()?)
            }
            _ => return self.unexpected("`{`, `;` or a performance directive"),
        };
        Ok(kind)
    }

    /// Parses the directives of a device function: `.noreturn`, `.abi_preserve n` and
    /// `.abi_preserve_control n`, each at most once.
    pub(super) fn func_directives(&mut self) -> Parse<List<Directive>> {
        let mut directives: Vec<Directive> = Vec::new();
        while let Some(keyword) = self.keyword() {
            let start = self.span.start;
            let kind = match keyword {
                Keyword::NoReturn => self.word(DirectiveKind::NoReturn),
                Keyword::AbiPreserve => DirectiveKind::AbiPreserve(self.count()?),
                Keyword::AbiPreserveControl => DirectiveKind::AbiPreserveControl(self.count()?),
                _ => break,
            };
            let span = self.since(start);
            let same =
                |d: &&Directive| std::mem::discriminant(&d.kind) == std::mem::discriminant(&kind);
            if let Some(earlier) = directives.iter().find(same) {
                let diagnostic = Diagnostic::error(
                    Code::DUPLICATE_DIRECTIVE,
                    span,
                    "this directive is given twice",
                )
                .with_related(earlier.span, "first given here");
                self.report(diagnostic);
                return Err(Failed);
            }
            directives.push(Directive { kind, span });
        }
        Ok(self.module.arena.add_list(directives))
    }

    /// Parses a directive without a value.
    fn word(&mut self, kind: DirectiveKind) -> DirectiveKind {
        self.bump();
        kind
    }

    /// Parses a directive with one number.
    fn count(&mut self) -> Parse<u64> {
        self.bump();
        self.plain_integer("a number")
    }

    /// Parses a directive with one to three numbers.
    fn extent(&mut self) -> Parse<[u64; 3]> {
        self.bump();
        let mut extent = [self.plain_integer("a number")?, 1, 1];
        for dimension in &mut extent[1..] {
            if !self.eat(Token::Comma) {
                break;
            }
            *dimension = self.plain_integer("a number")?;
        }
        Ok(extent)
    }
}
