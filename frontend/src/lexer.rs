//! Splits PTX text into tokens.
//!
//! [`Lexer`] returns the kind and the position of each token. It returns no tokens for white space,
//! comments and line markers such as `# 1 "file"`. For text that is not a PTX token, it returns a
//! token of a kind that represents an error, such as [`Token::Stray`], so that the parser can
//! create the error message. Invariant: every token except [`Token::End`] has at least one byte, so
//! lexing ends. Tokens never overlap.
//!
//! PTX has some unusual rules for tokens:
//!
//! - A modifier, type or directive is one token: a dot and a word without space between them ([`Token::DotWord`]). So
//!   `mov .b32` is valid, and `mov. b32` is not.
//! - `%` is part of a name if a name character follows, so `5%3` is the number `5` and the name `%3`.
//! - A number ends at the first character that is not a digit of its base. A number that begins
//!   with 0 is octal, so `089` is the two tokens `0` and `89`.

use logos::Logos;

use crate::source::Span;

/// The kinds of token.
#[derive(Logos, Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[logos(skip r"[ \t\r\n\f\x0B]+")]
#[logos(skip r"/\*[^*]*\*+([^/*][^*]*\*+)*/")]
#[logos(skip(
    r#"//[^\n]*|\#[ \t]*(line[ \t]+)?[0-9]+[ \t]+"[^"\n]*"[^\n]*"#,
    allow_greedy = true
))]
pub enum Token {
    /// A name or opcode.
    #[regex(r"[A-Za-z][A-Za-z0-9_$]*|[_$%][A-Za-z0-9_$]+")]
    Ident,
    /// A dot and the word that directly follows it, such as `.u32`, `.L2::cache_hint`, `.2d`.
    #[regex(r"\.[0-9]*[A-Za-z][A-Za-z0-9_]*(::[A-Za-z0-9_]+)*", priority = 3)]
    DotWord,
    /// A decimal, octal, hexadecimal or binary integer, with or without `U`.
    #[regex(r"(0[0-7]*|[1-9][0-9]*|0[xX][0-9A-Fa-f]+|0[bB][01]+)U?")]
    Int,
    /// A decimal floating-point number.
    #[regex(
        r"([0-9]+\.[0-9]*|\.[0-9]+)([eE][+\-]?[0-9]+)?|[0-9]+[eE][+\-]?[0-9]+",
        priority = 4
    )]
    Float,
    /// `0f` and eight hexadecimal digits: the bits of an f32.
    #[regex(r"0[fF][0-9A-Fa-f]{8}")]
    SingleBits,
    /// `0d` and sixteen hexadecimal digits: the bits of an f64.
    #[regex(r"0[dD][0-9A-Fa-f]{16}")]
    DoubleBits,
    /// A string with its quotes; PTX has no escapes.
    #[regex(r#""[^"\n]*""#)]
    String,
    /// `WARP_SZ`
    #[token("WARP_SZ")]
    WarpSize,
    /// `_`
    #[token("_")]
    Underscore,
    /// `@@DWARF`
    #[token("@@DWARF")]
    Dwarf,
    /// `@`
    #[token("@")]
    At,
    /// `,`
    #[token(",")]
    Comma,
    /// `;`
    #[token(";")]
    Semicolon,
    /// `:`
    #[token(":")]
    Colon,
    /// `(`
    #[token("(")]
    LeftParen,
    /// `)`
    #[token(")")]
    RightParen,
    /// `[`
    #[token("[")]
    LeftBracket,
    /// `]`
    #[token("]")]
    RightBracket,
    /// `{`
    #[token("{")]
    LeftBrace,
    /// `}`
    #[token("}")]
    RightBrace,
    /// `=`
    #[token("=")]
    Equals,
    /// `+`
    #[token("+")]
    Plus,
    /// `-`
    #[token("-")]
    Minus,
    /// `*`
    #[token("*")]
    Star,
    /// `/`
    #[token("/")]
    Slash,
    /// `%` that is not followed by a character of a name
    #[token("%")]
    Percent,
    /// `!`
    #[token("!")]
    Bang,
    /// `~`
    #[token("~")]
    Tilde,
    /// `?`
    #[token("?")]
    Question,
    /// `&`
    #[token("&")]
    Ampersand,
    /// `&&`
    #[token("&&")]
    AmpersandAmpersand,
    /// `|`
    #[token("|")]
    Pipe,
    /// `||`
    #[token("||")]
    PipePipe,
    /// `^`
    #[token("^")]
    Caret,
    /// `<`
    #[token("<")]
    Less,
    /// `>`
    #[token(">")]
    Greater,
    /// `<=`
    #[token("<=")]
    LessEqual,
    /// `>=`
    #[token(">=")]
    GreaterEqual,
    /// `==`
    #[token("==")]
    EqualsEquals,
    /// `!=`
    #[token("!=")]
    BangEquals,
    /// `<<`
    #[token("<<")]
    ShiftLeft,
    /// `>>`
    #[token(">>")]
    ShiftRight,
    /// A dot that no word directly follows.
    #[token(".")]
    Dot,
    /// A block comment without its end, which extends to the end of the text.
    #[regex(r"/\*[^*]*(\*+[^/*][^*]*)*\**", priority = 1, allow_greedy = true)]
    UnterminatedComment,
    /// A string without its closing quote, which extends to the end of the line.
    #[regex(r#""[^"\n]*"#, priority = 1, allow_greedy = true)]
    UnterminatedString,
    /// One or more characters that cannot begin a token.
    Stray,
    /// The end of the text.
    End,
}

/// Descriptions of tokens for error messages.
impl Token {
    /// Returns a description of a token whose text is empty or too long for an error message.
    /// Returns `None` for all other tokens, because a message can contain their text.
    pub fn describe(self) -> Option<&'static str> {
        match self {
            Token::End => Some("the end of the text"),
            Token::UnterminatedComment => Some("a comment without its end"),
            Token::UnterminatedString => Some("a string without its closing quote"),
            _ => None,
        }
    }
}

/// Splits a text into tokens.
#[derive(Debug, Clone)]
pub struct Lexer<'s> {
    tokens: logos::Lexer<'s, Token>,
}

impl<'s> Lexer<'s> {
    /// Creates a lexer at the start of `text`, which must be shorter than 4 GiB. The parser truncates longer
    /// text to [`crate::source::SourceFile::MAX_LEN`].
    pub fn new(text: &'s str) -> Self {
        Lexer {
            tokens: Token::lexer(text),
        }
    }

    /// Creates a lexer at the byte offset `start` of `text`, which must be a boundary of a character.
    pub(crate) fn starting_at(text: &'s str, start: usize) -> Self {
        let mut tokens = Token::lexer(text);
        tokens.bump(start);
        Lexer { tokens }
    }

    /// Moves the lexer to the end of the text. Every token that it returns afterwards is
    /// [`Token::End`], with the position of the end.
    pub fn skip_to_end(&mut self) {
        self.tokens.bump(self.tokens.remainder().len());
    }

    /// Returns the next token, or [`Token::End`] for every call after the end of the text.
    pub fn next_token(&mut self) -> (Token, Span) {
        let token = match self.tokens.next() {
            Some(Ok(token)) => token,
            Some(Err(())) => Token::Stray,
            None => Token::End,
        };
        let range = self.tokens.span();
        (token, Span::new(range.start as u32, range.end as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::Token::*;
    use super::*;

    fn lex(text: &str) -> Vec<(Token, &str)> {
        let mut lexer = Lexer::new(text);
        let mut tokens = Vec::new();
        loop {
            let (token, span) = lexer.next_token();
            if token == End {
                return tokens;
            }
            tokens.push((token, &text[span.range()]));
        }
    }

    #[test]
    fn an_instruction() {
        assert_eq!(
            lex("@!%p1 ld.global.L2::cache_hint.u32 %r1, [%rd2+-4];"),
            [
                (At, "@"),
                (Bang, "!"),
                (Ident, "%p1"),
                (Ident, "ld"),
                (DotWord, ".global"),
                (DotWord, ".L2::cache_hint"),
                (DotWord, ".u32"),
                (Ident, "%r1"),
                (Comma, ","),
                (LeftBracket, "["),
                (Ident, "%rd2"),
                (Plus, "+"),
                (Minus, "-"),
                (Int, "4"),
                (RightBracket, "]"),
                (Semicolon, ";"),
            ]
        );
    }

    #[test]
    fn numbers_end_where_their_digits_end() {
        assert_eq!(lex("089"), [(Int, "0"), (Int, "89")]);
        assert_eq!(lex("07778"), [(Int, "0777"), (Int, "8")]);
        assert_eq!(lex("5L"), [(Int, "5"), (Ident, "L")]);
        assert_eq!(lex("0b2"), [(Int, "0"), (Ident, "b2")]);
        assert_eq!(lex("0x"), [(Int, "0"), (Ident, "x")]);
        assert_eq!(lex("0x1FU"), [(Int, "0x1FU")]);
        assert_eq!(lex("12u"), [(Int, "12"), (Ident, "u")]);
        assert_eq!(lex("0b101"), [(Int, "0b101")]);
        assert_eq!(lex("1%0"), [(Int, "1"), (Ident, "%0")]);
        assert_eq!(lex("1 % 0"), [(Int, "1"), (Percent, "%"), (Int, "0")]);
        assert_eq!(lex("0f3F800000"), [(SingleBits, "0f3F800000")]);
        assert_eq!(lex("0f3F8000000"), [(SingleBits, "0f3F800000"), (Int, "0")]);
        assert_eq!(lex("0f3F80"), [(Int, "0"), (Ident, "f3F80")]);
        assert_eq!(
            lex("0d3FF0000000000000"),
            [(DoubleBits, "0d3FF0000000000000")]
        );
    }

    #[test]
    fn decimal_floats() {
        for text in [
            "1.5", ".5", "1.", "1e5", "1.5E-3", "1.e+5", ".5e1", "09.5", "08e1",
        ] {
            assert_eq!(lex(text), [(Float, text)]);
        }
        assert_eq!(lex("1.0f"), [(Float, "1.0"), (Ident, "f")]);
        assert_eq!(lex("1e"), [(Int, "1"), (Ident, "e")]);
        assert_eq!(lex("1.5.5"), [(Float, "1.5"), (Float, ".5")]);
        assert_eq!(lex("8.b32"), [(Float, "8."), (Ident, "b32")]);
    }

    #[test]
    fn words_after_dots() {
        assert_eq!(lex("tex.1d"), [(Ident, "tex"), (DotWord, ".1d")]);
        assert_eq!(lex(".16x32bx2"), [(DotWord, ".16x32bx2")]);
        assert_eq!(
            lex("mov. b32"),
            [(Ident, "mov"), (Dot, "."), (Ident, "b32")]
        );
        assert_eq!(
            lex("L1::x"),
            [(Ident, "L1"), (Colon, ":"), (Colon, ":"), (Ident, "x")]
        );
        assert_eq!(lex("x._r"), [(Ident, "x"), (Dot, "."), (Ident, "_r")]);
    }

    #[test]
    fn names() {
        for name in ["a", "_a", "$L__BB0_1", "%r1", "%0", "__", "_$"] {
            assert_eq!(lex(name), [(Ident, name)]);
        }
        assert_eq!(lex("_"), [(Underscore, "_")]);
        assert_eq!(lex("%%r"), [(Percent, "%"), (Ident, "%r")]);
        assert_eq!(lex("$"), [(Stray, "$")]);
        assert_eq!(lex("WARP_SZ"), [(WarpSize, "WARP_SZ")]);
        assert_eq!(lex("WARP_SZE"), [(Ident, "WARP_SZE")]);
    }

    #[test]
    fn comments_and_line_marks_are_skipped() {
        assert_eq!(
            lex("/* a * / ** */ x // y\nz /***/"),
            [(Ident, "x"), (Ident, "z")]
        );
        assert_eq!(lex("/* é */ x //"), [(Ident, "x")]);
        assert_eq!(lex("# 1 \"f\" 2 3\nx"), [(Ident, "x")]);
        assert_eq!(lex("#line 10 \"f\"\r\nx"), [(Ident, "x")]);
        assert_eq!(lex("a /* b"), [(Ident, "a"), (UnterminatedComment, "/* b")]);
        assert_eq!(lex("/* b *"), [(UnterminatedComment, "/* b *")]);
        assert_eq!(lex("*/"), [(Star, "*"), (Slash, "/")]);
        assert_eq!(lex("\"a\nb"), [(UnterminatedString, "\"a"), (Ident, "b")]);
    }

    #[test]
    fn what_is_no_token_is_stray() {
        assert_eq!(lex("#define A")[0], (Stray, "#"));
        assert_eq!(lex("\0")[0], (Stray, "\0"));
        assert_eq!(lex("é;"), [(Stray, "é"), (Semicolon, ";")]);
        assert_eq!(lex("'a'")[0], (Stray, "'"));
    }
}
