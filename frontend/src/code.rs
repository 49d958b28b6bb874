//! The stable codes of diagnostics.
//!
//! Each row of `codes!` is one kind of problem: the constant for its code, its number and a short
//! description. A published number never changes its meaning, and new kinds of problems get new
//! numbers. Numbers 1 to 99 are for errors in the text and the grammar, 100 to 199 for names and
//! scopes, 200 to 299 for declarations and headers, 300 to 399 for instruction forms and operand
//! types, 400 to 499 for lowering to IR, and 500 and above for warnings.

use std::fmt;

/// The stable code of a kind of problem, shown as `E0001`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Code(u16);

macro_rules! codes {
    ($($name:ident = $number:literal, $meaning:literal;)*) => {
        impl Code {
            $(#[doc = $meaning] pub const $name: Code = Code($number);)*

            /// Every code with a short description, in order of number.
            pub const ALL: &'static [(Code, &'static str)] = &[$((Code($number), $meaning),)*];
        }
    };
}

codes! {
    SYNTAX = 1, "a token that the grammar does not allow here";
    STRAY_CHARACTER = 2, "a character that no token starts with";
    UNTERMINATED_COMMENT = 3, "a block comment without its end";
    UNTERMINATED_STRING = 4, "a string without its closing quote";
    TOO_DEEP = 5, "expressions or initialisers nested too deeply";
    UNEXPECTED_END = 6, "the text ends inside a construct";
    DIVISION_BY_ZERO = 7, "a constant expression divides by zero";
    CONSTANT_TYPE = 8, "an operator applied to a constant of the wrong kind";
    LITERAL_RANGE = 9, "a literal too large for 64 bits";
    TOO_LONG = 10, "a text of 4 GiB or more";
    TOO_MANY_ERRORS = 11, "parsing stopped after too many errors";
    MISSING_VERSION = 12, "no .version directive at the start";
    MISSING_TARGET = 13, "no .target directive after .version";
    DIRECTIVE_PLACE = 14, "a directive where the grammar does not allow it";
    DUPLICATE_DIRECTIVE = 15, "a directive given twice";
    UNKNOWN_DIRECTIVE = 16, "a word that is not a PTX directive";
    TEXT_AFTER_BODY = 17, "a statement outside of any function";
    OUT_OF_MEMORY = 18, "not enough memory for the contents of the text";

    UNKNOWN_SYMBOL = 100, "a name without a declaration in scope";
    DUPLICATE_SYMBOL = 101, "a name declared twice in one scope";
    UNKNOWN_LABEL = 102, "a branch to a label that is not in scope";
    WRONG_SYMBOL_KIND = 103, "a name of something that is not allowed here";
    PROTOTYPE_MISMATCH = 104, "declarations of a function that disagree";
    REGISTER_RANGE = 105, "register ranges that overlap or are too large";

    UNSUPPORTED_VERSION = 200, "a PTX version that is unknown";
    UNSUPPORTED_TARGET = 201, "a target that is unknown";
    TARGET_NEEDS_VERSION = 202, "a target newer than the .version given";
    INITIALIZER = 203, "an initialiser that does not fit its variable";
    INITIALIZER_NOT_ALLOWED = 204, "an initialiser where none is allowed";
    INCOMPLETE_TYPE = 205, "a variable without a complete type";
    STATE_SPACE = 206, "a variable in a state space where it is not allowed";
    LINKAGE = 207, "a linkage that the declaration cannot have";
    DIRECTIVE_VALUE = 208, "a directive's value out of range";
    REMOVED_FEATURE = 209, "a feature that this PTX version no longer has";
    PARAMETER = 210, "a parameter that its function cannot have";
    ALIAS = 211, "an alias without a suitable function";
    OBJECT_SIZE = 212, "an object larger than its state space allows";
    FEATURE_VERSION = 213, "a feature newer than the .version or .target given";
    MISSING_DEBUG = 214, ".target debug without debugging information";

    UNKNOWN_OPCODE = 300, "a word that is not a PTX instruction";
    UNKNOWN_MODIFIER = 301, "a modifier that no instruction has";
    ILLEGAL_MODIFIER = 302, "a modifier that this instruction does not take";
    MISSING_MODIFIER = 303, "a modifier that this instruction needs";
    OPERAND_COUNT = 304, "too few or too many operands";
    OPERAND_TYPE = 305, "an operand of the wrong type";
    OPERAND_KIND = 306, "an operand of the wrong kind";
    INSTRUCTION_TYPE = 307, "a type that this instruction does not take";
    ADDRESS = 308, "an address that this instruction cannot use";
    CALL = 309, "a call that does not fit its target";
    IMMEDIATE_RANGE = 310, "an immediate out of range";
    GUARD = 311, "a guard that is not a predicate";

    UNKNOWN_PRAGMA = 500, "an unknown pragma, which is ignored";
    IGNORED_DIRECTIVE = 501, "a directive without effect";
}

impl Code {
    /// Returns the code's number, without the letter that is printed before it.
    pub const fn number(self) -> u16 {
        self.0
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = if self.0 < 500 { 'E' } else { 'W' };
        write!(f, "{letter}{:04}", self.0)
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_in_order() {
        assert!(Code::ALL.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[test]
    fn codes_print_with_their_letter() {
        assert_eq!(Code::SYNTAX.to_string(), "E0001");
        assert_eq!(Code::UNKNOWN_PRAGMA.to_string(), "W0500");
    }
}
