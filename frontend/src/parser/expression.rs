//! Parses constant expressions, and evaluates them during parsing.
//!
//! Integers have 64 bits and wrap. An operation other than a shift is unsigned if at least one of
//! its operands is unsigned. Floating-point numbers are f64; the only operators for them are signs,
//! `+ - * /` and comparisons. Operators have the precedence of C. As in ptxas, both sides of `&&`,
//! `||` and `?:` are evaluated, so a division by zero on either side is an error. A literal `0f...`
//! or `0d...` cannot be an operand of an operator.

use super::{Parse, Parser};
use crate::ast::Constant;
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::lexer::Token;
use crate::source::Span;

/// The binary operators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Binary {
    LogicalOr,
    LogicalAnd,
    Or,
    Xor,
    And,
    Equal,
    NotEqual,
    Less,
    Greater,
    LessEqual,
    GreaterEqual,
    ShiftLeft,
    ShiftRight,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// Returns the precedence and the operation of a binary operator.
fn binary_operator(token: Token) -> Option<(u8, Binary)> {
    Some(match token {
        Token::PipePipe => (1, Binary::LogicalOr),
        Token::AmpersandAmpersand => (2, Binary::LogicalAnd),
        Token::Pipe => (3, Binary::Or),
        Token::Caret => (4, Binary::Xor),
        Token::Ampersand => (5, Binary::And),
        Token::EqualsEquals => (6, Binary::Equal),
        Token::BangEquals => (6, Binary::NotEqual),
        Token::Less => (7, Binary::Less),
        Token::Greater => (7, Binary::Greater),
        Token::LessEqual => (7, Binary::LessEqual),
        Token::GreaterEqual => (7, Binary::GreaterEqual),
        Token::ShiftLeft => (8, Binary::ShiftLeft),
        Token::ShiftRight => (8, Binary::ShiftRight),
        Token::Plus => (9, Binary::Add),
        Token::Minus => (9, Binary::Subtract),
        Token::Star => (10, Binary::Multiply),
        Token::Slash => (10, Binary::Divide),
        Token::Percent => (10, Binary::Remainder),
        _ => return None,
    })
}

/// The reason why an operator cannot be applied to two operands.
enum FoldError {
    DivisionByZero,
    Kinds,
    NeedsIntegers,
}

impl Parser<'_> {
    /// Parses a constant expression.
    pub(super) fn constant(&mut self) -> Parse<Constant> {
        let token = self.token;
        match token {
            Token::SingleBits | Token::DoubleBits => self.bits_literal(),
            Token::LeftParen if matches!(self.peek(), Token::SingleBits | Token::DoubleBits) => {
                self.bump();
                let constant = self.bits_literal()?;
                self.expect(Token::RightParen, "`)`")?;
                Ok(constant)
            }
            // The usual case: a literal that is the whole operand.
            Token::Int if self.literal_stands_alone() => self.int_literal(),
            _ => self.conditional(),
        }
    }

    /// Parses a constant expression that must be an integer. If the value is a floating-point
    /// constant, adds an error to the diagnostics and returns 0.
    pub(super) fn integer_constant(&mut self) -> Parse<u64> {
        let start = self.span.start;
        let constant = self.constant()?;
        Ok(constant.as_int().unwrap_or_else(|| {
            let span = self.since(start);
            self.needs_integer(span);
            0
        }))
    }

    /// Parses a single integer literal, such as a size or a count. `what` describes the literal in
    /// error messages.
    pub(super) fn plain_integer(&mut self, what: &str) -> Parse<u64> {
        if !self.at(Token::Int) {
            return self.unexpected(what);
        }
        let literal = self.int_literal()?;
        Ok(literal.as_int().unwrap_or(0))
    }

    fn literal_stands_alone(&mut self) -> bool {
        let next = self.peek();
        matches!(
            next,
            Token::Comma
                | Token::Semicolon
                | Token::RightBracket
                | Token::RightBrace
                | Token::RightParen
        )
    }

    /// Parses `condition ? value : value`, or an expression of higher precedence.
    fn conditional(&mut self) -> Parse<Constant> {
        self.deeper(|parser| {
            let start = parser.span.start;
            let condition = parser.binary(0)?;
            if !parser.at(Token::Question) {
                return Ok(condition);
            }
            let condition = parser.require_int(condition, start);
            parser.bump();
            let yes_start = parser.span.start;
            let yes = parser.conditional()?;
            let yes = parser.require_int(yes, yes_start);
            parser.expect(Token::Colon, "`:`")?;
            let no_start = parser.span.start;
            let no = parser.conditional()?;
            let no = parser.require_int(no, no_start);
            let unsigned = yes.1 || no.1;
            let bits = if condition.0 != 0 { yes.0 } else { no.0 };
            Ok(Constant::Int { bits, unsigned })
        })
    }

    /// Parses a sequence of operands and binary operators, where each operator has a precedence higher than `floor`.
    fn binary(&mut self, floor: u8) -> Parse<Constant> {
        let start = self.span.start;
        let mut left = self.unary()?;
        while let Some((strength, operator)) = binary_operator(self.token) {
            if strength <= floor {
                break;
            }
            self.bump();
            let right = self.binary(strength)?;
            let span = self.since(start);
            left = match fold(operator, left, right) {
                Ok(value) => value,
                Err(error) => self.fold_error(&error, span)?,
            };
        }
        Ok(left)
    }

    fn unary(&mut self) -> Parse<Constant> {
        let operator = self.token;
        let start = self.span.start;
        match operator {
            Token::Plus | Token::Minus | Token::Tilde | Token::Bang => {
                self.bump();
                let value = self.deeper(Self::unary)?;
                Ok(self.apply_unary(operator, value, start))
            }
            Token::LeftParen if self.peek() == Token::DotWord => self.cast(),
            Token::LeftParen => {
                self.bump();
                let value = self.conditional()?;
                self.expect(Token::RightParen, "`)`")?;
                Ok(value)
            }
            Token::Int => self.int_literal(),
            Token::Float => self.float_literal(),
            Token::WarpSize => {
                self.bump();
                Ok(Constant::signed(32))
            }
            _ => self.unexpected("a constant"),
        }
    }

    fn apply_unary(&mut self, operator: Token, value: Constant, start: u32) -> Constant {
        match (operator, value) {
            (Token::Plus, _) => value,
            (Token::Minus, Constant::Double(bits)) => {
                Constant::Double((-f64::from_bits(bits)).to_bits())
            }
            _ => {
                let (bits, unsigned) = self.require_int(value, start);
                match operator {
                    Token::Minus => Constant::Int {
                        bits: bits.wrapping_neg(),
                        unsigned,
                    },
                    Token::Tilde => Constant::Int {
                        bits: !bits,
                        unsigned,
                    },
                    _ => Constant::signed(i64::from(bits == 0)),
                }
            }
        }
    }

    /// Parses a cast of a constant: `(.s64) value` or `(.u64) value`.
    fn cast(&mut self) -> Parse<Constant> {
        self.bump();
        let word = self.slice();
        let word_span = self.span;
        self.bump();
        self.expect(Token::RightParen, "`)`")?;
        let start = self.span.start;
        let value = self.deeper(Self::unary)?;
        let (bits, _) = self.require_int(value, start);
        let unsigned = match word {
            ".u64" => true,
            ".s64" => false,
            _ => {
                let message = format!("a constant cannot be cast to `{word}`");
                self.report(
                    Diagnostic::error(Code::CONSTANT_TYPE, word_span, message)
                        .with_label("expected `.s64` or `.u64`"),
                );
                false
            }
        };
        Ok(Constant::Int { bits, unsigned })
    }

    /// Returns the bits of an integer constant and whether it is unsigned. For a floating-point
    /// constant, adds an error to the diagnostics and returns a signed 0.
    fn require_int(&mut self, value: Constant, start: u32) -> (u64, bool) {
        match value {
            Constant::Int { bits, unsigned } => (bits, unsigned),
            _ => {
                let span = self.since(start);
                self.needs_integer(span);
                (0, false)
            }
        }
    }

    fn needs_integer(&mut self, span: Span) {
        self.report(
            Diagnostic::error(
                Code::CONSTANT_TYPE,
                span,
                "an integer constant is needed here",
            )
            .with_label("this is a floating-point constant"),
        );
    }

    fn fold_error(&mut self, error: &FoldError, span: Span) -> Parse<Constant> {
        let (code, message) = match error {
            FoldError::DivisionByZero => (
                Code::DIVISION_BY_ZERO,
                "this constant expression divides by zero",
            ),
            FoldError::Kinds => (
                Code::CONSTANT_TYPE,
                "an integer and a floating-point constant cannot be combined",
            ),
            FoldError::NeedsIntegers => (
                Code::CONSTANT_TYPE,
                "this operator takes integer constants only",
            ),
        };
        self.report(Diagnostic::error(code, span, message));
        Ok(Constant::signed(0))
    }

    fn int_literal(&mut self) -> Parse<Constant> {
        let text = self.slice();
        let digits = text.strip_suffix('U').unwrap_or(text);
        let suffixed = digits.len() < text.len();
        let (digits, radix) = match digits.as_bytes() {
            [b'0', b'x' | b'X', ..] => (&digits[2..], 16),
            [b'0', b'b' | b'B', ..] => (&digits[2..], 2),
            [b'0', _, ..] => (&digits[1..], 8),
            _ => (digits, 10),
        };
        let bits = u64::from_str_radix(digits, radix).unwrap_or_else(|_| {
            self.literal_range("this integer does not fit 64 bits");
            0
        });
        self.bump();
        Ok(Constant::Int {
            bits,
            unsigned: suffixed || bits > i64::MAX as u64,
        })
    }

    fn float_literal(&mut self) -> Parse<Constant> {
        let Ok(value) = self.slice().parse::<f64>() else {
            return self.unexpected("a floating-point constant");
        };
        if value.is_infinite() {
            self.literal_range("this number does not fit an f64");
        }
        self.bump();
        Ok(Constant::Double(value.to_bits()))
    }

    /// Parses a literal that contains the bits of a floating-point number: `0f...` or `0d...`.
    fn bits_literal(&mut self) -> Parse<Constant> {
        let digits = &self.slice()[2..];
        let single = self.at(Token::SingleBits);
        let Ok(bits) = u64::from_str_radix(digits, 16) else {
            return self.unexpected("a floating-point constant");
        };
        self.bump();
        Ok(match u32::try_from(bits) {
            Ok(bits) if single => Constant::Single(bits),
            _ => Constant::Double(bits),
        })
    }

    fn literal_range(&mut self, message: &str) {
        self.report(Diagnostic::error(Code::LITERAL_RANGE, self.span, message));
    }
}

fn fold(operator: Binary, left: Constant, right: Constant) -> Result<Constant, FoldError> {
    match (left, right) {
        (
            Constant::Int { bits: a, unsigned },
            Constant::Int {
                bits: b,
                unsigned: other,
            },
        ) => fold_int(operator, (a, unsigned), (b, other)),
        (Constant::Double(a), Constant::Double(b)) => {
            fold_float(operator, f64::from_bits(a), f64::from_bits(b))
        }
        _ => Err(FoldError::Kinds),
    }
}

fn fold_int(
    operator: Binary,
    left: (u64, bool),
    right: (u64, bool),
) -> Result<Constant, FoldError> {
    let (a, b) = (left.0, right.0);
    let unsigned = left.1 || right.1;
    let truth = |value: bool| Ok(Constant::signed(i64::from(value)));
    let ordering = match unsigned {
        true => a.cmp(&b),
        false => (a as i64).cmp(&(b as i64)),
    };
    let bits = match operator {
        Binary::LogicalOr => return truth(a != 0 || b != 0),
        Binary::LogicalAnd => return truth(a != 0 && b != 0),
        Binary::Equal => return truth(a == b),
        Binary::NotEqual => return truth(a != b),
        Binary::Less => return truth(ordering.is_lt()),
        Binary::Greater => return truth(ordering.is_gt()),
        Binary::LessEqual => return truth(ordering.is_le()),
        Binary::GreaterEqual => return truth(ordering.is_ge()),
        Binary::ShiftLeft | Binary::ShiftRight => {
            return Ok(shift(operator, left, b));
        }
        Binary::Or => a | b,
        Binary::Xor => a ^ b,
        Binary::And => a & b,
        Binary::Add => a.wrapping_add(b),
        Binary::Subtract => a.wrapping_sub(b),
        Binary::Multiply => a.wrapping_mul(b),
        Binary::Divide | Binary::Remainder if b == 0 => return Err(FoldError::DivisionByZero),
        Binary::Divide if unsigned => a / b,
        Binary::Divide => (a as i64).wrapping_div(b as i64) as u64,
        Binary::Remainder if unsigned => a % b,
        Binary::Remainder => (a as i64).wrapping_rem(b as i64) as u64,
    };
    Ok(Constant::Int { bits, unsigned })
}

/// Evaluates a shift of constants. The result has the signedness of the left operand. A count of 64
/// or more shifts out all bits.
fn shift(operator: Binary, (bits, unsigned): (u64, bool), count: u64) -> Constant {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    let bits = match operator {
        Binary::ShiftLeft => bits.checked_shl(count).unwrap_or(0),
        _ if unsigned => bits.checked_shr(count).unwrap_or(0),
        _ => ((bits as i64) >> count.min(63)) as u64,
    };
    Constant::Int { bits, unsigned }
}

fn fold_float(operator: Binary, a: f64, b: f64) -> Result<Constant, FoldError> {
    let truth = |value: bool| Ok(Constant::signed(i64::from(value)));
    let value = match operator {
        Binary::Equal => return truth(a == b),
        Binary::NotEqual => return truth(a != b),
        Binary::Less => return truth(a < b),
        Binary::Greater => return truth(a > b),
        Binary::LessEqual => return truth(a <= b),
        Binary::GreaterEqual => return truth(a >= b),
        Binary::Add => a + b,
        Binary::Subtract => a - b,
        Binary::Multiply => a * b,
        Binary::Divide if b == 0.0 => return Err(FoldError::DivisionByZero),
        Binary::Divide => a / b,
        _ => return Err(FoldError::NeedsIntegers),
    };
    Ok(Constant::Double(value.to_bits()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eval(text: &str) -> (Parse<Constant>, Vec<(Code, u32)>) {
        let mut parser = Parser::new(text);
        let result = parser.constant();
        let result = result.and_then(|c| parser.expect(Token::End, "the end").map(|_| c));
        let problems = parser.diagnostics.iter().map(|d| (d.code, d.span.start));
        (result, problems.collect())
    }

    fn int(text: &str) -> u64 {
        match eval(text) {
            (Ok(Constant::Int { bits, .. }), problems) if problems.is_empty() => bits,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn float(text: &str) -> f64 {
        match eval(text) {
            (Ok(constant), problems) if problems.is_empty() => {
                constant.as_f64().expect("a floating-point constant")
            }
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn literals() {
        assert_eq!(int("0777"), 511);
        assert_eq!(int("0b101"), 5);
        assert_eq!(int("0X1f"), 31);
        assert_eq!(int("42U"), 42);
        assert_eq!(int("18446744073709551615"), u64::MAX);
        assert_eq!(float("1.5E-3"), 0.0015);
        assert_eq!(float(".5"), 0.5);
        assert_eq!(float("1."), 1.0);
        assert_eq!(
            eval("0f3F800000").0.ok(),
            Some(Constant::Single(0x3F80_0000))
        );
        assert_eq!(
            eval("(0f3F800000)").0.ok(),
            Some(Constant::Single(0x3F80_0000))
        );
        assert_eq!(
            eval("0D4000000000000000").0.ok(),
            Some(Constant::Double(2.0_f64.to_bits()))
        );
    }

    #[test]
    fn operators_have_the_precedence_of_c() {
        // A C compiler computed the expected value of this expression.
        assert_eq!(int("1+2*3-4/2<<1&7|8^2==2&&1||0?5:6"), 5);
        assert_eq!(int("1+2*3"), 7);
        assert_eq!(int("(1+2)*3"), 9);
        assert_eq!(int("10-3-2"), 5);
        assert_eq!(int("1|2&3^1"), 3);
        assert_eq!(int("1<<2+1"), 8);
        assert_eq!(int("7 % 4 * 2"), 6);
        assert_eq!(int("1 < 2 < 3"), 1);
        assert_eq!(int("3 > 2 > 1"), 0);
        assert_eq!(int("1 ? 2 : 0 ? 3 : 4"), 2);
        assert_eq!(int("0 ? 2 : 0 ? 3 : 4"), 4);
        assert_eq!(int("5 - - 3"), 8);
        assert_eq!(int("--3"), 3);
        assert_eq!(int("- ~ ! 3"), 1);
        assert_eq!(int("WARP_SZ * 2"), 64);
    }

    #[test]
    fn signedness_decides_division_shift_and_comparison() {
        assert_eq!(int("-8 >> 1") as i64, -4);
        assert_eq!(int("(.u64)-8 >> 1"), 0x7FFF_FFFF_FFFF_FFFC);
        assert_eq!(int("-7 / 2") as i64, -3);
        assert_eq!(int("-1 < 1"), 1);
        assert_eq!(int("-1 < 1U"), 0);
        assert_eq!(int("(.s64)-9223372036854775808 / -1"), 1 << 63);
        assert_eq!(int("-9223372036854775808 / -1"), 0, "too large for .s64");
        assert_eq!(int("1 << 70"), 0);
        assert_eq!(int("(.s64)(.u64)-8 >> 62") as i64, -1);
    }

    #[test]
    fn floating_point() {
        assert_eq!(float("1.0/3.0"), 1.0 / 3.0);
        assert_eq!(float("-1.5 + 2.0 * 3.0"), 4.5);
        assert_eq!(int("1.0 == 1.0"), 1);
        assert_eq!(int("2.0 < 1.0"), 0);
    }

    #[test]
    fn problems_have_code_and_place() {
        let problems = |text| eval(text).1;
        assert_eq!(problems("1 + 1/0"), [(Code::DIVISION_BY_ZERO, 4)]);
        assert_eq!(problems("0 && 5 % 0"), [(Code::DIVISION_BY_ZERO, 5)]);
        assert_eq!(problems("1.5+1"), [(Code::CONSTANT_TYPE, 0)]);
        assert_eq!(problems("1.5<<2.0"), [(Code::CONSTANT_TYPE, 0)]);
        assert_eq!(problems("~1.0"), [(Code::CONSTANT_TYPE, 0)]);
        assert_eq!(problems("1 ? 1 : 2.0"), [(Code::CONSTANT_TYPE, 8)]);
        assert_eq!(problems("(.s32)5"), [(Code::CONSTANT_TYPE, 1)]);
        assert_eq!(problems("1e400"), [(Code::LITERAL_RANGE, 0)]);
        assert_eq!(problems("99999999999999999999"), [(Code::LITERAL_RANGE, 0)]);
        assert_eq!(problems("-0f3F800000"), [(Code::SYNTAX, 1)]);
        assert_eq!(problems("0f3F800000 + 1"), [(Code::SYNTAX, 11)]);
        assert_eq!(problems("(1+2"), [(Code::UNEXPECTED_END, 4)]);
        assert_eq!(problems("1 +"), [(Code::UNEXPECTED_END, 3)]);
        assert_eq!(problems("5%3"), [(Code::SYNTAX, 1)]);
    }

    #[test]
    fn nesting_is_limited() {
        for opener in ["(", "-", "(.s64)", "1?"] {
            let (result, problems) = eval(&opener.repeat(100_000));
            assert!(result.is_err());
            assert_eq!(problems[0].0, Code::TOO_DEEP, "{opener}");
        }
        assert_eq!(int(&format!("{}1{}", "(".repeat(90), ")".repeat(90))), 1);
    }
}
